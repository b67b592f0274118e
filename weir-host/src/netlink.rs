//! Configures the kernel's network over a blocking netlink socket: the few requests that Weir
//! needs.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
    LinkXdp, State, XdpAttached,
};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::tc::TcMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::error::{Result, SystemError};
use crate::netns::NetNs;

/// An Ethernet address, in the order of the wire.
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
    /// The network namespace in which it is made.
    pub namespace: &'a NetNs,
    /// The Ethernet address that it gets.
    pub mac: Mac,
}

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
            // SAFETY: the descriptor is open as long as `socket`.
            let descriptor = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
            set_socket_timeout(descriptor, Timeout::Recv, Some(ANSWER_MAX))?;
            Ok(socket)
        };
        let socket = open().map_err(|cause| SystemError::new("open a netlink socket", cause))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// A netlink socket that was opened before, bound and connected to the kernel.
    pub fn of(socket: OwnedFd) -> Self {
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

    /// Requests one route; none if the kernel has none.
    pub fn route(&mut self, request: RouteMessage) -> Option<RouteMessage> {
        match self.exchange(RouteNetlinkMessage::GetRoute(request), 0) {
            Ok(Some(RouteNetlinkMessage::NewRoute(route))) => Some(route),
            _ => None,
        }
    }

    /// Returns the handle of the filter that `request` asks for.
    pub(crate) fn filter_handle(&mut self, request: TcMessage) -> io::Result<u32> {
        match self.exchange(RouteNetlinkMessage::GetTrafficFilter(request), 0)? {
            Some(RouteNetlinkMessage::NewTrafficFilter(found)) => Ok(found.header.handle.into()),
            _ => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// Requests a change; `action` names it in an error.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn change(
        &mut self,
        action: String,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<()> {
        match self.exchange(request, flags) {
            Ok(_) => Ok(()),
            Err(cause) => Err(SystemError::new(action, cause)),
        }
    }

    /// Lists the interfaces, addresses or routes that `request` asks for.
    pub fn dump(&mut self, request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
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

    /// Lists what `request` asks for, each as the bytes of its message without the header.
    pub fn dump_bytes(&mut self, request: RouteNetlinkMessage) -> io::Result<Vec<Vec<u8>>> {
        self.send(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while let Ok(message) = NetlinkBuffer::new_checked(rest) {
                let length = message.length() as usize;
                let payload = &rest[NETLINK_HEADER..length];
                let own = message.sequence_number() == self.sequence;
                match message.message_type() {
                    _ if !own => {}
                    NLMSG_DONE => return Ok(answers),
                    NLMSG_ERROR => {
                        let code = payload.get(..4).and_then(|code| code.try_into().ok());
                        let code = code.map_or(libc::EIO, |code| -i32::from_ne_bytes(code));
                        return Err(io::Error::from_raw_os_error(code));
                    }
                    _ => answers.push(payload.to_vec()),
                }
                rest = &rest[length.next_multiple_of(4).min(rest.len())..];
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
    ///
    /// The kernel says nothing about a request that ends with EINTR (`netlink_rcv_skb`), whether it
    /// was carried out or not, so a request without an answer is sent again. That what it makes
    /// exists by then, or that what it removes does not, is success.
    fn exchange(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        let removes = matches!(request, RouteNetlinkMessage::DelLink(_));
        for attempt in 1..=ATTEMPTS {
            let outcome = self.exchange_once(request.clone(), flags);
            let code = outcome.as_ref().err().and_then(io::Error::raw_os_error);
            match code {
                Some(libc::EAGAIN) if attempt < ATTEMPTS => {}
                Some(libc::EEXIST) if attempt > 1 && flags & NLM_F_EXCL != 0 => return Ok(None),
                Some(libc::ENODEV) if attempt > 1 && removes => return Ok(None),
                _ => return outcome,
            }
        }
        unreachable!("the last attempt returns what came of it")
    }

    fn exchange_once(
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

/// How long an answer may take: the kernel answers while it takes the request.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bound: how often a request without an answer is sent; then it has failed.
const ATTEMPTS: u32 = 3;
/// The bytes before a message's payload.
const NETLINK_HEADER: usize = 16;

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
