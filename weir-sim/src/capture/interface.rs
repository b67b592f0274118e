//! The interfaces that a capture names, and what its frames begin with.

use std::fmt;

/// One interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What its frames begin with.
    pub link_type: CaptureLink,
    /// Its name; empty where the capture does not say (a pcap file never does).
    pub name: String,
    /// The most bytes captured of a frame; 0 where no limit was set.
    pub snap_length: u32,
}

/// A link-layer header type: the LINKTYPE number of the file. Whether and how the core parses such
/// frames, [`LinkType::from_capture`](weir_core::packet::LinkType::from_capture) decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaptureLink(pub u16);

impl CaptureLink {
    /// BSD loopback: a 4-byte address family in the capturing machine's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet, without a frame check sequence.
    pub const ETHERNET: Self = Self(1);
    /// An IPv4 or IPv6 packet with no link header.
    pub const RAW: Self = Self(101);
    /// Linux "cooked" capture, as of the `any` interface.
    pub const LINUX_SLL: Self = Self(113);
    /// An IPv4 packet with no link header.
    pub const IPV4: Self = Self(228);
    /// An IPv6 packet with no link header.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

impl fmt::Display for CaptureLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NULL => f.write_str("null"),
            Self::ETHERNET => f.write_str("ethernet"),
            Self::RAW => f.write_str("raw"),
            Self::LINUX_SLL => f.write_str("linux-sll"),
            Self::IPV4 => f.write_str("ipv4"),
            Self::IPV6 => f.write_str("ipv6"),
            Self::LINUX_SLL2 => f.write_str("linux-sll2"),
            Self(number) => write!(f, "linktype {number}"),
        }
    }
}
