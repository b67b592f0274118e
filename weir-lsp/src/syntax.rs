//! Where the keys and values of a text stand, also of a text that is half-written.
//!
//! The parser of `toml` sends events and goes on after errors; here each key and each value gets
//! the path that leads to it. An element of an array has its number in the path, and so has a table
//! `[[name]]`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use toml_parser::decoder::Encoding;
use toml_parser::parser::{EventReceiver, parse_document};
use toml_parser::{ErrorSink, Raw, Source, Span};

/// A step of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an element of an array.
    Index(usize),
}

/// The kind of text at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A key in a header.
    Header,
    /// A key before a value.
    Key,
    /// A value that is neither array nor table.
    Value,
}

/// A key or a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// A key, or a value.
    pub part: Part,
    /// The path that leads to it; that of a key ends with the key.
    pub path: Vec<Step>,
    /// Its bytes, with quotes.
    pub span: Range<usize>,
}

/// The key or value that is being written at the end of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// A key, or a value.
    pub part: Part,
    /// The table in which a key is written, or the key or array whose value is.
    pub path: Vec<Step>,
    /// The first byte of the word that is being written.
    pub start: usize,
}

/// Returns every key and value, in the order of the text.
pub fn slots(text: &str) -> Vec<Slot> {
    read(text).slots
}

/// Returns what is being written behind `text`, the part of a file before the cursor.
pub fn cursor(text: &str) -> Option<Cursor> {
    let mut reader = read(text);
    if reader.is_comment {
        return None;
    }
    let last = reader.slots.pop().filter(|slot| slot.span.end == text.len());
    let frame = reader.frames.pop();
    let start = last.as_ref().map_or(text.len(), |slot| slot.span.start);
    let part = match &frame {
        _ if reader.in_header => Part::Header,
        Some(frame) if frame.is_array || frame.in_value => Part::Value,
        _ => Part::Key,
    };
    if part == Part::Value {
        let path = frame.map(|frame| frame.value_path()).unwrap_or_default();
        return Some(Cursor { part, path, start });
    }
    let mut path = match (part, frame) {
        (Part::Key, Some(frame)) => [frame.path, frame.keys].concat(),
        _ => reader.table,
    };
    if last.is_some_and(|slot| slot.part != Part::Value) {
        path.pop();
    }
    Some(Cursor { part, path, start })
}

/// Returns whether a path has these keys; `*` stands for any step.
pub fn is(path: &[Step], keys: &[&str]) -> bool {
    path.len() == keys.len() && path.iter().zip(keys).all(|(step, key)| step.is(key))
}

impl Step {
    /// Returns whether it is this key; `*` stands for any step.
    pub fn is(&self, key: &str) -> bool {
        key == "*" || self.key() == Some(key)
    }

    /// Returns the key, if it is one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Key(key) => Some(key),
            Self::Index(_) => None,
        }
    }
}

impl Slot {
    /// Returns the bytes between the quotes, or all if there are none.
    pub fn inner(&self, text: &str) -> Range<usize> {
        let own = text.get(self.span.clone()).unwrap_or_default();
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| own.starts_with(quote));
        let Some(quote) = quote else { return self.span.clone() };
        let start = self.span.start + quote.len();
        let is_closed = own.len() >= 2 * quote.len() && own.ends_with(quote);
        start..if is_closed { self.span.end - quote.len() } else { self.span.end }
    }
}

fn read(text: &str) -> Reader<'_> {
    let tokens = Source::new(text).lex().into_vec();
    let mut reader = Reader { text, frames: vec![Frame::default()], ..Reader::default() };
    parse_document(&tokens, &mut reader, &mut ());
    reader
}

/// A table or an array that is open.
#[derive(Default)]
struct Frame {
    path: Vec<Step>,
    /// The keys before the value that is read.
    keys: Vec<Step>,
    in_value: bool,
    is_array: bool,
    index: usize,
}

#[derive(Default)]
struct Reader<'t> {
    text: &'t str,
    slots: Vec<Slot>,
    /// The keys of the last header.
    table: Vec<Step>,
    /// How many tables each `[[name]]` has.
    counts: BTreeMap<Vec<Step>, usize>,
    in_header: bool,
    is_comment: bool,
    frames: Vec<Frame>,
}

impl Frame {
    fn value_path(&self) -> Vec<Step> {
        let index = self.is_array.then_some(Step::Index(self.index));
        self.path.iter().chain(&self.keys).cloned().chain(index).collect()
    }
}

impl Reader<'_> {
    fn open_header(&mut self) {
        self.in_header = true;
        self.table.clear();
        self.frames = vec![Frame::default()];
    }

    fn close_header(&mut self) {
        self.in_header = false;
        self.frames = vec![Frame { path: self.table.clone(), ..Frame::default() }];
    }

    /// Enters the last of the tables of a name, if it is a `[[name]]`.
    fn enter_last(&mut self) {
        if let Some(count) = self.counts.get(&self.table) {
            self.table.push(Step::Index(count.saturating_sub(1)));
        }
    }

    fn open(&mut self, is_array: bool) -> bool {
        let Some(frame) = self.frames.last().filter(|_| self.frames.len() < DEPTH_MAX) else {
            return false;
        };
        let path = frame.value_path();
        self.frames.push(Frame { path, is_array, ..Frame::default() });
        true
    }

    /// Leaves an array or an inline table; the end of the text leaves none, so that the cursor is
    /// still in it.
    fn close(&mut self, span: Span) {
        if !span.is_empty() && self.frames.len() > 1 {
            self.frames.pop();
        }
    }

    fn name(&self, span: Span, encoding: Option<Encoding>) -> String {
        let mut name = Cow::Borrowed("");
        let raw = self.text.get(span.start()..span.end()).unwrap_or_default();
        Raw::new_unchecked(raw, encoding, span).decode_key(&mut name, &mut ());
        name.into_owned()
    }

    fn add(&mut self, part: Part, path: Vec<Step>, span: Span) {
        self.is_comment = false;
        self.slots.push(Slot { part, path, span: span.start()..span.end() });
    }
}

impl EventReceiver for Reader<'_> {
    fn std_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.open_header();
    }

    fn std_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        if !span.is_empty() {
            self.close_header();
        }
    }

    fn array_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.open_header();
    }

    fn array_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        if !span.is_empty() {
            let count = self.counts.entry(self.table.clone()).or_default();
            *count += 1;
            self.enter_last();
            self.close_header();
        }
    }

    fn inline_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(false)
    }

    fn inline_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.close(span);
    }

    fn array_open(&mut self, _: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(true)
    }

    fn array_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.close(span);
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, _: &mut dyn ErrorSink) {
        if span.is_empty() {
            // The parser goes on without a key that is missing.
            return;
        }
        let step = Step::Key(self.name(span, encoding));
        if self.in_header {
            self.enter_last();
            self.table.push(step);
            return self.add(Part::Header, self.table.clone(), span);
        }
        let Some(frame) = self.frames.last_mut() else { return };
        frame.keys.push(step);
        let path = [&frame.path[..], &frame.keys].concat();
        self.add(Part::Key, path, span);
    }

    fn key_val_sep(&mut self, span: Span, _: &mut dyn ErrorSink) {
        // An empty one is where the parser goes on without it.
        if let Some(frame) = self.frames.last_mut().filter(|_| !span.is_empty()) {
            frame.in_value = true;
        }
    }

    fn scalar(&mut self, span: Span, _: Option<Encoding>, _: &mut dyn ErrorSink) {
        let path = self.frames.last().map(Frame::value_path);
        if let Some(path) = path.filter(|_| !span.is_empty()) {
            self.add(Part::Value, path, span);
        }
    }

    fn value_sep(&mut self, _: Span, _: &mut dyn ErrorSink) {
        let Some(frame) = self.frames.last_mut() else { return };
        frame.index += 1;
        if !frame.is_array {
            frame.keys.clear();
            frame.in_value = false;
        }
    }

    fn comment(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.is_comment = true;
    }

    fn newline(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.is_comment = false;
        if self.in_header {
            // A header that nobody closed ends with its line.
            self.close_header();
        }
        if let [frame] = &mut self.frames[..] {
            frame.keys.clear();
            frame.in_value = false;
        }
    }
}

/// Bound: tables and arrays within each other, as deep as the parser of values allows; what is
/// deeper is not read.
const DEPTH_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &[Step]) -> String {
        let step = |step: &Step| match step {
            Step::Key(key) => key.clone(),
            Step::Index(index) => format!("#{index}"),
        };
        path.iter().map(step).collect::<Vec<_>>().join(".")
    }

    #[test]
    fn keys_and_values_have_their_paths() {
        let text = "[class.a]\nrate = 1\nqueue = { limit = 2 }\n[[source]]\n[[source]]\n\
                    x.y = [3, { z = 'w' }]\n[source.sub]\nk = 4\n";
        let rows: Vec<_> = slots(text)
            .iter()
            .map(|slot| format!("{} {}", shown(&slot.path), &text[slot.span.clone()]))
            .collect();
        let wanted = [
            "class class",
            "class.a a",
            "class.a.rate rate",
            "class.a.rate 1",
            "class.a.queue queue",
            "class.a.queue.limit limit",
            "class.a.queue.limit 2",
            "source source",
            "source source",
            "source.#1.x x",
            "source.#1.x.y y",
            "source.#1.x.y.#0 3",
            "source.#1.x.y.#1.z z",
            "source.#1.x.y.#1.z 'w'",
            "source source",
            "source.#1.sub sub",
            "source.#1.sub.k k",
            "source.#1.sub.k 4",
        ];
        assert_eq!(rows, wanted);
    }

    /// Checks part, path and word at the end of a text.
    fn check(text: &str, part: Part, path: &str, word: &str) {
        let found = cursor(text).unwrap_or_else(|| panic!("{text:?} ends in a comment"));
        let found = (found.part, shown(&found.path), &text[found.start..]);
        assert_eq!(found, (part, path.to_owned(), word), "{text:?}");
    }

    #[test]
    fn the_cursor_knows_what_is_being_written() {
        check("", Part::Key, "", "");
        check("[li", Part::Header, "", "li");
        check("[", Part::Header, "", "");
        check("[class.", Part::Header, "class", "");
        check("[class.vo", Part::Header, "class", "vo");
        check("[[source", Part::Header, "", "source");
        check("[link]\n", Part::Key, "link", "");
        check("[link]\nra", Part::Key, "link", "ra");
        check("[link]\nhtb.r", Part::Key, "link.htb", "r");
        check("[link]\nrate = ", Part::Value, "link.rate", "");
        check("[link]\nrate = \"10 M", Part::Value, "link.rate", "\"10 M");
        check("[link]\nrate = \"1\"\nsch", Part::Key, "link", "sch");
        check("[class.a]\nqueue = { ", Part::Key, "class.a.queue", "");
        check("[class.a]\nqueue = { dropper = \"", Part::Value, "class.a.queue.dropper", "\"");
        check("[class.a]\nqueue = { limit = 1, m", Part::Key, "class.a.queue", "m");
        check("[class.a]\nmatch = [{ dscp = ", Part::Value, "class.a.match.#0.dscp", "");
        check("[class.a]\nmatch = [{ a = 1 }, { d", Part::Key, "class.a.match.#1", "d");
        check("x = [1, 2", Part::Value, "x.#1", "2");
        check("[[source]]\n[[source]]\nk", Part::Key, "source.#1", "k");
        check("[link\nrate = ", Part::Value, "link.rate", "");
        assert_eq!(cursor("[link] # the li"), None);
    }

    #[test]
    fn any_text_is_read() {
        for text in ["[[[[", "{{{{", "= = =", "[a.\n.b]\n\"", "x = {a = [{b = [", "\u{0}", "'''"] {
            for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
                let (_, _) = (slots(&text[..end]), cursor(&text[..end]));
            }
        }
        let deep = "x = ".to_owned() + &"[".repeat(10_000);
        assert!(cursor(&deep).is_some());
    }
}
