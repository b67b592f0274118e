//! Token buckets whose tokens are times, and the mode that a pair of them puts a class in
//! [algorithms §5.2, §5.4].
//!
//! Times are signed, in units of 2^-26 ns, so that the cost of a packet at 400 Gbit/s is exact to
//! one part in a million. The cost of a byte rounds up, so a bucket never fills too fast.
//! Invariant: amounts stay within two minutes either side of zero, so no sum of two overflows.

use crate::state::state;
use crate::units::{Bytes, Duration, Instant, Rate};

/// A signed length of time in units of 2^-26 ns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Fine(i64);

/// The rate and depth of a bucket.
#[derive(Clone, Copy, Debug)]
struct Terms {
    fine_per_byte: u64,
    depth: Fine,
}

/// The rates and depths of both buckets of a class; classes with equal ones share them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    own: Terms,
    ceiling: Terms,
}

/// The tokens of a class, counted in the time that its rates take to earn them: those of `own` fill
/// at its rate, those of `ceiling` at its ceil. Packed, so that a class is 36 bytes and not 40.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(super) struct Buckets {
    own: Fine,
    ceiling: Fine,
    /// When both were last updated.
    checkpoint: Instant,
}

/// The mode of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// It has reached its ceil.
    CantSend,
    /// Its own tokens are used up; an ancestor may lend.
    MayBorrow,
    /// It sends at its own rate.
    CanSend,
}

impl Fine {
    const ZERO: Fine = Fine(0);

    #[inline]
    fn of(duration: Duration) -> Self {
        Self((duration.as_nanos() << FRACTION_BITS) as i64)
    }

    #[inline]
    fn negative(self) -> Self {
        Self(-self.0)
    }

    #[inline]
    fn plus(self, other: Fine) -> Self {
        Self(self.0 + other.0)
    }

    /// The whole nanoseconds until this debt is earned: rounds up, so never early, and at least 1.
    #[inline]
    fn debt(self) -> Duration {
        let fine = self.0.min(-1).unsigned_abs();
        Duration::from_nanos(fine.div_ceil(1 << FRACTION_BITS))
    }
}

impl Terms {
    fn new(rate: Rate, burst: Bytes) -> Self {
        let fine_per_second = (8 * 1_000_000_000u128) << FRACTION_BITS;
        // 1 bit/s gives 8e9 * 2^26 < 2^59, so the quotient always fits; rounded up, it is not 0.
        let fine_per_byte = fine_per_second.div_ceil(u128::from(rate.bits_per_second())) as u64;
        let mut terms = Self { fine_per_byte, depth: Fine::ZERO };
        terms.depth = terms.cost(burst).min(Fine::of(TIME_MAX));
        terms
    }

    /// Returns the time that `bytes` take, capped where it empties any bucket to the floor.
    #[inline]
    fn cost(&self, bytes: Bytes) -> Fine {
        let cost = self.fine_per_byte.saturating_mul(bytes.get());
        Fine(cost.min(2 * Fine::of(TIME_MAX).0 as u64) as i64)
    }

    /// Returns what is left of `tokens`, which are up to date, when `bytes` are charged.
    #[inline]
    fn charged(&self, tokens: Fine, bytes: Bytes) -> Fine {
        let full = tokens.min(self.depth);
        Fine(full.0.saturating_sub(self.cost(bytes).0)).max(FLOOR)
    }
}

impl Rates {
    /// The rates and depths of a class.
    pub(super) fn new(own: (Rate, Bytes), ceiling: (Rate, Bytes)) -> Self {
        Self { own: Terms::new(own.0, own.1), ceiling: Terms::new(ceiling.0, ceiling.1) }
    }
}

impl Buckets {
    /// Returns buckets that are full at the epoch.
    pub(super) fn full(rates: &Rates) -> Self {
        Self { own: rates.own.depth, ceiling: rates.ceiling.depth, checkpoint: Instant::ZERO }
    }

    /// Returns the mode at `now` of a class that was in mode `before` and, unless it is `CanSend`,
    /// the wait until a better one. With hysteresis a mode is lost only a whole bucket below zero.
    #[inline]
    pub(super) fn mode(
        &self,
        rates: &Rates,
        now: Instant,
        before: Mode,
        hysteresis: bool,
    ) -> (Mode, Duration) {
        let elapsed = self.elapsed(now);
        let ceiling = self.ceiling.plus(elapsed);
        let own = self.own.plus(elapsed);
        let below = |terms: &Terms, keeps: bool| {
            if hysteresis && keeps { terms.depth.negative() } else { Fine::ZERO }
        };
        if ceiling < below(&rates.ceiling, before != Mode::CantSend) {
            (Mode::CantSend, ceiling.debt())
        } else if own >= below(&rates.own, before == Mode::CanSend) {
            (Mode::CanSend, Duration::ZERO)
        } else {
            (Mode::MayBorrow, own.debt())
        }
    }

    /// Returns whether the mode is still `before`, right after a charge and without hysteresis. The
    /// signs of the tokens decide that, so most packets compute no mode.
    #[inline]
    pub(super) fn keeps(&self, before: Mode) -> bool {
        let Self { own, ceiling, .. } = *self;
        match before {
            Mode::CanSend => !self.are_in_debt(),
            Mode::MayBorrow => own < Fine::ZERO && ceiling >= Fine::ZERO,
            Mode::CantSend => ceiling < Fine::ZERO,
        }
    }

    /// Charges a packet; one that an ancestor lent for (`lent`) costs no tokens of the own bucket.
    #[inline]
    pub(super) fn charge(&mut self, rates: &Rates, now: Instant, bytes: Bytes, lent: bool) {
        let elapsed = self.elapsed(now);
        let own = self.own.plus(elapsed);
        // A class that borrows has own tokens below zero; the minimum only guards the invariant.
        self.own = if lent { own.min(Fine::of(TIME_MAX)) } else { rates.own.charged(own, bytes) };
        self.ceiling = rates.ceiling.charged(self.ceiling.plus(elapsed), bytes);
        self.checkpoint = now;
    }

    /// Returns when the tokens of the rate, and those of the ceil, were or will be back at zero;
    /// the epoch if they never fell below.
    pub(super) fn earned_at(&self) -> (Instant, Instant) {
        let earned = |tokens: Fine| {
            let debt = tokens < Fine::ZERO;
            if debt { self.checkpoint.after(tokens.debt()) } else { Instant::ZERO }
        };
        (earned(self.own), earned(self.ceiling))
    }

    /// Returns whether one of the buckets was below zero when last updated.
    #[inline]
    pub(super) fn are_in_debt(&self) -> bool {
        let Self { own, ceiling, .. } = *self;
        (own.0 | ceiling.0) < 0
    }

    /// Takes over the tokens of a bucket with other rates and depths: a debt of 5 ms stays a debt
    /// of 5 ms, and no credit exceeds the depth.
    pub(super) fn take_over(&mut self, rates: &Rates, old: &Buckets) {
        self.own = old.own.min(rates.own.depth);
        self.ceiling = old.ceiling.min(rates.ceiling.depth);
        self.checkpoint = old.checkpoint;
    }

    /// The time since the checkpoint, at most a minute.
    #[inline]
    fn elapsed(&self, now: Instant) -> Fine {
        Fine::of(now.since(self.checkpoint).min(TIME_MAX))
    }
}

const FRACTION_BITS: u32 = 26;
/// Bound: the time that a bucket, idle time or a debt of `htb` counts for; more is forgotten.
/// [algorithms §5.2] `mbuffer`.
const TIME_MAX: Duration = Duration::from_secs(60);
/// [algorithms §5.5] The deepest debt is one unit above a minute.
const FLOOR: Fine = Fine(1 - ((60 * 1_000_000_000) << FRACTION_BITS));

state!(Fine(units) check: |fine: &Self| (FLOOR..=Fine::of(TIME_MAX)).contains(fine));
state!(packed Buckets { own, ceiling, checkpoint });
state!(
    enum Mode {
        CantSend,
        MayBorrow,
        CanSend,
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bits: u64) -> Rate {
        Rate::new(bits).expect("rows hold no zero")
    }

    #[test]
    fn modes_follow_the_two_buckets() {
        let rates =
            Rates::new((rate(1_000_000), Bytes::new(1000)), (rate(2_000_000), Bytes::new(1000)));
        let mut buckets = Buckets::full(&rates);
        let at = |micros: u64| Instant::from_nanos(micros * 1000);
        let mode =
            |buckets: &Buckets, micros| buckets.mode(&rates, at(micros), Mode::CanSend, false);
        assert_eq!(mode(&buckets, 0), (Mode::CanSend, Duration::ZERO));
        buckets.charge(&rates, at(0), Bytes::new(1000), false);
        assert_eq!(mode(&buckets, 0).0, Mode::CanSend);
        buckets.charge(&rates, at(0), Bytes::new(1000), false);
        assert_eq!(mode(&buckets, 0), (Mode::CantSend, Duration::from_millis(4)));
        assert_eq!(mode(&buckets, 4000), (Mode::MayBorrow, Duration::from_millis(4)));
        buckets.charge(&rates, at(4000), Bytes::new(500), true);
        assert_eq!(mode(&buckets, 4000), (Mode::CantSend, Duration::from_millis(2)));
        assert_eq!(mode(&buckets, 8000), (Mode::CanSend, Duration::ZERO));
    }

    #[test]
    fn extremes_stay_within_a_minute() {
        let rows = [1, 7, 1_000, 30_000_000, 400_000_000_000];
        for (bits, burst) in rows.into_iter().flat_map(|bits| [(bits, 1), (bits, u64::MAX)]) {
            let setting = (rate(bits), Bytes::new(burst));
            let rates = Rates::new(setting, setting);
            let mut buckets = Buckets::full(&rates);
            let mut now = Instant::ZERO;
            for step in 0..1000u64 {
                buckets.charge(&rates, now, Bytes::new(step * 65), step % 3 == 0);
                let (mode, wait) = buckets.mode(&rates, now, Mode::CantSend, step % 2 == 0);
                assert!(wait <= TIME_MAX, "{bits} {burst}: {wait:?}");
                assert_eq!(wait == Duration::ZERO, mode == Mode::CanSend);
                let year = Duration::from_secs(365 * 86_400);
                now = now.after(if step % 100 == 0 { year } else { Duration::from_micros(step) });
            }
        }
    }
}
