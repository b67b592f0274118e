//! Sweeps: what an engine in Python needs. The runs, the journal and the table are those of
//! `weir sweep`.

use crate::answer;
use crate::interrupt::{self, Stop};
use crate::table::{Cells, Table};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_sweep::{Done, Journal, Spec, Summary, Sweep, local, table};

/// The runs of a sweep, by number: what a worker does.
#[pyclass(frozen, module = "weir")]
pub struct SweepRuns {
    sweep: Arc<Sweep>,
    stop: Stop,
}

#[pymethods]
impl SweepRuns {
    /// Takes a specification as JSON; with `folder` also the files that its scenario names there.
    #[new]
    #[pyo3(signature = (spec, folder = None))]
    fn new(py: Python<'_>, spec: &str, folder: Option<PathBuf>) -> PyResult<Self> {
        let spec: Spec = serde_json::from_str(spec)
            .map_err(|error| PyValueError::new_err(format!("no specification: {error}")))?;
        let is_driver = folder.is_some();
        let made = py.detach(|| {
            let spec = folder.map_or(Ok(spec.clone()), |folder| spec.gather(&folder))?;
            Sweep::new(spec)
        });
        let sweep = made.map_err(|why| answer::error(py, why, &[]))?;
        if is_driver && !sweep.warnings().is_empty() {
            answer::warn(py, sweep.warnings())?;
        }
        Ok(Self { sweep: Arc::new(sweep), stop: Stop::default() })
    }

    /// The specification with all its files, as JSON, for workers elsewhere.
    fn spec(&self) -> PyResult<String> {
        serde_json::to_string(self.sweep.spec())
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn __len__(&self) -> usize {
        self.sweep.runs()
    }

    /// The prefix of the classes of a policy that is there instead, for each link that has it.
    fn places(&self) -> Vec<String> {
        self.sweep.places()
    }

    /// Does runs and returns what came out, as JSON; other threads go on meanwhile.
    fn run(&self, py: Python<'_>, runs: Vec<usize>) -> PyResult<String> {
        if let Some(run) = runs.iter().find(|run| **run >= self.sweep.runs()) {
            return Err(PyValueError::new_err(format!("there is no run {run}")));
        }
        let sweep = Arc::clone(&self.sweep);
        let done = interrupt::run_until(py, &self.stop, move |stop| {
            serde_json::to_string(&sweep.run(&runs, &mut || stop.look()))
        })?;
        done.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Ends runs that have begun, in whatever thread; what they did is lost.
    fn stop(&self) {
        self.stop.stop();
    }
}

/// The table of a sweep while it grows: what the driver keeps.
#[pyclass(frozen, module = "weir")]
pub struct SweepTable {
    sweep: Arc<Sweep>,
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// `None` once the table is written.
    journal: Option<Journal>,
    done: BTreeMap<usize, Done>,
}

#[pymethods]
impl SweepTable {
    /// Opens the table at `path`, or goes on with what its journal has.
    #[new]
    fn new(py: Python<'_>, runs: &SweepRuns, path: PathBuf) -> PyResult<Self> {
        let sweep = Arc::clone(&runs.sweep);
        let opened = py.detach(|| match table::read(&path, &sweep)? {
            Some(done) => Ok(State { journal: None, done }),
            None => Journal::open(&path, &sweep)
                .map(|(journal, done)| State { journal: Some(journal), done }),
        });
        let state = Mutex::new(opened.map_err(|why: String| PyOSError::new_err(why))?);
        Ok(Self { sweep, path, state })
    }

    /// The runs that are not done, in batches of about a second if each takes `seconds`.
    fn batches(&self, seconds: f64, workers: usize) -> Vec<Vec<usize>> {
        let state = self.locked();
        let pending = (0..self.sweep.runs()).filter(|run| !state.done.contains_key(run));
        local::batches(&pending.collect::<Vec<_>>(), seconds, workers)
    }

    /// The number of runs that are done.
    fn __len__(&self) -> usize {
        self.locked().done.len()
    }

    /// Keeps what `SweepRuns.run` returned.
    fn add(&self, py: Python<'_>, done: &str) -> PyResult<()> {
        let rows: Vec<Done> = serde_json::from_str(done)
            .map_err(|error| PyValueError::new_err(format!("no runs: {error}")))?;
        py.detach(|| {
            let mut state = self.locked();
            match &mut state.journal {
                Some(journal) => journal.add(&rows)?,
                None => return Err("the table is finished".to_owned()),
            }
            state.done.extend(rows.into_iter().map(|row| (row.run, row)));
            Ok(())
        })
        .map_err(PyOSError::new_err)
    }

    /// Writes the table, if every run is done.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut state = self.locked();
            if let Some(journal) = state.journal.take() {
                table::write(&self.path, &self.sweep, &state.done)?;
                journal.remove()?;
            }
            Ok(())
        })
        .map_err(|why: String| PyOSError::new_err(why))
    }

    /// The rows of the runs that have ended.
    fn rows(&self) -> PyResult<Table> {
        let mut cells = Cells::default();
        for (name, column) in table::columns(&self.sweep, &self.locked().done) {
            match column {
                table::Column::Integers(values) => cells.integers(&name, values),
                table::Column::Numbers(values) => cells.numbers(&name, values),
                table::Column::Texts(values) => cells.texts(&name, values),
            }
        }
        Table::of(cells)
    }

    /// Means with their intervals at each point, and differences to the first, as a dict.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let summary = py.detach(|| Summary::of(&self.sweep, &self.locked().done));
        answer::of(py, &summary)
    }

    /// The same as text.
    fn __str__(&self) -> String {
        Summary::of(&self.sweep, &self.locked().done).to_string()
    }

    /// Lets another process go on with the journal; nothing can be added any more.
    fn close(&self) {
        self.locked().journal = None;
    }
}

impl SweepTable {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
