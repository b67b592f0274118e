//! Parses rates, sizes and times as `tc` writes them `[linux]`.

use super::super::words::{decimal, scaled};

/// Parses a rate in bit/s: `10mbit`; `bps` are bytes per second, and a bare number is in bit/s.
pub(in crate::import) fn rate(text: &str) -> Option<u64> {
    let (millionths, unit) = decimal(text)?;
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
    let (millionths, unit) = decimal(text)?;
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
    let (millionths, unit) = decimal(text)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" => 1_000_000_000,
        "ms" | "msec" | "msecs" => 1_000_000,
        "" | "us" | "usec" | "usecs" => 1_000,
        "ns" | "nsec" | "nsecs" => 1,
        _ => return None,
    };
    scaled(millionths, unit)
}

/// Parses a handle `1:10`, `1:` or `:10`, in hexadecimal; `root` has none.
pub(super) fn handle(text: &str) -> Option<(u16, u16)> {
    let part = |text: &str| match text {
        "" => Some(0),
        _ => u16::from_str_radix(text, 16).ok(),
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
        ];
        for (text, expected) in rates {
            assert_eq!(rate(text), expected, "{text}");
        }
        for (text, expected) in [("15k", Some(15_360)), ("1600", Some(1600)), ("1kbit", Some(128))]
        {
            assert_eq!(size(text), expected, "{text}");
        }
        for (text, expected) in [("5ms", Some(5_000_000)), ("50", Some(50_000)), ("x", None)] {
            assert_eq!(time(text), expected, "{text}");
        }
        let handles = [("1:", Some((1, 0))), ("1:1f", Some((1, 31))), (":a", Some((0, 10)))];
        for (text, expected) in handles {
            assert_eq!(handle(text), expected, "{text}");
        }
    }
}
