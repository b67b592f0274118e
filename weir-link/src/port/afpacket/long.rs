//! Sends frames that are longer than a packet socket may send, and that the kernel's bridge sends.
//!
//! The kernel's bridge lets an interface send its MTU, the Ethernet header, and four bytes more,
//! with the outermost VLAN tag beside the frame. An ordinary packet socket may exceed the MTU only
//! by one tag of 802.1Q (`packet_snd` in the kernel's net/packet/af_packet.c): a full frame with a
//! tag of 802.1ad, or with two tags, it refuses with EMSGSIZE. In a transmit ring whose frames
//! begin with a `virtio_net_hdr` the kernel does not measure them (`tpacket_snd`): they may be
//! super-packets. So a frame that was refused is measured here, by the bridge's rule, and sent
//! from such a ring.
//!
//! The interface has the last word: a veth pair loses what exceeds the MTU of its other end by two
//! tags, where both are in the frame as here.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::authority::RingShape;
use crate::ring::Ring;

/// A socket with a transmit ring.
#[derive(Debug)]
pub(super) struct LongSender {
    // The ring must be unmapped before its socket is closed: fields drop in this order.
    ring: Ring,
    socket: OwnedFd,
}

impl LongSender {
    pub(super) fn map(socket: OwnedFd, shape: RingShape) -> io::Result<Self> {
        Ok(Self { ring: Ring::map(socket.as_fd(), shape)?, socket })
    }

    /// Sends a frame out of the interface `index` with this MTU.
    ///
    /// # Errors
    /// EMSGSIZE if the frame is too long for the interface, EAGAIN if frames wait in it.
    pub(super) fn send(&mut self, index: u32, mtu: usize, frame: &[u8]) -> io::Result<()> {
        if !fits(frame, mtu) || !self.ring.has_room(frame.len()) {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        if !self.ring.put(frame) {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        // SAFETY: sockaddr_ll is integers only: all zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        let (pointer, len) = (&raw const address, size_of::<libc::sockaddr_ll>() as u32);
        let fd = self.socket.as_raw_fd();
        // SAFETY: the address is valid for its length during the call; no bytes are passed.
        let sent = unsafe {
            libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, pointer.cast(), len)
        };
        let outcome = if sent > 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        self.ring.finish(outcome.is_ok());
        // An interface that finds a frame too long drops it, which looks like a full queue.
        outcome.map_err(|cause| match cause.raw_os_error() {
            Some(libc::ENOBUFS) => io::Error::from_raw_os_error(libc::EMSGSIZE),
            _ => cause,
        })
    }
}

/// Returns whether the kernel's bridge would send the frame by an interface with this MTU.
fn fits(frame: &[u8], mtu: usize) -> bool {
    let is_tagged = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    let beside = if is_tagged { TAG_LEN } else { 0 };
    frame.len() <= mtu + HEADER_LEN + TAG_LEN + beside
}

const HEADER_LEN: usize = 14;
const TAG_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_as_for_the_kernels_bridge() {
        let rows = [
            ([0x88, 0xb5], 1518, true),
            ([0x88, 0xb5], 1519, false),
            ([0x81, 0x00], 1522, true),
            ([0x88, 0xa8], 1522, true),
            ([0x88, 0xa8], 1523, false),
            ([0x91, 0x00], 1519, false),
        ];
        for (kind, len, wanted) in rows {
            let mut frame = vec![0; len];
            frame[12..14].copy_from_slice(&kind);
            assert_eq!(fits(&frame, 1500), wanted, "{kind:02x?} {len}");
        }
        assert!(fits(&[], 1500));
    }
}
