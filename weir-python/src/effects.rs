//! The service that a policy gives its classes, the changes between two policies, and policies
//! written for another scheduler or read from another tool's file.

use crate::answer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use weir_core::units::Rate;
use weir_import::import::{self, Imported, LANGUAGES, Line, Options};
use weir_policy::diff::printed::{Figures, Printed};
use weir_policy::diff::{Difference, standings};
use weir_policy::finding::Severity;
use weir_policy::policy::{self, Policy};
use weir_policy::translate;
use weir_sim::compare::find;

/// A class with what it gets.
#[derive(Serialize)]
struct Bounded {
    class: String,
    #[serde(flatten)]
    figures: Figures,
}

/// A policy for another scheduler.
#[derive(Serialize)]
struct Converted<'a> {
    written_for: &'static str,
    scheduler: &'static str,
    notes: &'a [String],
    policy: &'a str,
    errors: usize,
    warnings: usize,
    findings: Vec<answer::Row<'a>>,
}

/// The policies of another tool's file.
#[derive(Serialize)]
struct Read<'a> {
    language: &'a str,
    policies: &'a [Imported],
    lines: &'a [Line],
    findings: Vec<answer::Row<'a>>,
}

/// Computes what each class of a policy gets, as `weir check --bounds` does.
///
/// Returns a dict for each leaf: its rate in the long run, its longest delay and largest backlog,
/// and its rate while all want more and while it is alone; docs/bounds.md describes the keys.
///
/// >>> import weir
/// >>> policy = "link = { rate = '8 Mbit/s', scheduler = 'fifo' }\n[class.all]\ndefault = true\n"
/// >>> [(row["class"], row["alone_bps"]) for row in weir.bounds(policy)]
/// [('all', 8000000.0)]
#[pyfunction]
#[pyo3(signature = (text, name = "policy.toml"))]
pub fn bounds<'py>(py: Python<'py>, text: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let policy = read(py, text, name)?;
    let rows: Vec<Bounded> = py.detach(|| {
        let row = |(class, standing)| Bounded { class, figures: Figures::of(&standing) };
        standings(&policy).into_iter().map(row).collect()
    });
    answer::of(py, &rows)
}

/// Compares the effects of two policies, as `weir diff` does.
///
/// Returns a dict: which packets go to another class, which classes are gone or new, which figures
/// change, and which values are written differently; docs/bounds.md describes it.
///
/// >>> import weir
/// >>> old = "link = { rate = '8 Mbit/s', scheduler = 'fifo' }\n[class.all]\ndefault = true\n"
/// >>> weir.diff(old, old)["changed"]
/// []
/// >>> weir.diff(old, old.replace("8", "4"))["changed"][0]["after"]["alone_bps"]
/// 4000000.0
#[pyfunction]
pub fn diff<'py>(py: Python<'py>, old: &str, new: &str) -> PyResult<Bound<'py, PyAny>> {
    let (old, new) = (read(py, old, "old.toml")?, read(py, new, "new.toml")?);
    let printed = py.detach(|| Printed::of(&Difference::between(&old, &new)));
    answer::of(py, &printed)
}

/// Writes a policy for another scheduler, as `weir convert` does.
///
/// Returns a dict whose `policy` is the new text and whose `notes` say what was added and what has
/// no counterpart; docs/compare.md has the rules. Raises `weir.Error` if the scheduler cannot
/// express the policy.
///
/// >>> import weir
/// >>> policy = "link = { rate = '8 Mbit/s', scheduler = 'fifo' }\n[class.all]\ndefault = true\n"
/// >>> "scheduler = 'drr'" in weir.convert(policy, "drr")["policy"].replace('"', "'")
/// True
#[pyfunction]
#[pyo3(signature = (text, scheduler, name = "policy.toml"))]
pub fn convert<'py>(
    py: Python<'py>,
    text: &str,
    scheduler: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let to = find(&[scheduler.to_owned()]).map_err(PyValueError::new_err)?[0].descriptor;
    let policy = read(py, text, name)?;
    let converted = py.detach(|| translate::convert((text, name), &policy, to));
    let converted = converted.map_err(|why| answer::error(py, format!("{name}: {why}"), &[]))?;
    let outcome = &converted.outcome;
    answer::of(
        py,
        &Converted {
            written_for: policy.link.scheduler,
            scheduler: to.keyword,
            notes: &converted.notes,
            policy: &converted.text,
            errors: outcome.count(Severity::Error),
            warnings: outcome.count(Severity::Warning),
            findings: answer::rows(&outcome.findings),
        },
    )
}

/// Converts another tool's file to policies, as `weir import` does.
///
/// `language` is a KIND of `weir import`, such as "tc" or "pf"; `rate` is that of an interface for
/// which the file gives none. Returns a dict of `policies` (each with `interface` and `policy`),
/// `lines` (each statement with its fate) and `findings`; docs/import.md describes them.
///
/// >>> import weir
/// >>> made = weir.import_("tc", "tc qdisc add dev eth0 root tbf rate 8mbit burst 32kb limit 64kb")
/// >>> [one["interface"] for one in made["policies"]]
/// ['eth0']
#[pyfunction]
#[pyo3(signature = (language, text, rate = None, name = "file"))]
pub fn import_<'py>(
    py: Python<'py>,
    language: &str,
    text: &str,
    rate: Option<&str>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(found) = import::find(language) else {
        let known: Vec<_> = LANGUAGES.iter().map(|row| row.name).collect();
        let why = format!("`{language}` is not a language; there are {}", known.join(", "));
        return Err(PyValueError::new_err(why));
    };
    let rate = rate.map(str::parse::<Rate>).transpose();
    let rate = rate.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut outcome = py.detach(|| {
        import::read(found, text.as_bytes(), name, &Options { rate, ..Options::default() })
    });
    let findings = outcome.findings.clone();
    // What an import warns of is in the result.
    outcome.findings.retain(|finding| finding.severity == Severity::Error);
    let made = answer::plan(py, outcome)?;
    let findings = answer::rows(&findings);
    let import::Import { policies, lines } = &made;
    answer::of(py, &Read { language: found.name, policies, lines, findings })
}

/// Returns a policy; its warnings become Python's.
pub fn read(py: Python<'_>, text: &str, name: &str) -> PyResult<Policy> {
    let outcome = py.detach(|| policy::parse(text, name));
    answer::plan(py, outcome)
}
