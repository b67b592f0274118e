//! Reading ahead: what the packets of a burst need is asked for before they need it.
//!
//! With many leaves every packet needs lines of memory that are far away: its leaf and the packet
//! behind which it goes, later its leaf again and the packet that is first after it. They are asked
//! for all at once, and those of the packets that leave next a call or two early, so that they are
//! on their way while others are handled. These are hints: whether they are right or wrong, nothing
//! that is decided depends on them.

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
    /// They were asked for, but not the packets in them.
    begun: bool,
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

    /// After a burst of which so many packets were sent: asks for the leaves whose turn comes next,
    /// unless enough is near for another one.
    #[inline(never)]
    pub(crate) fn ask_for_turns(&mut self, burst: usize, sent: usize) {
        let ahead = &mut self.ahead;
        let burst = burst.min(LEAVES_MAX);
        ahead.packets = ahead.packets.saturating_sub(sent);
        if ahead.packets >= burst {
            return;
        }
        let most = if S::RUNS { LEAVES_MAX } else { burst };
        ahead.count = self.scheduler.line_up(&mut ahead.leaves[..most]);
        let prefetch = ahead.prefetch;
        for &leaf in &ahead.leaves[..ahead.count] {
            self.queues.ask_for_leaf(leaf, prefetch);
            self.scheduler.touch(leaf, prefetch);
        }
        ahead.begun = true;
    }

    /// Whether leaves were asked for, but not the packets in them.
    #[inline(always)]
    pub(crate) const fn has_begun_to_ask(&self) -> bool {
        self.ahead.begun
    }

    /// Asks for the packets in the leaves that were asked for.
    #[inline(never)]
    pub(crate) fn ask_for_starts(&mut self) {
        let Ahead { prefetch, leaves, count, .. } = &self.ahead;
        let leaves = &leaves[..*count];
        self.ahead.packets = if S::RUNS {
            self.queues.ask_for_runs(leaves, *prefetch)
        } else {
            self.queues.ask_for_seconds(leaves, *prefetch)
        };
        self.ahead.begun = false;
    }
}

/// Leaves that are asked for at once.
pub(crate) const LEAVES_MAX: usize = 32;
