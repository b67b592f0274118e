//! Frames as inference sees them: whose they are, how long, and what a segment of TCP says.
//!
//! Reading is total: of bytes that are cut or damaged, [`Seen::of`] says what they are not. Numbers
//! of TCP come from the captured bytes; lengths come from the IP header, so that a snap length that
//! keeps the headers loses nothing.

use std::net::{IpAddr, SocketAddr};
use weir_core::packet::{Addresses, Fragment, Headers, Protocol};
use weir_core::units::Instant;

/// A frame that passed a point.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'f> {
    /// When.
    pub at: Instant,
    /// Where.
    pub place: Where,
    /// Its headers.
    pub headers: Headers,
    /// Its length as an Ethernet frame without check sequence.
    pub length: u32,
    /// The captured bytes.
    pub bytes: &'f [u8],
    /// Counts the frames of a record; a frame has one number on its way in and out.
    pub number: Option<u64>,
}

/// Where a frame was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// At the one point of a capture.
    Point,
    /// At the first (0, inside) or second (1, outside) of two captures.
    OneOfTwo(u16),
    /// It came to this direction of a link.
    Enters(u16),
    /// It left this direction of a link.
    Leaves(u16),
}

/// Where a frame was seen, from its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the one point between both hosts.
    Between,
    /// At the point next to its sender.
    NearSender,
    /// At the point next to its receiver.
    NearReceiver,
}

/// The two ends of a flow, its protocol, and its VLAN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The smaller end first.
    pub ends: [SocketAddr; 2],
    /// The protocol of IP.
    pub protocol: u8,
    /// The outer VLAN's number; 0 without a tag.
    pub vlan: u16,
}

/// The numbers of a segment of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The number of its first byte.
    pub seq: u32,
    /// The next number that its sender expects.
    pub ack: u32,
    /// The flags, from FIN in the lowest bit to AE in the ninth.
    pub flags: u16,
    /// The window field, not scaled.
    pub window: u16,
    /// Its bytes of data.
    pub payload: u32,
    /// The largest segment that the sender of this SYN takes.
    pub mss: Option<u16>,
    /// By how much windows are shifted, in a SYN.
    pub scale: Option<u8>,
    /// Whether selective acknowledgements may be sent, in a SYN.
    pub sack_permitted: bool,
    /// The sender's timestamp, and the one that it returns.
    pub stamps: Option<(u32, u32)>,
    /// The codepoint of ECN in the IP header.
    pub ecn: u8,
}

impl Segment {
    /// FIN.
    pub const FIN: u16 = 1;
    /// SYN.
    pub const SYN: u16 = 2;
    /// RST.
    pub const RST: u16 = 4;
    /// ACK.
    pub const ACK: u16 = 16;
    /// ECE.
    pub const ECE: u16 = 64;
    /// CWR.
    pub const CWR: u16 = 128;
    /// AE, of accurate ECN.
    pub const AE: u16 = 256;

    /// Returns whether any of `flags` is set.
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}

/// Why a frame belongs to no flow whose packets are modelled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Odd {
    /// It has no IP header that was read.
    NoIp,
    /// A fragment other than the first.
    Fragment,
    /// A protocol without ports: a tunnel, ICMP or another one.
    NoPorts(u8),
    /// Too few bytes were captured to read its ports.
    Cut,
}

impl Seen<'_> {
    /// Returns the flow of the frame, and the place of its sender among the ends.
    pub fn flow(&self) -> Result<(Key, usize), Odd> {
        let headers = &self.headers;
        let (Some(source), Some(destination)) =
            (headers.addresses.source(), headers.addresses.destination())
        else {
            return Err(Odd::NoIp);
        };
        if matches!(headers.fragment, Fragment::Later { .. }) {
            return Err(Odd::Fragment);
        }
        let Some(protocol) = headers.protocol else { return Err(Odd::Cut) };
        let Some(ports) = headers.ports else {
            return Err(if protocol.has_ports() { Odd::Cut } else { Odd::NoPorts(protocol.0) });
        };
        let from = SocketAddr::new(source, ports.source);
        let to = SocketAddr::new(destination, ports.destination);
        Ok(self.keyed(from, to, protocol))
    }

    /// Returns the pair of hosts of a frame without ports as a flow.
    pub fn hosts(&self) -> Option<(Key, usize)> {
        let addresses = &self.headers.addresses;
        let end = |address: IpAddr| SocketAddr::new(address, 0);
        let (from, to) = (end(addresses.source()?), end(addresses.destination()?));
        Some(self.keyed(from, to, self.headers.protocol.unwrap_or(Protocol(UNKNOWN))))
    }

    fn keyed(&self, from: SocketAddr, to: SocketAddr, protocol: Protocol) -> (Key, usize) {
        let vlan = self.headers.vlan.map_or(0, |tag| tag.id());
        let side = usize::from(to < from);
        let ends = if side == 0 { [from, to] } else { [to, from] };
        (Key { ends, protocol: protocol.0, vlan }, side)
    }

    /// Returns the segment of TCP in the frame; `None` if too few bytes of its header are there, or
    /// they make no sense.
    pub fn segment(&self) -> Option<Segment> {
        let packet = self.bytes.get(usize::from(self.headers.link_len)..)?;
        let ip = ip_header(packet, &self.headers)?;
        let header = packet.get(ip..)?;
        let fixed: &[u8; 20] = header.first_chunk()?;
        let offset = usize::from(fixed[12] >> 4) * 4;
        let whole = self.headers.network_len.unwrap_or_else(|| {
            // A segment that the card will cut has no length: the frame's counts.
            self.length.saturating_sub(u32::from(self.headers.link_len))
        });
        let payload = whole.checked_sub((ip + offset) as u32).filter(|_| offset >= 20)?;
        let four = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let mut segment = Segment {
            seq: four(4),
            ack: four(8),
            flags: u16::from_be_bytes([fixed[12], fixed[13]]) & 0x1ff,
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            payload,
            ecn: self.headers.traffic_class.unwrap_or(0) & 3,
            ..Segment::default()
        };
        options(header.get(20..offset.min(header.len()))?, &mut segment);
        Some(segment)
    }
}

/// Returns the length of the IP header with its extensions.
fn ip_header(packet: &[u8], headers: &Headers) -> Option<usize> {
    if let Addresses::V4 { .. } = headers.addresses {
        return Some(usize::from(packet.first()? & 0x0f) * 4);
    }
    let mut next = *packet.get(6)?;
    let mut at = 40;
    for _ in 0..weir_core::packet::EXTENSIONS_MAX {
        if !Protocol(next).is_extension() {
            break;
        }
        let length = usize::from(*packet.get(at + 1)?);
        let kind = Protocol(std::mem::replace(&mut next, *packet.get(at)?));
        at += match kind {
            Protocol::FRAGMENT => 8,
            Protocol::AH => (length + 2) * 4,
            _ => (length + 1) * 8,
        };
    }
    (next == Protocol::TCP.0).then_some(at)
}

/// Reads the options of a segment; what is cut or makes no sense ends them.
fn options(mut rest: &[u8], segment: &mut Segment) {
    while let [kind, after @ ..] = rest {
        match kind {
            0 => return,
            1 => {
                rest = after;
                continue;
            }
            _ => {}
        }
        let Some(length) = after.first().map(|length| usize::from(*length)) else { return };
        let Some(value) = rest.get(2..length) else { return };
        match (kind, value) {
            (2, [high, low]) => segment.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => segment.scale = Some((*shift).min(SCALE_MAX)),
            (4, []) => segment.sack_permitted = true,
            (8, [a, b, c, d, e, f, g, h]) => {
                let four = u32::from_be_bytes;
                segment.stamps = Some((four([*a, *b, *c, *d]), four([*e, *f, *g, *h])));
            }
            _ => {}
        }
        rest = &rest[length..];
    }
}

/// [rfc7323 §2.3] Larger shifts count as this.
const SCALE_MAX: u8 = 14;
/// The protocol of a packet that does not say: "reserved".
const UNKNOWN: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Segment) {
        let mut segment = Segment::default();
        options(bytes, &mut segment);
        assert_eq!(segment, expected, "{bytes:?}");
    }

    #[test]
    fn options_are_read_as_far_as_they_make_sense() {
        let none = Segment::default();
        check(&[], none);
        check(&[1, 1, 3, 3, 7], Segment { scale: Some(7), ..none });
        check(&[3, 3, 200], Segment { scale: Some(14), ..none });
        check(&[2, 4, 5, 0xb4, 4, 2], Segment { mss: Some(1460), sack_permitted: true, ..none });
        let stamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        check(&stamps, Segment { stamps: Some((1, 2)), ..none });
        // An end, a length of 0 and 1, a cut option.
        check(&[0, 4, 2], none);
        check(&[4, 0, 4, 2], none);
        check(&[4, 1, 4, 2], none);
        check(&stamps[..9], none);
        check(&[2], none);
    }
}
