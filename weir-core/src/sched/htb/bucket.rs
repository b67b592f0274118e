//! Token buckets whose tokens are times, and the mode that a pair of them puts a class in
//! [algorithms §5.2, §5.4].
//!
//! Times are signed, in units of 2^-26 ns, so that what a packet costs at 400 Gbit/s is right to
//! one part in a million. The cost of a byte rounds up, so a bucket never runs fast. Invariant:
//! amounts stay within two minutes either side of zero, so no sum of two overflows.

use crate::units::{Bytes, Duration, Instant, Rate};

/// A signed length of time in units of 2^-26 ns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Fine(i64);

/// Tokens, counted in the time that the rate takes to earn them.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: Fine,
    depth: Fine,
    fine_per_byte: u64,
}

/// The two buckets of a class: `own` fills at its rate, `ceiling` at its ceil.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    own: Bucket,
    ceiling: Bucket,
    /// When both were last brought up to date.
    checkpoint: Instant,
}

/// What a class may do.
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

impl Bucket {
    fn new(rate: Rate, burst: Bytes) -> Self {
        let fine_per_second = (8 * 1_000_000_000u128) << FRACTION_BITS;
        // 1 bit/s gives 8e9 * 2^26 < 2^59, so the quotient always fits.
        let fine_per_byte = fine_per_second.div_ceil(u128::from(rate.bits_per_second())) as u64;
        let mut bucket = Self { tokens: Fine::ZERO, depth: Fine::ZERO, fine_per_byte };
        bucket.depth = bucket.cost(burst).min(Fine::of(TIME_MAX));
        bucket.tokens = bucket.depth;
        bucket
    }

    /// The time that `bytes` take, held where it empties any bucket to the floor.
    #[inline]
    fn cost(&self, bytes: Bytes) -> Fine {
        let cost = self.fine_per_byte.saturating_mul(bytes.get());
        Fine(cost.min(2 * Fine::of(TIME_MAX).0 as u64) as i64)
    }

    #[inline]
    fn charge(&mut self, elapsed: Fine, bytes: Bytes) {
        let full = self.tokens.plus(elapsed).min(self.depth);
        // [algorithms §5.5] The floor is one unit above a minute of debt.
        let floor = Fine(1 - Fine::of(TIME_MAX).0);
        self.tokens = Fine(full.0.saturating_sub(self.cost(bytes).0)).max(floor);
    }
}

impl Buckets {
    /// Full buckets at the epoch.
    pub(super) fn new(own: (Rate, Bytes), ceiling: (Rate, Bytes)) -> Self {
        Self {
            own: Bucket::new(own.0, own.1),
            ceiling: Bucket::new(ceiling.0, ceiling.1),
            checkpoint: Instant::ZERO,
        }
    }

    /// The mode at `now` of a class that was in mode `before` and, unless it is `CanSend`, the wait
    /// until a better one. With hysteresis a mode is lost a whole bucket below zero only.
    #[inline]
    pub(super) fn mode(&self, now: Instant, before: Mode, hysteresis: bool) -> (Mode, Duration) {
        let elapsed = self.elapsed(now);
        let ceiling = self.ceiling.tokens.plus(elapsed);
        let own = self.own.tokens.plus(elapsed);
        let below = |bucket: Bucket, keeps: bool| {
            if hysteresis && keeps { bucket.depth.negative() } else { Fine::ZERO }
        };
        if ceiling < below(self.ceiling, before != Mode::CantSend) {
            (Mode::CantSend, ceiling.debt())
        } else if own >= below(self.own, before == Mode::CanSend) {
            (Mode::CanSend, Duration::ZERO)
        } else {
            (Mode::MayBorrow, own.debt())
        }
    }

    /// Charges a packet; one that an ancestor lent for (`lent`) costs nothing of the own tokens.
    #[inline]
    pub(super) fn charge(&mut self, now: Instant, bytes: Bytes, lent: bool) {
        let elapsed = self.elapsed(now);
        if lent {
            // Own tokens are below zero or the class would not borrow, so this needs no cap; the
            // minimum only guards the invariant.
            self.own.tokens = self.own.tokens.plus(elapsed).min(Fine::of(TIME_MAX));
        } else {
            self.own.charge(elapsed, bytes);
        }
        self.ceiling.charge(elapsed, bytes);
        self.checkpoint = now;
    }

    /// When the tokens of the rate, and those of the ceil, were or will be back at zero; the epoch
    /// if they never fell below.
    pub(super) fn earned_at(&self) -> (Instant, Instant) {
        let earned = |bucket: Bucket| {
            let debt = bucket.tokens < Fine::ZERO;
            if debt { self.checkpoint.after(bucket.tokens.debt()) } else { Instant::ZERO }
        };
        (earned(self.own), earned(self.ceiling))
    }

    /// Takes over the tokens of a bucket with other rates and depths: a debt of 5 ms stays one, and
    /// no credit is larger than the depth.
    pub(super) fn take_over(&mut self, old: &Buckets) {
        self.own.tokens = old.own.tokens.min(self.own.depth);
        self.ceiling.tokens = old.ceiling.tokens.min(self.ceiling.depth);
        self.checkpoint = old.checkpoint;
    }

    /// The time since the checkpoint, at most a minute.
    #[inline]
    fn elapsed(&self, now: Instant) -> Fine {
        Fine::of(now.since(self.checkpoint).min(TIME_MAX))
    }
}

const FRACTION_BITS: u32 = 26;
/// [algorithms §5.2] `mbuffer`: no idle time, no debt and no bucket counts for more than a minute.
const TIME_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bits: u64) -> Rate {
        Rate::new(bits).expect("rows hold no zero")
    }

    #[test]
    fn modes_follow_the_two_buckets() {
        let mut buckets =
            Buckets::new((rate(1_000_000), Bytes::new(1000)), (rate(2_000_000), Bytes::new(1000)));
        let at = |micros: u64| Instant::from_nanos(micros * 1000);
        let mode = |buckets: &Buckets, micros| buckets.mode(at(micros), Mode::CanSend, false);
        assert_eq!(mode(&buckets, 0), (Mode::CanSend, Duration::ZERO));
        buckets.charge(at(0), Bytes::new(1000), false);
        assert_eq!(mode(&buckets, 0).0, Mode::CanSend);
        buckets.charge(at(0), Bytes::new(1000), false);
        assert_eq!(mode(&buckets, 0), (Mode::CantSend, Duration::from_millis(4)));
        assert_eq!(mode(&buckets, 4000), (Mode::MayBorrow, Duration::from_millis(4)));
        buckets.charge(at(4000), Bytes::new(500), true);
        assert_eq!(mode(&buckets, 4000), (Mode::CantSend, Duration::from_millis(2)));
        assert_eq!(mode(&buckets, 8000), (Mode::CanSend, Duration::ZERO));
    }

    #[test]
    fn extremes_stay_within_a_minute() {
        let rows = [1, 7, 1_000, 30_000_000, 400_000_000_000];
        for (bits, burst) in rows.into_iter().flat_map(|bits| [(bits, 1), (bits, u64::MAX)]) {
            let setting = (rate(bits), Bytes::new(burst));
            let mut buckets = Buckets::new(setting, setting);
            let mut now = Instant::ZERO;
            for step in 0..1000u64 {
                buckets.charge(now, Bytes::new(step * 65), step % 3 == 0);
                let (mode, wait) = buckets.mode(now, Mode::CantSend, step % 2 == 0);
                assert!(wait <= TIME_MAX, "{bits} {burst}: {wait:?}");
                assert_eq!(wait == Duration::ZERO, mode == Mode::CanSend);
                let year = Duration::from_secs(365 * 86_400);
                now = now.after(if step % 100 == 0 { year } else { Duration::from_micros(step) });
            }
        }
    }
}
