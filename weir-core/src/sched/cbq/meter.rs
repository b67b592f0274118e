//! The meter of a class: a bucket in virtual-scheduling form [algorithms §3.15].
//!
//! It takes the place of the papers' estimator: nothing is averaged, so neither the length of
//! packets nor a late timer changes a share. Invariant: the theoretical time never goes back while
//! a class is charged, so its undertime does not either.

use crate::units::{Bytes, FineInstant, FineSpan, Instant, Pace, Rate};

/// What a class may use and what it used.
#[derive(Clone, Copy)]
pub(super) struct Meter {
    /// When everything sent would have been sent at the rate.
    theoretical: FineInstant,
    pace: Pace,
    burst: Bytes,
    /// Bytes beyond the burst that borrowing counts at most.
    debt: u32,
}

impl Meter {
    /// A meter with all its burst to spend; borrowing takes it at most `debt` bytes beyond.
    pub const fn new(rate: Rate, burst: Bytes, debt: u32) -> Self {
        Self { theoretical: FineInstant::ZERO, pace: Pace::of(rate), burst, debt }
    }

    /// What may be sent at once after a pause.
    pub const fn burst(&self) -> Bytes {
        self.burst
    }

    /// How much of what is borrowed counts beyond the burst.
    pub const fn debt(&self) -> Bytes {
        Bytes::new(self.debt as u64)
    }

    /// The instant from which on the class is not overlimit if it sends nothing more.
    pub const fn undertime(&self) -> Instant {
        self.theoretical.minus(self.pace.span(self.burst)).round_up()
    }

    /// Whether the class has used more than its burst and its rate allow.
    pub fn is_overlimit(&self, now: Instant) -> bool {
        // At the end of time no class can wait for a later instant.
        self.theoretical > self.limit(now) && now != Instant::MAX
    }

    /// Counts a packet that the class, or one below it, sent; returns whether it is overlimit now.
    ///
    /// What a class sends within its limit counts in full, however long the packet: that keeps the
    /// rate. What it borrows counts only up to the debt, or a class that borrowed for ten minutes
    /// would stay without its rate for ten minutes.
    pub fn charge(&mut self, now: Instant, sent: Bytes) -> bool {
        let limit = self.limit(now);
        let start = self.theoretical.max(FineInstant::from_instant(now));
        let mut end = start.plus(self.pace.span(sent));
        if self.theoretical > limit {
            let debt = self.debt_time().max(self.pace.span(sent.plus(sent)));
            end = end.min(start.max(limit.plus(debt)));
        }
        self.theoretical = end;
        end > limit
    }

    /// Takes over what a class used under an `old` meter: what it used of its burst stays used, and
    /// a debt of 5 ms stays one, as far as this meter allows it.
    pub fn inherit(&mut self, now: Instant, old: &Meter) {
        let (burst, old_burst) = (self.pace.span(self.burst), old.pace.span(old.burst));
        let end = old.theoretical.plus(burst).minus(old_burst);
        self.theoretical = end.min(self.limit(now).plus(self.debt_time()));
    }

    /// The latest theoretical time with which the class is not overlimit at `now`.
    const fn limit(&self, now: Instant) -> FineInstant {
        FineInstant::from_instant(now).plus(self.pace.span(self.burst))
    }

    const fn debt_time(&self) -> FineSpan {
        self.pace.span(self.debt())
    }
}
