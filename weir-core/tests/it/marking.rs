//! Writing a traffic class into packets changes nothing else, and checksums stay right.

use crate::frames;

use frames::{Draws, Frame, frame};
use weir_core::packet::{Headers, LinkType, write_traffic_class};

fn udp4() -> Frame {
    frame(17, ("10.0.0.1", 5000), ("10.0.0.2", 53))
}

fn udp6() -> Frame {
    frame(17, ("2001:db8::1", 5000), ("2001:db8::2", 53))
}

/// Returns a header's checksum, by adding all its words [RFC 1071 §1].
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    // The first fold may carry once more.
    !fold(fold(words.sum())) as u16
}

/// Puts the right checksum into the IPv4 header at `at`.
fn seal(bytes: &mut [u8], at: usize) {
    let length = usize::from(bytes[at] & 0x0f) * 4;
    bytes[at + 10..at + 12].fill(0);
    let sum = checksum(&bytes[at..at + length]);
    bytes[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn every_change_keeps_the_checksum() {
    let mut random = Draws::new(0xc4ec);
    for old in 0..=255u8 {
        for new in 0..=255u8 {
            let mut bytes = udp4().class(old).tag(0x8100, 9).bytes();
            let at = 18;
            // Identification and lifetime vary, for all kinds of sums, also near zero.
            bytes[at + 4] = random.next() as u8;
            bytes[at + 5] = random.next() as u8;
            bytes[at + 8] = random.next() as u8;
            seal(&mut bytes, at);
            let mut expected = bytes.clone();
            expected[at + 1] = new;
            assert!(write_traffic_class(LinkType::Ethernet, &mut bytes, new));
            assert_eq!(checksum(&bytes[at..at + 20]), 0, "{old:#x} to {new:#x}");
            expected[at + 10..at + 12].copy_from_slice(&bytes[at + 10..at + 12]);
            assert_eq!(bytes, expected, "nothing else changes");
        }
    }
}

#[test]
fn options_count_in_the_checksum() {
    let mut bytes = udp4().bytes();
    bytes[14] = 0x46;
    bytes.splice(34..34, [1, 1, 1, 0]);
    seal(&mut bytes, 14);
    assert!(write_traffic_class(LinkType::Ethernet, &mut bytes, 0xb8));
    assert_eq!(checksum(&bytes[14..38]), 0);
    assert_eq!(bytes[15], 0xb8);
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut bytes = udp4().bytes();
    seal(&mut bytes, 14);
    bytes[25] ^= 1;
    write_traffic_class(LinkType::Ethernet, &mut bytes, 3);
    assert_eq!(bytes[15], 3);
    assert_ne!(checksum(&bytes[14..34]), 0);
}

#[test]
fn every_link_type_is_written() {
    let (v4, v6) = (udp4().ip_bytes(), udp6().ip_bytes());
    let mut sll = vec![0; 14];
    sll.extend([0x08, 0x00]);
    let mut sll2 = vec![0x86, 0xdd];
    sll2.extend([0; 18]);
    let pppoe = vec![0x11, 0, 0, 1, 0, 46, 0x00, 0x21];
    let labels = vec![0xff, 0x03, 0x02, 0x81, 0, 1, 1, 64];
    let rows: [(LinkType, Vec<u8>, &[u8]); 7] = [
        (LinkType::Pppoe, pppoe, &v4),
        (LinkType::Ppp, labels, &v6),
        (LinkType::RawIp, vec![], &v4),
        (LinkType::RawIp, vec![], &v6),
        (LinkType::Loopback, vec![30, 0, 0, 0], &v6),
        (LinkType::LinuxSll, sll, &v4),
        (LinkType::LinuxSll2, sll2, &v6),
    ];
    for (link, header, packet) in rows {
        for new in [0, 0x03, 0xb8, 0xff] {
            let mut bytes = [&header, packet].concat();
            let before = Headers::parse(link, &bytes);
            assert!(write_traffic_class(link, &mut bytes, new));
            let after = Headers::parse(link, &bytes);
            assert_eq!(after, Headers { traffic_class: Some(new), ..before });
        }
    }
}

#[test]
fn bytes_that_are_not_a_packet_stay_unchanged() {
    let mut arp = udp4().bytes();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    for bytes in [arp, vec![], vec![0x45], udp4().bytes()[..33].to_vec()] {
        let mut written = bytes.clone();
        assert!(!write_traffic_class(LinkType::Ethernet, &mut written, 3));
        assert_eq!(written, bytes);
    }
}

#[test]
fn any_bytes_change_in_their_traffic_class_alone() {
    let mut random = Draws::new(0x5eed);
    let seeds = [udp4(), udp6().extension(60).piece(3, 0, true), udp4().tag(0x8100, 9)];
    for case in 0..100_000 {
        let mut bytes = random.pick(&seeds).bytes();
        for _ in 0..random.below(6) {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(random.below(bytes.len() + 1));
        let (link, new) = (random.pick(&LinkType::ALL), random.next() as u8);
        let (before, old) = (Headers::parse(link, &bytes), bytes.clone());
        let written = write_traffic_class(link, &mut bytes, new);
        assert_eq!(written, before.traffic_class.is_some(), "case {case}");
        let traffic_class = written.then_some(new);
        assert_eq!(Headers::parse(link, &bytes), Headers { traffic_class, ..before });
        let changed = old.iter().zip(&bytes).filter(|(old, new)| old != new).count();
        assert!(changed <= 3, "case {case}");
    }
}
