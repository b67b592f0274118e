//! Reservations by RSVP on a routing machine, or on a bridge: `[deployment.rsvp]`.
//!
//! ```toml
//! [deployment.rsvp]
//! class = "reserved"                              # its `places` are for reservations
//! direction = "out"                               # where several directions end at `wire`
//! excess = "best-effort"                          # or "police"
//! delay = "5 ms"                                  # default: what a reservation alone gets
//! neighbour = { rate = "5 Mbit/s", count = 100 }  # default: no limit
//! preemption = true                               # default: false
//! refresh = "30 s"
//! reduction = true                                # default: false
//! sessions = 65536
//! interfaces = ["eth0", "eth1"]                   # default: all that have an address
//! key_file = "rsvp.keys"                          # default: messages are not signed
//! address = "192.0.2.9"                           # on a bridge: its own in RSVP, and only there
//! ```

use super::directions::Route;
use super::service::path;
use super::{Bridge, Deployment, Port, Side, keys, ports};
use crate::codes;
use crate::finding::{Draft, Report};
use crate::policy::Policy;
use crate::reader::{Node, list};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use weir_core::parameter::Params;
use weir_core::sched::{self, Descriptor};
use weir_core::units::{Duration, Rate};

/// The table `[deployment.rsvp]`: reservations that neighbours make by RSVP.
#[derive(Clone, PartialEq, Debug)]
pub struct Rsvp {
    /// The index of the direction whose policy has the class.
    pub direction: usize,
    /// The index of the port where that direction ends.
    pub to: usize,
    /// The class whose places reservations take.
    pub class: String,
    /// The treatment of packets beyond a reservation.
    pub excess: Excess,
    /// The term D that this hop adds to a delay bound, and keeps; without one, that which a
    /// reservation alone gets.
    pub delay: Option<Duration>,
    /// The most that the reservations of one neighbour may have together.
    pub neighbour: NeighbourLimit,
    /// Whether a reservation may take the place of one with a lower priority.
    pub preemption: bool,
    /// The refresh period R [rfc2205 §3.7].
    pub refresh: Duration,
    /// Whether neighbours understand summary refreshes.
    pub reduction: bool,
    /// The most sessions that the node keeps.
    pub sessions: u32,
    /// The interfaces by which RSVP is spoken; all that have an address if there is none.
    pub interfaces: Vec<String>,
    /// The file of the keys that sign messages.
    pub key_file: Option<PathBuf>,
    /// The address of a bridge as a hop of RSVP; a router has addresses of its own.
    pub address: Option<Ipv4Addr>,
}

/// The treatment of packets beyond a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Excess {
    /// They get what is free, behind all that is reserved.
    #[default]
    BestEffort,
    /// They get nothing: the class has its rate and no more, and its queue holds one burst.
    Police,
}

/// The most that the reservations of one neighbour may have together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeighbourLimit {
    /// The sum of their rates.
    pub rate: Option<Rate>,
    /// How many there may be.
    pub count: Option<u32>,
}

/// Returns the parameter with which a class is kept at its rate, if the scheduler has one.
pub fn rate_cap(descriptor: &Descriptor) -> Option<&'static str> {
    let has = |name: &&str| descriptor.parameters.iter().any(|row| row.name == *name);
    ["ceil", "ul_m2"].into_iter().find(has)
}

/// Reads `[deployment.rsvp]` of the deployment `file`, to whose folder paths are relative. After an
/// error before, directions may be missing, and are not looked at.
pub(super) fn read(
    node: &Node<'_>,
    (deployment, directions): (&Deployment, &[impl Route]),
    file: &str,
    report: &mut Report,
) -> Option<Rsvp> {
    let mut table = node.table(report)?.named("[deployment.rsvp]").with_keys(keys::RSVP);
    let class = table.required("class", report);
    let direction = table.field("direction");
    let excess_node = table.field("excess");
    let delay = table.written("delay", report);
    let neighbour = table.field("neighbour").map(|node| neighbour(&node, report));
    let preemption = table.value("preemption", report);
    let refresh = table.value("refresh", report);
    let reduction = table.value("reduction", report);
    let sessions = table.value::<u64>("sessions", report);
    let interfaces = table.field("interfaces").map(|node| interfaces(&node, report));
    let key_file = table.field("key_file").map(|node| path(&node, file, report));
    let address_node = table.field("address");
    table.finish(report);
    let address = address_node.as_ref().map(|node| address(node, report));
    let excess = table.one_of("excess", EXCESSES, report)?;
    let class_node = class?;
    let class = class_node.name(report)?;
    if report.failed() {
        return None;
    }
    let at = Written {
        node: direction.as_ref().unwrap_or(node),
        names_direction: direction.is_some(),
        names_interfaces: interfaces.is_some(),
    };
    let way = match &address_node {
        Some(address) => bridged_way(&at, address, deployment, directions),
        None => way(&at, deployment, directions),
    };
    let way = way.map_err(|draft| report.push(draft)).ok()?;
    if let Some(policy) = directions[way].policy() {
        check_class(&class_node, class, policy, report);
        if let Some(node) = excess_node.filter(|_| excess == Excess::Police) {
            check_cap(&node, class, policy, report);
        }
    }
    (!report.failed()).then_some(Rsvp {
        direction: way,
        to: directions[way].to(),
        class: class.to_owned(),
        excess,
        delay: delay?,
        neighbour: neighbour.unwrap_or(Some(NeighbourLimit::default()))?,
        preemption: preemption?,
        refresh: refresh?,
        reduction: reduction?,
        sessions: sessions? as u32,
        interfaces: interfaces.unwrap_or(Some(Vec::new()))?,
        key_file: key_file.flatten(),
        address: address.flatten(),
    })
}

/// Reads an address that one interface of a network may have.
fn address(node: &Node<'_>, report: &mut Report) -> Option<Ipv4Addr> {
    let text = node.name(report)?;
    let is_host = |it: &Ipv4Addr| !it.is_unspecified() && !it.is_multicast() && !it.is_loopback();
    let address = text.parse().ok().filter(|it| is_host(it) && !it.is_broadcast());
    if address.is_none() {
        let message = format!("{text:?} is not an IPv4 address of a machine");
        let cure = "write one of the network that is bridged, which nothing else has";
        report.push(node.draft(&codes::BAD_VALUE, message).cure(cure));
    }
    address
}

/// Where the direction in which flows are reserved is named.
struct Written<'n, 'a> {
    /// The node that names it, or that of the table.
    node: &'n Node<'a>,
    names_direction: bool,
    names_interfaces: bool,
}

/// Returns the direction in which this machine sends, or the finding.
fn way<R: Route>(
    written: &Written<'_, '_>,
    deployment: &Deployment,
    directions: &[R],
) -> Result<usize, Draft> {
    let node = written.node;
    let draft = |message: String, cure: &str| node.draft(&codes::BAD_RSVP, message).cure(cure);
    if deployment.host_interface().is_none() {
        let message = "messages of RSVP pass a bridge without an address unread".to_owned();
        let cure = "write `address`, one of the network that is bridged; or write it where a \
                    router sends: `ports = { host = \"eth1\" }`, `from = \"host\"`, `to = \
                    \"wire\"`";
        return Err(draft(message, cure));
    }
    let sends = |way: &R| deployment.ports[way.to()].side == Side::Wire;
    let own: Vec<_> = (0..directions.len()).filter(|way| sends(&directions[*way])).collect();
    if !written.names_direction {
        return own.first().copied().ok_or_else(|| {
            let message = "no direction ends at `wire`, where reservations would be".to_owned();
            draft(message, "write a direction `from = \"host\"`, `to = \"wire\"`")
        });
    }
    let name = node.value().as_str().unwrap_or_default();
    own.iter().copied().find(|way| directions[*way].name() == name).ok_or_else(|| {
        let known: Vec<_> = own.iter().map(|way| directions[*way].name()).collect();
        let message = format!("no direction `{name}` ends at `wire`");
        draft(message, &format!("write one of {}", list(&known)))
    })
}

/// Returns the direction of a bridge in which flows are reserved, or the finding.
fn bridged_way(
    written: &Written<'_, '_>,
    address: &Node<'_>,
    deployment: &Deployment,
    directions: &[impl Route],
) -> Result<usize, Draft> {
    let Written { node, names_direction, names_interfaces } = *written;
    let draft = |node: &Node<'_>, message: String, cure: &str| {
        Err(node.draft(&codes::BAD_RSVP, message).cure(cure))
    };
    if deployment.host_interface().is_some() {
        let message = "a router has addresses of its own".to_owned();
        return draft(address, message, "leave `address` out");
    }
    if names_interfaces {
        let message = "a bridge speaks RSVP on all of its ports".to_owned();
        return draft(address, message, "leave `interfaces` out");
    }
    let known: Vec<_> = directions.iter().map(Route::name).collect();
    let found = match (names_direction, directions) {
        (true, _) => {
            let name = node.value().as_str().unwrap_or_default();
            directions.iter().position(|way| way.name() == name)
        }
        (false, [_]) => Some(0),
        (false, _) => None,
    };
    let cure = format!("write `direction`, one of {}", list(&known));
    match found {
        Some(way) => Ok(way),
        None if names_direction => {
            let name = node.value().as_str().unwrap_or_default();
            draft(node, format!("no direction is called `{name}`"), &cure)
        }
        None => draft(node, "it is not said in which direction flows are reserved".into(), &cure),
    }
}

/// Reports what keeps a bridge with an address from taking part in the reservations of `way`:
/// frames into the direction that its policy does not shape, and ports whose frames only AF_XDP
/// sees. `node` is that of the table.
pub(super) fn check_bridge(
    way: &impl Route,
    ports: &[Port],
    bridges: &[Bridge],
    node: &Node<'_>,
    report: &mut Report,
) {
    let (name, from, to) = (way.name(), way.from(), &way.to());
    let Some(bridge) = bridges.iter().find(|bridge| bridge.ports.contains(to)) else { return };
    let mut refuse = |message: String, cure: &str| {
        report.push(node.draft(&codes::BAD_RSVP, message).cure(cure));
    };
    let port = |number: &usize| ports[*number].name.as_str();
    let others = bridge.ports.iter().filter(|port| *port != to && !from.contains(port));
    let others: Vec<_> = others.map(port).collect();
    if !others.is_empty() {
        let message = format!(
            "flows from {} to `{}` could not be reserved, since direction `{name}` does not begin \
             there",
            list(&others),
            port(to)
        );
        refuse(message, "have the direction begin at all other ports of its bridge");
    }
    let is_xdp = |number: &&usize| ports[**number].kind.starts_with("afxdp");
    if let Some(number) = bridge.ports.iter().find(is_xdp) {
        let message = format!("port `{}` uses AF_XDP, which hides frames from RSVP", port(number));
        refuse(message, "write `kind = \"afpacket\"`, or leave `kind` out");
    }
}

/// Reports a class under which no reservation finds a place.
fn check_class(node: &Node<'_>, class: &str, policy: &Policy, report: &mut Report) {
    let refuse = |message: String, cure: &str| node.draft(&codes::BAD_RSVP, message).cure(cure);
    let Some(id) = policy.class(class) else {
        let message = format!("the policy has no class `{class}`");
        report.push(refuse(message, "name a class with `places`"));
        return;
    };
    if !policy.places.iter().any(|places| places.parent == Some(id)) {
        let message = format!("class `{class}` has no places for reservations");
        report.push(refuse(message, "write `places = 1000` in the class, or name another one"));
    }
    if policy.link.tree.class(id).params.rate("rate").is_none() {
        let message = format!("class `{class}` has no rate of which reservations could have parts");
        report.push(refuse(message, "write `rate` in the class"));
    }
}

/// Reports reservations that could not be kept at their rates.
fn check_cap(node: &Node<'_>, class: &str, policy: &Policy, report: &mut Report) {
    let Some(entry) = sched::find(policy.link.scheduler) else { return };
    let keyword = entry.descriptor.keyword;
    let refuse = |message: String, cure: &str| node.draft(&codes::BAD_RSVP, message).cure(cure);
    let Some(cap) = rate_cap(entry.descriptor) else {
        let message = format!("classes under `{keyword}` cannot be kept at their rates");
        let cure = "write `excess = \"best-effort\"`, or choose a scheduler with `ceil`";
        report.push(refuse(message, cure));
        return;
    };
    // A class may only take a place that was built with such a limit, unless all have one.
    let rows = entry.descriptor.parameters;
    let has_default = rows.iter().any(|row| row.name == cap && row.default == Some("rate"));
    let id = policy.class(class);
    let of_places = policy.places.iter().find(|places| places.parent == id);
    let is_written = |params: &Params| params.rate(cap).is_some();
    if !has_default && of_places.is_some_and(|places| !is_written(&places.params)) {
        let message = format!("the places of class `{class}` are built without `{cap}`");
        report.push(refuse(
            message,
            &format!("write `{cap}` in `places`; a reservation has its own"),
        ));
    }
}

/// Reads `neighbour = { rate, count }`.
fn neighbour(node: &Node<'_>, report: &mut Report) -> Option<NeighbourLimit> {
    let table = node.table(report)?.named("the limit of a neighbour");
    let mut table = table.with_keys(keys::NEIGHBOUR);
    let rate = table.written("rate", report);
    let count = table.written::<u64>("count", report);
    table.finish(report);
    Some(NeighbourLimit { rate: rate?, count: count?.map(|count| count as u32) })
}

fn interfaces(node: &Node<'_>, report: &mut Report) -> Option<Vec<String>> {
    let nodes = node.elements(report)?;
    let read = |node: &Node<'_>, report: &mut Report| {
        let name = node.name(report)?;
        if ports::is_interface(name) {
            return Some(name.to_owned());
        }
        let message = format!("{name:?} is not a name of a Linux interface");
        report.push(node.draft(&codes::BAD_VALUE, message).cure("write one that `ip link` shows"));
        None
    };
    let names: Vec<_> = nodes.iter().filter_map(|node| read(node, report)).collect();
    if nodes.is_empty() || nodes.len() > INTERFACES_MAX {
        let message = format!("{} interfaces are not 1 to {INTERFACES_MAX}", nodes.len());
        let cure = "leave it out for all that have an address";
        report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
        return None;
    }
    Some(names)
}

/// The words of `excess`.
pub const EXCESSES: &[(&str, Excess)] =
    &[("best-effort", Excess::BestEffort), ("police", Excess::Police)];
/// Bound: sessions that `sessions` may say; a deployment with more is refused.
pub(super) const SESSIONS_MAX: u32 = 1 << 20;
/// Bound: interfaces by which RSVP is spoken; a deployment with more is refused.
pub(super) const INTERFACES_MAX: usize = 64;
