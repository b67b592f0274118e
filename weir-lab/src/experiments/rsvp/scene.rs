//! A host, routers of `weir up`, a host, in a row of private networks.
//!
//! ```text
//!           10.1.0.0/24           10.2.0.0/24
//!  sender: right -- left :router: right -- left :receiver
//! ```
//!
//! Each router shapes what leaves it to the right. Invariant: the routers end with the scene.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration as Wait, Instant as Clock};

use tempfile::TempDir;
use weir_control::client;
use weir_core::units::Duration;
use weir_gateway::api;
use weir_host::netns::NetNs;
use weir_link::status::Status;
use weir_link::status::query::Query;
use weir_link::status::reservations::Reservations;
use weir_rsvp::node::Event;
use weir_testbed::reserving::{self, Setting, address};
use weir_testbed::{Process, children, end_all, has_argument, until_ok};

use super::host::Host;
use super::text;
use crate::program;

/// The settings of a scene.
pub(super) struct Plan<'a> {
    pub routers: usize,
    /// The policy of each router.
    pub policy: &'a str,
    /// Lines of `[deployment.rsvp]`, beside `class`, `refresh` and `reduction`.
    pub rsvp: &'a str,
    pub period: Duration,
    pub reduction: bool,
}

/// A row of routers between two hosts.
pub(super) struct Scene {
    /// From left to right.
    pub networks: Vec<NetNs>,
    pub sender: Host,
    pub receiver: Host,
    routers: Vec<Process>,
    folder: TempDir,
}

/// The events of the hosts in a turn.
pub(super) struct Heard {
    pub sender: Vec<Event>,
    pub receiver: Vec<Event>,
}

impl Scene {
    /// Makes the networks, and starts routers and hosts.
    pub fn start(plan: &Plan<'_>) -> Result<Self, String> {
        let nodes = plan.routers + 2;
        let networks = reserving::networks(nodes)?;
        let (period, reduction) = (plan.period, plan.reduction);
        let setting = Setting { nodes, period, reduction, ..Setting::default() };
        let host =
            |node: usize| networks[node].run(move || Host::open(node, setting)).map_err(text)?;
        let (sender, receiver) = (host(0)?, host(nodes - 1)?);
        let folder = tempfile::tempdir().map_err(text)?;
        fs::write(folder.path().join("out.toml"), plan.policy).map_err(text)?;
        let routers = Vec::new();
        let mut scene = Self { networks, sender, receiver, routers, folder };
        for node in 1..=plan.routers {
            scene.start_router(node, plan)?;
        }
        Ok(scene)
    }

    fn start_router(&mut self, node: usize, plan: &Plan<'_>) -> Result<(), String> {
        let deployment = format!(
            "[deployment]\nports = {{ host = \"right\" }}\ncontrol = \"{}\"\n\
             [deployment.rsvp]\nclass = \"reserved\"\nrefresh = \"{} ms\"\nreduction = {}\n{}\
             [direction.out]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"out.toml\"\n",
            self.socket(node).display(),
            plan.period.as_nanos() / 1_000_000,
            plan.reduction,
            plan.rsvp
        );
        let file = format!("r{node}.toml");
        fs::write(self.folder.path().join(&file), deployment).map_err(text)?;
        let mut command = program::weir()?;
        command.args(["up", &file]).current_dir(self.folder.path());
        self.routers.push(Process::start_in(&self.networks[node], &mut command)?);
        let what = format!("router {node} takes reservations");
        let taken = until_ok(&what, || self.reservations(node));
        taken.map_err(|why| format!("{why}\n{}", self.routers[node - 1].stderr()))?;
        Ok(())
    }

    fn socket(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("r{node}.sock"))
    }

    /// Returns the address of the sender.
    pub fn sender_address(&self) -> IpAddr {
        address(true, 0, 0)
    }

    /// Returns the address of the receiver.
    pub fn receiver_address(&self) -> IpAddr {
        let last = self.networks.len() - 1;
        address(true, last - 1, last)
    }

    /// Returns what a router tells of its reservations, without the sessions.
    pub fn reservations(&self, node: usize) -> Result<Reservations, String> {
        let answer = api::ask(&self.socket(node), "GET", "/reservations?limit=1", "")?;
        let value: serde_json::Value = serde_json::from_slice(&answer.body).map_err(text)?;
        let inner = value.get("reservations").cloned();
        let inner = inner.ok_or_else(|| format!("it answers {value}"))?;
        serde_json::from_value(inner).map_err(text)
    }

    /// Returns the status of a router.
    pub fn status(&self, node: usize) -> Result<Status, String> {
        client::status(&self.socket(node), &Query::default())
    }

    /// Returns the processes of a router that have a part in reservations: the one that speaks
    /// RSVP, and the one that forwards.
    pub fn processes(&self, node: usize) -> Result<(u32, u32), String> {
        let find = |verb: &str| {
            let all = children(self.routers[node - 1].id());
            let found = all.into_iter().find(|child| has_argument(*child, verb));
            found.ok_or_else(|| format!("router {node} has no process `{verb}`"))
        };
        Ok((find("rsvp")?, find("forward")?))
    }

    /// Drives the hosts once.
    pub fn turn(&mut self) -> Heard {
        let heard = Heard { sender: self.sender.turn(), receiver: self.receiver.turn() };
        if heard.sender.is_empty() && heard.receiver.is_empty() {
            thread::sleep(TURN);
        }
        heard
    }

    /// Drives the hosts for a time.
    pub fn run(&mut self, time: Wait) {
        let start = Clock::now();
        while start.elapsed() < time {
            self.turn();
        }
    }

    /// Drives the hosts, and hands what they hear to `hear`, until every router has so many
    /// reservations; returns how long that took.
    pub fn until_admitted(
        &mut self,
        (count, patience): (u64, Wait),
        mut hear: impl FnMut(&mut Self, Heard) -> Result<(), String>,
    ) -> Result<Wait, String> {
        let start = Clock::now();
        loop {
            let admitted: Vec<u64> = (1..=self.routers.len())
                .map(|node| Ok(self.reservations(node)?.admitted))
                .collect::<Result<_, String>>()?;
            if admitted.iter().all(|admitted| *admitted == count) {
                return Ok(start.elapsed());
            }
            if start.elapsed() > patience {
                return Err(format!(
                    "the routers have {admitted:?} reservations and not {count} after {patience:?}"
                ));
            }
            let look = Clock::now();
            while look.elapsed() < LOOK {
                let heard = self.turn();
                hear(self, heard)?;
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for (network, router) in self.networks[1..].iter().zip(&mut self.routers) {
            end_all(network, router);
        }
    }
}

/// How often routers are asked.
const LOOK: Wait = Wait::from_millis(20);
const TURN: Wait = Wait::from_millis(1);
