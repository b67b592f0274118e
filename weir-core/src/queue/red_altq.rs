//! Random early detection as in ALTQ, in its fixed point [algorithms §9.1].
//!
//! The average queue length decides: below the lower threshold no packet is dropped, above the
//! upper one every packet, between them some, with a probability that grows with the packets since
//! the last drop. Thresholds are in packets.
//!
//! ALTQ's class-based queueing calls RED only for classes that hold packets, so there RED never
//! learns of a pause and its average does not decay [algorithms §3.17]: `notices_idle = false`.
//!
//! Invariant: no early drop while the average is below `min` or at most one packet waits.

use super::average::{Average, Curve, Draw, Pause, THRESHOLD_MAX, Thresholds};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place, limit,
    packets, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Dimension, Instant};
use alloc::boxed::Box;

/// RED with ALTQ's fixed-point numbers, boxed to keep droppers small.
pub struct RedAltq(Box<State>);

struct State {
    curve: Curve,
    pause: Pause,
    limit: Limit,
    ecn: bool,
    notices_idle: bool,
    /// Whether a forced drop takes any packet instead of the arriving one.
    any_victim: bool,
    average: Average,
    /// Whether a packet was evicted for the arriving one.
    evicting: bool,
    random: Random,
}

impl DropperDiscipline for RedAltq {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "red-altq",
        summary: "Drops early and at random by the average queue length, in ALTQ's fixed point.",
        parameters: &[
            limit("60 packets"),
            row("min", THRESHOLD, "5", "The average below which no packet is dropped."),
            row("max", THRESHOLD, "15", "The average from which on every packet is dropped."),
            row(
                "inv_pmax",
                Kind::Number(1, 1000),
                "10",
                "The reciprocal of the probability just below max.",
            ),
            row(
                "weight",
                Kind::Number(1, 1 << 16),
                "512, less on a slow line",
                "Packets over which the average is taken; rounded down to a power of two.",
            ),
            row(
                "pkttime",
                Kind::Quantity(Dimension::Duration),
                "that of 1000 B at the line's rate",
                "The time of a packet, by which the average decays in a pause.",
            ),
            row(
                "notices_idle",
                Kind::Flag,
                "true",
                "Whether pauses are noticed; inside ALTQ's class-based queueing they are not.",
            ),
            row(
                "forced",
                Kind::Choice(&["tail", "random"]),
                "tail",
                "Whether a forced drop takes the arriving packet or any, as until ALTQ 1.1.2.",
            ),
            ECN,
        ],
        sources: &["red93", "altq", "algorithms §9.1"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let number = |name, default| params.number(name).map_or(default, |value| value as u32);
        let pause = Pause::new(params.number("weight"), params.duration("pkttime"), place.rate);
        let thresholds = Thresholds {
            min: number("min", 5),
            max: number("max", 15),
            inv_pmax: number("inv_pmax", 10),
        };
        let limit = match Limit::from_params(params, &Self::DESCRIPTOR) {
            // With a limit below the threshold RED would never drop.
            Limit::Packets(packets) if packets > 0 => Limit::Packets(packets.max(thresholds.max)),
            limit => limit,
        };
        Ok(Self(Box::new(State {
            curve: Curve::new(thresholds, pause)?,
            pause,
            limit,
            ecn: params.flag("ecn") == Some(true),
            notices_idle: params.flag("notices_idle") != Some(false),
            any_victim: params.choice("forced") == Some("random"),
            average: Average::EMPTY,
            evicting: false,
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for RedAltq {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        if core::mem::take(&mut state.evicting) {
            // This is the same packet again: it was counted, and another was dropped for it.
            if state.limit.fits(arriving.length, backlog) {
                return Admission::Accept;
            }
            let victim = state.random.below(packets(backlog));
            return state.evict(victim);
        }
        state.average.arrived(now, state.pause, backlog.packets, 1);
        match state.average.draw(&state.curve, backlog.packets, &mut state.random) {
            Draw::Pass => state.within_limit(arriving, backlog, Admission::Accept),
            Draw::Early if state.ecn && arriving.is_markable() => {
                state.average.punished();
                state.within_limit(arriving, backlog, Admission::Mark)
            }
            Draw::Early => {
                state.average.punished();
                Admission::Refuse(DropReason::Early)
            }
            Draw::Forced => state.force(arriving, backlog, DropReason::Early),
        }
    }

    fn emptied(&mut self, now: Instant) {
        if self.0.notices_idle {
            self.0.average.idle(now);
        }
    }
}

impl State {
    fn within_limit(
        &mut self,
        arriving: Candidate,
        backlog: Count,
        admission: Admission,
    ) -> Admission {
        if self.limit.fits(arriving.length, backlog) {
            return admission;
        }
        self.force(arriving, backlog, DropReason::Full)
    }

    /// Drops the arriving packet, or any of the waiting and the arriving ones.
    fn force(&mut self, arriving: Candidate, backlog: Count, reason: DropReason) -> Admission {
        self.average.punished();
        let alone = self.limit.fits(arriving.length, Count::default());
        if !self.any_victim || !alone {
            return Admission::Refuse(reason);
        }
        let victim = self.random.below(packets(backlog) + 1);
        if victim == packets(backlog) {
            return Admission::Refuse(reason);
        }
        self.evict(victim)
    }

    fn evict(&mut self, victim: u32) -> Admission {
        self.evicting = true;
        Admission::Evict(victim, DropReason::Evicted)
    }
}

const THRESHOLD: Kind = Kind::Number(1, THRESHOLD_MAX);

state!(RedAltq(state));
state!(State {
    average, random;
    kept: curve, pause, limit, ecn, notices_idle, any_victim, evicting
});

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;
    use crate::parameter::Value;

    /// Holds ten packets in the queue for a while; returns how many of 100 000 arrivals were
    /// dropped.
    fn drops(trial: &mut Trial<RedAltq>, waiting: usize, traffic_class: u8) -> usize {
        for _ in 0..100_000 {
            trial.pause(800);
            trial.offer(1000, traffic_class);
            while trial.waiting.len() > waiting {
                trial.serve();
            }
        }
        trial.dropped.len()
    }

    #[test]
    fn the_number_of_drops_follows_the_probability() {
        // Thresholds 5 and 15, probability at most a tenth. Rows: packets that wait when the next
        // arrives, and drops of 100 000. With p the probability of the average, drops are evenly
        // spread up to 2/p packets apart, in the mean a little less than 1/p: p/(1 - p/2) and so
        // on.
        for (waiting, expected) in [(4, 0..1), (5, 0..1), (10, 4_700..5_700), (14, 8_300..10_300)] {
            let mut trial = Trial::<RedAltq>::new(&params(&[("limit", "60 packets")], &[]));
            let drops = drops(&mut trial, waiting, 0);
            assert!(expected.contains(&drops), "{waiting} wait: {drops} drops");
            assert!(trial.dropped.iter().all(|&(_, reason)| reason == DropReason::Early));
        }
    }

    #[test]
    fn an_ecn_capable_packet_is_marked_instead() {
        let mut trial = Trial::<RedAltq>::new(&params(&[], &[("ecn", true)]));
        assert_eq!(drops(&mut trial, 10, 0b10), 0);
        assert!((4_700..5_700).contains(&trial.marked), "{}", trial.marked);
        let mut trial = Trial::<RedAltq>::new(&params(&[], &[("ecn", true)]));
        assert!(drops(&mut trial, 10, 0b00) > 4_700);
    }

    #[test]
    fn above_the_upper_threshold_every_packet_is_dropped() {
        let mut trial = Trial::<RedAltq>::new(&params(&[("weight", "1")], &[]));
        while trial.waiting.len() < 15 {
            trial.offer(1000, 0);
        }
        trial.dropped.clear();
        for _ in 0..50 {
            assert!(!trial.offer(1000, 0));
        }
        assert_eq!(trial.dropped.len(), 50);
    }

    #[test]
    fn a_forced_drop_may_take_any_packet() {
        let mut all = params(&[("weight", "1"), ("min", "14")], &[]);
        all.set("forced", Value::Choice("random"));
        let mut trial = Trial::<RedAltq>::new(&all);
        for _ in 0..200 {
            trial.pause(100);
            trial.offer(1000, 0);
        }
        let evicted = |&&(_, reason): &&(Instant, DropReason)| reason == DropReason::Evicted;
        let evictions = trial.dropped.iter().filter(evicted).count();
        let refusals = trial.dropped.len() - evictions;
        assert_eq!(trial.waiting.len(), 15);
        assert!(evictions > 150 && refusals > 3, "{evictions} {refusals}");
    }

    #[test]
    fn only_a_noticed_pause_lets_the_average_decay() {
        for (notices, waits) in [(true, 15), (false, 3)] {
            let numbers = [("weight", "128"), ("max", "16")];
            let mut trial = Trial::<RedAltq>::new(&params(&numbers, &[("notices_idle", notices)]));
            drops(&mut trial, 15, 0);
            while trial.serve().is_some() {}
            trial.pause(10_000_000);
            trial.dropped.clear();
            // After the pause, a burst the size of the queue passes without a drop, or is dropped
            // at once.
            for _ in 0..100 {
                trial.offer(1000, 0);
                if !trial.dropped.is_empty() {
                    break;
                }
            }
            assert!(trial.waiting.len() >= waits, "{notices}: {}", trial.waiting.len());
            assert!(notices || trial.waiting.len() < 30, "{}", trial.waiting.len());
        }
    }

    #[test]
    fn thresholds_in_the_wrong_order_are_refused() {
        let error = Trial::<RedAltq>::refusal(&params(&[("min", "15")], &[]));
        assert!(error.contains("thresholds of 15 and 15 packets"), "{error}");
    }
}
