//! Files that get their name once they are complete, and are removed otherwise.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that is being written.
pub enum WholeFile {
    /// A temporary file, removed unless it is kept, and its final name.
    Unnamed(NamedTempFile, PathBuf),
    /// An existing path that is not a regular file, such as a pipe.
    Stream(File),
}

impl WholeFile {
    /// Creates the file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Ok(Self::Stream(File::options().write(true).open(path)?));
        }
        // Follows a symbolic link, which stays.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        builder.prefix(".weir-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(FILE_MODE));
        let file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Self::Unnamed(file, path))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When it fails, with the name.
    pub fn keep(self) -> Result<(), String> {
        let Self::Unnamed(file, path) = self else { return Ok(()) };
        let name = path.display().to_string();
        let kept = file.persist(&path);
        kept.map(drop).map_err(|error| cannot("write", &name, &error.error))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unnamed(file, _) => file.write(bytes),
            Self::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unnamed(file, _) => file.flush(),
            Self::Stream(file) => file.flush(),
        }
    }
}

/// Writes `text` into a file at once.
///
/// # Errors
/// When it fails, with the name.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let name = path.display().to_string();
    let mut file = WholeFile::create(path).map_err(|error| cannot("write", &name, &error))?;
    file.write_all(text.as_bytes()).map_err(|error| cannot("write", &name, &error))?;
    file.keep()
}

/// As [`write()`], for a file that must not exist.
///
/// # Errors
/// When it exists or writing fails, with the name.
pub fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let name = path.display().to_string();
    let mut file = WholeFile::create(path).map_err(|error| cannot("write", &name, &error))?;
    file.write_all(text.as_bytes()).map_err(|error| cannot("write", &name, &error))?;
    let WholeFile::Unnamed(file, path) = file else { return Err(format!("{name} exists")) };
    let kept = file.persist_noclobber(path);
    kept.map(drop).map_err(|error| cannot("write", &name, &error.error))
}

/// Writes a value into a file as JSON on several lines, of any length.
///
/// # Errors
/// When it fails, with the name.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), String> {
    let name = path.display().to_string();
    let failed = |error: io::Error| cannot("write", &name, &error);
    let mut file = io::BufWriter::new(WholeFile::create(path).map_err(failed)?);
    serde_json::to_writer_pretty(&mut file, value).map_err(|error| failed(error.into()))?;
    file.write_all(b"\n").map_err(failed)?;
    file.into_inner().map_err(|error| failed(error.into_error()))?.keep()
}

/// Formats an error of a file.
pub fn cannot(what: &str, name: &str, error: &io::Error) -> String {
    format!("cannot {what} {name}: {error}")
}

/// Reduced by the user's mask, as for any new file.
#[cfg(unix)]
const FILE_MODE: u32 = 0o666;
