//! A connection from the side of one of its hosts: what passes the point next to that host.
//!
//! *Own* packets are those of the host, *other* ones come to it. With a record or with two captures
//! each host has a point of its own, and what lies between both is in neither view; with one
//! capture both hosts have the same point. The time from a packet to the host's answer to it is a
//! *turnaround*: the least of both hosts add up to the round trip without a queue. Invariant: what
//! was not seen is taken as sent when an acknowledgement shows that it was received.

use super::acking::Acking;
use super::flight::{Ack, Flight, Sent};
use super::stream::{Known, Progress, Stream};
use crate::frame::Segment;
use std::collections::VecDeque;
use weir_core::units::{Duration, Instant};

/// The packets that pass next to one host.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The bytes of the host.
    pub sent: Stream,
    /// The bytes for the host.
    pub received: Stream,
    /// Packets of the host and for it.
    pub seen: [u64; 2],
    /// The least time to the host and back.
    pub turnaround: Turnaround,
    /// The host's window as a sender.
    pub flight: Flight,
    /// Where the host began to speak.
    pub marks: Vec<Mark>,
    /// Marks that were left out.
    pub marks_lost: u64,
    /// How the host acknowledges.
    pub acking: Acking,
    /// The SYN of the host.
    pub syn: Option<Segment>,
    /// The windows of the host, not scaled: the first, and the largest.
    pub windows: Option<(u16, u16)>,
    /// Progress that may be marked.
    pub marked: u64,
    /// Whether the host ended its direction.
    pub ended: bool,
    acked: u64,
    acked_all: Option<Instant>,
    opened: Option<Instant>,
    /// The other host's SYN, unless it came twice.
    other_syn: Option<Instant>,
    other_syns: u32,
    other_scale: Option<u8>,
    allowed: Option<u64>,
    /// The newest timestamp for the host.
    stamp: Option<u32>,
    /// Timestamps that the host has not returned, and when the first packet with each passed.
    stamps: VecDeque<(u32, Instant)>,
    unanswered: VecDeque<(u64, Instant)>,
    /// The bytes that the host had received when it spoke last.
    heard: u64,
    /// The bytes of the last advance that was not seen.
    unseen: [u64; 2],
    fins: [Option<u64>; 2],
    first: FirstFlight,
    stamped: bool,
}

/// The bytes that a host sends before it can know of the first acknowledgement of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum FirstFlight {
    /// It has sent no data.
    #[default]
    Before,
    /// So many bytes, from this offset.
    Growing { from: u64, to: u64 },
    /// So many bytes until this instant, at which the first acknowledgement takes effect.
    Acknowledged { from: u64, to: u64, until: Instant },
    /// So many bytes; more followed.
    Known(u64),
}

/// The least time from the point to the host and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turnaround {
    /// `None` if the host answered nothing.
    pub least: Option<Duration>,
    /// Answers that were timed: of the handshake, by acknowledgements, by timestamps.
    pub samples: [u32; 3],
}

/// The instant at which a host began to speak, after it had listened or been silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Its first byte.
    pub offset: u64,
    /// The bytes that it had received.
    pub received: u64,
    /// From what it waited for to this.
    pub gap: Duration,
    /// The event that it waited for.
    pub cause: Cause,
    /// When it was.
    pub at: Instant,
}

/// The event before a host began to speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The connection was open.
    Opened,
    /// It received the last byte of what the other one said.
    Heard,
    /// All that it had sent was acknowledged, and it was silent.
    Silence,
}

impl View {
    /// A packet of the host passed.
    pub fn sends(&mut self, segment: &Segment, at: Instant, round_trip: Option<Duration>) {
        self.seen[0] += 1;
        let is_syn = segment.has(Segment::SYN);
        if is_syn {
            self.sent.begin(segment.seq.wrapping_add(1));
            self.syn.get_or_insert(*segment);
        }
        if segment.has(Segment::ACK) {
            self.answers(segment, at);
        }
        if !is_syn && !segment.has(Segment::RST) {
            let (first, most) = self.windows.unwrap_or((segment.window, segment.window));
            self.windows = Some((first, most.max(segment.window)));
        }
        if segment.payload > 0 {
            let heard = self.received.next.min(self.heard_by(segment));
            self.writes(segment, at, heard, round_trip);
        }
        self.finish(0, segment);
    }

    /// A packet for the host passed.
    pub fn receives(&mut self, segment: &Segment, at: Instant, round_trip: Option<Duration>) {
        self.seen[1] += 1;
        if segment.has(Segment::SYN) {
            self.received.begin(segment.seq.wrapping_add(1));
            self.other_syns += 1;
            self.other_syn = (self.other_syns == 1).then_some(at);
            self.other_scale = segment.scale;
        }
        if self.opened.is_none() && segment.has(Segment::ACK) {
            self.opened = Some(at);
        }
        if let Some((value, _)) = segment.stamps {
            self.stamp(value, at);
        }
        if segment.has(Segment::ACK) {
            self.is_acknowledged(segment, at);
        }
        if segment.payload > 0 {
            let known = self.known(self.acking.acked(), round_trip);
            match self.received.advance(segment.seq, segment.payload, at, known) {
                Progress::New(_, to) => {
                    push(&mut self.unanswered, (to, at), UNANSWERED_MAX);
                }
                // [karn87] It is unknown which copy an acknowledgement is for.
                Progress::Again(_) | Progress::Late => self.unanswered.clear(),
            }
        }
        self.finish(1, segment);
    }

    /// The bytes of a direction: of the host (0), or for it (1).
    pub fn bytes(&self, direction: usize) -> u64 {
        let stream = if direction == 0 { &self.sent } else { &self.received };
        // The last of what was not seen is the number of a FIN, once both sides have ended.
        let has_ended = self.fins[1 - direction].is_some() || self.unseen[direction] == 1;
        let is_fin = has_ended && self.unseen[direction] > 0 && self.seen[direction] == 0;
        stream.next - u64::from(is_fin)
    }

    /// Returns by how much the host's windows are shifted; `None` if the handshake was not seen.
    pub fn shift(&self) -> Option<u8> {
        let own = self.syn?;
        if self.other_syns == 0 {
            return None;
        }
        Some(own.scale.filter(|_| self.other_scale.is_some()).unwrap_or(0))
    }

    /// Returns what the host sent at once at first, if it had more to send.
    pub fn first_flight(&self) -> Option<u64> {
        match self.first {
            FirstFlight::Known(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether the host sends timestamps.
    pub fn has_stamps(&self) -> bool {
        self.stamped
    }

    /// Returns when the connection was open for the host.
    pub fn first_heard(&self) -> Option<Instant> {
        self.opened
    }

    /// The numbers of the other's bytes that the packet says it has.
    fn heard_by(&self, segment: &Segment) -> u64 {
        let heard = segment.has(Segment::ACK).then(|| self.received.offset(segment.ack)).flatten();
        heard.unwrap_or(0)
    }

    /// Takes timestamp and acknowledgement of an own packet.
    fn answers(&mut self, segment: &Segment, at: Instant) {
        if let Some(syn) = self.other_syn.take() {
            self.turnaround.add(at.since(syn), 0);
        }
        if let Some((_, echo)) = segment.stamps {
            while let Some(&(value, since)) = self.stamps.front() {
                if (echo.wrapping_sub(value) as i32) < 0 {
                    break;
                }
                self.stamps.pop_front();
                if value == echo {
                    self.turnaround.add(at.since(since), 2);
                }
            }
        }
        self.received.begin(segment.ack);
        let Some(to) = self.received.offset(segment.ack).map(|to| self.without_fin(1, to)) else {
            return;
        };
        if to > self.received.next {
            self.unseen[1] = to - self.received.next;
            self.received.skip_to(to, at);
        }
        let mut since = None;
        while self.unanswered.front().is_some_and(|waiting| waiting.0 <= to) {
            since = self.unanswered.pop_front().map(|waiting| waiting.1);
        }
        if let Some(since) = since {
            self.turnaround.add(at.since(since), 1);
        }
        if to > self.acking.acked() {
            let held = since.map(|since| at.since(since)).filter(|_| segment.payload == 0);
            let segments = (to - self.acking.acked()).div_ceil(self.received.longest.max(1).into());
            self.acking.acknowledge(to, segments, held, self.turnaround.least);
        }
    }

    /// Takes the acknowledgement of an other packet.
    fn is_acknowledged(&mut self, segment: &Segment, at: Instant) {
        self.sent.begin(segment.ack);
        let Some(to) = self.sent.offset(segment.ack).map(|to| self.without_fin(0, to)) else {
            return;
        };
        if let Some(syn) =
            self.other_syn.filter(|_| self.seen[0] == 0 && !segment.has(Segment::SYN))
        {
            // The host's SYN was not seen, but this answers it.
            self.other_syn = None;
            self.turnaround.add(at.since(syn), 0);
        }
        if to > self.sent.next {
            self.speaks(self.sent.next, self.received.next, at);
            self.unseen[0] = to - self.sent.next;
            self.sent.skip_to(to, at);
        }
        let is_scaled = !segment.has(Segment::SYN) && self.other_syns > 0 && self.syn.is_some();
        let allowed = is_scaled.then(|| {
            let scale = self.syn.and_then(|own| own.scale).and(self.other_scale).unwrap_or(0);
            to + (u64::from(segment.window) << scale)
        });
        if to > self.acked || allowed > self.allowed {
            self.allowed = self.allowed.max(allowed);
            let stamp = segment.stamps.map(|stamps| stamps.0);
            self.flight.acknowledged(Ack { at, stamp, offset: to, allowed });
        }
        if to > self.acked {
            self.acked = to;
            if let FirstFlight::Growing { from, to: sent } = self.first
                && to > from
            {
                let until = at.after(self.turnaround.least.unwrap_or(Duration::ZERO));
                self.first = FirstFlight::Acknowledged { from, to: sent, until };
            }
        }
        if self.acked == self.sent.next {
            self.acked_all.get_or_insert(at);
        }
    }

    /// Takes the data of an own packet.
    fn writes(&mut self, segment: &Segment, at: Instant, heard: u64, round_trip: Option<Duration>) {
        let before = self.sent.next;
        let known = self.known(self.acked, round_trip);
        let will_be_new = self
            .sent
            .offset(segment.seq)
            .is_none_or(|from| from + u64::from(segment.payload) > before);
        if will_be_new {
            self.speaks(before, heard, at);
        }
        let data = self.sent.advance(segment.seq, segment.payload, at, known);
        let sent = Sent {
            at,
            data,
            echo: segment.stamps.map(|stamps| stamps.1),
            reduced: segment.has(Segment::CWR),
            next: self.sent.next,
            longest: self.sent.longest,
        };
        if let Progress::New(from, to) = data {
            self.first.grow(from, to, at);
        }
        self.stamped |= sent.echo.is_some();
        let turnaround = self.turnaround.least.unwrap_or(Duration::ZERO);
        self.flight.sent(sent, turnaround, round_trip.unwrap_or(ROUND_TRIP_UNKNOWN));
        self.marked += u64::from(segment.ecn != 0);
        self.acked_all = None;
    }

    /// Marks where the host begins to speak: its first byte, after it has heard something new, or
    /// after a silence that no window explains.
    fn speaks(&mut self, from: u64, heard: u64, at: Instant) {
        let least = self.turnaround.least.unwrap_or(Duration::ZERO);
        // What it answers is complete only if nothing more was under way to it.
        let is_answer = heard > self.heard && heard >= self.received.next;
        let since =
            |instant: Option<Instant>| instant.map_or(Duration::ZERO, |past| at.since(past));
        let found = if is_answer {
            Some((Cause::Heard, since(self.received.last_new)))
        } else if from == 0 {
            Some((Cause::Opened, since(self.opened)))
        } else {
            let silent = self.acked_all.map(|past| at.since(past));
            // A segment that is not full is the end of what there was to send.
            let is_end = self.sent.latest < self.sent.longest;
            let beyond = if is_end { SILENCE_MIN } else { SILENCE_FULL };
            let is_long = |gap: &Duration| *gap > least.plus(beyond);
            silent.filter(is_long).map(|gap| (Cause::Silence, gap))
        };
        let Some((cause, gap)) = found else { return };
        self.heard = self.heard.max(heard);
        if self.marks.len() < MARKS_MAX {
            self.marks.push(Mark { offset: from, received: heard, gap, cause, at });
        } else {
            self.marks_lost += 1;
        }
    }

    fn stamp(&mut self, value: u32, at: Instant) {
        if self.stamp.is_none_or(|last| (value.wrapping_sub(last) as i32) > 0) {
            self.stamp = Some(value);
            push(&mut self.stamps, (value, at), STAMPS_MAX);
        }
    }

    fn known(&self, acked: u64, round_trip: Option<Duration>) -> Known {
        Known { acked, round_trip: round_trip.unwrap_or(ROUND_TRIP_UNKNOWN) }
    }

    /// A FIN takes a number; no byte has it.
    fn without_fin(&self, direction: usize, to: u64) -> u64 {
        self.fins[direction].map_or(to, |end| to.min(end))
    }

    fn finish(&mut self, direction: usize, segment: &Segment) {
        if !segment.has(Segment::FIN) {
            return;
        }
        let stream = if direction == 0 { &self.sent } else { &self.received };
        let end = stream.offset(segment.seq.wrapping_add(segment.payload));
        self.fins[direction] = self.fins[direction].or(end);
        self.ended |= direction == 0;
    }
}

impl Turnaround {
    fn add(&mut self, time: Duration, by: usize) {
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
        self.samples[by] += 1;
    }

    /// Returns the number of answers that were timed.
    pub fn count(&self) -> u32 {
        self.samples.iter().sum()
    }
}

impl FirstFlight {
    /// New data was sent. A flight that ended since there was no more begins anew with the next.
    fn grow(&mut self, new: u64, end: u64, at: Instant) {
        *self = match *self {
            Self::Before => Self::Growing { from: new, to: end },
            Self::Growing { from, .. } => Self::Growing { from, to: end },
            Self::Acknowledged { from, until, .. } if at < until => {
                Self::Acknowledged { from, to: end, until }
            }
            // At once on the acknowledgement: it had been waiting for that.
            Self::Acknowledged { from, to, until } if at.since(until) < SILENCE_MIN => {
                Self::Known(to - from)
            }
            Self::Acknowledged { .. } => Self::Growing { from: new, to: end },
            known @ Self::Known(_) => known,
        };
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Bound: turns of one host that are marked; what follows them is one exchange.
const MARKS_MAX: usize = 1 << 15;
/// Bound: timestamps without an answer, a second of milliseconds; the oldest are forgotten.
const STAMPS_MAX: usize = 1024;
/// Bound: segments without an acknowledgement; of the oldest the answer is not timed.
const UNANSWERED_MAX: usize = 1024;
/// A silence beyond the turnaround from which an application had nothing to send. A queue between
/// point and host may make shorter ones.
const SILENCE_MIN: Duration = Duration::from_millis(20);
/// The same behind a full segment, where a queue may be what is waited for.
const SILENCE_FULL: Duration = Duration::from_millis(300);
/// Until a round trip is known.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(200);
