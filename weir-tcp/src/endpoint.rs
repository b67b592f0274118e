//! One side of a connection: what a driver calls.
//!
//! It joins the sender and the receiver, keeps the connection's state [rfc9293 §3.3.2], and makes
//! segments. Invariant: after `emit` returned `None`, nothing leaves before the next call of
//! `receive`, `wake` or the application, and `next_wake` says when `wake` has something to do.

use crate::config::{AccurateOption, Config};
use crate::ecn::Agreed;
use crate::emission::Outgoing;
use crate::handshake::Opening;
use crate::receiver::{Arrival, Receiver};
use crate::report::{Info, Limit, Report};
use crate::segment::{Flags, Segment, Timestamps};
use crate::sender::{Ack, Sender};
use crate::seq::{Range, SeqNumber};
use alloc::sync::Arc;
use weir_core::units::{Duration, Instant};

/// The state of a connection [rfc9293 §3.3.2].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// It waits for a SYN.
    Listen,
    /// It sent a SYN.
    SynSent,
    /// It got a SYN and sent one.
    SynReceived,
    /// Both sides may send.
    Established,
    /// This side closed; its FIN is not acknowledged.
    FinWait1,
    /// This side closed, and the other may still send.
    FinWait2,
    /// The other side closed.
    CloseWait,
    /// Both closed at the same time.
    Closing,
    /// Both closed, the other first; this FIN is not acknowledged.
    LastAck,
    /// Both closed; old segments may still come.
    TimeWait,
    /// It is over, or was reset or given up.
    Closed,
}

/// The settings of an application for a connection, like socket options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Small segments do not wait (`TCP_NODELAY`).
    pub no_delay: bool,
    /// Small segments wait until this is cleared (`TCP_CORK`).
    pub cork: bool,
}

/// One side of one connection.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) config: Arc<Config>,
    pub(crate) state: State,
    pub(crate) initial: SeqNumber,
    pub(crate) opening: Opening,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) options: Options,
    /// Nothing leaves before the next call that may change that.
    pub(crate) settled: bool,
    /// A reset to be sent: its number, and what it acknowledges.
    pub(crate) reset: Option<Reset>,
    /// When the time after the end is over.
    pub(crate) quiet_until: Option<Instant>,
}

/// A reset to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset {
    pub seq: SeqNumber,
    pub ack: Option<SeqNumber>,
    /// A connection's own reset has them [rfc7323 §3.2].
    pub timestamps: Option<Timestamps>,
}

impl Endpoint {
    /// Opens a connection: a SYN is to be emitted.
    pub fn connect(config: impl Into<Arc<Config>>, now: Instant, initial: SeqNumber) -> Self {
        let mut endpoint = Self::new(config.into(), now, initial, State::SynSent);
        endpoint.opening.owed = true;
        endpoint
    }

    /// Waits for a connection.
    pub fn listen(config: impl Into<Arc<Config>>, initial: SeqNumber) -> Self {
        Self::new(config.into(), Instant::ZERO, initial, State::Listen)
    }

    fn new(config: Arc<Config>, now: Instant, initial: SeqNumber, state: State) -> Self {
        Self {
            state,
            initial,
            opening: Opening::new(&config),
            sender: Sender::new(Arc::clone(&config), now),
            receiver: Receiver::new(Arc::clone(&config), now),
            options: Options::default(),
            settled: false,
            reset: None,
            quiet_until: None,
            config,
        }
    }

    /// Takes a segment that arrived.
    pub fn receive(&mut self, now: Instant, segment: &Segment) {
        self.set_now(now);
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.receive_in_listen(segment),
            State::SynSent => self.receive_in_syn_sent(segment),
            _ => self.receive_synchronized(segment),
        }
    }

    /// Fires the timers that are due.
    pub fn wake(&mut self, now: Instant) {
        self.set_now(now);
        self.wake_opening();
        if self.state >= State::Established && !self.sender.fire() {
            self.end();
        }
        self.receiver.fire();
        if self.quiet_until.is_some_and(|until| until <= now) {
            self.end();
        }
    }

    /// Returns when [`Endpoint::wake`] is to be called, if no segment comes before.
    pub fn next_wake(&self) -> Option<Instant> {
        let earlier = |one: Instant, other: Option<Instant>| match other {
            Some(other) => one.min(other),
            None => one,
        };
        let mut due = self.sender.timer.map_or(Instant::MAX, |(due, _)| due);
        due = earlier(due, self.receiver.ack.timer);
        due = earlier(due, self.quiet_until);
        due = earlier(due, self.opening.due);
        if self.sender.cwnd.paced && (self.sender.unsent() > 0 || self.sender.board.lost > 0) {
            due = earlier(due, self.sender.paced_until());
        }
        (due != Instant::MAX).then_some(due)
    }

    /// Returns the next segment that may leave now; call it until it returns `None`.
    pub fn emit(&mut self, now: Instant) -> Option<Segment> {
        if self.settled {
            return None;
        }
        self.set_now(now);
        let segment = self.emit_any();
        self.settled = segment.is_none();
        segment
    }

    fn emit_any(&mut self) -> Option<Segment> {
        if let Some(reset) = self.reset.take() {
            return Some(reset.segment());
        }
        match self.state {
            State::Closed | State::Listen => return None,
            State::SynSent | State::SynReceived => return self.emit_opening(),
            _ => {}
        }
        let options = self.receiver.options_len();
        if let Some(outgoing) = self.sender.emit(&self.options, options) {
            return Some(self.data_segment(outgoing, options));
        }
        self.sender.pause();
        if !self.receiver.ack.due_now && self.receiver.early.is_none() {
            return None;
        }
        let mut segment = Segment { seq: self.initial.at(self.sender.next), ..Segment::default() };
        self.dress(&mut segment);
        Some(segment)
    }

    /// Writes data; returns how many bytes the buffer takes.
    pub fn write(&mut self, bytes: u64) -> u64 {
        self.settled = false;
        let sender = &mut self.sender;
        if sender.closing || matches!(self.state, State::Closed) {
            return 0;
        }
        let waiting = sender.end.saturating_sub(sender.una.max(1));
        let taken = bytes.min(self.config.buffers.send.get().saturating_sub(waiting));
        sender.end += taken;
        sender.pushed = sender.end;
        sender.written = true;
        taken
    }

    /// Writes data without end, as a greedy source does.
    pub fn write_forever(&mut self) {
        self.settled = false;
        if !self.sender.closing {
            self.sender.end = FOREVER;
        }
    }

    /// Returns how many bytes more the buffer takes.
    pub fn writable(&self) -> u64 {
        let waiting = self.sender.end.saturating_sub(self.sender.una.max(1));
        self.config.buffers.send.get().saturating_sub(waiting)
    }

    /// Closes this side: a FIN follows the data written, or what was sent of data without end.
    pub fn close(&mut self) {
        self.settled = false;
        match self.state {
            State::Listen | State::SynSent => return self.end(),
            State::Established => self.state = State::FinWait1,
            State::SynReceived => {}
            State::CloseWait => self.state = State::LastAck,
            _ => return,
        }
        if self.sender.end == FOREVER {
            self.sender.end = self.sender.next.max(1);
        }
        self.sender.closing = true;
    }

    /// Ends the connection; from SYN-RECEIVED on, with a reset for the other side.
    pub fn abort(&mut self) {
        self.settled = false;
        if self.state >= State::SynReceived && self.state < State::TimeWait {
            let seq = self.initial.at(self.sender.next);
            let ack = Some(self.receiver.initial.at(self.receiver.next));
            self.reset = Some(Reset { seq, ack, timestamps: self.receiver.timestamps() });
        }
        self.end();
    }

    /// Returns how many bytes may be read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Reads data; returns how many bytes there were.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = self.receiver.read(bytes);
        self.settled &= !self.receiver.ack.due_now;
        taken
    }

    /// Returns whether the other side closed and everything that it sent has been read.
    pub fn is_finished(&self) -> bool {
        self.receiver.is_finished() && self.receiver.readable() == 0
    }

    /// Records that bytes of data left the host's queue, for the limit on it.
    pub fn departed(&mut self, bytes: u32) {
        self.settled = false;
        self.sender.queued = self.sender.queued.saturating_sub(u64::from(bytes));
    }

    /// Sets what the application may set.
    pub fn set_options(&mut self, options: Options) {
        self.settled = false;
        self.options = options;
    }

    /// Sets when accurate ECN's option is sent.
    pub fn set_accurate_option(&mut self, level: AccurateOption) {
        self.receiver.ecn.counters.level = level;
    }

    /// Acknowledges what arrives at once, for a while (`TCP_QUICKACK`).
    pub fn quick_ack(&mut self) {
        self.settled = false;
        self.receiver.enter_quick_mode();
    }

    /// Returns the state in TCP's state machine.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns what the connection did so far.
    pub fn report(&self) -> &Report {
        &self.sender.report
    }

    /// Returns what the connection did until `now`, and counts from there on anew.
    pub fn take_report(&mut self, now: Instant) -> Report {
        let sender = &mut self.sender;
        sender.limiter.change(now, sender.limiter.cause, &mut sender.report.limits);
        core::mem::take(&mut sender.report)
    }

    /// Returns the newest round trip, if one was measured since the last call.
    pub fn take_rtt(&mut self) -> Option<Duration> {
        self.sender.newest_rtt.take()
    }

    /// Returns the bytes that the other side acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.sender.report.acknowledged
    }

    /// Returns the bytes on the way, as the sender believes.
    pub fn in_flight(&self) -> u64 {
        u64::from(self.sender.board.in_flight()) * u64::from(self.sender.mss)
    }

    /// Returns a view like Linux's `tcp_info`.
    pub fn tcp_info(&self) -> Info {
        let sender = &self.sender;
        Info {
            ca_state: sender.state,
            retransmits: sender.retries,
            probes: sender.probes,
            backoff: sender.rtt.backoff,
            rto: sender.rtt.rto,
            snd_mss: sender.mss,
            unacked: sender.board.len(),
            sacked: sender.board.sacked,
            lost: sender.board.lost,
            retrans: sender.board.retransmitted,
            srtt: sender.rtt.smoothed().unwrap_or_default(),
            rttvar: sender.rtt.deviation(),
            min_rtt: sender.rtt.min().unwrap_or_default(),
            snd_ssthresh: sender.cwnd.ssthresh,
            snd_cwnd: sender.cwnd.segments,
            reordering: sender.reordering,
            reord_seen: sender.reorder_seen,
            total_retrans: sender.report.retransmitted(),
            rcv_wnd: self.receiver.window,
            snd_wnd: sender.peer.size,
            delivered: sender.rate.delivered,
            delivered_ce: sender.rate.delivered_marked,
            delivered_e0_bytes: sender.ecn.feedback.bytes[0],
            delivered_ce_bytes: sender.ecn.feedback.bytes[1],
            delivered_e1_bytes: sender.ecn.feedback.bytes[2],
            pacing_rate: sender.cwnd.pacing_rate,
            notsent: sender.end.saturating_sub(sender.next),
        }
    }

    fn set_now(&mut self, now: Instant) {
        self.settled = false;
        (self.sender.now, self.receiver.now) = (now, now);
    }

    /// Ends the connection at once.
    pub(crate) fn end(&mut self) {
        let sender = &mut self.sender;
        sender.limiter.change(sender.now, Limit::Closed, &mut sender.report.limits);
        (sender.timer, sender.forced, self.quiet_until) = (None, None, None);
        (self.opening.due, self.opening.owed) = (None, false);
        (self.receiver.ack.timer, self.receiver.ack.due_now) = (None, false);
        self.state = State::Closed;
    }

    fn data_segment(&mut self, outgoing: Outgoing, options: u32) -> Segment {
        let mss = self.sender.full_segment(options);
        let mut segment = Segment {
            seq: self.initial.at(outgoing.start),
            flags: Flags::NONE.with(Flags::FIN, outgoing.fin).with(Flags::PSH, outgoing.push),
            length: outgoing.length,
            mss: if outgoing.length > 0 { mss as u16 } else { 0 },
            again: outgoing.again,
            ..Segment::default()
        };
        self.dress(&mut segment);
        if outgoing.length > 0 {
            self.receiver.answered();
        }
        segment
    }

    /// Fills in what every segment carries.
    fn dress(&mut self, segment: &mut Segment) {
        self.receiver.dress(segment);
        let l4s = self.sender.controller.as_ref().is_l4s();
        self.sender.ecn.dress(segment, l4s);
    }

    /// Takes a segment of a synchronized connection (`tcp_rcv_established`,
    /// `tcp_validate_incoming`).
    fn receive_synchronized(&mut self, segment: &Segment) {
        let near = self.receiver.next;
        let Some(start) = segment.seq.position(self.receiver.initial, near) else { return };
        if !self.is_acceptable(start, segment) {
            return;
        }
        if segment.flags.has(Flags::RST) {
            // [rfc5961 §3.2] Only the exact number resets; others are challenged.
            return if start == near { self.end() } else { self.receiver.ack.demand() };
        }
        if segment.flags.has(Flags::SYN) {
            return self.receive_repeated_syn(segment);
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let passive = self.state == State::SynReceived;
        if passive && !self.complete_opening(segment) {
            return;
        }
        if self.sender.ecn.begin(segment, passive, &self.config) {
            self.sender.rate.delivered_marked += 1;
        }
        if !self.take_ack(start, segment) {
            return;
        }
        let arrival = self.take_payload(start, segment);
        self.after_ack();
        self.receiver.tuning.smoothed = self.sender.rtt.smoothed().unwrap_or_default();
        self.receiver.tuning.timeout = self.sender.rtt.rto;
        self.receiver.check_ack(arrival);
    }

    /// Checks number and timestamp [rfc9293 §3.10.7.4] [rfc7323 §5.3]; what is not acceptable is
    /// answered by an acknowledgement.
    fn is_acceptable(&mut self, start: u64, segment: &Segment) -> bool {
        let end = start + segment.sequence_len();
        let receiver = &mut self.receiver;
        let stamp = segment.timestamps.filter(|_| receiver.timestamps_ok);
        let older = |value: u32, known: u32| (known.wrapping_sub(value) as i32) > PAWS_WINDOW;
        let old = stamp.zip(receiver.stamp).is_some_and(|(new, known)| older(new.value, known));
        // At the SYN's acknowledgement, the window is the one of the handshake.
        let below = end < receiver.window_from.min(receiver.next);
        let above = start > receiver.edge();
        if (old && !segment.flags.has(Flags::RST)) || below || above {
            self.sender.report.too_old += u64::from(old && segment.length > 0);
            if !segment.flags.has(Flags::RST) {
                if segment.length > 0 && end <= receiver.next {
                    receiver.ecn.counters.take_duplicate(start);
                    receiver.report_duplicate(Range::new(start, end));
                }
                receiver.enter_quick_mode();
            }
            return false;
        }
        true
    }

    /// Takes the acknowledgement of a segment; returns false if the segment is to be ignored.
    fn take_ack(&mut self, start: u64, segment: &Segment) -> bool {
        let Some(ack) = segment.ack.position(self.initial, self.sender.una) else { return false };
        let mut read = Ack {
            ack,
            seq: start,
            window: u32::from(segment.window) << self.sender.peer.scale,
            echo: segment.timestamps.filter(|_| self.receiver.timestamps_ok).map(|at| at.echo),
            blocks: [Range::default(); 4],
            block_count: 0,
            has_data: segment.sequence_len() > 0,
            echoes_mark: self.sender.echoes_mark(segment.flags),
            ace: self.sender.ace(segment.flags),
            option: segment.acc_ecn,
            newer: self.receiver.is_newer(start, segment),
        };
        for block in segment.sack.as_slice() {
            let una = self.sender.una;
            let start = block.start.position(self.initial, una);
            let end = block.end.position(self.initial, una);
            if let (Some(start), Some(end)) = (start, end)
                && start < end
            {
                read.blocks[read.block_count] = Range::new(start, end);
                read.block_count += 1;
            }
        }
        let sent = self.sender.acknowledge(&read);
        if !sent {
            self.receiver.ack.demand();
        }
        sent
    }

    fn take_payload(&mut self, start: u64, segment: &Segment) -> Arrival {
        let receiver = &mut self.receiver;
        if let Some(stamp) = segment.timestamps.filter(|_| start <= receiver.window_from) {
            receiver.stamp = Some(stamp.value);
        }
        let marked = segment.ecn == crate::segment::Ecn::Ce;
        self.sender.report.marks_received += u64::from(marked) * u64::from(segment.count());
        if receiver.ecn.take(segment) && segment.length > 0 {
            receiver.enter_quick_mode();
        }
        if segment.sequence_len() == 0 {
            return Arrival::Nothing;
        }
        let before = receiver.next;
        let arrival = receiver.take(start, segment);
        if arrival == Arrival::Duplicate {
            receiver.enter_quick_mode();
        }
        self.sender.report.received += receiver.next - before;
        if receiver.is_finished() && before <= receiver.fin_at.unwrap_or(0) {
            self.other_closed();
        }
        arrival
    }

    /// The other side's FIN is in order [rfc9293 §3.10.7.4].
    fn other_closed(&mut self) {
        self.receiver.ack.demand();
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.wait_quietly(),
            _ => {}
        }
    }

    /// Changes the state when this side's FIN is acknowledged.
    fn after_ack(&mut self) {
        let sender = &self.sender;
        if !sender.closing || sender.una <= sender.end {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.wait_quietly(),
            State::LastAck => self.end(),
            _ => {}
        }
    }

    fn wait_quietly(&mut self) {
        self.state = State::TimeWait;
        // Linux's remainder of a connection keeps no counters (`tcp_v4_timewait_ack`).
        self.receiver.ecn.agreed = Agreed::Nothing;
        let wait = self.config.time_wait.max(Duration::from_nanos(1));
        self.quiet_until = Some(self.sender.now.after(wait));
        self.sender.board.release();
    }
}

impl Sender {
    /// Returns whether these flags echo a mark, after classic ECN was agreed on.
    fn echoes_mark(&self, flags: Flags) -> bool {
        self.ecn.agreed == Agreed::Classic && flags.has(Flags::ECE)
    }

    /// Returns the counter of accurate ECN, if that was agreed on.
    fn ace(&self, flags: Flags) -> Option<u8> {
        (self.ecn.agreed == Agreed::Accurate).then(|| flags.ace())
    }
}

impl From<&Config> for Arc<Config> {
    fn from(config: &Config) -> Self {
        Arc::new(config.clone())
    }
}

impl Reset {
    fn segment(self) -> Segment {
        Segment {
            seq: self.seq,
            ack: self.ack.unwrap_or_default(),
            flags: Flags::RST.with(Flags::ACK, self.ack.is_some()),
            timestamps: self.timestamps,
            ..Segment::default()
        }
    }
}

/// The end of data without end.
const FOREVER: u64 = u64::MAX / 4;
/// By how many ticks a timestamp may be older than the newest (`TCP_PAWS_WINDOW`).
const PAWS_WINDOW: i32 = 1;
