//! Quantities with units, and the direction in which each conversion rounds.
//!
//! Times are whole nanoseconds ([`Instant`], [`Duration`]); where a rate becomes time packet after
//! packet, [`FineInstant`] retains the fraction, so that rounding does not accumulate.

mod fine;
mod text;

pub use fine::{FineInstant, FineSpan, Pace};
pub use text::{Dimension, Quantity, UnitError};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point in time: nanoseconds since an epoch that the caller chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Duration(u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(u64);

/// A rate in bit/s, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u64);

/// A part of a whole in parts per billion, 0 to 100 %.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Share(u32);

/// A relative weight, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(u32);

impl Instant {
    /// The epoch, which the caller chooses.
    pub const ZERO: Instant = Instant(0);
    /// The end of time: 584 years after the epoch.
    pub const MAX: Instant = Instant(u64::MAX);

    /// The instant this many nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant, zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Returns this instant moved later, capped at the end of time.
    pub const fn after(self, wait: Duration) -> Instant {
        Instant(self.0.saturating_add(wait.0))
    }

    /// Returns this instant moved earlier, no earlier than the epoch.
    pub const fn before(self, lead: Duration) -> Instant {
        Instant(self.0.saturating_sub(lead.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// A duration of this many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// This many microseconds, capped at the largest duration.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// This many milliseconds, capped at the largest duration.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// This many seconds, capped at the largest duration.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SECOND))
    }

    /// Returns whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the sum, capped at the largest duration.
    pub const fn plus(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// A length of this many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the sum, capped at the largest number.
    pub const fn plus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// Returns the difference, zero if `other` is larger.
    pub const fn minus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Rate {
    /// The slowest rate: 1 bit/s.
    pub const MIN: Rate = Rate(1);

    /// A rate in bit/s; `None` for 0, at which nothing would ever be sent.
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        if bits_per_second == 0 { None } else { Some(Self(bits_per_second)) }
    }

    /// Returns the rate in bit/s.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the time that `bytes` take at this rate, rounded up, so never early.
    pub const fn transmit_time(self, bytes: Bytes) -> Duration {
        let bits = bytes.0 as u128 * 8 * NANOS_PER_SECOND as u128;
        let nanos = bits.div_ceil(self.0 as u128);
        if nanos > u64::MAX as u128 { Duration(u64::MAX) } else { Duration(nanos as u64) }
    }

    /// Returns the whole bytes that fit into `time` at this rate, rounded down.
    pub const fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = self.0 as u128 * time.0 as u128 / (8 * NANOS_PER_SECOND as u128);
        if bytes > u64::MAX as u128 { Bytes(u64::MAX) } else { Bytes(bytes as u64) }
    }

    /// Returns the part `share` of this rate, rounded down, at least 1 bit/s.
    pub const fn part(self, share: Share) -> Rate {
        let bits = self.0 as u128 * share.0 as u128 / Share::WHOLE.0 as u128;
        if bits == 0 { Rate::MIN } else { Rate(bits as u64) }
    }
}

impl Share {
    /// 100 %.
    pub const WHOLE: Share = Share(1_000_000_000);

    /// Parts per billion; `None` above 100 %.
    pub const fn from_ppb(ppb: u64) -> Option<Self> {
        if ppb > Self::WHOLE.0 as u64 { None } else { Some(Self(ppb as u32)) }
    }

    /// Returns the share in parts per billion.
    pub const fn ppb(self) -> u32 {
        self.0
    }
}

impl Weight {
    /// A weight; `None` for 0, which would never be served.
    pub const fn new(weight: u32) -> Option<Self> {
        if weight == 0 { None } else { Some(Self(weight)) }
    }

    /// Returns the number, at least 1.
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_time_rounds_up_and_bytes_in_rounds_down() {
        let rows =
            [(1u64, 1u64, 8_000_000_000u64), (3, 1, 2_666_666_667), (10_000_000, 1_500, 1_200_000)];
        for (rate, bytes, nanos) in rows {
            let rate = Rate::new(rate).expect("rows hold no zero");
            let time = rate.transmit_time(Bytes::new(bytes));
            assert_eq!(time.as_nanos(), nanos);
            assert_eq!(rate.bytes_in(time).get(), bytes);
            assert!(rate.bytes_in(Duration::from_nanos(nanos - 1)).get() < bytes);
        }
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Rate::MIN.transmit_time(Bytes::new(u64::MAX)).as_nanos(), u64::MAX);
        assert_eq!(Instant::MAX.after(Duration::from_secs(1)), Instant::MAX);
        assert_eq!(Instant::ZERO.since(Instant::MAX), Duration::ZERO);
    }
}
