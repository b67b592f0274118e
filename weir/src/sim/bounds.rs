//! Compares a run with the bounds of its policy: prints a table beside the report, and a warning if
//! a bound is broken, which is a bug.

use crate::check;
use crate::output::{Exit, Format, Output};
use comfy_table::{CellAlignment, Table, presets};
use weir_sim::keeping::{Held, Holding};

/// Prints the comparison; returns the exit code. With JSON only broken bounds are printed, since
/// the report is a document of its own.
pub fn print(holding: &Holding, output: &Output) -> Exit {
    if output.format == Format::Text {
        output.text(&match &holding.void {
            None => format!("{}\n", table(&holding.leaves)),
            Some(why) => format!("bounds: nothing follows from this run, {why}\n"),
        });
    }
    let broken = holding.broken();
    for bound in &broken {
        output.warn(&format!("a bound is broken, which is a bug of Weir: {bound}"));
    }
    if broken.is_empty() { Exit::Clean } else { Exit::Faults }
}

fn table(leaves: &[Held]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["class", "worst delay us", "bound us", "worst backlog B", "bound B"]);
    for leaf in leaves {
        let micros = |seconds: f64| seconds * 1e6;
        table.add_row([
            leaf.class.clone(),
            check::shown(Some(micros(leaf.delay))),
            check::shown(leaf.delay_bound.map(micros)),
            check::shown(Some(leaf.backlog as f64)),
            check::shown(leaf.backlog_bound),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
