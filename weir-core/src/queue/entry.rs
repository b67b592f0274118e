//! A packet that waits, as the queue keeps it.

use super::flows::UNKNOWN_FLOW;
use super::{Candidate, ECN_MASK};
use crate::event::Mark;
use crate::ids::Handle;
use crate::packet::Head;
use crate::units::{Bytes, Instant};

/// What the queue knows of a waiting packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which packet.
    pub handle: Handle,
    /// The length that schedulers charge.
    pub charged: u32,
    /// The length on the wire.
    pub wire: u32,
    /// What is written on it.
    pub label: Label,
    /// When the link was offered it.
    pub arrived: Instant,
}

/// DSCP and ECN of a packet as they shall leave, whether it came with others, and which flow of its
/// leaf it belongs to: one word, so that it is written at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

impl Entry {
    /// The length that schedulers charge.
    pub const fn charged(&self) -> Bytes {
        Bytes::new(self.charged as u64)
    }

    /// Writes into the packet that it met congestion.
    pub const fn mark_congestion(&mut self) {
        self.label.rewrite(self.label.traffic_class() | ECN_MASK);
    }

    /// What droppers see of the packet.
    pub(super) const fn candidate(&self) -> Candidate {
        Candidate {
            length: self.charged(),
            arrived: self.arrived,
            traffic_class: self.label.traffic_class(),
        }
    }

    /// What schedulers see of the packet when it waits first.
    pub const fn head(&self) -> Head {
        Head { length: self.charged(), arrived: self.arrived }
    }

    pub(super) const EMPTY: Entry =
        Entry { handle: Handle(0), charged: 0, wire: 0, label: Label(0), arrived: Instant::ZERO };
}

impl Label {
    /// That of a packet that came with this traffic class.
    #[inline(always)]
    pub const fn new(traffic_class: u8) -> Self {
        Self(traffic_class as u32)
    }

    /// DSCP and ECN, as they shall leave.
    pub const fn traffic_class(self) -> u8 {
        self.0 as u8
    }

    /// Lets the packet leave with another traffic class than it came with.
    pub const fn rewrite(&mut self, traffic_class: u8) {
        self.0 = self.0 & !0xff | REWRITTEN | traffic_class as u32;
    }

    /// Which flow of its leaf it belongs to: see [`Queues::flow`]. Meaningless in a leaf that keeps
    /// none apart.
    pub const fn flow(self) -> u16 {
        (self.0 >> FLOW_SHIFT) as u16
    }

    /// Names the flow.
    pub const fn assign(&mut self, flow: u16) {
        self.0 = self.0 & ((1 << FLOW_SHIFT) - 1) | (flow as u32) << FLOW_SHIFT;
    }

    /// What the port writes into the packet.
    #[inline(always)]
    pub(crate) const fn mark(self) -> Mark {
        Mark::of_word(self.0 as u16)
    }

    /// Whether its flow is known.
    pub(crate) const fn has_flow(self) -> bool {
        self.flow() != UNKNOWN_FLOW
    }

    /// The same packet where its flow is not known.
    pub(crate) const fn without_flow(mut self) -> Self {
        self.assign(UNKNOWN_FLOW);
        self
    }
}

/// The bit of a label that says that the traffic class is not the one it came with; the seven above
/// stay clear.
const REWRITTEN: u32 = 1 << 8;
/// Where the flow begins in a label.
const FLOW_SHIFT: u32 = 16;
