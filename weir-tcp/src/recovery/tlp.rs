//! Tail loss probes: when acknowledgements stop, a segment is sent that makes the receiver speak
//! [rfc8985 §7] (`tcp_schedule_loss_probe`, `tcp_send_loss_probe`, `tcp_process_tlp_ack`).

use crate::report::CaState;
use crate::sender::{Findings, Forced, Sender};
use crate::timers::Timer;

/// The state of a probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// TLP.end_seq: the end of what was sent when the probe left, until it is acknowledged.
    pub end: Option<u64>,
    /// TLP.is_retrans: the probe was a segment sent again.
    pub again: bool,
}

impl Sender {
    /// Sets the probe timer if a probe may be sent [rfc8985 §7.2]: two round trips, and the time
    /// that a lone segment's acknowledgement may be delayed. `restarts` if the timeout runs from
    /// now.
    pub fn schedule_probe(&mut self, restarts: bool) -> bool {
        let quiet = matches!(self.state, CaState::Open | CaState::Cwr);
        let allowed = self.config.recovery.tail_probe && self.sack_ok && quiet;
        if !allowed || self.board.is_empty() {
            return false;
        }
        let policy = &self.config.rto;
        let mut timeout = match self.rtt.smoothed() {
            Some(smoothed) if self.board.len() == 1 => smoothed.plus(smoothed).plus(policy.min),
            Some(smoothed) => smoothed.plus(smoothed).plus(policy.margin),
            None => policy.initial,
        };
        let until = if restarts { self.rtt.rto } else { self.until_timeout() };
        if until.as_nanos() > 0 {
            timeout = timeout.min(until);
        }
        self.arm(Timer::Probe, timeout);
        true
    }

    /// Sends a probe [rfc8985 §7.3]: new data if the receiver has room, else the last segment
    /// again.
    pub fn send_probe(&mut self) {
        self.timer = None;
        if self.tail.end.is_none() && !self.board.is_empty() {
            self.forced = Some(Forced::TailProbe);
        } else {
            self.rearm_timeout();
        }
    }

    /// Looks at an acknowledgement after a probe [rfc8985 §7.4].
    pub fn tail_acknowledged(&mut self, ack: u64, found: &Findings) {
        let Some(end) = self.tail.end.filter(|end| ack >= *end) else { return };
        if !self.tail.again || found.tail_duplicate {
            self.tail.end = None;
        } else if ack > end {
            // [rfc8985 §7.4.2] Only the probe arrived: the loss counts for the window.
            self.tail.end = None;
            self.start_reduction();
            self.set_state(CaState::Cwr);
            self.end_reduction();
            self.keep_open();
        } else if !found.una_advanced && !found.is_no_duplicate() && !found.sacked {
            // Both the original and the probe arrived.
            self.tail.end = None;
        }
    }
}
