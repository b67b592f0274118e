//! No congestion control: the receiver's window alone limits the sender, as before 1988.

use super::{CongestionControl, CongestionWindow, Sample};
use crate::config::Config;
use weir_core::units::Instant;

/// A window without limit.
#[derive(Debug)]
pub struct None;

impl None {
    pub(super) fn new(_config: &Config) -> Self {
        Self
    }
}

impl CongestionControl for None {
    fn ssthresh(&mut self, _window: &CongestionWindow, _now: Instant) -> u32 {
        UNLIMITED
    }

    fn on_ack(&mut self, window: &mut CongestionWindow, _sample: &Sample, _acked: u32) {
        window.segments = UNLIMITED;
    }

    fn on_sample(&mut self, window: &mut CongestionWindow, _sample: &Sample) {
        window.segments = UNLIMITED;
    }

    fn controls(&self) -> bool {
        true
    }
}

/// A window that no flight fills.
const UNLIMITED: u32 = 1 << 24;
