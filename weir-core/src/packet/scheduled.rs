//! A packet as the link sees it: a handle and a length. Its bytes stay with the port.

use crate::ids::{Handle, LeafId, MeterId};
use crate::units::{Bytes, Instant};

/// A packet as offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Which packet.
    pub handle: Handle,
    /// The length of the frame, without its check sequence.
    pub length: u32,
    /// A number that is the same for all packets of a flow and usually another for other flows, for
    /// queues that keep flows apart.
    pub flow: u32,
    /// DSCP and ECN; 0 where the packet has none.
    pub traffic_class: u8,
    /// The meter of the rule that it met; without one that of its leaf counts.
    pub meter: Option<MeterId>,
}

impl Packet {
    /// A packet without a flow or a traffic class of its own.
    pub const fn new(handle: Handle, length: u32) -> Self {
        Self { handle, length, flow: 0, traffic_class: 0, meter: None }
    }
}

/// A packet and when and where it is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// To which leaf.
    pub leaf: LeafId,
    /// What.
    pub packet: Packet,
}

/// The packet that waits first in a leaf, as schedulers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The length that schedulers charge.
    pub length: Bytes,
    /// When the link was offered the packet.
    pub arrived: Instant,
}
