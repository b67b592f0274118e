//! CoDel: drops packets that waited too long, when their turn comes [rfc8289 §5; algorithms §9.6].
//!
//! `lateness.rs` decides when a drop is due, since the flow queues use it too.

use super::lateness::{INTERVAL, Lateness, Patience, TARGET};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Reading, Release, limit, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::Instant;
use alloc::boxed::Box;

/// The state of one queue, boxed to keep droppers small.
pub struct CoDel(Box<State>);

struct State {
    limit: Limit,
    patience: Patience,
    lateness: Lateness,
}

impl DropperDiscipline for CoDel {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "codel",
        summary: "Drops packets that waited too long, when their turn comes.",
        parameters: &[
            limit("1000 packets"),
            TARGET,
            INTERVAL,
            ECN,
            row(
                ROOT,
                Kind::Choice(&[EXACT, LINUX]),
                EXACT,
                "How the root that drops come closer by is computed: exactly, or as in Linux.",
            ),
        ],
        sources: &["rfc8289", "linux sch_codel", "algorithms §9.6"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        Ok(Self(Box::new(State {
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            patience: Patience::from_params(params, place, false)
                .with_newton(params.choice(ROOT) == Some(LINUX)),
            lateness: Lateness::default(),
        })))
    }
}

impl Dropper for CoDel {
    fn admit(&mut self, _now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        if self.0.limit.fits(arriving.length, backlog) {
            return Admission::Accept;
        }
        Admission::Refuse(DropReason::Full)
    }

    fn release(&mut self, now: Instant, first: Candidate, backlog: Count) -> Release {
        let State { patience, lateness, .. } = &mut *self.0;
        lateness.release(patience, now, first, backlog)
    }

    fn emptied(&mut self, _now: Instant) {
        self.0.lateness.emptied();
    }

    fn reading(&self) -> Option<Reading> {
        let thousandths = u64::from(self.0.lateness.drops()) * 1000;
        Some(Reading { what: "drops since it began", thousandths })
    }
}

/// The parameter that says how the root is computed.
const ROOT: &str = "root";
const EXACT: &str = "exact";
const LINUX: &str = "linux";

state!(CoDel(state));
state!(State { lateness; kept: limit, patience });

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;
    use crate::parameter::Value;
    use crate::units::Duration;
    use alloc::vec::Vec;

    /// Packets wait `delay` microseconds each, a hundred at a time, served every `step`; returns
    /// the instants of drops in microseconds.
    fn drops(trial: &mut Trial<CoDel>, delay: u64, step: u64, until: u64) -> Vec<u64> {
        while trial.now.as_nanos() < until * 1000 {
            while trial.waiting.len() < 100 {
                trial.offer(1000, 0b10);
            }
            let early = Duration::from_micros(delay);
            for packet in &mut trial.waiting {
                packet.arrived = trial.now.before(early);
            }
            trial.serve();
            trial.pause(step);
        }
        trial.dropped.iter().map(|(at, _)| at.as_nanos() / 1000).collect()
    }

    fn at_rest(params: &Params) -> Trial<CoDel> {
        let mut trial = Trial::new(params);
        trial.now = Instant::from_nanos(1_000_000_000);
        trial
    }

    #[test]
    fn drops_happen_at_the_instants_of_the_published_trace() {
        let mut trial = at_rest(&params(&[], &[]));
        let drops = drops(&mut trial, 20_000, 10, 1_510_000);
        let expected = [100.0, 200.0, 270.7, 328.4, 378.4, 423.2, 464.0, 501.8];
        let real: Vec<f64> = drops.iter().map(|&at| (at - 1_000_000) as f64 / 1000.0).collect();
        assert_eq!(real.len(), expected.len(), "{real:?}");
        for (real, expected) in real.iter().zip(expected) {
            assert!((real - expected).abs() < 0.12, "{real} instead of {expected}");
        }
        assert!(real[0] > 100.0, "just after, not at");
    }

    #[test]
    fn linux_halves_the_first_spacing() {
        let linux = {
            let mut params = Params::new();
            params.set(ROOT, Value::Choice(LINUX));
            params
        };
        let drops = drops(&mut at_rest(&linux), 20_000, 10, 1_310_000);
        let spacing: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // [linux codel_impl.h] Newton's first step from 1 is 1/2, its second 0.5625.
        assert_eq!(spacing.len(), 3, "{drops:?}");
        for (spacing, expected) in spacing.into_iter().zip([100_000, 50_000, 56_250]) {
            assert!(spacing.abs_diff(expected) < 30, "{spacing} instead of {expected}");
        }
    }

    #[test]
    fn no_packet_is_dropped_while_delays_or_the_queue_are_short() {
        assert!(drops(&mut at_rest(&params(&[], &[])), 4_999, 100, 3_000_000).is_empty());
        assert!(!drops(&mut at_rest(&params(&[], &[])), 5_000, 100, 3_000_000).is_empty());
        let mut trial = at_rest(&params(&[], &[]));
        for _ in 0..1000 {
            // One packet of 1000 bytes behind the first: less than one MTU.
            while trial.waiting.len() < 2 {
                trial.offer(1000, 0);
            }
            trial.pause(20_000);
            trial.serve();
        }
        assert!(trial.dropped.is_empty());
    }

    #[test]
    fn dropping_resumes_where_it_ended_recently() {
        let mut trial = at_rest(&params(&[], &[]));
        drops(&mut trial, 20_000, 10, 1_510_000);
        assert_eq!(trial.dropper.0.lateness.drops(), 8);
        drops(&mut trial, 1_000, 10, 1_520_000);
        assert!(!trial.dropper.0.lateness.is_dropping());
        trial.dropped.clear();
        // Eight drops before, less the one at the beginning: the next spacing is 100/√7 ms.
        let again = drops(&mut trial, 20_000, 10, 1_700_000);
        assert_eq!(again.len(), 3, "{again:?}");
        assert!((again[1] - again[0]).abs_diff(37_796) < 30, "{again:?}");
        assert!((again[2] - again[1]).abs_diff(35_355) < 30, "{again:?}");
        // Long after, it starts anew.
        drops(&mut trial, 1_000, 10, 4_000_000);
        trial.dropped.clear();
        let anew = drops(&mut trial, 20_000, 10, 4_210_000);
        assert!((anew[1] - anew[0]).abs_diff(100_000) < 30, "{anew:?}");
    }

    #[test]
    fn a_late_call_drops_several_at_once() {
        let mut trial = at_rest(&params(&[], &[]));
        drops(&mut trial, 20_000, 10, 1_150_000);
        assert_eq!(trial.dropped.len(), 1);
        for packet in &mut trial.waiting {
            packet.arrived = trial.now;
        }
        // At 400 ms the drops of 200, 270.7, 328.4 and 378.4 are due.
        trial.pause(250_000);
        trial.serve();
        assert_eq!(trial.dropped.len(), 5);
    }

    #[test]
    fn an_ecn_capable_packet_is_marked_instead() {
        let mut trial = at_rest(&params(&[], &[("ecn", true)]));
        assert!(drops(&mut trial, 20_000, 10, 1_510_000).is_empty());
        assert_eq!(trial.marked, 8);
    }
}
