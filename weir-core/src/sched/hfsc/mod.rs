//! Hierarchical fair service curves `[stoica97]` [algorithms §6], delay and rate apart.
//!
//! A leaf with a *real-time* curve gets what the curve promises whatever others do: of the leaves
//! that are eligible, the one with the earliest deadline goes first. What is left is shared down
//! the tree by *link-share* curves: of siblings, the one with the smallest virtual time. An *upper
//! limit* says how much a class may be given in this way. Each curve may begin with another slope
//! than it goes on with. The rules are ALTQ's [algorithms §6.4-6.5]; the differences:
//!
//! - Times are exact, so there is no tick. A class under an upper limit may be late by a largest
//!   packet at that limit without losing it; ALTQ allows a tick.
//! - What holds a class back, or makes it catch up, stays when it idles; ALTQ forgets both, and so
//!   lets a class that empties between packets pass its limit once.
//! - A class that becomes idle is charged its last packet first. ALTQ does that when it returns.
//! - Equal virtual times, or deadlines: siblings, or leaves, in the order of their declaration.
//!
//! Invariant: what link sharing may choose is found from the link down by the lowest virtual times;
//! a backlogged leaf is there, or in the order of deadlines, or in both.

mod build;
mod curve;
mod limit;
mod params;
mod real_time;
mod share;
#[cfg(test)]
mod tests;

use super::{
    Cost, Descriptor, Discipline, Head, Kin, Promises, Regulation, Scheduler, Selection, Service,
    Tree, Why,
};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;
use curve::{Curves, length};
use limit::NONE;
use params::ClassPlan;
use params::PARAMETERS;
use real_time::RealTime;
use share::{LinkShare, Sent};

/// Hierarchical fair service curves.
pub struct Hfsc {
    curves: Curves,
    share: LinkShare,
    real_time: RealTime,
    leaves: Vec<Leaf>,
    slot_of_class: Vec<u32>,
    backlogged: u32,
    /// Whether the leaf that was selected last was chosen by the real-time criterion.
    chosen_by_deadline: bool,
}

struct Leaf {
    /// Its place in the link-sharing tree.
    slot: u32,
    /// Its number among the leaves with real-time curves, [`NONE`] without one.
    guarantee: u32,
    backlogged: bool,
}

impl Discipline for Hfsc {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "hfsc",
        summary: "Hierarchical fair service curves: delay apart from rate, shares and limits.",
        parameters: PARAMETERS,
        sources: &["stoica97", "algorithms §6"],
        promises: Promises {
            work_conserving: false,
            hierarchical: true,
            exact_wake: true,
            cost: Cost::Logarithmic,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        build::build(tree)
    }

    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        for (new, from) in kin.leaves() {
            let (this, that) = (&self.leaves[new.index()], &old.leaves[from.index()]);
            if this.guarantee != NONE && that.guarantee != NONE {
                let from = (&old.real_time, &old.curves, that.guarantee);
                self.real_time.inherit(&self.curves, this.guarantee, from);
            }
        }
        let slots = kin
            .classes()
            .map(|(new, from)| (self.slot_of_class[new.index()], old.slot_of_class[from.index()]));
        self.share.inherit(&self.curves, (&old.share, &old.curves), slots);
    }

    fn service(tree: &Tree) -> Service {
        let curve = |leaf| ClassPlan::new(tree, tree.class_of(leaf)).ok()?.guarantee();
        Service::Curves(tree.leaves().map(|(leaf, _)| curve(leaf)).collect())
    }
}

impl Scheduler for Hfsc {
    #[inline]
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        let Leaf { slot, guarantee, backlogged } = &mut self.leaves[leaf.index()];
        if *backlogged {
            return;
        }
        *backlogged = true;
        self.backlogged += 1;
        if *guarantee != NONE {
            let resumes = self.share.resuming;
            self.real_time.enter(&self.curves, *guarantee, (now, head), resumes);
        }
        self.share.enter(now, &self.curves, *slot);
    }

    #[inline]
    fn select(&mut self, now: Instant) -> Selection {
        if self.backlogged == 0 {
            return Selection::Idle;
        }
        if let Some(leaf) = self.real_time.first(now) {
            self.chosen_by_deadline = true;
            return Selection::Leaf(leaf);
        }
        self.chosen_by_deadline = false;
        if let Some(leaf) = self.share.first(now) {
            return Selection::Leaf(LeafId(leaf));
        }
        // [algorithms §6.6]
        let earliest = self.real_time.wake().into_iter().chain(self.share.wake()).min();
        Selection::At(earliest.expect("a backlogged leaf waits to be eligible or for a limit"))
    }

    #[inline]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let Leaf { slot, guarantee, backlogged } = &mut self.leaves[leaf.index()];
        let emptied = next.is_none();
        *backlogged = !emptied;
        self.backlogged -= u32::from(emptied);
        // [algorithms §6.5] Link sharing is charged whoever chose, real time only for its own.
        let shared = !self.chosen_by_deadline;
        let service = Sent { bytes: length(sent), shared, emptied };
        self.share.serve(now, &self.curves, *slot, service);
        if *guarantee != NONE {
            let served = if shared { Bytes::ZERO } else { sent };
            self.real_time.sent(now, &self.curves, *guarantee, (served, next));
        }
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        let Leaf { slot, guarantee, backlogged } = &mut self.leaves[leaf.index()];
        if !*backlogged {
            return;
        }
        if head.is_none() {
            *backlogged = false;
            self.backlogged -= 1;
            let service = Sent { bytes: 0, shared: false, emptied: true };
            self.share.serve(now, &self.curves, *slot, service);
        }
        if *guarantee != NONE {
            self.real_time.sent(now, &self.curves, *guarantee, (Bytes::ZERO, head));
        }
    }

    fn why(&self, _now: Instant, leaf: LeafId) -> Why {
        let Leaf { slot, guarantee, .. } = self.leaves[leaf.index()];
        let shares = self.share.classes[slot as usize].shares;
        let by_share = shares.then(|| self.share.released(slot));
        let by_deadline = (guarantee != NONE).then(|| self.real_time.eligible(guarantee));
        let released = by_share.into_iter().chain(by_deadline).min().unwrap_or(Instant::ZERO);
        if released == Instant::ZERO {
            return Why::FREE;
        }
        Why { released, regulation: Regulation::UpperLimit, lender: None }
    }
}
