//! The congestion window: its growth after an acknowledgement, its validation, idle restart,
//! pacing.
//!
//! [rfc5681 §4.1] [rfc7661]; Linux's `tcp_cong_control`, `tcp_cwnd_validate`, `tcp_cwnd_restart`,
//! `tcp_update_pacing_rate`.

use crate::cc::Sample;
use crate::config::SlowStart;
use crate::report::CaState;
use crate::sender::{Ack, Findings, Sender, Tally};
use weir_core::units::{Bytes, Duration};

impl Sender {
    /// Lets the controller set the window after an acknowledgement.
    pub fn control(&mut self, _ack: &Ack, found: &Findings, tally: &Tally) {
        let sample = self.sample(found, tally);
        self.cwnd.filled = self.is_filled();
        self.controller.as_mut().on_sample(&mut self.cwnd, &sample);
        if self.controller.as_ref().controls() {
            return;
        }
        if self.in_reduction() {
            self.reduce(sample.acked, sample.lost, found);
        } else if self.may_grow(found) {
            let growth_max = self.cwnd.growth_max;
            if self.counts_old_arrivals(tally) {
                self.cwnd.growth_max = 1;
            }
            self.controller.as_mut().on_ack(&mut self.cwnd, &sample, sample.acked);
            self.cwnd.growth_max = growth_max;
        }
        self.update_pacing_rate();
    }

    /// [rfc3465 §2.3] After a timeout an acknowledgement may cover what the receiver got long ago,
    /// and the window grows by one segment for it: otherwise all that would leave at once.
    /// Selective acknowledgements have reported such segments before, so Linux needs no limit with
    /// them; senders with a limit (FreeBSD) have this one in any case.
    fn counts_old_arrivals(&self, tally: &Tally) -> bool {
        let limited = matches!(self.config.slow_start, SlowStart::Bytes { limit: Some(_) });
        tally.after_timeout && (limited || !self.sack_ok)
    }

    fn sample(&mut self, found: &Findings, tally: &Tally) -> Sample {
        let rate = self.rate.sample(self.now, self.rtt.min());
        Sample {
            now: self.now,
            una: self.una,
            next: self.next,
            rtt: tally.rtt,
            smoothed: self.rtt.smoothed(),
            rtt_min: self.rtt.min(),
            acked: self.rate.delivered.saturating_sub(tally.delivered_before) as u32,
            marked: found.marked,
            lost: (self.rate.lost - tally.lost_before) as u32,
            delivered: self.rate.delivered,
            lost_total: self.rate.lost,
            rate_delivered: if rate.valid { rate.delivered } else { 0 },
            interval: rate.interval,
            prior_delivered: rate.snapshot.delivered,
            prior_lost: rate.snapshot.lost,
            sent_in_flight: rate.snapshot.in_flight,
            prior_in_flight: tally.in_flight_before,
            in_flight: self.board.in_flight(),
            app_limited: rate.snapshot.app_limited,
            state: self.state,
        }
    }

    /// Returns whether this acknowledgement may let the window grow (`tcp_may_raise_cwnd`).
    fn may_grow(&self, found: &Findings) -> bool {
        if self.reordering > self.config.recovery.duplicates {
            return found.acked || found.sacked;
        }
        found.acked
    }

    /// Returns whether the window was filled (`tcp_is_cwnd_limited`).
    fn is_filled(&self) -> bool {
        if !self.config.window_validation || self.usage.limited {
            return true;
        }
        self.cwnd.in_slow_start() && self.cwnd.segments < 2 * self.usage.flight_max
    }

    /// Notes how far the window is used, after segments left or as none may (`tcp_cwnd_validate`).
    pub fn validate(&mut self, limited: bool) {
        let flight = self.board.len();
        let usage = &mut self.usage;
        let more = !usage.limited && flight > usage.flight_max;
        if self.una >= usage.round_end || limited || more {
            usage.limited = limited;
            usage.flight_max = flight;
            usage.round_end = self.next;
        }
        if self.is_filled() {
            (self.usage.used, self.usage.at) = (0, self.now);
            return;
        }
        self.usage.used = self.usage.used.max(flight);
        let waited = self.now.since(self.usage.at) >= self.rtt.rto;
        let own = !self.controller.as_ref().controls();
        if self.config.idle_restart && self.config.window_validation && waited && own {
            self.shrink_unused();
        }
    }

    /// The application does not use the window: half of what is unused goes
    /// (`tcp_cwnd_application_limited`).
    fn shrink_unused(&mut self) {
        if self.state == CaState::Open {
            let initial = self.config.initial_window.segments(self.mss);
            let used = self.usage.used.max(initial);
            if used < self.cwnd.segments {
                self.cwnd.ssthresh = self.current_ssthresh();
                self.cwnd.segments = (self.cwnd.segments + used) / 2;
            }
            self.usage.used = 0;
        }
        self.usage.at = self.now;
    }

    /// The application writes, or the other side opens its window, after a pause: the window
    /// shrinks by half for each timeout that passed (`tcp_slow_start_after_idle_check`).
    pub fn restart_if_idle(&mut self) {
        if !self.board.is_empty() {
            return;
        }
        let mut idle = self.now.since(self.sent_at);
        let own = !self.controller.as_ref().controls();
        if !self.config.idle_restart || !own || idle <= self.rtt.rto {
            return;
        }
        let least = self.config.initial_window.segments(self.mss).min(self.cwnd.segments);
        self.cwnd.ssthresh = self.current_ssthresh();
        let step = self.rtt.rto.max(Duration::from_nanos(1));
        while idle > step && self.cwnd.segments > least {
            idle = Duration::from_nanos(idle.as_nanos() - step.as_nanos());
            self.cwnd.segments >>= 1;
        }
        self.cwnd.segments = self.cwnd.segments.max(least);
        (self.usage.used, self.usage.at) = (0, self.now);
    }

    /// Computes the pacing rate from the window (`tcp_update_pacing_rate`).
    pub fn update_pacing_rate(&mut self) {
        let Some(smoothed) = self.rtt.smoothed() else { return };
        let limits = &self.config.limits;
        let slow_start = self.cwnd.segments < self.cwnd.ssthresh / 2;
        let percent = if slow_start { limits.pacing_slow_start } else { limits.pacing_avoidance };
        let segments = u64::from(self.cwnd.segments.max(self.board.len()));
        let bytes = segments * u64::from(self.mss) * u64::from(percent) / 100;
        // In units of 1024 ns, so that 64 bits do.
        let units = (smoothed.as_nanos() >> 10).max(1);
        self.cwnd.pacing_rate = bytes.saturating_mul(1_000_000_000 >> 10) / units;
    }

    /// Notes that bytes leave, which delays what follows (`tcp_update_skb_after_send`).
    pub fn pace(&mut self, bytes: u32) {
        let rate = self.cwnd.pacing_rate;
        // Linux lets the first ten segments leave at once.
        if !self.cwnd.paced || rate == 0 || self.report.data_segments < UNPACED {
            return;
        }
        let credit = self.now.since(self.departure).as_nanos();
        let time = u64::from(bytes) * 1_000_000_000 / rate;
        // What is late makes up for half of the delay.
        let time = time - credit.min(time / 2);
        self.departure = self.departure.max(self.now).after(Duration::from_nanos(time));
    }

    /// Returns the segments of a burst (`tcp_tso_autosize`): what a millisecond takes.
    pub fn burst(&self) -> u32 {
        let limits = &self.config.limits;
        if limits.burst <= 1 {
            return 1;
        }
        let bytes = self.cwnd.pacing_rate >> 10;
        let segments = (bytes / u64::from(self.mss.max(1))).min(u64::from(limits.burst)) as u32;
        segments.max(limits.burst_min).min(limits.burst)
    }

    /// Returns whether the host's queue holds enough of this connection (`tcp_small_queue_check`).
    pub fn host_queue_full(&self) -> bool {
        let Some(limit) = self.config.limits.small_queue else { return false };
        let millisecond = Bytes::new(self.cwnd.pacing_rate >> 10);
        let least = Bytes::new(2 * u64::from(self.mss)).max(millisecond);
        self.queued >= limit.min(least).get()
    }
}

/// The segments with data that leave before pacing begins (`tcp_update_skb_after_send`).
const UNPACED: u64 = 10;
