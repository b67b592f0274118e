//! Fuzz targets: one function for every parser, and one for every scheduler's calls, that takes any
//! bytes and panics on an error.
//!
//! libFuzzer calls it from `fuzz_targets/`, the brief run of `make test` from `tests/brief.rs`.

pub mod brief;
mod capture;
mod control;
mod draw;
mod http;
mod import;
mod keeper;
mod mark;
mod offload;
mod packet;
mod plan;
mod policy;
mod records;
mod scenario;
mod scheduler;
mod sorter;

pub use capture::capture;
pub use control::control;
pub use http::http;
pub use import::{altq, pf, tc};
pub use keeper::{desk, report};
pub use mark::mark;
pub use offload::offload;
pub use packet::packet;
pub use policy::policy;
pub use records::records;
pub use scenario::scenario;
pub use scheduler::scheduler;
pub use sorter::sorter;

/// A target: it panics if the bytes uncover an error.
pub type Target = fn(&[u8]);

/// Every target, with the name of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("altq", altq),
    ("capture", capture),
    ("control", control),
    ("desk", desk),
    ("http", http),
    ("mark", mark),
    ("offload", offload),
    ("packet", packet),
    ("pf", pf),
    ("policy", policy),
    ("records", records),
    ("report", report),
    ("scenario", scenario),
    ("scheduler", scheduler),
    ("sorter", sorter),
    ("tc", tc),
];
