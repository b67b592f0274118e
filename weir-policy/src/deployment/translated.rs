//! Hosts by turns where the machine's own translation of addresses (NAT) may stand before the link.
//!
//! Above an interface of the machine, what it forwards with translated addresses has the machine's
//! own address, both ways. CAKE's `nat` asks the kernel's table of connections there; Weir, which
//! decides by the frame alone so that a record repeats it, shapes at the interface towards the
//! hosts instead.

use super::{Direction, Port, Side};
use crate::codes;
use crate::finding::{Draft, Report, Span};
use weir_core::ids::LeafId;
use weir_core::packet::FlowKey;

/// Notes a direction whose hosts are told apart by the address that is the machine's own where it
/// translates; `span` is where its policy is written.
pub(super) fn check(direction: &Direction, ports: &[Port], span: Span, report: &mut Report) {
    let is_host = |port: usize| ports[port].side == Side::Host;
    let (own, keys) = if is_host(direction.to) {
        ("destination", [FlowKey::Destination, FlowKey::WithinDestination])
    } else if direction.from.iter().any(|&port| is_host(port)) {
        ("source", [FlowKey::Source, FlowKey::WithinSource])
    } else {
        return;
    };
    let policy = &direction.policy;
    let mut queues = policy.link.queues.iter();
    let Some(leaf) = queues.position(|queue| keys.contains(&queue.flow_key())) else { return };
    let interface = &ports[direction.to].interface;
    let message = format!(
        "direction `{}`: class `{}` tells hosts apart by their {own} address, which is this \
         machine's own for all that it translates (NAT) at {interface}: then all of them are one",
        direction.name,
        policy.leaf_name(LeafId(leaf as u32)),
    );
    let cure = "if this machine translates, shape at the interface towards the hosts, \
                `ports = { host = \"lan0\" }`, where `wire` to `host` is their upload; if it does \
                not, nothing is to be done";
    report.push(Draft::new(&codes::ONE_ADDRESS, span, message).cure(cure));
}
