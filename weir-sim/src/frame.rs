//! Frames of simulated packets, for captures: headers as a host would write them.
//!
//! Sources without listeners have headers and a length, no bytes: what is written is the beginning
//! of a frame up to its transport header, and the length says how long it was. Invariant: what
//! [`Headers::parse`] reads from the bytes is what the source's headers said, and the checksum of
//! an IPv4 header is right.

use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket};
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
            let mut packet = Ipv6Packet::new_unchecked(grown(out, 40));
            packet.set_version(6);
            packet.set_payload_len(length.saturating_sub(40));
            packet.set_next_header(IpProtocol::from(protocol));
            packet.set_hop_limit(HOPS);
            packet.set_src_addr(source);
            packet.set_dst_addr(destination);
            transport(headers, length.saturating_sub(40), out);
        }
        Addresses::V4 { source, destination } => {
            let mut packet = Ipv4Packet::new_unchecked(grown(out, 20));
            packet.set_version(4);
            packet.set_header_len(20);
            packet.set_total_len(length);
            packet.set_hop_limit(HOPS);
            packet.set_next_header(IpProtocol::from(protocol));
            packet.set_src_addr(source);
            packet.set_dst_addr(destination);
            transport(headers, length.saturating_sub(20), out);
        }
        Addresses::Unknown => {}
    }
}

/// Writes a UDP header, or the parts of a TCP header that are known without a connection. It has no
/// checksum, since there is no payload.
fn transport(headers: &Headers, length: u16, out: &mut Vec<u8>) {
    let Some(ports) = headers.ports else { return };
    if headers.protocol == Some(Protocol::TCP) {
        let mut segment = TcpPacket::new_unchecked(grown(out, 20));
        segment.set_src_port(ports.source);
        segment.set_dst_port(ports.destination);
        segment.set_header_len(20);
        segment.set_ack(true);
        segment.set_window_len(u16::MAX);
    } else {
        let mut datagram = UdpPacket::new_unchecked(grown(out, 8));
        datagram.set_src_port(ports.source);
        datagram.set_dst_port(ports.destination);
        datagram.set_len(length);
    }
}

/// Appends `count` zeros and returns them.
fn grown(out: &mut Vec<u8>, count: usize) -> &mut [u8] {
    let start = out.len();
    out.resize(start + count, 0);
    &mut out[start..]
}

/// Writes DSCP and ECN, and the checksum of an IPv4 header.
fn set_class(packet: &mut [u8], class: u8) {
    match packet.first().map(|first| first >> 4) {
        Some(6) => Ipv6Packet::new_unchecked(packet).set_traffic_class(class),
        Some(4) => {
            let mut packet = Ipv4Packet::new_unchecked(packet);
            packet.set_dscp(class >> 2);
            packet.set_ecn(class & 3);
            packet.fill_checksum();
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
