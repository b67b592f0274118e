//! Finishes work that a sender left to hardware: completes partial checksums and cuts super-packets
//! into the frames that would have been on the wire.
//!
//! A sender on the same machine leaves TCP and UDP checksums unfinished and hands over
//! super-packets of up to 64 kB, or 512 kB ("BIG TCP"), also in tunnels; both arrive at a packet
//! socket with a `virtio_net_hdr` that says so. Weir schedules frames as they will be on the wire,
//! so it finishes them before scheduling, and may join what leaves together ([`join`]).
//!
//! Invariant: pure functions over byte slices; every offset taken from a header is checked, so a
//! hostile header gives an [`OffloadError`], never a panic. [`plan`] reads, [`Plan::write`] copies.

mod cut;
pub(crate) mod join;
mod layers;
pub(crate) mod unfinished;

use crc::{CRC_32_ISCSI, Crc};
use std::fmt;
use weir_core::packet::Checksum;

pub use cut::Cut;
use cut::transport_len;
use layers::{
    ADDRESSES_LEN, ETHERNET_LEN, Network, PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP, protocol_of,
};

/// Length of the `virtio_net_hdr` that precedes a frame, in bytes.
pub const OFFLOAD_HEADER_LEN: usize = 10;
/// Length of one VLAN tag, in bytes.
pub const TAG_LEN: usize = 4;
/// Bound: bytes of a super-packet with its headers, the longest that Linux makes: 8 x 65 535 bytes,
/// and a page; a longer one is not read whole and dropped.
pub const SUPER_PACKET_MAX: usize = 8 * 65_535 + 4096;
/// Bound: frames that one super-packet is cut into; one that makes more is refused. 512 kB at the
/// smallest MSS Linux sends (48 bytes) makes 10 923.
pub const SEGMENTS_MAX: usize = 16_384;

const FLAG_NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Set beside the kind where a TCP sender uses explicit congestion notification.
const GSO_ECN: u8 = 0x80;

/// The offsets of the checksums in the headers of TCP, UDP and SCTP.
const TCP_FIELD: u16 = 16;
const UDP_FIELD: u16 = 6;
const SCTP_FIELD: u16 = 8;

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

    /// Returns where the unfinished checksum starts, if there is one.
    fn named(&self) -> Option<usize> {
        (self.flags & FLAG_NEEDS_CHECKSUM != 0).then_some(self.csum_start.into())
    }

    /// Returns how many frames the packet makes that is `len` bytes long and starts with `bytes`,
    /// as far as its header says: for packets too long to be cut.
    pub fn count(&self, bytes: &[u8], len: usize) -> usize {
        let (Ok(Some(kind)), Some(start)) = (self.kind(), self.named()) else { return 1 };
        let Ok(transport_len) = transport_len(bytes, start, kind.is_tcp) else { return 1 };
        let payload = len.saturating_sub(start + transport_len);
        payload.div_ceil(usize::from(self.gso_size).max(1)).clamp(1, SEGMENTS_MAX)
    }

    /// Returns the kind of super-packet; `None` for an ordinary frame.
    fn kind(&self) -> Result<Option<Kind>, OffloadError> {
        match self.gso_type & !GSO_ECN {
            GSO_NONE => Ok(None),
            GSO_TCP4 => Ok(Some(Kind { is_tcp: true, is_ip6: Some(false) })),
            GSO_TCP6 => Ok(Some(Kind { is_tcp: true, is_ip6: Some(true) })),
            GSO_UDP_L4 => Ok(Some(Kind { is_tcp: false, is_ip6: None })),
            other => Err(OffloadError::UnknownKind(other)),
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

/// The protocols of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    is_tcp: bool,
    /// `None` if either version will do.
    is_ip6: Option<bool>,
}

impl Kind {
    /// Returns whether this IP header may be that of the packet that is cut.
    fn takes(&self, network: &Network) -> bool {
        let protocol = if self.is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        network.protocol == protocol && self.is_ip6.is_none_or(|is_ip6| is_ip6 == network.is_ip6)
    }

    fn field(&self) -> u16 {
        if self.is_tcp { TCP_FIELD } else { UDP_FIELD }
    }
}

/// Decides how to finish `frame`, which starts at its destination address.
pub fn plan(frame: &[u8], header: &OffloadHeader) -> Result<Plan, OffloadError> {
    let named = header.named();
    if let Some(kind) = header.kind()? {
        if named.is_some() && header.csum_offset != kind.field() {
            return Err(OffloadError::NotAsDeclared);
        }
        return Cut::plan(frame, kind, named, header.gso_size.into()).map(Plan::Cut);
    }
    let Some(start) = named else { return Ok(Plan::Whole { checksum: None }) };
    let field = start + usize::from(header.csum_offset);
    // The header does not distinguish SCTP's CRC from a sum.
    let is_crc = header.csum_offset == SCTP_FIELD && protocol_of(frame) == Some(PROTOCOL_SCTP);
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

    /// Returns whether [`Plan::write`] makes segments of TCP in IP in Ethernet, which a card or the
    /// kernel would make of the same super-packet.
    pub(crate) fn cuts_plain_tcp(&self) -> bool {
        matches!(self, Self::Cut(cut) if cut.is_plain_tcp())
    }

    /// As this plan, but [`Plan::write`] computes no checksums of plain TCP segments, for who sends
    /// a segment alone to complete ([`join::write_sum`]).
    pub(crate) fn without_sums(self) -> Self {
        match self {
            Self::Cut(cut) => Self::Cut(cut.without_sums()),
            whole @ Self::Whole { .. } => whole,
        }
    }

    /// Returns the length in bytes of the longest frame that [`Plan::write`] makes.
    pub fn longest(&self, frame: &[u8], tag: Option<Tag>) -> usize {
        let tag_len = tag.map_or(0, |_| TAG_LEN);
        match self {
            Self::Whole { .. } => frame.len() + tag_len,
            Self::Cut(cut) => cut.longest() + tag_len,
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
        let mut sum = Checksum::default();
        sum.add(&frame[self.start..]);
        put(frame, self.field, sum.finish_nonzero());
    }
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

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The CRC of Castagnoli.
static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

#[cfg(test)]
mod tests;
