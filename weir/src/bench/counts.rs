//! `weir bench --instructions` and `--profile`: counts under callgrind.

use super::{Bench, Exit, Output, Table};
use std::path::Path;
use weir_bench::bench::figure::Figure;
use weir_bench::bench::instructions::{self, Differences, Instructions};
use weir_bench::bench::profile;

impl Bench {
    pub(super) fn count(&self, output: &Output) -> Result<Exit, String> {
        // A file that cannot be read is refused before the counting, which takes a minute.
        let committed = self.compare.as_ref().map(|path| read(path)).transpose()?;
        let rows = self.workload().rows()? / self.workload().leaves.len();
        let table = Table::begin(output, rows, "instructions per packet");
        let counts = instructions::count(|keyword, count| {
            table.row(&format!("{keyword:<12} {count:>9.1}"));
        })?;
        self.write(&counts)?;
        let exit = table.end(&counts, &[]);
        let Some((path, committed)) = self.compare.as_ref().zip(committed) else { return Ok(exit) };
        Ok(tell(output, &instructions::compare(&counts, &committed), path))
    }

    pub(super) fn profile(&self, output: &Output) -> Result<Exit, String> {
        let [enqueue, dequeue, calls] = ["enqueue: instr.", "dequeue: instr.", "calls"];
        let titles =
            format!("per packet    classes  busy   {enqueue} {calls:>7}   {dequeue} {calls:>7}");
        let table = Table::begin(output, profile::rows(), &titles);
        let counts = profile::profile(|row| {
            let profile::Row { scheduler, leaves, active, enqueue, dequeue, .. } = row;
            table.row(&format!(
                "{scheduler:<12} {leaves:>8} {active:>5} {:>17.1} {:>7.1} {:>17.1} {:>7.1}",
                enqueue.instructions, enqueue.calls, dequeue.instructions, dequeue.calls
            ));
        })?;
        self.write(&counts)?;
        let figure = |row: profile::Growth| {
            let what = format!("{}: cost of a class among 100 to alone", row.scheduler);
            Figure::at_most(what, profile::GROWTH_MAX, row.ratio)
        };
        let figures: Vec<Figure> = counts.growth().into_iter().map(figure).collect();
        Ok(table.end(&counts, &figures))
    }

    /// Writes counts to the file of --write, if there is one.
    fn write(&self, counts: &impl serde::Serialize) -> Result<(), String> {
        let Some(path) = &self.write else { return Ok(()) };
        let text = serde_json::to_string_pretty(counts).expect("keys are text");
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

fn read(path: &Path) -> Result<Instructions, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| failed(&error))
}

/// Prints the differences; only a changed count is a fault.
fn tell(output: &Output, differences: &Differences, path: &Path) -> Exit {
    for difference in differences.changes.iter().chain(&differences.news) {
        output.warn(difference);
    }
    if !differences.news.is_empty() {
        let file = path.display();
        output.warn(&format!("to put that into {file}: weir bench --instructions --write {file}"));
    }
    if differences.changes.is_empty() { Exit::Clean } else { Exit::Faults }
}
