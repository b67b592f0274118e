//! Joins segments that were cut from one super-packet: headers for all of them, from which a card
//! or the kernel makes the same segments again.
//!
//! Invariant: what [`Cut`](super::Cut) makes of the joined packet are the segments, byte for byte.

use super::cut::{TCP_CWR, TCP_FIN_PSH, checksum, fix_lengths, pseudo_header};
use super::layers::{IP6_LEN, Network, PROTOCOL_TCP};
use super::{
    ETHERNET_LEN, FLAG_NEEDS_CHECKSUM, GSO_ECN, GSO_TCP4, GSO_TCP6, OFFLOAD_HEADER_LEN, TCP_FIELD,
    put,
};

/// Bound: bytes of a joined packet, with its headers, the most that interfaces take by default; the
/// segments beyond begin another one.
pub(crate) const JOINED_MAX: usize = 65_535;
/// Bytes of the longest headers, with the `virtio_net_hdr` in front: Ethernet, IPv4 with all its
/// options, TCP with all of its own.
pub(crate) const JOINED_HEAD_MAX: usize = OFFLOAD_HEADER_LEN + ETHERNET_LEN + 60 + 60;

/// Returns the length of the headers of a segment that was cut from plain TCP
/// ([`Plan::cuts_plain_tcp`](super::Plan::cuts_plain_tcp)).
pub(crate) fn headers_len(segment: &[u8]) -> usize {
    let transport = transport_at(segment);
    transport + usize::from(segment[transport + 12] >> 4) * 4
}

/// Returns whether two segments of one super-packet still have the same traffic class and
/// congestion mark, which an active queue changes.
pub(crate) fn same_class(one: &[u8], other: &[u8]) -> bool {
    // In both versions of IP the traffic class is within the first two bytes.
    let class = ETHERNET_LEN..ETHERNET_LEN + 2;
    one[class.clone()] == other[class]
}

/// Writes the `virtio_net_hdr` and the headers of a packet that joins segments, in order, into
/// `out`: those from `first` to `last`, with `payload` bytes behind their headers. Returns how
/// long they are.
pub(crate) fn write_head(
    first: &[u8],
    last: &[u8],
    payload: usize,
    out: &mut [u8; JOINED_HEAD_MAX],
) -> usize {
    let (transport, headers) = (transport_at(first), headers_len(first));
    let is_ip6 = has_ip6(first);
    let (virtio, rest) = out.split_at_mut(OFFLOAD_HEADER_LEN);
    let head = &mut rest[..headers];
    head.copy_from_slice(&first[..headers]);
    head[transport + 13] |= last[transport + 13] & TCP_FIN_PSH;
    let end = headers + payload;
    let network = Network {
        at: ETHERNET_LEN,
        is_ip6,
        is_jumbo: false,
        protocol: PROTOCOL_TCP,
        next: transport,
        end,
    };
    fix_lengths(head, &network, 0, end);
    let sum = pseudo_header(head, ETHERNET_LEN, is_ip6, PROTOCOL_TCP, end - transport);
    put(head, transport + usize::from(TCP_FIELD), sum.fold());
    virtio[0] = FLAG_NEEDS_CHECKSUM;
    let reduced = if head[transport + 13] & TCP_CWR != 0 { GSO_ECN } else { 0 };
    virtio[1] = reduced | if is_ip6 { GSO_TCP6 } else { GSO_TCP4 };
    let words = [headers, first.len() - headers, transport, usize::from(TCP_FIELD)];
    for (place, word) in virtio[2..].chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&(word as u16).to_ne_bytes());
    }
    OFFLOAD_HEADER_LEN + headers
}

/// Writes the checksum of a segment that was cut without one
/// ([`Plan::without_sums`](super::Plan::without_sums)).
pub(crate) fn write_sum(segment: &mut [u8]) {
    let (transport, is_ip6) = (transport_at(segment), has_ip6(segment));
    let field = transport + usize::from(TCP_FIELD);
    put(segment, field, 0);
    put(segment, field, checksum(segment, ETHERNET_LEN, is_ip6, PROTOCOL_TCP, transport));
}

fn has_ip6(segment: &[u8]) -> bool {
    segment[ETHERNET_LEN] >> 4 == 6
}

fn transport_at(segment: &[u8]) -> usize {
    match has_ip6(segment) {
        true => ETHERNET_LEN + IP6_LEN,
        false => ETHERNET_LEN + usize::from(segment[ETHERNET_LEN] & 0x0f) * 4,
    }
}
