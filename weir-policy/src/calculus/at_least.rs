//! The least rate of each leaf: what it gets in the long run while it and all other leaves are
//! backlogged, however long packets are.
//!
//! For round robins, fair queueing and strict priority this is the least whatever other leaves do.
//! Where leaves have rates of their own, leaves that stop and start may cost a leaf more: those of
//! HTB lose tokens in a pause longer than their burst. Then the result carries a [`Note`] and the
//! rate that is proven whatever others do, which is that of the [`super::Server`]. Invariant: no
//! run of backlogged leaves gives less than `rate`, and no run at all less than `proven`.

use super::{Bound, Line, Traffic, effective, servers};
use std::collections::BTreeMap;
use weir_core::ids::LeafId;
use weir_core::link::{Charge, LinkPlan};
use weir_core::sched::Service;
use weir_core::sched::service::{Buckets, Excess};

/// The least rate of a leaf, in bit/s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AtLeast {
    /// While all leaves are backlogged; `None` if unknown.
    pub rate: Option<f64>,
    /// Whatever other leaves do, as far as that is proven.
    pub proven: Option<f64>,
    /// Why the rate is unknown, or what it assumes.
    pub note: Option<Note>,
}

/// Why the least rate of a leaf is unknown, or what it assumes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Note {
    /// No bound is known for the rules of the scheduler.
    Rules,
    /// The rate of the link follows arrivals.
    Follows,
    /// Each leaf gets a part of the line in proportion to what it offers.
    Offered,
    /// Other leaves may take the whole line.
    Starved,
    /// All rates together are more than the line carries.
    Overbooked,
    /// The part of an excess depends on single packets.
    Packets,
    /// Others delay it for longer than its burst lasts.
    Waits,
    /// Leaves that stop and start may delay it for longer than its burst lasts.
    Pauses,
    /// Its ceiling limits it, and others may make it wait for longer than that burst lasts.
    Ceiling,
    /// A part of the rate is what other leaves leave, which depends on when they stop and start.
    Borrowed,
}

impl Note {
    /// Returns the note as a sentence about a class.
    pub fn text(self) -> &'static str {
        match self {
            Note::Rules => "no bound is known for the rules of this scheduler",
            Note::Follows => {
                "the rate of the link follows that at which packets arrive (`follows_arrivals`), \
                 so nothing is known beforehand"
            }
            Note::Offered => {
                "a class that offers more gets more; the least is known where all others declare \
                 an `arrival` and together leave something"
            }
            Note::Starved => {
                "other classes may take the whole line; under strict priority the least is known \
                 where those that go first declare an `arrival`"
            }
            Note::Overbooked => {
                "the rates together are more than the line carries if packets are short"
            }
            Note::Packets => "how much it gets of what others leave depends on single packets",
            Note::Waits => {
                "others may make it wait for longer than its burst lasts; a larger `burst` \
                 prevents that"
            }
            Note::Pauses => {
                "as long as others keep sending; others that stop and start in step may make it \
                 wait for longer than its burst lasts (a larger `burst` prevents that)"
            }
            Note::Ceiling => {
                "its ceiling limits what it borrows, and others may make it wait for longer than \
                 the burst of that lasts; a larger `cburst` helps"
            }
            Note::Borrowed => {
                "as long as others keep sending; a part of it is what others leave, and how that \
                 is divided depends on when they stop and start"
            }
        }
    }
}

impl AtLeast {
    /// A rate that holds whatever others do.
    fn exactly(rate: f64) -> Self {
        Self { rate: Some(rate), proven: Some(rate), note: None }
    }

    fn unknown(note: Note) -> Self {
        Self { note: Some(note), ..Self::default() }
    }
}

/// Returns the least rate of each leaf, of which `bounds` are known.
pub(super) fn at_least(plan: &LinkPlan, traffic: &[Traffic], bounds: &[Bound]) -> Vec<AtLeast> {
    if plan.follows_arrivals {
        return vec![AtLeast::unknown(Note::Follows); traffic.len()];
    }
    let (service, line) = (super::service(plan), Line::of(plan));
    let proven: Vec<_> = bounds.iter().map(|bound| bound.proven).collect();
    match &service {
        Service::Unknown => vec![AtLeast::unknown(Note::Rules); traffic.len()],
        // Its first leaf goes before others once it has waited, so its rate depends on how much
        // waits.
        Service::Deadline(_) => vec![AtLeast::unknown(Note::Rules); traffic.len()],
        Service::Arrivals { shaper } => {
            let shaped = shaper.map_or(line.rate, |rate| rate.bits_per_second() as f64 / 8.0);
            arrivals(shaped.min(line.rate), traffic)
        }
        Service::Ranks(ranks) => by_rank(ranks, plan, traffic),
        Service::Rounds(rounds) if rounds.in_packets => {
            let whole: f64 = rounds.gains.iter().map(|&gain| gain as f64).sum();
            let least = |&gain: &u64| in_packets(plan, gain as f64, whole - gain as f64);
            rounds.gains.iter().map(least).map(AtLeast::exactly).collect()
        }
        Service::Rounds(_) | Service::Fluid(_) => {
            let servers = servers::servers(&service, &line, traffic);
            let least = |server: Option<super::Server>| {
                let rate = server.map(|server| server.fresh.rate() * 8.0);
                rate.map_or(AtLeast::unknown(Note::Rules), AtLeast::exactly)
            };
            servers.into_iter().map(least).collect()
        }
        Service::Buckets(buckets) => by_bucket(plan, buckets, &line, &proven),
        Service::Curves(curves) => {
            let greedy = effective::of_curves(&plan.tree, curves, line.rate * 8.0).greedy;
            let least = |(rate, proven): (Option<f64>, &Option<f64>)| shared(rate, *proven, 0.0);
            greedy.into_iter().zip(&proven).map(least).collect()
        }
    }
}

/// Returns the rate that the other leaves do not offer, if they declare their arrivals.
fn arrivals(rate: f64, traffic: &[Traffic]) -> Vec<AtLeast> {
    let offers = |leaf: &Traffic| leaf.arrival.map_or(f64::INFINITY, |arrival| arrival.1);
    let greedy = traffic.iter().filter(|leaf| leaf.arrival.is_none()).count();
    let declared: f64 = traffic.iter().filter_map(|leaf| leaf.arrival).map(|it| it.1).sum();
    let least = |leaf: &Traffic| {
        let others = usize::from(leaf.arrival.is_none()) == greedy;
        let own = if leaf.arrival.is_some() { offers(leaf) } else { 0.0 };
        let left = (rate - (declared - own)) * 8.0;
        let known = others && left > 0.0;
        if known { AtLeast::exactly(left) } else { AtLeast::unknown(Note::Offered) }
    };
    traffic.iter().map(least).collect()
}

/// Higher ranks first; leaves of one rank alternate packet by packet.
fn by_rank(ranks: &[u32], plan: &LinkPlan, traffic: &[Traffic]) -> Vec<AtLeast> {
    let line = Line::of(plan).rate;
    // For each rank and those before it: the declared rates, and how many leaves declare none.
    let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (&rank, leaf) in ranks.iter().zip(traffic) {
        let sum = sums.entry(rank).or_default();
        match leaf.arrival {
            Some((_, rate)) => sum.0 += rate,
            None => sum.1 += 1.0,
        }
    }
    let mut above = (0.0, 0.0);
    let mut higher = BTreeMap::new();
    for (&rank, &(rates, greedy)) in &sums {
        higher.insert(rank, above);
        above = (above.0 + rates, above.1 + greedy);
    }
    let least = |(rank, leaf): (&u32, &Traffic)| {
        let ((higher_rates, greedy), (rates, peers)) = (higher[rank], sums[rank]);
        let (own, is_greedy) = leaf.arrival.map_or((0.0, 1.0), |arrival| (arrival.1, 0.0));
        let left = line - higher_rates - (rates - own);
        if greedy > 0.0 || left <= 0.0 {
            return AtLeast::unknown(Note::Starved);
        }
        let peers = peers - is_greedy;
        let part = if peers > 0.0 { in_packets(plan, 1.0, peers) } else { line * 8.0 };
        AtLeast::exactly(left / line * part)
    };
    ranks.iter().zip(traffic).map(least).collect()
}

/// Returns the least rate where a leaf sends `own` packets for each `others` of other leaves: its
/// packets are the shortest, or just begin a cell, and those of the others the longest.
fn in_packets(plan: &LinkPlan, own: f64, others: f64) -> f64 {
    let mtu = plan.tree.mtu().get() as f64;
    let wire = |frame: u32| f64::from(plan.framing.wire_length(frame));
    let longest = match plan.charge {
        Charge::Wire => mtu,
        Charge::Frame => wire(mtu as u32).max(1.0),
    };
    let bits = plan.tree.rate().bits_per_second() as f64;
    let rate = |frame: u32| {
        let charged = if plan.charge == Charge::Wire { wire(frame) } else { f64::from(frame) };
        bits * own * charged / (own * wire(frame) + others * longest)
    };
    super::short_frames().map(rate).fold(f64::INFINITY, f64::min)
}

/// Own rates and what they leave, if all own rates fit the line.
fn by_bucket(
    plan: &LinkPlan,
    buckets: &Buckets,
    line: &Line,
    proven: &[Option<f64>],
) -> Vec<AtLeast> {
    let bits = line.rate * 8.0;
    let greedy = effective::of_buckets(plan, buckets, bits).greedy;
    let rate = |leaf: usize| buckets.leaves[leaf].rate.bits_per_second() as f64;
    let overbooked = (0..greedy.len()).map(rate).sum::<f64>() > bits * (1.0 + SLACK);
    let keep = effective::keep_rates(&buckets.leaves, line, 1.0);
    let least = |(leaf, greedy): (usize, Option<f64>)| {
        let (own, proven) = (rate(leaf), proven[leaf]);
        if !overbooked {
            let least = shared(greedy, proven, own);
            let waits = least.note == Some(Note::Pauses) && !keep[leaf];
            // Classes that lend by rates are served in turn before a pause is long.
            let turns = buckets.excess == Excess::Turns;
            if turns && least.note == Some(Note::Borrowed) && is_ceiling(plan, leaf, greedy) {
                return AtLeast { proven, ..AtLeast::unknown(Note::Ceiling) };
            }
            let waits = waits && turns;
            return if waits { AtLeast { proven, ..AtLeast::unknown(Note::Waits) } } else { least };
        }
        // Others within their rates leave nothing beyond its own rate, which precedes theirs.
        match proven {
            Some(proven) if proven >= own * (1.0 - SLACK) => AtLeast::exactly(proven),
            _ => AtLeast { proven, ..AtLeast::unknown(Note::Overbooked) },
        }
    };
    greedy.into_iter().enumerate().map(least).collect()
}

/// Returns whether the ceiling of a leaf is what it gets.
fn is_ceiling(plan: &LinkPlan, leaf: usize, greedy: Option<f64>) -> bool {
    let class = plan.tree.class(plan.tree.class_of(LeafId(leaf as u32)));
    let ceil = class.params.rate("ceil").map(|ceil| ceil.bits_per_second() as f64);
    ceil.zip(greedy).is_some_and(|(ceil, greedy)| greedy >= ceil * (1.0 - SLACK))
}

/// Returns the least rate of a leaf that gets `greedy` while all are backlogged, `proven` whatever
/// they do, and has a rate of its `own`.
fn shared(greedy: Option<f64>, proven: Option<f64>, own: f64) -> AtLeast {
    if greedy == Some(0.0) {
        return AtLeast::unknown(Note::Starved);
    }
    let note = match (greedy, proven) {
        (None, _) => Some(Note::Packets),
        (Some(rate), Some(proven)) if rate <= proven * (1.0 + SLACK) => None,
        (Some(rate), _) if rate <= own * (1.0 + SLACK) => Some(Note::Pauses),
        _ => Some(Note::Borrowed),
    };
    AtLeast { rate: greedy, proven, note }
}

/// The relative error that sums of rates may have, since rates are rounded.
const SLACK: f64 = 1e-3;
