//! Classes that join a lane, are retuned there, or leave it, while frames wait.
//!
//! All that takes long is made on another thread; the lane exchanges a dropper and a set of rules
//! for each class, and what it had goes back. It neither allocates nor frees, and touches no other
//! leaf but the heir of a class that leaves. Invariants: the lane holds the same frames afterwards,
//! no two frames of a leaf change their order, and what was counted of a class that leaves goes to
//! the row of removed leaves.

use std::sync::Arc;
use weir_core::classify::RuleSet;
use weir_core::ids::LeafId;
use weir_core::link::{LinkPlan, PreparedGraft};
use weir_trace::record::{self, Step};

use super::Lane;
use crate::pool::FramePool;

/// What classes do in a lane. Afterwards it holds what was replaced.
pub(crate) struct LaneJoins {
    /// The plan in which all of it is done.
    pub plan: Box<LinkPlan>,
    pub rows: Vec<JoinRow>,
    /// What a record says of it.
    pub note: Option<Step<'static>>,
}

/// What one class does.
pub(crate) struct JoinRow {
    pub leaf: LeafId,
    pub grafts: Vec<PreparedGraft>,
    /// Its rules; `None` if it leaves.
    pub rules: Option<Arc<RuleSet>>,
    /// The leaf that takes the frames of a class that leaves.
    pub heir: Option<LeafId>,
    /// The number of the class; 0 for none.
    pub tenant: u32,
}

impl Lane {
    /// Does what the classes do. No frame is lost by it but those for which the limit of an heir,
    /// or a new limit, has no room.
    pub(crate) fn join(&mut self, joins: &mut LaneJoins, pool: &mut FramePool) {
        self.take_dropped(pool);
        let LaneJoins { plan, rows, note } = joins;
        for row in rows {
            if let Some(heir) = row.heir {
                self.move_frames_of(row.leaf, heir);
            }
            for graft in &mut row.grafts {
                let done = graft.apply(plan, self.link.as_mut(), self.pending.now());
                // Nothing that shares its limit has a place, or is an heir where there are places.
                assert!(done.is_ok(), "it was rehearsed: {done:?}");
            }
            row.rules = match row.rules.take() {
                Some(rules) => self.classifier.join(row.leaf, rules),
                None => self.classifier.leave(row.leaf),
            };
            if row.heir.is_some() {
                self.retire_counts_of(row.leaf);
            }
            if let Some(place) = self.place(row.leaf.index()) {
                self.tenants[place] = row.tenant;
            }
        }
        if let Some(steps) = self.steps.get() {
            if let Some(Step::Joins(note)) = note {
                note.at = self.pending.now();
            }
            if let Some(note) = note {
                note.write(steps);
            }
        }
        self.take_dropped(pool);
        if let Some(steps) = self.steps.get() {
            record::state::resumed(&self.pending, steps);
        }
        // The turn that follows asks the link when it has to be served.
        self.next = Some(self.pending.now());
    }

    /// Moves the frames of a class that leaves: those in front of the link to the heir, with the
    /// room that it and the link's take, and those behind the link to the row of removed leaves.
    fn move_frames_of(&mut self, leaf: LeafId, heir: LeafId) {
        for arrival in self.pending.arrivals_mut() {
            if arrival.leaf == leaf {
                arrival.leaf = heir;
            }
        }
        let removed = self.leaf_names.len();
        for departure in &mut self.departures {
            if departure.leaf == leaf {
                self.room.give_back(leaf);
                departure.leaf = LeafId(removed as u32);
                self.room.adopt(removed, 1);
            }
        }
        let held = self.room.held[leaf.index()];
        (0..held).for_each(|_| self.room.give_back(leaf));
        self.room.adopt(heir.index(), held);
    }

    fn retire_counts_of(&mut self, leaf: LeafId) {
        let (leaf, removed) = (leaf.index(), self.leaf_names.len());
        self.marked[removed] += std::mem::take(&mut self.marked[leaf]);
        let losses = std::mem::take(&mut self.losses.leaves[leaf]);
        for (sum, count) in self.losses.leaves[removed].iter_mut().zip(losses) {
            *sum = sum.plus(count);
        }
        if let Some(delays) = self.delays.get_mut(leaf) {
            delays.clear();
        }
        self.limits.held_ns[leaf] = 0;
        self.limits.held_since[leaf] = None;
        if let Some(place) = self.place(leaf) {
            self.borrowed_before[place] = self.link.borrowed(LeafId(leaf as u32));
        }
    }
}
