//! Weir's own experiments: prints rows as they are measured.

use crate::output::{Exit, Format, Output};
use weir_lab::experiments::Own;
use weir_lab::rows::{Options, Row};

/// Runs an experiment; exits 1 if a claim does not hold.
pub fn run(output: &Output, experiment: Own, options: &Options) -> Exit {
    let mut print = |row: &Row| {
        if output.format == Format::Text {
            output.text(&line(row));
        }
    };
    let rows = match (experiment.run)(options, &mut print) {
        Ok(rows) => rows,
        Err(error) => return output.refuse(&error),
    };
    if rows.is_empty() {
        return output.refuse("no row matches; `--only` must be part of a subject");
    }
    if output.format == Format::Json {
        output.json(&rows);
    }
    if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
}

fn line(row: &Row) -> String {
    if row.expected.is_empty() {
        return format!("{:<44} {}\n", row.subject, row.measured);
    }
    let verdict = match row.holds {
        _ if row.limit.is_infinite() => "for information",
        true => "holds",
        false => "FAILS",
    };
    let Row { subject, measured, expected, deviation, limit, .. } = row;
    format!(
        "{subject:<44} {measured:>16}, expected {expected:>16}: {deviation:>+9.4} (limit {limit})  \
         {verdict}\n"
    )
}
