//! The meter of a class: a bucket in virtual-scheduling form [algorithms §3.15].
//!
//! It takes the place of the papers' estimator: nothing is averaged, so neither the length of
//! packets nor a late timer changes a share. Invariant: the theoretical time never goes back while
//! a class is charged, so its undertime does not either.

use crate::state::state;
use crate::units::{Bytes, FineInstant, FineSpan, Instant, Pace, Rate};

/// The rate and burst of a class, and its use of them.
#[derive(Clone, Copy)]
pub(super) struct Meter {
    /// When all that was sent would have been sent at the rate.
    theoretical: FineInstant,
    pace: Pace,
    burst: Bytes,
    /// The most bytes beyond the burst that borrowing counts.
    debt: u32,
}

impl Meter {
    /// Returns a meter with its whole burst left; borrowing puts it at most `debt` bytes in debt.
    pub const fn new(rate: Rate, burst: Bytes, debt: u32) -> Self {
        Self { theoretical: FineInstant::ZERO, pace: Pace::of(rate), burst, debt }
    }

    /// Returns the bytes that may be sent at once after a pause.
    pub const fn burst(&self) -> Bytes {
        self.burst
    }

    /// Returns how much of the borrowed bytes counts beyond the burst.
    pub const fn debt(&self) -> Bytes {
        Bytes::new(self.debt as u64)
    }

    /// Sets how much of the borrowed bytes counts beyond the burst.
    pub const fn set_debt(&mut self, debt: u32) {
        self.debt = debt;
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
    /// A packet within the limit of its class counts in full, however long it is: that keeps the
    /// rate. A borrowed one counts only up to the debt, or a class that borrowed for ten minutes
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

    /// Takes over the use of an `old` meter: the used part of its burst stays used, and a debt of
    /// 5 ms stays a debt of 5 ms, as far as this meter allows.
    pub fn inherit(&mut self, now: Instant, old: &Meter) {
        let (burst, old_burst) = (self.pace.span(self.burst), old.pace.span(old.burst));
        let end = old.theoretical.plus(burst).minus(old_burst);
        self.theoretical = end.min(self.limit(now).plus(self.debt_time()));
    }

    /// Returns the latest theoretical time at which the class is not overlimit at `now`.
    const fn limit(&self, now: Instant) -> FineInstant {
        FineInstant::from_instant(now).plus(self.pace.span(self.burst))
    }

    const fn debt_time(&self) -> FineSpan {
        self.pace.span(self.debt())
    }
}

state!(Meter { theoretical; kept: pace, burst, debt });
