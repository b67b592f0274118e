//! `delay-target`: keeps the delay behind the link at a target; Weir's own.
//!
//! Down quickly, and by what was measured: to what came through the modem, less what empties its
//! queue within [`DRAIN`]. Up slowly, and only while the link is the bottleneck: nothing is learned
//! while the load is below the rate. Up to the *knee*, the rate at which a queue last stood, the
//! steps are large; they are small near it, and grow again beyond it, as CUBIC's do
//! [RFC 9438 §4.2].
//!
//! A delay that stands although the rate was cut twice and the queue had time to empty is no queue:
//! the path has become longer, as when a satellite hands over to another.

use super::{Controller, Decision, Descriptor, Limits, Reason, scaled};
use crate::measure::Measure;
use crate::saved::saved;
use alloc::boxed::Box;
use weir_core::units::{Duration, Instant, Rate};

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    name: "delay-target",
    summary: "down to what came through the modem when the delay is above the target, up slowly",
    build: || Box::new(DelayTarget::default()),
};

#[derive(Debug, Default)]
struct DelayTarget {
    /// Intervals in a row with too much delay.
    late: u32,
    /// Steps up since the last one down.
    raised: u32,
    /// The bit/s that came through when a queue last stood; 0 before.
    knee: u64,
    /// No step before this instant, unless things get worse than `delay`.
    wait: Instant,
    delay: Duration,
    /// When the delay rose above the target, and the least since, while it stands.
    cut_at: Instant,
    /// The rate before the first cut, in bit/s.
    from: u64,
    risen: Option<Instant>,
    least: Duration,
    cuts: u32,
}

saved!(DelayTarget { late, raised, knee, wait, delay, cut_at, from, risen, least, cuts });

impl Controller for DelayTarget {
    fn decide(&mut self, limits: &Limits, rate: Rate, measure: &Measure) -> Decision {
        let keep = Decision { rate, reason: Reason::Steady, rebase: false };
        let Some(delay) = measure.delay else { return keep };
        let target = limits.target();
        // Less comes through than is sent: a queue grows, before its delay has shown.
        let grows = is_short(measure, 75);
        let is_late = delay > target || grows && delay > part(target, 2);
        if !is_late && !self.is_lossy(measure, rate) {
            if self.risen.is_some() && delay <= part(target, 2) {
                self.wait = measure.at;
            }
            (self.late, self.risen, self.cuts) = (0, None, 0);
            return self.raise(limits, rate, measure);
        }
        self.late += 1;
        self.stand(measure, rate);
        let is_sure = self.late >= LATE_MIN || grows || delay > target.plus(part(target, 3));
        // Until a round trip is over, only what comes through tells what the last cut did.
        if !is_sure || measure.at < self.wait && !grows {
            return keep;
        }
        // More comes through than is sent: the queue gets shorter, though what comes out of it is
        // later and later.
        let is_drained = self.cuts > 0 && !is_below(measure.through, rate, 105);
        if is_drained && measure.at.since(self.cut_at) < DRAIN_MAX {
            return keep;
        }
        if self.falls(target, delay) {
            self.delay = delay;
            self.wait = measure.at.after(EFFECT_MIN);
            return keep;
        }
        if is_late && self.is_path(limits, rate, measure) {
            let rate = Rate::new(self.from).unwrap_or(rate);
            (self.late, self.risen, self.cuts) = (0, None, 0);
            return Decision { rate, reason: Reason::Path, rebase: true };
        }
        self.cut(limits, rate, measure, delay)
    }
}

impl DelayTarget {
    /// Losses count where the modem has no queue that tells: a policer.
    fn is_lossy(&self, measure: &Measure, rate: Rate) -> bool {
        let is_loaded = u128::from(measure.sent) * 4 > u128::from(rate.bits_per_second()) * 3;
        measure.is_lossy && is_loaded && measure.through.is_some()
    }

    /// Lowers the rate to what came through, less what empties the queue.
    fn cut(&mut self, limits: &Limits, rate: Rate, measure: &Measure, delay: Duration) -> Decision {
        let bits = rate.bits_per_second();
        let is_full = measure.is_limited || measure.sent / 9 >= bits / 10;
        // Upwards it is known what was sent: a queue to which that did not add is another's.
        let is_short = is_short(measure, 90);
        let is_own = match measure.offered {
            Some(offered) => is_short || is_full && offered / 7 >= bits / 10,
            None => true,
        };
        if !is_own {
            return Decision { rate, reason: Reason::Steady, rebase: false };
        }
        // What came through is the modem's rate if more was sent, or more is wanted.
        let is_known = measure.offered.is_none() || is_short;
        let through = measure.through.filter(|_| is_known).unwrap_or(bits).min(bits).max(1);
        let surplus = delay.as_nanos().saturating_sub(limits.target().as_nanos() / 2);
        let share = (surplus.saturating_mul(1000) / DRAIN.as_nanos()).clamp(CUT_MIN, CUT_MAX);
        let to = through.saturating_mul(1000 - share) / 1000;
        // What came down may be less than the modem could take, if nobody sent more.
        let floor = if is_full || is_short { bits / 2 } else { bits - bits / 10 }.max(1);
        let most = scaled(rate, 1000 - CUT_MIN, 1000).bits_per_second();
        let to = to.clamp(floor, most.max(floor));
        if self.cuts == 0 {
            self.from = bits;
        }
        (self.raised, self.late) = (0, 0);
        self.cuts += 1;
        (self.delay, self.cut_at) = (delay, measure.at);
        self.wait = measure.at.after(effect(measure, delay));
        let reason = if delay > limits.target() { Reason::Delay } else { Reason::Loss };
        Decision { rate: Rate::new(to).unwrap_or(Rate::MIN), reason, rebase: false }
    }

    /// Raises the rate if the load needs it.
    fn raise(&mut self, limits: &Limits, rate: Rate, measure: &Measure) -> Decision {
        let keep = Decision { rate, reason: Reason::Steady, rebase: false };
        let bits = rate.bits_per_second();
        let is_needed = measure.is_limited && measure.sent / 8 >= bits / 10;
        let (delay, target) = (measure.delay.unwrap_or_default(), limits.target());
        // A queue that grows grows on at the same rate.
        let grows = delay.as_nanos() > self.delay.as_nanos() + target.as_nanos() / 10;
        self.delay = delay;
        if !is_needed || measure.at < self.wait || grows {
            return keep;
        }
        let room = target.as_nanos().saturating_sub(delay.as_nanos()) * 1000 / target.as_nanos();
        let step = self.step_up(bits) * room / 1000;
        if step == 0 {
            return keep;
        }
        self.raised = self.raised.saturating_add(1);
        let to =
            scaled(rate, 1000 + step, 1000).max(Rate::new(bits.saturating_add(1)).unwrap_or(rate));
        Decision { rate: to, reason: Reason::Load, ..keep }
    }

    /// Returns the step up in thousandths.
    fn step_up(&self, bits: u64) -> u64 {
        if self.knee == 0 {
            return (STEP_NEAR + u64::from(self.raised) * STEP_GROWTH).min(STEP_FAST);
        }
        // In thousandths of the knee.
        let place = (u128::from(bits) * 1000 / u128::from(self.knee)).min(10_000) as u64;
        match place {
            0..850 => STEP_BACK,
            850..920 => STEP_FAST,
            // A knee at which no queue stands is out of date.
            920..1030 => (STEP_NEAR + u64::from(self.raised.saturating_sub(8))).min(STEP_FAST),
            _ => (STEP_NEAR + (place - 1030) / STEP_SPREAD).min(STEP_FAST),
        }
    }

    /// Returns whether the last cut empties the queue as it should: no further one is needed.
    fn falls(&self, target: Duration, delay: Duration) -> bool {
        let surplus = |delay: Duration| delay.as_nanos().saturating_sub(target.as_nanos() / 2);
        self.cuts > 0 && surplus(delay) / 7 < surplus(self.delay) / 8
    }

    /// Notes a delay that is above the target. While a queue stands, what comes through is what the
    /// modem can carry, unless it is all that is sent.
    fn stand(&mut self, measure: &Measure, rate: Rate) {
        let delay = measure.delay.unwrap_or_default();
        self.least = if self.risen.is_none() { delay } else { self.least.min(delay) };
        let is_known = is_short(measure, 90) || !is_below(measure.through, rate, 102);
        if self.risen.is_none() || is_known {
            let through = measure.through.filter(|_| is_known || measure.offered.is_none());
            self.knee = through.unwrap_or(rate.bits_per_second());
        }
        self.risen = self.risen.or(Some(measure.at));
    }

    /// Returns whether the delay is that of a longer path: no cut has lowered it.
    fn is_path(&self, limits: &Limits, rate: Rate, measure: &Measure) -> bool {
        let Some(risen) = self.risen else { return false };
        let is_long = measure.at.since(risen) > STANDS;
        let is_low = rate > limits.min() && rate.bits_per_second() / 4 < self.from / 5;
        let stands = self.least.as_nanos() / 4 > self.delay.as_nanos() / 5;
        is_long && self.cuts >= 2 && is_low && measure.is_limited && stands
    }
}

/// Returns whether less came through than so many percent of what was sent a round trip before.
fn is_short(measure: &Measure, percent: u64) -> bool {
    let both = measure.through.zip(measure.offered);
    both.is_some_and(|(through, offered)| through / percent < offered / 100)
}

/// Returns whether what came through is less than so many percent of the rate.
fn is_below(through: Option<u64>, rate: Rate, percent: u64) -> bool {
    through.is_some_and(|through| through < scaled(rate, percent, 100).bits_per_second())
}

fn part(time: Duration, of: u64) -> Duration {
    Duration::from_nanos(time.as_nanos() / of)
}

/// Returns how long it takes until a step shows: a round trip, and half of one until senders have
/// followed.
fn effect(measure: &Measure, delay: Duration) -> Duration {
    let trip = measure.round_trip.unwrap_or(delay).min(EFFECT_MAX).as_nanos();
    Duration::from_nanos(trip + trip / 2).clamp(EFFECT_MIN, EFFECT_MAX)
}

/// Within which time a cut is to empty the queue.
const DRAIN: Duration = Duration::from_millis(400);
/// For how long a queue may take to empty before the rate is cut again.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// The least and the largest cut below what came through, in thousandths.
const CUT_MIN: u64 = 40;
const CUT_MAX: u64 = 450;
/// Intervals in a row that make a delay sure.
const LATE_MIN: u32 = 2;
/// Steps up in thousandths: back to what was known to pass, below the knee, near it, and their
/// growth without one; beyond it the growth in thousandths of the knee.
const STEP_BACK: u64 = 150;
const STEP_FAST: u64 = 60;
const STEP_NEAR: u64 = 6;
const STEP_GROWTH: u64 = 2;
const STEP_SPREAD: u64 = 10;
const EFFECT_MIN: Duration = Duration::from_millis(100);
const EFFECT_MAX: Duration = Duration::from_millis(500);
/// How long a delay stands before it can be that of a path.
const STANDS: Duration = Duration::from_millis(1_000);
