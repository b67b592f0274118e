//! The meter of a class: a bucket in virtual-scheduling form [algorithms §3.15].
//!
//! Invariant: `theoretical` never goes back, so `conforms_at` does not either; whoever remembers an
//! old `conforms_at` remembers one that is too early, never too late.

use crate::units::{Bytes, FineInstant, Instant, Pace, Rate};

/// What a class used of its rate.
pub(super) struct Meter {
    pace: Pace,
    burst: Bytes,
    debt_max: Bytes,
    /// When everything sent would have been sent at the rate.
    theoretical: FineInstant,
    conforms_at: Instant,
}

impl Meter {
    /// A meter with all its burst to spend. Borrowing takes it at most `debt_max` beyond the burst.
    pub fn new(rate: Rate, burst: Bytes, debt_max: Bytes) -> Self {
        Self {
            pace: Pace::of(rate),
            burst,
            debt_max,
            theoretical: FineInstant::ZERO,
            conforms_at: Instant::ZERO,
        }
    }

    /// From when on the class is not overlimit, if it sends nothing more.
    pub const fn conforms_at(&self) -> Instant {
        self.conforms_at
    }

    /// Whether the class is not overlimit.
    pub fn conforms(&self, now: Instant) -> bool {
        self.conforms_at <= now
    }

    /// Whether the class, which conforms, still does when it has sent so many bytes more.
    pub fn covers(&self, now: Instant, bytes: Bytes) -> bool {
        let now = FineInstant::from_instant(now);
        let end = self.theoretical.max(now).after(self.pace, bytes);
        end <= now.after(self.pace, self.burst)
    }

    /// Whether it makes no difference to the debt of the class if so many bytes are charged at once
    /// or packet after packet.
    pub fn may_owe(&self, bytes: Bytes) -> bool {
        bytes.plus(bytes) <= self.debt_max
    }

    /// The class, or one below it, sent a packet.
    ///
    /// What a conforming class sends counts in full, however long the packet: that keeps the rate.
    /// What it borrows counts only up to the debt, or a class that borrowed for ten minutes would
    /// stay without its rate for ten minutes.
    pub fn charge(&mut self, now: Instant, sent: Bytes) {
        let conforms = self.conforms(now);
        let now = FineInstant::from_instant(now);
        let start = self.theoretical.max(now);
        let mut end = start.after(self.pace, sent);
        if !conforms {
            let bound = self.burst.plus(self.debt_max.max(sent.plus(sent)));
            end = end.min(start.max(now.after(self.pace, bound)));
        }
        self.theoretical = end;
        self.conforms_at = end.before(self.pace, self.burst).round_up();
    }
}
