//! The service that a scheduler guarantees a leaf whatever the others do, in the terms from which
//! bounds follow.
//!
//! A [`Service`] is data: network calculus (`weir-policy`, `calculus`) derives rates, delays and
//! backlogs from it. Each scheduler states its own beside its code, so that the two change
//! together. Invariant: it is what the scheduler does in the worst case, not what it usually does.

use crate::units::{Bytes, Duration, Rate};
use alloc::vec::Vec;

/// The service of all leaves; lists are in the order of leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Service {
    /// Nothing that is known.
    Unknown,
    /// All packets in the order of arrival, at most at the pace of the shaper.
    Arrivals {
        /// The rate to which the line is limited, if it is.
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
    /// The first leaf goes before all once a packet of it has waited this long; no guarantee for
    /// others.
    Deadline(Duration),
}

/// The visits of a round robin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// The gain of each leaf at a visit, in bytes or packets.
    pub gains: Vec<u64>,
    /// Whether gains count packets.
    pub in_packets: bool,
    /// Whether a leaf sends until its gain is overdrawn, and the next gain repays that; else a
    /// packet waits until it is covered.
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

/// Leaves with rates of their own, and how the excess is divided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buckets {
    /// The rates and bursts, in the order of leaves.
    pub leaves: Vec<Bucket>,
    /// Which leaves get the excess.
    pub excess: Excess,
}

/// Which leaves get the rate that those within their rates leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    /// Every class with children lends what these leave of its rate, the deepest class first, to
    /// the smaller rank first, by turns, up to each `ceil`. The link lends nothing.
    Turns,
    /// Every class lends, and the link, too: siblings divide it in proportion to their rates, and a
    /// class that may not `borrow` gets no more than its rate.
    Rates,
    /// Nothing that is known.
    Unknown,
}

/// A leaf with a rate of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// The rate that it may always use.
    pub rate: Rate,
    /// The most bytes that it may send at once after a pause.
    pub burst: Bytes,
    /// The most credit that a pause earns.
    pub saves: Bytes,
    /// The most debt that it may have before it is within its rate again.
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
