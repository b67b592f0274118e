//! Bursts: many packets offered or polled at one instant, in fewer steps than one by one.
//!
//! What is decided is the same, packet for packet; only a scheduler that has no more to say for a
//! while is not asked again. Memory far away is asked for before it is needed (`ahead`).

use crate::event::{Departure, Poll};
use crate::ids::LeafId;
use crate::link::{Link, Packet};
use crate::sched::{Discipline, Selection};
use crate::units::{Bytes, Instant};

impl<S: Discipline> Link<S> {
    /// See [`AnyLink::offer_burst`](crate::link::AnyLink::offer_burst).
    #[inline(always)]
    pub(crate) fn accept_burst(&mut self, now: Instant, packets: &[(LeafId, Packet)]) {
        self.step_to(now);
        let is_plain = self.is_plain && self.police.is_none() && self.queues.reserve(packets.len());
        if self.queues.are_far() {
            self.ask_for_ends(packets);
            return self.accept_far(now, packets, is_plain);
        }
        if is_plain {
            for &(leaf, packet) in packets {
                self.accept::<true, true>(now, leaf, packet);
            }
        } else {
            for &(leaf, packet) in packets {
                self.accept::<false, false>(now, leaf, packet);
            }
        }
    }

    /// The same with many leaves; those that send next are asked for on the way, a few at a time.
    #[inline(never)]
    fn accept_far(&mut self, now: Instant, packets: &[(LeafId, Packet)], is_plain: bool) {
        for (index, part) in packets.chunks(STEP).enumerate() {
            if S::RUNS && index.is_multiple_of(2) {
                self.ask_further();
            }
            self.ask_for_seconds(STEP);
            self.ask_for_turns(STEP);
            if is_plain {
                for &(leaf, packet) in part {
                    self.accept::<true, true>(now, leaf, packet);
                }
            } else {
                for &(leaf, packet) in part {
                    self.accept::<false, false>(now, leaf, packet);
                }
            }
        }
        self.ask_for_rest();
    }

    /// See [`AnyLink::poll_burst`](crate::link::AnyLink::poll_burst).
    #[inline(always)]
    pub(crate) fn hand_out_burst(&mut self, now: Instant, out: &mut [Departure]) -> usize {
        self.step_to(now);
        if self.explainer.is_some() {
            return self.poll_burst_explained(now, self.line.horizon(now), out);
        }
        let is_far = self.queues.are_far();
        if is_far {
            self.ask_for_rest();
            if S::RUNS {
                self.ask_further();
            }
        }
        let sent = if S::RUNS || S::COMPLETIONS {
            self.poll_runs(now, out)
        } else {
            self.poll_turns(now, out)
        };
        if is_far {
            self.line_up(out.len(), sent);
        }
        sent
    }

    /// A burst by single polls, for a run cannot be explained as one.
    fn poll_burst_explained(
        &mut self,
        now: Instant,
        horizon: Instant,
        out: &mut [Departure],
    ) -> usize {
        let mut sent = 0;
        while sent < out.len() && self.line.has_room(horizon) {
            let Poll::Packet(departure) = self.next_explained(now, horizon) else { break };
            out[sent] = departure;
            sent += 1;
        }
        sent
    }

    /// Polls at `now`, packet by packet, until a dropper is to be asked; answers how many packets
    /// left, and for which leaf it is.
    #[inline(always)]
    fn poll_unasked(&mut self, now: Instant, out: &mut [Departure]) -> (usize, Option<LeafId>) {
        let horizon = self.line.horizon(now);
        // A copy, so that nothing of it goes through memory.
        let mut line = self.line;
        let most = out.len().min(self.queues.packets() as usize);
        let (out, mut sent, mut asked) = (&mut out[..most], 0, None);
        // Once is enough, and harmless if nothing leaves.
        line.begin(now);
        let mut room = 0;
        while sent < most && line.has_room(horizon) {
            let Selection::Leaf(leaf) = self.scheduler.select(now) else { break };
            let Some((entry, next)) = self.queues.send_into(leaf, &mut room) else {
                asked = Some(leaf);
                break;
            };
            out[sent] = entry.departure(now, leaf, &mut line);
            sent += 1;
            self.scheduler.charge(now, leaf, entry.charged(), next);
        }
        self.queues.give_back(room);
        self.line = line;
        (sent, asked)
    }

    /// Polls at `now` in runs, as far as the scheduler allows them; answers how many packets left.
    #[inline(always)]
    fn poll_runs(&mut self, now: Instant, out: &mut [Departure]) -> usize {
        let horizon = self.line.horizon(now);
        let mut sent = 0;
        while sent < out.len() && self.queues.packets() > 0 && self.line.has_room(horizon) {
            let Selection::Leaf(leaf) = self.scheduler.select(now) else { break };
            let allowance = self.scheduler.allowance(now, leaf);
            if allowance == Bytes::ZERO
                && let Some(taken) = self.queues.send_unasked(leaf)
            {
                out[sent] = self.depart::<false>(now, leaf, taken);
                sent += 1;
                continue;
            }
            let line = (&mut self.line, horizon);
            match self.queues.send_run((now, leaf), allowance, line, &mut out[sent..]) {
                Some(run) => {
                    self.scheduler.charge(now, leaf, run.charged, run.next);
                    sent += run.taken;
                }
                None => {
                    if let Some(departure) = self.release::<false>(now, leaf) {
                        out[sent] = departure;
                        sent += 1;
                    }
                }
            }
        }
        sent
    }

    /// The same packet by packet, for who allows no runs and is told of no completions.
    #[inline(always)]
    fn poll_turns(&mut self, now: Instant, out: &mut [Departure]) -> usize {
        let mut sent = 0;
        loop {
            let (taken, asked) = self.poll_unasked(now, &mut out[sent..]);
            sent += taken;
            let Some(leaf) = asked else { return sent };
            if let Some(departure) = self.release::<false>(now, leaf) {
                out[sent] = departure;
                sent += 1;
            }
        }
    }
}

/// With so many packets offered, as many leaves that send next are asked for.
const STEP: usize = 8;
