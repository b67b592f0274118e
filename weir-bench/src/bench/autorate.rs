//! The cost of a rate that varies: what the estimator adds to a frame, and its memory.
//!
//! Frames of [`FLOWS`] connections by Zipf's law, most of TCP with timestamps, pass in both ways as
//! through a bridge of `weir up`: each is parsed, shown to the estimator at its stamp, and its
//! ticket is taken when a batch leaves; rates are set every interval. A second road does the same
//! without; both take turns, and the difference of their processor time counts. The work of an
//! interval is the same at any rate: below [`GOAL_FROM`] frames a second it is most of the cost,
//! which is then a small part of a processor, and has no goal.

use super::figure::Figure;
use super::{Effort, median};
use etherparse::{PacketBuilder, TcpOptionElement};
use serde::Serialize;
use std::hint::black_box;
use weir_autorate::{Autorate, Limits, Plan, Shaper, Ticket, Way};
use weir_core::packet::Headers;
use weir_core::random::Random;
use weir_core::units::{Duration, Instant, Rate};
use weir_host::pages::bytes_in_use;
use weir_host::wait::{CpuTimeOf, cpu_time};

/// Nanoseconds that a frame may cost more.
pub const NANOS_MAX: f64 = 30.0;
/// Megabytes that a bridge with `autorate` may take more.
pub const MEGABYTES_MAX: f64 = 4.0;
/// Frames a second.
pub const RATES: [u64; 4] = [10_000, 40_000, 100_000, 1_000_000];
/// The least rate at which the cost of a frame has a goal.
pub const GOAL_FROM: u64 = 40_000;
/// Connections whose frames pass.
pub const FLOWS: usize = 4_096;

/// One row of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Frames a second.
    pub rate: u64,
    /// ns to parse a frame, without `autorate`, the median of the rounds.
    pub nanos_without: f64,
    /// ns that `autorate` adds to a frame, the median of the rounds.
    pub nanos: f64,
    /// The least and the most that it added in a round.
    pub range: (f64, f64),
    /// The part of a processor, in percent, that it takes at this rate.
    pub percent: f64,
    /// Bytes that it holds after these frames.
    pub bytes: usize,
    /// Whether neither goal is missed.
    pub holds: bool,
}

/// Measures every rate.
pub fn measure(effort: Effort, mut progress: impl FnMut(&Row)) -> Vec<Row> {
    let row = |rate| {
        let row = measure_one(rate, effort);
        progress(&row);
        row
    };
    RATES.map(row).to_vec()
}

/// The rows as figures.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let cost = |row: &Row| {
        let what = format!("autorate, {} frames a second: ns a frame", row.rate);
        Figure::at_most_in_rounds(what, NANOS_MAX, row.nanos, row.range)
    };
    let goals = rows.iter().filter(|row| row.rate >= GOAL_FROM);
    let most = rows.iter().map(|row| row.bytes).max().unwrap_or_default();
    let memory = "autorate: megabytes".to_owned();
    let memory = Figure::at_most(memory, MEGABYTES_MAX, most as f64 / 1e6);
    goals.map(cost).chain([memory]).collect()
}

fn measure_one(rate: u64, effort: Effort) -> Row {
    let mut plain = Road::new(rate, false);
    let before = bytes_in_use();
    let mut varying = Road::new(rate, true);
    let frames = effort.packets as usize / 4;
    plain.run(frames);
    varying.run(frames);
    // An allocator that counts nothing gives zero.
    let bytes = bytes_in_use().saturating_sub(before + varying.own_bytes());
    let (mut without, mut more) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let [one, with, other] = [plain.run(frames), varying.run(frames), plain.run(frames)];
        without.push((one + other) / 2.0);
        more.push(with - (one + other) / 2.0);
    }
    let nanos = median(&mut more);
    let range = more
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), each| (least.min(*each), most.max(*each)));
    Row {
        rate,
        nanos_without: median(&mut without),
        nanos,
        range,
        percent: nanos * rate as f64 / 1e7,
        bytes,
        holds: (nanos <= NANOS_MAX || rate < GOAL_FROM) && bytes as f64 <= MEGABYTES_MAX * 1e6,
    }
}

/// Frames that pass a bridge again and again.
struct Road {
    frames: Vec<Frame>,
    /// Their bytes, [`SLOT`] each.
    bytes: Vec<u8>,
    next: usize,
    now: Instant,
    /// Milliseconds in which all frames pass.
    millis: u32,
    autorate: Option<Autorate>,
    tickets: Vec<Option<Ticket>>,
    sent: [u64; 2],
}

/// A frame; each time it passes, its numbers are higher.
#[derive(Clone, Copy)]
struct Frame {
    way: Way,
    len: u16,
    is_tcp: bool,
    /// Nanoseconds since the frame before.
    gap: u32,
    /// The bytes that its connection sends in all of [`FRAMES`], in its way and in the other.
    bytes: [u32; 2],
}

impl Road {
    fn new(rate: u64, varies: bool) -> Road {
        let mut traffic = Traffic::new(rate);
        let (frames, bytes) = traffic.frames();
        let mbit = |mbit: u64| Rate::new(mbit * 1_000_000).expect("not zero");
        let limits = Limits::new(mbit(1), mbit(100), mbit(1_000), Duration::from_millis(15));
        let plan = Plan { limits: limits.expect("in order"), controller: 0 };
        let autorate = varies.then(|| Autorate::new([Some(plan); 2], [0; 2], Instant::ZERO));
        let tickets = if varies { vec![None; SLOTS] } else { Vec::new() };
        let millis = (traffic.length / 1_000_000) as u32;
        let now = Instant::ZERO;
        Road { frames, bytes, next: 0, now, millis, autorate, tickets, sent: [0; 2] }
    }

    /// Returns the bytes of the traffic itself.
    fn own_bytes(&self) -> usize {
        self.bytes.capacity() + self.frames.capacity() * size_of::<Frame>()
    }

    /// Returns the ns of a frame over `count` of them.
    #[inline(never)]
    fn run(&mut self, count: usize) -> f64 {
        let start = cpu_time(CpuTimeOf::Process);
        for _ in 0..count / BATCH {
            let first = self.next;
            for place in first..first + BATCH {
                self.pass(place);
            }
            if let Some(autorate) = &mut self.autorate {
                for ticket in &mut self.tickets[first..first + BATCH] {
                    if let Some(ticket) = ticket.take() {
                        autorate.leave(self.now, ticket);
                    }
                }
                if self.now >= autorate.due() {
                    let sent = std::mem::take(&mut self.sent);
                    let shaper = |sent| Shaper { sent, dropped: 0, is_limited: true };
                    black_box(autorate.end_interval(self.now, &sent.map(shaper)));
                }
            }
            self.next = (first + BATCH) % FRAMES;
        }
        (cpu_time(CpuTimeOf::Process) - start).as_nanos() as f64
            / (count / BATCH * BATCH).max(1) as f64
    }

    #[inline]
    fn pass(&mut self, place: usize) {
        let Frame { way, len, is_tcp, gap, bytes } = self.frames[place];
        self.now = self.now.after(Duration::from_nanos(u64::from(gap)));
        let whole = &mut self.bytes[place * SLOT..place * SLOT + usize::from(len)];
        if is_tcp {
            add(whole, SEQ, bytes[0]);
            add(whole, ACK, bytes[1]);
            add(whole, STAMP, self.millis);
            add(whole, ECHO, self.millis);
        }
        let headers = black_box(Headers::parse_ethernet(whole));
        self.sent[way as usize] += u64::from(len);
        if let Some(autorate) = &mut self.autorate {
            self.tickets[place] = autorate.frame(self.now, way, &headers, whole);
        }
    }
}

/// Adds to a number of four bytes.
#[inline]
fn add(bytes: &mut [u8], at: usize, more: u32) {
    if let Some(field) = bytes[at..].first_chunk_mut::<4>() {
        *field = u32::from_be_bytes(*field).wrapping_add(more).to_be_bytes();
    }
}

/// Makes the frames.
struct Traffic {
    random: Random,
    /// Nanoseconds of all of them.
    length: u64,
}

/// A connection while its frames are made, by way.
#[derive(Clone, Default)]
struct Connection {
    /// The next byte.
    next: [u32; 2],
    /// When the last frames went, in nanoseconds.
    sent: [Vec<u64>; 2],
}

impl Traffic {
    fn new(rate: u64) -> Traffic {
        Traffic { random: Random::new(SEED, rate), length: FRAMES as u64 * 1_000_000_000 / rate }
    }

    /// When frames go, which way, of which connection, and whether with data: every second segment
    /// is acknowledged.
    fn times(&mut self) -> Vec<(u64, Way, usize, bool)> {
        let mut times = Vec::with_capacity(FRAMES + 1);
        let mut data = vec![0u32; FLOWS];
        while times.len() < FRAMES {
            let even = self.random.bits() as f64 / u64::MAX as f64;
            let flow = (FLOWS as f64).powf(even) as usize % FLOWS;
            let way = if flow.is_multiple_of(5) { Way::Up } else { Way::Down };
            let at = self.random.bits() % self.length;
            times.push((at, way, flow, true));
            data[flow] += 1;
            if data[flow].is_multiple_of(2) {
                let later = if way == Way::Up { trip(flow) } else { 1_000_000 };
                times.push(((at + later) % self.length, way.opposite(), flow, false));
            }
        }
        times.truncate(FRAMES);
        times.sort_unstable();
        times
    }

    fn frames(&mut self) -> (Vec<Frame>, Vec<u8>) {
        let times = self.times();
        let mut bytes = vec![0; FRAMES * SLOT];
        let mut connections = vec![Connection::default(); FLOWS];
        let mut frames = Vec::with_capacity(FRAMES);
        let mut before = 0;
        for (place, (at, way, flow, has_data)) in times.into_iter().enumerate() {
            let payload = if has_data { PAYLOAD } else { 0 };
            let connection = &mut connections[flow];
            let whole = frame(flow, way, connection.numbers(at, way, flow), payload);
            connection.next[way as usize] += payload as u32;
            connection.sent[way as usize].push(at);
            bytes[place * SLOT..place * SLOT + whole.len()].copy_from_slice(&whole);
            let (gap, len) = ((at - before) as u32, whole.len() as u16);
            // The connection stands here until all that it sends is known.
            let bytes = [flow as u32, 0];
            frames.push(Frame { way, len, is_tcp: is_tcp(flow), gap, bytes });
            before = at;
        }
        for frame in &mut frames {
            let next = connections[frame.bytes[0] as usize].next;
            frame.bytes = [next[frame.way as usize], next[frame.way.opposite() as usize]];
        }
        (frames, bytes)
    }
}

impl Connection {
    /// Returns sequence, acknowledgement, timestamp and echo of a frame. Of the other end's frames
    /// those count that have come by now.
    fn numbers(&self, at: u64, way: Way, flow: usize) -> [u32; 4] {
        let away = if way == Way::Down { trip(flow) } else { 1_000_000 };
        let sent = &self.sent[way.opposite() as usize];
        let known = sent.iter().rev().find(|sent| **sent + away <= at);
        let millis = |at: u64| (at / 1_000_000) as u32 + 1;
        let [seq, ack] = [way, way.opposite()].map(|way| self.next[way as usize]);
        [seq, ack, millis(at), known.map_or(0, |at| millis(*at))]
    }
}

/// Nanoseconds of a connection's round trip behind the modem.
fn trip(flow: usize) -> u64 {
    10_000_000 + flow as u64 % 97 * 1_000_000
}

/// Of ten connections eight are TCP's, one is QUIC's, and one says nothing.
fn is_tcp(flow: usize) -> bool {
    flow % 10 < 8
}

fn frame(flow: usize, way: Way, numbers: [u32; 4], payload: usize) -> Vec<u8> {
    let host = [10, 0, (flow % 251) as u8, (flow % 97) as u8];
    let peer = [192, 0, 2, (flow % 241) as u8];
    let near = 1_024 + flow as u16;
    let far = if flow % 10 == 9 { 3478 } else { 443 };
    let (from, to, ports) = match way {
        Way::Up => (host, peer, [near, far]),
        Way::Down => (peer, host, [far, near]),
    };
    let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from, to, 64);
    let (mut bytes, mut content) = (Vec::with_capacity(SLOT), vec![0; payload]);
    let written = if is_tcp(flow) {
        let [seq, ack, stamp, echo] = numbers;
        let noop = TcpOptionElement::Noop;
        let options = [noop.clone(), noop, TcpOptionElement::Timestamp(stamp, echo)];
        let tcp = ip.tcp(ports[0], ports[1], seq, 65_535).ack(ack);
        tcp.options(&options).expect("they fit").write(&mut bytes, &content)
    } else {
        // A short header of QUIC, whose spin bit turns once in a round trip.
        content.resize(payload.max(40), 0);
        let turns = u64::from(numbers[2]) * 1_000_000 / trip(flow);
        content[0] = 0x40 | if turns.is_multiple_of(2) { 0x20 } else { 0 };
        ip.udp(ports[0], ports[1]).write(&mut bytes, &content)
    };
    written.expect("a vector takes all");
    bytes
}

/// Frames that are sent again and again; a multiple of [`BATCH`].
const FRAMES: usize = 8_192;
/// Slots of a bridge's pool, each with room for a ticket.
const SLOTS: usize = 65_536;
const SLOT: usize = 2_048;
const BATCH: usize = 32;
const PAYLOAD: usize = 1_440;
const SEED: u64 = 46;
/// Where the fields are in a frame of TCP over IPv4: sequence, acknowledgement, timestamps.
const SEQ: usize = 38;
const ACK: usize = 42;
const STAMP: usize = 58;
const ECHO: usize = 62;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_autorate::Segment;

    #[test]
    fn every_rate_is_measured() {
        let rows = measure(Effort { rounds: 1, packets: 1_000 }, |_| {});
        assert_eq!(rows.len(), RATES.len());
        assert!(rows.iter().all(|row| row.nanos_without >= 0.0), "{rows:?}");
        let goals = rows.iter().filter(|row| row.rate >= GOAL_FROM).count();
        assert_eq!(figures(&rows).len(), goals + 1);
    }

    #[test]
    fn numbers_grow_each_time_and_the_estimator_finds_round_trips() {
        let mut road = Road::new(40_000, true);
        let read = |road: &Road, place: usize| {
            let whole = &road.bytes[place * SLOT..][..usize::from(road.frames[place].len)];
            Segment::read(&Headers::parse_ethernet(whole), whole)
        };
        let is_data = |frame: &Frame| frame.is_tcp && frame.len > 1_000;
        let place = road.frames.iter().position(is_data).expect("most have data");
        let before = read(&road, place);
        road.run(FRAMES);
        let (Segment::Tcp(one), Segment::Tcp(two)) = (before, read(&road, place)) else {
            panic!("{before:?}")
        };
        assert!(two.seq > one.seq && two.stamp != one.stamp, "{one:?} {two:?}");
        let autorate = road.autorate.as_mut().expect("it varies");
        let steps = autorate.end_interval(road.now, &[Shaper::default(); 2]);
        let flows = steps[0].map(|step| step.measure.flows);
        // Of a sample of them.
        assert!(flows > Some(5), "{flows:?}");
    }
}
