//! Parses rates, sizes and times as `tc` writes them, and converts bursts as it does `[linux]`.

use super::super::words::{decimal, scaled};

/// Parses a rate in bit/s: `10mbit`; `bps` are bytes per second, and a bare number is in bit/s. tc
/// passes whole bytes per second to the kernel, so the result is a multiple of eight.
pub(in crate::import) fn rate(text: &str) -> Option<u64> {
    rate_bits(text).map(|bits| bits / 8 * 8)
}

fn rate_bits(text: &str) -> Option<u64> {
    let (millionths, unit) = number_and_unit(text)?;
    let unit = unit.to_ascii_lowercase();
    let (prefix, base) = match unit.strip_suffix("bps") {
        Some(prefix) => (prefix, 8),
        None => (unit.strip_suffix("bit").unwrap_or(&unit), 1),
    };
    if base == 1 && unit.ends_with("bit") == unit.is_empty() {
        return None;
    }
    let multiple = match prefix {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        "ti" => 1 << 40,
        _ => return None,
    };
    scaled(millionths, multiple * base)
}

/// Parses a size in bytes: `15k` is 15 times 1024.
pub(super) fn size(text: &str) -> Option<u64> {
    let (millionths, unit) = number_and_unit(text)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "kbit" => 1 << 7,
        "mbit" => 1 << 17,
        "gbit" => 1 << 27,
        _ => return None,
    };
    scaled(millionths, unit)
}

/// Parses a time in nanoseconds; a bare number is in microseconds.
pub(super) fn time(text: &str) -> Option<u64> {
    let (millionths, unit) = number_and_unit(text)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" => 1_000_000_000,
        "ms" | "msec" | "msecs" => 1_000_000,
        "" | "us" | "usec" | "usecs" => 1_000,
        "ns" | "nsec" | "nsecs" => 1,
        _ => return None,
    };
    scaled(millionths, unit)
}

/// Parses a decimal with or without a power of ten, `1.5` or `1e6`, in millionths; returns it and
/// the rest of the text.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let (millionths, unit) = decimal(text)?;
    let power = unit.strip_prefix(['e', 'E']);
    let divides = power.is_some_and(|rest| rest.starts_with('-'));
    let power = power.map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    match power.map(|rest| rest.split_at(digits(rest))) {
        Some((digits, unit)) if !digits.is_empty() => {
            let factor = 10_u64.checked_pow(digits.parse().ok()?);
            let millionths = match divides {
                true => factor.map_or(0, |factor| millionths / factor),
                false => millionths.checked_mul(factor?)?,
            };
            Some((millionths, unit))
        }
        _ => Some((millionths, unit)),
    }
}

/// Returns the burst in bytes that the kernel uses where tc gets `size`: tc passes the time that
/// the burst takes at `rate`, in whole microseconds, as ticks of 64 ns.
pub(super) fn kernel_burst(size: u64, rate: u64) -> u64 {
    let ticks = microseconds(size, rate).saturating_mul(125) / 8;
    let nanoseconds = u128::from(ticks) * 64;
    let bytes = (nanoseconds * u128::from(rate / 8) + 500_000_000) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX).clamp(1, BURST_MAX)
}

/// Returns the size to write so that the kernel's burst is `burst`, or the next that it can have.
pub(crate) fn written_burst(burst: u64, rate: u64) -> u64 {
    let burst = burst.min(kernel_burst(BURST_MAX, rate));
    let micro = u128::from(rate / 8).max(1);
    // Both roundings together take less than three microseconds and a byte.
    let most = u64::try_from(3 * micro / 1_000_000).unwrap_or(u64::MAX).saturating_add(burst + 2);
    // tc reads a burst of zero as none.
    let (mut low, mut high) = (burst.saturating_sub(2).max(1), most);
    while low < high {
        let middle = low + (high - low) / 2;
        match kernel_burst(middle, rate) >= burst {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

/// As tc computes it, in floating point: another rounding would be another burst.
fn microseconds(size: u64, rate: u64) -> u64 {
    let microseconds = (1e6 * (size as f64 / (rate / 8).max(1) as f64)) as u64;
    microseconds.min(BURST_MICROSECONDS)
}

/// More would be more ticks than 32 bits hold.
const BURST_MICROSECONDS: u64 = (1 << 32) / 125 * 8;

/// The largest burst of a policy: a terabyte.
const BURST_MAX: u64 = 1 << 40;

/// Parses a number up to `max` as C does: `0x` begins a hexadecimal one, `0` an octal one.
pub(super) fn base0(text: &str, max: u32) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let octal = text.strip_prefix('0').filter(|rest| !rest.is_empty());
    let (digits, radix) = match (hex, octal) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) => (digits, 8),
        (None, None) => (text, 10),
    };
    let number = u32::from_str_radix(digits, radix).ok().filter(|number| *number <= max);
    number.filter(|_| !digits.starts_with('+'))
}

/// Parses a handle `1:10`, `1:` or `:10`, in hexadecimal with or without `0x`; `root` has none.
pub(super) fn handle(text: &str) -> Option<(u16, u16)> {
    let part = |text: &str| match text {
        "" => Some(0),
        _ => u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok(),
    };
    let (major, minor) = text.split_once(':')?;
    Some((part(major)?, part(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_tc() {
        let rates = [
            ("10mbit", Some(10_000_000)),
            ("1.5Mbit", Some(1_500_000)),
            ("100kbps", Some(800_000)),
            ("64000", Some(64_000)),
            ("1kibit", Some(1024)),
            ("10mb", None),
            ("mbit", None),
            ("10%", None),
            ("1e6bit", Some(1_000_000)),
            ("1.5E+1mbit", Some(15_000_000)),
            ("33333333", Some(33_333_328)),
            ("2.5e-1mbit", Some(250_000)),
        ];
        for (text, expected) in rates {
            assert_eq!(rate(text), expected, "{text}");
        }
        let sizes = [
            ("15k", Some(15_360)),
            ("1600", Some(1600)),
            ("1kbit", Some(128)),
            ("1.25e-05KB", Some(0)),
        ];
        for (text, expected) in sizes {
            assert_eq!(size(text), expected, "{text}");
        }
        for (text, expected) in [("5ms", Some(5_000_000)), ("50", Some(50_000)), ("x", None)] {
            assert_eq!(time(text), expected, "{text}");
        }
        for (text, expected) in
            [("17", Some(17)), ("0x11", Some(17)), ("017", Some(15)), ("ff", None)]
        {
            assert_eq!(base0(text, 255), expected, "{text}");
        }
        // Rate, size as written, and the kernel's burst: `tc -d class show` has it less a
        // microsecond.
        let bursts = [
            (20_000_000, 1600, 1600),
            (20_000_000, 7777, 7775),
            (1_000_000_000, 1600, 1496),
            (10_000_000_000, 1600, 1200),
            (64_000, 4000, 4000),
            (31_000_000_000, 1600, 1),
            (32, 1600, 1100),
        ];
        for (rate, size, expected) in bursts {
            assert_eq!(kernel_burst(size, rate), expected, "{rate} {size}");
            let written = written_burst(expected, rate);
            assert!(written > 0, "{rate} {size}");
            assert_eq!(kernel_burst(written, rate), expected, "{rate} {size} {written}");
        }
        let handles = [
            ("1:", Some((1, 0))),
            ("1:1f", Some((1, 31))),
            (":a", Some((0, 10))),
            ("0x1:", Some((1, 0))),
        ];
        for (text, expected) in handles {
            assert_eq!(handle(text), expected, "{text}");
        }
    }
}
