//! A record that a key begins and ends, as `weir record` makes it: to a new file in the current
//! folder, on a thread of its own.
//!
//! Invariant: it ends by itself after [`TIME_MAX`], or soon after [`BYTES_MAX`].

use crate::record::{Progress, Saved, receive};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_control::client;
use weir_control::protocol::Request;

/// A record under way.
pub struct Recording {
    /// The name of the file, in the current folder.
    file: PathBuf,
    progress: Arc<Progress>,
    is_asked: Arc<AtomicBool>,
    thread: JoinHandle<Result<Saved, String>>,
}

impl Recording {
    /// Begins to record the link at this socket, to a file that is called after `name`.
    ///
    /// # Errors
    /// When the link makes no record, or the file cannot be made; the text says why.
    pub fn begin(socket: &Path, name: &str) -> Result<Self, String> {
        let for_ms = Some(TIME_MAX.as_millis() as u64);
        let stream = client::follow(socket, &Request::Record { for_ms })?;
        let made = new_file(Path::new(""), name);
        let (file, out) = made.map_err(|error| format!("no file for a record: {error}"))?;
        let (progress, is_asked) = (Arc::<Progress>::default(), Arc::<AtomicBool>::default());
        let (count, asked) = (Arc::clone(&progress), Arc::clone(&is_asked));
        let work = move || {
            let is_over = || asked.load(Ordering::Relaxed) || count.bytes() >= BYTES_MAX;
            receive(&stream, Box::new(out), &count, &is_over)
        };
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("no thread for a record: {error}"))?;
        Ok(Self { file, progress, is_asked, thread })
    }

    /// Returns how far it is.
    pub fn shown(&self) -> String {
        let (file, progress) = (self.file.display(), &self.progress);
        let mebibytes = progress.bytes() as f64 / f64::from(1 << 20);
        let ends = if self.is_asked.load(Ordering::Relaxed) { "it ends" } else { "r ends it" };
        format!("recording to {file}: {} frames, {mebibytes:.1} MiB; {ends}", progress.frames())
    }

    /// Requests the end of the record, without waiting for it.
    pub fn end(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Returns whether all of it is written.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Requests the end of the record and waits for it, for up to [`END_PATIENCE`]; returns what
    /// the file holds.
    pub fn finish(self) -> String {
        self.end();
        let (file, start) = (&self.file, Instant::now());
        while !self.is_over() {
            if start.elapsed() > END_PATIENCE {
                let file = file.display();
                return format!("{file}: the link does not end the record; it lacks its last part");
            }
            std::thread::sleep(LOOK);
        }
        match self.thread.join() {
            Ok(Ok(saved)) => {
                let early = saved.early().map(|why| format!("; {why}"));
                saved.text(&file.display().to_string()) + &early.unwrap_or_default()
            }
            Ok(Err(why)) => format!("{}: {why}", file.display()),
            Err(_) => format!("{}: its writer failed", file.display()),
        }
    }
}

/// Makes the first of `NAME-1.pcapng`, `NAME-2.pcapng` … that is not there.
fn new_file(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    // The name may be the path of a socket.
    let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let fits = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let stem: String = stem.chars().map(fits).take(STEM_MAX).collect();
    for number in 1..=FILES_MAX {
        let path = folder.join(format!("{stem}-{number}.pcapng"));
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let text = format!("there are {FILES_MAX} records of it in this folder; move some away");
    Err(io::Error::other(text))
}

/// The longest record from here; `weir record` makes longer ones.
pub const TIME_MAX: Duration = Duration::from_secs(600);
/// A record from here ends soon after so many bytes.
pub const BYTES_MAX: u64 = 1 << 30;
/// The longest wait for the end of a record.
const END_PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);
const FILES_MAX: u32 = 1000;
/// The most characters of a name that become a part of the file's.
const STEM_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gets_a_new_file_called_after_its_link() {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        let name = |name: &str| {
            let (path, _) = new_file(folder.path(), name).expect("it can be made");
            path.file_name().expect("it has one").to_string_lossy().into_owned()
        };
        assert_eq!(name("home"), "home-1.pcapng");
        assert_eq!(name("home"), "home-2.pcapng", "the first one stays");
        assert_eq!(name("/run/weir/a b.sock"), "a-b-1.pcapng");
    }
}
