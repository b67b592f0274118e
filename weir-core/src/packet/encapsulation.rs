//! Reads what lies between a link header and the IP header: LLC/SNAP, PPPoE, PPP and MPLS.
//!
//! Frames without these never come here. Where there is no IP header behind them, the frame keeps
//! the ethertype of the encapsulation, and [`Headers::unread`] says why; for control frames, which
//! have no IP header, it says nothing.

use super::link::{Next, SNAP_FOLLOWS, snap};
use super::parse::{ETHERTYPE_MIN, be16, be32, network};
use super::{Depth, EtherType, Headers, Unread};

/// Reads the frame of which `kind`, neither IP nor a VLAN tag that can be skipped, begins at `at`.
#[inline(never)]
pub(super) fn read(headers: &mut Headers, frame: &[u8], at: usize, kind: EtherType) -> Option<()> {
    match kind {
        EtherType::PPPOE_SESSION => pppoe(headers, frame, at),
        EtherType::MPLS | EtherType::MPLS_MULTICAST => mpls(headers, frame, at),
        EtherType(..ETHERTYPE_MIN) => logical_link(headers, frame, at),
        _ => {
            headers.unread = unread(kind);
            Some(())
        }
    }
}

/// Reads what follows an IEEE 802.3 length: only SNAP names an ethertype [RFC 1042], and what has
/// another header of logical link control is no IP packet.
fn logical_link(headers: &mut Headers, frame: &[u8], at: usize) -> Option<()> {
    if !frame.get(at..)?.starts_with(&SNAP_FOLLOWS) {
        return Some(());
    }
    let start = snap(frame, at + SNAP_FOLLOWS.len())?;
    let Next::EtherType(kind @ ETHERTYPE_MIN..) = start.next else { return Some(()) };
    let kind = EtherType(kind);
    headers.ethertype = Some(kind);
    headers.link_len = start.at as u16;
    match kind {
        EtherType::IPV4 | EtherType::IPV6 => network(headers, frame.get(start.at..)?, kind),
        // This ends: it is no length again.
        _ => read(headers, frame, start.at, kind),
    }
}

/// Returns why the IP header behind this ethertype cannot be read; none if there is no such header.
fn unread(kind: EtherType) -> Option<Unread> {
    match kind.0 {
        0x88e5 => Some(Unread::MacSec),
        // PBB (IEEE 802.1ah), TRILL, NSH, batman-adv.
        0x88e7 | 0x22f3 | 0x894f | 0x4305 => Some(Unread::Encapsulation),
        _ if kind.is_vlan_tag() => Some(Unread::VlanTags),
        _ => None,
    }
}

/// Reads a PPPoE header and the PPP frame behind it.
pub(super) fn pppoe(headers: &mut Headers, frame: &[u8], at: usize) -> Option<()> {
    // [RFC 2516 §4] Version 1, type 1; the frames of a session have code 0.
    if be16(frame, at)? != 0x1100 {
        return None;
    }
    let (at, protocol) = ppp_protocol(frame, at + PPPOE_LEN)?;
    ppp(headers, frame, at, protocol)
}

/// Returns where the payload of the PPP frame at `at` begins, and its protocol.
///
/// [RFC 1661 §6.5] Peers may agree to send a protocol below 256 as one byte, which is odd.
pub(super) fn ppp_protocol(frame: &[u8], at: usize) -> Option<(usize, u16)> {
    let first = *frame.get(at)?;
    if first & 1 == 1 {
        return Some((at + 1, first.into()));
    }
    Some((at + 2, be16(frame, at)?))
}

/// Reads the payload at `at` of a PPP frame of this protocol.
pub(super) fn ppp(headers: &mut Headers, frame: &[u8], at: usize, protocol: u16) -> Option<()> {
    match protocol {
        0x0021 => inner(headers, frame, at, EtherType::IPV4),
        0x0057 => inner(headers, frame, at, EtherType::IPV6),
        0x0281 | 0x0283 => mpls(headers, frame, at),
        _ => {
            headers.unread = ppp_unread(protocol);
            Some(())
        }
    }
}

/// Returns why the IP header in a PPP frame of this protocol cannot be read. Control protocols
/// (LCP, IPCP, authentication) and network protocols other than IP have none.
fn ppp_unread(protocol: u16) -> Option<Unread> {
    match protocol {
        // Compressed headers, multilink, encryption and compression, in the registry's order.
        0x0003 | 0x0005 | 0x002d | 0x002f | 0x003d | 0x0053 | 0x0055 => Some(Unread::Ppp),
        0x0061 | 0x0063 | 0x0065 | 0x0067 | 0x0069 | 0x00fb | 0x00fd => Some(Unread::Ppp),
        0x2063 | 0x2065 | 0x2067 | 0x2069 => Some(Unread::Ppp),
        0x0031 => Some(Unread::Encapsulation),
        _ => None,
    }
}

/// Skips a stack of labels, and reads the IP packet behind it.
fn mpls(headers: &mut Headers, frame: &[u8], mut at: usize) -> Option<()> {
    for _ in 0..MPLS_LABELS_MAX {
        let label = be32(frame, at)?;
        at += MPLS_LABEL_LEN;
        if label & BOTTOM_OF_STACK != 0 {
            return mpls_payload(headers, frame, at);
        }
    }
    headers.unread = Some(Unread::MplsLabels);
    Some(())
}

/// Reads what follows the last label. Nothing says what that is, so its first bits decide [RFC 4928
/// §3], and an IP header that makes no sense is taken for a frame in a pseudowire.
fn mpls_payload(headers: &mut Headers, frame: &[u8], at: usize) -> Option<()> {
    let _ = match frame.get(at)? >> 4 {
        4 => inner(headers, frame, at, EtherType::IPV4),
        6 => inner(headers, frame, at, EtherType::IPV6),
        // [RFC 4385 §5] An associated channel: control.
        1 => return Some(()),
        _ => None,
    };
    if headers.depth < Depth::Network {
        headers.unread = Some(Unread::MplsPayload);
    }
    Some(())
}

/// Reads the IP packet at `at`; only if there is one, the frame's ethertype is that of IP.
fn inner(headers: &mut Headers, frame: &[u8], at: usize, kind: EtherType) -> Option<()> {
    let read = network(headers, frame.get(at..)?, kind);
    if headers.depth >= Depth::Network {
        headers.ethertype = Some(kind);
        headers.link_len = at as u16;
    }
    read
}

/// Bound: MPLS labels skipped in one frame; what follows more is not read. Routers impose up to a
/// dozen.
pub const MPLS_LABELS_MAX: usize = 16;

const PPPOE_LEN: usize = 6;
const MPLS_LABEL_LEN: usize = 4;
const BOTTOM_OF_STACK: u32 = 0x100;
