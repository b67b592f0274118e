//! Socket calls for tests that the standard library lacks: whole frames, and UDP segmentation.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use weir_host::error::Result;
use weir_host::socket::set_option;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns};
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, Port, PortConfig};
use weir_testbed::Netlink;
use weir_testbed::{Failure, until_some};

/// Sends and receives whole, unchanged frames of one interface.
pub struct Raw(RefCell<Inner>);

struct Inner {
    port: Box<dyn Port>,
    pool: FramePool,
    waiting: VecDeque<Vec<u8>>,
}

impl Raw {
    pub fn open(interface: &str) -> Result<Self> {
        let port = port::open(PortConfig::new(interface))?;
        let pool = FramePool::for_mtu(256, port.mtu());
        Ok(Self(Inner { port, pool, waiting: VecDeque::new() }.into()))
    }

    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let Inner { port, pool, .. } = &mut *self.0.borrow_mut();
        let id = pool.insert(frame).expect("the pool has room");
        let sent = port.send(pool, &[id]);
        if sent.taken == 0 {
            pool.release(id);
        }
        if sent.sent() == 1 { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
    }

    /// Returns the next frame that arrived, if there is one.
    pub fn take(&self) -> Option<Vec<u8>> {
        let Inner { port, pool, waiting } = &mut *self.0.borrow_mut();
        if waiting.is_empty() {
            let mut frames = Vec::new();
            port.receive(0, BATCH, pool, &mut frames);
            for received in frames {
                waiting.push_back(pool.bytes(received.frame).to_vec());
                pool.release(received.frame);
            }
        }
        waiting.pop_front()
    }

    /// Waits for a frame that is `wanted`, and returns it. Those before it are gone.
    pub fn await_frame(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> Out<Vec<u8>> {
        let mut waiter = Waiter::new(WaitPolicy::Block, &self.0.borrow().port.descriptors());
        until_some("a certain frame arrives", || {
            // The waiting ends at once when one comes.
            let now_ns = monotonic_ns();
            let mut find = || std::iter::from_fn(|| self.take()).find(|frame| wanted(frame));
            find().or_else(|| waiter.wait(now_ns, Some(now_ns + LOOK_NS)).ok().and_then(|_| find()))
        })
    }

    /// Waits until `last` has arrived, and counts the frames before it that are `wanted`.
    pub fn count_until(&self, last: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Out<u32> {
        let mut count = 0;
        self.await_frame(|frame| {
            count += u32::from(wanted(frame));
            frame == last
        })?;
        Ok(count)
    }
}

/// Sends datagrams of many flows as most programs do, so that the kernel chooses a queue of the
/// interface for each flow.
pub struct Flows {
    socket: OwnedFd,
    index: u32,
}

impl Flows {
    pub fn open(interface: &str) -> io::Result<Self> {
        let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
        let index = link.map_err(|error| error.cause)?.index;
        Ok(Self { socket: open_packet_socket(0)?, index })
    }

    /// Sends a datagram of this flow, between addresses that no host has.
    pub fn send(&self, flow: u16, number: u16) -> io::Result<()> {
        self.send_frame(&Self::frame(flow, number))
    }

    pub fn send_frame(&self, frame: &[u8]) -> io::Result<()> {
        send_to(&self.socket, self.index, frame)
    }

    fn frame(flow: u16, number: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0];
        frame.extend([64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2, 0, 9]);
        frame.extend(flow.to_be_bytes());
        frame.extend([0, 26, 0, 0]);
        frame.extend(number.to_be_bytes());
        frame.resize(60, 0);
        frame
    }

    /// Returns flow and number of such a frame; `None` of others.
    pub fn read(frame: &[u8]) -> Option<(u16, u16)> {
        let sent = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let is_ours = frame.get(..12) == Some(&Self::frame(0, 0)[..12]);
        is_ours.then(|| (sent(36), sent(42)))
    }
}

type Out<T> = std::result::Result<T, Failure>;

/// How long one look for a frame takes.
const LOOK_NS: u64 = 50_000_000;

/// Makes the kernel cut sent data into datagrams of `size` bytes, as late as possible.
pub fn set_udp_segment(socket: &UdpSocket, size: u16) -> io::Result<()> {
    set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &libc::c_int::from(size))
}

/// Sends a frame as most programs do: through the programs and queues of the interface.
pub fn send_queued(interface: &str, frame: &[u8]) -> io::Result<()> {
    let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
    let index = link.map_err(|error| error.cause)?.index;
    send_to(&open_packet_socket(0)?, index, frame)
}

/// Opens a packet socket that receives this protocol.
pub fn open_packet_socket(protocol: i32) -> io::Result<OwnedFd> {
    let protocol = u16::to_be(protocol as u16).into();
    // SAFETY: socket takes numbers only; the new descriptor has no other owner.
    unsafe {
        match libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Sends a message by an interface.
pub fn send_to(socket: &OwnedFd, index: u32, message: &[u8]) -> io::Result<()> {
    let address = address(index, 0);
    let (pointer, len) = (&raw const address, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
    let (fd, bytes) = (socket.as_raw_fd(), message.as_ptr().cast());
    // SAFETY: message and address are valid for their lengths during the call.
    let sent = unsafe { libc::sendto(fd, bytes, message.len(), 0, pointer.cast(), len) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the address of an interface for packet sockets.
pub fn address(index: u32, protocol: i32) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is integers only: all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = u16::to_be(protocol as u16);
    address.sll_ifindex = index as libc::c_int;
    address
}
