//! The choice of the next segment: `tcp_write_xmit` and `tcp_xmit_retransmit_queue`.
//!
//! The order is what must leave, what is lost, new data. Invariant: except for what is forced, no
//! segment leaves that exceeds the congestion window, and none at all exceeds the receiver's
//! window.

use crate::endpoint::Options;
use crate::report::{CaState, Cause, Limit};
use crate::scoreboard::{EVER, FIN, PUSH, RETRANSMITTED, Sent};
use crate::sender::{Forced, Sender};
use crate::seq::Range;

/// A segment to be sent, in positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub start: u64,
    /// The bytes of data in it.
    pub length: u32,
    pub fin: bool,
    pub push: bool,
    pub again: Option<Cause>,
}

impl Outgoing {
    fn of(sent: &Sent, again: Option<Cause>) -> Self {
        Self {
            start: sent.start,
            length: sent.payload(),
            fin: sent.has(FIN),
            push: sent.has(PUSH),
            again,
        }
    }
}

impl Sender {
    /// Returns the bytes, and the FIN, that were not yet sent.
    pub fn unsent(&self) -> u64 {
        (self.end + u64::from(self.closing)).saturating_sub(self.next)
    }

    /// Returns the data of a full segment now: less while blocks of selective acknowledgement take
    /// `options` bytes, and at most half of the peer's window (`tcp_bound_to_half_wnd`).
    pub fn full_segment(&self, options: u32) -> u32 {
        let most = if self.peer.max > 536 { self.peer.max / 2 } else { self.peer.max };
        let mss = self.mss.saturating_sub(options).max(1);
        if most == 0 { mss } else { mss.min(most.max(48)) }
    }

    /// Returns the next segment that may leave now.
    pub fn emit(&mut self, switches: &Options, options: u32) -> Option<Outgoing> {
        if let Some(outgoing) = self.emit_forced(options) {
            return Some(outgoing);
        }
        if self.unsent() == 0 && self.board.lost <= self.board.retransmitted {
            return None;
        }
        if self.paced_until().is_some() || self.host_queue_full() {
            return None;
        }
        self.emit_lost().or_else(|| self.emit_new(switches, options))
    }

    fn emit_forced(&mut self, options: u32) -> Option<Outgoing> {
        match self.forced.take()? {
            Forced::Timeout => {
                let number = self.board.numbers().start;
                self.board.front()?;
                Some(self.send_again(number, Cause::Timeout))
            }
            Forced::TailProbe => self.emit_tail_probe(options),
            Forced::WindowProbe => Some(self.emit_window_probe(options)),
        }
    }

    /// [rfc8985 §7.3] TLP_send_probe.
    fn emit_tail_probe(&mut self, options: u32) -> Option<Outgoing> {
        let length = self.unsent().min(u64::from(self.full_segment(options)));
        let fits = length > 0 && self.next + length <= self.peer.edge;
        let outgoing = if fits {
            self.report.probes += 1;
            self.tail.again = false;
            let probe = self.send_new(self.full_segment(options), 1);
            self.usage.sent = false;
            probe
        } else {
            let newest = self.board.newest()?;
            self.tail.again = true;
            self.send_again(newest, Cause::Probe)
        };
        self.tail.end = Some(self.next);
        self.timer = None;
        self.rearm_timeout();
        Some(outgoing)
    }

    /// Returns a window probe: data that fits into the window, or an empty segment below it, which
    /// the peer must acknowledge (`tcp_write_wakeup`).
    fn emit_window_probe(&mut self, options: u32) -> Outgoing {
        let room = self.peer.edge.saturating_sub(self.next).min(u64::from(u32::MAX)) as u32;
        if room > 0 && self.unsent() > 0 {
            return self.send_new(room.min(self.full_segment(options)), 1);
        }
        let start = self.una.saturating_sub(1);
        Outgoing { start, length: 0, fin: false, push: false, again: None }
    }

    /// `tcp_xmit_retransmit_queue`.
    fn emit_lost(&mut self) -> Option<Outgoing> {
        if self.episode.new_data_first || self.board.in_flight() >= self.cwnd.segments {
            return None;
        }
        let number = self.board.next_lost()?;
        let sent = self.board.get(number)?;
        if sent.start >= self.peer.edge && sent.start != self.una {
            return None;
        }
        let cause = if self.state == CaState::Loss { Cause::Timeout } else { Cause::Loss };
        let first = sent.start == self.una;
        let outgoing = self.send_again(number, cause);
        if self.in_reduction() {
            self.episode.prr_sent += 1;
        }
        let reordering = matches!(self.timer, Some((_, crate::timers::Timer::Reordering)));
        if first && !reordering {
            self.arm(crate::timers::Timer::Timeout, self.rtt.rto);
        }
        Some(outgoing)
    }

    fn send_again(&mut self, number: u64, cause: Cause) -> Outgoing {
        let in_flight = self.board.in_flight();
        let snapshot = self.rate.snapshot(self.now, in_flight, false);
        // A probe is counted neither as under way nor for an undo (`__tcp_retransmit_skb`).
        let probe = cause == Cause::Probe;
        let marks = if probe { EVER } else { EVER | RETRANSMITTED };
        let sent = self.board.mark_sent_again(number, marks, self.now, snapshot);
        if !probe {
            self.note_retransmission();
        }
        self.count_retransmission(cause);
        self.left(sent.payload());
        Outgoing::of(&sent, Some(cause))
    }

    /// `tcp_write_xmit`.
    fn emit_new(&mut self, switches: &Options, options: u32) -> Option<Outgoing> {
        let unsent = self.unsent();
        if unsent == 0 {
            return None;
        }
        let mss = self.full_segment(options);
        if core::mem::take(&mut self.written) {
            self.restart_if_idle();
        }
        let quota = self.quota(unsent)?;
        let length = self.end.saturating_sub(self.next).min(u64::from(mss)) as u32;
        let fin = self.closing && self.next + u64::from(length) == self.end;
        let whole = self.next + u64::from(length) + u64::from(fin);
        if whole > self.peer.edge || self.waits_for_more(switches, length < mss && !fin) {
            return None;
        }
        let room = (self.peer.edge - self.next) / u64::from(mss);
        let quota = quota.min(self.burst()).min(room.max(1) as u32);
        Some(self.send_new(mss, quota))
    }

    /// Returns how many segments the congestion window lets leave (`tcp_cwnd_test`).
    fn quota(&self, unsent: u64) -> Option<u32> {
        let mut in_flight = self.board.in_flight();
        if !self.config.recovery.limited_transmit && self.state <= CaState::Disorder {
            in_flight = self.board.len();
        }
        if unsent == 1 && self.closing {
            return Some(1);
        }
        Some(self.cwnd.segments.checked_sub(in_flight)?).filter(|quota| *quota > 0)
    }

    /// Nagle's algorithm as Minshall has it: one small segment at a time (`tcp_nagle_check`).
    fn waits_for_more(&self, switches: &Options, partial: bool) -> bool {
        let small_out = self.small_end > self.una && !self.board.is_empty();
        let nagle = self.config.nagle && !switches.no_delay;
        partial && (switches.cork || (nagle && small_out))
    }

    /// Sends up to `count` new segments of `mss` bytes as one.
    fn send_new(&mut self, mss: u32, count: u32) -> Outgoing {
        let start = self.next;
        let mut last = self.send_one(mss);
        for _ in 1..count {
            let full = self.end.saturating_sub(self.next) >= u64::from(mss);
            if last.has(FIN | PUSH) || !full {
                break;
            }
            last = self.send_one(mss);
        }
        let length = (self.next - start) as u32 - u32::from(last.has(FIN));
        self.sent_at = self.now;
        self.left(length);
        Outgoing { start, length, fin: last.has(FIN), push: last.has(PUSH), again: None }
    }

    fn send_one(&mut self, mss: u32) -> Sent {
        let length = self.end.saturating_sub(self.next).min(u64::from(mss)) as u32;
        let data_end = self.next + u64::from(length);
        let fin = self.closing && data_end == self.end;
        let push = length > 0 && (data_end == self.pushed || data_end == self.end);
        let marks = if fin { FIN } else { 0 } | if push { PUSH } else { 0 };
        let range = Range::new(self.next, data_end + u64::from(fin));
        let (first, in_flight) = (self.board.is_empty(), self.board.in_flight());
        if first {
            self.controller.as_mut().on_restart(self.now, self.sent_at);
        }
        let snapshot = self.rate.snapshot(self.now, in_flight, first);
        let sent = Sent::new(range, marks, self.now, snapshot);
        self.board.push(sent);
        self.next = range.end;
        if length < mss {
            self.small_end = data_end;
        }
        if self.in_reduction() {
            self.episode.prr_sent += 1;
        }
        self.report.data_segments += u64::from(length > 0);
        self.usage.sent = true;
        if first {
            self.timer = None;
        }
        sent
    }

    /// Notes that a segment with so much data left.
    fn left(&mut self, length: u32) {
        self.pace(length + HEADERS);
        self.queued += u64::from(length);
    }

    /// Nothing more leaves now: notes what limits the sender.
    pub fn pause(&mut self) {
        let unsent = self.unsent();
        let full = self.board.in_flight() >= self.cwnd.segments;
        let sent = core::mem::take(&mut self.usage.sent);
        if sent {
            self.arm_after_new();
        }
        if sent || (unsent > 0 && full) {
            self.validate(full);
        }
        if unsent == 0 && !full && self.board.lost <= self.board.retransmitted {
            let until = self.rate.delivered + u64::from(self.board.in_flight());
            self.rate.app_limited_until = until.max(1);
        }
        self.check_persist();
        let mss = u64::from(self.mss).min(unsent);
        let cause = if unsent == 0 && self.closing && self.board.is_empty() {
            Limit::Closed
        } else if unsent == 0 {
            Limit::Application
        } else if self.next + mss > self.peer.edge {
            Limit::Receiver
        } else {
            Limit::Congestion
        };
        if cause != self.limiter.cause {
            self.limiter.change(self.now, cause, &mut self.report.limits);
        }
    }
}

/// IP and TCP headers that pacing counts.
const HEADERS: u32 = 52;
