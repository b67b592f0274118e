//! A deployment: which policy shapes which direction between which interfaces, for `weir up`.
//!
//! ```toml
//! [deployment]
//! name = "home"                                   # default: the name of the file
//! ports = { inside = "eth0", outside = "eth1" }
//! wait = "hybrid"                                 # or "block", "spin"
//! cpu = 3                                         # default: the system's choice
//! control = "/run/weir/home.sock"                 # default: made from the name
//! lag_max = "100 ms"
//! pool = "8192 packets"                           # of each direction
//! on_exit = "open"                                # more: `service.rs`, `alarm.rs`, `api.rs`
//! web = "127.0.0.1:8480"                          # default: no page
//!
//! [direction.upload]
//! from = "inside"                                 # or several ports: ["inside", "guests"]
//! to = "outside"
//! policy = "up.toml"                              # relative to this file
//! ```
//!
//! Ports are numbered in the order of the file: `InterfaceId(n)` in a policy's rules is the nth.
//! Directions join their ports to bridges (`bridges.rs`). Invariant: a [`Deployment`] has at least
//! one bridge, each port is in exactly one, and each direction's ports are all in the same one.

mod alarm;
mod api;
mod autorate;
mod bridges;
mod circuits;
mod directions;
pub mod keys;
mod pool;
mod ports;
mod rsvp;
mod service;
mod sojourn;
pub mod trains;
mod translated;
mod web;

use crate::codes;
use crate::finding::{Draft, Outcome, Report, Span};
use crate::keyed::{Packets, WordOr};
use crate::policy::Policy;
use crate::reader::{self, Node, Table};
use directions::{Policies, Route, Written};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use weir_core::units::{Duration, Share};

pub use crate::file::ReadFile;
pub use alarm::{Alarm, Watch, Webhook, watch};
pub use api::Api;
pub use autorate::Autorate;
pub use circuits::{ATTRIBUTES, CircuitSource, Circuits, Radius, Rehearsal};
pub use ports::{INTERFACE_BYTES_MAX, PORT_KINDS, is_interface};
pub use rsvp::{EXCESSES, Excess, NeighbourLimit, Rsvp, rate_cap};
pub use service::{OnExit, Patience, Priority, Restart, Service};

/// A deployment without errors, with the policies of its directions.
#[derive(Clone, PartialEq, Debug)]
pub struct Deployment {
    /// The name in `weir status`.
    pub name: String,
    /// The ports, in the order of their numbers.
    pub ports: Vec<Port>,
    /// The shaped directions, in the order of the file.
    pub directions: Vec<Direction>,
    /// The bridges that directions make of the ports, in the order of their first ports.
    pub bridges: Vec<Bridge>,
    /// How the run loop waits.
    pub wait: Wait,
    /// How many threads receive and send for each bridge; `None` for as many as the processors
    /// allow.
    pub workers: Option<u32>,
    /// The niceness of the threads of bridges; without one, [`NICE_DEFAULT`] where the process may.
    pub nice: Option<i32>,
    /// The control socket, if one is given.
    pub control: Option<PathBuf>,
    /// A stall longer than this restarts the line.
    pub lag_max: Duration,
    /// The most frames that a direction without policy holds; each [`Direction`] has its own.
    pub pool: u32,
    /// The frames that the first receive ring of each port holds, rounded up to a power of two.
    pub receive_ring: u32,
    /// The effect of a lost carrier on the other ports.
    pub carrier: Carrier,
    /// Whether an interface with addresses or routes may be taken.
    pub take: bool,
    /// How its processes run.
    pub service: Service,
    /// The conditions that are watched while it runs.
    pub alarms: Vec<Alarm>,
    /// The API on a TCP address, if there is one.
    pub api: Option<Api>,
    /// The address of the page on it, if there is one.
    pub web: Option<SocketAddr>,
    /// Reservations by RSVP, if it takes any.
    pub rsvp: Option<Rsvp>,
    /// Circuits that come and go, if there are any.
    pub circuits: Option<Circuits>,
}

/// A network interface under the name that policies use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// The name in this file and in rules.
    pub name: String,
    /// The interface of the system. Both ends of host egress have the same.
    pub interface: String,
    /// The cable or machine at this end.
    pub side: Side,
    /// The keyword of the kind of port, one of [`PORT_KINDS`].
    pub kind: &'static str,
    /// How much later each frame leaves by this port.
    pub delay: Duration,
    /// The part of the frames that are lost instead of leaving by this port.
    pub loss: Share,
    /// The seed of the random numbers that choose them.
    pub seed: u64,
    /// The hosts behind it that are asked how long a round trip takes, where it is a modem's.
    pub reflectors: Vec<IpAddr>,
}

/// The cable or machine that a port leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Side {
    /// The interface's cable: frames for other machines pass.
    #[default]
    Interface,
    /// Host egress: this machine, above the interface.
    Host,
    /// Host egress: the cable of the interface.
    Wire,
}

/// Ports that directions join; each bridge runs on a thread of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bridge {
    /// The indices of its ports, ascending.
    pub ports: Vec<usize>,
    /// The indices of its directions, ascending.
    pub directions: Vec<usize>,
    /// The CPU to run on, if one is given.
    pub cpu: Option<u32>,
}

/// One direction with its policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Direction {
    /// The name in status and commands.
    pub name: String,
    /// The indices of the ports where frames come in: at least one, in the order of the file.
    pub from: Vec<usize>,
    /// The index of the port where frames leave.
    pub to: usize,
    /// The file of the policy.
    pub path: PathBuf,
    /// The plan that its file holds.
    pub policy: Policy,
    /// Its rate follows the capacity of the line, if it does.
    pub autorate: Option<Autorate>,
    /// The most frames that it holds.
    pub pool: u32,
    /// For each leaf, the age from which its packets are dropped as stale, as after a stall; empty
    /// if none are.
    pub sojourn_max: Vec<Duration>,
    /// For each leaf, the longest train of frames of one super-packet, in bytes, that passes as one
    /// packet; 0, also beyond the end, where each frame passes by itself.
    pub train_max: Vec<u32>,
    /// Whether its frames get the code point of the first frame that their connection sent the
    /// other way.
    pub restores_dscp: bool,
}

impl Direction {
    /// Returns the policy with the longest packets that this direction has.
    #[must_use]
    pub fn policy_with_trains(&self) -> Policy {
        trains::demanded(&self.policy, &self.train_max)
    }
}

/// The treatment of super-packets, which a sender or a card leaves to be cut into frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SuperPackets {
    /// Each frame is decided by itself.
    #[default]
    Cut,
    /// They pass as one packet of all their frames.
    Whole,
    /// As `whole` where that takes less than a millisecond at the rate of the class.
    Auto,
}

/// How the run loop waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wait {
    /// Sleeps until shortly before a deadline, then polls.
    #[default]
    Hybrid,
    /// Sleeps until the deadline.
    Block,
    /// Polls without sleeping.
    Spin,
}

/// The effect of a port's lost carrier on the other ports of its bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Carrier {
    /// They keep their carrier.
    #[default]
    Keep,
    /// They lose theirs too, so that the machines behind them see it.
    Pass,
}

impl Deployment {
    /// Returns the deployment as links run it: with a leaf for each place of its policies. Frames
    /// of a class at a place may be as old as those of the class that may keep them longest.
    #[must_use]
    pub fn with_places(mut self) -> Self {
        for direction in &mut self.directions {
            let first = direction.policy.first_place.index();
            let is_plain = direction.policy.places.is_empty() || direction.policy.has_places();
            let longest = direction.sojourn_max.iter().take(first).max().copied();
            if let Some(longest) = longest.filter(|_| !is_plain) {
                let places = direction.policy.place_count();
                direction.sojourn_max.truncate(first);
                direction.sojourn_max.resize(first + places, longest);
            }
            if !is_plain {
                direction.train_max.truncate(first);
            }
            if !is_plain {
                direction.policy = direction.policy.clone().with_places();
            }
        }
        self
    }

    /// Returns the direction whose policy shapes frames from one port to another.
    pub fn direction(&self, from: usize, to: usize) -> Option<&Direction> {
        self.directions.iter().find(|way| way.to == to && way.from.contains(&from))
    }

    /// Returns the bridge that takes part in RSVP, and its address there.
    pub fn rsvp_bridge(&self) -> Option<(&Bridge, Ipv4Addr)> {
        let rsvp = self.rsvp.as_ref()?;
        let bridge = self.bridges.iter().find(|bridge| bridge.ports.contains(&rsvp.to))?;
        Some((bridge, rsvp.address?))
    }

    /// Returns the interface by which this machine's own traffic is shaped, in place of a bridge.
    pub fn host_interface(&self) -> Option<&str> {
        let host = self.ports.iter().find(|port| port.side == Side::Host)?;
        Some(&host.interface)
    }
}

/// Returns whether a file with these top-level keys is a deployment.
pub fn is_deployment(top_level: &[String]) -> bool {
    top_level.iter().any(|key| key == "deployment" || key == "direction")
}

/// Checks the deployment `bytes` of the file `name`, and its policies, read with `read_file`.
pub fn parse(bytes: &[u8], name: &str, read_file: ReadFile<'_>) -> Outcome<Deployment> {
    let mut policies = Policies::new(read_file);
    let outcome =
        read(bytes, name, |written, ports, report| policies.complete(written, ports, report));
    let mut outcome =
        outcome.map(|(deployment, directions)| Deployment { directions, ..deployment });
    policies.merge_into(&mut outcome);
    outcome
}

/// Checks the deployment `bytes` of the file `name` alone, and reads no policy: for a process with
/// privileges. The deployment has no directions and its alarms watch nothing; whether a policy has
/// the class of reservations is not known.
pub fn parse_outline(bytes: &[u8], name: &str) -> Outcome<Deployment> {
    let outcome = read(bytes, name, |written, _, _| written.way());
    outcome.map(|(mut deployment, _)| {
        deployment.bridges.iter_mut().for_each(|bridge| bridge.directions.clear());
        deployment
    })
}

/// Reads a deployment whose directions are what `complete` makes of them; it gets the ports, too.
fn read<R: Route>(
    bytes: &[u8],
    name: &str,
    mut complete: impl FnMut(Written<'_>, &[Port], &mut Report) -> Option<R>,
) -> Outcome<(Deployment, Vec<R>)> {
    reader::read(name, bytes, |top, report| {
        top.add_keys(keys::FILE);
        // Makes the key known even if the other table is missing.
        let ways = top.field("direction");
        let table = top.required("deployment", report)?.table(report)?.named("[deployment]");
        let mut table = table.with_keys(keys::DEPLOYMENT);
        let alarms = table.field("alarm");
        let api = table.field("api").and_then(|node| api::read(&node, name, report));
        let web = table.field("web").and_then(|node| web::read(&node, api.as_ref(), report));
        let rsvp = table.field("rsvp");
        let circuits = table.field("circuits");
        let mut settings = Settings::read(&mut table, name, report);
        if web.is_some() {
            // What the page shows of single packets comes from there.
            settings.deployment.service.ring.get_or_insert(web::RING);
        }
        let place = (name, &settings);
        let mut varying = Vec::new();
        let mut complete = |written: Written<'_>, ports: &[Port], report: &mut Report| {
            varying.extend(written.autorate());
            complete(written, ports, report)
        };
        let directions = directions::read(ways.as_ref(), place, report, &mut complete);
        for (autorate, span) in &varying {
            let ports = &mut settings.deployment.ports;
            autorate::give_probes((autorate, *span), ports, report);
        }
        let alarms = alarm::read(alarms.as_ref(), &directions, report);
        let all = (&settings.deployment, directions.as_slice());
        let rsvp_settings = rsvp.as_ref().and_then(|node| rsvp::read(node, all, name, report));
        let circuits = circuits.and_then(|node| circuits::read(&node, &directions, name, report));
        if report.failed() {
            // A direction that is missing would leave its ports alone.
            return None;
        }
        let bridges = bridges::join(&settings, &directions, report)?;
        service::check(&settings, &bridges, report);
        if let Some((node, rsvp)) = rsvp.as_ref().zip(rsvp_settings.as_ref()) {
            let (way, ports) = (&directions[rsvp.direction], &settings.deployment.ports);
            if rsvp.address.is_some() {
                rsvp::check_bridge(way, ports, &bridges, node, report);
            }
        }
        let rsvp = rsvp_settings;
        let deployment =
            Deployment { bridges, alarms, api, web, rsvp, circuits, ..settings.deployment };
        Some((deployment, directions))
    })
}

/// The table `[deployment]`, and where its keys are written.
struct Settings {
    /// All of it except directions, bridges, alarms, the API, the page, reservations
    /// and circuits.
    deployment: Deployment,
    /// Where each port is written.
    port_spans: Vec<Span>,
    /// The CPUs of bridges, and where they are written.
    cpus: Option<(Vec<u32>, Span)>,
    /// Where the pool is written.
    pool_span: Option<Span>,
    /// The default of directions.
    sojourn_max: Option<WordOr<Duration>>,
    super_packets: SuperPackets,
    /// Where keys of the service are written.
    service_spans: service::Spans,
}

impl Settings {
    fn read(table: &mut Table<'_>, file: &str, report: &mut Report) -> Self {
        let name = name(table, file, report);
        let ports = table.required("ports", report).map(|node| ports::read(&node, report));
        let (ports, port_spans) = ports.unwrap_or_default();
        let wait = table.one_of("wait", WAITS, report);
        let workers = table.value::<WordOr<u64>>("workers", report);
        let nice = table.written::<i64>("nice", report).flatten();
        let cpus = bridges::cpus(table, report);
        let control = table.field("control").and_then(|node| control(&node, report));
        let lag_max = table.value("lag_max", report);
        let pool_node = table.field("pool");
        let pool = pool::read(table, report);
        let receive_ring = table.value("receive_ring", report).unwrap_or(Packets(0));
        let sojourn_max = table.written("sojourn_max", report).flatten();
        let super_packets = table.one_of("super_packets", SUPER_PACKETS, report);
        let carrier = table.one_of("carrier", CARRIERS, report);
        let take = table.value("take", report);
        let (service, service_spans) = service::read(table, (&ports, file), report);
        table.finish(report);
        let deployment = Deployment {
            name: name.unwrap_or_default(),
            ports,
            directions: Vec::new(),
            bridges: Vec::new(),
            wait: wait.unwrap_or_default(),
            workers: match workers {
                Some(WordOr::Word) => None,
                Some(WordOr::Value(count)) => Some(count as u32),
                None => Some(1),
            },
            nice: nice.map(|nice| nice as i32),
            control,
            lag_max: lag_max.unwrap_or_default(),
            // After an error, no policy is told that its queues hold more.
            pool: pool.unwrap_or(keys::POOL_MAX),
            receive_ring: receive_ring.0,
            carrier: carrier.unwrap_or_default(),
            take: take.unwrap_or_default(),
            service,
            alarms: Vec::new(),
            api: None,
            web: None,
            rsvp: None,
            circuits: None,
        };
        let pool_span = pool_node.map(|node| node.span());
        Self {
            deployment,
            port_spans,
            cpus,
            pool_span,
            sojourn_max,
            super_packets: super_packets.unwrap_or_default(),
            service_spans,
        }
    }
}

/// Reads the name, which is the file's name without its ending unless one is written.
fn name(table: &mut Table<'_>, file: &str, report: &mut Report) -> Option<String> {
    let draft = |message: String, cure: &str, span| {
        let cure = format!("{cure} {NAME_RULE}");
        Draft::new(&codes::BAD_VALUE, span, message).cure(cure)
    };
    if let Some(node) = table.field("name") {
        let name = node.name(report)?;
        if is_name(name) {
            return Some(name.to_owned());
        }
        let message = format!("{name:?} is not a valid name of a deployment");
        report.push(draft(message, "use", node.span()));
        return None;
    }
    let stem = Path::new(file).file_stem()?.to_string_lossy();
    if is_name(&stem) {
        return Some(stem.into_owned());
    }
    let message = format!("the name of the file, {stem:?}, is not a valid name of a deployment");
    report.push(draft(message, "write `name = \"...\"` with", table.span()));
    None
}

/// Returns whether a deployment may have this name, which becomes the name of its control socket.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let begins = name.starts_with(char::is_alphanumeric);
    begins && name.len() <= NAME_BYTES_MAX && name.chars().all(fits)
}

/// Reports a name of a direction or a port that would not be printed as it is written.
fn check_key(node: &Node<'_>, what: &str, report: &mut Report) {
    let name = node.key();
    if is_visible(name) {
        return;
    }
    let message = format!("{name:?} is not a valid name of a {what}");
    let cure = "use at least one character, and no control characters";
    report.push(Draft::new(&codes::BAD_VALUE, node.key_span(), message).cure(cure));
}

/// Returns whether a text is not empty and has no characters that control a terminal.
fn is_visible(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// Reads the path of a socket; whether it can be made there is seen by `weir up`.
fn control(node: &Node<'_>, report: &mut Report) -> Option<PathBuf> {
    let path = node.name(report)?;
    if !is_visible(path) {
        let message = format!("{path:?} has control characters");
        report.push(node.draft(&codes::BAD_VALUE, message).cure("write a path without them"));
        return None;
    }
    if path.len() > SOCKET_BYTES_MAX {
        let message = format!(
            "the path has {} bytes, and that of a socket at most {SOCKET_BYTES_MAX}",
            path.len()
        );
        report.push(node.draft(&codes::BAD_VALUE, message).cure("write a shorter path"));
        return None;
    }
    Some(PathBuf::from(path))
}

/// The rule of [`is_name`], as a cure.
pub const NAME_RULE: &str =
    "letters, digits, `-`, `_` and `.`, at most 64 bytes, a letter or digit first";
/// The niceness of a bridge's thread that is allowed to have it, unless `nice` says otherwise: a
/// frame that waits for the processor is late whatever the policy says.
pub const NICE_DEFAULT: i32 = -20;
const NICE_MAX: i64 = 19;
/// The words of `wait`.
const WAITS: &[(&str, Wait)] =
    &[("hybrid", Wait::Hybrid), ("block", Wait::Block), ("spin", Wait::Spin)];
/// The words of `super_packets`.
const SUPER_PACKETS: &[(&str, SuperPackets)] =
    &[("cut", SuperPackets::Cut), ("whole", SuperPackets::Whole), ("auto", SuperPackets::Auto)];
/// The words of `carrier`.
const CARRIERS: &[(&str, Carrier)] = &[("keep", Carrier::Keep), ("pass", Carrier::Pass)];
/// Leaves [`SOCKET_BYTES_MAX`] enough for the folder.
const NAME_BYTES_MAX: usize = 64;
/// The longest path of a socket: `sun_path` of Linux (unix(7)), less the zero at the end.
const SOCKET_BYTES_MAX: usize = 107;
