//! The link under test: `weir up` between two hosts, as a program of its own.

use super::told::Told;
use crate::program;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;
use weir_bench::rig;
use weir_link::status::Status;
use weir_testbed::{Found, Scene, Stream, StreamConfig};

/// The keys of the deployment for deaths.
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

/// Makes networks and files of a link; nothing runs yet.
pub(super) fn prepare(service: Service) -> Result<Scene, String> {
    let Service { on_exit, restart } = service;
    let lines =
        format!("on_exit = \"{on_exit}\"\nrestart = \"{restart}\"\nlog = \"{DISK}/events\"");
    let plan = program::plan(POLICY)?.deployment(&lines).both_ways();
    let link = plan.prepare_in(rig::quiet_testbed().map_err(text)?)?;
    fs::create_dir(link.path(DISK)).map_err(text)?;
    Ok(link)
}

/// Prepares a link and starts it.
pub(super) fn start(service: Service) -> Result<Scene, String> {
    let mut link = prepare(service)?;
    start_in_its_own_disk(&mut link)?;
    Ok(link)
}

/// Starts `weir up` with a disk of its own for its log, which goes with it, and waits until it
/// answers.
pub(super) fn start_in_its_own_disk(link: &mut Scene) -> Result<(), String> {
    let own = link.command(&["--format", "json", "up", "link.toml"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNT]).arg(link.path(DISK));
    command.arg(own.get_program()).args(own.get_args());
    Ok(link.start_by(command)?)
}

/// Returns all that a link has told so far.
pub(super) fn told(link: &Scene) -> Vec<Told> {
    link.logged().lines().map(Told::read).collect()
}

/// Returns the folder of the log as this process reaches it: the keeper alone has that disk.
pub(super) fn disk(link: &Scene) -> Result<PathBuf, String> {
    let inside = link.path(DISK).display().to_string();
    Ok(PathBuf::from(format!("/proc/{}/root{inside}", link.keeper()?)))
}

/// Stops a link as a service manager does; returns its last status.
pub(super) fn stop(link: &mut Scene) -> Result<Status, String> {
    link.stop()?;
    let told = told(link);
    let last = told.iter().rev().find(|told| told.is("stopped"));
    let status = last.and_then(|told| told.line.get("status")).ok_or("no last status")?;
    serde_json::from_value(status.clone()).map_err(text)
}

/// Starts a stream of 1 kHz, which has a class of its own.
pub(super) fn probe(link: &Scene) -> Result<Stream, String> {
    Ok(Stream::numbered(&link.testbed, StreamConfig::default())?)
}

/// Starts other traffic: so many datagrams a second, each of so many bytes.
pub(super) fn load(link: &Scene, (per_second, length): (u32, usize)) -> Result<Stream, String> {
    let config = StreamConfig { port: LOAD_PORT, per_second, length };
    Ok(Stream::numbered(&link.testbed, config)?)
}

/// Stops sending, and returns what became of all. The link may carry nothing any more.
pub(super) fn end(mut stream: Stream) -> Result<Found, String> {
    stream.stop_sending();
    thread::sleep(ON_ITS_WAY);
    Ok(stream.cut_off()?)
}

pub(super) fn text(error: impl ToString) -> String {
    error.to_string()
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

const LOAD_PORT: u16 = 5005;
const ON_ITS_WAY: Duration = Duration::from_millis(300);
