//! Keyword arguments of calls that have many.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The keyword arguments of a call.
pub struct Options<'a, 'py>(Option<&'a Bound<'py, PyDict>>);

impl<'a, 'py> Options<'a, 'py> {
    /// Takes those that are `known`.
    ///
    /// # Errors
    /// TypeError for another one, as Python raises it.
    pub fn of(given: Option<&'a Bound<'py, PyDict>>, known: &[&str]) -> PyResult<Self> {
        for key in given.iter().flat_map(|given| given.keys().iter()) {
            let key: String = key.extract()?;
            if !known.contains(&key.as_str()) {
                let why = format!("`{key}` is no argument; there are {}", known.join(", "));
                return Err(PyTypeError::new_err(why));
            }
        }
        Ok(Self(given))
    }

    /// Returns one; `None` if it is not given, or is None.
    ///
    /// # Errors
    /// TypeError or OverflowError when it is of another type.
    pub fn take<T: FromPyObjectOwned<'py>>(&self, key: &str) -> PyResult<Option<T>> {
        let value = self.0.map(|given| given.get_item(key)).transpose()?.flatten();
        let value = value.filter(|value| !value.is_none());
        value.map(|value| value.extract().map_err(Into::into)).transpose()
    }
}
