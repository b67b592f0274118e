//! Echoes by ICMP: asks one host for an answer, and does not read it.
//!
//! A process with privileges opens the socket ([`open`]); another one asks by it ([`EchoSocket`]).
//! It is an ICMP datagram socket where the kernel lets groups have those
//! (`net.ipv4.ping_group_range`), and else a raw one, to which no message comes. Either is
//! connected to its host.

use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use crate::error::{Result, SystemError};
use crate::socket;
use crate::uapi::icmp::{ICMP_FILTER, ICMPV6_FILTER, SOL_ICMPV6, SOL_RAW};
use weir_core::packet::Checksum;

/// Opens a socket that asks `host`, on the way that the system's routes say.
///
/// # Errors
/// When there is no way to the host, or the system refuses.
pub fn open(host: IpAddr) -> Result<OwnedFd> {
    let failed = |cause| SystemError::new(format!("ping {host}"), cause);
    let (family, protocol) = match host {
        IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
    };
    let kind = |kind| socket::open(family, kind, protocol);
    let socket = match kind(libc::SOCK_DGRAM) {
        Ok(socket) => socket,
        Err(_) => {
            let socket = kind(libc::SOCK_RAW).map_err(failed)?;
            take_nothing(&socket, host).map_err(failed)?;
            socket
        }
    };
    let socket = UdpSocket::from(socket);
    socket.connect((host, 0)).map_err(failed)?;
    Ok(socket.into())
}

/// Lets no message come to a raw socket.
fn take_nothing(socket: &OwnedFd, host: IpAddr) -> std::io::Result<()> {
    match host {
        IpAddr::V4(_) => socket::set_option(socket.as_fd(), SOL_RAW, ICMP_FILTER, &u32::MAX),
        // A bit for each of the 256 types.
        IpAddr::V6(_) => {
            socket::set_option(socket.as_fd(), SOL_ICMPV6, ICMPV6_FILTER, &[u32::MAX; 8])
        }
    }
}

/// A socket that asks a host.
pub struct EchoSocket {
    socket: UdpSocket,
    /// The type of its messages.
    kind: u8,
}

impl EchoSocket {
    /// A socket that was opened for this host.
    pub fn new(socket: OwnedFd, host: IpAddr) -> Self {
        Self { socket: socket.into(), kind: request_type(host) }
    }

    /// Asks the host; its answer has this number.
    ///
    /// # Errors
    /// When there is no way to it.
    pub fn send(&self, number: u16) -> std::io::Result<()> {
        // The kernel chooses the identifier of a datagram socket.
        let message = request(self.kind, std::process::id() as u16, number);
        self.socket.send(&message).map(drop)
    }
}

/// Returns the message that asks, under the number of one who asks. Under IPv6 the checksum, which
/// has the addresses in it, is the kernel's to write.
fn request(kind: u8, own: u16, number: u16) -> [u8; LENGTH] {
    let mut message = [0; LENGTH];
    message[0] = kind;
    message[4..6].copy_from_slice(&own.to_be_bytes());
    message[6..8].copy_from_slice(&number.to_be_bytes());
    let mut sum = Checksum::default();
    sum.add(&message);
    message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    message
}

/// Returns the number in a message of ICMP that asks, or that answers.
pub fn number(message: &[u8]) -> Option<u16> {
    let fields: &[u8; 8] = message.first_chunk()?;
    Some(u16::from_be_bytes([fields[6], fields[7]]))
}

/// Returns the type of messages that ask a host [RFC 792, RFC 4443 §4.1].
pub const fn request_type(host: IpAddr) -> u8 {
    if host.is_ipv4() { 8 } else { 128 }
}

/// Returns the type of a host's answers [RFC 792, RFC 4443 §4.2].
pub const fn reply_type(host: IpAddr) -> u8 {
    if host.is_ipv4() { 0 } else { 129 }
}

/// Bytes of a message: a header, and as many as `ping` sends by default.
const LENGTH: usize = 8 + 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_number_and_a_right_checksum() {
        let message = request(8, 7, 300);
        assert_eq!((message[0], number(&message)), (8, Some(300)));
        let mut sum = Checksum::default();
        sum.add(&message);
        assert_eq!(sum.finish(), 0, "all of it with its checksum");
        assert_eq!(number(&message[..7]), None);
    }
}
