//! Replays from file to file. Nothing here calls Python.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use weir_policy::Policy;
use weir_sim::replay::{InterfaceMap, Outputs, ReplayError, ReplayReport};
use weir_trace::capture::{CaptureError, CaptureFault, CaptureReader, CaptureWriter};

/// Why there is no report.
pub enum Trouble {
    /// A file cannot be read or written; the text names it.
    System(io::Error),
    /// The files can be read, but not used; the text says why.
    Refused(String),
}

/// Replays the capture at `capture` through `policy`, and writes the departures to `output`.
///
/// # Errors
/// When a file cannot be read, used or written; damage past a capture's header is reported.
pub fn run(
    policy: &Policy,
    capture: &Path,
    output: Option<&Path>,
) -> Result<ReplayReport, Trouble> {
    let map =
        InterfaceMap::new(policy, &[]).map_err(|error| Trouble::Refused(error.to_string()))?;
    let file = File::open(capture).map_err(|error| cannot("read", capture, &error))?;
    let mut reader = CaptureReader::new(file).map_err(|error| no_capture(capture, &error))?;
    let Some(output) = output else {
        let mut outputs = Outputs::<io::Sink> { departures: None, drops: None, timeline: None };
        let replayed = weir_sim::replay(policy, &map, &mut reader, &mut outputs);
        return replayed.map_err(|error| Trouble::Refused(error.to_string()));
    };
    let output = target(output, capture)?;
    let cannot_write = |error: &io::Error| cannot("write", &output, error);
    let departures = create(&output).map_err(|error| cannot_write(&error))?;
    let mut outputs = Outputs { departures: Some(departures), drops: None, timeline: None };
    let replayed = weir_sim::replay(policy, &map, &mut reader, &mut outputs);
    let report = replayed.map_err(|error| match error {
        ReplayError::Link(error) => Trouble::Refused(error.to_string()),
        ReplayError::Write(error) => cannot_write(&error),
    })?;
    let written = outputs.departures.map_or(Ok(()), |writer| keep(writer, &output));
    written.map(|()| report).map_err(|error| cannot_write(&error))
}

/// Writes to a temporary file, which is removed unless it is kept.
type Writer = CaptureWriter<BufWriter<NamedTempFile>>;

/// Returns the final path of `output`; refuses the capture and anything but a regular file.
fn target(output: &Path, capture: &Path) -> Result<PathBuf, Trouble> {
    let shown = output.display();
    // Follows a symbolic link, which stays.
    let target = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    if fs::canonicalize(capture).is_ok_and(|capture| capture == target) {
        let message = format!("output_path {shown} is the capture; name another file");
        return Err(Trouble::Refused(message));
    }
    if fs::metadata(&target).is_ok_and(|there| !there.is_file()) {
        let message = format!("output_path {shown} exists and is not a regular file; name a file");
        return Err(Trouble::Refused(message));
    }
    Ok(target)
}

fn create(path: &Path) -> io::Result<Writer> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".weir-").suffix(".pcapng");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(FILE_MODE));
    CaptureWriter::new(BufWriter::new(builder.tempfile_in(folder.unwrap_or(Path::new(".")))?))
}

fn keep(writer: Writer, path: &Path) -> io::Result<()> {
    let file = writer.finish()?.into_inner()?;
    file.persist(path)?;
    Ok(())
}

fn no_capture(path: &Path, error: &CaptureError) -> Trouble {
    let message = format!("{}: {error}", path.display());
    match &error.fault {
        CaptureFault::Read(source) => Trouble::System(io::Error::new(source.kind(), message)),
        _ => Trouble::Refused(message),
    }
}

/// Returns an error of the same kind, so that Python has the same class for it, with the path in
/// its text.
pub fn cannot(what: &str, path: &Path, error: &io::Error) -> Trouble {
    let message = format!("cannot {what} {}: {error}", path.display());
    Trouble::System(io::Error::new(error.kind(), message))
}

/// Reduced by the user's mask, as for any new file.
#[cfg(unix)]
const FILE_MODE: u32 = 0o666;
