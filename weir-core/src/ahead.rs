//! Reading ahead: what the packets of a burst need is asked for before they need it.
//!
//! With many leaves every packet needs lines of memory that are far away: its leaf and the packet
//! behind which it goes, later its leaf again and the packet that is first after it. They are asked
//! for a call or two early; the leaves that send next, a few at a time while packets are offered. A
//! processor has only so many lines on their way, some twenty where this was measured, and forgets
//! what it is asked for beyond them. These are hints: whether they are right or wrong, nothing that
//! is decided depends on them.

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
    count: usize,
    /// So many of them were asked for.
    asked: usize,
    /// Whether the packets in them were, too.
    is_done: bool,
    /// About so many packets will be near.
    packets: usize,
}

impl<S: Discipline> Link<S> {
    /// Asks for what the packets of a burst need that is offered now.
    #[inline(never)]
    pub(crate) fn ask_for_ends(&self, packets: &[(LeafId, Packet)]) {
        let prefetch = self.ahead.prefetch;
        for burst in packets.chunks(LEAVES_MAX) {
            burst.iter().for_each(|row| self.queues.ask_for_leaf(row.0, prefetch));
            for &(leaf, _) in burst {
                // A leaf where packets wait already is no news to its scheduler.
                if self.queues.ask_for_end(leaf, prefetch) {
                    self.scheduler.touch(leaf, prefetch);
                }
            }
        }
    }

    /// After a burst of which so many packets were sent: finds the leaves whose turn comes next,
    /// unless enough is near for another one.
    #[inline(never)]
    pub(crate) fn line_up(&mut self, burst: usize, sent: usize) {
        let ahead = &mut self.ahead;
        let burst = burst.min(LEAVES_MAX);
        ahead.packets = ahead.packets.saturating_sub(sent);
        if ahead.packets >= burst {
            return;
        }
        let most = if S::RUNS { LEAVES_MAX } else { burst };
        ahead.count = self.scheduler.line_up(&mut ahead.leaves[..most]);
        (ahead.asked, ahead.is_done) = (0, false);
    }

    /// Asks for so many more of the leaves that send next.
    #[inline(never)]
    pub(crate) fn ask_for_turns(&mut self, more: usize) {
        let Ahead { prefetch, leaves, count, asked, .. } = &mut self.ahead;
        let most = (*asked + more).min(*count);
        for &leaf in leaves.get(*asked..most).unwrap_or_default() {
            self.queues.ask_for_leaf(leaf, *prefetch);
            self.scheduler.touch(leaf, *prefetch);
        }
        *asked = most.max(*asked);
    }

    /// Asks for the packets in the leaves that send next, unless that was done.
    #[inline(never)]
    pub(crate) fn ask_for_starts(&mut self) {
        if self.ahead.is_done {
            return;
        }
        self.ask_for_turns(LEAVES_MAX);
        let Ahead { prefetch, leaves, count, .. } = &self.ahead;
        let leaves = &leaves[..*count];
        self.ahead.packets = if S::RUNS {
            self.queues.ask_for_runs(leaves, *prefetch)
        } else {
            self.queues.ask_for_seconds(leaves, *prefetch)
        };
        self.ahead.is_done = true;
    }
}

/// Leaves that are asked for in a burst.
pub(crate) const LEAVES_MAX: usize = 32;
