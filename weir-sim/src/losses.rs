//! Losses by chance, behind the link: each source has its own part and its own random numbers.
//!
//! Invariant: a source without losses draws nothing.

use crate::random::Random;
use crate::scenario::{Scenario, Source};
use weir_core::units::Share;

/// The chance losses of sources behind the link.
#[derive(Debug)]
pub(crate) struct Losses(Vec<Option<(Random, u64)>>);

impl Losses {
    /// `None` if no source loses packets.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let of = |source: &Source| {
            let loss = source.traffic.tcp().map(|tcp| tcp.loss).filter(|loss| loss.ppb() > 0)?;
            let random = Random::stream(scenario.seed, &format!("losses of {}", source.name));
            Some((random, u64::from(loss.ppb())))
        };
        let losses: Vec<_> = scenario.sources.iter().map(of).collect();
        losses.iter().any(Option::is_some).then_some(Self(losses))
    }

    /// Returns whether the next packet of a source is lost.
    pub fn loses(&mut self, source: usize) -> bool {
        let own = self.0[source].as_mut();
        own.is_some_and(|(random, ppb)| random.below(u64::from(Share::WHOLE.ppb())) < *ppb)
    }
}
