//! The loop of `weir up` as tests configure it, and a policy that has frames in two rings.

use weir_core::units::Duration;
use weir_host::error::Result;
use weir_host::wait::WaitPolicy;
use weir_link::bridge::{BridgeConfig, BridgePort, LaneConfig};
use weir_policy::Policy;

/// Returns a bridge of two ports with this policy in both directions.
pub fn both_ways(
    ports: Vec<BridgePort>,
    policy: &Policy,
    passes_carrier: bool,
) -> Result<BridgeConfig> {
    Ok(BridgeConfig {
        ports,
        lanes: vec![
            LaneConfig::new("forth", (vec![0], 1), policy)?,
            LaneConfig::new("back", (vec![1], 0), policy)?,
        ],
        wait: WaitPolicy::Hybrid,
        // No frame is too old, however long the machine makes the bridge pause.
        lag_max: Duration::from_secs(3600),
        cpu: None,
        workers: workers(),
        passes_carrier,
        intake: true,
    })
}

/// Returns how many workers a bridge has: one, unless `WEIR_WORKERS` says otherwise.
pub fn workers() -> usize {
    std::env::var("WEIR_WORKERS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// Returns a policy whose frames of ethertype 0x88b6 go to ring 1.
pub fn by_ethertype() -> Policy {
    weir_policy::parse(BY_ETHERTYPE, "policy.toml").plan.expect("a sound policy")
}

const BY_ETHERTYPE: &str = "
    [link]
    rate = \"1 Gbit/s\"
    scheduler = \"fifo\"
    [class.other]
    match = [{ ethertype = \"0x88b6\" }]
    [class.rest]
    default = true
";
