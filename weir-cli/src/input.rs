//! Reading the files that a user names, on the command line or inside another file.
//!
//! Which files were read is kept for the whole process, so that no output can replace one of them:
//! see `whole_file.rs`.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_policy::file;

/// Reads a file that the command line names.
///
/// # Errors
/// As the system says.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    remember(path);
    file::read(path)
}

/// As [`read()`], however long it is: for a file that is passed on, and not parsed.
///
/// # Errors
/// As the system says.
pub fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    remember(path);
    fs::read(path)
}

/// As [`read()`]; `-` is standard input.
///
/// # Errors
/// As the system says.
pub fn read_or_stdin(path: &Path) -> io::Result<Vec<u8>> {
    remember(path);
    file::read_or_stdin(path)
}

/// Reads a file that another file names.
///
/// # Errors
/// As the system says, and for what is not a regular file.
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    remember(path);
    file::read_named(path)
}

/// Opens a file that is read piece by piece.
///
/// # Errors
/// As the system says.
pub fn open(path: &Path) -> io::Result<File> {
    remember(path);
    File::open(path)
}

/// Returns whether this path leads to a file that was read.
pub fn was_read(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| inputs().contains(&FileId::of(&there)))
}

/// Devices and pipes can be both read and written, so only regular files are kept.
fn remember(path: &Path) {
    if let Some(there) = fs::metadata(path).ok().filter(Metadata::is_file) {
        inputs().push(FileId::of(&there));
    }
}

fn inputs() -> MutexGuard<'static, Vec<FileId>> {
    INPUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The identity of a file, whatever its names are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns that of a file.
    pub fn of(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

/// The files that were read. A command names a few, so they are searched one by one.
static INPUTS: Mutex<Vec<FileId>> = Mutex::new(Vec::new());
