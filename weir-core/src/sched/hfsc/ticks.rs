//! Service curves as Linux computes them: time in ticks of 64 ns, slopes in two fixed points, each
//! rounded up, and whole bytes where a curve is compared with what was served [algorithms §6.10].
//!
//! A runtime curve starts at a tick `x` with what was served then. From there its first slope lasts
//! for `dx`. Between the two forms of a slope, bytes per tick and ticks per byte, lies a rounding
//! each; so a curve that is started anew loses up to a byte. Invariant: times stay below
//! [`TICKS_MAX`], so none overflows, also of a loaded state that is forged.

use super::runtime::{FRACTION_BITS, Runtime, Spec};
use crate::units::Rate;

/// A curve prepared for packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slopes {
    first: Slope,
    second: Slope,
    /// How long the first slope lasts, in ticks.
    dx: u64,
}

/// A slope in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slope {
    /// Bytes per tick, times 2^24, rounded up.
    rise: u64,
    /// Ticks per byte, times 2^14, rounded up; `u64::MAX` if there is no rise.
    run: u64,
}

/// A runtime curve, unpacked from a [`Runtime`].
struct Steps {
    /// The tick at which it starts.
    x: u64,
    /// The bytes that were served since.
    served: u64,
    /// How long its first slope lasts.
    dx: u64,
    /// How much later it counts than it lies.
    shift: u64,
}

impl Slopes {
    pub(super) fn new(spec: Spec) -> Self {
        let micros = u128::from(spec.d.as_nanos() / 1000);
        let dx = (micros * TICKS_PER_SECOND).div_ceil(1_000_000);
        Self { first: Slope::new(spec.m1), second: Slope::of(spec.m2), dx: ticks(dx) }
    }

    fn is_concave(&self) -> bool {
        self.first.rise > self.second.rise
    }

    /// The bytes of the first slope of a runtime curve.
    fn dy(&self, steps: &Steps) -> u64 {
        self.first.x2y(steps.dx)
    }

    /// The bytes that the curve, from its start on, reaches at a tick.
    fn x2y(&self, steps: &Steps, at: u64) -> u64 {
        let time = at.saturating_sub(steps.x);
        if time <= steps.dx {
            return self.first.x2y(time);
        }
        self.dy(steps).saturating_add(self.second.x2y(time - steps.dx))
    }

    /// The tick at which the curve reaches so many bytes from its start on.
    fn when(&self, steps: &Steps, bytes: u64) -> u64 {
        let dy = self.dy(steps);
        let time = match bytes {
            _ if bytes > dy => steps.dx.saturating_add(self.second.y2x(bytes - dy)),
            _ if dy == 0 => steps.dx,
            _ => self.first.y2x(bytes),
        };
        steps.x.saturating_add(time)
    }

    /// Lowers the runtime curve to this curve started at `at` with what was served, and forgets how
    /// much later it counted [algorithms §6.2].
    pub(super) fn min_with(&self, runtime: &mut Runtime, at: i128) {
        let mut steps = self.steps(runtime);
        steps.shift = 0;
        let at = to_ticks(at);
        let reached = self.x2y(&steps, at);
        let is_lower = match self.is_concave() {
            false => reached < steps.served,
            true => reached <= steps.served,
        };
        if !is_lower {
            if self.is_concave() {
                steps.dx = self.crossing(&steps, at, reached);
            }
            (steps.x, steps.served) = (at, 0);
        }
        *runtime = steps.packed();
    }

    /// How long the first slope counts, from `at` on, of the lower of a concave runtime curve that
    /// has `reached` so much there and of this curve started at `at`.
    fn crossing(&self, steps: &Steps, at: u64, reached: u64) -> u64 {
        let later = self.x2y(steps, at.saturating_add(self.dx));
        if later >= steps.served.saturating_add(self.first.x2y(self.dx)) {
            return self.dx;
        }
        let ahead = u128::from(reached - steps.served) << RISE_BITS;
        let dx = ahead / u128::from(self.first.rise - self.second.rise);
        let left = steps.x.saturating_add(steps.dx).saturating_sub(at);
        ticks(dx.saturating_add(left.into()))
    }

    /// When the curve reaches `bytes` more than were served.
    pub(super) fn y2x(&self, runtime: &Runtime, bytes: u32) -> i128 {
        let steps = self.steps(runtime);
        let reached = self.when(&steps, steps.served.saturating_add(bytes.into()));
        fine(reached.saturating_add(steps.shift))
    }

    /// When the eligible curve reaches what was served: that of a convex curve has its second slope
    /// only.
    pub(super) fn eligible(&self, runtime: &Runtime) -> i128 {
        if self.is_concave() {
            return self.y2x(runtime, 0);
        }
        let steps = self.steps(runtime);
        fine(steps.x.saturating_add(self.second.y2x(steps.served)))
    }

    /// `bytes` more were served.
    pub(super) fn serve(&self, runtime: &mut Runtime, bytes: u32) {
        let mut steps = self.steps(runtime);
        steps.served = steps.served.saturating_add(bytes.into());
        *runtime = steps.packed();
    }

    /// Lets the curve count later by `time`.
    pub(super) fn delay(&self, runtime: &mut Runtime, time: i128) {
        let mut steps = self.steps(runtime);
        steps.shift = steps.shift.saturating_add_signed((time >> TICK_SHIFT) as i64);
        *runtime = steps.packed();
    }

    /// A class that was never served has the curve as it is written, from the epoch on.
    fn steps(&self, runtime: &Runtime) -> Steps {
        if *runtime == Runtime::IDLE {
            return Steps { x: 0, served: 0, dx: self.dx, shift: 0 };
        }
        let Runtime { first, second } = *runtime;
        let half = |both: i128| ((both >> 64) as u64, both as u64);
        let ((x, served), (dx, shift)) = (half(first), half(second));
        Steps { x: x.min(TICKS_MAX), served, dx: dx.min(TICKS_MAX), shift: shift.min(TICKS_MAX) }
    }
}

impl Steps {
    /// In the room of the exact form: two numbers in each of its times.
    fn packed(&self) -> Runtime {
        let both = |high: u64, low: u64| i128::from(high.min(TICKS_MAX)) << 64 | i128::from(low);
        let shift = self.shift.min(TICKS_MAX);
        Runtime { first: both(self.x, self.served), second: both(self.dx, shift) }
    }
}

impl Slope {
    fn new(bits_per_second: u64) -> Self {
        Rate::new(bits_per_second).map_or(Slope { rise: 0, run: u64::MAX }, Slope::of)
    }

    /// Linux has whole bytes per second, and at least one here.
    fn of(rate: Rate) -> Self {
        let bytes = u128::from((rate.bits_per_second() / 8).max(1));
        let rise = (bytes << RISE_BITS).div_ceil(TICKS_PER_SECOND);
        let run = (TICKS_PER_SECOND << RUN_BITS).div_ceil(bytes);
        Self { rise: rise.min(u64::MAX.into()) as u64, run: run as u64 }
    }

    /// The bytes of so many ticks, rounded down.
    fn x2y(self, time: u64) -> u64 {
        let bytes = (u128::from(time) * u128::from(self.rise)) >> RISE_BITS;
        bytes.min(u64::MAX.into()) as u64
    }

    /// The ticks of so many bytes, rounded down.
    fn y2x(self, bytes: u64) -> u64 {
        match (bytes, self.run) {
            (0, _) => 0,
            (_, u64::MAX) => TICKS_MAX,
            (bytes, run) => ticks((u128::from(bytes) * u128::from(run)) >> RUN_BITS),
        }
    }
}

/// Half of the sum of two times, rounded down to a tick.
pub(super) fn midpoint(one: i128, other: i128) -> i128 {
    one.midpoint(other) >> TICK_SHIFT << TICK_SHIFT
}

fn ticks(number: u128) -> u64 {
    number.min(TICKS_MAX.into()) as u64
}

/// The tick in which a time lies.
fn to_ticks(time: i128) -> u64 {
    (time >> TICK_SHIFT).clamp(0, TICKS_MAX.into()) as u64
}

/// The start of a tick, as a time of the exact form.
fn fine(ticks: u64) -> i128 {
    i128::from(ticks.min(TICKS_MAX)) << TICK_SHIFT
}

const RISE_BITS: u32 = 24;
const RUN_BITS: u32 = 14;
/// A tick is 64 ns, in the unit of the exact form.
const TICK_SHIFT: u32 = FRACTION_BITS + 6;
const TICKS_PER_SECOND: u128 = 1_000_000_000 >> 6;
/// In ticks, 73 years: later times of a curve are held there.
const TICKS_MAX: u64 = 1 << 55;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;

    fn slopes(m1: u64, millis: u64, m2: u64) -> Slopes {
        let m2 = Rate::new(m2).expect("rows hold no zero");
        Slopes::new(Spec { m1, d: Duration::from_millis(millis), m2 })
    }

    /// The start of a tick, counted from the epoch.
    fn at(ticks: u64) -> i128 {
        i128::from(ticks * 64) << FRACTION_BITS
    }

    #[test]
    fn slopes_are_those_of_the_kernel() {
        // 1 Mbit/s is 0.008 bytes a tick, and 125 ticks a byte.
        let slope = Slope::new(1_000_000);
        assert_eq!((slope.rise, slope.run), (134_218, 125 << 14));
        assert_eq!(Slope::new(0), Slope { rise: 0, run: u64::MAX });
        // 3 Mbit/s: both are rounded up.
        let slope = Slope::new(3_000_000);
        assert_eq!((slope.rise, slope.run), (402_654, 682_667));
        assert_eq!(slopes(0, 10, 8).dx, 156_250);
    }

    #[test]
    fn a_curve_that_is_started_anew_counts_whole_bytes() {
        let curve = slopes(0, 0, 1_000_000);
        let mut runtime = Runtime::IDLE;
        curve.min_with(&mut runtime, at(1000));
        curve.serve(&mut runtime, 100);
        assert_eq!(curve.y2x(&runtime, 0), at(13_500));
        // 124 ticks before the 100th byte is reached only 99 are, so the curve stays.
        curve.min_with(&mut runtime, at(13_376));
        assert_eq!(curve.y2x(&runtime, 0), at(13_500));
        curve.min_with(&mut runtime, at(13_500));
        assert_eq!(curve.y2x(&runtime, 1), at(13_625));
    }

    #[test]
    fn a_concave_curve_crosses_itself_started_anew() {
        // 2 Mbit/s for 8 ms: 2000 bytes; then 1 Mbit/s.
        let curve = slopes(2_000_000, 8, 1_000_000);
        let mut runtime = Runtime::IDLE;
        curve.min_with(&mut runtime, at(0));
        curve.serve(&mut runtime, 3000);
        assert_eq!(curve.y2x(&runtime, 0), at(250_000));
        // After 4 ms more 500 bytes are ahead, which the steeper slope makes up in 4 ms.
        curve.min_with(&mut runtime, at(312_500));
        let steps = curve.steps(&runtime);
        assert_eq!((steps.x, steps.served, steps.dx), (312_500, 0, 62_499));
        // After a long time it is as new.
        curve.min_with(&mut runtime, at(2_000_000));
        assert_eq!(curve.steps(&runtime).dx, 125_000);
    }

    #[test]
    fn a_convex_curve_is_eligible_by_its_second_slope() {
        let curve = slopes(0, 8, 1_000_000);
        let mut runtime = Runtime::IDLE;
        curve.min_with(&mut runtime, at(1000));
        assert_eq!(curve.eligible(&runtime), at(1000));
        assert_eq!(curve.y2x(&runtime, 100), at(1000 + 125_000 + 12_500));
        curve.serve(&mut runtime, 100);
        assert_eq!(curve.eligible(&runtime), at(1000 + 12_500));
    }

    #[test]
    fn forged_numbers_do_no_harm() {
        for (m1, d, m2) in [(0, 0, 1), (u64::MAX, 1 << 40, 1), (1, 1 << 40, u64::MAX)] {
            let curve = slopes(m1, d, m2);
            for both in [0, -1, i128::MAX, 1 << 119, -(1 << 120)] {
                let mut runtime = Runtime { first: both, second: both };
                curve.min_with(&mut runtime, i128::MAX);
                curve.serve(&mut runtime, u32::MAX);
                curve.delay(&mut runtime, -1);
                let (early, late) = (curve.y2x(&runtime, 0), curve.y2x(&runtime, u32::MAX));
                assert!(0 <= early && early <= late && late <= fine(TICKS_MAX));
            }
        }
    }
}
