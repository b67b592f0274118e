//! The cost of a packet under a scheduler: the counts of instructions in the repository.

use serde::Deserialize;
use std::collections::BTreeMap;
use weir_core::sched::SCHEDULERS;

/// The counts of `weir bench --instructions`.
#[derive(Deserialize)]
pub(super) struct Counts {
    /// Instructions per packet, by scheduler.
    per_packet: BTreeMap<String, f64>,
}

impl Counts {
    /// The instructions of a scheduler to those of the yardstick; `None` if it was not counted.
    pub(super) fn to_yardstick(&self, keyword: &str) -> Option<f64> {
        Some(self.per_packet.get(keyword)? / self.per_packet.get(yardstick())?)
    }
}

/// The counts in the repository.
pub(super) fn counts() -> Option<Counts> {
    serde_json::from_str(include_str!("../../../bench/instructions.json")).ok()
}

/// The scheduler that others are compared with: the first in the registry, which does least.
pub(super) fn yardstick() -> &'static str {
    SCHEDULERS[0].descriptor.keyword
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repositorys_counts_read() {
        let counts = counts().expect("bench/instructions.json reads");
        assert_eq!(counts.to_yardstick(yardstick()), Some(1.0));
    }
}
