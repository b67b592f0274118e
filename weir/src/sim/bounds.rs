//! Compares a run with the bounds of its policy: prints a table beside the report, and a warning if
//! a bound is broken, which is a bug.

use crate::output::{Exit, Format, Output};
use weir_policy::table::{Table, millis, shown};
use weir_sim::keeping::{Held, Holding};

/// Prints the comparison; returns the exit code. With JSON only broken bounds are printed, since
/// the report is a document of its own.
pub fn print(holding: &Holding, output: &Output) -> Exit {
    if output.format == Format::Text {
        match &holding.void {
            None => output.table(&table(&holding.leaves)),
            Some(why) => output.text(&format!("bounds: nothing follows from this run, {why}\n")),
        }
    }
    let broken = holding.broken();
    for bound in &broken {
        output.warn(&format!("a bound is broken, which is a bug of Weir: {bound}"));
    }
    if broken.is_empty() { Exit::Clean } else { Exit::Faults }
}

fn table(leaves: &[Held]) -> Table {
    let head = ["class", "worst delay ms", "bound ms", "worst backlog B", "bound B"];
    let mut table = Table::new(head);
    for leaf in leaves {
        let (delay, backlog) = (leaf.delay, leaf.backlog as f64);
        let bound = |seconds: f64| millis(seconds * 1e6);
        table.row([
            leaf.class.clone(),
            millis(delay * 1e6),
            leaf.delay_bound.map_or("-".to_owned(), bound),
            shown(Some(backlog)),
            shown(leaf.backlog_bound),
        ]);
        if leaf.delay_bound.is_some_and(|bound| delay > bound) {
            table.mark(1);
        }
        if leaf.backlog_bound.is_some_and(|bound| backlog > bound) {
            table.mark(3);
        }
    }
    table
}
