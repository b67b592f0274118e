//! Hover: what a key or a word means, with its values, default and source; what a class gets.

use crate::classes;
use crate::document::Document;
use crate::position::Encoding;
use crate::schema::{self, Schemas};
use crate::syntax::{Part, Step};
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind};
use std::borrow::Cow;
use weir_core::parameter::Parameter;
use weir_core::police::METERS;
use weir_core::queue::DROPPERS;
use weir_core::sched;
use weir_policy::diff::Standing;
use weir_policy::table::shown;

/// Returns what stands at a byte of the document.
pub fn hover(
    document: &Document,
    offset: usize,
    schemas: &Schemas,
    encoding: Encoding,
) -> Option<Hover> {
    let slot = document.slot_at(offset)?;
    let class = classes::at(document, offset).and_then(|class| of_class(document, &class.name));
    let value = class
        .or_else(|| of_word(document, &slot.path, slot.part))
        .or_else(|| of_key(document, &slot.path, schemas))?;
    let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
    Some(Hover { contents, range: Some(document.lines().range(slot.span.clone(), encoding)) })
}

/// Returns what a class gets, as `weir check --bounds` says.
fn of_class(document: &Document, name: &str) -> Option<String> {
    let standing = document.checked.as_ref()?.standing(name)?;
    Some(format!("class `{name}`\n\n{}", figures(standing)))
}

/// Formats the figures of a class.
fn figures(standing: &Standing) -> String {
    let rows = standing.figures().into_iter().zip(standing.notes());
    let row = |((name, figure), note): ((&str, Option<f64>), Option<Cow<'_, str>>)| {
        let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
        format!("| {name} | {}{note} |", shown(figure))
    };
    let rows: Vec<_> = rows.map(row).collect();
    format!("| | |\n| --- | --- |\n{}", rows.join("\n"))
}

/// Returns what a word that names an algorithm means.
fn of_word(document: &Document, path: &[Step], part: Part) -> Option<String> {
    let key = path.last()?.key().filter(|_| part == Part::Value)?;
    let word = document.value(path)?.as_str()?;
    let row = schema::meaning(key, word)?;
    Some(format!("{key} `{word}`: {}\n\nSource: {}", row.summary, row.sources.join(", ")))
}

fn of_key(document: &Document, path: &[Step], schemas: &Schemas) -> Option<String> {
    let keys = path.iter().rposition(|step| step.key().is_some())?;
    let name = path[keys].key()?;
    let key = schemas.keys(document, &path[..keys]).remove(name)?;
    let text = schemas.describe(&key);
    let required = if key.required { "\n\nIt must be written." } else { "" };
    let sources = sources(document, &path[..=keys]);
    let source = if sources.is_empty() { "" } else { "\n\nSource: " };
    Some(format!("`{name}`: {text}{required}{source}{}", sources.join(", ")))
}

/// Returns the sources of the algorithm whose parameter a key is.
fn sources(document: &Document, path: &[Step]) -> &'static [&'static str] {
    let Some((name, table)) = path.split_last() else { return &[] };
    let word = |table: &[Step], key: &str, default: &'static str| {
        let path = [table, &[Step::Key(key.to_owned())]].concat();
        let written = document.value(&path).and_then(|value| value.as_str());
        written.map_or(default.to_owned(), str::to_owned)
    };
    let has = |rows: &[Parameter]| rows.iter().any(|row| name.is(row.name));
    let of_queue = table.last().is_some_and(|step| step.is("queue"));
    let of_meter = table.last().is_some_and(|step| step.is("police"));
    if of_queue {
        let word = word(table, "dropper", DROPPERS[0].keyword);
        let row = DROPPERS.iter().find(|row| row.keyword == word && has(row.parameters));
        return row.map_or(&[], |row| row.sources);
    }
    if of_meter {
        let word = word(table, "meter", METERS[0].keyword);
        let row = METERS.iter().find(|row| row.keyword == word && has(row.parameters));
        return row.map_or(&[], |row| row.sources);
    }
    let top = table.iter().position(|step| step.is("class") || step.is("link"));
    let link = top.map(|top| [&table[..top], &[Step::Key("link".to_owned())]].concat());
    let entry = link.and_then(|link| sched::find(&word(&link, "scheduler", "")));
    entry
        .map(|entry| entry.descriptor)
        .filter(|row| has(row.parameters))
        .map_or(&[], |row| row.sources)
}
