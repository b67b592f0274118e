//! Tests of joining: what is cut from a joined packet are the segments that were joined.

use super::super::join::{JOINED_HEAD_MAX, headers_len, same_class, write_head};
use super::*;

/// Joins segments, as a sender of frames does.
fn join(segments: &[Vec<u8>]) -> (OffloadHeader, Vec<u8>) {
    let headers = headers_len(&segments[0]);
    let payload: Vec<u8> =
        segments.iter().flat_map(|segment| segment[headers..].to_vec()).collect();
    let mut head = [0xee; JOINED_HEAD_MAX];
    let last = &segments[segments.len() - 1];
    let len = write_head(&segments[0], last, payload.len(), &mut head);
    let (virtio, head) = head[..len].split_first_chunk().expect("the kernel's header is in front");
    (OffloadHeader::parse(virtio), [head, &payload].concat())
}

#[test]
fn what_was_joined_is_cut_into_the_same_segments() {
    let rows = [
        BASE,
        Packet { is_ip6: true, ..BASE },
        Packet { payload: 1448 * 3, ..BASE },
        Packet { payload: 60_000, flags: 0xff, ..BASE },
        Packet { size: 537, payload: 3333, flags: 0x90, ..BASE },
        Packet { tcp_options: 40, network_options: 40, ..BASE },
    ];
    for packet in rows {
        let (frame, header) = packet.build();
        assert!(plan(&frame, &header).expect("a good super-packet").cuts_plain_tcp());
        let cut = segments(&frame, &header, None);
        for first in 0..cut.len() {
            for behind in first + 2..=cut.len() {
                let part = &cut[first..behind];
                assert!(same_class(&part[0], &part[1]));
                let (joined, bytes) = join(part);
                assert_eq!(segments(&bytes, &joined, None), part, "{packet:?} {first}..{behind}");
            }
        }
    }
}

/// A machine that takes a joined packet as it is checks the IP header and trusts the sum that is
/// unfinished, so that must be of the whole.
#[test]
fn a_joined_packet_is_what_its_sender_left() {
    for is_ip6 in [false, true] {
        let packet = Packet { is_ip6, flags: 0x99, ..BASE };
        let (frame, header) = packet.build();
        let (joined, bytes) = join(&segments(&frame, &header, None));
        let transport = usize::from(header.csum_start);
        let field = transport + usize::from(TCP_FIELD);
        let mut finished = bytes.clone();
        Partial { start: transport, field, is_crc: false }.complete(&mut finished);
        assert_eq!(transport_sum(&finished, 14, transport, true), 0xffff);
        check_network(&bytes, 14, 0, "joined");
        assert_eq!(joined, OffloadHeader { gso_type: header.gso_type | GSO_ECN, ..header });
        // All but the checksums are as they came.
        let same = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            put(&mut bytes, field, 0);
            put(&mut bytes, if is_ip6 { field } else { 24 }, 0);
            bytes
        };
        assert_eq!(same(&bytes), same(&frame));
    }
}

#[test]
fn only_plain_tcp_is_joined() {
    let rows = [
        (BASE, true),
        (Packet { is_ip6: true, ..BASE }, true),
        (Packet { is_ip6: true, network_options: 24, ..BASE }, false),
        (Packet { tags: 1, ..BASE }, false),
        (Packet { is_tcp: false, ..BASE }, false),
    ];
    for (packet, expected) in rows {
        let (frame, header) = packet.build();
        let planned = plan(&frame, &header).expect("a good super-packet");
        assert_eq!(planned.cuts_plain_tcp(), expected, "{packet:?}");
    }
    assert!(!Plan::Whole { checksum: None }.cuts_plain_tcp());
}

#[test]
fn a_changed_mark_parts_segments() {
    let (frame, header) = BASE.build();
    let mut cut = segments(&frame, &header, None);
    cut[1][15] |= 3;
    assert!(!same_class(&cut[0], &cut[1]) && same_class(&cut[0], &cut[2]));
}
