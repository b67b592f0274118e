//! The measurements of an experiment: named figures and series for claims, plots and tables for
//! people.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use weir_show::{Plot, Setup};

/// All results of one run of an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Figures by name, used by claims.
    pub figures: BTreeMap<String, Figure>,
    /// Series by name, used by claims too.
    #[serde(deserialize_with = "series")]
    pub series: BTreeMap<String, Vec<f64>>,
    /// The plots of the report.
    pub plots: Vec<Plot>,
    /// The tables of the report.
    pub tables: Vec<Table>,
    /// The set-up, which the report draws.
    pub setup: Option<Setup>,
    /// Why figures whose names begin with a key were not measured here, such as a program that is
    /// not installed; claims about them cannot be tested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// A number with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The mean over all seeds.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
    /// The value of the lowest seed.
    #[serde(deserialize_with = "number")]
    pub low: f64,
    /// The value of the highest seed.
    #[serde(deserialize_with = "number")]
    pub high: f64,
    /// Such as `Mbit/s`; empty for ratios.
    pub unit: String,
}

/// A table of rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// The heading above the table.
    pub title: String,
    /// The headings of the columns.
    pub columns: Vec<String>,
    /// The cells, as printed.
    pub rows: Vec<Vec<String>>,
}

impl Measured {
    /// Adds a figure, replacing one of that name.
    pub fn figure(&mut self, name: impl Into<String>, value: f64, unit: &str) -> &mut Self {
        let figure = Figure { mean: value, low: value, high: value, unit: unit.to_owned() };
        self.figures.insert(name.into(), figure);
        self
    }

    /// Adds a series, replacing one of that name.
    pub fn series(&mut self, name: impl Into<String>, values: Vec<f64>) -> &mut Self {
        self.series.insert(name.into(), values);
        self
    }

    /// Adds a plot to the results.
    pub fn plot(&mut self, plot: Plot) -> &mut Self {
        self.plots.push(plot);
        self
    }

    /// Adds a table to the results.
    pub fn table(&mut self, title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> &mut Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        self.tables.push(Table { title: title.to_owned(), columns, rows });
        self
    }

    /// Returns why the figure of this name cannot be measured here, if it cannot.
    pub fn missing(&self, name: &str) -> Option<&str> {
        let mut missing = self.missing.iter();
        missing.find(|(key, _)| name.starts_with(key.as_str())).map(|(_, why)| why.as_str())
    }

    /// Returns the figure of this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.get(name).map(|figure| figure.mean)
    }

    /// Combines runs of several seeds: figures and series are means, the rest is the first seed's.
    pub(super) fn over_seeds(runs: Vec<Measured>) -> Option<Measured> {
        let count = runs.len() as f64;
        let mut runs = runs.into_iter();
        let mut all = runs.next()?;
        for run in runs {
            for (name, figure) in &run.figures {
                if let Some(sum) = all.figures.get_mut(name) {
                    sum.mean += figure.mean;
                    sum.low = sum.low.min(figure.low);
                    sum.high = sum.high.max(figure.high);
                }
            }
            for (name, values) in &run.series {
                if let Some(sums) = all.series.get_mut(name) {
                    // A second that only some seeds have is left out of the means.
                    sums.truncate(values.len());
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                }
            }
        }
        all.figures.values_mut().for_each(|figure| figure.mean /= count);
        all.series.values_mut().flatten().for_each(|value| *value /= count);
        Some(all)
    }
}

/// Reads a number; JSON has `null` for one that is not finite.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn series<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<f64>>, D::Error> {
    let all = BTreeMap::<String, Vec<Option<f64>>>::deserialize(from)?;
    let values = |values: Vec<Option<f64>>| {
        values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect()
    };
    Ok(all.into_iter().map(|(name, all)| (name, values(all))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_means_over_seeds() {
        let run = |value: f64, values: &[f64]| {
            let mut measured = Measured::default();
            measured.figure("x", value, "s").series("y", values.to_vec());
            measured
        };
        let all = Measured::over_seeds(vec![run(1.0, &[1.0, 2.0, 9.0]), run(4.0, &[3.0, 4.0])]);
        let all = all.expect("two runs");
        let expected = Figure { mean: 2.5, low: 1.0, high: 4.0, unit: "s".to_owned() };
        assert_eq!(all.figures["x"], expected);
        assert_eq!(all.series["y"], [2.0, 3.0]);
        assert!(Measured::over_seeds(Vec::new()).is_none());
    }
}
