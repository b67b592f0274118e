//! The table as a Parquet file, with where it comes from in its metadata.
//!
//! The checksum is that of the whole file with zeros in its own place, so that any damaged bit
//! shows. (The library that writes Parquet writes no checksums of pages.)

use super::{BLANK, CHECKSUM, Column, IDENTITY};
use super::{cannot_read, cannot_write, damaged, of_another, origin, whole};
use crate::sweep::{Done, Sweep, hexadecimal};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Returns the runs of a finished table; `None` if there is no file.
///
/// # Errors
/// When the file is another sweep's, no table, or damaged.
pub fn read(path: &Path, sweep: &Sweep) -> Result<Option<BTreeMap<usize, Done>>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_read(path, &error)),
    };
    let other = || of_another(path);
    let reader = SerializedFileReader::new(file).map_err(|_| other())?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let value = |key: &str| {
        metadata.into_iter().flatten().find(|row| row.key == key).and_then(|row| row.value.clone())
    };
    let sum = value(CHECKSUM).ok_or_else(other)?;
    if !is_whole(path, &sum).map_err(|error| cannot_read(path, &error))? {
        return Err(damaged(path));
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

/// Writes the file.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, sweep: &Sweep, columns: &[(String, Column)]) -> Result<(), String> {
    let mut sum = Sha256::new();
    written(&mut sum, sweep, columns, BLANK).map_err(|error| cannot_write(path, &error))?;
    let sum = hexadecimal(&sum.finalize());
    whole(path, |file| Ok(written(file, sweep, columns, &sum)?))
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
    let rows = origin(sweep).into_iter().chain([(CHECKSUM, sum.to_owned())]);
    let metadata = rows.map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect();
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
