//! Another policy for a lane while frames wait in it.
//!
//! All that takes long is made on another thread ([`LaneChange::prepare`]). The lane then exchanges
//! its parts for those, between two turns, and what it had goes back to that thread to be freed.
//! Invariants: the lane holds the same frames after the change as before; no two frames of a leaf
//! change their order; and what was counted of a leaf goes on by its name, or goes to the row of
//! removed leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::account::Histogram;
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::{Change, Prepared, Remains};
use weir_core::parameter::BuildError;
use weir_core::sched::Borrowed;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_trace::record::{self, Step};

use super::{Lane, Limits, LossBook, Room, histograms};
use crate::pool::FramePool;
use crate::status::{LaneLabels, Shape};
use weir_host::wait::monotonic_ns;

/// What replaces the policy of a lane. After the change it holds what was replaced.
pub(crate) struct LaneChange {
    link: Option<Prepared>,
    remains: Option<Remains>,
    leaves: Leaves,
    classifier: Classifier,
    leaf_names: Vec<String>,
    sojourn_max: Vec<Duration>,
    room: Room,
    delays: Vec<Histogram>,
    marked: Vec<u64>,
    losses: LossBook,
    ring_leaves: Vec<Option<LeafId>>,
    /// What a record says of it.
    note: Option<Step<'static>>,
    limits: Limits,
    shape: Arc<Shape>,
    since: Instant,
    tenants: Vec<u32>,
    borrowed_before: Vec<Borrowed>,
}

/// Where the leaves of the policy before are in the new one.
struct Leaves {
    /// For each, its leaf now. `None` if all have the same number in both.
    by_name: Option<Vec<Option<LeafId>>>,
    before: usize,
    now: usize,
    /// The leaf that takes waiting frames of those that are gone.
    heir: LeafId,
}

/// A policy, with what a deployment says of its direction.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    pub policy: &'a Policy,
    pub sojourn_max: &'a [Duration],
    pub frames_max: u32,
}

impl LaneChange {
    /// Makes all that `new` needs beside a lane with the policy `old`, whose labels these are.
    pub(crate) fn prepare(
        labels: &LaneLabels,
        old: &Policy,
        new: Way<'_>,
    ) -> Result<Box<Self>, BuildError> {
        let policy = new.policy;
        let leaves = Leaves::new(old, policy);
        let shape = Arc::new(Shape::of(policy));
        let tenants = shape.tenants().numbers();
        let count = leaves.now;
        let named = (0..count as u32).map(|leaf| policy.leaf_name(LeafId(leaf)).to_owned());
        let link = Change { from: &old.link, to: &policy.link, heir: leaves.heir };
        let ring = |leaf: &Option<LeafId>| leaf.and_then(|leaf| leaves.find(leaf));
        Ok(Box::new(Self {
            link: Some(link.prepare()?),
            remains: None,
            classifier: policy.classifier(),
            leaf_names: named.collect(),
            sojourn_max: new.sojourn_max.to_vec(),
            room: Room::new(new.frames_max, count),
            delays: histograms(count),
            marked: vec![0; count + 1],
            losses: LossBook::new(count),
            limits: Limits::new(count),
            shape,
            borrowed_before: vec![Borrowed::default(); tenants.len()],
            tenants,
            since: Instant::from_nanos(monotonic_ns()),
            ring_leaves: labels.rings.iter().map(ring).collect(),
            note: None,
            leaves,
        }))
    }

    /// Tells records what the change is.
    pub(crate) fn note(&mut self, note: record::Change) {
        let sojourn_max = self.sojourn_max.clone();
        self.note = Some(Step::Change(Box::new(record::Change { sojourn_max, ..note })));
    }

    /// Returns the labels of the lane once it has this policy.
    pub(crate) fn labels(&self, before: &LaneLabels) -> LaneLabels {
        LaneLabels {
            leaves: self.leaf_names.clone(),
            sojourn_max: self.sojourn_max.clone(),
            rings: self.ring_leaves.clone(),
            shape: Arc::clone(&self.shape),
            since: self.since,
            has_delays: !self.delays.is_empty(),
            ..before.clone()
        }
    }
}

impl Leaves {
    fn new(old: &Policy, policy: &Policy) -> Self {
        let [before, now] = [old, policy].map(|policy| policy.link.tree.leaf_count());
        let leaves = |count: usize| (0..count as u32).map(LeafId);
        let is_same = |leaf| policy.leaf_name(leaf) == old.leaf_name(leaf);
        let same = before == now && leaves(now).all(is_same);
        let by_name = (!same).then(|| {
            let named = leaves(now).map(|leaf| (policy.leaf_name(leaf), leaf));
            // A place that no class has is none of those before.
            let known: BTreeMap<&str, LeafId> = named.filter(|row| !row.0.is_empty()).collect();
            leaves(before).map(|leaf| known.get(old.leaf_name(leaf)).copied()).collect()
        });
        Self { by_name, before, now, heir: policy.default.leaf }
    }

    /// Returns the leaf that has the name of leaf `old`.
    fn find(&self, old: LeafId) -> Option<LeafId> {
        match &self.by_name {
            Some(leaves) => leaves.get(old.index()).copied().flatten(),
            None => (old.index() < self.before).then_some(old),
        }
    }

    /// Returns the row of leaf `old` in tables.
    fn row(&self, old: usize) -> usize {
        self.find(LeafId(old as u32)).map_or(self.now, LeafId::index)
    }
}

impl Lane {
    /// Exchanges the policy for that of `change`. No frame is lost by it but those for which a new
    /// limit has no room.
    pub(crate) fn change(&mut self, change: &mut LaneChange, pool: &mut FramePool) {
        // These name leaves of the policy before.
        self.take_dropped(pool);
        self.move_frames(change);
        self.move_counts(change);
        std::mem::swap(&mut self.classifier, &mut change.classifier);
        std::mem::swap(&mut self.leaf_names, &mut change.leaf_names);
        std::mem::swap(&mut self.sojourn_max, &mut change.sojourn_max);
        std::mem::swap(&mut self.ring_leaves, &mut change.ring_leaves);
        std::mem::swap(&mut self.shape, &mut change.shape);
        std::mem::swap(&mut self.tenants, &mut change.tenants);
        std::mem::swap(&mut self.borrowed_before, &mut change.borrowed_before);
        self.first_place = self.shape.tenants().first();
        self.since = change.since;
        if let Some(link) = change.link.take() {
            change.remains = Some(link.apply(&mut self.link, self.pending.now()));
        }
        self.note_change(change);
        self.take_dropped(pool);
        if let Some(steps) = self.steps.get() {
            record::state::resumed(&self.pending, steps);
        }
        // The turn that follows asks the new link when it has to be served.
        self.next = Some(self.pending.now());
    }

    fn note_change(&mut self, change: &mut LaneChange) {
        let Some(steps) = self.steps.get() else { return };
        if let Some(Step::Change(note)) = &mut change.note {
            note.at = self.pending.now();
        }
        if let Some(note) = &change.note {
            note.write(steps);
        }
    }

    /// Moves arrivals and departures to the leaves of the new policy, with the room that they and
    /// the frames in the link take.
    fn move_frames(&mut self, change: &mut LaneChange) {
        let leaves = &change.leaves;
        for arrival in self.pending.arrivals_mut() {
            arrival.leaf = leaves.find(arrival.leaf).unwrap_or(leaves.heir);
        }
        let held = &mut self.room.held;
        held[leaves.before] -= self.room.reserve;
        for departure in &mut self.departures {
            let row = leaves.row(departure.leaf.index());
            held[departure.leaf.index()] -= 1;
            change.room.adopt(row, 1);
            departure.leaf = LeafId(row as u32);
        }
        for (leaf, held) in held[..leaves.before].iter().enumerate().filter(|(_, held)| **held > 0)
        {
            let to = leaves.find(LeafId(leaf as u32)).unwrap_or(leaves.heir);
            change.room.adopt(to.index(), *held);
        }
        change.room.found = self.room.found;
        std::mem::swap(&mut self.room, &mut change.room);
    }

    fn move_counts(&mut self, change: &mut LaneChange) {
        let leaves = &change.leaves;
        change.losses.total = self.losses.total;
        if leaves.by_name.is_none() {
            // A table of many leaves takes long to copy.
            return;
        }
        for (old, marked) in self.marked.iter().enumerate() {
            change.marked[leaves.row(old)] += marked;
        }
        for (old, losses) in self.losses.leaves.iter().enumerate() {
            let row = &mut change.losses.leaves[leaves.row(old)];
            for (sum, count) in row.iter_mut().zip(losses) {
                *sum = sum.plus(*count);
            }
        }
        for (old, delays) in self.delays.iter_mut().enumerate() {
            if let Some(new) = change.delays.get_mut(leaves.row(old)) {
                std::mem::swap(new, delays);
            }
        }
        for (old, held_ns) in self.limits.held_ns.iter().enumerate() {
            if let Some(new) = change.limits.held_ns.get_mut(leaves.row(old)) {
                *new = *held_ns;
            }
        }
        std::mem::swap(&mut self.limits, &mut change.limits);
        std::mem::swap(&mut self.marked, &mut change.marked);
        std::mem::swap(&mut self.losses, &mut change.losses);
        std::mem::swap(&mut self.delays, &mut change.delays);
    }
}
