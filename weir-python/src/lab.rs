//! The papers' experiments.

use crate::answer;
use crate::interrupt;
use crate::options::Options;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use weir_lab::claims::{self, Eras, PaperSet, Request, Sheet};
use weir_lab::experiments;

/// An experiment in the list.
#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    paper: &'a str,
    title: &'a str,
    question: &'a str,
    claims: usize,
}

/// Runs experiments of the papers, as `weir lab run` does; without a name it lists them.
///
/// `name` is an experiment, a paper or "all"; `era` is "historic", "sound" or "both"; `only` is a
/// part of a claim's id or sentence. Returns a dict for each experiment and era with what was
/// measured and its claims, as docs/lab-format.md describes them; the list has `id`, `paper`,
/// `title`, `question` and the number of `claims`.
///
/// >>> import weir
/// >>> {"nieminen", "benita"} <= {row["paper"] for row in weir.lab()}
/// True
#[pyfunction]
#[pyo3(signature = (name = None, **options))]
pub fn lab<'py>(
    py: Python<'py>,
    name: Option<String>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options::of(options, &["era", "only", "seed", "threads"])?;
    let era: Option<String> = options.take("era")?;
    let only: Option<String> = options.take("only")?;
    let seed = options.take("seed")?.unwrap_or(1);
    let threads: Option<u16> = options.take("threads")?;
    let eras = match era.as_deref().unwrap_or("both") {
        "historic" => Eras::Historic,
        "sound" => Eras::Sound,
        "both" => Eras::Both,
        other => {
            let why = format!("`{other}` is not historic, sound or both");
            return Err(PyValueError::new_err(why));
        }
    };
    let set = PaperSet::open().map_err(|why| answer::error(py, why, &[]))?;
    let Some(name) = name else { return list(py, &set) };
    if set.select(&name).is_empty() {
        let why = format!("no experiment is called `{name}`; `weir.lab()` lists them");
        return Err(PyValueError::new_err(why));
    }
    let told = interrupt::run(py, move |stop| {
        let sheets = set.select(&name);
        let threads = threads.map_or_else(weir_sim::replicate::cores, usize::from).max(1);
        let request = Request { eras, only: only.as_deref(), seed, threads, stop: stop.flag() };
        let outcomes = experiments::run(&sheets, &request, &|_, _, _| ());
        let asked = claims::count(&sheets, &request);
        serde_json::to_value(outcomes).map(|outcomes| (outcomes, asked))
    })?;
    let (outcomes, asked) = told.map_err(|error| answer::error(py, error.to_string(), &[]))?;
    if asked == 0 {
        return Err(PyValueError::new_err("no claim has `only` in its id or sentence"));
    }
    answer::of(py, &outcomes)
}

fn list<'a, 'py>(py: Python<'py>, set: &'a PaperSet) -> PyResult<Bound<'py, PyAny>> {
    let listed = |sheet: &'a Sheet| {
        let Sheet { id, paper, title, question, claims, .. } = sheet;
        Listed { id, paper, title, question, claims: claims.len() }
    };
    answer::of(py, &set.sheets.iter().map(listed).collect::<Vec<_>>())
}
