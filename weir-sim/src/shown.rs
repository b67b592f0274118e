//! How reports show figures: units in JSON, and tables for people.

use comfy_table::{CellAlignment, Table, TableComponent, presets};
use serde::Serializer;
use std::fmt;
use weir_core::units::{Duration, Rate};

/// A time in seconds.
pub(crate) fn seconds<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_nanos() as f64 / 1e9)
}

/// A time in µs.
pub(crate) fn micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_nanos() as f64 / 1e3)
}

/// A rate in bit/s.
pub(crate) fn bits_per_second<S: Serializer>(
    rate: &Rate,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(rate.bits_per_second())
}

/// Returns an empty text table.
pub fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(head.iter().copied());
    // No line between rows.
    table.remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections);
    table
}

/// Returns a text table; all columns but the first are numbers.
pub fn number_table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> impl fmt::Display {
    let mut table = table(head);
    table.add_rows(rows);
    align(table, &[0])
}

/// Aligns all columns but `words` to the right.
pub fn align(mut table: Table, words: &[usize]) -> Table {
    for (index, column) in table.column_iter_mut().enumerate() {
        if !words.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
