//! Finishes work that a sender left to hardware: completes partial checksums and cuts super-packets
//! into the frames that would have been on the wire.
//!
//! A sender on the same machine leaves TCP and UDP checksums unfinished and hands over TCP
//! super-packets of up to 64 kB; both arrive at a packet socket with a `virtio_net_hdr` that says
//! so. Weir schedules frames as they will be on the wire, so it finishes them before scheduling.
//!
//! Invariant: pure functions over byte slices; every offset taken from a header is checked, so a
//! hostile header gives an [`OffloadError`], never a panic. [`plan`] reads, [`Plan::write`] copies.

pub(crate) mod unfinished;

use crc::{CRC_32_ISCSI, Crc};
use std::fmt;

/// Length of the `virtio_net_hdr` that precedes a frame, in bytes.
pub const OFFLOAD_HEADER_LEN: usize = 10;
/// Length of one VLAN tag, in bytes.
pub const TAG_LEN: usize = 4;
/// More frames than this from one super-packet are refused: 64 kB at the smallest MSS Linux
/// sends (48 bytes) makes 1366.
pub const SEGMENTS_MAX: usize = 2048;

const FLAG_NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

const ADDRESSES_LEN: usize = 12;
const ETHERTYPE_IP4: u16 = 0x0800;
const ETHERTYPE_IP6: u16 = 0x86dd;
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TAGS_IN_BAND_MAX: usize = 4;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_SCTP: u8 = 132;
/// The offset of the checksum in an SCTP header.
const SCTP_FIELD: u16 = 8;
const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// The work that the sender left undone, from the kernel's `virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadHeader {
    /// Bit 0: the checksum at `csum_start + csum_offset` is partial.
    pub flags: u8,
    /// The kind of super-packet; 0 for an ordinary frame.
    pub gso_type: u8,
    /// Payload bytes in each frame of the super-packet.
    pub gso_size: u16,
    /// Where the checksummed part starts, in bytes from the start of the frame.
    pub csum_start: u16,
    /// The offset of the checksum, in bytes from `csum_start`.
    pub csum_offset: u16,
}

impl OffloadHeader {
    /// Reads the header from a packet socket, in the byte order of this machine.
    pub fn parse(bytes: &[u8; OFFLOAD_HEADER_LEN]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Returns whether there is nothing to finish.
    pub fn is_plain(&self) -> bool {
        self.flags & FLAG_NEEDS_CHECKSUM == 0 && self.gso_type == GSO_NONE
    }
}

/// A VLAN tag that the kernel removed from the frame and delivered beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// 0x8100 (802.1Q) or 0x88a8 (802.1ad).
    pub tpid: u16,
    /// Priority, drop eligibility and VLAN number.
    pub tci: u16,
}

/// Why a frame could not be finished; such a frame is dropped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadError {
    /// A header, or the checksum's place, is beyond the end of the frame.
    Short,
    /// A kind of super-packet that is neither TCP nor UDP segmentation.
    UnknownKind(u8),
    /// The frame's own headers do not match the kind of super-packet.
    NotAsDeclared,
    /// Zero bytes a frame, or more than [`SEGMENTS_MAX`] frames.
    BadSize,
}

impl fmt::Display for OffloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "a header reaches beyond the end of the frame"),
            Self::UnknownKind(kind) => write!(f, "super-packet of unknown kind {kind}"),
            Self::NotAsDeclared => write!(f, "headers do not match the super-packet's kind"),
            Self::BadSize => write!(f, "super-packet of no or too many frames"),
        }
    }
}

impl std::error::Error for OffloadError {}

/// How to finish one received frame: as it is, or as several frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// One frame; if set, complete this checksum.
    Whole {
        /// The checksum that the sender left unfinished.
        checksum: Option<Partial>,
    },
    /// A super-packet to be cut.
    Cut(Cut),
}

/// An unfinished checksum; the offsets are within the frame it was planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    start: usize,
    field: usize,
    is_crc: bool,
}

/// The parts of a super-packet; every offset is within the frame it was planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    network: usize,
    transport: usize,
    payload: usize,
    end: usize,
    size: usize,
    is_ip6: bool,
    is_tcp: bool,
    has_checksum: bool,
}

/// Decides how to finish `frame`, which starts at its destination address.
pub fn plan(frame: &[u8], header: &OffloadHeader) -> Result<Plan, OffloadError> {
    let kind = header.gso_type & !GSO_ECN;
    if kind != GSO_NONE {
        return plan_cut(frame, header, kind);
    }
    if header.flags & FLAG_NEEDS_CHECKSUM == 0 {
        return Ok(Plan::Whole { checksum: None });
    }
    let start = usize::from(header.csum_start);
    let field = start + usize::from(header.csum_offset);
    let is_crc = header.csum_offset == SCTP_FIELD && is_sctp(frame);
    let field_len = if is_crc { 4 } else { 2 };
    // The tag goes in after the addresses: a checksum among them could not be moved behind it.
    if start < ADDRESSES_LEN || field + field_len > frame.len() {
        return Err(OffloadError::Short);
    }
    Ok(Plan::Whole { checksum: Some(Partial { start, field, is_crc }) })
}

impl Plan {
    /// Returns how many frames [`Plan::write`] makes of the received one.
    pub fn count(&self) -> usize {
        match self {
            Self::Whole { .. } => 1,
            Self::Cut(cut) => cut.count(),
        }
    }

    /// Returns the length in bytes of the longest frame that [`Plan::write`] makes.
    pub fn longest(&self, frame: &[u8], tag: Option<Tag>) -> usize {
        let tag_len = tag.map_or(0, |_| TAG_LEN);
        match self {
            Self::Whole { .. } => frame.len() + tag_len,
            Self::Cut(cut) => cut.payload + cut.size.min(cut.end - cut.payload) + tag_len,
        }
    }

    /// Writes finished frame `index` of `frame` into `out`, with `tag` put back, and returns its
    /// length; `None` if `out` is too short. `frame` is the one this plan was made for.
    pub fn write(
        &self,
        frame: &[u8],
        tag: Option<Tag>,
        index: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        match self {
            Self::Whole { checksum } => {
                let shift = copy_tagged(frame, tag, out)?;
                let len = frame.len() + shift;
                if let Some(partial) = checksum {
                    partial.complete(&mut out[shift..len]);
                }
                Some(len)
            }
            Self::Cut(cut) => cut.write(frame, tag, index, out),
        }
    }
}

impl Partial {
    fn complete(&self, frame: &mut [u8]) {
        if self.is_crc {
            // [RFC 9260 appendix A] Over all bytes with the field zero; the only checksum sent low
            // byte first.
            frame[self.field..self.field + 4].fill(0);
            let crc = CRC32C.checksum(&frame[self.start..]);
            frame[self.field..self.field + 4].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        // The field holds the sum of the pseudo-header; adding the covered bytes finishes it.
        let mut sum = Sum::default();
        sum.add(&frame[self.start..]);
        put(frame, self.field, finish(sum));
    }
}

impl Cut {
    fn count(&self) -> usize {
        (self.end - self.payload).div_ceil(self.size).max(1)
    }

    fn write(&self, frame: &[u8], tag: Option<Tag>, index: usize, out: &mut [u8]) -> Option<usize> {
        let count = self.count();
        let from = (self.payload + index * self.size).min(self.end);
        let to = (from + self.size).min(self.end);
        let shift = copy_tagged(&frame[..self.payload], tag, out)?;
        let len = shift + self.payload + (to - from);
        out.get_mut(shift + self.payload..len)?.copy_from_slice(&frame[from..to]);
        let offset = u32::try_from(from - self.payload).ok()?;
        // Offsets from here on are those of the frame without the tag, as planned.
        let segment = &mut out[shift..len];
        self.fix_network(segment, index);
        if self.is_tcp {
            self.fix_tcp(segment, offset, index == 0, index + 1 == count);
        } else {
            put(segment, self.transport + 4, length16(segment.len() - self.transport));
        }
        self.fix_checksum(segment);
        Some(len)
    }

    fn fix_network(&self, segment: &mut [u8], index: usize) {
        if self.is_ip6 {
            put(segment, self.network + 4, length16(segment.len() - self.network - IP6_LEN));
            return;
        }
        put(segment, self.network + 2, length16(segment.len() - self.network));
        // As Linux does for a super-packet: one identification a frame, counting up.
        let id = word(segment, self.network + 4).wrapping_add(index as u16);
        put(segment, self.network + 4, id);
        put(segment, self.network + 10, 0);
        let mut sum = Sum::default();
        sum.add(&segment[self.network..self.network_header_end()]);
        put(segment, self.network + 10, !sum.fold());
    }

    fn network_header_end(&self) -> usize {
        self.transport
    }

    fn fix_tcp(&self, segment: &mut [u8], offset: u32, first: bool, last: bool) {
        let at = self.transport;
        let field = [segment[at + 4], segment[at + 5], segment[at + 6], segment[at + 7]];
        let sequence = u32::from_be_bytes(field).wrapping_add(offset);
        segment[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
        // FIN and PSH belong to the last frame; CWR, which reports a reduced window, to the first.
        if !last {
            segment[at + 13] &= !TCP_FIN_PSH;
        }
        if !first {
            segment[at + 13] &= !TCP_CWR;
        }
    }

    fn fix_checksum(&self, segment: &mut [u8]) {
        let field = self.transport + if self.is_tcp { 16 } else { 6 };
        put(segment, field, 0);
        if !self.has_checksum {
            return;
        }
        let mut sum = Sum::default();
        let addresses = if self.is_ip6 { 8..40 } else { 12..20 };
        sum.add(&segment[self.network + addresses.start..self.network + addresses.end]);
        sum.add_word(u16::from(if self.is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP }));
        sum.add_word(length16(segment.len() - self.transport));
        sum.add(&segment[self.transport..]);
        put(segment, field, finish(sum));
    }
}

const IP6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const TCP_LEN_MIN: usize = 20;

fn plan_cut(frame: &[u8], header: &OffloadHeader, kind: u8) -> Result<Plan, OffloadError> {
    let is_tcp = match kind {
        GSO_TCP4 | GSO_TCP6 => true,
        GSO_UDP_L4 => false,
        other => return Err(OffloadError::UnknownKind(other)),
    };
    let (ethertype, network) = network_start(frame)?;
    let protocol = if is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
    let (is_ip6, (found, transport, end)) = match (ethertype, kind) {
        (ETHERTYPE_IP4, GSO_TCP4 | GSO_UDP_L4) => (false, ip4_parts(frame, network)?),
        (ETHERTYPE_IP6, GSO_TCP6 | GSO_UDP_L4) => (true, ip6_parts(frame, network)?),
        _ => return Err(OffloadError::NotAsDeclared),
    };
    if found != protocol {
        return Err(OffloadError::NotAsDeclared);
    }
    let payload = transport + transport_len(frame, transport, is_tcp)?;
    if payload > end {
        return Err(OffloadError::Short);
    }
    let partial = header.flags & FLAG_NEEDS_CHECKSUM != 0;
    // [RFC 768] A UDP checksum of zero says that the sender made none.
    let has_checksum = is_tcp || is_ip6 || partial || word(frame, transport + 6) != 0;
    let size = usize::from(header.gso_size);
    let cut = Cut { network, transport, payload, end, size, is_ip6, is_tcp, has_checksum };
    if size == 0 || cut.count() > SEGMENTS_MAX || size + (payload - network) > 0xffff {
        return Err(OffloadError::BadSize);
    }
    Ok(Plan::Cut(cut))
}

/// Returns whether the packet is SCTP, which leaves a CRC unfinished; the header does not
/// distinguish that from a sum.
fn is_sctp(frame: &[u8]) -> bool {
    let parts = match network_start(frame) {
        Ok((ETHERTYPE_IP4, network)) => ip4_parts(frame, network),
        Ok((ETHERTYPE_IP6, network)) => ip6_parts(frame, network),
        _ => return false,
    };
    parts.is_ok_and(|(protocol, _, _)| protocol == PROTOCOL_SCTP)
}

/// Returns the ethertype behind any tags still in the frame, and where the network header starts.
fn network_start(frame: &[u8]) -> Result<(u16, usize), OffloadError> {
    let mut at = ADDRESSES_LEN;
    for _ in 0..=TAGS_IN_BAND_MAX {
        if at + 2 > frame.len() {
            return Err(OffloadError::Short);
        }
        let ethertype = word(frame, at);
        if !ETHERTYPES_VLAN.contains(&ethertype) {
            return Ok((ethertype, at + 2));
        }
        at += TAG_LEN;
    }
    Err(OffloadError::NotAsDeclared)
}

/// Returns protocol, start of the transport header and end of the packet.
fn ip4_parts(frame: &[u8], network: usize) -> Result<(u8, usize, usize), OffloadError> {
    let header = frame.get(network..network + 20).ok_or(OffloadError::Short)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let is_fragment = word(header, 6) & 0x3fff != 0;
    if header[0] >> 4 != 4 || header_len < 20 || is_fragment {
        return Err(OffloadError::NotAsDeclared);
    }
    // A packet too long for the field ("BIG TCP") has zero there and ends with the frame.
    let end = match usize::from(word(header, 2)) {
        0 => frame.len(),
        total => network + total,
    };
    let transport = network + header_len;
    if end > frame.len() || transport > end {
        return Err(OffloadError::Short);
    }
    Ok((header[9], transport, end))
}

/// As [`ip4_parts`], walking the extension headers that may come before the transport header.
fn ip6_parts(frame: &[u8], network: usize) -> Result<(u8, usize, usize), OffloadError> {
    const HOP_BY_HOP: u8 = 0;
    const DESTINATION: u8 = 60;
    let header = frame.get(network..network + IP6_LEN).ok_or(OffloadError::Short)?;
    let payload_len = usize::from(word(header, 4));
    // Zero would be a jumbogram, whose hop-by-hop option would have to be removed.
    if header[0] >> 4 != 6 || payload_len == 0 {
        return Err(OffloadError::NotAsDeclared);
    }
    let end = network + IP6_LEN + payload_len;
    if end > frame.len() {
        return Err(OffloadError::Short);
    }
    let (mut next, mut at) = (header[6], network + IP6_LEN);
    // A routing header is refused with the rest: the sum would need another address.
    while next == HOP_BY_HOP || next == DESTINATION {
        let extension = frame.get(at..at + 2).ok_or(OffloadError::Short)?;
        next = extension[0];
        at += (usize::from(extension[1]) + 1) * 8;
    }
    if at > end { Err(OffloadError::Short) } else { Ok((next, at, end)) }
}

fn transport_len(frame: &[u8], at: usize, is_tcp: bool) -> Result<usize, OffloadError> {
    if !is_tcp {
        return frame.get(at..at + UDP_LEN).map(|_| UDP_LEN).ok_or(OffloadError::Short);
    }
    let header = frame.get(at..at + TCP_LEN_MIN).ok_or(OffloadError::Short)?;
    let len = usize::from(header[12] >> 4) * 4;
    if len < TCP_LEN_MIN { Err(OffloadError::NotAsDeclared) } else { Ok(len) }
}

/// Copies `frame` with `tag` put back after the addresses; returns by how much the rest moved.
fn copy_tagged(frame: &[u8], tag: Option<Tag>, out: &mut [u8]) -> Option<usize> {
    let Some(tag) = tag else {
        out.get_mut(..frame.len())?.copy_from_slice(frame);
        return Some(0);
    };
    if frame.len() < ADDRESSES_LEN {
        return None;
    }
    let out = out.get_mut(..frame.len() + TAG_LEN)?;
    out[..ADDRESSES_LEN].copy_from_slice(&frame[..ADDRESSES_LEN]);
    put(out, ADDRESSES_LEN, tag.tpid);
    put(out, ADDRESSES_LEN + 2, tag.tci);
    out[ADDRESSES_LEN + TAG_LEN..].copy_from_slice(&frame[ADDRESSES_LEN..]);
    // The addresses do not move, the rest moves by one tag: offsets behind them shift equally.
    Some(TAG_LEN)
}

/// [RFC 768] A checksum of zero is sent as all ones; for TCP both are equivalent.
fn finish(sum: Sum) -> u16 {
    match !sum.fold() {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The ones' complement sum of [RFC 1071], in machine order until it is folded.
#[derive(Clone, Copy, Default)]
struct Sum(u64);

impl Sum {
    /// Adds `bytes`; only the last addition may be of odd length.
    fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(4);
        // 2^32 words of 32 bits fit; no frame is that long.
        for word in &mut words {
            self.0 += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        }
        let rest = words.remainder();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_ne_bytes(last));
    }

    fn add_word(&mut self, word: u16) {
        self.0 += u64::from(word.to_be());
    }

    fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::from_be(sum as u16)
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// A length that [`plan_cut`] has checked to fit its field.
fn length16(len: usize) -> u16 {
    u16::try_from(len).expect("plan_cut keeps every segment below 64 KiB")
}

/// The CRC of Castagnoli.
static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

#[cfg(test)]
#[path = "offload_tests.rs"]
mod tests;
