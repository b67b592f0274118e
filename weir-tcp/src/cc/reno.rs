//! Reno: slow start and additive increase, halved by a loss [rfc5681 §3.1] (`tcp_reno_cong_avoid`).

use super::{CongestionControl, CongestionWindow, Sample};
use crate::config::Config;
use weir_core::units::Instant;

/// Reno has no state: the window says all.
#[derive(Debug)]
pub struct Reno;

impl Reno {
    pub(super) fn new(_config: &Config) -> Self {
        Self
    }
}

impl CongestionControl for Reno {
    fn ssthresh(&mut self, window: &CongestionWindow, _now: Instant) -> u32 {
        (window.segments / 2).max(2)
    }

    fn on_ack(&mut self, window: &mut CongestionWindow, _sample: &Sample, acked: u32) {
        grow(window, acked);
    }
}

/// Grows as Reno does; other controllers share it.
pub(super) fn grow(window: &mut CongestionWindow, mut acked: u32) {
    if !window.filled {
        return;
    }
    if window.in_slow_start() {
        acked = window.slow_start(acked);
        if acked == 0 {
            return;
        }
    }
    window.avoid(window.segments, acked);
}
