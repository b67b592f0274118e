//! Tests of finishing: against a slow checksum, against the original stream, against random bytes.

use super::*;
use weir_core::random;

mod joined;
mod tunnels;

/// A super-packet described by its variations; [`Packet::build`] writes it as a Linux sender would.
#[derive(Clone, Copy, Debug)]
struct Packet {
    is_ip6: bool,
    is_tcp: bool,
    /// Bytes of IPv4 options, or of IPv6 destination options.
    network_options: usize,
    tcp_options: usize,
    tags: usize,
    payload: usize,
    size: u16,
    flags: u8,
}

const BASE: Packet = Packet {
    is_ip6: false,
    is_tcp: true,
    network_options: 0,
    tcp_options: 12,
    tags: 0,
    payload: 4000,
    size: 1448,
    flags: 0x19,
};

impl Packet {
    fn build(&self) -> (Vec<u8>, OffloadHeader) {
        let transport_len = if self.is_tcp { 20 + self.tcp_options } else { 8 };
        let mut frame = vec![0x02; 12];
        for tag in 0..self.tags {
            frame.extend([0x81, 0x00, 0x20, tag as u8]);
        }
        frame.extend(if self.is_ip6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        let rest = transport_len + self.payload;
        if self.is_ip6 {
            self.extend_ip6(&mut frame, rest)
        } else {
            self.extend_ip4(&mut frame, rest)
        }
        let transport = frame.len();
        frame.resize(transport + transport_len, 0x01);
        frame[transport..transport + 4].copy_from_slice(&[0x30, 0x39, 0x00, 0x50]);
        if self.is_tcp {
            // Close to the end of the sequence space, so that it wraps inside the packet.
            frame[transport + 4..transport + 8].copy_from_slice(&0xffff_fa00u32.to_be_bytes());
            frame[transport + 12] = ((transport_len / 4) as u8) << 4;
            frame[transport + 13] = self.flags;
        } else {
            put(&mut frame, transport + 4, rest as u16);
        }
        frame.extend((0..self.payload).map(|byte| (byte % 251) as u8));
        let header = OffloadHeader {
            flags: FLAG_NEEDS_CHECKSUM,
            gso_type: match (self.is_tcp, self.is_ip6) {
                (true, false) => GSO_TCP4,
                (true, true) => GSO_TCP6,
                _ => GSO_UDP_L4,
            },
            gso_size: self.size,
            csum_start: transport as u16,
            csum_offset: if self.is_tcp { 16 } else { 6 },
        };
        (frame, header)
    }

    fn extend_ip4(&self, frame: &mut Vec<u8>, rest: usize) {
        let len = 20 + self.network_options;
        let start = frame.len();
        frame.resize(start + len, 0x01);
        frame[start] = 0x40 | (len / 4) as u8;
        put(frame, start + 2, u16::try_from(len + rest).unwrap_or(0));
        // The identification wraps inside the packet too.
        put(frame, start + 4, 0xffff);
        put(frame, start + 6, 0x4000);
        frame[start + 9] = if self.is_tcp { 6 } else { 17 };
        frame[start + 12..start + 20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    }

    fn extend_ip6(&self, frame: &mut Vec<u8>, rest: usize) {
        let protocol = if self.is_tcp { 6 } else { 17 };
        let start = frame.len();
        frame.extend([0x60, 0, 0, 0, 0, 0, protocol, 64]);
        put(frame, start + 4, u16::try_from(self.network_options + rest).unwrap_or(0));
        frame.extend((0..32).map(|byte| byte * 3));
        if self.network_options > 0 {
            frame[start + 6] = 60;
            let options = frame.len();
            frame.resize(options + self.network_options, 0);
            frame[options] = protocol;
            frame[options + 1] = (self.network_options / 8 - 1) as u8;
        }
    }
}

fn sum_of(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.fold()
}

/// The sum over pseudo-header and transport part; 0xffff if the checksum in it is right.
fn transport_sum(frame: &[u8], network: usize, transport: usize, is_tcp: bool) -> u16 {
    let is_ip6 = frame[network] >> 4 == 6;
    let addresses = if is_ip6 { network + 8..network + 40 } else { network + 12..network + 20 };
    let mut covered = frame[addresses].to_vec();
    covered.extend([0, if is_tcp { 6 } else { 17 }]);
    covered.extend(((frame.len() - transport) as u16).to_be_bytes());
    covered.extend(&frame[transport..]);
    sum_of(&covered)
}

fn segments(frame: &[u8], header: &OffloadHeader, tag: Option<Tag>) -> Vec<Vec<u8>> {
    let plan = plan(frame, header).expect("a good super-packet");
    let longest = plan.longest(frame, tag);
    let segments: Vec<Vec<u8>> = (0..plan.count())
        .map(|index| {
            let mut out = vec![0xee; longest];
            let len = plan.write(frame, tag, index, &mut out).expect("it fits");
            out.truncate(len);
            out
        })
        .collect();
    assert_eq!(segments.iter().map(Vec::len).max(), Some(longest));
    if tag.is_none() && plan.cuts_plain_tcp() {
        check_sums_later(&plan, frame, &segments);
    }
    segments
}

/// Checks that segments cut without checksums become the same when these are computed later.
fn check_sums_later(plan: &Plan, frame: &[u8], segments: &[Vec<u8>]) {
    let (later, mut without) = (plan.without_sums(), 0);
    for (index, segment) in segments.iter().enumerate() {
        let mut out = vec![0; segment.len()];
        assert_eq!(later.write(frame, None, index, &mut out), Some(segment.len()));
        without += usize::from(&out != segment);
        join::write_sum(&mut out);
        assert_eq!(&out, segment, "segment {index}");
    }
    assert!(2 * without >= segments.len(), "most lack it, but for chance: {without}");
}

fn check_cut(packet: Packet) {
    let (frame, header) = packet.build();
    let network = 14 + 4 * packet.tags;
    let transport = usize::from(header.csum_start);
    let payload = frame.len() - packet.payload;
    let cut = segments(&frame, &header, None);
    let expected = packet.payload.div_ceil(packet.size.into()).max(1);
    assert_eq!(cut.len(), expected, "{packet:?}");
    let mut content: Vec<u8> = Vec::new();
    for (index, segment) in cut.iter().enumerate() {
        let place = format!("{packet:?} segment {index}");
        check_network(segment, network, index, &place);
        let sum = transport_sum(segment, network, transport, packet.is_tcp);
        assert_eq!(sum, 0xffff, "{place}");
        if packet.is_tcp {
            check_tcp(&packet, segment, transport, index, &place);
        } else {
            let len = usize::from(word(segment, transport + 4));
            assert_eq!(len, segment.len() - transport, "{place}");
        }
        content.extend(&segment[payload..]);
    }
    assert_eq!(content, &frame[payload..], "{packet:?}");
}

fn check_network(segment: &[u8], network: usize, index: usize, place: &str) {
    let len = segment.len() - network;
    if segment[network] >> 4 == 6 {
        assert_eq!(usize::from(word(segment, network + 4)), len - 40, "{place}");
        return;
    }
    let header_len = usize::from(segment[network] & 0x0f) * 4;
    assert_eq!(usize::from(word(segment, network + 2)), len, "{place}");
    assert_eq!(word(segment, network + 4), 0xffffu16.wrapping_add(index as u16), "{place}");
    assert_eq!(sum_of(&segment[network..network + header_len]), 0xffff, "{place}");
}

fn check_tcp(packet: &Packet, segment: &[u8], at: usize, index: usize, place: &str) {
    let sequence = u32::from(word(segment, at + 4)) << 16 | u32::from(word(segment, at + 6));
    let offset = index as u32 * u32::from(packet.size);
    assert_eq!(sequence, 0xffff_fa00u32.wrapping_add(offset), "{place}");
    let mut flags = packet.flags;
    let sent_before = (index + 1) * usize::from(packet.size);
    if sent_before < packet.payload {
        flags &= !0x09;
    }
    if index > 0 {
        flags &= !0x80;
    }
    assert_eq!(segment[at + 13], flags, "{place}");
}

#[test]
fn super_packets_become_the_frames_of_the_wire() {
    let udp = Packet { is_tcp: false, size: 1472, ..BASE };
    let rows = [
        BASE,
        Packet { is_ip6: true, ..BASE },
        Packet { payload: 1448 * 3, ..BASE },
        Packet { payload: 1448 * 3 + 1, ..BASE },
        Packet { payload: 1447, ..BASE },
        Packet { payload: 1, ..BASE },
        Packet { payload: 0, ..BASE },
        Packet { payload: 65_000, ..BASE },
        Packet { payload: 200_001, ..BASE },
        Packet { payload: 512_000, is_ip6: true, ..BASE },
        Packet { size: 1, payload: 2000, ..BASE },
        Packet { size: 537, payload: 3333, ..BASE },
        Packet { flags: 0xff, ..BASE },
        Packet { flags: 0x90, ..BASE },
        Packet { tcp_options: 0, ..BASE },
        Packet { tcp_options: 40, network_options: 40, ..BASE },
        Packet { network_options: 24, is_ip6: true, ..BASE },
        Packet { tags: 1, ..BASE },
        Packet { tags: 3, is_ip6: true, ..BASE },
        udp,
        Packet { is_ip6: true, ..udp },
        Packet { payload: 1472 * 40, ..udp },
        Packet { payload: 333, ..udp },
        Packet { size: 7, network_options: 8, tags: 2, is_ip6: true, ..udp },
    ];
    rows.into_iter().for_each(check_cut);
}

#[test]
fn a_tag_is_restored_behind_the_addresses_and_changes_nothing_else() {
    let tag = Tag { tpid: 0x88a8, tci: 0xa123 };
    for packet in [BASE, Packet { is_ip6: true, tags: 1, ..BASE }] {
        let (frame, header) = packet.build();
        let partial = OffloadHeader { gso_type: GSO_NONE, ..header };
        for header in [header, partial, OffloadHeader::default()] {
            let plain = segments(&frame, &header, None);
            for (with, without) in segments(&frame, &header, Some(tag)).iter().zip(&plain) {
                assert_eq!(with[..12], without[..12]);
                assert_eq!(with[12..16], [0x88, 0xa8, 0xa1, 0x23]);
                assert_eq!(with[16..], without[12..]);
            }
        }
    }
}

#[test]
fn partial_checksums_are_completed() {
    for len in [20, 21, 22, 23, 60, 1459, 1460] {
        for is_ip6 in [false, true] {
            let packet = Packet { payload: len, is_ip6, ..BASE };
            let (mut frame, header) = packet.build();
            let (network, start) = (14, usize::from(header.csum_start));
            let field = start + usize::from(header.csum_offset);
            // As the sender leaves it: the pseudo-header's sum, not inverted.
            let mut pseudo = frame[if is_ip6 { 22..54 } else { 26..34 }].to_vec();
            pseudo.extend([0, 6]);
            pseudo.extend(((frame.len() - start) as u16).to_be_bytes());
            put(&mut frame, field, sum_of(&pseudo));
            let header = OffloadHeader { gso_type: GSO_NONE, ..header };
            let finished = segments(&frame, &header, None);
            assert_eq!(finished.len(), 1);
            assert_eq!(transport_sum(&finished[0], network, start, true), 0xffff, "{packet:?}");
        }
    }
}

#[test]
fn a_partial_sctp_checksum_is_a_crc() {
    // The check value of the CRC-32C's definition [RFC 3720 appendix B.4 gives more].
    assert_eq!(CRC32C.checksum(b"123456789"), 0xe306_9283);
    assert_eq!(CRC32C.checksum(&[0; 32]), 0x8a91_36aa);
    for is_ip6 in [false, true] {
        let (mut frame, header) = Packet { is_tcp: false, is_ip6, payload: 64, ..BASE }.build();
        frame[if is_ip6 { 20 } else { 23 }] = PROTOCOL_SCTP;
        let start = usize::from(header.csum_start);
        let header = OffloadHeader { gso_type: GSO_NONE, csum_offset: SCTP_FIELD, ..header };
        let finished = segments(&frame, &header, None);
        frame[start + 8..start + 12].fill(0);
        let crc = CRC32C.checksum(&frame[start..]).to_le_bytes();
        frame[start + 8..start + 12].copy_from_slice(&crc);
        assert_eq!(finished, [frame], "{is_ip6}");
    }
}

#[test]
fn a_checksum_of_zero_is_sent_as_all_ones() {
    let header = OffloadHeader {
        flags: FLAG_NEEDS_CHECKSUM,
        csum_start: 14,
        csum_offset: 6,
        ..OffloadHeader::default()
    };
    let mut frame = [0; 24];
    frame[14..16].copy_from_slice(&[0xff, 0xff]);
    let finished = segments(&frame, &header, None);
    assert_eq!(finished[0][20..22], [0xff, 0xff]);
}

#[test]
fn a_udp_packet_without_checksum_gets_none() {
    let (mut frame, header) = Packet { is_tcp: false, ..BASE }.build();
    let at = usize::from(header.csum_start);
    let header = OffloadHeader { flags: 0, ..header };
    put(&mut frame, at + 6, 0);
    assert!(segments(&frame, &header, None).iter().all(|segment| word(segment, at + 6) == 0));
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let (frame, header) = BASE.build();
    type Change = fn(&mut Vec<u8>, &mut OffloadHeader);
    let rows: [(&str, Change, OffloadError); 12] = [
        ("no size", |_, h| h.gso_size = 0, OffloadError::BadSize),
        ("UFO", |_, h| h.gso_type = 3, OffloadError::UnknownKind(3)),
        ("kind 0x7f", |_, h| h.gso_type = 0x7f, OffloadError::UnknownKind(0x7f)),
        ("TCPv6 kind", |_, h| h.gso_type = GSO_TCP6, OffloadError::NotAsDeclared),
        ("UDP kind", |_, h| h.gso_type = GSO_UDP_L4, OffloadError::NotAsDeclared),
        ("cut in the addresses", |f, _| f.truncate(11), OffloadError::Short),
        ("cut in the IP header", |f, _| f.truncate(30), OffloadError::Short),
        ("cut in the payload", |f, _| f.truncate(3000), OffloadError::Short),
        ("short IP header", |f, _| f[14] = 0x44, OffloadError::NotAsDeclared),
        ("fragment", |f, _| f[20] = 0x20, OffloadError::NotAsDeclared),
        ("short TCP header", |f, _| f[46] = 0x40, OffloadError::NotAsDeclared),
        (
            "too many frames",
            |f, h| {
                (*f, *h) = Packet { size: 1, payload: 16_385, ..BASE }.build();
            },
            OffloadError::BadSize,
        ),
    ];
    for (what, change, expected) in rows {
        let (mut frame, mut header) = (frame.clone(), header);
        change(&mut frame, &mut header);
        assert_eq!(plan(&frame, &header), Err(expected), "{what}");
    }
    let beyond = OffloadHeader { gso_type: 0, csum_start: 4060, csum_offset: 16, ..header };
    assert_eq!(plan(&frame, &beyond), Err(OffloadError::Short), "checksum beyond the end");
    let before = OffloadHeader { gso_type: 0, csum_start: 3, ..header };
    assert_eq!(plan(&frame, &before), Err(OffloadError::Short), "checksum in the addresses");
}

/// Random headers on random frames, some nearly right: none causes a panic, or more bytes than
/// announced.
#[test]
fn hostile_headers_never_panic() {
    let mut random = Random::new(0x5eed_0001);
    let mut planned = 0;
    for round in 0..40_000 {
        let (frame, header) = random.mutated();
        let tag = (random.below(4) == 0).then_some(Tag { tpid: 0x8100, tci: 7 });
        let Ok(plan) = plan(&frame, &header) else {
            continue;
        };
        planned += 1;
        let longest = plan.longest(&frame, tag);
        let mut out = vec![0; longest];
        for index in [0, 1, plan.count() - 1, plan.count()] {
            let written = plan.write(&frame, tag, index, &mut out);
            assert!(written.is_none_or(|len| len <= longest), "round {round}: {header:?}");
            assert_eq!(plan.write(&frame, tag, index, &mut []).unwrap_or(0), 0, "round {round}");
        }
    }
    assert!(planned > 4_000, "only {planned} rounds got past the checks: the test proves nothing");
}

/// Seeded draws of headers and frames: a seed always gives the same.
struct Random(random::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(random::Random::new(seed, 0))
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.0.bits() % bound as u64) as usize
    }

    fn mutated(&mut self) -> (Vec<u8>, OffloadHeader) {
        let packet = Packet {
            is_ip6: self.below(2) == 0,
            is_tcp: self.below(2) == 0,
            network_options: self.below(3) * 8,
            tcp_options: self.below(11) * 4,
            tags: self.below(6),
            payload: self.below(300),
            size: self.below(400) as u16,
            flags: self.below(256) as u8,
        };
        let (frame, header) = packet.build();
        let (mut frame, mut header) = match self.below(3) {
            0 => (frame, header),
            1 => tunnels::random(self.below(64), &frame, header),
            _ => tunnels::with_jumbo_option(&frame, header),
        };
        for _ in 0..self.below(4) {
            let at = self.below(frame.len().min(140));
            frame[at] = self.below(256) as u8;
        }
        if self.below(4) == 0 {
            frame.truncate(self.below(frame.len() + 1));
        }
        match self.below(8) {
            0 => header.csum_start = self.below(65_536) as u16,
            1 => header.csum_offset = self.below(65_536) as u16,
            2 => header.gso_type = self.below(256) as u8,
            3 => header.gso_size = self.below(65_536) as u16,
            4 => header.gso_type = GSO_NONE,
            5 => header.flags = 0,
            _ => {}
        }
        (frame, header)
    }
}
