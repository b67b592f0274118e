//! The change that `weir explain` proposes, on staged faults: whether it keeps the promise when it
//! is applied, breaks no other, and how large it is beside the smallest that a search of every
//! value finds. Where no change exists, whether `explain` says so.
//!
//! `cases.toml` has a row for each fault. A row that names a change that keeps the promise is
//! staged right only if that change does.

mod oracle;
mod staged;

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use oracle::Grid;
use staged::{Case, cases};
use std::time::Duration;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "explain",
    summary: "the change that explain proposes on staged faults, beside the smallest there is",
    measure: None,
    own: Some(Own::simulated(run)),
};

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    let grid = if rows.options.duration < DENSE_FROM { Grid::Coarse } else { Grid::Dense };
    cases()?
        .iter()
        .try_for_each(|case| rows.measure(&case.name, |_| Ok::<_, String>([row(case, grid)])))
}

fn row(case: &Case, grid: Grid) -> Row {
    let name = &case.name;
    match case.compare(grid) {
        Ok(Some((best, ratio))) => {
            let subject = format!("{name}: {} {} to {}", best.setting, best.from, best.to);
            Row::at_most(subject, ratio, TIMES_MAX, "times the smallest")
        }
        Ok(None) => Row::shown(name.clone(), "no change exists, as it says".to_owned()),
        Err(error) => Row { holds: false, ..Row::shown(name.clone(), error) },
    }
}

/// With less time for a measurement, only sizes are tried that would show a fault.
const DENSE_FROM: Duration = Duration::from_secs(2);
/// How many times as large as the smallest change a proposed one may be.
const TIMES_MAX: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_explain_proposes_keeps_the_promise_and_is_small() {
        let cases = cases().expect("the rows are TOML");
        let with_change = cases.iter().filter(|case| case.known.is_some()).count();
        assert!(with_change >= 20, "{with_change} faults with a cure are fewer than 20");
        // One in twelve, others with each commit; `cargo xtask figures proposals` tries all.
        let seed = std::env::var("WEIR_SEED").unwrap_or_default();
        let first = u64::from_str_radix(&seed, 16).unwrap_or(0) as usize % 12;
        let rows = cases.iter().skip(first).step_by(12).map(|case| row(case, Grid::Coarse));
        let wrong: Vec<Row> = rows.filter(|row| !row.holds).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
