//! The packets that wait: one FIFO a leaf, in one store shared by all leaves.
//!
//! The store is one table of entries, allocated once; a leaf's FIFO is a chain through it, so no
//! packet allocates. Invariant: every entry is in exactly one chain, that of a leaf or the free
//! one.

use super::{Admission, AnyDropper, Dropper, QueuePlan};
use crate::account::Count;
use crate::ids::{Handle, LeafId};
use crate::parameter::BuildError;
use crate::sched::Head;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// What the queue knows of a waiting packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which packet.
    pub handle: Handle,
    /// The length that schedulers charge.
    pub charged: u32,
    /// The length on the wire.
    pub wire: u32,
    /// When the link was offered it.
    pub arrived: Instant,
}

/// The queues of all leaves.
pub struct Queues {
    slots: Vec<Slot>,
    free: u32,
    leaves: Vec<Leaf>,
    packets: u32,
}

struct Slot {
    entry: Entry,
    next: u32,
}

struct Leaf {
    first: u32,
    /// Meaningless while `first` is [`NONE`].
    last: u32,
    dropper: AnyDropper,
}

impl Entry {
    /// The length that schedulers charge.
    pub const fn charged(&self) -> Bytes {
        Bytes::new(self.charged as u64)
    }

    /// What schedulers see of the packet when it waits first.
    pub const fn head(&self) -> Head {
        Head { length: self.charged(), arrived: self.arrived }
    }
}

impl Queues {
    /// Queues for `plans`, which together hold at most `packets_max` packets.
    ///
    /// # Errors
    /// When a dropper refuses its parameters.
    pub fn new(plans: &[QueuePlan], packets_max: u32) -> Result<Self, BuildError> {
        let mut leaves = Vec::with_capacity(plans.len());
        for plan in plans {
            let dropper = AnyDropper::build(plan)?;
            leaves.push(Leaf { first: NONE, last: NONE, dropper });
        }
        let empty = Entry { handle: Handle(0), charged: 0, wire: 0, arrived: Instant::ZERO };
        let chain = |index: u32| if index + 1 < packets_max { index + 1 } else { NONE };
        let slots = (0..packets_max).map(|index| Slot { entry: empty, next: chain(index) });
        Ok(Self {
            slots: slots.collect(),
            free: if packets_max > 0 { 0 } else { NONE },
            leaves,
            packets: 0,
        })
    }

    /// What the dropper of `leaf`, which holds `backlog`, says to `entry`.
    #[inline]
    pub fn admit(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &Entry,
        backlog: Count,
    ) -> Admission {
        self.leaves[leaf.index()].dropper.admit(now, entry.charged(), backlog)
    }

    /// Whether the store has no room, whatever a dropper says.
    pub const fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// Puts `entry` at the end of `leaf`, in a store that is not full; answers which packet is
    /// first there.
    #[inline]
    pub fn push(&mut self, leaf: LeafId, entry: Entry) -> Head {
        let slot = self.free;
        let free = &mut self.slots[slot as usize];
        self.free = free.next;
        *free = Slot { entry, next: NONE };
        self.packets += 1;
        let state = &mut self.leaves[leaf.index()];
        let last = core::mem::replace(&mut state.last, slot);
        if state.first == NONE {
            state.first = slot;
            return entry.head();
        }
        self.slots[last as usize].next = slot;
        self.slots[state.first as usize].entry.head()
    }

    /// Takes the first packet of `leaf`, which holds one; answers it and the one that is first now.
    #[inline]
    pub fn pop(&mut self, leaf: LeafId) -> (Entry, Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        let slot = self.slots.get_mut(state.first as usize).expect("only a backlogged leaf sends");
        let entry = slot.entry;
        let next = core::mem::replace(&mut slot.next, self.free);
        self.free = core::mem::replace(&mut state.first, next);
        self.packets -= 1;
        (entry, self.slots.get(next as usize).map(|slot| slot.entry.head()))
    }

    /// The first packet of `leaf` as schedulers see it.
    pub fn head(&self, leaf: LeafId) -> Option<Head> {
        let first = self.leaves[leaf.index()].first;
        self.slots.get(first as usize).map(|slot| slot.entry.head())
    }

    /// Packets that wait in all leaves.
    pub const fn packets(&self) -> u32 {
        self.packets
    }
}

/// The end of a chain.
const NONE: u32 = u32::MAX;
