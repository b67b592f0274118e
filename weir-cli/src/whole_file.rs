//! Files that get their name once they are complete, and never exist otherwise.
//!
//! Until then a file has no name at all (`O_TMPFILE`), so the kernel frees it however the process
//! ends, by SIGINT or SIGKILL. Every error names the file as the user did.

use crate::input::{self, FileId};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A file that is being written.
pub struct WholeFile {
    state: State,
    /// As the user wrote it.
    name: String,
}

/// Where the bytes go.
enum State {
    /// A file without a name, and its final path.
    Nameless(File, PathBuf),
    /// A temporary file, removed unless it is kept, and its final path: for file systems that have
    /// no files without a name, such as NFS.
    Temporary(NamedTempFile, PathBuf),
    /// An existing path that is not a regular file, such as a pipe.
    Stream(File),
}

impl WholeFile {
    /// Creates the file.
    ///
    /// # Errors
    /// The error of the system, with the name; and if the file is an input.
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path.display().to_string();
        if input::was_read(path) {
            return Err(unwritten(&name, &io::Error::other(AN_INPUT)));
        }
        let state = State::of(path).map_err(|error| unwritten(&name, &error))?;
        Ok(Self { state, name })
    }

    /// Writes all of the file at once, and gives it its name.
    ///
    /// # Errors
    /// When it fails, with the name.
    pub fn finish(mut self, bytes: &[u8]) -> Result<(), String> {
        self.write_all(bytes).map_err(|error| error.to_string())?;
        self.keep()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When it fails, with the name.
    pub fn keep(self) -> Result<(), String> {
        let kept = match self.state {
            State::Nameless(_, path) | State::Temporary(_, path) if input::was_read(&path) => {
                Err(io::Error::other(AN_INPUT))
            }
            State::Nameless(file, path) => link(&file, &path),
            State::Temporary(file, path) => file.persist(path).map(drop).map_err(|bad| bad.error),
            State::Stream(_) => Ok(()),
        };
        kept.map_err(|error| cannot("write", &self.name, &error))
    }

    /// As [`WholeFile::keep`], for a name that no file may have.
    ///
    /// # Errors
    /// When a file has it, or it fails, with the name.
    pub fn keep_new(self) -> Result<(), String> {
        let kept = match self.state {
            State::Nameless(file, path) => link_new(&file, &path).map_err(io::Error::from),
            State::Temporary(file, path) => {
                file.persist_noclobber(path).map(drop).map_err(|bad| bad.error)
            }
            State::Stream(_) => Err(Errno::EXIST.into()),
        };
        kept.map_err(|error| cannot("write", &self.name, &error))
    }

    /// Returns the open file. A [`NamedTempFile`] itself would put its own path into errors.
    fn file(&mut self) -> &mut File {
        match &mut self.state {
            State::Nameless(file, _) | State::Stream(file) => file,
            State::Temporary(file, _) => file.as_file_mut(),
        }
    }
}

impl State {
    fn of(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Ok(Self::Stream(File::options().write(true).open(path)?));
        }
        // Follows a symbolic link, which stays.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match open(folder(&path), flags, Mode::from_raw_mode(FILE_MODE)) {
            Ok(file) if Path::new(DESCRIPTORS).exists() => Ok(Self::Nameless(file.into(), path)),
            Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::temporary(path),
            Err(error) => Err(error.into()),
        }
    }

    fn temporary(path: PathBuf) -> io::Result<Self> {
        let mode = fs::Permissions::from_mode(FILE_MODE);
        let file = Builder::new().prefix(PREFIX).permissions(mode).tempfile_in(folder(&path))?;
        Ok(Self::Temporary(file, path))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes).map_err(|error| unwritten(&self.name, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush().map_err(|error| unwritten(&self.name, &error))
    }
}

/// Gives a file without a name this path, which no file may have.
fn link_new(file: &File, path: &Path) -> rustix::io::Result<()> {
    let nameless = format!("{DESCRIPTORS}/{}", file.as_raw_fd());
    linkat(CWD, nameless.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// Gives a file without a name this path, in place of the file that may be there.
fn link(file: &File, path: &Path) -> io::Result<()> {
    match link_new(file, path) {
        // Only a rename replaces a file, so the new one needs a name of its own for a moment.
        Err(Errno::EXIST) => {
            let named = |to: &Path| Ok(link_new(file, to)?);
            let moved = Builder::new().prefix(PREFIX).make_in(folder(path), named)?;
            moved.persist(path).map_err(|bad| bad.error)
        }
        linked => Ok(linked?),
    }
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Writes `text` into a file at once.
///
/// # Errors
/// When it fails, with the name.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    WholeFile::create(path).map_err(|error| error.to_string())?.finish(text.as_bytes())
}

/// As [`write()`], for a file that must not exist.
///
/// # Errors
/// When it exists or writing fails, with the name.
pub fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let mut file = WholeFile::create(path).map_err(|error| error.to_string())?;
    file.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    file.keep_new()
}

/// Writes a value into a file as JSON on several lines, of any length.
///
/// # Errors
/// When it fails, with the name.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let mut file = io::BufWriter::new(WholeFile::create(path).map_err(failed)?);
    serde_json::to_writer_pretty(&mut file, value).map_err(|error| failed(error.into()))?;
    file.write_all(b"\n").map_err(failed)?;
    file.into_inner().map_err(|error| failed(error.into_error()))?.keep()
}

/// Refuses to write over an input, and to write twice to one file. `outputs` are options and their
/// files; `inputs` are files yet to be read, beside those that were, and `-` is standard input.
///
/// # Errors
/// When two files are one; the text names what has to be named otherwise.
pub fn distinct(outputs: &[(&str, &Option<PathBuf>)], inputs: &[&Path]) -> Result<(), String> {
    let given = outputs.iter().filter_map(|(option, path)| Some((*option, path.as_deref()?)));
    let mut before: Vec<(&str, &Path)> = Vec::new();
    for (option, path) in given {
        let shown = path.display();
        if input::was_read(path) || inputs.iter().any(|input| same_file(path, input)) {
            return Err(format!("{option} {shown} is an input; name another file"));
        }
        let same = |one: &&(&str, &Path)| place(one.1) == place(path) || same_file(one.1, path);
        if let Some((other, there)) = before.iter().find(same) {
            let there = there.display();
            return Err(format!("{other} {there} and {option} {shown} are one file; name two"));
        }
        before.push((option, path));
    }
    Ok(())
}

/// Returns the path of a file that need not exist, without links and `..` as far as folders exist.
fn place(path: &Path) -> PathBuf {
    let new = || Some(fs::canonicalize(folder(path)).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(new).unwrap_or_else(|| path.to_owned())
}

/// Returns whether both paths lead to one existing file.
fn same_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| match path.as_os_str() == "-" {
        true => File::from(io::stdin().as_fd().try_clone_to_owned().ok()?).metadata().ok(),
        false => fs::metadata(path).ok(),
    };
    let id = |path: &Path| of(path).map(|there| FileId::of(&there));
    match (id(one), id(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Formats an error of a file.
pub fn cannot(what: &str, name: &str, error: &io::Error) -> String {
    format!("cannot {what} {name}: {error}")
}

fn unwritten(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), cannot("write", name, error))
}

/// Where Linux gives open files a path.
const DESCRIPTORS: &str = "/proc/self/fd";
/// The beginning of the names of temporary files.
const PREFIX: &str = ".weir-";
/// Why a file is not written that was read.
const AN_INPUT: &str = "it is an input; name another file";
/// Reduced by the user's mask, as for any new file.
const FILE_MODE: u32 = 0o666;

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file in a state, over an old one if `there`; checks what is in the folder at each
    /// step.
    fn check(state: impl Fn(&Path) -> State, there: bool) {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        let path = folder.path().join("out");
        if there {
            fs::write(&path, "old").expect("is writable");
        }
        let mut file = WholeFile { state: state(&path), name: "out".to_owned() };
        file.write_all(b"new").expect("is writable");
        assert_eq!(fs::read(&path).is_ok_and(|bytes| bytes == b"old"), there);
        file.keep().expect("gets its name");
        assert_eq!(fs::read(&path).expect("is there"), b"new");
        assert_eq!(fs::read_dir(folder.path()).expect("is readable").count(), 1);
        drop(WholeFile { state: state(&path), name: "out".to_owned() });
        assert_eq!(fs::read_dir(folder.path()).expect("is readable").count(), 1);
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_kept_and_replaces_an_old_one() {
        let nameless = |path: &Path| State::of(path).expect("can be made");
        let temporary = |path: &Path| State::temporary(path.to_owned()).expect("can be made");
        for there in [false, true] {
            check(nameless, there);
            check(temporary, there);
        }
    }
}
