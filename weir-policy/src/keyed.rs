//! Values of keys that have a row in a table of [`crate::keys`]: read within the range of the row,
//! or else its default.
//!
//! ```
//! use weir_core::units::Duration;
//! use weir_policy::keys::{Keys, Values, key};
//! use weir_policy::reader;
//!
//! const TIME: Values = Values::Time(Duration::ZERO, Duration::from_secs(10));
//! const KEYS: Keys = &[&[key("drain", TIME, "200 ms", "How long what waits is still sent.")]];
//! let read = |text: &str| {
//!     let outcome = reader::read("x.toml", text.as_bytes(), |top, report| {
//!         top.add_keys(KEYS);
//!         top.value::<Duration>("drain", report)
//!     });
//!     outcome.plan.ok_or_else(|| outcome.findings[0].message.clone())
//! };
//! assert_eq!(read(""), Ok(Duration::from_millis(200)));
//! let refused = "`drain` of the file: 60 s is not in 0 ns to 10 s";
//! assert_eq!(read("drain = '1 min'"), Err(refused.to_owned()));
//! ```

use crate::codes;
use crate::finding::Report;
use crate::keys::{Key, Values};
use crate::reader::{Node, Table};
use std::fmt::Display;
use std::str::FromStr;
use weir_core::units::{Bytes, Duration, Quantity, Rate, Share};

/// A type of values that a row can describe.
pub trait Value: Sized {
    /// Reads what is written for `key`.
    fn read(node: &Node<'_>, key: &'static Key, report: &mut Report) -> Option<Self>;
}

/// A number of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packets(pub u32);

/// A word that stands for a value out of the ordinary, or a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordOr<T> {
    /// The word of the row.
    Word,
    /// A value.
    Value(T),
}

impl<'a> Table<'a> {
    /// Reads the value of `name`, or returns the default of its row; `None` if what is written is
    /// wrong.
    ///
    /// # Panics
    /// If the default is in words.
    pub fn value<T>(&mut self, name: &'static str, report: &mut Report) -> Option<T>
    where
        T: Value + FromStr,
    {
        let key = self.row(name);
        self.value_by(name, report, |node, report| T::read(node, key, report))
    }

    /// Reads the value of `name`, `None` inside if it is not written.
    pub fn written<T: Value>(
        &mut self,
        name: &'static str,
        report: &mut Report,
    ) -> Option<Option<T>> {
        let Some(node) = self.field(name) else { return Some(None) };
        let key = self.row(name);
        T::read(&node, key, report).map(Some)
    }

    /// Reads the value of `name` with `read`, or returns the default of its row.
    ///
    /// # Panics
    /// If the default is in words.
    pub fn value_by<T: FromStr>(
        &mut self,
        name: &'static str,
        report: &mut Report,
        read: impl FnOnce(&Node<'a>, &mut Report) -> Option<T>,
    ) -> Option<T> {
        match self.field(name) {
            Some(node) => read(&node, report),
            None => {
                let default = self.row(name).default.parse().ok();
                Some(default.expect("the default of a row that is read so is a value"))
            }
        }
    }

    /// Reads which of the words of its row is written for `name`, or returns the row's default.
    pub fn word(&mut self, name: &'static str, report: &mut Report) -> Option<&'static str> {
        let key = self.row(name);
        let Values::Words(words) = key.values else { unreachable!("{key:?} has no words") };
        self.field(name).map_or(Some(key.default), |node| node.choice(words, report))
    }

    /// Reads which of the words of `rows` is written for `name`, or returns the default of its row.
    pub fn one_of<T: Copy>(
        &mut self,
        name: &'static str,
        rows: &[(&'static str, T)],
        report: &mut Report,
    ) -> Option<T> {
        let word = match self.field(name) {
            Some(node) => return node.one_of(rows, report),
            None => self.row(name).default,
        };
        let found = rows.iter().find(|row| row.0 == word).map(|row| row.1);
        Some(found.expect("the default of a row that is read so is one of its words"))
    }
}

impl Node<'_> {
    /// Reads one of the words of `rows`, and returns what it stands for.
    pub fn one_of<T: Copy>(&self, rows: &[(&'static str, T)], report: &mut Report) -> Option<T> {
        let words: Vec<_> = rows.iter().map(|row| row.0).collect();
        let word = self.choice(&words, report)?;
        rows.iter().find(|row| row.0 == word).map(|row| row.1)
    }

    /// Returns `value` if it is in `min` to `max`, both included; reports another one.
    pub fn within<T: PartialOrd + Display>(
        &self,
        value: T,
        (min, max): (T, T),
        cure: &str,
        report: &mut Report,
    ) -> Option<T> {
        if min <= value && value <= max {
            return Some(value);
        }
        let message = format!("{value} is not in {min} to {max}");
        report.push(self.draft(&codes::OUT_OF_RANGE, message).cure(cure));
        None
    }
}

impl Value for bool {
    fn read(node: &Node<'_>, _: &'static Key, report: &mut Report) -> Option<Self> {
        node.flag(report)
    }
}

impl Value for u64 {
    fn read(node: &Node<'_>, key: &'static Key, report: &mut Report) -> Option<Self> {
        let (Values::Number(min, max) | Values::WordOr(_, &Values::Number(min, max))) = key.values
        else {
            unreachable!("{key:?} is no number")
        };
        if let (Values::WordOr(..), Some(text)) = (key.values, node.value().as_str()) {
            let message = format!("{text:?} is neither a word of this key nor a number");
            let cure = format!("{}, or a number from {min} to {max} without quotes", cure(key));
            report.push(node.draft(&codes::BAD_VALUE, message).cure(cure));
            return None;
        }
        node.number(min, max, report)
    }
}

impl Value for i64 {
    fn read(node: &Node<'_>, key: &'static Key, report: &mut Report) -> Option<Self> {
        let Values::Integer(min, max) = key.values else { unreachable!("{key:?} has no sign") };
        let number = node.integer(report)?;
        node.within(number, (min, max), &cure(key), report)
    }
}

impl Value for Rate {
    fn read(node: &Node<'_>, _: &'static Key, report: &mut Report) -> Option<Self> {
        node.rate(report)
    }
}

impl Value for Share {
    fn read(node: &Node<'_>, _: &'static Key, report: &mut Report) -> Option<Self> {
        node.share(report)
    }
}

impl Value for Duration {
    fn read(node: &Node<'_>, key: &'static Key, report: &mut Report) -> Option<Self> {
        let time = node.duration(report)?;
        match key.values {
            Values::Time(min, max) | Values::WordOr(_, &Values::Time(min, max)) => {
                node.within(time, (min, max), &cure(key), report)
            }
            _ => Some(time),
        }
    }
}

impl Value for Bytes {
    fn read(node: &Node<'_>, key: &'static Key, report: &mut Report) -> Option<Self> {
        let size = node.bytes(report)?;
        let Values::Size(min, max) = key.values else { return Some(size) };
        if (min..=max).contains(&size) {
            return Some(size);
        }
        let message = format!("{size} is not in {}", key.values.range().unwrap_or_default());
        report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure(key)));
        None
    }
}

impl Value for Packets {
    fn read(node: &Node<'_>, key: &'static Key, report: &mut Report) -> Option<Self> {
        let packets = node.packets(report)?;
        let Values::Packets(min, max) = key.values else { return Some(Packets(packets)) };
        if (min..=max).contains(&packets) {
            return Some(Packets(packets));
        }
        let noun = if packets == 1 { "packet" } else { "packets" };
        let message = format!("{packets} {noun} is not between {min} and {max} packets");
        report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure(key)));
        None
    }
}

impl FromStr for Packets {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.parse() {
            Ok(Quantity::Packets(packets)) => Ok(Packets(packets)),
            _ => Err(()),
        }
    }
}

impl<T: Value> Value for WordOr<T> {
    fn read(node: &Node<'_>, key: &'static Key, report: &mut Report) -> Option<Self> {
        let Values::WordOr(word, _) = key.values else { unreachable!("{key:?} has no word") };
        if node.value().as_str() == Some(word) {
            return Some(WordOr::Word);
        }
        T::read(node, key, report).map(WordOr::Value)
    }
}

impl<T: FromStr> FromStr for WordOr<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.parse().map(WordOr::Value)
    }
}

/// Returns the cure for a value that is out of range.
fn cure(key: &Key) -> String {
    let default = key.default.split([',', ';']).next().unwrap_or_default();
    match key.values {
        Values::WordOr(word, _) => format!("leave it out for {default}, or write \"{word}\""),
        _ => format!("leave it out for {default}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{self, Keys, SIZE, key};
    use crate::reader;

    const SECOND: Duration = Duration::from_secs(1);
    const TIME: Values = Values::Time(Duration::ZERO, SECOND);
    const KEYS: Keys = &[&[
        key("flag", Values::Flag, "true", ""),
        key("number", Values::Number(1, 9), "3", ""),
        key("signed", Values::Integer(-2, 2), "-1 if it may", ""),
        key("size", SIZE, "5 KB", ""),
        key("ring", Values::Size(Bytes::new(8 << 20), Bytes::new(1 << 30)), "none; 8 MiB", ""),
        key("share", keys::SHARE, "0 %", ""),
        key("rate", keys::RATE, "1 Mbit/s", ""),
        key("pool", Values::Packets(2, 9), "4 packets", ""),
        key("time", Values::WordOr("none", &TIME), "5 ms", ""),
        key("word", Values::Words(&["a", "b"]), "b", ""),
    ]];

    /// Reads `name` in a file of this text; what is wrong, with its cure, is in brackets.
    fn read<T: std::fmt::Debug>(
        text: &str,
        by: impl FnOnce(&mut Table<'_>, &mut Report) -> Option<T>,
    ) -> String {
        let outcome = reader::read("f", text.as_bytes(), |top, report| {
            top.add_keys(KEYS);
            by(top, report)
        });
        match (outcome.plan, outcome.findings.first()) {
            (_, Some(finding)) => format!("[{}; {}]", finding.message, finding.cure),
            (value, None) => format!("{:?}", value.expect("without a finding there is a value")),
        }
    }

    fn check<T: Value + FromStr + std::fmt::Debug>(
        name: &'static str,
        rows: &[(&str, &str)],
        usual: Option<T>,
    ) {
        for (written, wanted) in rows {
            let text = format!("{name} = {written}");
            let found = read(&text, |table, report| table.written::<T>(name, report).flatten());
            let refused = format!("[`{name}` of the file: {wanted}]");
            assert!(found == *wanted || found == refused, "{text}: {found}, not {wanted}");
        }
        if let Some(usual) = usual {
            let found = read("", |table, report| table.value::<T>(name, report));
            assert_eq!(found, format!("{usual:?}"), "the default of {name}");
        }
    }

    #[test]
    fn values_are_within_the_ranges_of_their_rows_or_their_defaults() {
        check("flag", &[("false", "false")], Some(true));
        let cure = "10 is not in 1..=9; write a number from 1 to 9";
        check("number", &[("9", "9"), ("10", cure)], Some(3_u64));
        let cure = "3 is not in -2 to 2; leave it out for -1 if it may";
        check::<i64>("signed", &[("-2", "-2"), ("3", cure)], None);
        check("size", &[("'7 B'", "Bytes(7)")], Some(Bytes::new(5000)));
        let cure = "7 B is not in 8 MiB to 1 GiB; leave it out for none";
        check::<Bytes>("ring", &[("'8 MiB'", "Bytes(8388608)"), ("'7 B'", cure)], None);
        check("share", &[], Some(Share::default()));
        check("rate", &[], Rate::new(1_000_000));
        let cure = "1 packet is not between 2 and 9 packets; leave it out for 4 packets";
        check("pool", &[("'2 packets'", "Packets(2)"), ("'1 packet'", cure)], Some(Packets(4)));
        let cure = "2 s is not in 0 ns to 1 s; leave it out for 5 ms, or write \"none\"";
        let usual = WordOr::Value(Duration::from_millis(5));
        check("time", &[("'none'", "Word"), ("'2 s'", cure)], Some(usual));
    }

    #[test]
    fn words_are_those_of_their_rows() {
        let word = |text| read(text, |table, report| table.word("word", report));
        assert_eq!((word(""), word("word = 'a'")), ("\"b\"".to_owned(), "\"a\"".to_owned()));
        let number =
            |text| read(text, |table, report| table.one_of("word", &[("a", 1), ("b", 2)], report));
        assert_eq!((number(""), number("word = 'a'")), ("2".to_owned(), "1".to_owned()));
        let cure = "[`word` of the file: `c` is not one of `a`, `b`; remove it, or write one of \
                    `a`, `b`]";
        assert_eq!(word("word = 'c'"), cure);
    }

    #[test]
    #[should_panic(expected = "the file has no row for `other`")]
    fn a_key_without_a_row_is_a_bug() {
        read("", |table, _| table.field("other").map(|_| ()));
    }
}
