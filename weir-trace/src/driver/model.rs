//! A driver and its card, in a few numbers.

use weir_core::units::Bytes;

/// A model of a driver between a scheduler and the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Driver {
    /// The next packet is chosen when the line has room, as the policy's `buffer` says.
    #[default]
    Line,
    /// A list in software, then a card with memory of its own `[algorithms §13.2]`.
    En {
        /// Whether a start takes packets until the list is full, or one.
        drain: bool,
        /// Whether packets that the node receives start it.
        start_on_receive: bool,
        /// The list takes one more packet as long as it holds no more than this.
        software: Bytes,
        /// The memory of the card.
        hardware: Bytes,
    },
    /// A ring of descriptors `[algorithms §13.4]`.
    Fxp {
        /// How many packets it holds.
        ring: u32,
        /// When a descriptor is free again.
        complete: Complete,
    },
}

/// When a sent packet's place in a ring is free again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Complete {
    /// When all that was handed to the card is sent.
    Chain,
    /// When it is sent.
    Packet,
}

impl Driver {
    /// The driver of the ATM cards that `[risso99 §3]` measured.
    pub const EN: Driver = Driver::En {
        drain: true,
        start_on_receive: true,
        software: Bytes::new(20 << 10),
        hardware: Bytes::new(32 << 10),
    };
    /// The driver of the Ethernet cards that `[quadros §4]` measured.
    pub const FXP: Driver = Driver::Fxp { ring: 128, complete: Complete::Chain };

    /// Whether packets that its node receives start it.
    pub const fn starts_on_receive(self) -> bool {
        matches!(self, Driver::En { start_on_receive: true, .. })
    }

    /// The word in scenarios and reports.
    pub const fn keyword(self) -> &'static str {
        match self {
            Driver::Line => "line",
            Driver::En { .. } => "en",
            Driver::Fxp { .. } => "fxp",
        }
    }
}
