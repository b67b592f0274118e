//! Whether an interface is free, and if not, what uses it and what to do.

use super::network::{Interface, Network, VETH};
use super::{ClaimPort, action};
use crate::error::{Result, SystemError};

/// The ports to claim, each with its interface.
type Ports<'p> = [(ClaimPort<'p>, &'p Interface)];

/// Refuses ports whose interfaces are used otherwise; with `take`, addresses and routes are no
/// reason, and the sentences returned say what stops working.
///
/// Interfaces of the numbers `adopted` were taken before, with the operator's consent.
pub(super) fn check(
    network: &Network,
    ports: &Ports<'_>,
    take: bool,
    adopted: &[u32],
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for row in ports {
        let take = take || adopted.contains(&row.1.index);
        notes.extend(check_port(network, row, ports, take)?);
    }
    Ok(notes)
}

/// As [`check`], of one of the ports.
pub(super) fn check_port(
    network: &Network,
    row @ (port, interface): &(ClaimPort<'_>, &Interface),
    ports: &Ports<'_>,
    take: bool,
) -> Result<Option<String>> {
    if let Some((why, cure)) = in_other(network, interface).or_else(|| joined(row, ports)) {
        return Err(SystemError::refused(action(port), why, cure));
    }
    if port.is_host {
        return Ok(None);
    }
    if let Some((why, cure)) = only_way_out(network, interface, ports) {
        return Err(SystemError::refused(action(port), why, cure));
    }
    let used = uses(network, interface);
    if used.is_empty() {
        return Ok(None);
    }
    if !take {
        let why = format!("the host uses {used}, which would stop working");
        let cure = "give the host another interface (docs/running.md), or accept it with `weir \
                    up --take` or `take = true` in [deployment]";
        return Err(SystemError::refused(action(port), why, cure));
    }
    let name = &interface.name;
    Ok(Some(format!("`{name}` is taken: until Weir ends, the host cannot use {used}")))
}

/// Why, and the cure.
type Refusal = (String, String);

/// An interface in a bridge or bond: that one forwards, or takes, each frame itself.
fn in_other(network: &Network, interface: &Interface) -> Option<Refusal> {
    let master = network.at(interface.master?)?;
    let kind = match master.kind.as_str() {
        "" => "interface",
        kind => kind,
    };
    let why = format!("it is part of the {kind} `{}`, which handles its frames", master.name);
    let cure = format!(
        "take it out (`ip link set {} nomaster`), or name another interface",
        interface.name
    );
    Some((why, cure))
}

/// Two ports of which one is the other's end, or lies on it: frames would circulate.
fn joined((port, interface): &(ClaimPort<'_>, &Interface), ports: &Ports<'_>) -> Option<Refusal> {
    let lower = interface.lower?;
    let (other, below) = ports.iter().find(|(_, other)| other.index == lower)?;
    let why = if interface.kind == VETH {
        format!("it and `{}` are the two ends of one veth pair", below.name)
    } else {
        let (kind, name) = (&interface.kind, &below.name);
        format!("it is a {kind} on `{name}`, and so its frames are also those of that port")
    };
    let cure = format!("take port `{}` or `{}` out", port.name, other.name);
    Some((why, cure))
}

/// The only interface by which the host can reach other networks, and be reached.
fn only_way_out(network: &Network, interface: &Interface, ports: &Ports<'_>) -> Option<Refusal> {
    let is_port = |index: &u32| ports.iter().any(|(_, port)| port.index == *index);
    let mut ways = network.routes().iter().filter(|route| route.is_default);
    let way = ways.clone().find(|route| route.indices.contains(&interface.index))?;
    if ways.any(|route| !route.indices.iter().all(is_port)) {
        return None;
    }
    let why = format!("{} leads through it, and there is no other", way.text);
    let cure = format!(
        "give the host another interface with a default route (docs/running.md), or remove this \
         one: `ip route del default dev {}`",
        interface.name
    );
    Some((why, cure))
}

/// Returns what the host uses an interface for, as a list.
fn uses(network: &Network, interface: &Interface) -> String {
    let index = interface.index;
    let addresses = network.addresses(index).map(|address| address.text.clone());
    let leads = network.routes().iter().filter(|route| route.indices.contains(&index));
    let routes = leads.map(|route| route.text.clone());
    let above = network.above(index).map(|other| format!("the {} `{}`", other.kind, other.name));
    let mut uses: Vec<String> = addresses.chain(routes).chain(above).collect();
    let others = uses.len().saturating_sub(USES_SHOWN);
    if others > 0 {
        uses.truncate(USES_SHOWN);
        uses.push(format!("{others} more"));
    }
    uses.join(", ")
}

/// The most addresses and routes that a message names.
const USES_SHOWN: usize = 6;
