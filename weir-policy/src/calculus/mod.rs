//! Network calculus: each leaf's least rate, and bounds on its delay and its backlog.
//!
//! A scheduler describes what it does for a leaf whatever the others do
//! ([`weir_core::sched::service`]); `servers.rs` turns that into a [`Server`] for each leaf, and
//! this module combines it with what the leaf may be offered: an arrival curve, or else the content
//! of its queue. A delay is from the offer to the last bit on the line, so the delay in reports,
//! which ends when a packet is handed out, is shorter.
//!
//! Seconds and bytes are `f64`; every result is enlarged by a millionth and a microsecond
//! ([`outward`]), which exceeds the rounding of these few operations and of the line's whole
//! nanoseconds. Invariant: no law, simulation or live run exceeds a bound, as long as packets are
//! no longer than the link's `mtu`, and classes conform to their declared arrival curves and send
//! no packet longer than their `packet`.

mod at_least;
mod curves;
mod effective;
mod excess;
mod present;
mod server;
mod servers;

pub use at_least::{AtLeast, Note};
pub use curves::{Overload, Slopes, overload};
pub use effective::{Effective, due};
pub use server::Server;

use crate::policy::demand::Demand;
use weir_core::link::{Charge, LinkPlan};
use weir_core::queue::{DROPPERS, Limit, QueuePlan, SHORT_KEY};
use weir_core::sched::{self, ClassSpec, Service};
use weir_core::units::Bytes;

/// The bounds of a leaf.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bound {
    /// The rate that it gets whatever others do, as far as that is proven, in bit/s: arrivals of no
    /// more have a delay bound. `None` if unknown.
    pub proven: Option<f64>,
    /// The longest that a packet takes from the offer to its last bit on the line, in seconds.
    pub delay: Option<f64>,
    /// The largest backlog, in charged bytes.
    pub backlog: Option<f64>,
    /// The delay for a leaf that offers one of its longest packets at a time, within its guarantee.
    pub alone_packet: Option<f64>,
    /// Whether the delay is that of a full queue, since the leaf declares no arrival curve.
    pub is_of_queue: bool,
    /// The smallest burst that outlasts every pause of the leaf, if its burst is smaller and it has
    /// such.
    pub better_burst: Option<BetterBurst>,
    /// Where flows of the leaf overtake each other, the longest that a packet of one of them takes
    /// at the proven rate: what each of them may add to the delay of the others in a round.
    pub turn: Option<f64>,
    /// Whether there is no delay since packets of its two queues overtake each other.
    pub is_pair: bool,
    /// Whether there is no delay since the rate of the link follows arrivals.
    pub follows: bool,
    /// Whether there is no delay since the real-time curves ask for more than the line sends.
    pub is_overbooked: bool,
}

/// A burst that outlasts every pause of a leaf.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BetterBurst {
    /// In charged bytes.
    pub bytes: f64,
    /// The bound with it, in seconds.
    pub delay: f64,
    /// Whether the burst of its ceiling must be as large.
    pub with_ceiling: bool,
}

impl BetterBurst {
    /// Returns the keys to write.
    pub fn keys(&self) -> String {
        let bytes = Bytes::new(self.bytes as u64);
        let ceiling =
            if self.with_ceiling { format!(" and `cburst = \"{bytes}\"`") } else { String::new() };
        format!("`burst = \"{bytes}\"`{ceiling}")
    }
}

/// The arrivals at one leaf, in bytes and bytes a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Traffic {
    /// Burst and rate of the declared arrival curve.
    pub arrival: Option<(f64, f64)>,
    /// The longest packet.
    pub packet: f64,
    /// The limit of its queue in bytes,
    pub limit: f64,
    /// and in packets, if that is its limit.
    pub packets: Option<f64>,
    /// Whether packets leave the queue in the order of arrival.
    pub in_order: bool,
    /// Whether packets wait in the queue until they are due.
    pub paces: bool,
    /// Whether they go through one of two queues that overtake each other.
    pub is_pair: bool,
}

/// The line, for the computation of bounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// Charged bytes a second.
    pub rate: f64,
    /// The largest packet, charged.
    pub packet: f64,
    /// The time of one, in seconds.
    pub packet_time: f64,
    /// The shortest packet, charged.
    pub shortest: f64,
    /// The time that packets handed out ahead of the line take.
    pub buffer: f64,
}

/// Returns the bounds of every leaf, in the order of leaves. `demands` are those of the leaves.
/// Places that no class has count as absent.
///
/// # Panics
/// If there is not one demand for each leaf.
pub fn bounds(plan: &LinkPlan, demands: &[Demand]) -> Vec<Bound> {
    let present: Vec<_> = plan.tree.leaves().map(|(_, class)| !class.name.is_empty()).collect();
    let all = traffic(plan, demands, &longest_packets(plan, demands));
    let rows = all.iter().zip(&present).filter(|row| *row.1);
    let traffic: Vec<_> = rows.map(|row| *row.0).collect();
    let longest = traffic.iter().map(|leaf| leaf.packet).fold(0.0, f64::max);
    let line = Line::with_packets(plan, longest);
    let service = present::only(service(plan), &present);
    let servers = servers::servers(&service, &line, &traffic);
    let together = together(plan, &traffic, &line);
    let is_overbooked = above_slowest_line(plan).is_some();
    let with_ceiling = has_ceilings(plan);
    let bound = |(server, traffic): (Option<Server>, &Traffic)| {
        // A packet that may not leave yet waits, whatever the scheduler promises. A rate that
        // follows arrivals is not known before they come.
        let Some(server) = server.filter(|_| !traffic.paces && !plan.follows_arrivals) else {
            let follows = plan.follows_arrivals;
            return Bound { is_overbooked, follows, ..nothing(traffic) };
        };
        let mut bound = of_leaf(&server, traffic, &line, together.as_ref());
        bound.better_burst.iter_mut().for_each(|better| better.with_ceiling = with_ceiling);
        bound
    };
    let mut bounds = servers.into_iter().zip(&traffic).map(bound);
    let mut of = |is_present: &bool| if *is_present { bounds.next() } else { None };
    present.iter().map(|is_present| of(is_present).unwrap_or_default()).collect()
}

/// Returns the least rate of every leaf, in the order of leaves.
///
/// # Panics
/// If there is not one demand for each leaf.
pub fn at_least(plan: &LinkPlan, demands: &[Demand]) -> Vec<AtLeast> {
    let bounds = bounds(plan, demands);
    at_least::at_least(plan, &traffic(plan, demands, &any_packets(plan, demands)), &bounds)
}

/// Returns where the real-time curves of a plan are above its line, if it has such curves and they
/// are: the line at `rate` bytes a second.
pub fn above_line(plan: &LinkPlan, rate: f64) -> Option<Overload> {
    let present: Vec<_> = plan.tree.leaves().map(|(_, class)| !class.name.is_empty()).collect();
    let Service::Curves(curves) = present::only(service(plan), &present) else {
        return None;
    };
    overload(curves.into_iter().flatten().map(Slopes::from), Slopes::straight(rate))
}

/// As [`above_line`], for the packets with which the line carries least.
pub fn above_slowest_line(plan: &LinkPlan) -> Option<Overload> {
    above_line(plan, Line::of(plan).rate)
}

/// Returns the longest packet of every leaf, in charged bytes and in the order of leaves: the
/// link's, or less where a `packet` or the burst of an `arrival` is shorter, since a packet arrives
/// whole.
///
/// # Panics
/// If there is not one demand for each leaf.
pub fn longest_packets(plan: &LinkPlan, demands: &[Demand]) -> Vec<u64> {
    assert_eq!(demands.len(), plan.queues.len(), "each leaf has its demands");
    let longest = |((_, class), demand): ((_, &ClassSpec), &Demand)| {
        let burst = demand.arrival.map(|arrival| arrival.burst);
        let stated = [burst, class.params.bytes("packet")];
        let longest = demand.train.map_or(plan.tree.mtu(), |train| train.max(plan.tree.mtu()));
        stated.into_iter().flatten().fold(longest, Bytes::min).get()
    };
    plan.tree.leaves().zip(demands).map(longest).collect()
}

/// Returns the longest packet of every leaf that the link lets in: nothing enforces what a class
/// declares.
fn any_packets(plan: &LinkPlan, demands: &[Demand]) -> Vec<u64> {
    let longest = |demand: &Demand| demand.train.unwrap_or_default().max(plan.tree.mtu()).get();
    demands.iter().map(longest).collect()
}

/// Returns how long the full queue of every leaf takes whatever others do and whatever the leaf
/// declares, in seconds and in the order of leaves; `None` where no rate is guaranteed.
///
/// # Panics
/// If there is not one demand for each leaf.
pub fn full_queues(plan: &LinkPlan, demands: &[Demand]) -> Vec<Option<f64>> {
    let (line, traffic) = (Line::of(plan), traffic(plan, demands, &any_packets(plan, demands)));
    let servers = servers::servers(&service(plan), &line, &traffic);
    let time = |(server, traffic): (Option<Server>, &Traffic)| {
        let time = server?.standing.filter(|_| !traffic.paces)?.time(traffic.limit);
        Some(outward(time + line.buffer, 1e-6))
    };
    servers.into_iter().zip(&traffic).map(time).collect()
}

/// Returns the rate that each leaf is guaranteed in the long run, in bytes a second; `None` where
/// none is.
///
/// # Panics
/// If there is not one demand for each leaf.
pub fn guaranteed(plan: &LinkPlan, demands: &[Demand]) -> Vec<Option<f64>> {
    let (line, traffic) = (Line::of(plan), traffic(plan, demands, &any_packets(plan, demands)));
    let servers = servers::servers(&service(plan), &line, &traffic);
    servers.into_iter().map(|server| Some(server?.standing?.rate())).collect()
}

/// Returns how long the line takes to send what all queues may hold, in seconds.
///
/// # Panics
/// If there is not one demand for each leaf.
pub fn all_queues(plan: &LinkPlan, demands: &[Demand]) -> f64 {
    let line = Line::of(plan);
    let traffic = traffic(plan, demands, &any_packets(plan, demands));
    let bytes: f64 = traffic.iter().map(|leaf| leaf.limit).sum();
    outward(line.time(bytes) + line.buffer, 1e-6)
}

fn traffic(plan: &LinkPlan, demands: &[Demand], packets: &[u64]) -> Vec<Traffic> {
    assert_eq!(demands.len(), plan.queues.len(), "each leaf has its demands");
    let rows = plan.queues.iter().zip(demands).zip(packets);
    rows.map(|((queue, demand), &packet)| Traffic::of(queue, demand, packet as f64)).collect()
}

/// Returns the bursts and rates of all leaves together, if each declares an arrival curve and the
/// line, which never idles while a packet waits, carries them all.
fn together(plan: &LinkPlan, traffic: &[Traffic], line: &Line) -> Option<(f64, f64)> {
    let entry = sched::find(plan.scheduler)?;
    let all: Option<Vec<_>> = traffic.iter().map(|leaf| leaf.arrival).collect();
    let all = all.filter(|_| entry.descriptor.promises.work_conserving)?;
    let sum = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (sum.1 <= line.rate).then_some(sum)
}

/// Returns what the scheduler of a plan guarantees.
pub fn service(plan: &LinkPlan) -> Service {
    sched::find(plan.scheduler).map_or(Service::Unknown, |entry| (entry.service)(&plan.tree))
}

/// Enlarges the result of a calculation so that rounding cannot make it too small.
pub fn outward(value: f64, unit: f64) -> f64 {
    value * (1.0 + 1e-6) + unit
}

impl Line {
    /// Returns the line of `plan`.
    pub fn of(plan: &LinkPlan) -> Self {
        Self::with_packets(plan, plan.tree.mtu().get() as f64)
    }

    /// Returns the line of `plan` whose packets have at most so many charged bytes.
    fn with_packets(plan: &LinkPlan, packet: f64) -> Self {
        let rate = plan.tree.rate().bits_per_second() as f64 / 8.0;
        let wire = |frame: u32| f64::from(plan.framing.wire_length(frame));
        let added = |frame: u32| wire(frame) / f64::from(frame);
        // Where frames are charged, the line is slower by the bytes it adds; most for the shortest,
        // or where the last byte begins a cell.
        let (shortest, dearest) = match plan.charge {
            Charge::Wire => (wire(FRAME_MIN), 1.0),
            Charge::Frame => {
                let longest = [packet.max(1.0) as u32];
                let dearest = short_frames().chain(longest).map(added).fold(1.0, f64::max);
                (f64::from(FRAME_MIN), dearest)
            }
        };
        Self {
            rate: rate / dearest,
            packet,
            packet_time: if plan.charge == Charge::Wire { packet } else { wire(packet as u32) }
                / rate,
            shortest,
            buffer: plan.buffer.get() as f64 / rate,
        }
    }

    /// Returns the time of `bytes`.
    pub fn time(&self, bytes: f64) -> f64 {
        bytes / self.rate
    }
}

impl Traffic {
    fn of(queue: &QueuePlan, demand: &Demand, packet: f64) -> Self {
        let (limit, packets) = match queue.limit() {
            Limit::Packets(packets) => (f64::from(packets) * packet, Some(f64::from(packets))),
            Limit::Bytes(bytes) => (bytes.get() as f64, None),
        };
        // Packets that waited until they were due may come to the scheduler together.
        let paces = queue.paces();
        let arrival = demand.arrival.filter(|_| !paces).map(|arrival| {
            // A packet arrives whole, so no burst is shorter.
            let burst = (arrival.burst.get() as f64).max(packet);
            (burst, arrival.rate.bits_per_second() as f64 / 8.0)
        });
        let dropper = DROPPERS.iter().find(|row| row.keyword == queue.dropper);
        let parameters = dropper.map_or(&[][..], |row| row.parameters);
        let has = |names: &[&str]| parameters.iter().any(|row| names.contains(&row.name));
        let (apart, is_pair) = (has(&FLOWS_APART), has(&[OF_A_PAIR]));
        let in_order = !apart && !is_pair;
        Self { arrival, packet, limit, packets, in_order, paces, is_pair }
    }
}

/// The parameters of droppers that keep flows apart, whose packets overtake each other.
const FLOWS_APART: [&str; 4] = ["flows", "divisor", "tins", SHORT_KEY];
/// The parameter of droppers with a queue for each of two kinds of sender.
const OF_A_PAIR: &str = "coupling";

/// Returns what is known without a server: the queue's own limit.
fn nothing(traffic: &Traffic) -> Bound {
    let is_pair = traffic.is_pair;
    Bound { backlog: Some(outward(traffic.limit, 1.0)), is_pair, ..Bound::default() }
}

/// Computes the bounds of a leaf with this server; `together` is as the function of this name says.
fn of_leaf(
    server: &Server,
    traffic: &Traffic,
    line: &Line,
    together: Option<&(f64, f64)>,
) -> Bound {
    let finish = |delay: f64| outward(delay + line.buffer, 1e-6);
    // In whatever order packets go, those before this one are no more than come while it waits.
    let any_order = together.zip(traffic.arrival);
    let any_order = any_order.map(|(all, own)| all.0 / (line.rate - (all.1 - own.1)));
    let delay_of = |server: &Server| {
        let declared = traffic.arrival.and_then(|arrival| server.fresh.delay(arrival));
        let standing = server.standing.as_ref().map(|curve| curve.time(traffic.limit));
        smaller(smaller(declared, any_order), standing).filter(|_| traffic.in_order)
    };
    let (delay, better) = (delay_of(server), server.with_lasting_burst());
    let better = better.and_then(|(bytes, server)| {
        Some(BetterBurst { bytes, delay: delay_of(&server)?, with_ceiling: false })
    });
    let waiting = traffic.arrival.and_then(|arrival| server.fresh.backlog(arrival, traffic.packet));
    let one = server.fresh.delay((traffic.packet, server.fresh.rate()));
    let takes_turns = !traffic.in_order && !traffic.is_pair;
    let turn = takes_turns.then(|| traffic.packet / server.fresh.rate());
    Bound {
        proven: Some(server.fresh.rate() * 8.0),
        delay: delay.map(finish),
        backlog: smaller(waiting, Some(traffic.limit)).map(|bytes| outward(bytes, 1.0)),
        alone_packet: one.map(finish),
        is_of_queue: traffic.arrival.is_none(),
        better_burst: better.filter(|row| delay.is_none_or(|delay| row.delay < delay)),
        turn: turn.filter(|turn| turn.is_finite()),
        is_pair: traffic.is_pair,
        is_overbooked: false,
        follows: false,
    }
}

/// Returns whether classes have ceilings with bursts of their own.
fn has_ceilings(plan: &LinkPlan) -> bool {
    let entry = sched::find(plan.scheduler);
    entry.is_some_and(|entry| {
        entry.descriptor.parameters.iter().any(|row| row.name == CEILING_BURST)
    })
}

/// The parameter of classes that have ceilings.
const CEILING_BURST: &str = "cburst";

fn smaller(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Formats a time in seconds for messages and tables.
pub fn shown(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

/// Returns the lengths of the shortest frames: they differ by less than a cell, so one of them just
/// begins a cell.
fn short_frames() -> impl Iterator<Item = u32> {
    FRAME_MIN..=FRAME_MIN + CELL
}

/// [rfc791 §3.1] The shortest frame: an Ethernet and an IP header.
const FRAME_MIN: u32 = 34;
/// The payload of an ATM cell.
const CELL: u32 = 48;
