//! Kinds of sources that are models of an application: one file and one line a kind.
//!
//! A file holds what the kind is (its plan), how it is read from a scenario, and how it runs. There
//! are two sorts. A [`Script`] sends regardless of losses, and gives the length and the instant of
//! each packet in order. A [`Work`] gives the transfers of the application of a source of
//! connections, one after another. Plain processes (`cbr`, `poisson`, `on-off`, `tcp`, `quic`) are
//! in `source.rs` and `scenario.rs`. Invariant: a script and a work draw from the random numbers of
//! their own source only, and a plan that was read never makes either run for ever.

mod capture;
mod ftp;
mod nttcp;
mod pictures;
mod probe;
mod records;
mod streaming;
mod ttcp;
mod video;
mod voip;
mod web;

pub use crate::script::{Datagram, Player, Script, Step, Turn, Turns, Work};
pub use capture::{RECORD_FLOWS_MAX, RECORDS_MAX, Recorded};
pub use ftp::Ftp;
pub use pictures::{Pictures, Sway};
pub use probe::Probe;
pub use records::{Record, RecordFault, exercise};
pub use streaming::Streaming;
pub use ttcp::{Datagrams, Once};
pub use video::Video;
pub use voip::Voip;
pub use web::Web;

use crate::read::files::Files;
use crate::read::keys::SourceKind;
use crate::read::{quic, tcp};
use crate::scenario::{Mtu, Spacing, Traffic};
use std::sync::Arc;
use weir_core::packet::{Addresses, Headers, Protocol};
use weir_core::units::{Duration, Rate};
use weir_policy::finding::Report;
use weir_policy::reader::Table;

/// The input from which a kind is read.
pub(crate) struct Context<'c, 't> {
    /// The `[[source]]` that is read.
    pub table: &'c mut Table<'t>,
    /// The part of its headers that is read already.
    pub headers: &'c Headers,
    /// The protocol that carries its data.
    pub carrier: Carrier,
    /// The MTU of the first link, in a network.
    pub mtu: Option<Mtu>,
    /// Files that the table may name.
    pub files: &'c Files<'c>,
    /// Gets the findings.
    pub report: &'c mut Report,
}

/// One source of those that a `[[source]]` stands for.
pub(crate) struct Part {
    /// The suffix of its name; `None` if it is the only one.
    pub suffix: Option<String>,
    /// Its headers, if they are not those that are written.
    pub headers: Option<Headers>,
    /// The packets or transfers that it sends.
    pub traffic: Traffic,
}

/// The protocol that carries the data of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    /// Packets that are sent regardless of losses.
    Datagrams,
    /// Connections of TCP, one after another.
    Tcp,
    /// Connections of QUIC, one after another.
    Quic,
}

impl Carrier {
    /// Returns the protocol of its packets, unless the scenario writes another.
    pub const fn protocol(self) -> Protocol {
        match self {
            Carrier::Tcp => Protocol::TCP,
            Carrier::Datagrams | Carrier::Quic => Protocol::UDP,
        }
    }
}

/// A line of the registry.
pub(crate) struct Kind {
    /// The word in scenarios, and the keys.
    pub source: SourceKind,
    /// Reads the protocol that carries its data.
    pub carrier: fn(&mut Table<'_>, &mut Report) -> Option<Carrier>,
    /// Reads the rest of its table.
    pub read: fn(&mut Context<'_, '_>) -> Option<Vec<Part>>,
}

impl Part {
    /// A `[[source]]` that is one source.
    pub fn only(traffic: Traffic) -> Vec<Self> {
        vec![Self { suffix: None, headers: None, traffic }]
    }
}

/// The kind with this keyword.
pub(crate) fn find(keyword: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.source.keyword == keyword)
}

/// For kinds that only send datagrams.
fn plain(_: &mut Table<'_>, _: &mut Report) -> Option<Carrier> {
    Some(Carrier::Datagrams)
}

/// For kinds whose key `transport` says it.
fn transport(table: &mut Table<'_>, report: &mut Report) -> Option<Carrier> {
    Some(match table.word("transport", report)? {
        "tcp" => Carrier::Tcp,
        "quic" => Carrier::Quic,
        _ => Carrier::Datagrams,
    })
}

/// Reads the keys of the connections of such a kind, which carry `work` if that is sound.
fn carried(context: &mut Context<'_, '_>, work: Option<Arc<dyn Work>>) -> Option<Vec<Part>> {
    let Context { table, report, mtu, carrier, .. } = context;
    let traffic = if *carrier == Carrier::Quic {
        let connection = quic::connection(table, *mtu, report);
        Traffic::QuicTransfers(connection?, work?)
    } else {
        let connection = tcp::connection(table, *mtu, report);
        Traffic::Transfers(connection?, work?)
    };
    Some(Part::only(traffic))
}

/// Declares the kinds: `module` for each, whose file has a `KIND`.
macro_rules! kinds {
    ($($module:ident,)*) => {
        /// Every kind that is a model.
        pub(crate) const KINDS: &[Kind] = &[$($module::KIND,)*];
    };
}

kinds! {
    ttcp,
    nttcp,
    voip,
    video,
    web,
    ftp,
    capture,
    probe,
}

/// The length of the IP header of these packets.
pub(crate) fn ip_header(headers: &Headers) -> u32 {
    if matches!(headers.addresses, Addresses::V6 { .. }) { 40 } else { 20 }
}

/// Frames one after another on the interface of a sending host, at its rate.
#[derive(Clone, Debug)]
struct Pace {
    spacing: Spacing,
    /// Fraction of a nanosecond not yet waited, in parts of the rate.
    rest: u64,
}

impl Pace {
    fn new(rate: Rate) -> Self {
        Self { spacing: Spacing::rate(rate), rest: 0 }
    }

    /// How long a frame of `length` takes.
    fn time(&mut self, length: u32) -> Duration {
        let (time, rest, whole) = self.spacing.after(length);
        self.rest += rest;
        if self.rest < whole {
            return time;
        }
        self.rest -= whole;
        time.plus(Duration::from_nanos(1))
    }
}

const UDP_HEADER: u32 = 8;
/// RTP's header `[rfc3550 §5.1]`, before each sound and picture.
const RTP_HEADER: u32 = 12;
