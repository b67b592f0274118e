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
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration as Wait, Instant as Clock};

use tempfile::TempDir;
use weir_control::{client, http};
use weir_core::units::Duration;
use weir_live::netlink::{Mac, VethEnd};
use weir_live::netns::NetNs;
use weir_live::status::Status;
use weir_live::status::query::Query;
use weir_live::status::reservations::Reservations;
use weir_rsvp::node::Event;
use weir_testbed::{Netlink, wait_for_carrier};

use super::host::{Host, HostParams};
use super::text;
use crate::experiments::processes::{children, runs};
use crate::program;

/// What a scene is made from.
pub(super) struct Plan<'a> {
    pub routers: usize,
    /// The policy of each router.
    pub policy: &'a str,
    /// Lines of `[deployment.rsvp]`, beside `class`, `refresh` and `reduction`.
    pub rsvp: &'a str,
    pub period: Duration,
    pub reduction: bool,
}

/// See the module.
pub(super) struct Scene {
    /// From left to right.
    pub networks: Vec<NetNs>,
    pub sender: Host,
    pub receiver: Host,
    routers: Vec<Child>,
    folder: TempDir,
}

/// What the hosts learned in a turn.
pub(super) struct Heard {
    pub sender: Vec<Event>,
    pub receiver: Vec<Event>,
}

impl Scene {
    /// Makes the networks, and starts routers and hosts.
    pub fn start(plan: &Plan<'_>) -> Result<Self, String> {
        let nodes = plan.routers + 2;
        let networks: Vec<NetNs> =
            (0..nodes).map(|_| NetNs::new()).collect::<Result<_, _>>().map_err(text)?;
        for cable in 0..nodes - 1 {
            connect(&networks, cable)?;
        }
        for (node, network) in networks.iter().enumerate() {
            network.run(|| route_to_all(node, nodes)).map_err(text)??;
        }
        let host = |node: usize, interface: &'static str, cable: usize| {
            let params = HostParams {
                address: address(cable, node),
                period: plan.period,
                reduction: plan.reduction,
                seed: node as u64 + 1,
            };
            networks[node].run(move || Host::open(interface, params)).map_err(text)?
        };
        let (sender, receiver) = (host(0, "right", 0)?, host(nodes - 1, "left", nodes - 2)?);
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
        let log = fs::File::create(self.log(node)).map_err(text)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let started = self.networks[node].run(move || command.spawn()).map_err(text)?;
        self.routers.push(started.map_err(text)?);
        let start = Clock::now();
        while let Err(why) = self.reservations(node) {
            if start.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.log(node)).unwrap_or_default();
                return Err(format!("router {node} takes no reservations: {why}\n{log}"));
            }
            thread::sleep(Wait::from_millis(20));
        }
        Ok(())
    }

    fn socket(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("r{node}.sock"))
    }

    fn log(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("r{node}.log"))
    }

    /// Returns the address of the sender.
    pub fn sender_address(&self) -> IpAddr {
        address(0, 0)
    }

    /// Returns the address of the receiver.
    pub fn receiver_address(&self) -> IpAddr {
        let last = self.networks.len() - 1;
        address(last - 1, last)
    }

    /// Returns what a router tells of its reservations, without the sessions.
    pub fn reservations(&self, node: usize) -> Result<Reservations, String> {
        let answer = http::ask(&self.socket(node), "GET", "/reservations?limit=1", "")?;
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
            let found = children(self.routers[node - 1].id()).find(|child| runs(*child, verb));
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
        for mut router in self.routers.drain(..) {
            let stopped = Command::new("kill").arg(router.id().to_string()).status();
            if !stopped.is_ok_and(|status| status.success()) {
                drop(router.kill());
            }
            drop(router.wait());
        }
    }
}

/// The address of a node on the cable to its right if that has its number, else to its left; with
/// [`NETWORK`] that of the cable.
fn address(cable: usize, node: usize) -> IpAddr {
    IpAddr::from([10, cable as u8 + 1, 0, node.wrapping_add(1) as u8])
}

fn connect(networks: &[NetNs], cable: usize) -> Result<(), String> {
    let ends = [(cable, "right"), (cable + 1, "left")];
    let mut netlink = Netlink::open_in(&networks[cable]).map_err(text)?;
    let mac = |node: usize| Mac([2, 0, 0, 0, cable as u8, node as u8]);
    let [near, far] =
        ends.map(|(node, name)| VethEnd { name, namespace: &networks[node], mac: mac(node) });
    netlink.add_veth(near, far, 1500).map_err(text)?;
    for (node, name) in ends {
        Netlink::open_in(&networks[node]).map_err(text)?.set_up(name, true).map_err(text)?;
    }
    for (node, name) in ends {
        let mut netlink = Netlink::open_in(&networks[node]).map_err(text)?;
        wait_for_carrier(&mut netlink, name).map_err(text)?;
        netlink.add_address(name, address(cable, node), 24).map_err(text)?;
    }
    Ok(())
}

/// Routes to all cables, and forwarding where there are two.
fn route_to_all(node: usize, nodes: usize) -> Result<(), String> {
    let mut netlink = Netlink::open().map_err(text)?;
    netlink.set_up("lo", true).map_err(text)?;
    for cable in 0..nodes - 1 {
        let gateway = match cable {
            _ if cable + 1 < node => address(node - 1, node - 1),
            _ if cable > node => address(node, node + 1),
            _ => continue,
        };
        netlink.add_route(address(cable, NETWORK), 24, gateway).map_err(text)?;
    }
    if node > 0 && node + 1 < nodes {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(text)?;
    }
    Ok(())
}

/// The number whose address is that of the network.
const NETWORK: usize = usize::MAX;
const PATIENCE: Wait = Wait::from_secs(30);
/// How often routers are asked.
const LOOK: Wait = Wait::from_millis(20);
const TURN: Wait = Wait::from_millis(1);
