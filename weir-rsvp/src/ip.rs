//! IP packets that carry an RSVP message, as bytes: protocol 46, with the router alert option where
//! routers on the way are to read it [rfc2113 §2.1, rfc2711 §2.1].
//!
//! The kernel writes and removes these headers for sockets, except where it hands over a packet in
//! transit. A bridge, which takes packets out of frames and puts them in, does all of it here, and
//! so do the nodes of the simulator.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::node::Packet;

/// The IP protocol of RSVP [rfc2205 §3].
pub const PROTOCOL: u8 = 46;

/// The fields of a packet's headers that RSVP needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The address of the sender.
    pub source: IpAddr,
    /// The address of the receiver, or a multicast group.
    pub destination: IpAddr,
    /// The TTL or hop limit.
    pub ttl: u8,
    /// The packet has the router alert option for RSVP.
    pub alert: bool,
    /// Where the message lies in the packet.
    pub message: Range<usize>,
}

/// Reads the headers of a whole IPv4 or IPv6 packet; none if it carries no RSVP, is cut off, or is
/// a fragment.
pub fn read(packet: &[u8]) -> Option<Headers> {
    match packet.first()? >> 4 {
        4 => read_v4(packet),
        6 => read_v6(packet),
        _ => None,
    }
}

fn read_v4(packet: &[u8]) -> Option<Headers> {
    let fixed: &[u8; V4_HEADER] = packet.first_chunk()?;
    let header = usize::from(fixed[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let is_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & !DONT_FRAGMENT != 0;
    if fixed[9] != PROTOCOL || is_fragment || header < V4_HEADER || total > packet.len() {
        return None;
    }
    let options = packet.get(V4_HEADER..header)?;
    Some(Headers {
        source: Ipv4Addr::from(<[u8; 4]>::try_from(&fixed[12..16]).ok()?).into(),
        destination: Ipv4Addr::from(<[u8; 4]>::try_from(&fixed[16..20]).ok()?).into(),
        ttl: fixed[8],
        alert: has_alert_v4(options),
        message: (header <= total).then_some(header..total)?,
    })
}

fn has_alert_v4(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        match (*kind, rest) {
            (0, _) => return false,
            (1, _) => options = rest,
            (kind, [len, ..]) if kind == ALERT_V4[0] && *len == ALERT_V4[1] => return true,
            (_, [len, ..]) if usize::from(*len) >= 2 => {
                options = options.get(usize::from(*len)..).unwrap_or_default();
            }
            _ => return false,
        }
    }
    false
}

fn read_v6(packet: &[u8]) -> Option<Headers> {
    let fixed: &[u8; V6_HEADER] = packet.first_chunk()?;
    let end = V6_HEADER + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let packet = packet.get(..end)?;
    let (mut next, mut at, mut alert) = (fixed[6], V6_HEADER, false);
    for _ in 0..EXTENSIONS_MAX {
        if next == PROTOCOL {
            let address = |at: usize| -> Option<IpAddr> {
                let bytes: [u8; 16] = fixed.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(bytes).into())
            };
            let (source, destination) = (address(8)?, address(24)?);
            return Some(Headers { source, destination, ttl: fixed[7], alert, message: at..end });
        }
        if !matches!(next, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            return None;
        }
        let [following, units] = *packet.get(at..)?.first_chunk()?;
        let len = (usize::from(units) + 1) * 8;
        let options = packet.get(at + 2..at + len)?;
        alert |= next == HOP_BY_HOP && has_alert_v6(options);
        (next, at) = (following, at + len);
    }
    None
}

fn has_alert_v6(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        match (*kind, rest) {
            (0, _) => options = rest,
            (5, [2, 0, ALERT_RSVP, ..]) => return true,
            (_, [len, rest @ ..]) => {
                options = rest.get(usize::from(*len)..).unwrap_or_default();
            }
            _ => return false,
        }
    }
    false
}

/// Returns a packet with its IP headers, as it lies in a frame. It is not cut into fragments.
pub fn write(packet: &Packet) -> Vec<u8> {
    match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => write_v4(packet, source, destination),
        (source, destination) => write_v6(packet, v6(source), v6(destination)),
    }
}

/// The address of a packet whose other address is of IPv6.
fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn write_v4(packet: &Packet, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let options: &[u8] = if packet.alert { &ALERT_V4 } else { &[] };
    let header = V4_HEADER + options.len();
    let total = (header + packet.bytes.len()) as u16;
    let mut bytes = Vec::with_capacity(header + packet.bytes.len());
    bytes.extend([0x40 | (header / 4) as u8, TRAFFIC_CLASS]);
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 0, 0, 0, packet.ttl, PROTOCOL, 0, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(options);
    let sum = !ones_sum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(&packet.bytes);
    bytes
}

fn write_v6(packet: &Packet, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut options = ALERT_V6;
    options[0] = PROTOCOL;
    let options: &[u8] = if packet.alert { &options } else { &[] };
    let next = if packet.alert { HOP_BY_HOP } else { PROTOCOL };
    let payload = (options.len() + packet.bytes.len()) as u16;
    let mut bytes = vec![0x60 | TRAFFIC_CLASS >> 4, TRAFFIC_CLASS << 4, 0, 0];
    bytes.extend(payload.to_be_bytes());
    bytes.extend([next, packet.ttl]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(options);
    bytes.extend(&packet.bytes);
    bytes
}

/// The sum in ones' complement of a header of whole words.
fn ones_sum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// The option of IPv4 that asks routers to read a packet.
pub const ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];
/// The hop-by-hop header of IPv6 with that option for RSVP, padded to 8 bytes; its first byte is the
/// protocol behind it.
pub const ALERT_V6: [u8; 8] = [0, 0, 5, 2, 0, ALERT_RSVP, 1, 0];
/// The number of RSVP in the option of IPv6.
pub const ALERT_RSVP: u8 = 1;
/// Network control: class selector 6, as routing protocols have it.
pub const TRAFFIC_CLASS: u8 = 0xc0;

const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;
const DONT_FRAGMENT: u16 = 0x4000;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION_OPTIONS: u8 = 60;
/// Headers before the message of a packet of IPv6, its own aside.
const EXTENSIONS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::classify::InterfaceId;

    fn packet(source: &str, destination: &str, alert: bool) -> Packet {
        let address = |text: &str| text.parse().expect("a row has addresses");
        let (source, destination) = (address(source), address(destination));
        let interface = InterfaceId(0);
        Packet { interface, source, destination, ttl: 61, alert, bytes: vec![7; 9] }
    }

    #[test]
    fn what_was_written_is_read() {
        for alert in [false, true] {
            for (source, destination) in [("10.0.0.1", "224.1.2.3"), ("fd00::1", "fd00::2")] {
                let packet = packet(source, destination, alert);
                let bytes = write(&packet);
                let headers = read(&bytes).expect("a packet of RSVP");
                assert_eq!(bytes[headers.message.clone()], packet.bytes[..]);
                let message = headers.message.clone();
                let Packet { source, destination, ttl, .. } = packet;
                let expected = Headers { source, destination, ttl, alert, message };
                assert_eq!(headers, expected);
                if source.is_ipv4() {
                    assert_eq!(ones_sum(&bytes[..headers.message.start]), 0xffff, "a sound sum");
                }
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_a_fragment_is_none() {
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let bytes = write(&packet(source, destination, true));
            for len in 0..bytes.len() {
                assert_eq!(read(&bytes[..len]), None, "{len} bytes of {source}");
            }
        }
        let mut fragment = write(&packet("10.0.0.1", "10.0.0.2", false));
        fragment[7] = 1;
        assert_eq!(read(&fragment), None);
    }
}
