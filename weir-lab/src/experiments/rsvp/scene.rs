//! A host, routers of `weir up`, a host, in a row of private networks.
//!
//! ```text
//!           10.1.0.0/24           10.2.0.0/24
//!  sender: right -- left :router: right -- left :receiver
//! ```
//!
//! Each router shapes what leaves it to the right. Invariant: the routers end with the scene.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration as Wait, Instant as Clock};

use weir_core::units::Duration;
use weir_host::netns::NetNs;
use weir_link::status::Status;
use weir_link::status::reservations::Reservations;
use weir_rsvp::node::Event;
use weir_testbed::reserving::{self, Setting, address};
use weir_testbed::{Routers, Shaped, children, has_argument};

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
    routers: Routers,
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
        let mut routers = Routers::new(program::weir()?.get_program(), plan.policy)?;
        let refresh = plan.period.as_nanos() / 1_000_000;
        let rsvp = format!("refresh = \"{refresh} ms\"\nreduction = {reduction}\n{}", plan.rsvp);
        for (node, network) in (1..).zip(&networks[1..=plan.routers]) {
            routers.start(node, network, Shaped::RIGHT, &rsvp)?;
        }
        Ok(Self { networks, sender, receiver, routers })
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
        Ok(self.routers.reservations(node)?)
    }

    /// Returns the status of a router.
    pub fn status(&self, node: usize) -> Result<Status, String> {
        Ok(self.routers.status(node)?)
    }

    /// Returns the processes of a router that have a part in reservations: the one that speaks
    /// RSVP, and the one that forwards.
    pub fn processes(&self, node: usize) -> Result<(u32, u32), String> {
        let find = |verb: &str| {
            let all = children(self.routers.router(node).id());
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
            let routers = self.networks.len() - 2;
            let admitted: Vec<u64> = (1..=routers)
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

/// How often routers are asked.
const LOOK: Wait = Wait::from_millis(20);
const TURN: Wait = Wait::from_millis(1);
