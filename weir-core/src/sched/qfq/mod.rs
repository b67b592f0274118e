//! Quick fair queueing [qfq13 §III] [algorithms §4.8]: nearly the order of worst-case fair
//! queueing, at a constant cost, whatever the number of leaves.
//!
//! A backlogged leaf has a start tag in virtual time. Leaves whose largest packet moves their tag
//! by the same power of two, rounded up, form a *group*; a group holds its leaves in *slots* of
//! that power of two, in the order of their rounded start tags. A group is eligible if its first
//! slot starts at or before `V`, and blocked if an eligible one of longer slots finishes earlier.
//! The first leaf of the shortest-slot group that is eligible and not blocked sends. Groups are
//! bits of a word, so none is searched. Invariant: while a leaf waits some group is eligible and
//! not blocked, and every bit of a group's `filled` is a slot with a leaf in it.
//!
//! Differences from the source: weights are normalised to their sum, so no sum is refused; a packet
//! longer than the longest so far widens all slots once, to the next power of two; when a packet
//! arrives and the line has sent all before it, `V` moves past all tags, so that all leaves start a
//! new busy period equal.
//!
//! Drops: a packet that is dropped costs its leaf nothing, since a start tag does not depend on the
//! length that waits. The place of a leaf that a drop empties remains until its turn comes, and is
//! valid again if a packet arrives before.

pub(super) mod groups;

use super::service::Weighted;
use super::{
    Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Scheduler, Selection,
    Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::lists::Lists;
use crate::order::weights::{LENGTH_MAX, Sending, WEIGHT, Weights, counted, written};
use crate::parameter::BuildError;
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;
use groups::{Group, SLOTS, shift_of};

/// Quick fair queueing.
pub struct Qfq {
    leaves: Vec<Leaf>,
    groups: Vec<Group>,
    /// The slots of all groups, [`SLOTS`] each.
    slots: Lists,
    /// A bit for each group with a leaf in a slot.
    occupied: u32,
    /// Occupied groups that start at or before `virtual_time`.
    eligible: u32,
    /// Groups that an eligible one of longer slots finishes before.
    blocked: u32,
    virtual_time: u64,
    /// The latest tag; virtual time starts there after an idle time.
    latest: u64,
    /// Fractional bits of virtual time.
    shift: u32,
    /// The longest packet for which slots are made, in bytes.
    length_max: u64,
    waiting: u32,
    sending: Sending,
}

#[derive(Clone, Copy)]
struct Leaf {
    /// The start tag while it is in a slot, else the finish tag of what it sent last.
    tag: u64,
    /// Virtual time per byte.
    inverse: u64,
    group: u8,
    /// The leaf has a packet. A leaf that drops emptied may be in a slot without one, until its
    /// turn comes.
    waits: bool,
}

impl Discipline for Qfq {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "qfq",
        summary: "Quick fair queueing: bytes by weight, nearly as evenly as the fluid, at constant \
                  cost.",
        parameters: &[WEIGHT],
        sources: &["qfq13 §III", "algorithms §4.8"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let Weights { inverses, shift } = Weights::of(tree);
        let leaf = |&inverse: &u64| Leaf { tag: 0, inverse, group: 0, waits: false };
        let mut qfq = Self {
            leaves: inverses.iter().map(leaf).collect(),
            groups: Vec::new(),
            slots: Lists::new(0, 0),
            occupied: 0,
            eligible: 0,
            blocked: 0,
            virtual_time: 0,
            latest: 0,
            shift,
            length_max: 0,
            waiting: 0,
            sending: Sending::new(tree, shift),
        };
        qfq.regroup(counted(tree.mtu()));
        Ok(qfq)
    }
}

impl Scheduler for Qfq {
    #[inline]
    fn enqueued(&mut self, now: Instant, leaf: LeafId, _head: Head) {
        let state = &mut self.leaves[leaf.index()];
        if state.waits {
            return;
        }
        if self.waiting == 0 && self.sending.rest(now) == 0 {
            self.virtual_time = self.virtual_time.max(self.latest);
        }
        self.waiting += 1;
        state.waits = true;
        if self.slots.contains(leaf.0) {
            return;
        }
        let state = *state;
        let start = self.fresh_start(state);
        self.leaves[leaf.index()].tag = start;
        self.activate(leaf, state.group, start);
        self.settle(self.virtual_time);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        // Terminates: each further round takes a leaf out of a slot.
        while self.waiting > 0 {
            let index = self.ready().trailing_zeros() as usize;
            let leaf = self.slots.first(self.groups[index].front_list());
            let leaf = leaf.expect("the first slot of a group that may send has a leaf");
            if self.leaves[leaf as usize].waits {
                return Selection::Leaf(LeafId(leaf));
            }
            // Drops emptied it: it had its turn.
            self.leave_front(index);
            self.settle(self.virtual_time);
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        debug_assert!(self.leaves[leaf.index()].waits, "a selected leaf is backlogged");
        let length = counted(sent);
        self.sending.begin_more(now, length << self.shift);
        let before = self.virtual_time;
        self.virtual_time += length << self.shift;
        let state = &mut self.leaves[leaf.index()];
        state.tag += length * state.inverse;
        self.latest = self.latest.max(state.tag);
        let (tag, index) = (state.tag, usize::from(state.group));
        let group = &self.groups[index];
        let stays = next.is_some() && group.round(tag) == group.start;
        if !stays || length > self.length_max || self.virtual_time >= RENEWAL {
            self.leave_front(index);
            self.rejoin(leaf, length, next.is_some());
            if self.waiting == 0 && self.occupied != 0 {
                self.clear();
            }
        }
        self.settle(before);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        if head.is_some() || !state.waits {
            return;
        }
        state.waits = false;
        self.waiting -= 1;
        if self.waiting == 0 {
            self.clear();
        }
    }
}

impl Explains for Qfq {
    /// [qfq13 §III] Tags are rounded to slots: a leaf is late by up to three of its own, and two
    /// packets of the line.
    fn service(tree: &Tree) -> Service {
        let packet = tree.mtu();
        let Weights { inverses, shift } = Weights::of(tree);
        let row = |(weight, inverse): (u64, &u64)| {
            let slots = 3u128 << shift_of(counted(packet).saturating_mul(*inverse));
            let slots = slots.div_ceil(1 << shift).min(u128::from(u64::MAX));
            let late = Bytes::new(slots as u64).plus(packet).plus(packet);
            Weighted { weight, ahead: Bytes::new(packet.get().saturating_mul(6)), late }
        };
        Service::Fluid(written(tree).zip(&inverses).map(row).collect())
    }
}

impl Changes for Qfq {
    /// A leaf that was ahead of virtual time stays ahead by as many bytes of the line, up to a slot
    /// of its own; a leaf's lag, at most a few of its packets, is lost.
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        for (new, before) in kin.leaves() {
            let ahead = old.leaves[before.index()].tag.saturating_sub(old.virtual_time);
            let ahead = u128::from(ahead) << self.shift >> old.shift;
            let leaf = &mut self.leaves[new.index()];
            let slot = 1u64 << self.groups[usize::from(leaf.group)].shift;
            leaf.tag = self.virtual_time + ahead.min(u128::from(slot)) as u64;
            self.latest = self.latest.max(leaf.tag);
        }
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let is_known = |leaf: usize, head: Option<Head>| {
            let waits = self.leaves[leaf].waits;
            waits == head.is_some() && (!waits || self.slots.contains(leaf as u32))
        };
        // Slots are emptied with the last packet.
        let is_empty = self.waiting > 0 || self.occupied == 0;
        let groups_known = (self.eligible | self.blocked) & !self.occupied == 0;
        let may_send = self.occupied == 0 || self.ready() != 0;
        self.waiting as usize == waiting.leaves()
            && waiting.all(is_known)
            && is_empty
            && groups_known
            && may_send
            && self.virtual_time.max(self.latest) <= TAG_MAX
    }
}

impl Qfq {
    /// Returns the groups that may send.
    #[inline]
    fn ready(&self) -> u32 {
        self.eligible & !self.blocked
    }

    /// Returns the start tag of a leaf that becomes backlogged [qfq13 §III-E].
    ///
    /// That is its last finish tag while this is ahead of `V`. Otherwise it is `V`, or a little
    /// earlier: the finish of the group that would otherwise block the leaf while others with equal
    /// tags go before it.
    #[inline]
    fn fresh_start(&self, leaf: Leaf) -> u64 {
        let group = &self.groups[usize::from(leaf.group)];
        let limit = group.round(self.virtual_time) + (1 << group.shift);
        let finish = group.round(leaf.tag);
        if leaf.tag > self.virtual_time && finish <= limit {
            return leaf.tag;
        }
        let longer = self.ready() >> leaf.group << leaf.group;
        let Some(first) = self.groups.get(longer.trailing_zeros() as usize) else {
            return self.virtual_time;
        };
        if finish > first.finish() { limit.min(first.finish()) } else { self.virtual_time }
    }

    /// Puts a leaf that is in no slot into that of its tag.
    #[inline]
    fn activate(&mut self, leaf: LeafId, index: u8, tag: u64) {
        let index = usize::from(index);
        let group = &mut self.groups[index];
        let start = group.round(tag);
        let begins = group.filled == 0 || start < group.start;
        if begins {
            group.begin_at(start);
        }
        let list = group.fill(start);
        self.slots.push(list, leaf.0);
        if begins {
            self.classify(index);
        }
    }

    /// Takes the first leaf of group `index` out of its slot.
    #[inline]
    fn leave_front(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let list = group.front_list();
        self.slots.pop(list);
        if self.slots.first(list).is_some() {
            return;
        }
        let finish = group.finish();
        group.advance();
        self.classify(index);
        self.unblock(index, finish);
    }

    /// Puts a leaf that is in no slot, after a packet of `length`, into its new one if it is
    /// backlogged.
    #[inline]
    fn rejoin(&mut self, leaf: LeafId, length: u64, waits: bool) {
        // In no slot, so that a renewal gives it none.
        self.leaves[leaf.index()].waits = false;
        if length > self.length_max || self.virtual_time >= RENEWAL {
            self.renew(length);
        }
        if !waits {
            self.waiting -= 1;
            return;
        }
        let state = &mut self.leaves[leaf.index()];
        state.waits = true;
        let (group, tag) = (state.group, state.tag);
        self.activate(leaf, group, tag);
    }

    /// Recomputes whether group `index` is eligible and blocked.
    #[inline]
    fn classify(&mut self, index: usize) {
        let bit = 1 << index;
        self.occupied &= !bit;
        self.eligible &= !bit;
        self.blocked &= !bit;
        let group = &self.groups[index];
        if group.filled == 0 {
            return;
        }
        self.occupied |= bit;
        let longer = self.ready() >> index << index;
        // [qfq13 §III-D] Leaves that may send are in the order of their finish tags, so the first
        // will do.
        let first = self.groups.get(longer.trailing_zeros() as usize);
        if first.is_some_and(|first| first.finish() < group.finish()) {
            self.blocked |= bit;
        }
        if group.start <= self.virtual_time {
            self.eligible |= bit;
        }
    }

    /// Unblocks the groups that only group `index`, which finished at `finish` until now, blocked.
    #[inline]
    fn unblock(&mut self, index: usize, finish: u64) {
        let longer = self.ready() >> index >> 1;
        let first = self.groups.get(index + 1 + longer.trailing_zeros() as usize);
        if longer != 0 && first.is_some_and(|first| first.finish() <= finish) {
            return;
        }
        self.blocked &= u32::MAX << index;
    }

    /// Makes the groups eligible that virtual time passed since it was `before`; where none may
    /// send, it jumps to the first start.
    #[inline]
    fn settle(&mut self, before: u64) {
        let late = self.occupied & !self.eligible;
        if self.ready() == 0 {
            return self.jump();
        }
        let shortest = self.groups[0].shift;
        if late == 0 || before >> shortest == self.virtual_time >> shortest {
            return;
        }
        let mut rest = late;
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            if self.groups[index as usize].start <= self.virtual_time {
                self.eligible |= 1 << index;
            }
        }
    }

    /// Advances virtual time to the first start, if it is not there yet, when no group may send.
    fn jump(&mut self) {
        let occupied = |index: &usize| self.occupied >> index & 1 == 1;
        let starts = (0..self.groups.len()).filter(occupied).map(|index| self.groups[index].start);
        let Some(first) = starts.min() else { return };
        self.virtual_time = self.virtual_time.max(first);
        // From the longest slots down, so that the groups that may block another come before it.
        for index in (0..self.groups.len()).rev() {
            self.classify(index);
        }
    }

    /// Empties every slot, and classifies the groups anew.
    #[cold]
    fn clear(&mut self) {
        for index in 0..self.groups.len() {
            while self.groups[index].filled != 0 {
                let list = self.groups[index].front_list();
                while self.slots.pop(list).is_some() {}
                self.groups[index].advance();
            }
            self.classify(index);
        }
    }

    /// Moves all tags back, and widens all slots if a packet of `length` needs it.
    #[cold]
    fn renew(&mut self, length: u64) {
        self.clear();
        // A multiple of every slot.
        let back = self.virtual_time.saturating_sub(RENEWAL / 2) >> SLOT_BITS_MAX << SLOT_BITS_MAX;
        self.virtual_time -= back;
        self.latest -= back.min(self.latest);
        for leaf in &mut self.leaves {
            leaf.tag = leaf.tag.saturating_sub(back);
        }
        self.regroup(length.max(self.length_max));
        for index in 0..self.leaves.len() {
            let Leaf { tag, group, waits, .. } = self.leaves[index];
            if waits {
                self.activate(LeafId(index as u32), group, tag);
            }
        }
        self.jump();
    }

    /// Makes groups, all empty, for packets of up to `length` bytes.
    fn regroup(&mut self, length: u64) {
        if length > self.length_max {
            self.length_max =
                if self.length_max == 0 { length } else { length.next_power_of_two() };
        }
        let shift = |leaf: &Leaf| shift_of(self.length_max.min(LENGTH_MAX) * leaf.inverse);
        let shortest = self.leaves.iter().map(shift).min().unwrap_or(0);
        let longest = self.leaves.iter().map(shift).max().unwrap_or(0);
        for index in 0..self.leaves.len() {
            self.leaves[index].group = (shift(&self.leaves[index]) - shortest) as u8;
        }
        let group = |(index, shift)| Group::new(index, shift);
        self.groups = (shortest..=longest).enumerate().map(group).collect();
        self.slots = Lists::new(SLOTS * self.groups.len(), self.leaves.len());
        (self.occupied, self.eligible, self.blocked) = (0, 0, 0);
    }
}

/// The tag at which all tags are moved back; a finish is at most 2^59 later.
const RENEWAL: u64 = 1 << 61;
/// No tag is later.
const TAG_MAX: u64 = 1 << 62;
/// The longest slot: the largest inverse for a packet of [`LENGTH_MAX`].
const SLOT_BITS_MAX: u32 = 57;

#[cfg(test)]
mod tests;

state!(Leaf {
    tag, waits; kept: inverse, group; check: |leaf: &Self| leaf.tag <= TAG_MAX
});

/// Tags, and the leaves of each group's slots from its first one on. Where in its ring a group
/// begins means nothing.
impl State for Qfq {
    fn save(&self, to: &mut Writer) {
        let Self {
            leaves,
            groups,
            slots,
            occupied: _,
            eligible,
            blocked,
            virtual_time,
            latest,
            shift: _,
            length_max,
            waiting,
            sending,
        } = self;
        length_max.save(to);
        leaves.save(to);
        for group in groups {
            group.filled.save(to);
            if group.filled != 0 {
                group.start.save(to);
            }
            for list in group.lists() {
                to.number(slots.iter(list).count() as u64);
                slots.iter(list).for_each(|leaf| leaf.save(to));
            }
        }
        eligible.save(to);
        blocked.save(to);
        virtual_time.save(to);
        latest.save(to);
        waiting.save(to);
        sending.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let least = self.length_max;
        self.length_max.load(from)?;
        if !(least..=LENGTH_MAX).contains(&self.length_max) {
            return Err(StateError::Invalid("longest packet"));
        }
        // Makes empty groups for packets of that length.
        self.regroup(0);
        self.leaves.load(from)?;
        for index in 0..self.groups.len() {
            self.load_group(index, from)?;
        }
        self.eligible.load(from)?;
        self.blocked.load(from)?;
        self.virtual_time.load(from)?;
        self.latest.load(from)?;
        self.waiting.load(from)?;
        self.sending.load(from)
    }
}

impl Qfq {
    fn load_group(&mut self, index: usize, from: &mut Reader<'_>) -> Result<(), StateError> {
        let group = &mut self.groups[index];
        group.filled.load(from)?;
        if group.filled != 0 {
            self.occupied |= 1 << index;
            group.start.load(from)?;
        }
        let start_is_sound = group.start <= TAG_MAX && group.round(group.start) == group.start;
        for (slot, list) in group.lists().enumerate() {
            let count = from.count(self.leaves.len(), "leaves of a slot")?;
            let is_filled = self.groups[index].filled >> slot & 1 == 1;
            if is_filled != (count > 0) {
                return Err(StateError::Invalid("filled slots"));
            }
            for _ in 0..count {
                let leaf = from.index(self.leaves.len(), "leaf of a slot")?;
                let is_sound = usize::from(self.leaves[leaf].group) == index;
                if !is_sound || self.slots.contains(leaf as u32) {
                    return Err(StateError::Invalid("leaf of a slot"));
                }
                self.slots.push(list, leaf as u32);
            }
        }
        let filled = self.groups[index].filled;
        let is_sound = start_is_sound && (filled == 0 || filled & 1 == 1);
        if is_sound { Ok(()) } else { Err(StateError::Invalid("first slot of a group")) }
    }
}
