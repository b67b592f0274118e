//! Document symbols: the tree of classes with their rates, and the other tables by their names.

use crate::document::Document;
use crate::position::Encoding;
use crate::syntax::{Slot, Step};
use lsp_types::{DocumentSymbol, SymbolKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns the outline of a document.
pub fn symbols(document: &Document, encoding: Encoding) -> Vec<DocumentSymbol> {
    let mut tables: BTreeMap<Vec<Step>, Table> = BTreeMap::new();
    let mut order = Vec::new();
    for slot in document.slots() {
        let Some(path) = table_of(slot) else { continue };
        match tables.get_mut(path) {
            Some(table) => table.range.end = table.range.end.max(slot.span.end),
            None => {
                order.push(path.to_vec());
                tables.insert(path.to_vec(), Table::new(&slot.span));
            }
        }
    }
    let outline = Outline { document, tables, encoding };
    outline.arrange(order)
}

/// Where a table stands: its name, and all that belongs to it.
struct Table {
    name: Range<usize>,
    range: Range<usize>,
}

impl Table {
    fn new(name: &Range<usize>) -> Self {
        Self { name: name.clone(), range: name.clone() }
    }
}

/// Returns the table of the outline to which a key or value belongs: a class, `[link]`, an element
/// of `[[source]]`, or a named table such as a direction.
fn table_of(slot: &Slot) -> Option<&[Step]> {
    let path = &slot.path;
    let first = path.first()?.key()?;
    let depth = match first {
        "class" | "direction" | "template" | "plan" => 2,
        _ if matches!(path.get(1), Some(Step::Index(_))) => 2,
        "link" | "deployment" | "rsvp" | "policy" | "grid" | "random" | "latin" => 1,
        _ => return None,
    };
    path.get(..depth)
}

struct Outline<'a> {
    document: &'a Document,
    tables: BTreeMap<Vec<Step>, Table>,
    encoding: Encoding,
}

impl Outline<'_> {
    /// Puts classes below their parents; those in a loop stand alone.
    fn arrange(&self, order: Vec<Vec<Step>>) -> Vec<DocumentSymbol> {
        let mut children: BTreeMap<Vec<Step>, Vec<Vec<Step>>> = BTreeMap::new();
        let mut tops = Vec::new();
        for path in &order {
            match self.parent(path) {
                Some(parent) => children.entry(parent).or_default().push(path.clone()),
                None => tops.push(path.clone()),
            }
        }
        let mut symbols: Vec<_> =
            tops.iter().filter_map(|path| self.symbol(path, &mut children)).collect();
        while let Some((_, looped)) = children.pop_first() {
            symbols.extend(looped.iter().filter_map(|path| self.symbol(path, &mut children)));
        }
        symbols
    }

    fn parent(&self, path: &[Step]) -> Option<Vec<Step>> {
        let parent = self.document.value(path)?.get("parent")?.as_str()?;
        let above = vec![path[0].clone(), Step::Key(parent.to_owned())];
        (path[0].is("class") && self.tables.contains_key(&above)).then_some(above)
    }

    /// Returns the symbol of a table with those below it, each of which is taken once.
    #[expect(deprecated, reason = "the type has a field that the protocol has replaced")]
    fn symbol(
        &self,
        path: &[Step],
        children: &mut BTreeMap<Vec<Step>, Vec<Vec<Step>>>,
    ) -> Option<DocumentSymbol> {
        let table = self.tables.get(path)?;
        let value = self.document.value(path).unwrap_or(&Value::Null);
        let below = children.remove(path).unwrap_or_default();
        let below: Vec<_> = below.iter().filter_map(|path| self.symbol(path, children)).collect();
        let range =
            |bytes: &Range<usize>| self.document.lines().range(bytes.clone(), self.encoding);
        let is_class = path[0].is("class");
        Some(DocumentSymbol {
            name: name(path, value),
            detail: Some(detail(value)).filter(|text| !text.is_empty()),
            kind: if is_class { SymbolKind::CLASS } else { SymbolKind::NAMESPACE },
            tags: None,
            deprecated: None,
            range: range(&table.range),
            selection_range: range(&table.name),
            children: (!below.is_empty()).then_some(below),
        })
    }
}

/// Returns the key of a table, or the name that an element of an array has.
fn name(path: &[Step], value: &Value) -> String {
    let first = path[0].key().unwrap_or_default();
    match path.get(1) {
        Some(Step::Key(key)) if first == "class" => key.clone(),
        Some(Step::Key(key)) => format!("{first} {key}"),
        Some(Step::Index(index)) => {
            let own = value["name"].as_str().or(value["that"].as_str()).or(value["at"].as_str());
            own.map_or_else(|| format!("{first} {index}"), |own| format!("{first} {own}"))
        }
        None => first.to_owned(),
    }
}

/// Returns what a table says of its rate, or of its kind.
fn detail(value: &Value) -> String {
    let written = |key: &&str| {
        let text = match value.get(key)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some(match *key {
            "ceil" => format!("to {text}"),
            "weight" | "priority" | "prio" => format!("{key} {text}"),
            _ => text,
        })
    };
    DETAILS.iter().filter_map(written).collect::<Vec<_>>().join(" ")
}

/// The keys that an outline shows.
const DETAILS: [&str; 11] = [
    "rate",
    "share",
    "ceil",
    "weight",
    "priority",
    "prio",
    "scheduler",
    "kind",
    "from",
    "to",
    "policy",
];
