//! A stretch of simulated time: that in which a source sends, or that which a report covers.

use weir_core::units::{Duration, Instant};

/// The time from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub start: Instant,
    pub end: Instant,
}

impl Interval {
    /// Returns what the report of a run covers: from its warm-up on.
    pub fn reported(warmup: Duration, duration: Duration) -> Self {
        Self { start: Instant::ZERO.after(warmup), end: Instant::ZERO.after(duration) }
    }

    /// Returns the time from `start` until `stop`, or to the end of time.
    pub fn until(start: Instant, stop: Option<Instant>) -> Self {
        Self { start, end: stop.unwrap_or(Instant::MAX) }
    }
}
