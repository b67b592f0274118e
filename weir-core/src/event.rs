//! Outcomes of packets, as the link reports them.

use crate::ids::{Handle, LeafId};
use crate::state::state;
use crate::units::{Bytes, Instant};

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum DropReason {
    /// Its leaf was full, and the arriving packet was refused.
    #[default]
    Full,
    /// Its leaf was full, and this packet was dropped to make room for the arriving one.
    Evicted,
    /// The link's store of waiting packets was full.
    Store,
    /// A dropper chose it at random, to signal congestion to its sender early: RED and its
    /// variants, BLUE, PIE.
    Early,
    /// It had waited too long when its turn came: CoDel.
    Late,
    /// Leaves that share a limit were full, and its leaf held the most; or its leaf was full, and
    /// its flow held the most there, or as much as a flow may.
    Longest,
    /// A policer before the queue found its traffic above the rate.
    Policed,
    /// A change removed its leaf or lowered the limit while it waited.
    Reconfigured,
    /// It had become too old to be of use: see [`crate::link::AnyLink::drop_older`].
    Stale,
    /// It only acknowledged what a later packet of its connection acknowledges, too.
    Redundant,
}

/// The result of offering a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It waits. Other packets may have been dropped for it: see
    /// [`crate::link::AnyLink::take_dropped`].
    Queued,
    /// It was dropped, for this reason.
    Dropped(DropReason),
}

/// A dropped packet: the offered one, or one that waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// The caller's id of the packet.
    pub handle: Handle,
    /// The leaf in which it was dropped.
    pub leaf: LeafId,
    /// Why it was dropped.
    pub reason: DropReason,
    /// The instant of the drop.
    pub at: Instant,
    /// The instant at which the packet was offered to the link.
    pub arrived: Instant,
}

/// A packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// The caller's id of the packet.
    pub handle: Handle,
    /// The leaf from which it was sent.
    pub leaf: LeafId,
    /// The length that the scheduler charged.
    pub charged: Bytes,
    /// The instant at which the packet was offered to the link.
    pub arrived: Instant,
    /// The instant at which the link handed it out.
    pub at: Instant,
    /// The instant at which its last bit is on the wire.
    pub finished: Instant,
    /// The traffic class that a policer or dropper wrote in place of its own.
    pub mark: Mark,
}

/// The traffic class (DSCP and ECN) that a packet leaves with, if it differs from the one that it
/// arrived with: the port writes it into the packet.
/// Two marks that write the same are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark(u64);

/// Packets that left with another traffic class than they came with. One may have met congestion
/// and have another DSCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marked {
    /// All of them.
    pub packets: u64,
    /// Those that a dropper marked as having met congestion.
    pub congested: u64,
    /// Those to which a rule, a policer or `wash` gave another DSCP.
    pub recoded: u64,
}

impl Mark {
    /// The traffic class, in the bit above it whether it replaces the packet's own, and then why.
    #[inline(always)]
    pub(crate) const fn of_word(word: u16) -> Self {
        Self(word as u64)
    }

    /// The mark that writes this traffic class, or none.
    pub const fn new(written: Option<u8>) -> Self {
        match written {
            Some(traffic_class) => Self(0x100 | traffic_class as u64),
            None => Self(0),
        }
    }

    /// Returns the traffic class to write into the packet, `None` if it keeps its own.
    pub const fn written(self) -> Option<u8> {
        if self.0 > 0xff { Some(self.0 as u8) } else { None }
    }
}

impl PartialEq for Mark {
    fn eq(&self, other: &Self) -> bool {
        self.written() == other.written()
    }
}

impl Eq for Mark {}

impl Marked {
    /// Counts a packet that left with this mark, or without any.
    #[inline(always)]
    pub const fn count(&mut self, mark: Mark) {
        self.packets += (mark.0 > 0xff) as u64;
        self.congested += mark.0 >> CONGESTED_BIT & 1;
        self.recoded += mark.0 >> RECODED_BIT & 1;
    }

    /// Adds other packets.
    pub const fn add(&mut self, other: Marked) {
        self.packets += other.packets;
        self.congested += other.congested;
        self.recoded += other.recoded;
    }
}

/// The bits of a mark that say whether its packet met congestion, and whether its DSCP is another.
pub(crate) const CONGESTED_BIT: u32 = 9;
pub(crate) const RECODED_BIT: u32 = 10;

/// The result of [`crate::link::AnyLink::poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poll {
    /// This packet leaves now.
    Packet(Departure),
    /// Nothing leaves before this later instant, unless a packet is offered.
    At(Instant),
    /// No leaf holds a packet.
    Idle,
}

impl DropReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [DropReason; 10] = [
        DropReason::Full,
        DropReason::Evicted,
        DropReason::Store,
        DropReason::Early,
        DropReason::Late,
        DropReason::Longest,
        DropReason::Policed,
        DropReason::Reconfigured,
        DropReason::Stale,
        DropReason::Redundant,
    ];

    /// Returns the word used in reports.
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
            DropReason::Stale => "stale",
            DropReason::Redundant => "redundant",
        }
    }
}

state!(
    enum DropReason {
        Full,
        Evicted,
        Store,
        Early,
        Late,
        Longest,
        Policed,
        Reconfigured,
        Stale,
        Redundant,
    }
);
state!(Dropped { handle, leaf, reason, at, arrived });
