//! The packets that wait: one FIFO a leaf, in one store shared by all leaves.
//!
//! Layout decides the speed here. A leaf is one cache line: its first packet, its counts, and the
//! backlog up to which its dropper need not be asked. Further packets wait in slots of one table,
//! allocated once and chained, so no packet allocates and a burst meets two lines a packet, whose
//! addresses are known early (`crate::ahead`). Invariant: every slot in use is in
//! exactly one chain, that of a leaf or the free one; what a leaf counts is what its chain holds.

use super::flows::{FlowHash, UNKNOWN_FLOW};
use super::shared::Shared;
use super::{
    Admission, AnyDropper, Candidate, Dropper, ECN_MASK, Limit, Place, QueuePlan, Release, Surplus,
};
use crate::account::{Account, Count, LeafAccount};
use crate::event::{Departure, DropReason, Mark};
use crate::explain::Leaving;
use crate::ids::{Handle, LeafId};
use crate::line::Line;
use crate::link::LinkPlan;
use crate::parameter::BuildError;
use crate::prefetch::Prefetch;
use crate::sched::{Head, Kin};
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// What the queue knows of a waiting packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which packet.
    pub handle: Handle,
    /// The length that schedulers charge.
    pub charged: u32,
    /// The length on the wire.
    pub wire: u32,
    /// What is written on it.
    pub label: Label,
    /// When the link was offered it.
    pub arrived: Instant,
}

/// DSCP and ECN of a packet as they shall leave, whether it came with others, and which flow of its
/// leaf it belongs to: one word, so that it is written at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

/// The queues of all leaves, and what was counted of them.
pub struct Queues {
    leaves: Vec<Leaf>,
    /// The last is spare: it stands for the second packet of a leaf that has none.
    slots: Vec<Slot>,
    /// The first free slot: there always is one, for the first packet of a leaf needs none.
    free: u32,
    /// How many more packets may wait.
    room: u32,
    packets_max: u32,
    droppers: Droppers,
    drops: Drops,
    /// The limit that some leaves share. Their droppers are asked for every packet, so others' cost
    /// nothing for it.
    shared: Option<Box<Shared>>,
    flow_hash: FlowHash,
}

/// What every packet of a leaf touches: one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Leaf {
    /// The first packet; meaningless while none waits.
    first: Entry,
    /// The slot of the second packet; any number with fewer than two.
    second: u32,
    /// The slot of the last packet; any slot with fewer than two.
    last: u32,
    packets: u32,
    unasked: Unasked,
    sent_packets: u64,
    bytes: u64,
    // Not beside the packets, or both would be counted by one wide addition, which is slower.
    sent_bytes: u64,
}

/// A packet that is not first in its leaf.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub entry: Entry,
    pub next: u32,
}

/// How many packets may wait so that the dropper need not be asked about one more. 0: ask always.
/// Negative: ask about every arrival, but about no departure.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Unasked(i32);

/// The droppers of all leaves; leaves that are planned alike share one that keeps nothing.
struct Droppers {
    list: Vec<AnyDropper>,
    /// By leaf, which one it has; empty where all have the first.
    places: Vec<u32>,
}

/// Drops by leaf and reason; only leaves that dropped take memory.
#[derive(Default)]
struct Drops {
    /// By leaf, 1 + the place in `counts`; empty while nobody dropped.
    places: Vec<u32>,
    counts: Vec<[Count; DropReason::ALL.len()]>,
}

impl Entry {
    /// The length that schedulers charge.
    pub const fn charged(&self) -> Bytes {
        Bytes::new(self.charged as u64)
    }

    /// Writes into the packet that it met congestion.
    pub const fn mark_congestion(&mut self) {
        self.label.rewrite(self.label.traffic_class() | ECN_MASK);
    }

    /// The packet as it leaves now, over `line`, which was told so.
    #[inline(always)]
    pub(crate) fn departure(&self, now: Instant, leaf: LeafId, line: &mut Line) -> Departure {
        Departure {
            handle: self.handle,
            leaf,
            charged: self.charged(),
            arrived: self.arrived,
            at: now,
            finished: line.send(self.wire),
            mark: self.label.mark(),
        }
    }

    /// The packet as it leaves `leaf`, sent or dropped.
    pub(crate) const fn leaving(&self, leaf: LeafId) -> Leaving {
        Leaving { handle: self.handle, leaf, arrived: self.arrived }
    }

    /// What droppers see of the packet.
    const fn candidate(&self) -> Candidate {
        Candidate {
            length: self.charged(),
            arrived: self.arrived,
            traffic_class: self.label.traffic_class(),
        }
    }

    /// What schedulers see of the packet when it waits first.
    pub const fn head(&self) -> Head {
        Head { length: self.charged(), arrived: self.arrived }
    }

    const EMPTY: Entry =
        Entry { handle: Handle(0), charged: 0, wire: 0, label: Label(0), arrived: Instant::ZERO };
}

impl Label {
    /// That of a packet that came with this traffic class.
    #[inline(always)]
    pub const fn new(traffic_class: u8) -> Self {
        Self(traffic_class as u32)
    }

    /// DSCP and ECN, as they shall leave.
    pub const fn traffic_class(self) -> u8 {
        self.0 as u8
    }

    /// Lets the packet leave with another traffic class than it came with.
    pub const fn rewrite(&mut self, traffic_class: u8) {
        self.0 = self.0 & !0xff | REWRITTEN | traffic_class as u32;
    }

    /// Which flow of its leaf it belongs to: see [`Queues::flow`]. Meaningless in a leaf that keeps
    /// none apart.
    pub const fn flow(self) -> u16 {
        (self.0 >> FLOW_SHIFT) as u16
    }

    /// Names the flow.
    pub const fn assign(&mut self, flow: u16) {
        self.0 = self.0 & ((1 << FLOW_SHIFT) - 1) | (flow as u32) << FLOW_SHIFT;
    }

    /// What the port writes into the packet.
    #[inline(always)]
    const fn mark(self) -> Mark {
        Mark::of_word(self.0 as u16)
    }

    /// Whether its flow is known.
    pub(crate) const fn has_flow(self) -> bool {
        self.flow() != UNKNOWN_FLOW
    }

    /// The same packet where its flow is not known.
    pub(crate) const fn without_flow(mut self) -> Self {
        self.assign(UNKNOWN_FLOW);
        self
    }
}

/// Packets of one leaf that were taken to be sent.
pub struct Run {
    /// How many.
    pub taken: usize,
    /// What they are charged together.
    pub charged: Bytes,
    /// The packet that is first now.
    pub next: Option<Head>,
}

impl Queues {
    /// The queues of `plan`.
    ///
    /// # Errors
    /// When a dropper refuses its parameters.
    pub fn new(plan: &LinkPlan) -> Result<Self, BuildError> {
        let droppers = Droppers::new(plan)?;
        let of = |index: usize| droppers.of(LeafId(index as u32));
        let leaf = |index| Leaf { unasked: Unasked::of(of(index)), ..Leaf::EMPTY };
        let leaves = (0..plan.queues.len()).map(leaf).collect();
        let names = plan.tree.leaves().map(|(leaf, class)| {
            let membership = droppers.of(leaf).membership();
            (plan.tree.class_of(leaf), class.name.as_str(), membership)
        });
        let shared = Shared::new(names)?.map(Box::new);
        Ok(Self {
            leaves,
            slots: (1..=plan.packets_max).chain([NONE; 2]).map(Slot::free_before).collect(),
            free: 0,
            room: plan.packets_max,
            packets_max: plan.packets_max,
            droppers,
            drops: Drops::default(),
            shared,
            flow_hash: FlowHash::new(plan.seed),
        })
    }

    /// Keeps room for so many packets, if there is so much. Each is then pushed as reserved, or its
    /// room is given back.
    #[inline]
    pub(crate) fn reserve(&mut self, packets: usize) -> bool {
        let rest = (self.room as usize).checked_sub(packets);
        self.room = rest.map_or(self.room, |rest| rest as u32);
        rest.is_some()
    }

    /// Gives back the room of so many packets.
    #[inline(always)]
    pub(crate) fn give_back(&mut self, packets: u32) {
        self.room += packets;
    }

    /// Puts `entry` at the end of `leaf` if its dropper need not be asked and the store has room,
    /// which it has if that was `RESERVED`; answers whether the leaf was empty, `None` if somebody
    /// is to be asked.
    #[inline(always)]
    pub fn push_unasked<const RESERVED: bool>(
        &mut self,
        leaf: LeafId,
        entry: Entry,
    ) -> Option<bool> {
        let state = &mut self.leaves[leaf.index()];
        let before = state.packets;
        if before as i32 >= state.unasked.0 {
            return None;
        }
        if !RESERVED {
            self.room = self.room.checked_sub(1)?;
        }
        state.bytes += u64::from(entry.charged);
        state.packets = before + 1;
        if before == 0 {
            state.first = entry;
            return Some(true);
        }
        let slot = self.free;
        let filled = &mut self.slots[slot as usize];
        self.free = filled.next;
        // Its `next` is written when another packet comes behind it.
        filled.entry = entry;
        let last = core::mem::replace(&mut state.last, slot);
        // No branch: whether two wait already is hard to foresee.
        let behind_last = &mut self.slots[last as usize].next;
        *(if before == 1 { &mut state.second } else { behind_last }) = slot;
        Some(false)
    }

    /// Which flow of its leaf a packet belongs to that has this [`crate::link::Packet::flow`].
    #[inline]
    pub fn flow(&self, flow: u32) -> u16 {
        self.flow_hash.of(flow)
    }

    /// What the dropper of `leaf` says to `entry`.
    #[inline]
    pub fn admit(&mut self, now: Instant, leaf: LeafId, entry: &Entry) -> Admission {
        let backlog = self.backlog(leaf);
        self.droppers.of_mut(leaf).admit(now, entry.candidate(), backlog)
    }

    /// Whether the dropper of `leaf` refuses whatever arrives now, as it would say if asked.
    #[inline]
    pub(crate) fn refuses(&self, leaf: LeafId) -> bool {
        let Leaf { packets, unasked, .. } = self.leaves[leaf.index()];
        let is_above = unasked.0 > 0 && packets as i32 >= unasked.0;
        is_above && self.droppers.of(leaf).refuses_above()
    }

    /// What the dropper of `leaf` says to its first packet.
    pub fn release(&mut self, now: Instant, leaf: LeafId) -> Release {
        let first = self.leaves[leaf.index()].first;
        let backlog = self.backlog(leaf);
        assert!(backlog.packets > 0, "only a backlogged leaf sends");
        self.droppers.of_mut(leaf).release(now, first.candidate(), backlog)
    }

    /// Tells the dropper of `leaf` that the last packet left, if it did.
    pub fn check_emptied(&mut self, now: Instant, leaf: LeafId) {
        if self.leaves[leaf.index()].packets == 0 {
            self.droppers.of_mut(leaf).emptied(now);
        }
    }

    /// Marks the first packet of `leaf`, which holds one.
    pub fn mark_first(&mut self, leaf: LeafId) {
        self.leaves[leaf.index()].first.mark_congestion();
    }

    /// Whether the store has no room, whatever a dropper says.
    pub const fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Puts `entry` at the end of `leaf`, in a store that is not full; answers whether the leaf was
    /// empty.
    pub fn push(&mut self, leaf: LeafId, entry: Entry) -> bool {
        if self.droppers.of(leaf).flows().is_some() {
            return self.push_to_flow(leaf, entry);
        }
        let unasked = core::mem::replace(&mut self.leaves[leaf.index()].unasked, Unasked::ALL);
        let pushed = self.push_unasked::<false>(leaf, entry);
        self.leaves[leaf.index()].unasked = unasked;
        if let Some(shared) = &mut self.shared {
            shared.arrived(leaf, entry.charged());
        }
        pushed.expect("the store has room")
    }

    /// The same for a leaf that keeps flows apart.
    fn push_to_flow(&mut self, leaf: LeafId, entry: Entry) -> bool {
        assert!(!self.is_full(), "the store has room");
        let Some(flows) = self.droppers.of_mut(leaf).flows_mut() else { return false };
        let slot = self.free;
        let filled = &mut self.slots[slot as usize];
        self.free = filled.next;
        *filled = Slot { entry, next: NONE };
        flows.join(&mut self.slots, slot);
        let state = &mut self.leaves[leaf.index()];
        self.room -= 1;
        state.packets += 1;
        state.bytes += u64::from(entry.charged);
        if state.packets > 1 {
            return false;
        }
        state.first = entry;
        let chosen = flows.choose(&mut self.slots);
        self.slots[chosen as usize].next = core::mem::replace(&mut self.free, chosen);
        true
    }

    /// Takes the first packet of `leaf`, which holds one, to be sent; answers it and the one that
    /// is first now.
    #[inline(always)]
    pub fn send(&mut self, leaf: LeafId) -> (Entry, Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        state.sent_packets += 1;
        state.sent_bytes += u64::from(state.first.charged);
        if let Some(shared) = &mut self.shared {
            shared.left(leaf, state.first.charged());
        }
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            flows.sent(state.first.charged);
            state.second = flows.choose(&mut self.slots);
        }
        state.pop(&mut self.room, &mut self.slots, &mut self.free)
    }

    /// The same, unless the dropper of `leaf` is to be asked first.
    #[inline(always)]
    pub fn send_unasked(&mut self, leaf: LeafId) -> Option<(Entry, Option<Head>)> {
        let mut room = 0;
        let sent = self.send_into(leaf, &mut room);
        self.give_back(room);
        sent
    }

    /// The same; its room is added to `room`, to be given back later.
    #[inline(always)]
    pub(crate) fn send_into(
        &mut self,
        leaf: LeafId,
        room: &mut u32,
    ) -> Option<(Entry, Option<Head>)> {
        let state = &mut self.leaves[leaf.index()];
        if state.unasked == Unasked::ALWAYS {
            return None;
        }
        state.sent_packets += 1;
        state.sent_bytes += u64::from(state.first.charged);
        Some(state.pop(room, &mut self.slots, &mut self.free))
    }

    /// Takes packets of a leaf, which holds one, to be sent, from the first on: at most one for
    /// each element of `out`, further ones as long as all together are charged at most
    /// `allowance`, and as long as the line has room at its horizon. `None` if the leaf's dropper
    /// is to be asked first.
    #[inline(always)]
    pub(crate) fn send_run(
        &mut self,
        at: (Instant, LeafId),
        allowance: Bytes,
        line: (&mut Line, Instant),
        out: &mut [Departure],
    ) -> Option<Run> {
        let ((now, leaf), (whole_line, horizon)) = (at, line);
        let state = &mut self.leaves[leaf.index()];
        if state.unasked == Unasked::ALWAYS {
            return None;
        }
        assert!(state.packets > 0, "only a backlogged leaf sends");
        let Leaf { first: mut entry, second: mut slot, packets, .. } = *state;
        // A copy, so that nothing in the loop goes through memory.
        let mut line = *whole_line;
        line.begin(now);
        let (place, others) = out.split_first_mut().expect("there is room for a packet");
        *place = entry.departure(now, leaf, &mut line);
        let mut charged = u64::from(entry.charged);
        let most = others.len().min(packets as usize - 1);
        let allowed = allowance.get().saturating_sub(charged);
        let (mut rest, mut left) = (allowed, most);
        for place in &mut others[..most] {
            let behind = &self.slots[slot as usize];
            match rest.checked_sub(u64::from(behind.entry.charged)) {
                Some(after) if line.has_room(horizon) => rest = after,
                _ => break,
            }
            entry = behind.entry;
            slot = behind.next;
            left -= 1;
            *place = entry.departure(now, leaf, &mut line);
        }
        charged += allowed - rest;
        let taken = (most - left) as u32 + 1;
        *whole_line = line;
        state.packets -= taken;
        state.bytes -= charged;
        state.sent_packets += u64::from(taken);
        state.sent_bytes += charged;
        self.room += taken;
        // The slots that were read are a chain already: from the second to this one.
        let freed = if state.packets > 0 { slot } else { state.last };
        let second = state.second;
        let mut next = None;
        if state.packets > 0 {
            let behind = &self.slots[slot as usize];
            state.first = behind.entry;
            state.second = behind.next;
            next = Some(behind.entry.head());
        }
        if packets > 1 {
            self.slots[freed as usize].next = core::mem::replace(&mut self.free, second);
        }
        Some(Run { taken: taken as usize, charged: Bytes::new(charged), next })
    }

    /// Drops the packet at `position` of `leaf`, which holds more than so many; answers it and the
    /// one that is first now.
    pub fn evict(
        &mut self,
        leaf: LeafId,
        position: u32,
        reason: DropReason,
    ) -> (Entry, Option<Head>) {
        let (entry, first) =
            if position == 0 { self.pop(leaf) } else { self.take_behind(leaf, position) };
        self.drops.count(self.leaves.len(), leaf, reason, entry.charged());
        if let Some(shared) = &mut self.shared {
            shared.left(leaf, entry.charged());
        }
        (entry, first)
    }

    /// Counts a packet that is not let in.
    #[inline]
    pub fn refuse(&mut self, leaf: LeafId, charged: Bytes, reason: DropReason) {
        self.drops.count(self.leaves.len(), leaf, reason, charged);
    }

    /// A packet that `leaf` holds too much: its flows, if it keeps any apart, hold more than their
    /// limit.
    pub fn surplus(&mut self, leaf: LeafId) -> Option<Surplus> {
        self.droppers.of_mut(leaf).flows_mut()?.surplus()
    }

    /// Drops the first packet of the flow with this number, which is not the first of its `leaf`;
    /// answers it.
    pub fn evict_from_flow(&mut self, leaf: LeafId, flow: u32, reason: DropReason) -> Entry {
        let flows = self.droppers.of_mut(leaf).flows_mut();
        let slot = flows.expect("its flows were asked").drop_behind(&mut self.slots, flow);
        let removed = &mut self.slots[slot as usize];
        let entry = removed.entry;
        removed.next = core::mem::replace(&mut self.free, slot);
        let state = &mut self.leaves[leaf.index()];
        self.room += 1;
        state.packets -= 1;
        state.bytes -= u64::from(entry.charged);
        self.drops.count(self.leaves.len(), leaf, reason, entry.charged());
        entry
    }

    fn pop(&mut self, leaf: LeafId) -> (Entry, Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            flows.dropped_first(state.first.charged);
            state.second = flows.choose(&mut self.slots);
        }
        state.pop(&mut self.room, &mut self.slots, &mut self.free)
    }

    /// Takes the packet at `position`, which is not 0, out of the chain of `leaf`.
    fn take_behind(&mut self, leaf: LeafId, position: u32) -> (Entry, Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        let mut before = NONE;
        let mut slot = state.second;
        for _ in 1..position {
            before = slot;
            slot = self.slots[slot as usize].next;
        }
        let removed = self.slots.get_mut(slot as usize).expect("a packet stands at the position");
        let entry = removed.entry;
        let next = core::mem::replace(&mut removed.next, self.free);
        self.free = slot;
        self.room += 1;
        state.packets -= 1;
        state.bytes -= u64::from(entry.charged);
        if state.last == slot && before != NONE {
            state.last = before;
        }
        match self.slots.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => state.second = next,
        }
        (entry, Some(state.first.head()))
    }

    /// Whether `leaf` shares its limit with others.
    pub fn shares(&self, leaf: LeafId) -> bool {
        self.droppers.of(leaf).membership().is_some()
    }

    /// The leaf that has to drop its first packet, since those that share a limit exceed it.
    pub fn victim(&mut self) -> Option<LeafId> {
        self.shared.as_mut()?.victim()
    }

    /// The first packet of `leaf` as schedulers see it.
    pub fn head(&self, leaf: LeafId) -> Option<Head> {
        let state = &self.leaves[leaf.index()];
        (state.packets > 0).then(|| state.first.head())
    }

    /// The first packet of `leaf`; meaningless while none waits.
    pub fn first(&self, leaf: LeafId) -> Entry {
        self.leaves[leaf.index()].first
    }

    /// How many leaves there are.
    pub const fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// What waits in `leaf`.
    pub fn backlog(&self, leaf: LeafId) -> Count {
        let Leaf { packets, bytes, .. } = self.leaves[leaf.index()];
        Count { packets: u64::from(packets), bytes }
    }

    /// Packets that wait in all leaves.
    #[inline(always)]
    pub const fn packets(&self) -> u32 {
        self.packets_max - self.room
    }

    /// The packets of `leaf` in their order; where flows are kept apart, flow by flow. Elsewhere
    /// their flow is not known.
    pub fn waiting(&self, leaf: LeafId) -> Vec<Entry> {
        let state = &self.leaves[leaf.index()];
        if state.packets == 0 {
            return Vec::new();
        }
        let heads = match self.droppers.of(leaf).flows() {
            Some(flows) => flows.heads().collect(),
            None => alloc::vec![state.second],
        };
        let mut packets = alloc::vec![state.first];
        for mut slot in heads {
            while slot != NONE && packets.len() < state.packets as usize {
                let Slot { entry, next } = self.slots[slot as usize];
                packets.push(entry);
                slot = next;
            }
        }
        if self.droppers.of(leaf).flows().is_none() {
            packets.iter_mut().for_each(|entry| entry.label = entry.label.without_flow());
        }
        packets
    }

    /// Takes over what `old` counted of the leaves that are kin, and the droppers of those whose
    /// queue is planned as before. Packets are not taken over.
    pub(crate) fn inherit(&mut self, old: &mut Queues, kin: &Kin, plans: [&LinkPlan; 2]) {
        for (new, before) in kin.leaves() {
            let (state, past) = (&mut self.leaves[new.index()], &old.leaves[before.index()]);
            state.sent_packets = past.sent_packets;
            state.sent_bytes = past.sent_bytes;
            for (reason, count) in DropReason::ALL.into_iter().zip(old.drops.of(before)) {
                self.drops.add(self.leaves.len(), new, reason, count);
            }
            let [from, to] = plans;
            let same_link = from.tree.rate() == to.tree.rate() && from.tree.mtu() == to.tree.mtu();
            if same_link && from.queues[before.index()] == to.queues[new.index()] {
                let (mine, theirs) = (self.droppers.of_mut(new), old.droppers.of_mut(before));
                core::mem::swap(mine, theirs);
                if let Some(flows) = mine.flows_mut() {
                    flows.forget_packets();
                }
            }
        }
    }

    /// Asks for a leaf.
    #[inline(always)]
    pub(crate) fn ask_for_leaf(&self, leaf: LeafId, prefetch: Prefetch) {
        prefetch.ask(&self.leaves[leaf.index()].packets);
    }

    /// Asks for what a packet needs that goes to the end of `leaf`; answers whether it is empty.
    #[inline(always)]
    pub(crate) fn ask_for_end(&self, leaf: LeafId, prefetch: Prefetch) -> bool {
        let Leaf { packets, last, .. } = self.leaves[leaf.index()];
        if packets > 1 {
            self.ask_for_slot(last, prefetch);
        }
        packets == 0
    }

    /// Asks for the second packet of a leaf, which is first when the one before it was sent;
    /// answers its slot and how many packets the leaf holds.
    #[inline(always)]
    pub(crate) fn ask_for_second(&self, leaf: LeafId, prefetch: Prefetch) -> (u32, u32) {
        let Leaf { packets, second, .. } = self.leaves[leaf.index()];
        if packets > 1 {
            self.ask_for_slot(second, prefetch);
        }
        (second, packets)
    }

    /// Asks for the slot behind this one, which was asked for before; answers which that is.
    #[inline(always)]
    pub(crate) fn ask_behind(&self, slot: u32, prefetch: Prefetch) -> u32 {
        let next = self.slots.get(slot as usize).map_or(NONE, |slot| slot.next);
        self.ask_for_slot(next, prefetch);
        next
    }

    /// Asks for a slot, if there is one.
    #[inline(always)]
    fn ask_for_slot(&self, slot: u32, prefetch: Prefetch) {
        if let Some(slot) = self.slots.get(slot as usize) {
            prefetch.ask(&slot.next);
        }
    }

    /// Whether there are so many leaves that those of a burst are worth reading early.
    #[inline(always)]
    pub const fn are_far(&self) -> bool {
        self.leaves.len() > NEAR_LEAVES
    }

    /// What was counted until now.
    pub fn account(&self) -> Account {
        let leaf = |index| self.leaf_account(LeafId(index as u32));
        Account::new((0..self.leaves.len()).map(leaf).collect())
    }

    fn leaf_account(&self, leaf: LeafId) -> LeafAccount {
        let dropped = self.drops.of(leaf);
        let Leaf { sent_packets: packets, sent_bytes: bytes, .. } = self.leaves[leaf.index()];
        LeafAccount::new(Count { packets, bytes }, dropped, self.backlog(leaf))
    }
}

impl Droppers {
    fn new(plan: &LinkPlan) -> Result<Self, BuildError> {
        let (rate, mtu, seed) = (plan.tree.rate(), plan.tree.mtu(), plan.seed);
        let (mut list, mut places) = (Vec::new(), Vec::new());
        let mut alike: Option<(&QueuePlan, u32)> = None;
        for (index, queue) in plan.queues.iter().enumerate() {
            if let Some((_, place)) = alike.filter(|&(before, _)| before == queue) {
                places.push(place);
                continue;
            }
            let place = list.len() as u32;
            let dropper =
                AnyDropper::build(queue, Place { leaf: LeafId(index as u32), rate, mtu, seed })?;
            if dropper.keeps_nothing() {
                alike = Some((queue, place));
            }
            list.push(dropper);
            places.push(place);
        }
        if list.len() == 1 {
            places.clear();
        }
        list.shrink_to_fit();
        places.shrink_to_fit();
        Ok(Self { list, places })
    }

    #[inline]
    fn place(&self, leaf: LeafId) -> usize {
        self.places.get(leaf.index()).map_or(0, |&place| place as usize)
    }

    #[inline]
    fn of(&self, leaf: LeafId) -> &AnyDropper {
        &self.list[self.place(leaf)]
    }

    #[inline]
    fn of_mut(&mut self, leaf: LeafId) -> &mut AnyDropper {
        let place = self.place(leaf);
        &mut self.list[place]
    }
}

impl Leaf {
    /// Takes the first packet out; `room`, `slots` and `free` are those of the store.
    #[inline(always)]
    fn pop(&mut self, room: &mut u32, slots: &mut [Slot], free: &mut u32) -> (Entry, Option<Head>) {
        let entry = self.first;
        assert!(self.packets > 0, "only a backlogged leaf sends");
        self.packets -= 1;
        self.bytes -= u64::from(entry.charged);
        *room += 1;
        let is_last = self.packets == 0;
        // No branch, for whether it is empty now is hard to foresee: the spare slot stands in.
        let spare = slots.len() as u32 - 1;
        let slot = select_unpredictable(is_last, spare, self.second);
        let second = &mut slots[slot as usize];
        // From the slot, for what was just written is read back late.
        let head = second.entry.head();
        self.first = second.entry;
        self.second = core::mem::replace(&mut second.next, *free);
        *free = select_unpredictable(is_last, *free, slot);
        (entry, (!is_last).then_some(head))
    }

    const EMPTY: Leaf = Leaf {
        first: Entry::EMPTY,
        second: NONE,
        last: 0,
        packets: 0,
        unasked: Unasked::ALWAYS,
        bytes: 0,
        sent_packets: 0,
        sent_bytes: 0,
    };
}

impl Slot {
    /// A free slot, `next` being the next free one.
    const fn free_before(next: u32) -> Slot {
        Slot { entry: Entry::EMPTY, next }
    }
}

impl Unasked {
    /// Whatever comes is taken.
    const ALL: Unasked = Unasked(i32::MAX);
    const ALWAYS: Unasked = Unasked(0);
    const ON_ARRIVAL: Unasked = Unasked(-1);

    fn of(dropper: &AnyDropper) -> Self {
        match dropper.unasked_below() {
            None => Unasked::ALWAYS,
            Some(Limit::Packets(packets)) if packets > 0 => {
                Unasked(i32::try_from(packets).unwrap_or(i32::MAX))
            }
            Some(_) => Unasked::ON_ARRIVAL,
        }
    }
}

impl Drops {
    #[inline]
    fn count(&mut self, leaves: usize, leaf: LeafId, reason: DropReason, bytes: Bytes) {
        let place = self.places.get(leaf.index()).map_or(0, |&place| place as usize);
        match place.checked_sub(1).and_then(|place| self.counts.get_mut(place)) {
            Some(counts) => counts[reason as usize].add(bytes),
            None => self.add(leaves, leaf, reason, Count { packets: 1, bytes: bytes.get() }),
        }
    }

    #[cold]
    fn add(&mut self, leaves: usize, leaf: LeafId, reason: DropReason, count: Count) {
        if count.packets == 0 {
            return;
        }
        if self.places.is_empty() {
            self.places = alloc::vec![0; leaves];
        }
        let place = &mut self.places[leaf.index()];
        if *place == 0 {
            self.counts.push(Default::default());
            *place = self.counts.len() as u32;
        }
        let sum = &mut self.counts[*place as usize - 1][reason as usize];
        *sum = sum.plus(count);
    }

    fn of(&self, leaf: LeafId) -> [Count; DropReason::ALL.len()] {
        match self.places.get(leaf.index()) {
            None | Some(0) => Default::default(),
            Some(&place) => self.counts[place as usize - 1],
        }
    }
}

/// The bit of a label that says that the traffic class is not the one it came with; the seven above
/// stay clear.
const REWRITTEN: u32 = 1 << 8;
/// Where the flow begins in a label.
const FLOW_SHIFT: u32 = 16;
/// No slot.
pub(super) const NONE: u32 = u32::MAX;
/// The state of so many leaves, and what their scheduler keeps beside it, stays in a cache of its
/// own: 64 and some 30 bytes each, against 512 KiB.
const NEAR_LEAVES: usize = 4096;

const _: () = assert!(size_of::<Leaf>() == 64 && size_of::<Slot>() == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::sched::{ClassSpec, Tree};
    use crate::units::Rate;
    use alloc::collections::VecDeque;
    use alloc::string::ToString;

    fn queues(leaves: u32, packets_max: u32) -> Queues {
        let class =
            |index: u32| ClassSpec { name: index.to_string(), parent: None, params: Params::new() };
        let classes = (0..leaves).map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1514), Params::new(), classes).expect("a tree");
        let mut plan = LinkPlan::new("fifo", tree);
        plan.packets_max = packets_max;
        Queues::new(&plan).expect("tail drop takes its defaults")
    }

    /// The plain version: a standard queue for each leaf.
    #[test]
    fn it_agrees_with_standard_queues() {
        let mut random = Random::new(1, 0);
        let mut queues = queues(5, 40);
        let mut plain = alloc::vec![VecDeque::new(); 5];
        for step in 0..50_000u32 {
            let leaf = LeafId(random.below(5));
            let queue: &mut VecDeque<Entry> = &mut plain[leaf.index()];
            let entry =
                Entry { handle: Handle(step), charged: 1 + random.below(9), ..Entry::EMPTY };
            match random.below(6) {
                0..=2 if !queues.is_full() => {
                    assert_eq!(queues.push(leaf, entry), queue.is_empty());
                    queue.push_back(entry);
                }
                3 | 4 if !queue.is_empty() => {
                    let (entry, next) = queues.send(leaf);
                    assert_eq!(Some(entry), queue.pop_front());
                    assert_eq!(next, queue.front().map(Entry::head));
                }
                5 if !queue.is_empty() => {
                    let position = random.below(queue.len() as u32);
                    let (entry, first) = queues.evict(leaf, position, DropReason::Evicted);
                    assert_eq!(Some(entry), queue.remove(position as usize));
                    assert_eq!(first, queue.front().map(Entry::head));
                }
                _ => {}
            }
            let bytes: u32 = plain[leaf.index()].iter().map(|entry| entry.charged).sum();
            assert_eq!(queues.backlog(leaf).bytes, u64::from(bytes));
            assert_eq!(queues.packets() as usize, plain.iter().map(VecDeque::len).sum::<usize>());
        }
        assert!(queues.account().leaves().iter().all(LeafAccount::is_conserved));
    }
}
