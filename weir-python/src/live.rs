//! A running link: one request, one answer, as docs/api.md describes them.

use crate::answer;
use crate::interrupt;
use crate::options::Options;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use std::cell::RefCell;
use std::fs::File as Opened;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use weir_control::client;
use weir_control::places::Places;
use weir_control::protocol::{Answer, Request};
use weir_link::change::history::{File, Texts};
use weir_policy::{deployment, file};
use weir_trace::causes::{self, Ask, Causes};
use weir_trace::load::{self, Load};
use weir_trace::remedy::{self, Bounds, Remedies};

/// Asks the link called `name`, or the one behind the socket `control`; `request` is JSON.
///
/// Returns the answer. Raises `weir.Error` if the link refuses, `OSError` if there is none.
#[pyfunction]
#[pyo3(signature = (request, name, control = None))]
pub fn ask<'py>(
    py: Python<'py>,
    request: &str,
    name: &str,
    control: Option<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    let request: Request = serde_json::from_str(request)
        .map_err(|error| PyValueError::new_err(format!("not a request of docs/api.md: {error}")))?;
    let name = name.to_owned();
    let answered = interrupt::run(py, move |_| client::call(&socket(&name, control)?, &request))?;
    match answered.map_err(PyOSError::new_err)? {
        Answer::Error(why) => Err(answer::error(py, why, &[])),
        answer => answer::of(py, &answer),
    }
}

fn socket(name: &str, control: Option<PathBuf>) -> Result<PathBuf, String> {
    control.map_or_else(|| Places::of_process().find(name), Ok)
}

/// Reads a deployment with every file that it names, as a link takes them to reload.
///
/// Raises `OSError` if a file cannot be read.
#[pyfunction]
pub fn deployment_texts(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let texts = py.detach(|| texts(&path))?;
    answer::of(py, &texts)
}

fn texts(path: &Path) -> io::Result<Texts> {
    let name = path.display().to_string();
    let no_text = |error: std::string::FromUtf8Error| io::Error::other(error.to_string());
    let text = String::from_utf8(file::read_named(path).map_err(|error| of(path, &error))?);
    let text = text.map_err(no_text)?;
    let files = RefCell::new(Vec::new());
    let unread = RefCell::new(None);
    let read_file = |path: &Path| {
        let bytes = file::read_named(path).inspect_err(|error| {
            unread.borrow_mut().get_or_insert_with(|| of(path, error));
        })?;
        if let Ok(text) = String::from_utf8(bytes.clone()) {
            files.borrow_mut().push(File { name: path.display().to_string(), text });
        }
        Ok(bytes)
    };
    // The link checks the text; here only the files that it names are wanted.
    deployment::parse(text.as_bytes(), &name, &read_file);
    match unread.into_inner() {
        Some(error) => Err(error),
        None => {
            let deployment = File { name, text };
            Ok(Texts { deployment, files: files.into_inner(), ..Texts::default() })
        }
    }
}

/// Records a link for `seconds` into the file `path`, as `weir record` does.
///
/// Raises `OSError` if there is no such link or the file cannot be written, `weir.Error` if the
/// link refuses.
#[pyfunction]
#[pyo3(signature = (path, name, seconds = 10.0, control = None))]
pub fn record(
    py: Python<'_>,
    path: PathBuf,
    name: String,
    seconds: f64,
    control: Option<PathBuf>,
) -> PyResult<()> {
    if !(0.001..=SECONDS_MAX).contains(&seconds) {
        return Err(PyValueError::new_err(format!("seconds: 0.001 to {SECONDS_MAX}")));
    }
    let for_ms = Some((seconds * 1e3) as u64);
    let recorded = interrupt::run(py, move |_| {
        let socket = socket(&name, control)?;
        let mut stream = client::follow(&socket, &Request::Record { for_ms })?;
        let mut out = Opened::create(&path).map_err(|error| of(&path, &error).to_string())?;
        let copied = io::copy(&mut stream.by_ref(), &mut out);
        copied.map_err(|error| of(&path, &error).to_string())
    })?;
    recorded.map(drop).map_err(PyOSError::new_err)
}

/// One direction of a record, explained.
#[derive(Serialize)]
struct Explained {
    direction: String,
    fault: Option<String>,
    causes: Causes,
    promises: Remedies,
}

/// Explains a record of a link, as `weir explain` does: why packets waited, and what single change
/// would have kept a promise that broke.
///
/// Returns a dict for each direction, as docs/explain.md describes it; those without packets are
/// left out. `promises` are judged beside the policy's own; `worst` is the number of the slowest
/// packets told of. Raises `weir.Error` if no direction can be explained.
#[pyfunction]
#[pyo3(signature = (path, promises = Vec::new(), **options))]
pub fn explain_record<'py>(
    py: Python<'py>,
    path: PathBuf,
    promises: Vec<String>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options::of(options, &["class_", "direction", "worst"])?;
    let class: Option<String> = options.take("class_")?;
    let direction: Option<String> = options.take("direction")?;
    let worst = options.take("worst")?.unwrap_or(WORST_DEFAULT);
    let worst = worst.min(weir_trace::explain::SLOWEST_MAX);
    let explained = interrupt::run(py, move |stop| -> Result<Vec<Explained>, String> {
        let open = || {
            let opened = Opened::open(&path).map_err(|error| of(&path, &error).to_string());
            opened.map(BufReader::new)
        };
        let directions = match direction {
            Some(direction) => vec![direction],
            None => load::directions(open()?)?,
        };
        if directions.is_empty() {
            return Err("the record has no direction".to_owned());
        }
        let (mut all, mut whys) = (Vec::new(), Vec::new());
        for direction in directions {
            stop.look();
            let load = match Load::of_record(open()?, Some(&direction)) {
                Ok(load) => load,
                // Such as one without packets: another direction may have some.
                Err(error) => {
                    whys.push(format!("direction {direction}: {error}"));
                    continue;
                }
            };
            let ask = Ask { class: class.clone(), packet: None, worst, within: None };
            let found =
                causes::look(&load, &ask).map_err(|error| error.to_string()).and_then(|causes| {
                    Ok((causes, remedy::look(&load, &promises, Bounds::default())?))
                });
            match found {
                Ok((causes, promises)) => {
                    all.push(Explained { direction, fault: load.fault, causes, promises });
                }
                Err(error) => whys.push(format!("direction {direction}: {error}")),
            }
        }
        if all.is_empty() { Err(whys.join("; ")) } else { Ok(all) }
    })?;
    answer::of(py, &explained.map_err(|why| answer::error(py, why, &[]))?)
}

fn of(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The longest record of one call, an hour.
const SECONDS_MAX: f64 = 3600.0;
/// The slowest packets told of, as by the command.
const WORST_DEFAULT: usize = 10;
