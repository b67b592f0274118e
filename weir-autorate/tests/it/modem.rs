//! A link with a modem behind it: shapers, a modem whose capacity varies with a buffer of its own,
//! and bulk flows with windows, so that what waits stands at the slower of the two.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use weir_autorate::{
    Autorate, FlowId, Frame, INTERVAL, Limits, Plan, Segment, Shaper, Stamp, Step, TcpSegment, Way,
};
use weir_core::random::Random;
use weir_core::units::{Duration, Instant, Rate};

/// A bulk flow of one way.
#[derive(Clone, Copy)]
pub struct Bulk {
    pub way: Way,
    /// Frames under way at most.
    pub window: u32,
    /// The round trip without queues.
    pub trip_ms: u64,
    /// Whether its ends use TCP's timestamps.
    pub stamps: bool,
    pub host: u32,
}

/// The result of a run.
pub struct Outcome {
    /// Bytes that passed the modem, by way.
    pub through: [u64; 2],
    /// Bytes that the modem could have passed.
    pub possible: [u64; 2],
    /// The delay of each frame in the modem in microseconds, by way.
    pub delays: [Vec<u64>; 2],
    pub steps: Vec<Step>,
    pub loss: [u64; 2],
    /// How many echoes were sent.
    pub echoes: u64,
}

impl Outcome {
    /// Returns the share of the capacity that was used, in percent.
    pub fn used(&self, way: Way) -> u64 {
        self.through[way as usize] * 100 / self.possible[way as usize].max(1)
    }

    /// Returns this percentile of the modem's delay in milliseconds.
    pub fn delay(&self, way: Way, percent: usize) -> u64 {
        let mut delays = self.delays[way as usize].clone();
        delays.sort_unstable();
        let last = delays.len().saturating_sub(1);
        delays.get(last * percent / 100).copied().unwrap_or(0) / 1000
    }
}

pub struct Model {
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    autorate: Autorate,
    flows: Vec<State>,
    shapers: [Server; 2],
    modems: [Server; 2],
    /// Capacity in bit/s at a time in ms.
    capacity: [Capacity; 2],
    /// The clock of stamps, in ns.
    clock: fn(u64) -> u64,
    /// A host that sends frames with forged numbers, if there is one.
    forger: Option<Random>,
    /// Frames say nothing of delays.
    is_mute: bool,
    /// How each reflector answers.
    reflectors: Vec<Reflector>,
    sums: [Shaper; 2],
    out: Outcome,
}

/// How a reflector answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reflector {
    /// After so many ms on the way behind the modem.
    Honest(u64),
    /// Not at all from this time in ms on.
    DeadFrom(u64),
    /// Later than its path is by a random time up to so many ms, and at once if it is zero.
    Lies(u64),
}

struct State {
    bulk: Bulk,
    under_way: u32,
    /// Frames that may be under way; each acknowledgement adds one, as in slow start.
    allowed: u32,
    next: u32,
    /// The next that the receiver expects, and its last echo.
    expected: u32,
    echoes: [u32; 2],
}

#[derive(Default)]
struct Server {
    queue: VecDeque<(usize, Packet, u64)>,
    bytes: u64,
    is_busy: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    seq: u32,
    stamp: u32,
    echo: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Shaped(Way),
    Passed(Way),
    AtModem(usize, Packet),
    AtWeir(usize, Packet),
    AtHost(usize, Packet),
    AtServer(usize, Packet),
    AckUp(usize, Packet),
    AckDown(usize, Packet),
    Lost(usize),
    Interval,
    Retry(Way),
    Forge,
    /// An echo with this number has passed the modem, and has been answered.
    Echoed(u16),
    Answered(u16),
}

/// Bits per second at a time in milliseconds.
pub type Capacity = Rc<dyn Fn(u64) -> u64>;

const FRAME: u64 = 1500;
const ACK: u64 = 66;
const PAYLOAD: u32 = 1448;
const BUFFER_MS: u64 = 400;
const ALLOWED: u32 = 4;
const MS: u64 = 1_000_000;
/// Stands for the flow of echoes.
const ECHO: usize = usize::MAX;

fn echo(number: u16) -> Packet {
    Packet { seq: u32::from(number), stamp: 0, echo: 0 }
}

impl Model {
    pub fn new(limits: Limits, controller: usize, capacity: [fn(u64) -> u64; 2]) -> Model {
        let plan = Some(Plan { limits, controller });
        Model {
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            autorate: Autorate::new([plan; 2], [0; 2], Instant::ZERO),
            flows: Vec::new(),
            shapers: Default::default(),
            modems: Default::default(),
            capacity: capacity.map(|own| Rc::new(own) as Capacity),
            clock: |now| now,
            forger: None,
            is_mute: false,
            reflectors: Vec::new(),
            sums: Default::default(),
            out: Outcome {
                through: [0; 2],
                possible: [0; 2],
                delays: Default::default(),
                steps: Vec::new(),
                loss: [0; 2],
                echoes: 0,
            },
        }
    }

    pub fn with(mut self, bulk: Bulk) -> Model {
        let (under_way, allowed, next, expected) = (0, ALLOWED, 1, 1);
        self.flows.push(State { bulk, under_way, allowed, next, expected, echoes: [0; 2] });
        self
    }

    /// Both ways have this capacity.
    pub fn over(mut self, capacity: &Capacity) -> Model {
        self.capacity = [0; 2].map(|_| capacity.clone());
        self
    }

    /// Stamps are of this clock.
    pub fn stamped(mut self, clock: fn(u64) -> u64) -> Model {
        self.clock = clock;
        self
    }

    /// A host forges 30 connections.
    pub fn forged(mut self, seed: u64) -> Model {
        self.forger = Some(Random::new(seed, 3));
        self.at(MS, Event::Forge);
        self
    }

    /// Frames say nothing of delays, as those of QUIC without a spin bit; these reflectors are
    /// asked.
    pub fn mute(mut self, limits: Limits, reflectors: &[Reflector]) -> Model {
        (self.is_mute, self.reflectors) = (true, reflectors.to_vec());
        let plan = Some(Plan { limits, controller: 0 });
        let count = reflectors.len();
        self.autorate = Autorate::with_reflectors([plan; 2], [0; 2], (Instant::ZERO, count));
        self
    }

    fn stamp(&self) -> Instant {
        Instant::from_nanos((self.clock)(self.now))
    }

    /// Runs for this long; what is measured begins after `skip_ms`.
    pub fn run(mut self, skip_ms: u64, length_ms: u64) -> Outcome {
        self.at(INTERVAL.as_nanos(), Event::Interval);
        for flow in 0..self.flows.len() {
            self.send(flow);
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > length_ms * MS {
                break;
            }
            self.now = at;
            self.handle(event, at >= skip_ms * MS);
        }
        for way in Way::ALL {
            let of = |ms| (self.capacity[way as usize])(ms) / 8000;
            self.out.possible[way as usize] = (skip_ms..length_ms).map(of).sum();
        }
        self.out
    }

    fn at(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    fn send(&mut self, flow: usize) {
        loop {
            let now_ms = (self.now / MS) as u32;
            let state = &mut self.flows[flow];
            if state.under_way >= state.bulk.window.min(state.allowed) {
                return;
            }
            state.under_way += 1;
            let seq = state.next;
            state.next = seq.wrapping_add(PAYLOAD);
            let echo = state.echoes[0];
            let packet = Packet { seq, stamp: now_ms, echo };
            match state.bulk.way {
                Way::Up => self.shape(Way::Up, flow, packet),
                Way::Down => {
                    let half = state.bulk.trip_ms * MS / 2;
                    self.at(self.now + half, Event::AtModem(flow, packet));
                }
            }
        }
    }

    fn shape(&mut self, way: Way, flow: usize, packet: Packet) {
        let (arrived, stamp) = (self.now, self.stamp());
        let frame = self.frame(flow, packet, FRAME);
        // Up, frames wait in the shaper; a ticket is for when they leave, so it is made then.
        if way == Way::Down {
            self.autorate.arrive(stamp, way, &frame);
        }
        let server = &mut self.shapers[way as usize];
        server.queue.push_back((flow, packet, arrived));
        if !server.is_busy {
            server.is_busy = true;
            self.at(self.now, Event::Shaped(way));
        }
    }

    fn frame(&self, flow: usize, packet: Packet, len: u64) -> Frame {
        let bulk = &self.flows[flow].bulk;
        let (seq, is_data) = (packet.seq, len == FRAME);
        let stamp = Stamp { value: packet.stamp.max(1), echo: packet.echo };
        let segment = TcpSegment {
            seq: if is_data { seq } else { 1 },
            ack: Some(if is_data { 1 } else { seq }),
            stamp: bulk.stamps.then_some(stamp),
            payload: if is_data { PAYLOAD } else { 0 },
            is_reset: false,
        };
        let key = (flow as u64 + 1) << 32 | 1;
        let flow = FlowId { key, host: bulk.host, peer: 1000 + bulk.host };
        let segment = if self.is_mute { Segment::Other } else { Segment::Tcp(segment) };
        Frame { flow, len: len as u32, segment }
    }

    fn handle(&mut self, event: Event, counts: bool) {
        match event {
            Event::Shaped(way) => self.shaped(way),
            Event::AtModem(flow, packet) => self.enter_modem(flow, packet),
            Event::Passed(way) => self.passed(way, counts),
            Event::Retry(way) => self.start_modem(way),
            Event::AtWeir(flow, packet) => {
                let way = self.flows[flow].bulk.way;
                if way == Way::Down {
                    return self.shape(Way::Down, flow, packet);
                }
                // The acknowledgement of what went up.
                let frame = self.frame(flow, packet, 66);
                self.autorate.arrive(self.stamp(), Way::Down, &frame);
                self.acknowledged(flow, packet);
            }
            Event::AtHost(flow, packet) => {
                let ack = self.acknowledge(flow, packet);
                self.at(self.now, Event::AckUp(flow, ack));
            }
            Event::AckUp(flow, ack) => {
                let frame = self.frame(flow, ack, 66);
                let at = self.stamp();
                if let Some(ticket) = self.autorate.arrive(at, Way::Up, &frame) {
                    self.autorate.leave(at, ticket);
                }
                self.wait(Way::Up, flow, ack);
            }
            Event::AtServer(flow, packet) => {
                if self.flows[flow].bulk.way == Way::Down {
                    return self.acknowledged(flow, packet);
                }
                let ack = self.acknowledge(flow, packet);
                let half = self.flows[flow].bulk.trip_ms * MS / 2;
                self.at(self.now + half, Event::AckDown(flow, ack));
            }
            Event::AckDown(flow, ack) => self.wait(Way::Down, flow, ack),
            Event::Lost(flow) => {
                self.flows[flow].under_way -= 1;
                self.send(flow);
            }
            Event::Interval => self.interval(),
            Event::Forge => self.forge(),
            Event::Echoed(number) => self.wait(Way::Down, ECHO, echo(number)),
            Event::Answered(number) => self.autorate.echoed(self.stamp(), number),
        }
    }

    /// Returns the receiver's answer.
    fn acknowledge(&mut self, flow: usize, packet: Packet) -> Packet {
        let state = &mut self.flows[flow];
        // What was lost is not sent again: the receiver takes what comes.
        state.expected = packet.seq.wrapping_add(PAYLOAD);
        state.echoes[1] = packet.stamp;
        Packet { seq: state.expected, stamp: (self.now / MS) as u32, echo: packet.stamp }
    }

    fn acknowledged(&mut self, flow: usize, ack: Packet) {
        let state = &mut self.flows[flow];
        state.echoes[0] = ack.stamp;
        state.under_way -= 1;
        state.allowed = state.allowed.saturating_add(1);
        self.send(flow);
    }

    fn shaped(&mut self, way: Way) {
        let rate = self.autorate.rate(way).expect("both are controlled");
        let server = &mut self.shapers[way as usize];
        let Some((flow, packet, _)) = server.queue.pop_front() else {
            server.is_busy = false;
            return;
        };
        let time = FRAME * 8 * 1_000_000_000 / rate.bits_per_second();
        self.at(self.now + time, Event::Shaped(way));
        self.sums[way as usize].sent += FRAME;
        match way {
            Way::Up => {
                let frame = self.frame(flow, packet, FRAME);
                let at = self.stamp();
                if let Some(ticket) = self.autorate.arrive(at, way, &frame) {
                    self.autorate.leave(at, ticket);
                }
                self.enter_modem(flow, packet);
            }
            Way::Down => self.at(self.now + time, Event::AtHost(flow, packet)),
        }
    }

    fn enter_modem(&mut self, flow: usize, packet: Packet) {
        let way = self.flows[flow].bulk.way;
        let capacity = (self.capacity[way as usize])(self.now / MS);
        if self.modems[way as usize].bytes > (capacity * BUFFER_MS / 8000).max(60_000) {
            self.out.loss[way as usize] += 1;
            // Its sender learns of it later, and sends on.
            let later = self.now + self.flows[flow].bulk.trip_ms * MS * 2;
            self.at(later, Event::Lost(flow));
            return;
        }
        self.wait(way, flow, packet);
    }

    /// Lets a packet wait in a modem; acknowledgements are never lost there.
    fn wait(&mut self, way: Way, flow: usize, packet: Packet) {
        let len = self.len(way, flow);
        let modem = &mut self.modems[way as usize];
        modem.queue.push_back((flow, packet, self.now));
        modem.bytes += len;
        if !modem.is_busy {
            modem.is_busy = true;
            self.start_modem(way);
        }
    }

    /// Returns the length of a flow's packets in a way.
    fn len(&self, way: Way, flow: usize) -> u64 {
        let is_data = flow != ECHO && self.flows[flow].bulk.way == way;
        if is_data { FRAME } else { ACK }
    }

    fn start_modem(&mut self, way: Way) {
        let capacity = (self.capacity[way as usize])(self.now / MS);
        if capacity == 0 {
            return self.at(self.now + MS, Event::Retry(way));
        }
        let first = self.modems[way as usize].queue.front();
        let len = first.map_or(FRAME, |(flow, ..)| self.len(way, *flow));
        self.at(self.now + len * 8 * 1_000_000_000 / capacity, Event::Passed(way));
    }

    fn passed(&mut self, way: Way, counts: bool) {
        let modem = &mut self.modems[way as usize];
        let (flow, packet, arrived) = modem.queue.pop_front().expect("it was served");
        let (len, is_empty) = (self.len(way, flow), self.modems[way as usize].queue.is_empty());
        let modem = &mut self.modems[way as usize];
        modem.bytes -= len;
        modem.is_busy = !is_empty;
        if counts {
            self.out.through[way as usize] += len;
            self.out.delays[way as usize].push((self.now - arrived) / 1000);
        }
        if !is_empty {
            self.start_modem(way);
        }
        if flow == ECHO {
            return self.echo_passed(way, packet.seq as u16);
        }
        match way {
            Way::Up => {
                let half = self.flows[flow].bulk.trip_ms * MS / 2;
                self.at(self.now + half, Event::AtServer(flow, packet));
            }
            Way::Down => self.at(self.now, Event::AtWeir(flow, packet)),
        }
    }

    /// An echo has passed the modem towards its reflector, or its answer has.
    fn echo_passed(&mut self, way: Way, number: u16) {
        if way == Way::Down {
            return self.at(self.now, Event::Answered(number));
        }
        let reflector = self.reflectors[usize::from(number) % self.reflectors.len()];
        let takes = match reflector {
            Reflector::Honest(ms) => ms * MS,
            Reflector::DeadFrom(ms) if self.now >= ms * MS => return,
            Reflector::DeadFrom(_) => 20 * MS,
            Reflector::Lies(0) => 0,
            Reflector::Lies(ms) => Random::new(u64::from(number), 9).bits() % (ms * MS),
        };
        self.at(self.now + takes, Event::Echoed(number));
    }

    /// Shows the estimator a frame of the forger's, with numbers that lie.
    fn forge(&mut self) {
        let at = self.stamp();
        let Some(random) = &mut self.forger else { return };
        let near = random.below(5_000);
        let segment = TcpSegment {
            seq: near,
            ack: Some(random.below(5_000)),
            stamp: Some(Stamp { value: near, echo: random.below(5_000) }),
            payload: random.below(1_448),
            is_reset: random.below(200) == 0,
        };
        let number = random.below(30);
        let flow = FlowId { key: u64::from(number + 500) << 32 | 1, host: 99, peer: 5000 + number };
        let way = Way::ALL[random.below(2) as usize];
        let frame = Frame { flow, len: 0, segment: Segment::Tcp(segment) };
        let leaves = random.below(3) > 0;
        if let Some(ticket) = self.autorate.arrive(at, way, &frame).filter(|_| leaves) {
            self.autorate.leave(at, ticket);
        }
        self.at(self.now + MS, Event::Forge);
    }

    fn interval(&mut self) {
        let now = self.stamp();
        for way in Way::ALL {
            self.sums[way as usize].is_limited = self.shapers[way as usize].queue.len() > 1;
        }
        let sums = std::mem::take(&mut self.sums);
        let steps = self.autorate.end_interval(now, &sums);
        self.out.steps.extend(steps.into_iter().flatten());
        if let Some(one) = self.autorate.echo() {
            self.out.echoes += 1;
            self.autorate.echo_left(now, one.number);
            self.wait(Way::Up, ECHO, echo(one.number));
        }
        self.at(self.now + INTERVAL.as_nanos(), Event::Interval);
    }
}

pub fn mbit(mbit: u64) -> Rate {
    Rate::new(mbit * 1_000_000).expect("not zero")
}

pub fn limits(min: u64, base: u64, max: u64) -> Limits {
    Limits::new(mbit(min), mbit(base), mbit(max), Duration::from_millis(15)).expect("in order")
}
