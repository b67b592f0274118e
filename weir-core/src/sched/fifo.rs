//! One queue: packets leave in the order in which they came, whatever their leaf.
//!
//! Invariant: `order` holds one entry for each waiting packet, plus the `stale` entries of packets
//! that were dropped, which are skipped when they come to the front. The yardstick of
//! benchmarks.

use super::leaf_ring::LeafRing;
use super::{Cost, Descriptor, Discipline, Head, Promises, Scheduler, Selection, Tree};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// First in, first out over all leaves.
pub struct Fifo {
    order: LeafRing,
    leaves: Vec<Entries>,
}

/// How many entries in `order` a leaf has.
#[derive(Clone, Copy, Default)]
struct Entries {
    /// Of packets that wait.
    waiting: u32,
    /// Of packets that were dropped; these come first.
    stale: u32,
}

impl Discipline for Fifo {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "fifo",
        summary: "One queue in order of arrival.",
        parameters: &[],
        sources: &["risso99 §2"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let leaves = alloc::vec![Entries::default(); tree.leaf_count()];
        Ok(Self { order: LeafRing::with_capacity(leaves.len()), leaves })
    }
}

impl Scheduler for Fifo {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.order.push_back(leaf);
        self.leaves[leaf.index()].waiting += 1;
    }

    #[inline]
    fn joined(&mut self, _now: Instant, leaf: LeafId, _length: Bytes) {
        self.order.push_back(leaf);
        self.leaves[leaf.index()].waiting += 1;
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        while let Some(leaf) = self.order.front() {
            let entries = &mut self.leaves[leaf.index()];
            if entries.stale == 0 {
                return Selection::Leaf(leaf);
            }
            entries.stale -= 1;
            self.order.pop_front();
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, _sent: Bytes, next: Option<Head>) {
        assert_eq!(self.order.front(), Some(leaf), "the leaf in front was selected");
        self.order.pop_front();
        let entries = &mut self.leaves[leaf.index()];
        entries.waiting -= 1;
        entries.settle(next);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let entries = &mut self.leaves[leaf.index()];
        entries.waiting -= 1;
        entries.stale += 1;
        entries.settle(head);
    }
}

impl Entries {
    /// An empty leaf waits for nothing: entries left over from drops inside its queue are stale.
    fn settle(&mut self, next: Option<Head>) {
        if next.is_none() {
            self.stale += core::mem::take(&mut self.waiting);
        }
    }
}
