//! What Weir's own experiments are asked for, and the rows in which they say what they measured.

use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// How long and which part.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of one measurement; experiments in virtual time ignore it.
    pub duration: Duration,
    /// Only rows whose subject contains this.
    pub only: Option<String>,
    /// A scenario to run, for experiments that take one from a file.
    pub file: Option<PathBuf>,
}

/// One measured figure beside its claim.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub subject: String,
    /// The figure, with its unit.
    pub measured: String,
    /// What it should be, with its unit; empty if it is only shown.
    pub expected: String,
    /// How far off it is: in percent, or the ratio that was asked for.
    pub deviation: f64,
    /// The limit of that; infinite where no claim is made.
    pub limit: f64,
    /// Whether the claim holds.
    pub holds: bool,
}

impl Options {
    /// Whether this subject was asked for.
    pub fn wants(&self, subject: &str) -> bool {
        self.only.as_ref().is_none_or(|only| subject.contains(only.as_str()))
    }
}

impl Row {
    /// A rate in bit/s beside the one expected; may differ by `limit` percent.
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

    /// A figure that nothing is claimed of.
    pub fn shown(subject: String, measured: String) -> Self {
        let (deviation, limit) = (0.0, 0.0);
        Self { subject, measured, expected: String::new(), deviation, limit, holds: true }
    }

    /// What was measured and expected, in words, and how far it is off: at most `limit`.
    pub fn off(subject: String, texts: (String, String), deviation: f64, limit: f64) -> Self {
        let (measured, expected) = texts;
        Self { subject, measured, expected, deviation, limit, holds: deviation <= limit }
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
