//! Routers of `weir up` that take reservations, each in a network of its own.
//!
//! Invariant: they end with the value that started them, and its folder goes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use weir_host::netns::NetNs;
use weir_link::status::Status;
use weir_link::status::reservations::Reservations;

use crate::scene::{ask, ask_status};
use crate::{Process, Result, end_all, until_ok};

/// The routers that run, by their numbers.
#[derive(Debug)]
pub struct Routers {
    program: PathBuf,
    folder: TempDir,
    started: BTreeMap<usize, Router>,
}

#[derive(Debug)]
struct Router {
    network: NetNs,
    process: Process,
}

/// The ports and the direction of a router's link that is shaped.
#[derive(Clone, Copy, Debug)]
pub struct Shaped {
    /// The ports, as a deployment has them between braces.
    pub ports: &'static str,
    /// The port that packets come from.
    pub from: &'static str,
    /// The port that they leave by.
    pub to: &'static str,
}

impl Shaped {
    /// The traffic that leaves a router by its interface `right`.
    pub const RIGHT: Self = Self { ports: "host = \"right\"", from: "host", to: "wire" };
}

impl Routers {
    /// Prepares routers that all have this policy. `program` is the command `weir`.
    ///
    /// # Errors
    /// As the system says.
    pub fn new(program: impl Into<PathBuf>, policy: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-routers-").tempdir()?;
        let routers = Self { program: program.into(), folder, started: BTreeMap::new() };
        routers.write(Self::POLICY, policy)?;
        Ok(routers)
    }

    /// The file of the policy. Router `N` has its deployment in `rN.toml`.
    pub const POLICY: &str = "out.toml";

    /// Starts router `node` in a network, and waits until it takes reservations in the class
    /// `reserved` of the policy. `rsvp` has more lines of `[deployment.rsvp]`.
    ///
    /// # Errors
    /// When it does not; the text has what it printed.
    pub fn start(
        &mut self,
        node: usize,
        network: &NetNs,
        shaped: Shaped,
        rsvp: &str,
    ) -> Result<()> {
        let Shaped { ports, from, to } = shaped;
        let deployment = format!(
            "[deployment]\nports = {{ {ports} }}\ncontrol = \"{}\"\n\
             [deployment.rsvp]\nclass = \"reserved\"\n{rsvp}\n\
             [direction.out]\nfrom = \"{from}\"\nto = \"{to}\"\npolicy = \"{}\"\n",
            self.socket(node).display(),
            Self::POLICY
        );
        let file = format!("r{node}.toml");
        self.write(&file, &deployment)?;
        let process = Process::start_in(network, &mut self.command(&["up", &file]))?;
        let network = network.run(NetNs::current)??;
        self.started.insert(node, Router { network, process });
        let what = format!("router {node} takes reservations");
        let taken = until_ok(&what, || self.reservations(node));
        taken.map_err(|why| format!("{why}\n{}", self.router(node).printed()))?;
        Ok(())
    }

    /// Returns the process that was started as router `node`.
    ///
    /// # Panics
    /// If none was.
    pub fn router(&self, node: usize) -> &Process {
        &self.started.get(&node).expect("the router was started").process
    }

    /// Returns the command `weir` with these arguments, which runs in the folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Returns what a router tells of its reservations, with at most one of the sessions.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn reservations(&self, node: usize) -> Result<Reservations> {
        let request = "{\"call\":\"reservations\",\"limit\":1}\n";
        Ok(serde_json::from_value(ask(&self.socket(node), request, "reservations")?)?)
    }

    /// Returns the status of a router.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&self, node: usize) -> Result<Status> {
        ask_status(&self.socket(node))
    }

    /// Returns the path of the control socket of a router, `rN.sock`.
    pub fn socket(&self, node: usize) -> PathBuf {
        self.path(&format!("r{node}.sock"))
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the folder in which the routers run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of the folder.
    ///
    /// # Errors
    /// As the system says.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.path(name), text).map_err(|error| format!("{name}: {error}").into())
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        for Router { network, process } in self.started.values_mut() {
            end_all(network, process);
        }
    }
}
