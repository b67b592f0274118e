//! The sources of an inferred scenario as the capture has them: frames, delays, drops, and how long
//! each object took.
//!
//! Delays and drops follow from frames that are seen twice: at their entrance into the link and
//! behind it. Within a flow the order is kept, so a frame that was overtaken was dropped. A capture
//! of one point has neither. Times of objects are those of the client: from the first byte of the
//! request at the link to the last byte of the response behind it, and the way between link and
//! client. Invariant: a frame counts for at most one source.

use crate::frame::{Seen, Segment, Where};
use crate::input::Input;
use crate::{FlowOf, Inferred, Model};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use weir_core::fnv::{BASIS, fnv1a};
use weir_core::packet::Headers;
use weir_core::units::{Duration, Instant};
use weir_sim::Scenario;
use weir_sim::conversation::{Client, Conversation, Exchange};
use weir_sim::whatif::Tally;

/// The sources of a scenario in a capture.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The tally of each source, in their order.
    pub tallies: Vec<Tally>,
    /// How the capture ends for each source that has a conversation.
    pub ends: Vec<Option<End>>,
    /// Whether it tells delays and drops.
    pub has_delays: bool,
}

/// How the capture ends for a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// It ends in the middle of the last object.
    pub is_cut: bool,
    /// From the last bytes to the end of the capture.
    pub silent: Duration,
}

/// Reads the capture once more, for the sources of the scenario that was inferred from it.
pub fn observe(input: Input<'_>, inferred: &Inferred, scenario: &Scenario) -> Observed {
    let mut reading = Reading::new(inferred, scenario);
    input.read(&mut |seen| reading.frame(seen));
    reading.finish()
}

/// A flow by the packets of its source: from, to, and the protocol.
type Way = (SocketAddr, SocketAddr, u8);

struct Reading {
    /// The tracks of each flow, which may be several connections, by when they start.
    places: BTreeMap<Way, Vec<(Duration, usize)>>,
    tracks: Vec<Track>,
    /// How many tracks each source has, in the order of both.
    counts: Vec<usize>,
    first: Option<Instant>,
    last: Instant,
}

/// A source as it passes, or one of its connections.
#[derive(Default)]
struct Track {
    tally: Tally,
    /// Frames inside the link, each with its identity.
    inside: VecDeque<(u64, Instant)>,
    /// The first of two points that the source's frames pass.
    entrance: Option<u16>,
    talk: Option<Talk>,
    is_interactive: bool,
    has_delays: bool,
}

/// The conversation of a connection.
struct Talk {
    exchanges: Vec<Exchange>,
    client_is_source: bool,
    /// The way from the link to the client and back, and the whole one.
    parts: [Duration; 2],
    place: usize,
    /// When bytes came last.
    heard: Instant,
    /// Bytes of the client and of the server before the present exchange.
    before: [u64; 2],
    began: Option<Instant>,
    /// By direction: that of the client, that of the server.
    ways: [Stream; 2],
}

/// The bytes of one direction.
#[derive(Default)]
struct Stream {
    base: Option<u32>,
    /// All before this came.
    next: u64,
    most: u64,
    acked: u64,
    /// Pieces that came behind gaps: from, to.
    islands: BTreeMap<u64, u64>,
}

impl Reading {
    fn new(inferred: &Inferred, scenario: &Scenario) -> Self {
        let chains = inferred.chains();
        let chains: BTreeMap<&str, &[&FlowOf]> =
            chains.iter().map(|chain| (chain[0].name.as_str(), chain.as_slice())).collect();
        let mut places: BTreeMap<Way, Vec<(Duration, usize)>> = BTreeMap::new();
        let mut tracks = Vec::new();
        let mut counts = Vec::new();
        for source in &scenario.sources {
            let chain = chains.get(source.name.as_str()).copied().unwrap_or_default();
            let before = tracks.len();
            let mut add = |way: Option<Way>, start: Duration, track: Track| {
                if let Some(way) = way {
                    places.entry(way).or_default().push((start, tracks.len()));
                }
                tracks.push(track);
            };
            let conversation = source.traffic.tcp().and_then(|tcp| tcp.conversation.as_ref());
            match conversation.filter(|_| !chain.is_empty()) {
                Some(plan) => {
                    for (part, flow) in connections(plan).into_iter().zip(chain) {
                        let talk = Some(Talk::new(part, plan.client, flow));
                        add(Some(way_of(flow)), flow.start, Track { talk, ..Track::default() });
                    }
                }
                None => {
                    let is_interactive =
                        source.traffic.tcp().is_none() && source.traffic.quic().is_none();
                    let start = source.start.since(Instant::ZERO);
                    let track = Track { is_interactive, ..Track::default() };
                    add(way_of_headers(&source.headers), start, track);
                }
            }
            counts.push(tracks.len() - before);
        }
        places.values_mut().for_each(|row| row.sort());
        Self { places, tracks, counts, first: None, last: Instant::ZERO }
    }

    /// Returns the source of a flow at this time.
    fn place(&self, way: &Way, since: Duration) -> Option<usize> {
        let row = self.places.get(way)?;
        // A source starts with its first frame, whose time the scenario rounds.
        let began = |start: Duration| start <= since.plus(ROUNDED);
        let last = row.iter().rev().find(|(start, _)| began(*start));
        last.or(row.first()).map(|row| row.1)
    }

    fn frame(&mut self, seen: &Seen<'_>) {
        let first = *self.first.get_or_insert(seen.at);
        self.last = self.last.max(seen.at);
        let Some(way) = way_of_headers(&seen.headers) else { return };
        let (from, to, protocol) = way;
        let since = seen.at.since(first.min(seen.at));
        if let Some(place) = self.place(&way, since) {
            self.tracks[place].frame(seen, true);
        } else if let Some(place) = self.place(&(to, from, protocol), since) {
            self.tracks[place].frame(seen, false);
        }
    }

    fn finish(mut self) -> Observed {
        let mut observed = Observed::default();
        let span = self.first.map_or(0.0, |first| self.last.since(first).as_nanos() as f64 / 1e9);
        let (mut tracks, last) = (self.tracks.drain(..), self.last);
        for count in &self.counts {
            let mut sum = Tally::default();
            let mut end = None;
            for mut track in tracks.by_ref().take(*count) {
                end = track.end(last);
                observed.has_delays |= track.has_delays;
                let Tally { packets, bytes, dropped, delays, objects, .. } = &track.tally;
                sum.packets += packets;
                sum.bytes += bytes;
                sum.dropped += dropped;
                sum.delays.merge(delays);
                sum.objects.extend(objects);
                sum.is_interactive = track.is_interactive;
            }
            let is_small = sum.bytes <= sum.packets * SMALL;
            sum.is_interactive &= is_small && (sum.packets + sum.dropped) as f64 > span * OFTEN;
            observed.ends.push(end);
            observed.tallies.push(sum);
        }
        observed
    }
}

/// Returns the exchanges of each connection of a conversation.
fn connections(plan: &Conversation) -> Vec<&[Exchange]> {
    plan.exchanges.chunk_by(|_, next| !next.connect).collect()
}

fn way_of(flow: &FlowOf) -> Way {
    (flow.source, flow.destination, flow.protocol)
}

fn way_of_headers(headers: &Headers) -> Option<Way> {
    let (from, to) = headers.addresses.source().zip(headers.addresses.destination())?;
    let ports = headers.ports.map_or((0, 0), |ports| (ports.source, ports.destination));
    Some((SocketAddr::new(from, ports.0), SocketAddr::new(to, ports.1), headers.protocol?.0))
}

impl Track {
    /// Ends what is under way when the capture ends.
    fn end(&mut self, last: Instant) -> Option<End> {
        // A frame that did not leave for so long does not wait.
        let waits = last.before(LOST_AFTER);
        let lost = self.inside.iter().filter(|row| row.1 < waits).count();
        self.tally.dropped += lost as u64;
        let talk = self.talk.as_ref()?;
        let end = End { is_cut: talk.is_cut(), silent: last.since(talk.heard.min(last)) };
        if end.is_cut && talk.place == talk.exchanges.len() {
            self.tally.objects.pop();
        }
        Some(end)
    }

    /// A frame passed, of the source or to it.
    fn frame(&mut self, seen: &Seen<'_>, is_own: bool) {
        let (enters, leaves) = match seen.place {
            Where::Point => (true, true),
            Where::Enters(_) => (true, false),
            Where::Leaves(_) => (false, true),
            Where::OneOfTwo(point) => {
                let first = *self.entrance.get_or_insert(if is_own { point } else { 1 - point });
                let is_first = (point == first) == is_own;
                (is_first, !is_first)
            }
        };
        if is_own {
            self.own(seen, enters, leaves);
        }
        let Some(talk) = &mut self.talk else { return };
        let Some(segment) = seen.segment() else { return };
        if let Some(took) = talk.segment(&segment, (seen.at, is_own), (enters, leaves)) {
            self.tally.objects.push(took);
        }
    }

    /// Counts a frame of the source.
    fn own(&mut self, seen: &Seen<'_>, enters: bool, leaves: bool) {
        if enters && leaves {
            return self.tally.sent(seen.length, None);
        }
        self.has_delays = true;
        let identity = identity(seen);
        if enters {
            if self.inside.len() == INSIDE_MAX {
                self.inside.pop_front();
                self.tally.dropped += 1;
            }
            return self.inside.push_back((identity, seen.at));
        }
        let Some(place) = self.inside.iter().position(|row| row.0 == identity) else { return };
        let at = self.inside[place].1;
        self.tally.dropped += place as u64;
        self.inside.drain(..=place);
        self.tally.sent(seen.length, Some(seen.at.since(at.min(seen.at))));
    }
}

impl Talk {
    fn new(exchanges: &[Exchange], client: Client, flow: &FlowOf) -> Self {
        let parts = match &flow.model {
            Model::Tcp { tcp, .. } => {
                let whole = tcp.round_trip.total().unwrap_or_default();
                [tcp.round_trip.parts[0].unwrap_or_default(), whole]
            }
            _ => [Duration::ZERO; 2],
        };
        Self {
            exchanges: exchanges.to_vec(),
            client_is_source: client == Client::Source,
            parts,
            place: 0,
            heard: Instant::ZERO,
            before: [0; 2],
            began: None,
            ways: [Stream::default(), Stream::default()],
        }
    }

    /// A segment passed; returns how long an object took that was its last.
    fn segment(
        &mut self,
        segment: &Segment,
        (at, is_own): (Instant, bool),
        (enters, leaves): (bool, bool),
    ) -> Option<Duration> {
        let way = usize::from(is_own != self.client_is_source);
        if segment.has(Segment::SYN) {
            self.ways[way].base = Some(segment.seq.wrapping_add(1));
            return None;
        }
        self.ways[1 - way].acknowledge(segment);
        if segment.payload == 0 {
            return None;
        }
        let from = self.ways[way].offset(segment.seq);
        let to = from + u64::from(segment.payload);
        self.heard = at;
        if enters {
            self.ways[way].most = self.ways[way].most.max(to);
            self.begin(at);
        }
        if !leaves {
            return None;
        }
        self.ways[way].came(from, to);
        self.end(at)
    }

    fn begin(&mut self, at: Instant) {
        let Some(exchange) = self.exchanges.get(self.place) else { return };
        let way = usize::from(exchange.up == 0);
        if self.began.is_none() && self.ways[way].most > self.before[way] {
            self.began = Some(at);
        }
    }

    fn end(&mut self, at: Instant) -> Option<Duration> {
        let exchange = *self.exchanges.get(self.place)?;
        let after = [self.before[0] + exchange.up, self.before[1] + exchange.down];
        let last = usize::from(exchange.down > 0);
        if self.ways[last].next < after[last] {
            return None;
        }
        let began = self.began?;
        self.place += 1;
        (self.before, self.began) = (after, None);
        let elsewhere = match (exchange.down > 0, self.client_is_source) {
            (true, _) => self.parts[0],
            // In the scenario all of the way is on the side that the link does not serve.
            (false, true) => Duration::ZERO,
            (false, false) => self.parts[1],
        };
        Some(at.since(began.min(at)).plus(elsewhere))
    }

    /// Returns whether the capture ends within the last object.
    fn is_cut(&self) -> bool {
        let Some(last) = self.exchanges.last() else { return false };
        let way = usize::from(last.down > 0);
        let is_under_way = self.ways[way].most > self.ways[way].acked;
        self.place + 1 >= self.exchanges.len() && is_under_way
    }
}

impl Stream {
    fn offset(&mut self, seq: u32) -> u64 {
        let base = *self.base.get_or_insert(seq);
        let near = self.most;
        let distance = seq.wrapping_sub(base).wrapping_sub(near as u32) as i32;
        near.saturating_add_signed(i64::from(distance))
    }

    fn acknowledge(&mut self, segment: &Segment) {
        if self.base.is_some() && segment.has(Segment::ACK) {
            let offset = self.offset(segment.ack);
            self.acked = self.acked.max(offset);
        }
    }

    fn came(&mut self, from: u64, to: u64) {
        if from > self.next {
            if self.islands.len() < ISLANDS_MAX {
                let end = self.islands.entry(from).or_insert(to);
                *end = to.max(*end);
            }
            return;
        }
        self.next = self.next.max(to);
        while let Some((&from, &to)) = self.islands.first_key_value() {
            if from > self.next {
                break;
            }
            self.next = self.next.max(to);
            self.islands.remove(&from);
        }
    }
}

/// As [`observe`], but only what leaves the link between two times from the first frame counts.
pub fn observe_between(
    input: Input<'_>,
    inferred: &Inferred,
    scenario: &Scenario,
    (from, to): (Duration, Duration),
) -> Observed {
    let mut reading = Reading::new(inferred, scenario);
    let mut first = None;
    let mut has_begun = false;
    let mut kept: Option<Vec<Tally>> = None;
    input.read(&mut |seen| {
        let first: Instant = *first.get_or_insert(seen.at);
        let since = seen.at.since(first.min(seen.at));
        if since >= from && !has_begun {
            has_begun = true;
            reading.tracks.iter_mut().for_each(|track| track.tally = Tally::default());
        }
        if since >= to && kept.is_none() {
            kept = Some(reading.tracks.iter().map(|track| track.tally.clone()).collect());
        }
        reading.frame(seen);
    });
    for (track, tally) in reading.tracks.iter_mut().zip(kept.into_iter().flatten()) {
        track.tally = tally;
    }
    reading.finish()
}

/// Returns what tells a frame from others of its flow: its number in a record, otherwise the bytes
/// behind the IP header, with its length.
fn identity(seen: &Seen<'_>) -> u64 {
    if let Some(number) = seen.number {
        return number;
    }
    let start = usize::from(seen.headers.link_len);
    let packet = seen.bytes.get(start..).unwrap_or_default();
    // Of IPv4 the number of the packet counts, too; traffic class and checksum may change.
    let is_four = packet.first().is_some_and(|byte| byte >> 4 == 4);
    let number = packet.get(4..6).filter(|_| is_four).unwrap_or_default();
    let rest = packet.get(if is_four { 20 } else { 40 }..).unwrap_or_default();
    let rest = &rest[..rest.len().min(IDENTITY_BYTES)];
    fnv1a(fnv1a(BASIS ^ u64::from(seen.length), number), rest)
}

/// The bytes behind the IP header that tell frames apart.
const IDENTITY_BYTES: usize = 60;
/// Bound: frames of a flow inside the link; beyond it the oldest counts as dropped.
const INSIDE_MAX: usize = 1 << 16;
/// Bound: pieces of a direction behind gaps; later ones are forgotten until they are sent again.
const ISLANDS_MAX: usize = 1 << 14;
/// A frame that is not behind the link after this was dropped.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// Scenarios have microseconds.
const ROUNDED: Duration = Duration::from_millis(2);
/// The mean length of a call's or a game's frames is at most this.
const SMALL: u64 = 400;
/// They send at least so many frames a second.
const OFTEN: f64 = 8.0;
