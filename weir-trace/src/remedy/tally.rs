//! The measures of one replay of a load, class by class.
//!
//! Times are exact: each delay is kept. A packet that still waits long after the end of the load
//! counts as one whose delay is longer than any other.

use crate::load::{Detail, Happened, Load};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::BuildError;
use weir_core::units::Instant;
use weir_policy::calculus;
use weir_policy::policy::{Measure, Metric};

/// The measurements of a replay.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Each leaf of any stage, by name.
    leaves: Vec<Leaf>,
    /// The leaves below each class of the first stage, and its name.
    classes: Vec<(String, Vec<usize>)>,
    seconds: f64,
    fairness: Option<f64>,
}

/// The service of a class.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Share {
    /// The rate that it sent while the load lasted, in bit/s.
    pub rate_bps: f64,
    /// The delay that 99 of 100 packets do not exceed, in seconds; infinite delays are those of
    /// packets that never left. `None` if none left.
    pub delay_p99_s: Option<f64>,
    /// The longest delay in seconds.
    pub delay_max_s: Option<f64>,
    /// Packets that were offered.
    pub offered: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

#[derive(Clone, Debug, Default)]
struct Leaf {
    offered: u64,
    offered_bytes: u64,
    /// Until the end of the load.
    sent_bytes: u64,
    dropped: u64,
    /// Nanoseconds; in order once the replay is over.
    delays: Vec<u64>,
    /// Nanoseconds in which packets were there, until the end of the load, and up to when.
    busy: u64,
    busy_until: Instant,
    backlog: u64,
    backlog_max: u64,
}

impl Tally {
    /// Replays `load` with these plans and measures; the peaks of queues only if `peaks`.
    ///
    /// # Errors
    /// When a plan does not build.
    pub fn of(load: &Load, plans: &[LinkPlan], peaks: bool) -> Result<Self, BuildError> {
        let mut counting = Counting::new(load, plans);
        let detail = Detail { single: peaks, ..Detail::default() };
        let waiting = load.replay(plans, detail, &mut |happened| counting.note(happened))?;
        Ok(counting.finish(waiting))
    }

    /// Returns what `measure` was; `None` if there was nothing to measure.
    pub fn value(&self, measure: Measure<ClassId>) -> Option<f64> {
        let (class, metric) = match measure {
            Measure::Class(class, metric) => (class, metric),
            Measure::Fairness => return self.fairness,
            // A link's record does not know what is behind it.
            Measure::Behind(_) => return None,
        };
        let leaves = || self.leaves_of(class);
        let sum = |of: fn(&Leaf) -> u64| leaves().map(of).sum::<u64>() as f64;
        let offered = sum(|leaf| leaf.offered);
        match metric {
            Metric::Rate => Some(sum(|leaf| leaf.sent_bytes) * 8.0 / self.seconds),
            Metric::Delay(part) => self.quantile(class, part.into()),
            Metric::DelayMean => {
                let count = sum(|leaf| leaf.delays.len() as u64);
                let whole: f64 =
                    leaves().flat_map(|leaf| &leaf.delays).map(|&nanos| seconds(nanos)).sum();
                (count > 0.0).then(|| whole / count)
            }
            Metric::Drops => Some(sum(|leaf| leaf.dropped)),
            Metric::Loss => (offered > 0.0).then(|| sum(|leaf| leaf.dropped) / offered),
            // As in promises: for several leaves an upper bound.
            Metric::BacklogMax => Some(sum(|leaf| leaf.backlog_max)),
        }
    }

    /// Returns the rate that a class was offered, in bit/s.
    pub fn offered(&self, class: ClassId) -> f64 {
        let bytes: u64 = self.leaves_of(class).map(|leaf| leaf.offered_bytes).sum();
        bytes as f64 * 8.0 / self.seconds
    }

    /// Returns what a class was due, in bit/s over the load, that is guaranteed `rate` bit/s: that
    /// rate while it had packets, but for one of `packet` bytes, and no more than it was offered. A
    /// burst may be shorter than the load, may end it, and may exceed what its queue holds.
    pub fn due(&self, class: ClassId, rate: f64, packet: u64) -> f64 {
        let busy: u64 = self.leaves_of(class).map(|leaf| leaf.busy).sum();
        let bits = rate * seconds(busy) - packet as f64 * 8.0;
        (bits / self.seconds).clamp(0.0, self.offered(class))
    }

    /// Returns what each class of the first stage got, by name.
    pub fn shares(&self) -> Vec<(String, Share)> {
        let share = |class: ClassId| {
            let count = |of: fn(&Leaf) -> u64| self.leaves_of(class).map(of).sum();
            Share {
                rate_bps: self.value(Measure::Class(class, Metric::Rate)).unwrap_or(0.0),
                delay_p99_s: self.quantile(class, 990),
                delay_max_s: self.quantile(class, 1000),
                offered: count(|leaf| leaf.offered),
                dropped: count(|leaf| leaf.dropped),
            }
        };
        let classes = self.classes.iter().enumerate();
        classes.map(|(at, row)| (row.0.clone(), share(ClassId(at as u32)))).collect()
    }

    fn leaves_of(&self, class: ClassId) -> impl Iterator<Item = &Leaf> {
        let places = self.classes.get(class.index()).map_or(&[][..], |row| &row.1);
        places.iter().map(|&place| &self.leaves[place])
    }

    /// Returns the delay that so many of a thousand packets do not exceed: the smallest that suits.
    fn quantile(&self, class: ClassId, part: u64) -> Option<f64> {
        let count: u64 = self.leaves_of(class).map(|leaf| leaf.delays.len() as u64).sum();
        let rank = (count * part).div_ceil(1000).max(1).checked_sub(1)?;
        if count == 0 {
            return None;
        }
        let mut leaves = self.leaves_of(class);
        if let (Some(only), None) = (leaves.next(), leaves.next()) {
            return Some(seconds(only.delays[rank as usize]));
        }
        let all = self.leaves_of(class).flat_map(|leaf| &leaf.delays);
        let mut all: Vec<u64> = all.copied().collect();
        let (_, &mut nanos, _) = all.select_nth_unstable(rank as usize);
        Some(seconds(nanos))
    }
}

impl Leaf {
    /// A packet was there from one instant to the other; packets leave in the order of time.
    fn stayed(&mut self, (from, to): (Instant, Instant), end: Instant) {
        let (from, to) = (from.max(self.busy_until), to.min(end));
        if to > from {
            self.busy += to.since(from).as_nanos();
            self.busy_until = to;
        }
    }
}

/// A tally that is being made.
struct Counting<'a> {
    load: &'a Load,
    plans: &'a [LinkPlan],
    tally: Tally,
    names: BTreeMap<String, usize>,
    /// The place of each leaf of the stage in force.
    places: Vec<usize>,
    stage: usize,
}

impl<'a> Counting<'a> {
    fn new(load: &'a Load, plans: &'a [LinkPlan]) -> Self {
        let tally = Tally {
            leaves: Vec::new(),
            classes: Vec::new(),
            seconds: (load.duration().as_nanos().max(1)) as f64 / 1e9,
            fairness: None,
        };
        let names = BTreeMap::new();
        let mut this = Self { load, plans, tally, names, places: Vec::new(), stage: 0 };
        this.enter(0);
        let tree = &plans[0].tree;
        let mut classes: Vec<(String, Vec<usize>)> =
            tree.classes().map(|row| (row.1.name.clone(), Vec::new())).collect();
        for (leaf, _) in tree.leaves() {
            for class in tree.path(tree.class_of(leaf)) {
                classes[class.index()].1.push(this.places[leaf.index()]);
            }
        }
        this.tally.classes = classes;
        this
    }

    /// The leaves of this stage count from now on; leaves of one name are one leaf.
    fn enter(&mut self, stage: usize) {
        self.stage = stage;
        let mut places = Vec::new();
        for (_, spec) in self.plans[stage].tree.leaves() {
            let next = self.names.len();
            let place = *self.names.entry(spec.name.clone()).or_insert(next);
            if place == next {
                self.tally.leaves.push(Leaf::default());
            }
            places.push(place);
        }
        self.places = places;
    }

    fn note(&mut self, happened: Happened<'_>) {
        match happened {
            Happened::Stage(stage) => self.enter(stage),
            Happened::Offered(arrival) => {
                let charged = u64::from(self.plans[self.stage].charged_for(&arrival.packet));
                let leaf = &mut self.tally.leaves[self.places[arrival.leaf.index()]];
                leaf.offered += 1;
                leaf.offered_bytes += charged;
                leaf.backlog += charged;
                leaf.backlog_max = leaf.backlog_max.max(leaf.backlog);
            }
            Happened::Left(left) => {
                let is_in_time = left.at <= self.load.end;
                let leaf = &mut self.tally.leaves[self.places[left.leaf.index()]];
                leaf.sent_bytes += if is_in_time { left.charged.get() } else { 0 };
                leaf.delays.push(left.at.since(left.arrived).as_nanos());
                leaf.stayed((left.arrived, left.at), self.load.end);
                leaf.backlog = leaf.backlog.saturating_sub(left.charged.get());
            }
            Happened::Dropped(dropped, _) => {
                let place = self.load.place(dropped.handle);
                let packet = place.map(|place| &self.load.arrivals[place].packet);
                let plan = &self.plans[self.stage];
                let charged = packet.map_or(0, |packet| plan.charged_for(packet).into());
                let leaf = &mut self.tally.leaves[self.places[dropped.leaf.index()]];
                leaf.dropped += 1;
                leaf.stayed((dropped.arrived, dropped.at), self.load.end);
                leaf.backlog = leaf.backlog.saturating_sub(charged);
            }
            Happened::Waited(_) | Happened::Ran(_) | Happened::Tick(..) => {}
        }
    }

    fn finish(mut self, waiting: u32) -> Tally {
        for leaf in &mut self.tally.leaves {
            leaf.delays.sort_unstable();
            // What waits is what neither left nor was dropped.
            let gone = leaf.delays.len() as u64 + leaf.dropped;
            let still = leaf.offered.saturating_sub(gone).min(waiting.into());
            leaf.delays.extend(std::iter::repeat_n(u64::MAX, still as usize));
        }
        let plan = &self.load.stages[0].policy.link;
        self.tally.fairness = fairness(plan, &self.tally);
        self.tally
    }
}

/// As in promises, by what the policy of the load gives each leaf of what it was offered.
fn fairness(plan: &LinkPlan, tally: &Tally) -> Option<f64> {
    let leaves = || plan.tree.leaves().map(|row| plan.tree.class_of(row.0));
    let offered: Vec<f64> = leaves().map(|class| tally.offered(class)).collect();
    let sent = leaves().map(|class| tally.value(Measure::Class(class, Metric::Rate)));
    let due = calculus::due(plan, &offered);
    let parts = sent.zip(&due).filter(|row| *row.1 > 0.0);
    let parts: Vec<f64> = parts.map(|(sent, due)| sent.unwrap_or(0.0) / due).collect();
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    let sum: f64 = parts.iter().sum();
    (squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
}

fn seconds(nanos: u64) -> f64 {
    if nanos == u64::MAX { f64::INFINITY } else { nanos as f64 / 1e9 }
}
