//! PIE: a drop probability controlled by the delay, in steps of `update` [rfc8033 §4; algorithms
//! §9.8].
//!
//! Every `update` the probability moves by `alpha` times the distance of the delay from its target
//! and `beta` times its change, in smaller steps while it is small. The delay is that of the last
//! packet that left, or the backlog over a measured drain rate. A burst of up to `burst` passes
//! after a quiet time, and drops are neither too close nor too far apart.
//!
//! There is no timer: due steps are taken when a packet arrives or leaves, each at its own instant,
//! so a late call changes nothing. After `STEPS_MAX` steps in a row without a packet the rest is
//! skipped; by then the probability has long settled.
//!
//! Probabilities are in 2^-56. Invariant: no packet is dropped early while a burst is allowed or
//! fewer than two MTUs wait.

use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Reading, Release, limit, refused, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant};
use alloc::boxed::Box;

/// The drop probability and its estimators, boxed to keep droppers small.
pub struct Pie(Box<State>);

struct State {
    limit: Limit,
    law: Law,
    ecn: bool,
    by_length: bool,
    mtu: Bytes,
    /// In units of 1/[`ONE`].
    probability: u64,
    /// Probabilities summed since the last drop.
    sum: u64,
    /// The delay now, and at the last step, in nanoseconds.
    delay: u64,
    delay_before: u64,
    /// The rest of the burst that may pass.
    burst: u64,
    /// When the next step is due; absent before the first packet.
    next: Option<Instant>,
    /// Only with `estimator = "rate"`.
    drain: Option<Drain>,
    random: Random,
}

/// The control law; times in nanoseconds.
struct Law {
    target: u64,
    update: u64,
    burst: u64,
    /// In sixteenths per second.
    alpha: i128,
    beta: i128,
}

/// Measures how fast the leaf drains.
struct Drain {
    /// Bytes in a second; 0 before the first measurement.
    rate: u64,
    /// When the current measurement began, and bytes since.
    began: Option<Instant>,
    bytes: u64,
}

impl DropperDiscipline for Pie {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "pie",
        summary: "Drops at random with a probability that steers the delay to a target.",
        parameters: &[
            limit("1000 packets"),
            row("target", TIME, "15 ms", "The target delay."),
            row("update", TIME, "15 ms", "The time between two steps of the probability."),
            row("alpha", Kind::Number(0, 32), "2", "Weight of the distance, in 1/16 s."),
            row("beta", Kind::Number(0, 32), "20", "Weight of the change, in 1/16 s."),
            row("burst", TIME, "150 ms", "How long no packet is dropped after a quiet time."),
            row("bytes", Kind::Flag, "true", "Whether long packets are dropped more often."),
            row(
                "estimator",
                Kind::Choice(&["sojourn", "rate"]),
                "sojourn",
                "The measured delay of packets, or the backlog over the measured drain rate.",
            ),
            ECN,
        ],
        sources: &["rfc8033", "algorithms §9.8"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let time = |name, millis| {
            params.duration(name).unwrap_or(Duration::from_millis(millis)).as_nanos()
        };
        let weight = |name, default| i128::from(params.number(name).unwrap_or(default));
        let law = Law {
            target: time("target", 15),
            update: time("update", 15),
            burst: time("burst", 150),
            alpha: weight("alpha", 2),
            beta: weight("beta", 20),
        };
        if law.update < UPDATE_MIN {
            let message = alloc::format!(
                "a step each {} ns is more often than each millisecond; write at least `1 ms`",
                law.update
            );
            return refused("update", message);
        }
        let drain = Drain { rate: 0, began: None, bytes: 0 };
        Ok(Self(Box::new(State {
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            ecn: params.flag("ecn") == Some(true),
            by_length: params.flag("bytes") != Some(false),
            mtu: place.mtu,
            probability: 0,
            sum: 0,
            delay: 0,
            delay_before: 0,
            burst: law.burst,
            law,
            next: None,
            drain: (params.choice("estimator") == Some("rate")).then_some(drain),
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for Pie {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        state.catch_up(now, backlog);
        let drawn = state.is_drawn(arriving.length, backlog);
        if !state.limit.fits(arriving.length, backlog) {
            state.sum = 0;
            return Admission::Refuse(DropReason::Full);
        }
        if !drawn {
            return Admission::Accept;
        }
        if state.ecn && arriving.is_markable() && state.probability <= ONE / 10 {
            return Admission::Mark;
        }
        Admission::Refuse(DropReason::Early)
    }

    fn release(&mut self, now: Instant, first: Candidate, backlog: Count) -> Release {
        let state = &mut *self.0;
        state.catch_up(now, backlog);
        match &mut state.drain {
            Some(drain) => drain.left(now, first.length, backlog),
            None => state.delay = now.since(first.arrived).as_nanos(),
        }
        Release::Send
    }

    fn emptied(&mut self, _now: Instant) {
        self.0.delay = 0;
    }

    fn reading(&self) -> Option<Reading> {
        let thousandths = (u128::from(self.0.probability) * 1000 / u128::from(ONE)) as u64;
        Some(Reading { what: "probability", thousandths })
    }
}

impl State {
    /// Takes the steps that are due.
    fn catch_up(&mut self, now: Instant, backlog: Count) {
        let update = Duration::from_nanos(self.law.update);
        let Some(mut next) = self.next else {
            self.next = Some(now.after(update));
            return;
        };
        if now < next {
            return;
        }
        if let Some(delay) = self.drain.as_ref().and_then(|drain| drain.delay(backlog)) {
            self.delay = delay;
        }
        for _ in 0..STEPS_MAX {
            self.step();
            next = next.after(update);
            if next > now || next == Instant::MAX {
                break;
            }
        }
        if next <= now {
            let missed = now.since(next).as_nanos() / self.law.update + 1;
            next = next.after(Duration::from_nanos(missed.saturating_mul(self.law.update)));
        }
        self.next = Some(next);
    }

    fn step(&mut self) {
        let (delay, before) = (self.delay, self.delay_before);
        let mut change = self.law.change(self.probability, delay, before);
        if delay > DELAY_HIGH {
            change += i128::from(ONE / 50);
        }
        let probability = (i128::from(self.probability) + change).clamp(0, i128::from(ONE));
        self.probability = probability as u64;
        if delay == 0 && before == 0 {
            self.probability -= self.probability / 64;
        }
        self.burst = self.burst.saturating_sub(self.law.update);
        let half = self.law.target / 2;
        if delay < half && before < half && self.probability == 0 {
            self.burst = self.law.burst;
        }
        self.delay_before = delay;
    }

    fn is_drawn(&mut self, length: Bytes, backlog: Count) -> bool {
        let calm = self.delay < self.law.target / 2 && self.probability < ONE / 5;
        if self.burst > 0 || calm || backlog.bytes < 2 * self.mtu.get() {
            return false;
        }
        if self.probability == 0 {
            self.sum = 0;
        }
        let probability = match self.by_length {
            true => {
                let scaled = u128::from(self.probability) * u128::from(length.get())
                    / u128::from(self.mtu.get().max(1));
                scaled.min(u128::from(ONE)) as u64
            }
            false => self.probability,
        };
        // Never above 9.5: at 8.5 it is reset.
        self.sum += probability;
        if self.sum < ONE / 100 * 85 {
            return false;
        }
        let drawn = self.sum >= ONE / 2 * 17 || self.random.chance(probability >> (56 - 32));
        if drawn {
            self.sum = 0;
        }
        drawn
    }
}

impl Law {
    /// Returns by how much the probability moves.
    fn change(&self, probability: u64, delay: u64, before: u64) -> i128 {
        // At most 2^6 times 2^64 times 2^56, so within 128 bits.
        let distance = self.alpha * (i128::from(delay) - i128::from(self.target))
            + self.beta * (i128::from(delay) - i128::from(before));
        let change = (distance << 56) / (16 * NANOS) / smaller(probability);
        if probability >= ONE / 10 { change.min(i128::from(ONE / 50)) } else { change }
    }
}

/// Returns the divisor of steps while the probability is small.
fn smaller(probability: u64) -> i128 {
    let rows = [(10, 1), (100, 2), (1_000, 8), (10_000, 32), (100_000, 128), (1_000_000, 512)];
    let row = rows.iter().find(|row| probability >= ONE / row.0);
    row.map_or(2048, |row| row.1)
}

impl Drain {
    /// Measures over at least [`CYCLE`] bytes, while that many wait.
    fn left(&mut self, now: Instant, length: Bytes, backlog: Count) {
        if self.began.is_none() && backlog.bytes >= CYCLE {
            (self.began, self.bytes) = (Some(now), 0);
        }
        let Some(began) = self.began else { return };
        self.bytes = self.bytes.saturating_add(length.get());
        let nanos = now.since(began).as_nanos();
        if self.bytes < CYCLE || nanos == 0 {
            return;
        }
        let rate = (u128::from(self.bytes) * NANOS as u128 / u128::from(nanos)) as u64;
        self.rate = if self.rate == 0 { rate } else { self.rate - self.rate / 8 + rate / 8 };
        self.began = None;
    }

    /// Returns how long the backlog will wait, once the rate is known.
    fn delay(&self, backlog: Count) -> Option<u64> {
        let nanos = u128::from(backlog.bytes) * NANOS as u128;
        let delay = nanos.checked_div(u128::from(self.rate))?;
        Some(u64::try_from(delay).unwrap_or(u64::MAX))
    }
}

const TIME: Kind = Kind::Quantity(Dimension::Duration);
/// Probability 1 in fixed point.
const ONE: u64 = 1 << 56;
const NANOS: i128 = 1_000_000_000;
/// A delay above it, a quarter of a second, raises the probability further.
const DELAY_HIGH: u64 = 250_000_000;
/// Bytes of one measurement of the drain rate.
const CYCLE: u64 = 16 << 10;
/// Steps are at least a millisecond apart.
const UPDATE_MIN: u64 = 1_000_000;
/// Bound: updates of the probability in a row without a packet, 15 s of the default ones; later
/// ones are skipped.
const STEPS_MAX: u32 = 1000;

state!(Pie(state));
state!(State {
    probability, sum, delay, delay_before, burst, next, random;
    some: drain;
    kept: limit, law, ecn, by_length, mtu;
    check: |state: &Self| state.probability <= ONE && state.sum <= 10 * ONE
});
state!(Drain { rate, began, bytes });

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn of_one(value: i128) -> f64 {
        value as f64 / ONE as f64
    }

    #[test]
    fn a_step_equals_the_published_check() {
        let trial = Trial::<Pie>::new(&params(&[], &[]));
        let law = &trial.dropper.0.law;
        let raw = of_one(law.change(ONE / 10 - 1, 30 * MILLI, 20 * MILLI)) * 2.0;
        assert!((raw - 0.014375).abs() < 1e-9, "{raw}");
        let applied = of_one(law.change(0, 30 * MILLI, 20 * MILLI));
        assert!((applied - 7.02e-6).abs() < 1e-8, "{applied}");
    }

    #[test]
    fn steps_grow_with_the_probability_and_are_capped() {
        let trial = Trial::<Pie>::new(&params(&[], &[]));
        let law = &trial.dropper.0.law;
        // probability, delay now and before in ms, change
        let rows = [
            (0.5, 30, 20, 0.014375),
            (0.1, 1030, 20, 0.02),
            (0.05, 30, 20, 0.014375 / 2.0),
            (0.005, 30, 20, 0.014375 / 8.0),
            (0.0005, 30, 20, 0.014375 / 32.0),
            (0.00005, 30, 20, 0.014375 / 128.0),
            (0.000005, 30, 20, 0.014375 / 512.0),
            (0.0000005, 30, 20, 0.014375 / 2048.0),
            (0.5, 0, 0, -0.001875),
            (0.5, 0, 30, -0.039375),
        ];
        for (probability, delay, before, expected) in rows {
            // One part in 10^9 above, since the bounds are decimal.
            let probability = (probability * ONE as f64) as u64 + 1;
            let change = of_one(law.change(probability, delay * MILLI, before * MILLI));
            assert!((change - expected).abs() < 1e-9, "{probability} {delay} {before}: {change}");
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for numbers in
            [[("target", "1 ns"), ("alpha", "32")], [("target", "500 h"), ("beta", "32")]]
        {
            let mut trial = Trial::<Pie>::new(&params(&numbers, &[]));
            let state = &mut *trial.dropper.0;
            for (delay, before) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX)] {
                (state.delay, state.delay_before) = (delay, before);
                state.step();
                assert!(state.probability <= ONE);
            }
        }
        let mut trial = Trial::<Pie>::new(&params(&[("update", "1 ms")], &[]));
        trial.offer(1000, 0);
        trial.now = Instant::MAX;
        trial.offer(1000, 0);
        trial.serve();
    }

    #[test]
    fn after_a_pause_the_probability_is_gone_and_a_burst_may_pass() {
        let mut trial = Trial::<Pie>::new(&params(&[], &[]));
        trial.offer(1000, 0);
        trial.serve();
        trial.dropper.0.probability = ONE / 2;
        trial.pause(15_000_000);
        trial.offer(1000, 0);
        let state = &trial.dropper.0;
        assert_eq!((state.probability, state.burst), (0, 150 * MILLI));
    }

    /// Offers 12 Mbit/s to a line of 10; returns the mean delay in ms over the last 10 of 20 s.
    fn steered(plan: &Params) -> (f64, Trial<Pie>) {
        let mut trial = Trial::<Pie>::new(plan);
        let (mut sum, mut count) = (0.0, 0u32);
        for step in 0..250_000u64 {
            trial.pause(80);
            if step % 5 == 0 {
                trial.offer(600, 0b10);
            }
            if step % 6 == 0 {
                let delay = trial.serve();
                if step > 125_000 {
                    sum += delay.map_or(0.0, |delay| delay.as_nanos() as f64 / 1e6);
                    count += 1;
                }
            }
        }
        (sum / f64::from(count), trial)
    }

    #[test]
    fn the_delay_is_steered_to_its_target() {
        for (flags, estimator) in
            [(&[][..], "sojourn"), (&[], "rate"), (&[("bytes", false)], "rate")]
        {
            for target in [15.0, 50.0] {
                let text = alloc::format!("{target} ms");
                let mut plan = params(&[("target", &text)], flags);
                plan.set("estimator", crate::parameter::Value::Choice(estimator));
                let (delay, trial) = steered(&plan);
                assert!((delay - target).abs() < 0.3 * target, "{estimator} {target}: {delay} ms");
                assert!(trial.dropped.iter().all(|&(_, reason)| reason == DropReason::Early));
            }
        }
    }

    #[test]
    fn ecn_capable_packets_are_marked_while_the_probability_is_low() {
        let mut trial = Trial::<Pie>::new(&params(&[], &[("ecn", true)]));
        for (tenths, marks) in [(1, true), (3, false)] {
            let state = &mut *trial.dropper.0;
            (state.probability, state.burst, state.delay) = (ONE / 10 * tenths, 0, 20 * MILLI);
            for _ in 0..1000 {
                trial.offer(600, 0b10);
            }
            assert_eq!(trial.marked > 0, marks);
            assert_eq!(trial.dropped.is_empty(), marks);
            trial.marked = 0;
        }
    }

    #[test]
    fn drops_are_neither_too_close_nor_too_far_apart() {
        let mut trial = Trial::<Pie>::new(&params(&[], &[("bytes", false)]));
        let (mut gap, mut gaps) = (0, alloc::vec::Vec::new());
        for _ in 0..200_000 {
            while trial.waiting.len() > 10 {
                trial.serve();
            }
            let state = &mut *trial.dropper.0;
            (state.probability, state.burst, state.delay) = (ONE / 20, 0, 20 * MILLI);
            gap += 1;
            if !trial.offer(600, 0) {
                gaps.push(gap);
                gap = 0;
            }
        }
        assert!(gaps.len() > 3_000);
        assert!(gaps.iter().all(|gap| (17..=171).contains(gap)), "{:?}", gaps.iter().min());
    }

    #[test]
    fn steps_too_close_are_refused() {
        let refusal = Trial::<Pie>::refusal(&params(&[("update", "999 us")], &[]));
        assert!(refusal.contains("write at least `1 ms`"), "{refusal}");
    }
}
