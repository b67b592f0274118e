//! A packet as the link sees it: a handle and a length. Its bytes stay with the port.

use super::Host;
use crate::ids::{Handle, LeafId, MeterId};
use crate::state::state;
use crate::units::{Bytes, Instant};

/// A packet as offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The caller's id of the packet.
    pub handle: Handle,
    /// The length of the frame, without its check sequence; of a train, that of all its frames.
    pub length: u32,
    /// Where the packet is a train, frames that one super-packet was cut into and that pass as one:
    /// the length of each frame but the last, which is no longer. 0 for a packet of one frame.
    pub train: u16,
    /// A number that is equal for all packets of a flow and usually differs between flows, for
    /// droppers that separate flows.
    pub flow: u32,
    /// The host that it counts for, for droppers by which hosts take turns.
    pub host: Host,
    /// DSCP and ECN; 0 where the packet has none.
    pub traffic_class: u8,
    /// The meter of the rule that matched; without one, the meter of its leaf applies.
    pub meter: Option<MeterId>,
}

impl Packet {
    /// A packet without a flow or a traffic class of its own.
    pub const fn new(handle: Handle, length: u32) -> Self {
        Self { handle, length, train: 0, flow: 0, host: Host::NONE, traffic_class: 0, meter: None }
    }

    /// Returns how many frames it is, at least 1.
    pub const fn frames(&self) -> u32 {
        if self.train == 0 || self.length == 0 {
            return 1;
        }
        self.length.div_ceil(self.train as u32)
    }
}

/// A packet, and when and to which leaf it is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The instant of the offer.
    pub at: Instant,
    /// The leaf to which it is offered.
    pub leaf: LeafId,
    /// Its id and lengths.
    pub packet: Packet,
}

/// The packet that waits first in a leaf, as schedulers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// The length that schedulers charge.
    pub length: Bytes,
    /// The instant at which the packet was offered to the link.
    pub arrived: Instant,
}

state!(Head { length, arrived });
