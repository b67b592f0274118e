//! Lanes: the path of a source's packets, and where they queue at each outlet on it.

use super::parcel::Parcel;
use super::plan::{Ends, Network, OutletId};
use super::routes::route;
use crate::frame::detailed;
use crate::packets::Content;
use crate::run::RunError;
use crate::scenario::{INTERFACE_NONE, Scenario, Source, link_header};
use crate::script::Datagram;
use weir_core::classify::{Classified, Classifier, InterfaceId, Reason, Rule};
use weir_core::ids::LeafId;
use weir_core::packet::{Addresses, FlowKey, Fragment, Headers, Macs, Ports, Transport};
use weir_core::units::Instant;

/// The way of a source's packets in one direction.
pub(crate) struct Lane {
    pub hops: Vec<Hop>,
    pub headers: Headers,
    /// Bytes of a frame in front of the IP packet.
    pub link_header: u32,
    /// Bytes of the IP header of a whole datagram, and of a piece of one.
    pub ip_headers: [u32; 2],
    /// An endpoint reads the content of its packets.
    pub listens: bool,
    /// The datagrams, if the sender cuts each into several packets.
    pub datagram: Option<Datagram>,
    /// The least MTU of the path, at which the sender cuts IPv6 packets; `None` for IPv4, which
    /// each link cuts by its own MTU.
    pub path_mtu: Option<u32>,
}

/// A link on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub outlet: OutletId,
    /// The number of the link by which packets come, in the rules at the start and in those of now.
    interface: InterfaceId,
    seen: InterfaceId,
    /// Where whole packets queue that have the DSCP they were sent with, by codepoint of ECN.
    found: [Classified; 4],
}

impl Hop {
    /// Where whole packets queue that have this traffic class, and the DSCP they were sent with.
    pub fn found(&self, traffic_class: u8) -> Classified {
        self.found[usize::from(traffic_class & 3)]
    }
}

/// The lanes of all sources, each there and back.
pub(crate) fn lanes(scenario: &Scenario, network: &Network) -> Result<Vec<Lane>, RunError> {
    let mut lanes = Vec::with_capacity(2 * scenario.sources.len());
    for source in &scenario.sources {
        let refuse = |why: &str| RunError::Network(format!("source {}: {why}", source.name));
        let ends = source.ends.ok_or_else(|| refuse("give it the two hosts of its packets"))?;
        let known = |id: u32| (id as usize) < network.nodes.len();
        if !known(ends.from.0) || !known(ends.to.0) {
            return Err(refuse("it names a node that the network lacks"));
        }
        let there = route(network, ends).ok_or_else(|| refuse("no route leads to its receiver"))?;
        let back = Ends { from: ends.to, to: ends.from };
        let back = route(network, back).ok_or_else(|| refuse("no route leads back"))?;
        lanes.push(lane(source, network, &there, false));
        lanes.push(lane(source, network, &back, true));
    }
    Ok(lanes)
}

fn lane(source: &Source, network: &Network, route: &[OutletId], back: bool) -> Lane {
    let headers = if back { reversed(&source.headers) } else { source.headers };
    let listens = source.traffic.connects();
    let datagram = source.traffic.datagram();
    Lane { datagram, ..Lane::new(network, route, (headers, source.interface), listens) }
}

fn hops(network: &Network, route: &[OutletId], first: InterfaceId) -> Vec<Hop> {
    let mut before = None;
    let hop = |&outlet: &OutletId| {
        let (link, end) = network.outlet(outlet);
        let interface = match before.replace(&link.name) {
            None => first,
            Some(came_by) => {
                let names = &link.outlets[end].interfaces;
                let place = names.iter().position(|name| name == came_by);
                place.map_or(INTERFACE_NONE, |place| InterfaceId(place as u16))
            }
        };
        Hop { outlet, interface, seen: interface, found: [NOWHERE; 4] }
    };
    route.iter().map(hop).collect()
}

/// The headers of what comes back.
fn reversed(headers: &Headers) -> Headers {
    let ports =
        headers.ports.map(|ports| Ports { source: ports.destination, destination: ports.source });
    let addresses = match headers.addresses {
        Addresses::Unknown => Addresses::Unknown,
        Addresses::V4 { source, destination } => {
            Addresses::V4 { source: destination, destination: source }
        }
        Addresses::V6 { source, destination } => {
            Addresses::V6 { source: destination, destination: source }
        }
    };
    let macs = headers.macs.map(Macs::reversed);
    Headers { ports, addresses, macs, ..*headers }
}

impl Lane {
    /// A lane on this route for packets with these headers, which come by this interface.
    fn new(
        network: &Network,
        route: &[OutletId],
        (headers, interface): (Headers, InterfaceId),
        listens: bool,
    ) -> Self {
        let six = matches!(headers.addresses, Addresses::V6 { .. });
        let ip_header = if six { IPV6_HEADER } else { IPV4_HEADER };
        let least = route.iter().map(|&outlet| network.outlet(outlet).0.mtu).min();
        Self {
            hops: hops(network, route, interface),
            headers,
            link_header: link_header(&headers),
            ip_headers: [ip_header, if six { ip_header + IPV6_FRAGMENT_HEADER } else { ip_header }],
            listens,
            datagram: None,
            path_mtu: least.filter(|_| six),
        }
    }

    /// A lane for messages, whose IP header has as many bytes of options.
    pub fn of_messages(
        network: &Network,
        route: &[OutletId],
        headers: Headers,
        options: u32,
    ) -> Self {
        let mut lane = Self::new(network, route, (headers, INTERFACE_NONE), true);
        lane.ip_headers.iter_mut().for_each(|header| *header += options);
        lane
    }

    /// Where whole packets of it queue at `outlet` from now on; rules may name the link by which
    /// they come otherwise.
    pub fn classify(
        &mut self,
        outlet: OutletId,
        classifier: &mut Classifier,
        interface: impl Fn(InterfaceId) -> InterfaceId,
    ) {
        for hop in self.hops.iter_mut().filter(|hop| hop.outlet == outlet) {
            hop.seen = interface(hop.interface);
            let own = self.headers.traffic_class.unwrap_or(0) & !3;
            hop.found = [0, 1, 2, 3].map(|codepoint| {
                let headers = Headers { traffic_class: Some(own | codepoint), ..self.headers };
                classifier.classify(Instant::ZERO, hop.seen, &headers)
            });
        }
    }

    /// Whether its packets may queue elsewhere at `outlet` once the class of `leaf` has these
    /// rules.
    pub fn is_moved(&self, outlet: OutletId, leaf: LeafId, rules: &[Rule]) -> bool {
        let mut hops = self.hops.iter().filter(|hop| hop.outlet == outlet);
        hops.any(|hop| {
            let takes = |rule: &Rule| rule.matches.accepts(hop.seen, &self.headers);
            hop.found.iter().any(|found| found.leaf == leaf) || rules.iter().any(takes)
        })
    }

    /// Where this packet queues, by what every packet of the lane has in common, or else by its own
    /// headers.
    pub fn leaf(
        &self,
        at: Instant,
        (parcel, content): (&Parcel, &Content),
        classifier: &mut Classifier,
    ) -> Classified {
        let hop = &self.hops[usize::from(parcel.hop)];
        let own = self.headers.traffic_class.unwrap_or(0);
        let tests_details = classifier.tests_details();
        if !tests_details && parcel.piece.is_none() && parcel.traffic_class & !3 == own & !3 {
            return hop.found(parcel.traffic_class);
        }
        let mut headers = self.headers_of(parcel);
        if tests_details {
            headers = detailed(&headers, parcel.length, content);
        }
        classifier.classify(at, hop.seen, &headers)
    }

    /// The headers that this packet has now.
    pub fn headers_of(&self, parcel: &Parcel) -> Headers {
        let fragment = parcel.fragment();
        let later = matches!(fragment, Fragment::Later { .. });
        Headers {
            fragment,
            ports: self.headers.ports.filter(|_| !later),
            transport: if later { Transport::Unknown } else { self.headers.transport },
            traffic_class: Some(parcel.traffic_class),
            ..self.headers
        }
    }

    /// Bytes of a frame in front of its payload, a UDP header not counted.
    pub fn front(&self, is_piece: bool) -> u32 {
        self.link_header + self.ip_headers[usize::from(is_piece)]
    }

    /// The largest IP packet that goes on uncut from here.
    pub fn mtu(&self, parcel: &Parcel, network: &Network) -> u32 {
        let own = || network.outlet(self.hops[usize::from(parcel.hop)].outlet).0.mtu;
        self.path_mtu.unwrap_or_else(own)
    }
}

/// Before the first packet is classified.
const NOWHERE: Classified =
    Classified { leaf: LeafId(0), meter: None, flow: FlowKey::Connection, reason: Reason::Default };
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;
const IPV6_FRAGMENT_HEADER: u32 = 8;
/// Bytes of a UDP header.
pub(crate) const UDP_HEADER: u32 = 8;
