//! How the length on the wire follows from the length of a frame, and the framings with a name.

use crate::packet::Packet;

/// How the length on the wire follows from the length of a frame without its check sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Framing {
    /// Bytes added to every frame, negative where the line carries less than the frame.
    pub added: i32,
    /// The shortest length on the wire, applied after the addition.
    pub minimum: u32,
    /// The coding of the line, applied last.
    pub coding: Coding,
}

/// The bytes that the coding of a line adds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Coding {
    /// The line adds no bytes.
    #[default]
    Plain,
    /// Whole cells with 48 bytes of payload (ATM), of which each counts as so many bytes.
    Cells(u32),
    /// A byte for each 64, or for a part of them (PTM).
    Ptm,
}

impl Framing {
    /// The frame as it is, as the kernel's own schedulers count it.
    pub const FRAME: Framing = Framing::plain(0, 0);
    /// Ethernet: check sequence 4, preamble 8, gap 12; 64-byte minimum [algorithms §13.1].
    pub const ETHERNET: Framing = Framing::plain(24, 84);
    /// The IP packet alone, without the 14 bytes of the Ethernet header.
    pub const IP: Framing = Framing::plain(-14, 0);
    /// ATM, AAL5 with LLC/SNAP: IP + 8 + 8 in cells [algorithms §13.1].
    pub const ATM: Framing = Framing { added: 2, minimum: 0, coding: Coding::Cells(53) };
    /// ATM with AAL5 where the rate counts only the payload of cells: 48 bytes each.
    pub const AAL5: Framing = Framing { added: 2, minimum: 0, coding: Coding::Cells(48) };
    /// Ethernet on which frames get a PPPoE and a PPP header, 8 bytes [algorithms §13.1].
    pub const PPPOE: Framing = Framing::plain(32, 84);
    /// Cable: the modem counts Ethernet frames with check sequence [algorithms §13.1].
    pub const DOCSIS: Framing = Framing::plain(4, 64);
    /// VDSL2: check sequence 4, PTM's own 4 [algorithms §13.1].
    pub const PTM: Framing = Framing { added: 8, minimum: 0, coding: Coding::Ptm };
    /// VDSL2 with the 8 bytes of PPPoE in each frame.
    pub const PPPOE_PTM: Framing = Framing { added: 16, minimum: 0, coding: Coding::Ptm };
    /// ADSL with PPPoE: AAL5 with LLC/SNAP around frames without check sequence.
    pub const PPPOE_ATM: Framing = Framing { added: 26, minimum: 0, coding: Coding::Cells(53) };

    /// The framings with a name, as policies and scenarios write them.
    pub const PRESETS: &[(&str, Framing)] = &[
        ("frame", Framing::FRAME),
        ("none", Framing::FRAME),
        ("ethernet", Framing::ETHERNET),
        ("ip", Framing::IP),
        ("atm", Framing::ATM),
        ("aal5", Framing::AAL5),
        ("pppoe", Framing::PPPOE),
        ("docsis", Framing::DOCSIS),
        ("ptm", Framing::PTM),
        ("pppoe-ptm", Framing::PPPOE_PTM),
        ("pppoe-atm", Framing::PPPOE_ATM),
    ];

    const fn plain(added: i32, minimum: u32) -> Framing {
        Framing { added, minimum, coding: Coding::Plain }
    }

    /// Returns the length on the wire of a packet, the sum of its frames where it is a train.
    #[inline(always)]
    pub const fn wire_length_of(self, packet: &Packet) -> u32 {
        if packet.train == 0 { self.wire_length(packet.length) } else { self.train_length(packet) }
    }

    #[cold]
    const fn train_length(self, packet: &Packet) -> u32 {
        let (each, before_last) = (packet.train as u32, packet.frames() - 1);
        let last = packet.length.saturating_sub(before_last.saturating_mul(each));
        let first = self.wire_length(each).saturating_mul(before_last);
        first.saturating_add(self.wire_length(last))
    }

    /// Returns the length on the wire of a frame of `length` bytes, at least 1.
    #[inline(always)]
    pub const fn wire_length(self, length: u32) -> u32 {
        let bytes = length as i64 + self.added as i64;
        let minimum = if self.minimum == 0 { 1 } else { self.minimum as i64 };
        let bytes = if bytes < minimum { minimum } else { bytes };
        let bytes = if bytes > LENGTH_MAX { LENGTH_MAX as u32 } else { bytes as u32 };
        match self.coding {
            Coding::Plain => bytes,
            Coding::Cells(counted) => bytes.div_ceil(48) * counted,
            Coding::Ptm => bytes + bytes.div_ceil(64),
        }
    }
}

/// Longer frames count as this length; in cells it still fits 32 bits.
const LENGTH_MAX: i64 = 1 << 31;
