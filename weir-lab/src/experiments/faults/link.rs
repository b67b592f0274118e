//! The link under test: `weir up` between two hosts, as a program of its own.

use super::told::Told;
use crate::program;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_live::status::Status;
use weir_live::status::query::Query;
use weir_testbed::{LEFT, RIGHT, Testbed};

/// What the deployment says about deaths.
#[derive(Clone, Copy)]
pub(super) struct Service {
    pub(super) on_exit: &'static str,
    pub(super) restart: &'static str,
}

impl Default for Service {
    fn default() -> Self {
        Self { on_exit: "open", restart: "always" }
    }
}

/// The networks, and `weir up` between them.
pub(super) struct Link {
    pub(super) testbed: Testbed,
    folder: TempDir,
    keeper: Child,
    readers: Vec<JoinHandle<()>>,
    told: Arc<Mutex<Vec<Told>>>,
    errors: Arc<Mutex<String>>,
    is_over: bool,
}

impl Link {
    /// Starts the link and waits until it forwards.
    pub(super) fn start(service: Service) -> Result<Self, String> {
        Self::start_between(weir_bench::rig::quiet_testbed().map_err(text)?, service)
    }

    /// As [`Link::start`], between these hosts.
    pub(super) fn start_between(testbed: Testbed, service: Service) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(text)?;
        write_files(&folder, service)?;
        let mut command = in_its_own_disk(&folder)?;
        let mut keeper = testbed.weir.run(|| command.spawn()).map_err(text)?.map_err(text)?;
        let (told, errors) = (Arc::default(), Arc::default());
        let (out, err) = (keeper.stdout.take(), keeper.stderr.take());
        let readers = vec![
            std::thread::spawn(read_lines(out.ok_or("no output")?, Arc::clone(&told))),
            std::thread::spawn(read_errors(err.ok_or("no errors")?, Arc::clone(&errors))),
        ];
        let mut link = Self { testbed, folder, keeper, readers, told, errors, is_over: false };
        match link.await_told("started", START_PATIENCE, |told| told.is("started")) {
            Ok(_) => Ok(link),
            Err(why) => {
                let errors = link.errors();
                link.end_all();
                Err(format!("{why}; {errors}"))
            }
        }
    }

    /// Returns what the keeper has printed on standard error.
    pub(super) fn errors(&self) -> String {
        self.errors.lock().map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    pub(super) fn keeper(&self) -> u32 {
        self.keeper.id()
    }

    /// Returns whether the keeper still runs.
    pub(super) fn is_kept(&mut self) -> bool {
        matches!(self.keeper.try_wait(), Ok(None))
    }

    /// Returns the newest process in the namespace of the ports that is not the keeper.
    pub(super) fn forwarder(&self) -> Result<u32, String> {
        let found = self.processes().into_iter().filter(|process| *process != self.keeper());
        found.max().ok_or_else(|| "there is no forwarder".to_owned())
    }

    /// Returns the processes in the namespace of the ports.
    pub(super) fn processes(&self) -> Vec<u32> {
        processes_in(&self.testbed)
    }

    /// Returns all that the link has told so far.
    pub(super) fn told(&self) -> Vec<Told> {
        self.told.lock().map(|told| told.clone()).unwrap_or_default()
    }

    /// Waits until the link has told something.
    pub(super) fn await_told(
        &self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(&Told) -> bool,
    ) -> Result<Told, String> {
        let start = Instant::now();
        loop {
            if let Some(found) = self.told().into_iter().find(|told| wanted(told)) {
                return Ok(found);
            }
            if start.elapsed() > patience {
                return Err(format!("the link did not tell `{what}` within {patience:?}"));
            }
            std::thread::sleep(POLL);
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("weir.sock")
    }

    /// Returns the folder of the log as this process reaches it: the keeper alone has that disk.
    pub(super) fn disk(&self) -> PathBuf {
        let inside = self.folder.path().join(DISK);
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper()));
        root.join(inside.strip_prefix("/").unwrap_or(&inside))
    }

    /// Runs a verb of the program on this link to its end.
    pub(super) fn weir(&self, arguments: &[&str]) -> Result<std::process::Output, String> {
        let mut command = program::weir()?;
        command.args(arguments).current_dir(self.folder.path());
        command.output().map_err(text)
    }

    /// Returns the status by the control socket.
    pub(super) fn status(&self) -> Result<Status, String> {
        weir_control::client::status(&self.socket(), &Query::default())
    }

    /// Stops the link as a service manager does; returns its last status.
    pub(super) fn stop(&mut self) -> Result<Status, String> {
        signal(self.keeper(), "TERM")?;
        let start = Instant::now();
        while self.is_kept() {
            if start.elapsed() > STOP_PATIENCE {
                self.end_all();
                return Err(format!("it did not stop within {STOP_PATIENCE:?}"));
            }
            std::thread::sleep(POLL);
        }
        self.end_all();
        let told = self.told();
        let last = told.iter().rev().find(|told| told.is("stopped"));
        let status = last.and_then(|told| told.line.get("status")).ok_or("no last status")?;
        serde_json::from_value(status.clone()).map_err(text)
    }

    /// Ends every process of the link at once.
    pub(super) fn end_all(&mut self) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        drop(self.keeper.kill());
        drop(self.keeper.wait());
        for process in self.processes() {
            drop(signal(process, "KILL"));
        }
        // The pipes end with the last process.
        for reader in self.readers.drain(..) {
            drop(reader.join());
        }
    }

    /// Ends what is left and returns the networks.
    pub(super) fn into_testbed(mut self) -> Result<Testbed, String> {
        self.end_all();
        let fresh = weir_bench::rig::quiet_testbed().map_err(text)?;
        Ok(std::mem::replace(&mut self.testbed, fresh))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Returns the processes in the namespace between the hosts, without this one.
pub(super) fn processes_in(testbed: &Testbed) -> Vec<u32> {
    let Ok(own) = testbed.weir.as_fd().try_clone_to_owned().map(fs::File::from) else {
        return Vec::new();
    };
    let number = own.metadata().map(|found| found.ino()).unwrap_or_default();
    let Ok(folders) = fs::read_dir("/proc") else { return Vec::new() };
    let names = folders.flatten().filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    let is_inside = |process: &u32| {
        let namespace = fs::metadata(format!("/proc/{process}/ns/net"));
        namespace.is_ok_and(|found| found.ino() == number)
    };
    names.filter(|process| *process != std::process::id()).filter(is_inside).collect()
}

/// Sends a signal by its name.
pub(super) fn signal(process: u32, name: &str) -> Result<(), String> {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).output();
    match sent.map_err(text)?.status.success() {
        true => Ok(()),
        false => Err(format!("process {process} gets no signal {name}: it has ended")),
    }
}

pub(super) fn text(error: impl ToString) -> String {
    error.to_string()
}

fn write_files(folder: &TempDir, service: Service) -> Result<(), String> {
    let place = folder.path();
    let Service { on_exit, restart } = service;
    let deployment = format!(
        "[deployment]\nports = {{ inside = \"{LEFT}\", outside = \"{RIGHT}\" }}\n\
         control = \"{}\"\non_exit = \"{on_exit}\"\nrestart = \"{restart}\"\nlog = \"{}\"\n\n\
         [direction.upload]\nfrom = \"inside\"\nto = \"outside\"\npolicy = \"policy.toml\"\n\n\
         [direction.download]\nfrom = \"outside\"\nto = \"inside\"\npolicy = \"policy.toml\"\n",
        place.join("weir.sock").display(),
        place.join(DISK).join("events").display(),
    );
    fs::create_dir(place.join(DISK)).map_err(text)?;
    fs::write(place.join("policy.toml"), POLICY).map_err(text)?;
    fs::write(place.join("link.toml"), deployment).map_err(text)
}

/// `weir up` with a disk of its own for its log, which goes with it.
fn in_its_own_disk(folder: &TempDir) -> Result<Command, String> {
    let own = program::weir()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNT, &folder.path().join(DISK).display().to_string()]);
    command.arg(own.get_program()).args(["--format", "json", "up", "link.toml"]);
    command.current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn read_lines(out: ChildStdout, told: Arc<Mutex<Vec<Told>>>) -> impl FnOnce() {
    move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let new = Told::read(&line);
            if let Ok(mut told) = told.lock() {
                told.push(new);
            }
        }
    }
}

fn read_errors(mut err: ChildStderr, errors: Arc<Mutex<String>>) -> impl FnOnce() {
    move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = err.read(&mut bytes) {
            if let Ok(mut errors) = errors.lock() {
                errors.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        }
    }
}

/// The folder of the log, and the size of its disk.
const DISK: &str = "log";
pub(super) const DISK_BYTES: usize = 4 << 20;
const MOUNT: &str = "mount -t tmpfs -o size=4m tmpfs \"$0\" && exec \"$@\"";

const POLICY: &str = r#"
[link]
rate = "100 Mbit/s"
scheduler = "drr"

[class.probe]
match = [{ proto = "udp", dport = "5004" }]

[class.rest]
default = true
"#;

const START_PATIENCE: Duration = Duration::from_secs(20);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
