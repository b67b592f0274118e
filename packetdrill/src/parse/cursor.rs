//! A place in the text of a script.
//!
//! Invariant: `at` is at the start of a character.

use super::ParseError;

/// A place in a text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns what has not been read.
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Returns the line of this place, from 1.
    pub(super) fn line(&self) -> usize {
        1 + self.text[..self.at].matches('\n').count()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Goes past `expected` if it is next; returns whether it was.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let is_next = self.rest().starts_with(expected);
        if is_next {
            self.at += expected.len();
        }
        is_next
    }

    /// Goes past the characters that `accept` takes, and returns them.
    pub(super) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|next| !accept(next)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Goes back by `length` bytes of ASCII that were read.
    pub(super) fn back(&mut self, length: usize) {
        self.at -= length;
    }

    /// Goes past `end`, and returns what stands before it; `None` if it is not there.
    pub(super) fn up_to(&mut self, end: &str) -> Option<&'a str> {
        let rest = self.rest();
        let found = rest.find(end)?;
        self.at += found + end.len();
        Some(&rest[..found])
    }

    /// Returns what is left of this line, and goes to its end.
    pub(super) fn rest_of_line(&mut self) -> &'a str {
        self.take_while(|next| next != '\n')
    }

    /// Goes past blanks that stay on this line.
    pub(super) fn skip_spaces(&mut self) {
        self.take_while(|next| next == ' ' || next == '\t');
    }

    /// Goes past blanks, ends of lines and comments.
    pub(super) fn skip_blank(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if self.take("/*") {
                if self.up_to("*/").is_none() {
                    self.at = self.text.len();
                }
            } else if self.rest().starts_with("//") || self.rest().starts_with('#') {
                self.rest_of_line();
            } else {
                return;
            }
        }
    }

    /// Reads a word of letters, digits and underscores.
    pub(super) fn word(&mut self) -> &'a str {
        self.take_while(|next| next.is_ascii_alphanumeric() || next == '_')
    }

    /// Reads a decimal or hexadecimal number.
    pub(super) fn number(&mut self) -> Result<u32, ParseError> {
        self.skip_blank();
        let before = self.at;
        let digits = self.word();
        let parsed = match digits.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        parsed.map_err(|_| {
            self.at = before;
            self.expected("a number")
        })
    }

    /// Goes past what must be next, after blanks.
    pub(super) fn must(&mut self, next: &'static str) -> Result<(), ParseError> {
        self.skip_blank();
        if self.take(next) { Ok(()) } else { Err(self.expected(next)) }
    }

    /// Returns the error that `what` is missing here.
    pub(super) fn expected(&self, what: &'static str) -> ParseError {
        let found = self.rest().lines().next().unwrap_or_default();
        let found = found.chars().take(40).collect();
        ParseError { line: self.line(), expected: what, found }
    }
}
