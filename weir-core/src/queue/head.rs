//! Head drop: when the leaf is full the packet that waited longest is dropped, so that its sender
//! learns of the congestion sooner. The overflow policy of ALTQ's CBQ [algorithms §3.3].

use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, PackedLimit, Place,
    limit,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Params};
use crate::state::state;
use crate::units::Instant;

/// A limit that drops the oldest packet.
pub struct Head {
    limit: PackedLimit,
}

impl DropperDiscipline for Head {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "head",
        summary: "Drops the first packet to make room for the arriving one.",
        parameters: &[limit("100 packets")],
        sources: &["algorithms §3.3"],
    };

    fn build(params: &Params, _place: Place) -> Result<Self, BuildError> {
        let limit = Limit::from_params(params, &Self::DESCRIPTOR);
        Ok(Self { limit: PackedLimit::new(limit) })
    }
}

impl Dropper for Head {
    fn admit(&mut self, _now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        if self.limit.limit().fits(arriving.length, backlog) {
            return Admission::Accept;
        }
        // A packet that does not fit even alone must not cost waiting packets.
        if !self.limit.limit().fits(arriving.length, Count::default()) {
            return Admission::Refuse(DropReason::Full);
        }
        Admission::Evict(0, DropReason::Evicted)
    }

    fn admits_all_below(&self) -> Option<Limit> {
        Some(self.limit.limit())
    }

    fn keeps_nothing(&self) -> bool {
        true
    }
}

state!(Head { ; kept: limit });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn a_waiting_packet_is_dropped_only_for_one_that_fits() {
        let evict = Admission::Evict(0, DropReason::Evicted);
        let full = Admission::Refuse(DropReason::Full);
        let bytes = |bytes| Limit::Bytes(Bytes::new(bytes));
        // limit, bytes arriving, packets and bytes that wait
        let rows = [
            (bytes(1000), 600, 0, 0, Admission::Accept),
            (bytes(1000), 600, 1, 600, evict),
            (bytes(1000), 1001, 0, 0, full),
            (bytes(1000), 1001, 3, 900, full),
            (Limit::Packets(3), 1500, 2, 3000, Admission::Accept),
            (Limit::Packets(3), 1500, 3, 4500, evict),
            (Limit::Packets(0), 1, 0, 0, full),
        ];
        for (limit, arriving, packets, waiting, expected) in rows {
            let backlog = Count { packets, bytes: waiting };
            let candidate = Candidate {
                length: Bytes::new(arriving),
                arrived: Instant::ZERO,
                traffic_class: 0,
                flow: 0,
            };
            let admission =
                Head { limit: PackedLimit::new(limit) }.admit(Instant::ZERO, candidate, backlog);
            assert_eq!(admission, expected, "{arriving} to {backlog:?} within {limit:?}");
        }
    }
}
