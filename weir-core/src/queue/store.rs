//! The store of waiting packets: one FIFO for each leaf, in one table shared by all leaves.
//!
//! A leaf is one cache line: its first packet, its counts, and the backlog up to which its dropper
//! need not be called. Further packets wait in the slots of one table, chained, so no packet
//! allocates but the one that doubles the table. Invariant: every slot is in exactly one chain,
//! that of a leaf or the free one; a leaf's count is that of its chain.

mod change;
mod holds;

use super::droppers::Droppers;
use super::drops::Drops;
use super::flows::FlowHash;
use super::shared::Shared;
use super::{
    Admission, AnyDropper, Dropper, ECN_MASK, Entry, FlowQueues, HostAccounts, Label, Limit,
    QueuePlan, Reading, Release, Surplus,
};
use crate::account::{Account, Count, LeafAccount};
use crate::event::DropReason;
use crate::ids::{Handle, LeafId};
use crate::packet::{Head, Host, Segment};
use crate::parameter::BuildError;
use crate::state::{Reader, State, StateError, Writer};
use crate::tree::Tree;
use crate::units::Instant;
use crate::units::{Bytes, Rate};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use holds::Holds;

/// The queues of all leaves, and their accounts.
pub struct Queues {
    leaves: Vec<Leaf>,
    slots: Vec<Slot>,
    /// The first free slot.
    free: u32,
    /// The number of further packets that fit.
    room: u32,
    packets_max: u32,
    droppers: Droppers,
    /// Whether flow queues choose the first packet of a leaf when the leaf is selected.
    late: bool,
    drops: Drops,
    /// Whether the packet that joined flow queues last may cost one that waits, or itself.
    costs: bool,
    /// The limit that some leaves share. Their droppers are called for every packet, so it costs
    /// other leaves nothing.
    shared: Option<Box<Shared>>,
    flow_hash: FlowHash,
    /// The segments of packets that are offered next, by handle, where a leaf reads them.
    segments: BTreeMap<Handle, Segment>,
    /// Leaves that hold packets of which none may leave yet; schedulers take them for empty.
    holds: Holds,
}

/// The state of a leaf that every packet touches: one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Leaf {
    /// The first packet; meaningless while none waits.
    first: Entry,
    /// The slot of the second packet; meaningless with fewer than two.
    second: u32,
    /// The slot of the last packet; meaningless with fewer than two.
    last: u32,
    packets: u32,
    uncalled: Uncalled,
    bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
}

/// A packet that is not first in its leaf.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub entry: Entry,
    pub next: u32,
}

/// The number of waiting packets up to which the dropper need not be called for one more. 0: it
/// is always called. Negative: it is called for every arrival, but for no departure.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Uncalled(i32);

impl Queues {
    /// Builds the queues of `plans`, one a leaf of `tree`, with room for `packets_max` packets
    /// together.
    ///
    /// # Errors
    /// When a dropper refuses its parameters.
    pub fn new(
        plans: &[QueuePlan],
        tree: &Tree,
        packets_max: u32,
        seed: u64,
    ) -> Result<Self, BuildError> {
        let droppers = Droppers::new(plans, tree, seed)?;
        let of = |index: usize| droppers.of(LeafId(index as u32));
        let leaf = |index| Leaf { uncalled: Uncalled::of(of(index)), ..Leaf::EMPTY };
        let leaves = (0..plans.len()).map(leaf).collect();
        let names = tree.leaves().map(|(leaf, class)| {
            let membership = droppers.of(leaf).membership();
            (tree.class_of(leaf), class.name.as_str(), membership)
        });
        let shared = Shared::new(names)?.map(Box::new);
        Ok(Self {
            leaves,
            slots: Vec::new(),
            free: NONE,
            room: packets_max,
            packets_max,
            droppers,
            late: false,
            drops: Drops::default(),
            costs: false,
            shared,
            flow_hash: FlowHash::new(seed),
            segments: BTreeMap::new(),
            holds: Holds::default(),
        })
    }

    /// Makes the memory ready that so many packets take, so that it is not when they come.
    pub fn reserve(&mut self, packets: u32) {
        let wanted = packets.min(self.packets_max) as usize;
        let missing = wanted.saturating_sub(self.slots.len());
        add_slots(&mut self.slots, &mut self.free, missing);
    }

    /// Lets flow queues choose the first packet of a leaf when the leaf is selected. Called while
    /// no packet waits.
    pub fn choose_late(&mut self) {
        assert_eq!(self.packets(), 0, "no first packet is chosen yet");
        self.late = true;
        let flows = self.droppers.all_mut().filter_map(Dropper::flows_mut);
        flows.for_each(|flows| flows.set_late(true));
    }

    /// Appends `entry` to `leaf` if its dropper need not be called and the store has room; returns
    /// whether the leaf was empty, `None` if the dropper must be called.
    #[inline(always)]
    pub fn push_without_dropper(&mut self, leaf: LeafId, entry: &Entry) -> Option<bool> {
        let state = &self.leaves[leaf.index()];
        if state.packets as i32 >= state.uncalled.0 || self.room == 0 {
            return None;
        }
        Some(self.append(leaf, entry))
    }

    /// Appends `entry` to the chain of `leaf`; returns whether the leaf was empty.
    #[inline(always)]
    fn append(&mut self, leaf: LeafId, entry: &Entry) -> bool {
        let state = &mut self.leaves[leaf.index()];
        let before = state.packets;
        debug_assert!(self.room > 0, "the store has room");
        self.room -= 1;
        state.packets = before + 1;
        state.bytes += u64::from(entry.charged);
        if before == 0 {
            state.first = *entry;
            return true;
        }
        let slot = free_slot(&mut self.slots, &mut self.free, self.packets_max);
        let filled = &mut self.slots[slot as usize];
        self.free = core::mem::replace(&mut filled.next, NONE);
        filled.entry = *entry;
        let last = core::mem::replace(&mut state.last, slot);
        match before {
            1 => state.second = slot,
            _ => self.slots[last as usize].next = slot,
        }
        false
    }

    /// Returns the label of an arriving packet of `leaf` with the number of its flow there, and
    /// with the traffic class that it leaves with.
    #[inline(always)]
    pub fn label(&mut self, leaf: LeafId, mut label: Label, (host, flow): (Host, u32)) -> Label {
        let class = label.traffic_class();
        let mut own = None;
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            if flows.washes() && class & !ECN_MASK != 0 {
                label.rewrite(class & ECN_MASK);
            }
            own = flows.assign(host, flow, class);
        }
        label.assign(own.unwrap_or_else(|| self.flow_hash.of(flow)));
        label
    }

    /// Returns whether the labels of packets of `leaf` mean nothing in other leaves.
    pub(crate) fn numbers_flows(&self, leaf: LeafId) -> bool {
        self.droppers.of(leaf).flows().is_some_and(FlowQueues::numbers_flows)
    }

    /// Returns the accounts of the hosts of `leaf` that sent most bytes, at most so many; `None`
    /// where hosts do not take turns.
    pub fn hosts(&self, leaf: LeafId, most: usize) -> Option<HostAccounts> {
        self.droppers.of(leaf).flows()?.hosts(most)
    }

    /// Returns the decision of the dropper of `leaf` on `entry`.
    #[inline(always)]
    pub fn admit(&mut self, now: Instant, leaf: LeafId, entry: &Entry) -> Admission {
        let backlog = self.backlog(leaf);
        self.droppers.of_mut(leaf).admit(now, entry.candidate(), backlog)
    }

    /// Returns the decision of the dropper of `leaf` on `entry`, which is not of the flow of the
    /// packet with which it was compared.
    pub fn admit_unlike(&mut self, now: Instant, leaf: LeafId, entry: &Entry) -> Admission {
        let backlog = self.backlog(leaf);
        self.droppers.of_mut(leaf).admit_unlike(now, entry.candidate(), backlog)
    }

    /// Returns whether the packet at `position` of `leaf`, in which all wait in one chain, is of
    /// the flow of `entry`; two unknown flows are not the same. Costs the position.
    pub fn is_same_flow(&self, leaf: LeafId, position: u32, entry: &Entry) -> bool {
        let state = &self.leaves[leaf.index()];
        assert!(position < state.packets, "only a packet that waits is compared");
        let mut waiting = &state.first;
        let mut slot = state.second;
        for _ in 0..position {
            let filled = &self.slots[slot as usize];
            (waiting, slot) = (&filled.entry, filled.next);
        }
        waiting.label.has_flow() && waiting.label.flow() == entry.label.flow()
    }

    /// Returns the decision of the dropper of `leaf` on its first packet, which is chosen.
    #[inline(always)]
    pub fn release(&mut self, now: Instant, leaf: LeafId) -> Release {
        let first = self.leaves[leaf.index()].first;
        let backlog = self.backlog(leaf);
        assert!(backlog.packets > 0, "only a backlogged leaf sends");
        self.droppers.of_mut(leaf).release(now, first.candidate(), backlog)
    }

    /// Chooses the first packet of `leaf`, which is backlogged, if its flow queues did not yet.
    /// Returns until when none may leave, if that is so.
    #[inline(always)]
    pub fn choose_first(&mut self, now: Instant, leaf: LeafId) -> Option<Instant> {
        let flows = self.droppers.of_mut(leaf).flows_mut()?;
        flows.at(now);
        if flows.is_chosen() {
            return None;
        }
        let slot = flows.choose(&mut self.slots);
        if slot == NONE {
            let until = flows.not_before();
            return Some(until.expect("a packet that waits in vain has an instant"));
        }
        self.set_first(leaf, slot);
        None
    }

    /// Makes the packet in `slot`, which is in no chain, the first of `leaf`.
    #[inline]
    fn set_first(&mut self, leaf: LeafId, slot: u32) {
        let chosen = &mut self.slots[slot as usize];
        self.leaves[leaf.index()].first = chosen.entry;
        chosen.next = core::mem::replace(&mut self.free, slot);
    }

    /// Notifies the dropper of `leaf` that the last packet left, if it did.
    #[inline(always)]
    pub fn check_emptied(&mut self, now: Instant, leaf: LeafId) {
        if self.leaves[leaf.index()].packets == 0 {
            self.emptied(now, leaf);
        }
    }

    #[inline(never)]
    fn emptied(&mut self, now: Instant, leaf: LeafId) {
        self.droppers.of_mut(leaf).emptied(now);
    }

    /// Marks the first packet of `leaf`, which is backlogged.
    pub fn mark_first(&mut self, leaf: LeafId) {
        let state = &mut self.leaves[leaf.index()];
        debug_assert!(state.packets > 0, "only a packet that waits is marked");
        state.first.mark_congestion();
    }

    /// Returns whether the store has no room, whatever a dropper decides.
    pub const fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Appends `entry`, which its dropper accepted, to a store that is not full; returns whether
    /// the leaf was empty.
    #[inline(always)]
    pub fn push(&mut self, leaf: LeafId, entry: &Entry) -> bool {
        assert!(!self.is_full(), "the store has room");
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            let slot = free_slot(&mut self.slots, &mut self.free, self.packets_max);
            let filled = &mut self.slots[slot as usize];
            self.free = filled.next;
            *filled = Slot { entry: *entry, next: NONE };
            flows.join(&mut self.slots, slot);
            self.costs = flows.may_drop();
            if flows.reads_segments()
                && let Some(segment) = self.segments.remove(&entry.handle)
            {
                flows.keep_segment(slot, segment);
            }
            return self.count_joined(leaf, entry);
        }
        if let Some(shared) = &mut self.shared {
            shared.arrived(leaf, entry.charged());
        }
        self.append(leaf, entry)
    }

    /// Notifies `leaf`, which is empty, that the line looked for a packet there.
    pub fn found_nothing(&mut self, leaf: LeafId) {
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            flows.found_nothing();
        }
    }

    /// Lets the next packet of `leaf`, which is empty, pass its flow queues by.
    pub fn pass_by(&mut self, leaf: LeafId) {
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            flows.pass_by();
        }
    }

    /// Counts `entry`, which joined the flow queues of `leaf`; returns whether the leaf was empty.
    #[inline]
    fn count_joined(&mut self, leaf: LeafId, entry: &Entry) -> bool {
        let state = &mut self.leaves[leaf.index()];
        self.room -= 1;
        state.packets += 1;
        state.bytes += u64::from(entry.charged);
        if state.packets > 1 {
            return false;
        }
        // Where the choice is late, this is only what the scheduler takes for the head.
        state.first = *entry;
        self.choose_early(leaf);
        true
    }

    /// Chooses the first packet of `leaf`, which has none, unless that is done when the leaf is
    /// selected.
    #[inline]
    fn choose_early(&mut self, leaf: LeafId) {
        if self.late {
            return;
        }
        let flows = self.droppers.of_mut(leaf).flows_mut();
        let chosen = flows.map_or(NONE, |flows| flows.choose(&mut self.slots));
        if chosen != NONE {
            self.set_first(leaf, chosen);
        }
    }

    /// Takes the first packet of `leaf`, which is backlogged, to be sent; returns the new first
    /// one.
    pub fn send(&mut self, leaf: LeafId) -> Option<Head> {
        let state = &mut self.leaves[leaf.index()];
        if let Some(shared) = &mut self.shared {
            shared.left(leaf, state.first.charged());
        }
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            flows.sent(state.first.charged);
            state.count_sent();
            return self.pop_from_flow(leaf);
        }
        self.take_first(leaf)
    }

    /// Returns whether the dropper of `leaf` decides when a packet's turn has come.
    #[inline(always)]
    pub fn calls_dropper(&self, leaf: LeafId) -> bool {
        self.leaves[leaf.index()].uncalled == Uncalled::ALWAYS
    }

    /// As [`Queues::send`], of a leaf whose dropper is not called.
    #[inline(always)]
    pub fn take_first(&mut self, leaf: LeafId) -> Option<Head> {
        let state = &mut self.leaves[leaf.index()];
        state.count_sent();
        self.room += 1;
        state.pop(&mut self.slots, &mut self.free)
    }

    /// Drops the packet at `position` of `leaf`, which holds more packets; returns it and the new
    /// first one.
    pub fn evict(
        &mut self,
        leaf: LeafId,
        position: u32,
        reason: DropReason,
    ) -> (Entry, Option<Head>) {
        let waiting = self.leaves[leaf.index()].packets;
        assert!(position < waiting, "only a packet that waits is dropped");
        let (entry, first) = if position == 0 {
            (self.leaves[leaf.index()].first, self.pop(leaf))
        } else {
            self.take_behind(leaf, position)
        };
        self.drops.count(self.leaves.len(), leaf, reason, entry.charged());
        if let Some(shared) = &mut self.shared {
            shared.left(leaf, entry.charged());
        }
        (entry, first)
    }

    /// Counts a refused packet.
    #[inline]
    pub fn refuse(&mut self, leaf: LeafId, charged: Bytes, reason: DropReason) {
        self.drops.count(self.leaves.len(), leaf, reason, charged);
    }

    /// Returns a packet of `leaf` to drop, if its flow queues hold more than their limit.
    #[inline(always)]
    pub fn surplus(&mut self, leaf: LeafId) -> Option<Surplus> {
        if self.costs { self.find_surplus(leaf) } else { None }
    }

    #[inline(never)]
    fn find_surplus(&mut self, leaf: LeafId) -> Option<Surplus> {
        let flows = self.droppers.of_mut(leaf).flows_mut()?;
        let surplus = flows.surplus()?;
        if surplus == Surplus::First && !flows.is_chosen() {
            let slot = flows.take_only(&mut self.slots);
            self.set_first(leaf, slot);
        }
        Some(surplus)
    }

    /// Drops the first packet of the flow with this number, which is not the first of its `leaf`;
    /// returns it.
    pub fn evict_from_flow(&mut self, leaf: LeafId, flow: u32, reason: DropReason) -> Entry {
        let flows = self.droppers.of_mut(leaf).flows_mut();
        let slot =
            flows.expect("its surplus came from its flows").drop_behind(&mut self.slots, flow);
        self.free_dropped(leaf, slot, reason)
    }

    /// Notifies the droppers that count on the rate of the link that it is another one.
    pub fn follow_rate(&mut self, rate: Rate) {
        for leaf in (0..self.leaf_count() as u32).map(LeafId) {
            let dropper = self.droppers.of_mut(leaf);
            let follows = !dropper.outlives_rate();
            if let Some(flows) = dropper.flows_mut().filter(|_| follows) {
                flows.follow_rate(rate);
            }
        }
    }

    /// Returns whether `leaf` looks into the segments of waiting packets: see
    /// [`Queues::note`].
    pub fn reads_segments(&self, leaf: LeafId) -> bool {
        self.droppers.of(leaf).flows().is_some_and(FlowQueues::reads_segments)
    }

    /// Records the segment of a packet that is offered next with this handle; none if it is not
    /// TCP.
    pub fn note(&mut self, handle: Handle, segment: Option<Segment>) {
        match segment {
            Some(segment) => self.segments.insert(handle, segment),
            None => self.segments.remove(&handle),
        };
    }

    /// Drops the waiting packet of `leaf` that the one makes redundant which just joined it, if
    /// it does; returns it.
    #[inline(always)]
    pub fn drop_redundant(&mut self, leaf: LeafId) -> Option<Entry> {
        if self.costs { self.find_redundant(leaf) } else { None }
    }

    #[inline(never)]
    fn find_redundant(&mut self, leaf: LeafId) -> Option<Entry> {
        let flows = self.droppers.of_mut(leaf).flows_mut()?;
        let slot = flows.take_redundant(&mut self.slots)?;
        Some(self.free_dropped(leaf, slot, DropReason::Redundant))
    }

    /// Frees the slot of a packet of `leaf` that was dropped from its chain; returns it.
    fn free_dropped(&mut self, leaf: LeafId, slot: u32, reason: DropReason) -> Entry {
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

    fn pop(&mut self, leaf: LeafId) -> Option<Head> {
        let state = &mut self.leaves[leaf.index()];
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            flows.dropped_first(state.first.charged);
            return self.pop_from_flow(leaf);
        }
        self.room += 1;
        state.pop(&mut self.slots, &mut self.free)
    }

    /// Removes the first packet of `leaf`, which its flow queues count no more; returns what the
    /// scheduler takes for the head. That is the packet that left, if the next one is chosen later.
    #[inline(always)]
    fn pop_from_flow(&mut self, leaf: LeafId) -> Option<Head> {
        let state = &mut self.leaves[leaf.index()];
        assert!(state.packets > 0, "only a backlogged leaf sends");
        self.room += 1;
        state.packets -= 1;
        state.bytes -= u64::from(state.first.charged);
        debug_assert!(state.packets > 0 || state.bytes == 0, "an empty leaf holds no bytes");
        self.choose_early(leaf);
        self.head(leaf)
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
        let removed = self.slots.get_mut(slot as usize).expect("a packet is at the position");
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

    /// Returns whether `leaf` shares its limit with others.
    pub fn shares(&self, leaf: LeafId) -> bool {
        self.droppers.of(leaf).membership().is_some()
    }

    /// Returns the leaf that must drop its first packet, if the leaves with a shared limit exceed
    /// it.
    #[inline]
    pub fn victim(&mut self) -> Option<LeafId> {
        self.shared.as_mut()?.victim()
    }

    /// Returns whether the packets of `leaf` wait in flow queues.
    pub fn has_flows(&self, leaf: LeafId) -> bool {
        self.droppers.of(leaf).flows().is_some()
    }

    /// Returns the first packet of `leaf` as schedulers see it: none while it is held.
    pub fn head(&self, leaf: LeafId) -> Option<Head> {
        let state = &self.leaves[leaf.index()];
        let is_seen = state.packets > 0 && state.uncalled != Uncalled::HELD;
        is_seen.then(|| state.first.head())
    }

    /// Returns the first packet of `leaf`; meaningless while none waits.
    #[inline(always)]
    pub fn first(&self, leaf: LeafId) -> Entry {
        self.leaves[leaf.index()].first
    }

    /// Returns the number of leaves.
    pub const fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// Returns the backlog of `leaf`.
    pub fn backlog(&self, leaf: LeafId) -> Count {
        let Leaf { packets, bytes, .. } = self.leaves[leaf.index()];
        Count { packets: u64::from(packets), bytes }
    }

    /// Returns the number of packets that wait in all leaves.
    #[inline(always)]
    pub const fn packets(&self) -> u32 {
        self.packets_max - self.room
    }

    /// Returns the account up to now.
    pub fn account(&self) -> Account {
        let leaf = |index| self.leaf_account(LeafId(index as u32));
        Account::new((0..self.leaves.len()).map(leaf).collect())
    }

    /// Returns the number that the decisions of a leaf's dropper rest on.
    pub fn reading(&self, leaf: LeafId) -> Option<Reading> {
        self.droppers.of(leaf).reading()
    }

    /// Returns the account of one leaf up to now.
    pub fn leaf_account(&self, leaf: LeafId) -> LeafAccount {
        let dropped = self.drops.of(leaf);
        let Leaf { sent_packets: packets, sent_bytes: bytes, .. } = self.leaves[leaf.index()];
        LeafAccount::new(Count { packets, bytes }, dropped, self.backlog(leaf))
    }
}

/// The packets of each leaf in their order; the slots in which they wait follow from that.
impl State for Queues {
    fn save(&self, to: &mut Writer) {
        let Self {
            leaves,
            slots: _,
            free: _,
            room: _,
            packets_max: _,
            droppers,
            late: _,
            drops,
            // Until the limits are enforced.
            costs: _,
            shared,
            flow_hash: _,
            segments: _,
            // With its leaves.
            holds: _,
        } = self;
        droppers.save(to);
        for leaf in (0..leaves.len() as u32).map(LeafId) {
            self.save_leaf(leaf, to);
        }
        drops.save(to);
        if let Some(shared) = shared {
            shared.save(to);
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        assert_eq!(self.packets(), 0, "a checkpoint is loaded into empty queues");
        self.droppers.load(from)?;
        for leaf in (0..self.leaves.len() as u32).map(LeafId) {
            self.load_leaf(leaf, from)?;
        }
        self.drops.load(self.leaves.len(), from)?;
        let Some(shared) = &mut self.shared else { return Ok(()) };
        shared.load(from)?;
        let is_sound = shared.agrees(self.leaves.iter().map(|leaf| leaf.bytes));
        if is_sound { Ok(()) } else { Err(StateError::Invalid("shared limit")) }
    }
}

impl Queues {
    fn save_leaf(&self, leaf: LeafId, to: &mut Writer) {
        let Leaf {
            first,
            second,
            last: _,
            packets,
            uncalled: _,
            bytes: _,
            sent_packets,
            sent_bytes,
        } = self.leaves[leaf.index()];
        packets.save(to);
        Count { packets: sent_packets, bytes: sent_bytes }.save(to);
        if packets > 0 {
            first.save(to);
        }
        let Some(flows) = self.droppers.of(leaf).flows() else {
            return self.save_chain(second, packets.saturating_sub(1), to);
        };
        if self.droppers.of(leaf).paces() {
            self.holds.until(leaf).save(to);
        }
        flows.save(to);
        for flow in 0..flows.flow_count() {
            let count = self.chained(flows.head(flow));
            count.save(to);
            self.save_chain(flows.head(flow), count, to);
            self.save_segments(leaf, flows.head(flow), to);
        }
    }

    /// Returns the number of packets in the chain that begins with `slot`.
    fn chained(&self, slot: u32) -> u32 {
        let packet = |slot: u32| self.slots.get(slot as usize);
        core::iter::successors(packet(slot), |behind| packet(behind.next)).count() as u32
    }

    /// Writes this many packets of the chain that begins with `slot`.
    fn save_chain(&self, mut slot: u32, count: u32, to: &mut Writer) {
        for _ in 0..count {
            let Slot { entry, next } = &self.slots[slot as usize];
            entry.save(to);
            slot = *next;
        }
    }

    /// Writes the segments of the packets in the chain that begins with `slot`.
    fn save_segments(&self, leaf: LeafId, mut slot: u32, to: &mut Writer) {
        let flows = self.droppers.of(leaf).flows().filter(|flows| flows.reads_segments());
        while let (Some(flows), Some(filled)) = (flows, self.slots.get(slot as usize)) {
            flows.save_segment(slot, to);
            slot = filled.next;
        }
    }

    fn load_leaf(&mut self, leaf: LeafId, from: &mut Reader<'_>) -> Result<(), StateError> {
        let packets = from.count(self.room as usize, "packets that wait")? as u32;
        let mut sent = Count::default();
        sent.load(from)?;
        let state = &mut self.leaves[leaf.index()];
        (state.sent_packets, state.sent_bytes) = (sent.packets, sent.bytes);
        if self.droppers.of(leaf).flows().is_some() {
            return self.load_flows(leaf, packets, from);
        }
        for _ in 0..packets {
            let mut entry = Entry::EMPTY;
            entry.load(from)?;
            self.append(leaf, &entry);
        }
        Ok(())
    }

    /// Reads the packets of a leaf with flow queues.
    fn load_flows(
        &mut self,
        leaf: LeafId,
        packets: u32,
        from: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        let state = &mut self.leaves[leaf.index()];
        if packets > 0 {
            state.first.load(from)?;
        }
        let first = state.first.charged;
        let mut held: Option<Instant> = None;
        if self.droppers.of(leaf).paces() {
            held.load(from)?;
        }
        let Some(flows) = self.droppers.of_mut(leaf).flows_mut() else { return Ok(()) };
        flows.load(first, from)?;
        let mut bytes = if flows.is_chosen() { u64::from(first) } else { 0 };
        for flow in 0..flows.flow_count() {
            for _ in 0..from.count(packets as usize, "packets of a flow")? {
                let slot = free_slot(&mut self.slots, &mut self.free, self.packets_max);
                let filled = self.slots.get_mut(slot as usize);
                let filled = filled.ok_or(StateError::Invalid("packets of flows"))?;
                self.free = core::mem::replace(&mut filled.next, NONE);
                filled.entry.load(from)?;
                bytes += u64::from(filled.entry.charged);
                flows.put_back(&mut self.slots, slot, flow);
            }
            flows.load_segments(&self.slots, flow, from)?;
        }
        let may_hold = packets > 0 && !flows.is_chosen() && flows.not_before().is_some();
        if !flows.is_sound(packets, held.is_some()) || held.is_some() && !may_hold {
            return Err(StateError::Invalid("flows of a leaf"));
        }
        if let Some(until) = held {
            self.hold(leaf, until);
        }
        self.room -= packets;
        let state = &mut self.leaves[leaf.index()];
        (state.packets, state.bytes) = (packets, bytes);
        Ok(())
    }
}

impl Leaf {
    /// Counts the first packet as sent.
    #[inline(always)]
    fn count_sent(&mut self) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(self.first.charged);
    }

    /// Removes the first packet; returns the new first one, whose slot joins the `free` ones.
    #[inline(always)]
    fn pop(&mut self, slots: &mut [Slot], free: &mut u32) -> Option<Head> {
        assert!(self.packets > 0, "only a backlogged leaf sends");
        self.packets -= 1;
        self.bytes -= u64::from(self.first.charged);
        if self.packets == 0 {
            debug_assert_eq!(self.bytes, 0, "an empty leaf holds no bytes");
            return None;
        }
        let slot = self.second;
        let behind = &mut slots[slot as usize];
        self.first = behind.entry;
        self.second = core::mem::replace(&mut behind.next, *free);
        *free = slot;
        Some(behind.entry.head())
    }

    const EMPTY: Leaf = Leaf {
        first: Entry::EMPTY,
        second: NONE,
        last: 0,
        packets: 0,
        uncalled: Uncalled::ALWAYS,
        bytes: 0,
        sent_packets: 0,
        sent_bytes: 0,
    };
}

impl Slot {
    /// A free slot; `next` is the next free one.
    const fn free_before(next: u32) -> Slot {
        Slot { entry: Entry::EMPTY, next }
    }
}

impl Uncalled {
    const ALWAYS: Uncalled = Uncalled(0);
    const ON_ARRIVAL: Uncalled = Uncalled(-1);
    /// As [`Uncalled::ALWAYS`]; the leaf is held.
    const HELD: Uncalled = Uncalled(i32::MIN);

    fn of(dropper: &AnyDropper) -> Self {
        match dropper.admits_all_below() {
            None => Uncalled::ALWAYS,
            Some(Limit::Packets(packets)) if packets > 0 => {
                Uncalled(i32::try_from(packets).unwrap_or(i32::MAX))
            }
            Some(_) => Uncalled::ON_ARRIVAL,
        }
    }
}

/// Returns the first free slot, of new ones if none was free; [`NONE`] if there are `most`.
#[inline(always)]
fn free_slot(slots: &mut Vec<Slot>, free: &mut u32, most: u32) -> u32 {
    if *free == NONE {
        let count = slots.len().max(SLOTS_AT_FIRST).min(most as usize - slots.len());
        add_slots(slots, free, count);
    }
    *free
}

/// Adds so many free slots, which become the first ones.
#[cold]
fn add_slots(slots: &mut Vec<Slot>, free: &mut u32, count: usize) {
    let first = slots.len() as u32;
    let behind = core::mem::replace(free, if count > 0 { first } else { *free });
    slots.extend(
        (first + 1..first + count as u32).chain([behind]).take(count).map(Slot::free_before),
    );
}

/// The number of slots that the first packets bring.
const SLOTS_AT_FIRST: usize = 64;
/// Ends a list of slots.
pub(super) const NONE: u32 = u32::MAX;

const _: () = assert!(size_of::<Leaf>() == 64 && size_of::<Slot>() == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Handle;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::tree::ClassSpec;
    use crate::units::Rate;
    use alloc::collections::VecDeque;
    use alloc::string::ToString;

    fn queues(leaves: u32, packets_max: u32) -> Queues {
        let class =
            |index: u32| ClassSpec { name: index.to_string(), parent: None, params: Params::new() };
        let classes = (0..leaves).map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1514), Params::new(), classes).expect("a tree");
        let plans = alloc::vec![QueuePlan::default(); leaves as usize];
        Queues::new(&plans, &tree, packets_max, 0).expect("tail drop takes its defaults")
    }

    /// The oracle: a standard queue for each leaf.
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
                    assert_eq!(queues.push(leaf, &entry), queue.is_empty());
                    queue.push_back(entry);
                }
                3 | 4 if !queue.is_empty() => {
                    let (entry, next) = (queues.first(leaf), queues.send(leaf));
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
