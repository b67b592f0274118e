//! Serves a series of arrivals, each at its own instant, and what leaves between and after them.
//!
//! Every port calls this. Invariant: the decisions equal those of `offer` and `poll` at the same
//! instants; a law checks it.

use super::Link;
use crate::event::{Departure, Poll};
use crate::packet::Arrival;
use crate::sched::Discipline;
use crate::units::Instant;
use alloc::vec::Vec;

impl<S: Discipline> Link<S> {
    /// See [`AnyLink::serve`](super::AnyLink::serve).
    pub(super) fn serve_all(
        &mut self,
        arrivals: &[Arrival],
        until: Instant,
        out: &mut Vec<Departure>,
    ) -> Option<Instant> {
        for arrival in arrivals {
            self.hand_out(arrival.at, out);
            self.step_to(arrival.at);
            self.accept(arrival.at, arrival.leaf, arrival.packet);
        }
        self.hand_out(until.max(self.now), out);
        (self.queues.packets() > 0).then_some(self.due)
    }

    /// Hands out what leaves up to `until`.
    #[inline(always)]
    fn hand_out(&mut self, until: Instant, out: &mut Vec<Departure>) {
        while self.due <= until && self.queues.packets() > 0 {
            let at = self.due;
            self.step_to(at);
            match self.next(at) {
                Poll::Packet(departure) => out.push(departure),
                // The end of time has no later instant.
                Poll::At(_) if self.due <= at => return,
                Poll::At(_) | Poll::Idle => {}
            }
        }
    }
}
