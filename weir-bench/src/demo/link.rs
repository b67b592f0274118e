//! The link of the demo: `weir up`, as a user starts it, between two private networks.
//!
//! Everything after the start goes over its control socket, as the verbs do it. Invariant: however
//! the demo ends, the link ends with it, and its folder goes.

use super::Failure;
use super::mix::NAME;
use crate::rig;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_control::client;
use weir_control::protocol::{Answer, Request};
use weir_host::error::SystemError;
use weir_host::process::same_program;
use weir_host::signals;
use weir_link::status::Status;
use weir_link::status::query::Query;
use weir_testbed::{LEFT, RIGHT, Testbed};

/// The values in which links of the demo differ.
#[derive(Clone, Copy)]
pub struct LinkSetup<'a> {
    /// The CPU of its loop.
    pub cpu: Option<usize>,
    /// The text of its policy.
    pub policy: &'a str,
    /// The size of the ring that keeps the last minutes, if there is one.
    pub ring: Option<&'a str>,
}

/// A link of `weir up` in its network namespace.
pub struct Link {
    keeper: Option<Child>,
    /// Holds the deployment, the policy and the control socket.
    folder: TempDir,
}

impl Link {
    /// Starts the link and waits until it forwards.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        testbed: &'scope Testbed,
        setup: LinkSetup<'_>,
        stop: &AtomicBool,
    ) -> Result<Self, Failure> {
        let failed = |cause| SystemError::new("start `weir up` for the demo", cause);
        let folder = tempfile::tempdir().map_err(failed)?;
        write_files(folder.path(), setup).map_err(failed)?;
        let mut errors = tempfile::tempfile().map_err(failed)?;
        let command = command(folder.path(), errors.try_clone().map_err(failed)?);
        let (told, lines) = mpsc::channel();
        scope.spawn(move || keep(command, testbed, &told));
        let keeper = match lines.recv() {
            Ok(Told::Started(child)) => Some(*child),
            Ok(Told::Failed(error)) => return Err(error.into()),
            Ok(Told::Line(_)) | Err(_) => unreachable!("it first says whether it started"),
        };
        let link = Self { keeper, folder };
        match link.await_start(&lines, stop) {
            Err(Failure::System(why)) => {
                let mut text = String::new();
                // What there is of it, if there is any.
                let _read = errors.rewind().and_then(|()| errors.read_to_string(&mut text));
                Err(Failure::System(format!("{why}\n{}", text.trim())))
            }
            started => started.map(|()| link),
        }
    }

    fn await_start(&self, lines: &Receiver<Told>, stop: &AtomicBool) -> Result<(), Failure> {
        let start = Instant::now();
        let mut said = String::new();
        while start.elapsed() < START_PATIENCE {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            match lines.recv_timeout(LOOK) {
                Ok(Told::Line(line)) if line["event"] == "started" => return Ok(()),
                Ok(Told::Line(line)) => said += &format!("{line}\n"),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::System(format!("`weir up` ended: {said}")));
                }
            }
        }
        let patience = START_PATIENCE.as_secs();
        Err(Failure::System(format!("`weir up` did not start within {patience} s: {said}")))
    }

    /// Returns the path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// Returns the whole status.
    pub fn status(&self) -> Result<Status, Failure> {
        client::status(&self.socket(), &Query::default()).map_err(Failure::System)
    }

    /// Lets the measurement of delays restart; returns the status at that instant.
    pub fn mark(&self) -> Result<Status, Failure> {
        self.ask(&Request::Mark {})?;
        self.status()
    }

    /// Sends a request as the verbs do.
    pub fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        match client::call(&self.socket(), request) {
            Ok(Answer::Error(why)) | Err(why) => Err(Failure::System(why)),
            Ok(answer) => Ok(answer),
        }
    }

    /// Begins to record the link for so long; [`recorded`] has the end.
    pub(super) fn record<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        length: Duration,
    ) -> Recording<'scope> {
        let socket = self.socket();
        let request = Request::Record { for_ms: Some(length.as_millis() as u64) };
        scope.spawn(move || {
            let mut record = Vec::new();
            let stream = client::follow(&socket, &request)?;
            let read = stream.take(RECORD_MAX).read_to_end(&mut record);
            read.map(|_| record).map_err(|error| format!("the record ends: {error}"))
        })
    }

    /// Stops the link, as SIGTERM does.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.end().map_err(Failure::System)
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(mut keeper) = self.keeper.take() else { return Ok(()) };
        signals::end(keeper.id(), false).map_err(|error| error.to_string())?;
        let start = Instant::now();
        loop {
            match keeper.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("`weir up` ended with {status}")),
                None if start.elapsed() > STOP_PATIENCE => break,
                None => thread::sleep(LOOK),
            }
        }
        // Its forwarder would go on without it.
        let status = self.status().ok();
        let forwarder = status.and_then(|status| Some(status.processes?.forwarder));
        let _killed = keeper.kill().and_then(|()| keeper.wait());
        let _ended = forwarder.map(|process| signals::end(process, true));
        let patience = STOP_PATIENCE.as_secs();
        Err(format!("`weir up` did not stop within {patience} s; it was killed"))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Where this fails, another failure was told already.
        let _ended = self.end();
    }
}

/// A record that is being made.
pub(super) type Recording<'scope> = ScopedJoinHandle<'scope, Result<Vec<u8>, String>>;

/// Waits for the end of a record.
pub(super) fn recorded(recording: Recording<'_>) -> Result<Vec<u8>, Failure> {
    let record = recording.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    record.map_err(Failure::System)
}

/// A message of the thread that keeps the link.
enum Told {
    Started(Box<Child>),
    Failed(SystemError),
    /// A line of the link's output, if it is JSON.
    Line(Value),
}

/// Starts the link in its network, and reads what it says until it ends. The thread must not end
/// before: the kernel then ends the link.
fn keep(mut command: Command, testbed: &Testbed, told: &Sender<Told>) {
    let mut start = || -> Result<Child, SystemError> {
        testbed.weir.enter()?;
        command.spawn().map_err(|cause| SystemError::new("start `weir up`", cause))
    };
    let mut child = match start() {
        Ok(child) => child,
        Err(error) => {
            let _gone = told.send(Told::Failed(error));
            return;
        }
    };
    let out = child.stdout.take().expect("it is a pipe");
    // If the demo has ended meanwhile, the owner of the child stops it.
    if told.send(Told::Started(Box::new(child))).is_err() {
        return;
    }
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
        let _unheard = told.send(Told::Line(line));
    }
}

/// `weir up` of this same program, in a group of its own: Ctrl-C is for the demo, which stops it.
fn command(folder: &Path, errors: File) -> Command {
    let mut command = same_program();
    command.args(["--format", "json", "up", DEPLOYMENT, "--ends-with"]);
    command.arg(std::process::id().to_string()).current_dir(folder).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    command
}

fn write_files(folder: &Path, setup: LinkSetup<'_>) -> std::io::Result<()> {
    let LinkSetup { cpu, policy, ring } = setup;
    let cpu = cpu.map_or(String::new(), |cpu| format!("cpu = {cpu}\n"));
    let ring = ring.map_or(String::new(), |ring| format!("ring = \"{ring}\"\n"));
    let deployment = format!(
        "[deployment]\nname = \"{NAME}\"\nports = {{ client = \"{LEFT}\", server = \"{RIGHT}\" }}\n\
         control = \"{}\"\npriority = \"realtime\"\npool = \"{} packets\"\n{cpu}{ring}\n\
         [direction.{WAY}]\nfrom = \"client\"\nto = \"server\"\npolicy = \"{POLICY}\"\n",
        folder.join(SOCKET).display(),
        rig::FRAMES_MAX
    );
    std::fs::write(folder.join(POLICY), policy)?;
    std::fs::write(folder.join(DEPLOYMENT), deployment)
}

/// The direction that has the policy.
pub(super) const WAY: &str = "forth";
/// More than any record of this traffic has.
const RECORD_MAX: u64 = 1 << 29;
const SOCKET: &str = "weir.sock";
const DEPLOYMENT: &str = "demo.toml";
const POLICY: &str = "policy.toml";
const START_PATIENCE: Duration = Duration::from_secs(20);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);
