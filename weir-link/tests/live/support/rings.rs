//! A fanout group of plain AF_PACKET sockets that runs a sorter's program: which socket gets which
//! frame. It uses the kernel only, so that the program is tested and no port.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::RecvFlags;
use weir_host::socket;
use weir_testbed::Netlink;
use weir_testbed::{Result, until_ok};

use super::raw;

/// The sockets; the place of each is its ring.
pub struct Rings(Vec<OwnedFd>);

impl Rings {
    /// Opens `rings` sockets on `interface` of this namespace, which run `code`.
    pub fn open(interface: &str, rings: usize, code: &[libc::sock_filter]) -> io::Result<Self> {
        let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
        let index = link.map_err(io::Error::other)?.index;
        let group = std::process::id() & 0xffff;
        let sockets: io::Result<Vec<OwnedFd>> = (0..rings).map(|_| join(index, group)).collect();
        let sockets = sockets?;
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
        set_option(&sockets[0], PACKET_FANOUT_DATA, &program)?;
        Ok(Self(sockets))
    }

    /// Waits until `count` frames have come that end with `mark`; returns the ring and the bytes of
    /// each of these.
    pub fn receive(&self, count: usize, mark: &[u8]) -> Result<Vec<(usize, Vec<u8>)>> {
        let mut frames = Vec::new();
        let mut bytes = [0; 2048];
        until_ok("all frames come by the rings", || {
            for (ring, socket) in self.0.iter().enumerate() {
                while let Ok((len, _)) = rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT)
                {
                    if bytes[..len].ends_with(mark) {
                        frames.push((ring, bytes[..len].to_vec()));
                    }
                }
            }
            if frames.len() >= count { Ok(()) } else { Err(format!("{} came", frames.len())) }
        })?;
        Ok(frames)
    }
}

fn join(interface: u32, group: u32) -> io::Result<OwnedFd> {
    let socket = raw::open_packet_socket(libc::ETH_P_ALL)?;
    let address = raw::address(interface, libc::ETH_P_ALL);
    let (pointer, len) = (&raw const address, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
    // SAFETY: the address is valid for its length during the call.
    if unsafe { libc::bind(socket.as_raw_fd(), pointer.cast(), len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = (PACKET_FANOUT_CBPF | IGNORE_OUTGOING) << 16 | group;
    if set_option(&socket, PACKET_FANOUT, &mode).is_err() {
        // The flag is new in Linux 6.2.
        set_option(&socket, PACKET_FANOUT, &(PACKET_FANOUT_CBPF << 16 | group))?;
    }
    Ok(socket)
}

fn set_option<T: Copy>(socket: &OwnedFd, name: i32, value: &T) -> io::Result<()> {
    socket::set_option(socket.as_fd(), libc::SOL_PACKET, name, value)
}

const PACKET_FANOUT: i32 = 18;
const PACKET_FANOUT_DATA: i32 = 22;
const PACKET_FANOUT_CBPF: u32 = 6;
const IGNORE_OUTGOING: u32 = 0x4000;
