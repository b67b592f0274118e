//! The capacity of a line over time: a step function of rates, from a file or from a model.
//!
//! LTE, 5G, satellites and cable in the evening have no rate that is a number. [`Capacity`] says
//! what such a line can send between two instants, and when it has sent so much, in whole numbers;
//! [`Bottleneck`] is a queue in front of it: a modem. Nothing here does I/O. Invariant: work is
//! counted in bit/s times nanoseconds, so no bit is lost or won at a step, and times round up.

mod bottleneck;
mod json;
mod models;
mod read;
mod text;

pub use bottleneck::{Bottleneck, Buffer, Count};
pub use models::Model;
pub use read::parse;
pub use text::CapacityError;

use std::sync::Arc;
use weir_core::units::{Bytes, Duration, Instant};

/// The rate of a line over time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capacity {
    steps: Arc<[Step]>,
    /// The length of all steps.
    period: u64,
    /// The work of all steps.
    total: u128,
    end: End,
    /// Where in the trace the time of the line begins.
    start: u64,
}

/// The continuation behind the last step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// The first step again.
    #[default]
    Loop,
    /// Nothing: the line sends no more.
    Stop,
}

/// Work that a line has done: bit/s times nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Work(u128);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    /// Nanoseconds from the start of the trace.
    from: u64,
    /// bit/s; may be 0.
    rate: u64,
    /// The work of all steps before it.
    before: u128,
}

impl Work {
    /// The work of sending `bytes`.
    pub const fn of(bytes: Bytes) -> Self {
        Self(bytes.get() as u128 * BYTE)
    }

    /// Returns the sum.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the whole bytes, rounded down.
    pub const fn bytes(self) -> Bytes {
        let bytes = self.0 / BYTE;
        Bytes::new(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }

    /// Returns the difference, zero if `other` is more.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Capacity {
    /// A capacity of steps, each a length and bit/s; `None` without a step that lasts, or with more
    /// than [`STEPS_MAX`], a rate above [`RATE_MAX`], or more than a hundred years.
    pub fn new(steps: impl IntoIterator<Item = (Duration, u64)>, end: End) -> Option<Self> {
        let mut rows: Vec<Step> = Vec::new();
        let (mut from, mut before) = (0u64, 0u128);
        for (length, rate) in steps {
            if length == Duration::ZERO {
                continue;
            }
            if rows.last().is_none_or(|row| row.rate != rate) {
                rows.push(Step { from, rate, before });
            }
            from = from.checked_add(length.as_nanos()).filter(|&from| from <= PERIOD_MAX)?;
            before += u128::from(rate) * u128::from(length.as_nanos());
            if rows.len() > STEPS_MAX || rate > RATE_MAX {
                return None;
            }
        }
        if rows.is_empty() {
            return None;
        }
        Some(Self { steps: rows.into(), period: from, total: before, end, start: 0 })
    }

    /// One rate in bit/s for all time; `None` above [`RATE_MAX`].
    pub fn constant(rate: u64) -> Option<Self> {
        Self::new([(Duration::from_secs(1), rate)], End::Loop)
    }

    /// Returns the same trace, of which the line begins `start` after the first step.
    #[must_use]
    pub fn starting_at(mut self, start: Duration) -> Self {
        self.start = match self.end {
            End::Loop => start.as_nanos() % self.period,
            End::Stop => start.as_nanos().min(self.period),
        };
        self
    }

    /// Returns the part of the trace that the line begins with, so long, as a trace of its own.
    pub fn window(&self, length: Duration, end: End) -> Option<Self> {
        let until = Instant::from_nanos(length.as_nanos());
        let mut steps = Vec::new();
        let mut at = Instant::ZERO;
        while at < until {
            let next = self.next_change(at).map_or(until, |next| next.min(until));
            steps.push((next.since(at), self.rate_at(at)));
            at = next;
        }
        Self::new(steps, end)
    }

    /// Returns the length of the trace.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Returns bit/s at `at`.
    pub fn rate_at(&self, at: Instant) -> u64 {
        match self.within(at) {
            Some((_, place)) => self.step(place).rate,
            None => 0,
        }
    }

    /// Returns the first instant after `at` at which the rate is another; `None` if it stays.
    pub fn next_change(&self, at: Instant) -> Option<Instant> {
        let (base, place) = self.within(at)?;
        let is_last = place + 1 == self.steps.len();
        let stays = match self.end {
            End::Loop => self.steps.len() == 1,
            End::Stop => is_last && self.step(place).rate == 0,
        };
        if stays {
            return None;
        }
        let mut next = self.step(place).next_from(self, place);
        // The last step may go on in the first.
        if is_last && self.end == End::Loop && self.steps[0].rate == self.step(place).rate {
            next = self.period + self.steps[1].from;
        }
        let nanos = base.checked_add(next)?.checked_sub(self.start)?;
        Some(Instant::from_nanos(nanos))
    }

    /// Returns the work that the line can have done from the start of the trace to `at`.
    pub fn work_at(&self, at: Instant) -> Work {
        let nanos = u128::from(at.as_nanos()) + u128::from(self.start);
        let period = u128::from(self.period);
        let (rounds, rest) = match self.end {
            End::Loop => (nanos / period, nanos % period),
            End::Stop if nanos >= period => return Work(self.total),
            End::Stop => (0, nanos),
        };
        let step = self.step(self.place(rest as u64));
        let within = step.before + u128::from(step.rate) * (rest - u128::from(step.from));
        Work(rounds * self.total + within)
    }

    /// Returns the bytes that the line can send between two instants, rounded down.
    pub fn between(&self, from: Instant, until: Instant) -> Bytes {
        self.work_at(until).minus(self.work_at(from)).bytes()
    }

    /// Returns the first instant at which the line can have done this work: rounds up, so never
    /// early; `None` if it never can.
    pub fn instant_of(&self, work: Work) -> Option<Instant> {
        let last = work.0.saturating_sub(1);
        let rounds = match self.end {
            End::Loop => last.checked_div(self.total)?,
            End::Stop if work.0 > self.total => return None,
            End::Stop => 0,
        };
        let rest = work.0 - rounds * self.total;
        let place = self.steps.partition_point(|step| step.before < rest).saturating_sub(1);
        let step = self.step(place);
        let into = (rest - step.before.min(rest)).div_ceil(u128::from(step.rate.max(1)));
        let nanos = rounds
            .saturating_mul(u128::from(self.period))
            .saturating_add(u128::from(step.from) + into)
            .saturating_sub(u128::from(self.start));
        Some(Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Returns the mean of the trace in bit/s, rounded down.
    pub fn mean(&self) -> u64 {
        (self.total / u128::from(self.period)) as u64
    }

    /// Returns the highest rate in bit/s.
    pub fn peak(&self) -> u64 {
        self.steps.iter().map(|step| step.rate).max().unwrap_or(0)
    }

    /// Returns the rate in bit/s below which the line is for `percent` of the time.
    pub fn percentile(&self, percent: u32) -> u64 {
        let mut rows: Vec<(u64, u64)> =
            self.lengths().map(|(length, rate)| (rate, length)).collect();
        rows.sort_unstable();
        let bound = u128::from(self.period) * u128::from(percent.min(100)) / 100;
        let mut sum = 0;
        for (rate, length) in rows {
            sum += u128::from(length);
            if sum > bound {
                return rate;
            }
        }
        self.peak()
    }

    /// Returns the steps, from the first of the trace: how long each lasts, and bit/s.
    pub fn steps(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.lengths().map(|(length, rate)| (Duration::from_nanos(length), rate))
    }

    fn lengths(&self) -> impl Iterator<Item = (u64, u64)> {
        let rows = self.steps.iter().enumerate();
        rows.map(|(place, step)| (step.next_from(self, place) - step.from, step.rate))
    }

    fn step(&self, place: usize) -> Step {
        self.steps[place]
    }

    /// The step in which a nanosecond of the trace lies.
    fn place(&self, nanos: u64) -> usize {
        self.steps.partition_point(|step| step.from <= nanos).saturating_sub(1)
    }

    /// The start of the round in which `at` lies, in the trace's time, and its step; `None` behind
    /// the end.
    fn within(&self, at: Instant) -> Option<(u64, usize)> {
        let nanos = at.as_nanos().saturating_add(self.start);
        let rest = match self.end {
            End::Loop => nanos % self.period,
            End::Stop => Some(nanos).filter(|&nanos| nanos < self.period)?,
        };
        Some((nanos - rest, self.place(rest)))
    }
}

impl Step {
    /// Where the next step begins.
    fn next_from(&self, capacity: &Capacity, place: usize) -> u64 {
        capacity.steps.get(place + 1).map_or(capacity.period, |next| next.from)
    }
}

/// The work of a byte.
const BYTE: u128 = 8 * 1_000_000_000;
/// Bound: steps of a trace; a longer one is refused.
pub const STEPS_MAX: usize = 1 << 20;
/// Bound: bit/s of a trace; a faster one is refused.
pub const RATE_MAX: u64 = 10_000_000_000_000;
/// A hundred years in nanoseconds.
const PERIOD_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::random::Random;

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn steps(rows: &[(u64, u64)], end: End) -> Capacity {
        let rows = rows.iter().map(|&(millis, rate)| (Duration::from_millis(millis), rate));
        Capacity::new(rows, end).expect("sound steps")
    }

    #[test]
    fn a_trace_loops_or_stops() {
        let rows = [(10, 8_000_000), (10, 0), (20, 4_000_000)];
        // Bytes in the first 10 ms: 10 000; in the last 20: 10 000.
        for (end, until, bytes) in [
            (End::Loop, 5, 5_000),
            (End::Loop, 20, 10_000),
            (End::Loop, 40, 20_000),
            (End::Loop, 95, 50_000),
            (End::Stop, 95, 20_000),
        ] {
            let capacity = steps(&rows, end);
            assert_eq!(capacity.between(ms(0), ms(until)).get(), bytes, "{end:?} {until}");
        }
        let stops = steps(&rows, End::Stop);
        assert_eq!(stops.instant_of(Work::of(Bytes::new(20_000))), Some(ms(40)));
        assert_eq!(stops.instant_of(Work::of(Bytes::new(20_001))), None);
        assert_eq!(stops.rate_at(ms(40)), 0);
        assert_eq!(stops.next_change(ms(39)), Some(ms(40)));
        assert_eq!(stops.next_change(ms(40)), None);
        let later = steps(&rows, End::Loop).starting_at(Duration::from_millis(15));
        assert_eq!((later.rate_at(ms(0)), later.rate_at(ms(5))), (0, 4_000_000));
        assert_eq!(later.next_change(ms(0)), Some(ms(5)));
        assert_eq!(later.next_change(ms(5)), Some(ms(25)));
        let window = later.window(Duration::from_millis(10), End::Stop).expect("it lasts");
        assert_eq!(window.steps().collect::<Vec<_>>().len(), 2);
        assert_eq!(window.between(ms(0), ms(99)).get(), 2_500);
    }

    #[test]
    fn percentiles_weigh_by_time() {
        let capacity = steps(&[(10, 100), (40, 300), (50, 200)], End::Loop);
        assert_eq!(
            [5, 10, 59, 60, 100].map(|part| capacity.percentile(part)),
            [100, 200, 200, 300, 300]
        );
        assert_eq!((capacity.mean(), capacity.peak()), (230, 300));
    }

    #[test]
    fn work_and_instants_are_each_others_inverse() {
        for seed in 0..500 {
            let mut random = Random::new(seed, 0);
            let mut draw = |most: u32| u64::from(random.below(most));
            let count = 1 + draw(20);
            let rows: Vec<_> = (0..count)
                .map(|_| (Duration::from_nanos(1 + draw(3_000)), draw(4) * draw(u32::MAX)))
                .collect();
            let end = if draw(2) == 0 { End::Loop } else { End::Stop };
            let capacity = Capacity::new(rows, end).expect("sound");
            let capacity = capacity.starting_at(Duration::from_nanos(draw(9_000)));
            let mut last = capacity.work_at(Instant::ZERO);
            for nanos in 1..5_000u64 {
                let at = Instant::from_nanos(nanos);
                let work = capacity.work_at(at);
                let rate = capacity.rate_at(Instant::from_nanos(nanos - 1));
                assert_eq!(work.minus(last), Work(rate.into()), "{seed} {nanos}");
                if work > last {
                    assert_eq!(capacity.instant_of(work), Some(at), "{seed} {nanos}");
                    let before = capacity.instant_of(last.plus(Work(1))).expect("it goes on");
                    assert_eq!(before, at, "{seed} {nanos}: not before");
                }
                if let Some(next) = capacity.next_change(Instant::from_nanos(nanos - 1))
                    && next == at
                {
                    assert_ne!(capacity.rate_at(at), rate, "{seed} {nanos}");
                }
                last = work;
            }
        }
    }

    #[test]
    fn senseless_steps_are_refused() {
        assert_eq!(Capacity::new([], End::Loop), None);
        assert_eq!(Capacity::new([(Duration::ZERO, 5)], End::Loop), None);
        assert_eq!(Capacity::constant(RATE_MAX + 1), None);
        assert_eq!(Capacity::new([(Duration::from_nanos(u64::MAX), 5)], End::Loop), None);
        let never = Capacity::constant(0).expect("a dead line");
        assert_eq!(never.instant_of(Work(1)), None);
    }
}
