//! Draws for each replication of what inference does not know for sure.
//!
//! A round trip has the error of its method, a congestion control the probability of its family,
//! and a receiver of which few acknowledgements were seen may hold them back or not. What differs
//! between replications is then how much the answer depends on what is not known. Draws follow from
//! the name of a source and the number of the replication. Invariant: replication 0 has what is
//! most probable.

use crate::tcp::{Acks, Family, Method, Tcp};
use crate::{Inferred, Model};
use std::collections::BTreeMap;
use weir_core::fnv::{BASIS, fnv1a};
use weir_core::units::{Duration, Share};
use weir_sim::Scenario;
use weir_sim::scenario::{Congestion, Tcp as Plan, Traffic};

/// Draws what is not known for sure of the sources of a scenario.
pub fn vary(inferred: &Inferred, scenario: &mut Scenario, replication: usize) {
    let known: BTreeMap<&str, &Tcp> = inferred
        .flows
        .iter()
        .filter_map(|flow| match &flow.model {
            Model::Tcp { tcp, .. } => Some((flow.name.as_str(), tcp.as_ref())),
            _ => None,
        })
        .collect();
    for source in &mut scenario.sources {
        let Some(tcp) = known.get(source.name.as_str()) else { continue };
        let Traffic::Tcp(plan) = &mut source.traffic else { continue };
        let seed = fnv1a(BASIS ^ replication as u64, source.name.as_bytes());
        draw(tcp, plan, |what| part(seed, what));
    }
}

/// Draws of one source; `part` returns a number below 1 for each question.
fn draw(tcp: &Tcp, plan: &mut Plan, part: impl Fn(&str) -> f64) {
    let off = round_trip_error(tcp.round_trip.by) * (2.0 * part("round trip") - 1.0);
    let nanos = plan.return_delay.as_nanos() as f64 * (1.0 + off);
    plan.return_delay = Duration::from_nanos(nanos.max(0.0) as u64);
    // So many losses by chance scatter by their root.
    let losses = (tcp.path_loss * tcp.repeats.of as f64).max(1.0);
    let share = f64::from(plan.loss.ppb()) * (1.0 + (2.0 * part("loss") - 1.0) / losses.sqrt());
    plan.loss = Share::from_ppb(share.max(0.0) as u64).unwrap_or_default();
    let (reno, cubic) = (Congestion::Reno, Congestion::Cubic);
    let confidence = match tcp.control.family {
        Family::Unknown => CUBIC_USUAL,
        _ => tcp.control.confidence,
    };
    if part("congestion control") >= confidence {
        plan.config.congestion = if plan.config.congestion == cubic { reno } else { cubic };
    }
    if tcp.acks == Acks::Unknown && part("acknowledgements") < 0.5 {
        plan.set_ack_delay(None);
    }
}

/// Returns the part by which a round trip may be wrong.
fn round_trip_error(by: Method) -> f64 {
    match by {
        Method::Measured => 0.02,
        Method::Estimated | Method::OneSided | Method::Neighbours => 0.1,
        Method::Unknown => 0.5,
    }
}

/// Returns a number from 0 to below 1.
fn part(seed: u64, what: &str) -> f64 {
    // The low bits of the hash of a short text are those that differ.
    let mixed = fnv1a(seed, what.as_bytes()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// The part of unknown senders that have CUBIC, the default of all large systems.
const CUBIC_USUAL: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Control, RoundTrip};

    #[test]
    fn what_is_sure_stays_and_what_is_not_is_drawn() {
        let check = |confidence: f64, by, drawn: f64, expected: (Congestion, u64)| {
            let control = Control { family: Family::Cubic, confidence, reactions: 3 };
            let round_trip = RoundTrip { by, ..RoundTrip::default() };
            let tcp = Tcp { control, round_trip, acks: Acks::Each, ..Tcp::default() };
            let mut plan = Plan { return_delay: Duration::from_millis(100), ..Plan::default() };
            plan.config.congestion = Congestion::Cubic;
            draw(&tcp, &mut plan, |_| drawn);
            let found = (plan.config.congestion, plan.return_delay.as_nanos() / 1_000_000);
            assert_eq!(found, expected);
        };
        check(0.9, Method::Measured, 0.5, (Congestion::Cubic, 100));
        check(0.9, Method::Measured, 0.95, (Congestion::Reno, 101));
        check(0.9, Method::Estimated, 0.0, (Congestion::Cubic, 90));
    }

    #[test]
    fn draws_differ_by_source_and_question() {
        let seeds = (0..100).map(|number| fnv1a(BASIS ^ number, b"tcp-1"));
        let mean = seeds.map(|seed| part(seed, "round trip")).sum::<f64>() / 100.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }
}
