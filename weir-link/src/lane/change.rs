//! Another policy for a lane while frames wait in it.
//!
//! All that takes long is made on another thread ([`LaneChange::prepare`]). The lane then exchanges
//! its parts for those, between two turns, and what it had goes back to that thread to be freed.
//! Invariants: the lane holds the same frames after the change as before; no two frames of a leaf
//! change their order; and what was counted of a leaf goes on by its name, or goes to the row of
//! removed leaves.

use std::collections::BTreeMap;
use std::mem::swap;
use std::sync::Arc;

use weir_core::account::HISTOGRAMS_MAX;
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::{Change, Prepared, Remains};
use weir_core::parameter::BuildError;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_trace::record::{self, Step};

use super::Lane;
use super::books::Books;
use crate::pool::FramePool;
use crate::status::{LaneLabels, Shape};
use weir_host::wait::monotonic_ns;

/// A new policy for a lane. After the change it holds the old one.
pub(crate) struct LaneChange {
    link: Option<Prepared>,
    remains: Option<Remains>,
    leaves: Leaves,
    classifier: Classifier,
    books: Books,
    /// The record's step for it.
    note: Option<Step<'static>>,
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
    pub train_max: &'a [u32],
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
        let named = (0..leaves.now as u32).map(|leaf| policy.leaf_name(LeafId(leaf)).to_owned());
        let ring = |leaf: &Option<LeafId>| leaf.and_then(|leaf| leaves.find(leaf));
        let labels = LaneLabels {
            leaves: named.collect(),
            sojourn_max: new.sojourn_max.to_vec(),
            train_max: new.train_max.to_vec(),
            rings: labels.rings.iter().map(ring).collect(),
            shape: Arc::new(Shape::of(policy)),
            since: Instant::from_nanos(monotonic_ns()),
            has_delays: leaves.now <= HISTOGRAMS_MAX,
            ..labels.clone()
        };
        let link = Change { from: &old.link, to: &policy.link, heir: leaves.heir };
        Ok(Box::new(Self {
            link: Some(link.prepare()?),
            remains: None,
            classifier: policy.classifier(),
            books: Books::new(labels, new.frames_max),
            note: None,
            leaves,
        }))
    }

    /// Gives rings of the ports to leaves of the new policy.
    pub(crate) fn set_rings(&mut self, rings: Vec<Option<LeafId>>) {
        self.books.labels.rings = rings;
    }

    /// Writes the change into records.
    pub(crate) fn note(&mut self, note: record::Change) {
        let sojourn_max = self.books.labels.sojourn_max.clone();
        self.note = Some(Step::Change(Box::new(record::Change { sojourn_max, ..note })));
    }

    /// Returns the labels of the lane once it has this policy.
    pub(crate) fn labels(&self) -> &LaneLabels {
        &self.books.labels
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
        self.link.release_dropped(&mut self.books, pool);
        self.move_frames(change, pool);
        self.move_counts(change);
        self.intake.exchange(&mut change.classifier);
        swap(&mut self.books.labels, &mut change.books.labels);
        swap(&mut self.books.places, &mut change.books.places);
        if let Some(link) = change.link.take() {
            change.remains = Some(self.link.replace(link));
        }
        self.note_change(change);
        self.resume(pool);
    }

    fn note_change(&mut self, change: &mut LaneChange) {
        let Some(steps) = self.books.steps.get() else { return };
        if let Some(Step::Change(note)) = &mut change.note {
            note.at = self.link.pending.now();
        }
        if let Some(note) = &change.note {
            note.write(steps);
        }
    }

    /// Goes on after its leaves changed: frees what the link dropped for that, and tells a record
    /// the frames that wait to be offered as they are now.
    pub(super) fn resume(&mut self, pool: &mut FramePool) {
        self.link.release_dropped(&mut self.books, pool);
        if let Some(steps) = self.books.steps.get() {
            record::state::resumed(&self.link.pending, steps);
        }
        self.link.serve_soon();
        self.check();
    }

    /// Moves arrivals and departures to the leaves of the new policy, with the room that they and
    /// the frames in the link take.
    fn move_frames(&mut self, change: &mut LaneChange, pool: &FramePool) {
        let leaves = &change.leaves;
        for arrival in self.link.pending.arrivals_mut() {
            arrival.leaf = leaves.find(arrival.leaf).unwrap_or(leaves.heir);
        }
        let (old, new) = (&mut self.books.reserves, &mut change.books.reserves);
        for (departure, frames) in self.outbox.waiting(pool) {
            let row = leaves.row(departure.leaf.index());
            (0..frames).for_each(|_| old.give_back(departure.leaf));
            new.adopt(row, frames);
            departure.leaf = LeafId(row as u32);
        }
        for leaf in (0..leaves.before as u32).map(LeafId) {
            let held = old.held_by(leaf);
            if held > 0 {
                new.adopt(leaves.find(leaf).unwrap_or(leaves.heir).index(), held);
            }
        }
        new.go_on_from(old);
        swap(old, new);
    }

    fn move_counts(&mut self, change: &mut LaneChange) {
        let leaves = &change.leaves;
        if leaves.by_name.is_none() {
            // A table of many leaves takes long to copy.
            return;
        }
        let (old, new) = (&mut self.books, &mut change.books);
        new.losses.total = old.losses.total;
        for (leaf, marked) in old.marked.iter().enumerate() {
            new.marked[leaves.row(leaf)].add(*marked);
        }
        for (leaf, losses) in old.losses.leaves.iter().enumerate() {
            new.losses.add(leaves.row(leaf), losses);
        }
        for (leaf, delays) in old.delays.iter_mut().enumerate() {
            if let Some(new) = new.delays.get_mut(leaves.row(leaf)) {
                swap(new, delays);
            }
        }
        new.limits.go_on_from(&old.limits, |leaf| leaves.row(leaf));
        swap(&mut old.limits, &mut new.limits);
        swap(&mut old.marked, &mut new.marked);
        swap(&mut old.losses, &mut new.losses);
        swap(&mut old.delays, &mut new.delays);
    }
}
