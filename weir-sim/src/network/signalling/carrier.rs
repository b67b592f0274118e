//! Messages as IP packets, and the way that they take.
//!
//! A packet goes to its destination, or with router alert to the next node on the way there
//! [rfc2205 §3.3]; every node speaks RSVP. Invariant: a lane exists for each pair of addresses and
//! node that a message was sent from, so there are as many as sessions and neighbours want.

use super::plan::Signalling;
use crate::network::lanes::Lane;
use crate::network::plan::{Ends, Network, NodeId, OutletId};
use crate::network::routes::{neighbours, route, towards};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_core::classify::InterfaceId;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_rsvp::node::{Packet, Route, Routes};
use weir_rsvp::wire::checksum;

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
    Some(Headers { ports: None, traffic_class: Some(NETWORK_CONTROL), ..headers })
}

fn alert_bytes(packet: &Packet) -> u32 {
    if packet.destination.is_ipv4() { ALERT_V4.len() as u32 } else { ALERT_V6.len() as u32 }
}

/// What the IP header of a message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ttl: u8,
}

/// Returns the IP packet of a message.
pub(super) fn packed(packet: &Packet) -> Vec<u8> {
    match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => packed_v4(packet, source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => packed_v6(packet, source, destination),
        _ => Vec::new(),
    }
}

fn packed_v4(packet: &Packet, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let options: &[u8] = if packet.alert { &ALERT_V4 } else { &[] };
    let front = 20 + options.len();
    let length = (front + packet.bytes.len()) as u16;
    let mut bytes = vec![0x40 | (front / 4) as u8, NETWORK_CONTROL];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, 0, packet.ttl, PROTOCOL, 0, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(options);
    let sum = checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(&packet.bytes);
    bytes
}

fn packed_v6(packet: &Packet, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let options: &[u8] = if packet.alert { &ALERT_V6 } else { &[] };
    let next = if packet.alert { HOP_BY_HOP } else { PROTOCOL };
    let class = u32::from(NETWORK_CONTROL);
    let mut bytes = (6 << 28 | class << 20).to_be_bytes().to_vec();
    bytes.extend(((options.len() + packet.bytes.len()) as u16).to_be_bytes());
    bytes.extend([next, packet.ttl]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(options);
    bytes.extend(&packet.bytes);
    bytes
}

/// Returns the header and the message of a packet that was packed here.
pub(super) fn opened(bytes: &[u8]) -> Option<(Header, &[u8])> {
    if bytes.first()? >> 4 == 4 {
        let front = usize::from(bytes[0] & 15) * 4;
        let address = |at: usize| {
            let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(IpAddr::from(octets))
        };
        let header = Header { source: address(12)?, destination: address(16)?, ttl: bytes[8] };
        return Some((header, bytes.get(front..)?));
    }
    let address = |at: usize| {
        let octets: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::from(octets))
    };
    let header = Header { source: address(8)?, destination: address(24)?, ttl: bytes[7] };
    let front = if bytes[6] == HOP_BY_HOP { 40 + ALERT_V6.len() } else { 40 };
    Some((header, bytes.get(front..)?))
}

/// IP's number for RSVP.
const PROTOCOL: u8 = 46;
/// DSCP CS6, network control.
const NETWORK_CONTROL: u8 = 0xc0;
/// The option that makes routers read a packet `[rfc2113]`.
const ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];
/// The same in a header of hop-by-hop options, padded; value 1 is RSVP `[rfc2711]`.
const ALERT_V6: [u8; 8] = [PROTOCOL, 0, 5, 2, 0, 1, 1, 0];
const HOP_BY_HOP: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_is_opened_has_the_message_and_its_addresses() {
        let four = ["10.0.0.1", "10.0.0.2"];
        let six = ["2001:db8::1", "2001:db8::2"];
        for (addresses, alert, front) in
            [(four, false, 20), (four, true, 24), (six, false, 40), (six, true, 48)]
        {
            let [source, destination] = addresses.map(|text| text.parse().expect("an address"));
            let (interface, ttl, bytes) = (InterfaceId(0), 63, vec![1, 2, 3]);
            let packet = Packet { interface, source, destination, ttl, alert, bytes };
            let packed = packed(&packet);
            assert_eq!(packed.len(), front + 3);
            let header = Header { source, destination, ttl };
            assert_eq!(opened(&packed), Some((header, &[1, 2, 3][..])));
        }
        assert_eq!(opened(&[]), None);
        assert_eq!(opened(&[0x45, 0]), None);
    }
}
