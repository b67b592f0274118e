//! Many datagrams or frames in one system call, with the kernel's receive stamps.
//!
//! For generators and receivers of traffic (`weir-traffic`): UDP sockets and packet sockets alike.
//! Invariant: a message's bytes are those that the kernel wrote for it, and its stamp is of the
//! same packet.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::error::{Result, SystemError};
use crate::socket::{open, option, set_option};
use crate::wait::{monotonic_ns, realtime_ns};

/// The most messages of one system call.
pub const BATCH_MAX: usize = 64;

/// Sends messages in order on a connected or bound socket; returns how many the kernel took.
///
/// # Errors
/// When it did not take the first one.
pub fn send_batch(socket: BorrowedFd<'_>, messages: &[&[u8]]) -> io::Result<usize> {
    let messages = &messages[..messages.len().min(BATCH_MAX)];
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MAX];
    for (part, message) in parts.iter_mut().zip(messages) {
        // The kernel only reads it.
        part.iov_base = message.as_ptr().cast_mut().cast();
        part.iov_len = message.len();
    }
    // SAFETY: mmsghdr is integers and pointers: all zero is a value, of a message without parts.
    let mut headers: [libc::mmsghdr; BATCH_MAX] = unsafe { mem::zeroed() };
    for (header, part) in headers.iter_mut().zip(&mut parts) {
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    let count = messages.len() as libc::c_uint;
    // SAFETY: the first `count` headers name one part each, of bytes that live through the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Places for the messages of one system call.
pub struct Inbox {
    bytes: Vec<u8>,
    slot: usize,
    controls: Vec<Control>,
    names: Vec<libc::sockaddr_storage>,
    arrived: Vec<Arrived>,
}

/// Room for a stamp and a count of overruns, aligned as control messages must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

#[derive(Clone, Copy, Default)]
struct Arrived {
    len: usize,
    whole: usize,
    stamp_ns: Option<u64>,
    overruns: Option<u32>,
    name_len: usize,
}

/// A message that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its bytes, as far as a place has room.
    pub bytes: &'a [u8],
    /// The number of bytes that it had.
    pub whole: usize,
    /// When the kernel received it, by CLOCK_REALTIME.
    pub stamp_ns: Option<u64>,
    /// How many the socket has lost so far for want of room, if it counts them and lost any.
    pub overruns: Option<u32>,
    /// Its sender, on a UDP socket.
    pub from: Option<SocketAddr>,
}

impl Inbox {
    /// Places for `slots` messages, at most [`BATCH_MAX`], of `slot` bytes each.
    pub fn new(slots: usize, slot: usize) -> Self {
        let slots = slots.clamp(1, BATCH_MAX);
        // SAFETY: sockaddr_storage is integers: all zero is a value.
        let name: libc::sockaddr_storage = unsafe { mem::zeroed() };
        Self {
            bytes: vec![0; slots * slot],
            slot,
            controls: vec![Control([0; CONTROL_BYTES]); slots],
            names: vec![name; slots],
            arrived: Vec::with_capacity(slots),
        }
    }

    /// Takes the messages that wait, as many as there are places, without waiting for one; returns
    /// how many.
    ///
    /// # Errors
    /// As the system says; that nothing waits is no error.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.arrived.clear();
        let slots = self.controls.len();
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MAX];
        // SAFETY: mmsghdr is integers and pointers: all zero is a value.
        let mut headers: [libc::mmsghdr; BATCH_MAX] = unsafe { mem::zeroed() };
        let chunks = self.bytes.chunks_exact_mut(self.slot);
        let names = self.names.iter_mut().zip(&mut self.controls);
        for ((header, part), (chunk, (name, control))) in
            headers.iter_mut().zip(&mut parts).zip(chunks.zip(names))
        {
            part.iov_base = chunk.as_mut_ptr().cast();
            part.iov_len = chunk.len();
            let header = &mut header.msg_hdr;
            header.msg_iov = part;
            header.msg_iovlen = 1;
            let name: *mut libc::sockaddr_storage = name;
            header.msg_name = name.cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the first `slots` headers name a part, a name and control bytes of this inbox,
        // each writable for its length; no time is given.
        let count = unsafe {
            let (fd, count) = (socket.as_raw_fd(), slots as libc::c_uint);
            libc::recvmmsg(fd, headers.as_mut_ptr(), count, flags as _, std::ptr::null_mut())
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            let nothing = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
            return if nothing.contains(&error.kind()) { Ok(0) } else { Err(error) };
        }
        for header in &headers[..count as usize] {
            self.arrived.push(arrived(header, self.slot));
        }
        Ok(count as usize)
    }

    /// The message number `index` of the last call.
    pub fn message(&self, index: usize) -> Message<'_> {
        let arrived = self.arrived[index];
        let start = index * self.slot;
        Message {
            bytes: &self.bytes[start..start + arrived.len],
            whole: arrived.whole,
            stamp_ns: arrived.stamp_ns,
            overruns: arrived.overruns,
            from: address(&self.names[index], arrived.name_len),
        }
    }
}

/// Reads the kernel's header of a message.
fn arrived(header: &libc::mmsghdr, slot: usize) -> Arrived {
    let whole = header.msg_len as usize;
    let mut arrived = Arrived {
        len: whole.min(slot),
        whole,
        name_len: header.msg_hdr.msg_namelen as usize,
        ..Arrived::default()
    };
    // SAFETY: the kernel wrote the control messages and their length; each CMSG macro stays within
    // it, and a value is read only where the message is long enough for it.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&header.msg_hdr);
        while let Some(control) = next.as_ref() {
            let content = libc::CMSG_DATA(next);
            let len = control.cmsg_len;
            if control.cmsg_level == libc::SOL_SOCKET {
                let fits = |bytes: usize| len >= libc::CMSG_LEN(bytes as u32) as _;
                if control.cmsg_type == libc::SCM_TIMESTAMPNS && fits(size_of::<libc::timespec>()) {
                    let time: libc::timespec = content.cast::<libc::timespec>().read_unaligned();
                    let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                    arrived.stamp_ns = Some(nanos);
                }
                if control.cmsg_type == libc::SO_RXQ_OVFL && fits(size_of::<u32>()) {
                    arrived.overruns = Some(content.cast::<u32>().read_unaligned());
                }
            }
            next = libc::CMSG_NXTHDR(&header.msg_hdr, next);
        }
    }
    arrived
}

fn address(name: &libc::sockaddr_storage, len: usize) -> Option<SocketAddr> {
    let pointer: *const libc::sockaddr_storage = name;
    match c_int::from(name.ss_family) {
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: a sockaddr_storage is larger and aligned for it; all bits are values.
            let name = unsafe { pointer.cast::<libc::sockaddr_in>().read() };
            let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(address), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let name = unsafe { pointer.cast::<libc::sockaddr_in6>().read() };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddr::new(IpAddr::V6(address).to_canonical(), port))
        }
        _ => None,
    }
}

/// Lets the kernel stamp what `socket` receives, and count what it has no room for.
///
/// # Errors
/// As the system says.
pub fn stamp_received(socket: BorrowedFd<'_>) -> Result<()> {
    let failed = |cause| SystemError::new("stamp received packets", cause);
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1).map_err(failed)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1).map_err(failed)
}

/// Requests a receive buffer of `bytes`, above the system's limit where that is allowed.
pub fn enlarge_receive_buffer(socket: BorrowedFd<'_>, bytes: u32) {
    let forced = set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes);
    if forced.is_err() {
        // Without the privilege the system's limit holds, and lost packets are counted.
        let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
    }
}

/// Makes the kernel cut what a UDP socket sends into datagrams of `payload` bytes, as late as it
/// can: what passes interfaces is a super-packet.
///
/// # Errors
/// As the system says.
pub fn set_udp_segment(socket: BorrowedFd<'_>, payload: u16) -> Result<()> {
    let value = c_int::from(payload);
    let failed = |cause| SystemError::new(format!("cut datagrams of {payload} bytes"), cause);
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &value).map_err(failed)
}

/// Returns how far CLOCK_REALTIME, of the kernel's stamps, is ahead of CLOCK_MONOTONIC now.
pub fn realtime_ahead_ns() -> i64 {
    // The real time is read between two readings of the other clock; a switch of threads between
    // them would count as a difference, so the closest of a few is taken.
    let try_once = || {
        let before = monotonic_ns();
        let real = realtime_ns();
        let after = monotonic_ns();
        (after - before, real as i64 - ((before + after) / 2) as i64)
    };
    (0..5).map(|_| try_once()).min().map_or(0, |closest| closest.1)
}

/// A packet socket: whole Ethernet frames of one interface.
#[derive(Debug)]
pub struct FrameSocket {
    socket: OwnedFd,
}

impl FrameSocket {
    /// Opens a socket that sends frames on the interface with this number past its queueing
    /// discipline, and receives nothing.
    ///
    /// # Errors
    /// As the system says.
    pub fn sender(interface: &str, index: u32) -> Result<Self> {
        let socket = Self::bound(interface, index, 0)?;
        let failed = |cause| SystemError::new("send past queueing disciplines", cause);
        let fd = socket.socket.as_fd();
        set_option(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1).map_err(failed)?;
        Ok(socket)
    }

    /// Opens a socket that receives every frame that comes in by the interface, each behind the
    /// [`VNET_HEADER`] bytes that say whether it is a super-packet.
    ///
    /// # Errors
    /// As the system says.
    pub fn receiver(interface: &str, index: u32, promiscuous: bool) -> Result<Self> {
        let socket = Self::bound(interface, index, libc::ETH_P_ALL as u16)?;
        let failed = |cause| SystemError::new(format!("receive frames of `{interface}`"), cause);
        let fd = socket.socket.as_fd();
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).map_err(failed)?;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1).map_err(failed)?;
        if promiscuous {
            let member = libc::packet_mreq {
                mr_ifindex: index as c_int,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)
                .map_err(failed)?;
        }
        Ok(socket)
    }

    /// Returns how many frames were lost for want of room since the last call.
    pub fn overruns(&self) -> u64 {
        let read = option::<libc::tpacket_stats>(
            self.socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        );
        read.map_or(0, |counts| u64::from(counts.tp_drops))
    }

    fn bound(interface: &str, index: u32, protocol: u16) -> Result<Self> {
        let action = || format!("open a packet socket on `{interface}`");
        let failed = |cause| SystemError::new(action(), cause);
        let socket = open(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(failed)?;
        // SAFETY: sockaddr_ll is integers: all zero is a value.
        let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
        name.sll_family = libc::AF_PACKET as u16;
        name.sll_protocol = protocol.to_be();
        name.sll_ifindex = index as c_int;
        let pointer: *const libc::sockaddr_ll = &name;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointer is valid for `len` bytes for the length of the call.
        let status = unsafe { libc::bind(socket.as_raw_fd(), pointer.cast(), len) };
        if status == 0 { Ok(Self { socket }) } else { Err(failed(io::Error::last_os_error())) }
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The bytes before each frame of [`FrameSocket::receiver`]: `virtio_net_hdr`.
pub const VNET_HEADER: usize = 10;
/// Room for a stamp and a counter with their headers.
const CONTROL_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_batch_arrives_in_order_with_stamps() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        stamp_received(receiver.as_fd()).expect("stamps are known");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        sender.connect(receiver.local_addr().expect("it is bound")).expect("it connects");
        let before = monotonic_ns();
        let messages: Vec<Vec<u8>> = (0..10u8).map(|n| vec![n; 1 + usize::from(n)]).collect();
        let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        assert_eq!(send_batch(sender.as_fd(), &slices).expect("it sends"), 10);
        let mut inbox = Inbox::new(16, 8);
        assert_eq!(inbox.receive(receiver.as_fd()).expect("it receives"), 10);
        let ahead = realtime_ahead_ns();
        for (number, sent) in messages.iter().enumerate() {
            let message = inbox.message(number);
            assert_eq!((message.bytes, message.whole), (&sent[..sent.len().min(8)], sent.len()));
            assert_eq!(message.from, sender.local_addr().ok());
            let stamp = message.stamp_ns.expect("it is stamped") as i64 - ahead;
            // Two clocks were compared, so a millisecond of doubt.
            let within = before as i64 - 1_000_000..monotonic_ns() as i64 + 1_000_000;
            assert!(within.contains(&stamp), "{stamp}");
        }
        assert_eq!(inbox.receive(receiver.as_fd()).expect("nothing waits"), 0);
    }
}
