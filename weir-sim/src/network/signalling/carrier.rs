//! The way that messages take as IP packets.
//!
//! A packet goes to its destination, or with router alert to the next node on the way there
//! [rfc2205 §3.3]; every node speaks RSVP. Invariant: a lane exists for each pair of addresses and
//! node that a message was sent from, so there are as many as sessions and neighbours want.

use super::plan::Signalling;
use crate::network::lanes::Lane;
use crate::network::plan::{Ends, Network, NodeId, OutletId};
use crate::network::routes::{neighbours, route, towards};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_core::classify::InterfaceId;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_rsvp::ip::{ALERT_V4, ALERT_V6, PROTOCOL, TRAFFIC_CLASS};
use weir_rsvp::node::{Packet, Route, Routes};

/// Where nodes are, and where packets to them go.
pub(super) struct Ways {
    /// The node of each address.
    homes: BTreeMap<IpAddr, NodeId>,
    /// The outlets of each node, by the number of the interface.
    outlets: Vec<Vec<OutletId>>,
    /// The number of each outlet among those of its node.
    interfaces: Vec<InterfaceId>,
    /// For each host of a reservation, the outlet by which each node reaches it.
    towards: BTreeMap<NodeId, Vec<Option<OutletId>>>,
    lanes: BTreeMap<Key, u32>,
}

/// Between which addresses packets are, the node that sent them, and whether they have router
/// alert.
type Key = (NodeId, IpAddr, IpAddr, bool);

impl Ways {
    pub fn new(network: &Network, plan: &Signalling) -> Self {
        let homes = plan.addresses.iter().zip(0..).map(|(address, node)| (*address, NodeId(node)));
        let own = |rows: Vec<(OutletId, NodeId)>| rows.into_iter().map(|row| row.0).collect();
        let outlets: Vec<Vec<OutletId>> = neighbours(network).into_iter().map(own).collect();
        let mut interfaces = vec![InterfaceId(0); 2 * network.links.len()];
        for node in &outlets {
            for (outlet, number) in node.iter().zip(0..) {
                interfaces[outlet.index()] = InterfaceId(number);
            }
        }
        let mut ways = Self {
            homes: homes.collect(),
            outlets,
            interfaces,
            towards: BTreeMap::new(),
            lanes: BTreeMap::new(),
        };
        for row in &plan.reservations {
            // An address of a flow need not be the one that its host was given.
            ways.homes.insert(row.session.destination, row.receiver);
            ways.homes.extend(row.senders.iter().map(|(host, filter)| (filter.source, *host)));
            let hosts = row.senders.iter().map(|sender| sender.0).chain([row.receiver]);
            for host in hosts {
                ways.towards.entry(host).or_insert_with(|| towards(network, host));
            }
        }
        ways
    }

    /// The outlets of a node, by the number of the interface.
    pub fn outlets(&self, node: NodeId) -> &[OutletId] {
        &self.outlets[node.0 as usize]
    }

    /// The number of an outlet's interface.
    pub fn interface(&self, outlet: OutletId) -> InterfaceId {
        self.interfaces[outlet.index()]
    }

    /// The outlet of a node's interface.
    pub fn outlet(&self, node: NodeId, interface: InterfaceId) -> OutletId {
        self.outlets[node.0 as usize][usize::from(interface.0)]
    }

    /// The routing of a node.
    pub fn at(&self, node: NodeId) -> At<'_> {
        At { ways: self, node }
    }

    /// Returns the lane of a packet from this node, and whether it is new; none if no node has the
    /// address.
    pub fn lane(
        &mut self,
        network: &Network,
        lanes: &mut Vec<Lane>,
        (node, packet): (NodeId, &Packet),
    ) -> Option<(u32, bool)> {
        let key = (node, packet.source, packet.destination, packet.alert);
        if let Some(&lane) = self.lanes.get(&key) {
            return Some((lane, false));
        }
        let home = *self.homes.get(&packet.destination)?;
        let mut route = route(network, Ends { from: node, to: home })?;
        if packet.alert {
            route.truncate(1);
        }
        let headers = headers(packet)?;
        let options = if packet.alert { alert_bytes(packet) } else { 0 };
        let lane = lanes.len() as u32;
        lanes.push(Lane::of_messages(network, &route, headers, options));
        self.lanes.insert(key, lane);
        Some((lane, true))
    }
}

/// The routing of a node.
pub(super) struct At<'a> {
    ways: &'a Ways,
    node: NodeId,
}

impl Routes for At<'_> {
    fn route(&self, destination: IpAddr, _: IpAddr) -> Route {
        let Some(home) = self.ways.homes.get(&destination) else { return Route::default() };
        let next = self.ways.towards.get(home).and_then(|nodes| nodes[self.node.0 as usize]);
        let outgoing = next.map(|outlet| self.ways.interface(outlet)).into_iter().collect();
        Route { incoming: None, outgoing, local: *home == self.node }
    }
}

/// The headers by which rules see a message.
fn headers(packet: &Packet) -> Option<Headers> {
    let addresses = match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => return None,
    };
    let none = Ports { source: 0, destination: 0 };
    let headers = Headers::of_flow(addresses, Protocol(PROTOCOL), none);
    Some(Headers { ports: None, traffic_class: Some(TRAFFIC_CLASS), ..headers })
}

fn alert_bytes(packet: &Packet) -> u32 {
    if packet.destination.is_ipv4() { ALERT_V4.len() as u32 } else { ALERT_V6.len() as u32 }
}
