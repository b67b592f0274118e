//! Sets offloads and IPv6 of an interface: the senders of a test network leave work to hardware
//! that does not exist.

use std::fs;
use std::os::fd::AsFd;

use crate::error::{Result, SystemError};
use crate::socket;

/// Work that a sender can leave to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Checksums of sent frames.
    TxChecksum,
    /// TCP super-packets.
    TcpSegmentation,
    /// Super-packets of any protocol.
    GenericSegmentation,
    /// Joining received frames.
    GenericReceive,
}

impl Offload {
    fn command(self) -> u32 {
        // <linux/ethtool.h>: ETHTOOL_STXCSUM, STSO, SGSO, SGRO.
        match self {
            Self::TxChecksum => 0x17,
            Self::TcpSegmentation => 0x1f,
            Self::GenericSegmentation => 0x24,
            Self::GenericReceive => 0x2c,
        }
    }
}

/// Turns one offload of an interface in this thread's namespace on or off.
pub fn set_offload(interface: &str, offload: Offload, on: bool) -> Result<()> {
    #[repr(C)]
    struct Value {
        command: u32,
        value: u32,
    }
    let state = if on { "on" } else { "off" };
    let action = || format!("turn {offload:?} of `{interface}` {state}");
    let failed = |cause| SystemError::new(action(), cause);
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(failed)?;
    let mut value = Value { command: offload.command(), value: u32::from(on) };
    let mut request = socket::interface_request(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // `value` outlives the call, and its first word tells the kernel its type.
    socket::interface_ioctl(socket.as_fd(), libc::SIOCETHTOOL, &mut request).map_err(failed)
}

/// Sets whether an interface in this thread's namespace gets the VLAN tags of frames to send beside
/// them, to insert them by itself.
pub fn set_tag_insertion(interface: &str, on: bool) -> Result<()> {
    let action = || format!("let `{interface}` insert VLAN tags: {on}");
    let failed = |cause| SystemError::new(action(), cause);
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(failed)?;
    // <linux/ethtool.h>: ETHTOOL_GFLAGS or SFLAGS, then the flags, of which ETH_FLAG_TXVLAN.
    let mut flags = [0u32; 2];
    for command in [0x25, 0x26] {
        flags[0] = command;
        let mut request = socket::interface_request(interface)?;
        request.ifr_ifru.ifru_data = (&raw mut flags).cast();
        // `flags` outlives the call, and its first word tells the kernel its type.
        socket::interface_ioctl(socket.as_fd(), libc::SIOCETHTOOL, &mut request).map_err(failed)?;
        flags[1] = if on { flags[1] | 1 << 7 } else { flags[1] & !(1 << 7) };
    }
    Ok(())
}

/// Sets into how many queues an interface in this thread's namespace receives.
pub fn set_receive_queues(interface: &str, count: u32) -> Result<()> {
    let action = || format!("make `{interface}` receive into {count} queues");
    let failed = |cause| SystemError::new(action(), cause);
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(failed)?;
    // <linux/ethtool.h>, `ethtool_channels`: ETHTOOL_GCHANNELS or SCHANNELS, four maxima, then the
    // counts of receive, transmit, other and combined queues.
    let mut channels = [0u32; 9];
    for command in [0x3c, 0x3d] {
        channels[0] = command;
        let mut request = socket::interface_request(interface)?;
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        // `channels` outlives the call, and its first word tells the kernel its type.
        socket::interface_ioctl(socket.as_fd(), libc::SIOCETHTOOL, &mut request).map_err(failed)?;
        channels[5] = count;
    }
    Ok(())
}

/// Turns off every offload that would hand unfinished frames to a packet socket.
pub fn set_all_offloads(interface: &str, on: bool) -> Result<()> {
    use Offload::{GenericReceive, GenericSegmentation, TcpSegmentation, TxChecksum};
    for offload in [TxChecksum, TcpSegmentation, GenericSegmentation, GenericReceive] {
        set_offload(interface, offload, on)?;
    }
    Ok(())
}

/// Sets whether an interface in this thread's namespace uses IPv6 by itself (router and neighbour
/// messages); a port should not.
pub fn set_ipv6(interface: &str, on: bool) -> Result<()> {
    let path = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
    let value = if on { "0" } else { "1" };
    fs::write(&path, value)
        .map_err(|cause| SystemError::new(format!("write {value} to {path}"), cause))
}
