//! Bursts: many packets offered or polled at one instant, in fewer steps than one by one.
//!
//! What is decided is the same, packet for packet; only a scheduler that has no more to say for a
//! while is not asked again. Memory far away is read before it is needed.

use crate::event::{Departure, Poll};
use crate::ids::LeafId;
use crate::link::{Link, Packet};
use crate::queue::TOUCHED_MAX;
use crate::sched::{Discipline, Selection};
use crate::units::{Bytes, Instant};

impl<S: Discipline> Link<S> {
    /// See [`AnyLink::offer_burst`](crate::link::AnyLink::offer_burst).
    #[inline(always)]
    pub(crate) fn accept_burst(&mut self, now: Instant, packets: &[(LeafId, Packet)]) {
        self.step_to(now);
        if self.queues.are_far() {
            self.touch_burst(packets);
        }
        if self.is_plain && self.police.is_none() && self.queues.reserve(packets.len()) {
            for &(leaf, packet) in packets {
                self.accept::<true, true>(now, leaf, packet);
            }
        } else {
            for &(leaf, packet) in packets {
                self.accept::<false, false>(now, leaf, packet);
            }
        }
    }

    /// See [`AnyLink::poll_burst`](crate::link::AnyLink::poll_burst).
    #[inline(always)]
    pub(crate) fn hand_out_burst(&mut self, now: Instant, out: &mut [Departure]) -> usize {
        self.step_to(now);
        if self.queues.are_far() {
            self.touch_upcoming(out.len());
        }
        if self.explainer.is_some() {
            return self.poll_burst_explained(now, self.line.horizon(now), out);
        }
        let sent = if S::RUNS || S::COMPLETIONS {
            self.poll_runs(now, out)
        } else {
            self.poll_turns(now, out)
        };
        if self.queues.are_far() {
            self.touched = self.touched.saturating_sub(sent);
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
            self.scheduler.charge(now, leaf, entry.charged(), next);
            out[sent] = entry.departure(now, leaf, &mut line);
            sent += 1;
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

    /// Reads what the packets of a burst will need, all at once: memory answers many questions as
    /// fast as one.
    #[inline(never)]
    fn touch_burst(&self, packets: &[(LeafId, Packet)]) {
        for burst in packets.chunks(TOUCHED_MAX) {
            // A leaf where packets wait already is no news to its scheduler.
            let empty = |leaf| self.scheduler.touch(leaf);
            self.queues.touch_ends(burst.iter().map(|row| row.0), empty);
        }
    }

    /// The same for the leaves whose turn comes next, unless enough was read already for so many
    /// packets.
    #[inline(never)]
    fn touch_upcoming(&mut self, packets: usize) {
        let packets = packets.min(TOUCHED_MAX);
        if self.touched >= packets {
            return;
        }
        let mut leaves = [LeafId(0); TOUCHED_MAX];
        let most = if S::RUNS { TOUCHED_MAX } else { packets };
        let count = self.scheduler.line_up(&mut leaves[..most]);
        for &leaf in &leaves[..count] {
            self.scheduler.touch(leaf);
        }
        let behind = if S::RUNS { TOUCHED_AHEAD } else { 0 };
        self.touched = self.queues.touch_starts(&leaves[..count], behind);
    }
}

/// Where leaves send all that they hold, so many packets are read ahead at once.
const TOUCHED_AHEAD: usize = 4 * TOUCHED_MAX;
