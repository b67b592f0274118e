//! Round trips: the smoothed one, its deviation, the least one, and the timeout [rfc6298 §2].
//!
//! The estimator is Linux's (`tcp_rtt_estimator`): the deviation's maximum of a round trip bounds
//! the timeout, so that it does not fall at once when many samples of a round agree.

use crate::config::RtoPolicy;
use weir_core::units::{Duration, Instant};

/// Estimates of the round trip, and the timeout that follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    /// Eight times the smoothed round trip, in ns; 0 before the first sample.
    smoothed_8: u64,
    /// Four times the mean deviation.
    deviation_4: u64,
    deviation_max: u64,
    /// The part of the timeout above the smoothed round trip.
    variation: u64,
    /// The round for the maximum ends at this position.
    round_end: u64,
    min: MinRtt,
    /// The timeout, with its doublings.
    pub rto: Duration,
    pub backoff: u8,
}

/// The least of the recent samples. Linux keeps the three best (`minmax`); one and a successor of
/// the second half of the window forget as reliably.
#[derive(Clone, Copy, Debug)]
struct MinRtt {
    best: u64,
    best_at: Instant,
    next: u64,
}

impl Rtt {
    pub fn new(policy: &RtoPolicy) -> Self {
        Self {
            smoothed_8: 0,
            deviation_4: 0,
            deviation_max: 0,
            variation: 0,
            round_end: 0,
            min: MinRtt { best: u64::MAX, best_at: Instant::ZERO, next: u64::MAX },
            rto: policy.initial,
            backoff: 0,
        }
    }

    /// Returns the smoothed round trip, if there was a sample.
    pub fn smoothed(&self) -> Option<Duration> {
        (self.smoothed_8 > 0).then(|| Duration::from_nanos(self.smoothed_8 >> 3))
    }

    /// Returns the mean deviation.
    pub fn deviation(&self) -> Duration {
        Duration::from_nanos(self.deviation_4 >> 2)
    }

    /// Returns the least recent round trip.
    pub fn min(&self) -> Option<Duration> {
        (self.min.best != u64::MAX).then(|| Duration::from_nanos(self.min.best))
    }

    /// Takes a sample for the least round trip (`tcp_update_rtt_min`).
    pub fn sample_min(&mut self, now: Instant, sample: Duration, policy: &RtoPolicy) {
        let (sample, age) = (sample.as_nanos().max(1), now.since(self.min.best_at));
        if age > policy.min_rtt_window {
            self.min = MinRtt { best: self.min.next, best_at: now, next: u64::MAX };
        }
        if sample <= self.min.best {
            self.min = MinRtt { best: sample, best_at: now, next: u64::MAX };
        } else if 2 * age.as_nanos() > policy.min_rtt_window.as_nanos() {
            self.min.next = self.min.next.min(sample);
        }
    }

    /// Takes a sample; the sender has sent up to `next` and `acked` is acknowledged.
    pub fn sample(&mut self, sample: Duration, policy: &RtoPolicy, acked: u64, next: u64) {
        let sample = sample.as_nanos().max(1);
        let floor = if policy.min_bounds_deviation { policy.min.as_nanos() } else { 0 };
        if self.smoothed_8 == 0 {
            self.smoothed_8 = sample << 3;
            self.deviation_4 = sample << 1;
            self.variation = self.deviation_4.max(floor);
            self.deviation_max = self.variation;
            self.round_end = next;
        } else {
            self.smooth(sample);
            if acked > self.round_end {
                let excess = self.variation.saturating_sub(self.deviation_max);
                self.variation -= excess >> 2;
                self.round_end = next;
                self.deviation_max = floor;
            }
        }
        if !policy.min_bounds_deviation {
            self.variation = self.deviation_4;
        }
        self.set_rto(policy);
    }

    fn smooth(&mut self, sample: u64) {
        let mean = self.smoothed_8 >> 3;
        self.smoothed_8 = (self.smoothed_8 + sample - mean).max(1);
        let error = sample.abs_diff(mean);
        let known = self.deviation_4 >> 2;
        self.deviation_4 = if error < known {
            self.deviation_4 - (known - error)
        } else if sample < mean {
            // A sudden fall of the round trip counts an eighth, or it would raise the timeout.
            self.deviation_4 + ((error - known) >> 3)
        } else {
            self.deviation_4 + (error - known)
        };
        if self.deviation_4 > self.deviation_max {
            self.deviation_max = self.deviation_4;
            self.variation = self.variation.max(self.deviation_max);
        }
    }

    /// Computes the timeout anew, without doublings (`tcp_set_rto`).
    pub fn set_rto(&mut self, policy: &RtoPolicy) {
        let sum = Duration::from_nanos((self.smoothed_8 >> 3) + self.variation);
        let least = if policy.min_bounds_deviation { Duration::ZERO } else { policy.min };
        self.rto = sum.max(least).min(policy.max);
        self.backoff = 0;
    }

    /// Doubles the timeout [rfc6298 §5.5].
    pub fn back_off(&mut self, policy: &RtoPolicy) {
        self.backoff = self.backoff.saturating_add(1);
        self.rto = Duration::from_nanos(self.rto.as_nanos().saturating_mul(2)).min(policy.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn the_timeout_follows_linux_and_the_rfc() {
        for (config, expected) in [(Config::linux(), 300), (Config::rfc(), 1000)] {
            let mut rtt = Rtt::new(&config.rto);
            for _ in 0..50 {
                rtt.sample(Duration::from_millis(100), &config.rto, 2, 1);
            }
            assert_eq!(rtt.rto, Duration::from_millis(expected));
        }
    }

    #[test]
    fn the_least_round_trip_is_forgotten() {
        let policy = Config::linux().rto;
        let mut rtt = Rtt::new(&policy);
        for (second, millis, expected) in
            [(0, 10, 10), (100, 20, 10), (200, 30, 10), (290, 40, 10), (301, 50, 30)]
        {
            let now = Instant::from_nanos(second * 1_000_000_000);
            rtt.sample_min(now, Duration::from_millis(millis), &policy);
            assert_eq!(rtt.min(), Some(Duration::from_millis(expected)), "{second}");
        }
    }
}
