//! Where events are written: standard output, and a file.
//!
//! None of this belongs to a thread that forwards, and a file to none that others wait for
//! ([`super::apart`]): a disk may be slow, or hang. Invariant of a file: each
//! event is one whole line of it, or is counted and told by the next line that fits.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_host::error::{Result, SystemError};
use weir_host::outlet;
use weir_link::events::{self, About, Event, Kind, rfc3339};

/// Writes events; docs/events.md describes the forms.
pub trait Writer: Send {
    /// Writes one event. What cannot be written is lost.
    fn write(&mut self, event: &Event);

    /// Writes that so many events did not reach the queue.
    fn miss(&mut self, count: u64, why: &str);

    /// Returns whether it has yet to tell that events are missing.
    fn is_behind(&self) -> bool {
        false
    }

    /// Tries once more to tell it.
    fn tell_again(&mut self) {}
}

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Time, severity and sentence, for people.
    Text,
    /// For the journal of systemd, which has the time: severity as a number, and sentence.
    Journal,
    /// One object of JSON a line.
    Json,
}

impl Form {
    /// Returns the form for people on this output: that of the journal if the output is the one
    /// that `$JOURNAL_STREAM` names, as systemd sets it for services (systemd.exec(5)).
    pub fn for_people(output: BorrowedFd<'_>) -> Self {
        let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        let copy = output.try_clone_to_owned().map(File::from);
        match copy.and_then(|output| output.metadata()) {
            Ok(metadata) if is_stream(&stream, &metadata) => Self::Journal,
            _ => Self::Text,
        }
    }

    /// Returns an event as a line, with its end.
    pub fn line(self, event: &Event) -> String {
        let severity = event.kind.severity();
        match self {
            Self::Text => {
                // Milliseconds are enough for people.
                let time = rfc3339(event.at_ns);
                let (time, _) = time.split_at("1970-01-01T00:00:00.000".len());
                format!("{time}Z {}: {}\n", severity.keyword(), one_line(&event.text()))
            }
            Self::Journal => format!("<{}>{}\n", severity.number(), one_line(&event.text())),
            Self::Json => format!("{}\n", event.json()),
        }
    }
}

/// Returns whether `$JOURNAL_STREAM`, a device and an inode, names this file.
fn is_stream(stream: &str, metadata: &Metadata) -> bool {
    stream == format!("{}:{}", metadata.dev(), metadata.ino())
}

/// Replaces control characters: an event is one line, and tells a terminal nothing else.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Writes events to standard output, in JSON or for people. What its reader does not take in time
/// is lost, and the next line that it takes says how much that was; one that is gone loses all.
pub struct Printed {
    form: Form,
}

impl Printed {
    /// Prints in JSON, or for people.
    pub fn new(json: bool) -> Self {
        let form = if json { Form::Json } else { Form::for_people(io::stdout().as_fd()) };
        Self { form }
    }
}

impl Writer for Printed {
    fn write(&mut self, event: &Event) {
        let lost = outlet::lost();
        let gap = if lost > 0 { self.form.line(&events::lost(lost)) } else { String::new() };
        let text = gap + &self.form.line(event);
        if outlet::print(&text, PRINT_PATIENCE).is_ok() {
            outlet::forgive(lost);
        }
    }

    fn miss(&mut self, count: u64, _why: &str) {
        self.write(&events::lost(count));
    }
}

/// How long a reader may take for a line.
pub const PRINT_PATIENCE: Duration = Duration::from_millis(100);

/// Appends events to a file, which may be moved away, as logrotate does: then it is made anew.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    form: Form,
    file: Option<File>,
    /// Whether the last line in the file has no end, because the disk was full.
    is_torn: bool,
    /// Lines that could not be written, and why the last one could not.
    missing: u64,
    why: String,
    failing: Failing,
}

/// Why lines cannot be written now, for other threads.
#[derive(Clone, Debug, Default)]
pub struct Failing(Arc<Mutex<Option<String>>>);

impl Failing {
    /// Returns why, if they cannot.
    pub fn why(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, why: Option<&str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why.map(str::to_owned);
    }
}

impl LogFile {
    /// Opens the file, or makes it, readable to its user and group.
    ///
    /// # Errors
    /// When it cannot be opened for writing.
    pub fn open(path: &Path, form: Form) -> Result<Self> {
        let file = append_to(path).map_err(|cause| {
            let action = format!("write the log `{}`", path.display());
            SystemError { action, cure: cure(&cause).into(), cause }
        })?;
        Ok(Self {
            path: path.to_owned(),
            form,
            file: Some(file),
            is_torn: false,
            missing: 0,
            why: String::new(),
            failing: Failing::default(),
        })
    }

    /// Notes from now on in `failing` whether lines can be written.
    pub fn note_in(self, failing: Failing) -> Self {
        Self { failing, ..self }
    }

    /// Opens the file of this name if it is another one now, or is not open.
    fn follow(&mut self) -> io::Result<&File> {
        let file = match self.file.take().filter(|file| is_at(file, &self.path)) {
            Some(file) => file,
            None => {
                self.is_torn = false;
                append_to(&self.path)?
            }
        };
        Ok(self.file.insert(file))
    }

    /// Returns the line that tells of those that are missing, if any are.
    fn gap(&self) -> String {
        if self.missing == 0 {
            return String::new();
        }
        let subject = self.path.display().to_string();
        let about = About { subject: &subject, detail: &self.why, ..About::default() };
        let gap = Event { count: self.missing, ..Event::now(Kind::LogGap, about) };
        self.form.line(&gap)
    }

    /// Writes a line whole, or returns why not.
    fn append(&mut self, line: &str) -> io::Result<()> {
        // What is behind a torn line stands on a line of its own.
        let start = if self.is_torn { "\n" } else { "" };
        let whole = format!("{start}{line}");
        let mut file = self.follow()?;
        // One call, so that two processes that append do not mix their lines.
        let written = file.write(whole.as_bytes())?;
        self.is_torn = written < whole.len() && (written > 0 || self.is_torn);
        if written < whole.len() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }
}

impl Writer for LogFile {
    fn write(&mut self, event: &Event) {
        let lines = self.gap() + &self.form.line(event);
        match self.append(&lines) {
            Ok(()) => {
                self.missing = 0;
                self.failing.set(None);
            }
            Err(error) => {
                self.missing += 1;
                self.why = error.to_string();
                self.failing.set(Some(&self.why));
            }
        }
    }

    fn miss(&mut self, count: u64, why: &str) {
        self.missing += count;
        why.clone_into(&mut self.why);
        self.tell_again();
    }

    fn is_behind(&self) -> bool {
        self.missing > 0
    }

    fn tell_again(&mut self) {
        if self.append(&self.gap()).is_ok() {
            self.missing = 0;
            self.failing.set(None);
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK, opening a pipe without a reader would block.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags).open(path)
}

/// Returns what to do about a log that cannot be opened.
fn cure(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::ENOENT) => "make its folder, or name another file in `log`",
        Some(libc::ENXIO) => "it is a pipe that nothing reads: start its reader first",
        _ => "let this user write there, or name another file in `log`",
    }
}

/// Returns whether the open file is the one that has this name.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(subject: &str) -> Event {
        Event::at(Kind::PortDown, 1_700_000_000_123_456_789, About { subject, ..About::default() })
    }

    #[test]
    fn an_event_is_one_line_in_each_form() {
        let rows = [
            (
                Form::Text,
                "2023-11-14T22:13:20.123Z warning: `eth0` is down: it was set down, or has no \
                 carrier\n",
            ),
            (Form::Journal, "<4>`eth0` is down: it was set down, or has no carrier\n"),
        ];
        for (form, wanted) in rows {
            assert_eq!(form.line(&event("eth0")), wanted);
        }
        let hostile = event("eth0\n<0>\x1b[2J");
        for form in [Form::Text, Form::Journal, Form::Json] {
            let line = form.line(&hostile);
            assert_eq!(line.matches(char::is_control).collect::<String>(), "\n", "{line}");
        }
    }

    #[test]
    fn the_journal_is_known_by_its_device_and_inode() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        let metadata = file.as_file().metadata().expect("it can be asked");
        let (device, inode) = (metadata.dev(), metadata.ino());
        let rows = [
            (format!("{device}:{inode}"), true),
            (format!("{device}:{}", inode + 1), false),
            (String::new(), false),
        ];
        for (stream, wanted) in rows {
            assert_eq!(is_stream(&stream, &metadata), wanted, "{stream}");
        }
    }

    /// Returns the subjects of the lines of a log, or what else it says.
    fn read(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("the log is there");
        let word = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).expect("a line is whole");
            let (event, subject) = (&value["event"], &value["subject"]);
            if event == "port-down" {
                return subject.as_str().unwrap_or_default().to_owned();
            }
            format!("{}: {}", event.as_str().unwrap_or_default(), value["count"])
        };
        text.lines().map(word).collect()
    }

    #[test]
    fn a_log_that_is_moved_away_is_made_anew() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (path, old) = (folder.path().join("x.log"), folder.path().join("x.log.1"));
        let mut log = LogFile::open(&path, Form::Json).expect("it can be made");
        log.write(&event("a"));
        std::fs::rename(&path, &old).expect("it can be moved");
        log.write(&event("b"));
        drop(log);
        let mut log = LogFile::open(&path, Form::Json).expect("it can be opened");
        log.write(&event("c"));
        assert_eq!((read(&old), read(&path)), (vec!["a".into()], vec!["b".into(), "c".into()]));
        assert_eq!(std::fs::metadata(&path).expect("it is there").mode() & 0o137, 0);
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_and_a_full_one_loses_lines() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("a pipe can be made");
        let error = LogFile::open(&path, Form::Json).expect_err("nothing reads").to_string();
        assert!(error.contains("start its reader first"), "{error}");
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let reader = reader.expect("it is its own");
        let mut log = LogFile::open(&path, Form::Json).expect("something may read");
        // More than a pipe holds.
        (0..2000).for_each(|_| log.write(&event("x")));
        assert!(log.missing > 100, "{}", log.missing);
        drop(reader);
        let missing = log.missing;
        log.write(&event("x"));
        assert_eq!(log.missing, missing + 1, "a reader that is gone takes nothing");
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_them() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x.log");
        // To a file on a full disk, /dev/full is the same.
        std::os::unix::fs::symlink("/dev/full", &path).expect("a link can be made");
        let failing = Failing::default();
        let log = LogFile::open(&path, Form::Json).expect("it can be opened");
        let mut log = log.note_in(failing.clone());
        (0..3).for_each(|_| log.write(&event("lost")));
        assert!(failing.why().is_some_and(|why| why.contains("No space left")), "{failing:?}");
        std::fs::remove_file(&path).expect("the link can be removed");
        log.write(&event("a"));
        assert_eq!(failing.why(), None);
        log.write(&event("b"));
        assert_eq!(read(&path), ["log-gap: 3", "a", "b"]);
        // A folder that vanished, and one that came back.
        std::fs::remove_dir_all(folder.path()).expect("it can be removed");
        log.write(&event("lost"));
        std::fs::create_dir(folder.path()).expect("it can be made again");
        log.write(&event("c"));
        assert_eq!(read(&path), ["log-gap: 1", "c"]);
    }
}
