//! Echoes by ICMP: asks one host for an answer, and does not read it.
//!
//! A process with privileges opens the socket ([`open`]); another one asks by it ([`EchoSocket`]).
//! It is an ICMP datagram socket where the kernel lets groups have those
//! (`net.ipv4.ping_group_range`), and else a raw one, to which no message comes. Either is
//! connected to its host.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use crate::error::{Result, SystemError};
use crate::socket;
use crate::uapi::icmp::{ICMP_FILTER, SOL_RAW};
use weir_core::packet::Checksum;

/// Opens a socket that asks `host`, on the way that the system's routes say.
///
/// # Errors
/// When there is no way to the host, or the system refuses.
pub fn open(host: Ipv4Addr) -> Result<OwnedFd> {
    let failed = |cause| SystemError::new(format!("ping {host}"), cause);
    let kind = |kind| socket::open(libc::AF_INET, kind, libc::IPPROTO_ICMP);
    let socket = match kind(libc::SOCK_DGRAM) {
        Ok(socket) => socket,
        Err(_) => {
            let socket = kind(libc::SOCK_RAW).map_err(failed)?;
            socket::set_option(socket.as_fd(), SOL_RAW, ICMP_FILTER, &u32::MAX).map_err(failed)?;
            socket
        }
    };
    let socket = UdpSocket::from(socket);
    socket.connect((host, 0)).map_err(failed)?;
    Ok(socket.into())
}

/// A socket that asks a host.
pub struct EchoSocket(UdpSocket);

impl From<OwnedFd> for EchoSocket {
    fn from(socket: OwnedFd) -> Self {
        Self(socket.into())
    }
}

impl EchoSocket {
    /// Asks the host; its answer has this number.
    ///
    /// # Errors
    /// When there is no way to it.
    pub fn send(&self, number: u16) -> std::io::Result<()> {
        // The kernel chooses the identifier of a datagram socket.
        self.0.send(&request(std::process::id() as u16, number)).map(drop)
    }
}

/// Returns the message that asks, under the number of one who asks.
fn request(own: u16, number: u16) -> [u8; LENGTH] {
    let mut message = [0; LENGTH];
    message[0] = ECHO_REQUEST;
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

/// RFC 792: the types of messages that ask, and that answer.
pub const ECHO_REQUEST: u8 = 8;
/// See [`ECHO_REQUEST`].
pub const ECHO_REPLY: u8 = 0;
/// Bytes of a message: a header, and as many as `ping` sends by default.
const LENGTH: usize = 8 + 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_number_and_a_right_checksum() {
        let message = request(7, 300);
        assert_eq!((message[0], number(&message)), (ECHO_REQUEST, Some(300)));
        let mut sum = Checksum::default();
        sum.add(&message);
        assert_eq!(sum.finish(), 0, "all of it with its checksum");
        assert_eq!(number(&message[..7]), None);
    }
}
