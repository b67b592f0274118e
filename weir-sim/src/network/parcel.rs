//! A packet on its way through a network.

use weir_core::packet::Fragment;
use weir_core::units::Instant;

/// A packet under way: its source, its place, and its part of a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parcel {
    /// The source that sent it, or that it acknowledges; behind all sources, the signalling.
    pub source: u32,
    /// Its way: a place in the lanes, of which a source has one there and one back.
    pub lane: u32,
    /// Which of the source's connections it belongs to.
    pub connection: u32,
    /// The length of the frame.
    pub length: u32,
    /// How many links it has behind it.
    pub hop: u16,
    /// The parcel travels back to the source.
    pub back: bool,
    /// The octet of DSCP and ECN.
    pub traffic_class: u8,
    /// When it was sent.
    pub sent: Instant,
    /// Its part of a datagram that was cut.
    pub piece: Option<Piece>,
}

/// A part of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The datagram's number; each in a run has its own.
    pub datagram: u32,
    /// The piece is the first of its datagram.
    pub first: bool,
    /// Whether others lie behind it.
    pub more: bool,
    /// The payload of the datagram in bytes.
    pub whole: u32,
}

impl Parcel {
    /// A packet of a source.
    pub fn of(source: u32, back: bool) -> Self {
        Self { source, lane: 2 * source + u32::from(back), back, ..Self::default() }
    }

    /// Its place in the lanes.
    pub fn lane(&self) -> usize {
        self.lane as usize
    }

    /// Its datagram's place as classifiers see it. IPv4 has 16 bits for the number.
    pub fn fragment(&self) -> Fragment {
        match self.piece {
            None => Fragment::None,
            Some(Piece { datagram, first: true, .. }) => Fragment::First(datagram & 0xffff),
            Some(Piece { datagram, more, .. }) => Fragment::Later { id: datagram & 0xffff, more },
        }
    }
}
