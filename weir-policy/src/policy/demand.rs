//! Reads a class's traffic declarations and its wanted delay: for bounds and lints, never for the
//! datapath.

use super::values::size;
use crate::finding::{Report, Span};
use crate::reader::Table;
use weir_core::parameter::Params;
use weir_core::units::{Bytes, Duration, Rate};

/// The delay that a leaf wants, and the arrivals that it declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// The longest delay of a packet.
    pub delay: Option<Duration>,
    /// The most that it is offered.
    pub arrival: Option<Arrival>,
    /// The window of the single TCP flow that it carries.
    pub window: Option<Bytes>,
    /// The length of most of its packets.
    pub typical_packet: Option<Bytes>,
    /// The longest train of frames that a deployment passes as one packet, in charged bytes.
    pub train: Option<Bytes>,
}

/// An arrival curve: in any interval no more than the burst plus the rate times the interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The long-term rate.
    pub rate: Rate,
    /// The most that arrives at once.
    pub burst: Bytes,
}

/// A demand, and where its parts are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub demand: Demand,
    pub spans: Vec<(&'static str, Span)>,
    /// Whether the scheduler has a parameter `delay`, which is then the demand.
    pub delay_is_parameter: bool,
}

impl Written {
    /// Reads the keys of a class; `own_delay` says whether `delay` is a parameter of its scheduler,
    /// `link` is the rate that a percentage is a part of.
    pub(super) fn read(
        table: &mut Table<'_>,
        own_delay: bool,
        link: Option<Rate>,
        report: &mut Report,
    ) -> Self {
        let mut written = Self { delay_is_parameter: own_delay, ..Self::default() };
        let demand = &mut written.demand;
        let mut keep = |name, span| written.spans.push((name, span));
        if let Some(node) = (!own_delay).then(|| table.field("delay")).flatten() {
            keep("delay", node.span());
            demand.delay = node.duration(report);
        }
        if let Some(node) = table.field("arrival") {
            keep("arrival", node.span());
            demand.arrival = node.table(report).and_then(|table| arrival(table, link, report));
        }
        if let Some(node) = table.field("window") {
            keep("window", node.span());
            demand.window = size(&node, 1, WINDOW_MAX, report);
        }
        if let Some(node) = table.field("typical_packet") {
            keep("typical_packet", node.span());
            demand.typical_packet = size(&node, 1, PACKET_MAX, report);
        }
        written
    }

    /// Takes the scheduler's `delay` parameter as the demand.
    pub(super) fn take_delay(&mut self, params: &Params, span: Option<Span>) {
        if let (true, Some(span)) = (self.delay_is_parameter, span) {
            self.demand.delay = params.duration("delay");
            self.spans.push(("delay", span));
        }
    }

    /// Returns where a part is written.
    pub(crate) fn span(&self, name: &str) -> Option<Span> {
        self.spans.iter().find(|row| row.0 == name).map(|row| row.1)
    }
}

/// Reads `arrival = { rate, burst }`.
fn arrival(table: Table<'_>, link: Option<Rate>, report: &mut Report) -> Option<Arrival> {
    let mut table = table.named("the arrival curve");
    let rate = table.required("rate", report).and_then(|node| node.rate_of(link, report));
    let burst = table.required("burst", report).and_then(|node| size(&node, 1, BURST_MAX, report));
    table.finish(report);
    Some(Arrival { rate: rate?, burst: burst? })
}

/// [rfc7323 §2.3] The largest window that TCP can advertise.
const WINDOW_MAX: u64 = 1 << 30;
const PACKET_MAX: u64 = 65_535;
/// A terabyte, as for token buckets.
const BURST_MAX: u64 = 1 << 40;
