//! One queue: packets leave in the order in which they came, whatever their leaf.
//!
//! Invariant: `order` holds one entry for each waiting packet, plus `stale[leaf]` entries of
//! packets that were dropped, which are skipped when they come to the front. The yardstick of
//! benchmarks.

use super::{Cost, Descriptor, Discipline, Head, Promises, Scheduler, Selection, Tree};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::units::{Bytes, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// First in, first out over all leaves.
pub struct Fifo {
    order: VecDeque<LeafId>,
    waiting: Vec<u32>,
    stale: Vec<u32>,
}

impl Discipline for Fifo {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "fifo",
        summary: "One queue in order of arrival.",
        parameters: &[],
        sources: &["risso99 §2"],
        promises: Promises { work_conserving: true, hierarchical: false, cost: Cost::Constant },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let leaves = tree.leaf_count();
        Ok(Self {
            order: VecDeque::new(),
            waiting: alloc::vec![0; leaves],
            stale: alloc::vec![0; leaves],
        })
    }
}

impl Scheduler for Fifo {
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.order.push_back(leaf);
        self.waiting[leaf.index()] += 1;
    }

    fn select(&mut self, _now: Instant) -> Selection {
        while let Some(&leaf) = self.order.front() {
            let stale = &mut self.stale[leaf.index()];
            if *stale == 0 {
                return Selection::Leaf(leaf);
            }
            *stale -= 1;
            self.order.pop_front();
        }
        Selection::Idle
    }

    fn charge(&mut self, _now: Instant, leaf: LeafId, _sent: Bytes, next: Option<Head>) {
        assert_eq!(self.order.pop_front(), Some(leaf), "the leaf in front was selected");
        self.waiting[leaf.index()] -= 1;
        self.settle(leaf, next);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        self.waiting[leaf.index()] -= 1;
        self.stale[leaf.index()] += 1;
        self.settle(leaf, head);
    }
}

impl Fifo {
    /// An empty leaf waits for nothing: entries left over from drops inside its queue are stale.
    fn settle(&mut self, leaf: LeafId, next: Option<Head>) {
        if next.is_none() {
            self.stale[leaf.index()] += core::mem::take(&mut self.waiting[leaf.index()]);
        }
    }
}
