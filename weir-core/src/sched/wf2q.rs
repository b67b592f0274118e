//! Worst-case fair weighted fair queueing, plus [bennett97 §4] [algorithms §4.3].
//!
//! A leaf's first packet has a start tag `S` and a finish tag `F` = `S` + length / weight in
//! virtual time `V` (the fields `start`, `finish` and `virtual_time`). Among leaves that are
//! *eligible*, `S` <= `V`, the one with the smallest `F` sends, of equals the one declared first;
//! so no leaf is ahead of the fluid by more than a packet. `V` grows by each byte sent, and jumps
//! to the smallest `S` when no leaf would be eligible. Invariant: between calls a leaf that waits
//! is in the lane `ELIGIBLE`, by `F`, if its `S` <= `V`, else in the lane `EARLY`, by `S`.
//!
//! Where it departs from dummynet [algorithms §4.3]: that learns of flows as they come, and lets
//! `V` run at the pace of those that it remembers. Here all leaves are known, so `V` runs at the
//! pace of all weights, as in the original; no list of flows to forget is needed, and no packet
//! costs a division. When a packet comes and the line has sent all before it, `V` moves past all
//! tags, so that a new busy period starts with equals.
//!
//! Drops: a dropped packet costs its leaf nothing. The next one starts where it did.

use super::service::Weighted;
use super::{
    Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit, RefitError,
    Scheduler, Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::heap::Heaps;
use crate::order::weights::{Sending, WEIGHT, Weights, counted, written};
use crate::parameter::BuildError;
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Worst-case fair weighted fair queueing.
pub struct Wf2q {
    leaves: Vec<Leaf>,
    waiting: Heaps<u64>,
    virtual_time: u64,
    /// No tag of what was sent is later.
    latest: u64,
    /// Fractional bits of virtual time.
    shift: u32,
    sending: Sending,
    /// The leaf whose packet the line was handed last.
    sender: LeafId,
}

/// The tags of a leaf.
#[derive(Clone, Copy)]
struct Leaf {
    /// The start tag of the first packet while one waits, else the finish tag of the last one sent.
    start: u64,
    /// The finish tag of the first packet; meaningless while none waits.
    finish: u64,
    /// Virtual time per byte.
    inverse: u64,
}

impl Discipline for Wf2q {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "wf2q+",
        summary: "Worst-case fair queueing: bytes by weight, no leaf ahead of the fluid by more \
                  than a packet.",
        parameters: &[WEIGHT],
        sources: &["bennett97 §4", "algorithms §4.3"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Logarithmic,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let Weights { inverses, shift } = Weights::of(tree);
        let leaf = |&inverse: &u64| Leaf { start: 0, finish: 0, inverse };
        Ok(Self {
            leaves: inverses.iter().map(leaf).collect(),
            waiting: Heaps::new(&[inverses.len(); 2], inverses.len()),
            virtual_time: 0,
            latest: 0,
            shift,
            sending: Sending::new(tree, shift),
            sender: LeafId(0),
        })
    }
}

impl Scheduler for Wf2q {
    #[inline]
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        if self.waiting.contains(leaf.0) {
            return;
        }
        let rest = self.sending.rest(now);
        if rest == 0 && self.waiting.is_empty() {
            self.virtual_time = self.virtual_time.max(self.latest);
        }
        let tags = &mut self.leaves[leaf.index()];
        // While the line sends a packet of the leaf, the leaf is not idle: the next one starts
        // where that one finishes. What the line is still to send of another's, `V` counts already.
        if rest == 0 || self.sender != leaf {
            tags.start = tags.start.max(self.virtual_time.saturating_sub(rest));
        }
        tags.finish = tags.start + counted(head.length) * tags.inverse;
        self.insert(leaf);
    }

    /// [bennett97 §4] The smallest finish tag of those that are eligible.
    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        if self.waiting.len(ELIGIBLE) == 0 {
            let Some((start, _)) = self.waiting.first(EARLY) else { return Selection::Idle };
            debug_assert!(start > self.virtual_time, "virtual time never goes back");
            self.virtual_time = start;
            self.release();
        }
        let first = self.waiting.first(ELIGIBLE);
        first.map_or(Selection::Idle, |(_, leaf)| Selection::Leaf(LeafId(leaf)))
    }

    #[inline]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        if self.virtual_time >= RENEWAL {
            self.renew();
        }
        debug_assert!(self.waiting.contains(leaf.0), "a selected leaf is backlogged");
        let length = counted(sent);
        self.sending.begin(now, length << self.shift);
        self.sender = leaf;
        self.virtual_time += length << self.shift;
        let tags = &mut self.leaves[leaf.index()];
        tags.start += length * tags.inverse;
        self.latest = self.latest.max(tags.start);
        if let Some(next) = next {
            tags.finish = tags.start + counted(next.length) * tags.inverse;
        }
        if next.is_some() && tags.start <= self.virtual_time {
            self.waiting.update(ELIGIBLE, leaf.0, tags.finish);
        } else {
            self.waiting.remove(ELIGIBLE, leaf.0);
            if next.is_some() {
                self.waiting.insert(EARLY, leaf.0, tags.start);
            }
        }
        self.release();
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if !self.waiting.contains(leaf.0) {
            return;
        }
        self.waiting.remove(self.lane(leaf), leaf.0);
        if let Some(head) = head {
            let tags = &mut self.leaves[leaf.index()];
            tags.finish = tags.start + counted(head.length) * tags.inverse;
            self.insert(leaf);
        }
    }
}

impl Explains for Wf2q {
    /// [bennett97 §4] No leaf is ahead of the fluid, or behind it, by more than a packet.
    fn service(tree: &Tree) -> Service {
        let packet = tree.mtu();
        let row = |weight| Weighted { weight, ahead: packet, late: packet };
        Service::Fluid(written(tree).map(row).collect())
    }
}

impl Changes for Wf2q {
    const REFITS: bool = true;

    /// A leaf that was ahead of virtual time stays ahead by as many bytes of the line, but no more
    /// than a largest packet of its own; what one lagged behind, at most a packet, is forgotten.
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        for (new, before) in kin.leaves() {
            let ahead = old.leaves[before.index()].start.saturating_sub(old.virtual_time);
            let ahead = u128::from(ahead) << self.shift >> old.shift;
            let leaf = &mut self.leaves[new.index()];
            let packet = leaf.inverse * u64::from(u16::MAX);
            leaf.start = self.virtual_time + ahead.min(u128::from(packet)) as u64;
            self.latest = self.latest.max(leaf.start);
        }
    }

    fn refit(
        &mut self,
        _now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        if refit.before.number("weight") != tree.leaf(leaf).params.number("weight") {
            let Weights { inverses, shift } = Weights::of(tree);
            if shift != self.shift {
                return Err(RefitError::NeedsChange("weights are too far apart"));
            }
            // First packets that wait keep their tags, those behind them have the new weights.
            for (leaf, inverse) in self.leaves.iter_mut().zip(inverses) {
                leaf.inverse = inverse;
            }
        }
        if refit.is_new {
            self.leaves[leaf.index()].start = 0;
        }
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let is_placed = |lane: usize, (key, leaf): (u64, u32)| {
            let Leaf { start, finish, .. } = self.leaves[leaf as usize];
            let tag = if lane == ELIGIBLE { finish } else { start };
            self.lane(LeafId(leaf)) == lane && key == tag
        };
        let lane_is_sound = |lane| self.waiting.items(lane).all(|row| is_placed(lane, row));
        waiting.all(|leaf, head| self.waiting.contains(leaf as u32) == head.is_some())
            && [EARLY, ELIGIBLE].into_iter().all(lane_is_sound)
    }
}

impl Wf2q {
    /// The lane that a waiting leaf belongs to.
    #[inline]
    fn lane(&self, leaf: LeafId) -> usize {
        if self.leaves[leaf.index()].start <= self.virtual_time { ELIGIBLE } else { EARLY }
    }

    /// Inserts a leaf that waits by its tags.
    #[inline]
    fn insert(&mut self, leaf: LeafId) {
        let Leaf { start, finish, .. } = self.leaves[leaf.index()];
        let lane = self.lane(leaf);
        self.waiting.insert(lane, leaf.0, if lane == ELIGIBLE { finish } else { start });
    }

    /// Moves the leaves that virtual time has reached to those that are eligible.
    #[inline]
    fn release(&mut self) {
        // Ends: each round takes a leaf out of the lane.
        while let Some((start, leaf)) = self.waiting.first(EARLY) {
            if start > self.virtual_time {
                return;
            }
            self.waiting.remove(EARLY, leaf);
            self.waiting.insert(ELIGIBLE, leaf, self.leaves[leaf as usize].finish);
        }
    }

    /// Moves all tags back by the same, so that none ever overflows.
    #[cold]
    fn renew(&mut self) {
        let back = self.virtual_time - RENEWAL / 2;
        self.waiting.change_keys(|tag| tag.saturating_sub(back));
        self.virtual_time -= back;
        self.latest = self.latest.saturating_sub(back);
        for leaf in &mut self.leaves {
            leaf.start = leaf.start.saturating_sub(back);
            leaf.finish = leaf.finish.saturating_sub(back);
        }
    }
}

/// The lane of leaves whose start tag virtual time has not reached.
const EARLY: usize = 0;
/// The lane of those that may send.
const ELIGIBLE: usize = 1;
/// At this tags are moved back; none is more than 2^60 later.
const RENEWAL: u64 = 1 << 61;
/// No tag is later.
const TAG_MAX: u64 = 1 << 62;

state!(Wf2q {
    leaves, waiting, virtual_time, latest, sending, sender;
    kept: shift;
    check: |wf2q: &Self| wf2q.virtual_time.max(wf2q.latest) <= TAG_MAX
});
state!(Leaf {
    start, finish; kept: inverse; check: |leaf: &Self| leaf.start.max(leaf.finish) <= TAG_MAX
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::twins::{self, Twin};

    /// The rule of the header, found by asking all leaves.
    struct Plain<const LONGEST: u64>;

    impl<const LONGEST: u64> Twin<Wf2q> for Plain<LONGEST> {
        // A byte takes a nanosecond.
        const LINE: u64 = 8_000_000_000;
        const DROPS: bool = true;
        const LONGEST: u64 = LONGEST;

        fn new(_tree: &Tree) -> Self {
            Self
        }

        fn choice(&self, wf2q: &Wf2q) -> Option<usize> {
            let waits = |&leaf: &usize| wf2q.waiting.contains(leaf as u32);
            let waiting: Vec<_> = (0..wf2q.leaves.len()).filter(waits).collect();
            let first = waiting.iter().map(|&leaf| wf2q.leaves[leaf].start).min()?;
            let reached = wf2q.virtual_time.max(first);
            let eligible = waiting.into_iter().filter(|&leaf| wf2q.leaves[leaf].start <= reached);
            eligible.min_by_key(|&leaf| (wf2q.leaves[leaf].finish, leaf))
        }
    }

    #[test]
    fn it_chooses_what_the_plain_rule_chooses() {
        twins::check_many::<Wf2q, Plain<{ twins::MTU }>>(12);
        twins::check::<Wf2q, Plain<{ twins::MTU }>>(1, &[1; 400]);
    }

    #[test]
    fn it_chooses_so_among_packets_of_one_length() {
        twins::check_many::<Wf2q, Plain<1>>(12);
        for leaves in [1, 2, 8, 100, 400] {
            (0..4).for_each(|seed| twins::check::<Wf2q, Plain<1>>(seed, &alloc::vec![1; leaves]));
            (0..4).for_each(|seed| twins::check::<Wf2q, Plain<2>>(seed, &alloc::vec![1; leaves]));
        }
    }

    #[test]
    fn a_leaf_that_was_ahead_is_still_ahead_after_a_change_of_the_tree() {
        twins::check_change(|wf2q: &Wf2q, leaf| {
            (wf2q.leaves[leaf].start - wf2q.virtual_time) >> wf2q.shift
        });
    }
}
