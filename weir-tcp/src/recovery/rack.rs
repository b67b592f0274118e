//! RACK: a segment is lost if one sent later arrived, and a reordering window has passed [rfc8985].
//!
//! The steps have the names of the RFC's section 6.2; Linux's are in `tcp_recovery.c`.

use crate::report::CaState;
use crate::scoreboard::{EVER, RETRANSMITTED, Sent};
use crate::sender::Sender;
use crate::timers::Timer;
use weir_core::units::{Duration, Instant};

/// The variables of RACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// RACK.xmit_ts: when the newest segment that arrived was sent.
    pub sent_at: Instant,
    /// The number of that transmission: it breaks ties better than RACK.end_seq, as retransmissions
    /// may leave at the same instant as new data.
    order: u64,
    /// RACK.rtt.
    pub rtt: Duration,
    /// RACK advanced since losses were looked for.
    pub advanced: bool,
    /// RACK.reo_wnd_mult.
    steps: u8,
    /// RACK.reo_wnd_persist.
    pub persist: u8,
    duplicate_seen: bool,
    /// The deliveries when the window was adjusted last.
    adjusted_at: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent_at: Instant::ZERO,
            order: 0,
            rtt: Duration::ZERO,
            advanced: false,
            steps: 1,
            persist: 0,
            duplicate_seen: false,
            adjusted_at: 0,
        }
    }
}

impl Rack {
    /// Returns whether this transmission was later than the newest that arrived: RACK_sent_after.
    fn is_before(&self, sent: &Sent) -> bool {
        sent.order > self.order
    }
}

impl Sender {
    /// Steps 1 and 2: update RACK.min_RTT and the state of the newest segment that arrived
    /// [rfc8985 §6.2] (`tcp_rack_advance`).
    pub fn rack_advance(&mut self, sent: &Sent) {
        let rtt = self.now.since(sent.at);
        // What was sent again may have arrived by its first transmission.
        let ambiguous = sent.has(RETRANSMITTED | EVER);
        if ambiguous && self.rtt.min().is_some_and(|least| rtt < least) {
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt = rtt;
        if self.rack.is_before(sent) {
            (self.rack.sent_at, self.rack.order) = (sent.at, sent.order);
        }
    }

    /// Step 3: detect reordering (`tcp_check_sack_reordering`): `low` arrived after higher
    /// segments.
    pub fn check_reordering(&mut self, low: u64) {
        self.check_reordering_from(low, self.highest_sacked());
    }

    pub fn check_reordering_from(&mut self, low: u64, highest: u64) {
        if low >= highest {
            return;
        }
        let segments = (highest - low).div_ceil(u64::from(self.mss.max(1)));
        let segments = segments.min(u64::from(self.config.recovery.duplicates_max)) as u32;
        self.reordering = self.reordering.max(segments);
        self.reorder_seen += 1;
    }

    /// Notes a duplicate report, which widens the window in the next round.
    pub fn rack_duplicate_seen(&mut self) {
        self.rack.duplicate_seen = true;
    }

    /// Step 4: update the reordering window (`tcp_rack_update_reo_wnd`).
    pub fn rack_update_reordering_window(&mut self) {
        let Some(prior) = self.rate.prior_delivered() else { return };
        if !self.config.recovery.rack_adapts {
            return;
        }
        if prior < self.rack.adjusted_at {
            self.rack.duplicate_seen = false;
        }
        if self.rack.duplicate_seen {
            self.rack.steps = self.rack.steps.saturating_add(1);
            self.rack.duplicate_seen = false;
            self.rack.adjusted_at = self.rate.delivered;
            self.rack.persist = self.config.recovery.rack_persist;
        } else if self.rack.persist == 0 {
            self.rack.steps = 1;
        }
    }

    /// RACK.reo_wnd: no time once duplicates prove a loss, a quarter of the least round trip else
    /// (`tcp_rack_reo_wnd`).
    fn rack_reordering_window(&self) -> Duration {
        if self.reorder_seen == 0 {
            let proved =
                self.config.recovery.rack_threshold && self.board.sacked >= self.reordering;
            if self.state >= CaState::Recovery || proved {
                return Duration::ZERO;
            }
        }
        let least = self.rtt.min().unwrap_or_default().as_nanos() / 4;
        let window = Duration::from_nanos(least * u64::from(self.rack.steps));
        window.min(self.rtt.smoothed().unwrap_or_default())
    }

    /// Step 5: detect losses. Returns how long the last segment in doubt has to be waited for
    /// (`tcp_rack_detect_loss`).
    fn rack_detect_loss(&mut self) -> Option<Duration> {
        let bound = self.rack.rtt.plus(self.rack_reordering_window());
        let mut timeout = None;
        let mut walked = 0;
        let mut candidate = self.board.oldest();
        while let Some(number) = candidate {
            let Some(sent) = self.board.get(number).copied() else { break };
            if self.rack.is_before(&sent) {
                break;
            }
            candidate = self.board.later(number);
            let age = self.now.since(sent.at);
            if age >= bound {
                self.mark_lost(number);
                continue;
            }
            timeout = Some(Duration::from_nanos(bound.as_nanos() - age.as_nanos()));
            walked += 1;
            if walked == WALK_MAX {
                // All others were sent no later than the newest that arrived.
                let age = self.now.since(self.rack.sent_at);
                return Some(Duration::from_nanos(bound.as_nanos().saturating_sub(age.as_nanos())));
            }
        }
        timeout
    }

    /// Looks for losses after an acknowledgement (`tcp_rack_mark_lost`). Returns whether the
    /// reordering timer was set.
    pub fn rack_mark_lost(&mut self) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let Some(timeout) = self.rack_detect_loss() else { return false };
        let timeout = timeout.plus(self.config.rto.margin).min(self.rtt.rto);
        self.arm(Timer::Reordering, timeout);
        true
    }

    /// The reordering timer fires (`tcp_rack_reo_timeout`).
    pub fn rack_reordering_timeout(&mut self) {
        let before = self.board.in_flight();
        self.rack_detect_loss();
        if self.board.in_flight() != before && self.state != CaState::Recovery {
            self.enter_recovery(false);
            if !self.controller.as_ref().controls() {
                self.reduce(1, 0, &Default::default());
            }
        }
        self.rearm_timeout();
    }

    /// Returns whether a segment was sent so lately that a timeout does not count it as lost.
    pub fn rack_is_recent(&self, sent: &Sent) -> bool {
        self.config.recovery.rack && self.now.since(sent.at) < self.rack.rtt
    }
}

/// Segments in doubt that are looked at one by one; beyond, their newest transmission is a bound.
const WALK_MAX: u32 = 32;
