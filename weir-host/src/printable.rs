//! Texts that come from elsewhere, made fit for a terminal.

use serde_json::Value;
use std::borrow::Cow;

/// Returns the text with an escape such as `\u{1b}` in place of each character that controls a
/// terminal or turns the direction of writing.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        if is_control(one) {
            clean.extend(one.escape_unicode());
        } else {
            clean.push(one);
        }
    }
    Cow::Owned(clean)
}

/// Makes a text printable where it is.
pub fn fit(text: &mut String) {
    if let Cow::Owned(clean) = printable(text) {
        *text = clean;
    }
}

/// As [`printable`], but the text may have several lines.
pub fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// Makes every text of a value fit to print.
pub fn clean_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = printable(text) {
                *text = clean;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(clean_value),
        Value::Object(fields) => fields.values_mut().for_each(clean_value),
        _ => {}
    }
}

/// C0, C1 and DEL, the ends of lines, and the marks of Unicode that turn the direction (UAX #9).
fn is_control(one: char) -> bool {
    let turns =
        matches!(one, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || turns || matches!(one, '\u{2028}' | '\u{2029}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_escaped_and_all_else_stays() {
        let rows = [
            ("voice", "voice"),
            ("größe/東京 *?", "größe/東京 *?"),
            ("a\u{1b}[31mb", "a\\u{1b}[31mb"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("one\ntwo\r\t\u{7f}\0", "one\\u{a}two\\u{d}\\u{9}\\u{7f}\\u{0}"),
            ("\u{202e}live", "\\u{202e}live"),
            ("\u{2028}", "\\u{2028}"),
        ];
        for (text, wanted) in rows {
            assert_eq!(printable(text), wanted);
        }
        assert_eq!(printable_lines("one\n  two\u{1b}[2J\r\n"), "one\n  two\\u{1b}[2J");
    }
}
