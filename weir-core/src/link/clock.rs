//! The scheduler's clock, which runs faster or slower than the link's where the rate of the link is
//! not that of its plan.
//!
//! A scheduler knows time and the rates of its plan, nothing else. At `k` times the planned rate
//! its clock runs `k` times as fast: then every rate, ceiling and curve of the plan is `k` times
//! what it was, bursts keep their bytes, shares stay as they are, and tokens, balances and virtual
//! times need no change. So a change of rate costs the same whatever the number of classes.
//! Invariant: the clock never goes back, and at the rate of the plan it runs as the link's does.

use crate::state::state;
use crate::units::{Duration, Instant, Rate};

/// A scheduler's clock, as a line through one point.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchedulerClock {
    /// An instant of the link, and what the scheduler's clock showed then.
    since: Instant,
    shown: Instant,
    /// bit/s of the link.
    rate: u64,
    /// bit/s of the plan.
    planned: u64,
    /// Units of 2^-40 ns that the scheduler's clock advances in a nanosecond.
    speed: u64,
}

impl SchedulerClock {
    /// A clock for a plan of this rate, which shows the link's time.
    pub(super) const fn new(planned: Rate) -> Self {
        let rate = planned.bits_per_second();
        let start = Instant::ZERO;
        Self { since: start, shown: start, rate, planned: rate, speed: WHOLE }
    }

    /// Returns the rate that the link has now.
    pub(super) fn rate(&self) -> Rate {
        Rate::new(self.rate).unwrap_or(Rate::MIN)
    }

    /// Runs at the speed of `rate` from `now` on. Ratios between the rates saturate at 2^24.
    pub(super) fn set_rate(&mut self, now: Instant, rate: Rate) {
        (self.since, self.shown) = (now, self.at(now));
        self.rate = rate.bits_per_second();
        self.fit();
    }

    /// Goes on from what `old` shows at `now`, at the speed of its own plan.
    pub(super) fn follow(&mut self, now: Instant, old: &Self) {
        (self.since, self.shown) = (now, old.at(now));
    }

    /// Computes the speed anew, after the rate was loaded or set.
    pub(super) fn fit(&mut self) {
        let speed = (u128::from(self.rate) << WHOLE_BITS) / u128::from(self.planned);
        self.speed = speed.clamp(1, u64::MAX.into()) as u64;
    }

    /// Returns what the scheduler's clock shows at `now`: rounds down.
    #[inline(always)]
    pub(super) fn at(&self, now: Instant) -> Instant {
        // A link whose rate was never changed pays one comparison.
        if self.speed == WHOLE && self.since.as_nanos() == self.shown.as_nanos() {
            return now;
        }
        self.scaled(now)
    }

    /// Returns the first instant of the link at which the scheduler's clock shows `instant`: rounds
    /// up, so that it never shows less. The start and the end of time stay what they are.
    pub(super) fn instant(&self, instant: Instant) -> Instant {
        let is_own = self.speed == WHOLE && self.since == self.shown;
        if is_own || instant == Instant::ZERO || instant == Instant::MAX {
            return instant;
        }
        let fine = |span: Duration| u128::from(span.as_nanos()) << WHOLE_BITS;
        let speed = u128::from(self.speed);
        if instant >= self.shown {
            let nanos = fine(instant.since(self.shown)).div_ceil(speed);
            return self.since.after(capped(nanos));
        }
        self.since.before(capped(fine(self.shown.since(instant)) / speed))
    }

    fn scaled(&self, now: Instant) -> Instant {
        let speed = u128::from(self.speed);
        let fine = |span: Duration| u128::from(span.as_nanos()) * speed;
        if now >= self.since {
            return self.shown.after(capped(fine(now.since(self.since)) >> WHOLE_BITS));
        }
        let back = fine(self.since.since(now)).div_ceil(u128::from(WHOLE));
        self.shown.before(capped(back))
    }

    /// Checks a loaded state.
    fn is_sound(&self) -> bool {
        self.rate > 0
    }
}

const fn capped(nanos: u128) -> Duration {
    Duration::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
}

const WHOLE_BITS: u32 = 40;
const WHOLE: u64 = 1 << WHOLE_BITS;

state!(SchedulerClock {
    since, shown, rate; kept: planned, speed; check: SchedulerClock::is_sound
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn rate(bits: u64) -> Rate {
        Rate::new(bits).expect("not zero")
    }

    #[test]
    fn a_clock_never_goes_back_and_never_wakes_early() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed, 0);
            let wide = |random: &mut Random| random.bits() >> random.below(64);
            let mut clock = SchedulerClock::new(rate(wide(&mut random).max(1)));
            let (mut now, mut shown) = (Instant::ZERO, Instant::ZERO);
            for _ in 0..100 {
                now = now.after(Duration::from_nanos(wide(&mut random) >> 20));
                let at = clock.at(now);
                assert!(at >= shown, "{seed}: it went back");
                let wake = at.after(Duration::from_nanos(wide(&mut random) >> 20));
                let wakes = clock.instant(wake);
                let is_never = wakes == Instant::MAX;
                assert!(is_never || clock.at(wakes) >= wake, "{seed}: {wake:?} shows too early");
                let before = Instant::from_nanos(wakes.as_nanos().saturating_sub(1));
                let is_first = before < now || is_never || clock.at(before) < wake;
                assert!(is_first || wake == at, "{seed}: {wake:?} shows late");
                shown = at;
                clock.set_rate(now, rate(wide(&mut random).max(1)));
                assert_eq!(clock.at(now), shown, "{seed}: a change does not move it");
            }
        }
    }

    #[test]
    fn at_half_the_rate_it_runs_half_as_fast() {
        let mut clock = SchedulerClock::new(rate(10_000));
        clock.set_rate(Instant::from_nanos(100), rate(5_000));
        assert_eq!(clock.at(Instant::from_nanos(200)), Instant::from_nanos(150));
        assert_eq!(clock.instant(Instant::from_nanos(150)), Instant::from_nanos(199 + 1));
        clock.set_rate(Instant::from_nanos(200), rate(10_000));
        assert_eq!(clock.at(Instant::from_nanos(300)), Instant::from_nanos(250));
    }
}
