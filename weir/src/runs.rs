//! Many runs in the browser: `weir sweep --view` and `weir compare --view`.
//!
//! A run that is opened is simulated again, with its own seed, and recorded as by `weir sim
//! --record`; one that cannot be recorded is shown by its rates alone. Equal seeds make equal runs,
//! so the page shows the run of the table.

use crate::output::{Exit, Output};
use crate::sim::memory;
use crate::sim::record::{Recording, Written};
use crate::view::{Page, What};
use std::sync::Arc;
use weir_core::units::Duration;
use weir_gateway::json::{Metric, Point, Table};
use weir_gateway::record::Record;
use weir_gateway::report::Report;
use weir_gateway::runs::Runs;
use weir_gateway::source::Source;
use weir_host::signals::StopSignal;
use weir_sim::memory::Beside;
use weir_sim::replicate::Estimate;
use weir_sim::{Fate, Scenario, Watch, compare, run_watched};
use weir_sweep::{Summary, Sweep};

/// Serves the page of runs until a signal comes.
///
/// # Errors
/// When it cannot be served.
pub fn show(runs: Arc<dyn Runs>, page: Page, output: &Output) -> Result<Exit, String> {
    let stop = StopSignal::install().map_err(|error| error.to_string())?;
    page.serve(What::Runs(runs), (&stop, output), || Ok(()))
}

/// A finished sweep.
pub struct OfSweep {
    /// Its name.
    pub name: String,
    /// Its runs.
    pub sweep: Arc<Sweep>,
    /// The results of them.
    pub summary: Summary,
}

impl Runs for OfSweep {
    fn table(&self) -> Table {
        let summary = &self.summary;
        let each = self.sweep.spec().replications as usize;
        let units: Vec<_> = (0..summary.metrics.len()).map(|at| summary.shown(at)).collect();
        let metric = |(name, (unit, _)): (&String, &(&str, f64))| metric(name, unit);
        let point = |(at, point): (usize, &weir_sweep::summary::Point)| {
            let results = point.results.iter().zip(&units).map(|(result, (_, scale))| {
                let result = result.as_ref()?;
                Some((result.mean * scale, result.within.map(|within| within * scale)))
            });
            let word = |value: &serde_json::Value| {
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            };
            Point {
                values: point.values.iter().map(word).collect(),
                results: results.collect(),
                error: point.error.clone(),
                runs: if point.runs == 0 {
                    Vec::new()
                } else {
                    (at * each..(at + 1) * each).collect()
                },
            }
        };
        Table {
            name: self.name.clone(),
            keys: summary.keys.clone(),
            metrics: summary.metrics.iter().zip(&units).map(metric).collect(),
            points: summary.points.iter().take(POINTS_MAX).enumerate().map(point).collect(),
            left_out: summary.points.len().saturating_sub(POINTS_MAX),
        }
    }

    fn open(&self, run: usize) -> Result<Arc<dyn Source>, String> {
        if run >= self.sweep.runs() {
            return Err(format!("the sweep has {} runs", self.sweep.runs()));
        }
        let planned = self.sweep.planned(run)?;
        let name = format!("{}, run {run}", self.name);
        let read = |path: &std::path::Path| planned.read(path);
        let text = planned.text();
        let written = Written { text: &text, name: "".as_ref(), read: &read, scheduler: None };
        source(&name, planned.scenario(), written)
    }
}

/// A comparison of schedulers.
pub struct OfComparison {
    /// The results.
    pub comparison: compare::Comparison,
    /// The scenario, with its own scheduler.
    pub scenario: Scenario,
    /// The file of the scenario, and its text.
    pub written: (std::path::PathBuf, String),
}

impl Runs for OfComparison {
    fn table(&self) -> Table {
        let all = &self.comparison;
        let leaves = all.rows.iter().find_map(|row| Some(&row.result.as_ref()?.leaves));
        let leaves: Vec<&str> =
            leaves.into_iter().flatten().map(|leaf| leaf.name.as_str()).collect();
        let mut metrics: Vec<Metric> = WHOLE.map(|(name, unit)| metric(name, unit)).into();
        metrics.extend(
            leaves.iter().flat_map(|leaf| {
                OF_LEAF.map(|(name, unit)| metric(&format!("{leaf}.{name}"), unit))
            }),
        );
        let point = |(at, row): (usize, &compare::Row)| Point {
            values: vec![row.scheduler.to_owned()],
            results: results(row, metrics.len()),
            error: row.refused.clone(),
            runs: (at * all.replications..at * all.replications + row.runs).collect(),
        };
        let points = all.rows.iter().enumerate().map(point).collect();
        let keys = vec!["scheduler".to_owned()];
        Table { name: all.scenario.clone(), keys, points, metrics, left_out: 0 }
    }

    fn open(&self, run: usize) -> Result<Arc<dyn Source>, String> {
        let each = self.comparison.replications;
        let rows = &self.comparison.rows;
        let row = rows.get(run / each).ok_or("the comparison has no such run")?;
        let entry = compare::find(&[row.scheduler.to_owned()])?[0];
        let (mut scenario, _) = compare::adapt(&self.scenario, entry)?;
        scenario.seed = scenario.seed.wrapping_add((run % each) as u64);
        let name = format!("{}, {}, seed {}", scenario.name, row.scheduler, scenario.seed);
        let (path, text) = &self.written;
        let read = &weir_cli::input::read_named;
        let written = Written { text, name: path, read, scheduler: Some(entry.descriptor) };
        source(&name, &scenario, written)
    }
}

/// Simulates a run, and returns all of it; its rates alone if it cannot be recorded.
fn source(
    name: &str,
    scenario: &Scenario,
    written: Written<'_>,
) -> Result<Arc<dyn Source>, String> {
    let beside = Beside { bins: None, packets: true };
    memory::check(scenario, memory::Runs { threads: 1, count: 1, beside }, None)?;
    let failed = |error: weir_sim::RunError| error.to_string();
    let Ok(mut recording) = Recording::of(scenario, written) else {
        let bins = Some(Duration::from_nanos(scenario.duration.as_nanos().div_ceil(BINS)));
        let report = run_watched(scenario, Watch { bins, ..Watch::default() }, &mut |_| {});
        let text = report.map_err(failed)?.to_json();
        return Ok(Arc::new(Report::of_bytes(name, text.as_bytes())?));
    };
    let mut tell = |fate: &Fate<'_>| recording.add(fate);
    let watch = Watch { packets: Some(&mut tell), rest: true, ..Watch::default() };
    run_watched(scenario, watch, &mut |_| {}).map_err(failed)?;
    let (bytes, _) = recording.finish(Vec::new())?;
    Ok(Arc::new(Record::of_bytes(name, bytes)?))
}

/// Returns the figures of a scheduler in the order of the table's metrics.
fn results(row: &compare::Row, count: usize) -> Vec<Option<(f64, Option<f64>)>> {
    let Some(all) = &row.result else { return vec![None; count] };
    let figure = |of: &Estimate, scale: f64| {
        let mean = of.mean * scale;
        mean.is_finite().then(|| (mean, of.within.map(|within| within * scale)))
    };
    let mut results = vec![
        figure(&all.share_error, 100.0),
        figure(&all.fairness, 1.0),
        figure(&all.loss, 100.0),
        figure(&all.utilisation, 100.0),
        all.cost.map(|cost| (cost, None)),
    ];
    for leaf in &all.leaves {
        results.push(figure(&leaf.sent_bps, 1e-6));
        results.push(figure(&leaf.delay_p50_us, 1e-3));
        results.push(figure(&leaf.delay_p99_us, 1e-3));
    }
    results
}

fn metric(name: &str, unit: &str) -> Metric {
    let more = MORE.iter().any(|end| name.ends_with(end));
    Metric { name: name.to_owned(), unit: unit.to_owned(), more }
}

/// The figures of a scheduler, and of each leaf under it, as `results` has them.
const WHOLE: [(&str, &str); 5] = [
    ("share error", "%"),
    ("fairness", ""),
    ("loss", "%"),
    ("utilisation", "%"),
    ("cost", "times the plainest"),
];
const OF_LEAF: [(&str, &str); 3] = [("rate", "Mbit/s"), ("delay.p50", "ms"), ("delay.p99", "ms")];
/// The metrics of which more is better.
const MORE: [&str; 4] = ["rate", "goodput", "utilisation", "fairness"];
/// Bound: points of a sweep that the page lists; it says how many more there are.
const POINTS_MAX: usize = 2000;
/// The bins of a run that is shown by its rates alone.
const BINS: u64 = 300;
