//! The state of the host's network that decides whether an interface is free.

use std::io;
use std::net::IpAddr;

use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::error::{Result, SystemError};
use crate::netlink::{Mac, Netlink};

/// The interfaces, addresses and routes of a network namespace.
#[derive(Debug, Default)]
pub(super) struct Network {
    interfaces: Vec<Interface>,
    addresses: Vec<Address>,
    routes: Vec<Route>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) name: String,
    /// The word for its kind, as in `ip -d link`; empty for hardware.
    pub(super) kind: String,
    /// The bridge, bond, team or routing domain that it is part of.
    pub(super) master: Option<u32>,
    /// The interface of this namespace on which it lies, or the other end of a veth pair.
    pub(super) lower: Option<u32>,
    /// Its Ethernet address, if it has one.
    pub(super) mac: Option<Mac>,
}

/// An address that others can reach through its interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    index: u32,
    pub(super) is_ip6: bool,
    /// As in `192.0.2.1/24`.
    pub(super) text: String,
}

/// A route that did not come with an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Route {
    /// The interfaces by which it leads.
    pub(super) indices: Vec<u32>,
    pub(super) is_default: bool,
    /// As in "the route to 192.0.2.0/24 through 198.51.100.1".
    pub(super) text: String,
}

impl Network {
    /// Reads the state of the namespace of `netlink`.
    pub(super) fn read(netlink: &mut Netlink) -> Result<Self> {
        let failed = |cause: io::Error| SystemError::new("list interfaces and routes", cause);
        let mut network = Self::default();
        let requests = [
            RouteNetlinkMessage::GetLink(LinkMessage::default()),
            RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            RouteNetlinkMessage::GetRoute(of_family(AddressFamily::Inet)),
            RouteNetlinkMessage::GetRoute(of_family(AddressFamily::Inet6)),
        ];
        for request in requests {
            for answer in netlink.dump(request).map_err(failed)? {
                network.add(answer);
            }
        }
        Ok(network)
    }

    fn add(&mut self, answer: RouteNetlinkMessage) {
        match answer {
            RouteNetlinkMessage::NewLink(link) => self.interfaces.push(interface(&link)),
            RouteNetlinkMessage::NewAddress(message) => self.addresses.extend(address(&message)),
            RouteNetlinkMessage::NewRoute(message) => self.routes.extend(route(&message)),
            _ => {}
        }
    }

    /// Returns the interface of this name.
    pub(super) fn named(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// Returns the interface of this number.
    pub(super) fn at(&self, index: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.index == index)
    }

    /// Returns the interfaces that lie on the interface `index`, such as VLANs.
    pub(super) fn above(&self, index: u32) -> impl Iterator<Item = &Interface> {
        let lies = move |other: &&Interface| other.lower == Some(index) && other.kind != VETH;
        self.interfaces.iter().filter(lies)
    }

    /// Returns the addresses of an interface.
    pub(super) fn addresses(&self, index: u32) -> impl Iterator<Item = &Address> {
        self.addresses.iter().filter(move |address| address.index == index)
    }

    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }
}

fn of_family(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message
}

fn interface(link: &LinkMessage) -> Interface {
    let mut interface = Interface { index: link.header.index, ..Interface::default() };
    let mut is_elsewhere = false;
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Controller(master) => interface.master = Some(*master),
            LinkAttribute::Address(bytes) => {
                interface.mac = bytes.as_slice().try_into().ok().map(Mac);
            }
            LinkAttribute::Link(lower) if *lower != 0 => interface.lower = Some(*lower),
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::LinkInfo(parts) => interface.kind = kind(parts),
            _ => {}
        }
    }
    if is_elsewhere {
        // The number is one of another namespace.
        interface.lower = None;
    }
    interface
}

fn kind(parts: &[LinkInfo]) -> String {
    let kind = parts.iter().find_map(|part| match part {
        LinkInfo::Kind(kind) => Some(kind),
        _ => None,
    });
    kind.map(InfoKind::to_string).unwrap_or_default()
}

fn address(message: &AddressMessage) -> Option<Address> {
    let is_ip6 = message.header.family == AddressFamily::Inet6;
    if is_ip6 && message.header.scope == AddressScope::Link {
        return None;
    }
    let find = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| {
        message.attributes.iter().find_map(wanted)
    };
    // With a peer, `Address` is the peer's.
    let own = find(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let any = find(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    let text = format!("{}/{}", own.or(any)?, message.header.prefix_len);
    Some(Address { index: message.header.index, is_ip6, text })
}

/// Returns a route unless the kernel made it, as it does with every address.
fn route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.protocol == RouteProtocol::Kernel || header.kind != RouteType::Unicast {
        return None;
    }
    let mut indices = Vec::new();
    let (mut gateway, mut destination, mut table) = (None, None, u32::from(header.table));
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => indices.push(*index),
            RouteAttribute::MultiPath(hops) => {
                indices.extend(hops.iter().map(|hop| hop.interface_index));
            }
            RouteAttribute::Gateway(address) => gateway = text(address),
            RouteAttribute::Destination(address) => destination = text(address),
            RouteAttribute::Table(number) => table = *number,
            _ => {}
        }
    }
    let is_default = header.destination_prefix_length == 0;
    let mut text = match destination.filter(|_| !is_default) {
        Some(destination) => {
            format!("the route to {destination}/{}", header.destination_prefix_length)
        }
        None => "the default route".to_owned(),
    };
    if let Some(gateway) = gateway {
        text += &format!(" through {gateway}");
    }
    let is_main = table == u32::from(RouteHeader::RT_TABLE_MAIN);
    Some(Route { indices, is_default: is_default && is_main, text })
}

fn text(address: &RouteAddress) -> Option<String> {
    match address {
        RouteAddress::Inet(address) => Some(address.to_string()),
        RouteAddress::Inet6(address) => Some(address.to_string()),
        _ => None,
    }
}

/// The kind of a cable between two virtual interfaces.
pub(super) const VETH: &str = "veth";
