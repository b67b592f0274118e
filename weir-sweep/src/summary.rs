//! The results at each point: means with their intervals, and by how much a point differs from the
//! first.
//!
//! Points have the same seeds, so they are compared run by run: the interval of a difference is
//! that of the differences, which is narrower where both follow the same luck.

use crate::sweep::{Done, Sweep};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use weir_policy::table::number_table;
use weir_sim::replicate::Estimate;

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

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first point differs from itself by nothing.
        let compares = self.points.len() > 1;
        let of = |metric: &String| {
            let to_first = compares.then(|| "to first".to_owned());
            std::iter::once(metric.clone()).chain(to_first)
        };
        let heads: Vec<String> =
            self.keys.iter().cloned().chain(self.metrics.iter().flat_map(of)).collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let rows = self.points.iter().map(|point| {
            let word =
                |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let result = |result: &Option<Result>| {
                let mean = result.map_or_else(missing, |row| within(figure(row.mean), row.within));
                let to_first = result.and_then(|row| Some((row.to_first?, row.to_first_within)));
                let to_first = to_first.map_or_else(missing, |(difference, of)| {
                    within(format!("{}{}", sign(difference), figure(difference)), of)
                });
                std::iter::once(mean).chain(compares.then_some(to_first))
            };
            let values = point.values.iter().map(word);
            values.chain(point.results.iter().flat_map(result)).collect::<Vec<_>>()
        });
        write!(f, "{}", number_table(&heads, rows))?;
        for point in self.points.iter().filter(|point| point.error.is_some()).take(ERRORS_SHOWN) {
            let values: Vec<String> = point.values.iter().map(Value::to_string).collect();
            let why = point.error.as_deref().unwrap_or_default();
            write!(f, "\nnothing at {}: {why}", values.join(", "))?;
        }
        Ok(())
    }
}

/// Formats a figure with the interval that it is in, if that is known.
fn within(figure_of: String, within: Option<f64>) -> String {
    within.map_or(figure_of.clone(), |within| format!("{figure_of} ± {}", figure(within)))
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
