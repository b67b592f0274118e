//! Ports of a deployment: a name, and the interface with what frames meet there.

use super::keys::{self, PORTS_MAX};
use super::{Port, Side, check_key};
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::reader::{Node, list, suggest};
use weir_core::units::{Duration, Share};

/// Reads `ports`; returns each port and where it is written.
pub(super) fn read(node: &Node<'_>, report: &mut Report) -> (Vec<Port>, Vec<Span>) {
    let Some(table) = node.table(report) else { return Default::default() };
    let count = table.entries().count();
    let is_host = count == 1 && table.has(HOST);
    if !is_host && !(2..=PORTS_MAX).contains(&count) {
        report.push(count_draft(node, count));
        return Default::default();
    }
    let kinds = if is_host { &PORT_KINDS[..1] } else { PORT_KINDS };
    let (mut ports, mut spans): (Vec<Port>, Vec<Span>) = Default::default();
    for node in table.entries() {
        let port = port(&node, ports.len(), kinds, report);
        check_interface(&port, &ports, &node, report);
        ports.push(port);
        spans.push(node.key_span());
    }
    if is_host { host_egress(ports, &spans) } else { (ports, spans) }
}

/// Describes too few ports or too many.
fn count_draft(node: &Node<'_>, count: usize) -> Draft {
    let few = match count {
        0 => "no port is",
        _ => "one port is",
    };
    let (message, cure) = if count > PORTS_MAX {
        let message =
            format!("{count} ports are written, but a deployment has at most {PORTS_MAX}");
        (message, "write several deployments")
    } else {
        let cure = "write `ports = { inside = \"eth0\", outside = \"eth1\" }`, or `ports = { host \
                    = \"eth0\" }` for the traffic of this machine";
        (format!("{few} written, but a bridge joins at least two"), cure)
    };
    Draft::new(&codes::PORT_COUNT, node.key_span(), message).cure(cure)
}

/// Returns the two ends of host egress; frames meet delay and loss where they leave the machine.
fn host_egress(ports: Vec<Port>, spans: &[Span]) -> (Vec<Port>, Vec<Span>) {
    let ends = ports.into_iter().zip(spans).flat_map(|(port, span)| {
        let host = Port {
            side: Side::Host,
            delay: Duration::ZERO,
            loss: Share::default(),
            ..port.clone()
        };
        let wire = Port { name: WIRE.to_owned(), side: Side::Wire, ..port };
        [(host, *span), (wire, *span)]
    });
    ends.unzip()
}

fn port(node: &Node<'_>, number: usize, kinds: &[&'static str], report: &mut Report) -> Port {
    check_key(node, "port", report);
    // A port whose interface is wrong is still declared.
    let mut port = Port {
        name: node.key().to_owned(),
        interface: String::new(),
        side: Side::Interface,
        kind: PORT_KINDS[0],
        delay: Duration::ZERO,
        loss: Share::default(),
        seed: number as u64,
        reflectors: Vec::new(),
    };
    if !node.is_table() {
        port.interface = interface(node, report).unwrap_or_default();
        return port;
    }
    let Some(table) = node.table(report) else { return port };
    let mut table = table.named(format!("port `{}`", node.key())).with_keys(keys::PORT);
    let name = table.required("interface", report).and_then(|node| interface(&node, report));
    let kind = table.field("kind").and_then(|node| node.choice(kinds, report));
    let delay = table.value("delay", report);
    let loss = table.value("loss", report);
    let seed = table.written("seed", report).flatten();
    table.finish(report);
    port.interface = name.unwrap_or_default();
    port.kind = kind.unwrap_or(port.kind);
    port.delay = delay.unwrap_or_default();
    port.loss = loss.unwrap_or_default();
    port.seed = seed.unwrap_or(port.seed);
    port
}

/// Reports an interface that another port has already.
fn check_interface(port: &Port, others: &[Port], node: &Node<'_>, report: &mut Report) {
    let same = |other: &&Port| !port.interface.is_empty() && port.interface == other.interface;
    if let Some(other) = others.iter().find(same) {
        let message =
            format!("ports `{}` and `{}` are both {}", other.name, port.name, other.interface);
        let cure = "name another interface";
        report.push(Draft::new(&codes::SAME_PORT, node.span(), message).cure(cure));
    }
}

/// Reads the name of an interface, as Linux allows it.
fn interface(node: &Node<'_>, report: &mut Report) -> Option<String> {
    let name = node.name(report)?;
    if is_interface(name) {
        return Some(name.to_owned());
    }
    let message = format!("{name:?} is not a name of a Linux interface");
    let cure = format!("write the name that `ip link` shows, at most {INTERFACE_BYTES_MAX} bytes");
    report.push(node.draft(&codes::BAD_VALUE, message).cure(cure));
    None
}

/// Returns whether Linux allows an interface of this name.
pub fn is_interface(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && c != '/';
    (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && name.chars().all(fits)
}

/// Returns the index of the port that a direction names.
pub(super) fn find(node: &Node<'_>, ports: &[Port], report: &mut Report) -> Option<usize> {
    let name = node.name(report)?;
    let found = ports.iter().position(|port| port.name == name);
    if found.is_none() {
        let known: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
        let message = format!("there is no port `{name}`; there are {}", list(&known));
        let cure = if name == WIRE && known.contains(&HOST) {
            format!(
                "for the traffic of this machine `{HOST}` must stand alone in `ports`; beside \
                 other ports it is an interface like them, without `{WIRE}`"
            )
        } else {
            suggest(name, &known)
        };
        report.push(node.draft(&codes::UNKNOWN_PORT, message).cure(cure));
    }
    found
}

/// The keywords of kinds of ports; the first is the default, with which the best that works is
/// chosen.
pub const PORT_KINDS: &[&str] = &["auto", "afpacket", "afxdp", "afxdp-generic"];
/// The longest name of an interface: IFNAMSIZ of Linux, less the zero at the end.
pub const INTERFACE_BYTES_MAX: usize = 15;
/// The only port of a deployment has this name if it is this machine.
const HOST: &str = "host";
/// The other end of host egress.
const WIRE: &str = "wire";
