//! Bridges of a deployment: ports that directions join, one after another, belong to one bridge.

use super::directions::Route;
use super::{Bridge, Port, Settings};
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::keyed::Value;
use crate::reader::{Node, Table, list};

/// Returns the bridges in the order of their first ports.
pub(super) fn join(
    settings: &Settings,
    directions: &[impl Route],
    report: &mut Report,
) -> Option<Vec<Bridge>> {
    let ports = &settings.deployment.ports;
    let mut bridges = groups(ports.len(), directions);
    for bridge in &bridges {
        check(bridge, settings, report);
    }
    let counted = settings.cpus.as_ref().filter(|cpus| cpus.0.len() != bridges.len());
    if let Some((cpus, span)) = counted.filter(|_| !report.failed()) {
        let (cpus, count) = (cpus.len(), bridges.len());
        let message = format!("{cpus} processors are named for {count} bridges");
        let cure = format!("write `cpus = [...]` with {count}, in the order of the bridges' ports");
        report.push(Draft::new(&codes::CPU_COUNT, *span, message).cure(cure));
    }
    if let Some((cpus, _)) = &settings.cpus {
        bridges.iter_mut().zip(cpus).for_each(|(bridge, cpu)| bridge.cpu = Some(*cpu));
    }
    (!report.failed()).then_some(bridges)
}

/// Joins ports; without directions two ports are one bridge.
fn groups(ports: usize, directions: &[impl Route]) -> Vec<Bridge> {
    // Each port's bridge, by the number of the bridge's first port.
    let mut first: Vec<usize> = (0..ports).collect();
    if directions.is_empty() && ports == 2 {
        first[1] = 0;
    }
    for way in directions {
        for &from in way.from() {
            let (one, other) = (first[from], first[way.to()]);
            let (kept, gone) = (one.min(other), one.max(other));
            first.iter_mut().filter(|first| **first == gone).for_each(|first| *first = kept);
        }
    }
    let of = |bridge: usize| Bridge {
        ports: (0..ports).filter(|&port| first[port] == bridge).collect(),
        directions: (0..directions.len())
            .filter(|&way| first[directions[way].to()] == bridge)
            .collect(),
        cpu: None,
    };
    (0..ports).filter(|&port| first[port] == port).map(of).collect()
}

/// Reports a port that no direction names, and a bridge of too many.
fn check(bridge: &Bridge, settings: &Settings, report: &mut Report) {
    let (ports, spans) = (&settings.deployment.ports, &settings.port_spans);
    if let [alone] = bridge.ports.as_slice() {
        let name = &ports[*alone].name;
        let message = format!("no direction names port `{name}`, so its frames go nowhere");
        let cure = format!("name `{name}` in a direction, or remove the port");
        report.push(Draft::new(&codes::LONE_PORT, spans[*alone], message).cure(cure));
    }
    if let Some(excess) = bridge.ports.get(BRIDGE_PORTS_MAX) {
        let names: Vec<_> = bridge.ports.iter().map(|&port| name(&ports[port])).collect();
        let message = format!(
            "directions join {} ports to one bridge, {}, but a bridge has at most \
             {BRIDGE_PORTS_MAX}",
            names.len(),
            list(&names)
        );
        let cure = "remove ports, or the directions between two halves";
        report.push(Draft::new(&codes::PORT_COUNT, spans[*excess], message).cure(cure));
    }
}

fn name(port: &Port) -> &str {
    &port.name
}

/// Reads `cpus`, or `cpu` for one bridge, and where it is written.
pub(super) fn cpus(table: &mut Table<'_>, report: &mut Report) -> Option<(Vec<u32>, Span)> {
    let (one, many) = (table.field("cpu"), table.field("cpus"));
    if let (Some(one), Some(_)) = (&one, &many) {
        let message = "`cpu` and `cpus` are both written";
        let draft = Draft::new(&codes::CPU_COUNT, one.key_span(), message);
        report.push(draft.cure("keep `cpus`"));
        return None;
    }
    let key = table.row("cpu");
    let number =
        |node: &Node<'_>, report: &mut Report| u64::read(node, key, report).map(|cpu| cpu as u32);
    if let Some(one) = one {
        return Some((vec![number(&one, report)?], one.span()));
    }
    let many = many?;
    let nodes = many.elements(report)?;
    let cpus: Vec<_> = nodes.iter().filter_map(|node| number(node, report)).collect();
    Some((cpus, many.span()))
}

/// The most ports of a bridge.
const BRIDGE_PORTS_MAX: usize = 8;
