//! Tail drop: a packet that finds its leaf full is refused.

use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, PackedLimit, Place,
    limit,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Params};
use crate::state::state;
use crate::units::Instant;

/// A limit that drops the arriving packet.
pub struct Tail {
    limit: PackedLimit,
}

impl DropperDiscipline for Tail {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "tail",
        summary: "Refuses an arriving packet when the leaf is full.",
        parameters: &[limit("100 packets")],
        sources: &["quadros §3"],
    };

    fn build(params: &Params, _place: Place) -> Result<Self, BuildError> {
        let limit = Limit::from_params(params, &Self::DESCRIPTOR);
        Ok(Self { limit: PackedLimit::new(limit) })
    }
}

impl Dropper for Tail {
    fn admit(&mut self, _now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        if self.limit.limit().fits(arriving.length, backlog) {
            return Admission::Accept;
        }
        Admission::Refuse(DropReason::Full)
    }

    fn admits_all_below(&self) -> Option<Limit> {
        Some(self.limit.limit())
    }

    fn keeps_nothing(&self) -> bool {
        true
    }
}

state!(Tail { ; kept: limit });
