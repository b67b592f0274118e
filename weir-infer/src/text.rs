//! Lines of TOML: texts and times as scenarios write them.

use std::fmt::Write;
use weir_core::units::Duration;

/// Adds a line: a key and its value.
pub fn line(text: &mut String, key: &str, value: &str) {
    text.push_str(key);
    text.push_str(value);
    text.push('\n');
}

/// Returns a text as TOML quotes it.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                write!(quoted, "\\u{:04x}", u32::from(letter)).expect("text grows");
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a time in seconds, to the microsecond, or in milliseconds if it is short.
pub fn quoted_time(time: Duration) -> String {
    let micros = time.min(TIME_MAX).as_nanos().div_ceil(1000);
    let (whole, part, digits, unit) = match micros {
        0..1_000_000 => (micros / 1000, micros % 1000, 3, "ms"),
        _ => (micros / 1_000_000, micros % 1_000_000, 6, "s"),
    };
    let text = format!("{whole}.{part:0digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("\"{text} {unit}\"")
}

/// The times of a damaged capture may be of another century; scenarios have ten years at most.
const TIME_MAX: Duration = Duration::from_secs(300_000_000);
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_scenarios_have_them() {
        let rows = [
            (0, "\"0 ms\""),
            (1, "\"0.001 ms\""),
            (1_500_000, "\"1.5 ms\""),
            (23_000_000, "\"23 ms\""),
            (1_000_000_000, "\"1 s\""),
            (12_345_678_901, "\"12.345679 s\""),
        ];
        for (nanos, expected) in rows {
            let time = Duration::from_nanos(nanos);
            let written = quoted_time(time);
            assert_eq!(written, expected);
            assert!(written.trim_matches('"').parse::<Duration>().is_ok(), "{written}");
        }
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
