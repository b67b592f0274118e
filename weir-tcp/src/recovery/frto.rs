//! Timeouts: what is marked lost, and F-RTO, which finds out whether the timeout was needless
//! [rfc5682] (`tcp_enter_loss`, `tcp_process_loss`).

use crate::report::CaState;
use crate::scoreboard::SACKED;
use crate::sender::{Findings, Sender};

impl Sender {
    /// Starts recovery after a timeout [rfc5681 §3.1].
    pub fn enter_loss(&mut self) {
        let first = self.state < CaState::Recovery;
        self.mark_lost_by_timeout();
        let again = self.state == CaState::Loss && self.retries == 0;
        if self.state <= CaState::Disorder || self.una >= self.episode.end || again {
            self.episode.prior_ssthresh = self.current_ssthresh();
            self.cwnd.prior = self.cwnd.segments;
            self.episode.prior = self.cwnd.segments;
            self.cwnd.ssthresh = self.controller.as_mut().ssthresh(&self.cwnd, self.now);
            self.controller.as_mut().on_timeout(&mut self.cwnd);
            self.start_undo();
        }
        self.cwnd.segments = self.board.in_flight() + 1;
        self.cwnd.count = 0;
        if self.state <= CaState::Disorder && self.board.sacked >= self.config.recovery.duplicates {
            self.reordering = self.reordering.min(self.config.recovery.duplicates);
        }
        self.set_state(CaState::Loss);
        self.episode.end = self.next;
        self.tail.end = None;
        self.ecn.queue_cwr();
        // [rfc5682 §3.1] Step 1: the first segment is sent again, unless a recovery is in progress.
        self.episode.frto = self.config.recovery.frto && (first || self.retries > 0);
        self.episode.new_data_first = false;
    }

    /// Marks what a timeout means (`tcp_timeout_mark_lost`): all, but what was sent just now.
    fn mark_lost_by_timeout(&mut self) {
        let reneged = self.board.front().is_some_and(|sent| sent.has(SACKED)) && self.sack_ok;
        if reneged {
            self.board.renege();
            self.episode.reneged = true;
        } else {
            self.reset_duplicates();
        }
        let numbers = self.board.numbers();
        let first = numbers.start;
        for number in numbers {
            let Some(sent) = self.board.get(number) else { continue };
            if reneged || number == first || !self.sack_ok || !self.rack_is_recent(sent) {
                self.mark_lost(number);
            }
        }
    }

    /// Looks at an acknowledgement in recovery after a timeout.
    pub fn process_loss(&mut self, found: &Findings, duplicates: u32) {
        self.episode.new_data_first = false;
        let recovered = self.una >= self.episode.end;
        if found.una_advanced && self.try_undo_loss(false) {
            return;
        }
        if self.episode.frto && self.frto_decides(found, duplicates, recovered) {
            return;
        }
        if recovered {
            self.try_undo_recovery();
            return;
        }
        if !self.sack_ok {
            if self.next > self.episode.end && duplicates > 0 {
                self.add_duplicates(duplicates);
            } else if found.una_advanced {
                self.reset_duplicates();
            }
        }
    }

    /// F-RTO's steps 2 and 3 [rfc5682 §3.1]; returns true if nothing else is to be done.
    fn frto_decides(&mut self, found: &Findings, duplicates: u32, recovered: bool) -> bool {
        // Step 3.b: what was never sent again arrived, so not all was lost.
        if found.original_acked && self.try_undo_loss(true) {
            return true;
        }
        if self.next > self.episode.end {
            // Step 3.a: a duplicate acknowledgement, the loss was real.
            if found.sacked || duplicates > 0 {
                self.episode.frto = false;
            }
        } else if found.una_advanced && !recovered {
            self.episode.end = self.next;
            // Step 2.b: the timeout may be needless, try new data.
            if self.unsent() > 0 && self.peer.edge > self.next {
                self.episode.new_data_first = true;
                return true;
            }
            self.episode.frto = false;
        }
        false
    }
}
