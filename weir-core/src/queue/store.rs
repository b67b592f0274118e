//! The packets that wait: one FIFO a leaf, in one store shared by all leaves.
//!
//! The store is one table of entries, allocated once; a leaf's FIFO is a chain through it, so no
//! packet allocates. Invariant: every entry is in exactly one chain, that of a leaf or the free
//! one.

use super::{Admission, AnyDropper, Dropper, Limit, Occupancy, QueuePlan};
use crate::event::DropReason;
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
    last: u32,
    occupancy: Occupancy,
    dropper: AnyDropper,
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
            leaves.push(Leaf { first: NONE, last: NONE, occupancy: Occupancy::default(), dropper });
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

    /// What the dropper of `leaf` says to `entry`; the full store refuses whatever it says.
    pub fn admit(&mut self, now: Instant, leaf: LeafId, entry: &Entry) -> Admission {
        let state = &mut self.leaves[leaf.index()];
        let charged = Bytes::new(u64::from(entry.charged));
        let admission = state.dropper.admit(now, charged, state.occupancy);
        if admission == Admission::Accept && self.free == NONE {
            return Admission::Refuse(DropReason::Store);
        }
        admission
    }

    /// Puts `entry` at the end of `leaf`, after [`Queues::admit`] said [`Admission::Accept`].
    pub fn push(&mut self, leaf: LeafId, entry: Entry) {
        let slot = self.free;
        let free = &mut self.slots[slot as usize];
        self.free = free.next;
        *free = Slot { entry, next: NONE };
        let state = &mut self.leaves[leaf.index()];
        if state.last == NONE {
            state.first = slot;
        } else {
            self.slots[state.last as usize].next = slot;
        }
        state.last = slot;
        state.occupancy.packets += 1;
        state.occupancy.bytes = state.occupancy.bytes.plus(Bytes::new(u64::from(entry.charged)));
        self.packets += 1;
    }

    /// Takes the first packet of `leaf`.
    pub fn pop(&mut self, leaf: LeafId) -> Option<Entry> {
        let state = &mut self.leaves[leaf.index()];
        let slot = state.first;
        if slot == NONE {
            return None;
        }
        let Slot { entry, next } = &mut self.slots[slot as usize];
        let entry = *entry;
        state.first = core::mem::replace(next, self.free);
        self.free = slot;
        if state.first == NONE {
            state.last = NONE;
        }
        state.occupancy.packets -= 1;
        state.occupancy.bytes = state.occupancy.bytes.minus(Bytes::new(u64::from(entry.charged)));
        self.packets -= 1;
        Some(entry)
    }

    /// The first packet of `leaf` as schedulers see it.
    pub fn head(&self, leaf: LeafId) -> Option<Head> {
        let slot = self.slots.get(self.leaves[leaf.index()].first as usize)?;
        let length = Bytes::new(u64::from(slot.entry.charged));
        Some(Head { length, arrived: slot.entry.arrived })
    }

    /// What `leaf` holds.
    pub fn occupancy(&self, leaf: LeafId) -> Occupancy {
        self.leaves[leaf.index()].occupancy
    }

    /// Packets that wait in all leaves.
    pub const fn packets(&self) -> u32 {
        self.packets
    }
}

impl Limit {
    /// The most packets that a leaf with this limit can hold.
    pub const fn packets_max(self) -> u32 {
        match self {
            Limit::Packets(packets) => packets,
            // No packet is charged less than a byte, but 40 is what an IP packet has at least.
            Limit::Bytes(bytes) => (bytes.get() / 40) as u32,
        }
    }
}

/// The end of a chain.
const NONE: u32 = u32::MAX;
