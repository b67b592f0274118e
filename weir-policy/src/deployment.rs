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
//! pool = "16384 packets"
//!
//! [direction.upload]
//! from = "inside"
//! to = "outside"
//! policy = "up.toml"                              # relative to this file
//! ```
//!
//! Ports are numbered in the order of the file: `InterfaceId(n)` in a policy's rules is the nth.

use crate::codes;
pub use crate::file::ReadFile;
use crate::finding::{Draft, Outcome, Report};
use crate::policy::{self, Policy};
use crate::reader::{self, Node, Table, list, suggest};
use std::path::{Path, PathBuf};
use weir_core::units::Duration;

/// A checked deployment.
#[derive(Clone, PartialEq, Debug)]
pub struct Deployment {
    /// The name in `weir status`.
    pub name: String,
    /// The ports, in the order of their numbers.
    pub ports: Vec<Port>,
    /// The shaped directions, in the order of the file.
    pub directions: Vec<Direction>,
    /// How the run loop waits.
    pub wait: Wait,
    /// The CPU to run on, if one is given.
    pub cpu: Option<u32>,
    /// The control socket, if one is given.
    pub control: Option<PathBuf>,
    /// A stall longer than this restarts the line.
    pub lag_max: Duration,
    /// The most frames that both directions hold together.
    pub pool: u32,
}

/// A network interface under the name that policies use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// The name in this file and in rules.
    pub name: String,
    /// The interface of the system.
    pub interface: String,
}

/// One direction with its policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Direction {
    /// The name.
    pub name: String,
    /// The index of the port where frames come in.
    pub from: usize,
    /// The index of the port where frames leave.
    pub to: usize,
    /// The file of the policy.
    pub path: PathBuf,
    /// The policy.
    pub policy: Policy,
}

/// How the run loop waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wait {
    /// Sleeps until shortly before a deadline, then polls.
    #[default]
    Hybrid,
    /// Sleeps until the deadline.
    Block,
    /// Never sleeps.
    Spin,
}

/// Returns whether a file with these top-level keys is a deployment.
pub fn is_deployment(top_level: &[String]) -> bool {
    top_level.iter().any(|key| key == "deployment" || key == "direction")
}

/// Checks the deployment `bytes` of the file `name`, and its policies, read with `read_file`.
pub fn parse(bytes: &[u8], name: &str, read_file: ReadFile<'_>) -> Outcome<Deployment> {
    let mut policies = Policies { folder: folder(name), read_file, outcomes: Vec::new() };
    let mut outcome = reader::read(name, bytes, |top, report| {
        // Makes the key known even if the other table is missing.
        top.field("direction");
        let mut table = top.required("deployment", report)?.table(report)?.named("[deployment]");
        let settings = settings(&mut table, name, report);
        let directions = directions(top, &settings.ports, &mut policies, report);
        Some(Deployment { directions, ..settings })
    });
    for policy in policies.outcomes {
        policy.merge_into(&mut outcome);
    }
    outcome
}

fn folder(name: &str) -> PathBuf {
    Path::new(name).parent().map(Path::to_owned).unwrap_or_default()
}

/// Reads `[deployment]`; directions are still missing.
fn settings(table: &mut Table<'_>, file: &str, report: &mut Report) -> Deployment {
    let name = name(table, file, report);
    let ports = table.required("ports", report).map(|node| ports(&node, report));
    let wait = table.field("wait").and_then(|node| wait(&node, report));
    let cpu = table.field("cpu").and_then(|node| node.number(0, CPU_MAX, report));
    let control = table.field("control").and_then(|node| node.name(report)).map(PathBuf::from);
    let lag_max = table.field("lag_max").and_then(|node| lag_max(&node, report));
    let pool = table.field("pool").and_then(|node| pool(&node, report));
    table.finish(report);
    Deployment {
        name: name.unwrap_or_default(),
        ports: ports.unwrap_or_default(),
        directions: Vec::new(),
        wait: wait.unwrap_or_default(),
        cpu: cpu.map(|cpu| cpu as u32),
        control,
        lag_max: lag_max.unwrap_or(LAG_MAX_DEFAULT),
        pool: pool.unwrap_or(POOL_DEFAULT),
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

/// Returns whether Linux allows an interface of this name.
pub fn is_interface(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && c != '/';
    (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && name.chars().all(fits)
}

fn ports(node: &Node<'_>, report: &mut Report) -> Vec<Port> {
    let Some(table) = node.table(report) else { return Vec::new() };
    let mut ports: Vec<Port> = Vec::new();
    for node in table.entries() {
        let interface = interface(&node, report);
        let same = |port: &&Port| Some(port.interface.as_str()) == interface;
        if let Some(other) = ports.iter().find(same) {
            let message =
                format!("ports `{}` and `{}` are both {}", other.name, node.key(), other.interface);
            let cure = "name another interface";
            report.push(Draft::new(&codes::SAME_PORT, node.span(), message).cure(cure));
        }
        // A port whose interface is wrong is still declared.
        let interface = interface.unwrap_or_default().to_owned();
        ports.push(Port { name: node.key().to_owned(), interface });
    }
    let count = table.entries().count();
    if count != PORTS {
        let message = format!("a deployment joins {PORTS} ports, but {count} are written");
        let cure = "write `ports = { inside = \"eth0\", outside = \"eth1\" }`";
        report.push(Draft::new(&codes::PORT_COUNT, node.key_span(), message).cure(cure));
    }
    ports
}

/// Reads the name of an interface, as Linux allows it.
fn interface<'a>(node: &Node<'a>, report: &mut Report) -> Option<&'a str> {
    let name = node.name(report)?;
    if is_interface(name) {
        return Some(name);
    }
    let message = format!("{name:?} is not a name of a Linux interface");
    let cure = format!("write the name that `ip link` shows, at most {INTERFACE_BYTES_MAX} bytes");
    report.push(node.draft(&codes::BAD_VALUE, message).cure(cure));
    None
}

fn wait(node: &Node<'_>, report: &mut Report) -> Option<Wait> {
    Some(match node.choice(&["hybrid", "block", "spin"], report)? {
        "block" => Wait::Block,
        "spin" => Wait::Spin,
        _ => Wait::Hybrid,
    })
}

fn lag_max(node: &Node<'_>, report: &mut Report) -> Option<Duration> {
    let lag = node.duration(report)?;
    if (LAG_MAX_MIN..=LAG_MAX_MAX).contains(&lag) {
        return Some(lag);
    }
    let message = format!("{lag} is not in {LAG_MAX_MIN} to {LAG_MAX_MAX}");
    let cure = format!("leave it out for {LAG_MAX_DEFAULT}");
    report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
    None
}

fn pool(node: &Node<'_>, report: &mut Report) -> Option<u32> {
    let frames = node.packets(report)?;
    if (POOL_MIN..=POOL_MAX).contains(&frames) {
        return Some(frames);
    }
    let message = format!("{frames} packets is not in {POOL_MIN}..={POOL_MAX}");
    let cure = format!("leave it out for {POOL_DEFAULT} packets");
    report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
    None
}

/// Reads the policies that directions name.
struct Policies<'a> {
    folder: PathBuf,
    read_file: ReadFile<'a>,
    /// The outcome of reading each policy.
    outcomes: Vec<Outcome<Policy>>,
}

impl Policies<'_> {
    fn read(&mut self, node: &Node<'_>, ports: &[Port], report: &mut Report) -> Option<Policy> {
        let path = self.folder.join(node.name(report)?);
        let name = path.display().to_string();
        let bytes = match (self.read_file)(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("cannot read {name}: {error}");
                let cure = "name a file, relative to this one";
                report.push(node.draft(&codes::UNREADABLE, message).cure(cure));
                return None;
            }
        };
        let names: Vec<_> = ports.iter().map(|port| port.name.clone()).collect();
        let mut outcome = policy::parse_bytes(&bytes, &name, Some(&names), self.read_file);
        if outcome.failed() {
            let message = format!("the policy {name} has errors");
            report.push(node.draft(&codes::POLICY_FAULTY, message).cure("correct the policy"));
        }
        let policy = outcome.plan.take();
        // A policy for both directions is reported once.
        let known = self.outcomes.iter().any(|other| other.sources == outcome.sources);
        if !known {
            self.outcomes.push(outcome);
        }
        policy
    }
}

fn directions(
    top: &mut Table<'_>,
    ports: &[Port],
    policies: &mut Policies<'_>,
    report: &mut Report,
) -> Vec<Direction> {
    let node = top.required("direction", report);
    let Some(table) = node.and_then(|node| node.table(report)) else { return Vec::new() };
    let nodes: Vec<_> = table.entries().collect();
    if nodes.is_empty() || nodes.len() > PORTS {
        let message =
            format!("a deployment has one or {PORTS} directions, but {} are written", nodes.len());
        let cure = "write `[direction.NAME]` with from, to and policy for each way to shape";
        report.push(Draft::new(&codes::DIRECTION_COUNT, table.span(), message).cure(cure));
        // This also bounds the number of files to read.
        return Vec::new();
    }
    let mut directions: Vec<Direction> = Vec::new();
    for node in &nodes {
        let Some(direction) = direction(node, ports, policies, report) else { continue };
        if let Some(other) = directions.iter().find(|other| other.from == direction.from) {
            let (first, second) = (&other.name, &direction.name);
            let message = format!("directions `{first}` and `{second}` go the same way");
            let cure = "swap `from` and `to` in one of them";
            report.push(Draft::new(&codes::SAME_WAY, node.key_span(), message).cure(cure));
        }
        directions.push(direction);
    }
    directions
}

fn direction(
    node: &Node<'_>,
    ports: &[Port],
    policies: &mut Policies<'_>,
    report: &mut Report,
) -> Option<Direction> {
    let mut table = node.table(report)?.named(format!("direction `{}`", node.key()));
    let from = table.required("from", report).and_then(|node| port(&node, ports, report));
    let to_node = table.required("to", report);
    let to = to_node.as_ref().and_then(|node| port(node, ports, report));
    let policy_node = table.required("policy", report);
    table.finish(report);
    let policy = policy_node.as_ref().and_then(|node| policies.read(node, ports, report));
    let (from, to, to_node) = (from?, to?, to_node?);
    if from == to {
        let message = "a direction ends where it begins";
        report.push(to_node.draft(&codes::SAME_WAY, message).cure("name the other port"));
    }
    let path = policies.folder.join(policy_node?.name(report)?);
    Some(Direction { name: node.key().to_owned(), from, to, path, policy: policy? })
}

fn port(node: &Node<'_>, ports: &[Port], report: &mut Report) -> Option<usize> {
    let name = node.name(report)?;
    let found = ports.iter().position(|port| port.name == name);
    if found.is_none() {
        let known: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
        let message = format!("there is no port `{name}`; there are {}", list(&known));
        report.push(node.draft(&codes::UNKNOWN_PORT, message).cure(suggest(name, &known)));
    }
    found
}

/// A bridge has two sides, and one direction from each.
const PORTS: usize = 2;
/// The rule of [`is_name`], as a cure.
pub const NAME_RULE: &str =
    "letters, digits, `-`, `_` and `.`, at most 64 bytes, a letter or digit first";
/// The path of a socket has at most 107 bytes.
const NAME_BYTES_MAX: usize = 64;
/// The longest name of an interface: IFNAMSIZ of Linux, less the zero at the end.
pub const INTERFACE_BYTES_MAX: usize = 15;
const CPU_MAX: u64 = 4095;
const LAG_MAX_DEFAULT: Duration = Duration::from_millis(100);
/// Below this the loop's own wake-ups would count as stalls.
const LAG_MAX_MIN: Duration = Duration::from_millis(1);
const LAG_MAX_MAX: Duration = Duration::from_secs(10);
const POOL_DEFAULT: u32 = 16_384;
const POOL_MIN: u32 = 64;
/// Two gigabytes of frames.
const POOL_MAX: u32 = 1 << 20;
