//! The whole run, from the first packet to the end, live and simulated, for those who want to look
//! at it (`weir demo --view`). The simulation sets the new rates when the live link did.

use super::link::WAY;
use super::{Failure, later, simulated};
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_sim::timeline::Tracks;
use weir_trace::load::Load;

/// The live run and the simulated one: see the module.
pub struct Whole {
    /// The live run, as `weir record` writes it.
    pub record: Vec<u8>,
    /// The direction that has the policy.
    pub direction: &'static str,
    /// The history of the simulated classes.
    pub simulated: Tracks,
}

impl Whole {
    /// Simulates what was recorded.
    pub(super) fn of(record: Vec<u8>, policy: &Policy) -> Result<Self, Failure> {
        let load = Load::of_record(record.as_slice(), Some(WAY)).map_err(Failure::System)?;
        let first = load.arrivals.first().map_or(load.start, |arrival| arrival.at);
        let since = |at: Instant| at.since(first.min(at));
        let changed = load.stages.get(1).map_or(load.end, |stage| stage.at);
        let after = later::policy_after()?;
        let times = (since(changed), since(load.end));
        let mut tracks = simulated::tracks([policy, &after], times, STEP)?;
        tracks.about = ABOUT.to_owned();
        Ok(Self { record, direction: WAY, simulated: tracks })
    }
}

/// Long enough for a few packets of each class.
const STEP: Duration = Duration::from_millis(200);
const ABOUT: &str = "The packets that the kernel sent through the link, and a simulation of the \
    same policy and the same kinds of senders that knows nothing of them. The mark is where other \
    rates were set. Below it, everything is of the live link.";
