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
use weir_trace::record::Step;

use super::Lane;
use crate::pool::FramePool;

/// The classes that join and leave a lane. Afterwards it holds what was replaced.
pub(crate) struct LaneJoins {
    /// The plan in which all of it is done.
    pub plan: Box<LinkPlan>,
    pub rows: Vec<JoinRow>,
    /// The record's step for it.
    pub note: Option<Step<'static>>,
}

/// One class that joins or leaves.
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
        self.link.release_dropped(&mut self.books, pool);
        let LaneJoins { plan, rows, note } = joins;
        for row in rows {
            self.join_row(plan, row, pool);
        }
        if let Some(steps) = self.books.steps.get() {
            if let Some(Step::Joins(note)) = note {
                note.at = self.link.pending.now();
            }
            if let Some(note) = note {
                note.write(steps);
            }
        }
        self.resume(pool);
    }

    fn join_row(&mut self, plan: &mut LinkPlan, row: &mut JoinRow, pool: &FramePool) {
        if let Some(heir) = row.heir {
            self.move_frames_of(row.leaf, heir, pool);
        }
        for graft in &mut row.grafts {
            let now = self.link.pending.now();
            let done = graft.apply(plan, self.link.inner_mut(), now);
            // Nothing that shares its limit has a place, or is an heir where there are places.
            assert!(done.is_ok(), "it was rehearsed: {done:?}");
        }
        row.rules = self.intake.seat(row.leaf, row.rules.take());
        if row.heir.is_some() {
            let borrowed = self.link.inner().borrowed(row.leaf);
            self.books.retire(row.leaf, borrowed);
        }
        self.books.places.seat(row.leaf, row.tenant);
    }

    /// Moves the frames of a class that leaves: those in front of the link to the heir, with the
    /// room that it and the link's take, and those behind the link to the row of removed leaves.
    fn move_frames_of(&mut self, leaf: LeafId, heir: LeafId, pool: &FramePool) {
        for arrival in self.link.pending.arrivals_mut() {
            if arrival.leaf == leaf {
                arrival.leaf = heir;
            }
        }
        let reserves = &mut self.books.reserves;
        let removed = reserves.removed();
        for (departure, frames) in self.outbox.waiting(pool) {
            if departure.leaf == leaf {
                (0..frames).for_each(|_| reserves.give_back(leaf));
                reserves.adopt(removed, frames);
                departure.leaf = LeafId(removed as u32);
            }
        }
        reserves.hand_over(leaf, heir);
    }
}
