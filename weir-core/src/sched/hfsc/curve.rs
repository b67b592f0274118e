//! Service curves, and how far a class has come on them [algorithms §6.2].
//!
//! A curve rises by `m1` for a time `d`, then by `m2`: two lines, of which the lower one counts if
//! the curve is concave (`m1` above `m2`) and the higher one if it is convex. A runtime curve that
//! was lowered any number of times is again two such lines. It is stored as the two times at which
//! they reach what was served until now: serving adds to both, `min_with` is a maximum each, and
//! `y2x` the later or earlier of the two. So no packet needs a division.
//!
//! Times are in units of 2^-40 ns. A slope is the time of a byte, rounded up: never faster than its
//! rate, and slower by less than 10^-9 of it up to 8 Tbit/s. No other rounding adds up. With
//! `rules = "linux"` a curve is computed as there (`ticks.rs`). Invariant: times stay within
//! [`FAR`] of zero, so no sum of two overflows.

use super::runtime::{FAR, FRACTION_BITS, Runtime, Spec};
use super::ticks::Slopes;
use crate::parameter::Params;
use crate::units::{Bytes, Instant, Rate};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::num::NonZeroU32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// One slope: the first line never counts.
    Linear,
    Concave,
    Convex,
    /// Convex with `m1` = 0.
    Delayed,
}

/// The source that is followed where sources differ.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Rules {
    /// Exact curves.
    #[default]
    Exact,
    /// Linux's `sch_hfsc`: its arithmetic, and its order of equals.
    Linux,
}

/// A curve prepared for packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Curve {
    Exact(Lines),
    Linux(Slopes),
}

/// The two lines of a curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lines {
    shape: Shape,
    /// The time of a byte by `m1`; 0 if that is.
    early: i128,
    /// The time of a byte by `m2`.
    late: i128,
    /// How much earlier (concave) or later (convex) than the first its second line starts.
    offset: i128,
}

/// The curves that classes have, each once.
pub(super) struct Curves {
    rules: Rules,
    table: Vec<Curve>,
    known: BTreeMap<Spec, CurveId>,
}

/// The number of a curve, from 1, so that an optional one takes no more room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CurveId(NonZeroU32);

impl Rules {
    /// The rules that the link's parameters name.
    pub(super) fn from_params(params: &Params) -> Self {
        match params.choice("rules") {
            Some("linux") => Rules::Linux,
            _ => Rules::Exact,
        }
    }
}

impl Curve {
    fn new(spec: Spec, rules: Rules) -> Self {
        match rules {
            Rules::Exact => Curve::Exact(Lines::new(spec)),
            Rules::Linux => Curve::Linux(Slopes::new(spec)),
        }
    }

    /// Lowers the runtime curve to this curve started at `at` with what was served. A convex one is
    /// moved there, unless it is lower there already [algorithms §6.2].
    #[inline]
    pub(super) fn min_with(&self, runtime: &mut Runtime, at: i128) {
        match self {
            Curve::Exact(lines) => lines.min_with(runtime, at),
            Curve::Linux(slopes) => slopes.min_with(runtime, at),
        }
    }

    /// When the curve reaches what was served.
    #[inline]
    pub(super) fn reached(&self, runtime: &Runtime) -> i128 {
        match self {
            Curve::Exact(lines) => lines.reached(runtime),
            Curve::Linux(slopes) => slopes.y2x(runtime, 0),
        }
    }

    /// When the curve reaches `bytes` more than were served.
    #[inline]
    pub(super) fn y2x(&self, runtime: &Runtime, bytes: u32) -> i128 {
        match self {
            Curve::Exact(lines) => lines.y2x(runtime, bytes),
            Curve::Linux(slopes) => slopes.y2x(runtime, bytes),
        }
    }

    /// When the eligible curve reaches what was served: that of a convex curve starts with its
    /// second slope [algorithms §6.4].
    #[inline]
    pub(super) fn eligible(&self, runtime: &Runtime) -> i128 {
        match self {
            Curve::Exact(lines) => lines.eligible(runtime),
            Curve::Linux(slopes) => slopes.eligible(runtime),
        }
    }

    /// `bytes` more were served.
    #[inline]
    pub(super) fn serve(&self, runtime: &mut Runtime, bytes: u32) {
        match self {
            Curve::Exact(lines) => lines.serve(runtime, bytes),
            Curve::Linux(slopes) => slopes.serve(runtime, bytes),
        }
    }

    /// Moves the whole runtime curve later by `time`.
    #[inline]
    pub(super) fn delay(&self, runtime: &mut Runtime, time: i128) {
        match self {
            Curve::Exact(_) => runtime.delay(time),
            Curve::Linux(slopes) => slopes.delay(runtime, time),
        }
    }
}

impl Lines {
    fn new(spec: Spec) -> Self {
        let shape = match spec.m1.cmp(&spec.m2.bits_per_second()) {
            _ if spec.d.as_nanos() == 0 => Shape::Linear,
            Ordering::Equal => Shape::Linear,
            Ordering::Greater => Shape::Concave,
            Ordering::Less if spec.m1 > 0 => Shape::Convex,
            Ordering::Less => Shape::Delayed,
        };
        let early = Rate::new(spec.m1).map_or(0, byte_time);
        Self { shape, early, late: byte_time(spec.m2), offset: spec.offset() }
    }

    #[inline]
    fn min_with(&self, runtime: &mut Runtime, at: i128) {
        let Runtime { first, second } = *runtime;
        match self.shape {
            Shape::Linear => runtime.second = second.max(at),
            Shape::Concave => {
                *runtime = Runtime { first: first.max(at), second: second.max(at - self.offset) };
            }
            Shape::Convex | Shape::Delayed if first > at && second > at => {}
            Shape::Convex | Shape::Delayed => {
                *runtime = Runtime { first: at, second: (at + self.offset).min(FAR) };
            }
        }
    }

    #[inline]
    fn reached(&self, runtime: &Runtime) -> i128 {
        match self.shape {
            // A line without a slope ends where the second starts.
            Shape::Linear | Shape::Delayed => runtime.second,
            Shape::Concave => runtime.first.max(runtime.second),
            Shape::Convex => runtime.first.min(runtime.second),
        }
    }

    #[inline]
    fn y2x(&self, runtime: &Runtime, bytes: u32) -> i128 {
        let mut ahead = *runtime;
        self.serve(&mut ahead, bytes);
        self.reached(&ahead)
    }

    #[inline]
    fn eligible(&self, runtime: &Runtime) -> i128 {
        match self.shape {
            Shape::Linear | Shape::Concave => self.reached(runtime),
            Shape::Convex | Shape::Delayed => runtime.second - self.offset,
        }
    }

    #[inline]
    fn serve(&self, runtime: &mut Runtime, bytes: u32) {
        runtime.second = (runtime.second + self.late * i128::from(bytes)).min(FAR);
        match self.shape {
            Shape::Linear => {}
            Shape::Concave | Shape::Convex => {
                runtime.first = (runtime.first + self.early * i128::from(bytes)).min(FAR);
            }
            // A line without a slope reaches no byte at all.
            Shape::Delayed if bytes > 0 => runtime.first = FAR,
            Shape::Delayed => {}
        }
    }
}

impl Curves {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, table: Vec::new(), known: BTreeMap::new() }
    }

    pub(super) fn rules(&self) -> Rules {
        self.rules
    }

    /// The number of the curve of `spec`.
    pub(super) fn add(&mut self, spec: Spec) -> CurveId {
        let (table, rules) = (&mut self.table, self.rules);
        *self.known.entry(spec).or_insert_with(|| {
            table.push(Curve::new(spec, rules));
            CurveId(NonZeroU32::new(table.len() as u32).expect("a curve was added"))
        })
    }

    /// The number of the curve of `spec`, if a class has or had it.
    pub(super) fn number(&self, spec: Spec) -> Option<CurveId> {
        self.known.get(&spec).copied()
    }

    /// Returns whether another curve may be added while `classes` classes may have one each.
    pub(super) fn has_room(&self, classes: usize) -> bool {
        self.table.len() < classes + SPARE
    }

    /// The curve of that number.
    #[inline]
    pub(super) fn at(&self, number: CurveId) -> &Curve {
        &self.table[number.0.get() as usize - 1]
    }
}

/// Bound: curves that no class has any more; with more, a leaf that changes gets its curve in the
/// next whole change.
const SPARE: usize = 1 << 16;

/// The time of a byte, rounded up; below 2^73 at 1 bit/s.
fn byte_time(rate: Rate) -> i128 {
    let fine_per_second = 8_000_000_000u128 << FRACTION_BITS;
    fine_per_second.div_ceil(u128::from(rate.bits_per_second())) as i128
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;

    fn rate(bits: u64) -> Rate {
        Rate::new(bits).expect("rows hold no zero")
    }

    #[test]
    fn a_slope_is_never_fast_and_slow_by_less_than_a_billionth() {
        for bits in [1, 7, 1_000, 30_000_001, 99_999_989, 10_000_000_000, 400_000_000_000] {
            let time = byte_time(rate(bits)) as u128 * 1500;
            // Both sides multiplied by the rate.
            let (ours, exact) = (time * u128::from(bits), (8 * 1500 * 1_000_000_000u128) << 40);
            assert!(ours >= exact, "{bits} bit/s runs fast");
            assert!((ours - exact) * 1_000_000_000 < exact, "{bits} bit/s is off");
        }
    }

    #[test]
    fn the_worked_example_reaches_its_times() {
        // [algorithms §6.8 a] 400 B/ms for 10 ms, then 100 B/ms.
        let spec = Spec { m1: 3_200_000, d: Duration::from_millis(10), m2: rate(800_000) };
        let curve = Curve::new(spec, Rules::Exact);
        let mut runtime = Runtime::IDLE;
        curve.min_with(&mut runtime, 0);
        let micros = [0, 2500, 5000, 7500, 10_000, 20_000, 30_000, 40_000];
        for pair in micros.windows(2) {
            let at = |micros: u64| Instant::from_nanos(micros * 1000);
            assert_eq!(round_up(curve.reached(&runtime)), at(pair[0]));
            assert_eq!(round_up(curve.y2x(&runtime, 1000)), at(pair[1]));
            curve.serve(&mut runtime, 1000);
        }
    }

    #[test]
    fn extremes_are_held() {
        let slopes = [0, 1, 1_000_003, 400_000_000_000, u64::MAX];
        let spans = [Duration::ZERO, Duration::from_nanos(1), Duration::from_nanos(u64::MAX)];
        for row in 0..slopes.len() * spans.len() * (slopes.len() - 1) {
            let (m1, rest) = (slopes[row % slopes.len()], row / slopes.len());
            let (d, m2) = (spans[rest % spans.len()], slopes[1 + rest / spans.len()]);
            let curve = Curve::new(Spec { m1, d, m2: rate(m2) }, Rules::Exact);
            let mut runtime = Runtime::IDLE;
            for step in 0..200u64 {
                let now = Instant::from_nanos(step * 40_000_000_000_000_000);
                curve.min_with(&mut runtime, fine(now));
                let before = curve.reached(&runtime);
                curve.serve(&mut runtime, u32::MAX);
                assert!(curve.reached(&runtime) >= before, "{m1} {d:?} {m2}");
                assert!(curve.y2x(&runtime, u32::MAX) <= FAR);
            }
        }
    }
}
