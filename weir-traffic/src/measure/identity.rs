//! The bytes of a packet that a link does not change: the key by which it is found in another
//! capture.
//!
//! A link may change DSCP and ECN, the hop count and with it the header checksum; a network card
//! writes the transport checksum after the capture of a sending host. These bytes do not count, nor
//! does the link header. What does: addresses, ports, identification, length, and the payload as
//! far as it is compared. Invariant: the key reads no byte beyond those that were captured.

use std::hash::{DefaultHasher, Hasher};
use weir_core::packet::{Addresses, Headers, Protocol};

/// Returns the key of a frame, of whose packet the first `compared` bytes are compared; and whether
/// fewer were captured of it.
pub(super) fn key(headers: &Headers, frame: &[u8], compared: usize) -> (u64, bool) {
    let mut hasher = DefaultHasher::new();
    let packet = frame.get(usize::from(headers.link_len)..).unwrap_or(&[]);
    let whole = match headers.addresses {
        // Of what is not IP it is not known where the part behind the link header ends.
        Addresses::Unknown => packet.len(),
        _ => headers.network_len.map_or(packet.len(), |length| length as usize),
    };
    let wanted = whole.min(compared);
    let seen = &packet[..wanted.min(packet.len())];
    hasher.write_usize(whole);
    let mut rest = seen;
    let mut at = 0;
    for (start, end) in changing(headers, seen) {
        let (before, after) = rest.split_at((start - at).min(rest.len()));
        hasher.write(before);
        rest = after.get(end - start..).unwrap_or(&[]);
        at = end;
    }
    hasher.write(rest);
    (hasher.finish(), packet.len() < wanted)
}

/// The ranges of bytes that may change on the way, in order.
fn changing(headers: &Headers, packet: &[u8]) -> Vec<(usize, usize)> {
    let (mut ranges, transport) = match headers.addresses {
        // DSCP and ECN; the hop count; the checksum.
        Addresses::V4 { .. } => {
            let length = packet.first().map_or(20, |first| usize::from(first & 0x0f) * 4);
            (vec![(1, 2), (8, 9), (10, 12)], Some(length))
        }
        // The version's byte and the next one hold the traffic class, and no more that counts.
        Addresses::V6 { .. } => {
            let direct = packet.get(6).copied() == headers.protocol.map(|protocol| protocol.0);
            (vec![(0, 2), (7, 8)], direct.then_some(40))
        }
        Addresses::Unknown => return Vec::new(),
    };
    let checksum = match headers.protocol {
        Some(Protocol::UDP) => Some(6),
        Some(Protocol::TCP) => Some(16),
        _ => None,
    };
    if let (Some(start), Some(place), Some(_)) = (transport, checksum, headers.ports) {
        ranges.push((start + place, start + place + 2));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameMaker;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use weir_core::packet::Ports;
    use weir_host::netlink::Mac;

    /// Changing byte `place` of the packet changes its key, or not.
    fn check(addresses: Addresses, protocol: Protocol, place: usize, counts: bool) {
        let ports = Ports { source: 1000, destination: 2000 };
        let headers = Headers::of_flow(addresses, protocol, ports);
        let maker = FrameMaker::new(&headers, Mac([1; 6]), Mac([2; 6]));
        let mut frame = Vec::new();
        maker.write(300, 7, b"content", &mut frame);
        let parsed = Headers::parse_ethernet(&frame);
        let before = key(&parsed, &frame, 128);
        assert!(!before.1);
        frame[14 + place] ^= 0x10;
        let parsed = Headers::parse_ethernet(&frame);
        assert_eq!(key(&parsed, &frame, 128) != before, counts, "{addresses:?} byte {place}");
    }

    #[test]
    fn what_a_link_changes_does_not_count() {
        let four = |last| Addresses::V4 {
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, last),
        };
        let six = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
        for place in [1, 8, 10, 11, 26, 27] {
            check(four(2), Protocol::UDP, place, false);
        }
        for place in [4, 5, 12, 16, 20, 22, 28, 30, 127] {
            check(four(2), Protocol::UDP, place, true);
        }
        check(four(2), Protocol::UDP, 128, false);
        for place in [36, 37] {
            check(four(2), Protocol::TCP, place, false);
            check(four(2), Protocol(89), place, true);
        }
        for place in [1, 7, 46, 47] {
            check(six, Protocol::UDP, place, false);
        }
        for place in [8, 24, 40, 42, 48] {
            check(six, Protocol::UDP, place, true);
        }
    }

    #[test]
    fn a_cut_packet_says_so_and_never_panics() {
        let addresses =
            Addresses::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST };
        let ports = Ports { source: 1, destination: 2 };
        let headers = Headers::of_flow(addresses, Protocol::UDP, ports);
        let mut frame = Vec::new();
        FrameMaker::new(&headers, Mac([1; 6]), Mac([2; 6])).write(300, 7, &[], &mut frame);
        for length in 0..=frame.len() {
            let cut = &frame[..length];
            let headers = Headers::parse_ethernet(cut);
            let (_, short) = key(&headers, cut, 128);
            if length >= 14 + 20 {
                assert_eq!(short, length < 14 + 128, "{length}");
            }
        }
    }
}
