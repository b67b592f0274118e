//! Tables for Python: columns in Arrow's layout, handed over without a copy by the Arrow C stream
//! interface, which pyarrow, polars, pandas and others read.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::UInt32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    RecordBatchIterator, RecordBatchOptions, StringArray, UInt32Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyFloat, PyInt, PyList, PyString};
use std::sync::Arc;

/// The arguments with which a table is made again.
type Lists<'py> = (Bound<'py, pyo3::types::PyDict>,);

/// The columns of a table that is being made.
#[derive(Default)]
pub struct Cells(Vec<(String, ArrayRef)>);

impl Cells {
    /// Adds a column of integers.
    pub fn integers(&mut self, name: &str, values: Vec<i64>) {
        self.0.push((name.to_owned(), Arc::new(Int64Array::from(values))));
    }

    /// Adds a column of numbers.
    pub fn numbers(&mut self, name: &str, values: Vec<Option<f64>>) {
        self.0.push((name.to_owned(), Arc::new(Float64Array::from(values))));
    }

    /// Adds a column of words, each the place of one in `words`. Its dictionary has the words that
    /// occur, each once: pandas takes them for the categories.
    pub fn words(&mut self, name: &str, mut places: Vec<u32>, words: &[String]) {
        let mut own: Vec<&str> = Vec::new();
        let mut moved: Vec<Option<u32>> = vec![None; words.len()];
        for place in &mut places {
            let word = &words[*place as usize];
            *place = *moved[*place as usize].get_or_insert_with(|| {
                own.iter().position(|known| known == word).unwrap_or_else(|| {
                    own.push(word);
                    own.len() - 1
                }) as u32
            });
        }
        let made = DictionaryArray::<UInt32Type>::try_new(
            UInt32Array::from(places),
            Arc::new(StringArray::from(own)) as ArrayRef,
        );
        self.0.push((name.to_owned(), Arc::new(made.expect("each place is one of the words"))));
    }

    /// Adds a column of texts.
    pub fn texts(&mut self, name: &str, values: Vec<Option<String>>) {
        self.0.push((name.to_owned(), Arc::new(StringArray::from(values))));
    }

    /// Adds a column of Python's values: all integers, numbers, texts or truth values, or None.
    fn values(&mut self, name: &str, values: &Bound<'_, PyList>) -> PyResult<()> {
        let all = |is: fn(&Bound<'_, PyAny>) -> bool| {
            values.iter().filter(|value| !value.is_none()).all(|value| is(&value))
        };
        let array: ArrayRef = if all(|_| false) {
            // Of None alone: numbers of which none is known.
            Arc::new(Float64Array::new_null(values.len()))
        } else if all(|value| value.is_instance_of::<PyBool>()) {
            Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?))
        } else if all(|value| value.is_instance_of::<PyInt>()) {
            Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?))
        } else if all(|value| value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>())
        {
            Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?))
        } else if all(|value| value.is_instance_of::<PyString>()) {
            Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?))
        } else {
            let why = format!("column `{name}`: a column has numbers, texts or truth values only");
            return Err(PyTypeError::new_err(why));
        };
        self.0.push((name.to_owned(), array));
        Ok(())
    }
}

/// Columns of equal length, in Arrow's layout.
///
/// `pyarrow.table(t)` takes it without a copy, `polars.DataFrame(t)` copies columns of words only,
/// `pandas.DataFrame.from_arrow(t)` may copy all; `to_dict()` needs none of them.
#[pyclass(frozen, module = "weir")]
pub struct Table(RecordBatch);

impl Table {
    /// Returns the table of these columns.
    ///
    /// # Errors
    /// When they differ in length.
    pub fn of(cells: Cells) -> PyResult<Self> {
        let field =
            |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let schema = Schema::new(cells.0.iter().map(field).collect::<Vec<_>>());
        let columns: Vec<ArrayRef> = cells.0.into_iter().map(|(_, array)| array).collect();
        // Without columns there are no rows; otherwise the columns say how many.
        let rows = if columns.is_empty() { Some(0) } else { None };
        let options = RecordBatchOptions::new().with_row_count(rows);
        let made = RecordBatch::try_new_with_options(Arc::new(schema), columns, &options);
        made.map(Self).map_err(refused)
    }
}

#[pymethods]
impl Table {
    /// Makes a table of lists by name.
    #[new]
    fn new(columns: &Bound<'_, pyo3::types::PyDict>) -> PyResult<Self> {
        let mut cells = Cells::default();
        for (name, values) in columns {
            cells.values(&name.extract::<String>()?, values.cast::<PyList>()?)?;
        }
        Self::of(cells)
    }

    /// The names of the columns, in their order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The table as a capsule of the Arrow C stream interface; takes no other schema.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer that cannot convert may hand over its own schema (Arrow PyCapsule interface).
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Lists by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
        let columns = pyo3::types::PyDict::new(py);
        for (field, array) in self.0.schema_ref().fields().iter().zip(self.0.columns()) {
            columns.set_item(field.name(), listed(py, array)?)?;
        }
        Ok(columns)
    }

    /// Lets it be pickled and copied; columns of words become plain texts.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Lists<'py>)> {
        let columns = slf.get().to_dict(slf.py())?;
        Ok((slf.get_type().into_any(), (columns,)))
    }

    fn __repr__(&self) -> String {
        format!("<weir.Table: {} rows of {}>", self.0.num_rows(), self.column_names().join(", "))
    }

    /// The first rows, for Jupyter.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let head = Self(self.0.slice(0, self.0.num_rows().min(ROWS_SHOWN)));
        let html = py.import("weir._report")?.getattr("table_html")?;
        html.call1((head.to_dict(py)?, self.0.num_rows()))?.extract()
    }
}

/// Returns the values of a column.
fn listed<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let any = array.as_any();
    let list = if let Some(column) = any.downcast_ref::<Int64Array>() {
        PyList::new(py, column.iter())
    } else if let Some(column) = any.downcast_ref::<Float64Array>() {
        PyList::new(py, column.iter())
    } else if let Some(column) = any.downcast_ref::<BooleanArray>() {
        PyList::new(py, column.iter())
    } else if let Some(column) = any.downcast_ref::<StringArray>() {
        PyList::new(py, column.iter())
    } else if let Some(column) = any
        .downcast_ref::<DictionaryArray<UInt32Type>>()
        .and_then(|column| column.downcast_dict::<StringArray>())
    {
        PyList::new(py, column)
    } else {
        let why = format!("a column of {} cannot be listed", array.data_type());
        return Err(PyValueError::new_err(why));
    };
    list.map(Bound::into_any)
}

fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The rows in Jupyter.
const ROWS_SHOWN: usize = 20;
