//! A fanout group of plain AF_PACKET sockets that runs a sorter's program: which socket gets which
//! frame. It uses the kernel only, so that the program is tested and no port.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use weir_live::netlink::Netlink;

/// The sockets; the place of each is its ring.
pub struct Rings(Vec<OwnedFd>);

impl Rings {
    /// Opens `rings` sockets on `interface` of this namespace, which run `code`.
    pub fn open(interface: &str, rings: usize, code: &[libc::sock_filter]) -> io::Result<Self> {
        let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
        let index = link.map_err(io::Error::other)?.index;
        let group = std::process::id() & 0xffff;
        let sockets: io::Result<Vec<OwnedFd>> =
            (0..rings).map(|_| join(index as i32, group)).collect();
        let sockets = sockets?;
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
        set_option(&sockets[0], PACKET_FANOUT_DATA, &program)?;
        Ok(Self(sockets))
    }

    /// Takes frames until `count` have come that end with `mark`, or for `patience`; returns the
    /// ring and the bytes of each of these.
    pub fn receive(&self, count: usize, mark: &[u8], patience: Duration) -> Vec<(usize, Vec<u8>)> {
        let (mut frames, start) = (Vec::new(), Instant::now());
        let mut bytes = [0; 2048];
        while frames.len() < count && start.elapsed() < patience {
            for (ring, socket) in self.0.iter().enumerate() {
                // SAFETY: the buffer is valid for its length during the call.
                let len = unsafe {
                    let pointer = bytes.as_mut_ptr().cast();
                    libc::recv(socket.as_raw_fd(), pointer, bytes.len(), libc::MSG_DONTWAIT)
                };
                let frame = usize::try_from(len).map_or(&[][..], |len| &bytes[..len]);
                if frame.ends_with(mark) {
                    frames.push((ring, frame.to_vec()));
                }
            }
        }
        frames
    }
}

fn join(interface: i32, group: u32) -> io::Result<OwnedFd> {
    let every = u16::to_be(libc::ETH_P_ALL as u16);
    // SAFETY: socket takes numbers only; the new descriptor has no other owner.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        match libc::socket(libc::AF_PACKET, kind, every.into()) {
            fd if fd >= 0 => OwnedFd::from_raw_fd(fd),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: sockaddr_ll is integers only: all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = every;
    address.sll_ifindex = interface;
    let pointer: *const libc::sockaddr_ll = &address;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
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

fn set_option<T>(socket: &OwnedFd, name: i32, value: &T) -> io::Result<()> {
    let pointer: *const T = value;
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is valid for `len` bytes for the length of the call.
    let status = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, name, pointer.cast(), len)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const PACKET_FANOUT: i32 = 18;
const PACKET_FANOUT_DATA: i32 = 22;
const PACKET_FANOUT_CBPF: u32 = 6;
const IGNORE_OUTGOING: u32 = 0x4000;
