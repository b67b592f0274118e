//! `weir up`, as a user starts it, between two hosts.
//!
//! A [`ScenePlan`] says what is deployed; a [`Scene`] has the networks, a folder with the files,
//! and the processes. Invariant: when a scene ends, no process is left in its network.

use std::fmt::Display;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use weir_host::netns::NetNs;
use weir_link::status::{ClassStatus, Status};

use crate::{
    Ended, LEFT, PATIENCE, Process, RIGHT, Result, Testbed, TestbedConfig, children, has_argument,
    is_alive, signal, until, until_ok,
};

/// The kind of a scene's ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortKind {
    /// The kind that the deployment has by default.
    #[default]
    Unsaid,
    /// Packet sockets of the kernel.
    AfPacket,
    /// AF_XDP sockets with a program in the driver.
    AfXdp,
    /// AF_XDP sockets behind the driver.
    AfXdpGeneric,
}

/// The deployment of a scene. Nothing exists before it is prepared or started.
#[derive(Clone, Debug)]
pub struct ScenePlan {
    program: PathBuf,
    policy: String,
    kind: PortKind,
    lines: String,
    tables: String,
    is_both_ways: bool,
    networks: TestbedConfig,
}

impl ScenePlan {
    /// Sets what both ports are.
    pub fn ports(self, kind: PortKind) -> Self {
        Self { kind, ..self }
    }

    /// Adds lines to `[deployment]`.
    pub fn deployment(mut self, lines: &str) -> Self {
        self.lines += lines;
        self.lines.push('\n');
        self
    }

    /// Adds tables to the deployment.
    pub fn tables(mut self, tables: &str) -> Self {
        self.tables += tables;
        self.tables.push('\n');
        self
    }

    /// Gives the way back the same policy. Without it only the way there has one.
    pub fn both_ways(self) -> Self {
        Self { is_both_ways: true, ..self }
    }

    /// Sets how the networks are made.
    pub fn networks(self, networks: TestbedConfig) -> Self {
        Self { networks, ..self }
    }

    /// Makes networks, folder and files; nothing runs yet.
    ///
    /// # Errors
    /// As the system says.
    pub fn prepare(self) -> Result<Scene> {
        let testbed = Testbed::new(self.networks)?;
        self.prepare_in(testbed)
    }

    /// As [`ScenePlan::prepare`], between hosts that exist.
    ///
    /// # Errors
    /// As the system says.
    pub fn prepare_in(self, testbed: Testbed) -> Result<Scene> {
        let folder = tempfile::Builder::new().prefix("weir-scene-").tempdir()?;
        let text = self.text(&folder.path().join(SOCKET));
        let program = self.program;
        let former = String::new();
        let scene = Scene { testbed, folder, program, process: None, former };
        scene.write(POLICY, &self.policy)?;
        scene.write(DEPLOYMENT, &text)?;
        Ok(scene)
    }

    /// Makes all of it, starts `weir up` and waits until it answers.
    ///
    /// # Errors
    /// As [`Scene::start`].
    pub fn start(self) -> Result<Scene> {
        let mut scene = self.prepare()?;
        scene.start()?;
        Ok(scene)
    }

    /// Returns the text of the deployment. `WEIR_WORKERS` in the environment is the number of its
    /// workers, where the plan says nothing of them: so all rows are tried with workers as well.
    fn text(&self, control: &Path) -> String {
        let workers =
            std::env::var("WEIR_WORKERS").ok().filter(|_| !self.lines.contains("workers"));
        let workers = workers.map_or(String::new(), |count| format!("workers = {count}\n"));
        let port = |interface: &str| match self.kind.keyword() {
            None => format!("\"{interface}\""),
            Some(kind) => format!("{{ interface = \"{interface}\", kind = \"{kind}\" }}"),
        };
        let direction = |(name, from, to): (&str, &str, &str)| {
            format!(
                "\n[direction.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\npolicy = \"{POLICY}\"\n"
            )
        };
        let mut text = format!(
            "[deployment]\nports = {{ inside = {}, outside = {} }}\ncontrol = \"{}\"\n{workers}{}",
            port(LEFT),
            port(RIGHT),
            control.display(),
            self.lines
        );
        text += &direction(("upload", "inside", "outside"));
        if self.is_both_ways {
            text += &direction(("download", "outside", "inside"));
        }
        text + &self.tables
    }
}

impl PortKind {
    /// Returns its word in a deployment.
    fn keyword(self) -> Option<&'static str> {
        match self {
            Self::Unsaid => None,
            Self::AfPacket => Some("afpacket"),
            Self::AfXdp => Some("afxdp"),
            Self::AfXdpGeneric => Some("afxdp-generic"),
        }
    }
}

/// A link of `weir up` between private networks.
#[derive(Debug)]
pub struct Scene {
    /// The networks and their hosts.
    pub testbed: Testbed,
    folder: TempDir,
    program: PathBuf,
    process: Option<Process>,
    /// The output of keepers that have ended.
    former: String,
}

impl Scene {
    /// Plans a link with this policy, from the port [`LEFT`] to the port [`RIGHT`]. `program` is
    /// the command `weir`: a test has `env!("CARGO_BIN_EXE_weir")`.
    pub fn plan(program: impl Into<PathBuf>, policy: &str) -> ScenePlan {
        ScenePlan {
            program: program.into(),
            policy: policy.to_owned(),
            kind: PortKind::default(),
            lines: String::new(),
            tables: String::new(),
            is_both_ways: false,
            networks: TestbedConfig::default(),
        }
    }

    /// Starts `weir up` in the network between the hosts and waits until it answers.
    ///
    /// # Errors
    /// When it ends, or does not answer; the text has what it printed.
    pub fn start(&mut self) -> Result<()> {
        self.start_with(&["up", DEPLOYMENT])
    }

    /// As [`Scene::start`], with these arguments.
    ///
    /// # Errors
    /// As [`Scene::start`].
    pub fn start_with(&mut self, arguments: &[&str]) -> Result<()> {
        self.start_by(self.command(arguments))
    }

    /// As [`Scene::start`], by this command.
    ///
    /// # Errors
    /// As [`Scene::start`].
    pub fn start_by(&mut self, command: Command) -> Result<()> {
        self.spawn(command)?;
        let (socket, process) = (self.socket(), self.process()?);
        let look =
            || if process.is_alive() { ask_status(&socket).map(|_| true) } else { Ok(false) };
        match until_ok("the link answers", look) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("the link ended: {}", self.last_words()).into()),
            Err(why) => Err(format!("{why}; {}", self.last_words()).into()),
        }
    }

    /// Starts a command in the network between the hosts, as the keeper of the scene, and does not
    /// wait for anything.
    ///
    /// # Errors
    /// As the system says.
    pub fn spawn(&mut self, mut command: Command) -> Result<()> {
        if let Some(former) = self.process.take() {
            self.former += &former.printed();
        }
        command.current_dir(self.folder.path());
        self.process = Some(Process::start_in(&self.testbed.weir, &mut command)?);
        Ok(())
    }

    /// Returns the command `weir` with these arguments, which runs in the folder of the scene.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Runs `weir` to its end, outside the networks, as a user does who asks a link something.
    ///
    /// # Errors
    /// When it does not end.
    pub fn weir(&self, arguments: &[&str]) -> Result<Ended> {
        Process::start(&mut self.command(arguments))?.wait_for_output()
    }

    /// As [`Scene::weir`], in the network between the hosts.
    ///
    /// # Errors
    /// As [`Scene::weir`].
    pub fn weir_inside(&self, arguments: &[&str]) -> Result<Ended> {
        let mut command = self.command(arguments);
        Process::start_in(&self.testbed.weir, &mut command)?.wait_for_output()
    }

    /// Runs a verb of `weir` that asks the link something by its control socket.
    ///
    /// # Errors
    /// When it does not end.
    pub fn call(&self, arguments: &[&str]) -> Result<Ended> {
        let (verb, rest) = arguments.split_first().ok_or("a verb")?;
        self.weir(&[&[*verb, "--control", SOCKET], rest].concat())
    }

    /// As [`Scene::call`], where it must succeed; returns what it printed on standard output.
    ///
    /// # Errors
    /// When it does not; the text has what it printed.
    pub fn called(&self, arguments: &[&str]) -> Result<String> {
        let ended = self.call(arguments)?;
        match ended.status.success() {
            true => Ok(ended.stdout),
            false => Err(format!("{arguments:?}: {ended:?}").into()),
        }
    }

    /// Returns the status, by the control socket.
    ///
    /// # Errors
    /// When no link answers there.
    pub fn status(&self) -> Result<Status> {
        ask_status(&self.socket())
    }

    /// Waits until `is_good` holds of the status; returns that.
    ///
    /// # Errors
    /// When it does not hold; the text has the last status.
    pub fn await_status(&self, what: &str, is_good: impl Fn(&Status) -> bool) -> Result<Status> {
        until_ok(what, || match self.status() {
            Ok(status) if is_good(&status) => Ok(status),
            Ok(status) => Err(format!("{status:?}")),
            Err(why) => Err(String::from(why)),
        })
    }

    /// Returns the folder, which has the files [`Scene::write`] writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.path(SOCKET)
    }

    /// Reads a file of the folder: "link.toml" is the deployment, "policy.toml" the policy.
    ///
    /// # Errors
    /// As the system says.
    pub fn read(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.path(name)).map_err(|error| format!("{name}: {error}").into())
    }

    /// Writes a file of the folder.
    ///
    /// # Errors
    /// As the system says.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.path(name), text).map_err(|error| format!("{name}: {error}").into())
    }

    /// Sends a signal to the keeper.
    ///
    /// # Errors
    /// When none was started, or it has ended.
    pub fn signal(&self, name: &str) -> Result<()> {
        signal(self.keeper()?, name)
    }

    /// Returns the process that was started.
    ///
    /// # Errors
    /// When none was.
    pub fn keeper(&self) -> Result<u32> {
        Ok(self.process.as_ref().ok_or("nothing was started")?.id())
    }

    /// Returns the process that was started, supervised.
    ///
    /// # Errors
    /// When none was.
    pub fn process(&mut self) -> Result<&mut Process> {
        Ok(self.process.as_mut().ok_or("nothing was started")?)
    }

    /// Returns the children of the keeper.
    pub fn children(&self) -> Vec<u32> {
        self.process.as_ref().map(|process| children(process.id())).unwrap_or_default()
    }

    /// Returns the process that forwards: the newest child of the keeper that does.
    ///
    /// # Errors
    /// When there is none.
    pub fn forwarder(&self) -> Result<u32> {
        let all = self.children();
        let forwarder = all.iter().rev().find(|child| has_argument(**child, "forward"));
        Ok(*forwarder.ok_or_else(|| format!("no child of the keeper forwards: {all:?}"))?)
    }

    /// Waits until another forwarder than `former` runs and answers; returns it.
    ///
    /// # Errors
    /// When none does.
    pub fn await_another_forwarder(&self, former: u32) -> Result<u32> {
        until("another forwarder", || self.forwarder().is_ok_and(|now| now != former))?;
        self.await_status("it answers", |_| true)?;
        self.forwarder()
    }

    /// Waits until the forwarder knows that its keeper is gone; returns its status.
    ///
    /// # Errors
    /// When it does not notice.
    pub fn await_orphan(&self) -> Result<Status> {
        let is_orphan =
            |status: &Status| status.processes.is_some_and(|processes| processes.keeper.is_none());
        self.await_status("the forwarder notices", is_orphan)
    }

    /// Returns what this keeper and those before it have printed.
    pub fn logged(&self) -> String {
        let now = self.process.as_ref().map(Process::printed).unwrap_or_default();
        format!("{}{now}", self.former)
    }

    /// Waits until a keeper has printed these words.
    ///
    /// # Errors
    /// When none does; the text has what they printed.
    pub fn await_logged(&self, words: &str) -> Result<()> {
        self.await_logged_times(words, 1)
    }

    /// Waits until keepers have printed these words so often.
    ///
    /// # Errors
    /// As [`Scene::await_logged`].
    pub fn await_logged_times(&self, words: &str, times: usize) -> Result<()> {
        until_ok(&format!("`{words}` is printed, times {times}"), || {
            let logged = self.logged();
            if logged.matches(words).count() >= times { Ok(()) } else { Err(logged) }
        })
    }

    /// Stops the link as a service manager does; returns what it printed on standard output.
    ///
    /// # Errors
    /// When it does not end, or not cleanly, or leaves its socket behind.
    pub fn stop(&mut self) -> Result<String> {
        self.signal("TERM")?;
        let ended = self.process()?.wait_for_output()?;
        self.process = None;
        self.former += &ended.stdout;
        if !ended.status.success() {
            return Err(format!("a signal is a clean end: {ended:?}").into());
        }
        if self.socket().exists() {
            return Err(format!("the socket is removed with its link: {ended:?}").into());
        }
        Ok(ended.stdout)
    }

    /// Ends every process of the scene where it is; returns how the keeper ended and what it
    /// printed.
    pub fn last_words(&mut self) -> String {
        let Some(mut process) = self.process.take() else {
            return "nothing was started".to_owned();
        };
        let how = if process.is_alive() { "it was killed" } else { "it ended by itself" };
        end_all(&self.testbed.weir, &mut process);
        let ended = process.wait_for_output();
        ended.map_or_else(|why| why.to_string(), |ended| format!("{how}: {ended:?}"))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        match self.process.take() {
            Some(mut process) => end_all(&self.testbed.weir, &mut process),
            None => end_inside(&self.testbed.weir, Vec::new()),
        }
    }
}

/// Ends a keeper, what it started, and every other process of its network.
pub fn end_all(network: &NetNs, keeper: &mut Process) {
    let started = children(keeper.id());
    keeper.kill();
    end_inside(network, started);
}

/// Ends these processes and every one of a network. A forwarder goes on without its keeper, and may
/// be none of [`children`] any more.
fn end_inside(network: &NetNs, mut ended: Vec<u32>) {
    ended.iter().copied().for_each(kill);
    let none_is_left = || {
        let left = processes_in(network);
        left.iter().copied().for_each(kill);
        ended.extend(&left);
        // One that has left its network may still hold what it has open.
        left.is_empty() && !ended.iter().any(|process| is_alive(*process))
    };
    // Drop has no other way to tell, and a test that left something behind should not pass.
    if let Err(why) = until("no process is left in the network of the scene", none_is_left) {
        eprintln!("{why}");
    }
}

fn kill(process: u32) {
    // It may have ended meanwhile.
    drop(signal(process, "KILL"));
}

/// Returns the processes in a network, without this one.
pub fn processes_in(network: &NetNs) -> Vec<u32> {
    let own = network.as_fd().try_clone_to_owned().map(fs::File::from);
    let Ok(inside) = own.and_then(|file| file.metadata()) else { return Vec::new() };
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    let is_inside = |process: &u32| {
        let found = fs::metadata(format!("/proc/{process}/ns/net"));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (inside.dev(), inside.ino()))
    };
    numbers.filter(|process| *process != std::process::id()).filter(is_inside).collect()
}

/// Requests the status of the link at this socket.
pub(crate) fn ask_status(socket: &Path) -> Result<Status> {
    Ok(serde_json::from_value(ask(socket, "{\"call\":\"status\"}\n", "status")?)?)
}

/// Sends a line to the link at this socket; returns what its answer has under `key`.
pub(crate) fn ask(socket: &Path, request: &str, key: &str) -> Result<Value> {
    let text = |error: &dyn Display| format!("no {key} of `{}`: {error}", socket.display());
    let read = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut line)?;
        Ok(line)
    };
    let line = read().map_err(|error| text(&error))?;
    let mut answer: Value = serde_json::from_str(&line).map_err(|why| text(&why))?;
    let found = answer.get_mut(key).map(Value::take);
    Ok(found.ok_or_else(|| text(&answer))?)
}

const SOCKET: &str = "weir.sock";
const DEPLOYMENT: &str = "link.toml";
const POLICY: &str = "policy.toml";
/// More bytes than a status has.
const ANSWER_MAX: u64 = 64 << 20;

/// Returns whether a class has dropped a packet, for whatever reason: a status lists all of them.
pub fn has_drops(class: &ClassStatus) -> bool {
    class.dropped.iter().any(|(_, amount)| amount.packets > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_becomes_a_deployment() {
        let plan = Scene::plan("weir", "the policy");
        let control = Path::new("weir.sock");
        let plain = plan.clone().text(control);
        let wanted = "[deployment]\nports = { inside = \"left\", outside = \"right\" }\n\
                      control = \"weir.sock\"\n\n[direction.upload]\nfrom = \"inside\"\n\
                      to = \"outside\"\npolicy = \"policy.toml\"\n";
        assert_eq!(plain, wanted);
        let all = plan.ports(PortKind::AfXdp).deployment("drain = \"1 s\"").both_ways();
        let text = all.tables("[deployment.alarm.a]").text(control);
        let parts = [
            "inside = { interface = \"left\", kind = \"afxdp\" }",
            "\ndrain = \"1 s\"\n\n[direction.upload]",
            "[direction.download]\nfrom = \"outside\"\nto = \"inside\"",
            "\n[deployment.alarm.a]\n",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_processes_of_a_network_are_found() {
        let here = NetNs::current().expect("there is one");
        let mut command = Command::new("sleep");
        let process = Process::start(command.arg("1000")).expect("it starts");
        let found = processes_in(&here);
        assert!(found.contains(&process.id()) && !found.contains(&std::process::id()));
    }
}
