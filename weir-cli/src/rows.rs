//! Writes a row for each packet of a run, as a Parquet file.

use crate::whole_file::WholeFile;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_sim::watch::{Place, places};
use weir_sim::{Fate, Scenario};

/// Takes any name of such a file.
///
/// # Errors
/// None.
pub fn writable(path: PathBuf) -> Result<PathBuf, &'static str> {
    Ok(path)
}

/// A Parquet file with a row for each packet that left the link or was dropped.
pub struct Rows {
    writer: SerializedFileWriter<BufWriter<WholeFile>>,
    name: String,
    waiting: Columns,
    places: Vec<Place>,
    /// Names, each stored once.
    names: BTreeMap<String, ByteArray>,
    failed: Option<String>,
}

/// Rows that are not written yet.
#[derive(Default)]
struct Columns {
    time: Vec<i64>,
    delay: Vec<i64>,
    length: Vec<i32>,
    class: Vec<ByteArray>,
    source: Vec<ByteArray>,
    verdict: Vec<ByteArray>,
    link: Vec<ByteArray>,
    from: Vec<ByteArray>,
}

impl Rows {
    /// Creates the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path, scenario: &Scenario) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = WholeFile::create(path).map_err(|error| error.to_string())?;
        let properties = WriterProperties::builder().set_created_by("weir".to_owned()).build();
        let schema = schema().map_err(|error| of_rows(&name, &error))?;
        let writer = SerializedFileWriter::new(BufWriter::new(file), schema, Arc::new(properties));
        let writer = writer.map_err(|error| of_rows(&name, &error))?;
        let (waiting, places) = (Columns::default(), places(scenario));
        Ok(Self { writer, name, waiting, places, names: BTreeMap::new(), failed: None })
    }

    /// Adds the row of a packet.
    pub fn add(&mut self, fate: &Fate<'_>) {
        if self.failed.is_some() {
            return;
        }
        let verdict = fate.dropped.map_or("sent", |reason| reason.name());
        let delay = fate.at.since(fate.arrived);
        // Simulated times are much smaller than 2^63 ns.
        self.waiting.time.push(fate.at.as_nanos() as i64);
        self.waiting.delay.push(delay.as_nanos() as i64);
        self.waiting.length.push(fate.length as i32);
        let class = self.name(fate.class);
        self.waiting.class.push(class);
        let source = self.name(&fate.source.name);
        self.waiting.source.push(source);
        let verdict = self.name(verdict);
        self.waiting.verdict.push(verdict);
        let (link, from) = self.places[fate.outlet.index()].clone();
        let (link, from) = (self.name(&link), self.name(&from));
        self.waiting.link.push(link);
        self.waiting.from.push(from);
        if self.waiting.time.len() == ROWS_MAX {
            self.write();
        }
    }

    fn name(&mut self, text: &str) -> ByteArray {
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        let name = ByteArray::from(text.as_bytes().to_vec());
        self.names.insert(text.to_owned(), name.clone());
        name
    }

    /// Writes the waiting rows as a group.
    fn write(&mut self) {
        let rows = std::mem::take(&mut self.waiting);
        let group = self.writer.next_row_group();
        let written = group.and_then(|group| rows.write(group));
        self.failed = written.err().map(|error| of_rows(&self.name, &error));
    }

    /// Finishes the file, which then gets its name.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(mut self) -> Result<(), String> {
        if self.failed.is_none() && !self.waiting.time.is_empty() {
            self.write();
        }
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let name = self.name;
        let buffer = self.writer.into_inner().map_err(|error| of_rows(&name, &error))?;
        let file = buffer.into_inner().map_err(|error| error.error().to_string())?;
        file.keep()
    }
}

impl Columns {
    /// Writes the columns in the order of the schema.
    fn write(
        self,
        mut group: SerializedRowGroupWriter<'_, BufWriter<WholeFile>>,
    ) -> Result<(), ParquetError> {
        macro_rules! column {
            ($kind:ty, $values:expr) => {
                if let Some(mut column) = group.next_column()? {
                    column.typed::<$kind>().write_batch(&$values, None, None)?;
                    column.close()?;
                }
            };
        }
        column!(Int64Type, self.time);
        column!(Int64Type, self.delay);
        column!(Int32Type, self.length);
        column!(ByteArrayType, self.class);
        column!(ByteArrayType, self.source);
        column!(ByteArrayType, self.verdict);
        column!(ByteArrayType, self.link);
        column!(ByteArrayType, self.from);
        group.close().map(drop)
    }
}

/// The columns; docs/sim-report.md describes them.
fn schema() -> Result<Arc<Type>, ParquetError> {
    let column = |name: &str, kind, text: bool| {
        let column = Type::primitive_type_builder(name, kind)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(text.then_some(LogicalType::String));
        column.build().map(Arc::new)
    };
    let fields = vec![
        column("time_ns", Physical::INT64, false)?,
        column("delay_ns", Physical::INT64, false)?,
        column("length", Physical::INT32, false)?,
        column("class", Physical::BYTE_ARRAY, true)?,
        column("source", Physical::BYTE_ARRAY, true)?,
        column("verdict", Physical::BYTE_ARRAY, true)?,
        column("link", Physical::BYTE_ARRAY, true)?,
        column("from", Physical::BYTE_ARRAY, true)?,
    ];
    Type::group_type_builder("packets").with_fields(fields).build().map(Arc::new)
}

fn of_rows(name: &str, error: &ParquetError) -> String {
    match error {
        // An error of the file, which names it.
        ParquetError::External(error) if error.is::<std::io::Error>() => error.to_string(),
        error => format!("cannot write {name}: {error}"),
    }
}

/// Rows of a group, which wait in memory.
const ROWS_MAX: usize = 1 << 16;
