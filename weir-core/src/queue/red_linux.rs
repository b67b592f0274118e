//! The average queue length of Linux's droppers that descend from RED, and the drops drawn from it
//! [linux red.h; red93 §4] [algorithms §9.12].
//!
//! The average is in fixed point with as many fractional bits as the logarithm of the weight, so it
//! moves by shifts alone. A pause lets it decay by a table of shifts, with steps of a power of two
//! of microseconds, and between the entries linearly. A random number is drawn once a drop, and the
//! arrivals since then, weighted by the distance from the lower threshold, are held against it.
//!
//! Invariant: no packet is dropped while the average is below `min`.

use super::{Place, refused, row};
use crate::parameter::{BuildError, Kind, Parameter, Params, Scope};
use crate::random::Random;
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant, Quantity, Share};
use core::ops::Range;

/// Thresholds, weight and decay.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Thresholds, scaled as the average.
    min: u64,
    max: u64,
    weight_log: u32,
    /// The largest probability over the range of thresholds, in 2^-32; at least 1.
    per_step: u32,
    /// The pause that halves the average, in nanoseconds, at least 1.
    halves: u64,
    /// The logarithm of the step of the table of pauses, in microseconds.
    cell_log: u32,
}

/// How fast the average moves.
#[derive(Clone, Copy)]
pub(super) struct Decay {
    /// The logarithm of the arrivals over which it is taken.
    pub weight_log: u32,
    /// The pause that halves it, in nanoseconds.
    pub halves: u64,
}

/// The average, and what was drawn since the last drop.
#[derive(Clone, Copy)]
pub(super) struct Average {
    scaled: u64,
    /// Arrivals between the thresholds since the last draw; -1 below and above.
    count: i32,
    drawn: u32,
    idle_since: Option<Instant>,
}

/// The consequence of the average for a packet that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Pass,
    /// It is dropped, or marked.
    Early,
    /// The average is above `max`.
    Forced,
}

impl Plan {
    /// Reads [`ROWS`].
    ///
    /// # Errors
    /// If the lower threshold is not below the upper one.
    pub(super) fn from_params(params: &Params, place: Place) -> Result<Self, BuildError> {
        let number = |name, default| params.number(name).unwrap_or(default);
        let (min, max) = (number("min", MIN), number("max", MAX));
        if min >= max {
            let message = alloc::format!("thresholds of {min} and {max} packets; raise `max`");
            return refused("max", message);
        }
        let weight_log = number("weight", WEIGHT).clamp(1, WEIGHT_MAX).ilog2();
        let pmax = match params.quantity("pmax") {
            Some(Quantity::Share(share)) => share,
            _ => Share::from_ppb(PMAX).expect("2 % is a share"),
        };
        let usual = place.rate.transmit_time(Bytes::new(PACKET)).as_nanos() << weight_log;
        let halves = params.duration("halves").map_or(usual, Duration::as_nanos);
        Ok(Self::new(min..max, pmax, Decay { weight_log, halves }))
    }

    /// Makes a plan for these thresholds, in packets or bytes.
    pub(super) fn new(thresholds: Range<u64>, pmax: Share, decay: Decay) -> Self {
        let Range { start: min, end: max } = thresholds;
        let pmax = (u64::from(pmax.ppb()) << 32) / u64::from(Share::WHOLE.ppb());
        let range = max.saturating_sub(min).max(1);
        let per_step = (pmax.min(u32::MAX.into()) / range).max(1) as u32;
        let Decay { weight_log, halves } = decay;
        let halves = halves.max(1);
        let (min, max) = (min << weight_log, max << weight_log);
        let cell_log = (0..CELL_LOG_MAX).find(|log| 31 * u128::from(halves) < CELLS << log);
        let cell_log = cell_log.unwrap_or(CELL_LOG_MAX);
        Self { min, max, weight_log, per_step, halves, cell_log }
    }

    /// Returns by how many bits a pause of so many cells shifts the average.
    fn shift(&self, cell: u64) -> u32 {
        if cell >= 255 {
            return 31;
        }
        let halvings = (u128::from(cell) << self.cell_log) * 1000 / u128::from(self.halves);
        halvings.min(31) as u32
    }
}

impl Average {
    /// The average of a queue that was always empty.
    pub(super) const EMPTY: Average = Average { scaled: 0, count: -1, drawn: 0, idle_since: None };

    /// Counts a packet that arrives behind `waiting` others.
    pub(super) fn arrived(&mut self, plan: &Plan, now: Instant, waiting: u64) {
        let Some(since) = self.idle_since.take() else {
            let waiting = waiting.min(u64::from(u32::MAX));
            self.scaled = self.scaled + waiting - (self.scaled >> plan.weight_log);
            return;
        };
        let micros = (now.since(since).as_nanos() / 1000).min(255 << plan.cell_log);
        let shift = plan.shift(micros >> plan.cell_log);
        self.scaled = match shift {
            0 => {
                let part = (u128::from(self.scaled) * u128::from(micros)) >> plan.cell_log;
                let half = self.scaled >> 1;
                self.scaled - u64::try_from(part).map_or(half, |part| part.min(half))
            }
            shift => self.scaled >> shift,
        };
    }

    /// Records that the queue is idle from `now` on.
    pub(super) fn idle(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// Returns whether the queue is idle.
    pub(super) const fn is_idle(&self) -> bool {
        self.idle_since.is_some()
    }

    /// Returns the average in its fixed point.
    pub(super) const fn scaled(&self) -> u64 {
        self.scaled
    }

    /// Takes over the length and the pause of another average, but not what was drawn.
    pub(super) const fn follow(&mut self, other: &Average) {
        (self.scaled, self.idle_since) = (other.scaled, other.idle_since);
    }

    /// Returns whether the average is above the lower threshold.
    pub(super) const fn is_above_min(&self, plan: &Plan) -> bool {
        self.scaled > plan.min
    }

    /// Forgets the draw, since the average is below the lower threshold.
    pub(super) const fn forget(&mut self) {
        self.count = -1;
    }

    /// Draws what happens to a packet that arrives while the average is above the lower threshold.
    pub(super) fn draw(&mut self, plan: &Plan, random: &mut Random) -> Action {
        if self.scaled > plan.max {
            self.count = -1;
            return Action::Forced;
        }
        self.spread(plan, random, self.scaled)
    }

    /// Draws what happens to a packet that arrives, by the average and those of `others`, scaled.
    pub(super) fn act(&mut self, plan: &Plan, random: &mut Random, others: u64) -> Action {
        let average = self.scaled.saturating_add(others);
        if average < plan.min {
            self.count = -1;
            return Action::Pass;
        }
        if average >= plan.max {
            self.count = -1;
            return Action::Forced;
        }
        self.spread(plan, random, average)
    }

    /// Draws between the thresholds.
    fn spread(&mut self, plan: &Plan, random: &mut Random, average: u64) -> Action {
        self.count = self.count.saturating_add(1);
        if self.count == 0 {
            self.drawn = plan.random(random);
            return Action::Pass;
        }
        let above = average.saturating_sub(plan.min) >> plan.weight_log;
        if above.saturating_mul(self.count as u64) < u64::from(self.drawn) {
            return Action::Pass;
        }
        self.count = 0;
        self.drawn = plan.random(random);
        Action::Early
    }

    /// Returns the average in thousandths of a packet.
    pub(super) const fn thousandths(&self, plan: &Plan) -> u64 {
        ((self.scaled as u128 * 1000) >> plan.weight_log) as u64
    }

    /// Whether it can have come about by [`Average::arrived`].
    const fn is_sound(&self) -> bool {
        self.scaled <= 1 << 62 && self.count >= -1
    }
}

impl Plan {
    fn random(&self, random: &mut Random) -> u32 {
        (random.bits() >> 32) as u32 / self.per_step
    }
}

/// The parameter rows that [`Plan::from_params`] reads.
pub(super) const ROWS: [Parameter; 5] = [
    row("min", Kind::Number(1, THRESHOLD_MAX), "83", "The average up to which none is dropped."),
    row("max", Kind::Number(2, THRESHOLD_MAX), "250", "The average above which all are dropped."),
    row(
        "pmax",
        Kind::Quantity(Dimension::Share),
        "2 %",
        "The probability of a drop just below `max`.",
    ),
    row(
        "weight",
        Kind::Number(1, WEIGHT_MAX),
        "64",
        "Arrivals over which the average is taken; rounded down to a power of two.",
    ),
    Parameter {
        name: "halves",
        scope: Scope::Queue,
        kind: Kind::Quantity(Dimension::Duration),
        default: Some("`weight` packets of 1000 B"),
        summary: "The pause in which the average halves.",
    },
];
/// 2 % in parts per billion.
const PMAX: u64 = 20_000_000;
const MIN: u64 = 83;
const MAX: u64 = 250;
const WEIGHT: u64 = 64;
const WEIGHT_MAX: u64 = 1 << 20;
/// Thresholds are shifted by the logarithm of the weight, and still fit.
const THRESHOLD_MAX: u64 = 1 << 24;
/// The length of the packet whose time on the line is the unit of pauses.
const PACKET: u64 = 1000;
/// A table of 255 cells covers 31 halvings, each cell being less than 512 of its parts.
const CELLS: u128 = 512 * 1000;
const CELL_LOG_MAX: u32 = 31;

state!(Average { scaled, count, drawn, idle_since; check: Average::is_sound });

#[cfg(test)]
mod tests {
    use super::super::trial::params;
    use super::*;
    use crate::ids::LeafId;
    use crate::units::Rate;

    fn plan(numbers: &[(&'static str, &str)]) -> Plan {
        let rate = Rate::new(10_000_000).expect("not zero");
        let place = Place { leaf: LeafId(0), rate, mtu: Bytes::new(1514), seed: 1 };
        Plan::from_params(&params(numbers, &[]), place).expect("the thresholds are in order")
    }

    #[test]
    fn the_average_follows_the_exponential_one() {
        let plan = plan(&[("weight", "100")]);
        assert_eq!(plan.weight_log, 6);
        let mut average = Average::EMPTY;
        let mut exact = 0.0;
        for step in 0..2000u64 {
            let waiting = if step % 500 < 250 { 200 } else { 20 };
            average.arrived(&plan, Instant::ZERO, waiting);
            exact += (waiting as f64 - exact) / 64.0;
            let real = average.scaled as f64 / 64.0;
            assert!((real - exact).abs() < 1.0, "{step}: {real} for {exact}");
        }
    }

    #[test]
    fn a_pause_shifts_the_average() {
        let plan = plan(&[("halves", "10 ms")]);
        // 310 ms are less than 512 cells of 1024 us.
        assert_eq!(plan.cell_log, 10);
        // microseconds of the pause, what is left of 4096
        let rows = [(0, 4096), (512, 2048), (20_000, 2048), (20_480, 1024), (400_000, 0)];
        for (micros, left) in rows {
            let mut average = Average { scaled: 4096, ..Average::EMPTY };
            average.idle(Instant::ZERO);
            average.arrived(&plan, Instant::from_nanos(micros * 1000), 7);
            assert_eq!(average.scaled, left, "{micros}");
        }
    }

    #[test]
    fn drops_are_as_frequent_as_the_probability_says() {
        let plan = plan(&[("min", "50"), ("max", "150"), ("pmax", "10 %")]);
        let mut random = Random::new(3, 0);
        for (packets, least, most) in [(100, 8_500, 11_500), (150, 17_000, 23_000), (50, 0, 0)] {
            let mut average = Average { scaled: packets << 6, ..Average::EMPTY };
            let drops =
                (0..200_000).filter(|_| average.draw(&plan, &mut random) == Action::Early).count();
            // Evenly spread draws come twice as often as independent ones.
            assert!((least..=most).contains(&(drops / 2)), "{packets}: {drops}");
        }
        let mut above = Average { scaled: 151 << 6, ..Average::EMPTY };
        assert_eq!(above.draw(&plan, &mut random), Action::Forced);
    }
}
