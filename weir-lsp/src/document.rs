//! A file that is open in the editor: its text, its kind, and what was found in it.

use crate::checked::Checked;
use crate::kind::Kind;
use crate::position::{Encoding, Lines};
use crate::syntax::{self, Slot, Step};
use lsp_types::TextDocumentContentChangeEvent as Change;
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// An open file.
#[derive(Debug)]
pub struct Document {
    /// The path, or the URI of what is no file.
    pub name: String,
    /// The outcome of its last check.
    pub checked: Option<Checked>,
    lines: Lines,
    // Of a text that is typed on at once, nothing is read.
    json: OnceCell<Value>,
    slots: OnceCell<Vec<Slot>>,
    kind: OnceCell<Option<Kind>>,
}

impl Document {
    /// A file with this name and text.
    pub fn new(name: impl Into<String>, text: String) -> Self {
        Self::with(name.into(), Lines::new(text))
    }

    fn with(name: String, lines: Lines) -> Self {
        let (json, slots, kind) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { name, checked: None, lines, json, slots, kind }
    }

    /// Returns the file after these changes of its text, each on the text that the one before left.
    pub fn changed(self, changes: Vec<Change>, encoding: Encoding) -> Self {
        let (mut lines, mut kind) = (self.lines, self.kind);
        for Change { range, text, .. } in changes {
            let Some(range) = range else {
                (lines, kind) = (Lines::new(text), OnceCell::new());
                continue;
            };
            let bytes = lines.bytes(range, encoding);
            if !keeps_keys(lines.text(), bytes.clone(), &text) {
                kind = OnceCell::new();
            }
            let mut whole = lines.text().to_owned();
            whole.replace_range(bytes, &text);
            lines = Lines::new(whole);
        }
        Self { kind, ..Self::with(self.name, lines) }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        self.lines.text()
    }

    /// Returns the text with its lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Returns the kind of file, if it is Weir's.
    pub fn kind(&self) -> Option<Kind> {
        *self.kind.get_or_init(|| {
            let keys = self.json().as_object().into_iter().flatten();
            Kind::of_keys(&keys.map(|(key, _)| key.clone()).collect::<Vec<_>>())
        })
    }

    /// Returns the values, as far as they can be read.
    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| object(DeTable::parse_recoverable(self.text()).0.get_ref()))
    }

    /// Returns every key and value, in the order of the text.
    pub fn slots(&self) -> &[Slot] {
        self.slots.get_or_init(|| syntax::slots(self.text()))
    }

    /// Returns the key or value at a byte.
    pub fn slot_at(&self, offset: usize) -> Option<&Slot> {
        let slots = self.slots();
        let after = slots.partition_point(|slot| slot.span.start <= offset);
        let slot = slots[..after].last()?;
        (offset <= slot.span.end).then_some(slot)
    }

    /// Returns the value at a path.
    pub fn value(&self, path: &[Step]) -> Option<&Value> {
        path.iter().try_fold(self.json(), |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        })
    }
}

/// Returns whether a change leaves the top-level keys as they are: it stays in one line of a table.
fn keeps_keys(text: &str, bytes: Range<usize>, new: &str) -> bool {
    let line = text[..bytes.start].rfind('\n').map_or(0, |at| at + 1);
    let in_table = text.starts_with('[') || text[..line].contains("\n[");
    let is_plain = |part: &str| !part.contains(['\n', '\r', '[']);
    in_table && !text[line..].starts_with('[') && is_plain(&text[bytes]) && is_plain(new)
}

/// Converts a table.
fn object(table: &DeTable<'_>) -> Value {
    let row = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, _)| {
        (key.get_ref().to_string(), json(value))
    };
    Value::Object(table.iter().map(row).collect::<Map<_, _>>())
}

fn json(value: &toml::Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Integer(number) => {
            number.to_string().parse::<i64>().map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => {
            number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
        }
        DeValue::Datetime(date) => Value::from(date.to_string()),
        DeValue::Array(array) => Value::Array(array.iter().map(json).collect()),
        DeValue::Table(table) => object(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsp_types::Position;

    #[test]
    fn a_change_replaces_what_it_names() {
        let place = |line, character| Position { line, character };
        let change = |range: Option<lsp_types::Range>, text: &str| Change {
            range,
            range_length: None,
            text: text.to_owned(),
        };
        let document = Document::new("p", "[link]\nrate = 'µ'\n".to_owned());
        let range = lsp_types::Range { start: place(1, 8), end: place(1, 9) };
        let added = lsp_types::Range { start: place(99, 0), end: place(99, 0) };
        let document = document.changed(
            vec![change(Some(range), "1"), change(Some(added), "[class]\n")],
            Encoding::Utf16,
        );
        assert_eq!(document.text(), "[link]\nrate = '1'\n[class]\n");
        assert_eq!(document.kind(), Some(Kind::Policy));
        let document = document.changed(vec![change(None, "duration = 1")], Encoding::Utf8);
        assert_eq!(document.kind(), Some(Kind::Scenario));
    }

    #[test]
    fn a_half_written_file_has_a_kind() {
        let rows = [
            ("[link]\nrate = \n[class.a]\n", Some(Kind::Policy)),
            ("scenario = 'x'\nmetrics = [", Some(Kind::Sweep)),
            ("[deployment]\nports = {", Some(Kind::Deployment)),
            ("[package]\nname = 'x'\n", None),
        ];
        for (text, kind) in rows {
            assert_eq!(Document::new("x", text.to_owned()).kind(), kind, "{text}");
        }
    }
}
