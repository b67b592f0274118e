//! What happens to packets, as the link reports it.

use crate::ids::{Handle, LeafId};
use crate::units::{Bytes, Instant};

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// Its leaf was full: the arriving packet was refused.
    Full,
    /// Its leaf was full: it waited and made room for what arrived.
    Evicted,
    /// The link's store of waiting packets was full.
    Store,
    /// A dropper chose it at random, to tell its sender early: RED and its kin, BLUE, PIE.
    Early,
    /// It had waited too long when its turn came: CoDel.
    Late,
    /// Leaves that share a limit were full, and its leaf held most; or its leaf was full, and its
    /// flow held most there.
    Longest,
    /// A policer before the queue found it above its rate.
    Policed,
    /// Its leaf was taken away or its limit lowered while it waited.
    Reconfigured,
}

/// What became of an offered packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It waits. Others may have been dropped for it: see [`crate::link::AnyLink::take_dropped`].
    Queued,
    /// It was dropped.
    Dropped(DropReason),
}

/// A packet that was dropped, the offered one or one that waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// Which packet.
    pub handle: Handle,
    /// Its leaf.
    pub leaf: LeafId,
    /// Why.
    pub reason: DropReason,
    /// When.
    pub at: Instant,
    /// When the link was offered it.
    pub arrived: Instant,
}

/// A packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// Which packet.
    pub handle: Handle,
    /// Its leaf.
    pub leaf: LeafId,
    /// The length that the scheduler charged.
    pub charged: Bytes,
    /// When the link was offered it.
    pub arrived: Instant,
    /// When the link handed it out.
    pub at: Instant,
    /// When its last bit is on the wire.
    pub finished: Instant,
    /// The traffic class that a policer or dropper gave it in place of its own.
    pub mark: Mark,
}

/// The traffic class (DSCP and ECN) that a packet leaves with, if it is not the one that it came
/// with: the port writes it into the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark(u64);

impl Mark {
    /// The class, and in the bit above it whether it takes the place of the packet's own.
    #[inline(always)]
    pub(crate) const fn of_word(word: u16) -> Self {
        Self(word as u64)
    }

    /// The class to write into the packet, `None` if it keeps its own.
    pub const fn written(self) -> Option<u8> {
        if self.0 > 0xff { Some(self.0 as u8) } else { None }
    }
}

/// What a link answers when asked for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poll {
    /// This packet leaves now.
    Packet(Departure),
    /// Nothing before this later instant, unless something is offered.
    At(Instant),
    /// Nothing waits.
    Idle,
}

impl DropReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [DropReason; 8] = [
        DropReason::Full,
        DropReason::Evicted,
        DropReason::Store,
        DropReason::Early,
        DropReason::Late,
        DropReason::Longest,
        DropReason::Policed,
        DropReason::Reconfigured,
    ];

    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Full => "full",
            DropReason::Evicted => "evicted",
            DropReason::Store => "store",
            DropReason::Early => "early",
            DropReason::Late => "late",
            DropReason::Longest => "longest",
            DropReason::Policed => "policed",
            DropReason::Reconfigured => "reconfigured",
        }
    }
}
