//! Loss recovery by selective acknowledgements, as Linux does it.
//!
//! The sender remembers each segment that it has sent and that is not acknowledged yet. A segment
//! is lost if one that was sent later has arrived, and either three have or a quarter of the round
//! trip has passed (RACK, RFC 8985). While the window shrinks, what may be sent follows what
//! arrives (PRR, RFC 6937). If nothing arrives for two round trips, the last segment is sent again
//! (a tail loss probe, RFC 8985 §7).

use alloc::collections::VecDeque;

use super::congestion::Controller;
use crate::time::{Duration, Instant};
use crate::wire::TcpSeqNumber;

/// As many segments with a later number that arrived show that one is lost (RFC 5681).
const DUPLICATE_THRESHOLD: usize = 3;

/// How a segment that is not acknowledged fares.
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
enum Fate {
    /// It is on its way, for the first time or again.
    Sent,
    /// It has arrived, but one before it has not.
    Sacked,
    /// It is lost and was not sent again since.
    Lost,
}

#[derive(Debug, Copy, Clone)]
struct Segment {
    begin: TcpSeqNumber,
    end: TcpSeqNumber,
    sent_at: Instant,
    /// Counts transmissions, so that two at one instant have an order.
    order: u64,
    fate: Fate,
    retransmitted: bool,
}

impl Segment {
    fn len(&self) -> usize {
        self.end - self.begin
    }
}

#[derive(Debug, Copy, Clone, Eq, PartialEq)]
enum Phase {
    Open,
    /// Until all that was sent before `until` is acknowledged.
    Recovery {
        until: TcpSeqNumber,
    },
    /// The same, after the retransmission timer expired.
    Loss {
        until: TcpSeqNumber,
    },
}

/// The window while it is reduced (RFC 6937), in bytes.
#[derive(Debug, Copy, Clone, Default)]
struct Reduction {
    window: usize,
    ssthresh: usize,
    before: usize,
    delivered: usize,
    sent: usize,
}

/// An acknowledgement of what the socket has sent.
#[derive(Debug, Copy, Clone)]
pub(super) struct Ack {
    pub number: TcpSeqNumber,
    pub ranges: [Option<(u32, u32)>; 3],
    /// The next number that the socket will send.
    pub next: TcpSeqNumber,
    pub mss: usize,
}

/// What the sender remembers of the segments in flight.
#[derive(Debug)]
pub(super) struct Recovery {
    segments: VecDeque<Segment>,
    phase: Phase,
    reduction: Reduction,
    /// The bytes that are probably on their way.
    pipe: usize,
    /// Transmissions so far.
    order: u64,
    /// The newest transmission that has arrived, and how long it took.
    newest: Option<(u64, Duration)>,
    rtt_min: Option<Duration>,
    rtt_smoothed: Option<Duration>,
    /// When segments count as lost that others may have overtaken.
    reorder_at: Option<Instant>,
    /// When the last segment is sent again, to cause an acknowledgement.
    probe_at: Option<Instant>,
    /// A probe is to be sent; one that was is not followed by another before this is acknowledged.
    probing: bool,
    probed: Option<TcpSeqNumber>,
    /// The retransmission timer has expired: the first segment goes whatever the window is, since
    /// nothing else may come that starts the timer anew.
    expired: bool,
}

impl Recovery {
    pub(super) fn new() -> Recovery {
        Recovery {
            segments: VecDeque::new(),
            phase: Phase::Open,
            reduction: Reduction::default(),
            pipe: 0,
            order: 0,
            newest: None,
            rtt_min: None,
            rtt_smoothed: None,
            reorder_at: None,
            probe_at: None,
            probing: false,
            probed: None,
            expired: false,
        }
    }

    /// The bytes that are probably on their way.
    pub(super) fn pipe(&self) -> usize {
        self.pipe
    }

    /// The window while it is reduced.
    pub(super) fn window(&self) -> Option<usize> {
        match self.phase {
            Phase::Recovery { .. } => Some(self.reduction.window),
            _ => None,
        }
    }

    /// Returns the segment to be sent again next, if `room` more bytes may be on their way.
    pub(super) fn retransmission(&self, room: usize) -> Option<(TcpSeqNumber, TcpSeqNumber)> {
        if self.probing {
            return self.segments.back().map(|last| (last.begin, last.end));
        }
        let lost = self.segments.iter().find(|one| one.fate == Fate::Lost)?;
        (self.expired || lost.len() <= room).then_some((lost.begin, lost.end))
    }

    /// The socket has sent these bytes, for the first time or again.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        begin: TcpSeqNumber,
        end: TcpSeqNumber,
        rto: Duration,
        rto_min: Duration,
    ) {
        self.order += 1;
        let order = self.order;
        self.reduction.sent += end - begin;
        let known = self.segments.iter_mut().find(|one| one.begin == begin);
        match known {
            Some(segment) => {
                // A retransmission may carry the FIN, too.
                segment.end = segment.end.max(end);
                (segment.sent_at, segment.order) = (now, order);
                (segment.fate, segment.retransmitted) = (Fate::Sent, true);
                if self.probing {
                    self.probed = Some(segment.end);
                }
            }
            None => {
                let (fate, retransmitted) = (Fate::Sent, false);
                self.segments.push_back(Segment {
                    begin,
                    end,
                    sent_at: now,
                    order,
                    fate,
                    retransmitted,
                });
                self.arm_probe(now, rto, rto_min);
            }
        }
        (self.probing, self.expired) = (false, false);
        self.count_pipe();
    }

    /// An acknowledgement has come. Returns whether the socket has to call the congestion
    /// controller, and for how many bytes that have arrived.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: Ack,
        controller: &mut dyn Controller,
    ) -> Option<usize> {
        let before = self.segments.front().map(|first| first.begin);
        let flight = self.pipe;
        let delivered = self.take_delivered(now, ack, controller);
        let advanced = before.is_some_and(|begin| ack.number > begin);
        if self.probed.is_some_and(|end| ack.number >= end) {
            self.probed = None;
        }
        if let Phase::Recovery { until } | Phase::Loss { until } = self.phase
            && ack.number >= until
        {
            if matches!(self.phase, Phase::Recovery { .. }) {
                controller.on_recovered(now);
            }
            self.phase = Phase::Open;
        }
        let lost = self.detect_losses(now);
        if lost && self.phase == Phase::Open {
            self.enter(now, ack.next, controller);
        }
        if matches!(self.phase, Phase::Recovery { .. }) {
            if delivered > 0 {
                self.reduce(delivered, advanced && !lost, ack.mss);
            }
            return None;
        }
        // The window grows only if it was used (RFC 7661; tcp_is_cwnd_limited of Linux).
        let window = controller.window();
        let used = if window < controller.ssthresh() {
            window < 2 * flight
        } else {
            window < flight + ack.mss
        };
        (advanced && used).then_some(delivered)
    }

    /// The retransmission timer has expired.
    pub(super) fn on_rto(
        &mut self,
        now: Instant,
        next: TcpSeqNumber,
        controller: &mut dyn Controller,
    ) {
        // The window was reduced for these losses already if a recovery was under way.
        let window = match self.phase {
            Phase::Recovery { .. } => self.reduction.before,
            _ => controller.window(),
        };
        controller.on_rto(now, window);
        self.phase = Phase::Loss { until: next };
        let slack = self.newest.map(|(_, rtt)| rtt);
        for (index, segment) in self.segments.iter_mut().enumerate() {
            // What was sent a moment ago may still arrive.
            let recent = index > 0 && slack.is_some_and(|rtt| segment.sent_at + rtt > now);
            // A first one that was said to have arrived is not there any more.
            if index == 0 || segment.fate == Fate::Sent && !recent {
                segment.fate = Fate::Lost;
            }
        }
        (self.probe_at, self.reorder_at, self.probing) = (None, None, false);
        self.expired = true;
        self.count_pipe();
    }

    /// Does what is due now; returns whether the retransmission timer has to start anew.
    pub(super) fn on_timer(
        &mut self,
        now: Instant,
        next: TcpSeqNumber,
        mss: usize,
        controller: &mut dyn Controller,
    ) -> bool {
        if self.reorder_at.is_some_and(|at| at <= now) {
            self.reorder_at = None;
            if self.detect_losses(now) && self.phase == Phase::Open {
                self.enter(now, next, controller);
                self.reduce(mss, false, mss);
            }
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            self.probing = self.probed.is_none() && !self.segments.is_empty();
            return true;
        }
        false
    }

    /// When [`Recovery::on_timer`] is due.
    pub(super) fn due(&self) -> Option<Instant> {
        match (self.reorder_at, self.probe_at) {
            (Some(reorder), Some(probe)) => Some(reorder.min(probe)),
            (reorder, probe) => reorder.or(probe),
        }
    }

    /// Plans a probe, if nothing was lost or overtaken.
    pub(super) fn arm_probe(&mut self, now: Instant, rto: Duration, rto_min: Duration) {
        self.probe_at = None;
        let calm =
            self.phase == Phase::Open && self.segments.iter().all(|one| one.fate == Fate::Sent);
        let Some(rtt) = self.rtt_smoothed else { return };
        if !calm || self.segments.is_empty() || self.probed.is_some() {
            return;
        }
        // One segment alone may wait for a delayed acknowledgement.
        let slack = if self.segments.len() == 1 { rto_min } else { Duration::from_millis(2) };
        self.probe_at = Some(now + (rtt * 2 + slack).min(rto));
    }

    /// Takes off what is acknowledged and marks what is selectively so; returns the bytes that
    /// have newly arrived.
    fn take_delivered(
        &mut self,
        now: Instant,
        ack: Ack,
        controller: &mut dyn Controller,
    ) -> usize {
        let mut arrived: Option<Segment> = None;
        let mut delivered = 0;
        let mut arrive = |segment: &Segment| {
            delivered += segment.len();
            if arrived.is_none_or(|newest| newest.order < segment.order) {
                arrived = Some(*segment);
            }
        };
        while let Some(first) = self.segments.front_mut() {
            if first.end > ack.number {
                if first.begin < ack.number {
                    first.begin = ack.number;
                }
                break;
            }
            if first.fate != Fate::Sacked {
                arrive(first);
            }
            self.segments.pop_front();
        }
        for (left, right) in ack.ranges.into_iter().flatten() {
            let (left, right) = (TcpSeqNumber(left as i32), TcpSeqNumber(right as i32));
            self.split(left, right);
            let inside =
                |one: &&mut Segment| one.fate != Fate::Sacked && one.begin >= left && one.end <= right;
            for segment in self.segments.iter_mut().filter(inside) {
                segment.fate = Fate::Sacked;
                arrive(segment);
            }
        }
        if let Some(segment) = arrived {
            self.time(now, &segment, ack, controller);
        }
        self.count_pipe();
        delivered
    }

    /// Splits a segment of which the last part is not in the range, such as a FIN.
    fn split(&mut self, left: TcpSeqNumber, right: TcpSeqNumber) {
        let crossed = |one: &Segment| {
            one.fate != Fate::Sacked && one.begin >= left && one.begin < right && one.end > right
        };
        let Some(index) = self.segments.iter().position(crossed) else { return };
        let whole = self.segments[index];
        self.segments[index].end = right;
        self.segments.insert(index + 1, Segment { begin: right, ..whole });
    }

    /// Takes the time that the newest of the segments that arrived was under way.
    fn time(
        &mut self,
        now: Instant,
        segment: &Segment,
        ack: Ack,
        controller: &mut dyn Controller,
    ) {
        let rtt = now - segment.sent_at;
        // An answer to the first transmission comes too early for the second (RFC 8985 §6.2).
        if segment.retransmitted && self.rtt_min.is_some_and(|least| rtt < least) {
            return;
        }
        if self.newest.is_none_or(|(order, _)| order < segment.order) {
            self.newest = Some((segment.order, rtt));
        }
        if segment.retransmitted {
            return;
        }
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        let smooth = |old: Duration| (old * 7 + rtt) / 8;
        self.rtt_smoothed = Some(self.rtt_smoothed.map_or(rtt, smooth));
        controller.on_rtt(now, rtt, ack.number, ack.next);
    }

    /// Marks segments that are lost; returns whether there were any (RFC 8985 §6.2).
    fn detect_losses(&mut self, now: Instant) -> bool {
        self.reorder_at = None;
        let Some((newest, rtt)) = self.newest else { return false };
        let sacked = self.segments.iter().filter(|one| one.fate == Fate::Sacked).count();
        let window = match self.phase {
            Phase::Open if sacked < DUPLICATE_THRESHOLD => self
                .rtt_min
                .unwrap_or(Duration::ZERO)
                .min(self.rtt_smoothed.unwrap_or(Duration::ZERO) / 2)
                / 4,
            _ => Duration::ZERO,
        };
        let mut lost = false;
        for segment in &mut self.segments {
            if segment.fate != Fate::Sent || segment.order > newest {
                continue;
            }
            let due = segment.sent_at + rtt + window;
            if due <= now {
                segment.fate = Fate::Lost;
                lost = true;
            } else {
                self.reorder_at = Some(self.reorder_at.map_or(due, |at| at.max(due)));
            }
        }
        self.count_pipe();
        lost
    }

    fn enter(&mut self, now: Instant, next: TcpSeqNumber, controller: &mut dyn Controller) {
        let before = controller.window();
        controller.on_loss(now, before);
        self.phase = Phase::Recovery { until: next };
        let ssthresh = controller.ssthresh();
        self.reduction = Reduction { window: before, ssthresh, before, delivered: 0, sent: 0 };
        self.probe_at = None;
    }

    /// Lets the window follow what arrives (RFC 6937, tcp_cwnd_reduction of Linux).
    fn reduce(&mut self, delivered: usize, slow_start: bool, mss: usize) {
        let Reduction { ssthresh, before, .. } = self.reduction;
        self.reduction.delivered += delivered;
        if ssthresh == usize::MAX {
            // Without congestion control nothing is reduced.
            return;
        }
        let (arrived, sent) = (self.reduction.delivered, self.reduction.sent);
        let may_send = if self.pipe > ssthresh {
            let share = (arrived as u128 * ssthresh as u128).div_ceil(before.max(1) as u128);
            (share as usize).saturating_sub(sent).div_ceil(mss) * mss
        } else {
            let more = if slow_start { mss } else { 0 };
            let limit = arrived.saturating_sub(sent).max(delivered) + more;
            limit.min(ssthresh - self.pipe)
        };
        // The first retransmission leaves at once.
        let least = if sent == 0 { mss } else { 0 };
        self.reduction.window = self.pipe + may_send.max(least);
    }

    fn count_pipe(&mut self) {
        let sent = self.segments.iter().filter(|one| one.fate == Fate::Sent);
        self.pipe = sent.map(Segment::len).sum();
    }
}
