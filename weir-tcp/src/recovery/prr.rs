//! Proportional rate reduction: how many segments leave while the window shrinks
//! [rfc6937] [rfc9937] (`tcp_cwnd_reduction`).

use crate::report::CaState;
use crate::sender::{Findings, Sender};

impl Sender {
    /// Starts a reduction [rfc6937 §3.1] (`tcp_init_cwnd_reduction`).
    pub fn start_reduction(&mut self) {
        self.episode.end = self.next;
        self.tail.end = None;
        self.cwnd.count = 0;
        self.cwnd.prior = self.cwnd.segments;
        self.episode.prior = self.cwnd.segments;
        (self.episode.prr_delivered, self.episode.prr_sent) = (0, 0);
        self.cwnd.ssthresh = self.controller.as_mut().ssthresh(&self.cwnd, self.now);
        self.ecn.queue_cwr();
    }

    /// Sets the window for one acknowledgement of a reduction: `delivered` segments arrived.
    pub fn reduce(&mut self, delivered: u32, lost: u32, found: &Findings) {
        if delivered == 0 || self.episode.prior == 0 {
            return;
        }
        let episode = &mut self.episode;
        episode.prr_delivered += delivered;
        if !self.config.recovery.prr {
            // [rfc6675 §5] [rfc5681 §3.2] The window is the threshold at once.
            self.cwnd.segments = self.cwnd.ssthresh;
            return;
        }
        let (ssthresh, in_flight) = (self.cwnd.ssthresh, self.board.in_flight());
        let mut send = if in_flight > ssthresh {
            // In proportion: as much as the reduction keeps, rounded up.
            let kept = u64::from(ssthresh) * u64::from(episode.prr_delivered);
            (kept.div_ceil(u64::from(episode.prior)) as u32).saturating_sub(episode.prr_sent)
        } else {
            // Slow start up to the threshold (SSRB), as far as acknowledgements are safe.
            let mut most = episode.prr_delivered.saturating_sub(episode.prr_sent).max(delivered);
            if self.config.recovery.prr_safe_ack && found.una_advanced && lost == 0 {
                most += 1;
            }
            most.min(ssthresh - in_flight)
        };
        // The fast retransmission itself is never held back.
        send = send.max(u32::from(episode.prr_sent == 0));
        self.cwnd.segments = in_flight + send;
    }

    /// Ends a reduction: the window is the threshold (`tcp_end_cwnd_reduction`).
    pub fn end_reduction(&mut self) {
        if self.controller.as_ref().controls() {
            return;
        }
        let known = self.cwnd.ssthresh < crate::cc::SSTHRESH_INFINITE;
        if known && (self.state == CaState::Cwr || self.episode.undo_from.is_some()) {
            self.cwnd.segments = self.cwnd.ssthresh;
            self.usage.at = self.now;
        }
    }
}
