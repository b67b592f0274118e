//! The meter of a class: a bucket in virtual-scheduling form [algorithms §3.15].
//!
//! Invariant: `theoretical` never goes back, so `conforms_at` does not either; whoever remembers an
//! old `conforms_at` remembers one that is too early, never too late.

use crate::units::{Bytes, FineInstant, Instant, Pace, Rate};

/// What a class used of its rate.
#[derive(Clone, Copy)]
pub(super) struct Meter {
    /// When everything sent would have been sent at the rate.
    theoretical: FineInstant,
    conforms_at: Instant,
}

/// The rate of a meter and how far it may be exceeded.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pace: Pace,
    burst: Bytes,
    debt_max: Bytes,
}

impl Terms {
    /// Borrowing takes a class at most `debt_max` beyond the burst.
    pub fn new(rate: Rate, burst: Bytes, debt_max: Bytes) -> Self {
        Self { pace: Pace::of(rate), burst, debt_max }
    }

    /// What may be sent at once after a pause.
    pub const fn burst(&self) -> Bytes {
        self.burst
    }

    /// How much of what is borrowed counts beyond the burst.
    pub const fn debt_max(&self) -> Bytes {
        self.debt_max
    }

    /// Whether it makes no difference to the debt of the class if so many bytes are charged at once
    /// or packet after packet.
    #[inline]
    pub fn may_owe(&self, bytes: Bytes) -> bool {
        bytes.plus(bytes) <= self.debt_max
    }

    /// Where a class that is overlimit ends up which would have gone on from `start` to `end`.
    // Out of line, so that the common case keeps its registers.
    #[inline(never)]
    fn held(
        &self,
        now: FineInstant,
        start: FineInstant,
        end: FineInstant,
        sent: Bytes,
    ) -> FineInstant {
        let bound = self.burst.plus(self.debt_max.max(sent.plus(sent)));
        end.min(start.max(now.after(self.pace, bound)))
    }
}

impl Meter {
    /// A meter with all its burst to spend.
    pub const FULL: Meter = Meter { theoretical: FineInstant::ZERO, conforms_at: Instant::ZERO };

    /// From when on the class is not overlimit, if it sends nothing more.
    #[inline]
    pub const fn conforms_at(&self) -> Instant {
        self.conforms_at
    }

    /// Whether the class is not overlimit.
    #[inline]
    pub fn conforms(&self, now: Instant) -> bool {
        self.conforms_at <= now
    }

    /// Whether the class, which conforms, still does when it has sent so many bytes more.
    #[inline]
    pub fn covers(&self, terms: &Terms, now: Instant, bytes: Bytes) -> bool {
        // What is left of the burst then: a time, and so one product instead of two.
        let Some(rest) = terms.burst.get().checked_sub(bytes.get()) else { return false };
        let now = FineInstant::from_instant(now);
        self.theoretical <= now.after(terms.pace, Bytes::new(rest))
    }

    /// The class, or one below it, sent a packet.
    ///
    /// What a conforming class sends counts in full, however long the packet: that keeps the rate.
    /// What it borrows counts only up to the debt, or a class that borrowed for ten minutes would
    /// stay without its rate for ten minutes.
    #[inline]
    pub fn charge(&mut self, terms: &Terms, now: Instant, sent: Bytes) {
        let conforms = self.conforms(now);
        let now = FineInstant::from_instant(now);
        let start = self.theoretical.max(now);
        let end = start.after(terms.pace, sent);
        self.settle(terms, if conforms { end } else { terms.held(now, start, end, sent) });
    }

    /// Takes over what a class used under other terms: what it used of its burst stays used, and a
    /// debt of 5 ms stays one, as far as these terms let it owe so much.
    pub fn take_over(&mut self, terms: &Terms, now: Instant, old: &Meter, before: &Terms) {
        let bound = terms.burst.plus(terms.debt_max);
        let bound = FineInstant::from_instant(now).after(terms.pace, bound);
        let end = old.theoretical.after(terms.pace, terms.burst);
        self.settle(terms, end.before(before.pace, before.burst).min(bound));
    }

    #[inline]
    fn settle(&mut self, terms: &Terms, theoretical: FineInstant) {
        self.theoretical = theoretical;
        self.conforms_at = theoretical.before(terms.pace, terms.burst).round_up();
    }
}
