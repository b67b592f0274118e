//! Target `scenario`: reads any bytes as a scenario, with a known policy or one from the input.

use crate::policy::{POLICY, check_findings};
use weir_sim::read;

/// Reads the input as a scenario, and its first half with the second half as the policy.
pub fn scenario(input: &[u8]) {
    let outcome = read::parse(input, "scenario.toml", &|_| Ok(POLICY.to_vec()));
    check_findings(&outcome);
    if let Some(scenario) = &outcome.plan {
        assert!(scenario.warmup < scenario.duration, "something counts");
        let leaves = scenario.link.tree.leaf_count();
        assert_eq!(scenario.link.queues.len(), leaves, "every leaf has a queue");
    }
    let (top, below) = input.split_at(input.len() / 2);
    check_findings(&read::parse(top, "scenario.toml", &|_| Ok(below.to_vec())));
}
