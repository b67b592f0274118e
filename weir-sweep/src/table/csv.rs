//! The table as CSV, which any program reads, with where it comes from in a file beside it.
//!
//! That file is named as W3C's recommendation for metadata of CSV has it, `FILE.csv-metadata.json`,
//! and says the types of the columns. Its checksum is that of the CSV and of this file with zeros
//! in the checksum's place, so that any damaged bit of either shows. It gets its name first, so a
//! CSV that has its name has its metadata.

use super::{BLANK, CHECKSUM, Column, IDENTITY};
use super::{cannot_read, cannot_write, damaged, of_another, origin, whole};
use crate::sweep::{Done, Sweep, hexadecimal};
use csv::{ReaderBuilder, Writer};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes both files.
///
/// # Errors
/// When one cannot be written.
pub fn write(path: &Path, sweep: &Sweep, columns: &[(String, Column)]) -> Result<(), String> {
    let rows = rows(columns).map_err(|error| cannot_write(path, &error))?;
    let blank = metadata(path, sweep, columns, BLANK);
    let text = metadata(path, sweep, columns, &checksum(&rows, &blank));
    whole(&beside(path), |file| file.write_all(text.as_bytes()))?;
    whole(path, |file| file.write_all(&rows))
}

/// Returns the runs of a finished table; `None` if there is no file.
///
/// # Errors
/// When the file is another sweep's, no table, or damaged.
pub fn read(path: &Path, sweep: &Sweep) -> Result<Option<BTreeMap<usize, Done>>, String> {
    let rows = match fs::read(path) {
        Ok(rows) => rows,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_read(path, &error)),
    };
    let text = match fs::read_to_string(beside(path)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(of_another(path)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(damaged(path)),
        Err(error) => return Err(cannot_read(&beside(path), &error)),
    };
    let about: Value = serde_json::from_str(&text).map_err(|_| of_another(path))?;
    let value = |key: &str| about["notes"][0][key].as_str();
    let sum = value(CHECKSUM).filter(|sum| sum.len() == BLANK.len());
    let sum = sum.ok_or_else(|| of_another(path))?;
    if checksum(&rows, &text.replace(sum, BLANK)) != sum {
        return Err(damaged(path));
    }
    if value(IDENTITY) != Some(sweep.identity()) {
        return Err(of_another(path));
    }
    parsed(&rows, sweep).ok_or_else(|| of_another(path)).map(Some)
}

/// Returns the file of the metadata.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-metadata.json");
    PathBuf::from(name)
}

fn checksum(rows: &[u8], blank: &str) -> String {
    hexadecimal(&Sha256::new().chain_update(rows).chain_update(blank).finalize())
}

/// Returns the metadata, with this checksum.
fn metadata(path: &Path, sweep: &Sweep, columns: &[(String, Column)], sum: &str) -> String {
    let column =
        |(name, column): &(String, Column)| json!({ "name": name, "datatype": column.kind() });
    let columns: Vec<Value> = columns.iter().map(column).collect();
    let rows = origin(sweep).into_iter().chain([(CHECKSUM, sum.to_owned())]);
    let notes: Map<String, Value> =
        rows.map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
    let about = json!({
        "@context": "http://www.w3.org/ns/csvw",
        "url": path.file_name().unwrap_or_default().to_string_lossy(),
        "tableSchema": { "columns": columns },
        "notes": [notes],
    });
    format!("{about:#}\n")
}

/// Returns the rows, below one with the names.
fn rows(columns: &[(String, Column)]) -> Result<Vec<u8>, csv::Error> {
    let mut rows = Writer::from_writer(Vec::new());
    rows.write_record(columns.iter().map(|(name, _)| name))?;
    let count = columns.first().map_or(0, |(_, column)| column.len());
    for row in 0..count {
        rows.write_record(columns.iter().map(|(_, column)| column.cell(row)))?;
    }
    rows.into_inner().map_err(|error| error.into_error().into())
}

/// Reads the runs back; `None` if these are not the rows of such a table.
fn parsed(rows: &[u8], sweep: &Sweep) -> Option<BTreeMap<usize, Done>> {
    let mut reader = ReaderBuilder::new().from_reader(rows);
    let names = reader.headers().ok()?.clone();
    let place = |name: &str| names.iter().position(|one| one == name);
    let (run, error) = (place("run")?, place("error")?);
    let metrics = sweep.spec().metrics.iter().map(|metric| place(metric));
    let metrics = metrics.collect::<Option<Vec<_>>>()?;
    let mut done = BTreeMap::new();
    for row in reader.records() {
        let row = row.ok()?;
        let value = |place: &usize| match row.get(*place)? {
            "" => Some(None),
            text => Some(Some(text.parse().ok()?)),
        };
        let values = metrics.iter().map(value).collect::<Option<Vec<Option<f64>>>>()?;
        let error = row.get(error).filter(|text| !text.is_empty()).map(str::to_owned);
        let run = row.get(run)?.parse().ok()?;
        done.insert(run, Done { run, values, error });
    }
    Some(done)
}

impl Column {
    /// Returns the number of rows.
    fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Returns the text of a row: empty where there is no value, and a number such that it reads
    /// back as the same.
    fn cell(&self, row: usize) -> String {
        match self {
            Self::Integers(values) => values[row].to_string(),
            Self::Numbers(values) => values[row].map_or(String::new(), |value| value.to_string()),
            Self::Texts(values) => values[row].clone().unwrap_or_default(),
        }
    }

    /// Returns the name of its type in CSV's metadata.
    fn kind(&self) -> &'static str {
        match self {
            Self::Integers(_) => "integer",
            Self::Numbers(_) => "double",
            Self::Texts(_) => "string",
        }
    }
}
