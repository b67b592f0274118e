//! Time finer than a nanosecond, for clocks that advance packet after packet.
//!
//! At 400 Gbit/s a byte takes 0.02 ns: a clock that rounded each packet to a nanosecond would lose
//! up to one percent of the rate. Invariant: a [`Pace`] is never faster than its [`Rate`], and
//! slower by less than one part in 2^24 up to 400 Gbit/s.

use super::{Bytes, Duration, Instant, NANOS_PER_SECOND, Rate};
use core::cmp::Ordering;

/// Binary digits below the nanosecond.
const FRACTION_BITS: u32 = 30;
/// The bits of the fraction of a nanosecond.
const MASK: u64 = (1 << FRACTION_BITS) - 1;

/// An instant in units of 2^-30 ns. Aligned to 64 bits, so that no padding is needed beside them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(Rust, packed(8))]
pub struct FineInstant(u128);

/// A length of time in units of 2^-30 ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FineSpan(u128);

/// Orders a type by its number. `max` and `min` choose between values: what `Ord` derives chooses
/// between places in memory, and reading a number of two words back stalls the processor.
macro_rules! ordered_by_number {
    ($name:ident) => {
        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                let (one, two) = (self.0, other.0);
                one.cmp(&two)
            }

            #[inline]
            fn max(self, other: Self) -> Self {
                let (one, two) = (self.0, other.0);
                Self(if one > two { one } else { two })
            }

            #[inline]
            fn min(self, other: Self) -> Self {
                let (one, two) = (self.0, other.0);
                Self(if one < two { one } else { two })
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
    };
}

ordered_by_number!(FineInstant);
ordered_by_number!(FineSpan);

/// A rate as time per byte, so that no packet needs a division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Below 2^63, also at 1 bit/s.
    fine_per_byte: u64,
}

impl FineInstant {
    /// The epoch that the caller of the core chose.
    pub const ZERO: FineInstant = FineInstant(0);
    const MAX: FineInstant = FineInstant(1 << 127);

    /// Returns the start of this nanosecond.
    pub const fn from_instant(instant: Instant) -> Self {
        Self((instant.as_nanos() as u128) << FRACTION_BITS)
    }

    /// Returns its number of units.
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    /// Returns the instant of this number of units, if it is not after the latest.
    pub(crate) const fn from_bits(bits: u128) -> Option<Self> {
        if bits <= Self::MAX.0 { Some(Self(bits)) } else { None }
    }

    /// Returns the first whole nanosecond that is not before this instant: rounds up, so never
    /// early.
    pub const fn round_up(self) -> Instant {
        let nanos = (self.0 + ((1 << FRACTION_BITS) - 1)) >> FRACTION_BITS;
        if nanos > u64::MAX as u128 { Instant::MAX } else { Instant::from_nanos(nanos as u64) }
    }

    /// Returns this instant moved later by the time that `bytes` take at `pace`.
    pub const fn after(self, pace: Pace, bytes: Bytes) -> Self {
        let sum = self.0.saturating_add(pace.cost(bytes));
        if sum > Self::MAX.0 { Self::MAX } else { Self(sum) }
    }

    /// Returns this instant moved earlier by the time that `bytes` take at `pace`, no earlier than
    /// the epoch.
    pub const fn before(self, pace: Pace, bytes: Bytes) -> Self {
        Self(self.0.saturating_sub(pace.cost(bytes)))
    }

    /// Returns this instant moved later.
    #[inline]
    pub const fn plus(self, span: FineSpan) -> Self {
        // At most 2^127 plus, for less than 2^60 bytes, 2^123: several spans can be added.
        Self(self.0 + span.0)
    }

    /// Returns this instant moved earlier, no earlier than the epoch.
    #[inline]
    pub const fn minus(self, span: FineSpan) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Pace {
    /// Returns the pace of `rate`: time per byte rounds up, so the pace is never faster than the
    /// rate.
    pub const fn of(rate: Rate) -> Self {
        let fine_per_second = (8 * NANOS_PER_SECOND as u128) << FRACTION_BITS;
        // 1 bit/s gives 8e9 * 2^30 < 2^63, so the quotient always fits.
        let fine_per_byte = fine_per_second.div_ceil(rate.bits_per_second() as u128) as u64;
        Self { fine_per_byte }
    }

    /// Returns the fine time `busy` plus that of `bytes`; `None` where the sum exceeds a few
    /// seconds, so that a returned value can always be rounded up.
    #[inline(always)]
    pub const fn extend(self, busy: u64, bytes: u32) -> Option<u64> {
        // In signed arithmetic both bounds are overflows, whose detection costs nothing.
        let Some(time) = (self.fine_per_byte as i64).checked_mul(bytes as i64) else { return None };
        match (busy as i64).checked_add(time) {
            Some(sum) => Some(sum as u64),
            None => None,
        }
    }

    /// Extends without a bound; returns the whole nanoseconds, rounded down, and the fine rest.
    pub const fn extend_far(self, busy: u64, bytes: u32) -> (Duration, u64) {
        // 2^63 for a byte and 2^32 bytes make 2^95.
        let sum = busy as u128 + self.fine_per_byte as u128 * bytes as u128;
        let nanos = sum >> FRACTION_BITS;
        let nanos = if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 };
        (Duration::from_nanos(nanos), sum as u64 & MASK)
    }

    /// Returns a fine time in whole nanoseconds, rounded up.
    #[inline(always)]
    pub const fn round_up(fine: u64) -> Duration {
        Duration::from_nanos((fine + MASK) >> FRACTION_BITS)
    }

    /// Returns the exact time that `bytes` take.
    #[inline]
    pub const fn span(self, bytes: Bytes) -> FineSpan {
        FineSpan(self.cost(bytes))
    }

    const fn cost(self, bytes: Bytes) -> u128 {
        self.fine_per_byte as u128 * bytes.get() as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_keeps_its_rate_over_a_million_packets() {
        for bits in [1_000u64, 30_000_000, 99_999_989, 10_000_000_000, 400_000_000_000] {
            let rate = Rate::new(bits).expect("rows hold no zero");
            let pace = Pace::of(rate);
            let mut clock = FineInstant::ZERO;
            for _ in 0..1_000_000 {
                clock = clock.after(pace, Bytes::new(64));
            }
            let ideal = rate.transmit_time(Bytes::new(64_000_000)).as_nanos();
            let real = clock.round_up().as_nanos();
            assert!(real >= ideal, "{bits} bit/s runs fast");
            assert!(
                real - ideal <= 1 + (ideal >> 24),
                "{bits} bit/s: {real} instead of {ideal} ns"
            );
        }
    }

    #[test]
    fn extending_agrees_with_the_fine_instant() {
        for bits in [1u64, 7, 1_000, 99_999_989, 24_000_000_000, 400_000_000_000] {
            let pace = Pace::of(Rate::new(bits).expect("rows hold no zero"));
            let (mut clock, mut since, mut busy) = (FineInstant::ZERO, Instant::ZERO, 0);
            for bytes in (1..70_000u32).step_by(97) {
                clock = clock.after(pace, Bytes::new(u64::from(bytes)));
                busy = pace.extend(busy, bytes).unwrap_or_else(|| {
                    let (whole, busy) = pace.extend_far(busy, bytes);
                    since = since.after(whole);
                    busy
                });
                let finished = since.after(Pace::round_up(busy));
                assert_eq!(finished, clock.round_up(), "{bits} bit/s, {bytes} B");
            }
        }
    }

    #[test]
    fn rounding_up_is_never_early() {
        let third = FineInstant::ZERO
            .after(Pace::of(Rate::new(24_000_000_000).expect("set")), Bytes::new(1));
        assert_eq!(third.round_up(), Instant::from_nanos(1));
        assert_eq!(
            FineInstant::from_instant(Instant::from_nanos(7)).round_up(),
            Instant::from_nanos(7)
        );
    }
}
