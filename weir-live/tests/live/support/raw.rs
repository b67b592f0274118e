//! Socket calls for tests that the standard library lacks: whole frames, and UDP segmentation.
#![allow(dead_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use weir_live::error::Result;
use weir_live::pool::FramePool;
use weir_live::port::{self, BATCH, Port, PortConfig};

/// Sends and receives whole, unchanged frames of one interface.
pub struct Raw {
    port: std::cell::RefCell<Box<dyn Port>>,
    pool: std::cell::RefCell<FramePool>,
}

impl Raw {
    pub fn open(interface: &str) -> Result<Self> {
        let port = port::open(PortConfig::new(interface))?;
        let pool = FramePool::for_mtu(256, port.mtu());
        Ok(Self { port: port.into(), pool: pool.into() })
    }

    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let mut pool = self.pool.borrow_mut();
        let id = pool.insert(frame).expect("the pool has room");
        let sent = self.port.borrow_mut().send(&mut pool, &[id]);
        if sent.taken == 0 {
            pool.release(id);
        }
        if sent.sent() == 1 { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
    }

    pub fn receive_until(
        &self,
        patience: Duration,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Vec<u8>> {
        let start = Instant::now();
        let mut frames = Vec::new();
        while start.elapsed() < patience {
            let mut pool = self.pool.borrow_mut();
            self.port.borrow_mut().receive(0, BATCH, &mut pool, &mut frames);
            for received in frames.drain(..) {
                let bytes = pool.bytes(received.frame).to_vec();
                pool.release(received.frame);
                if wanted(&bytes) {
                    return Ok(bytes);
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Makes the kernel cut sent data into datagrams of `size` bytes, as late as possible.
pub fn set_udp_segment(socket: &UdpSocket, size: u16) -> io::Result<()> {
    let value = libc::c_int::from(size);
    let pointer: *const libc::c_int = &value;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: the pointer is valid for `len` bytes for the length of the call.
    let status =
        unsafe { libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, pointer.cast(), len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a frame as most programs do: through the programs and queues of the interface.
pub fn send_queued(interface: &str, frame: &[u8]) -> io::Result<()> {
    let index = weir_live::netlink::Netlink::open()
        .and_then(|mut netlink| netlink.link(interface))
        .map_err(|error| error.cause)?
        .index;
    // SAFETY: sockaddr_ll is integers only: all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as libc::c_int;
    let (pointer, len) = (&raw const address, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
    // SAFETY: socket takes numbers; the address and the frame outlive the call; the descriptor is
    // closed here and has no other owner.
    let sent = unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        let sent = libc::sendto(socket, frame.as_ptr().cast(), frame.len(), 0, pointer.cast(), len);
        libc::close(socket);
        sent
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
