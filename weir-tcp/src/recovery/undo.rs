//! Undo: a reduction is taken back when the repair proves to be needless, by timestamps [rfc4015]
//! or by duplicate reports [rfc2883] [rfc3708] (`tcp_try_undo_recovery` and its kin).

use crate::report::CaState;
use crate::sender::{Ack, Findings, Sender, Tally, timestamp};
use crate::seq::Range;

impl Sender {
    /// Notes where a recovery starts (`tcp_init_undo`).
    pub fn start_undo(&mut self) {
        self.episode.undo_from = Some(self.una);
        let probed = u32::from(self.tail.end.is_some() && self.tail.again);
        let under_way = (self.board.retransmitted + probed) as i32;
        self.episode.undo_retransmitted = if under_way == 0 { -1 } else { under_way };
    }

    /// Counts a retransmission for an undo by duplicate reports, and notes the time of the first
    /// for one by timestamps.
    pub fn note_retransmission(&mut self) {
        self.episode.retransmitted_at.get_or_insert(self.now);
        self.episode.undo_retransmitted = self.episode.undo_retransmitted.max(0) + 1;
    }

    /// Whether the segment that was believed to be lost was only late [rfc4015 §3.2]
    /// (`tcp_packet_delayed`): its acknowledgement echoes a timestamp of before the retransmission.
    fn was_delayed(&self) -> bool {
        match self.episode.retransmitted_at {
            Some(at) => self
                .echo
                .is_some_and(|echo| echo != 0 && (echo.wrapping_sub(timestamp(at)) as i32) < 0),
            None => self.sack_ok || self.una < self.episode.end,
        }
    }

    fn may_undo(&self) -> bool {
        self.config.recovery.undo
            && self.episode.undo_from.is_some()
            && (self.episode.undo_retransmitted == 0 || self.was_delayed())
    }

    /// Takes the reduction back (`tcp_undo_cwnd_reduction`).
    fn undo(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_losses();
        }
        if self.episode.prior_ssthresh > 0 {
            self.cwnd.segments = self.controller.as_mut().undo(&self.cwnd);
            if self.episode.prior_ssthresh > self.cwnd.ssthresh {
                self.cwnd.ssthresh = self.episode.prior_ssthresh;
                self.ecn.withdraw_cwr();
            }
        }
        self.usage.at = self.now;
        self.episode.undo_from = None;
        self.rack.advanced = true;
        self.report.undone += 1;
    }

    /// Ends a recovery, and takes it back if it was needless. Returns true if the state has to be
    /// kept: without SACK, duplicates of old segments would start another one [rfc6582 §3.2].
    pub fn try_undo_recovery(&mut self) -> bool {
        if self.may_undo() {
            self.undo(false);
        } else {
            self.rack.persist = self.rack.persist.saturating_sub(1);
        }
        if self.prevents_reopening() {
            return true;
        }
        self.set_state(CaState::Open);
        self.episode.reneged = false;
        false
    }

    /// `tcp_is_non_sack_preventing_reopen`.
    fn prevents_reopening(&mut self) -> bool {
        let prevents = !self.sack_ok && self.una == self.episode.end;
        if prevents && !self.any_retransmitted() {
            self.episode.retransmitted_at = None;
        }
        prevents
    }

    /// Takes a recovery back as all retransmissions came twice (`tcp_try_undo_dsack`).
    pub fn try_undo_duplicates(&mut self) -> bool {
        let needless = self.episode.undo_from.is_some() && self.episode.undo_retransmitted == 0;
        if !needless || !self.config.recovery.undo {
            return false;
        }
        let most = self.config.recovery.rack_persist;
        self.rack.persist = (self.rack.persist + 1).min(most);
        self.undo(false);
        true
    }

    /// Looks at a partial acknowledgement in recovery (`tcp_try_undo_partial`). Returns true if
    /// nothing is to be marked as lost for now.
    pub fn try_undo_partial(&mut self, una_before: u64) -> bool {
        let undoable = self.config.recovery.undo && self.episode.undo_from.is_some();
        if !undoable || !self.was_delayed() {
            return false;
        }
        self.check_reordering(una_before);
        if self.board.retransmitted > 0 {
            return true;
        }
        if !self.any_retransmitted() {
            self.episode.retransmitted_at = None;
        }
        self.undo(true);
        self.keep_open();
        false
    }

    /// Takes back a timeout that was needless, or that F-RTO found to be (`tcp_try_undo_loss`).
    pub fn try_undo_loss(&mut self, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        self.undo(true);
        self.retries = 0;
        if self.prevents_reopening() {
            return true;
        }
        if by_frto || self.sack_ok {
            self.set_state(CaState::Open);
            self.episode.reneged = false;
        }
        true
    }

    /// Finds out whether the first block reports a duplicate [rfc2883 §4] (`tcp_check_dsack`).
    pub fn check_duplicate_report(&mut self, ack: &Ack, found: &mut Findings) -> bool {
        let first = ack.blocks[0];
        let inside = ack.block_count > 1 && ack.blocks[1].contains(first);
        if first.start >= ack.ack && !inside {
            return false;
        }
        found.duplicate_reported = true;
        let segments = (first.end.saturating_sub(first.start)).div_ceil(u64::from(self.mss.max(1)));
        let segments = segments.clamp(1, 1 << 16) as i32;
        if self.tail.again && self.tail.end == Some(first.end) {
            found.tail_duplicate = true;
        } else {
            self.rack_duplicate_seen();
        }
        self.report.duplicates += segments as u64;
        let known = first.end <= self.una.max(ack.ack);
        if let (Some(from), true) = (self.episode.undo_from, known)
            && first.end > from
            && self.episode.undo_retransmitted > 0
        {
            let left = self.episode.undo_retransmitted - segments;
            self.episode.undo_retransmitted = left.max(0);
        }
        true
    }

    /// Notes that retransmissions above the acknowledged part arrived twice.
    pub fn take_duplicate(&mut self, block: Range, tally: &mut Tally) {
        let mut number = self.board.number_at(block.start.max(self.una));
        while let Some(sent) = self.board.get(number).copied() {
            if sent.end() > block.end {
                break;
            }
            use crate::scoreboard::{EVER, RETRANSMITTED, SACKED};
            let counts = sent.start >= block.start && sent.has(RETRANSMITTED | EVER);
            if counts && self.episode.undo_from.is_some_and(|from| sent.end() > from) {
                let left = self.episode.undo_retransmitted;
                self.episode.undo_retransmitted = if left > 0 { left - 1 } else { left };
                if sent.has(SACKED) {
                    tally.reordered = tally.reordered.min(sent.start);
                }
                self.board.clear_retransmitted(number);
            }
            number += 1;
        }
    }
}
