//! Reading a file that a user names, with a bound: the only I/O of this crate.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Reads the file, at most one byte more than [`FILE_BYTES_MAX`], so that the parser sees that it
/// is too large without reading it all.
///
/// # Errors
/// As the system says.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    bounded(File::open(path)?)
}

/// As [`read`], for a file that another file names. It must be a regular file: reading a
/// pipe that has no writer never ends.
///
/// # Errors
/// As the system says, and for pipes, sockets and devices.
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    let there = fs::metadata(path)?;
    if !there.is_file() && !there.is_dir() {
        return Err(io::Error::other("it is a pipe, a socket or a device; name a regular file"));
    }
    read(path)
}

/// As [`read`], of a path on the command line: `-` is standard input.
///
/// # Errors
/// As the system says.
pub fn read_or_stdin(path: &Path) -> io::Result<Vec<u8>> {
    if path == Path::new("-") { bounded(io::stdin().lock()) } else { read(path) }
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the files that another file names.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Reads no file: the [`ReadFile`] of a text that is in no folder.
///
/// # Errors
/// Always.
pub fn none(_: &Path) -> io::Result<Vec<u8>> {
    Err(io::Error::other("a text that is not a file has no files beside it"))
}

/// Bound: bytes of a policy, deployment, scenario or list; a longer file is refused. A hundred
/// thousand classes of 160 bytes.
pub const FILE_BYTES_MAX: usize = 16 << 20;
