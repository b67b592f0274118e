//! `weir demo`: one policy on live traffic and in simulation, side by side.
//!
//! Live, a client sends through `weir up` to a server, all in private networks: real kernel TCP and
//! UDP. On the same link, rates are changed while the traffic runs, the slowest voice packet is
//! explained and a record is replayed (`later`). The same policy also shapes the same traffic in
//! the simulator. Invariant: both are built from `mix`, and nothing of the live part is left when
//! [`run`] returns.

mod checks;
mod differences;
mod figures;
mod later;
mod link;
mod live;
mod mix;
mod play;
mod simulated;
mod table;
mod tcp;
mod udp;
mod whole;

use crate::rig;
use std::time::Duration;
use weir_host::error::SystemError;
use weir_host::signals::StopSignal;
use weir_policy::Policy;
use weir_policy::finding::Outcome as Parsed;

pub use differences::Difference;
pub use figures::{Check, Conservation, Figures, Outcome};
pub use later::{Explain, Later, Moved, Replay, Set};
pub use mix::{Class, POLICY, POLICY_PATH, WARMUP};
pub use play::{PLAY_POLICY, play};
pub use whole::Whole;

/// The shortest and the longest measurement: a shorter one measures chance, and each web
/// transfer of a simulation uses memory from its start to the end.
pub const TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);

/// A phase of the demo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Traffic runs, from the warm-up to the changed rates.
    Live,
    /// The simulation of the same traffic runs.
    Simulation,
}

/// Why there is no outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The user stopped it.
    Interrupted,
    /// A privilege is missing: which, how to get it, and what works without.
    Privilege(String),
    /// Any other failure, with its reason.
    System(String),
}

impl From<SystemError> for Failure {
    fn from(error: SystemError) -> Self {
        Failure::System(error.to_string())
    }
}

/// Runs the demo, measuring for `measured`; if it is to be kept, also returns the whole run, live
/// and simulated. Calls `progress` with the part done of each phase. Call it before the process has
/// a second thread.
///
/// # Errors
/// See [`Failure`].
pub fn run(
    (measured, is_kept): (Duration, bool),
    stop: &StopSignal,
    progress: &mut dyn FnMut(Phase, f64),
) -> Result<(Outcome, Option<Whole>), Failure> {
    let _first = rig::prepare().map_err(Failure::Privilege)?;
    let policy = policy()?;
    let live = live::run((measured, is_kept), stop, &mut |part| progress(Phase::Live, part))?;
    let whole = (WARMUP + measured).as_secs_f64();
    let report = simulated::run(&policy, measured, &mut |at| {
        progress(Phase::Simulation, at.as_nanos() as f64 / 1e9 / whole);
    })?;
    if stop.requested() {
        return Err(Failure::Interrupted);
    }
    let mut outcome = Outcome::new(&policy, measured, &live, &report)?;
    outcome.differences = differences::all(&outcome);
    outcome.checks = checks::all(&outcome);
    let whole = live.record.map(|record| Whole::of(record, &policy)).transpose()?;
    Ok((outcome, whole))
}

/// The policy of the demo, checked as `weir check` would.
fn policy() -> Result<Policy, Failure> {
    read(weir_policy::parse(POLICY, POLICY_PATH))
}

/// Returns the policy that was read, or what is wrong with it.
fn read(outcome: Parsed<Policy>) -> Result<Policy, Failure> {
    let findings = || weir_policy::render::render(&outcome.findings, &outcome.sources, false);
    outcome.plan.clone().ok_or_else(|| Failure::System(findings()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::classify::InterfaceId;
    use weir_core::units::Instant;

    #[test]
    fn the_policy_has_no_finding_and_sends_each_part_of_the_mix_to_its_class() {
        let outcome = weir_policy::parse(POLICY, POLICY_PATH);
        assert_eq!(outcome.findings, []);
        let policy = outcome.plan.expect("a policy without errors has a plan");
        for class in Class::ALL {
            let headers = simulated::headers(class, 40_000);
            let mut classifier = policy.classifier();
            let leaf = classifier.classify(Instant::ZERO, InterfaceId(0), &headers).leaf;
            assert_eq!(policy.leaf_name(leaf), class.name());
        }
    }
}
