//! Where a stream's packets go: a UDP socket, or whole frames on an interface.

use crate::frame::FrameMaker;
use crate::mark::{MARK_BYTES, Mark};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use weir_core::packet::{Addresses, Headers};
use weir_host::batch::FrameSocket;
use weir_host::error::{Result, SystemError};
use weir_host::netlink::{Mac, Netlink};

/// The interface on which raw frames are sent, and for which station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawPort {
    /// The name of the interface.
    pub interface: String,
    /// The station that its frames are for.
    pub to: Mac,
    /// The station that sends them; `None` for the interface's own address.
    pub from: Option<Mac>,
}

/// An open outlet of a stream.
pub(crate) enum Outlet {
    /// A connected UDP socket, and the bytes of a simulated frame before its payload.
    Udp { socket: Socket, front: u32 },
    /// Whole frames on an interface.
    Raw { socket: Arc<FrameSocket>, maker: FrameMaker },
}

impl Outlet {
    /// Opens a UDP socket to the receiver of these headers.
    pub fn udp(headers: &Headers, sport: Option<u16>, zone: u32) -> Result<Self> {
        let socket = udp_socket(headers, sport, zone)?;
        Ok(Self::Udp { socket, front: udp_front(headers) })
    }

    /// Writes the packet that a simulated frame of `length` bytes stands for; returns whether its
    /// payload has room for the mark. `place` is its number in the stream, for headers that have
    /// one.
    pub fn write(&self, length: u32, mark: &Mark, place: u64, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Udp { front, .. } => {
                let payload = length.saturating_sub(*front) as usize;
                out.clear();
                out.resize(payload, 0);
                if payload >= MARK_BYTES {
                    out[..MARK_BYTES].copy_from_slice(&mark.bytes());
                }
                payload >= MARK_BYTES
            }
            Self::Raw { maker, .. } => {
                let fits = length as usize >= maker.front() + MARK_BYTES;
                let bytes = mark.bytes();
                let payload = if fits { bytes.as_slice() } else { &[] };
                maker.write(length, place as u16, payload, out);
                fits
            }
        }
    }

    /// The bytes of a simulated frame before its payload.
    pub fn front(&self) -> u32 {
        match self {
            Self::Udp { front, .. } => *front,
            Self::Raw { maker, .. } => maker.front() as u32,
        }
    }

    /// The shortest simulated frame with room for a mark.
    pub fn marked_length(&self) -> u32 {
        self.front() + MARK_BYTES as u32
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp { socket, .. } => socket.as_fd(),
            Self::Raw { socket, .. } => socket.as_fd(),
        }
    }
}

impl RawPort {
    /// Opens the interface in this thread's namespace.
    pub(crate) fn open(&self) -> Result<(Arc<FrameSocket>, Mac)> {
        let state = Netlink::open()?.link(&self.interface)?;
        let socket = FrameSocket::sender(&self.interface, state.index)?;
        let own = self.from.or(state.mac).unwrap_or(Mac([0; 6]));
        Ok((Arc::new(socket), own))
    }
}

/// The bytes of a simulated frame before its UDP payload.
pub(crate) fn udp_front(headers: &Headers) -> u32 {
    let ip = if matches!(headers.addresses, Addresses::V6 { .. }) { 40 } else { 20 };
    14 + if headers.vlan.is_some() { 4 } else { 0 } + ip + 8
}

/// The receiver of packets with these headers; `zone` is the interface of a link-local address.
pub(crate) fn receiver(headers: &Headers, zone: u32) -> Result<SocketAddr> {
    let port = headers.ports.map_or(0, |ports| ports.destination);
    let to = headers.addresses.destination().filter(|_| port > 0);
    let socket_address = |to| match to {
        IpAddr::V6(to) => SocketAddr::V6(SocketAddrV6::new(to, port, 0, zone)),
        to => SocketAddr::new(to, port),
    };
    to.map(socket_address).ok_or_else(|| {
        let cure = "write `dst` and `dport` of the receiver";
        SystemError::refused("send to a host", "the stream has no address or no port", cure)
    })
}

/// Opens a connected UDP socket in this thread's namespace.
pub(crate) fn udp_socket(headers: &Headers, sport: Option<u16>, zone: u32) -> Result<Socket> {
    let to = receiver(headers, zone)?;
    let open = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
        set_class(&socket, headers, to)?;
        if let Some(port) = sport {
            socket.bind(&SockAddr::from(SocketAddr::new(unspecified(to.ip()), port)))?;
        }
        socket.connect(&SockAddr::from(to))?;
        // A full socket must not keep the sender beyond its end.
        socket.set_write_timeout(Some(WAIT_MAX))?;
        Ok(socket)
    };
    open().map_err(|cause| SystemError::new(format!("open a UDP socket to {to}"), cause))
}

/// Sets DSCP and ECN of what `socket` sends to a host.
pub(crate) fn set_class(socket: &Socket, headers: &Headers, to: SocketAddr) -> io::Result<()> {
    let class = u32::from(headers.traffic_class.unwrap_or(0));
    match (class, to.is_ipv6()) {
        (0, _) => Ok(()),
        (class, false) => socket.set_tos_v4(class),
        (class, true) => socket.set_tclass_v6(class),
    }
}

/// The address of no host of the same IP version.
pub(crate) fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// How long a datagram waits for room in its socket at once.
const WAIT_MAX: Duration = Duration::from_millis(50);
