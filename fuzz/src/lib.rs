//! Fuzz targets: one function for every parser, and one for every scheduler's calls, that takes any
//! bytes and panics on an error.
//!
//! libFuzzer calls it from `fuzz_targets/`, the brief run of `make test` from `tests/brief.rs`.

mod autorate;
pub mod brief;
mod capacity;
mod capture;
mod checkpoint;
mod circuits;
mod control;
mod draw;
mod http;
mod import;
mod infer;
mod keeper;
mod lsp;
mod mark;
mod offload;
mod packet;
mod plan;
mod policy;
mod record;
mod records;
mod rsvp;
mod scenario;
mod scheduler;
mod sorter;
mod tcp;

pub use autorate::autorate;
pub use capacity::capacity;
pub use capture::capture;
pub use checkpoint::checkpoint;
pub use circuits::{circuits, radius};
pub use control::control;
pub use http::http;
pub use import::{altq, libreqos, mqc, pf, routeros, sqm, systemd, tc};
pub use infer::infer;
pub use keeper::{authority, report, reservations};
pub use lsp::lsp;
pub use mark::mark;
pub use offload::offload;
pub use packet::packet;
pub use policy::policy;
pub use record::record;
pub use records::records;
pub use rsvp::rsvp;
pub use scenario::scenario;
pub use scheduler::scheduler;
pub use sorter::sorter;
pub use tcp::tcp;

/// A target: it panics if the bytes uncover an error.
pub type Target = fn(&[u8]);

/// Every target, with the name of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("altq", altq),
    ("autorate", autorate),
    ("capacity", capacity),
    ("capture", capture),
    ("checkpoint", checkpoint),
    ("circuits", circuits),
    ("control", control),
    ("authority", authority),
    ("http", http),
    ("infer", infer),
    ("libreqos", libreqos),
    ("lsp", lsp),
    ("mark", mark),
    ("mqc", mqc),
    ("offload", offload),
    ("packet", packet),
    ("pf", pf),
    ("policy", policy),
    ("radius", radius),
    ("record", record),
    ("records", records),
    ("report", report),
    ("reservations", reservations),
    ("routeros", routeros),
    ("rsvp", rsvp),
    ("scenario", scenario),
    ("scheduler", scheduler),
    ("sorter", sorter),
    ("sqm", sqm),
    ("systemd", systemd),
    ("tc", tc),
    ("tcp", tcp),
];
