//! The names of classes in a file: where one is declared, and where it is used.

use crate::document::Document;
use crate::kind::Kind;
use crate::syntax::{self, Part, Slot, Step};
use std::collections::BTreeSet;
use std::ops::Range;

/// The name of a class in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occurrence {
    /// The name.
    pub name: String,
    /// Its bytes, without quotes and without what follows it.
    pub span: Range<usize>,
    /// Whether it declares the class: a header or a key with its table.
    pub declares: bool,
}

/// Returns every occurrence, in the order of the file.
pub fn occurrences(document: &Document) -> Vec<Occurrence> {
    let slots = document.slots().iter();
    slots.filter_map(|slot| occurrence(document, slot)).collect()
}

/// Returns the occurrence at a byte.
pub fn at(document: &Document, offset: usize) -> Option<Occurrence> {
    let slots = document.slots();
    let after = slots.partition_point(|slot| slot.span.start <= offset);
    let slot = slots[..after].last()?;
    let found = occurrence(document, slot)?;
    (found.span.start <= offset && offset <= found.span.end).then_some(found)
}

/// Returns the names of the declared classes, in their order.
pub fn declared(document: &Document) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    let names = occurrences(document).into_iter().filter(|one| one.declares).map(|one| one.name);
    names.filter(move |name| seen.insert(name.clone()))
}

/// Returns whether the value at a path names a class, and nothing else.
pub fn is_reference(path: &[Step]) -> bool {
    let keys: Vec<_> = path.iter().map(|step| step.key().unwrap_or("#")).collect();
    matches!(
        keys[..],
        [.., "class", _, "parent"]
            | [.., "template", _, "class", "parent"]
            | ["source", "#", "class"]
            | ["rsvp", "class"]
            | ["deployment", "rsvp", "class"]
    )
}

/// Returns the files that a document names and whose classes it uses: policies, and scenarios.
pub fn named_files(document: &Document) -> impl Iterator<Item = &str> {
    let names = |slot: &&Slot| {
        let last = slot.path.iter().rev().find_map(Step::key);
        let key = match document.kind() {
            Some(Kind::Policy) => "under",
            Some(Kind::Sweep) => "scenario",
            _ => "policy",
        };
        slot.part == Part::Value && last == Some(key)
    };
    let slots = document.slots().iter().filter(names);
    slots.filter_map(|slot| document.value(&slot.path)?.as_str())
}

/// Returns whether `name` may be the name of a class.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits)
}

/// Returns the text that has `new` in the place of a name: quoted where a bare key would not do.
pub fn written(document: &Document, one: &Occurrence, new: &str) -> String {
    let before = document.text()[..one.span.start].chars().next_back();
    let is_bare = new.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_quoted = matches!(before, Some('"' | '\''));
    if !one.declares || is_quoted || is_bare { new.to_owned() } else { format!("\"{new}\"") }
}

fn occurrence(document: &Document, slot: &Slot) -> Option<Occurrence> {
    let text = document.text();
    let inner = slot.inner(text);
    let own = text.get(inner.clone())?;
    if slot.part != Part::Value {
        return of_key(slot, own, inner);
    }
    let length = match is_reference(&slot.path) {
        true => own.len(),
        false if has_measure(&slot.path) => prefix(own)?,
        false => return None,
    };
    let span = inner.start..inner.start + length;
    Some(Occurrence { name: own[..length].to_owned(), span, declares: false })
}

/// Returns the occurrence in a key: `[class.NAME]`, or `policy.class.NAME.…` in a sweep.
fn of_key(slot: &Slot, own: &str, inner: Range<usize>) -> Option<Occurrence> {
    let key = slot.path.last()?.key()?;
    if key != own {
        // An escape, which no name of a class needs.
        return None;
    }
    let above = &slot.path[..slot.path.len() - 1];
    let is_axis = AXES.iter().any(|axes| syntax::is(above, &[axes]));
    if is_axis && let Some(rest) = own.strip_prefix(IN_POLICY) {
        let start = inner.start + IN_POLICY.len();
        let name = rest.split('.').next()?.to_owned();
        return Some(Occurrence { span: start..start + name.len(), name, declares: false });
    }
    let is_class = match above {
        [class] => class.is("class"),
        [.., policy, class] => policy.is("policy") && class.is("class"),
        [] => false,
    };
    is_class.then(|| Occurrence { name: own.to_owned(), span: inner, declares: true })
}

/// Returns whether the value at a path begins with a class and a point.
fn has_measure(path: &[Step]) -> bool {
    syntax::is(path, &["promise", "*", "that"])
        || syntax::is(path, &["deployment", "alarm", "*", "when"])
        || syntax::is(path, &["metrics", "*"])
}

/// Returns the length of the name before the first point.
fn prefix(text: &str) -> Option<usize> {
    let length = text.find('.')?;
    let name = &text[..length];
    (is_name(name) && name != "link" && name != "source").then_some(length)
}

/// The tables of a sweep, and the beginning of a key there that leads to a class.
const AXES: [&str; 3] = ["grid", "random", "latin"];
const IN_POLICY: &str = "policy.class.";
/// Bound: bytes of the name of a class; a longer new name is refused.
const NAME_BYTES_MAX: usize = 64;
