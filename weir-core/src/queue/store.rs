//! The packets that wait: one FIFO a leaf, in one store shared by all leaves.
//!
//! The store is one table of entries, allocated once; a leaf's FIFO is a chain through it, so no
//! packet allocates. Invariant: every entry is in exactly one chain, that of a leaf or the free
//! one.

use super::shared::Shared;
use super::{Admission, AnyDropper, Candidate, Dropper, ECN_MASK, Place, Release};
use crate::account::Count;
use crate::ids::{Handle, LeafId};
use crate::link::LinkPlan;
use crate::parameter::BuildError;
use crate::sched::Head;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
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
    /// DSCP and ECN, as they shall leave.
    pub traffic_class: u8,
    /// Whether the traffic class is another than the packet came with.
    pub marked: bool,
}

/// The queues of all leaves.
pub struct Queues {
    slots: Vec<Slot>,
    free: u32,
    leaves: Vec<Leaf>,
    packets: u32,
    /// Apart, since most links have none.
    shared: Option<Box<Shared>>,
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

    /// Writes into the packet that it met congestion.
    pub const fn mark_congestion(&mut self) {
        self.traffic_class |= ECN_MASK;
        self.marked = true;
    }

    /// What droppers see of the packet.
    const fn candidate(&self) -> Candidate {
        Candidate {
            length: self.charged(),
            arrived: self.arrived,
            traffic_class: self.traffic_class,
        }
    }

    /// What schedulers see of the packet when it waits first.
    pub const fn head(&self) -> Head {
        Head { length: self.charged(), arrived: self.arrived }
    }
}

impl Queues {
    /// The queues of `plan`.
    ///
    /// # Errors
    /// When a dropper refuses its parameters.
    pub fn new(plan: &LinkPlan) -> Result<Self, BuildError> {
        let packets_max = plan.packets_max;
        let mut leaves = Vec::with_capacity(plan.queues.len());
        for (index, queue) in plan.queues.iter().enumerate() {
            let leaf = LeafId(index as u32);
            let (rate, mtu) = (plan.tree.rate(), plan.tree.mtu());
            let place = Place { leaf, rate, mtu, seed: plan.seed };
            let dropper = AnyDropper::build(queue, place)?;
            leaves.push(Leaf { first: NONE, last: NONE, dropper });
        }
        let names = plan.tree.leaves().zip(&leaves).map(|((leaf, class), state)| {
            (plan.tree.class_of(leaf), class.name.as_str(), state.dropper.membership())
        });
        let shared = Shared::new(names)?.map(Box::new);
        let empty = Entry {
            handle: Handle(0),
            charged: 0,
            wire: 0,
            arrived: Instant::ZERO,
            traffic_class: 0,
            marked: false,
        };
        let chain = |index: u32| if index + 1 < packets_max { index + 1 } else { NONE };
        let slots = (0..packets_max).map(|index| Slot { entry: empty, next: chain(index) });
        Ok(Self {
            slots: slots.collect(),
            free: if packets_max > 0 { 0 } else { NONE },
            leaves,
            packets: 0,
            shared,
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
        self.leaves[leaf.index()].dropper.admit(now, entry.candidate(), backlog)
    }

    /// What the dropper of `leaf`, which holds `backlog`, says to its first packet.
    #[inline]
    pub fn release(&mut self, now: Instant, leaf: LeafId, backlog: Count) -> Release {
        let state = &mut self.leaves[leaf.index()];
        let slot = self.slots.get(state.first as usize).expect("only a backlogged leaf sends");
        state.dropper.release(now, slot.entry.candidate(), backlog)
    }

    /// Marks the first packet of `leaf`, which holds one.
    #[cold]
    pub fn mark_first(&mut self, leaf: LeafId) {
        let first = self.leaves[leaf.index()].first;
        self.slots[first as usize].entry.mark_congestion();
    }

    /// Whether the store has no room, whatever a dropper says.
    pub const fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// Puts `entry` at the end of `leaf`, in a store that is not full; answers whether the leaf was
    /// empty.
    #[inline]
    pub fn push(&mut self, leaf: LeafId, entry: Entry) -> bool {
        let slot = self.free;
        let free = &mut self.slots[slot as usize];
        self.free = free.next;
        *free = Slot { entry, next: NONE };
        self.packets += 1;
        if let Some(shared) = &mut self.shared {
            shared.arrived(leaf, entry.charged());
        }
        let state = &mut self.leaves[leaf.index()];
        let last = core::mem::replace(&mut state.last, slot);
        if state.first == NONE {
            state.first = slot;
            return true;
        }
        self.slots[last as usize].next = slot;
        false
    }

    /// Takes the first packet of `leaf`, which holds one; answers it and the one that is first now.
    #[inline]
    pub fn pop(&mut self, now: Instant, leaf: LeafId) -> (Entry, Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        let slot = self.slots.get_mut(state.first as usize).expect("only a backlogged leaf sends");
        let entry = slot.entry;
        let next = core::mem::replace(&mut slot.next, self.free);
        self.free = core::mem::replace(&mut state.first, next);
        self.packets -= 1;
        if let Some(shared) = &mut self.shared {
            shared.left(leaf, entry.charged());
        }
        if next == NONE {
            state.dropper.emptied(now);
            return (entry, None);
        }
        (entry, Some(self.slots[next as usize].entry.head()))
    }

    /// Takes the packet at `position` out of `leaf`, which holds more than so many; answers it and
    /// the one that is first now. The leaf does not count as idle: another packet is about to come.
    pub fn remove(&mut self, leaf: LeafId, position: u32) -> (Entry, Option<Head>) {
        let mut before = NONE;
        let mut slot = self.leaves[leaf.index()].first;
        for _ in 0..position {
            before = slot;
            slot = self.slots[slot as usize].next;
        }
        let removed = self.slots.get_mut(slot as usize).expect("a packet stands at the position");
        let entry = removed.entry;
        let next = core::mem::replace(&mut removed.next, self.free);
        self.free = slot;
        self.packets -= 1;
        if let Some(shared) = &mut self.shared {
            shared.left(leaf, entry.charged());
        }
        let state = &mut self.leaves[leaf.index()];
        if state.last == slot {
            state.last = before;
        }
        match self.slots.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => state.first = next,
        }
        (entry, self.head(leaf))
    }

    /// The leaf that has to drop its first packet, since those that share a limit exceed it.
    #[inline]
    pub fn victim(&mut self) -> Option<LeafId> {
        self.shared.as_mut()?.victim()
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
