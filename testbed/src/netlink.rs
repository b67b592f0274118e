//! Changes of networks that only tests, the lab and the demo make: bridges, tunnels, addresses,
//! routes, neighbours, and interfaces that get another name or place.

use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use weir_host::error::{Result, SystemError};
use weir_host::netlink::Mac;
use weir_host::netns::NetNs;

use crate::{Failure, until};

/// A VXLAN tunnel between two addresses.
#[derive(Clone, Copy, Debug)]
pub struct Vxlan {
    /// The number of the network in it.
    pub id: u32,
    /// The address of this end.
    pub from: IpAddr,
    /// The address of the other end.
    pub to: IpAddr,
    /// Whether the outer UDP header has a checksum.
    pub has_checksum: bool,
}

/// The netlink socket of Weir, which makes more changes.
pub struct Netlink(weir_host::netlink::Netlink);

impl Deref for Netlink {
    type Target = weir_host::netlink::Netlink;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Netlink {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Netlink {
    /// Opens a socket in this thread's namespace.
    ///
    /// # Errors
    /// As the system says.
    pub fn open() -> Result<Self> {
        weir_host::netlink::Netlink::open().map(Self)
    }

    /// Opens a socket in `namespace`, to be used from any thread.
    ///
    /// # Errors
    /// As the system says.
    pub fn open_in(namespace: &NetNs) -> Result<Self> {
        weir_host::netlink::Netlink::open_in(namespace).map(Self)
    }

    /// Makes a kernel bridge without spanning tree, up, that joins these interfaces.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn add_bridge(&mut self, name: &str, members: &[&str]) -> Result<()> {
        let kind = vec![LinkInfo::Kind(InfoKind::Bridge)];
        self.add_link(name, kind)?;
        let bridge = self.link(name)?.index;
        for member in members {
            let mut message = LinkMessage::default();
            let joined = LinkAttribute::Controller(bridge);
            message.attributes = vec![LinkAttribute::IfName((*member).into()), joined];
            let action = format!("put `{member}` into the bridge `{name}`");
            self.change(action, RouteNetlinkMessage::SetLink(message), 0)?;
        }
        self.set_up(name, true)
    }

    /// Makes a VXLAN interface, down, whose frames go from one address to another.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn add_vxlan(&mut self, name: &str, tunnel: &Vxlan) -> Result<()> {
        let mut settings = vec![
            InfoVxlan::Id(tunnel.id),
            InfoVxlan::Port(VXLAN_PORT),
            InfoVxlan::UDPCsum(tunnel.has_checksum),
        ];
        settings.push(match tunnel.from {
            IpAddr::V4(address) => InfoVxlan::Local(address),
            IpAddr::V6(address) => InfoVxlan::Local6(address),
        });
        settings.push(match tunnel.to {
            IpAddr::V4(address) => InfoVxlan::Group(address),
            IpAddr::V6(address) => InfoVxlan::Group6(address),
        });
        let data = LinkInfo::Data(InfoData::Vxlan(settings));
        self.add_link(name, vec![LinkInfo::Kind(InfoKind::Vxlan), data])
    }

    /// Sets how long super-packets may be that an interface takes from the stack.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_super_packet_max(&mut self, name: &str, bytes: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::GsoMaxSize(bytes),
            LinkAttribute::GsoIpv4MaxSize(bytes),
        ];
        let action = format!("let `{name}` take super-packets of {bytes} bytes");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    fn add_link(&mut self, name: &str, info: Vec<LinkInfo>) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes =
            vec![LinkAttribute::IfName(name.into()), LinkAttribute::LinkInfo(info)];
        let request = RouteNetlinkMessage::NewLink(message);
        self.change(format!("make `{name}`"), request, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes an interface; the other end of a veth pair disappears with it.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn delete_link(&mut self, name: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        self.change(format!("remove `{name}`"), RouteNetlinkMessage::DelLink(message), 0)
    }

    /// Gives an interface another name; it must be down.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn rename(&mut self, name: &str, to: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        message.attributes.push(LinkAttribute::IfName(to.into()));
        let action = format!("rename `{name}` to `{to}`");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Moves an interface to another network namespace; it is down there.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn move_to(&mut self, name: &str, namespace: &NetNs) -> Result<()> {
        let mut message = LinkMessage::default();
        let target = LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd());
        message.attributes = vec![LinkAttribute::IfName(name.into()), target];
        let action = format!("move `{name}` to another network namespace");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets the Ethernet address of an interface.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_mac(&mut self, name: &str, mac: Mac) -> Result<()> {
        let mut message = LinkMessage::default();
        let address = LinkAttribute::Address(mac.0.to_vec());
        message.attributes = vec![LinkAttribute::IfName(name.into()), address];
        let action = format!("set the address of `{name}` to {mac}");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives an interface an address. On one that is set up it can be used when this returns, also
    /// an IPv6 one: there is no duplicate detection.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn add_address(&mut self, name: &str, address: IpAddr, prefix_len: u8) -> Result<()> {
        let link = self.link(name)?;
        let mut message = AddressMessage::default();
        message.header.family = family_of(address);
        message.header.prefix_len = prefix_len;
        message.header.index = link.index;
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        let action = format!("give `{name}` the address {address}/{prefix_len}");
        let request = RouteNetlinkMessage::NewAddress(message);
        self.change(action, request, NLM_F_CREATE | NLM_F_EXCL)?;
        // The kernel makes the route to an own IPv6 address on a thread of its own, a third of a
        // second later on a busy machine; until then frames to it are dropped.
        if address.is_ipv6() && link.is_up {
            let action = format!("use the address {address} of `{name}`");
            let refused = |why: Failure| SystemError::refused(action, why.to_string(), "");
            until("a route to it", || self.is_own(address)).map_err(refused)?;
        }
        Ok(())
    }

    /// Returns whether frames to this address are for this host.
    fn is_own(&mut self, address: IpAddr) -> bool {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(address);
        message.header.destination_prefix_length = if address.is_ipv6() { 128 } else { 32 };
        message.attributes = vec![RouteAttribute::Destination(RouteAddress::from(address))];
        self.route(message).is_some_and(|route| route.header.kind == RouteType::Local)
    }

    /// Sets the Ethernet address of a neighbour permanently, so that no host need resolve it.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn add_neighbour(&mut self, name: &str, address: IpAddr, mac: Mac) -> Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = family_of(address);
        message.header.ifindex = self.link(name)?.index;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(address.into()),
            NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
        ];
        let action = format!("note that {address} is {mac} on `{name}`");
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.change(action, RouteNetlinkMessage::NewNeighbour(message), flags)
    }

    /// Routes `destination/prefix_len` through `gateway`; 0 bits of prefix make the default route.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn add_route(
        &mut self,
        destination: IpAddr,
        prefix_len: u8,
        gateway: IpAddr,
    ) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(destination);
        message.header.destination_prefix_length = prefix_len;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::from(destination)),
            RouteAttribute::Gateway(RouteAddress::from(gateway)),
        ];
        let action = format!("route {destination}/{prefix_len} through {gateway}");
        self.change(action, RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }
}

fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The UDP port of VXLAN [RFC 7348 §5].
const VXLAN_PORT: u16 = 4789;
