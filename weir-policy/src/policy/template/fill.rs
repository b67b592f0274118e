//! The values of a template: parsed once, then filled in for each row.
//!
//! In a text `{column}` stands for the cell of the row, and `{column.key}` for the value of `key`
//! in the plan that the cell names. A text that is one placeholder takes over the type of the
//! value. In an array, a text with one placeholder is repeated for each part of the cell, and is
//! left out if the cell is empty; anywhere else an empty cell is a finding.

use super::Plans;
use super::list::{Cell, List, Row, scalar};
use crate::codes;
use crate::finding::{Draft, Origin, Report, Span};
use crate::reader::{list, suggest};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

/// A value of a template.
pub(super) enum Value<'a> {
    /// A value without placeholders, which each row has.
    Literal(&'a DeValue<'a>, Span),
    Text(Text<'a>),
    Array(Vec<Value<'a>>, Span),
    Table(Vec<(&'a str, Span, Value<'a>)>, Span),
}

/// A text with placeholders.
pub(super) struct Text<'a> {
    pieces: Vec<Piece<'a>>,
    span: Span,
    /// It becomes the name of a class, so other characters become `-`.
    is_name: bool,
}

#[derive(Clone, Copy)]
enum Piece<'a> {
    Text(&'a str),
    Column(usize),
    Plan { column: usize, key: &'a str },
}

/// The context in which a template is parsed.
pub(super) struct Parsing<'a, 'r> {
    pub columns: &'r [Cow<'r, str>],
    /// Gets the keys of plans that placeholders name.
    pub plan_keys: &'r mut Vec<&'a str>,
    pub report: &'r mut Report,
}

/// The values with which a row fills a template.
pub(super) struct Filling<'f, 'l> {
    pub list: &'f List<'l>,
    pub plans: &'f Plans<'l>,
    /// Bytes that may still be written.
    pub room: &'f mut usize,
    /// Gets the filled values of addresses: key, text, place.
    pub addresses: Vec<(&'static str, String, Span)>,
    pub report: &'f mut Report,
}

impl<'a> Parsing<'a, '_> {
    /// Parses the value under `key`.
    pub fn value(&mut self, value: &'a DeValue<'a>, span: Span, key: &str) -> Value<'a> {
        match value {
            DeValue::String(text) if text.contains(['{', '}']) => {
                Value::Text(self.text(text, span, key == "parent"))
            }
            DeValue::Array(values) if has_placeholder(value) => {
                let element = |one: &'a Spanned<DeValue<'a>>| {
                    self.value(one.get_ref(), one.span().into(), "")
                };
                Value::Array(values.iter().map(element).collect(), span)
            }
            DeValue::Table(table) if has_placeholder(value) => {
                let entry = |(key, one): (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)| {
                    let value = self.value(one.get_ref(), one.span().into(), key.get_ref());
                    (key.get_ref().as_ref(), key.span().into(), value)
                };
                Value::Table(table.iter().map(entry).collect(), span)
            }
            value => Value::Literal(value, span),
        }
    }

    /// Parses a text; with `is_name` it is filled as the name of a class.
    pub fn text(&mut self, text: &'a str, span: Span, is_name: bool) -> Text<'a> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            let inside = rest[open..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
            let Some((name, behind)) = inside.filter(|(name, _)| !name.contains('{')) else {
                let message = format!("`{text}` has a brace without its partner");
                let cure = "write placeholders like `{name}`";
                self.report.push(Draft::new(&codes::BAD_VALUE, span, message).cure(cure));
                break;
            };
            pieces.extend((open > 0).then(|| Piece::Text(&rest[..open])));
            pieces.extend(self.placeholder(name.trim(), span));
            rest = behind;
        }
        pieces.extend((!rest.is_empty()).then_some(Piece::Text(rest)));
        Text { pieces, span, is_name }
    }

    fn placeholder(&mut self, name: &'a str, span: Span) -> Option<Piece<'a>> {
        let column = |name: &str| self.columns.iter().position(|column| column == name);
        if let Some(column) = column(name).filter(|_| !name.is_empty()) {
            return Some(Piece::Column(column));
        }
        let plan = name.rsplit_once('.').and_then(|(name, key)| Some((column(name)?, key)));
        if let Some((column, key)) = plan {
            self.plan_keys.push(key);
            return Some(Piece::Plan { column, key });
        }
        let columns: Vec<&str> = self.columns.iter().map(AsRef::as_ref).collect();
        self.report.push_error(|| {
            let message = format!("the list has no column `{name}`; it has {}", list(&columns));
            Draft::new(&codes::UNKNOWN_COLUMN, span, message).cure(suggest(name, &columns))
        });
        None
    }
}

fn has_placeholder(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(text) => text.contains(['{', '}']),
        DeValue::Array(values) => values.iter().any(|one| has_placeholder(one.get_ref())),
        DeValue::Table(table) => table.values().any(|one| has_placeholder(one.get_ref())),
        _ => false,
    }
}

impl<'a> Value<'a> {
    /// Returns the value for a row, under the key `key`.
    pub fn fill<'l>(
        &self,
        row: &Row<'l>,
        key: &str,
        filling: &mut Filling<'_, 'l>,
    ) -> Option<Spanned<DeValue<'l>>>
    where
        'a: 'l,
    {
        match self {
            Value::Literal(value, span) => Some(filling.literal(value, *span, row)),
            Value::Text(text) => {
                let (value, span) = text.value(row, filling)?;
                filling.note_address(key, &value, span);
                Some(spanned(value, span))
            }
            Value::Array(values, span) => array(values, *span, (row, key), filling),
            Value::Table(entries, span) => {
                let mut table = DeTable::with_capacity(entries.len());
                for (name, name_span, value) in entries {
                    let name_span = filling.derive(row.span, *name_span, true);
                    let value = value.fill(row, name, filling)?;
                    table.insert(spanned(DeString::from(*name), name_span), value);
                }
                let span = filling.derive(row.span, *span, false);
                Some(spanned(DeValue::Table(table), span))
            }
        }
    }
}

/// Fills an array: a text with one placeholder is repeated for each part of its cell.
fn array<'a: 'l, 'l>(
    values: &[Value<'a>],
    span: Span,
    (row, key): (&Row<'l>, &str),
    filling: &mut Filling<'_, 'l>,
) -> Option<Spanned<DeValue<'l>>> {
    let mut array = DeArray::new();
    for value in values {
        let one = match value {
            Value::Text(text) => text.only_column().map(|column| (text, column)),
            _ => None,
        };
        let Some((text, column)) = one else {
            array.push(value.fill(row, key, filling)?);
            continue;
        };
        let cell = &row.cells[column];
        let span = filling.derive(cell.span, text.span, false);
        for part in cell.text.split(PART_ENDS).filter(|part| !part.is_empty()) {
            let value = DeValue::String(Cow::Owned(text.join(part, filling)?));
            filling.note_address(key, &value, span);
            array.push(spanned(value, span));
        }
    }
    let span = filling.derive(row.span, span, false);
    if array.is_empty() {
        let message = format!("the row has no value for `{key}`: its cells are empty");
        let cure = "fill in one of the cells, or remove the row";
        filling.report.push(Draft::new(&codes::EMPTY_CELL, span, message).cure(cure));
        return None;
    }
    Some(spanned(DeValue::Array(array), span))
}

impl<'a> Text<'a> {
    /// Returns the text for a row and its place: the cell of its first placeholder, or the row.
    pub fn fill(&self, row: &Row<'_>, filling: &mut Filling<'_, '_>) -> Option<(String, Span)> {
        let mut text = String::new();
        let mut first = None;
        for &piece in &self.pieces {
            let filled = match piece {
                Piece::Text(piece) => Cow::Borrowed(piece),
                Piece::Column(column) => Cow::Borrowed(self.cell(row, column, filling)?),
                Piece::Plan { column, key } => {
                    let value = self.planned(row, (column, key), filling)?;
                    Cow::Owned(scalar(value).unwrap_or_default())
                }
            };
            if let Piece::Column(column) | Piece::Plan { column, .. } = piece {
                first = first.or(Some(row.cells[column].span));
            }
            *filling.room = filling.room.saturating_sub(filled.len());
            match piece {
                Piece::Column(_) if self.is_name => text.push_str(&as_name(&filled)),
                _ => text.push_str(&filled),
            }
        }
        Some((text, filling.derive(first.unwrap_or(row.span), self.span, false)))
    }

    /// As [`Text::fill`]; one placeholder alone takes over the type of its value.
    fn value<'l>(
        &self,
        row: &Row<'l>,
        filling: &mut Filling<'_, 'l>,
    ) -> Option<(DeValue<'l>, Span)> {
        let typed = match self.pieces.as_slice() {
            _ if self.is_name => None,
            [Piece::Column(column)] => {
                self.cell(row, *column, filling)?;
                typed(&row.cells[*column]).map(|value| (value, *column))
            }
            [Piece::Plan { column, key }] => {
                let value = self.planned(row, (*column, key), filling)?.clone();
                Some((value, *column))
            }
            _ => None,
        };
        if let Some((value, column)) = typed {
            return Some((value, filling.derive(row.cells[column].span, self.span, false)));
        }
        let (text, span) = self.fill(row, filling)?;
        Some((DeValue::String(Cow::Owned(text)), span))
    }

    /// Returns the column of its only placeholder, if it is one.
    fn only_column(&self) -> Option<usize> {
        let mut columns = self.pieces.iter().filter(|piece| !matches!(piece, Piece::Text(_)));
        match (columns.next(), columns.next()) {
            (Some(Piece::Column(column)), None) => Some(*column),
            _ => None,
        }
    }

    /// Returns the text with `part` in place of its only placeholder.
    fn join(&self, part: &str, filling: &mut Filling<'_, '_>) -> Option<String> {
        let piece = |piece: &Piece<'a>| match *piece {
            Piece::Text(text) => text.to_owned(),
            _ => part.to_owned(),
        };
        let text: String = self.pieces.iter().map(piece).collect();
        *filling.room = filling.room.saturating_sub(text.len());
        (*filling.room > 0).then_some(text)
    }

    /// Returns the text of a cell; reports an empty one.
    fn cell<'r>(
        &self,
        row: &'r Row<'_>,
        column: usize,
        filling: &mut Filling<'_, '_>,
    ) -> Option<&'r str> {
        let cell = &row.cells[column];
        if *filling.room == 0 {
            return None;
        }
        if cell.text.is_empty() {
            let name = &filling.list.columns[column];
            let message = format!("the row has no `{name}`, which the template needs");
            let span = filling.derive(cell.span, self.span, false);
            let draft = Draft::new(&codes::EMPTY_CELL, span, message).cure("fill in the cell");
            filling.report.push(draft);
            return None;
        }
        Some(&cell.text)
    }

    /// Returns a value of the plan that a cell names.
    fn planned<'l>(
        &self,
        row: &Row<'_>,
        (column, key): (usize, &str),
        filling: &mut Filling<'_, 'l>,
    ) -> Option<&'l DeValue<'l>> {
        let name = self.cell(row, column, filling)?;
        let span = filling.derive(row.cells[column].span, self.span, false);
        let Some(plan) = filling.plans.get(name) else {
            let known = filling.plans.names();
            let message = format!("the plan `{name}` is not declared; there are {}", list(&known));
            let cure =
                format!("declare `[plan.{name}]`, or name another: {}", suggest(name, &known));
            filling.report.push(Draft::new(&codes::UNKNOWN_PLAN, span, message).cure(cure));
            return None;
        };
        let value = plan.value(key);
        if value.is_none() {
            let message = format!("plan `{name}` has no `{key}`, which a template needs");
            let cure = format!("write `{key}`");
            let draft = Draft::new(&codes::MISSING_KEY, plan.span, message).cure(cure);
            filling.report.push_once(draft);
        }
        value
    }
}

impl<'l> Filling<'_, 'l> {
    fn derive(&mut self, row: Span, template: Span, literal: bool) -> Span {
        let list = self.list.number;
        self.report.derive(Origin { list, row, template, literal })
    }

    /// Copies a value without placeholders; its places are those of the template.
    fn literal(
        &mut self,
        value: &'l DeValue<'l>,
        span: Span,
        row: &Row<'_>,
    ) -> Spanned<DeValue<'l>> {
        let span = self.derive(row.span, span, true);
        let copied = match value {
            DeValue::Array(values) => {
                let mut array = DeArray::new();
                for one in values.iter() {
                    array.push(self.literal(one.get_ref(), one.span().into(), row));
                }
                DeValue::Array(array)
            }
            DeValue::Table(entries) => {
                let mut table = DeTable::with_capacity(entries.len());
                for (key, one) in entries {
                    let key_span = self.derive(row.span, key.span().into(), true);
                    let value = self.literal(one.get_ref(), one.span().into(), row);
                    table.insert(spanned(key.get_ref().clone(), key_span), value);
                }
                DeValue::Table(table)
            }
            value => value.clone(),
        };
        spanned(copied, span)
    }

    fn note_address(&mut self, key: &str, value: &DeValue<'_>, span: Span) {
        let key = ["src", "dst"].into_iter().find(|address| *address == key);
        if let (Some(key), DeValue::String(text)) = (key, value) {
            self.addresses.push((key, text.to_string(), span));
        }
    }
}

/// Returns a cell that is a number or a flag as what it is.
fn typed<'l>(cell: &Cell<'l>) -> Option<DeValue<'l>> {
    if let Some(value) = &cell.value {
        return Some((**value).clone());
    }
    let Cow::Borrowed(text) = cell.text else { return None };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
        && text.len() <= DIGITS_MAX;
    is_number.then(|| DeValue::parse(text).ok().map(Spanned::into_inner)).flatten()
}

/// Makes a cell a name of a class: what no name may hold becomes `-`, once for each run of it.
pub(super) fn as_name(text: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let parts = text.split(|c| !fits(c)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

fn spanned<T>(value: T, span: Span) -> Spanned<T> {
    Spanned::new(span.start..span.end, value)
}

/// The characters that separate parts of a cell.
const PART_ENDS: [char; 4] = [',', ';', ' ', '\t'];
/// Every number of so many digits fits TOML's.
const DIGITS_MAX: usize = 18;
