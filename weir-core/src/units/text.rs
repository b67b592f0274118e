//! The one parser and printer of quantities: `10 Mbit/s`, `5 ms`, `15 packets`, `18 KB`, `60 %`.
//!
//! Decimal prefixes are powers of 1000, `Ki`, `Mi`, `Gi` powers of 1024. Numbers are exact
//! decimals: a value finer than its unit allows is refused, never rounded. Printed text parses to
//! the same value.

use super::{Bytes, Duration, NANOS_PER_SECOND, Rate, Share};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// A parsed quantity of any dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quantity {
    /// As in `10 Mbit/s`.
    Rate(Rate),
    /// As in `5 ms`.
    Duration(Duration),
    /// As in `18 KB`.
    Bytes(Bytes),
    /// As in `15 packets`.
    Packets(u32),
    /// As in `60 %`.
    Share(Share),
    /// A number without a unit.
    Number(u64),
}

/// The unit of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// bit/s
    Rate,
    /// s
    Duration,
    /// B
    Bytes,
    /// packets
    Packets,
    /// %
    Share,
    /// no unit
    Number,
}

/// Why a text is not a quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnitError {
    /// The text does not begin with a number.
    NotANumber(String),
    /// The unit is not known; holds the unit.
    UnknownUnit(String),
    /// The unit is not known, but it is clear which is meant: holds the unit and the text with the
    /// right one.
    Misspelt(String, String),
    /// `mbps` and `kbps` mean bits to some and bytes to others; holds the text and both readings.
    Ambiguous {
        /// The text as written.
        text: String,
        /// The reading if `b` means bit.
        bits: String,
        /// The reading if `b` means byte.
        bytes: String,
    },
    /// The value is out of range; holds the text and the limit.
    OutOfRange(String, &'static str),
    /// Another dimension than expected; holds the text, the expected dimension and an example.
    Dimension(String, Dimension),
}

const UNITS: &[(&str, Dimension, u64)] = &[
    ("bit/s", Dimension::Rate, 1),
    ("kbit/s", Dimension::Rate, 1_000),
    ("Mbit/s", Dimension::Rate, 1_000_000),
    ("Gbit/s", Dimension::Rate, 1_000_000_000),
    ("Tbit/s", Dimension::Rate, 1_000_000_000_000),
    ("B/s", Dimension::Rate, 8),
    ("kB/s", Dimension::Rate, 8_000),
    ("MB/s", Dimension::Rate, 8_000_000),
    ("GB/s", Dimension::Rate, 8_000_000_000),
    ("ns", Dimension::Duration, 1),
    ("us", Dimension::Duration, 1_000),
    ("µs", Dimension::Duration, 1_000),
    ("ms", Dimension::Duration, 1_000_000),
    ("s", Dimension::Duration, NANOS_PER_SECOND),
    ("min", Dimension::Duration, 60 * NANOS_PER_SECOND),
    ("h", Dimension::Duration, 3600 * NANOS_PER_SECOND),
    ("B", Dimension::Bytes, 1),
    ("kB", Dimension::Bytes, 1_000),
    ("KB", Dimension::Bytes, 1_000),
    ("MB", Dimension::Bytes, 1_000_000),
    ("GB", Dimension::Bytes, 1_000_000_000),
    ("KiB", Dimension::Bytes, 1 << 10),
    ("MiB", Dimension::Bytes, 1 << 20),
    ("GiB", Dimension::Bytes, 1 << 30),
    ("packets", Dimension::Packets, 1),
    ("packet", Dimension::Packets, 1),
    ("%", Dimension::Share, 10_000_000),
    ("", Dimension::Number, 1),
];

impl Quantity {
    /// Returns the dimension of this quantity.
    pub const fn dimension(self) -> Dimension {
        match self {
            Quantity::Rate(_) => Dimension::Rate,
            Quantity::Duration(_) => Dimension::Duration,
            Quantity::Bytes(_) => Dimension::Bytes,
            Quantity::Packets(_) => Dimension::Packets,
            Quantity::Share(_) => Dimension::Share,
            Quantity::Number(_) => Dimension::Number,
        }
    }

    /// Parses a text that must be of `dimension`.
    pub fn parse_as(text: &str, dimension: Dimension) -> Result<Quantity, UnitError> {
        let quantity: Quantity = text.parse()?;
        if quantity.dimension() == dimension {
            return Ok(quantity);
        }
        Err(UnitError::Dimension(text.to_string(), dimension))
    }

    fn of(dimension: Dimension, value: u64, text: &str) -> Result<Quantity, UnitError> {
        let refuse = |limit| UnitError::OutOfRange(text.to_string(), limit);
        Ok(match dimension {
            Dimension::Rate => Quantity::Rate(
                Rate::new(value).ok_or_else(|| refuse("a rate is at least 1 bit/s"))?,
            ),
            Dimension::Duration => Quantity::Duration(Duration::from_nanos(value)),
            Dimension::Bytes => Quantity::Bytes(Bytes::new(value)),
            Dimension::Packets => Quantity::Packets(
                u32::try_from(value).map_err(|_| refuse("at most 4294967295 packets"))?,
            ),
            Dimension::Share => Quantity::Share(
                Share::from_ppb(value).ok_or_else(|| refuse("a share is at most 100 %"))?,
            ),
            Dimension::Number => Quantity::Number(value),
        })
    }
}

impl FromStr for Quantity {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(UnitError::NotANumber(text.to_string()));
        }
        let Some(&(_, dimension, scale)) = UNITS.iter().find(|row| row.0 == unit) else {
            return Err(unknown_unit(text, number, unit));
        };
        Quantity::of(dimension, scaled(number, scale, text)?, text)
    }
}

/// Returns `number` times `scale`, exactly.
fn scaled(number: &str, scale: u64, text: &str) -> Result<u64, UnitError> {
    let refuse = |limit| UnitError::OutOfRange(text.to_string(), limit);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') {
        return Err(UnitError::NotANumber(text.to_string()));
    }
    let fraction = fraction.trim_end_matches('0');
    let mut digits: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit) {
        let more = digits.checked_mul(10).and_then(|v| v.checked_add(u128::from(digit - b'0')));
        digits = more.ok_or_else(|| refuse("the number has too many digits"))?;
    }
    let places = fraction.bytes().filter(u8::is_ascii_digit).count() as u32;
    let divisor =
        10u128.checked_pow(places).ok_or_else(|| refuse("the number has too many digits"))?;
    let product =
        digits.checked_mul(u128::from(scale)).ok_or_else(|| refuse("the number is too large"))?;
    if product % divisor != 0 {
        return Err(refuse("the number is finer than its unit can hold"));
    }
    u64::try_from(product / divisor).map_err(|_| refuse("the number is too large"))
}

fn unknown_unit(text: &str, number: &str, unit: &str) -> UnitError {
    let lower = unit.to_ascii_lowercase();
    for (name, prefix) in [("kbps", "k"), ("mbps", "M"), ("gbps", "G"), ("bps", "")] {
        if lower == name {
            return UnitError::Ambiguous {
                text: text.to_string(),
                bits: format!("{number} {prefix}bit/s"),
                bytes: format!("{number} {prefix}B/s"),
            };
        }
    }
    if let Some((_, meant)) = MISSPELT.iter().find(|row| row.0 == lower) {
        return UnitError::Misspelt(unit.to_string(), format!("{number} {meant}"));
    }
    let mut alike = UNITS.iter().filter(|row| row.0.to_ascii_lowercase() == lower);
    match alike.next() {
        Some((meant, ..)) => UnitError::Misspelt(unit.to_string(), format!("{number} {meant}")),
        None => UnitError::UnknownUnit(unit.to_string()),
    }
}

/// Units as other tools and people write them, in small letters, and the unit that is meant.
const MISSPELT: &[(&str, &str)] = &[
    ("bit", "bit/s"),
    ("kbit", "kbit/s"),
    ("mbit", "Mbit/s"),
    ("gbit", "Gbit/s"),
    ("tbit", "Tbit/s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("m", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hour", "h"),
    ("hours", "h"),
    ("byte", "B"),
    ("bytes", "B"),
    ("pkt", "packets"),
    ("pkts", "packets"),
    ("p", "packets"),
    ("percent", "%"),
];

impl Dimension {
    /// Returns an example of a value of this dimension.
    pub const fn example(self) -> &'static str {
        match self {
            Dimension::Rate => "10 Mbit/s",
            Dimension::Duration => "5 ms",
            Dimension::Bytes => "18 KB",
            Dimension::Packets => "15 packets",
            Dimension::Share => "60 %",
            Dimension::Number => "3",
        }
    }

    /// Returns the units of this dimension, as they are written; a number has none.
    pub fn units(self) -> impl Iterator<Item = &'static str> {
        let own = UNITS.iter().filter(move |row| row.1 == self);
        own.map(|row| row.0).filter(|unit| !unit.is_empty())
    }

    /// Returns the name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::Rate => "rate",
            Dimension::Duration => "duration",
            Dimension::Bytes => "size in bytes",
            Dimension::Packets => "number of packets",
            Dimension::Share => "share",
            Dimension::Number => "number",
        }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::NotANumber(text) => {
                write!(
                    f,
                    "`{text}` does not start with a number; write a number and a unit, such as \
                     `10 Mbit/s`"
                )
            }
            UnitError::UnknownUnit(unit) => {
                write!(f, "unknown unit `{unit}`; the units are ")?;
                for (place, row) in UNITS.iter().filter(|row| !row.0.is_empty()).enumerate() {
                    write!(f, "{}{}", if place == 0 { "" } else { ", " }, row.0)?;
                }
                Ok(())
            }
            UnitError::Misspelt(unit, meant) => write!(f, "unknown unit `{unit}`; write `{meant}`"),
            UnitError::Ambiguous { text, bits, bytes } => {
                write!(f, "`{text}` is ambiguous; write `{bits}` or `{bytes}`")
            }
            UnitError::OutOfRange(text, limit) => write!(f, "`{text}` is out of range: {limit}"),
            UnitError::Dimension(text, wanted) if is_number(text) => {
                // People who leave a unit out mean seconds, not the milliseconds of the example.
                let unit = match wanted {
                    Dimension::Duration => "s",
                    _ => wanted.example().rsplit(' ').next().unwrap_or_default(),
                };
                write!(f, "`{text}` has no unit; write it like `{text} {unit}`")
            }
            UnitError::Dimension(text, wanted) => {
                write!(
                    f,
                    "`{text}` is not a {}; write it like `{}`",
                    wanted.name(),
                    wanted.example()
                )
            }
        }
    }
}

impl core::error::Error for UnitError {}

/// Returns whether a text is a number without a unit.
fn is_number(text: &str) -> bool {
    text.parse::<Quantity>().is_ok_and(|quantity| quantity.dimension() == Dimension::Number)
}

/// Prints `value` base units in the largest of `units` that shows it with at most three decimals.
fn print(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (base, _) = units[0];
    for &(unit, scale) in units.iter().rev() {
        let thousandths = u128::from(value) * 1000 / u128::from(scale);
        let exact = u128::from(value) * 1000 % u128::from(scale) == 0;
        if value >= scale && exact {
            return print_decimal(f, thousandths, unit);
        }
    }
    f.pad(&format!("{value} {base}"))
}

fn print_decimal(f: &mut fmt::Formatter<'_>, thousandths: u128, unit: &str) -> fmt::Result {
    let (whole, fraction) = (thousandths / 1000, thousandths % 1000);
    if fraction == 0 {
        return f.pad(&format!("{whole} {unit}"));
    }
    let fraction = format!("{fraction:03}");
    f.pad(&format!("{whole}.{} {unit}", fraction.trim_end_matches('0')))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units =
            [("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
        print(f, self.0, &units)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", NANOS_PER_SECOND)];
        print(f, self.0, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.0, &[("B", 1), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)])
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if fraction == 0 {
            return f.pad(&format!("{whole} %"));
        }
        let fraction = format!("{fraction:07}");
        f.pad(&format!("{whole}.{} %", fraction.trim_end_matches('0')))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Rate(rate) => rate.fmt(f),
            Quantity::Duration(duration) => duration.fmt(f),
            Quantity::Bytes(bytes) => bytes.fmt(f),
            Quantity::Packets(packets) => f.pad(&format!("{packets} packets")),
            Quantity::Share(share) => share.fmt(f),
            Quantity::Number(number) => number.fmt(f),
        }
    }
}

macro_rules! parse_one {
    ($($type:ident),*) => {$(
        impl FromStr for $type {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                match Quantity::parse_as(text, Dimension::$type)? {
                    Quantity::$type(value) => Ok(value),
                    _ => unreachable!("parse_as returns the requested dimension"),
                }
            }
        }
    )*};
}

parse_one!(Rate, Duration, Bytes, Share);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, printed: &str) {
        match text.parse::<Quantity>() {
            Ok(quantity) => {
                assert_eq!(quantity.to_string(), printed, "{text}");
                assert_eq!(
                    quantity.to_string().parse(),
                    Ok(quantity),
                    "{text} does not round-trip"
                );
            }
            Err(error) => assert_eq!(error.to_string().split(';').next(), Some(printed), "{text}"),
        }
    }

    #[test]
    fn quantities_parse_and_print() {
        check("10 Mbit/s", "10 Mbit/s");
        check("1.5Mbit/s", "1.5 Mbit/s");
        check("1 MB/s", "8 Mbit/s");
        check("0.064 Mbit/s", "64 kbit/s");
        check("123456789 bit/s", "123456.789 kbit/s");
        check("5 ms", "5 ms");
        check("1500 us", "1.5 ms");
        check("15 packets", "15 packets");
        check("18 KB", "18 KB");
        check("18 KiB", "18.432 KB");
        check("60 %", "60 %");
        check("33.3333333 %", "33.3333333 %");
        check("1_000", "1000");
    }

    #[test]
    fn bad_quantities_say_what_is_wrong() {
        check("ten Mbit/s", "`ten Mbit/s` does not start with a number");
        check("10 Mbps", "`10 Mbps` is ambiguous");
        check("10 kbps", "`10 kbps` is ambiguous");
        check("10 furlongs", "unknown unit `furlongs`");
        for (text, cure) in [
            ("50Mbit", "unknown unit `Mbit`; write `50 Mbit/s`"),
            ("3mbit", "unknown unit `mbit`; write `3 Mbit/s`"),
            ("1.5 mbit/S", "unknown unit `mbit/S`; write `1.5 Mbit/s`"),
            ("5 MS", "unknown unit `MS`; write `5 ms`"),
            ("2 Seconds", "unknown unit `Seconds`; write `2 s`"),
            ("64 kib", "unknown unit `kib`; write `64 KiB`"),
        ] {
            let error = text.parse::<Quantity>().expect_err(text);
            assert_eq!(error.to_string(), cure, "{text}");
        }
        let error = "5".parse::<Duration>().expect_err("a number is no time");
        assert_eq!(error.to_string(), "`5` has no unit; write it like `5 s`");
        check("101 %", "`101 %` is out of range: a share is at most 100 %");
        check("0 bit/s", "`0 bit/s` is out of range: a rate is at least 1 bit/s");
        check(
            "0.5 bit/s",
            "`0.5 bit/s` is out of range: the number is finer than its unit can hold",
        );
        check(
            "99999999999 Gbit/s",
            "`99999999999 Gbit/s` is out of range: the number is too large",
        );
        check("1.2.3 s", "`1.2.3 s` does not start with a number");
        check("", "`` does not start with a number");
    }

    #[test]
    fn every_unit_round_trips_at_awkward_values() {
        for value in [1u64, 7, 999, 1_001, 123_456_789, 1_000_000_007, u64::MAX >> 20] {
            for dimension in [Dimension::Rate, Dimension::Duration, Dimension::Bytes] {
                let quantity = Quantity::of(dimension, value, "").expect("in range");
                assert_eq!(quantity.to_string().parse(), Ok(quantity));
            }
        }
    }
}
