//! Segments as values: the fields of a TCP header and the length of the data, without the data.
//!
//! Invariant: [`Segment::header_len`] is what Linux's layout of the same options takes
//! (`tcp_options_write`), so that a length on the wire is right to the byte.

use crate::ecn::option_len;
use crate::report::Cause;
use crate::seq::SeqNumber;
use core::ops::{BitOr, BitOrAssign};

/// The flags of a TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No flag is set.
    pub const NONE: Flags = Flags(0);
    /// No more data follows.
    pub const FIN: Flags = Flags(1);
    /// A connection is opened: the first number is that of the SYN.
    pub const SYN: Flags = Flags(2);
    /// The connection is reset.
    pub const RST: Flags = Flags(4);
    /// The data is to be handed to the application.
    pub const PSH: Flags = Flags(8);
    /// The acknowledgement number is valid.
    pub const ACK: Flags = Flags(16);
    /// A congestion mark is echoed.
    pub const ECE: Flags = Flags(64);
    /// The congestion window was reduced.
    pub const CWR: Flags = Flags(128);
    /// Accurate ECN, formerly the nonce sum.
    pub const AE: Flags = Flags(256);

    /// Returns whether all of `flags` are set.
    pub const fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns these flags with `flags` set if `set`, and as they are otherwise.
    pub const fn with(self, flags: Flags, set: bool) -> Flags {
        if set { Flags(self.0 | flags.0) } else { self }
    }

    /// Returns the three flags of accurate ECN as a number, AE first [rfc9768 §3.1].
    pub const fn ace(self) -> u8 {
        ((self.0 & Self::AE.0) >> 6 | (self.0 & Self::CWR.0) >> 6 | (self.0 & Self::ECE.0) >> 6)
            as u8
    }

    /// Returns the flags AE, CWR and ECE of this number.
    pub const fn from_ace(ace: u8) -> Flags {
        Flags((ace as u16 & 7) << 6)
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// The codepoint of explicit congestion notification in the IP header [rfc3168 §5].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ecn {
    /// The transport takes no marks.
    #[default]
    NotEct,
    /// The transport takes marks, and answers them as L4S [rfc9331 §4].
    Ect1,
    /// The transport takes marks.
    Ect0,
    /// A queue marked the packet.
    Ce,
}

/// A block of a selective acknowledgement [rfc2018 §3].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SackBlock {
    /// The first number received.
    pub start: SeqNumber,
    /// The number after the last one received.
    pub end: SeqNumber,
}

/// Up to four blocks of selective acknowledgement; the first may report a duplicate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; 4],
    count: u8,
}

impl SackBlocks {
    /// An empty list.
    pub const fn new() -> Self {
        const EMPTY: SackBlock = SackBlock { start: SeqNumber(0), end: SeqNumber(0) };
        Self { blocks: [EMPTY; 4], count: 0 }
    }

    /// Adds a block; the fifth and later ones are left out.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    /// Leaves out all blocks but the first `count`.
    pub(crate) fn truncate(&mut self, count: u32) {
        self.count = self.count.min(count.min(4) as u8);
    }

    /// Returns the blocks in the order in which they were added.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The timestamps option [rfc7323 §3].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Timestamps {
    /// The sender's clock, in a unit that it chooses.
    pub value: u32,
    /// The newest value from the other side.
    pub echo: u32,
}

/// The option of accurate ECN [rfc9768 §3.2.3]: counters of bytes received, 24 bits each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AccEcn {
    /// Bytes that came as ECT(0).
    pub ect0: u32,
    /// Bytes that came with a congestion mark.
    pub ce: u32,
    /// Bytes that came as ECT(1).
    pub ect1: u32,
    /// How many of the three counters are there: an option is cut if there is no room.
    pub fields: u8,
    /// Whether ECT(1) comes first.
    pub ect1_first: bool,
}

/// A segment of TCP, without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// The next number expected; valid with [`Flags::ACK`].
    pub ack: SeqNumber,
    /// The flags of the header.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// The bytes of data; more than `mss` if it stands for a burst of several segments.
    pub length: u32,
    /// How many bytes a segment of a burst has at most; 0 without data.
    pub mss: u16,
    /// The largest segment that the sender of this SYN takes.
    pub mss_option: Option<u16>,
    /// By how much windows are shifted, in a SYN.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements may be sent, in a SYN.
    pub sack_permitted: bool,
    /// The timestamps option, if the segment has it.
    pub timestamps: Option<Timestamps>,
    /// Blocks of selective acknowledgement.
    pub sack: SackBlocks,
    /// The codepoint of the IP header.
    pub ecn: Ecn,
    /// The option of accurate ECN.
    pub acc_ecn: Option<AccEcn>,
    /// Why the data is sent again; `None` for the first time. Not on the wire: for reports.
    pub again: Option<Cause>,
}

impl Segment {
    /// Returns the bytes of the TCP header with its options, padded as Linux does.
    pub fn header_len(&self) -> u32 {
        let mss = if self.mss_option.is_some() { 4 } else { 0 };
        // Padding of two bytes precedes timestamps; SACK permitted takes its place.
        let stamps = match (self.timestamps.is_some(), self.sack_permitted) {
            (true, _) => 12,
            (false, true) => 4,
            (false, false) => 0,
        };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let sack = match self.sack.as_slice().len() as u32 {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        let blocks = self.sack.as_slice().len() as u32;
        let acc_ecn = self.acc_ecn.map_or(0, |option| option_len(option.fields, blocks));
        20 + mss + stamps + scale + sack + acc_ecn
    }

    /// Returns how many segments on the wire this is: several for a burst.
    pub fn count(&self) -> u32 {
        if self.mss == 0 { 1 } else { self.length.div_ceil(u32::from(self.mss)).max(1) }
    }

    /// Returns the sequence numbers that this takes: data, SYN and FIN.
    pub const fn sequence_len(&self) -> u64 {
        self.length as u64 + self.flags.has(Flags::SYN) as u64 + self.flags.has(Flags::FIN) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_long_as_linux_makes_them() {
        let stamps = Some(Timestamps::default());
        let plain = Segment::default();
        let syn = Segment { mss_option: Some(1460), window_scale: Some(7), ..plain };
        let mut sack = SackBlocks::new();
        sack.push(SackBlock::default());
        let rows = [
            (plain, 20),
            (Segment { timestamps: stamps, ..plain }, 32),
            (Segment { timestamps: stamps, sack_permitted: true, ..syn }, 40),
            (Segment { sack_permitted: true, ..syn }, 32),
            (Segment { sack, ..plain }, 32),
            (Segment { sack, timestamps: stamps, ..plain }, 44),
        ];
        for (segment, expected) in rows {
            assert_eq!(segment.header_len(), expected, "{segment:?}");
        }
    }

    #[test]
    fn three_flags_are_a_number() {
        for ace in 0..8 {
            assert_eq!(Flags::from_ace(ace).ace(), ace);
        }
        assert_eq!((Flags::AE | Flags::ECE).ace(), 5);
    }
}
