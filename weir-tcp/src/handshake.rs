//! Opening a connection [rfc9293 §3.5]: SYNs, their repetition, and what both sides agree on.

use crate::config::{Config, MSS_MIN};
use crate::ecn::{Agreed, EcnReceiver};
use crate::endpoint::{Endpoint, Reset, State};
use crate::segment::{Flags, Segment, Timestamps};
use weir_core::units::{Duration, Instant};

/// The state of opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// A SYN is to be sent.
    pub owed: bool,
    /// When it is sent again.
    pub due: Option<Instant>,
    sent_at: Option<Instant>,
    wait: Duration,
    retries: u8,
    /// The use of ECN that the peer's SYN offers.
    agreed: Agreed,
    /// Both sides opened at the same time.
    simultaneous: bool,
    /// The peer's SYN came again.
    repeated: bool,
}

impl Opening {
    pub fn new(config: &Config) -> Self {
        let wait = config.rto.initial;
        Self {
            owed: false,
            due: None,
            sent_at: None,
            wait,
            retries: 0,
            agreed: Agreed::Nothing,
            simultaneous: false,
            repeated: false,
        }
    }
}

impl Endpoint {
    /// Sends a SYN again, or gives up.
    pub(crate) fn wake_opening(&mut self) {
        let now = self.sender.now;
        if self.opening.due.is_none_or(|due| due > now) {
            return;
        }
        let passive = self.state == State::SynReceived;
        let retries = &self.config.retries;
        let most = if passive { retries.syn_ack } else { retries.syn };
        let most = most.saturating_add(if passive { 0 } else { retries.syn_linear });
        if most < u8::MAX && self.opening.retries >= most {
            return self.end();
        }
        self.opening.retries = self.opening.retries.saturating_add(1);
        self.sender.report.syns_again += 1;
        let linear = !passive && self.opening.retries <= retries.syn_linear;
        if !linear {
            let double = Duration::from_nanos(self.opening.wait.as_nanos().saturating_mul(2));
            self.opening.wait = double.min(self.config.rto.max);
        }
        self.opening.due = None;
        self.opening.owed = true;
    }

    /// Returns the SYN, or the SYN with acknowledgement, if it is to be sent.
    pub(crate) fn emit_opening(&mut self) -> Option<Segment> {
        if !core::mem::take(&mut self.opening.owed) {
            return None;
        }
        let (now, passive) = (self.sender.now, self.state == State::SynReceived);
        self.opening.due = Some(now.after(self.opening.wait));
        self.opening.sent_at = (self.opening.retries == 0).then_some(now);
        (self.sender.next, self.sender.sent_at) = (1, now);
        let mut segment = self.syn(passive);
        if passive {
            segment.ack = self.receiver.initial.at(1);
            segment.flags |= Flags::ACK;
            self.answer_ecn(&mut segment);
        } else if self.opening.retries < 2 {
            // [rfc3168 §6.1.1.1] A SYN that is lost often is sent without the flags.
            segment.flags |= EcnReceiver::syn_flags(&self.config);
        }
        Some(segment)
    }

    /// Sets flags and option of a SYN's acknowledgement. A path may drop either: sent again, it
    /// is without the option, then without accurate ECN's flags [rfc9768 §3.1.4.2].
    fn answer_ecn(&self, segment: &mut Segment) {
        let (opening, ecn) = (&self.opening, &self.receiver.ecn);
        let accurate = opening.agreed == Agreed::Accurate;
        if !accurate || opening.simultaneous || opening.retries < 2 {
            segment.flags |= ecn.syn_ack_flags(opening.agreed);
        }
        let most = if opening.simultaneous { 2 } else { 1 };
        if opening.retries < most && !opening.repeated {
            segment.acc_ecn = ecn.syn_ack_option(opening.agreed);
        }
    }

    fn syn(&mut self, passive: bool) -> Segment {
        let config = &self.config;
        let receiver = &mut self.receiver;
        let timestamps = config.timestamps && (!passive || receiver.timestamps_ok);
        let echo = if passive { receiver.stamp.unwrap_or(0) } else { 0 };
        // Windows of SYNs are not scaled [rfc7323 §2.2].
        let window = config.buffers.receive.get().min(0xffff) as u32;
        (receiver.window, receiver.window_from) = (window, receiver.next);
        let scaled = !passive || receiver.scale > 0 || self.sender.peer.scale > 0;
        let value = crate::sender::timestamp(self.sender.now);
        Segment {
            seq: self.initial,
            flags: Flags::SYN,
            window: window as u16,
            mss_option: Some(config.announced_mss()),
            window_scale: config.window_scale.filter(|_| scaled),
            sack_permitted: config.sack && (!passive || receiver.sack_ok),
            timestamps: timestamps.then_some(Timestamps { value, echo }),
            ..Segment::default()
        }
    }

    /// Takes the options of the peer's SYN.
    fn agree(&mut self, syn: &Segment) {
        let config = &self.config;
        let (sender, receiver) = (&mut self.sender, &mut self.receiver);
        receiver.initial = syn.seq;
        receiver.next = 1;
        (receiver.read, receiver.window_from) = (1, 1);
        receiver.sack_ok = config.sack && syn.sack_permitted;
        sender.sack_ok = receiver.sack_ok;
        receiver.timestamps_ok = config.timestamps && syn.timestamps.is_some();
        receiver.stamp = syn.timestamps.map(|stamps| stamps.value);
        if let (Some(own), Some(peer)) = (config.window_scale, syn.window_scale) {
            receiver.scale = own.min(SCALE_MAX);
            sender.peer.scale = peer.min(SCALE_MAX);
        }
        let options = if receiver.timestamps_ok { 12 } else { 0 };
        let peer = syn.mss_option.unwrap_or(DEFAULT_MSS).max(MSS_MIN);
        let mss = u32::from(config.announced_mss().min(peer)) - options;
        sender.mss = mss;
        sender.cwnd.mss = mss;
        sender.cwnd.segments = config.initial_window.segments(mss);
        let window = u32::from(syn.window);
        (sender.peer.size, sender.peer.max) = (window, window);
        sender.peer.edge = 1 + u64::from(window);
        if receiver.scale == 0 {
            receiver.tuning.threshold = receiver.tuning.threshold.min(0xffff);
        }
    }

    pub(crate) fn receive_in_listen(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if segment.flags.has(Flags::ACK) {
            return self.refuse(segment);
        }
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        self.agree(segment);
        self.opening.agreed = self.receiver.ecn.answer_syn(&self.config, segment);
        self.state = State::SynReceived;
        self.opening.owed = true;
    }

    pub(crate) fn receive_in_syn_sent(&mut self, segment: &Segment) {
        let flags = segment.flags;
        let acks = flags.has(Flags::ACK);
        if acks && segment.ack != self.initial.at(1) {
            return self.refuse(segment);
        }
        if flags.has(Flags::RST) {
            if acks {
                self.end();
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.agree(segment);
        if !acks {
            // Both sides opened at the same time.
            self.opening.agreed = self.receiver.ecn.answer_syn(&self.config, segment);
            self.opening.simultaneous = true;
            self.state = State::SynReceived;
            self.opening.owed = true;
            return;
        }
        let agreed = self.receiver.ecn.take_syn_ack(&self.config, segment);
        self.open(agreed);
        self.receiver.ack.demand();
    }

    /// Takes the acknowledgement of a SYN; returns false if it is none.
    pub(crate) fn complete_opening(&mut self, segment: &Segment) -> bool {
        let ack = segment.ack.position(self.initial, 1);
        if ack.is_none_or(|ack| ack < 1 || ack > self.sender.next) {
            self.refuse(segment);
            return false;
        }
        let agreed = self.opening.agreed;
        self.open(agreed);
        if self.sender.closing {
            self.state = State::FinWait1;
        }
        true
    }

    /// The connection is open.
    fn open(&mut self, agreed: Agreed) {
        let sender = &mut self.sender;
        self.state = State::Established;
        sender.report.established += 1;
        (sender.una, sender.next) = (1, 1);
        sender.episode.end = 1;
        if let Some(at) = self.opening.sent_at {
            let sample = sender.now.since(at);
            sender.rtt.sample_min(sender.now, sample, &self.config.rto);
            sender.rtt.sample(sample, &self.config.rto, 1, 1);
            sender.newest_rtt = Some(sample);
        }
        if self.opening.retries > 1 {
            // [rfc5681 §3.1] A SYN that was lost is a sign of congestion.
            sender.cwnd.segments = 1;
        }
        (self.opening.due, self.opening.owed) = (None, false);
        sender.usage.at = sender.now;
        sender.sent_at = sender.now;
        sender.ecn.start(agreed, self.receiver.ecn.is_bleached());
        let exact = sender.controller.as_ref().exact_marks();
        self.receiver.ecn.start(agreed, exact);
        sender.update_pacing_rate();
    }

    /// The peer's SYN, or its acknowledgement, came again: the last answer was lost.
    pub(crate) fn receive_repeated_syn(&mut self, segment: &Segment) {
        if self.state == State::SynReceived && segment.flags.has(Flags::ACK) {
            if self.complete_opening(segment) {
                self.receiver.ecn.reflect(segment);
                self.receiver.ack.demand();
            }
        } else if self.state == State::SynReceived {
            self.receiver.ecn.take_repeated_syn(segment, self.opening.agreed);
            self.opening.repeated = true;
            self.opening.owed = true;
        } else {
            // [rfc5961 §4.2] A SYN in an open connection is challenged.
            self.receiver.ecn.reflect(segment);
            self.receiver.ack.demand();
        }
    }

    /// Sends a reset for a segment that belongs to no connection [rfc9293 §3.5.2].
    pub(crate) fn refuse(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        self.reset = Some(if segment.flags.has(Flags::ACK) {
            Reset { seq: segment.ack, ack: None, timestamps: None }
        } else {
            let end = segment.seq.at(segment.sequence_len());
            Reset { seq: crate::seq::SeqNumber(0), ack: Some(end), timestamps: None }
        });
    }
}

/// The largest shift of windows [rfc7323 §2.3].
const SCALE_MAX: u8 = 14;
/// The segment size of a peer that names none [rfc9293 §3.7.1].
const DEFAULT_MSS: u16 = 536;
