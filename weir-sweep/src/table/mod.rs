//! The finished table: a file with a row for each run, and where it comes from.
//!
//! Columns are `run`, `point`, `replication`, `seed`, each key that varies, each metric, and
//! `error`. Beside them, in the metadata of a Parquet file or in the file beside a CSV, are the
//! version, the commit, the seed, the hash of the scenario with its files, the specification, and a
//! checksum of all. Nothing depends on when, where or in which order runs were done, so equal
//! sweeps give equal files.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;

use crate::sweep::{COMMIT, Done, Sweep, VERSION};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::Path;
use tempfile::NamedTempFile;

/// The values of a column, in the order of rows.
pub enum Column {
    /// Integers, such as seeds.
    Integers(Vec<i64>),
    /// Numbers; `None` is an empty cell.
    Numbers(Vec<Option<f64>>),
    /// Texts; `None` is an empty cell.
    Texts(Vec<Option<String>>),
}

/// Writes the table, which gets its name once it is whole: a CSV if it ends in `.csv`, otherwise a
/// Parquet file.
///
/// # Errors
/// When a run is missing, or the file cannot be written.
pub fn write(path: &Path, sweep: &Sweep, done: &BTreeMap<usize, Done>) -> Result<(), String> {
    if let Some(run) = (0..sweep.runs()).find(|run| !done.contains_key(run)) {
        return Err(format!("run {run} is missing"));
    }
    let columns = columns(sweep, done);
    match Form::of(path)? {
        Form::Csv => csv::write(path, sweep, &columns),
        #[cfg(feature = "parquet")]
        Form::Parquet => parquet::write(path, sweep, &columns),
    }
}

/// Returns the runs of a finished table; `None` if there is no file.
///
/// # Errors
/// When the file is another sweep's, no table, or damaged, or this build reads no such table.
pub fn read(path: &Path, sweep: &Sweep) -> Result<Option<BTreeMap<usize, Done>>, String> {
    match Form::of(path)? {
        Form::Csv => csv::read(path, sweep),
        #[cfg(feature = "parquet")]
        Form::Parquet => parquet::read(path, sweep),
    }
}

/// The form of a table.
enum Form {
    Csv,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Form {
    /// Returns the form by the name of the file.
    fn of(path: &Path) -> Result<Self, String> {
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) {
            return Ok(Self::Csv);
        }
        #[cfg(feature = "parquet")]
        return Ok(Self::Parquet);
        #[cfg(not(feature = "parquet"))]
        Err(format!("{}: {WITHOUT_PARQUET}", path.display()))
    }
}

/// Writes a file, which gets its name once it is whole.
fn whole(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let mut file = file.map_err(|error| cannot_write(path, &reason(&error)))?;
    let written = fill(file.as_file_mut()).and_then(|()| file.as_file().sync_all());
    let written = written.and_then(|()| readable_by_others(file.as_file()));
    written.map_err(|error| cannot_write(path, &error))?;
    file.persist(path).map(drop).map_err(|failed| cannot_write(path, &failed.error))
}

/// Returns what the system said, without the name of the temporary file.
fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.source());
    inner.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Temporary files are their owner's alone, and a table is not.
fn readable_by_others(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Returns where a table comes from, without its checksum: keys and values.
fn origin(sweep: &Sweep) -> Vec<(&'static str, String)> {
    vec![
        (IDENTITY, sweep.identity().to_owned()),
        ("weir.version", VERSION.to_owned()),
        ("weir.commit", COMMIT.to_owned()),
        ("weir.seed", sweep.seed().to_string()),
        ("weir.scenario", sweep.scenario_hash()),
        ("weir.spec", serde_json::to_string(sweep.spec()).unwrap_or_default()),
    ]
}

fn cannot_write(path: &Path, error: &dyn Display) -> String {
    format!("cannot write {}: {error}", path.display())
}

fn cannot_read(path: &Path, error: &dyn Display) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn of_another(path: &Path) -> String {
    format!(
        "{} exists and is of another sweep, of another version of Weir, or no table; name another \
         file",
        path.display()
    )
}

fn damaged(path: &Path) -> String {
    format!(
        "{} is damaged: its checksum is not that of its bytes; remove it, and the same command \
         does its runs again",
        path.display()
    )
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

/// The columns that every table has.
pub(crate) const OWN: [&str; 5] = ["run", "point", "replication", "seed", "error"];
/// The key of what tells a sweep from others.
const IDENTITY: &str = "weir.sweep";
/// The key of the checksum.
const CHECKSUM: &str = "weir.sha256";
/// Stands in the place of the checksum while it is computed: as long as one in hexadecimal.
const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Why there is no Parquet, and the cure.
#[cfg(not(feature = "parquet"))]
const WITHOUT_PARQUET: &str = "this build has no Parquet; name a file that ends in .csv, or \
                               install Weir with Parquet: `cargo install --locked --path weir \
                               --features full`";
