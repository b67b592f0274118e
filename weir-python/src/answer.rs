//! Values for Python: results, warnings and the one exception for findings.
//!
//! Values are converted as JSON by Python's own reader, so that names are those of the command's
//! `--format json` and integers keep all their digits.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::Serialize;
use weir_policy::finding::{Finding, Outcome, Severity};
use weir_policy::render;

create_exception!(
    weir,
    Error,
    PyException,
    "A policy, a scenario or a capture cannot be used.\n\n\
     The text shows every finding with its line and its cure; `findings` has them as `check()` \
     returns them, and is empty if a capture is at fault."
);

/// A finding as a flat row.
#[derive(Serialize)]
pub struct Row<'a> {
    code: &'static str,
    severity: Severity,
    message: &'a str,
    file: &'a str,
    line: usize,
    column: usize,
    cure: &'a str,
    source: Option<&'static str>,
}

/// The rows of findings, in their order.
pub fn rows<'a>(findings: &'a [Finding]) -> Vec<Row<'a>> {
    let row = |finding: &'a Finding| {
        let Finding { code, severity, message, place, cure, source, .. } = finding;
        Row {
            code,
            severity: *severity,
            message,
            file: &place.file,
            line: place.line,
            column: place.column,
            cure,
            source: *source,
        }
    };
    findings.iter().map(row).collect()
}

/// Converts `value` to Python's dicts, lists, strings and numbers.
///
/// # Errors
/// The error of Python, when memory runs out.
pub fn of<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).expect("answers have only text keys");
    py.import("json")?.call_method1("loads", (text,))
}

/// Returns the plan of a file; its warnings become Python's.
///
/// # Errors
/// An [`Error`] without a plan; the error of Python, when it treats warnings as errors.
pub fn plan<T>(py: Python<'_>, outcome: Outcome<T>) -> PyResult<T> {
    let Outcome { plan, mut findings, sources } = outcome;
    // Findings of severity "info" are left to `check`.
    findings.retain(|finding| finding.severity > Severity::Info);
    let text = format!(
        "{}\n{}",
        render::summary(&findings),
        render::render(&findings, &sources, false).trim_end()
    );
    let Some(plan) = plan else {
        return Err(error(py, text, &findings));
    };
    if !findings.is_empty() {
        warn(py, &text)?;
    }
    Ok(plan)
}

/// An [`Error`] with `message` and `findings`.
pub fn error(py: Python<'_>, message: String, findings: &[Finding]) -> PyErr {
    let error = Error::new_err(message);
    let held = of(py, &rows(findings)).and_then(|rows| error.value(py).setattr("findings", rows));
    match held {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// Issues `message` as a warning at the line of Python that called the module.
///
/// # Errors
/// When Python treats warnings as errors.
pub fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    py.import("warnings")?.call_method1("warn", (message, py.None(), FRAMES)).map(drop)
}

/// Frames of Python to the line that a warning names: the module's own function, and its caller.
const FRAMES: u32 = 2;
