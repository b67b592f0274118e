//! The way into a lane: which leaf a frame belongs to, and when it counts as offered.
//!
//! Invariant: no frame is lost before it is classified, so that what is lost is lost of a leaf.

use std::mem::swap;
use std::sync::Arc;

use weir_core::classify::{Classifier, InterfaceId, RuleSet};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Arrival, Packet, Pending};
use weir_core::packet::{Headers, UnreadCounts};
use weir_core::units::Instant;

use crate::pool::FrameId;
use crate::port::{Found, LaneRules};

/// A frame that a port received, on its way into a lane.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub frame: FrameId,
    /// When the kernel received it.
    pub at_ns: u64,
    pub headers: &'a Headers,
    /// The number of the port.
    pub port: InterfaceId,
    /// The rule that a worker found for it.
    pub found: Found,
}

pub(super) struct Intake {
    /// Chooses the leaf of a frame.
    pub classifier: Classifier,
    /// The number of its rules.
    number: u32,
    /// Frames whose IP header could not be read.
    pub unread: UnreadCounts,
}

impl Intake {
    pub fn new(classifier: Classifier) -> Self {
        Self { classifier, number: 1, unread: UnreadCounts::default() }
    }

    /// Takes another policy's classifier, in exchange for its own.
    pub fn exchange(&mut self, other: &mut Classifier) {
        swap(&mut self.classifier, other);
        // What was found before is of other rules; 0 is that of none.
        self.number = self.number.checked_add(1).unwrap_or(1);
    }

    /// Returns its rules, for a port with this number to look frames up in.
    pub fn rules(&self, port: InterfaceId) -> LaneRules {
        LaneRules { number: self.number, port, rules: Arc::clone(self.classifier.rules()) }
    }

    /// Classifies a frame of so many bytes, and returns it as it arrives at the link whose time
    /// `pending` has.
    pub fn classify(
        &mut self,
        incoming: Incoming<'_>,
        length: u32,
        pending: &mut Pending,
    ) -> Arrival {
        let Incoming { frame, at_ns, headers, port, found } = incoming;
        let at = pending.offer_at(Instant::from_nanos(at_ns));
        assert!(at >= pending.now(), "no frame is offered before the link's time");
        self.unread.add(headers);
        let at_most = pending.classify_at(at);
        let classified = match found.by(self.number) {
            Some(decision) => self.classifier.classify_found(port, headers, decision),
            None => self.classifier.classify(at_most, port, headers),
        };
        let packet = Packet {
            handle: Handle(frame.0),
            length,
            train: 0,
            flow: headers.flow(classified.flow),
            host: headers.host(classified.flow),
            traffic_class: headers.traffic_class.unwrap_or(0),
            meter: classified.meter,
        };
        Arrival { at, leaf: classified.leaf, packet }
    }

    /// Lets the class of a leaf join with its rules, or leave without; returns those of before.
    pub fn seat(&mut self, leaf: LeafId, rules: Option<Arc<RuleSet>>) -> Option<Arc<RuleSet>> {
        match rules {
            Some(rules) => self.classifier.join(leaf, rules),
            None => self.classifier.leave(leaf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{frame, policy};

    /// `a` has port 1 and `b` the rest.
    #[test]
    fn a_frame_is_offered_at_its_stamp_or_at_the_link_s_time_if_that_is_later() {
        // The link's time, the stamp, the port of UDP: the leaf, and the instant of the offer.
        let rows = [(0, 10, 1, 0, 10), (0, 10, 2, 1, 10), (50, 10, 1, 0, 50), (50, 60, 7, 1, 60)];
        for (now, at_ns, dport, leaf, at) in rows {
            let mut intake = Intake::new(policy().classifier());
            let now = Instant::from_nanos(now);
            let mut pending = Pending::at(now, now, 1);
            let bytes = frame(dport);
            let headers = Headers::parse_ethernet(&bytes);
            let (frame, port) = (FrameId(3), InterfaceId(0));
            let found = Found::NOTHING;
            let incoming = Incoming { frame, at_ns, headers: &headers, port, found };
            let arrival = intake.classify(incoming, bytes.len() as u32, &mut pending);
            let offered = (arrival.leaf, arrival.at.as_nanos(), arrival.packet.handle);
            assert_eq!(offered, (LeafId(leaf), at, Handle(3)), "port {dport} at {at_ns}");
            assert_eq!(arrival.packet.length as usize, bytes.len());
            assert_eq!(pending.classified(), arrival.at, "later frames are classified later");
        }
    }
}
