//! The finished table: a Parquet file with a row for each run, and where it comes from.
//!
//! Columns are `run`, `point`, `replication`, `seed`, each key that varies, each metric, and
//! `error`. The file's metadata has the version, the commit, the seed, the hash of the scenario
//! with its files, the specification, and a checksum. Nothing in it depends on when, where or in
//! which order runs were done, so equal sweeps give equal files.
//!
//! The checksum is that of the whole file with zeros in its own place, so that any damaged bit
//! shows. (The library that writes Parquet writes no checksums of pages.)

use crate::sweep::{COMMIT, Done, Sweep, VERSION, hexadecimal};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use tempfile::NamedTempFile;

/// The values of a column, in the order of rows.
pub enum Column {
    /// Integers.
    Integers(Vec<i64>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
}

/// Writes the table, which gets its name once it is whole.
///
/// # Errors
/// When a run is missing, or the file cannot be written.
pub fn write(path: &Path, sweep: &Sweep, done: &BTreeMap<usize, Done>) -> Result<(), String> {
    if let Some(run) = (0..sweep.runs()).find(|run| !done.contains_key(run)) {
        return Err(format!("run {run} is missing"));
    }
    let cannot =
        |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let mut file = file.map_err(|error| cannot(&error))?;
    let columns = columns(sweep, done);
    let mut sum = Sha256::new();
    written(&mut sum, sweep, &columns, BLANK).map_err(|error| cannot(&error))?;
    let sum = hexadecimal(&sum.finalize());
    written(&mut file, sweep, &columns, &sum).map_err(|error| cannot(&error))?;
    file.as_file().sync_all().map_err(|error| cannot(&error))?;
    readable_by_others(file.as_file()).map_err(|error| cannot(&error))?;
    file.persist(path).map(drop).map_err(|error| cannot(&error))
}

/// Temporary files are their owner's alone, and a table is not.
fn readable_by_others(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Returns the runs of a finished table; `None` if there is no file.
///
/// # Errors
/// When the file is another sweep's, no table, or damaged.
pub fn read(path: &Path, sweep: &Sweep) -> Result<Option<BTreeMap<usize, Done>>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let other = || {
        format!(
            "{} exists and is of another sweep, of another version of Weir, or no table; name \
             another file",
            path.display()
        )
    };
    let reader = SerializedFileReader::new(file).map_err(|_| other())?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let value = |key: &str| {
        metadata.into_iter().flatten().find(|row| row.key == key).and_then(|row| row.value.clone())
    };
    let sum = value(CHECKSUM).ok_or_else(other)?;
    if !is_whole(path, &sum).map_err(|error| format!("cannot read {}: {error}", path.display()))? {
        return Err(format!(
            "{} is damaged: its checksum is not that of its bytes; remove it, and the same \
             command does its runs again",
            path.display()
        ));
    }
    if value(IDENTITY).as_deref() != Some(sweep.identity()) {
        return Err(other());
    }
    let mut done = BTreeMap::new();
    for row in reader.get_row_iter(None).map_err(|error| error.to_string())? {
        let row = row.map_err(|error| format!("{}: {error}", path.display()))?;
        let fields: BTreeMap<&str, &Field> =
            row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
        let Some(Field::Long(run)) = fields.get("run") else { return Err(other()) };
        let value = |metric: &String| match fields.get(metric.as_str()) {
            Some(Field::Double(value)) => Some(*value),
            _ => None,
        };
        let error = match fields.get("error") {
            Some(Field::Str(text)) => Some(text.clone()),
            _ => None,
        };
        let run = *run as usize;
        done.insert(
            run,
            Done { run, values: sweep.spec().metrics.iter().map(value).collect(), error },
        );
    }
    Ok(Some(done))
}

/// Returns whether a file is as it was written, by the checksum that it has in it.
fn is_whole(path: &Path, sum: &str) -> io::Result<bool> {
    let mut bytes = std::fs::read(path)?;
    // The metadata are at the end.
    let place = bytes.windows(sum.len().max(1)).rposition(|part| part == sum.as_bytes());
    let Some(place) = place.filter(|_| sum.len() == BLANK.len()) else { return Ok(false) };
    bytes[place..place + sum.len()].copy_from_slice(BLANK.as_bytes());
    Ok(hexadecimal(&Sha256::digest(&bytes)) == sum)
}

/// Returns the columns of the runs that are done, in the order of the table.
pub fn columns(sweep: &Sweep, done: &BTreeMap<usize, Done>) -> Vec<(String, Column)> {
    let rows: Vec<&Done> = done.values().collect();
    let integers =
        |of: &dyn Fn(&Done) -> i64| Column::Integers(rows.iter().map(|row| of(row)).collect());
    let mut columns = vec![
        ("run".to_owned(), integers(&|row| row.run as i64)),
        ("point".to_owned(), integers(&|row| sweep.place(row.run).0 as i64)),
        ("replication".to_owned(), integers(&|row| sweep.place(row.run).1 as i64)),
        // A seed of 64 bits keeps them.
        (
            "seed".to_owned(),
            integers(&|row| sweep.seed().wrapping_add(sweep.place(row.run).1 as u64) as i64),
        ),
    ];
    for (place, axis) in sweep.spec().design.axes.iter().enumerate() {
        let values = rows.iter().map(|row| &sweep.points()[sweep.place(row.run).0][place]);
        columns.push((axis.key.clone(), column(values.collect())));
    }
    for (place, metric) in sweep.spec().metrics.iter().enumerate() {
        let values = rows.iter().map(|row| row.values.get(place).copied().flatten());
        columns.push((metric.clone(), Column::Numbers(values.collect())));
    }
    let errors = rows.iter().map(|row| row.error.clone());
    columns.push(("error".to_owned(), Column::Texts(errors.collect())));
    columns
}

/// Returns a column of the values of a key: integers or numbers if all are, otherwise texts.
fn column(values: Vec<&Value>) -> Column {
    if let Some(integers) = values.iter().map(|value| value.as_i64()).collect() {
        return Column::Integers(integers);
    }
    if values.iter().all(|value| value.is_number()) {
        return Column::Numbers(values.iter().map(|value| value.as_f64()).collect());
    }
    let text = |value: &&Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Column::Texts(values.iter().map(|value| Some(text(value))).collect())
}

fn written(
    file: impl Write + Send,
    sweep: &Sweep,
    columns: &[(String, Column)],
    sum: &str,
) -> Result<(), ParquetError> {
    let fields = columns.iter().map(|(name, column)| column.field(name));
    let fields: Vec<TypePtr> = fields.collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("runs").with_fields(fields).build()?);
    let value = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let spec = serde_json::to_string(sweep.spec()).unwrap_or_default();
    let metadata = vec![
        value(IDENTITY, sweep.identity().to_owned()),
        value("weir.version", VERSION.to_owned()),
        value("weir.commit", COMMIT.to_owned()),
        value("weir.seed", sweep.seed().to_string()),
        value("weir.scenario", sweep.scenario_hash()),
        value("weir.spec", spec),
        value(CHECKSUM, sum.to_owned()),
    ];
    let properties = WriterProperties::builder()
        .set_created_by("weir".to_owned())
        .set_key_value_metadata(Some(metadata))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    columns.iter().try_for_each(|(_, column)| column.write(&mut group))?;
    group.close()?;
    writer.close().map(drop)
}

impl Column {
    fn field(&self, name: &str) -> Result<TypePtr, ParquetError> {
        let (kind, repetition, text) = match self {
            Column::Integers(_) => (Physical::INT64, Repetition::REQUIRED, false),
            Column::Numbers(_) => (Physical::DOUBLE, Repetition::OPTIONAL, false),
            Column::Texts(_) => (Physical::BYTE_ARRAY, Repetition::OPTIONAL, true),
        };
        Type::primitive_type_builder(name, kind)
            .with_repetition(repetition)
            .with_logical_type(text.then_some(LogicalType::String))
            .build()
            .map(Arc::new)
    }

    fn write<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        match self {
            Column::Integers(values) => {
                column.typed::<Int64Type>().write_batch(values, None, None)?;
            }
            Column::Numbers(values) => {
                let there: Vec<f64> = values.iter().flatten().copied().collect();
                let levels = levels(values);
                column.typed::<DoubleType>().write_batch(&there, Some(&levels), None)?;
            }
            Column::Texts(values) => {
                let there: Vec<ByteArray> =
                    values.iter().flatten().map(|text| ByteArray::from(text.as_str())).collect();
                let levels = levels(values);
                column.typed::<ByteArrayType>().write_batch(&there, Some(&levels), None)?;
            }
        }
        column.close()
    }
}

/// Says for each row whether it has a value.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// The columns that every table has.
pub(crate) const OWN: [&str; 5] = ["run", "point", "replication", "seed", "error"];
/// The key of what tells a sweep from others.
const IDENTITY: &str = "weir.sweep";
/// The key of the checksum.
const CHECKSUM: &str = "weir.sha256";
/// What stands in the place of the checksum while it is computed: as long as one in hexadecimal.
const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";
