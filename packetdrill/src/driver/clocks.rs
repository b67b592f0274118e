//! Timestamps: a script writes its own clock, the endpoint has another.
//!
//! Invariant: a packet from the script echoes what the endpoint sent when the script's clock
//! showed that value.

use crate::script::{Packet, TcpOption};
use std::collections::BTreeMap;

/// The endpoint's clock, by the script's.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks(BTreeMap<u32, u32>);

impl Clocks {
    /// Returns whether the script has written a clock so far.
    pub(super) fn are_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// Takes what the endpoint sent where the script expected a packet.
    pub(super) fn learn(&mut self, expected: &Packet, sent: &Packet) {
        if let (Some(expected), Some(sent)) = (value(expected), value(sent)) {
            self.0.insert(expected, sent);
        }
    }

    /// Returns a packet of the script with the endpoint's clock as its echo.
    pub(super) fn translate(&self, packet: &Packet) -> Packet {
        let mut packet = packet.clone();
        for option in packet.options.iter_mut().flatten() {
            if let TcpOption::Timestamps { echo, .. } = option {
                *echo = self.0.get(echo).copied().unwrap_or(*echo);
            }
        }
        packet
    }
}

fn value(packet: &Packet) -> Option<u32> {
    packet.options.iter().flatten().find_map(|option| match option {
        TcpOption::Timestamps { value, .. } => Some(*value),
        _ => None,
    })
}
