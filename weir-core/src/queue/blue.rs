//! BLUE as in ALTQ: a drop probability that rises with overflows and falls with pauses [algorithms
//! §9.5].
//!
//! It ignores the queue length. When the leaf overflows, and `hold` has passed since the last
//! change, the probability rises by an eighth; when a packet arrives after a pause longer than
//! `hold` it falls by one part, and after more than a second it becomes one part (sic: also if it
//! was zero). An overflow drops any packet, possibly the arriving one.
//!
//! Invariant: with at most one packet waiting no packet is dropped early.

use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Reading, limit, packets, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Dimension, Duration, Instant};
use alloc::boxed::Box;

/// The drop probability and what changes it, boxed to keep droppers small.
pub struct Blue(Box<State>);

struct State {
    limit: Limit,
    ecn: bool,
    /// The number of parts that make certainty.
    parts: u32,
    /// The probability, in parts.
    probability: u32,
    hold: Duration,
    changed_at: Instant,
    idle_since: Option<Instant>,
    /// Whether a packet was evicted for the arriving one.
    evicting: bool,
    random: Random,
}

impl DropperDiscipline for Blue {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "blue",
        summary: "Drops at random: more after each overflow, less after each idle time.",
        parameters: &[
            limit("200 packets"),
            row("max_pmark", Kind::Number(1, 1_000_000), "1000", "Parts of certainty."),
            row(
                "hold",
                Kind::Quantity(Dimension::Duration),
                "50 ms",
                "The least time between two changes of the probability.",
            ),
            ECN,
        ],
        sources: &["altq", "algorithms §9.5"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        Ok(Self(Box::new(State {
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            ecn: params.flag("ecn") == Some(true),
            parts: params.number("max_pmark").unwrap_or(1000) as u32,
            probability: 0,
            hold: params.duration("hold").unwrap_or(Duration::from_millis(50)),
            changed_at: Instant::ZERO,
            idle_since: None,
            evicting: false,
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for Blue {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        let fits = state.limit.fits(arriving.length, backlog);
        if core::mem::take(&mut state.evicting) {
            if fits {
                return Admission::Accept;
            }
            let victim = state.random.below(packets(backlog));
            return state.evict(victim);
        }
        state.after_pause(now);
        let drawn = state.random.below(state.parts) < state.probability && backlog.packets > 1;
        let mark = drawn && state.ecn && arriving.is_markable();
        if drawn && !mark {
            return Admission::Refuse(DropReason::Early);
        }
        if fits {
            return if mark { Admission::Mark } else { Admission::Accept };
        }
        if now.since(state.changed_at) > state.hold {
            state.probability = (state.probability + state.parts / 8).min(state.parts);
            state.changed_at = now;
        }
        state.overflow(arriving, backlog)
    }

    fn emptied(&mut self, now: Instant) {
        self.0.idle_since = Some(now);
    }

    fn reading(&self) -> Option<Reading> {
        let State { probability, parts, .. } = &*self.0;
        let thousandths = u64::from(*probability) * 1000 / u64::from(*parts).max(1);
        Some(Reading { what: "probability", thousandths })
    }
}

impl State {
    fn after_pause(&mut self, now: Instant) {
        let Some(since) = self.idle_since.take() else { return };
        let pause = now.since(since);
        if pause > FORGOTTEN {
            self.probability = 1;
        } else if pause > self.hold {
            self.probability = self.probability.saturating_sub(1);
        } else {
            return;
        }
        self.changed_at = now;
    }

    /// Drops one of the waiting packets or the arriving one.
    fn overflow(&mut self, arriving: Candidate, backlog: Count) -> Admission {
        let victim = self.random.below(packets(backlog) + 1);
        if victim == packets(backlog) || !self.limit.fits(arriving.length, Count::default()) {
            return Admission::Refuse(DropReason::Full);
        }
        self.evict(victim)
    }

    fn evict(&mut self, victim: u32) -> Admission {
        self.evicting = true;
        Admission::Evict(victim, DropReason::Evicted)
    }
}

/// After a longer pause the probability becomes one part.
const FORGOTTEN: Duration = Duration::from_secs(1);

state!(Blue(state));
state!(State {
    probability, changed_at, idle_since, random;
    kept: limit, ecn, parts, hold, evicting;
    check: |state: &Self| state.probability <= state.parts
});

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;

    #[test]
    fn overflows_raise_the_probability_and_pauses_lower_it() {
        let mut trial = Trial::<Blue>::new(&params(&[("limit", "1 packet")], &[]));
        // microseconds of waiting, whether the leaf is emptied before, parts expected
        let rows = [
            (60_000, false, 125),
            (1, false, 125),
            (50_000, false, 250),
            (50_001, false, 375),
            (50_001, true, 374),
            (50_000, true, 374),
            (900_000, true, 373),
            (1_000_001, true, 1),
            (50_001, true, 0),
            (50_001, true, 0),
            (1_000_001, true, 1),
        ];
        trial.offer(1000, 0);
        for (micros, empty, parts) in rows {
            if empty {
                while trial.serve().is_some() {}
            }
            trial.pause(micros);
            trial.offer(1000, 0);
            assert_eq!(trial.dropper.0.probability, parts, "{micros} {empty}");
        }
    }

    #[test]
    fn the_probability_does_not_exceed_certainty() {
        let mut trial = Trial::<Blue>::new(&params(&[("limit", "1 packet")], &[]));
        for _ in 0..100 {
            trial.pause(60_000);
            trial.offer(1000, 0);
        }
        assert_eq!(trial.dropper.0.probability, 1000);
        // With one packet waiting no packet is dropped early.
        assert!(trial.dropped.iter().all(|&(_, reason)| reason != DropReason::Early));
    }

    #[test]
    fn the_number_of_drops_follows_the_probability() {
        for (ecn, traffic_class) in [(false, 2), (true, 0), (true, 2)] {
            let mut trial = Trial::<Blue>::new(&params(&[], &[("ecn", ecn)]));
            trial.dropper.0.probability = 125;
            for _ in 0..40_000 {
                trial.offer(1000, traffic_class);
                while trial.waiting.len() > 5 {
                    trial.serve();
                }
            }
            let (most, none) = if ecn && traffic_class == 2 {
                (trial.marked, trial.dropped.len())
            } else {
                (trial.dropped.len(), trial.marked)
            };
            assert!((4_800..5_200).contains(&most) && none == 0, "{ecn} {most} {none}");
        }
    }

    #[test]
    fn an_overflow_drops_any_packet() {
        let mut trial =
            Trial::<Blue>::new(&params(&[("limit", "4 packets"), ("hold", "1 h")], &[]));
        for _ in 0..10_000 {
            trial.offer(1000, 0);
        }
        let refused = trial.dropped.iter().filter(|(_, reason)| *reason == DropReason::Full);
        let refused = refused.count();
        assert_eq!(trial.dropped.len(), 9_996);
        // One in five is the arriving packet.
        assert!((1_850..2_150).contains(&refused), "{refused}");
    }
}
