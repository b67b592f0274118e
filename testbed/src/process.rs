//! A child that is supervised: its output never blocks it, it ends within the patience of a test,
//! and it is gone when its value is.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weir_host::netns::NetNs;

use crate::{Result, until, until_some};

/// A child with its output so far.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: Printed,
    stderr: Printed,
}

/// A process that ended, and all that it printed.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The exit code or the signal.
    pub status: ExitStatus,
    /// All that it printed on standard output.
    pub stdout: String,
    /// All that it printed on standard error.
    pub stderr: String,
}

/// One output of a process, which a thread reads until its end.
#[derive(Debug)]
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Process {
    /// Starts a program, without input.
    ///
    /// # Errors
    /// As the system says.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run `{name}`: {error}"))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let stdout = Printed::collect(out.expect("it is a pipe"));
        let stderr = Printed::collect(err.expect("it is a pipe"));
        Ok(Self { child, stdout, stderr })
    }

    /// As [`Process::start`], inside a network namespace.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_in(namespace: &NetNs, command: &mut Command) -> Result<Self> {
        namespace.run(|| Self::start(command))?
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, by its name: "TERM".
    ///
    /// # Errors
    /// When it has ended, or there is no signal of this name.
    pub fn signal(&self, name: &str) -> Result<()> {
        signal(self.id(), name)
    }

    /// Returns whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the time that processors have spent on it: how far it has come, as no pause of the
    /// machine counts.
    pub fn processor_time(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let fields = text.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
        let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        // Linux tells hundredths of a second (USER_HZ), on every machine.
        Duration::from_millis(10 * ticks.sum::<u64>())
    }

    /// Waits until it ends. A process that it started may still hold its outputs.
    ///
    /// # Errors
    /// When it does not end; the text has what it printed.
    pub fn wait_for_exit(&mut self) -> Result<ExitStatus> {
        let what = format!("process {} ends", self.id());
        let ended = until_some(&what, || self.child.try_wait().transpose());
        match ended {
            Ok(status) => Ok(status?),
            Err(why) => Err(format!("{why}\n{}", self.printed()).into()),
        }
    }

    /// Waits until it ends, and with it every process that it started and that has its outputs;
    /// returns all that they printed.
    ///
    /// # Errors
    /// When one of them does not end; the text has what was printed.
    pub fn wait_for_output(&mut self) -> Result<Ended> {
        let status = self.wait_for_exit()?;
        let is_read = || self.stdout.reader.is_finished() && self.stderr.reader.is_finished();
        let read = until("the end of what it prints", is_read);
        read.map_err(|why| format!("{why}\n{}", self.printed()))?;
        Ok(Ended { status, stdout: self.stdout(), stderr: self.stderr() })
    }

    /// Returns what it has printed on standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Returns what it has printed on standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Returns what it has printed so far, for a message.
    pub fn printed(&self) -> String {
        let mut text = self.stdout();
        let stderr = self.stderr();
        if !stderr.is_empty() {
            write!(text, "\nstandard error: {stderr}").expect("a string takes what it is given");
        }
        text
    }

    /// Kills it where it is, and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Printed {
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut part) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = OUTPUT_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(&part[..count.min(room)]);
            }
        });
        Self { bytes, reader }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Sends a signal to a process, by its name: "TERM". After a STOP each of its threads stands still.
///
/// # Errors
/// When the process has ended or does not stop, or there is no signal of this name.
pub fn signal(process: u32, name: &str) -> Result<()> {
    let (_, signal) = SIGNALS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = SIGNALS.iter().map(|(known, _)| *known).collect();
        format!("no signal is called {name}; these are: {}", known.join(", "))
    })?;
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| format!("no process has the number {process}"))?;
    let sent = kill_process(number, *signal);
    sent.map_err(|error| format!("process {process} gets no signal {name}: {error}"))?;
    // The first thread that the machine lets run stops the others; they go on until then.
    let is_stopped = || *signal != Signal::STOP || stands_still(process);
    until(&format!("process {process} stops"), is_stopped)
}

/// Returns whether no thread of a process runs, or can before it is sent a signal.
fn stands_still(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut states =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let is_still = |stat: String| {
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 't' | 'Z' | 'X'))
    };
    states.all(is_still)
}

/// Returns whether a process holds what it has open: it, or one of its threads, still runs.
pub fn is_alive(process: u32) -> bool {
    // Of one that ended and was not waited for, nothing is left but its first thread, dead. While
    // another of its threads still ends, what it has open is open.
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| threads > 1 || !rest.starts_with('Z'))
}

/// Returns the children of a process, whichever of its threads started them.
pub fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let mut numbers: Vec<u32> = texts
        .flatten()
        .flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Returns whether `word` is an argument of a process.
pub fn has_argument(process: u32, word: &str) -> bool {
    let line = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.split('\0').skip(1).any(|argument| argument == word)
}

/// The most bytes of an output that are kept; what follows is read and left out.
const OUTPUT_MAX: usize = 16 << 20;

const SIGNALS: &[(&str, Signal)] = &[
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CHLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("XFSZ", Signal::XFSZ),
    ("VTALRM", Signal::VTALARM),
    ("PROF", Signal::PROF),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script])).expect("there is a shell")
    }

    #[test]
    fn all_that_it_prints_is_kept_and_blocks_nothing() {
        let mut process = shell("head -c 300000 /dev/zero | tr '\\0' x; echo no >&2; exit 3");
        let ended = process.wait_for_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!((ended.stdout.len(), ended.stderr.as_str()), (300_000, "no\n"));
        assert!(process.printed().ends_with("standard error: no\n"));
    }

    #[test]
    fn a_signal_by_name_ends_it() {
        let mut process = shell("exec sleep 1000");
        assert!(process.is_alive() && is_alive(process.id()));
        process.signal("TERM").expect("it runs");
        assert_eq!(process.wait_for_exit().expect("it ends").signal(), Some(15));
        assert!(!process.is_alive() && !is_alive(process.id()));
        let why = process.signal("THRM").map_err(String::from).expect_err("there is none");
        assert!(why.starts_with("no signal is called THRM; these are: HUP"), "{why}");
    }

    #[test]
    fn what_is_stopped_stands_still() {
        let process = shell("while :; do :; done");
        process.signal("STOP").expect("it runs");
        let at = process.processor_time();
        assert!(stands_still(process.id()));
        process.signal("CONT").expect("it stands still");
        until("it works", || process.processor_time() > at).expect("it goes on");
    }

    #[test]
    fn work_takes_processor_time() {
        let process = shell("while :; do :; done");
        let worked = || process.processor_time() >= Duration::from_millis(50);
        until("it works", worked).expect("it does not sleep");
    }

    #[test]
    fn a_child_of_a_child_is_found_by_its_arguments() {
        let mut process = shell("sleep 1000 & wait");
        let child = until_some("a child", || children(process.id()).pop()).expect("it starts");
        until("its program", || has_argument(child, "1000")).expect("it runs");
        assert!(!has_argument(child, "sleep"), "the program is no argument");
        process.kill();
        assert!(is_alive(child), "what it started goes on, and holds its outputs");
        signal(child, "KILL").expect("it runs");
        process.wait_for_output().expect("nothing holds its outputs any more");
    }

    #[test]
    fn nothing_is_left_of_one_that_is_dropped() {
        let process = shell("exec sleep 1000");
        let id = process.id();
        drop(process);
        assert!(!is_alive(id));
    }
}
