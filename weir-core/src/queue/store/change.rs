//! The queues of another plan, which take over packets, counts and droppers from those of before.
//!
//! Invariant: no packet is lost or doubled, and each leaf's packets keep their order.

use super::super::{AnyDropper, Dropper, Entry, FlowQueues, Limit, PackedLimit, Place, QueuePlan};
use super::{Leaf, NONE, Queues, Uncalled};
use crate::account::LeafAccount;
use crate::event::DropReason;
use crate::ids::LeafId;
use crate::parameter::RefitError;
use crate::tree::Kin;

impl Queues {
    /// Takes all packets out of `leaf` in their order; with flow queues, flow by flow. Otherwise
    /// their flow is unknown. Its dropper is not notified.
    pub(crate) fn empty(&mut self, leaf: LeafId, mut each: impl FnMut(Entry)) {
        self.release_hold(leaf);
        let state = &mut self.leaves[leaf.index()];
        let mut left = core::mem::take(&mut state.packets);
        state.bytes = 0;
        self.room += left;
        let flows = self.droppers.of(leaf).flows();
        let first = state.first;
        if left > 0 && flows.is_none_or(FlowQueues::is_chosen) {
            let label = if flows.is_some() { first.label } else { first.label.without_flow() };
            each(Entry { label, ..first });
            left -= 1;
        }
        let chain = flows.is_none().then_some(state.second);
        for mut slot in flows.into_iter().flat_map(FlowQueues::heads).chain(chain) {
            while slot != NONE && left > 0 {
                let filled = &mut self.slots[slot as usize];
                let mut entry = filled.entry;
                if flows.is_none() {
                    entry.label = entry.label.without_flow();
                }
                each(entry);
                left -= 1;
                let next = core::mem::replace(&mut filled.next, self.free);
                self.free = core::mem::replace(&mut slot, next);
            }
        }
        debug_assert_eq!(left, 0, "the chains hold all packets of the leaf");
        debug_assert!(self.room <= self.packets_max, "the store has as many slots as at first");
    }

    /// Takes over what `leaf`, which is `before` in `old`, has sent.
    #[inline]
    pub(crate) fn take_account(&mut self, leaf: LeafId, old: &Queues, before: LeafId) {
        let (state, past) = (&mut self.leaves[leaf.index()], &old.leaves[before.index()]);
        state.sent_packets = past.sent_packets;
        state.sent_bytes = past.sent_bytes;
    }

    /// Takes over the queue of `leaf`, which is `before` in `old`, as it is; its packets stay in
    /// the slots that [`Queues::take_slots`] takes over. Returns false, and takes nothing, where
    /// the packets do not fit the limit or do not wait in one chain.
    pub(crate) fn take_queue(
        &mut self,
        leaf: LeafId,
        old: &mut Queues,
        before: LeafId,
        limit: PackedLimit,
    ) -> bool {
        let Leaf { packets, bytes, .. } = old.leaves[before.index()];
        let fits = match limit.limit() {
            Limit::Packets(most) => packets <= most,
            Limit::Bytes(most) => bytes <= most.get(),
        };
        let is_chain = |queues: &Queues, leaf| !queues.has_flows(leaf) && !queues.shares(leaf);
        if !fits || !is_chain(old, before) || !is_chain(self, leaf) {
            return false;
        }
        let (state, past) = (&mut self.leaves[leaf.index()], &mut old.leaves[before.index()]);
        assert_eq!(state.packets, 0, "a queue moves to a leaf that is empty");
        (state.first, state.second, state.last) = (past.first, past.second, past.last);
        (state.packets, state.bytes) = (packets, bytes);
        (past.packets, past.bytes) = (0, 0);
        true
    }

    /// Takes over all slots of `old`, which has room for as many packets, with what is in them.
    pub(crate) fn take_slots(&mut self, old: &mut Queues) {
        assert_eq!(self.packets_max, old.packets_max, "both have as many slots");
        core::mem::swap(&mut self.slots, &mut old.slots);
        core::mem::swap(&mut self.free, &mut old.free);
        core::mem::swap(&mut self.room, &mut old.room);
    }

    /// Takes over from `old` the counts of drops of leaves that are kin, and the droppers of these
    /// leaves, new and old. Packets are not taken over.
    pub(crate) fn inherit(&mut self, old: &mut Queues, kin: &Kin, droppers: &[(LeafId, LeafId)]) {
        for (before, counts) in old.drops.iter() {
            let Some(new) = kin.new_leaf(before) else { continue };
            for (reason, count) in DropReason::ALL.into_iter().zip(counts) {
                self.drops.add(self.leaves.len(), new, reason, *count);
            }
        }
        for &(new, before) in droppers {
            let (mine, theirs) = (self.droppers.of_mut(new), old.droppers.of_mut(before));
            core::mem::swap(mine, theirs);
            if let Some(flows) = mine.flows_mut() {
                flows.forget_packets();
                flows.set_late(self.late);
            }
        }
    }

    /// Returns the dropper that a leaf gets if its plan changes from one to the other, which may be
    /// ready; `None` if it keeps the one that it has.
    pub(crate) fn refitted_dropper(
        &self,
        place: Place,
        (from, to): (&QueuePlan, &QueuePlan),
        is_new: bool,
        ready: Option<AnyDropper>,
    ) -> Result<Option<AnyDropper>, RefitError> {
        let before = self.droppers.of(place.leaf);
        if from == to && (!is_new || before.keeps_nothing()) {
            return Ok(None);
        }
        let mut dropper = match ready {
            Some(dropper) => dropper,
            None => AnyDropper::build(to, place)?,
        };
        if dropper.membership().is_some() || before.membership().is_some() {
            return Err(RefitError::NeedsChange("leaves share its limit"));
        }
        if let Some(flows) = dropper.flows_mut() {
            flows.set_late(self.late);
        }
        Ok(Some(dropper))
    }

    /// Gives `leaf`, in which no packet waits, another dropper; returns the one before if it had it
    /// alone.
    pub(crate) fn set_dropper(&mut self, leaf: LeafId, dropper: AnyDropper) -> Option<AnyDropper> {
        assert_eq!(self.leaves[leaf.index()].packets, 0, "a dropper starts with an empty leaf");
        self.leaves[leaf.index()].uncalled = Uncalled::of(&dropper);
        self.droppers.replace(leaf, self.leaves.len(), dropper)
    }

    /// Lets flow queues forget the packets that were taken out of `leaf`.
    pub(crate) fn forget_flows(&mut self, leaf: LeafId) {
        if let Some(flows) = self.droppers.of_mut(leaf).flows_mut() {
            flows.forget_packets();
        }
    }

    /// Returns the account of `leaf`, in which no packet waits, and begins a new one.
    pub(crate) fn retire(&mut self, leaf: LeafId) -> LeafAccount {
        let account = self.leaf_account(leaf);
        assert_eq!(account.backlog.packets, 0, "a leaf is retired when none of its packets waits");
        let state = &mut self.leaves[leaf.index()];
        (state.sent_packets, state.sent_bytes) = (0, 0);
        self.drops.forget(leaf);
        account
    }
}
