//! A series of arrivals, each at its instant, and what leaves between them, in one call.
//!
//! What is decided is what offering and advancing in turn decide; the laws hold it to that.

use crate::event::Departure;
use crate::link::{Arrival, Link};
use crate::sched::{Discipline, Selection};
use crate::units::Instant;
use alloc::vec::Vec;

impl<S: Discipline> Link<S> {
    /// See [`AnyLink::serve`](crate::link::AnyLink::serve); `PLAIN` as in [`Link::accept`],
    /// `EXPLAINED` where it is explained why packets wait.
    pub(crate) fn serve_all<const PLAIN: bool, const EXPLAINED: bool>(
        &mut self,
        due: Option<Instant>,
        arrivals: &[Arrival],
        out: &mut Vec<Departure>,
    ) -> Option<Instant> {
        if arrivals.is_empty() {
            return due;
        }
        // Where nothing waits nobody asks at the end of time either.
        let mut due = due.map_or(Instant::MAX, |due| due.max(self.line.ready_at()));
        for arrival in arrivals {
            let at = arrival.at;
            if due <= at && EXPLAINED {
                self.advance_to(at, out);
            } else if due <= at {
                self.hand_out(due, at, out);
            }
            self.step_to(at);
            // Not read before, or it would be put aside until here.
            let &Arrival { leaf, packet, .. } = arrival;
            self.accept::<PLAIN, false>(at, leaf, packet);
            // It may leave at once, or let another leave; but not before the line has room.
            due = at.max(self.line.ready_at());
        }
        Some(due)
    }

    /// Hands out what leaves from `due`, before which nothing does and the line may have no room,
    /// up to `until`, which is not before, and to which the link is to be stepped then.
    // A loop of its own beside that of `advance_to`, which is the plain way to do the same: a
    // departure goes to its place at once, not by way of an answer.
    #[inline(always)]
    fn hand_out(&mut self, due: Instant, until: Instant, out: &mut Vec<Departure>) {
        let mut at = due;
        loop {
            self.step_to(at);
            if self.queues.packets() == 0 {
                return;
            }
            let next = match self.scheduler.select(at) {
                Selection::Leaf(leaf) => {
                    match self.queues.send_unasked(leaf) {
                        Some(taken) => out.push(self.depart::<false>(at, leaf, taken)),
                        None => out.extend(self.release::<false>(at, leaf)),
                    }
                    at.max(self.line.ready_at())
                }
                Selection::At(instant) => match self.wait_until(at, instant) {
                    later if later > at => later,
                    _ => return,
                },
                Selection::Idle => panic!("packets wait, but the scheduler knows of none"),
            };
            if next > until {
                return;
            }
            at = next;
        }
    }
}
