//! The half that needs a privilege: CAP_NET_RAW, and for larger buffers CAP_NET_ADMIN. It opens the
//! sockets; the other half uses them, also in a process that has neither and must open nothing.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::error::{Result, SystemError};
use crate::socket;
use crate::uapi::IPV6_ROUTER_ALERT_ISOLATE;
use crate::uapi::classic::RETURN;
use weir_rsvp::ip::{ALERT_RSVP, ALERT_V4, ALERT_V6, PROTOCOL, TRAFFIC_CLASS};

/// The node's relation to the packets of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It sends and receives flows of its own.
    Host,
    /// It takes Path messages of others out of the packets that it forwards.
    Router,
}

/// The open sockets of a node, in the order in which they travel between processes.
#[derive(Debug)]
pub struct Descriptors {
    /// The netlink socket that requests routes and interfaces.
    pub(super) routes: OwnedFd,
    /// Hears of their changes.
    pub(super) notices: OwnedFd,
    /// The sockets of RSVP's messages.
    pub(super) sockets: Sockets,
}

/// The sockets that carry messages.
#[derive(Debug)]
pub(super) struct Sockets {
    /// IPv4: receives, and sends without router alert.
    pub v4: OwnedFd,
    /// IPv4: sends with router alert.
    pub v4_alert: OwnedFd,
    /// The sockets of IPv6, if the kernel has it.
    pub v6: Option<Six>,
}

/// The sockets of IPv6.
#[derive(Debug)]
pub(super) struct Six {
    /// Receives, and sends without router alert.
    pub plain: OwnedFd,
    /// Sends with router alert.
    pub alert: OwnedFd,
    /// On a router: receives packets in transit, with all their headers.
    pub transit: Option<OwnedFd>,
}

impl Descriptors {
    /// Opens the sockets in this thread's network namespace.
    ///
    /// # Errors
    /// When a privilege is missing, or the kernel lacks RSVP's options.
    pub fn open(role: Role) -> Result<Self> {
        let failed = |cause| SystemError::new("open the sockets of RSVP", cause);
        let open = || -> io::Result<Self> {
            Ok(Self {
                routes: route_socket(&[])?,
                notices: route_socket(&NOTICES)?,
                sockets: Sockets { v4: four(role)?, v4_alert: four_alert()?, v6: Six::open(role)? },
            })
        };
        open().map_err(failed)
    }

    /// Returns the descriptors in a fixed order, to send them to another process.
    pub fn into_parts(self) -> Vec<OwnedFd> {
        let Sockets { v4, v4_alert, v6 } = self.sockets;
        let mut parts = vec![self.routes, self.notices, v4, v4_alert];
        if let Some(Six { plain, alert, transit }) = v6 {
            parts.extend([plain, alert]);
            parts.extend(transit);
        }
        parts
    }

    /// Takes descriptors in the order of [`Descriptors::into_parts`].
    ///
    /// # Errors
    /// When there are too few.
    pub fn from_parts(parts: Vec<OwnedFd>) -> Result<Self> {
        let count = parts.len();
        let mut parts = parts.into_iter();
        let mut take = || {
            let why = format!("there are {count} descriptors");
            let cure = "start keeper and forwarder of one version";
            parts.next().ok_or_else(|| SystemError::refused("take the sockets of RSVP", why, cure))
        };
        let (routes, notices, v4, v4_alert) = (take()?, take()?, take()?, take()?);
        let mut v6 = None;
        if count > FOUR_COUNT {
            v6 = Some(Six { plain: take()?, alert: take()?, transit: take().ok() });
        }
        Ok(Self { routes, notices, sockets: Sockets { v4, v4_alert, v6 } })
    }
}

impl Six {
    fn open(role: Role) -> io::Result<Option<Self>> {
        let plain = match six() {
            Err(cause) if cause.raw_os_error() == Some(libc::EAFNOSUPPORT) => return Ok(None),
            plain => plain?,
        };
        let alert = six()?;
        // With each packet the option would need CAP_NET_RAW; it stays with the socket instead.
        set(&alert, libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &ALERT_V6)?;
        receive_nothing(&alert)?;
        let transit = match role {
            Role::Host => None,
            Role::Router => Some(six_transit()?),
        };
        Ok(Some(Self { plain, alert, transit }))
    }
}

fn four(role: Role) -> io::Result<OwnedFd> {
    let socket = four_sending()?;
    set_int(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    if role == Role::Router {
        set_int(&socket, libc::IPPROTO_IP, libc::IP_ROUTER_ALERT, 1)?;
    }
    enlarge(&socket)?;
    Ok(socket)
}

fn four_alert() -> io::Result<OwnedFd> {
    let socket = four_sending()?;
    set(&socket, libc::IPPROTO_IP, libc::IP_OPTIONS, &ALERT_V4)?;
    receive_nothing(&socket)?;
    Ok(socket)
}

/// A socket that may send from addresses of others, as a Path has to.
fn four_sending() -> io::Result<OwnedFd> {
    let socket = socket::open(libc::AF_INET, libc::SOCK_RAW, c_int::from(PROTOCOL))?;
    set_int(&socket, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)?;
    set_int(&socket, libc::IPPROTO_IP, libc::IP_TOS, TRAFFIC_CLASS.into())?;
    set_int(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)?;
    // Longer messages are cut into fragments rather than refused.
    set_int(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)?;
    Ok(socket)
}

fn six() -> io::Result<OwnedFd> {
    let socket = socket::open(libc::AF_INET6, libc::SOCK_RAW, c_int::from(PROTOCOL))?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, TRAFFIC_CLASS.into())?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 0)?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT)?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    enlarge(&socket)?;
    Ok(socket)
}

fn six_transit() -> io::Result<OwnedFd> {
    let socket = socket::open(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
    // First, since the list of such sockets is one for all network namespaces of the machine.
    set_int(&socket, libc::IPPROTO_IPV6, IPV6_ROUTER_ALERT_ISOLATE, 1)?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_ROUTER_ALERT, ALERT_RSVP.into())?;
    enlarge(&socket)?;
    Ok(socket)
}

/// Gives a socket room for what comes while a node computes.
fn enlarge(socket: &OwnedFd) -> io::Result<()> {
    let forced = set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES);
    forced.or_else(|_| set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER_BYTES))
}

/// A raw socket gets a copy of each packet of its protocol; this one only sends.
fn receive_nothing(socket: &OwnedFd) -> io::Result<()> {
    let mut refuse = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: refuse.as_mut_ptr() };
    let option = libc::SO_ATTACH_FILTER;
    // `refuse` outlives the call, in which the kernel copies it.
    set(socket, libc::SOL_SOCKET, option, &program)
}

fn set_int(socket: &OwnedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set(socket, level, name, &value)
}

fn set<T: Copy>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    socket::set_option(socket.as_fd(), level, name, value)
}

/// A netlink socket that is notified of these groups, or none.
fn route_socket(groups: &[u32]) -> io::Result<OwnedFd> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    if groups.is_empty() {
        socket.connect(&SocketAddr::new(0, 0))?;
    } else {
        socket.set_non_blocking(true)?;
    }
    groups.iter().try_for_each(|group| socket.add_membership(*group))?;
    // SAFETY: the descriptor is open, and `socket` gave it up.
    Ok(unsafe { OwnedFd::from_raw_fd(socket.into_raw_fd()) })
}

/// Joins a multicast group on an interface, or leaves it. A socket may be in 20 of IPv4, or in what
/// net.ipv4.igmp_max_memberships says.
pub(super) fn member(
    sockets: &Sockets,
    group: std::net::IpAddr,
    index: u32,
    joins: bool,
) -> io::Result<()> {
    match (group, &sockets.v6) {
        (std::net::IpAddr::V4(group), _) => {
            let option = if joins { libc::IP_ADD_MEMBERSHIP } else { libc::IP_DROP_MEMBERSHIP };
            let request = libc::ip_mreqn {
                imr_multiaddr: libc::in_addr { s_addr: u32::from_ne_bytes(group.octets()) },
                imr_address: libc::in_addr { s_addr: 0 },
                imr_ifindex: index as c_int,
            };
            set(&sockets.v4, libc::IPPROTO_IP, option, &request)
        }
        (std::net::IpAddr::V6(group), Some(six)) => {
            let option = if joins { libc::IPV6_ADD_MEMBERSHIP } else { libc::IPV6_DROP_MEMBERSHIP };
            let ipv6mr_multiaddr = libc::in6_addr { s6_addr: group.octets() };
            let request = libc::ipv6_mreq { ipv6mr_multiaddr, ipv6mr_interface: index };
            set(&six.plain, libc::IPPROTO_IPV6, option, &request)
        }
        _ => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
    }
}

impl Sockets {
    /// Returns the sockets by which a message may arrive.
    pub(super) fn receiving(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let six = self.v6.iter();
        let six = six.flat_map(|six| six.transit.iter().chain([&six.plain]));
        [&self.v4].into_iter().chain(six).map(AsFd::as_fd)
    }

    /// Returns the socket that sends such a packet.
    pub(super) fn sending(&self, v4: bool, alert: bool) -> Option<c_int> {
        let socket = match (v4, &self.v6, alert) {
            (true, _, false) => &self.v4,
            (true, _, true) => &self.v4_alert,
            (false, Some(six), false) => &six.plain,
            (false, Some(six), true) => &six.alert,
            (false, None, _) => return None,
        };
        Some(socket.as_raw_fd())
    }
}

/// Sockets without those of IPv6.
const FOUR_COUNT: usize = 4;
/// Bytes that a socket receives in advance: some thousand messages.
const BUFFER_BYTES: c_int = 4 << 20;
/// <linux/rtnetlink.h>: links, addresses and routes of both families, and multicast routes.
const NOTICES: [u32; 7] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_MROUTE,
    libc::RTNLGRP_IPV6_MROUTE,
];
