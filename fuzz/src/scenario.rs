//! Target `scenario`: any bytes as a scenario, beside a policy that is known or as odd as it.

use crate::policy::{POLICY, check_findings};
use weir_sim::read;

/// Reads the input as a scenario, and its first half with its second as the policy.
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
