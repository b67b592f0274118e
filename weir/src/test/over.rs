//! The traces of `weir test --over`, each of which takes the place of the capacity behind a
//! scenario's link, and the worst of them for a promise.

use crate::input;
use std::fmt;
use std::path::{Path, PathBuf};
use weir_policy::policy::Promise;
use weir_sim::promise::Proof;
use weir_sweep::file::files_of;
use weir_trace::capacity::{self, Capacity, End};

/// A capacity over time, and the name of its file.
pub(super) struct Trace {
    pub name: String,
    pub capacity: Capacity,
}

/// A promise with the trace on which it came out worst.
#[derive(serde::Serialize)]
pub(super) struct Worst {
    that: String,
    trace: String,
    /// By which part of its goal it was kept, below zero where it was missed.
    spare: Option<f64>,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worst of {}: {}", self.that, self.trace)?;
        match self.spare {
            Some(spare) if spare < 0.0 => write!(f, ", missed by {:.0} % of it", -spare * 100.0),
            Some(spare) => write!(f, ", {:.0} % to spare", spare * 100.0),
            None => write!(f, ", nothing was measured"),
        }
    }
}

impl Worst {
    /// Returns the trace on which a promise has the least to spare, of rows that name theirs.
    pub fn of<'a>(
        promise: &Promise,
        rows: impl Iterator<Item = (&'a str, &'a Proof)>,
    ) -> Option<Worst> {
        let told = rows.map(|(trace, proof)| (trace, spare(promise, proof)));
        let by = |one: &(&str, Option<f64>)| one.1.unwrap_or(f64::NEG_INFINITY);
        let (trace, spare) = told.min_by(|one, other| by(one).total_cmp(&by(other)))?;
        Some(Worst { that: promise.that.clone(), trace: trace.to_owned(), spare })
    }
}

/// Returns by which part of its goal a promise was kept.
fn spare(promise: &Promise, proof: &Proof) -> Option<f64> {
    let (measured, goal) = proof.measured.zip(proof.goal)?;
    let less = if promise.promised.comparison.wants_less() { 1.0 } else { -1.0 };
    Some(less * (goal - measured) / goal.abs().max(f64::MIN_POSITIVE))
}

/// Reads files, and all of a folder in the order of their names.
pub(super) fn traces(paths: &[PathBuf]) -> Result<Vec<Trace>, String> {
    let mut all = Vec::new();
    for path in paths {
        let files = if path.is_dir() { files_of(path)? } else { vec![path.clone()] };
        for file in files {
            all.push(trace(&file)?);
        }
    }
    Ok(all)
}

fn trace(path: &Path) -> Result<Trace, String> {
    let shown = path.display();
    let bytes = input::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let capacity = capacity::parse(&bytes, End::Loop).map_err(|why| format!("{shown}: {why}"))?;
    let name =
        path.file_name().map_or_else(|| shown.to_string(), |name| name.display().to_string());
    Ok(Trace { name, capacity })
}
