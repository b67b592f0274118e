//! Whether a run keeps the bounds of its policy: the worst delay and backlog of each leaf beside
//! what network calculus promises.
//!
//! A bound holds as long as every class that declares an `arrival` keeps it and no packet is longer
//! than the link's `mtu` or the class's `packet`. All are measured here: what was offered to a leaf
//! is held to its arrival curve as a token bucket that begins full, in charged bytes. If that curve
//! is exceeded, by a source or by TCP's window, the run proves nothing about bounds, and the result
//! names the class. Packets that a policer dropped never reached the queue and do not count.
//!
//! A simulation reports each packet as a [`Fate`], a replay as a [`Departure`] or [`Dropped`].
//! Invariant: a run is only examined if it has one link and one plan, and a class declares an
//! arrival curve.

use crate::run::{RunError, run_watched};
use crate::scenario::Scenario;
use crate::watch::{Fate, Watch};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::event::{Departure, DropReason, Dropped};
use weir_core::link::LinkPlan;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_policy::calculus::{self, Bound};
use weir_policy::policy::{Arrival, Demand};

/// The longest delay and the largest backlog of one leaf in a run, with their bounds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Held {
    /// The name of the class.
    pub class: String,
    /// The longest that a packet took, in seconds.
    pub delay: f64,
    /// Its bound, if there is one.
    pub delay_bound: Option<f64>,
    /// The most that waited, in charged bytes.
    pub backlog: u64,
    /// Its bound, if there is one.
    pub backlog_bound: Option<f64>,
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Holding {
    /// The figures of each leaf, in their order.
    pub leaves: Vec<Held>,
    /// Why nothing follows from this run, if an assumption of the bounds was broken.
    pub void: Option<String>,
}

/// A run that is examined.
#[derive(Debug)]
pub struct Keeping<'a> {
    link: &'a LinkPlan,
    demands: &'a [Demand],
    bounds: Vec<Bound>,
    leaves: BTreeMap<&'a str, usize>,
    passages: Vec<Vec<Passage>>,
    count: usize,
}

/// A packet that went through a leaf, in nanoseconds and charged bytes.
#[derive(Clone, Copy, Debug)]
struct Passage {
    arrived: u64,
    left: u64,
    bytes: u32,
    sent: bool,
}

impl Held {
    /// Returns what exceeds its bound, in words.
    pub fn broken(&self) -> Option<String> {
        let class = &self.class;
        if let Some(bound) = self.delay_bound.filter(|bound| self.delay > *bound) {
            let (delay, bound) = (calculus::shown(self.delay), calculus::shown(bound));
            return Some(format!("a packet of class `{class}` took {delay}, its bound is {bound}"));
        }
        let bound = self.backlog_bound.filter(|bound| self.backlog as f64 > *bound)?;
        let waited = self.backlog;
        Some(format!("{waited} B of class `{class}` waited, their bound is {bound:.0} B"))
    }
}

impl Holding {
    /// Returns what exceeds a bound, in words; nothing if nothing follows from the run.
    pub fn broken(&self) -> Vec<String> {
        let leaves = self.leaves.iter().filter(|_| self.void.is_none());
        leaves.filter_map(Held::broken).collect()
    }
}

/// Runs `scenario` and compares it with the bounds of its policy; `None` if that is impossible:
/// see [`Keeping::of`].
///
/// # Errors
/// As [`crate::run()`].
pub fn hold(scenario: &Scenario) -> Result<Option<Holding>, RunError> {
    let Some(mut keeping) = Keeping::of(scenario) else { return Ok(None) };
    let mut tell = |fate: &Fate<'_>| keeping.add(fate);
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    run_watched(scenario, watch, &mut |_: Duration| {})?;
    Ok(Some(keeping.holding()))
}

impl<'a> Keeping<'a> {
    /// Examines a run of `scenario`, if it has one link with one plan, and a class declares an
    /// arrival curve.
    pub fn of(scenario: &'a Scenario) -> Option<Self> {
        let is_one = scenario.network.is_none() && scenario.changes.is_empty();
        is_one.then(|| Self::of_link(&scenario.link, &scenario.demands)).flatten()
    }

    /// Examines the packets through the link of `policy`, if a class declares an arrival curve.
    pub fn of_policy(policy: &'a Policy) -> Option<Self> {
        Self::of_link(&policy.link, &policy.demands)
    }

    fn of_link(link: &'a LinkPlan, demands: &'a [Demand]) -> Option<Self> {
        if demands.iter().all(|demand| demand.arrival.is_none()) {
            return None;
        }
        let tree = &link.tree;
        let name = |leaf| tree.class(tree.class_of(leaf)).name.as_str();
        let leaves = tree.leaves().map(|(leaf, _)| (name(leaf), leaf.index())).collect();
        let bounds = calculus::bounds(link, demands);
        let passages = vec![Vec::new(); bounds.len()];
        Some(Self { link, demands, bounds, leaves, passages, count: 0 })
    }

    /// Records the delay and the backlog that a packet shows.
    pub fn add(&mut self, fate: &Fate<'_>) {
        if fate.dropped == Some(DropReason::Policed) {
            return;
        }
        let Some(&leaf) = self.leaves.get(fate.class) else { return };
        let bytes = self.link.charged(fate.length);
        let (arrived, left) = (fate.arrived.as_nanos(), fate.at.as_nanos());
        self.note(leaf, Passage { arrived, left, bytes, sent: fate.dropped.is_none() });
    }

    /// Records a packet that was sent.
    pub fn sent(&mut self, departure: &Departure) {
        let bytes = u32::try_from(departure.charged.get()).unwrap_or(u32::MAX);
        let (arrived, left) = (departure.arrived.as_nanos(), departure.at.as_nanos());
        self.note(departure.leaf.index(), Passage { arrived, left, bytes, sent: true });
    }

    /// Records a packet of `length` that was dropped.
    pub fn dropped(&mut self, dropped: &Dropped, length: u32) {
        if dropped.reason == DropReason::Policed {
            return;
        }
        let bytes = self.link.charged(length);
        let (arrived, left) = (dropped.arrived.as_nanos(), dropped.at.as_nanos());
        self.note(dropped.leaf.index(), Passage { arrived, left, bytes, sent: false });
    }

    fn note(&mut self, leaf: usize, passage: Passage) {
        self.count += 1;
        if self.count <= PASSAGES_MAX {
            self.passages[leaf].push(passage);
        }
    }

    /// Returns the result, after all packets were recorded.
    pub fn holding(mut self) -> Holding {
        for leaf in &mut self.passages {
            // The packets of a leaf are recorded in the order in which they leave.
            leaf.sort_by_key(|passage| passage.arrived);
        }
        Holding { void: self.void(), leaves: self.held() }
    }

    fn held(&self) -> Vec<Held> {
        let tree = &self.link.tree;
        let row = |((leaf, _), (bound, passages)): (_, (&Bound, &Vec<Passage>))| Held {
            class: tree.class(tree.class_of(leaf)).name.clone(),
            delay: worst_delay(passages),
            delay_bound: bound.delay,
            backlog: worst_backlog(passages),
            backlog_bound: bound.backlog,
        };
        tree.leaves().zip(self.bounds.iter().zip(&self.passages)).map(row).collect()
    }

    /// Returns which assumption of the bounds was broken, if one was.
    fn void(&self) -> Option<String> {
        let mtu = self.link.tree.mtu().get();
        if self.count > PASSAGES_MAX {
            return Some(format!("only {PASSAGES_MAX} packets are examined, and there were more"));
        }
        let packets = calculus::longest_packets(self.link, self.demands);
        for (&class, &leaf) in &self.leaves {
            let (passages, packet) = (&self.passages[leaf], packets[leaf]);
            let longest = passages.iter().map(|passage| u64::from(passage.bytes)).max();
            if let Some(longest) = longest.filter(|longest| *longest > packet) {
                let limit = if packet < mtu { "its `arrival` or `packet`" } else { "`mtu`" };
                return Some(format!(
                    "class `{class}` was offered a packet of {longest} B; {limit} allows {packet} B"
                ));
            }
            let arrival = self.demands[leaf].arrival;
            if let Some(at) = arrival.and_then(|arrival| excess(arrival, packet, passages)) {
                let at = Duration::from_nanos(at.as_nanos());
                return Some(format!(
                    "class `{class}` was offered more than its `arrival` at {at}"
                ));
            }
        }
        None
    }
}

fn worst_delay(passages: &[Passage]) -> f64 {
    let sent = passages.iter().filter(|passage| passage.sent);
    let longest = sent.map(|passage| passage.left.saturating_sub(passage.arrived)).max();
    longest.unwrap_or(0) as f64 / 1e9
}

/// Returns the largest backlog. A packet that leaves at the instant at which another comes counts
/// as having left before, so the result is never too large.
fn worst_backlog(passages: &[Passage]) -> u64 {
    let waited = passages.iter().filter(|passage| passage.sent || passage.left > passage.arrived);
    let mut leaving: Vec<(u64, u32)> =
        waited.clone().map(|passage| (passage.left, passage.bytes)).collect();
    leaving.sort_unstable();
    // A packet that leaves at once is subtracted before it is added.
    let (mut left, mut waiting, mut worst) = (0, 0_i64, 0_i64);
    for passage in waited {
        while leaving.get(left).is_some_and(|row| row.0 <= passage.arrived) {
            waiting -= i64::from(leaving[left].1);
            left += 1;
        }
        waiting += i64::from(passage.bytes);
        worst = worst.max(waiting);
    }
    worst.unsigned_abs()
}

/// Returns when more was offered than the arrival curve allows, if ever.
fn excess(arrival: Arrival, packet: u64, passages: &[Passage]) -> Option<Instant> {
    // In bits times 10^9. A packet arrives whole, so no burst is shorter than one, as in the
    // bounds.
    let full = i128::from(arrival.burst.get().max(packet) + SLACK_BYTES) * 8_000_000_000;
    let rate = i128::from(arrival.rate.bits_per_second());
    let (mut credit, mut at) = (full, 0);
    let over = |passage: &&Passage| {
        credit = (credit + rate * i128::from(passage.arrived - at)).min(full);
        at = passage.arrived;
        credit -= i128::from(passage.bytes) * 8_000_000_000;
        credit < 0
    };
    passages.iter().find(over).map(|passage| Instant::from_nanos(passage.arrived))
}

/// The most packets that are examined; each takes 24 bytes.
const PASSAGES_MAX: usize = 1 << 23;
/// A source that sends at just its rate, in whole nanoseconds, is early by less than a byte.
const SLACK_BYTES: u64 = 1;
