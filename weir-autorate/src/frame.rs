//! The fields of a frame that say something about delay, read without trust.
//!
//! TCP's sequence and acknowledgement numbers, its timestamps [rfc7323 §3], and the spin bit of
//! QUIC [rfc9000 §17.4]. What cannot be read is [`Segment::Other`], which is only counted.

use weir_core::packet::{Addresses, EtherType, Fragment, Headers, Protocol, TcpFlags};

/// Where a frame goes, as seen from the link's modem.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Way {
    /// Towards the modem: it leaves Weir before it waits there.
    Up,
    /// From the modem: it has waited there, or at the provider, when it arrives.
    Down,
}

impl Way {
    /// Both, in the order of their numbers.
    pub const ALL: [Way; 2] = [Way::Up, Way::Down];

    /// Returns the way of the answers.
    pub const fn opposite(self) -> Way {
        match self {
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        }
    }

    /// Returns the word of deployments and messages.
    pub const fn word(self) -> &'static str {
        match self {
            Way::Up => "upload",
            Way::Down => "download",
        }
    }
}

/// A connection with its ends: the same for the frames of both ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowId {
    /// Differs between connections, usually.
    pub key: u64,
    /// The end on this side of the modem, whose weight is bounded.
    pub host: u32,
    /// The end behind the modem, whose weight is bounded, too.
    pub peer: u32,
}

/// A frame, as the estimator is told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its connection.
    pub flow: FlowId,
    /// Its length in bytes.
    pub len: u32,
    /// Its fields that say something of delays.
    pub segment: Segment,
}

/// The fields of a frame that say something of delays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Nothing.
    Other,
    /// A segment of TCP.
    Tcp(TcpSegment),
    /// A packet of QUIC with a short header, and its spin bit.
    Quic(bool),
}

/// The fields of a TCP segment that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSegment {
    /// The sequence number of the first byte.
    pub seq: u32,
    /// The acknowledgement number, if it is valid.
    pub ack: Option<u32>,
    /// The timestamps option, if it is there.
    pub stamp: Option<Stamp>,
    /// Bytes of payload; SYN and FIN count as one each.
    pub payload: u32,
    /// Whether it opens or aborts a connection.
    pub is_reset: bool,
}

/// The timestamps option of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The sender's clock (TSval).
    pub value: u32,
    /// The latest value of the other end that the sender has seen (TSecr).
    pub echo: u32,
}

impl FlowId {
    /// Returns the flow of a frame that goes `way`; `None` if its ports are unknown.
    #[inline]
    pub fn of(headers: &Headers, way: Way) -> Option<FlowId> {
        let ports = headers.ports?;
        let (source, destination) = match headers.addresses {
            Addresses::Unknown => return None,
            Addresses::V4 { source, destination } => {
                (u64::from(source.to_bits()), u64::from(destination.to_bits()))
            }
            Addresses::V6 { source, destination } => {
                (folded(source.to_bits()), folded(destination.to_bits()))
            }
        };
        let (host, peer, near, far) = match way {
            Way::Up => (source, destination, ports.source, ports.destination),
            Way::Down => (destination, source, ports.destination, ports.source),
        };
        let protocol = u64::from(headers.protocol.map_or(0, |protocol| protocol.0));
        let service = protocol << 32 | u64::from(near) << 16 | u64::from(far);
        let (host, peer) = (mixed(host), mixed(peer));
        let key = mixed(host.rotate_left(32) ^ peer.wrapping_mul(ODD) ^ mixed(service));
        Some(FlowId { key, host: (host >> 32) as u32, peer: (peer >> 32) as u32 })
    }
}

impl Segment {
    /// Reads what a frame says, whose `headers` were read from these `bytes`.
    #[inline]
    pub fn read(headers: &Headers, bytes: &[u8]) -> Segment {
        let packet = bytes.get(usize::from(headers.link_len)..);
        let read = packet.and_then(|packet| match headers.protocol {
            Some(Protocol::TCP) => tcp(headers, packet),
            Some(Protocol::UDP) => quic(headers, packet),
            _ => None,
        });
        read.unwrap_or(Segment::Other)
    }
}

/// Returns where the transport's header begins in an IP packet: none for fragments, and for IPv6
/// with extension headers.
fn transport_at(headers: &Headers, packet: &[u8]) -> Option<usize> {
    if headers.fragment != Fragment::None {
        return None;
    }
    let first = *packet.first()?;
    match (headers.ethertype, first >> 4) {
        (Some(EtherType::IPV4), 4) => Some(usize::from(first & 0xf) * 4),
        (Some(EtherType::IPV6), 6) => {
            (Protocol(*packet.get(6)?) == headers.protocol?).then_some(IPV6_LEN)
        }
        _ => None,
    }
}

fn tcp(headers: &Headers, packet: &[u8]) -> Option<Segment> {
    let at = transport_at(headers, packet)?;
    let fixed: &[u8; TCP_LEN_MIN] = packet.get(at..)?.first_chunk()?;
    let header_len = usize::from(fixed[12] >> 4) * 4;
    let options = packet.get(at + TCP_LEN_MIN..at.checked_add(header_len)?)?;
    let flags = TcpFlags(fixed[13]);
    let packet_len = headers.network_len.map_or(packet.len(), |len| len as usize);
    let data = packet_len.checked_sub(at + header_len)? as u32;
    let phantom = [TcpFlags::SYN, TcpFlags::FIN].map(|flag| u32::from(flags.contains(flag)));
    Some(Segment::Tcp(TcpSegment {
        seq: be32(&fixed[4..8]),
        ack: flags.contains(TcpFlags::ACK).then(|| be32(&fixed[8..12])),
        stamp: stamp(options),
        payload: data + phantom[0] + phantom[1],
        is_reset: flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::RST),
    }))
}

/// Finds the timestamps among the options; nearly always they are at one of two places.
fn stamp(options: &[u8]) -> Option<Stamp> {
    if let [1, 1, 8, 10, rest @ ..] = options {
        return stamp_of(rest);
    }
    let mut rest = options;
    for _ in 0..OPTIONS_MAX {
        match *rest {
            [8, 10, ref value @ ..] => return stamp_of(value),
            [1, ref more @ ..] => rest = more,
            [0, ..] | [] => return None,
            [_, len, ..] if len >= 2 => rest = rest.get(usize::from(len)..)?,
            _ => return None,
        }
    }
    None
}

fn stamp_of(bytes: &[u8]) -> Option<Stamp> {
    Some(Stamp { value: be32(bytes.get(..4)?), echo: be32(bytes.get(4..8)?) })
}

/// [rfc9000 §17.3.1] A short header begins with the bits 01; the spin bit follows them.
fn quic(headers: &Headers, packet: &[u8]) -> Option<Segment> {
    let ports = headers.ports?;
    if ports.source != QUIC_PORT && ports.destination != QUIC_PORT {
        return None;
    }
    let first = *packet.get(transport_at(headers, packet)? + UDP_LEN)?;
    (first & 0xc0 == 0x40).then_some(Segment::Quic(first & 0x20 != 0))
}

/// Returns four bytes as a number; the callers give four.
fn be32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |chunk| u32::from_be_bytes(*chunk))
}

fn folded(address: u128) -> u64 {
    (address >> 64) as u64 ^ (address as u64).wrapping_mul(ODD)
}

/// Mixes all bits into the upper ones.
#[inline]
fn mixed(number: u64) -> u64 {
    let product = (number ^ number >> 32).wrapping_mul(ODD);
    (product ^ product >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// An odd number with even bits: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bound: options that are read in one segment; there is room for 40 bytes of them.
const OPTIONS_MAX: usize = 40;
const TCP_LEN_MIN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const QUIC_PORT: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of TCP behind an Ethernet header.
    fn frame(options: &[u8], payload: usize) -> alloc::vec::Vec<u8> {
        let header_len = TCP_LEN_MIN + options.len();
        let total = (20 + header_len + payload) as u16;
        let mut bytes = alloc::vec![0; 12];
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 192, 0, 2, 1]);
        bytes.extend([0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 9, 0, 0, 0, 7]);
        bytes.extend([(header_len / 4) as u8 * 16, 0x10, 1, 0, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(core::iter::repeat_n(0, payload));
        bytes
    }

    fn read(bytes: &[u8]) -> Segment {
        Segment::read(&Headers::parse_ethernet(bytes), bytes)
    }

    #[test]
    fn the_timestamps_are_found_at_any_place() {
        let value = [8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
        let rows: [&[u8]; 3] = [
            &[&[1, 1][..], &value].concat(),
            &[&[2, 4, 5, 0xb4, 4, 2][..], &value].concat(),
            &[&value[..], &[0, 0]].concat(),
        ];
        for options in rows {
            let Segment::Tcp(segment) = read(&frame(options, 100)) else { panic!("{options:?}") };
            assert_eq!(segment.stamp, Some(Stamp { value: 5, echo: 6 }), "{options:?}");
            assert_eq!((segment.seq, segment.ack, segment.payload), (9, Some(7), 100));
        }
    }

    #[test]
    fn damaged_options_give_no_timestamps() {
        for options in [[3, 0, 0, 0], [8, 10, 0, 0], [3, 1, 8, 10], [3, 99, 0, 0]] {
            let Segment::Tcp(segment) = read(&frame(&options, 0)) else { panic!("{options:?}") };
            assert_eq!(segment.stamp, None, "{options:?}");
        }
    }

    #[test]
    fn a_cut_frame_says_nothing() {
        let whole = frame(&[], 10);
        assert_eq!(read(&whole[..40]), Segment::Other);
    }

    #[test]
    fn both_ways_of_a_connection_are_one_flow() {
        let up = frame(&[], 0);
        let mut down = up.clone();
        down[26..34].rotate_left(4);
        down[34..38].rotate_left(2);
        let of = |bytes: &[u8], way| FlowId::of(&Headers::parse_ethernet(bytes), way);
        assert_eq!(of(&up, Way::Up), of(&down, Way::Down));
        assert_ne!(of(&up, Way::Up), of(&up, Way::Down));
    }
}
