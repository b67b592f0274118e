//! Bytes per class and bin of time, as the papers draw throughput.
//!
//! A packet counts with its charged bytes in the bin in which the link handed it out, for its class
//! and all above. Bins begin at the start of the run, warm-up included, so that the start can be
//! seen. Over changes of the link classes of one name are one row. Invariant: the bins of a class
//! sum to what it sent in the whole run.
//!
//! In a network each outlet has bins of its own.

use crate::scenario::Scenario;
use serde::Serialize;
use std::fmt;
use weir_core::event::Departure;
use weir_core::link::LinkPlan;
use weir_core::sched::Tree;
use weir_core::units::{Duration, Instant};
use weir_policy::table::Table;
use weir_trace::series::Rows;
use weir_trace::shown::seconds;

/// The bytes that each class sent in each bin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BinsReport {
    /// The width of a bin.
    #[serde(rename = "width_s", serialize_with = "seconds")]
    pub width: Duration,
    /// Every class, in the order in which they were first declared.
    pub classes: Vec<ClassBins>,
}

/// The bytes that one class sent in each bin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ClassBins {
    /// The name of the class.
    pub name: String,
    /// Charged bytes, bin after bin.
    pub bytes: Vec<u64>,
}

/// Bins that are being filled.
pub(crate) struct Bins {
    report: BinsReport,
    rows: Rows,
    count: usize,
}

impl Bins {
    /// Empty bins of each outlet; `None` if all of them would be more than [`BIN_CELLS_MAX`], or
    /// have no width.
    pub fn of(scenario: &Scenario, width: Duration) -> Option<Vec<Self>> {
        cells(scenario, width).filter(|&cells| cells <= BIN_CELLS_MAX)?;
        let count = scenario.duration.as_nanos().div_ceil(width.as_nanos()) as usize;
        let new = |plans: Vec<&LinkPlan>| {
            let report = BinsReport { width, classes: Vec::new() };
            let mut bins = Self { report, rows: Rows::default(), count };
            bins.change(&plans[0].tree);
            bins
        };
        Some(scenario.plans().into_iter().map(new).collect())
    }

    /// Changes the link's tree.
    pub fn change(&mut self, tree: &Tree) {
        let bins = |name: &String| ClassBins { name: name.clone(), bytes: vec![0; self.count] };
        self.report.classes.extend(self.rows.enter(tree).iter().map(bins));
    }

    pub fn add(&mut self, departure: &Departure) {
        let bin = departure.at.since(Instant::ZERO).as_nanos() / self.report.width.as_nanos();
        // What leaves at the very end is in the last bin.
        let bin = (bin as usize).min(self.count - 1);
        for &row in self.rows.of_leaf(departure.leaf) {
            self.report.classes[row].bytes[bin] += departure.charged.get();
        }
    }

    pub fn report(self) -> BinsReport {
        self.report
    }
}

/// Returns how many numbers the bins of a scenario hold; `None` without a width.
pub fn cells(scenario: &Scenario, width: Duration) -> Option<u64> {
    if width == Duration::ZERO {
        return None;
    }
    let bins = scenario.duration.as_nanos().div_ceil(width.as_nanos());
    let classes: u64 = scenario.plans().iter().map(|plans| classes(plans)).sum();
    Some(bins.saturating_mul(classes))
}

/// The classes of all plans of an outlet; those of one name count once.
fn classes(plans: &[&LinkPlan]) -> u64 {
    let classes = plans.iter().flat_map(|plan| plan.tree.classes());
    let mut names: Vec<&str> = classes.map(|(_, class)| class.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len() as u64
}

impl BinsReport {
    /// Lines of `start_s,class,bytes`, bin after bin.
    pub fn to_csv(&self) -> String {
        let mut text = "start_s,class,bytes\n".to_owned();
        self.lines("", &mut text);
        text
    }

    /// The lines, with `place` behind the start of each bin.
    pub(crate) fn lines(&self, place: &str, text: &mut String) {
        for bin in 0..self.len() {
            for class in &self.classes {
                let (start, name) = (self.start(bin), quoted(&class.name));
                *text += &format!("{start},{place}{name},{}\n", class.bytes[bin]);
            }
        }
    }

    /// Whether nothing was sent in any of them.
    pub fn is_empty(&self) -> bool {
        self.classes.iter().all(|class| class.bytes.iter().all(|&bytes| bytes == 0))
    }

    /// Returns the number of bins of each class.
    fn len(&self) -> usize {
        self.classes.first().map_or(0, |class| class.bytes.len())
    }

    /// Returns when a bin starts, in seconds, as exact as its width.
    fn start(&self, bin: usize) -> String {
        let nanos = u128::from(self.width.as_nanos()) * bin as u128;
        let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A field of a CSV file `[rfc4180 §2]`.
pub(crate) fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", name.replace('"', "\"\""));
    }
    name.to_owned()
}

impl fmt::Display for BinsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.classes.iter().map(|class| class.name.as_str());
        let mut rows = Table::new(std::iter::once("from s").chain(names));
        for bin in 0..self.len() {
            let bytes = self.classes.iter().map(|class| class.bytes[bin].to_string());
            rows.row(std::iter::once(self.start(bin)).chain(bytes));
        }
        write!(f, "bytes sent in bins of {}\n{}", self.width, rows)
    }
}

/// Bound: numbers that all bins of a run are; a run with more has no bins.
pub const BIN_CELLS_MAX: u64 = 1 << 22;
