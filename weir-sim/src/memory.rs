//! Estimates how much memory a run needs, before it starts.
//!
//! An upper estimate, within a factor of two of the truth where it is large: what every class,
//! waiting packet, histogram and TCP window takes at its fullest. Invariant: no part is smaller
//! than what the run allocates for it.

use crate::bins::cells;
use crate::network::fragments::DATAGRAMS_MAX;
use crate::network::plan::{Ends, Network, OutletId, TAP_ROWS_MAX};
use crate::network::route;
use crate::scenario::{Quic, Scenario, Source, Tcp, Traffic, Transfer};
use std::fmt;
use weir_core::link::LinkPlan;
use weir_core::queue::{DROPPERS, Limit};
use weir_core::units::{Bytes, Duration};

/// The memory that a run needs, by purpose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Each part in bytes, the largest first.
    pub parts: Vec<(&'static str, u64)>,
}

/// Records that a run makes beside its report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beside {
    /// Bins of this width.
    pub bins: Option<Duration>,
    /// A file with a row or a frame for each packet.
    pub packets: bool,
}

impl Need {
    /// Estimates a run of `scenario`, with what it records beside its report.
    pub fn of(scenario: &Scenario, beside: Beside) -> Self {
        let outlets = scenario.plans();
        let sum = |of: &dyn Fn(&LinkPlan) -> u64| {
            let most = |plans: &Vec<&LinkPlan>| plans.iter().map(|plan| of(plan)).max();
            outlets.iter().filter_map(most).fold(0, u64::saturating_add)
        };
        let plans = outlets.iter().flatten();
        let classes = plans.fold(0u64, |sum, plan| sum + plan.tree.classes().len() as u64);
        let sources = scenario.sources.len() as u64;
        // A leaf has a histogram once it sent; every class above it once it is reported. What comes
        // back through a network may have leaves of its own.
        let flows = if scenario.network.is_some() { 2 * sources } else { sources };
        let busy = sum(&|plan| (plan.tree.leaf_count() as u64).min(flows));
        let above = sum(&|plan| (plan.tree.classes().len() - plan.tree.leaf_count()) as u64);
        let histograms = busy * 2 + above + sources * 2;
        let cells = beside.bins.and_then(|width| cells(scenario, width)).unwrap_or(0);
        let mut parts = vec![
            ("classes", classes * CLASS_BYTES),
            ("packets that wait", sum(&waiting).saturating_mul(PACKET_BYTES)),
            ("histograms", histograms * HISTOGRAM_BYTES),
            ("sources", sources * SOURCE_BYTES),
            ("windows", connections(scenario)),
            ("recorded arrivals", recorded(scenario)),
            ("bins", cells.saturating_mul(8)),
            ("rows of packets", if beside.packets { FILE_BYTES } else { 0 }),
        ];
        parts.extend(scenario.network.as_ref().into_iter().flat_map(|own| network(scenario, own)));
        parts.retain(|part| part.1 > 0);
        parts.sort_by_key(|part| std::cmp::Reverse(part.1));
        Self { parts }
    }

    /// Returns the memory of the report of a run.
    pub fn of_report(scenario: &Scenario) -> u64 {
        let classes = |plans: &Vec<&LinkPlan>| -> u64 {
            plans.iter().map(|plan| plan.tree.classes().len() as u64).sum()
        };
        let classes: u64 = scenario.plans().iter().map(classes).sum();
        // The report holds the main outlet of a network twice.
        (2 * classes + scenario.sources.len() as u64).saturating_mul(ROW_BYTES)
    }

    /// Returns the sum of the parts, in bytes.
    pub fn total(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.1))
    }
}

/// Adds the memory that only networks need.
fn network(scenario: &Scenario, network: &Network) -> [(&'static str, u64); 3] {
    let taps = network.taps.iter().fold(0, |sum, tap| sum + u64::from(tap.rows.min(TAP_ROWS_MAX)));
    let (mut hops, mut flying) = (0u64, 0u64);
    for source in &scenario.sources {
        let Some(ends) = source.ends else { continue };
        let back = Ends { from: ends.to, to: ends.from };
        let there = route(network, ends).unwrap_or_default();
        let ways = there.len() + route(network, back).map_or(0, |back| back.len());
        hops = hops.saturating_add(ways as u64);
        // A connection's packets under way are within its windows.
        if !source.traffic.connects() {
            let outlets = there.iter().map(|&outlet| on_wires(scenario, network, (source, outlet)));
            flying = outlets.fold(flying, u64::saturating_add);
        }
    }
    let queues = network.nodes.iter().filter_map(|node| node.cpu);
    let queues = queues.fold(0u64, |sum, cpu| sum + u64::from(cpu.queue));
    let under_way = flying.saturating_add(queues).saturating_add(DATAGRAMS_MAX as u64);
    [
        ("taps", taps * TAP_BYTES),
        ("routes", hops.saturating_mul(HOP_BYTES)),
        ("packets under way", under_way.saturating_mul(PACKET_BYTES)),
    ]
}

/// Returns the most packets of a source on the wire of an outlet: as many as the source or the line
/// can send while one travels.
fn on_wires(scenario: &Scenario, network: &Network, (source, id): (&Source, OutletId)) -> u64 {
    let (link, end) = network.outlet(id);
    let outlet = &link.outlets[end];
    let plan = outlet.queueing.as_ref().map_or(&scenario.link, |own| &own.link);
    let delay = outlet.delay.plus(outlet.jitter).min(scenario.duration);
    let delay = u128::from(delay.as_nanos());
    let line = delay * u128::from(plan.tree.rate().bits_per_second()) / LEAST_PACKET_BITS;
    let (apart, longest) = match &source.traffic {
        Traffic::Cbr { sizes, spacing, .. }
        | Traffic::Poisson { sizes, spacing }
        | Traffic::OnOff { sizes, spacing, .. } => (spacing.mean(sizes), sizes.most()),
        _ => return u64::try_from(line).unwrap_or(u64::MAX),
    };
    let pieces = u128::from(longest.div_ceil(link.mtu.max(1)));
    let sent = (delay * 2 / u128::from(apart.as_nanos().max(1)) + 1) * pieces;
    u64::try_from(line.min(sent)).unwrap_or(u64::MAX)
}

/// The most packets that wait: the link's limit, or those of its leaves if that is less.
fn waiting(plan: &LinkPlan) -> u64 {
    let leaves = plan.queues.iter().map(|queue| {
        let limit = DROPPERS.iter().find(|row| row.keyword == queue.dropper);
        let limit = limit.map(|descriptor| Limit::from_params(&queue.params, descriptor));
        match limit {
            Some(Limit::Packets(packets)) => u64::from(packets),
            // Packets of a byte each are possible, of 64 bytes likely.
            Some(Limit::Bytes(bytes)) => bytes.get() / 64 + 1,
            None => u64::from(plan.packets_max),
        }
    });
    leaves.fold(0u64, u64::saturating_add).min(u64::from(plan.packets_max))
}

/// Endpoints of TCP and QUIC, and what their windows have under way.
fn connections(scenario: &Scenario) -> u64 {
    // Of a transfer no more is under way than it has.
    let flight = |window: Bytes, transfer: Option<Transfer>| {
        transfer.map_or(window, |transfer| transfer.bytes.min(window)).get()
    };
    let of = |tcp: &Tcp| {
        let segment = u64::from(tcp.mtu().get()).saturating_sub(HEADERS).max(1);
        let window = flight(tcp.config.buffers.receive_max, tcp.transfer).div_ceil(segment);
        window.saturating_mul(SEGMENT_BYTES).saturating_add(ENDPOINTS_BYTES)
    };
    // QUIC's packets hold their bytes.
    let of_quic = |quic: &Quic| {
        let packets = flight(quic.window, quic.transfer).div_ceil(u64::from(quic.mtu.get()));
        let packet = SEGMENT_BYTES + u64::from(quic.mtu.get());
        packets.saturating_mul(packet).saturating_add(QUIC_ENDPOINTS_BYTES)
    };
    let of_source = |source: &Source| {
        let quic = source.traffic.quic().map_or(0, of_quic);
        source.traffic.tcp().map_or(quic, of)
    };
    scenario.sources.iter().map(of_source).fold(0, u64::saturating_add)
}

fn recorded(scenario: &Scenario) -> u64 {
    let held = |traffic: &Traffic| match traffic {
        Traffic::Scripted(script) => script.held_bytes(),
        _ => 0,
    };
    scenario.sources.iter().map(|source| held(&source.traffic)).sum()
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |&(what, bytes): &(&str, u64)| format!("{what} {}", Shown(bytes));
        let parts: Vec<_> = self.parts.iter().take(3).map(part).collect();
        write!(f, "{} ({})", Shown(self.total()), parts.join(", "))
    }
}

/// Formats a number of bytes.
pub struct Shown(pub u64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match units.iter().find(|unit| self.0 >> unit.1 > 0) {
            Some((name, shift)) => {
                write!(f, "{:.1} {name}", self.0 as f64 / (1u64 << shift) as f64)
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A class in the plan, in the scheduler, and in the accounts and rows that reports are made of.
const CLASS_BYTES: u64 = 2048;
/// A waiting packet in the link, its slot in the simulation, and an event for it.
const PACKET_BYTES: u64 = 160;
const HISTOGRAM_BYTES: u64 = 10 << 10;
/// A source's plan, name, meter, lane and event.
const SOURCE_BYTES: u64 = 1024;
/// A segment under way: its slot with its content, the sender's note of it, and an event, in lists
/// that double.
const SEGMENT_BYTES: u64 = 512;
/// The least headers of a segment.
const HEADERS: u64 = 40;
/// Both endpoints of a connection, without a segment under way.
const ENDPOINTS_BYTES: u64 = 4 << 10;
/// Both endpoints of a connection of quinn, without a packet under way.
const QUIC_ENDPOINTS_BYTES: u64 = 96 << 10;
/// A row of a tap, in a list that doubles.
const TAP_BYTES: u64 = 64;
/// A link on a source's way.
const HOP_BYTES: u64 = 128;
/// Rows that wait to be written, before and after compression, with their names.
const FILE_BYTES: u64 = 48 << 20;
/// A class or a source in a report.
const ROW_BYTES: u64 = 512;
/// 64 bytes, in units of 10^-9 bits.
const LEAST_PACKET_BITS: u128 = 64 * 8 * 1_000_000_000;
