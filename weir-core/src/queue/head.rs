//! Head drop: when the leaf is full the packet that waited longest makes room, so that a sender
//! learns of the congestion sooner. The overflow policy of ALTQ's CBQ [algorithms §3.3].

use super::{Admission, Dropper, DropperDescriptor, DropperDiscipline, LIMIT, Limit, Occupancy};
use crate::event::DropReason;
use crate::parameter::{BuildError, Params};
use crate::units::{Bytes, Instant};

/// Head drop.
pub struct Head {
    limit: Limit,
}

impl DropperDiscipline for Head {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "head",
        summary: "Drops the first in line to make room for what arrives.",
        parameters: &[LIMIT],
        sources: &["algorithms §3.3"],
    };

    fn build(params: &Params) -> Result<Self, BuildError> {
        Ok(Self { limit: Limit::from_params(params) })
    }
}

impl Dropper for Head {
    fn admit(&mut self, _now: Instant, arriving: Bytes, occupancy: Occupancy) -> Admission {
        if self.limit.fits(arriving, occupancy) {
            return Admission::Accept;
        }
        if occupancy.packets == 0 {
            // A packet larger than the whole limit fits in no queue.
            return Admission::Refuse(DropReason::Full);
        }
        Admission::EvictHead(DropReason::Evicted)
    }
}
