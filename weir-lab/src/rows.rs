//! The options of Weir's own experiments, and the rows of their results.
//!
//! An experiment is a set of measurements, each of which gives rows; [`Rows`] runs those that were
//! asked for.

use serde::Serialize;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;
use weir_show::Plot;

/// Which parts of an experiment to run, and for how long.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The length of one measurement; experiments in virtual time ignore it.
    pub duration: Duration,
    /// Only rows whose subject contains this.
    pub only: Option<String>,
    /// A scenario to run, for experiments that take one from a file.
    pub file: Option<PathBuf>,
    /// Where live records are written, for experiments that keep them.
    pub keep: Option<PathBuf>,
    /// Where such records are, which then are taken instead of live ones.
    pub from: Option<PathBuf>,
}

/// One measured figure beside its claim.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The measured quantity, in words.
    pub subject: String,
    /// The figure, with its unit.
    pub measured: String,
    /// The expected figure, with its unit; empty if there is no claim.
    pub expected: String,
    /// The deviation in percent, or the ratio in question.
    pub deviation: f64,
    /// The limit of the deviation; infinite without a claim.
    pub limit: f64,
    /// Whether the claim holds.
    pub holds: bool,
}

/// The results of an experiment.
#[derive(Default)]
pub struct Results {
    /// The rows, in the order of measurement.
    pub rows: Vec<Row>,
    /// Pictures of the rows; most experiments have none.
    pub plots: Vec<Plot>,
    /// Notes below the plots, a sentence each.
    pub notes: Vec<String>,
}

/// Collects what an experiment finds, and passes each row on at once.
pub struct Rows<'a> {
    /// The rows and plots that are requested.
    pub options: &'a Options,
    /// All results so far.
    pub results: Results,
    progress: &'a mut dyn FnMut(&Row),
}

impl<'a> Rows<'a> {
    /// Starts without rows; `progress` gets each one as it comes.
    pub fn new(options: &'a Options, progress: &'a mut dyn FnMut(&Row)) -> Self {
        Self { options, results: Results::default(), progress }
    }

    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        (self.progress)(&row);
        self.results.rows.push(row);
    }

    /// Adds rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        rows.into_iter().for_each(|row| self.add(row));
    }

    /// Adds the rows that `measure` makes of a subject, if it is asked for.
    ///
    /// # Errors
    /// As `measure`; the text begins with the subject.
    pub fn measure<T: IntoIterator<Item = Row>, E: Display>(
        &mut self,
        subject: &str,
        measure: impl FnOnce(&Options) -> Result<T, E>,
    ) -> Result<(), String> {
        if self.options.wants(subject) {
            self.extend(measure(self.options).map_err(|why| format!("{subject}: {why}"))?);
        }
        Ok(())
    }
}

impl Options {
    /// Returns whether this subject was requested.
    pub fn wants(&self, subject: &str) -> bool {
        self.only.as_ref().is_none_or(|only| subject.contains(only.as_str()))
    }
}

impl Row {
    /// A rate in bit/s beside the expected one; may differ by `limit` percent.
    pub fn rate(subject: String, measured: f64, expected: f64, limit: f64) -> Self {
        let deviation = (measured / expected - 1.0) * 100.0;
        Self {
            subject,
            measured: format!("{:.4} Mbit/s", measured / 1e6),
            expected: format!("{:.4} Mbit/s", expected / 1e6),
            deviation,
            limit,
            holds: deviation.abs() <= limit,
        }
    }

    /// A figure without a claim.
    pub fn shown(subject: String, measured: String) -> Self {
        let (deviation, limit) = (0.0, 0.0);
        Self { subject, measured, expected: String::new(), deviation, limit, holds: true }
    }

    /// The measured and the expected value as texts, and the deviation: at most `limit`.
    pub fn off(subject: String, texts: (String, String), deviation: f64, limit: f64) -> Self {
        let (measured, expected) = texts;
        Self { subject, measured, expected, deviation, limit, holds: deviation <= limit }
    }

    /// A figure that may be at most `limit`.
    pub fn at_most(subject: String, measured: f64, limit: f64, unit: &str) -> Self {
        Self {
            subject,
            measured: format!("{measured:.1} {unit}"),
            expected: format!("<= {limit} {unit}"),
            deviation: measured,
            limit,
            holds: measured <= limit,
        }
    }

    /// A figure that must be at least `minimum`.
    pub fn at_least(subject: String, measured: f64, minimum: f64, unit: &str) -> Self {
        Self {
            subject,
            measured: format!("{measured:.0} {unit}"),
            expected: format!(">= {minimum} {unit}"),
            deviation: measured,
            limit: minimum,
            holds: measured >= minimum,
        }
    }

    /// A ratio that must be at least `minimum`.
    pub fn ratio(subject: String, measured: f64, minimum: f64) -> Self {
        Self {
            subject,
            measured: format!("{measured:.2} x"),
            expected: format!(">= {minimum} x"),
            deviation: measured,
            limit: minimum,
            holds: measured >= minimum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_measured_and_told_at_once() {
        let only = Some("30 Mbit".to_owned());
        let options = Options { only, ..Options::default() };
        let mut told = Vec::new();
        let mut progress = |row: &Row| told.push(row.subject.clone());
        let mut rows = Rows::new(&options, &mut progress);
        let row = |subject: &str| Row::ratio(format!("{subject}: x"), 1.0, 0.5);
        for subject in ["30 Mbit/s", "100 Mbit/s", "30 Mbit/s, loaded"] {
            rows.measure(subject, |_| Ok::<_, String>([row(subject)])).expect("it is measured");
        }
        let why = rows.measure("30 Mbit/s, late", |_| Err::<[Row; 1], _>("the loop hangs"));
        assert_eq!(why.err().as_deref(), Some("30 Mbit/s, late: the loop hangs"));
        assert_eq!(rows.results.rows.len(), 2);
        assert_eq!(told, ["30 Mbit/s: x", "30 Mbit/s, loaded: x"]);
    }
}
