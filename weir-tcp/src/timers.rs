//! The sender's timer. As in Linux there is one, for one of five purposes at a time
//! (`icsk_pending`).

use crate::sender::{Forced, Sender};
use weir_core::units::{Duration, Instant};

/// A purpose of the timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// A timeout [rfc6298] (`ICSK_TIME_RETRANS`).
    Timeout,
    /// A probe for a lost tail (`ICSK_TIME_LOSS_PROBE`).
    Probe,
    /// RACK's reordering window (`ICSK_TIME_REO_TIMEOUT`).
    Reordering,
    /// A probe of a zero window (`ICSK_TIME_PROBE0`).
    Persist,
}

impl Sender {
    /// Sets the timer to fire after `wait`.
    pub fn arm(&mut self, timer: Timer, wait: Duration) {
        let tick = self.config.rto.tick.as_nanos();
        let ticks =
            if tick == 0 { wait.as_nanos() } else { wait.as_nanos().next_multiple_of(tick) };
        let wait = Duration::from_nanos(ticks).min(self.config.rto.max);
        self.timer = Some((self.now.after(wait), timer));
    }

    /// Returns how long the timeout of the first segment is away, zero if it is due.
    pub fn until_timeout(&self) -> Duration {
        let due = self.board.front().map_or(self.now, |sent| sent.at.after(self.rtt.rto));
        due.since(self.now)
    }

    /// Sets the timeout [rfc6298 §5] (`tcp_rearm_rto`).
    pub fn rearm_timeout(&mut self) {
        if self.board.is_empty() {
            self.timer = None;
            return;
        }
        let in_place_of = self.timer.map(|(_, timer)| timer);
        let wait = match in_place_of {
            // It took the place of a timeout, whose time goes on.
            Some(Timer::Reordering | Timer::Probe) => {
                self.until_timeout().max(Duration::from_micros(1))
            }
            _ => self.rtt.rto,
        };
        self.arm(Timer::Timeout, wait);
    }

    /// Sets the probe timer, or the timeout if no probe may be sent (`tcp_set_xmit_timer`).
    pub fn set_retransmission_timer(&mut self) {
        if !self.schedule_probe(true) {
            self.rearm_timeout();
        }
    }

    /// Waits half a round trip before it believes that the receiver reneged
    /// (`tcp_check_sack_reneging`).
    pub fn arm_reneging_timer(&mut self) {
        let half = self.rtt.smoothed().unwrap_or_default().as_nanos() / 2;
        self.arm(Timer::Timeout, Duration::from_nanos(half).max(Duration::from_millis(10)));
    }

    /// Fires the timer if it is due. Returns false if the connection is given up.
    pub fn fire(&mut self) -> bool {
        let Some((_, timer)) = self.timer.filter(|(due, _)| *due <= self.now) else { return true };
        match timer {
            Timer::Timeout => return self.timeout(),
            Timer::Probe => self.send_probe(),
            Timer::Reordering => self.rack_reordering_timeout(),
            Timer::Persist => return self.probe_window(),
        }
        true
    }

    /// A timeout [rfc6298 §5.4] (`tcp_retransmit_timer`).
    fn timeout(&mut self) -> bool {
        self.timer = None;
        if self.board.is_empty() {
            return true;
        }
        let shut = self.peer.size == 0 && self.peer.max > 0;
        let most = self.config.retries.data;
        if most < u8::MAX && self.retries >= most && !shut {
            return false;
        }
        self.report.timeouts += 1;
        self.enter_loss();
        self.retries = self.retries.saturating_add(1);
        self.forced = Some(Forced::Timeout);
        self.rtt.back_off(&self.config.rto);
        self.arm(Timer::Timeout, self.rtt.rto);
        true
    }

    /// Starts to probe a window in which nothing fits [rfc9293 §3.8.6.1] (`tcp_check_probe_timer`).
    pub fn check_persist(&mut self) {
        if self.board.is_empty() && self.unsent() > 0 && self.timer.is_none() {
            self.arm(Timer::Persist, self.persist_wait());
        }
    }

    /// Returns the wait before a probe (`tcp_probe0_when`).
    fn persist_wait(&self) -> Duration {
        let base = self.rtt.rto.max(self.config.rto.min).as_nanos();
        let wait = base.checked_shl(u32::from(self.rtt.backoff)).unwrap_or(u64::MAX);
        Duration::from_nanos(if wait < base { u64::MAX } else { wait })
    }

    fn probe_window(&mut self) -> bool {
        self.timer = None;
        if !self.board.is_empty() || self.unsent() == 0 {
            self.probes = 0;
            return true;
        }
        let most = self.config.retries.data;
        if most < u8::MAX && self.probes > most {
            return false;
        }
        self.probes = self.probes.saturating_add(1);
        self.forced = Some(Forced::WindowProbe);
        self.rtt.backoff = self.rtt.backoff.saturating_add(1).min(most);
        self.arm(Timer::Persist, self.persist_wait());
        true
    }

    /// The window opened: probes are over, or begin anew (`tcp_ack_probe`).
    pub fn window_opened(&mut self) {
        if self.unsent() == 0 {
            return;
        }
        let fits = self.next + u64::from(self.mss).min(self.unsent()) <= self.peer.edge;
        if fits {
            self.rtt.backoff = 0;
            if matches!(self.timer, Some((_, Timer::Persist))) {
                self.timer = None;
            }
        } else {
            self.arm(Timer::Persist, self.persist_wait());
        }
    }

    /// Sets the timer after new segments left (`tcp_event_new_data_sent`).
    pub fn arm_after_new(&mut self) {
        if matches!(self.timer, None | Some((_, Timer::Probe | Timer::Persist))) {
            self.rearm_timeout();
        }
        self.schedule_probe(false);
    }

    /// Returns when a paced segment may leave, if it may not yet.
    pub fn paced_until(&self) -> Option<Instant> {
        (self.cwnd.paced && self.departure > self.now).then_some(self.departure)
    }
}
