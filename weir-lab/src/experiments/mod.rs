//! Experiments: each measures something and holds it against a claim. One file, one line here.

use serde::Serialize;
use std::time::Duration;

/// Measures, shows each row as it comes, and answers all.
pub type RunExperiment = fn(&Options, &mut dyn FnMut(&Row)) -> Result<Vec<Row>, String>;

/// What the registry knows of an experiment.
pub struct Experiment {
    /// The name after `weir lab run`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Whether it needs private networks, and so privileges.
    pub live: bool,
    /// Runs it.
    pub run: RunExperiment,
}

/// How long and which part.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of one measurement; experiments in virtual time ignore it.
    pub duration: Duration,
    /// Only rows whose subject contains this.
    pub only: Option<String>,
}

/// One measured figure beside its claim.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub subject: String,
    /// The figure, with its unit.
    pub measured: String,
    /// What it should be, with its unit.
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

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

macro_rules! experiments {
    ($($module:ident,)*) => {
        $(pub mod $module;)*

        /// Every experiment.
        pub const EXPERIMENTS: &[Experiment] = &[$($module::EXPERIMENT,)*];
    };
}

experiments! {
    shaping_live,
    sharing_live,
    htb_kernel,
    sharing_sim,
    packet_size,
    simulator_speed,
}
