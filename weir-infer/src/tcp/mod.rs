//! Connections of TCP: what their applications exchanged, and what their hosts and paths were.
//!
//! A [`Connection`] takes the segments of both directions as they pass and is told nothing else;
//! [`Connection::finish`] returns what follows from all of them. Invariant: what cannot be known
//! from a capture is `None` or has a note, never a guess without a word.

mod acking;
mod dialogue;
mod family;
mod flight;
mod period;
mod stream;
mod view;

pub use acking::Acks;
pub use dialogue::Exchange;
pub use family::{Control, Family};
pub use stream::Repeats;

use crate::frame::{Place, Segment};
use serde::Serialize;
use view::View;
use weir_core::units::{Duration, Instant};

/// A connection as it passes.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The place of the client among the ends.
    client: usize,
    views: [View; 2],
    /// Whether the hosts have points of their own.
    has_two_points: bool,
    has_syn: bool,
    reset: bool,
}

/// The exchanges, the hosts and the path of a connection of TCP.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Tcp {
    /// Requests and responses in turn.
    pub exchanges: Vec<Exchange>,
    /// The film that its player holds at most; 0 if it is none, or its start was not seen.
    #[serde(rename = "buffer_s", serialize_with = "crate::shown::seconds")]
    pub buffer: Duration,
    /// The round trip without a queue.
    pub round_trip: RoundTrip,
    /// The host that sent more: 0 for the client, 1 for the server.
    pub sender: usize,
    /// The largest segment of data, in bytes.
    pub segment: u32,
    /// The largest segment that both hosts take; `None` midstream.
    pub mss: Option<u16>,
    /// The bytes that the sender sent at once at first; `None` if it had less to send.
    pub initial_window: Option<u64>,
    /// The receiver's window: the first, and the largest, in bytes.
    pub window: Option<(u64, u64)>,
    /// How the receiver acknowledged.
    pub acks: Acks,
    /// Whether both hosts may acknowledge selectively; `None` midstream.
    pub sack: Option<bool>,
    /// Whether segments have timestamps.
    pub timestamps: bool,
    /// Whether congestion marks may take the place of losses.
    pub ecn: Marks,
    /// The sender's congestion control.
    pub control: Control,
    /// The segments of the sender that were sent again.
    pub repeats: Losses,
    /// The part of packets that is lost behind the last point, over all connections to the host.
    pub path_loss: f64,
    /// The cause that held the sender back most.
    pub limit: Limit,
    /// When the last byte of the last exchange passed the point next to its receiver.
    #[serde(skip)]
    pub heard: Option<Instant>,
}

/// The round trip of a path without the queue of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RoundTrip {
    /// From the point to each end and back: the client's, the server's.
    #[serde(rename = "parts_s", serialize_with = "crate::shown::pair_of_seconds")]
    pub parts: [Option<Duration>; 2],
    /// Answers that were timed.
    pub samples: u32,
    /// How it was found.
    pub by: Method,
}

/// How a round trip was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A record or two captures: what lies between both points is not in it.
    Measured,
    /// One capture: the least of all answers, which still holds a queue that was never empty.
    Estimated,
    /// One direction: from a SYN to the acknowledgement of its answer.
    OneSided,
    /// As other connections of the same hosts.
    Neighbours,
    /// Nothing was timed.
    #[default]
    Unknown,
}

/// The kinds of congestion marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marks {
    /// None.
    #[default]
    Off,
    /// One a round trip [rfc3168].
    Classic,
    /// All are counted [rfc9768].
    Accurate,
}

/// Losses of a sender's segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Losses {
    /// Segments lost before the point, or the first of two.
    pub before: u64,
    /// Segments lost between two points; 0 with one.
    pub between: u64,
    /// Segments sent again that had passed the point, or the last of two.
    pub behind: u64,
    /// Of those behind, the ones that the receiver waited for.
    pub awaited: u64,
    /// Segments sent again that had been acknowledged.
    pub needless: u64,
    /// All segments with data that passed the last point.
    pub of: u64,
    /// Recoveries: one may repair many losses.
    pub recoveries: u32,
    /// Recoveries that left little of the window.
    pub timeouts: u32,
}

/// The cause that holds a sender back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Its application: pauses take most of the time, or it had less than a window to send.
    #[default]
    Application,
    /// The receiver's window.
    Receiver,
    /// The path.
    Network,
}

impl Connection {
    /// A connection whose first segment is sent by the end at `side`, to an end with this port.
    pub fn new(segment: &Segment, side: usize, ports: [u16; 2]) -> Self {
        let has_syn = segment.has(Segment::SYN);
        let client = match (has_syn, segment.has(Segment::ACK)) {
            (true, false) => side,
            (true, true) => 1 - side,
            // Servers have the smaller ports.
            (false, _) if ports[0] != ports[1] => usize::from(ports[0] < ports[1]),
            (false, _) => side,
        };
        Self { client, views: Default::default(), has_two_points: false, has_syn, reset: false }
    }

    /// Returns the place of the client among the ends.
    pub fn client(&self) -> usize {
        self.client
    }

    /// Returns whether the first segment was a SYN.
    pub fn has_syn(&self) -> bool {
        self.has_syn
    }

    /// Returns whether both hosts have points of their own.
    pub fn has_two_points(&self) -> bool {
        self.has_two_points
    }

    /// Returns whether this segment opens another connection of the same ends.
    pub fn is_other(&self, segment: &Segment, side: usize) -> bool {
        let opens = segment.has(Segment::SYN) && !segment.has(Segment::ACK);
        let known = self.views[side].syn;
        let has_ended = self.reset || self.views.iter().any(|view| view.ended);
        let has_data = self.views.iter().any(|view| view.sent.next > 0);
        opens && known.map_or(has_data || has_ended, |syn| syn.seq != segment.seq)
    }

    /// A segment of the end at `side` passed.
    pub fn passes(&mut self, segment: &Segment, side: usize, place: Place, at: Instant) {
        let round_trip = self.round_trip_so_far();
        self.has_two_points |= place != Place::Between;
        if place != Place::NearReceiver {
            self.views[side].sends(segment, at, round_trip);
        }
        if place != Place::NearSender {
            self.views[1 - side].receives(segment, at, round_trip);
        }
        self.reset |= segment.has(Segment::RST);
    }

    fn round_trip_so_far(&self) -> Option<Duration> {
        let [one, other] = self.views.each_ref().map(|view| view.turnaround.least);
        Some(one?.plus(other?))
    }

    /// Returns whether only one direction was seen.
    pub fn is_one_sided(&self) -> bool {
        self.views.iter().any(|view| view.seen[0] == 0)
    }

    /// Returns the bytes that client and server sent.
    pub fn bytes(&self) -> [u64; 2] {
        [self.client, 1 - self.client]
            .map(|side| self.views[side].bytes(0).max(self.views[1 - side].bytes(1)))
    }

    /// Returns the turnarounds of client and server, with the number of answers timed.
    pub fn turnarounds(&self) -> [(Option<Duration>, u32); 2] {
        [self.client, 1 - self.client]
            .map(|side| (self.views[side].turnaround.least, self.views[side].turnaround.count()))
    }

    /// Returns what the connection was; its round trip is `round_trip`.
    pub fn finish(&self, round_trip: RoundTrip) -> Tcp {
        let client = &self.views[self.client];
        let server = &self.views[1 - self.client];
        let turnarounds = round_trip.parts.map(Option::unwrap_or_default);
        let mut exchanges = dialogue::exchanges(client, server, turnarounds);
        let buffer = period::find(&mut exchanges).unwrap_or_default();
        let [up, down] = self.bytes();
        let sender = usize::from(down >= up);
        let (from, to) = if sender == 0 { (client, server) } else { (server, client) };
        let segment = from.sent.longest.max(to.received.longest);
        let flight = &from.flight;
        let again = from.sent.again;
        let far = to.received.again;
        let has_two = self.has_two_points;
        let between = if has_two { far.before.saturating_sub(again.before) } else { 0 };
        let behind = if has_two { far.behind } else { again.behind };
        let recoveries = flight.recoveries;
        let timeouts = flight.timeouts;
        let needless = again.needless;
        Tcp {
            buffer,
            round_trip,
            sender,
            segment,
            mss: self.mss(),
            // The first packets that were seen of an open connection do not show its first window.
            initial_window: from.first_flight().filter(|_| self.has_syn),
            window: to.shift().and_then(|shift| {
                let (first, most) = to.windows?;
                Some((u64::from(first) << shift, u64::from(most) << shift))
            }),
            acks: to.acking.policy(),
            sack: self.both(|syn| syn.sack_permitted),
            timestamps: self.both(|syn| syn.stamps.is_some()).unwrap_or(from.has_stamps()),
            ecn: self.ecn(from),
            control: Control::of(&flight.reactions, self.cut(segment)),
            repeats: Losses {
                before: again.before,
                between,
                behind,
                awaited: if has_two { far.awaited } else { again.awaited },
                needless,
                of: if has_two { to.received.segments } else { from.sent.segments },
                recoveries,
                timeouts,
            },
            path_loss: 0.0,
            limit: self.limit(from, &exchanges),
            heard: exchanges
                .last()
                .and_then(|last| if last.down > 0 { client } else { server }.received.last_new),
            exchanges,
        }
    }

    fn mss(&self) -> Option<u16> {
        self.views.iter().filter_map(|view| view.syn?.mss).min()
    }

    /// Returns the length of a segment on the wire, of which a captured one may be many.
    fn cut(&self, longest: u32) -> u32 {
        longest.min(self.mss().map_or(SEGMENT_MAX, u32::from))
    }

    /// Returns whether both SYNs have it; `None` if one of them was not seen.
    fn both(&self, has: impl Fn(&Segment) -> bool) -> Option<bool> {
        let [one, other] = self.views.each_ref().map(|view| view.syn.as_ref().map(&has));
        match (one, other) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(one), Some(other)) => Some(one && other),
            // What one host offers, the other one has today.
            (Some(true), None) | (None, Some(true)) if self.is_one_sided() => Some(true),
            _ => None,
        }
    }

    fn ecn(&self, sender: &View) -> Marks {
        let syn = self.views[self.client].syn;
        let answer = self.views[1 - self.client].syn;
        let (Some(syn), Some(answer)) = (syn, answer) else {
            return if sender.marked > 0 { Marks::Classic } else { Marks::Off };
        };
        let (asks, ae) = (syn.has(Segment::ECE) && syn.has(Segment::CWR), syn.has(Segment::AE));
        let ace = answer.flags & (Segment::AE | Segment::CWR | Segment::ECE);
        match (asks, ace) {
            (false, _) | (true, 0) => Marks::Off,
            (true, Segment::ECE) => Marks::Classic,
            (true, _) if ae => Marks::Accurate,
            (true, _) => Marks::Off,
        }
    }

    fn limit(&self, sender: &View, exchanges: &[Exchange]) -> Limit {
        let [full, all] = sender.flight.filled;
        let pauses = exchanges.iter().map(|one| one.after.plus(one.wait).as_nanos()).sum::<u64>();
        let life =
            sender.sent.last_any.zip(sender.first_heard()).map(|(end, start)| end.since(start));
        let is_idle = life.is_none_or(|life| pauses > life.as_nanos() / 2);
        match (full * 4 > all && all > 0, is_idle, sender.flight.recoveries) {
            (true, ..) => Limit::Receiver,
            (_, true, _) => Limit::Application,
            (_, _, 0) if sender.sent.next < WINDOW_SMALL => Limit::Application,
            _ => Limit::Network,
        }
    }
}

impl RoundTrip {
    /// Returns the whole; `None` if nothing was timed.
    pub fn total(&self) -> Option<Duration> {
        match self.parts {
            [None, None] => None,
            parts => Some(parts.into_iter().flatten().fold(Duration::ZERO, Duration::plus)),
        }
    }
}

/// The largest segment of Ethernet, where no SYN tells.
const SEGMENT_MAX: u32 = 1460;
/// Less is sent in the first window.
const WINDOW_SMALL: u64 = 14_600;
