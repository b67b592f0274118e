//! One packet through a raw socket, with what the kernel says beside it: interface, destination and
//! hop limit [rfc3542 §6].

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use weir_rsvp::node::Packet;

/// The facts about a packet that came with its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// How many bytes it has.
    pub len: usize,
    /// The number of the interface by which it came.
    pub index: u32,
    /// IPv6: the source address of the packet.
    pub source: Option<Ipv6Addr>,
    /// IPv6: the destination address of the packet.
    pub destination: Option<Ipv6Addr>,
    /// IPv6: its hop limit.
    pub hop_limit: Option<u8>,
}

/// Receives a packet; none if none waits. One that is longer than the buffer has no length.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Beside>> {
    let mut source = MaybeUninit::<libc::sockaddr_in6>::zeroed();
    let mut control = Control::default();
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = header(&mut part, &mut control);
    message.msg_name = source.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: all pointers of `message` are to values above, with their lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    if len < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    let cut = message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let mut beside = Beside { len: if cut { 0 } else { len as usize }, ..Beside::default() };
    // SAFETY: a socket address is integers; zeroed, and perhaps filled in by the kernel.
    let source = unsafe { source.assume_init() };
    if c_int::from(source.sin6_family) == libc::AF_INET6 {
        beside.source = Some(Ipv6Addr::from(source.sin6_addr.s6_addr));
    }
    read_control(&message, &mut beside);
    Ok(Some(beside))
}

fn read_control(message: &libc::msghdr, beside: &mut Beside) {
    // SAFETY: the kernel filled in the control buffer of `message`; the macros of the C library
    // walk it within its length, and each value has the type that its level and type name.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            let value = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = value.cast::<libc::in_pktinfo>().read_unaligned();
                    beside.index = info.ipi_ifindex as u32;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = value.cast::<libc::in6_pktinfo>().read_unaligned();
                    beside.index = info.ipi6_ifindex;
                    beside.destination = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    let limit = value.cast::<c_int>().read_unaligned();
                    beside.hop_limit = u8::try_from(limit).ok();
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
}

/// Sends a packet by the interface of this number.
pub fn send(socket: c_int, packet: &Packet, index: u32) -> io::Result<()> {
    let mut control = Control::default();
    let bytes = packet.bytes.as_ptr().cast_mut().cast();
    let mut part = libc::iovec { iov_base: bytes, iov_len: packet.bytes.len() };
    let mut destination = address(packet.destination, index);
    let mut message = header(&mut part, &mut control);
    message.msg_name = (&raw mut destination).cast();
    message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    match packet.source {
        IpAddr::V4(source) => {
            message.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            let info = libc::in_pktinfo {
                ipi_ifindex: index as c_int,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            let by = Ancillary { kind: libc::IP_PKTINFO, value: info };
            let ttl = Ancillary { kind: libc::IP_TTL, value: c_int::from(packet.ttl) };
            write_control(&mut message, libc::IPPROTO_IP, by, ttl);
        }
        IpAddr::V6(source) => {
            let ipi6_addr = libc::in6_addr { s6_addr: source.octets() };
            let info = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: index };
            let by = Ancillary { kind: libc::IPV6_PKTINFO, value: info };
            let ttl = Ancillary { kind: libc::IPV6_HOPLIMIT, value: c_int::from(packet.ttl) };
            write_control(&mut message, libc::IPPROTO_IPV6, by, ttl);
        }
    }
    // SAFETY: all pointers of `message` are to values above, which the kernel only reads.
    let sent = unsafe { libc::sendmsg(socket, &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An ancillary message of a protocol (cmsg(3)).
struct Ancillary<T> {
    kind: c_int,
    value: T,
}

/// Writes two ancillary messages of the protocol `level`.
fn write_control<A: Copy, B: Copy>(
    message: &mut libc::msghdr,
    level: c_int,
    first: Ancillary<A>,
    second: Ancillary<B>,
) {
    // SAFETY: the control buffer has room for both values (`CONTROL_BYTES`), and the macros of the
    // C library stay within its length.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        (*at).cmsg_level = level;
        (*at).cmsg_type = first.kind;
        (*at).cmsg_len = libc::CMSG_LEN(size_of::<A>() as u32) as _;
        libc::CMSG_DATA(at).cast::<A>().write_unaligned(first.value);
        at = libc::CMSG_NXTHDR(message, at);
        (*at).cmsg_level = level;
        (*at).cmsg_type = second.kind;
        (*at).cmsg_len = libc::CMSG_LEN(size_of::<B>() as u32) as _;
        libc::CMSG_DATA(at).cast::<B>().write_unaligned(second.value);
        let sizes = [size_of::<A>() as u32, size_of::<B>() as u32];
        message.msg_controllen = sizes.map(|size| libc::CMSG_SPACE(size)).iter().sum::<u32>() as _;
    }
}

fn header(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: a message header is pointers and integers: all zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    message
}

/// The address of either family; one of IPv4 is its beginning.
fn address(address: IpAddr, index: u32) -> libc::sockaddr_in6 {
    // SAFETY: a socket address is integers: all zero is a value.
    let mut six: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    match address {
        IpAddr::V6(address) => {
            six.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            six.sin6_addr.s6_addr = address.octets();
            // The kernel refuses a scope for any other address.
            six.sin6_scope_id = if address.is_unicast_link_local() { index } else { 0 };
        }
        IpAddr::V4(address) => {
            six.sin6_family = libc::AF_INET as libc::sa_family_t;
            // `sin_addr` lies where the flow label of IPv6 does.
            six.sin6_flowinfo = u32::from_ne_bytes(address.octets());
        }
    }
    six
}

/// Room for what travels beside a packet, aligned as its headers need.
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

impl Default for Control {
    fn default() -> Self {
        Self([0; CONTROL_BYTES])
    }
}

/// Both values of a packet, and what else a socket may be set to say.
const CONTROL_BYTES: usize = 256;
