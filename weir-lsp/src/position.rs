//! Places of the protocol: a line and a number of code units, whose encoding client and server
//! agree on, and the bytes of a text that they stand for.
//!
//! Invariant: any position of a client leads to a character boundary inside the text; one behind
//! the end of its line, to that end.

use lsp_types::{Position, PositionEncodingKind, Range};
use std::ops::Range as Bytes;

/// The unit in which positions count within a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// Units of 16 bits, which every client knows.
    #[default]
    Utf16,
    /// Bytes.
    Utf8,
}

/// A text, and where its lines begin.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    text: String,
    starts: Vec<usize>,
}

impl Encoding {
    /// Chooses bytes if the client offers them.
    pub fn negotiate(offered: &[PositionEncodingKind]) -> Self {
        if offered.contains(&PositionEncodingKind::UTF8) { Self::Utf8 } else { Self::Utf16 }
    }

    /// Returns its name in the protocol.
    pub fn kind(self) -> PositionEncodingKind {
        match self {
            Self::Utf16 => PositionEncodingKind::UTF16,
            Self::Utf8 => PositionEncodingKind::UTF8,
        }
    }

    fn width(self, character: char) -> usize {
        match self {
            Self::Utf16 => character.len_utf16(),
            Self::Utf8 => character.len_utf8(),
        }
    }
}

impl Lines {
    /// Finds the lines of a text; `\n`, `\r\n` and a lone `\r` end one.
    pub fn new(text: String) -> Self {
        let bytes = text.as_bytes();
        let ends = |&at: &usize| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let starts = (0..bytes.len()).filter(ends).map(|at| at + 1);
        let starts = std::iter::once(0).chain(starts).collect();
        Self { text, starts }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the byte at a position.
    pub fn offset(&self, position: Position, encoding: Encoding) -> usize {
        let Some(&start) = self.starts.get(position.line as usize) else { return self.text.len() };
        let next = self.starts.get(position.line as usize + 1).copied();
        let line = &self.text[start..next.unwrap_or(self.text.len())];
        let line = if next.is_some() { line.trim_end_matches(['\n', '\r']) } else { line };
        let mut units = position.character as usize;
        for (at, character) in line.char_indices() {
            let width = encoding.width(character);
            if units < width {
                return start + at;
            }
            units -= width;
        }
        start + line.len()
    }

    /// Returns the position of a byte; of one inside a character, that of the character.
    pub fn position(&self, offset: usize, encoding: Encoding) -> Position {
        let offset = floor(&self.text, offset);
        let line = self.starts.partition_point(|&start| start <= offset) - 1;
        let before = &self.text[self.starts[line]..offset];
        let character: usize = before.chars().map(|one| encoding.width(one)).sum();
        Position { line: narrow(line), character: narrow(character) }
    }

    /// Returns the positions of these bytes.
    pub fn range(&self, bytes: Bytes<usize>, encoding: Encoding) -> Range {
        let start = self.position(bytes.start, encoding);
        Range { start, end: self.position(bytes.end.max(bytes.start), encoding) }
    }

    /// Returns the bytes between two positions; none if the second is before the first.
    pub fn bytes(&self, range: Range, encoding: Encoding) -> Bytes<usize> {
        let start = self.offset(range.start, encoding);
        start..self.offset(range.end, encoding).max(start)
    }
}

/// Returns the nearest character boundary at or before byte `at`; the end of a shorter text.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    // Terminates: 0 is a boundary.
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a byte has this position in both encodings, and the position this byte.
    fn check(text: &str, byte: usize, (line, utf16, utf8): (u32, u32, u32)) {
        let lines = Lines::new(text.to_owned());
        for (encoding, character) in [(Encoding::Utf16, utf16), (Encoding::Utf8, utf8)] {
            let position = Position { line, character };
            assert_eq!(lines.position(byte, encoding), position, "{text:?} {byte} {encoding:?}");
            assert_eq!(lines.offset(position, encoding), byte, "{text:?} {byte} {encoding:?}");
        }
    }

    #[test]
    fn positions_count_units_of_their_encoding() {
        check("", 0, (0, 0, 0));
        check("ab\ncd", 4, (1, 1, 1));
        check("ab\r\ncd", 5, (1, 1, 1));
        check("ab\rcd", 4, (1, 1, 1));
        check("µb\n", 2, (0, 1, 2));
        check("a😀b", 5, (0, 3, 5));
        check("a\n", 2, (1, 0, 0));
    }

    #[test]
    fn positions_outside_the_text_are_moved_into_it() {
        let lines = Lines::new("a😀\r\nb".to_owned());
        let rows = [((0, 99), 5), ((0, 2), 1), ((9, 0), 8), ((1, 9), 8), ((u32::MAX, u32::MAX), 8)];
        for ((line, character), byte) in rows {
            let position = Position { line, character };
            assert_eq!(lines.offset(position, Encoding::Utf16), byte, "{position:?}");
        }
        let (start, end) = (Position { line: 1, character: 1 }, Position::default());
        assert_eq!(lines.bytes(Range { start, end }, Encoding::Utf8), 8..8);
    }
}
