//! Tables of keys: what deployments and scenarios may hold, a row a key.
//!
//! A kind of file has one table for each of its sections. Three things follow from it: what the
//! reader accepts ([`crate::keyed`]), `weir schema`, and the page in `docs/reference/`. The keys of
//! policies are those of the registries in `weir-core`. Invariant: a key that a reader asks for has
//! a row; that each row is asked for is what a test of `weir schema` sees.

use std::fmt::Display;
use weir_core::units::{Bytes, Dimension, Duration};

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key as it is written.
    pub name: &'static str,
    /// The values that it takes.
    pub values: Values,
    /// The value if it is not written, as a file would write it, or in words; [`MUST`], or empty
    /// for none.
    pub default: &'static str,
    /// One sentence.
    pub summary: &'static str,
}

/// The keys of a table, in groups that tables share. Of two rows of one name the last holds.
pub type Keys = &'static [&'static [Key]];

/// The values of a key, with their unit and their range, both bounds included.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A text that is not empty.
    Text,
    /// A text of this pattern, such as this example; either may be empty.
    Form(&'static str, &'static str),
    /// An IPv4 address.
    Ipv4,
    /// An address of IPv4 or IPv6.
    Ip,
    /// The name of a Linux interface.
    Interface,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number(u64, u64),
    /// A whole number of either sign.
    Integer(i64, i64),
    /// A number with a fraction.
    Fraction,
    /// The operand of a rule: a word or a number.
    Field,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A quantity of one of these dimensions.
    Quantity(&'static [Dimension]),
    /// A time.
    Time(Duration, Duration),
    /// A size.
    Size(Bytes, Bytes),
    /// A number of packets.
    Packets(u32, u32),
    /// This word, or one of these values.
    WordOr(&'static str, &'static Values),
    /// Any of these.
    Either(&'static [Values]),
    /// A list of so many values.
    List(&'static Values, usize, usize),
    /// A table of these keys.
    Table(Keys),
    /// Tables under names that the user chooses, so many.
    Named(&'static Values, usize, usize),
    /// The file of a policy, or the policy itself.
    Policy,
}

impl Values {
    /// Returns the range of a quantity, as messages and pages say it.
    pub fn range(&self) -> Option<String> {
        match self {
            Values::Time(min, max) => Some(format!("{} to {}", time(*min), time(*max))),
            Values::Size(min, max) => Some(format!("{} to {}", size(*min), size(*max))),
            Values::Packets(min, max) => Some(format!("{min} to {max} packets")),
            _ => None,
        }
    }
}

/// Makes a row of a table.
pub const fn key(
    name: &'static str,
    values: Values,
    default: &'static str,
    summary: &'static str,
) -> Key {
    Key { name, values, default, summary }
}

/// Returns the row of a key.
pub fn find(keys: Keys, name: &str) -> Option<&'static Key> {
    keys.iter().rev().flat_map(|rows| rows.iter()).find(|row| row.name == name)
}

/// Returns the keys that must be written, in the order of the table.
pub fn required(keys: Keys) -> impl Iterator<Item = &'static str> {
    let rows = keys.iter().flat_map(|rows| rows.iter());
    rows.filter(|row| row.default == MUST).map(|row| row.name)
}

/// Returns the words of a table that says what each of them means; `N` is its length.
pub const fn words<T, const N: usize>(rows: &[(&'static str, T)]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = rows[at].0;
        at += 1;
    }
    words
}

/// Formats a time, whole hours as such.
fn time(time: Duration) -> String {
    if time == Duration::ZERO {
        return "0 s".to_owned();
    }
    let hours = time.as_nanos() / HOUR.as_nanos();
    match hours > 0 && time == Duration::from_secs(hours * 3600) {
        true => format!("{hours} h"),
        false => time.to_string(),
    }
}

/// Formats a size, whole mebibytes and gibibytes as such.
fn size(size: Bytes) -> String {
    let bytes = size.get();
    let whole = |unit: u64| bytes > 0 && bytes.is_multiple_of(unit);
    let text: &dyn Display = match bytes {
        _ if whole(1 << 30) => &format!("{} GiB", bytes >> 30),
        _ if whole(1 << 20) => &format!("{} MiB", bytes >> 20),
        _ => &size,
    };
    text.to_string()
}

/// The default of a key that has none.
pub const MUST: &str = "must be written";
/// Any text.
pub const ANY: Values = Values::Form("", "");
/// Any time, rate, size, share or number of packets.
pub const TIME: Values = Values::Quantity(&[Dimension::Duration]);
/// Any rate.
pub const RATE: Values = Values::Quantity(&[Dimension::Rate]);
/// Any size.
pub const SIZE: Values = Values::Quantity(&[Dimension::Bytes]);
/// Any share.
pub const SHARE: Values = Values::Quantity(&[Dimension::Share]);
/// Any number of packets.
pub const PACKETS: Values = Values::Quantity(&[Dimension::Packets]);
/// Any number of packets or of bytes.
pub const LIMIT: Values = Values::Quantity(&[Dimension::Packets, Dimension::Bytes]);
/// A text, or a list of them.
pub const NAMES: Values = Values::Either(&[Values::Text, Values::List(&Values::Text, 1, MANY)]);
/// No bound of a list.
pub const MANY: usize = usize::MAX;
const HOUR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_the_units_that_a_file_would_use() {
        let check = |values: Values, wanted: Option<&str>| {
            assert_eq!(values.range().as_deref(), wanted, "{values:?}");
        };
        let hours = Duration::from_secs(24 * 3600);
        check(Values::Time(Duration::ZERO, hours), Some("0 s to 24 h"));
        let seconds = Duration::from_secs(5400);
        check(Values::Time(Duration::from_millis(10), seconds), Some("10 ms to 5400 s"));
        let sizes = [Bytes::new(1000), Bytes::new(8 << 20), Bytes::new(4 << 30)];
        check(Values::Size(sizes[0], sizes[1]), Some("1 KB to 8 MiB"));
        check(Values::Size(sizes[1], sizes[2]), Some("8 MiB to 4 GiB"));
        check(Values::Packets(1, 9), Some("1 to 9 packets"));
        check(TIME, None);
    }

    #[test]
    fn of_two_rows_of_a_name_the_last_holds() {
        const KEYS: Keys = &[
            &[key("a", TIME, MUST, "one"), key("b", TIME, "", "")],
            &[key("a", Values::Flag, "", "two")],
        ];
        assert_eq!(find(KEYS, "a").map(|row| row.summary), Some("two"));
        assert!(find(KEYS, "c").is_none());
    }
}
