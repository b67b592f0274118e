//! CUBIC: the window grows by a cubic function of the time since the last reduction [rfc9438].
//!
//! The arithmetic is that of Linux's `tcp_cubic.c`, in 1024ths of a second and of segments; where
//! it departs from the RFC, [`crate::Cubic`] names the difference. Slow start ends early by
//! HyStart's train of acknowledgements or by its delay (`hystart_update`).

use super::{CongestionControl, CongestionWindow, Sample};
use crate::config::{self, Config, HyStart};
use weir_core::units::{Duration, Instant};

/// The window function with its origin, and HyStart.
#[derive(Debug)]
pub struct Cubic {
    options: config::Cubic,
    /// Segments acknowledged for one of growth.
    count: u32,
    /// The window before the last reduction, W_max.
    window_max: u32,
    last_window: u32,
    last_update: Instant,
    /// The window at which the function is flat.
    origin: u32,
    /// The time to get there, K, in 1024ths of a second.
    k: u64,
    epoch: Option<Instant>,
    acked: u32,
    /// The window that Reno would have, W_est.
    reno_window: u32,
    delay_min: Duration,
    slow_start: SlowStart,
}

/// The state of HyStart.
#[derive(Clone, Copy, Debug, Default)]
struct SlowStart {
    found: bool,
    round_start: Instant,
    last_ack: Instant,
    round_end: u64,
    rtt: Option<Duration>,
    samples: u32,
}

impl Cubic {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            options: config.cubic.clone(),
            count: 1,
            window_max: 0,
            last_window: 0,
            last_update: Instant::ZERO,
            origin: 0,
            k: 0,
            epoch: None,
            acked: 0,
            reno_window: 0,
            delay_min: Duration::ZERO,
            slow_start: SlowStart::default(),
        }
    }

    /// Computes how many acknowledged segments let the window grow by one (`bictcp_update`).
    fn update(&mut self, now: Instant, window: u32, acked: u32) {
        self.acked += acked;
        let unchanged = self.last_window == window && self.epoch.is_some();
        if unchanged && now.since(self.last_update) <= self.options.refresh {
            return;
        }
        (self.last_window, self.last_update) = (window, now);
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.start_epoch(now, window, acked),
        };
        let elapsed = now.since(epoch).plus(self.delay_min);
        let target = self.target(elapsed);
        self.count = if target > window { window / (target - window) } else { 100 * window };
        if let (0, Some(most)) = (self.window_max, self.options.count_unknown) {
            self.count = self.count.min(most);
        }
        if self.options.friendly {
            self.befriend(window);
        }
        self.count = self.count.max(self.options.count_min);
    }

    fn start_epoch(&mut self, now: Instant, window: u32, acked: u32) -> Instant {
        (self.acked, self.reno_window) = (acked, window);
        // [rfc9438 §4.2] K is the cubic root of (W_max - cwnd) / C.
        let below = u128::from(self.window_max.saturating_sub(window));
        self.k = cubic_root((below << 40) / u128::from(self.options.c_1024.max(1)));
        self.origin = self.window_max.max(window);
        self.epoch = Some(now);
        now
    }

    /// Returns the window of the cubic function after this time [rfc9438 §4.2].
    fn target(&self, elapsed: Duration) -> u32 {
        let elapsed = (u128::from(elapsed.as_nanos()) * 1024 / 1_000_000_000) as u64;
        let offset = elapsed.abs_diff(self.k).min(1 << 20);
        let cube = u128::from(offset) * u128::from(offset) * u128::from(offset);
        let delta = ((u128::from(self.options.c_1024) * cube) >> 40).min(1 << 30) as u32;
        if elapsed < self.k { self.origin.saturating_sub(delta) } else { self.origin + delta }
    }

    /// Grows at least as Reno would with CUBIC's decrease [rfc9438 §4.3].
    fn befriend(&mut self, window: u32) {
        let beta = u64::from(self.options.beta_1024);
        // Reno's additive increase of 3 (1 - beta) / (1 + beta), as segments acknowledged for one.
        let scale = 8 * (1024 + beta) / 3 / (1024 - beta).max(1);
        let per = ((u64::from(window) * scale) >> 3).max(1) as u32;
        self.reno_window += self.acked / per;
        self.acked %= per;
        if self.reno_window > window {
            self.count = self.count.min(window / (self.reno_window - window));
        }
    }

    fn hystart(&mut self, options: &HyStart, window: &mut CongestionWindow, sample: &Sample) {
        let state = &mut self.slow_start;
        if sample.una > state.round_end {
            let found = state.found;
            *state = SlowStart { found, round_end: sample.next, ..SlowStart::default() };
            (state.round_start, state.last_ack) = (sample.now, sample.now);
        }
        if window.segments < options.window_min {
            return;
        }
        if options.train && sample.now.since(state.last_ack) <= options.gap_max {
            state.last_ack = sample.now;
            let bound = train_max(self.delay_min, window);
            state.found |= sample.now.since(state.round_start) > bound;
        }
        if options.delay {
            let rtt = sample.rtt.unwrap_or_default();
            let least = state.rtt.map_or(rtt, |least| least.min(rtt));
            state.rtt = Some(least);
            if state.samples < options.samples_min {
                state.samples += 1;
            } else {
                let eighth = Duration::from_nanos(self.delay_min.as_nanos() / 8);
                let margin = eighth.clamp(options.delay_min, options.delay_max);
                state.found |= least > self.delay_min.plus(margin);
            }
        }
        if state.found {
            window.ssthresh = window.segments;
        }
    }
}

/// Returns the longest train of acknowledgements that slow start survives (`hystart_ack_delay`):
/// what pacing spreads by, and half of that and of the delay without pacing.
fn train_max(delay_min: Duration, window: &CongestionWindow) -> Duration {
    let spread = match window.pacing_rate {
        0 => 0,
        rate => (4 * 65_536 * 1_000_000_000 / rate).min(1_000_000),
    };
    let bound = delay_min.as_nanos() + spread;
    Duration::from_nanos(if window.paced { bound } else { bound / 2 })
}

impl CongestionControl for Cubic {
    fn ssthresh(&mut self, window: &CongestionWindow, _now: Instant) -> u32 {
        self.epoch = None;
        let (segments, beta) = (u64::from(window.segments), u64::from(self.options.beta_1024));
        let gives_way = self.options.fast_convergence && window.segments < self.window_max;
        let kept = if gives_way { segments * (1024 + beta) / 2048 } else { segments };
        self.window_max = kept as u32;
        ((segments * beta / 1024) as u32).max(2)
    }

    fn on_ack(&mut self, window: &mut CongestionWindow, sample: &Sample, mut acked: u32) {
        if !window.filled {
            return;
        }
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.update(sample.now, window.segments, acked);
        window.avoid(self.count, acked);
    }

    fn on_sample(&mut self, window: &mut CongestionWindow, sample: &Sample) {
        let Some(rtt) = sample.rtt else { return };
        // Samples right after a recovery say little.
        if self.epoch.is_some_and(|epoch| sample.now.since(epoch) < Duration::from_secs(1)) {
            return;
        }
        if self.delay_min == Duration::ZERO || self.delay_min > rtt {
            self.delay_min = rtt.max(Duration::from_nanos(1));
        }
        if self.slow_start.found || !window.in_slow_start() {
            return;
        }
        if let Some(options) = self.options.hystart.take() {
            self.hystart(&options, window, sample);
            self.options.hystart = Some(options);
        }
    }

    fn on_timeout(&mut self, _window: &mut CongestionWindow) {
        let options = self.options.clone();
        let slow_start = SlowStart::default();
        *self = Self { options, slow_start, ..Self::new(&Config::linux()) };
    }

    fn on_restart(&mut self, now: Instant, idle_since: Instant) {
        // Time without traffic does not let the window grow [rfc9438 §5.8].
        let idle = now.since(idle_since);
        self.epoch = self.epoch.map(|epoch| epoch.after(idle).min(now));
    }
}

/// Returns the cubic root, rounded down.
fn cubic_root(value: u128) -> u64 {
    let mut root = 0u128;
    for bit in (0..22).rev() {
        let next = root | 1 << bit;
        if next * next * next <= value {
            root = next;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubic_roots_are_exact() {
        for root in [0u64, 1, 2, 99, 1024, 200_000] {
            let cube = u128::from(root).pow(3);
            assert_eq!(cubic_root(cube), root);
            assert_eq!(cubic_root(cube + 1), root.max(1));
        }
    }
}
