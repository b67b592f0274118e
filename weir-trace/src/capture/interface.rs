//! The interfaces that a capture names, and what its frames begin with.

use std::fmt;

/// One interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The first header of its frames.
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
        match NAMES.binary_search_by_key(&self.0, |row| row.0) {
            Ok(place) => f.write_str(NAMES[place].1),
            Err(_) => write!(f, "linktype {}", self.0),
        }
    }
}

/// Names of the registry of link types, `[linktypes]`, in the order of their numbers: all that Weir
/// reads, and others that captures have.
const NAMES: &[(u16, &str)] = &[
    (0, "null"),
    (1, "ethernet"),
    (3, "ax25"),
    (6, "token-ring"),
    (8, "slip"),
    (9, "ppp"),
    (10, "fddi"),
    (11, "atm-rfc1483"),
    (12, "raw-12"),
    (14, "raw-14"),
    (50, "ppp-hdlc"),
    (51, "ppp-ether"),
    (100, "atm-rfc1483"),
    (101, "raw"),
    (104, "c-hdlc"),
    (105, "ieee802.11"),
    (107, "frelay"),
    (108, "loop"),
    (109, "enc"),
    (113, "linux-sll"),
    (114, "localtalk"),
    (117, "pflog"),
    (119, "ieee802.11-prism"),
    (122, "ip-over-fibre-channel"),
    (123, "sunatm"),
    (127, "ieee802.11-radiotap"),
    (129, "arcnet-linux"),
    (138, "apple-ip-over-ieee1394"),
    (139, "mtp2-with-header"),
    (140, "mtp2"),
    (141, "mtp3"),
    (142, "sccp"),
    (143, "docsis"),
    (144, "linux-irda"),
    (147, "user0"),
    (163, "ieee802.11-avs"),
    (166, "ppp-pppd"),
    (169, "gprs-llc"),
    (177, "linux-lapd"),
    (187, "bluetooth-hci-h4"),
    (189, "usb-linux"),
    (192, "ppi"),
    (195, "ieee802.15.4"),
    (201, "bluetooth-hci-h4-with-direction"),
    (204, "ppp-with-direction"),
    (215, "ieee802.15.4-nonask-phy"),
    (220, "usb-linux-mmapped"),
    (226, "ipnet"),
    (227, "can-socketcan"),
    (228, "ipv4"),
    (229, "ipv6"),
    (230, "ieee802.15.4-nofcs"),
    (239, "nflog"),
    (240, "netanalyzer"),
    (245, "nfc-llcp"),
    (247, "infiniband"),
    (249, "usbpcap"),
    (251, "bluetooth-le-ll"),
    (253, "netlink"),
    (256, "bluetooth-le-ll-with-phdr"),
    (272, "ppp-hdlc-with-direction"),
    (274, "ethernet-mpacket"),
    (276, "linux-sll2"),
    (283, "ieee802.15.4-tap"),
    (292, "etw"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::packet::LinkType;

    #[test]
    fn names_are_in_order_and_every_link_type_that_is_read_has_one() {
        assert!(NAMES.is_sorted_by(|one, other| one.0 < other.0));
        for number in 0..=u16::MAX {
            let read = LinkType::from_capture(number.into()).is_some();
            let named = NAMES.binary_search_by_key(&number, |row| row.0).is_ok();
            assert!(named || !read, "{number}");
        }
    }
}
