//! Service curves, and how far a class has come on them [algorithms §6.2].
//!
//! A curve rises by `m1` for a time `d`, then by `m2`: two straight lines, of which the lower one
//! counts if the curve is concave (`m1` above `m2`) and the higher one if it is convex. A runtime
//! curve that was lowered any number of times is again two such lines, so it is kept as the two
//! times at which its lines reach what was served until now, the [`Position`]. Sending a packet
//! moves both by a multiplication; lowering the curve is a maximum each. No rounding adds up but
//! that of the slopes.
//!
//! A real-time curve of one slope is kept in its leaf instead (`leaf.rs`), with the same units.
//!
//! Times are in units of 2^-40 ns (virtual times in a power of two of them). A slope is kept as the
//! time of a byte, rounded up by less than one part in 2^31. Invariant: amounts stay within
//! [`FAR`] of zero, so no sum of two overflows.

use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A curve as written: `m1` bit/s, which may be 0, for `d`, then `m2`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Spec {
    pub(super) m1: u64,
    pub(super) d: Duration,
    pub(super) m2: Rate,
}

/// The time that a byte takes: `mantissa` shifted left by `shift`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Slope {
    /// That, if it is below 2^64, as nearly always; else 0.
    short: u64,
    mantissa: u32,
    shift: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Linear,
    Concave,
    Convex,
}

/// A curve made ready: no packet needs a division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Curve {
    shape: Shape,
    /// Of `m1`; `None` if that is 0.
    early: Option<Slope>,
    late: Slope,
    /// How much earlier (concave) or later (convex) than the start its second line begins.
    offset: i128,
}

/// The times at which the lines of a runtime curve reach what was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    first: i128,
    second: i128,
}

/// A curve and how far a class has come on it.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub(super) curve: u32,
    pub(super) position: Position,
}

/// The curves that classes have, each once.
#[derive(Clone, Default)]
pub(super) struct Curves {
    table: Vec<Curve>,
    known: BTreeMap<(Spec, u8), u32>,
}

impl Spec {
    /// One slope from the start.
    pub(super) const fn linear(rate: Rate) -> Self {
        Self { m1: 0, d: Duration::ZERO, m2: rate }
    }

    /// Whether the first slope never counts.
    pub(super) fn is_linear(self) -> bool {
        self.d == Duration::ZERO || self.m1 == self.m2.bits_per_second()
    }

    /// The shift of its fastest slope.
    pub(super) fn shift_min(self) -> u8 {
        let late = Slope::of(self.m2).shift;
        let early = Rate::new(self.m1).filter(|_| !self.is_linear()).map(Slope::of);
        early.map_or(late, |early| late.min(early.shift))
    }
}

impl Slope {
    /// The slope of `rate`, rounded up to 32 significant bits: never faster than the rate, and
    /// slower by less than one part in 2^31.
    pub(super) fn of(rate: Rate) -> Self {
        let fine_per_second = (8 * 1_000_000_000u128) << FRACTION_BITS;
        // 1 bit/s gives less than 2^73.
        let exact = fine_per_second.div_ceil(u128::from(rate.bits_per_second()));
        let mut shift = (u128::BITS - exact.leading_zeros()).saturating_sub(u32::BITS);
        let mut mantissa = exact.div_ceil(1 << shift);
        if mantissa > u128::from(u32::MAX) {
            shift += 1;
            mantissa = exact.div_ceil(1 << shift);
        }
        Self::shifted(mantissa as u32, shift as u8)
    }

    /// Of no curve.
    pub(super) const NONE: Slope = Slope::shifted(0, 0);

    const fn shifted(mantissa: u32, shift: u8) -> Self {
        let short = if shift <= 32 { (mantissa as u64) << shift } else { 0 };
        Self { short, mantissa, shift }
    }

    /// The time that `bytes` take. A packet of 2^32 - 1 bytes at 1 bit/s stays below 2^106.
    #[inline]
    pub(super) fn cost(self, bytes: u32) -> u128 {
        u128::from(u64::from(self.mantissa) * u64::from(bytes)) << self.shift
    }

    /// The same and `more`, below 2^96, without a shift if a byte takes less than 2^64.
    #[inline(always)]
    pub(super) fn short_cost(&self, bytes: u32, more: u64) -> Option<u128> {
        let short = self.short;
        let cost = u128::from(short) * u128::from(bytes) + u128::from(more);
        (short != 0).then_some(cost)
    }

    fn inverse(self) -> u128 {
        u128::from(self.mantissa) << self.shift
    }

    pub(super) fn scaled(self, scale: u8) -> Self {
        Self::shifted(self.mantissa, self.shift - scale)
    }
}

impl Curve {
    /// The curve of `spec` in units of 2^`scale` of ours.
    pub(super) fn new(spec: Spec, scale: u8) -> Self {
        let late = Slope::of(spec.m2);
        let early = Rate::new(spec.m1).map(Slope::of);
        let d = (u128::from(spec.d.as_nanos())) << FRACTION_BITS;
        let (shape, offset) = match early {
            _ if spec.is_linear() => (Shape::Linear, 0),
            Some(early) if spec.m1 > spec.m2.bits_per_second() => {
                let gain = late.inverse().saturating_sub(early.inverse());
                (Shape::Concave, multiply_divide(d, gain, early.inverse()))
            }
            Some(early) => {
                let loss = early.inverse().saturating_sub(late.inverse());
                (Shape::Convex, multiply_divide(d, loss, early.inverse()))
            }
            None => (Shape::Convex, d),
        };
        Self {
            shape,
            early: early.filter(|_| shape != Shape::Linear).map(|slope| slope.scaled(scale)),
            late: late.scaled(scale),
            offset: ((offset >> scale) as i128).min(FAR),
        }
    }

    /// [algorithms §6.2] Lowers the runtime curve to this curve begun at `at` and what was served.
    /// A convex one is moved there, unless it is lower there already.
    #[inline]
    pub(super) fn restart(&self, position: &mut Position, at: i128) {
        match self.shape {
            Shape::Linear => position.second = position.second.max(at),
            Shape::Concave => {
                position.first = position.first.max(at);
                position.second = position.second.max(at - self.offset);
            }
            Shape::Convex if position.first > at && position.second > at => {}
            Shape::Convex => *position = Position { first: at, second: at + self.offset },
        }
    }

    /// When the curve reaches what was served.
    #[inline]
    pub(super) fn reached(&self, position: &Position) -> i128 {
        match self.shape {
            Shape::Linear => position.second,
            Shape::Concave => position.first.max(position.second),
            Shape::Convex if self.early.is_none() => position.second,
            Shape::Convex => position.first.min(position.second),
        }
    }

    /// When a class may be served by the real-time criterion: a convex curve counts from its start
    /// with its second slope [algorithms §6.4].
    #[inline]
    pub(super) fn eligible(&self, position: &Position) -> i128 {
        match self.shape {
            Shape::Linear => position.second,
            Shape::Concave => position.first.max(position.second),
            Shape::Convex => position.second - self.offset,
        }
    }

    /// `bytes` more were served.
    #[inline]
    pub(super) fn advance(&self, position: &mut Position, bytes: u32) {
        let held = |time: i128, cost: u128| (time + cost as i128).min(FAR);
        position.second = held(position.second, self.late.cost(bytes));
        if self.shape == Shape::Linear {
            return;
        }
        match self.early {
            Some(early) => position.first = held(position.first, early.cost(bytes)),
            // A line without a slope reaches no byte at all.
            None if bytes > 0 => position.first = FAR,
            None => {}
        }
    }

    /// When the curve reaches `bytes` more than were served.
    #[inline]
    pub(super) fn reaches(&self, position: &Position, bytes: u32) -> i128 {
        if self.shape == Shape::Linear {
            return (position.second + self.late.cost(bytes) as i128).min(FAR);
        }
        let mut ahead = *position;
        self.advance(&mut ahead, bytes);
        self.reached(&ahead)
    }
}

impl Position {
    /// Of a class that was never served and owes nothing.
    pub(super) const IDLE: Position = Position { first: -FAR, second: -FAR };

    /// The whole curve, later by `time`.
    pub(super) fn delay(&mut self, time: i128) {
        self.first = (self.first + time).min(FAR);
        self.second = (self.second + time).min(FAR);
    }
}

impl Curves {
    /// The number of the curve of `spec` in units of 2^`scale` of ours.
    pub(super) fn intern(&mut self, spec: Spec, scale: u8) -> u32 {
        let table = &mut self.table;
        *self.known.entry((spec, scale)).or_insert_with(|| {
            table.push(Curve::new(spec, scale));
            table.len() as u32 - 1
        })
    }

    /// The curve of that number.
    #[inline]
    pub(super) fn at(&self, index: u32) -> &Curve {
        &self.table[index as usize]
    }
}

/// The start of this nanosecond.
#[inline]
pub(super) fn fine(instant: Instant) -> i128 {
    i128::from(instant.as_nanos()) << FRACTION_BITS
}

/// The first whole nanosecond not before `time`, held at the epoch and at the end of time.
#[inline]
pub(super) fn round_up(time: i128) -> Instant {
    let nanos = (time.max(0) + ((1 << FRACTION_BITS) - 1)) >> FRACTION_BITS;
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The length as what curves take, held at 4 GiB.
#[inline]
pub(super) fn length(bytes: Bytes) -> u32 {
    bytes.get().min(u64::from(u32::MAX)) as u32
}

/// `a` * `b` / `c`, rounded down and held at [`FAR`]; `b` and `c` below 2^100, `c` not zero. Long
/// division, a bit at a time: only while a plan is built.
fn multiply_divide(a: u128, b: u128, c: u128) -> u128 {
    let (mut quotient, mut rest) = (0u128, 0u128);
    for bit in (0..u128::BITS).rev() {
        rest = 2 * rest + if a >> bit & 1 == 1 { b } else { 0 };
        quotient = (2 * quotient + rest / c).min(FAR as u128);
        rest %= c;
    }
    quotient
}

pub(super) const FRACTION_BITS: u32 = 40;
/// Further than any instant (2^104), and than any packet's cost (2^106): what lies beyond is held.
const FAR: i128 = 1 << 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bits: u64) -> Rate {
        Rate::new(bits).expect("rows hold no zero")
    }

    #[test]
    fn a_slope_is_never_fast_and_slow_by_less_than_a_billionth() {
        for bits in [1, 7, 1_000, 30_000_001, 99_999_989, 10_000_000_000, 400_000_000_000] {
            let cost = Slope::of(rate(bits)).cost(1500);
            // Both sides multiplied by the rate.
            let (ours, exact) = (cost * u128::from(bits), (8 * 1500 * 1_000_000_000u128) << 40);
            assert!(ours >= exact, "{bits} bit/s runs fast");
            assert!((ours - exact) * 1_000_000_000 < exact, "{bits} bit/s is off");
        }
    }

    #[test]
    fn the_worked_example_reaches_its_times() {
        // [algorithms §6.8 a] 400 B/ms for 10 ms, then 100 B/ms.
        let spec = Spec { m1: 3_200_000, d: Duration::from_millis(10), m2: rate(800_000) };
        let curve = Curve::new(spec, 0);
        let mut position = Position::IDLE;
        curve.restart(&mut position, 0);
        let micros = [0, 2500, 5000, 7500, 10_000, 20_000, 30_000, 40_000];
        for pair in micros.windows(2) {
            let at = |micros: u64| Instant::from_nanos(micros * 1000);
            assert_eq!(round_up(curve.reached(&position)), at(pair[0]));
            assert_eq!(round_up(curve.reaches(&position, 1000)), at(pair[1]));
            curve.advance(&mut position, 1000);
        }
    }

    #[test]
    fn extremes_are_held() {
        let slopes = [0, 1, 1_000_003, 400_000_000_000, u64::MAX];
        let spans = [Duration::ZERO, Duration::from_nanos(1), Duration::from_nanos(u64::MAX)];
        for row in 0..slopes.len() * spans.len() * (slopes.len() - 1) {
            let (m1, rest) = (slopes[row % slopes.len()], row / slopes.len());
            let (d, m2) = (spans[rest % spans.len()], slopes[1 + rest / spans.len()]);
            let curve = Curve::new(Spec { m1, d, m2: rate(m2) }, 0);
            let mut position = Position::IDLE;
            for step in 0..200u64 {
                let now = Instant::from_nanos(step * 40_000_000_000_000_000);
                curve.restart(&mut position, fine(now));
                let before = curve.reached(&position);
                curve.advance(&mut position, u32::MAX);
                assert!(curve.reached(&position) >= before, "{m1} {d:?} {m2}");
                assert!(curve.reaches(&position, u32::MAX) <= FAR);
            }
        }
    }
}
