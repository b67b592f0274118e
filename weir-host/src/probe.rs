//! Sends single frames out of an interface, through its queueing discipline.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::error::{Result, SystemError};
use crate::socket;

/// Sends Ethernet frames out of `interface`, each through its queueing discipline.
///
/// # Errors
/// Without CAP_NET_RAW, or if the interface is missing or down.
pub fn send(interface: &str, frames: &[Vec<u8>]) -> Result<()> {
    let failed = |cause| SystemError::new(format!("send a probe out of `{interface}`"), cause);
    let mut request = socket::interface_request(interface)?;
    let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(failed)?;
    socket::interface_ioctl(socket.as_fd(), libc::SIOCGIFINDEX, &mut request).map_err(failed)?;
    // SAFETY: SIOCGIFINDEX filled in the index.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    for frame in frames {
        // SAFETY: sockaddr_ll is integers only: all zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index;
        // Filters test the protocol, which the kernel takes from here, as it is in the frame.
        let ethertype = [frame.get(12), frame.get(13)].map(|byte| byte.copied().unwrap_or(0));
        address.sll_protocol = u16::from_ne_bytes(ethertype);
        let pointer: *const libc::sockaddr_ll = &address;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the frame and the address are valid for their lengths during the call.
        let sent = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                pointer.cast(),
                length,
            )
        };
        if sent < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
    }
    Ok(())
}
