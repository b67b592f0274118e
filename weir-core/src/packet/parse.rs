//! Reads headers from bytes: link, network, transport; each step records what it reads.
//!
//! Every step returns `Option<()>`: `None` means that the bytes ended or made no sense; what was
//! recorded so far remains. The steps only move forward, and every loop has a named bound.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::link::{self, Next};
use super::{
    Addresses, Depth, EtherType, Fragment, Headers, IcmpType, LinkType, Macs, Ports, Protocol,
    TcpFlags, Transport, Unread, VlanTag, encapsulation,
};

impl Headers {
    /// Reads the headers of a packet whose bytes begin with `link`. Never fails: see [`Depth`].
    pub fn parse(link: LinkType, bytes: &[u8]) -> Headers {
        let mut headers = Headers::UNKNOWN;
        let read = match link {
            LinkType::Ethernet => ethernet(&mut headers, bytes),
            _ => other_link(&mut headers, link, bytes),
        };
        if headers.depth < Depth::Network && read.is_none() {
            headers.unread = Some(Unread::Damaged);
        }
        headers
    }

    /// Reads the headers of an Ethernet frame without its frame check sequence.
    pub fn parse_ethernet(frame: &[u8]) -> Headers {
        Headers::parse(LinkType::Ethernet, frame)
    }

    /// Reads the headers of an IPv4 or IPv6 packet.
    pub fn parse_ip(packet: &[u8]) -> Headers {
        Headers::parse(LinkType::RawIp, packet)
    }
}

fn ethernet(headers: &mut Headers, frame: &[u8]) -> Option<()> {
    headers.macs = Macs::of_frame(frame);
    link_payload(headers, frame, ETHERNET_LEN, be16(frame, ETHERNET_LEN - 2)?)
}

fn other_link(headers: &mut Headers, link: LinkType, bytes: &[u8]) -> Option<()> {
    let start = link::start(link, bytes)?;
    headers.mark = start.mark;
    if start.at > bytes.len().min(LINK_LEN_MAX) {
        return None;
    }
    if let Next::EtherType(kind) = start.next {
        return link_payload(headers, bytes, start.at, kind);
    }
    headers.link_len = start.at as u16;
    headers.depth = Depth::Link;
    match start.next {
        Next::Ppp(protocol) => encapsulation::ppp(headers, bytes, start.at, protocol),
        Next::Pppoe => encapsulation::pppoe(headers, bytes, start.at),
        Next::Unread(cause) => {
            headers.unread = Some(cause);
            Some(())
        }
        Next::EtherType(_) | Next::Control => Some(()),
    }
}

/// Reads what follows an ethertype, or the length that IEEE 802.3 has in its place.
fn link_payload(headers: &mut Headers, frame: &[u8], at: usize, kind: u16) -> Option<()> {
    let (at, kind) = vlan_tags(headers, frame, at, kind)?;
    headers.ethertype = (kind >= ETHERTYPE_MIN).then_some(EtherType(kind));
    // At most `LINK_LEN_MAX` and eight tags of four bytes.
    headers.link_len = at as u16;
    headers.depth = Depth::Link;
    let packet = frame.get(at..)?;
    match EtherType(kind) {
        EtherType::IPV4 => ipv4(headers, packet),
        EtherType::IPV6 => ipv6(headers, packet),
        kind => encapsulation::read(headers, frame, at, kind),
    }
}

/// Skips the VLAN tags, of which the first two are recorded; returns where the payload begins and
/// its ethertype. A tag beyond [`VLAN_TAGS_MAX`] is left as the ethertype, so nothing behind it is
/// guessed.
fn vlan_tags(
    headers: &mut Headers,
    frame: &[u8],
    mut at: usize,
    mut kind: u16,
) -> Option<(usize, u16)> {
    for depth in 0..VLAN_TAGS_MAX {
        if !EtherType(kind).is_vlan_tag() {
            break;
        }
        let tag = VlanTag(be16(frame, at)?);
        kind = be16(frame, at + 2)?;
        at += VLAN_TAG_LEN;
        match depth {
            0 => headers.vlan = Some(tag),
            1 => headers.vlan_inner = Some(tag),
            _ => {}
        }
    }
    Some((at, kind))
}

/// Reads the IP packet that this ethertype says `packet` begins with.
#[inline]
pub(super) fn network(headers: &mut Headers, packet: &[u8], kind: EtherType) -> Option<()> {
    match kind {
        EtherType::IPV4 => ipv4(headers, packet),
        _ => ipv6(headers, packet),
    }
}

fn ipv4(headers: &mut Headers, packet: &[u8]) -> Option<()> {
    let header: &[u8; IPV4_LEN_MIN] = packet.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = be16(header, 2)?;
    // A sender that leaves segmentation to its network card writes a length of 0.
    let length_known = total_len != 0;
    let too_short = length_known && usize::from(total_len) < header_len;
    if header[0] >> 4 != 4 || header_len < IPV4_LEN_MIN || too_short {
        return None;
    }
    headers.addresses = Addresses::V4 {
        source: Ipv4Addr::from(be32(header, 12)?),
        destination: Ipv4Addr::from(be32(header, 16)?),
    };
    headers.network_len = length_known.then_some(u32::from(total_len));
    headers.traffic_class = Some(header[1]);
    headers.protocol = Some(Protocol(header[9]));
    headers.fragment = ipv4_fragment(be16(header, 4)?, be16(header, 6)?);
    headers.depth = Depth::Network;
    // Bytes beyond the packet are Ethernet's padding, not ports.
    let packet = clip(packet, headers.network_len);
    transport(headers, packet.get(header_len..)?)
}

fn ipv4_fragment(id: u16, flags_and_offset: u16) -> Fragment {
    let more_follow = flags_and_offset & 0x2000 != 0;
    let offset = flags_and_offset & 0x1fff;
    fragment(u32::from(id), offset, more_follow)
}

fn fragment(id: u32, offset: u16, more_follow: bool) -> Fragment {
    match (offset, more_follow) {
        (0, false) => Fragment::None,
        (0, true) => Fragment::First(id),
        _ => Fragment::Later { id, more: more_follow },
    }
}

fn ipv6(headers: &mut Headers, packet: &[u8]) -> Option<()> {
    let header: &[u8; IPV6_LEN] = packet.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let payload_len = be16(header, 4)?;
    let next = Protocol(header[6]);
    // [RFC 2675 §3] A jumbogram has length 0 and a hop-by-hop header.
    let length_known = payload_len != 0 || next != Protocol::HOP_BY_HOP;
    headers.addresses = Addresses::V6 {
        source: Ipv6Addr::from(be128(header, 8)?),
        destination: Ipv6Addr::from(be128(header, 24)?),
    };
    headers.network_len = length_known.then_some(IPV6_LEN as u32 + u32::from(payload_len));
    headers.traffic_class = Some((be16(header, 0)? >> 4) as u8);
    headers.depth = Depth::Network;
    let packet = clip(packet, headers.network_len);
    let payload = extensions(headers, packet.get(IPV6_LEN..)?, next)?;
    transport(headers, payload)
}

/// Walks IPv6 extension headers; records protocol and fragment, returns the transport's bytes.
///
/// Behind [`EXTENSIONS_MAX`] headers, or where the chain is cut, the protocol stays unknown.
fn extensions<'a>(
    headers: &mut Headers,
    mut rest: &'a [u8],
    mut next: Protocol,
) -> Option<&'a [u8]> {
    for _ in 0..=EXTENSIONS_MAX {
        if !next.is_extension() {
            headers.protocol = Some(next);
            return Some(rest);
        }
        // A later fragment carries payload, whatever the header says comes first in the datagram.
        // And a fragment is not fragmented again.
        let again = next == Protocol::FRAGMENT && headers.fragment != Fragment::None;
        if again || matches!(headers.fragment, Fragment::Later { .. }) {
            return None;
        }
        if next == Protocol::FRAGMENT {
            headers.fragment = ipv6_fragment(be16(rest, 2)?, be32(rest, 4)?);
        }
        let len = extension_len(next, *rest.get(1)?);
        next = Protocol(*rest.first()?);
        rest = rest.get(len..)?;
    }
    None
}

fn ipv6_fragment(offset_and_flags: u16, id: u32) -> Fragment {
    let more_follow = offset_and_flags & 1 != 0;
    fragment(id, offset_and_flags >> 3, more_follow)
}

/// Length in bytes of an extension header from its length byte [RFC 8200 §4, RFC 4302 §2.2].
fn extension_len(kind: Protocol, length_byte: u8) -> usize {
    match kind {
        Protocol::FRAGMENT => 8,
        Protocol::AH => (usize::from(length_byte) + 2) * 4,
        _ => (usize::from(length_byte) + 1) * 8,
    }
}

fn transport(headers: &mut Headers, segment: &[u8]) -> Option<()> {
    let protocol = headers.protocol?;
    if matches!(headers.fragment, Fragment::Later { .. }) {
        return Some(());
    }
    if !protocol.has_ports() {
        if matches!(protocol, Protocol::ICMP | Protocol::ICMPV6) {
            let &[number, code] = segment.first_chunk()?;
            headers.transport = Transport::Icmp(IcmpType { number, code });
        }
        return Some(());
    }
    headers.ports = Some(Ports { source: be16(segment, 0)?, destination: be16(segment, 2)? });
    headers.depth = Depth::Transport;
    if protocol == Protocol::TCP {
        headers.transport = Transport::Tcp(TcpFlags(*segment.get(13)?));
    }
    Some(())
}

fn clip(packet: &[u8], len: Option<u32>) -> &[u8] {
    let Some(len) = len else { return packet };
    packet.get(..len as usize).unwrap_or(packet)
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be128(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Bound: VLAN tags skipped in one frame, as many as Linux skips; what follows more is not read.
pub const VLAN_TAGS_MAX: usize = 8;
/// Bound: IPv6 extension headers read in one packet; behind more there are no ports. A sender has
/// use for five or six; each costs time.
pub const EXTENSIONS_MAX: usize = 8;

/// The longest link header of a capture that is read; tags, PPPoE and labels take less than the
/// rest of 16 bits.
const LINK_LEN_MAX: usize = 65_000;
const ETHERNET_LEN: usize = 14;
const VLAN_TAG_LEN: usize = 4;
const IPV4_LEN_MIN: usize = 20;
const IPV6_LEN: usize = 40;
/// Smaller values in an ethertype's place are IEEE 802.3 lengths.
pub(super) const ETHERTYPE_MIN: u16 = 0x0600;
