//! How long a packet may stay in a direction before a stall makes it stale.
//!
//! The default of a class is the longest time that its full queue takes at the rate that it is
//! guaranteed, so that only what came before a stall is dropped, never what the policy merely
//! delays.

use crate::calculus;
use crate::policy::Policy;
use weir_core::units::Duration;

/// Returns for each leaf the longest time that its packets may take by `policy`. A class without a
/// guaranteed rate gets the time in which the line sends all that its queues may hold.
pub(super) fn of_policy(policy: &Policy) -> Vec<Duration> {
    let times = calculus::full_queues(&policy.link, &policy.demands);
    let unknown = times.iter().any(Option::is_none);
    let all = if unknown { calculus::all_queues(&policy.link, &policy.demands) } else { 0.0 };
    let limit = |time: Option<f64>| {
        // An infinite or very large number of seconds becomes the largest Duration.
        let nanos = time.unwrap_or(all) * 1e9;
        Duration::from_nanos(nanos.ceil() as u64).clamp(DEFAULT_MIN, MAX)
    };
    times.into_iter().map(limit).collect()
}

const MAX: Duration = Duration::from_secs(3600);
/// A shorter stall is made up for.
const DEFAULT_MIN: Duration = Duration::from_secs(1);
