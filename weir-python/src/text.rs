//! TOML as Python's objects and back, in the order of the text.

use crate::answer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns the tables of a text as dicts and lists; raises `ValueError` if it is no TOML.
#[pyfunction]
pub fn parse_toml<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    let table: toml::Table = text.parse().map_err(refused)?;
    answer::of(py, &table)
}

/// Returns dicts, given as JSON, as TOML.
#[pyfunction]
pub fn write_toml(json: &str) -> PyResult<String> {
    let table: toml::Table = serde_json::from_str(json).map_err(refused)?;
    toml::to_string(&table).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
