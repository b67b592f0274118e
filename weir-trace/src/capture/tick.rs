//! Timestamps of any resolution as nanoseconds since the epoch, in integers.

/// How an interface counts time: the length of its tick and where its count begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// The `if_tsresol` byte: a negative power of ten, or of two where the top bit is set.
    pub resolution: u8,
    /// The `if_tsoffset`: seconds to add to every timestamp.
    pub offset_seconds: i64,
}

impl Clock {
    /// Ticks of a microsecond from the epoch: pcapng's default.
    pub const MICROSECONDS: Self = Self { resolution: 6, offset_seconds: 0 };
    /// Ticks of a nanosecond from the epoch.
    pub const NANOSECONDS: Self = Self { resolution: 9, offset_seconds: 0 };

    /// The instant of `ticks` in nanoseconds since the epoch, rounded down. `None` where 64 bits do
    /// not hold it: before 1970 or after 2554.
    pub fn nanoseconds(self, ticks: u64) -> Option<u64> {
        let counted = i128::try_from(self.tick_nanoseconds(ticks)).ok()?;
        let offset = i128::from(self.offset_seconds) * i128::from(NANOSECONDS_PER_SECOND);
        u64::try_from(counted + offset).ok()
    }

    fn tick_nanoseconds(self, ticks: u64) -> u128 {
        let ticks = u128::from(ticks);
        let exponent = self.resolution & !BINARY;
        if self.resolution & BINARY != 0 {
            return (ticks * u128::from(NANOSECONDS_PER_SECOND)) >> exponent;
        }
        if exponent <= 9 {
            return ticks * 10_u128.pow(9 - u32::from(exponent));
        }
        // A divisor that overflows 128 bits is above any count of ticks: the instant is 0.
        let divisor = 10_u128.checked_pow(u32::from(exponent) - 9);
        divisor.map_or(0, |divisor| ticks / divisor)
    }
}

const BINARY: u8 = 0x80;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resolution: u8, offset_seconds: i64, ticks: u64, expected: Option<u64>) {
        let clock = Clock { resolution, offset_seconds };
        assert_eq!(clock.nanoseconds(ticks), expected, "{clock:?} {ticks}");
    }

    #[test]
    fn every_resolution_counts_in_nanoseconds_rounded_down() {
        check(6, 0, 1_700_000_000_123_456, Some(1_700_000_000_123_456_000));
        check(9, 0, 1_700_000_000_123_456_789, Some(1_700_000_000_123_456_789));
        check(0, 0, 3, Some(3_000_000_000));
        check(12, 0, 1_999, Some(1));
        check(19, 0, u64::MAX, Some(1_844_674_407));
        check(127, 0, u64::MAX, Some(0));
        check(0x80 | 10, 0, 1024 + 512, Some(1_500_000_000));
        check(0x80, 0, 2, Some(2_000_000_000));
        check(0xff, 0, u64::MAX, Some(0));
    }

    #[test]
    fn offset_shifts_and_what_64_bits_cannot_hold_is_none() {
        check(6, 10, 1, Some(10_000_001_000));
        check(6, -1, 1_500_000, Some(500_000_000));
        check(6, -2, 1_500_000, None);
        check(6, i64::MAX, 0, None);
        check(6, i64::MIN, u64::MAX, None);
        check(0, 0, u64::MAX, None);
        check(9, 0, u64::MAX, Some(u64::MAX));
    }
}
