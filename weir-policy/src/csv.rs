//! Splits comma-separated text into records and cells that know their places.
//!
//! [rfc4180 §2] with what spreadsheets write besides: a byte order mark, `;` or tabs between cells,
//! spaces around them, blank lines, and lines of comment that begin with `#`. A record ends at a
//! line end, except inside quotes. Every step of the iterator takes at least one byte.

use crate::codes::{self, Code};
use crate::finding::Span;
use std::borrow::Cow;

/// One line of cells, or several if a cell has line ends.
#[derive(Debug)]
pub struct Record<'t> {
    /// The place of the whole record.
    pub span: Span,
    /// The cells with their places; those in quotes without them.
    pub cells: Vec<(Cow<'t, str>, Span)>,
}

/// An error in a list, with its place and cure.
#[derive(Debug)]
pub struct Fault {
    /// The code of the finding that reports it.
    pub code: &'static Code,
    /// Where it is.
    pub span: Span,
    /// The message of that finding.
    pub message: Cow<'static, str>,
    /// How to cure it.
    pub cure: &'static str,
}

/// Returns which columns of `header` a row of `count` cells lacks: none, or those that LibreQoS's
/// ShapedDevices.csv names and may leave out of its rows.
pub fn left_out<'h>(header: impl Iterator<Item = &'h str>, count: usize) -> Vec<usize> {
    let names: Vec<&str> = header.collect();
    let optional = |at: &usize| OPTIONAL.contains(&names[*at]);
    let left_out: Vec<usize> = (0..names.len()).filter(optional).collect();
    let short = count < names.len() && count + left_out.len() == names.len();
    if short { left_out } else { Vec::new() }
}

/// The records of a text.
#[derive(Debug)]
pub struct Records<'t> {
    text: &'t str,
    at: usize,
    separator: char,
}

impl<'t> Records<'t> {
    /// The first line decides what separates cells: the first of comma, semicolon and tab that it
    /// has.
    pub fn new(text: &'t str) -> Self {
        let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        let mut lines = text[at..].lines().filter(|line| !is_skipped(line));
        let header = lines.next().unwrap_or_default();
        let separator = SEPARATORS.into_iter().find(|one| header.contains(*one));
        Self { text, at, separator: separator.unwrap_or(SEPARATORS[0]) }
    }

    fn skip_lines(&mut self) {
        while let Some(line) = self.text[self.at..].split_inclusive('\n').next() {
            if !is_skipped(line) {
                return;
            }
            self.at += line.len();
        }
    }

    fn record(&mut self) -> Result<Record<'t>, Fault> {
        let start = self.at;
        let mut cells = Vec::new();
        loop {
            if cells.len() == COLUMNS_MAX {
                let message = format!("the row has more than {COLUMNS_MAX} cells").into();
                let (code, cure) = (&codes::TOO_MANY, "remove columns that no template names");
                return Err(Fault { code, span: (start..self.at).into(), message, cure });
            }
            let (cell, ends) = self.cell()?;
            cells.push(cell);
            if ends {
                let end = self.text[..self.at].trim_end_matches(['\r', '\n']).len();
                return Ok(Record { span: Span { start, end: end.max(start) }, cells });
            }
        }
    }

    /// Reads one cell; returns whether it ends the record.
    fn cell(&mut self) -> Result<((Cow<'t, str>, Span), bool), Fault> {
        let rest = &self.text[self.at..];
        let indent = rest.len() - rest.trim_start_matches(BLANKS).len();
        self.at += indent;
        if self.text[self.at..].starts_with('"') { self.quoted() } else { Ok(self.plain()) }
    }

    fn plain(&mut self) -> ((Cow<'t, str>, Span), bool) {
        let rest = &self.text[self.at..];
        let length = rest.find([self.separator, '\n']).unwrap_or(rest.len());
        let text = rest[..length].trim_end();
        let span = Span { start: self.at, end: self.at + text.len() };
        self.at += length;
        ((Cow::Borrowed(text), span), self.end_cell())
    }

    fn quoted(&mut self) -> Result<((Cow<'t, str>, Span), bool), Fault> {
        let start = self.at;
        let body = &self.text[start + 1..];
        let mut length = 0;
        loop {
            let Some(quote) = body[length..].find('"') else {
                self.at = self.text.len();
                let span = (start..start + 1).into();
                return Err(fault(span, "the quote is not closed", "close it with `\"`"));
            };
            length += quote;
            if !body[length + 1..].starts_with('"') {
                break;
            }
            length += 2;
        }
        let end = start + 1 + length + 1;
        let inside = body[..length].trim();
        let text = match inside.contains("\"\"") {
            true => Cow::Owned(inside.replace("\"\"", "\"")),
            false => Cow::Borrowed(inside),
        };
        let rest = &self.text[end..];
        let gap = rest.find([self.separator, '\n']).unwrap_or(rest.len());
        self.at = end + gap;
        if !rest[..gap].trim().is_empty() {
            let span = (start..end + gap).into();
            return Err(fault(span, "text follows a closed quote", "write a quote in it twice"));
        }
        Ok(((text, (start..end).into()), self.end_cell()))
    }

    /// Takes what separates cells or ends the record; returns whether the record ends.
    fn end_cell(&mut self) -> bool {
        let next = self.text[self.at..].chars().next();
        self.at += next.map_or(0, char::len_utf8);
        next != Some(self.separator)
    }
}

impl<'t> Iterator for Records<'t> {
    type Item = Result<Record<'t>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_lines();
        if self.at >= self.text.len() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            let rest = &self.text[self.at..];
            self.at += rest.find('\n').map_or(rest.len(), |at| at + 1);
        }
        Some(record)
    }
}

fn fault(span: Span, message: &'static str, cure: &'static str) -> Fault {
    Fault { code: &codes::BAD_LIST, span, message: message.into(), cure }
}

fn is_skipped(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

const BYTE_ORDER_MARK: char = '\u{feff}';
/// Bound: columns of a list; a wider one is refused.
pub const COLUMNS_MAX: usize = 256;
/// The columns that LibreQoS names in a header, and leaves out of the rows that it ships.
const OPTIONAL: [&str; 2] = ["Parent Node ID", "Anchor Node ID"];
const SEPARATORS: [char; 3] = [',', ';', '\t'];
/// A tab may separate cells.
const BLANKS: [char; 1] = [' '];

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the cells of each record, as `cell@start..end` joined by `|`, or its fault.
    fn check(text: &str, wanted: &[&str]) {
        let row = |record: Result<Record<'_>, Fault>| match record {
            Ok(record) => {
                let cell = |(text, span): &(Cow<'_, str>, Span)| {
                    format!("{text}@{}..{}", span.start, span.end)
                };
                record.cells.iter().map(cell).collect::<Vec<_>>().join("|")
            }
            Err(fault) => format!("{} {}..{}", fault.message, fault.span.start, fault.span.end),
        };
        let found: Vec<_> = Records::new(text).map(row).collect();
        assert_eq!(found, wanted, "{text:?}");
    }

    #[test]
    fn records_end_at_line_ends_outside_quotes() {
        check("", &[]);
        check("a,b\n1,2", &["a@0..1|b@2..3", "1@4..5|2@6..7"]);
        check("a,b\r\n1,\r\n", &["a@0..1|b@2..3", "1@5..6|@7..7"]);
        check("\u{feff}a\n", &["a@3..4"]);
        check("# c\n\n a ; b \n", &["a@6..7|b@10..11"]);
        check("a\tb\n", &["a@0..1|b@2..3"]);
        check("\"a,\nb\",c", &["a,\nb@0..6|c@7..8"]);
        check("\"say \"\"x\"\"\" ,c", &["say \"x\"@0..11|c@13..14"]);
        check("5\" dish,c", &["5\" dish@0..7|c@8..9"]);
        check(",\n", &["@0..0|@1..1"]);
    }

    #[test]
    fn wrong_quotes_are_faults_and_the_next_line_is_read() {
        check("\"a\"x,b\nc", &["text follows a closed quote 0..4", "c@7..8"]);
        check("a\n\"b\nc", &["a@0..1", "the quote is not closed 2..3"]);
    }
}
