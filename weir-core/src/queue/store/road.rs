//! Arrivals and departures of leaves with flow queues in one call each: what `label`, `admit`,
//! `push` and `surplus`, or `release` and `send` decide one after the other, with the dropper and
//! its flows looked up once. Those stay beside it, for other leaves and for all that is rare.
//!
//! Invariant: a link decides the same with and without these calls.

use super::{NONE, Queues, Slot, free_slot};
use crate::account::Count;
use crate::event::DropReason;
use crate::ids::LeafId;
use crate::packet::{Head, Host};
use crate::queue::entry::Entry;
use crate::queue::{Admission, Dropper, ECN_MASK, Release, Surplus};
use crate::units::Instant;

/// The result of [`Queues::arrive`].
pub enum Arrived {
    /// Nothing happened: the other calls decide.
    Undecided,
    /// It was refused.
    Refused(DropReason),
    /// It waits. Whether the leaf was empty, and the packet to drop for it.
    Queued(bool, Option<Surplus>),
}

/// The result of [`Queues::depart`].
pub enum Departed {
    /// Nothing happened: the other calls decide.
    Undecided,
    /// The first packet of the leaf is dropped; it is still there.
    Drop(DropReason),
    /// It left; what the scheduler takes for the next one.
    Sent(Entry, Option<Head>),
}

impl Queues {
    /// Lets a packet join `leaf`, if that has flow queues and its dropper lets it.
    pub fn arrive(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &Entry,
        (host, flow): (Host, u32),
    ) -> Arrived {
        let dropper = self.droppers.of_mut(leaf);
        let Some(flows) = dropper.flows_mut() else { return Arrived::Undecided };
        if self.room == 0 || flows.reads_segments() {
            return Arrived::Undecided;
        }
        let (class, mut label) = (entry.label.traffic_class(), entry.label);
        if flows.washes() && class & !ECN_MASK != 0 {
            label.rewrite(class & ECN_MASK);
        }
        let own = flows.assign(host, flow, class);
        label.assign(own.unwrap_or_else(|| self.flow_hash.of(flow)));
        let mut entry = Entry { label, ..*entry };
        let state = &mut self.leaves[leaf.index()];
        let backlog = Count { packets: u64::from(state.packets), bytes: state.bytes };
        match dropper.admit(now, entry.candidate(), backlog) {
            Admission::Accept => {}
            Admission::Mark => entry.mark_congestion(),
            Admission::Refuse(reason) => return Arrived::Refused(reason),
            Admission::Evict(..) | Admission::Compare(..) => {
                unreachable!("flow queues themselves name the packet to drop")
            }
        }
        let Some(flows) = dropper.flows_mut() else { return Arrived::Undecided };
        let slot = free_slot(&mut self.slots, &mut self.free, self.packets_max);
        let filled = &mut self.slots[slot as usize];
        self.free = filled.next;
        *filled = Slot { entry, next: NONE };
        flows.join(&mut self.slots, slot);
        self.room -= 1;
        state.packets += 1;
        state.bytes += u64::from(entry.charged);
        let was_empty = state.packets == 1;
        if was_empty {
            // Where the choice is late, this is only what the scheduler takes for the head.
            state.first = entry;
            let chosen = flows.choose_early(&mut self.slots);
            if chosen != NONE {
                self.set_first(leaf, chosen);
            }
        }
        let surplus = self.surplus(leaf);
        Arrived::Queued(was_empty, surplus)
    }

    /// Takes the packet of `leaf` whose turn it is, if that has flow queues and its dropper lets it
    /// leave.
    pub fn depart(&mut self, now: Instant, leaf: LeafId) -> Departed {
        let dropper = self.droppers.of_mut(leaf);
        let Some(flows) = dropper.flows_mut() else { return Departed::Undecided };
        if self.shared.is_some() {
            return Departed::Undecided;
        }
        flows.at(now);
        let state = &mut self.leaves[leaf.index()];
        assert!(state.packets > 0, "only a backlogged leaf sends");
        if !flows.is_chosen() {
            let slot = flows.choose(&mut self.slots);
            let chosen = &mut self.slots[slot as usize];
            state.first = chosen.entry;
            chosen.next = core::mem::replace(&mut self.free, slot);
        }
        let backlog = Count { packets: u64::from(state.packets), bytes: state.bytes };
        match dropper.release(now, state.first.candidate(), backlog) {
            Release::Send => {}
            Release::Mark => state.first.mark_congestion(),
            Release::Drop(reason) => return Departed::Drop(reason),
        }
        let Some(flows) = dropper.flows_mut() else { return Departed::Undecided };
        let entry = state.first;
        flows.sent(entry.charged);
        state.count_sent();
        self.room += 1;
        state.packets -= 1;
        state.bytes -= u64::from(entry.charged);
        if state.packets == 0 {
            dropper.emptied(now);
            return Departed::Sent(entry, None);
        }
        let next = flows.choose_early(&mut self.slots);
        if next != NONE {
            let chosen = &mut self.slots[next as usize];
            state.first = chosen.entry;
            chosen.next = core::mem::replace(&mut self.free, next);
        }
        let head = state.first.head();
        Departed::Sent(entry, Some(head))
    }
}
