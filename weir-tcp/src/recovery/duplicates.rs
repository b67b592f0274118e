//! Losses by duplicates: duplicate acknowledgements without SACK [rfc5681 §3.2] [rfc6582], and the
//! threshold of segments acknowledged above a gap [rfc6675 §4].

use crate::report::CaState;
use crate::scoreboard::{LOST, SACKED};
use crate::sender::Sender;

impl Sender {
    /// Counts duplicate acknowledgements as segments that arrived (`tcp_add_reno_sack`).
    pub fn add_duplicates(&mut self, duplicates: u32) {
        if self.sack_ok || duplicates == 0 {
            return;
        }
        let room = self.board.len().saturating_sub(self.board.lost.max(1) + self.board.sacked);
        let more = duplicates.min(room);
        if self.board.sacked + duplicates > self.board.len() {
            // More duplicates than segments: the network reorders or duplicates.
            self.reorder_seen += 1;
            let most = self.config.recovery.duplicates_max;
            self.reordering = self.reordering.max((self.board.len() + duplicates).min(most));
        }
        self.board.sacked += more;
        self.rate.delivered += u64::from(more);
    }

    /// Takes off duplicates what an acknowledgement covers (`tcp_remove_reno_sacks`): all but one
    /// of the segments, the one that was missing.
    pub fn remove_duplicates(&mut self, acked: u32) {
        let covered = acked.saturating_sub(1).min(self.board.sacked);
        // They were counted when they arrived out of order.
        self.rate.delivered -= u64::from(covered);
        self.board.sacked -= covered;
        let most = self.board.len().saturating_sub(self.board.lost);
        self.board.sacked = self.board.sacked.min(most);
    }

    /// Forgets duplicates (`tcp_reset_reno_sack`).
    pub fn reset_duplicates(&mut self) {
        if !self.sack_ok {
            self.board.sacked = 0;
        }
    }

    /// Marks the first segment as lost at the threshold, and after each partial acknowledgement
    /// (`tcp_newreno_mark_lost`).
    pub fn mark_first_lost(&mut self, una_advanced: bool) {
        let proved = self.state < CaState::Recovery && self.board.sacked >= self.reordering;
        let partial = self.state == CaState::Recovery && una_advanced;
        let first = self.board.numbers().start;
        if (proved || partial) && self.board.front().is_some_and(|sent| !sent.has(LOST)) {
            self.mark_lost(first);
            let most = self.board.len().saturating_sub(self.board.lost);
            self.board.sacked = self.board.sacked.min(most);
        }
    }

    /// IsLost of [rfc6675 §4]: marks what lies below as many segments as the threshold.
    pub fn mark_lost_by_duplicates(&mut self) {
        let numbers = self.board.numbers();
        let (mut above, mut number) = (0, self.board.number_at(self.highest_sacked()));
        while number > numbers.start && above < self.reordering {
            number -= 1;
            above += u32::from(self.board.get(number).is_some_and(|sent| sent.has(SACKED)));
        }
        if above < self.reordering {
            return;
        }
        // What is below a lost segment was marked with it.
        while number > numbers.start {
            number -= 1;
            let Some(sent) = self.board.get(number) else { return };
            if sent.has(LOST) {
                return;
            }
            if !sent.has(SACKED) {
                self.mark_lost(number);
            }
        }
    }
}
