//! Frames of simulated packets, for captures: headers as a host would write them.
//!
//! Simulated packets have headers and a length, but no data: what is written is the beginning of a
//! frame up to the end of its transport header, and the length says how long it was. A segment of
//! TCP is written with its numbers and options. Invariant: what [`Headers::parse`] reads from the
//! bytes is what the source's headers said, and the checksum of an IPv4 header is right.

use crate::packets::Content;
use crate::scenario::link_header;
use etherparse::{IpNumber, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};
use weir_core::packet::{
    Addresses, Fragment, Headers, IcmpType, Ports, Protocol, TcpFlags, Transport,
};
use weir_tcp::{Flags, Segment};

/// Writes the frame of a packet with these headers into `out`: all of a message and of a datagram
/// of QUIC, of other packets the headers. `marked` is the traffic class that it left with, if that
/// is not the headers'; what an endpoint sends brings its own codepoint.
pub fn write(
    headers: &Headers,
    length: u32,
    content: &Content,
    marked: Option<u8>,
    out: &mut Vec<u8>,
) {
    out.clear();
    ethernet(headers, out);
    let start = out.len();
    let mut class = headers.traffic_class.unwrap_or(0);
    class = content.mark().map_or(class, |mark| class & !3 | mark);
    let packet_length = length.saturating_sub(start as u32);
    match content {
        Content::Message(packet) => out.extend_from_slice(packet),
        Content::Nothing => network(headers, packet_length, None, out),
        Content::Segment(segment) => network(headers, packet_length, Some(segment), out),
        Content::Quic { bytes, .. } => {
            network(headers, packet_length, None, out);
            out.extend_from_slice(bytes);
        }
    }
    let class = marked.unwrap_or(class);
    set_class(&mut out[start..], class);
    out.truncate(length as usize);
}

/// Returns the headers of one packet of a flow: its length, and the flags of its segment, as
/// [`write`] writes them.
pub(crate) fn detailed(headers: &Headers, length: u32, content: &Content) -> Headers {
    let length = length.saturating_sub(link_header(headers)).min(u16::MAX.into());
    let has_flags = headers.protocol == Some(Protocol::TCP)
        && headers.ports.is_some()
        && !matches!(headers.fragment, Fragment::Later { .. });
    let transport = match content {
        Content::Segment(segment) if has_flags => {
            Transport::Tcp(TcpFlags((segment.flags.0 & 0xff) as u8))
        }
        _ if has_flags => Transport::Tcp(headers.tcp_flags().unwrap_or(TcpFlags::ACK)),
        _ => headers.transport,
    };
    Headers { network_len: Some(length), transport, ..*headers }
}

/// The Ethernet header, with tags.
fn ethernet(headers: &Headers, out: &mut Vec<u8>) {
    out.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    for tag in [headers.vlan, headers.vlan_inner].into_iter().flatten() {
        out.extend_from_slice(&0x8100u16.to_be_bytes());
        out.extend_from_slice(&tag.0.to_be_bytes());
    }
    let six = matches!(headers.addresses, Addresses::V6 { .. });
    let ethertype: u16 = if six { 0x86dd } else { 0x0800 };
    out.extend_from_slice(&ethertype.to_be_bytes());
}

/// The IP header of a packet of `length` bytes, and the transport header.
fn network(headers: &Headers, length: u32, segment: Option<&Segment>, out: &mut Vec<u8>) {
    let length = length.min(u32::from(u16::MAX)) as u16;
    let protocol = headers.protocol.map_or(UNASSIGNED, |protocol| protocol.0);
    match headers.addresses {
        Addresses::V6 { source, destination } => {
            let payload_length = length.saturating_sub(Ipv6Header::LEN as u16);
            let header = Ipv6Header {
                payload_length,
                next_header: IpNumber(protocol),
                hop_limit: HOPS,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            out.extend_from_slice(&header.to_bytes());
            transport(headers, payload_length, segment, out);
        }
        Addresses::V4 { source, destination } => {
            let header = Ipv4Header {
                total_len: length,
                time_to_live: HOPS,
                protocol: IpNumber(protocol),
                source: source.octets(),
                destination: destination.octets(),
                dont_fragment: false,
                ..Ipv4Header::default()
            };
            out.extend_from_slice(&header.to_bytes());
            let length = length.saturating_sub(Ipv4Header::MIN_LEN as u16);
            transport(headers, length, segment, out);
        }
        Addresses::Unknown => {}
    }
}

/// Writes a UDP header, the type of an ICMP message, the TCP header of a segment, or the parts of a
/// TCP header that are known without a connection. It has no checksum, since there is no payload.
fn transport(headers: &Headers, length: u16, segment: Option<&Segment>, out: &mut Vec<u8>) {
    if let Some(IcmpType { number, code }) = headers.icmp() {
        return out.extend_from_slice(&[number, code, 0, 0]);
    }
    let Some(ports) = headers.ports else { return };
    if let Some(segment) = segment {
        return out.extend_from_slice(&tcp_header(ports, segment).to_bytes());
    }
    let (source_port, destination_port) = (ports.source, ports.destination);
    if headers.protocol == Some(Protocol::TCP) {
        let mut segment = TcpHeader::new(source_port, destination_port, 0, u16::MAX);
        set_flags(&mut segment, headers.tcp_flags().unwrap_or(TcpFlags::ACK));
        out.extend_from_slice(&segment.to_bytes());
    } else {
        let datagram = UdpHeader { source_port, destination_port, length, checksum: 0 };
        out.extend_from_slice(&datagram.to_bytes());
    }
}

fn set_flags(header: &mut TcpHeader, flags: TcpFlags) {
    let has = |bit: u8| flags.0 >> bit & 1 == 1;
    (header.fin, header.syn, header.rst, header.psh) = (has(0), has(1), has(2), has(3));
    (header.ack, header.urg, header.ece, header.cwr) = (has(4), has(5), has(6), has(7));
}

/// The header of a segment with its options.
fn tcp_header(ports: Ports, segment: &Segment) -> TcpHeader {
    let flags = segment.flags;
    let mut header = TcpHeader {
        source_port: ports.source,
        destination_port: ports.destination,
        sequence_number: segment.seq.0,
        acknowledgment_number: segment.ack.0,
        // [rfc9768 §3.1] The flag AE has the place of the nonce sum.
        ns: flags.has(Flags::AE),
        fin: flags.has(Flags::FIN),
        syn: flags.has(Flags::SYN),
        rst: flags.has(Flags::RST),
        psh: flags.has(Flags::PSH),
        ack: flags.has(Flags::ACK),
        ece: flags.has(Flags::ECE),
        cwr: flags.has(Flags::CWR),
        window_size: segment.window,
        ..TcpHeader::default()
    };
    header.set_options_raw(&options(segment)).expect("a segment has at most 40 bytes of options");
    header
}

/// The options of a segment, as Linux lays them out (`tcp_options_write`).
fn options(segment: &Segment) -> Vec<u8> {
    let mut out = Vec::with_capacity(OPTIONS_MAX);
    if let Some(mss) = segment.mss_option {
        out.extend([2, 4]);
        out.extend(mss.to_be_bytes());
    }
    match (segment.sack_permitted, segment.timestamps.is_some()) {
        (true, true) => out.extend([4, 2]),
        (true, false) => out.extend([NOP, NOP, 4, 2]),
        (false, true) => out.extend([NOP, NOP]),
        (false, false) => {}
    }
    if let Some(stamps) = segment.timestamps {
        out.extend([8, 10]);
        out.extend(stamps.value.to_be_bytes());
        out.extend(stamps.echo.to_be_bytes());
    }
    accurate_ecn(segment, &mut out);
    if let Some(shift) = segment.window_scale {
        out.extend([NOP, 3, 3, shift]);
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() {
        out.extend([5, 2 + 8 * blocks.len() as u8]);
        for block in blocks {
            out.extend(block.start.0.to_be_bytes());
            out.extend(block.end.0.to_be_bytes());
        }
    }
    out.resize((segment.header_len() as usize - TcpHeader::MIN_LEN).min(OPTIONS_MAX), NOP);
    out
}

/// [rfc9768 §3.2.3] The counters of accurate ECN: three of 24 bits, of which the last may lack.
fn accurate_ecn(segment: &Segment, out: &mut Vec<u8>) {
    let Some(option) = segment.acc_ecn else { return };
    let (kind, first, last) = match option.ect1_first {
        false => (172, option.ect0, option.ect1),
        true => (174, option.ect1, option.ect0),
    };
    let fields = usize::from(option.fields.min(3));
    out.extend([kind, 2 + 3 * fields as u8]);
    for counter in &[first, option.ce, last][..fields] {
        out.extend(&counter.to_be_bytes()[1..]);
    }
}

/// Writes DSCP and ECN, and the checksum of an IPv4 header.
fn set_class(packet: &mut [u8], class: u8) {
    match packet.first().map(|first| first >> 4) {
        Some(6) if packet.len() > 1 => {
            packet[0] = 0x60 | class >> 4;
            packet[1] = class << 4 | packet[1] & 0x0f;
        }
        Some(4) if packet.len() > 1 => {
            packet[1] = class;
            if let Ok((header, _)) = Ipv4Header::from_slice(packet) {
                packet[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
            }
        }
        _ => {}
    }
}

const HOPS: u8 = 64;
/// The bytes of options that a TCP header has room for.
const OPTIONS_MAX: usize = 40;
/// The option that is none, for padding.
const NOP: u8 = 1;
/// For sources without a protocol: 253 is for experiments.
const UNASSIGNED: u8 = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::TcpOptionElement;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use weir_core::packet::VlanTag;
    use weir_tcp::{AccEcn, Ecn, SackBlock, SackBlocks, SeqNumber, Timestamps};

    fn check(addresses: Addresses, protocol: Protocol, vlan: Option<u16>, class: u8) {
        let ports = Ports { source: 5004, destination: 80 };
        let mut headers = Headers::of_flow(addresses, protocol, ports);
        if !protocol.has_ports() {
            headers.ports = None;
        }
        headers.vlan = vlan.map(VlanTag);
        headers.traffic_class = Some(0xb8);
        let mut bytes = Vec::new();
        write(&headers, 1000, &Content::Nothing, (class != 0xb8).then_some(class), &mut bytes);
        let read = Headers::parse_ethernet(&bytes);
        assert_eq!((read.addresses, read.protocol), (addresses, Some(protocol)));
        assert_eq!((read.ports, read.vlan), (headers.ports, headers.vlan));
        assert_eq!(read.traffic_class, Some(class));
        let before = if vlan.is_some() { 18 } else { 14 };
        assert_eq!(read.network_len, Some(1000 - before));
        if let Addresses::V4 { .. } = addresses {
            let header = &bytes[before as usize..][..20];
            let sum: u32 = header
                .chunks_exact(2)
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum is right");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let four = Addresses::V4 {
            source: Ipv4Addr::new(192, 0, 2, 1),
            destination: Ipv4Addr::new(198, 51, 100, 1),
        };
        let six = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };
        for addresses in [four, six] {
            for protocol in [Protocol::UDP, Protocol::TCP] {
                check(addresses, protocol, None, 0xb8);
                check(addresses, protocol, Some(7), 0x03);
            }
            check(addresses, Protocol(253), None, 0x28);
        }
    }

    /// A written segment is as long as it counts, and reads back.
    #[test]
    fn a_segment_has_its_options_and_its_mark() {
        let (source, destination) = (Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
        let ports = Ports { source: 1, destination: 2 };
        let headers = Headers::of_flow(Addresses::V4 { source, destination }, Protocol::TCP, ports);
        let plain = Segment {
            seq: SeqNumber(7),
            ack: SeqNumber(9),
            flags: Flags::ACK | Flags::AE,
            window: 512,
            length: 1000,
            ecn: Ecn::Ce,
            ..Segment::default()
        };
        let timestamps = Some(Timestamps { value: 1, echo: 2 });
        let mut sack = SackBlocks::new();
        sack.push(SackBlock { start: SeqNumber(20), end: SeqNumber(30) });
        let counters = |fields| Some(AccEcn { ect0: 3, ce: 4, ect1: 5, fields, ect1_first: false });
        let (mss_option, window_scale) = (Some(1460), Some(7));
        let syn = Segment { mss_option, window_scale, sack_permitted: true, ..plain };
        for segment in [
            plain,
            syn,
            Segment { timestamps, ..syn },
            Segment { timestamps, sack, ..plain },
            Segment { timestamps, sack, acc_ecn: counters(1), ..plain },
            Segment { acc_ecn: counters(3), ..plain },
        ] {
            let mut bytes = Vec::new();
            let length = 34 + segment.header_len() + segment.length;
            write(&headers, length, &Content::Segment(segment), None, &mut bytes);
            assert_eq!(bytes.len() as u32, length - segment.length, "{segment:?}");
            assert_eq!(bytes[15] & 3, 3, "it is marked");
            let (read, rest) = TcpHeader::from_slice(&bytes[34..]).expect("it is a header");
            assert!(rest.is_empty() && read.ns && read.ack && !read.syn);
            assert_eq!((read.sequence_number, read.acknowledgment_number), (7, 9));
            let found: Vec<_> = read.options_iterator().flatten().collect();
            let has = |element| found.contains(&element);
            assert_eq!(has(TcpOptionElement::Timestamp(1, 2)), segment.timestamps.is_some());
            assert_eq!(has(TcpOptionElement::WindowScale(7)), segment.window_scale.is_some());
            assert_eq!(
                has(TcpOptionElement::MaximumSegmentSize(1460)),
                segment.mss_option.is_some()
            );
            assert_eq!(
                has(TcpOptionElement::SelectiveAcknowledgementPermitted),
                segment.sack_permitted
            );
        }
    }

    #[test]
    fn short_frames_are_cut_and_never_panic() {
        let addresses =
            Addresses::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST };
        let headers =
            Headers::of_flow(addresses, Protocol::UDP, Ports { source: 1, destination: 2 });
        let mut bytes = Vec::new();
        for length in 0..70 {
            write(&headers, length, &Content::Nothing, None, &mut bytes);
            assert_eq!(bytes.len(), 42.min(length as usize));
        }
    }
}
