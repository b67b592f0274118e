//! Frames of all kinds.

use weir_core::packet::Checksum;
use weir_host::netlink::Mac;
use weir_link::offload::{OFFLOAD_HEADER_LEN, OffloadHeader};
use weir_testbed::{END, Host};

/// A frame, and what its sender left undone.
#[derive(Clone, Debug)]
pub struct Frame {
    pub bytes: Vec<u8>,
    pub offload: OffloadHeader,
    /// Where it is sent.
    pub interface: &'static str,
}

impl Frame {
    pub fn plain(bytes: Vec<u8>) -> Self {
        Self { bytes, offload: OffloadHeader::default(), interface: END }
    }

    /// Returns the header as the kernel reads it.
    pub fn header(&self) -> [u8; OFFLOAD_HEADER_LEN] {
        let OffloadHeader { flags, gso_type, gso_size, csum_start, csum_offset } = self.offload;
        let mut bytes = [0; OFFLOAD_HEADER_LEN];
        (bytes[0], bytes[1]) = (flags, gso_type);
        // At least the headers must be in one piece.
        let words = [csum_start + 60, gso_size, csum_start, csum_offset];
        for (place, word) in bytes[2..].chunks_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        if flags == 0 {
            bytes[2..4].fill(0);
        }
        bytes
    }
}

/// Frames that need nothing done.
pub fn plain(frames: Vec<Vec<u8>>) -> Vec<Frame> {
    frames.into_iter().map(Frame::plain).collect()
}

/// A frame from client to server with this ethertype (or length) and content.
pub fn ethernet(ethertype: u16, content: &[u8]) -> Vec<u8> {
    between(Host::Client.mac(), Host::Server.mac(), ethertype, content)
}

pub fn between(source: Mac, destination: Mac, ethertype: u16, content: &[u8]) -> Vec<u8> {
    [&destination.0[..], &source.0, &ethertype.to_be_bytes(), content].concat()
}

/// As [`ethernet`], behind tags (each of two words).
pub fn tagged(tags: &[u16], ethertype: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(ethertype, content);
    let tags: Vec<u8> = tags.iter().flat_map(|word| word.to_be_bytes()).collect();
    frame.splice(12..12, tags);
    frame
}

/// Bytes that differ from place to place.
pub fn filling(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// The last frame of a series: to all stations, for local experiments.
pub fn marker(source: Mac, number: u32) -> Vec<u8> {
    let mut content = b"marker".to_vec();
    content.extend(number.to_be_bytes());
    content.resize(46, 0);
    between(source, Mac([0xff; 6]), LOCAL, &content)
}

/// The ethertype for local experiments: no stack replies to it.
pub const LOCAL: u16 = 0x88b5;
pub const IP4: u16 = 0x0800;
pub const IP6: u16 = 0x86dd;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// An IPv4 packet between addresses that no host has, with a correct header.
pub fn ip4(protocol: u8, flags: u16, options: &[u8], content: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let total = u16::try_from(header_len + content.len()).unwrap_or(0);
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(total.to_be_bytes());
    packet.extend(0xfffe_u16.to_be_bytes());
    packet.extend(flags.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    packet.extend(options);
    let sum = !sum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(content);
    packet
}

/// An IPv6 packet between addresses that no host has.
pub fn ip6(next: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap_or(0);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([next, 64]);
    for last in [1, 2] {
        packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(content);
    packet
}

/// A UDP datagram with this checksum.
pub fn udp(checksum: u16, content: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x30, 0x39, 0x00, 0x09];
    datagram.extend(((8 + content.len()) as u16).to_be_bytes());
    datagram.extend(checksum.to_be_bytes());
    datagram.extend(content);
    datagram
}

/// A TCP segment with these flags and 12 bytes of options; its checksum is left undone.
pub fn tcp(flags: u8, content: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x30, 0x39, 0x00, 0x09];
    segment.extend(0xffff_fa00_u32.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0x80, flags, 0x10, 0x00, 0, 0, 0, 0]);
    segment.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    segment.extend(content);
    segment
}

/// The kinds of super-packets.
pub const GSO_NONE: u8 = 0;
pub const GSO_TCP4: u8 = 1;
pub const GSO_TCP6: u8 = 4;
pub const GSO_UDP: u8 = 5;
pub const GSO_ECN: u8 = 0x80;

/// Leaves the checksum of the transport header at `start` to whoever sends the frame on, and its
/// cutting into pieces of `size` too, if `kind` says so. The IP header is at `network`.
pub fn undone(mut bytes: Vec<u8>, network: usize, start: usize, kind: u8, size: u16) -> Frame {
    let is_ip6 = bytes[network] >> 4 == 6;
    let is_udp = bytes[network + if is_ip6 { 6 } else { 9 }] == UDP;
    let addresses = if is_ip6 { network + 8..network + 40 } else { network + 12..network + 20 };
    let mut pseudo = bytes[addresses].to_vec();
    pseudo.extend(((bytes.len() - start) as u32).to_be_bytes());
    pseudo.extend([0, if is_udp { UDP } else { TCP }]);
    let csum_offset = if is_udp { 6 } else { 16 };
    let field = start + csum_offset;
    bytes[field..field + 2].copy_from_slice(&sum(&pseudo).to_be_bytes());
    let offload = OffloadHeader {
        flags: 1,
        gso_type: kind,
        gso_size: size,
        csum_start: start as u16,
        csum_offset: csum_offset as u16,
    };
    Frame { bytes, offload, interface: END }
}

/// The sum of [RFC 1071].
pub fn sum(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.fold()
}
