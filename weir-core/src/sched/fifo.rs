//! One queue: packets leave in the order in which they arrived, whatever their leaf.
//!
//! Benchmarks use it as the yardstick. Invariant: the packet that arrived first leaves first, and
//! nothing else matters.

use super::{
    Calls, Changes, Cost, Descriptor, Discipline, Explains, Head, Promises, Refit, RefitError,
    Scheduler, Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::arrivals::Arrivals;
use crate::parameter::BuildError;
use crate::state::state;
use crate::units::{Bytes, Instant};

/// First in, first out over all leaves.
pub struct Fifo {
    arrivals: Arrivals,
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

    const CALLS: Calls = Calls {
        peeks: false,
        polls_empty_leaves: true,
        passes_empty_leaves: true,
        per_packet: true,
        ..Calls::DEFAULT
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        Ok(Self { arrivals: Arrivals::new(tree.leaf_count()) })
    }
}

impl Scheduler for Fifo {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.arrivals.push(leaf);
    }

    #[inline]
    fn joined(&mut self, _now: Instant, leaf: LeafId, _length: Bytes) {
        self.arrivals.push(leaf);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        self.arrivals.first().map_or(Selection::Idle, Selection::Leaf)
    }

    #[inline]
    fn charge(&mut self, _now: Instant, _leaf: LeafId, _sent: Bytes, _next: Option<Head>) {
        self.arrivals.pop();
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, _head: Option<Head>) {
        self.arrivals.drop_from(leaf);
    }
}

impl Explains for Fifo {
    fn service(_tree: &Tree) -> Service {
        Service::Arrivals { shaper: None }
    }
}

impl Changes for Fifo {
    const REFITS: bool = true;

    fn refit(
        &mut self,
        _now: Instant,
        _tree: &Tree,
        _leaf: LeafId,
        _refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.arrivals.agrees(waiting.packets)
    }
}

state!(Fifo { arrivals });
