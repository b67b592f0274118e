//! Link headers of captures: where each ends, and what says which packet follows.
//!
//! The names and numbers are those of the registry of link types, `[linktypes]`. Ethernet, which
//! live frames have, does not come here: see `parse`. Every loop has a named bound.

use super::encapsulation::ppp_protocol;
use super::parse::{be16, be32};
use super::{EtherType, Unread, wireless};

/// Makes [`LinkType`] and its tables from one row a link type: its numbers and its name.
macro_rules! link_types {
    ($($(#[$doc:meta])* $link:ident $numbers:pat, $name:literal;)*) => {
        /// The link layer that the bytes of a packet begin with.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum LinkType {
            $($(#[$doc])* $link,)*
        }

        impl LinkType {
            /// All link types, in the order of the table.
            pub const ALL: [LinkType; [$($name),*].len()] = [$(LinkType::$link),*];

            /// Returns the link type of a `LINKTYPE_` number of a pcap or pcapng file; none if Weir
            /// does not read it.
            pub fn from_capture(number: u32) -> Option<LinkType> {
                match number {
                    $($numbers => Some(LinkType::$link),)*
                    _ => None,
                }
            }

            /// Its name in messages.
            pub fn name(self) -> &'static str {
                match self { $(LinkType::$link => $name,)* }
            }
        }
    };
}

link_types! {
    /// An Ethernet header, with or without VLAN tags.
    Ethernet 1, "Ethernet";
    /// An IPv4 or IPv6 header, distinguished by the version nibble. Some BSDs wrote 12 and 14 for
    /// 101; 228 and 229 promise one version.
    RawIp 12 | 14 | 101 | 228 | 229, "raw IP";
    /// BSD loopback: an address family of four bytes, in either byte order.
    Loopback 0 | 108, "loopback";
    /// Linux "cooked" capture, version 1.
    LinuxSll 113, "Linux cooked";
    /// Linux "cooked" capture, version 2.
    LinuxSll2 276, "Linux cooked 2";
    /// PPP, with or without address and control bytes.
    Ppp 9, "PPP";
    /// PPP or Cisco's HDLC, both with their first two bytes.
    PppSerial 50, "serial PPP";
    /// A PPPoE header without the Ethernet header before it.
    Pppoe 51, "PPPoE";
    /// Cisco's HDLC: two bytes and an ethertype.
    CiscoHdlc 104, "Cisco HDLC";
    /// Frame Relay with the encapsulation of RFC 2427 or Cisco's.
    FrameRelay 107, "Frame Relay";
    /// A frame of a wireless network, IEEE 802.11.
    Wireless 105, "802.11";
    /// The same behind a radiotap header.
    Radiotap 127, "802.11 with radiotap";
    /// Messages of Linux's `NFLOG` target: attributes, one of which is the IP packet.
    Nflog 239, "NFLOG";
}

impl LinkType {
    /// Returns the length of this link's own header, and trailer, in a frame that begins with
    /// `bytes`: what an Ethernet header would stand in place of. The 14 bytes of that where it
    /// cannot be read.
    pub fn header_len(self, bytes: &[u8]) -> u32 {
        let fixed = match self {
            LinkType::Ethernet => ETHERNET_LEN,
            LinkType::RawIp | LinkType::Pppoe => 0,
            LinkType::Loopback => LOOPBACK_LEN,
            LinkType::LinuxSll => SLL_LEN,
            LinkType::LinuxSll2 => SLL2_LEN,
            _ => start(self, bytes).map_or(ETHERNET_LEN, |start| start.at + start.trailer),
        };
        fixed as u32
    }
}

/// Where the header of a link ends.
pub(super) struct Start {
    /// The offset of what follows.
    pub at: usize,
    pub next: Next,
    /// Bytes behind the packet that belong to the link.
    pub trailer: usize,
    /// The mark of the packet, 0 without one.
    pub mark: u32,
}

/// The kind of header behind the link's own.
pub(super) enum Next {
    /// The network layer that this ethertype names, or an IEEE 802.3 length.
    EtherType(u16),
    /// The network layer that this protocol number of PPP names.
    Ppp(u16),
    Pppoe,
    /// Nothing with an IP header: control of the link.
    Control,
    /// Something that cannot be read.
    Unread(Unread),
}

impl Start {
    pub fn new(at: usize, next: Next) -> Option<Start> {
        Some(Start { at, next, trailer: 0, mark: 0 })
    }

    pub fn ethertype(at: usize, kind: EtherType) -> Option<Start> {
        Start::new(at, Next::EtherType(kind.0))
    }
}

/// Returns where the header of the link ends in `bytes`; none where they end before, or where it
/// makes no sense.
pub(super) fn start(link: LinkType, bytes: &[u8]) -> Option<Start> {
    match link {
        LinkType::Ethernet => ethernet(bytes, 0),
        LinkType::RawIp => raw_ip(bytes),
        LinkType::Loopback => loopback(bytes),
        LinkType::LinuxSll => cooked(bytes, SLL_PROTOCOL, SLL_LEN),
        LinkType::LinuxSll2 => cooked(bytes, SLL2_PROTOCOL, SLL2_LEN),
        LinkType::Ppp => ppp(bytes),
        LinkType::PppSerial => match *bytes.first()? {
            // Cisco's addresses, of one station and of all.
            0x0f | 0x8f => cisco_hdlc(bytes),
            _ => ppp(bytes),
        },
        LinkType::Pppoe => Start::new(0, Next::Pppoe),
        LinkType::CiscoHdlc => cisco_hdlc(bytes),
        LinkType::FrameRelay => frame_relay(bytes),
        LinkType::Wireless => wireless::start(bytes, wireless::Outside::NONE),
        LinkType::Radiotap => wireless::radiotap(bytes),
        LinkType::Nflog => nflog(bytes),
    }
}

fn ethernet(bytes: &[u8], at: usize) -> Option<Start> {
    Start::new(at + ETHERNET_LEN, Next::EtherType(be16(bytes, at + ETHERNET_LEN - 2)?))
}

fn raw_ip(bytes: &[u8]) -> Option<Start> {
    match bytes.first()? >> 4 {
        4 => Start::ethertype(0, EtherType::IPV4),
        6 => Start::ethertype(0, EtherType::IPV6),
        _ => None,
    }
}

fn loopback(bytes: &[u8]) -> Option<Start> {
    let family = *bytes.first_chunk()?;
    // The writer used its own byte order; families are small, so take the smaller reading.
    let family = u32::from_be_bytes(family).min(u32::from_le_bytes(family));
    match family {
        2 => Start::ethertype(LOOPBACK_LEN, EtherType::IPV4),
        // Linux, NetBSD and OpenBSD, FreeBSD, macOS.
        10 | 24 | 28 | 30 => Start::ethertype(LOOPBACK_LEN, EtherType::IPV6),
        _ => None,
    }
}

fn cooked(bytes: &[u8], protocol: usize, len: usize) -> Option<Start> {
    bytes.get(..len)?;
    Start::new(len, Next::EtherType(be16(bytes, protocol)?))
}

/// [RFC 1662 §3.1] Address ff and control 03, which peers may agree to leave out.
fn ppp(bytes: &[u8]) -> Option<Start> {
    let skipped = if be16(bytes, 0)? == 0xff03 { 2 } else { 0 };
    let (at, protocol) = ppp_protocol(bytes, skipped)?;
    Start::new(at, Next::Ppp(protocol))
}

/// Address, control and an ethertype; keepalives have one of their own.
fn cisco_hdlc(bytes: &[u8]) -> Option<Start> {
    Start::new(CISCO_HDLC_LEN, Next::EtherType(be16(bytes, 2)?))
}

/// An address of two to four bytes, then the encapsulation of [RFC 2427 §3] or an ethertype.
fn frame_relay(bytes: &[u8]) -> Option<Start> {
    // The lowest bit marks the last byte of the address.
    let last = bytes.iter().take(FRAME_RELAY_ADDRESS_MAX).position(|byte| byte & 1 == 1)?;
    let at = last + 1;
    if at == 1 {
        return None;
    }
    if *bytes.get(at)? != UNNUMBERED {
        return Start::new(at + 2, Next::EtherType(be16(bytes, at)?));
    }
    // A byte of padding may come before the identifier of the protocol.
    let at = if *bytes.get(at + 1)? == 0 { at + 2 } else { at + 1 };
    match *bytes.get(at)? {
        0xcc => Start::ethertype(at + 1, EtherType::IPV4),
        0x8e => Start::ethertype(at + 1, EtherType::IPV6),
        0xcf => {
            let (at, protocol) = ppp_protocol(bytes, at + 1)?;
            Start::new(at, Next::Ppp(protocol))
        }
        0x80 => snap(bytes, at + 1),
        _ => Start::new(at + 1, Next::Control),
    }
}

/// Reads an organisation and what it says that follows: an ethertype or a bridged frame.
pub(super) fn snap(bytes: &[u8], at: usize) -> Option<Start> {
    let organisation = bytes.get(at..at + 3)?;
    let (kind, behind) = (be16(bytes, at + 3)?, at + SNAP_LEN);
    match (organisation, kind) {
        // The second is for protocols that bridges would translate (IEEE 802.1H).
        ([0, 0, 0] | [0, 0, 0xf8], _) => Start::new(behind, Next::EtherType(kind)),
        // [RFC 2427 §4.2] Ethernet, with and without its check sequence.
        ([0, 0x80, 0xc2], 1) => Some(Start { trailer: 4, ..ethernet(bytes, behind)? }),
        ([0, 0x80, 0xc2], 7) => ethernet(bytes, behind),
        _ => Start::new(behind, Next::Control),
    }
}

/// A family, then attributes: length, kind, value, padded to four bytes.
fn nflog(bytes: &[u8]) -> Option<Start> {
    let mut kind = match *bytes.first()? {
        2 => Some(EtherType::IPV4),
        10 => Some(EtherType::IPV6),
        _ => None,
    };
    let (mut at, mut mark) = (NFLOG_LEN, 0);
    for _ in 0..NFLOG_ATTRIBUTES_MAX {
        let attribute: [u8; 4] = *bytes.get(at..)?.first_chunk()?;
        let (len, number) = nflog_attribute(attribute);
        match number {
            NFLOG_PACKET_HEADER => kind = kind.or(Some(EtherType(be16(bytes, at + 4)?))),
            NFLOG_MARK => mark = be32(bytes, at + 4)?,
            NFLOG_PAYLOAD => {
                let start = Start::new(at + 4, kind.map_or(Next::Control, next_of))?;
                return Some(Start { mark, ..start });
            }
            _ => {}
        }
        // An attribute is at least its own header.
        at += len.max(4).next_multiple_of(4);
    }
    None
}

fn next_of(kind: EtherType) -> Next {
    Next::EtherType(kind.0)
}

/// Returns the length and the kind of an attribute. Both are in the byte order of the machine that
/// captured; kinds are below 64, under two bits of flags, so the order shows in them.
fn nflog_attribute(bytes: [u8; 4]) -> (usize, u16) {
    let [len, kind] = [[bytes[0], bytes[1]], [bytes[2], bytes[3]]];
    let little = kind[1] & 0x3f == 0;
    let read = if little { u16::from_le_bytes } else { u16::from_be_bytes };
    (read(len).into(), read(kind) & 0x3fff)
}

/// Bound: attributes passed over in one message of NFLOG; a frame behind more is not read. The
/// kernel knows fewer than 32 kinds.
pub const NFLOG_ATTRIBUTES_MAX: usize = 32;
/// Bound: bytes of a Frame Relay address; a frame with a longer one is not read.
pub const FRAME_RELAY_ADDRESS_MAX: usize = 4;

/// The header of logical link control that SNAP follows.
pub(super) const SNAP_FOLLOWS: [u8; 3] = [0xaa, 0xaa, 3];

const ETHERNET_LEN: usize = 14;
const LOOPBACK_LEN: usize = 4;
const SLL_LEN: usize = 16;
const SLL_PROTOCOL: usize = 14;
const SLL2_LEN: usize = 20;
const SLL2_PROTOCOL: usize = 0;
const CISCO_HDLC_LEN: usize = 4;
/// The control byte of frames without a number.
const UNNUMBERED: u8 = 3;
const SNAP_LEN: usize = 5;
const NFLOG_LEN: usize = 4;
const NFLOG_PACKET_HEADER: u16 = 1;
const NFLOG_MARK: u16 = 2;
const NFLOG_PAYLOAD: u16 = 9;
