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
//! a backlogged leaf is there, or among those that wait for the real-time criterion or are ordered
//! by it, or in both.

mod build;
mod curve;
mod family;
mod leaf;
mod limit;
mod params;
mod real_time;
mod share;
#[cfg(test)]
mod tests;
mod wheel;

use super::{
    Cost, Descriptor, Discipline, Head, Kin, Promises, Regulation, Scheduler, Selection, Service,
    Tree, Why,
};
use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::prefetch::Prefetch;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;
use curve::length;
use leaf::Mark;
use params::{ClassPlan, PARAMETERS};
use real_time::RealTime;
use share::{Child, LinkShare, Sent};

/// Hierarchical fair service curves.
pub struct Hfsc {
    share: LinkShare,
    real_time: RealTime,
    backlogged: u32,
    /// Whether the leaf that was selected last was chosen by the real-time criterion.
    chosen_by_deadline: bool,
    /// The classes with children, in order, and the families of these.
    interior: Vec<(ClassId, u32)>,
}

impl Hfsc {
    /// Who may send now, or when to ask again; it may be known that `nobody_is_eligible`.
    #[inline(never)]
    fn select_any(&mut self, now: Instant, nobody_is_eligible: bool) -> Selection {
        if self.backlogged == 0 {
            return Selection::Idle;
        }
        if !nobody_is_eligible && let Some(leaf) = self.real_time.first(&mut self.share, now) {
            self.chosen_by_deadline = true;
            return Selection::Leaf(LeafId(leaf));
        }
        self.chosen_by_deadline = false;
        if let Some(leaf) = self.share.first(now) {
            return Selection::Leaf(LeafId(leaf));
        }
        // [algorithms §6.6]
        let eligible = self.real_time.wake(&mut self.share);
        let earliest = eligible.into_iter().chain(self.share.wake()).min();
        Selection::At(earliest.expect("a backlogged leaf waits to be eligible or for a limit"))
    }

    #[inline(never)]
    fn charge_any(&mut self, now: Instant, leaf: LeafId, service: Sent, next: Option<Head>) {
        if !service.shared {
            self.real_time.served(&mut self.share, now, leaf.0, (service.bytes, next));
        } else if self.share.leaves[leaf.index()].is(Mark::GUARANTEED) {
            self.real_time.head(&mut self.share, now, leaf.0, next);
        }
        self.share.serve(now, leaf.0, service);
    }

    /// The same class among those of link sharing.
    fn child(&self, class: ClassId) -> Child {
        match self.interior.binary_search_by_key(&class, |row| row.0) {
            Ok(at) => Child::family(self.interior[at].1),
            // Leaves are numbered in the order of their declaration.
            Err(before) => Child::leaf(class.0 - before as u32),
        }
    }
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
        let pairs = kin.classes().map(|(new, from)| (self.child(new), old.child(from)));
        let pairs: Vec<_> = pairs.collect();
        self.share.inherit(&old.share, pairs.into_iter());
        for (new, from) in kin.leaves() {
            let from = (&old.real_time, &old.share, from.0);
            self.real_time.inherit(&mut self.share, new.0, from);
        }
    }

    fn service(tree: &Tree) -> Service {
        let curve = |leaf| ClassPlan::new(tree, tree.class_of(leaf)).ok()?.guarantee();
        Service::Curves(tree.leaves().map(|(leaf, _)| curve(leaf)).collect())
    }
}

impl Scheduler for Hfsc {
    #[inline]
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        let this = &mut self.share.leaves[leaf.index()];
        if this.is(Mark::BACKLOGGED) {
            return;
        }
        this.mark(Mark::BACKLOGGED);
        self.backlogged += 1;
        if this.is(Mark::GUARANTEED) {
            self.real_time.enter(&mut self.share, leaf.0, (now, head));
        }
        self.share.enter(now, leaf.0);
    }

    #[inline(always)]
    fn select(&mut self, now: Instant) -> Selection {
        let first = self.real_time.plain_first(now);
        if let Some(Some(leaf)) = first {
            self.chosen_by_deadline = true;
            return Selection::Leaf(LeafId(leaf));
        }
        self.select_any(now, first.is_some())
    }

    #[inline(always)]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let this = &mut self.share.leaves[leaf.index()];
        let (bytes, emptied) = (length(sent), next.is_none());
        if emptied {
            this.clear(Mark::BACKLOGGED);
            self.backlogged -= 1;
        }
        // [algorithms §6.5] Link sharing is charged whoever chose, real time only for its own.
        let shared = !self.chosen_by_deadline;
        let service = Sent { bytes, shared, emptied };
        if shared || !this.is(Mark::PLAIN) || self.share.resuming {
            return self.charge_any(now, leaf, service, next);
        }
        let slope = &self.share.kinds[this.own.kind as usize].guarantee;
        self.real_time.served_plain((this, leaf.0), slope, now, (bytes, next));
        self.share.serve_plain::<false>(leaf.0, service);
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        let this = &mut self.share.leaves[leaf.index()];
        if !this.is(Mark::BACKLOGGED) {
            return;
        }
        let is_guaranteed = this.is(Mark::GUARANTEED);
        if head.is_none() {
            this.clear(Mark::BACKLOGGED);
            self.backlogged -= 1;
            let service = Sent { bytes: 0, shared: false, emptied: true };
            self.share.serve(now, leaf.0, service);
        }
        if is_guaranteed {
            self.real_time.head(&mut self.share, now, leaf.0, head);
        }
    }

    /// Those whom the real-time criterion chooses; whom link sharing would is not known.
    fn line_up(&self, leaves: &mut [LeafId]) -> usize {
        self.real_time.line_up(leaves)
    }

    #[inline]
    fn touch(&self, leaf: LeafId, prefetch: Prefetch) {
        self.share.touch(leaf.0, prefetch);
        self.real_time.touch(leaf.0, prefetch);
    }

    #[inline]
    fn touch_above(&self, leaf: LeafId, prefetch: Prefetch) {
        self.share.touch_above(leaf.0, prefetch);
        self.real_time.touch_place(leaf.0, prefetch);
    }

    fn why(&self, _now: Instant, leaf: LeafId, _from: Instant) -> Why {
        let this = self.share.leaves[leaf.index()];
        let by_share = this.is(Mark::SHARES).then(|| self.share.released(leaf.0));
        let eligible = Instant::from_nanos(this.eligible);
        let by_deadline = this.is(Mark::GUARANTEED).then_some(eligible);
        let released = by_share.into_iter().chain(by_deadline).min().unwrap_or(Instant::ZERO);
        if released == Instant::ZERO {
            return Why::FREE;
        }
        Why { released, regulation: Regulation::UpperLimit, lender: None }
    }
}
