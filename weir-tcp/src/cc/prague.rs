//! Prague: a controller for L4S, DCTCP's response made fit for the Internet [prague].
//!
//! It sends ECT(1), answers marks in proportion by accurate ECN, losses as CUBIC does, paces, and
//! grows as if its round trip were at least a reference one, so that short paths give way.

use super::dctcp::MarkShare;
use super::{CongestionControl, CongestionWindow, Sample};
use crate::config::Config;
use weir_core::units::{Duration, Instant};

/// The share of marked segments, and how far the next segment of growth is.
#[derive(Debug)]
pub struct Prague {
    marks: MarkShare,
    /// The fraction of a segment of growth, in 2^20ths.
    growth: u64,
    /// The fraction of a segment by which marks have still to shrink the window, in 2^20ths.
    cut: u64,
    beta_1024: u32,
}

impl Prague {
    pub(super) fn new(config: &Config) -> Self {
        let beta_1024 = config.cubic.beta_1024;
        Self { marks: MarkShare::new(), growth: 0, cut: 0, beta_1024 }
    }

    /// Returns the window that a loss leaves, as in CUBIC.
    fn kept(&self, segments: u32) -> u32 {
        let kept = u64::from(segments) * u64::from(self.beta_1024) / 1024;
        (kept as u32).max(2)
    }

    /// Grows by a segment in a round trip, and by less if that is shorter than the reference
    /// [prague §2.4.4]: by the square of the ratio, since rounds are also more frequent.
    fn avoid(&mut self, window: &mut CongestionWindow, sample: &Sample, acked: u32) {
        let rtt = sample.smoothed.unwrap_or(RTT_VIRTUAL).min(RTT_VIRTUAL).as_nanos() >> 10;
        let reference = RTT_VIRTUAL.as_nanos() >> 10;
        let ratio = (((rtt * rtt) << 20) / (reference * reference)).max(1);
        self.growth += ratio * u64::from(acked);
        let per = u64::from(window.segments.max(1)) << 20;
        window.segments += (self.growth / per) as u32;
        self.growth %= per;
    }
}

impl CongestionControl for Prague {
    /// Answers a mark; what answers a loss replaces it.
    fn ssthresh(&mut self, window: &CongestionWindow, _now: Instant) -> u32 {
        // [prague §2.4.2] A window of few segments shrinks by parts of a segment, which sum up;
        // rounded to whole ones, a small alpha would not shrink it at all.
        self.cut += (u64::from(window.segments) * u64::from(self.marks.alpha)) >> 1;
        let whole = self.cut >> 20;
        self.cut &= (1 << 20) - 1;
        window.segments.saturating_sub(whole as u32).max(2)
    }

    fn on_ack(&mut self, window: &mut CongestionWindow, sample: &Sample, mut acked: u32) {
        if !window.filled {
            return;
        }
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        // [prague §2.4.3] Marked segments do not let the window grow.
        self.avoid(window, sample, acked.saturating_sub(sample.marked));
    }

    fn on_sample(&mut self, _window: &mut CongestionWindow, sample: &Sample) {
        self.marks.count(sample);
    }

    fn on_recovery(&mut self, window: &mut CongestionWindow) {
        window.ssthresh = self.kept(window.segments);
    }

    fn on_timeout(&mut self, window: &mut CongestionWindow) {
        window.ssthresh = self.kept(window.prior);
    }

    fn needs_pacing(&self) -> bool {
        true
    }

    fn exact_marks(&self) -> bool {
        true
    }

    fn is_l4s(&self) -> bool {
        true
    }
}

/// The round trip as which shorter ones grow [prague §2.4.4].
const RTT_VIRTUAL: Duration = Duration::from_millis(25);
