//! The result of an interval, for one way.

use crate::saved::saved;
use weir_core::units::{Duration, Instant};

/// The values that a controller decides by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Measure {
    /// When the interval ended.
    pub at: Instant,
    /// How long frames wait behind the link in this way, above the least; `None` if nothing passed
    /// that tells.
    pub delay: Option<Duration>,
    /// The round trip behind the link, queues included.
    pub round_trip: Option<Duration>,
    /// The flows that told, or the reflectors.
    pub flows: u32,
    /// Whether reflectors told, as no flow did.
    pub is_asked: bool,
    /// Bits per second that the link sent.
    pub sent: u64,
    /// Bits per second that came through the modem, if that can be told: its capacity while a queue
    /// stands there.
    pub through: Option<u64>,
    /// Upwards, the bits per second that the link had sent a round trip before: those that could
    /// come through.
    pub offered: Option<u64>,
    /// Upwards, the bytes that the link sent within the last round trip.
    pub under_way: Option<u64>,
    /// Whether frames waited in the link: it was the bottleneck.
    pub is_limited: bool,
    /// Whether most flows lost more than one byte in twenty behind the link.
    pub is_lossy: bool,
}

saved!(Measure {
    at,
    delay,
    round_trip,
    flows,
    is_asked,
    sent,
    through,
    offered,
    under_way,
    is_limited,
    is_lossy
});

/// The work of a direction's link since the last interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shaper {
    /// Bytes that it sent.
    pub sent: u64,
    /// Frames that it dropped.
    pub dropped: u64,
    /// Whether frames waited in it.
    pub is_limited: bool,
}
