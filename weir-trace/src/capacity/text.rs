//! Values of texts of capacities: times and rates with their units, and what is wrong with one.

use super::RATE_MAX;
use std::fmt;
use weir_core::units::Duration;

/// Why a text is no capacity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapacityError {
    /// The line, from 1; 0 if it is the whole text.
    pub line: usize,
    /// The fault, and what would be right.
    pub message: String,
}

impl CapacityError {
    pub(super) fn whole(message: impl Into<String>) -> Self {
        Self { line: 0, message: message.into() }
    }

    pub(super) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for CapacityError {}

/// A step: how long, and bit/s.
pub(super) type Row = (Duration, u64);

/// Returns the nanoseconds that `text` says, in its own unit or in this.
pub(super) fn nanos(text: &str, unit: u64) -> Option<u64> {
    // As humantime writes them: "1s 500ms".
    let mut parts = text.split_whitespace();
    let first = measure(parts.next()?, unit, TIME_UNITS)?;
    parts.try_fold(first, |sum, part| sum.checked_add(measure(part, 0, TIME_UNITS)?))
}

/// Returns the bit/s that `text` says, in its own unit or in this.
pub(super) fn bits(text: &str, unit: u64) -> Option<u64> {
    let mut parts = text.split_whitespace();
    let (first, second) = (parts.next()?, parts.next());
    let bits = match second {
        Some(second) if second.starts_with(|first: char| first.is_alphabetic()) => {
            measure(&format!("{first}{second}"), 0, RATE_UNITS)?
        }
        Some(second) => {
            measure(first, unit, RATE_UNITS)?.checked_add(measure(second, 0, RATE_UNITS)?)?
        }
        None => measure(first, unit, RATE_UNITS)?,
    };
    Some(bits).filter(|&bits| bits <= RATE_MAX && parts.next().is_none())
}

/// Returns a decimal number times its unit, or `unit` if it has none, rounded down.
fn measure(text: &str, unit: u64, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|part: char| !part.is_ascii_digit() && part != '.').unwrap_or(text.len());
    let (number, name) = text.split_at(split);
    let unit = match name {
        "" => unit,
        name => units.iter().find(|row| row.0.eq_ignore_ascii_case(name))?.1,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() || part.contains('.') || unit == 0 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits below a billionth of a unit are of no account.
    let digits = part.bytes().chain(std::iter::repeat(b'0')).take(9);
    let part = digits.fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let fraction = u128::from(part) * u128::from(unit) / 1_000_000_000;
    whole.checked_mul(unit)?.checked_add(fraction as u64)
}

pub(super) const SECOND: u64 = 1_000_000_000;
/// Units of times in a value.
const TIME_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("nsec", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("usec", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("s", SECOND),
    ("sec", SECOND),
    ("m", 60 * SECOND),
    ("min", 60 * SECOND),
    ("h", 3600 * SECOND),
];
/// Units of rates in a value: those of netem-trace, whose `b` is a bit, and Weir's.
const RATE_UNITS: &[(&str, u64)] = &[
    ("bps", 1),
    ("bit/s", 1),
    ("kbps", 1_000),
    ("kbit/s", 1_000),
    ("mbps", 1_000_000),
    ("mbit/s", 1_000_000),
    ("gbps", 1_000_000_000),
    ("gbit/s", 1_000_000_000),
];
