//! Frames of simulated packets, for captures: headers as a host would write them.
//!
//! Sources without listeners have headers and a length, no bytes: what is written is the beginning
//! of a frame up to its transport header, and the length says how long it was. Invariant: what
//! [`Headers::parse`] reads from the bytes is what the source's headers said, and the checksum of
//! an IPv4 header is right.

use etherparse::{IpNumber, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};
use weir_core::packet::{Addresses, Headers, Protocol};

/// Writes the frame of a packet with these headers into `out`: all of it if its IP `packet` is
/// known, else its headers. `marked` is the traffic class that it left with, if it is another.
pub fn write(
    headers: &Headers,
    length: u32,
    packet: Option<&[u8]>,
    marked: Option<u8>,
    out: &mut Vec<u8>,
) {
    out.clear();
    ethernet(headers, out);
    let start = out.len();
    match packet {
        Some(packet) => out.extend_from_slice(packet),
        None => network(headers, length.saturating_sub(start as u32), out),
    }
    let class = marked.or(headers.traffic_class).unwrap_or(0);
    set_class(&mut out[start..], class);
    out.truncate(length as usize);
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
fn network(headers: &Headers, length: u32, out: &mut Vec<u8>) {
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
            transport(headers, payload_length, out);
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
            transport(headers, length.saturating_sub(Ipv4Header::MIN_LEN as u16), out);
        }
        Addresses::Unknown => {}
    }
}

/// Writes a UDP header, or the parts of a TCP header that are known without a connection. It has no
/// checksum, since there is no payload.
fn transport(headers: &Headers, length: u16, out: &mut Vec<u8>) {
    let Some(ports) = headers.ports else { return };
    let (source_port, destination_port) = (ports.source, ports.destination);
    if headers.protocol == Some(Protocol::TCP) {
        let mut segment = TcpHeader::new(source_port, destination_port, 0, u16::MAX);
        segment.ack = true;
        out.extend_from_slice(&segment.to_bytes());
    } else {
        let datagram = UdpHeader { source_port, destination_port, length, checksum: 0 };
        out.extend_from_slice(&datagram.to_bytes());
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
/// For sources without a protocol: 253 is for experiments.
const UNASSIGNED: u8 = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use weir_core::packet::{Ports, VlanTag};

    fn check(addresses: Addresses, protocol: Protocol, vlan: Option<u16>, class: u8) {
        let ports = Ports { source: 5004, destination: 80 };
        let mut headers = Headers::of_flow(addresses, protocol, ports);
        if !protocol.has_ports() {
            headers.ports = None;
        }
        headers.vlan = vlan.map(VlanTag);
        headers.traffic_class = Some(0xb8);
        let mut bytes = Vec::new();
        write(&headers, 1000, None, (class != 0xb8).then_some(class), &mut bytes);
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

    #[test]
    fn short_frames_are_cut_and_never_panic() {
        let addresses =
            Addresses::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST };
        let headers =
            Headers::of_flow(addresses, Protocol::UDP, Ports { source: 1, destination: 2 });
        let mut bytes = Vec::new();
        for length in 0..70 {
            write(&headers, length, None, None, &mut bytes);
            assert_eq!(bytes.len(), 42.min(length as usize));
        }
    }
}
