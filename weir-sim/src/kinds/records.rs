//! Recorded arrivals: lines of `time,length` or `time,length,flow`.
//!
//! Times are seconds since the start with at most nine decimals and never go back, lengths are
//! those of frames in bytes, flows are whole numbers. Blank lines, lines that begin with `#`, and a
//! first line with names are passed over. Invariant: whatever the bytes, reading ends with the
//! records or with one fault that names its line.

use super::RECORDS_MAX;
use crate::scenario::LENGTH_MAX;
use std::fmt;

/// One arrival of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Nanoseconds since the start.
    pub at: u64,
    /// The length of the frame.
    pub length: u32,
    /// The flow; 0 if the file does not say.
    pub flow: u32,
}

/// The fault of a file of arrivals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordFault {
    /// The line, from 1.
    pub line: usize,
    /// The fault, as a clause.
    pub what: String,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Reads a file of arrivals.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Record>, RecordFault> {
    let mut records = Vec::new();
    let mut last = 0;
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let fault = |what| RecordFault { line: index + 1, what };
        let text = str::from_utf8(line).map_err(|_| fault("it is not text".to_owned()))?.trim();
        let is_heading =
            records.is_empty() && text.starts_with(|first: char| first.is_alphabetic());
        if text.is_empty() || text.starts_with('#') || is_heading {
            continue;
        }
        let record = record(text).map_err(fault)?;
        if record.at < last {
            return Err(fault(format!("the time {} is before the line before it", shown(text))));
        }
        if records.len() == RECORDS_MAX {
            return Err(fault(format!("there are more than {RECORDS_MAX} arrivals")));
        }
        last = record.at;
        records.push(record);
    }
    Ok(records)
}

fn record(text: &str) -> Result<Record, String> {
    let mut fields = text.split(',').map(str::trim);
    let (time, length) = (fields.next().unwrap_or(""), fields.next());
    let at = nanos(time).ok_or_else(|| {
        format!("`{}` is not a time in seconds with at most nine decimals", shown(time))
    })?;
    let Some(length) = length else {
        return Err("there is no length; write `time,length`".to_owned());
    };
    let bytes = length.parse().ok().filter(|bytes| (1..=LENGTH_MAX).contains(bytes));
    let bytes = bytes
        .ok_or_else(|| format!("the length `{}` is not in 1 to {LENGTH_MAX}", shown(length)))?;
    let flow = match fields.next() {
        None | Some("") => 0,
        Some(flow) => {
            let number = flow.parse();
            number.map_err(|_| format!("the flow `{}` is not a whole number", shown(flow)))?
        }
    };
    match fields.next() {
        Some(_) => Err("there are more than three columns".to_owned()),
        None => Ok(Record { at, length: bytes, flow }),
    }
}

/// Seconds as nanoseconds; at most [`SECONDS_MAX`].
fn nanos(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && decimals.is_empty()) || !digits(whole) || !digits(decimals) {
        return None;
    }
    let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let (unit, more) = decimals.split_at(decimals.len().min(9));
    if seconds > SECONDS_MAX || more.bytes().any(|byte| byte != b'0') {
        return None;
    }
    let parts: u64 = if unit.is_empty() { 0 } else { unit.parse().ok()? };
    Some(seconds * 1_000_000_000 + parts * 10u64.pow(9 - unit.len() as u32))
}

/// The beginning of what was read, for a message.
fn shown(text: &str) -> &str {
    let end = (0..=SHOWN_MAX.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.expect("0 is a boundary")]
}

/// Reads `bytes` as arrivals, for the fuzz target: returns how many there were. A panic or a broken
/// promise is a finding.
pub fn exercise(bytes: &[u8]) -> usize {
    match parse(bytes) {
        Ok(records) => {
            assert!(records.is_sorted_by_key(|record| record.at), "times never go back");
            assert!(records.iter().all(|record| (1..=LENGTH_MAX).contains(&record.length)));
            records.len()
        }
        Err(fault) => {
            assert!(fault.line >= 1 && !fault.what.is_empty());
            0
        }
    }
}

const SECONDS_MAX: u64 = crate::read::DURATION_MAX.as_nanos() / 1_000_000_000;
const SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    /// The records as `(ns, bytes, flow)`, or what the fault says.
    fn check(text: &str, expected: Result<&[(u64, u32, u32)], &str>) {
        let rows = |records: Vec<Record>| -> Vec<_> {
            records.iter().map(|record| (record.at, record.length, record.flow)).collect()
        };
        match (parse(text.as_bytes()).map(rows), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(fault), Err(part)) => assert!(fault.to_string().contains(part), "{fault}"),
            (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn arrivals_are_read_to_the_nanosecond() {
        check("", Ok(&[]));
        check("0,64\n0.5,1500\n", Ok(&[(0, 64, 0), (500_000_000, 1500, 0)]));
        check("time,length,flow\n# x\n\n1.000000001, 64 ,7\r\n", Ok(&[(1_000_000_001, 64, 7)]));
        check(".25,1\n3.,2\n", Ok(&[(250_000_000, 1, 0), (3_000_000_000, 2, 0)]));
        check("0.1234567890,9", Ok(&[(123_456_789, 9, 0)]));
    }

    #[test]
    fn faults_name_their_line() {
        check("0,64\n-1,64\n", Err("line 2: `-1` is not a time"));
        check("0,64\n0.0000000001,64", Err("line 2"));
        check("1,64\n0.5,64\n", Err("line 2: the time"));
        check("1\n", Err("line 1: there is no length"));
        check("1,0\n", Err("the length `0`"));
        check("1,65536\n", Err("the length `65536`"));
        check("1,64,a\n", Err("the flow `a`"));
        check("1,64,1,1\n", Err("more than three"));
        check("99999999999999999999,64\n", Err("is not a time"));
        check("0,64\nname,length\n", Err("line 2"));
        check("0,64\n\u{e9},64", Err("line 2"));
    }
}
