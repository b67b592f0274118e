//! The leaves whose packets may not leave yet, by the instant from which on one may.
//!
//! Invariant: a leaf is listed at most once, under the instant that the table by leaf has.

use super::super::{Dropper, FlowQueues};
use super::{Queues, Uncalled};
use crate::ids::LeafId;
use crate::units::Instant;
use alloc::collections::{BTreeMap, BTreeSet};

/// The leaves that are held.
#[derive(Default)]
pub(super) struct Holds {
    by_instant: BTreeSet<(Instant, LeafId)>,
    by_leaf: BTreeMap<LeafId, Instant>,
}

impl Holds {
    /// Holds a leaf until an instant, in place of an earlier or a later one.
    pub(super) fn hold(&mut self, leaf: LeafId, until: Instant) {
        self.end(leaf);
        self.by_leaf.insert(leaf, until);
        self.by_instant.insert((until, leaf));
    }

    /// Ends the hold of a leaf, if there is one.
    pub(super) fn end(&mut self, leaf: LeafId) {
        if let Some(until) = self.by_leaf.remove(&leaf) {
            self.by_instant.remove(&(until, leaf));
        }
    }

    /// Returns until when a leaf is held.
    pub(super) fn until(&self, leaf: LeafId) -> Option<Instant> {
        self.by_leaf.get(&leaf).copied()
    }

    /// Returns the hold that ends first.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(Instant, LeafId)> {
        self.by_instant.first().copied()
    }
}

impl Queues {
    /// Returns until when no packet of `leaf` may leave, where its flow queues choose early and
    /// chose none.
    #[inline(always)]
    pub fn unready_until(&self, leaf: LeafId) -> Option<Instant> {
        if self.late || self.leaves[leaf.index()].packets == 0 {
            return None;
        }
        self.droppers.of(leaf).flows()?.not_before()
    }

    /// Holds `leaf`, which is backlogged and of which the scheduler was told that it is empty.
    pub fn hold(&mut self, leaf: LeafId, until: Instant) {
        self.leaves[leaf.index()].uncalled = Uncalled::HELD;
        self.holds.hold(leaf, until);
    }

    /// Returns whether `leaf` is held.
    #[inline]
    pub fn is_held(&self, leaf: LeafId) -> bool {
        self.leaves[leaf.index()].uncalled == Uncalled::HELD
    }

    /// Returns the hold that ends first.
    #[inline(always)]
    pub fn first_hold(&self) -> Option<(Instant, LeafId)> {
        self.holds.first()
    }

    /// Ends the hold of `leaf` at `now` if a packet may leave, or its flow queues choose when it is
    /// selected; else it is held on. Returns whether the hold ended.
    pub fn end_hold(&mut self, now: Instant, leaf: LeafId) -> bool {
        let flows = self.droppers.of(leaf).flows();
        let is_early = flows.is_some_and(FlowQueues::chooses_early);
        if is_early && let Some(until) = self.choose_first(now, leaf) {
            self.holds.hold(leaf, until);
            return false;
        }
        self.release_hold(leaf);
        true
    }

    /// Returns whether `leaf`, which is held and got a packet, may have one that leaves earlier.
    pub fn may_end_hold(&self, leaf: LeafId) -> bool {
        self.droppers.of(leaf).flows().is_some_and(FlowQueues::has_turns)
    }

    /// Forgets that `leaf` is held, if it is.
    pub(super) fn release_hold(&mut self, leaf: LeafId) {
        if self.is_held(leaf) {
            self.holds.end(leaf);
            self.leaves[leaf.index()].uncalled = Uncalled::of(self.droppers.of(leaf));
        }
    }
}
