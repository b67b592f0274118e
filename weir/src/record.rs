//! `weir record`: writes what a running link does to a file.

use crate::output::{Exit, Format, Output};
use crate::{Run, link};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weir_cli::time::{LEAST, YEAR, seconds};
use weir_control::client;
use weir_control::protocol::Request;
use weir_host::signals::StopSignal;
use weir_trace::record::{End, Fate, RecordFault, RecordReader, Step};

/// Records what a running link does, until Ctrl-C or for a time, or what it did of late.
///
/// The file has every call that the schedulers got and what came of it. `weir replay --record`
/// makes it again and compares; Wireshark and `weir sim --from` read its frames. It holds the first
/// bytes of each frame and the policies, so only root and the user who runs the link may record.
/// A full disk or a slow reader ends the record and never the link: then this exits 1. Exits 2 if
/// nothing was recorded. docs/record.md describes the file.
#[derive(clap::Args)]
#[command(override_usage = "weir record [OPTIONS] [NAME|--control <SOCKET>] -o <FILE>")]
pub struct Record {
    /// The name of the deployment, not its file; not needed where only one link runs.
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// The file, which only its owner may read; a record that is there is replaced, any other file
    /// is not. `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Record for so long.
    #[arg(long, value_name = "N|TIME", value_parser = seconds(LEAST..=YEAR))]
    seconds: Option<Duration>,
    /// Write what the link did of late, and end: it must keep that, by `ring = "64 MiB"` in
    /// `[deployment]`.
    #[arg(long, conflicts_with = "seconds")]
    last: bool,
}

impl Run for Record {
    fn run(self, output: &Output) -> Exit {
        let for_ms = self.seconds.map(|time| time.as_millis() as u64);
        let link = Link { name: self.name, control: self.control };
        let request = match self.last {
            true => Request::Snapshot { from_ms: None, to_ms: None },
            false => Request::Record { for_ms },
        };
        save(&link, &request, &self.output, output)
    }
}

/// How a link is named.
pub struct Link {
    /// The name of the link.
    pub name: Option<String>,
    /// The path of its control socket.
    pub control: Option<PathBuf>,
}

/// Requests a record, writes it to a file, and says what it holds.
pub fn save(link: &Link, request: &Request, path: &Path, output: &Output) -> Exit {
    if is_standard(path) && output.format == Format::Json {
        return output.refuse("`-o -` writes the record to standard output, where JSON would go");
    }
    if is_standard(path) && io::stdout().is_terminal() {
        return output.refuse("a record is no text for a terminal; name a file, or use a pipe");
    }
    match fetch(link, request, path) {
        Ok(saved) => saved.show(path, output),
        Err(why) => output.refuse(&why),
    }
}

/// Requests a record and writes it to a file, until it is whole or a signal comes.
///
/// # Errors
/// When there is no record; the text says why. One that ends early is none.
pub fn fetch(link: &Link, request: &Request, path: &Path) -> Result<Saved, String> {
    let socket = link::socket(link.name.as_deref(), link.control.as_ref(), "record")?;
    let stream = client::follow(&socket, request)?;
    // Before signals are handled: to open a pipe that nobody reads waits for ever.
    let to: Box<dyn Write + Send> = match is_standard(path) {
        true => Box::new(io::stdout()),
        false => Box::new(create(path)?),
    };
    let stop = StopSignal::install().map_err(|error| error.to_string())?;
    receive(&stream, to, &Progress::default(), &|| stop.requested())
}

/// Opens the file of a record: a new one that only its owner may read, as it holds parts of frames,
/// or one in the place of an earlier record or of an empty file.
fn create(path: &Path) -> Result<File, String> {
    let cannot = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    if is_file && !is_replaceable(path).map_err(cannot)? {
        return Err(format!(
            "{} exists and is not a record; name another file, or remove it first",
            path.display()
        ));
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).map_err(cannot)
}

/// Returns whether a file holds a record, whole or not, or nothing.
fn is_replaceable(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    Ok(file.metadata()?.len() == 0 || RecordReader::new(BufReader::new(file)).is_ok())
}

/// Returns whether a path stands for standard output.
fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// How far a record is.
#[derive(Default)]
pub struct Progress {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Returns the frames so far.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Returns the bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The record that was received.
pub struct Saved {
    frames: u64,
    bytes: u64,
    end: Option<End>,
    fault: Option<String>,
}

impl Saved {
    /// Returns what a file holds.
    pub fn text(&self, file: &str) -> String {
        format!("{file}: {} frames, {} bytes", self.frames, self.bytes)
    }

    /// Returns why it ends early, if it does.
    pub fn early(&self) -> Option<String> {
        let why = match (self.end, &self.fault) {
            (Some(end), None) if end.is_whole() => return None,
            (Some(end), None) => end.name(),
            (_, fault) => fault.as_deref().unwrap_or("the link is gone"),
        };
        Some(format!("the record ends early: {why}"))
    }

    fn show(&self, path: &Path, output: &Output) -> Exit {
        let Self { frames, bytes, end, fault } = self;
        match output.format {
            // The record is there.
            _ if is_standard(path) => output.warn(&self.text("standard output")),
            Format::Json => output.json(&json!({
                "file": path,
                "frames": frames,
                "bytes": bytes,
                "end": end.map(End::name),
                "fault": fault,
            })),
            Format::Text => output.text(&(self.text(&path.display().to_string()) + "\n")),
        }
        if *frames == 0 && self.early().is_none() {
            output
                .warn("no frame came meanwhile; `weir top` shows whether traffic passes the link");
        }
        self.early().map_or(Exit::Clean, |why| output.fault(&why))
    }
}

/// Writes what comes, and reads along: so what is wrong with it is known at once. When it should
/// end, the rest of it is still written.
///
/// # Errors
/// When nothing of a record comes.
pub fn receive(
    stream: &UnixStream,
    to: Box<dyn Write + Send>,
    progress: &Progress,
    should_end: &(dyn Fn() -> bool + Sync),
) -> Result<Saved, String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if should_end() {
                    // A link that is gone needs no request.
                    let _gone = stream.shutdown(Shutdown::Write);
                    return;
                }
                std::thread::sleep(LOOK);
            }
        });
        let saved = follow(stream, to, progress);
        is_over.store(true, Ordering::Relaxed);
        saved
    })
}

fn follow(
    stream: &UnixStream,
    to: Box<dyn Write + Send>,
    progress: &Progress,
) -> Result<Saved, String> {
    let mut unwritten = None;
    let to = BufWriter::with_capacity(PART, to);
    let both = Both { from: stream, to, bytes: &progress.bytes, error: &mut unwritten };
    let mut saved = Saved { frames: 0, bytes: 0, end: None, fault: None };
    let reader = RecordReader::new(BufReader::with_capacity(PART, both));
    let mut reader = reader.map_err(|error| error.to_string())?;
    saved.fault = loop {
        match reader.next_step() {
            Ok(Some((_, Step::End(end)))) => saved.end = Some(end),
            Ok(Some((_, Step::Arrival(arrival)))) => {
                let is_new = u64::from(arrival.fate != Fate::Resumed);
                progress.frames.fetch_add(is_new, Ordering::Relaxed);
            }
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => match error.fault {
                RecordFault::Read(error) => break Some(error.to_string()),
                _ => break Some(error.to_string()),
            },
        }
    };
    drop(reader);
    (saved.frames, saved.bytes) = (progress.frames(), progress.bytes());
    if let Some(error) = unwritten {
        saved.fault = Some(format!("cannot write: {error}"));
    }
    Ok(saved)
}

/// Reads from one side and writes all of it to the other.
struct Both<'a> {
    from: &'a UnixStream,
    to: BufWriter<Box<dyn Write + Send>>,
    bytes: &'a AtomicU64,
    error: &'a mut Option<io::Error>,
}

impl Read for Both<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(bytes)?;
        let written = match count {
            0 => self.to.flush(),
            _ => self.to.write_all(&bytes[..count]),
        };
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        written.map_err(|error| {
            let text = io::Error::other(error.to_string());
            *self.error = Some(error);
            text
        })?;
        Ok(count)
    }
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.to.flush()
            && self.error.is_none()
        {
            *self.error = Some(error);
        }
    }
}

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that are read and written at once.
const PART: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_record_or_an_empty_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("home.toml");
        let policy = "[link]\nrate = \"10 Mbit/s\"\n";
        std::fs::write(&path, policy).expect("written");
        let why = create(&path).expect_err("a policy is no record");
        assert!(why.contains("is not a record"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), policy);

        let path = folder.path().join("r.pcapng");
        drop(create(&path).expect("a new file"));
        let mode = path.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(create(&path).expect("an empty file is replaced"));
    }
}
