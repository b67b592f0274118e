//! Hybrid proportional delay: classes keep the ratios of their delays [algorithms §8].
//!
//! By Dovrolis, Stiliadis and Ramanathan `[dovrolis02]`: a mixture of what a class's first packet
//! has waited, which acts at once, and its average delay, which holds in the long run. All of it
//! is in `proportional_delay`; here no class has a bound. Invariant: never idle while a packet
//! waits.

use super::proportional_delay::{DDP, ESTIMATOR, G, GAMMA, ProportionalDelay, RATIO};
use super::{Calls, Changes, Cost, Descriptor, Discipline, Explains, Kin, Promises, Tree, Waiting};
use crate::parameter::BuildError;
use crate::units::{Duration, Instant};

/// Hybrid proportional delay.
pub type Hpd = ProportionalDelay<false>;

impl Discipline for Hpd {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "hpd",
        summary: "Proportional delay: under load, classes wait in the ratios of their ddp.",
        parameters: &[DDP, RATIO, G, GAMMA, ESTIMATOR],
        sources: &["dovrolis02", "algorithms §8"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Linear,
        },
    };

    const CALLS: Calls = Calls { compares_ages: true, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        Ok(Self::new(tree, Duration::ZERO))
    }
}

impl Explains for Hpd {}

impl Changes for Hpd {
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        self.take_over(old, kin);
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.knows(waiting)
    }
}
