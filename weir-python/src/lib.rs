//! The Python module `weir`: texts and paths in, Python's own dicts and lists out.
//!
//! The crates below produce the results, with the names of their JSON, which `docs/` describes;
//! `weir.pyi` gives the types to Python's tools. Files are read, links are run and captures
//! replayed without Python's lock, so that other threads continue. Invariant: nothing here is
//! `unsafe` except what PyO3's macros write.

mod answer;
mod registry;
mod replay;
mod reserve;

use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use weir_policy::{deployment, file, policy, reader};
use weir_sim::read;

/// Link sharing that is proved before it is deployed.
#[pymodule]
mod weir {
    #[pymodule_export]
    use super::answer::Error;
    #[pymodule_export]
    use super::reserve::{announce, reserve};
    #[pymodule_export]
    use super::{check, droppers, replay_capture, schedulers, simulate};
}

/// Checks the text of a policy or a deployment, as `weir check` does.
///
/// Returns the findings, in the order of the file: dicts with `code`, `severity` ("error",
/// "warning" or "info"), `message`, `file`, `line` and `column` from 1, `cure` and `source`. `name`
/// is the name of the text in findings; a deployment's policies are found relative to it.
#[pyfunction]
#[pyo3(signature = (text, name = "policy.toml"))]
fn check<'py>(py: Python<'py>, text: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let bytes = text.as_bytes();
    let findings = py.detach(|| match deployment::is_deployment(&reader::top_level(bytes)) {
        true => deployment::parse(bytes, name, &|path: &Path| file::read_named(path)).findings,
        false => policy::parse(text, name).findings,
    });
    answer::of(py, &answer::rows(&findings))
}

/// Simulates a scenario, as `weir sim` does.
///
/// Returns the report of docs/sim-report.md. A policy that the scenario names is found relative to
/// `base_dir`, by default the working directory; `seed` replaces the scenario's. Raises
/// `weir.Error` if the scenario or its policy has errors; other findings become warnings.
#[pyfunction]
#[pyo3(signature = (scenario_text, base_dir = None, seed = None))]
fn simulate<'py>(
    py: Python<'py>,
    scenario_text: &str,
    base_dir: Option<PathBuf>,
    seed: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let base = base_dir.unwrap_or_default();
    let read_file = |path: &Path| file::read_named(&base.join(path));
    let outcome = py.detach(|| read::parse(scenario_text.as_bytes(), SCENARIO_NAME, &read_file));
    let mut scenario = answer::plan(py, outcome)?;
    scenario.seed = seed.unwrap_or(scenario.seed);
    let report = py.detach(|| weir_sim::run(&scenario, &mut |_| ()));
    match report {
        Ok(report) => answer::of(py, &report),
        Err(error) => Err(answer::error(py, error.to_string(), &[])),
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
    let replayed = py.detach(|| replay::run(&policy, &capture_path, output_path.as_deref()));
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

/// The name of a scenario in findings; its stem names a scenario without a name.
const SCENARIO_NAME: &str = "scenario.toml";
/// The name of a replay's policy in findings.
const POLICY_NAME: &str = "policy.toml";
