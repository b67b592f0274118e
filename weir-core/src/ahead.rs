//! Reading ahead: what the packets of a burst need is asked for before they need it.
//!
//! With many leaves every packet needs lines of memory that are far away: its leaf and the packet
//! behind which it goes, later its leaf again and the packet that is first after it. They are asked
//! for a call or two early; the leaves that send next, a few at a time while packets are offered.
//! Where a leaf sends all that it holds, its packets are a chain, of which each names the next: it
//! is followed by a packet every few that are offered, so that nobody waits for it. A processor
//! has only so many lines on their way, some twenty where this was measured, and forgets what it is
//! asked for beyond them. These are hints: whether they are right or wrong, nothing that is decided
//! depends on them.

use crate::ids::LeafId;
use crate::link::{Link, Packet};
use crate::prefetch::Prefetch;
use crate::sched::Discipline;

/// What was asked for of the packets that leave next.
#[derive(Default)]
pub(crate) struct Ahead {
    pub prefetch: Prefetch,
    /// The leaves whose turn comes, so many as `count` says.
    leaves: [LeafId; LEAVES_MAX],
    /// How many packets each of them holds that was read.
    held: [u32; LEAVES_MAX],
    count: usize,
    /// So many of them were asked for.
    asked: usize,
    /// And so many were read since, to ask for their packets.
    read: usize,
    /// About so many packets will be near.
    packets: usize,
    chains: Chains,
}

/// Where chains of packets go on that were asked for up to there, each a slot, and how many packets
/// are behind it.
#[derive(Default)]
struct Chains {
    list: [(u32, u32); LEAVES_MAX],
    count: usize,
}

impl Chains {
    /// One more; there are no more than leaves.
    #[inline]
    fn add(&mut self, slot: u32, behind: u32) {
        if let Some(place) = self.list.get_mut(self.count).filter(|_| behind > 0) {
            *place = (slot, behind);
            self.count += 1;
        }
    }

    /// Each goes on by one packet, to the slot that `next` names.
    #[inline]
    fn go_on(&mut self, mut next: impl FnMut(u32) -> u32) {
        let all = core::mem::take(&mut self.count);
        for place in 0..all {
            let (slot, behind) = self.list[place];
            // Who has no more is overwritten; no branch, for that is hard to foresee.
            self.list[self.count] = (next(slot), behind.wrapping_sub(1));
            self.count += usize::from(behind > 1);
        }
    }
}

impl<S: Discipline> Link<S> {
    /// Asks for what the packets of a burst need that is offered now.
    #[inline(never)]
    pub(crate) fn ask_for_ends(&self, packets: &[(LeafId, Packet)]) {
        let prefetch = self.ahead.prefetch;
        for burst in packets.chunks(LEAVES_MAX) {
            let (mut fresh, mut count) = ([LeafId(0); LEAVES_MAX], 0);
            burst.iter().for_each(|row| self.queues.ask_for_leaf(row.0, prefetch));
            for &(leaf, _) in burst {
                // A leaf where packets wait already is no news to its scheduler.
                fresh[count] = leaf;
                count += usize::from(self.queues.ask_for_end(leaf, prefetch));
            }
            fresh[..count].iter().for_each(|&leaf| self.scheduler.touch(leaf, prefetch));
            fresh[..count].iter().for_each(|&leaf| self.scheduler.touch_above(leaf, prefetch));
        }
    }

    /// After a burst of which so many packets were sent: finds the leaves whose turn comes next,
    /// unless enough is near for another one.
    #[inline(never)]
    pub(crate) fn line_up(&mut self, burst: usize, sent: usize) {
        let ahead = &mut self.ahead;
        let burst = burst.min(LEAVES_MAX);
        ahead.packets = ahead.packets.saturating_sub(sent);
        // To follow chains takes as long as a burst.
        if ahead.packets >= if S::RUNS { 2 * burst } else { burst } {
            return;
        }
        let most = if S::RUNS { LEAVES_MAX } else { burst };
        // Without runs all of them have had their turn.
        let read = if S::RUNS { ahead.read } else { 0 };
        let last = read.checked_sub(1).map(|last| ahead.leaves[last]);
        ahead.count = self.scheduler.line_up(&mut ahead.leaves[..most]);
        self.scheduler.ask_for_order(ahead.prefetch);
        // Who was asked for before, up to the last one, is near.
        let leaves = ahead.leaves.iter().take(ahead.count.min(read));
        let known = leaves.rev().position(|&leaf| Some(leaf) == last);
        let known = known.map_or(0, |after| ahead.count.min(read) - after);
        if known == 0 {
            ahead.chains.count = 0;
        }
        ahead.packets = 0;
        for place in 0..known {
            ahead.held[place] = ahead.held[read - known + place];
            ahead.packets += ahead.held[place] as usize;
        }
        (ahead.asked, ahead.read) = (known, known);
    }

    /// Asks for so many more of the leaves that send next.
    #[inline(never)]
    pub(crate) fn ask_for_turns(&mut self, more: usize) {
        let Ahead { prefetch, leaves, count, asked, packets, .. } = &mut self.ahead;
        if *packets >= PACKETS_MAX {
            return;
        }
        let most = (*asked + more).min(*count);
        for &leaf in leaves.get(*asked..most).unwrap_or_default() {
            self.queues.ask_for_leaf(leaf, *prefetch);
            self.scheduler.touch_turn(leaf, *prefetch);
        }
        *asked = most.max(*asked);
    }

    /// Goes on by a packet in the leaves that send next and hold more than two.
    #[inline(never)]
    pub(crate) fn ask_further(&mut self) {
        let Ahead { prefetch, chains, .. } = &mut self.ahead;
        chains.go_on(|slot| self.queues.ask_behind(slot, *prefetch));
    }

    /// Asks for the second packets in the leaves that send next, but for so many leaves that were
    /// asked for last.
    #[inline(never)]
    pub(crate) fn ask_for_seconds(&mut self, but: usize) {
        let Ahead { prefetch, leaves, held: counts, asked, read, packets, chains, .. } =
            &mut self.ahead;
        let most = asked.saturating_sub(but);
        let counts = counts.get_mut(*read..most).unwrap_or_default();
        let rows = leaves.get(*read..most).unwrap_or_default().iter().zip(counts);
        for (&leaf, count) in rows {
            let (second, held) = self.queues.ask_for_second(leaf, *prefetch);
            self.scheduler.touch_above(leaf, *prefetch);
            if S::RUNS {
                // All that a leaf holds may go at once.
                *count = held;
                *packets += held as usize;
                chains.add(second, held.saturating_sub(2));
            } else {
                *packets += 1;
            }
        }
        *read = most.max(*read);
    }

    /// Asks for what was not yet asked for, of leaves and of their packets.
    #[inline(never)]
    pub(crate) fn ask_for_rest(&mut self) {
        self.ask_for_turns(LEAVES_MAX);
        self.ask_for_seconds(0);
    }
}

/// Leaves that are asked for in a burst.
pub(crate) const LEAVES_MAX: usize = 32;
/// Packets that are asked for.
const PACKETS_MAX: usize = 4 * LEAVES_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn each_chain_goes_on_to_its_end() {
        let mut chains = Chains::default();
        for (slot, behind) in [(100, 2), (200, 0), (300, 1), (400, 3)] {
            chains.add(slot, behind);
        }
        let mut asked = Vec::new();
        let mut go_on = || {
            chains.go_on(|slot| {
                asked.push(slot + 1);
                slot + 1
            });
        };
        (0..5).for_each(|_| go_on());
        assert_eq!(asked, [101, 301, 401, 102, 402, 403]);
    }
}
