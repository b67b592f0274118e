//! Finished runs, kept while a sweep goes on: a line for each batch, in a file beside the table.
//!
//! The first line names the sweep. A line is written whole and reaches the disk before the next
//! batch counts as done; what a death or a full disk left of a line is cut off when the journal is
//! opened again, and a line whose checksum is wrong counts for nothing. So a run is lost only with
//! its line, and none is there twice.

use crate::sweep::{Done, Sweep, hexadecimal};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The journal of one sweep; another process cannot open it meanwhile.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Where the last whole line ends.
    end: u64,
}

#[derive(Serialize)]
struct Head {
    sweep: String,
}

impl Head {
    fn of(sweep: &Sweep) -> Self {
        Self { sweep: sweep.identity().to_owned() }
    }
}

impl Journal {
    /// Returns where the journal of the table at `table` is.
    pub fn place(table: &Path) -> PathBuf {
        let mut name = table.as_os_str().to_owned();
        name.push(".runs");
        PathBuf::from(name)
    }

    /// Opens the journal of the table, or begins it; returns the runs that are done, by number.
    ///
    /// # Errors
    /// When it belongs to another sweep, is in use, or cannot be read or written.
    pub fn open(table: &Path, sweep: &Sweep) -> Result<(Self, BTreeMap<usize, Done>), String> {
        let path = Self::place(table);
        let cannot = |error| format!("cannot use {}: {error}", path.display());
        if std::fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
            return Err(cannot("it is no regular file; name another table".to_owned()));
        }
        let opened = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = opened.map_err(|error| cannot(error.to_string()))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => cannot("another sweep writes it".to_owned()),
            TryLockError::Error(error) => cannot(error.to_string()),
        })?;
        let (done, end) = read(&file, sweep, &path)?;
        file.set_len(end).map_err(|error| cannot(error.to_string()))?;
        file.seek(SeekFrom::End(0)).map_err(|error| cannot(error.to_string()))?;
        let mut journal = Self { path, file, end };
        if end == 0 {
            journal.line(head(sweep)?)?;
        }
        Ok((journal, done))
    }

    /// Keeps runs.
    ///
    /// # Errors
    /// When they cannot be written; then none of them is kept.
    pub fn add(&mut self, done: &[Done]) -> Result<(), String> {
        self.line(batch(&json(&done)?))
    }

    /// Deletes the journal, once the table is there.
    ///
    /// # Errors
    /// As the system says.
    pub fn remove(self) -> Result<(), String> {
        std::fs::remove_file(&self.path)
            .map_err(|error| format!("cannot remove {}: {error}", self.path.display()))
    }

    fn line(&mut self, mut line: Vec<u8>) -> Result<(), String> {
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // A part of a line would hide the next one.
            let _ = self.file.set_len(self.end);
            return Err(format!("cannot write {}: {error}", self.path.display()));
        }
        self.end += line.len() as u64;
        Ok(())
    }
}

fn head(sweep: &Sweep) -> Result<Vec<u8>, String> {
    json(&Head::of(sweep))
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
}

/// Returns the line of a batch, whose runs these are: an object with their checksum.
fn batch(runs: &[u8]) -> Vec<u8> {
    let sum = hexadecimal(&Sha256::digest(runs)[..SUM_BYTES]);
    [br#"{"sum":""#, sum.as_bytes(), RUNS, runs, b"}"].concat()
}

/// Returns the runs of a line; `None` if it is not as it was written.
fn runs(line: &[u8]) -> Option<Vec<Done>> {
    let start = br#"{"sum":""#.len() + 2 * SUM_BYTES + RUNS.len();
    let runs = line.get(start..)?.strip_suffix(b"}")?;
    (batch(runs) == line).then(|| serde_json::from_slice(runs).ok())?
}

/// Returns the runs of a journal, and where its last whole line ends.
fn read(file: &File, sweep: &Sweep, path: &Path) -> Result<(BTreeMap<usize, Done>, u64), String> {
    let shown = path.display();
    let (mut done, mut end) = (BTreeMap::new(), 0);
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line);
        let length = length.map_err(|error| format!("cannot read {shown}: {error}"))?;
        let other = || {
            format!(
                "{shown} was begun by another sweep, or by another version of Weir, or its first \
                 line is damaged; remove it, or name another table"
            )
        };
        if line.last() != Some(&b'\n') {
            // A sweep that is killed may leave a part of its head; any other text is a user's file.
            let is_ours = end > 0 || head(sweep)?.starts_with(&line);
            return if is_ours { Ok((done, end)) } else { Err(other()) };
        }
        if end == 0 {
            if line[..length - 1] != head(sweep)? {
                return Err(other());
            }
        } else {
            // The runs of a damaged line are done again, and those behind it are kept.
            let rows = runs(&line[..length - 1]).unwrap_or_default();
            let own = rows.into_iter().filter(|row| row.run < sweep.runs());
            done.extend(own.map(|row| (row.run, row)));
        }
        end += length as u64;
    }
}

/// How much of a SHA-256 a line has: enough against damage.
const SUM_BYTES: usize = 8;
/// The bytes between the checksum of a line and its runs.
const RUNS: &[u8] = br#"","runs":"#;
