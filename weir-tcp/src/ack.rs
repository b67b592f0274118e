//! When data is acknowledged: at once, with the next segment, or after a wait [rfc5681 §4.2].
//!
//! Linux's rules (`__tcp_ack_snd_check`, `tcp_send_delayed_ack`, `tcp_event_data_recv`): quick
//! acknowledgements at the start, a wait that follows the intervals of arrivals, and a thinning of
//! acknowledgements while a gap is open.

use crate::config::Config;
use crate::receiver::{Arrival, Receiver};
use crate::segment::{Flags, Segment};
use weir_core::units::{Duration, Instant};

/// The state of acknowledging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckState {
    /// Acknowledgements that are sent at once.
    quick: u32,
    /// The wait (`ato`); zero before the first data.
    wait: Duration,
    /// Whether the application sends data in reply, which will carry the acknowledgements.
    pub interactive: bool,
    /// An acknowledgement is owed.
    owed: bool,
    /// It is owed at once.
    pub due_now: bool,
    pub timer: Option<Instant>,
    pub arrived_at: Instant,
    /// Small segments that wait to be read, up to two.
    pushed: u8,
    /// Acknowledgements of a gap, sent and held back.
    gap_sent: u8,
    held_back: u8,
    gap_at: u64,
    /// The largest segment that arrived (`rcv_mss`).
    pub segment: u32,
}

impl AckState {
    pub fn new(config: &Config) -> Self {
        Self {
            quick: if config.acks.adaptive { 0 } else { config.acks.quick },
            wait: Duration::ZERO,
            interactive: false,
            owed: false,
            due_now: false,
            timer: None,
            arrived_at: Instant::ZERO,
            pushed: 0,
            gap_sent: 0,
            held_back: 0,
            gap_at: 0,
            // TCP_MIN_RCVMSS: rather too small than too large, it grows with what arrives.
            segment: 536.min(u32::from(config.announced_mss())),
        }
    }

    /// Demands an acknowledgement at once.
    pub fn demand(&mut self) {
        (self.owed, self.due_now) = (true, true);
    }

    /// Returns whether an acknowledgement of what is out of order waits.
    pub fn holds_back(&self) -> bool {
        self.held_back > 0
    }

    /// A segment left that acknowledges everything (`tcp_event_ack_sent`).
    pub fn sent(&mut self) {
        if self.owed {
            self.quick = self.quick.saturating_sub(1);
        }
        (self.owed, self.due_now, self.timer) = (false, false, None);
        (self.pushed, self.held_back) = (0, 0);
    }
}

impl Receiver {
    /// Data arrived that is new (`tcp_event_data_recv`).
    pub fn arrived(&mut self, segment: &Segment) {
        self.ack.owed = true;
        self.measure_segment(segment);
        self.measure_rtt(segment);
        self.adapt_wait();
        self.ack.arrived_at = self.now;
        if segment.length >= 128 {
            self.grow_window();
        }
    }

    /// Learns the peer's segment size (`tcp_measure_rcv_mss`).
    fn measure_segment(&mut self, segment: &Segment) {
        let length = match segment.mss {
            0 => segment.length,
            mss => segment.length.min(u32::from(mss)),
        };
        if length >= self.ack.segment {
            self.ack.segment = length;
        } else if segment.flags.has(Flags::PSH) || length < 536 {
            self.ack.pushed = (self.ack.pushed + 1).min(2);
        }
    }

    fn adapt_wait(&mut self) {
        let policy = &self.config.acks;
        let Some(least) = policy.delay.filter(|_| policy.adaptive) else { return };
        let ack = &mut self.ack;
        if ack.wait == Duration::ZERO {
            ack.wait = least;
            return self.quicken();
        }
        let gap = self.now.since(ack.arrived_at);
        let half = Duration::from_nanos(ack.wait.as_nanos() / 2);
        if gap.as_nanos() <= least.as_nanos() / 2 {
            ack.wait = half.plus(Duration::from_nanos(least.as_nanos() / 2));
        } else if gap < ack.wait {
            ack.wait = half.plus(gap);
        } else if gap > self.tuning.timeout {
            // The sender may have started anew after a pause.
            self.quicken();
        }
    }

    /// Acknowledges segments at once, as many as half a window has (`tcp_incr_quickack`).
    fn quicken(&mut self) {
        let half = self.window / (2 * self.ack.segment.max(1));
        let quick = half.max(2).min(self.config.acks.quick);
        self.ack.quick = self.ack.quick.max(quick);
    }

    /// Something is wrong on the path, so that the sender must know (`tcp_enter_quickack_mode`).
    pub fn enter_quick_mode(&mut self) {
        self.ack.owed = true;
        if self.config.acks.adaptive {
            self.quicken();
            self.ack.interactive = false;
            self.ack.wait = self.config.acks.delay.unwrap_or_default();
        }
        self.ack.demand();
    }

    /// Decides when to acknowledge what arrived.
    pub fn check_ack(&mut self, arrival: Arrival) {
        if !self.ack.owed {
            return;
        }
        let unreported = self.next - self.window_from;
        let enough = u64::from(self.config.acks.segments) * u64::from(self.ack.segment);
        // Otherwise the application's read acknowledges, with more window.
        let opens = self.window_available() >= self.window;
        let quick = self.ack.quick > 0 && !self.ack.interactive;
        if (unreported > enough && opens) || quick || self.config.acks.delay.is_none() {
            self.ack.due_now = true;
        }
        if self.ack.due_now {
            return;
        }
        if arrival == Arrival::Nothing || !self.has_gap() {
            self.delay_ack();
        } else {
            self.thin_out();
        }
    }

    /// While a gap is open each arrival is acknowledged; after three that say the same, some are
    /// held back.
    fn thin_out(&mut self) {
        let compression = self.config.acks.compression.as_ref().filter(|_| self.sack_ok);
        let Some(compression) = compression else { return self.ack.demand() };
        let ack = &mut self.ack;
        if ack.gap_at != self.next {
            (ack.gap_at, ack.gap_sent) = (self.next, 0);
        }
        if ack.gap_sent < 3 {
            ack.gap_sent += 1;
            return ack.demand();
        }
        if ack.held_back >= compression.count {
            return ack.demand();
        }
        ack.held_back += 1;
        let twentieth = Duration::from_nanos(self.tuning.rtt().as_nanos() / 20);
        let due = self.now.after(twentieth.min(compression.delay_max));
        ack.timer = Some(ack.timer.map_or(due, |timer| timer.min(due)));
    }

    /// `tcp_send_delayed_ack`.
    fn delay_ack(&mut self) {
        let policy = &self.config.acks;
        let Some(least) = policy.delay else { return };
        let ack = &mut self.ack;
        let mut wait = if policy.adaptive { ack.wait } else { least };
        if wait > least {
            let bound = if ack.interactive || ack.pushed > 0 {
                policy.delay_max
            } else {
                Duration::from_nanos(policy.delay_max.as_nanos().saturating_mul(5) / 2)
            };
            let rtt = self.tuning.smoothed.max(least);
            let bound = if self.tuning.smoothed > Duration::ZERO { bound.min(rtt) } else { bound };
            wait = wait.min(bound);
        }
        let due = self.now.after(wait.min(policy.delay_max));
        match ack.timer {
            Some(timer) if policy.adaptive => {
                let soon = Duration::from_nanos(wait.as_nanos() / 4);
                if timer <= self.now.after(soon) {
                    return ack.demand();
                }
                ack.timer = Some(timer.min(due));
            }
            Some(_) => {}
            None => ack.timer = Some(due),
        }
    }

    /// The timer of delayed acknowledgements fires (`tcp_delack_timer_handler`).
    pub fn fire(&mut self) {
        if self.ack.timer.is_none_or(|timer| timer > self.now) {
            return;
        }
        self.ack.timer = None;
        let held_back = core::mem::take(&mut self.ack.held_back) > 0;
        if self.ack.owed && self.config.acks.adaptive && !held_back {
            if self.ack.interactive {
                self.ack.interactive = false;
                self.ack.wait = self.config.acks.delay.unwrap_or_default();
            } else {
                let double = Duration::from_nanos(self.ack.wait.as_nanos().saturating_mul(2));
                self.ack.wait = double.min(self.tuning.timeout);
            }
        }
        if self.ack.owed {
            self.ack.demand();
        }
    }

    /// The application has read (`tcp_cleanup_rbuf`).
    pub fn ack_after_read(&mut self) {
        let unreported = self.next - self.window_from;
        let enough = u64::from(self.config.acks.segments) * u64::from(self.ack.segment);
        let emptied = self.readable() == 0;
        let small = self.ack.pushed == 2 || (self.ack.pushed == 1 && !self.ack.interactive);
        if self.ack.owed && (unreported > enough || (small && emptied && self.config.acks.adaptive))
        {
            return self.ack.demand();
        }
        if self.is_finished() {
            return;
        }
        // A window that opens much is announced.
        let offered = self.window_offered();
        if 2 * u64::from(offered) <= self.tuning.clamp {
            let window = self.window_available();
            if window > 0 && window >= offered.saturating_mul(2) {
                self.ack.demand();
            }
        }
    }

    /// Data is sent, and may be an answer (`tcp_event_data_sent`).
    pub fn answered(&mut self) {
        if self.now.since(self.ack.arrived_at) < self.ack.wait {
            self.ack.interactive = true;
        }
    }
}
