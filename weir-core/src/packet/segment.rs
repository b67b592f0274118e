//! A TCP segment as a queue sees it that drops acknowledgements which a later one makes redundant
//! `[linux]` [algorithms §9.20].
//!
//! [`Segment::read`] is total: bytes that are no whole TCP header give none. IPv6 in IPv4 is read
//! through, other tunnels and extension headers are not, as in `sch_cake`.

use super::parse::{be16, be32};
use super::{Headers, Protocol};
use crate::state::state;

/// The parts of a TCP segment that say whether it may be dropped because of a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// 4 or 6.
    version: u8,
    source: u128,
    destination: u128,
    /// That of the source in the upper half.
    ports: u32,
    acknowledged: u32,
    /// The four reserved bits and the eight flags.
    flags: u16,
    /// Bytes behind the TCP header, as the IP header says; negative if it says nonsense.
    payload: i32,
    /// Whether its options are such that nothing is lost with it.
    is_plain: bool,
    /// Its timestamp, and the one that it echoes; 0 without.
    stamps: [u32; 2],
    /// Whether it has timestamps.
    has_stamps: bool,
    /// How many ranges it acknowledges selectively.
    ranges: u8,
    /// The begin of each range in the upper half, its end in the lower.
    selective: [u64; RANGES_MAX],
}

impl Segment {
    /// Reads the segment of a packet with these headers, which `frame` begins with.
    pub fn of_frame(frame: &[u8], headers: &Headers) -> Option<Segment> {
        (headers.protocol == Some(Protocol::TCP) || headers.protocol == Some(IPV6_IN_IPV4))
            .then(|| Segment::read(frame.get(usize::from(headers.link_len)..)?))?
    }

    /// Reads the segment of an IP packet.
    pub fn read(packet: &[u8]) -> Option<Segment> {
        let (mut segment, tcp) = match packet.first()? >> 4 {
            4 => ipv4(packet)?,
            6 => ipv6(packet)?,
            _ => return None,
        };
        let header_len = usize::from(tcp.get(12)? >> 4) * 4;
        if header_len < TCP_LEN_MIN {
            return None;
        }
        let header = tcp.get(..header_len)?;
        segment.payload -= header_len as i32;
        segment.ports = be32(header, 0)?;
        segment.acknowledged = be32(header, 8)?;
        segment.flags = be16(header, 12)? & ALL_FLAGS;
        segment.read_options(&header[TCP_LEN_MIN..]);
        Some(segment)
    }

    /// Returns whether `self`, which has just come, may make others redundant: it acknowledges,
    /// and opens no connection.
    pub fn acknowledges(&self) -> bool {
        self.flags & (ACK | SYN) == ACK
    }

    /// Returns whether both are of one connection and one direction.
    pub fn is_kin(&self, other: &Segment) -> bool {
        let Segment { version, source, destination, ports, .. } = other;
        (self.version, self.source) == (*version, *source)
            && (self.destination, self.ports) == (*destination, *ports)
    }

    /// Returns the flags by which receivers report marks.
    pub fn echoes(&self) -> u16 {
        self.flags & ECHOES
    }

    /// Returns whether nothing is lost with `self` if `later` arrives, which is of the same
    /// connection: it has no data and no other message, acknowledges no more and no other ranges.
    pub fn is_redundant_beside(&self, later: &Segment) -> bool {
        if self.flags & !ECHOES != ACK || !self.is_plain || self.payload != 0 {
            return false;
        }
        let is_newer = |(own, other): (&u32, &u32)| is_after(*own, *other);
        let mut stamps = self.stamps.iter().zip(&later.stamps);
        if self.has_stamps && stamps.any(is_newer)
            || is_after(self.acknowledged, later.acknowledged)
        {
            return false;
        }
        match self.covered_by(later) {
            None => false,
            Some(is_more) => is_more || self.acknowledged != later.acknowledged,
        }
    }

    /// Returns whether `later` acknowledges selectively all that `self` does, and if so whether it
    /// acknowledges more bytes; a report of a duplicate is never covered.
    fn covered_by(&self, later: &Segment) -> Option<bool> {
        let (own, theirs) = (self.selective(), later.selective());
        if self.ranges == 0 || later.ranges == 0 {
            return (self.ranges == 0).then_some(later.ranges > 0);
        }
        let covers = |&(start, end): &(u32, u32)| {
            theirs.clone().any(|(other, last)| !is_after(other, start) && !is_after(end, last))
        };
        let is_covered =
            |range: (u32, u32)| !is_after(self.acknowledged, range.0) && covers(&range);
        if !own.clone().all(is_covered) {
            return None;
        }
        Some(bytes(theirs) > bytes(own))
    }

    /// Returns the ranges that it acknowledges selectively.
    fn selective(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        let ranges = self.selective[..usize::from(self.ranges)].iter();
        ranges.map(|range| ((range >> 32) as u32, *range as u32))
    }

    fn read_options(&mut self, options: &[u8]) {
        self.is_plain = true;
        let mut rest = options;
        let mut has_ranges = false;
        // Terminates: each option takes a byte of the rest.
        while let Some((&kind, behind)) = rest.split_first() {
            if kind == END_OF_OPTIONS {
                return;
            }
            if kind == NO_OPERATION {
                rest = behind;
                continue;
            }
            let Some(length) = behind.first().map(|&length| usize::from(length)) else { return };
            let Some(value) = rest.get(..length).and_then(|option| option.get(2..)) else { return };
            rest = &rest[length..];
            match kind {
                SIGNATURE => {}
                SELECTIVE => {
                    self.is_plain &= value.len() % RANGE_LEN == 0;
                    if !has_ranges {
                        self.read_ranges(value);
                    }
                    has_ranges = true;
                }
                TIMESTAMPS => self.read_stamps(value),
                _ => self.is_plain = false,
            }
        }
    }

    fn read_ranges(&mut self, value: &[u8]) {
        let ranges = value.chunks_exact(RANGE_LEN).take(RANGES_MAX);
        for (place, range) in self.selective.iter_mut().zip(ranges) {
            *place = u64::from_be_bytes(*range.first_chunk().expect("a range has eight bytes"));
            self.ranges += 1;
        }
    }

    /// Reads timestamps; a segment that has them twice is not dropped, which Linux would do if both
    /// are old.
    fn read_stamps(&mut self, value: &[u8]) {
        self.is_plain &= value.len() == STAMPS_LEN && !self.has_stamps;
        if let (Some(own), Some(echoed), STAMPS_LEN) = (be32(value, 0), be32(value, 4), value.len())
            && !self.has_stamps
        {
            (self.stamps, self.has_stamps) = ([own, echoed], true);
        }
    }
}

/// Returns addresses, and the length of TCP's header and payload, of an IPv4 packet, and its bytes
/// from TCP on.
fn ipv4(packet: &[u8]) -> Option<(Segment, &[u8])> {
    let header_len = usize::from(packet.first()? & 0x0f) * 4;
    let rest = packet.get(header_len..)?;
    match Protocol(*packet.get(9)?) {
        IPV6_IN_IPV4 => return ipv6(rest),
        // A later fragment has no header.
        Protocol::TCP if be16(packet, 6)? & 0x1fff == 0 => {}
        _ => return None,
    }
    let segment = Segment {
        version: 4,
        source: u128::from(be32(packet, 12)?),
        destination: u128::from(be32(packet, 16)?),
        payload: i32::from(be16(packet, 2)?) - header_len as i32,
        ..Segment::default()
    };
    Some((segment, rest))
}

/// As [`ipv4`], of an IPv6 packet.
fn ipv6(packet: &[u8]) -> Option<(Segment, &[u8])> {
    if packet.first()? >> 4 != 6 || Protocol(*packet.get(6)?) != Protocol::TCP {
        return None;
    }
    let address = |at: usize| Some(u128::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    let segment = Segment {
        version: 6,
        source: address(8)?,
        destination: address(24)?,
        payload: i32::from(be16(packet, 4)?),
        ..Segment::default()
    };
    Some((segment, packet.get(IPV6_LEN..)?))
}

/// Returns whether a sequence number comes after another one, as these wrap around.
const fn is_after(one: u32, other: u32) -> bool {
    (other.wrapping_sub(one) as i32) < 0
}

/// Returns the sum of the lengths of ranges, as these wrap around.
fn bytes(ranges: impl Iterator<Item = (u32, u32)>) -> u32 {
    ranges.fold(0, |sum: u32, (start, end)| sum.wrapping_add(end.wrapping_sub(start)))
}

/// The number of IPv6 as the payload of IPv4.
const IPV6_IN_IPV4: Protocol = Protocol(41);
const IPV6_LEN: usize = 40;
const TCP_LEN_MIN: usize = 20;
/// Bound: ranges of one segment; forty bytes of options hold no more.
const RANGES_MAX: usize = 4;
const RANGE_LEN: usize = 8;
const STAMPS_LEN: usize = 8;

/// Reserved bits and flags, as they stand in two bytes of the header.
const ALL_FLAGS: u16 = 0x0fff;
const ACK: u16 = 0x10;
const SYN: u16 = 0x02;
/// ECE and CWR.
const ECHOES: u16 = 0xc0;

/// Kinds of options, from the registry of IANA.
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const SELECTIVE: u8 = 5;
const TIMESTAMPS: u8 = 8;
const SIGNATURE: u8 = 19;

state!(Segment {
    version, source, destination, ports, acknowledged, flags, payload, is_plain, stamps,
    has_stamps, ranges, selective;
    check: |segment: &Self| usize::from(segment.ranges) <= RANGES_MAX
});
