//! A waiting packet, as the queue stores it.

use super::flows::UNKNOWN_FLOW;
use super::{Candidate, ECN_MASK};
use crate::event::{CONGESTED_BIT, Mark, RECODED_BIT};
use crate::ids::Handle;
use crate::packet::Head;
use crate::state::state;
use crate::units::{Bytes, Instant};

/// A waiting packet with what its queue recorded of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The caller's id of the packet.
    pub handle: Handle,
    /// The length that schedulers charge.
    pub charged: u32,
    /// The length on the wire.
    pub wire: u32,
    /// Traffic class, flow and whether the class was rewritten.
    pub label: Label,
    /// The instant at which the packet was offered to the link.
    pub arrived: Instant,
}

/// The DSCP and ECN that a packet leaves with, whether it arrived with others, and which flow of
/// its leaf it belongs to: one word, so that it is written at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

impl Entry {
    /// Returns the length that schedulers charge.
    pub const fn charged(&self) -> Bytes {
        Bytes::new(self.charged as u64)
    }

    /// Marks the packet as having met congestion.
    pub const fn mark_congestion(&mut self) {
        self.label.write(self.label.traffic_class() | ECN_MASK, 1 << CONGESTED_BIT);
    }

    /// Returns what droppers see of the packet.
    pub(super) const fn candidate(&self) -> Candidate {
        Candidate {
            length: self.charged(),
            arrived: self.arrived,
            traffic_class: self.label.traffic_class(),
            flow: self.label.flow(),
        }
    }

    /// Returns what schedulers see of the packet when it is first.
    pub const fn head(&self) -> Head {
        Head { length: self.charged(), arrived: self.arrived }
    }

    pub(super) const EMPTY: Entry =
        Entry { handle: Handle(0), charged: 0, wire: 0, label: Label(0), arrived: Instant::ZERO };
}

impl Label {
    /// The label of a packet that arrived with this traffic class.
    #[inline(always)]
    pub const fn new(traffic_class: u8) -> Self {
        Self(traffic_class as u32)
    }

    /// Returns the DSCP and ECN that the packet leaves with.
    pub const fn traffic_class(self) -> u8 {
        self.0 as u8
    }

    /// Gives the packet a traffic class with another DSCP.
    pub const fn rewrite(&mut self, traffic_class: u8) {
        self.write(traffic_class, 1 << RECODED_BIT);
    }

    const fn write(&mut self, traffic_class: u8, why: u32) {
        self.0 = self.0 & !0xff | REWRITTEN | why | traffic_class as u32;
    }

    /// Returns which flow of its leaf the packet belongs to: see
    /// [`Queues::label`](super::Queues::label). Meaningless in a leaf that does not separate flows.
    pub const fn flow(self) -> u16 {
        (self.0 >> FLOW_SHIFT) as u16
    }

    /// Replaces the flow; the traffic class stays.
    pub const fn assign(&mut self, flow: u16) {
        self.0 = self.0 & ((1 << FLOW_SHIFT) - 1) | (flow as u32) << FLOW_SHIFT;
    }

    /// Returns the traffic class that the port writes into the packet, if any.
    #[inline(always)]
    pub(crate) const fn mark(self) -> Mark {
        Mark::of_word(self.0 as u16)
    }

    /// Returns whether its flow is known.
    pub(crate) const fn has_flow(self) -> bool {
        self.flow() != UNKNOWN_FLOW
    }

    /// Whether no bit is set that no label has.
    const fn is_sound(&self) -> bool {
        let is_written = self.0 & REWRITTEN > 0;
        let why = self.0 & (1 << CONGESTED_BIT | 1 << RECODED_BIT);
        (self.0 as u16) < 8 * REWRITTEN as u16 && (is_written || why == 0)
    }

    /// Returns the label with the traffic class alone; the flow is unknown.
    pub(crate) const fn without_flow(mut self) -> Self {
        self.assign(UNKNOWN_FLOW);
        self
    }
}

/// The bit of a label that says that the traffic class was rewritten; the two above say why, and
/// the five above those stay clear.
const REWRITTEN: u32 = 1 << 8;
/// Where the flow begins in a label.
const FLOW_SHIFT: u32 = 16;

state!(Label(word) check: Label::is_sound);
state!(Entry { handle, charged, wire, label, arrived });
