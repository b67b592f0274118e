//! DCTCP: the window shrinks in proportion to the marks of a round trip [rfc8257] (`tcp_dctcp.c`).

use super::{CongestionControl, CongestionWindow, Sample, reno};
use crate::config::Config;
use weir_core::units::Instant;

/// The share of marked segments, by which the window shrinks.
#[derive(Debug)]
pub struct Dctcp {
    marks: MarkShare,
}

/// The moving average of the share of marked segments, alpha, in 2^20ths; Prague shares it.
#[derive(Debug)]
pub(super) struct MarkShare {
    pub alpha: u32,
    acked: u32,
    marked: u32,
    /// The round ends when this position is acknowledged.
    round_end: u64,
}

impl MarkShare {
    pub fn new() -> Self {
        // [rfc8257 §3.3] Alpha starts at 1, so that the first mark halves the window.
        Self { alpha: ONE, acked: 0, marked: 0, round_end: 0 }
    }

    /// Counts an acknowledgement; returns whether a round ended.
    pub fn count(&mut self, sample: &Sample) -> bool {
        self.acked += sample.acked;
        self.marked += sample.marked;
        if sample.una <= self.round_end || self.acked == 0 {
            return false;
        }
        self.round_end = sample.next;
        let share = (u64::from(self.marked) * u64::from(ONE) / u64::from(self.acked)) as u32;
        let decay = self.alpha >> GAIN_BITS;
        // An alpha too small to decay by shifts is none.
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        self.alpha = (self.alpha + (share.min(ONE) >> GAIN_BITS)).min(ONE);
        (self.acked, self.marked) = (0, 0);
        true
    }

    /// Returns the window after a reduction by half of alpha.
    pub fn reduced(&self, segments: u32) -> u32 {
        let cut = (u64::from(segments) * u64::from(self.alpha)) >> 21;
        (segments - cut as u32).max(2)
    }
}

impl Dctcp {
    pub(super) fn new(_config: &Config) -> Self {
        Self { marks: MarkShare::new() }
    }
}

impl CongestionControl for Dctcp {
    fn ssthresh(&mut self, window: &CongestionWindow, _now: Instant) -> u32 {
        self.marks.reduced(window.segments)
    }

    fn on_ack(&mut self, window: &mut CongestionWindow, _sample: &Sample, acked: u32) {
        reno::grow(window, acked);
    }

    fn on_sample(&mut self, _window: &mut CongestionWindow, sample: &Sample) {
        self.marks.count(sample);
    }

    /// [rfc8257 §3.5] A loss is answered as in Reno, whatever alpha is (`dctcp_react_to_loss`).
    fn on_recovery(&mut self, window: &mut CongestionWindow) {
        window.ssthresh = (window.segments / 2).max(2);
    }

    fn on_timeout(&mut self, window: &mut CongestionWindow) {
        window.ssthresh = (window.prior / 2).max(2);
    }

    fn exact_marks(&self) -> bool {
        true
    }
}

/// A share of 1.
const ONE: u32 = 1 << 20;
/// The average's gain g is 1/16 [rfc8257 §4.2].
const GAIN_BITS: u32 = 4;
