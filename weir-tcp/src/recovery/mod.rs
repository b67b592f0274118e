//! Loss recovery: the state machine of congestion control (`tcp_fastretrans_alert`).
//!
//! `rack.rs`, `tlp.rs`, `prr.rs`, `frto.rs` and `undo.rs` have the steps of their RFCs;
//! `duplicates.rs` what counts duplicate acknowledgements. Invariant: in `Recovery` and `Cwr` the
//! window shrinks by `prr.rs` alone, and ends at the threshold.

mod duplicates;
mod frto;
mod prr;
mod rack;
mod tlp;
mod undo;

pub(crate) use rack::Rack;
pub(crate) use tlp::Tail;

use crate::report::CaState;
use crate::sender::{Findings, Sender, Tally};
use weir_core::units::Instant;

/// An episode of reduction and recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    /// It ends when this is acknowledged (`high_seq`).
    pub end: u64,
    /// The window before it, for `prr.rs`.
    pub prior: u32,
    pub prr_delivered: u32,
    pub prr_sent: u32,
    /// The threshold before it; 0 if it cannot be undone.
    pub prior_ssthresh: u32,
    /// Where it began, while it may be undone (`undo_marker`).
    pub undo_from: Option<u64>,
    /// Retransmissions not yet reported as duplicates; negative before the first.
    pub undo_retransmitted: i32,
    /// When the first retransmission left (`retrans_stamp`).
    pub retransmitted_at: Option<Instant>,
    /// F-RTO is in progress.
    pub frto: bool,
    /// F-RTO sends new data before it sends anything again.
    pub new_data_first: bool,
    pub reneged: bool,
}

impl Sender {
    /// Looks at an acknowledgement that is not plain progress, with `duplicates` duplicate ones.
    pub fn alert(&mut self, found: &mut Findings, tally: &Tally, duplicates: u32) {
        if found.echo {
            self.episode.prior_ssthresh = 0;
        }
        if self.check_reneging(found) {
            return;
        }
        if self.leave_state() {
            return;
        }
        match self.state {
            CaState::Recovery => self.in_recovery(found, tally, duplicates),
            CaState::Loss => {
                self.process_loss(found, duplicates);
                self.identify_losses(found);
                if self.state == CaState::Open || found.lost_again {
                    self.open_or_disorder(found, duplicates);
                }
            }
            _ => self.open_or_disorder(found, duplicates),
        }
    }

    /// The receiver took back what it had acknowledged selectively (`tcp_check_sack_reneging`).
    /// Linux waits half a round trip; here the timeout repairs it.
    fn check_reneging(&mut self, found: &mut Findings) -> bool {
        let reneged = self.sack_ok
            && found.una_advanced
            && self.board.front().is_some_and(|sent| sent.has(crate::scoreboard::SACKED));
        if reneged {
            self.arm_reneging_timer();
            found.set_timer = false;
        }
        reneged
    }

    /// Leaves a state whose end is acknowledged; returns true if nothing more is to be done.
    fn leave_state(&mut self) -> bool {
        if self.state == CaState::Open {
            self.episode.retransmitted_at = None;
            return false;
        }
        if self.una < self.episode.end {
            return false;
        }
        match self.state {
            // Something above the end has to be acknowledged, for the CWR flag to have arrived.
            CaState::Cwr if self.una != self.episode.end => {
                self.end_reduction();
                self.set_state(CaState::Open);
            }
            CaState::Recovery => {
                self.reset_duplicates();
                if self.try_undo_recovery() {
                    return true;
                }
                self.end_reduction();
            }
            _ => {}
        }
        false
    }

    fn in_recovery(&mut self, found: &mut Findings, tally: &Tally, duplicates: u32) {
        if !found.una_advanced {
            self.add_duplicates(duplicates);
        } else if self.try_undo_partial(tally.una_before) {
            return;
        } else if !self.sack_ok && !self.config.recovery.partial_acks {
            // Before NewReno a partial acknowledgement ended the recovery.
            self.reset_duplicates();
            self.end_reduction();
            self.set_state(CaState::Open);
            return;
        }
        if self.try_undo_duplicates() {
            self.try_to_open(found);
        }
        self.identify_losses(found);
        if self.state != CaState::Recovery && self.board.lost > 0 {
            self.enter_recovery(found.echo);
        }
    }

    fn open_or_disorder(&mut self, found: &mut Findings, duplicates: u32) {
        if !self.sack_ok {
            if found.una_advanced {
                self.reset_duplicates();
            }
            self.add_duplicates(duplicates);
        }
        if self.state <= CaState::Disorder {
            self.try_undo_duplicates();
        }
        self.identify_losses(found);
        if self.board.lost > 0 {
            self.enter_recovery(found.echo);
        } else {
            self.try_to_open(found);
        }
    }

    /// Finds losses, by time or by duplicates (`tcp_identify_packet_loss`).
    fn identify_losses(&mut self, found: &mut Findings) {
        if self.board.is_empty() {
            return;
        }
        if !self.sack_ok {
            self.mark_first_lost(found.una_advanced);
        } else if self.config.recovery.rack {
            let before = self.board.retransmitted;
            if self.rack_mark_lost() {
                found.set_timer = false;
            }
            found.lost_again |= before > self.board.retransmitted;
        } else {
            self.mark_lost_by_duplicates();
        }
    }

    /// Starts fast recovery (`tcp_enter_recovery`).
    pub fn enter_recovery(&mut self, by_mark: bool) {
        self.episode.prior_ssthresh = 0;
        self.start_undo();
        if self.state < CaState::Cwr {
            if !by_mark {
                self.episode.prior_ssthresh = self.current_ssthresh();
            }
            self.start_reduction();
        }
        self.controller.as_mut().on_recovery(&mut self.cwnd);
        self.set_state(CaState::Recovery);
        if !self.config.recovery.fast_recovery {
            // Tahoe: one segment, and slow start.
            self.cwnd.segments = 1;
            self.set_state(CaState::Loss);
        }
    }

    /// Returns to a quiet state if nothing is missing (`tcp_try_to_open`).
    fn try_to_open(&mut self, found: &Findings) {
        if !self.any_retransmitted() {
            self.episode.retransmitted_at = None;
        }
        if found.echo && !self.controller.as_ref().controls() {
            self.enter_cwr();
        }
        if self.state != CaState::Cwr {
            self.keep_open();
        }
    }

    /// `tcp_try_keep_open`.
    pub fn keep_open(&mut self) {
        let quiet = self.board.left() == 0 && !self.any_retransmitted();
        let state = if quiet { CaState::Open } else { CaState::Disorder };
        if self.state != state {
            self.set_state(state);
            self.episode.end = self.next;
        }
    }

    /// Reduces the window because of a mark (`tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.episode.prior_ssthresh = 0;
        if self.state < CaState::Cwr {
            self.episode.undo_from = None;
            self.report.mark_reductions += 1;
            self.start_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    pub fn set_state(&mut self, state: CaState) {
        self.state = state;
    }

    /// Returns whether the window is being reduced (`tcp_in_cwnd_reduction`).
    pub fn in_reduction(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
    }

    /// Returns the threshold if a recovery ended now (`tcp_current_ssthresh`).
    pub fn current_ssthresh(&self) -> u32 {
        if self.in_reduction() {
            return self.cwnd.ssthresh;
        }
        let window = self.cwnd.segments;
        self.cwnd.ssthresh.max((window >> 1) + (window >> 2))
    }
}
