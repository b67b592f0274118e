//! A path between two endpoints: delay, rate, losses, reordering, duplication, marks.

use std::collections::BTreeMap;
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};
use weir_tcp::{Config, Ecn, Endpoint, Flags, Segment, SeqNumber, State};

/// The active side, which usually sends.
pub const CLIENT: usize = 0;
/// The passive side, which usually receives.
pub const SERVER: usize = 1;

/// The effects of the path on segments of one direction.
#[derive(Clone, Debug)]
pub struct Direction {
    pub delay: Duration,
    /// Nanoseconds for a byte; 0: no line.
    pub nanos_per_byte: u64,
    /// Bytes that wait for the line at most.
    pub queue: u64,
    /// Queued bytes above which a packet that takes marks is marked.
    pub mark_above: Option<u64>,
    /// Numbers of data segments that are lost, from 0 on.
    pub lost: Vec<u64>,
    /// Probabilities of 2^32.
    pub loss: u64,
    pub duplication: u64,
    pub marking: u64,
    pub reordering: u64,
    pub extra: Duration,
}

impl Direction {
    pub fn plain(delay: Duration) -> Self {
        Self {
            delay,
            nanos_per_byte: 0,
            queue: u64::MAX,
            mark_above: None,
            lost: Vec::new(),
            loss: 0,
            duplication: 0,
            marking: 0,
            reordering: 0,
            extra: Duration::ZERO,
        }
    }
}

/// A segment that left, as a test looks at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub at: Instant,
    pub side: usize,
    pub segment: Segment,
}

/// Two endpoints and the path between them.
pub struct Path {
    pub now: Instant,
    pub ends: [Endpoint; 2],
    pub directions: [Direction; 2],
    pub random: Random,
    pub sent: Vec<Sent>,
    /// Whether `sent` is kept.
    pub records: bool,
    pub segments: u64,
    pub dropped: u64,
    busy: [Instant; 2],
    data_sent: [u64; 2],
    arrivals: BTreeMap<(Instant, u64), (usize, Segment)>,
    /// Bytes that the receiving application reads at once; `None`: all.
    pub reads: Option<u64>,
    pub received: [u64; 2],
}

impl Path {
    pub fn new(config: &Config, delay: Duration) -> Self {
        Self::between([config, config], delay)
    }

    pub fn between(configs: [&Config; 2], delay: Duration) -> Self {
        Self {
            now: Instant::ZERO,
            ends: [
                Endpoint::connect(configs[0], Instant::ZERO, SeqNumber(u32::MAX - 20_000)),
                Endpoint::listen(configs[1], SeqNumber(77)),
            ],
            directions: [Direction::plain(delay), Direction::plain(delay)],
            random: Random::new(1, 0),
            sent: Vec::new(),
            records: true,
            segments: 0,
            dropped: 0,
            busy: [Instant::ZERO; 2],
            data_sent: [0; 2],
            arrivals: BTreeMap::new(),
            reads: None,
            received: [0; 2],
        }
    }

    /// Runs the path until both ends are established.
    pub fn open(mut self) -> Self {
        self.settle();
        while self.ends.iter().any(|end| end.state() != State::Established) {
            assert!(self.step(Instant::MAX), "the connection does not open");
        }
        self
    }

    /// Lets both sides read and emit all that they can now.
    pub fn settle(&mut self) {
        for side in [CLIENT, SERVER] {
            self.received[side] += self.ends[side].read(self.reads.unwrap_or(u64::MAX));
            while let Some(segment) = self.ends[side].emit(self.now) {
                self.carry(side, segment);
            }
        }
    }

    fn carry(&mut self, side: usize, mut segment: Segment) {
        self.segments += 1;
        if self.records {
            self.sent.push(Sent { at: self.now, side, segment });
        }
        let direction = &self.directions[side];
        let length = u64::from(20 + segment.header_len() + segment.length);
        let queued = self.busy[side].since(self.now).as_nanos() / direction.nanos_per_byte.max(1);
        let has_data = segment.length > 0;
        let number = self.data_sent[side];
        self.data_sent[side] += u64::from(has_data);
        let lost = (has_data && direction.lost.contains(&number))
            || (direction.nanos_per_byte > 0 && queued > direction.queue)
            || self.random.chance(direction.loss);
        if lost {
            self.dropped += 1;
            return;
        }
        let marked = direction.mark_above.is_some_and(|above| queued > above)
            || self.random.chance(direction.marking);
        if marked && segment.ecn != Ecn::NotEct {
            segment.ecn = Ecn::Ce;
        }
        let line = Duration::from_nanos(length * direction.nanos_per_byte);
        self.busy[side] = self.busy[side].max(self.now).after(line);
        let mut at = self.busy[side].after(direction.delay);
        if self.random.chance(direction.reordering) {
            at = at.after(Duration::from_nanos(
                self.random.bits() % direction.extra.as_nanos().max(1),
            ));
        }
        self.arrivals.insert((at, self.segments * 2), (1 - side, segment));
        if self.random.chance(direction.duplication) {
            self.arrivals.insert((at, self.segments * 2 + 1), (1 - side, segment));
        }
    }

    /// Goes on to the next event; returns false if there is none until `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
        let wakes = self.ends.iter().filter_map(Endpoint::next_wake);
        let Some(at) = arrival.into_iter().chain(wakes).min() else { return false };
        if at > until {
            return false;
        }
        self.now = at.max(self.now);
        for end in &mut self.ends {
            end.wake(self.now);
        }
        if arrival == Some(at) {
            let (_, (side, segment)) = self.arrivals.pop_first().expect("it has just been seen");
            self.ends[side].receive(self.now, &segment);
        }
        self.settle();
        true
    }

    /// Runs for so long.
    pub fn run(&mut self, time: Duration) {
        let until = self.now.after(time);
        self.settle();
        while self.step(until) {}
        self.now = until;
    }

    /// Sends so many bytes from the client, closes, and runs until all is over; returns the time.
    pub fn transfer(&mut self, bytes: u64) -> Duration {
        let start = self.now;
        let mut left = bytes;
        let mut done = None;
        for _ in 0..10_000_000u64 {
            left -= self.ends[CLIENT].write(left);
            if left == 0 {
                self.ends[CLIENT].close();
            }
            if self.ends[SERVER].is_finished() {
                self.ends[SERVER].close();
            }
            self.settle();
            if self.received[SERVER] == bytes && done.is_none() {
                done = Some(self.now.since(start));
            }
            if !self.step(start.after(Duration::from_secs(3000))) {
                break;
            }
        }
        done.unwrap_or_else(|| {
            panic!("{} of {bytes} bytes came: {:?}", self.received[SERVER], self.ends)
        })
    }

    /// Returns the lengths of the data segments that left the client at each millisecond.
    pub fn flights(&self) -> BTreeMap<u64, Vec<u32>> {
        let mut flights = BTreeMap::<u64, Vec<u32>>::new();
        for sent in self.sent.iter().filter(|sent| sent.side == CLIENT) {
            if sent.segment.length > 0 {
                flights
                    .entry(sent.at.as_nanos() / 1_000_000)
                    .or_default()
                    .push(sent.segment.length);
            }
        }
        flights
    }

    /// Returns the pure acknowledgements of the server.
    pub fn pure_acks(&self) -> impl Iterator<Item = &Sent> {
        let pure = |sent: &&Sent| {
            sent.side == SERVER && sent.segment.length == 0 && sent.segment.flags == Flags::ACK
        };
        self.sent.iter().filter(pure)
    }
}
