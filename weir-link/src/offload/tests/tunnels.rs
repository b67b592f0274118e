//! Super-packets in tunnels: to cut what is wrapped gives what wrapping the cut packets gives.

use super::*;

/// A tunnel around a packet.
#[derive(Clone, Copy, Debug)]
struct Around {
    is_ip6: bool,
    carrier: Carrier,
    tags: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Carrier {
    Direct,
    /// Bytes of the tunnel's own header, with the Ethernet header of VXLAN and GENEVE.
    Udp {
        header: usize,
        has_checksum: bool,
    },
    Gre {
        has_checksum: bool,
        has_key: bool,
    },
    /// No IP header around it, but a label.
    Mpls,
}

/// 8 bytes and an Ethernet header.
const VXLAN: usize = 22;
const ETHERNET: usize = 14;

impl Around {
    /// Returns packet `index` of a series, in the tunnel: finished, if it fits the length fields.
    fn wrap(&self, packet: &[u8], index: usize) -> Vec<u8> {
        let mut frame = vec![0x02; 12];
        (0..self.tags).for_each(|tag| frame.extend([0x81, 0x00, 0x20, tag as u8]));
        if self.carrier == Carrier::Mpls {
            frame.extend([0x88, 0x47, 0x00, 0x01, 0x01, 0x40]);
            return [&frame, packet].concat();
        }
        frame.extend(if self.is_ip6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        let network = frame.len();
        let (protocol, between) = self.between(packet[0] >> 4 == 6);
        let len = (between.len() + packet.len()) as u16;
        if self.is_ip6 {
            frame.extend([0x60, 0, 0, 0, 0, 0, protocol, 64]);
            frame.extend((0..32).map(|byte| byte * 5));
            put(&mut frame, network + 4, len);
        } else {
            frame.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend([192, 0, 2, 1, 192, 0, 2, 2]);
            put(&mut frame, network + 2, len.wrapping_add(20));
            put(&mut frame, network + 4, 0xfffe_u16.wrapping_add(index as u16));
            let sum = !sum_of(&frame[network..]);
            put(&mut frame, network + 10, sum);
        }
        let at = frame.len();
        frame.extend(between);
        frame.extend(packet);
        self.finish(&mut frame, network, at);
        frame
    }

    /// Returns the protocol of the outer packet, and what is between both IP headers.
    fn between(&self, inner_is_ip6: bool) -> (u8, Vec<u8>) {
        match self.carrier {
            Carrier::Direct | Carrier::Mpls => (if inner_is_ip6 { 41 } else { 4 }, Vec::new()),
            Carrier::Udp { header, .. } => {
                // A tunnel's header that looks like an IPv4 header at places, to mislead a search.
                let filling = (0..header).map(|at| if at % 4 == 0 { 0x45 } else { 0x06 });
                (17, [0x12, 0x34, 0x12, 0xb5, 0, 0, 0, 0].into_iter().chain(filling).collect())
            }
            Carrier::Gre { has_checksum, has_key } => {
                let flags = u8::from(has_checksum) << 7 | u8::from(has_key) << 5;
                let mut header = vec![flags, 0, 0x08, 0x00];
                header.extend(if has_checksum { &[0; 4][..] } else { &[] });
                header.extend(if has_key { &[0, 0, 0, 7][..] } else { &[] });
                (47, header)
            }
        }
    }

    fn finish(&self, frame: &mut [u8], network: usize, at: usize) {
        match self.carrier {
            Carrier::Udp { has_checksum, .. } => {
                let len = (frame.len() - at) as u16;
                put(frame, at + 4, len);
                // A sum of zero would have to be sent as ones; no row here has one.
                let sum = !transport_sum(frame, network, at, false);
                put(frame, at + 6, if has_checksum { sum } else { 0 });
            }
            Carrier::Gre { has_checksum: true, .. } => {
                let sum = !sum_of(&frame[at..]);
                put(frame, at + 4, sum);
            }
            _ => {}
        }
    }
}

/// Wraps a super-packet, whose own IPv4 checksum has to be right to be found.
fn wrapped(around: Around, frame: &[u8], header: OffloadHeader) -> (Vec<u8>, OffloadHeader) {
    let mut packet = frame[ETHERNET..].to_vec();
    if packet[0] >> 4 == 4 {
        let len = usize::from(packet[0] & 0x0f) * 4;
        put(&mut packet, 10, 0);
        let sum = !sum_of(&packet[..len]);
        put(&mut packet, 10, sum);
    }
    let frame = around.wrap(&packet, 0);
    let shift = frame.len() - packet.len() - ETHERNET;
    (frame, OffloadHeader { csum_start: header.csum_start + shift as u16, ..header })
}

fn check_wrapped(around: Around, packet: Packet) {
    let place = format!("{around:?} around {packet:?}");
    let (frame, header) = packet.build();
    let wrap = |(index, segment): (usize, &Vec<u8>)| around.wrap(&segment[ETHERNET..], index);
    let expected: Vec<_> = segments(&frame, &header, None).iter().enumerate().map(wrap).collect();
    let (frame, header) = wrapped(around, &frame, header);
    let cut = segments(&frame, &header, None);
    assert_eq!(cut.len(), expected.len(), "{place}");
    for (index, (cut, expected)) in cut.iter().zip(&expected).enumerate() {
        assert!(cut == expected, "{place}, segment {index}:\n{cut:02x?}\n{expected:02x?}");
    }
}

#[test]
fn wrapped_packets_are_cut_by_their_inner_headers() {
    use Carrier::{Direct, Gre, Mpls, Udp};
    let carriers = [
        Direct,
        Mpls,
        Udp { header: VXLAN, has_checksum: false },
        Udp { header: VXLAN, has_checksum: true },
        Udp { header: VXLAN + 12, has_checksum: true },
        Udp { header: 0, has_checksum: true },
        Udp { header: 4, has_checksum: false },
        Gre { has_checksum: false, has_key: false },
        Gre { has_checksum: false, has_key: true },
        Gre { has_checksum: true, has_key: false },
        Gre { has_checksum: true, has_key: true },
    ];
    let packets = [
        Packet { size: 1398, ..BASE },
        Packet { size: 1398, is_ip6: true, ..BASE },
        Packet { size: 1398, network_options: 12, tcp_options: 0, ..BASE },
        Packet { size: 1398, network_options: 16, is_ip6: true, ..BASE },
        Packet { size: 999, is_tcp: false, ..BASE },
        Packet { size: 999, is_tcp: false, is_ip6: true, ..BASE },
        Packet { size: 1398, payload: 60_000, ..BASE },
    ];
    for carrier in carriers {
        for (is_ip6, tags) in [(false, 0), (true, 0), (false, 2)] {
            for packet in packets {
                check_wrapped(Around { is_ip6, carrier, tags }, packet);
            }
        }
    }
}

#[test]
fn tunnels_that_number_or_hide_their_packets_are_refused() {
    let (frame, header) = BASE.build();
    let gre = Carrier::Gre { has_checksum: false, has_key: false };
    let around = |carrier| Around { is_ip6: false, carrier, tags: 0 };
    let (gre, gre_header) = wrapped(around(gre), &frame, header);
    let udp = Carrier::Udp { header: VXLAN, has_checksum: true };
    let (vxlan, vxlan_header) = wrapped(around(udp), &frame, header);
    type Change = fn(&mut Vec<u8>, &mut OffloadHeader);
    let rows: [(&str, &Vec<u8>, OffloadHeader, Change); 6] = [
        ("GRE that numbers packets", &gre, gre_header, |f, _| f[34] |= 0x10),
        ("an inner checksum that is wrong", &vxlan, vxlan_header, |f, _| f[74] ^= 1),
        ("an inner length that is wrong", &vxlan, vxlan_header, |f, _| f[66] ^= 1),
        ("an unknown protocol around it", &vxlan, vxlan_header, |f, _| f[23] = 50),
        ("a start in the tunnel's header", &vxlan, vxlan_header, |_, h| h.csum_start -= 30),
        ("no start", &vxlan, vxlan_header, |_, h| h.flags = 0),
    ];
    for (what, frame, header, change) in rows {
        let (mut frame, mut header) = (frame.clone(), header);
        assert!(plan(&frame, &header).is_ok(), "{what}: without the fault");
        change(&mut frame, &mut header);
        assert_eq!(plan(&frame, &header), Err(OffloadError::NotAsDeclared), "{what}");
    }
}

/// Inserts the option in which Linux notes the length of an IPv6 packet beyond 64 KiB.
pub(super) fn with_jumbo_option(
    frame: &[u8],
    mut header: OffloadHeader,
) -> (Vec<u8>, OffloadHeader) {
    let mut frame = frame.to_vec();
    let options = ETHERNET + 40;
    if frame.len() < options || frame[ETHERNET] >> 4 != 6 {
        return (frame, header);
    }
    let len = (frame.len() + 8 - options) as u32;
    let [a, b, c, d] = len.to_be_bytes();
    frame.splice(options..options, [frame[20], 0, 0xc2, 4, a, b, c, d]);
    frame[20] = 0;
    put(&mut frame, ETHERNET + 4, 0);
    header.csum_start = header.csum_start.saturating_add(8);
    (frame, header)
}

#[test]
fn segments_of_a_jumbogram_have_no_jumbo_option() {
    for payload in [70_000, 200_001, 512_000] {
        let (frame, header) = Packet { is_ip6: true, payload, ..BASE }.build();
        let expected = segments(&frame, &header, Some(Tag { tpid: 0x8100, tci: 1 }));
        let (frame, header) = with_jumbo_option(&frame, header);
        let cut = segments(&frame, &header, Some(Tag { tpid: 0x8100, tci: 1 }));
        assert!(cut == expected, "{payload} bytes");
    }
}

#[test]
fn a_super_packet_that_was_cut_short_still_says_how_many_frames_it_was() {
    let udp = Packet { is_tcp: false, size: 1000, payload: 20_500, ..BASE };
    for packet in [BASE, udp, Packet { payload: 0, ..BASE }, Packet { payload: 512_000, ..BASE }] {
        let (frame, header) = packet.build();
        let expected = plan(&frame, &header).expect("a good super-packet").count();
        assert_eq!(
            header.count(&frame[..frame.len().min(100)], frame.len()),
            expected,
            "{packet:?}"
        );
    }
    let plain = OffloadHeader::default();
    assert_eq!(plain.count(&[], 70_000), 1);
    let (frame, header) = BASE.build();
    assert_eq!(header.count(&frame[..20], frame.len()), 1, "the headers are cut off too");
    let hostile = OffloadHeader { gso_size: 0, ..header };
    assert_eq!(hostile.count(&frame, usize::MAX), SEGMENTS_MAX);
}

/// Wraps a frame into a tunnel that a number chooses, for random tests.
pub(super) fn random(
    number: usize,
    frame: &[u8],
    header: OffloadHeader,
) -> (Vec<u8>, OffloadHeader) {
    let has_checksum = number & 1 == 1;
    let carrier = match number >> 1 & 3 {
        0 => Carrier::Direct,
        1 => Carrier::Mpls,
        2 => Carrier::Udp { header: VXLAN, has_checksum },
        _ => Carrier::Gre { has_checksum, has_key: number >> 3 & 1 == 1 },
    };
    wrapped(Around { is_ip6: number >> 4 & 1 == 1, carrier, tags: number >> 5 }, frame, header)
}
