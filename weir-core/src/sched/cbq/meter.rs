//! The meter of a class: a bucket in virtual-scheduling form [algorithms §3.15].
//!
//! It takes the place of the papers' estimator: nothing is averaged, so neither the length of
//! packets nor a late timer changes a share. Invariant: the theoretical time never goes back while
//! a class is charged, so its undertime does not either.

use crate::units::{Bytes, FineInstant, FineSpan, Instant, Pace, Rate, StoredInstant};

/// What a class may use and what it used.
#[derive(Clone, Copy)]
pub(super) struct Meter {
    /// When everything sent would have been sent at the rate.
    theoretical: StoredInstant,
    /// Bytes beyond the burst that borrowing counts at most.
    debt: u32,
    burst: Bytes,
    pace: Pace,
}

impl Meter {
    /// A meter with all its burst to spend; borrowing takes it at most `debt` bytes beyond.
    pub const fn new(rate: Rate, burst: Bytes, debt: u32) -> Self {
        Self { theoretical: StoredInstant::ZERO, debt, burst, pace: Pace::of(rate) }
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
    #[inline]
    pub const fn undertime(&self) -> Instant {
        self.theoretical.instant().minus(self.burst_time()).round_up()
    }

    /// Whether the class has used more than its burst and its rate allow.
    #[inline]
    pub fn is_overlimit(&self, now: Instant) -> bool {
        // At the end of time no class can wait for a later instant.
        self.theoretical.instant() > self.limit(now) && now != Instant::MAX
    }

    /// Counts a packet that the class, or one below it, sent.
    ///
    /// What a class sends within its limit counts in full, however long the packet: that keeps the
    /// rate. What it borrows counts only up to the debt, or a class that borrowed for ten minutes
    /// would stay without its rate for ten minutes.
    #[inline]
    pub fn charge(&mut self, now: Instant, sent: u32) {
        let cost = self.pace.packet(sent);
        let (theoretical, limit) = (self.theoretical.instant(), self.limit(now));
        let start = theoretical.max(FineInstant::from_instant(now));
        let mut end = start.plus(cost);
        if theoretical > limit {
            let debt = self.debt_time().max(cost.doubled());
            end = end.min(start.max(limit.plus(debt)));
        }
        self.theoretical = StoredInstant::of(end);
    }

    /// Takes over what a class used under an `old` meter: what it used of its burst stays used, and
    /// a debt of 5 ms stays one, as far as this meter allows it.
    pub fn inherit(&mut self, now: Instant, old: &Meter) {
        let end = old.theoretical.instant().plus(self.burst_time()).minus(old.burst_time());
        let bound = self.limit(now).plus(self.debt_time());
        self.theoretical = StoredInstant::of(end.min(bound));
    }

    /// The latest theoretical time with which the class is not overlimit at `now`.
    #[inline]
    fn limit(&self, now: Instant) -> FineInstant {
        FineInstant::from_instant(now).plus(self.burst_time())
    }

    /// What the burst takes at the rate; longer than a thousand years counts as that.
    #[inline]
    const fn burst_time(&self) -> FineSpan {
        self.pace.span(self.burst)
    }

    #[inline]
    const fn debt_time(&self) -> FineSpan {
        self.pace.span(self.debt())
    }
}
