//! The kernel's clock, with seconds and microseconds in separate numbers, and its ticks.
//!
//! The arithmetic is ALTQ's, with its faults: a difference that is negative across a second or
//! longer than two seconds reads as two seconds, and 1000 ns are a little less than 1 µs. Numbers
//! have 64 bits where ALTQ's have 32, so nothing wraps. Invariant: a stamp that was set is later
//! than the kernel's start, so that it differs from an unset one.

use crate::state::state;
use crate::units::Instant;

/// A reading of the kernel's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Stamp {
    seconds: i64,
    /// Below a second; negative only under `tv_negative_slip`.
    micros: i64,
}

impl Stamp {
    /// The unset stamp, which is earlier than every other [algorithms §3.4].
    pub const UNSET: Stamp = Stamp { seconds: 0, micros: 0 };

    /// Returns the clock at `now`, rounded down to the microsecond.
    pub const fn at(now: Instant) -> Self {
        let micros = (now.as_nanos() / NANOS_PER_MICRO) as i64;
        Self { seconds: START + micros / SECOND, micros: micros % SECOND }
    }

    /// Returns whether it was set.
    pub const fn is_set(self) -> bool {
        self.seconds != 0
    }

    /// Returns the difference in µs as ALTQ computes it [algorithms §3.9].
    pub const fn since(self, earlier: Stamp) -> i64 {
        match self.seconds - earlier.seconds {
            seconds @ 0..=2 => seconds * SECOND + self.micros - earlier.micros,
            _ => FAR,
        }
    }

    /// Returns the time moved by `micros`, which carry into the seconds but do not borrow from
    /// them.
    pub const fn plus(self, micros: i64) -> Stamp {
        let micros = self.micros + micros;
        let carry = if micros >= SECOND { micros / SECOND } else { 0 };
        Stamp { seconds: self.seconds + carry, micros: micros - carry * SECOND }
    }

    /// Returns this time with microseconds that are not negative.
    pub const fn settled(self) -> Stamp {
        self.borrowing(self.micros.div_euclid(SECOND))
    }

    /// Returns this time with less than a second of negative microseconds. With more, as ALTQ might
    /// have had, a class would always count as overlimit when its timer fires.
    pub const fn slipped(self) -> Stamp {
        self.borrowing(self.micros / SECOND)
    }

    const fn borrowing(self, seconds: i64) -> Stamp {
        Stamp { seconds: self.seconds + seconds, micros: self.micros - seconds * SECOND }
    }

    /// Returns the start of this microsecond.
    pub const fn instant(self) -> Instant {
        instant(self.micros())
    }

    /// Returns the µs since Weir's epoch, at which the kernel's ticks begin.
    pub const fn micros(self) -> i64 {
        (self.seconds - START) * SECOND + self.micros
    }
}

/// A reading in eight bytes, whose microseconds are less than a second, negative or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stored(i64);

impl Stored {
    /// The stored form of [`Stamp::UNSET`].
    pub const UNSET: Stored = Stored::of(Stamp::UNSET);

    /// Stores a reading. Seconds have 43 bits, which hold two hundred times the range of Weir's
    /// time.
    pub const fn of(stamp: Stamp) -> Self {
        Self((stamp.seconds << MICROS_BITS) + stamp.micros + MICROS_ZERO)
    }

    pub const fn stamp(self) -> Stamp {
        let micros = (self.0 & ((1 << MICROS_BITS) - 1)) - MICROS_ZERO;
        Stamp { seconds: self.0 >> MICROS_BITS, micros }
    }
}

/// The ticks of the kernel's timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticks {
    micros: i64,
}

impl Ticks {
    /// Returns a timer with `hz` ticks per second; a tick is a whole number of µs, rounded down.
    pub const fn per_second(hz: i64) -> Self {
        Self { micros: SECOND / hz }
    }

    /// Returns the length of a tick in µs.
    pub const fn micros(self) -> i64 {
        self.micros
    }

    /// Returns the ticks that FreeBSD's `hzto` counts until `until` [algorithms §3.10].
    pub const fn until(self, until: Stamp, now: Stamp) -> i64 {
        let wait = until.micros() - now.micros();
        // Rounds up, and adds one for the tick that has begun.
        if wait <= 0 { 1 } else { (wait + self.micros - 1) / self.micros + 1 }
    }

    /// Returns when a timer fires that is set at `now` for `ticks` ticks.
    pub const fn fires(self, now: Stamp, ticks: i64) -> Instant {
        instant((now.micros() / self.micros + ticks) * self.micros)
    }

    /// Returns the first call of the watchdog after `now` that is not before `micros`.
    pub fn watchdog(self, now: Stamp, micros: i64) -> Instant {
        let period = WATCHDOG_TICKS * self.micros;
        let from = micros.max(now.micros() + 1);
        instant((from + period - 1) / period * period)
    }

    /// Returns whether the watchdog calls the driver at `now`.
    pub const fn is_watched(self, now: Stamp) -> bool {
        now.micros() % (WATCHDOG_TICKS * self.micros) == 0
    }
}

/// Returns `nanos` in µs by ALTQ's division, which is 0.07 % low [algorithms §3.9].
pub(super) const fn micros_of(nanos: i64) -> i64 {
    (nanos >> 10) + (nanos >> 16) + (nanos >> 17)
}

/// Returns the instant `micros` µs after Weir's epoch, capped at the end of time.
const fn instant(micros: i64) -> Instant {
    Instant::from_nanos((micros as u64).saturating_mul(NANOS_PER_MICRO))
}

/// The difference that stands for any longer one, and for one across a second that is not positive.
pub(super) const FAR: i64 = 2 * SECOND;
/// Later than the end of time, and so little that it can be stored.
const SECONDS_MAX: i64 = 1 << 41;
const SECOND: i64 = 1_000_000;
/// Bits of stored microseconds, and the value, more than a second, that stands for an unset stamp.
const MICROS_BITS: u32 = 21;
const MICROS_ZERO: i64 = 1 << 20;
const NANOS_PER_MICRO: u64 = 1_000;
/// Seconds that the kernel's clock shows at Weir's epoch: any number that is not near zero.
const START: i64 = 1_000_000;
/// The watchdog calls the driver every ten ticks [algorithms §3.11].
const WATCHDOG_TICKS: i64 = 10;

state!(Stamp { seconds, micros; check: |stamp: &Self| {
    (0..=SECONDS_MAX).contains(&stamp.seconds) && (-SECOND..=SECOND).contains(&stamp.micros)
} });
state!(Stored(word) check: |stored: &Self| {
    (-SECONDS_MAX..=SECONDS_MAX).contains(&stored.stamp().seconds)
});

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Stamp {
        Stamp::at(instant(micros))
    }

    #[test]
    fn differences_are_exact_for_two_seconds_and_two_seconds_otherwise() {
        let rows = [
            (5_000, 4_000, 1_000),
            (4_000, 5_000, -1_000),
            (2_999_999, 0, 2_999_999),
            (3_000_000, 0, FAR),
            (3_000_000, 999_999, FAR),
            (3_000_000, 1_000_000, 2_000_000),
            (999_999, 1_000_000, FAR),
            (1_000_000, 999_999, 1),
        ];
        for (later, earlier, difference) in rows {
            assert_eq!(at(later).since(at(earlier)), difference, "{later} - {earlier}");
        }
        assert_eq!(at(0).since(Stamp::UNSET), FAR, "a class that never sent was idle for long");
    }

    #[test]
    fn what_is_stored_comes_back() {
        let end = Stamp::at(Instant::MAX).plus(i64::from(u32::MAX));
        let slipped = at(1_000_100).plus(-999_999);
        for stamp in [Stamp::UNSET, at(0), at(999_999), slipped, end] {
            assert_eq!(Stored::of(stamp).stamp(), stamp);
        }
    }

    #[test]
    fn a_slipped_stamp_compares_as_the_later_second() {
        let slipped = at(1_000_100).plus(-200);
        assert!(at(999_950) < slipped && slipped < at(1_000_000));
        assert_eq!(slipped.slipped(), slipped);
        assert_eq!(slipped.settled(), at(999_900));
        let far = at(7_000_100).plus(-3_000_200);
        assert!(at(3_999_999) < far.slipped() && far.slipped() < at(4_000_000));
        assert_eq!(slipped.plus(1_000_250), at(2_000_150), "the exact time comes back");
        assert_eq!(at(7).plus(3_000_000), at(3_000_007));
    }

    #[test]
    fn ticks_round_up_and_fire_on_boundaries() {
        let ticks = Ticks::per_second(100);
        // now, until, ticks counted
        let rows = [(5, 5, 1), (5, 4, 1), (5, 6, 2), (0, 10_000, 2), (0, 10_001, 3)];
        for (now, until, counted) in rows {
            assert_eq!(ticks.until(at(until), at(now)), counted, "{now} {until}");
        }
        assert_eq!(ticks.fires(at(19_999), 2), instant(30_000));
        assert_eq!(ticks.fires(at(20_000), 2), instant(40_000));
        assert_eq!(ticks.watchdog(at(99_999), 0), instant(100_000));
        assert_eq!(ticks.watchdog(at(100_000), 0), instant(200_000));
        assert_eq!(ticks.watchdog(at(0), 200_001), instant(300_000));
    }

    #[test]
    fn a_thousand_nanoseconds_are_a_little_less_than_a_microsecond() {
        for (nanos, micros) in [(12_000, 11), (6_000_000, 5_995), (24_000_000, 23_986)] {
            assert_eq!(micros_of(nanos), micros);
        }
    }
}
