//! Completion: the keys that a table may have, the words that a value may be, and units.

use crate::classes;
use crate::document::Document;
use crate::position::Encoding;
use crate::schema::{self, Schemas};
use crate::syntax::{self, Cursor, Part, Step};
use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, MarkupContent,
    MarkupKind, TextEdit,
};
use serde_json::Value;
use weir_core::units::Dimension;

/// Returns what may stand at a byte of the document.
pub fn completion(
    document: &Document,
    offset: usize,
    schemas: &Schemas,
    encoding: Encoding,
) -> Vec<CompletionItem> {
    let Some(before) = document.text().get(..offset) else { return Vec::new() };
    let Some(cursor) = syntax::cursor(before) else { return Vec::new() };
    let offers = match cursor.part {
        Part::Value => values(document, &cursor, schemas),
        _ => keys(document, &cursor, schemas),
    };
    // The closing quote that an editor adds is part of the word.
    let quote = before[cursor.start..].chars().next().filter(|first| matches!(first, '"' | '\''));
    let closes = quote.is_some_and(|quote| document.text()[offset..].starts_with(quote));
    let range = document.lines().range(cursor.start..offset + usize::from(closes), encoding);
    let item = |(place, offer): (usize, Offer)| CompletionItem {
        label: offer.label,
        kind: Some(offer.kind),
        detail: Some(offer.detail).filter(|text| !text.is_empty()),
        documentation: Some(offer.meaning).filter(|text| !text.is_empty()).map(markdown),
        sort_text: Some(format!("{place:04}")),
        filter_text: Some(offer.text.clone()),
        text_edit: Some(CompletionTextEdit::Edit(TextEdit { range, new_text: offer.text })),
        ..CompletionItem::default()
    };
    offers.into_iter().take(OFFERS_MAX).enumerate().map(item).collect()
}

/// Something that may be written.
struct Offer {
    label: String,
    text: String,
    kind: CompletionItemKind,
    detail: String,
    meaning: String,
}

fn keys(document: &Document, cursor: &Cursor, schemas: &Schemas) -> Vec<Offer> {
    let is_header = cursor.part == Part::Header;
    if syntax::is(&cursor.path, &["class"]) && is_header {
        return classes::declared(document).map(|name| plain(name, CLASS)).collect();
    }
    let written = |key: &str| {
        let table = document.value(&cursor.path);
        table.is_some_and(|table| table.get(key).is_some())
    };
    let word = &document.text()[cursor.start..];
    let is_word = |key: &str| word.starts_with(key);
    let all = schemas.keys(document, &cursor.path).into_iter();
    let mut all: Vec<_> = all
        .filter(|(_, key)| !is_header || key.schemas.iter().any(|schema| takes_header(schema)))
        .filter(|(name, _)| is_header || !written(name) || is_word(name))
        .collect();
    // Those that must be written come first.
    all.sort_by_key(|(_, key)| !key.required);
    let offer = |(name, key): (&str, schema::Key<'_>)| {
        let text = if is_header { name.to_owned() } else { format!("{name} = ") };
        let (detail, meaning) = (schemas.values(&key), schemas.describe(&key));
        Offer { label: name.to_owned(), text, kind: CompletionItemKind::PROPERTY, detail, meaning }
    };
    all.into_iter().map(offer).collect()
}

/// Returns whether a key may be a header: its value is a table or a list of tables, or of a form
/// that the schema leaves open.
fn takes_header(schema: &Value) -> bool {
    let kind = schema["type"].as_str();
    let forms = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array());
    let is_open = kind.is_none() && schema.get("enum").is_none() && schema.get("const").is_none();
    matches!(kind, Some("object"))
        || kind == Some("array") && takes_header(&schema["items"])
        || schema.as_bool() == Some(true)
        || schema.get("$ref").is_some()
        || is_open && forms.flatten().any(takes_header)
}

fn values(document: &Document, cursor: &Cursor, schemas: &Schemas) -> Vec<Offer> {
    let path = &cursor.path;
    let key = path.iter().rev().find_map(Step::key).unwrap_or_default();
    if classes::is_reference(path) {
        let names = classes::declared(document);
        return names.map(|name| plain(format!("\"{name}\""), CLASS)).collect();
    }
    let typed = &document.text()[cursor.start..];
    let mut offers: Vec<Offer> = Vec::new();
    for form in schemas.at(document, path) {
        let words = form["enum"].as_array().into_iter().flatten().chain(form.get("const"));
        for word in words {
            let meaning = word.as_str().and_then(|word| schema::meaning(key, word));
            let meaning = meaning.map_or(String::new(), |row| row.summary.to_owned());
            offers.push(Offer {
                meaning,
                ..plain(word.to_string(), CompletionItemKind::ENUM_MEMBER)
            });
        }
        if form["type"] == "boolean" {
            offers.extend(["true", "false"].map(|word| plain(word, CompletionItemKind::VALUE)));
        }
        for example in form["examples"].as_array().into_iter().flatten() {
            offers.extend(with_units(typed, example));
            offers.push(plain(example.to_string(), CompletionItemKind::VALUE));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    offers.retain(|offer| seen.insert(offer.text.clone()));
    offers
}

/// Returns the number that was typed, with each unit of the example's dimension.
fn with_units(typed: &str, example: &Value) -> Vec<Offer> {
    let digits = typed.trim_start_matches(['"', '\'']);
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let number = &digits[..end];
    let is_of = |dimension: &&Dimension| example.as_str() == Some(dimension.example());
    let dimension = DIMENSIONS.iter().find(is_of).filter(|_| !number.is_empty());
    let units = dimension.into_iter().flat_map(|dimension| dimension.units());
    units.map(|unit| plain(format!("\"{number} {unit}\""), CompletionItemKind::UNIT)).collect()
}

fn plain(text: impl Into<String>, kind: CompletionItemKind) -> Offer {
    let text = text.into();
    let label = text.trim_matches('"').to_owned();
    Offer { label, text, kind, detail: String::new(), meaning: String::new() }
}

fn markdown(value: String) -> Documentation {
    Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })
}

const CLASS: CompletionItemKind = CompletionItemKind::CLASS;
const DIMENSIONS: [Dimension; 5] =
    [Dimension::Rate, Dimension::Duration, Dimension::Bytes, Dimension::Packets, Dimension::Share];
/// Bound: names and words of one answer; further ones are left out.
const OFFERS_MAX: usize = 1000;
