//! Departures: the scheduler selects a leaf, its dropper may still drop the packet, and the line
//! takes the rest.

use super::Link;
use crate::event::{Departure, Poll};
use crate::ids::LeafId;
use crate::packet::Head;
use crate::queue::{QueueEntry, Release};
use crate::sched::{Discipline, Selection};
use crate::units::Instant;

impl<S: Discipline> Link<S> {
    /// Returns the packet that leaves at `now`, or when to poll again, and records that instant.
    #[inline(always)]
    pub(super) fn next(&mut self, now: Instant) -> Poll {
        let ready_at = self.line.ready_at();
        if ready_at > now && self.queues.packets() > 0 {
            self.due = ready_at;
            return Poll::At(ready_at);
        }
        self.end_holds(now);
        // Terminates: each further round drops a packet or holds a leaf.
        while self.queues.packets() > 0 {
            match self.scheduler.select(self.at(now)) {
                Selection::Leaf(leaf) => {
                    debug_assert!(
                        self.queues.head(leaf).is_some(),
                        "a selected leaf is backlogged"
                    );
                    if let Some(departure) = self.release(now, leaf) {
                        self.due = self.line.ready_at().max(now);
                        return Poll::Packet(departure);
                    }
                }
                Selection::At(instant) => {
                    if let Some(leaf) = self.scheduler.looks_at()
                        && !self.stays_first(now, leaf)
                    {
                        continue;
                    }
                    self.due = self.wait_until(now, self.instant(instant));
                    return Poll::At(self.due);
                }
                Selection::Idle => {
                    let (until, _) = self
                        .queues
                        .first_hold()
                        .expect("packets wait that are not held, but the scheduler knows of none");
                    self.due = self.wait_until(now, until);
                    return Poll::At(self.due);
                }
            }
        }
        Poll::Idle
    }

    /// Returns when to poll again, if the scheduler said at `now` that nothing may leave before
    /// `instant`, or no leaf that is not held has a packet and a hold ends then.
    #[inline(always)]
    fn wait_until(&self, now: Instant, instant: Instant) -> Instant {
        // The end of time has no later instant: a packet not sent by then is never sent.
        let is_later = instant > now || now == Instant::MAX;
        assert!(is_later, "a scheduler returns a later instant than now");
        // Only a scheduler with completions is also polled when a packet has left the wire.
        let left = self.leaving.front().filter(|_| S::CALLS.completions);
        let instant = left.map_or(instant, |row| instant.min(row.0));
        self.queues.first_hold().map_or(instant, |(until, _)| instant.min(until))
    }

    /// Gives the leaves back to the scheduler of which a packet may leave at `now`.
    #[inline(always)]
    fn end_holds(&mut self, now: Instant) {
        while let Some((until, leaf)) = self.queues.first_hold()
            && until <= now
        {
            self.end_hold(now, leaf);
        }
    }

    /// Gives a leaf back to the scheduler, if a packet may leave at `now`.
    #[inline(never)]
    pub(super) fn end_hold(&mut self, now: Instant, leaf: LeafId) {
        if !self.queues.end_hold(now, leaf) {
            return;
        }
        self.rejoin(now, leaf);
        if let Some(explainer) = &mut self.explainer {
            explainer.first(now, leaf, self.line.ready_at());
        }
    }

    /// Takes a leaf, which is backlogged, from the scheduler until an instant.
    #[inline(never)]
    pub(super) fn hold(&mut self, now: Instant, leaf: LeafId, until: Instant) {
        self.leave(now, leaf);
        self.queues.hold(leaf, until);
    }

    /// Hands out the first packet of `leaf`, which was selected, unless its dropper drops or holds
    /// it. The packet is read where it lies: a copy of what was written a moment before waits for
    /// the processor to write it.
    #[inline(always)]
    fn release(&mut self, now: Instant, leaf: LeafId) -> Option<Departure> {
        let by_dropper = self.queues.calls_dropper(leaf);
        if by_dropper && !self.stays_first(now, leaf) {
            return None;
        }
        let entry = self.queues.first(leaf);
        let next = if by_dropper { self.queues.send(leaf) } else { self.queues.take_first(leaf) };
        let departure = self.depart(now, leaf, &entry, next);
        if by_dropper {
            self.released(now, leaf);
        }
        Some(departure)
    }

    /// Notifies the dropper of `leaf`, which let its first packet leave.
    #[inline(always)]
    fn released(&mut self, now: Instant, leaf: LeafId) {
        self.looked_at = None;
        self.queues.check_emptied(now, leaf);
        if let Some(until) = self.queues.unready_until(leaf) {
            self.hold(now, leaf, until);
        }
    }

    /// Lets the dropper of `leaf` decide about its first packet, unless it has already; returns
    /// false if the packet is dropped, or may not leave yet.
    #[inline(never)]
    fn stays_first(&mut self, now: Instant, leaf: LeafId) -> bool {
        if self.looked_at == Some(leaf) {
            return true;
        }
        if let Some(until) = self.queues.choose_first(now, leaf) {
            self.hold(now, leaf, until);
            return false;
        }
        match self.queues.release(now, leaf) {
            Release::Send => {}
            Release::Mark => self.queues.mark_first(leaf),
            Release::Drop(reason) => {
                self.drop_first(now, leaf, reason);
                return false;
            }
        }
        self.looked_at = Some(leaf);
        true
    }

    /// Hands `entry`, which was taken from `leaf`, to the line; `next` is the leaf's new first
    /// packet.
    #[inline(always)]
    fn depart(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        next: Option<Head>,
    ) -> Departure {
        if self.explainer.is_some() {
            self.explain_sent(now, leaf, entry);
        }
        self.scheduler.charge(self.at(now), leaf, entry.charged(), next);
        self.line.begin(now);
        let finished = self.line.send(entry.wire);
        assert!(finished >= now, "the line sends a packet after it was handed it");
        if S::CALLS.completions {
            let before = self.leaving.back();
            debug_assert!(before.is_none_or(|row| row.0 <= finished), "the line sends in order");
            self.leaving.push_back((finished, leaf, entry.charged()));
        }
        if let Some(explainer) = &mut self.explainer {
            explainer.follow(now, leaf, self.line.ready_at());
        }
        Departure {
            handle: entry.handle,
            leaf,
            charged: entry.charged(),
            arrived: entry.arrived,
            at: now,
            finished,
            mark: entry.label.mark(),
        }
    }
}
