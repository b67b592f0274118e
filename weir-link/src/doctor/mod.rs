//! Checks of this host: whether it allows what a link needs, and what an operator should see to
//! before traffic depends on it.
//!
//! A check is one function in `host.rs` or `ports.rs` and one line in its table there. Checks read
//! [`Facts`] and [`Wanted`] only: files below `/proc` and `/sys` from a folder that a test may
//! replace, what was tried (`tried.rs`), what the kernel says of interfaces (`facts.rs`), and how
//! late the machine wakes a thread (`wakeup.rs`). Invariant: no check changes anything of the host,
//! and no cure is ever run; what has to be tried is tried in a private network.

mod facts;
mod host;
mod ports;
#[cfg(test)]
mod tests;
mod tried;
mod wakeup;

use crate::deploy;
use serde::Serialize;
use weir_policy::deployment::{Deployment, OnExit, Priority, Side};

pub use facts::{Facts, Files, InterfaceFacts};
pub use tried::{Attempt, Tried};
pub use wakeup::Wakeup;

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It is as it should be.
    Good,
    /// It is worth knowing.
    Note,
    /// Delay, loss or a worse kind of port may follow.
    Warning,
    /// The deployment cannot run, or not as it says.
    Problem,
}

/// A result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// The interface that it is about; `None` for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// How much it matters.
    pub level: Level,
    /// A sentence that names the value and its limit.
    pub text: String,
    /// The command that cures it, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

/// A check: its name, and the function that looks.
struct Check<F> {
    name: &'static str,
    run: F,
}

/// The needs of a deployment. Without a deployment nothing is required: a lack is then a note or a
/// warning.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The ports, each interface once.
    pub ports: Vec<WantedPort>,
    /// Whether a deployment is judged.
    pub is_deployment: bool,
    /// Whether the deployment accepts to take interfaces that the host uses.
    pub take: bool,
    /// The CPUs of its bridges.
    pub cpus: Vec<u32>,
    /// The memory that it needs at most, in bytes.
    pub memory: Option<u64>,
    /// Whether frames pass unshaped while nothing forwards them.
    pub fails_open: bool,
    /// Whether threads that forward run before all ordinary ones.
    pub is_real_time: bool,
    /// The files that it needs and that are missing.
    pub missing: Vec<String>,
    /// Why a file of its API would be refused, with the cure.
    pub refused: Option<String>,
    /// The user as which the forwarder runs.
    pub user: Option<String>,
}

/// An interface that is to be a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedPort {
    /// The name of the interface.
    pub interface: String,
    /// The keyword of the kind of port.
    pub kind: String,
    /// Whether the host continues to use the interface: host egress.
    pub is_host: bool,
    /// How many threads may share it.
    pub shares: usize,
}

impl Wanted {
    /// Returns what a deployment wants; `memory` is what it needs at most.
    pub fn of(deployment: &Deployment, memory: u64) -> Self {
        let mut ports: Vec<WantedPort> = Vec::new();
        for (number, port) in deployment.ports.iter().enumerate() {
            // Both ends of host egress have one interface.
            if !ports.iter().any(|known| known.interface == port.interface) {
                ports.push(WantedPort {
                    interface: port.interface.clone(),
                    kind: port.kind.to_owned(),
                    is_host: port.side != Side::Interface,
                    shares: deploy::shares(deployment, number),
                });
            }
        }
        Self {
            ports,
            is_deployment: true,
            take: deployment.take,
            cpus: deployment.bridges.iter().filter_map(|bridge| bridge.cpu).collect(),
            memory: Some(memory),
            fails_open: deployment.service.on_exit == OnExit::Open,
            is_real_time: deployment.service.priority == Priority::Realtime,
            missing: deploy::missing(deployment),
            refused: None,
            user: deployment.service.user.clone(),
        }
    }

    /// Returns what ports of kind `auto` on these interfaces would want, of which none is required.
    pub fn of_interfaces(interfaces: &[String]) -> Self {
        let port = |interface: &String| WantedPort {
            interface: interface.clone(),
            kind: crate::port::AUTO.to_owned(),
            is_host: false,
            shares: 1,
        };
        Self { ports: interfaces.iter().map(port).collect(), ..Self::default() }
    }

    fn has_host_port(&self) -> bool {
        self.ports.iter().any(|port| port.is_host)
    }

    /// Returns whether a port must be AF_XDP, not just may be.
    fn needs_xdp(&self) -> bool {
        self.is_deployment && self.ports.iter().any(|port| port.kind.starts_with("afxdp"))
    }

    /// Returns the level of something that is missing: a problem if the deployment needs it.
    fn missing(&self, is_needed: bool, otherwise: Level) -> Level {
        if self.is_deployment && is_needed { Level::Problem } else { otherwise }
    }
}

impl Finding {
    fn new(level: Level, text: impl Into<String>) -> Self {
        Self { check: "", interface: None, level, text: text.into(), cure: None }
    }

    fn good(text: impl Into<String>) -> Vec<Self> {
        vec![Self::new(Level::Good, text)]
    }

    fn note(text: impl Into<String>) -> Vec<Self> {
        vec![Self::new(Level::Note, text)]
    }

    fn cured(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}

/// Returns what all checks found, those of the host first, in the order of their tables.
pub fn examine(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in host::CHECKS {
        let found = (check.run)(facts, wanted).into_iter();
        findings.extend(found.map(|finding| Finding { check: check.name, ..finding }));
    }
    for (port, interface) in wanted.ports.iter().zip(&facts.interfaces) {
        let subject = ports::Subject { facts, wanted, port, interface };
        for check in ports::CHECKS {
            let about = |finding| Finding {
                check: check.name,
                interface: Some(port.interface.clone()),
                ..finding
            };
            findings.extend((check.run)(&subject).into_iter().map(about));
        }
    }
    findings
}
