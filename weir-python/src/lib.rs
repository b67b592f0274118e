//! The Python module `weir`: texts and paths in, Python's own dicts and lists out.
//!
//! The crates below produce the results, with the names of their JSON, which `docs/` describes;
//! `python/weir/_weir.pyi` gives the types to Python's tools. Files are read, links are run and
//! captures replayed without Python's lock, so that other threads continue, and Ctrl-C ends a run.
//! What is plain in Python is written in it, in `python/weir/`. Invariant: nothing here is `unsafe`
//! except what PyO3's macros write.

mod answer;
mod effects;
mod infer;
mod interrupt;
mod lab;
mod live;
mod options;
mod registry;
mod replay;
mod reserve;
mod runs;
mod sweep;
mod table;
mod text;

use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use weir_policy::finding::Finding;
use weir_policy::{deployment, file, policy, reader};
use weir_sim::read;

/// The compiled part of the package `weir`.
#[pymodule]
mod _weir {
    #[pymodule_export]
    use super::answer::Error;
    #[pymodule_export]
    use super::effects::{bounds, convert, diff, import_};
    #[pymodule_export]
    use super::infer::{infer, stand_in, whatif};
    #[pymodule_export]
    use super::lab::lab;
    #[pymodule_export]
    use super::live::{ask, deployment_texts, explain_record, record};
    #[pymodule_export]
    use super::reserve::{Reservation, announce, reserve};
    #[pymodule_export]
    use super::runs::{compare_schedulers, simulate, test};
    #[pymodule_export]
    use super::sweep::{SweepRuns, SweepTable};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::text::{parse_toml, write_toml};
    #[pymodule_export]
    use super::{check, droppers, replay_capture, schedulers};
}

/// Checks the text of a policy, a deployment or a scenario, as `weir check` does.
///
/// Returns the findings, in the order of the file: dicts with `code`, `severity` ("error",
/// "warning" or "info"), `message`, `file`, `line` and `column` from 1, `cure` and `source`. `name`
/// is the name of the text in findings; the files that it names are found relative to it.
///
/// >>> import weir
/// >>> (found,) = weir.check("""[link]
/// ... rate = '8 Mbit/s'
/// ... scheduler = 'drrr'
/// ... [class.a]
/// ... default = true
/// ... """)
/// >>> found["code"], found["line"]
/// ('W016', 3)
#[pyfunction]
#[pyo3(signature = (text, name = "policy.toml"))]
fn check<'py>(py: Python<'py>, text: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let findings = py.detach(|| found(text, name));
    answer::of(py, &answer::rows(&findings))
}

fn found(text: &str, name: &str) -> Vec<Finding> {
    let bytes = text.as_bytes();
    let keys = reader::top_level(bytes);
    let read_file = |path: &Path| file::read_named(path);
    if deployment::is_deployment(&keys) {
        return deployment::parse(bytes, name, &read_file).findings;
    }
    match read::is_scenario(&keys) {
        true => read::parse(bytes, name, &read_file).findings,
        false => policy::parse(text, name).findings,
    }
}

/// Runs a capture through a policy in virtual time, as `weir replay` does.
///
/// Returns the report of docs/replay.md. The frames that the link sent are written to
/// `output_path`, which gets its name once it is complete. Of a damaged capture, the part before
/// the damage is replayed, and `fault` describes the damage and its place, as does a warning.
/// Raises `weir.Error` if the policy has errors or the file is not a capture, `OSError` if a file
/// cannot be read or written.
#[pyfunction(name = "replay")]
#[pyo3(signature = (policy_text, capture_path, output_path = None))]
fn replay_capture<'py>(
    py: Python<'py>,
    policy_text: &str,
    capture_path: PathBuf,
    output_path: Option<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    let outcome = py.detach(|| policy::parse(policy_text, POLICY_NAME));
    let policy = answer::plan(py, outcome)?;
    let place = capture_path.clone();
    let replayed =
        interrupt::run(py, move |_| replay::run(&policy, &place, output_path.as_deref()))?;
    let report = replayed.map_err(|trouble| match trouble {
        replay::Trouble::System(error) => error.into(),
        replay::Trouble::Refused(message) => answer::error(py, message, &[]),
    })?;
    let fault = report.fault.iter().map(|fault| fault.message.clone());
    for message in report.warnings().into_iter().chain(fault) {
        answer::warn(py, &format!("{}: {message}", capture_path.display()))?;
    }
    answer::of(py, &report)
}

/// Lists the schedulers of the registry.
///
/// Returns dicts with `keyword`, `summary`, `parameters`, `sources` (keys of docs/sources.md) and
/// `promises`. A parameter has `name`, `scope` ("link", "class", "leaf" or "queue"), `kind` (a dict
/// whose `type` determines its other keys), `default` and `summary`.
#[pyfunction]
fn schedulers(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    answer::of(py, &registry::schedulers())
}

/// Lists the droppers of the registry: as `schedulers()`, without promises.
#[pyfunction]
fn droppers(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    answer::of(py, &registry::droppers())
}

/// The name of a replay's policy in findings.
const POLICY_NAME: &str = "policy.toml";
