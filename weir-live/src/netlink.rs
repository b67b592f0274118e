//! Configures the kernel's network over a blocking netlink socket: the few requests that Weir
//! needs.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType,
    LinkMessage, LinkXdp, State, XdpAttached,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::error::{Result, SystemError};
use crate::netns::NetNs;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// One end of a veth pair to be made: its name, its address, and its namespace.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// At most 15 bytes.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a NetNs,
    /// Its Ethernet address.
    pub mac: Mac,
}

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

/// How long the kernel may take to make the route to an address.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(5);

/// The UDP port of VXLAN [RFC 7348 §5].
pub const VXLAN_PORT: u16 = 4789;

/// The state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The kernel's number of it. An interface that leaves the network namespace may return under
    /// the same number.
    pub index: u32,
    /// Set up by the administrator.
    pub is_up: bool,
    /// The other side is connected.
    pub has_carrier: bool,
    /// The kernel has acted on that: until then it drops what is sent by the interface, and tells
    /// no sender.
    pub is_operational: bool,
    /// The MTU, in bytes after the Ethernet header.
    pub mtu: u32,
    /// Its Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// It carries Ethernet frames, to which its own loopback does not belong.
    pub is_ethernet: bool,
    /// An XDP program is attached.
    pub has_xdp: bool,
}

/// A netlink socket of one namespace.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in this thread's namespace.
    pub fn open() -> Result<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket = open().map_err(|cause| SystemError::new("open a netlink socket", cause))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// A netlink socket that was opened before, bound and connected to the kernel.
    pub(crate) fn of(socket: OwnedFd) -> Self {
        // SAFETY: the descriptor is open, and `socket` gave it up.
        let socket = unsafe { Socket::from_raw_fd(socket.into_raw_fd()) };
        Self { socket, sequence: 0 }
    }

    /// Opens a socket in `namespace`, to be used from any thread.
    pub fn open_in(namespace: &NetNs) -> Result<Self> {
        namespace.run(Self::open)?
    }

    /// Makes a veth pair, each end directly in its namespace, both down, with this MTU.
    pub fn add_veth(&mut self, a: VethEnd<'_>, b: VethEnd<'_>, mtu: u32) -> Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = end_attributes(b, mtu);
        let mut message = LinkMessage::default();
        message.attributes = end_attributes(a, mtu);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let action = format!("make the veth pair `{}` - `{}`", a.name, b.name);
        self.change(action, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Makes a kernel bridge without spanning tree, up, that joins these interfaces.
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
    pub fn delete_link(&mut self, name: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        self.change(format!("remove `{name}`"), RouteNetlinkMessage::DelLink(message), 0)
    }

    /// Sets an interface up or down.
    pub fn set_up(&mut self, name: &str, up: bool) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        let action = format!("set `{name}` {}", if up { "up" } else { "down" });
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets the MTU of an interface, in bytes.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.into()), LinkAttribute::Mtu(mtu)];
        let action = format!("set the MTU of `{name}` to {mtu}");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives an interface another name; it must be down.
    pub fn rename(&mut self, name: &str, to: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        message.attributes.push(LinkAttribute::IfName(to.into()));
        let action = format!("rename `{name}` to `{to}`");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Moves an interface to another network namespace; it is down there.
    pub fn move_to(&mut self, name: &str, namespace: &NetNs) -> Result<()> {
        let mut message = LinkMessage::default();
        let target = LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd());
        message.attributes = vec![LinkAttribute::IfName(name.into()), target];
        let action = format!("move `{name}` to another network namespace");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets the Ethernet address of an interface.
    pub fn set_mac(&mut self, name: &str, mac: Mac) -> Result<()> {
        let mut message = LinkMessage::default();
        let address = LinkAttribute::Address(mac.0.to_vec());
        message.attributes = vec![LinkAttribute::IfName(name.into()), address];
        let action = format!("set the address of `{name}` to {mac}");
        self.change(action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives an interface an address. On one that is set up it can be used when this returns, also
    /// an IPv6 one: there is no duplicate detection.
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
        let start = Instant::now();
        while address.is_ipv6() && link.is_up && !self.is_own(address)? {
            if start.elapsed() > ADDRESS_PATIENCE {
                let action = format!("use the address {address} of `{name}`");
                return Err(SystemError::refused(action, "the kernel makes no route to it", ""));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns whether frames to this address are for this host.
    fn is_own(&mut self, address: IpAddr) -> Result<bool> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(address);
        message.header.destination_prefix_length = if address.is_ipv6() { 128 } else { 32 };
        message.attributes = vec![RouteAttribute::Destination(RouteAddress::from(address))];
        match self.exchange(RouteNetlinkMessage::GetRoute(message), 0) {
            Ok(Some(RouteNetlinkMessage::NewRoute(route))) => {
                Ok(route.header.kind == RouteType::Local)
            }
            Ok(_) => Ok(false),
            Err(cause) if cause.raw_os_error() == Some(libc::ENETUNREACH) => Ok(false),
            Err(cause) => Err(SystemError::new(format!("look up the route to {address}"), cause)),
        }
    }

    /// Sets the Ethernet address of a neighbour permanently, so that no host need resolve it.
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

    /// Returns the state of an interface.
    pub fn link(&mut self, name: &str) -> Result<LinkState> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        let found = self.find(message, || format!("look up the interface `{name}`"))?;
        Ok(link_state(&found))
    }

    /// Returns the name and the state of the interface of this number.
    pub fn link_at(&mut self, index: u32) -> Result<(String, LinkState)> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let found = self.find(message, || format!("look up interface {index}"))?;
        let name = found.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        });
        Ok((name.unwrap_or_default(), link_state(&found)))
    }

    fn find(&mut self, message: LinkMessage, action: impl Fn() -> String) -> Result<LinkMessage> {
        let request = RouteNetlinkMessage::GetLink(message);
        let answer =
            self.exchange(request, 0).map_err(|cause| SystemError::new(action(), cause))?;
        match answer {
            Some(RouteNetlinkMessage::NewLink(link)) => Ok(link),
            _ => Err(SystemError::new(action(), io::Error::from_raw_os_error(libc::ENODEV))),
        }
    }

    /// Asks for one route; none if the kernel has none.
    pub(crate) fn route(&mut self, request: RouteMessage) -> Option<RouteMessage> {
        match self.exchange(RouteNetlinkMessage::GetRoute(request), 0) {
            Ok(Some(RouteNetlinkMessage::NewRoute(route))) => Some(route),
            _ => None,
        }
    }

    fn change(&mut self, action: String, request: RouteNetlinkMessage, flags: u16) -> Result<()> {
        match self.exchange(request, flags) {
            Ok(_) => Ok(()),
            Err(cause) => Err(SystemError::new(action, cause)),
        }
    }

    /// Lists the interfaces, addresses or routes that `request` asks for.
    pub(crate) fn dump(
        &mut self,
        request: RouteNetlinkMessage,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for payload in parse_answers(&bytes, self.sequence)? {
                match payload {
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    _ => {}
                }
            }
        }
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(|_| ())
    }

    /// Sends one request and reads until it is acknowledged; returns what came before that.
    fn exchange(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        self.send(request, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        let mut answer = None;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for payload in parse_answers(&bytes, self.sequence)? {
                match payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Error(_) => return Ok(answer),
                    NetlinkPayload::InnerMessage(inner) => answer = Some(inner),
                    _ => {}
                }
            }
        }
    }
}

fn parse_answers(
    mut bytes: &[u8],
    sequence: u32,
) -> io::Result<Vec<NetlinkPayload<RouteNetlinkMessage>>> {
    let mut payloads = Vec::new();
    while !bytes.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        // Messages are padded to four bytes.
        let len = (message.header.length as usize).next_multiple_of(4).min(bytes.len());
        bytes = &bytes[len.max(1)..];
        if message.header.sequence_number == sequence {
            payloads.push(message.payload);
        }
    }
    Ok(payloads)
}

fn end_attributes(end: VethEnd<'_>, mtu: u32) -> Vec<LinkAttribute> {
    use std::os::fd::AsFd;
    vec![
        LinkAttribute::IfName(end.name.into()),
        LinkAttribute::NetNsFd(end.namespace.as_fd().as_raw_fd()),
        LinkAttribute::Address(end.mac.0.to_vec()),
        LinkAttribute::Mtu(mtu),
    ]
}

fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn link_state(link: &LinkMessage) -> LinkState {
    let mut state = LinkState {
        index: link.header.index,
        is_up: link.header.flags.contains(LinkFlags::Up),
        has_carrier: link.header.flags.contains(LinkFlags::LowerUp),
        is_operational: false,
        mtu: 0,
        mac: None,
        is_ethernet: link.header.link_layer_type == LinkLayerType::Ether,
        has_xdp: false,
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => state.mtu = *mtu,
            LinkAttribute::Address(bytes) => state.mac = bytes.as_slice().try_into().ok().map(Mac),
            LinkAttribute::Carrier(carrier) => state.has_carrier = *carrier != 0,
            LinkAttribute::Xdp(parts) => {
                state.has_xdp = parts.iter().any(
                    |part| matches!(part, LinkXdp::Attached(how) if *how != XdpAttached::None),
                );
            }
            LinkAttribute::OperState(State::Down) => state.has_carrier = false,
            LinkAttribute::OperState(State::Up) => state.is_operational = true,
            _ => {}
        }
    }
    state
}
