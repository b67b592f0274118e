//! The results at each point: means with their intervals, and by how much a point differs from the
//! first.
//!
//! Points have the same seeds, so they are compared run by run: the interval of a difference is
//! that of the differences, which is narrower where both follow the same luck.

use crate::metric::Metric;
use crate::sweep::{Done, Sweep};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use weir_policy::table::Table;
use weir_sim::replicate::{ALIKE, Estimate};

/// A sweep in short.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The keys that vary.
    pub keys: Vec<String>,
    /// The names of the metrics.
    pub metrics: Vec<String>,
    /// Each point, in the order of the design.
    pub points: Vec<Point>,
}

/// The results at one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Its values, in the order of the keys.
    pub values: Vec<Value>,
    /// The runs that were measured.
    pub runs: usize,
    /// Why there are fewer than asked for.
    pub error: Option<String>,
    /// Each metric, in its order; `None` where nothing was measured.
    pub results: Vec<Option<Result>>,
}

/// A metric at a point.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Result {
    /// The mean over the replications.
    pub mean: f64,
    /// The true mean is within this of it with a probability of 95 % (Student's t).
    pub within: Option<f64>,
    /// By how much it exceeds the first point, run by run.
    pub to_first: Option<f64>,
    /// The interval of that.
    pub to_first_within: Option<f64>,
}

impl Summary {
    /// Returns that of the finished runs, by number.
    pub fn of(sweep: &Sweep, done: &BTreeMap<usize, Done>) -> Self {
        let spec = sweep.spec();
        let each = spec.replications as usize;
        let rows = |point: usize| {
            (point * each..(point + 1) * each).map(|run| done.get(&run)).collect::<Vec<_>>()
        };
        let first = if sweep.points().is_empty() { Vec::new() } else { rows(0) };
        let point = |(place, values): (usize, &Vec<Value>)| {
            let own = rows(place);
            let result = |metric: usize| Result::of(metric, &own, &first);
            let mut errors = own.iter().flatten().filter_map(|row| row.error.clone());
            let measured = own.iter().flatten().filter(|row| row.error.is_none());
            Point {
                values: values.clone(),
                runs: measured.count(),
                error: errors.next(),
                results: (0..spec.metrics.len()).map(result).collect(),
            }
        };
        Self {
            keys: spec.design.axes.iter().map(|axis| axis.key.clone()).collect(),
            metrics: spec.metrics.clone(),
            points: sweep.points().iter().enumerate().map(point).collect(),
        }
    }
}

impl Result {
    fn of(metric: usize, own: &[Option<&Done>], first: &[Option<&Done>]) -> Option<Self> {
        let value = |row: &Option<&Done>| row.and_then(|row| *row.values.get(metric)?);
        let values: Vec<f64> = own.iter().filter_map(value).collect();
        if values.is_empty() {
            return None;
        }
        let Estimate { mean, within } = Estimate::of(&values);
        let pairs = own.iter().zip(first);
        let differences: Vec<f64> =
            pairs.filter_map(|(own, first)| Some(value(own)? - value(first)?)).collect();
        let difference = (!differences.is_empty()).then(|| Estimate::of(&differences));
        Some(Self {
            mean,
            within,
            to_first: difference.map(|row| row.mean),
            to_first_within: difference.and_then(|row| row.within),
        })
    }
}

impl Summary {
    /// Returns the unit in which a metric is shown, and how many of them its own unit is.
    pub fn shown(&self, metric: usize) -> (&'static str, f64) {
        Metric::parse(&self.metrics[metric]).map_or(("", 1.0), |metric| metric.shown())
    }

    /// Returns whether the runs of a point never differ: nothing is random.
    pub fn alike(&self) -> bool {
        let results = self.points.iter().flat_map(|point| point.results.iter().flatten());
        let mut spread = results.filter_map(|result| result.within).peekable();
        spread.peek().is_some() && spread.all(|within| within == 0.0)
    }

    /// Returns the means of each point, below the keys that vary and the metrics with their units.
    pub fn table(&self) -> Table {
        // The first point differs from itself by nothing.
        let compares = self.points.len() > 1;
        let of = |metric: usize| {
            let name = format!("{} {}", self.metrics[metric], self.shown(metric).0);
            std::iter::once(name).chain(compares.then(|| "to first".to_owned()))
        };
        let (metrics, alike) = (0..self.metrics.len(), self.alike());
        let heads = self.keys.iter().cloned().chain(metrics.flat_map(of));
        let mut table = Table::new(heads).identified_by(self.keys.len());
        for point in &self.points {
            let word =
                |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let result = |(metric, result): (usize, &Option<Result>)| {
                let scale = self.shown(metric).1;
                let shown = |value: f64| figure(value * scale);
                let within = |text: String, within: Option<f64>| {
                    let within = within.filter(|_| !alike);
                    within.map_or(text.clone(), |within| format!("{text} ± {}", shown(within)))
                };
                let mean = result.map_or_else(missing, |row| within(shown(row.mean), row.within));
                let to_first = result.and_then(|row| Some((row.to_first?, row.to_first_within)));
                let to_first = to_first.map_or_else(missing, |(difference, of)| {
                    within(format!("{}{}", sign(difference), shown(difference)), of)
                });
                std::iter::once(mean).chain(compares.then_some(to_first))
            };
            let values = point.values.iter().map(word);
            table.row(values.chain(point.results.iter().enumerate().flat_map(result)));
        }
        table
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table())?;
        if self.alike() {
            write!(f, "\n{ALIKE}")?;
        }
        for point in self.points.iter().filter(|point| point.error.is_some()).take(ERRORS_SHOWN) {
            let values: Vec<String> = point.values.iter().map(Value::to_string).collect();
            let why = point.error.as_deref().unwrap_or_default();
            write!(f, "\nnothing at {}: {why}", values.join(", "))?;
        }
        Ok(())
    }
}

fn missing() -> String {
    "-".to_owned()
}

/// Negative figures have a sign of their own.
fn sign(difference: f64) -> &'static str {
    if difference < 0.0 { "" } else { "+" }
}

/// Formats a figure with about five digits.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 1e4 => 0,
        large if large >= 1.0 => 3,
        _ => 6,
    };
    format!("{value:.digits$}")
}

/// In text; JSON has all.
const ERRORS_SHOWN: usize = 5;
