//! `cake-autorate`: the published rule of cake-autorate [cake-autorate], with its default values.
//!
//! Its pings are replaced by the intervals of the estimator: every second one counts as one
//! response. Its thresholds of 30, 10 and 60 ms are for the default target of 15 ms and scale with
//! it. It has no answer of its own to blindness but silence of ten seconds; here it returns to the
//! base as each controller.

use super::{Controller, Decision, Descriptor, Limits, Reason, scaled};
use crate::measure::Measure;
use crate::saved::saved;
use alloc::boxed::Box;
use weir_core::units::{Duration, Instant, Rate};

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    name: "cake-autorate",
    summary: "the published rule of cake-autorate: down by up to 25 % when 3 of 6 samples are late",
    build: || Box::new(CakeAutorate::default()),
};

#[derive(Debug, Default)]
struct CakeAutorate {
    /// The last delays above the baseline, in nanoseconds.
    deltas: [u64; DETECTION_WINDOW],
    /// How many delays there were.
    count: u64,
    cut: Instant,
    decayed: Instant,
    /// When a delay was taken last.
    taken: Instant,
}

saved!(CakeAutorate { deltas, count, cut, decayed, taken });

impl Controller for CakeAutorate {
    fn decide(&mut self, limits: &Limits, rate: Rate, measure: &Measure) -> Decision {
        let keep = Decision { rate, reason: Reason::Steady, rebase: false };
        let Some(delay) = measure.delay else { return keep };
        let is_early = measure.at >= self.taken && measure.at.since(self.taken) < RESPONSE;
        if is_early {
            return keep;
        }
        self.taken = measure.at;
        self.deltas[(self.count % DETECTION_WINDOW as u64) as usize] = delay.as_nanos();
        self.count += 1;
        let target = limits.target().as_nanos();
        let late = self.deltas.iter().filter(|delta| **delta > 2 * target).count();
        let average = self.deltas.iter().fold(0, |sum: u64, delta| sum.saturating_add(*delta))
            / DETECTION_WINDOW as u64;
        let can_change = measure.at.since(self.cut) > BUFFERBLOAT_REFRACTORY;
        // Load is high above three quarters of the rate.
        let is_high = u128::from(measure.sent) * 4 > u128::from(rate.bits_per_second()) * 3;
        match (late >= DETECTION_THRESHOLD, is_high) {
            (true, _) if can_change => {
                self.cut = measure.at;
                let rate = scaled(rate, factor_down(average, target), 1_000_000);
                Decision { rate, reason: Reason::Delay, ..keep }
            }
            (false, true) if can_change => {
                let rate = scaled(rate, factor_up(average, target), 1_000_000);
                Decision { rate, reason: Reason::Load, ..keep }
            }
            (false, false) if measure.at.since(self.decayed) > DECAY_REFRACTORY => {
                self.decayed = measure.at;
                Decision { rate: towards_base(limits, rate), reason: Reason::Idle, ..keep }
            }
            _ => keep,
        }
    }
}

/// 0.99 at 30 ms to 0.75 at 60 ms, in millionths.
fn factor_down(average: u64, target: u64) -> u64 {
    let (least, most) = (2 * target, 4 * target);
    let excess = average.clamp(least, most) - least;
    990_000 - 240_000 * excess / (most - least)
}

/// 1.04 up to 10 ms, and from there to 1.0 at 30 ms, in millionths.
fn factor_up(average: u64, target: u64) -> u64 {
    let (least, most) = (target * 2 / 3, 2 * target);
    let excess = average.clamp(least, most) - least;
    1_040_000 - 40_000 * excess / (most - least)
}

fn towards_base(limits: &Limits, rate: Rate) -> Rate {
    let base = limits.base();
    if rate > base { scaled(rate, 99, 100).max(base) } else { scaled(rate, 101, 100).min(base) }
}

/// A little less than the time between two responses: six reflectors, each every 300 ms.
const RESPONSE: Duration = Duration::from_millis(40);
/// `bufferbloat_detection_window`.
const DETECTION_WINDOW: usize = 6;
/// `bufferbloat_detection_thr`.
const DETECTION_THRESHOLD: usize = 3;
/// `bufferbloat_refractory_period_ms`.
const BUFFERBLOAT_REFRACTORY: Duration = Duration::from_millis(300);
/// `decay_refractory_period_ms`.
const DECAY_REFRACTORY: Duration = Duration::from_millis(1_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_are_those_of_the_default_file() {
        let target = 15_000_000;
        let ms = |ms: u64| ms * 1_000_000;
        let rows = [(30, 990_000), (45, 870_000), (60, 750_000), (90, 750_000)];
        for (average, factor) in rows {
            assert_eq!(factor_down(ms(average), target), factor);
        }
        let rows = [(5, 1_040_000), (10, 1_040_000), (20, 1_020_000), (30, 1_000_000)];
        for (average, factor) in rows {
            assert_eq!(factor_up(ms(average), target), factor);
        }
    }
}
