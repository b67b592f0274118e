//! Random early detection as published, with its later variants [red93 §4; algorithms §9.2].
//!
//! The average queue length moves by 1/`weight` of its distance from the queue on each arrival, and
//! decays in a pause by as many packets as could have been sent. Between `min` and `max` the
//! probability rises to `pmax`; corrected by the packets since the last drop, drops are evenly
//! spread. Variants: *gentle* (above `max` the probability rises on, to 1 at twice `max`),
//! *adaptive* (`pmax` follows the average, every half second), *bytes* (long packets are dropped
//! more often), *wait* (ns-2's spacing: none until 1/p packets have passed).
//!
//! Lengths are in 2^-20 of a packet or byte, probabilities in 2^-32. Invariant: no early drop while
//! the average is below `min`.

use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Reading, limit, refused, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant, Quantity, Share};
use alloc::boxed::Box;

/// The average and the count since the last drop, boxed to keep droppers small.
pub struct Red(Box<State>);

struct State {
    curve: Curve,
    limit: Limit,
    weight: i64,
    /// The transmission time of a packet of the mean size, at least 1 ns.
    packet_time: u64,
    ecn: bool,
    adaptive: bool,
    /// The average, in 2^-[`FRACTION`] of a packet or byte.
    average: i64,
    /// Arrivals between the thresholds since the last drop or mark.
    count: u32,
    idle_since: Option<Instant>,
    /// When `pmax` may change again.
    adapts_at: Instant,
    random: Random,
}

/// The probability as a function of the average.
struct Curve {
    /// Thresholds, in the unit of the average.
    min: i64,
    max: i64,
    /// Whether thresholds are in bytes.
    in_bytes: bool,
    /// The probability just below `max`.
    pmax: u64,
    gentle: bool,
    wait: bool,
    /// The mean size, if long packets are dropped more often.
    by_length: Option<u64>,
}

impl DropperDiscipline for Red {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "red",
        summary: "Drops early and at random by the average queue length, evenly spread.",
        parameters: &[
            limit("100 packets"),
            row("min", Kind::Limit, "5 packets", "The average below which no packet is dropped."),
            row("max", Kind::Limit, "15 packets", "The average at which drops reach `pmax`."),
            row(
                "pmax",
                Kind::Quantity(Dimension::Share),
                "10 %",
                "The probability of a drop just below `max`.",
            ),
            row(
                "weight",
                Kind::Number(1, 4096),
                "500",
                "Arrivals over which the average is taken: one over the published weight.",
            ),
            row(
                "packet",
                Kind::Size(1, 65_535),
                "1000 B",
                "The mean packet: its time is the unit of pauses, its length that of `bytes`.",
            ),
            row("gentle", Kind::Flag, "true", "Whether above `max` the probability rises gently."),
            row("adaptive", Kind::Flag, "false", "Whether `pmax` follows the average."),
            row("bytes", Kind::Flag, "false", "Whether long packets are dropped more often."),
            row("wait", Kind::Flag, "false", "Whether drops keep 1/p packets apart."),
            ECN,
        ],
        sources: &["red93", "algorithms §9.2"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let packet = params.bytes("packet").unwrap_or(Bytes::new(1000));
        Ok(Self(Box::new(State {
            curve: Curve::new(params, packet)?,
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            weight: params.number("weight").unwrap_or(500).max(1) as i64,
            packet_time: place.rate.transmit_time(packet).as_nanos().max(1),
            ecn: params.flag("ecn") == Some(true),
            adaptive: params.flag("adaptive") == Some(true),
            average: 0,
            count: 0,
            idle_since: None,
            adapts_at: Instant::ZERO,
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for Red {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        state.take_average(now, backlog);
        if state.adaptive && now >= state.adapts_at {
            state.adapt(now);
        }
        let drawn = state.draw(arriving.length);
        if drawn {
            state.count = 0;
        }
        let mark = state.ecn && arriving.is_markable() && state.average < state.curve.certain();
        if drawn && !mark {
            return Admission::Refuse(DropReason::Early);
        }
        if !state.limit.fits(arriving.length, backlog) {
            state.count = 0;
            return Admission::Refuse(DropReason::Full);
        }
        if drawn { Admission::Mark } else { Admission::Accept }
    }

    fn emptied(&mut self, now: Instant) {
        self.0.idle_since = Some(now);
    }

    fn reading(&self) -> Option<Reading> {
        let in_bytes = self.0.curve.in_bytes;
        let what = if in_bytes { "average in bytes" } else { "average in packets" };
        let average = (self.0.average.max(0) as u128 * 1000) >> FRACTION;
        Some(Reading { what, thousandths: average as u64 })
    }
}

impl State {
    fn take_average(&mut self, now: Instant, backlog: Count) {
        if let (Some(since), 0) = (self.idle_since, backlog.packets) {
            let packets = now.since(since).as_nanos() / self.packet_time;
            // If this packet is refused nothing waits, and the pause goes on behind what counted.
            self.idle_since = Some(since.after(Duration::from_nanos(packets * self.packet_time)));
            let left = power(ONE - ONE / self.weight as u64, packets);
            self.average = ((self.average as u128 * u128::from(left)) >> 32) as i64;
            return;
        }
        self.idle_since = None;
        let waiting = if self.curve.in_bytes { backlog.bytes } else { backlog.packets };
        let waiting = (waiting.min(LENGTH_MAX) << FRACTION) as i64;
        self.average += (waiting - self.average) / self.weight;
    }

    /// Moves `pmax` so that the average comes to the middle of the thresholds.
    fn adapt(&mut self, now: Instant) {
        let curve = &mut self.curve;
        let part = (curve.max - curve.min) / 10;
        if self.average > curve.min + 6 * part && curve.pmax <= ONE / 2 {
            curve.pmax += (curve.pmax / 4).min(ONE / 100);
        } else if self.average < curve.min + 4 * part && curve.pmax >= ONE / 100 {
            curve.pmax = curve.pmax / 10 * 9;
        }
        self.adapts_at = now.after(ADAPTS_EVERY);
    }

    /// Returns whether to drop or mark the packet.
    fn draw(&mut self, length: Bytes) -> bool {
        if self.average < self.curve.min {
            self.count = 0;
            return false;
        }
        let probability =
            self.curve.spread(self.curve.probability(self.average, length), self.count);
        self.count = self.count.saturating_add(1);
        self.random.chance(probability)
    }
}

impl Curve {
    fn new(params: &Params, packet: Bytes) -> Result<Self, BuildError> {
        let written = |name| params.quantity(name);
        let ends = [
            written("min").unwrap_or(Quantity::Packets(5)),
            written("max").unwrap_or(Quantity::Packets(15)),
        ];
        let (min, max, in_bytes) = match ends {
            [Quantity::Packets(min), Quantity::Packets(max)] => {
                (u64::from(min), u64::from(max), false)
            }
            [Quantity::Bytes(min), Quantity::Bytes(max)] => (min.get(), max.get(), true),
            [min, _] => {
                let message = alloc::format!(
                    "thresholds are both in packets or both in bytes, and the lower is {min}; \
                     write the upper in the same unit"
                );
                return refused("max", message);
            }
        };
        let max = max.min(LENGTH_MAX / 2);
        if min >= max {
            let unit = if in_bytes { "bytes" } else { "packets" };
            let message = alloc::format!(
                "thresholds of {min} and {max} {unit} leave no range; raise the upper"
            );
            return refused("max", message);
        }
        let pmax = match params.quantity("pmax") {
            Some(Quantity::Share(share)) => share.ppb(),
            _ => Share::WHOLE.ppb() / 10,
        };
        let flag = |name, default| params.flag(name).unwrap_or(default);
        Ok(Self {
            min: (min << FRACTION) as i64,
            max: (max << FRACTION) as i64,
            in_bytes,
            pmax: (u64::from(pmax) << 32) / u64::from(Share::WHOLE.ppb()),
            gentle: flag("gentle", true),
            wait: flag("wait", false),
            by_length: flag("bytes", false).then_some(packet.get().max(1)),
        })
    }

    /// Returns the average from which on every packet is dropped.
    fn certain(&self) -> i64 {
        if self.gentle { 2 * self.max } else { self.max }
    }

    /// Returns the probability at this average for a packet of this length, in units of 2^-32.
    fn probability(&self, average: i64, length: Bytes) -> u64 {
        if average >= self.certain() {
            return ONE;
        }
        let part = |above: i64, range: i64, rise: u64| {
            (above as u128 * u128::from(rise) / range as u128) as u64
        };
        let probability = if average < self.max {
            part(average - self.min, self.max - self.min, self.pmax)
        } else {
            self.pmax + part(average - self.max, self.max, ONE - self.pmax.min(ONE))
        };
        match self.by_length {
            Some(mean) => {
                (probability.min(ONE) * length.get().min(LENGTH_OF_PACKET) / mean).min(ONE)
            }
            None => probability.min(ONE),
        }
    }

    /// Returns the probability that spreads drops evenly, after `count` packets without one.
    fn spread(&self, probability: u64, count: u32) -> u64 {
        let passed = u64::from(count).saturating_mul(probability);
        let from = if self.wait { 2 * ONE } else { ONE };
        if self.wait && passed < ONE {
            return 0;
        }
        if passed >= from || probability >= ONE {
            return ONE;
        }
        ((probability << 32) / (from - passed).max(1)).min(ONE)
    }
}

/// Returns `base` to the power `n`, both in units of 2^-32; `base` is below 2^32.
fn power(base: u64, mut n: u64) -> u64 {
    let (mut square, mut power) = (base, ONE);
    while n > 0 && power > 0 {
        if n & 1 == 1 {
            power = (power * square) >> 32;
        }
        square = (square * square) >> 32;
        n >>= 1;
    }
    power
}

/// Fractional bits of the average.
const FRACTION: u32 = 20;
/// Longer queues count as this length, in packets or bytes.
const LENGTH_MAX: u64 = 1 << 42;
/// Longer packets count as this length.
const LENGTH_OF_PACKET: u64 = (1 << 20) - 1;
/// Probability 1 in fixed point.
const ONE: u64 = 1 << 32;
const ADAPTS_EVERY: Duration = Duration::from_millis(500);

state!(Red(state));
state!(State {
    curve, average, count, idle_since, adapts_at, random;
    kept: limit, weight, packet_time, ecn, adaptive;
    check: |state: &Self| (0..=(LENGTH_MAX as i64) << FRACTION).contains(&state.average)
});
state!(Curve {
    pmax; kept: min, max, in_bytes, gentle, wait, by_length; check: |curve: &Self| curve.pmax <= ONE
});

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;

    const MEAN: Bytes = Bytes::new(1000);

    type Flags = &'static [(&'static str, bool)];

    fn close(real: u64, expected: f64) -> bool {
        (real as f64 / ONE as f64 - expected).abs() < 1e-6
    }

    #[test]
    fn probabilities_follow_the_curve() {
        // parameters, average in packets, length, probability
        let rows: [(Flags, f64, u64, f64); 11] = [
            (&[], 5.0, 1000, 0.0),
            (&[], 10.0, 1000, 0.05),
            (&[], 14.0, 1000, 0.09),
            (&[], 15.0, 1000, 0.1),
            (&[], 22.5, 1000, 0.55),
            (&[], 30.0, 1000, 1.0),
            (&[("gentle", false)], 14.0, 1000, 0.09),
            (&[("gentle", false)], 15.0, 1000, 1.0),
            (&[("bytes", true)], 10.0, 500, 0.025),
            (&[("bytes", true)], 10.0, 65_535, 1.0),
            (&[("bytes", true)], 10.0, 0, 0.0),
        ];
        for (flags, average, length, expected) in rows {
            let curve = Curve::new(&params(&[], flags), MEAN).expect("in order");
            let average = (average * f64::from(1 << FRACTION)) as i64;
            let real = curve.probability(average, Bytes::new(length));
            assert!(close(real, expected), "{flags:?} {average} {length}: {real}");
        }
    }

    #[test]
    fn drops_are_spread() {
        let plain = Curve::new(&params(&[], &[]), MEAN).expect("in order");
        let wait = Curve::new(&params(&[], &[("wait", true)]), MEAN).expect("in order");
        let tenth = ONE / 10;
        for count in 0..30 {
            let passed = f64::from(count) / 10.0;
            let uniform = if count < 10 { 0.1 / (1.0 - passed) } else { 1.0 };
            assert!(close(plain.spread(tenth, count), uniform.min(1.0)), "{count}");
            let waited = match count {
                0..=10 => 0.0,
                11..20 => 0.1 / (2.0 - passed),
                _ => 1.0,
            };
            assert!(close(wait.spread(tenth, count), waited), "{count} waited");
        }
    }

    /// Holds `waiting` packets in the queue; returns how many of 100 000 arrivals were dropped.
    fn drops(trial: &mut Trial<Red>, waiting: usize, traffic_class: u8) -> usize {
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
        // With p, drops are evenly spread between 1 and 1/p packets apart: (1/p + 1)/2 in the mean.
        // Waiting "wait", between 1/p and 2/p.
        let rows: [(usize, Flags, f64); 5] = [
            (4, &[], 0.0),
            (10, &[], 2.0 / 21.0),
            (14, &[], 2.0 / (1.0 / 0.09 + 1.0)),
            (10, &[("wait", true)], 2.0 / (3.0 * 20.0 + 1.0)),
            (14, &[("gentle", false)], 2.0 / (1.0 / 0.09 + 1.0)),
        ];
        for (waiting, flags, fraction) in rows {
            let mut trial = Trial::<Red>::new(&params(&[], flags));
            let drops = drops(&mut trial, waiting, 0) as f64 / 1e5;
            let close = (drops - fraction).abs() < 0.06 * fraction + 1e-9;
            assert!(close, "{waiting} {flags:?}: {drops} instead of {fraction}");
        }
    }

    #[test]
    fn an_ecn_capable_packet_is_marked_instead() {
        let mut trial = Trial::<Red>::new(&params(&[], &[("ecn", true)]));
        assert_eq!(drops(&mut trial, 10, 0b01), 0);
        assert!((8_900..10_100).contains(&trial.marked), "{}", trial.marked);
    }

    #[test]
    fn an_adaptive_probability_moves_the_average_to_the_middle() {
        let plan = params(&[("pmax", "1 %"), ("max", "25 packets")], &[("adaptive", true)]);
        let mut trial = Trial::<Red>::new(&plan);
        let mut sum = 0;
        // The sender offers 30 % too much.
        for step in 0..400_000u64 {
            trial.pause(if step % 13 < 10 { 600 } else { 680 });
            trial.offer(1000, 0);
            if step % 13 < 10 {
                trial.serve();
            }
            if step > 200_000 {
                sum += trial.dropper.0.average >> FRACTION;
            }
        }
        let mean = sum / 200_000;
        assert!((12..=19).contains(&mean), "{mean}");
        let pmax = trial.dropper.0.curve.pmax;
        assert!(pmax > ONE / 10, "{pmax}");
    }

    #[test]
    fn a_pause_lets_the_average_decay() {
        let mut trial = Trial::<Red>::new(&params(&[("weight", "100")], &[]));
        drops(&mut trial, 10, 0);
        while trial.serve().is_some() {}
        let before = trial.dropper.0.average as f64;
        // A packet of 1000 B takes 0.8 ms.
        trial.pause(800 * 69);
        trial.offer(1000, 0);
        let part = trial.dropper.0.average as f64 / before;
        assert!((part - 0.99f64.powi(69)).abs() < 1e-3, "{part}");
    }

    #[test]
    fn packets_that_are_refused_in_a_pause_do_not_end_it() {
        let plan = params(&[("weight", "100")], &[("gentle", false)]);
        let mut trial = Trial::<Red>::new(&plan);
        drops(&mut trial, 14, 0);
        while trial.serve().is_some() {}
        trial.dropper.0.average = 30 << FRACTION;
        trial.pause(800);
        assert!(!trial.offer(1000, 0), "the average is above the upper threshold");
        let before = trial.dropper.0.average as f64;
        // However short the times between them are.
        for _ in 0..50 * 8 {
            trial.pause(100);
            trial.offer(1000, 0);
        }
        let part = trial.dropper.0.average as f64 / before;
        assert!((part - 0.99f64.powi(50)).abs() < 1e-3, "{part}");
        trial.pause(800 * 1000);
        assert!(trial.offer(1000, 0), "the queue was empty for long");
    }

    #[test]
    fn thresholds_must_leave_a_range_and_share_a_unit() {
        let rows = [
            (&[("min", "15 packets")][..], "thresholds of 15 and 15 packets leave no range"),
            (&[("min", "15 KB")], "both in packets or both in bytes"),
            (&[("min", "15 KB"), ("max", "30 KB")], ""),
        ];
        for (numbers, message) in rows {
            let refusal = Trial::<Red>::refusal(&params(numbers, &[]));
            assert!(refusal.contains(message), "{refusal}");
            assert_eq!(message.is_empty(), refusal.is_empty());
        }
    }
}
