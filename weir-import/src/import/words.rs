//! The words of a statement, with their places.

use super::lines::Reading;
use weir_policy::codes;
use weir_policy::finding::Span;

/// A word of the file; an expanded variable has the place of its use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Word {
    pub text: String,
    pub span: Span,
}

/// The words of a statement, taken one after the other.
#[derive(Clone, Debug)]
pub(super) struct Words {
    words: Vec<Word>,
    at: usize,
}

impl Words {
    /// Starts at the first of at least one word.
    pub(super) fn new(words: Vec<Word>) -> Self {
        assert!(!words.is_empty(), "a statement has a word");
        Self { words, at: 0 }
    }

    /// Returns the place of all words.
    pub(super) fn span(&self) -> Span {
        let ends = self.words.iter().map(|word| word.span.end);
        let start = self.words.iter().map(|word| word.span.start).min().unwrap_or(0);
        Span { start, end: ends.max().unwrap_or(start) }
    }

    /// Returns the next word without taking it.
    pub(super) fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(|word| word.text.as_str())
    }

    /// Takes the next word.
    pub(super) fn take(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned();
        self.at += usize::from(word.is_some());
        word
    }

    /// Returns the word that was taken last.
    pub(super) fn taken(&self) -> &Word {
        &self.words[self.at.saturating_sub(1)]
    }

    /// Returns the words that are not taken.
    pub(super) fn rest(&self) -> &[Word] {
        &self.words[self.at..]
    }

    /// Takes `text` and the word behind it, wherever they are; returns that word.
    pub(super) fn take_behind(&mut self, text: &str) -> Option<Word> {
        let at = self.at + self.rest().iter().position(|word| word.text == text)?;
        let found = self.words.get(at + 1)?.clone();
        self.words.drain(at..at + 2);
        Some(found)
    }

    /// Takes the next word if it is `text`.
    pub(super) fn accept(&mut self, text: &str) -> bool {
        let found = self.peek() == Some(text);
        self.at += usize::from(found);
        found
    }

    /// Takes the next word, which must be `text`.
    pub(super) fn expect(&mut self, text: &str, reading: &mut Reading) -> Option<()> {
        self.value(&format!("`{text}`"), |word| (word == text).then_some(()), reading)
    }

    /// Takes the next word; reports it if there is none.
    pub(super) fn need(&mut self, what: &str, reading: &mut Reading) -> Option<Word> {
        let word = self.take();
        if word.is_none() {
            let last = self.words.last().map_or(Span::default(), |word| word.span);
            let span = Span { start: last.end, end: last.end };
            let message = format!("the line ends where {what} should be");
            reading.error(&codes::INCOMPLETE, span, message, format!("write {what}"));
        }
        word
    }

    /// Takes the next word and parses it; reports a failure.
    pub(super) fn value<T>(
        &mut self,
        what: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        reading: &mut Reading,
    ) -> Option<T> {
        let word = self.need(what, reading)?;
        let value = parse(&word.text);
        if value.is_none() {
            bad_value(&word, what, reading);
        }
        value
    }
}

/// Reports that `word` cannot be read as `what`.
pub(super) fn bad_value(word: &Word, what: &str, reading: &mut Reading) {
    let shown: String = word.text.chars().take(64).collect();
    let message = format!("`{shown}` is not {what}");
    reading.error(&codes::BAD_IMPORT_VALUE, word.span, message, format!("write {what}"));
}

/// Splits a line with an optional comment after `#` into words; `offset` is where the line begins.
/// Each character of `own` is a word of its own.
pub(super) fn split(line: &str, offset: usize, own: &[char]) -> Vec<Word> {
    let line = line.split('#').next().unwrap_or("");
    let mut words = Vec::new();
    let mut start = None;
    let mut push = |start: usize, end: usize| {
        let span = Span { start: offset + start, end: offset + end };
        words.push(Word { text: line[start..end].to_owned(), span });
    };
    for (at, c) in line.char_indices() {
        let separate = own.contains(&c);
        if !c.is_whitespace() && !separate {
            start.get_or_insert(at);
            continue;
        }
        if let Some(start) = start.take() {
            push(start, at);
        }
        if separate {
            push(at, at + c.len_utf8());
        }
    }
    if let Some(start) = start {
        push(start, line.len());
    }
    words
}

/// Parses a whole number, also `0x` hexadecimal.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

/// Parses a whole number of this range.
pub(super) fn within<const LEAST: u64, const MOST: u64>(text: &str) -> Option<u64> {
    number(text).filter(|number| (LEAST..=MOST).contains(number))
}

/// Parses a decimal such as `1.5` in millionths, truncated; returns it and the rest of the text.
pub(super) fn decimal(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole_end = digits(text);
    let (whole, mut rest) = text.split_at(whole_end);
    let mut millionths = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let end = digits(after);
        let part = &after[..end.min(6)];
        if whole_end + end == 0 {
            return None;
        }
        let scale = 10_u64.pow(6 - part.len() as u32);
        millionths = part.parse().unwrap_or(0_u64) * scale;
        rest = &after[end..];
    } else if whole_end == 0 {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    Some((whole.checked_mul(1_000_000)?.checked_add(millionths)?, rest))
}

/// Multiplies a decimal by a unit, rounded down.
pub(super) fn scaled(millionths: u64, unit: u64) -> Option<u64> {
    u64::try_from(u128::from(millionths) * u128::from(unit) / 1_000_000).ok()
}

/// Parses a size in bytes: `64K`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    with_letter(text, [1 << 10, 1 << 20, 1 << 30])
}

/// Parses a number with the suffix `K`, `M` or `G`, whose factors are given.
pub(super) fn with_letter(text: &str, [kilo, mega, giga]: [u64; 3]) -> Option<u64> {
    let (millionths, unit) = decimal(text)?;
    let unit = match unit {
        "" => 1,
        "k" | "K" => kilo,
        "m" | "M" => mega,
        "g" | "G" => giga,
        _ => return None,
    };
    scaled(millionths, unit)
}

/// Splits a line into words as [`split`] does, where quotes hold blanks together: `a='b c'` is the
/// word `a=b c`. In double quotes a backslash escapes the next character.
pub(super) fn split_quoted(line: &str, offset: usize) -> Vec<Word> {
    let mut words = Vec::new();
    let mut chars = line.char_indices().peekable();
    while let Some(&(start, first)) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        if first == '#' {
            break;
        }
        let (mut text, mut quote, mut end) = (String::new(), None, start);
        while let Some(&(at, c)) = chars.peek() {
            if quote.is_none() && c.is_whitespace() {
                break;
            }
            chars.next();
            end = at + c.len_utf8();
            match c {
                '\'' | '"' if quote.is_none() => quote = Some(c),
                _ if quote == Some(c) => quote = None,
                '\\' if quote != Some('\'') => {
                    let next = chars.next();
                    end = next.map_or(end, |(at, c)| at + c.len_utf8());
                    text.extend(next.map(|row| row.1));
                }
                c => text.push(c),
            }
        }
        words.push(Word { text, span: Span { start: offset + start, end: offset + end } });
    }
    words
}
