//! Arrivals: police, the dropper of the leaf, the queue; and drops to make room.

use super::{Charge, Link, Packet};
use crate::event::{DropReason, Dropped, Verdict};
use crate::ids::{LeafId, MeterId};
use crate::packet::{Head, Host};
use crate::police::{Judgement, Metered};
use crate::queue::{Admission, Label, QueueEntry, Surplus};
use crate::sched::Discipline;
use crate::units::Instant;

impl<S: Discipline> Link<S> {
    /// Offers one packet at `now`, to which the link was stepped.
    #[inline(always)]
    pub(super) fn accept(&mut self, now: Instant, leaf: LeafId, packet: Packet) -> Verdict {
        debug_assert!(
            leaf.index() < self.queues.leaf_count(),
            "a packet goes to a leaf of the plan"
        );
        if self.arrivals.is_some() {
            self.follow_arrivals(now, packet.length);
        }
        // The packet may leave at once, or let another leave; but not before the line has room.
        self.due = now.max(self.line.ready_at());
        if self.found_nothing(now) {
            self.scheduler.found_nothing();
        }
        let mut entry = self.entry(now, &packet);
        if self.police.is_some() && !self.passes_police(now, leaf, packet.meter, &mut entry) {
            return self.refuse(now, leaf, &entry, DropReason::Policed);
        }
        self.scheduler.offered(self.at(now), leaf);
        let Some(was_empty) = self.queues.push_without_dropper(leaf, &entry) else {
            return self.admit(now, leaf, (packet.host, packet.flow), &mut entry);
        };
        self.queued(now, leaf, &entry, was_empty);
        Verdict::Queued
    }

    /// Counts an arrival for the rate of a link that follows them.
    #[inline(never)]
    fn follow_arrivals(&mut self, now: Instant, length: u32) {
        let arrivals = self.arrivals.as_mut();
        if let Some(rate) = arrivals.and_then(|arrivals| arrivals.arrive(now, length)) {
            self.change_rate(now, rate);
            self.queues.follow_rate(rate);
        }
    }

    /// Returns whether the line is free, and found no packet before the one that is offered.
    #[inline(always)]
    fn found_nothing(&self, now: Instant) -> bool {
        self.queues.packets() == 0 && self.due == now
    }

    #[inline(always)]
    fn entry(&self, now: Instant, packet: &Packet) -> QueueEntry {
        let wire = self.framing.wire_length_of(packet);
        let charged = match self.charge {
            Charge::Wire => wire,
            Charge::Frame => packet.length.max(1),
        };
        let label = Label::new(packet.traffic_class);
        QueueEntry { handle: packet.handle, charged, wire, arrived: now, label }
    }

    /// Notifies the scheduler that `leaf` accepted a packet.
    #[inline(always)]
    pub(super) fn queued(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        was_empty: bool,
    ) {
        if !was_empty {
            return self.scheduler.joined(self.at(now), leaf, entry.charged());
        }
        self.scheduler.enqueued(self.at(now), leaf, entry.head());
        if let Some(explainer) = &mut self.explainer {
            explainer.first(now, leaf, self.line.ready_at());
        }
    }

    /// Notifies the scheduler that a packet was appended to `leaf`, unless that is held on.
    #[inline(always)]
    pub(super) fn appended(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        was_empty: bool,
    ) {
        if self.queues.is_held(leaf) {
            if self.queues.may_end_hold(leaf) {
                self.end_hold(now, leaf);
            }
            return;
        }
        self.queued(now, leaf, entry, was_empty);
        // A leaf that held a packet before it has one that may leave.
        if was_empty && let Some(until) = self.queues.unready_until(leaf) {
            self.hold(now, leaf, until);
        }
    }

    /// Returns whether the police let the packet of `entry` pass, marked or not.
    #[inline(never)]
    fn passes_police(
        &mut self,
        now: Instant,
        leaf: LeafId,
        own: Option<MeterId>,
        entry: &mut QueueEntry,
    ) -> bool {
        let Some(police) = &mut self.police else { return true };
        let metered =
            Metered { length: entry.charged(), traffic_class: entry.label.traffic_class() };
        match police.judge(now, leaf, own, metered) {
            Judgement::Pass => {}
            Judgement::Mark(traffic_class) => entry.label.rewrite(traffic_class),
            Judgement::Drop => return false,
        }
        true
    }

    /// Calls the dropper of `leaf` for a packet, and carries out its decision.
    #[inline(never)]
    fn admit(
        &mut self,
        now: Instant,
        leaf: LeafId,
        host_and_flow: (Host, u32),
        entry: &mut QueueEntry,
    ) -> Verdict {
        entry.label = self.queues.label(leaf, entry.label, host_and_flow);
        let mut evicted = false;
        let mut admission = self.queues.admit(now, leaf, entry);
        loop {
            match admission {
                Admission::Accept => break,
                Admission::Mark => {
                    entry.mark_congestion();
                    break;
                }
                Admission::Evict(position, reason) => {
                    self.evict(now, leaf, (position, reason), entry.head());
                }
                Admission::Refuse(reason) => {
                    // The scheduler already expects the packet.
                    assert!(!evicted, "a dropper that made room for a packet admits it");
                    return self.refuse(now, leaf, entry, reason);
                }
                Admission::Compare(position, reason) => {
                    if self.queues.is_same_flow(leaf, position, entry) {
                        self.drop_at(now, leaf, (position, reason), entry.head());
                        return self.refuse(now, leaf, entry, reason);
                    }
                    admission = self.queues.admit_unlike(now, leaf, entry);
                    continue;
                }
            }
            evicted = true;
            admission = self.queues.admit(now, leaf, entry);
        }
        if self.queues.is_full() {
            return self.refuse(now, leaf, entry, DropReason::Store);
        }
        if S::CALLS.polls_empty_leaves && self.queues.head(leaf).is_none() {
            if self.found_nothing(now) || self.scheduler.asked_in_vain(leaf) {
                self.queues.found_nothing(leaf);
            }
            if S::CALLS.passes_empty_leaves && self.queues.packets() == 0 {
                self.queues.pass_by(leaf);
            }
        }
        let was_empty = self.queues.push(leaf, entry);
        self.appended(now, leaf, entry, was_empty && !evicted);
        if let Some(redundant) = self.queues.drop_redundant(leaf) {
            self.dropped_behind(now, leaf, &redundant, DropReason::Redundant);
        }
        if let Some(surplus) = self.queues.surplus(leaf) {
            return self.shed(now, leaf, entry, surplus);
        }
        match self.queues.victim() {
            None => Verdict::Queued,
            Some(victim) => self.drop_victims(now, leaf, victim),
        }
    }

    /// Drops a packet of `leaf` to make room for `arriving`, which becomes first if no other waits.
    fn evict(&mut self, now: Instant, leaf: LeafId, at: (u32, DropReason), arriving: Head) {
        let (position, reason) = at;
        if self.explainer.is_some() && position == 0 {
            let first = self.queues.first(leaf);
            self.explain_drop(now, leaf, &first, reason);
        }
        self.looked_at = self.looked_at.filter(|&looked| position > 0 || looked != leaf);
        let (entry, first) = self.queues.evict(leaf, position, reason);
        self.report_drop(now, leaf, &entry, reason);
        if let Some(explainer) = self.explainer.as_mut().filter(|_| position > 0) {
            explainer.dropped_behind(now, leaf, &entry, reason);
        }
        // A leaf that was emptied for the arriving packet keeps its turn: if the scheduler were
        // notified that it is empty, a round robin would put the leaf at the end with every
        // arrival, and it would starve.
        self.scheduler.head_changed(self.at(now), leaf, Some(first.unwrap_or(arriving)));
    }

    /// Drops a packet of `leaf` for which no other one comes in.
    fn drop_at(&mut self, now: Instant, leaf: LeafId, at: (u32, DropReason), arriving: Head) {
        match at {
            (0, reason) => self.drop_first(now, leaf, reason),
            _ => self.evict(now, leaf, at, arriving),
        }
    }

    /// Drops the first packet of `leaf`.
    pub(super) fn drop_first(&mut self, now: Instant, leaf: LeafId, reason: DropReason) {
        if self.explainer.is_some() {
            let first = self.queues.first(leaf);
            self.explain_drop(now, leaf, &first, reason);
        }
        self.looked_at = self.looked_at.filter(|&looked| looked != leaf);
        let (entry, next) = self.queues.evict(leaf, 0, reason);
        self.queues.check_emptied(now, leaf);
        self.report_drop(now, leaf, &entry, reason);
        self.scheduler.head_changed(self.at(now), leaf, next);
    }

    /// Drops a packet that was not queued.
    #[inline(never)]
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        reason: DropReason,
    ) -> Verdict {
        if let Some(explainer) = &mut self.explainer {
            explainer.dropped_behind(now, leaf, entry, reason);
        }
        self.queues.refuse(leaf, entry.charged(), reason);
        self.report_drop(now, leaf, entry, reason);
        Verdict::Dropped(reason)
    }

    fn report_drop(&mut self, now: Instant, leaf: LeafId, entry: &QueueEntry, reason: DropReason) {
        let (handle, arrived) = (entry.handle, entry.arrived);
        self.dropped.push(Dropped { handle, leaf, reason, at: now, arrived });
    }

    /// Drops from `victim`, then from further leaves while they exceed the limit that they share
    /// with `leaf`, which accepted a packet.
    fn drop_victims(&mut self, now: Instant, leaf: LeafId, victim: LeafId) -> Verdict {
        let mut next = Some(victim);
        while let Some(victim) = next {
            self.drop_first(now, victim, DropReason::Longest);
            next = self.queues.victim();
        }
        // The arriving packet goes only if all before it went.
        match self.queues.head(leaf) {
            Some(_) => Verdict::Queued,
            None => Verdict::Dropped(DropReason::Longest),
        }
    }

    /// Drops from the flows of `leaf` that hold too much since it accepted `arrived`.
    fn shed(
        &mut self,
        now: Instant,
        leaf: LeafId,
        arrived: &QueueEntry,
        surplus: Surplus,
    ) -> Verdict {
        let reason = DropReason::Longest;
        let mut verdict = Verdict::Queued;
        let mut next = Some(surplus);
        while let Some(surplus) = next {
            match surplus {
                Surplus::First => self.drop_first(now, leaf, reason),
                Surplus::Behind(flow) => self.drop_from_flow(now, leaf, flow, reason),
            }
            if self.dropped.last().is_some_and(|last| last.handle == arrived.handle) {
                verdict = Verdict::Dropped(reason);
            }
            next = self.queues.surplus(leaf);
        }
        verdict
    }

    /// Drops the first packet of a flow of `leaf` other than the leaf's first packet.
    fn drop_from_flow(&mut self, now: Instant, leaf: LeafId, flow: u32, reason: DropReason) {
        let entry = self.queues.evict_from_flow(leaf, flow, reason);
        self.dropped_behind(now, leaf, &entry, reason);
    }

    /// Reports the drop of a packet of `leaf` that was not its first one.
    fn dropped_behind(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        reason: DropReason,
    ) {
        self.report_drop(now, leaf, entry, reason);
        if let Some(explainer) = &mut self.explainer {
            explainer.dropped_behind(now, leaf, entry, reason);
        }
        self.scheduler.head_changed(self.at(now), leaf, self.queues.head(leaf));
    }
}
