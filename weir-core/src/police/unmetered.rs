//! No meter: every packet has the same outcome, so that a class or rule may mark or drop all of its
//! packets [algorithms §10].

use super::{Action, Meter, MeterDescriptor, MeterDiscipline, MeterPlan, Metered};
use crate::ids::MeterId;
use crate::packet::Dscp;
use crate::parameter::{BuildError, Params};
use crate::state::state;
use crate::units::Instant;

/// One outcome for every packet.
pub struct Unmetered;

impl MeterDiscipline for Unmetered {
    const DESCRIPTOR: MeterDescriptor = MeterDescriptor {
        keyword: "unmetered",
        summary: "No meter: what happens to every packet. `set_dscp` is short for a mark here.",
        parameters: &[],
        outcomes: &[("all", Action::Pass)],
        sources: &["rfc2474", "algorithms §10"],
    };

    fn build(_params: &Params, _id: MeterId, _seed: u64) -> Result<Self, BuildError> {
        Ok(Self)
    }
}

impl MeterPlan {
    /// Gives every packet this code point.
    pub fn mark_all(dscp: Dscp) -> Self {
        Self::new(Unmetered::DESCRIPTOR.keyword, Params::new()).marking(dscp)
    }
}

impl Meter for Unmetered {
    fn measure(&mut self, _now: Instant, _packet: Metered) -> usize {
        0
    }
}

state!(Unmetered {});
