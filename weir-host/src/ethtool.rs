//! Asks drivers what an interface does, and sets offloads and IPv6: the senders of a test network
//! leave work to hardware that does not exist.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use crate::error::{Result, SystemError};
use crate::socket;
use crate::uapi::ethtool::*;

/// Work that a sender can leave to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Checksums of sent frames.
    TxChecksum,
    /// Cutting TCP super-packets into segments.
    TcpSegmentation,
    /// Super-packets of any protocol.
    GenericSegmentation,
    /// Joining received frames to super-packets.
    GenericReceive,
}

impl Offload {
    fn command(self) -> u32 {
        match self {
            Self::TxChecksum => ETHTOOL_STXCSUM,
            Self::TcpSegmentation => ETHTOOL_STSO,
            Self::GenericSegmentation => ETHTOOL_SGSO,
            Self::GenericReceive => ETHTOOL_SGRO,
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
    let mut flags = [0u32; 2];
    for command in [ETHTOOL_GFLAGS, ETHTOOL_SFLAGS] {
        flags[0] = command;
        let mut request = socket::interface_request(interface)?;
        request.ifr_ifru.ifru_data = (&raw mut flags).cast();
        // `flags` outlives the call, and its first word tells the kernel its type.
        socket::interface_ioctl(socket.as_fd(), libc::SIOCETHTOOL, &mut request).map_err(failed)?;
        let others = flags[1] & !ETH_FLAG_TXVLAN;
        flags[1] = if on { others | ETH_FLAG_TXVLAN } else { others };
    }
    Ok(())
}

/// Sets into how many queues an interface in this thread's namespace receives, and by how many it
/// sends.
pub fn set_queues(interface: &str, receive: u32, transmit: u32) -> Result<()> {
    let action =
        || format!("make `{interface}` receive into {receive} queues and send by {transmit}");
    let failed = |cause| SystemError::new(action(), cause);
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(failed)?;
    let mut channels = [0u32; COUNTS_WORDS];
    for command in [ETHTOOL_GCHANNELS, ETHTOOL_SCHANNELS] {
        channels[0] = command;
        let mut request = socket::interface_request(interface)?;
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        // `channels` outlives the call, and its first word tells the kernel its type.
        socket::interface_ioctl(socket.as_fd(), libc::SIOCETHTOOL, &mut request).map_err(failed)?;
        (channels[COUNT_FIRST], channels[COUNT_TRANSMIT]) = (receive, transmit);
    }
    Ok(())
}

/// Turns off every offload that would hand unfinished frames to a packet socket.
pub fn set_all_offloads(interface: &str, on: bool) -> Result<()> {
    use Offload::{GenericReceive, GenericSegmentation, TcpSegmentation, TxChecksum};
    for offload in [TxChecksum, TcpSegmentation, GenericSegmentation, GenericReceive] {
        match set_offload(interface, offload, on) {
            // What an interface cannot do it does not do. A cable cannot cut segments any more once
            // an XDP program is attached to its other end.
            Err(error) if !on && error.errno() == Some(libc::EOPNOTSUPP) => {}
            outcome => outcome?,
        }
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

/// The work that an interface does for the kernel; `None` where its driver does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Joins received segments in the kernel (GRO).
    pub joins: Option<bool>,
    /// Joins received segments in the card (LRO).
    pub joins_in_card: Option<bool>,
    /// Takes TCP super-packets to cut (TSO).
    pub cuts_tcp: Option<bool>,
    /// Takes the VLAN tags off received frames.
    pub takes_tags_off: Option<bool>,
    /// Computes a hash of received frames.
    pub hashes: Option<bool>,
}

/// Returns what an interface in this thread's namespace does for the kernel.
pub fn features(interface: &str) -> Features {
    let value = |command| ask(interface, [command, 0]).ok().map(|[_, value]| value);
    let flags = value(ETHTOOL_GFLAGS);
    let flag = |flag: u32| flags.map(|flags| flags & flag != 0);
    Features {
        joins: value(ETHTOOL_GGRO).map(|value| value != 0),
        joins_in_card: flag(ETH_FLAG_LRO),
        cuts_tcp: value(ETHTOOL_GTSO).map(|value| value != 0),
        takes_tags_off: flag(ETH_FLAG_RXVLAN),
        hashes: flag(ETH_FLAG_RXHASH),
    }
}

/// Returns the name of the driver of an interface in this thread's namespace.
pub fn driver(interface: &str) -> io::Result<String> {
    Ok(driver_name(&ask(interface, asked(ETHTOOL_GDRVINFO))?))
}

/// Returns the name in an `ethtool_drvinfo`.
pub(crate) fn driver_name(answer: &[u32; DRVINFO_WORDS]) -> String {
    let bytes: Vec<u8> = answer[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// Returns into how many queues an interface in this thread's namespace receives.
pub fn receive_queues(interface: &str) -> io::Result<u32> {
    Ok(queue_counts(&ask(interface, asked(ETHTOOL_GCHANNELS))?)[0])
}

/// Returns the receive and the transmit queues in an `ethtool_channels`: combined ones are both.
pub(crate) fn queue_counts(answer: &[u32; COUNTS_WORDS]) -> [u32; 2] {
    [COUNT_FIRST, COUNT_TRANSMIT].map(|word| answer[word] + answer[COUNT_LAST])
}

/// Returns whether an interface in this thread's namespace obeys pause frames, and sends them.
pub fn pause(interface: &str) -> io::Result<[bool; 2]> {
    // `ethtool_pauseparam`: a command, then whether they are negotiated, received and sent.
    let [_, _, obeys, sends] = ask(interface, asked(ETHTOOL_GPAUSEPARAM))?;
    Ok([obeys != 0, sends != 0])
}

/// Returns how many frames the receive ring and the transmit ring of an interface in this thread's
/// namespace hold.
pub fn rings(interface: &str) -> io::Result<[u32; 2]> {
    let answer: [u32; COUNTS_WORDS] = ask(interface, asked(ETHTOOL_GRINGPARAM))?;
    Ok([answer[COUNT_FIRST], answer[COUNT_LAST]])
}

/// Returns a question with this command, and room for the answer.
pub(crate) fn asked<const WORDS: usize>(command: u32) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    words[0] = command;
    words
}

/// Makes a request of the driver of an interface; one that only reads needs no privilege.
fn ask<const WORDS: usize>(interface: &str, mut words: [u32; WORDS]) -> io::Result<[u32; WORDS]> {
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut request = socket::interface_request(interface).map_err(|error| error.cause)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // `words` outlives the call, and its first word tells the kernel its type and length.
    socket::interface_ioctl(socket.as_fd(), libc::SIOCETHTOOL, &mut request)?;
    Ok(words)
}

/// Returns the MTU of an interface in this thread's namespace; needs no privilege.
pub fn mtu(interface: &str) -> io::Result<usize> {
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut request = socket::interface_request(interface).map_err(|error| error.cause)?;
    socket::interface_ioctl(socket.as_fd(), libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: SIOCGIFMTU filled in the MTU.
    Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
}
