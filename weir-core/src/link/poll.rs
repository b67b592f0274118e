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
        // Terminates: each further round drops a packet.
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
                Selection::Idle => panic!("packets wait, but the scheduler knows of none"),
            }
        }
        Poll::Idle
    }

    /// Returns when to poll again, if the scheduler said at `now` that nothing may leave before
    /// `instant`.
    #[inline(always)]
    fn wait_until(&self, now: Instant, instant: Instant) -> Instant {
        // The end of time has no later instant: a packet not sent by then is never sent.
        let is_later = instant > now || now == Instant::MAX;
        assert!(is_later, "a scheduler returns a later instant than now");
        // Only a scheduler with completions is also polled when a packet has left the wire.
        let left = self.leaving.front().filter(|_| S::CALLS.completions);
        left.map_or(instant, |row| instant.min(row.0))
    }

    /// Hands out the first packet of `leaf`, which was selected, unless its dropper drops it.
    #[inline(always)]
    fn release(&mut self, now: Instant, leaf: LeafId) -> Option<Departure> {
        if let Some((entry, next)) = self.queues.send_without_dropper(leaf) {
            return Some(self.depart(now, leaf, &entry, next));
        }
        self.release_by_dropper(now, leaf)
    }

    /// Hands out or drops the first packet of `leaf`, as its dropper decides or has decided.
    #[inline(never)]
    fn release_by_dropper(&mut self, now: Instant, leaf: LeafId) -> Option<Departure> {
        if !self.stays_first(now, leaf) {
            return None;
        }
        self.looked_at = None;
        let (entry, next) = self.queues.send(leaf);
        let departure = self.depart(now, leaf, &entry, next);
        self.queues.check_emptied(now, leaf);
        Some(departure)
    }

    /// Lets the dropper of `leaf` decide about its first packet, unless it has already; returns
    /// false if the packet is dropped.
    fn stays_first(&mut self, now: Instant, leaf: LeafId) -> bool {
        if self.looked_at == Some(leaf) {
            return true;
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
