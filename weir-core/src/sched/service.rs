//! What a scheduler does for a leaf whatever the others do, in the terms that bounds follow from.
//!
//! A [`Service`] is data: network calculus (`weir-policy`, `calculus`) makes rates, delays and
//! backlogs of it. Each scheduler states its own beside its code, so that the two change together.
//! Invariant: it is what the scheduler does in the worst case, never what it does as a rule.

use crate::units::{Bytes, Duration, Rate};
use alloc::vec::Vec;

/// What leaves are guaranteed; lists are in the order of leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Service {
    /// Nothing that is known.
    Unknown,
    /// All packets in the order of arrival, at most at the pace of the shaper.
    Arrivals {
        /// Rate below which the line is held, if it is.
        shaper: Option<Rate>,
    },
    /// Strict priority: the smaller rank first; leaves of one rank take turns of a packet.
    Ranks(Vec<u32>),
    /// Rounds in which each leaf has a visit.
    Rounds(Rounds),
    /// Close to the fluid ideal of these weights.
    Fluid(Vec<Weighted>),
    /// Leaves within their own rates go before all that are not.
    Buckets(Buckets),
    /// A packet is sent by the deadline that the curve of its leaf gives it, or one largest packet
    /// later, if all curves together fit into the line; `None` for a leaf without a curve.
    Curves(Vec<Option<Curve>>),
    /// The first leaf goes before all once a packet of it waited so long; nothing for others.
    Deadline(Duration),
}

/// The visits of a round robin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// What each leaf gains with a visit: bytes, or packets.
    pub gains: Vec<u64>,
    /// Whether gains count packets.
    pub in_packets: bool,
    /// Whether a leaf sends until its gain is overdrawn, which the next one pays; else a packet
    /// waits until it is covered.
    pub overdraws: bool,
    /// Whether a leaf that empties has no debt when it comes back.
    pub forgets: bool,
}

/// A leaf of fair queueing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weighted {
    /// Its part, relative to the sum of all.
    pub weight: u64,
    /// The most bytes of the leaf itself that may count as sent before a packet that arrives now.
    pub ahead: Bytes,
    /// The most bytes of the line by which the leaf may be later than the fluid.
    pub late: Bytes,
}

/// Leaves with rates of their own, and what becomes of what these leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buckets {
    /// The leaves.
    pub leaves: Vec<Bucket>,
    /// Which leaves get what is left.
    pub excess: Excess,
}

/// Which leaves get what those within their rates leave over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    /// Every class with children lends what these leave of its own rate, but the link lends
    /// nothing: the deepest class first, to the smaller rank first, by turns, up to each `ceil`.
    Turns,
    /// Every class lends, and the link, too: siblings have all in proportion to their rates, and
    /// one that may not `borrow` no more than its rate.
    Rates,
    /// Nothing that is known.
    Unknown,
}

/// A leaf with a rate of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// What it may always send.
    pub rate: Rate,
    /// What it may send at once after a pause.
    pub burst: Bytes,
    /// What a pause is worth to it at most.
    pub saves: Bytes,
    /// What it may have to make good before it is within its rate again.
    pub debt: Bytes,
    /// The smaller goes first among those within their rates.
    pub rank: u32,
    /// Its turn among those of its rank; `None` if nothing is known of turns.
    pub turn: Option<Bytes>,
}

/// A service curve: slope `m1` for `d`, then `m2`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Curve {
    /// The first slope in bit/s.
    pub m1: u64,
    /// How long it lasts.
    pub d: Duration,
    /// The slope after it.
    pub m2: Rate,
}
