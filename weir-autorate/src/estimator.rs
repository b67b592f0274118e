//! Measures how long frames wait behind the link, from those that pass.
//!
//! A probe is a frame that leaves towards the modem; the frame that answers it ends a round trip
//! *behind* the link, in which the hosts' side has no part. Its excess over the flow's least is the
//! time in queues there, of both ways together. The senders' clocks tell the way down alone
//! ([`crate::clock`]), and what remains is the way up. Flows without such clocks are attributed to
//! the way that carries more of its rate. The result is a quantile over flows
//! ([`crate::quantile`]).
//!
//! The cost is bounded: [`FLOWS_MAX`](crate::FLOWS_MAX) flows are followed, and [`ACTIVE_MAX`] of
//! them read. Where their frames are more than [`READS_GOAL`] in an interval, the flows of a sample
//! are read, half as many each time; at most [`READS_MAX`] frames are. Others are counted.

use crate::flow::Flow;
use crate::frame::{FlowId, Frame, Segment, Way};
use crate::measure::{Measure, Shaper};
use crate::quantile::{
    NONE, QUESTIONS, SHARE, Sample, WEIGHT_MAX, bound_weights, quantile, weight,
};
use crate::reflectors::{Echo, Reflectors};
use crate::saved::saved;
use crate::table::{FlowTable, Ticket};
use alloc::vec::Vec;
use weir_core::packet::Headers;
use weir_core::units::{Duration, Instant};

/// Measures the delay behind a link.
#[derive(Clone, Debug)]
pub struct Estimator {
    flows: FlowTable,
    /// The places of flows that told something lately, or may.
    active: Vec<u16>,
    /// The least round trip to some peers, for flows that begin while a queue stands.
    peers: Vec<Peer>,
    /// Hosts that are asked where nothing passes that tells.
    reflectors: Reflectors,
    /// Frames that may still be read in this interval.
    reads: u32,
    /// The flows that are read, in parts of [`ALL`].
    share: u32,
    /// Counts the intervals in which not all frames were read.
    gap: u32,
    now: Sums,
    past: [Sums; PAST],
    /// The interval's number.
    turn: u64,
    /// The rates by which what carries more is told, in bit/s.
    nominal: [u64; 2],
    samples: Vec<Sample>,
    order: Vec<(u64, u32)>,
}

saved!(Estimator {
    flows, peers, reflectors, reads, share, gap, now, past, turn;
    rows: active <= ACTIVE_MAX;
    kept: nominal, samples, order
});

/// The counts of an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    length: Duration,
    /// Bytes of frames that arrived, by way.
    arrived: [u64; 2],
    /// Bytes that the links sent, by way.
    sent: [u64; 2],
    dropped: [u64; 2],
    /// The delay of both ways and of the way down at its end, in nanoseconds, if they are known.
    both: Option<u64>,
    down: Option<u64>,
}

saved!(Sums { length, arrived, sent, dropped, both, down });

/// The least round trip to a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    peer: u32,
    base: u64,
    at: Instant,
}

saved!(Peer { peer, base, at });

impl Estimator {
    /// An estimator that has seen nothing, with so many reflectors, which may be none. `nominal` is
    /// the usual rate of each way in bit/s.
    pub fn new(nominal: [u64; 2], reflectors: usize) -> Self {
        Self {
            flows: FlowTable::new(),
            active: Vec::with_capacity(ACTIVE_MAX),
            peers: alloc::vec![Peer::default(); PEERS],
            reflectors: Reflectors::new(reflectors),
            reads: READS_MAX,
            share: ALL,
            gap: 0,
            now: Sums::default(),
            past: [Sums::default(); PAST],
            turn: 0,
            nominal: nominal.map(|rate| rate.max(1)),
            samples: Vec::with_capacity(ACTIVE_MAX),
            order: Vec::with_capacity(ACTIVE_MAX),
        }
    }

    /// Reads a frame that arrived at `at` and goes `way`, with its headers. If it returns a ticket,
    /// tell [`Estimator::leave`] when this frame leaves.
    #[inline]
    pub fn frame(
        &mut self,
        at: Instant,
        way: Way,
        headers: &Headers,
        bytes: &[u8],
    ) -> Option<Ticket> {
        self.now.arrived[way as usize] += bytes.len() as u64;
        if self.reads == 0 {
            return None;
        }
        let flow = FlowId::of(headers, way)?;
        let slot = self.place(&flow)?;
        self.read(at, way, (flow, slot), &Segment::read(headers, bytes))
    }

    /// As [`Estimator::frame`], for callers without bytes.
    pub fn arrive(&mut self, at: Instant, way: Way, frame: &Frame) -> Option<Ticket> {
        self.now.arrived[way as usize] += u64::from(frame.len);
        if self.reads == 0 {
            return None;
        }
        let slot = self.place(&frame.flow)?;
        self.read(at, way, (frame.flow, slot), &frame.segment)
    }

    /// Returns the place of a flow that is read, `Some(None)` if it may join.
    #[inline]
    fn place(&mut self, flow: &FlowId) -> Option<Option<usize>> {
        if !is_sampled(flow, self.share) {
            return None;
        }
        let is_full = self.active.len() >= ACTIVE_MAX;
        match self.flows.find(flow.key) {
            None => (!is_full && self.flows.joins > 0).then_some(None),
            Some(slot) => {
                let is_read = !is_full || self.flows.flow(slot).is_active;
                is_read.then_some(Some(slot))
            }
        }
    }

    fn read(
        &mut self,
        at: Instant,
        way: Way,
        (flow, slot): (FlowId, Option<usize>),
        segment: &Segment,
    ) -> Option<Ticket> {
        if *segment == Segment::Other {
            return None;
        }
        let slot = slot.or_else(|| self.join(at, flow))?;
        self.reads -= 1;
        if self.reads == 0 {
            self.gap = self.gap.wrapping_add(1);
        }
        let flow = self.flows.flow(slot);
        let told = flow.read(at, way, segment, self.gap);
        if told.is_active && !flow.is_active && self.active.len() < ACTIVE_MAX {
            flow.is_active = true;
            self.active.push(slot as u16);
        }
        Ticket::new(slot, flow.generation, (way as usize, told.probe?))
    }

    /// Notes that the frame of a ticket left at `at`.
    pub fn leave(&mut self, at: Instant, ticket: Ticket) {
        let flow = self.flows.flow(ticket.slot());
        if ticket.is_of(flow.generation) {
            let (way, place) = ticket.probe();
            flow.rounds[way].leave(at, place);
        }
    }

    /// Returns the echo to send at the end of an interval, if there is one.
    pub fn echo(&mut self) -> Option<Echo> {
        self.reflectors.send()
    }

    /// Notes that the echo with this number left towards the modem at `at`.
    pub fn echo_left(&mut self, at: Instant, number: u16) {
        self.reflectors.leave(at, number);
    }

    /// Notes that the answer to the echo with this number arrived at `at`.
    pub fn echoed(&mut self, at: Instant, number: u16) {
        self.reflectors.receive(at, number);
    }

    /// Begins to follow a flow; a peer that is known gives it a least round trip.
    fn join(&mut self, at: Instant, id: FlowId) -> Option<usize> {
        let slot = self.flows.join(id, at, self.gap)?;
        let peer = self.peers[id.peer as usize % PEERS];
        let is_known = peer.peer == id.peer && at.since(peer.at) < PEER_MAX && peer.base > 0;
        if is_known && at >= peer.at {
            self.flows.flow(slot).rounds[Way::Up as usize].base.seed(peer.at, peer.base as i64);
        }
        Some(slot)
    }

    /// Ends an interval that took `length`, and returns what was found for each way. `shapers` says
    /// what the links did in it.
    pub fn end_interval(
        &mut self,
        now: Instant,
        length: Duration,
        shapers: &[Shaper; 2],
    ) -> [Measure; 2] {
        self.now.length = length;
        self.now.sent = [shapers[0].sent, shapers[1].sent];
        self.now.dropped = [shapers[0].dropped, shapers[1].dropped];
        self.past[(self.turn % PAST as u64) as usize] = core::mem::take(&mut self.now);
        self.turn += 1;
        if self.reads == 0 {
            // What comes now leaves out what was not read.
            self.gap = self.gap.wrapping_add(1);
        }
        self.sample();
        self.reads = READS_MAX;
        self.flows.begin_interval();
        self.collect(now);
        self.ask_reflectors(now);
        bound_weights(&mut self.samples);
        let found = [BOTH, UP, DOWN, TRIP, HEARD].map(|question| self.quantile(question, SHARE));
        let (both, down) = (found[BOTH], found[DOWN]);
        let last = &mut self.past[((self.turn - 1) % PAST as u64) as usize];
        (last.both, last.down) = (both, down);
        Way::ALL.map(|way| self.measure(now, way, shapers[way as usize].is_limited, &found))
    }

    /// Forgets all that was seen: its instants mean nothing any more.
    pub fn forget(&mut self) {
        self.flows.clear();
        self.active.clear();
        self.peers.fill(Peer::default());
        self.reflectors.forget();
    }

    /// Takes the present for what paths are without a queue: what stands there is not the link's.
    pub fn rebase(&mut self, now: Instant) {
        for slot in &self.active {
            self.flows.flow(usize::from(*slot)).rebase(now);
        }
        self.reflectors.rebase(now);
        self.peers.fill(Peer::default());
    }

    /// Reads fewer flows from now on if their frames were too many, and more if they were few.
    fn sample(&mut self) {
        let read = READS_MAX - self.reads;
        let is_many = self.active.len() >= ACTIVE_MAX / 2;
        if read > READS_GOAL && is_many {
            self.share = (self.share / 2).max(1);
        } else if read < READS_GOAL / 4 || !is_many {
            self.share = (self.share * 2).min(ALL);
        }
    }

    /// Makes a sample of each active flow, and retains those that may tell more.
    fn collect(&mut self, now: Instant) {
        self.samples.clear();
        let Self { flows, active, samples, peers, share, .. } = self;
        active.retain(|slot| {
            let flow = flows.flow(usize::from(*slot));
            if !is_sampled(&flow.id, *share) {
                flow.pause();
                return false;
            }
            let losses = losses_of(flow);
            flow.end_interval(now);
            samples.extend(sample_of(flow, now, losses));
            let base = flow.rounds[Way::Up as usize].base.value();
            if let Some(base) = base.filter(|base| *base > 0) {
                let (peer, base) = (flow.id.peer, base as u64);
                peers[peer as usize % PEERS] = Peer { peer, base, at: now };
            }
            if now.since(flow.last()) >= ACTIVE {
                flow.pause();
            }
            flow.is_active
        });
    }

    /// Has the reflectors tell where no flow does, while the line is loaded.
    fn ask_reflectors(&mut self, now: Instant) {
        let sums = self.window(0);
        let carried = [sums.sent[0].max(sums.arrived[0]), sums.arrived[1]];
        let loaded = |way: usize| sums.rate(carried[way]) > self.nominal[way] / LOADED;
        let is_told = weight(&self.samples, BOTH) > 0;
        self.reflectors.is_wanted = !is_told && (loaded(0) || loaded(1));
        self.reflectors.tell = false;
        if !is_told {
            let flows = self.samples.len();
            self.samples.extend(self.reflectors.samples(now, [BOTH, HEARD, TRIP]));
            self.reflectors.tell = self.samples.len() > flows;
        }
    }

    /// Returns the measure of a way; `found` are the quantiles of both ways' delay, of each, and of
    /// the round trip.
    fn measure(
        &mut self,
        now: Instant,
        way: Way,
        is_limited: bool,
        found: &[Option<u64>; 5],
    ) -> Measure {
        let this = way as usize;
        let flows = self.samples.iter().filter(|sample| sample.values[BOTH] != NONE).count();
        let sums = self.window(0);
        let own_drops = way == Way::Up && sums.dropped[this] > 0;
        let lossy = self.quantile(LOST + this, LOSSY_SHARE).is_some_and(|lost| lost > 0);
        let round_trip = found[TRIP];
        let up = round_trip.filter(|_| way == Way::Up);
        let offered = up.map(|trip| {
            let ago = trip.div_ceil(INTERVAL.as_nanos());
            let before = self.window(usize::try_from(ago).unwrap_or(PAST));
            before.rate(before.sent[this])
        });
        let through = match way {
            Way::Up => up.and_then(|trip| self.through_up(&sums, trip)),
            Way::Down => Some(sums.rate(sums.arrived[this])),
        };
        Measure {
            at: now,
            delay: self.delay(way, &sums, found).map(Duration::from_nanos),
            round_trip: round_trip.map(Duration::from_nanos),
            flows: flows as u32,
            is_asked: self.reflectors.tell,
            sent: sums.rate(sums.sent[this]),
            through,
            offered,
            under_way: up.map(|trip| self.sent_within(trip)),
            is_limited,
            is_lossy: lossy && !own_drops,
        }
    }

    /// Returns the sums of the window that ended so many intervals ago.
    fn window(&self, ago: usize) -> Sums {
        let ago = ago.min(PAST - WINDOW) as u64;
        let intervals = (1 + ago..=WINDOW as u64 + ago).filter_map(|back| self.past(back));
        intervals.fold(Sums::default(), Sums::plus)
    }

    /// Returns the sums of the interval that is the last one for 1, the one before for 2.
    fn past(&self, back: u64) -> Option<&Sums> {
        let turn = self.turn.checked_sub(back)?;
        self.past.get((turn % PAST as u64) as usize)
    }

    /// Returns the bytes that the link sent up within the last nanoseconds.
    fn sent_within(&self, nanos: u64) -> u64 {
        let (mut left, mut sent) = (nanos, 0);
        for sums in (1..=PAST as u64).map_while(|back| self.past(back)) {
            let length = sums.length.as_nanos().max(1);
            let part = u128::from(left.min(length));
            sent += (u128::from(sums.sent[0]) * part / u128::from(length)) as u64;
            left -= left.min(length);
        }
        sent
    }

    /// Returns what came through the modem upwards in bit/s. A window of answers answers what the
    /// link sent a round trip before each of its ends. Answers that wait longer than before on the
    /// way down come from a longer window. Neither needs acknowledgements to be counted, which come
    /// in leaps after a loss.
    fn through_up(&self, sums: &Sums, trip: u64) -> Option<u64> {
        let (new, old) = (self.past(1)?, self.past(1 + WINDOW as u64)?);
        let length = sums.length.as_nanos();
        let trip_before = trip.saturating_sub(new.both?).saturating_add(old.both?);
        let before = self.sent_within(length.saturating_add(trip_before));
        let sent = before.saturating_sub(self.sent_within(trip));
        let downs = new.down.zip(old.down).unwrap_or_default();
        let stretched = length.saturating_add(downs.1).saturating_sub(downs.0);
        let length = stretched.clamp(length / 4, length.saturating_mul(4));
        Some(Sums { length: Duration::from_nanos(length), ..*sums }.rate(sent))
    }

    fn quantile(&mut self, question: usize, share: u32) -> Option<u64> {
        quantile(&self.samples, question, share, &mut self.order)
    }

    /// Returns the delay in one way: by the senders' clocks if enough flows have one, or that of
    /// both ways if this one carries its share.
    fn delay(&self, way: Way, sums: &Sums, found: &[Option<u64>; 5]) -> Option<u64> {
        let question = if way == Way::Up { UP } else { DOWN };
        let all = weight(&self.samples, BOTH).max(weight(&self.samples, DOWN));
        if weight(&self.samples, question) * 4 >= all {
            return found[question];
        }
        // Missing answers are to packets that were sent up, so they say nothing of the way down.
        let both = if way == Way::Up { found[BOTH] } else { found[HEARD] }?;
        let load = |way: Way| {
            let carried = match way {
                Way::Up => sums.sent[0],
                Way::Down => sums.arrived[1],
            };
            u128::from(sums.rate(carried)) << 20
        };
        let shares = Way::ALL.map(|way| load(way) / u128::from(self.nominal[way as usize]));
        let (own, other) = (shares[way as usize], shares[way.opposite() as usize]);
        // The way of acknowledgements carries a few percent of what the other does. Where both
        // stand still, answers are missed of what went up.
        let carries = own * 2 >= other && (own > 0 || way == Way::Up);
        Some(if carries { both } else { 0 })
    }
}

impl Sums {
    fn plus(self, other: &Sums) -> Sums {
        let both = |one: [u64; 2], other: [u64; 2]| [one[0] + other[0], one[1] + other[1]];
        Sums {
            length: self.length.plus(other.length),
            arrived: both(self.arrived, other.arrived),
            sent: both(self.sent, other.sent),
            dropped: both(self.dropped, other.dropped),
            both: None,
            down: None,
        }
    }

    /// Returns bytes in bit/s.
    fn rate(&self, bytes: u64) -> u64 {
        let nanos = u128::from(self.length.as_nanos().max(1));
        (u128::from(bytes) * 8_000_000_000 / nanos).min(u128::from(u64::MAX)) as u64
    }
}

/// Returns whether a flow is among those that are read, which are `share` of [`ALL`].
#[inline]
fn is_sampled(flow: &FlowId, share: u32) -> bool {
    share >= ALL || (flow.key.wrapping_mul(ODD) >> 58) < u64::from(share)
}

/// Returns whether a flow lost more than one byte in twenty in this interval, by way.
fn losses_of(flow: &Flow) -> [u64; 2] {
    [0, 1].map(|way| match (flow.data[way], flow.missing[way]) {
        (0, _) => NONE,
        (data, missing) => u64::from(u64::from(missing) * 20 > u64::from(data)),
    })
}

/// Returns what a flow tells at the end of an interval.
fn sample_of(flow: &Flow, now: Instant, losses: [u64; 2]) -> Option<Sample> {
    let mut values = [NONE; QUESTIONS];
    let latest = &flow.latest;
    (values[LOST], values[LOST + 1]) = (losses[0], losses[1]);
    (values[BOTH], values[TRIP]) = (latest.delay, latest.trip);
    values[DOWN] = flow.down();
    if values[DOWN] != NONE && latest.delay != NONE {
        // A part is not longer than the whole, whatever a clock says.
        values[DOWN] = values[DOWN].min(latest.delay);
        values[UP] = latest.delay - values[DOWN];
    }
    if let Some(late) = flow.overdue(now) {
        add_overdue(&mut values, late.as_nanos());
    }
    values[HEARD] = values[BOTH];
    if let Some(silent) = flow.silence(now) {
        let more = |value: u64| if value == NONE { 0 } else { value }.max(silent.as_nanos());
        (values[BOTH], values[UP]) = (more(values[BOTH]), more(values[UP]));
    }
    if values == [NONE; QUESTIONS] {
        return None;
    }
    let weight = if flow.is_mature(now) { WEIGHT_MAX } else { WEIGHT_MAX / 4 };
    Some(Sample { host: flow.id.host, peer: flow.id.peer, weight, values })
}

/// Counts an answer that is overdue by this much: what waits in both ways is at least that.
fn add_overdue(values: &mut [u64; QUESTIONS], late: u64) {
    let known = if values[BOTH] == NONE { 0 } else { values[BOTH] };
    if late <= known {
        return;
    }
    values[BOTH] = late;
    if values[TRIP] != NONE {
        values[TRIP] += late - known;
    }
    if values[DOWN] != NONE {
        values[UP] = late - values[DOWN].min(late);
    }
}

const BOTH: usize = 0;
const UP: usize = 1;
const DOWN: usize = 2;
const TRIP: usize = 3;
/// The delay of both ways by what was heard, and not by what was missed.
const HEARD: usize = 4;
const LOST: usize = 5;

/// The length of an interval.
pub const INTERVAL: Duration = Duration::from_millis(25);
/// Bound: frames that are read in an interval; further ones are only counted.
pub const READS_MAX: u32 = 1024;
/// Flows are sampled where more of their frames are read in an interval.
const READS_GOAL: u32 = 128;
/// All flows; a power of two.
const ALL: u32 = 64;
/// An odd number with even bits: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bound: flows that are read at a time, and that an interval looks at; others tell nothing.
const ACTIVE_MAX: usize = 64;
/// The intervals that are remembered.
const PAST: usize = 64;
/// The intervals that rates are measured over.
const WINDOW: usize = 6;
/// A flow is active for so long after its last frame.
const ACTIVE: Duration = Duration::from_secs(3);
/// The numbers of peers; of peers with one number the last one is known.
const PEERS: usize = 512;
/// The least round trip to a peer is known for so long.
const PEER_MAX: Duration = Duration::from_secs(60);
/// Reflectors are asked while this part of the nominal rate is carried, or more.
const LOADED: u64 = 5;
/// The percentage of flows that may lose without a loss of the link's.
const LOSSY_SHARE: u32 = 40;
