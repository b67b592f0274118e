//! Steps in little room, for a ring that keeps the last minutes: what the steps before foretell is
//! not written.
//!
//! The headers of a frame are written as the bytes that differ from those of the frame before in
//! its flow, a departure as that of a frame that came, an instant by how far it is from the one
//! before. What a frame has behind its headers is not kept. Invariant: what [`Packer`] packs,
//! [`Unpacker`] gives back, but for those bytes: both foretell from the same [`Memory`].

use super::fields::TakeFields;
use super::step::{Arrival, Fate, Step};
use std::collections::{BTreeMap, VecDeque};
use weir_core::event::{Departure, DropReason, Dropped, Mark};
use weir_core::fnv::{BASIS, fnv1a};
use weir_core::ids::{Handle, LeafId, MeterId};
use weir_core::link::Packet;
use weir_core::packet::{Addresses, Headers, Host};
use weir_core::units::{Bytes, Instant};

/// Packs steps, one behind the other.
#[derive(Default)]
pub struct Packer {
    memory: Memory,
    raw: Vec<u8>,
}

/// Gives packed steps back.
pub struct Unpacker<'a> {
    memory: Memory,
    packed: &'a [u8],
    headers: Vec<u8>,
}

impl Packer {
    /// Appends a step of a lane.
    pub fn pack(&mut self, lane: u16, step: &Step<'_>, out: &mut Vec<u8>) {
        if lane != self.memory.lane {
            out.push(LANE);
            put(out, lane.into());
            self.memory.turn_to(lane);
        }
        let step = &match step {
            Step::Arrival(arrival) => {
                Step::Arrival(Arrival { headers: headers_only(arrival.headers), ..*arrival })
            }
            other => other.clone(),
        };
        if !self.memory.foretold(step, out) {
            self.raw.clear();
            step.write(&mut self.raw);
            out.push(RAW);
            put(out, self.raw.len() as u64);
            out.extend_from_slice(&self.raw);
        }
        self.memory.note(step);
    }
}

impl<'a> Unpacker<'a> {
    /// The steps that a packer packed from its first on.
    pub fn new(packed: &'a [u8]) -> Self {
        Self { memory: Memory::default(), packed, headers: Vec::new() }
    }

    /// Returns the next step with its lane; `None` at the end.
    pub fn next_step(&mut self) -> Option<(u16, Step<'_>)> {
        let mut tag = self.packed.u8()?;
        if tag == LANE {
            let lane = u16::try_from(take(&mut self.packed)?).ok()?;
            self.memory.turn_to(lane);
            tag = self.packed.u8()?;
        }
        let step = match tag {
            RAW => {
                let length = usize::try_from(take(&mut self.packed)?).ok()?;
                Step::read(&mut self.packed.part(length)?)?
            }
            SERVE => Step::Serve { until: self.memory.instant(&mut self.packed)? },
            DEPARTURE | DEPARTURE_TOLD => self.memory.departure(tag, &mut self.packed)?,
            DROPPED => self.memory.dropped(&mut self.packed)?,
            SENT => self.memory.sent(&mut self.packed)?,
            tag => {
                let fields = self.memory.arrival(tag, &mut self.packed, &mut self.headers)?;
                Step::Arrival(Arrival { headers: &self.headers, ..fields })
            }
        };
        self.memory.note(&step);
        Some((self.memory.lane, step))
    }
}

/// The knowledge that both sides have of the steps before.
#[derive(Default)]
struct Memory {
    lane: u16,
    lanes: Vec<Lane>,
    /// The frames that came and have not left, by their handles.
    waiting: BTreeMap<u32, Waiting>,
    /// The last frame of each flow, by [`slot`].
    flows: Vec<Flow>,
    /// The headers of the last frame, without a checksum that is right.
    blank: Vec<u8>,
}

#[derive(Clone, Default)]
struct Lane {
    /// The instant of the step before.
    now: u64,
    came: u32,
    left: u32,
    /// By how much a packet's charge exceeds its length.
    overhead: i64,
    /// How long charges took to send.
    took: Vec<(u64, u64)>,
    /// Those that left and were not handed to the port.
    unsent: VecDeque<u32>,
}

struct Waiting {
    leaf: LeafId,
    arrived: Instant,
    length: u32,
}

#[derive(Clone, Default)]
struct Flow {
    headers: Vec<u8>,
    /// Of the arrival, what is the same for all of a flow; `None` before the first.
    fixed: Option<Fixed>,
    length: u32,
}

type Fixed = (LeafId, u32, Host, u8, Option<MeterId>, u16);

impl Memory {
    fn turn_to(&mut self, lane: u16) {
        self.lane = lane;
    }

    fn own(&mut self) -> &mut Lane {
        let lane = usize::from(self.lane);
        if self.lanes.len() <= lane {
            self.lanes.resize(lane + 1, Lane::default());
        }
        &mut self.lanes[lane]
    }

    fn flow(&mut self, slot: usize) -> &mut Flow {
        if self.flows.is_empty() {
            self.flows.resize(FLOWS, Flow::default());
        }
        &mut self.flows[slot]
    }

    /// Appends the step as far as it is not foretold; false if it is not foretold at all.
    fn foretold(&mut self, step: &Step<'_>, out: &mut Vec<u8>) -> bool {
        match step {
            Step::Arrival(arrival) => return self.put_arrival(arrival, out),
            Step::Serve { until } => {
                out.push(SERVE);
                self.put_instant(*until, out);
            }
            Step::Departure(departure) => return self.put_departure(departure, out),
            Step::Dropped(dropped) => return self.put_dropped(dropped, out),
            Step::Sent { handle, at } => {
                out.push(SENT);
                let first = self.own().unsent.front().copied().unwrap_or(0);
                put_signed(out, i64::from(handle.0) - i64::from(first));
                self.put_instant(*at, out);
            }
            _ => return false,
        }
        true
    }

    /// Learns from a step.
    fn note(&mut self, step: &Step<'_>) {
        if let Some(at) = step.instant().or(match step {
            Step::Departure(departure) => Some(departure.at),
            Step::Dropped(dropped) => Some(dropped.at),
            Step::Sent { at, .. } => Some(*at),
            _ => None,
        }) {
            self.own().now = at.as_nanos();
        }
        match step {
            Step::Arrival(arrival) => self.note_arrival(arrival),
            Step::Departure(departure) => {
                let came = self.waiting.remove(&departure.handle.0);
                let own = self.own();
                own.left = departure.handle.0;
                own.unsent.push_back(departure.handle.0);
                if own.unsent.len() > UNSENT {
                    own.unsent.pop_front();
                }
                let charged = departure.charged.get();
                if let Some(came) = came {
                    own.overhead = (charged as i64).wrapping_sub(i64::from(came.length));
                }
                own.took.resize(CHARGES, (0, 0));
                let took = departure.finished.as_nanos().wrapping_sub(departure.at.as_nanos());
                own.took[charged as usize % CHARGES] = (charged, took);
            }
            Step::Dropped(dropped) => {
                self.waiting.remove(&dropped.handle.0);
            }
            Step::Sent { handle, .. } => {
                let unsent = &mut self.own().unsent;
                if let Some(place) = unsent.iter().position(|one| *one == handle.0) {
                    unsent.drain(..=place);
                }
            }
            _ => {}
        }
    }

    fn note_arrival(&mut self, arrival: &Arrival<'_>) {
        let Packet { handle, length, .. } = arrival.packet;
        self.own().came = handle.0;
        if arrival.fate != Fate::Refused {
            if self.waiting.len() >= WAITING {
                self.waiting.clear();
            }
            let (leaf, arrived) = (arrival.leaf, arrival.at);
            self.waiting.insert(handle.0, Waiting { leaf, arrived, length });
        }
        self.take_blank(arrival.headers);
        let blank = std::mem::take(&mut self.blank);
        let flow = self.flow(slot(arrival.headers));
        flow.headers.clone_from(&blank);
        (flow.fixed, flow.length) = (Some(fixed(arrival)), length);
        self.blank = blank;
    }

    /// Takes the headers without the checksum of IPv4, if that is right; returns whether it is.
    fn take_blank(&mut self, headers: &[u8]) -> bool {
        self.blank.clear();
        self.blank.extend_from_slice(headers);
        let Some((at, sum)) = checksum(&self.blank) else { return false };
        let is_right = self.blank[at..at + 2] == sum;
        if is_right {
            self.blank[at..at + 2].fill(0);
        }
        is_right
    }

    fn put_arrival(&mut self, arrival: &Arrival<'_>, out: &mut Vec<u8>) -> bool {
        if arrival.packet.train != 0 {
            return false;
        }
        let (slot, packet) = (slot(arrival.headers), arrival.packet);
        let is_right = self.take_blank(arrival.headers);
        let flow = self.flow(slot);
        let is_alike = flow.fixed == Some(fixed(arrival));
        let is_long = flow.length == packet.length;
        let differs = flow.headers.len() != arrival.headers.len();
        let flags = [(is_alike, ALIKE), (is_long, LONG), (differs, DIFFERS), (is_right, CHECKSUM)];
        let flags = flags.iter().filter(|row| row.0).fold(0, |all, row| all | row.1);
        out.push(ARRIVAL | flags | arrival.fate as u8);
        put(out, slot as u64);
        self.put_instant(arrival.at, out);
        let came = self.own().came;
        put_signed(out, i64::from(packet.handle.0) - i64::from(came));
        if !is_alike {
            put_fixed(out, fixed(arrival));
        }
        if !is_long {
            put(out, packet.length.into());
        }
        if differs {
            put(out, arrival.headers.len() as u64);
            out.extend_from_slice(&self.blank);
        } else {
            put_changes(&self.flows[slot].headers, &self.blank, out);
        }
        true
    }

    fn arrival(
        &mut self,
        tag: u8,
        packed: &mut &[u8],
        headers: &mut Vec<u8>,
    ) -> Option<Arrival<'static>> {
        let slot = usize::try_from(take(packed)?).ok().filter(|slot| *slot < FLOWS)?;
        let at = self.instant(packed)?;
        let handle = Handle(self.own().came.wrapping_add(take_signed(packed)? as u32));
        let has = |flag: u8| tag & flag != 0;
        let flow = self.flow(slot);
        let fixed = if has(ALIKE) { flow.fixed? } else { take_fixed(packed)? };
        let length = if has(LONG) { flow.length } else { u32::try_from(take(packed)?).ok()? };
        headers.clear();
        if has(DIFFERS) {
            let length = usize::try_from(take(packed)?).ok()?;
            headers.extend_from_slice(packed.part(length)?);
        } else {
            headers.extend_from_slice(&flow.headers);
            take_changes(headers, packed)?;
        }
        if has(CHECKSUM) {
            let (at, sum) = checksum(headers)?;
            headers[at..at + 2].copy_from_slice(&sum);
        }
        let (leaf, flow, host, traffic_class, meter, port) = fixed;
        let packet = Packet { handle, length, train: 0, flow, host, traffic_class, meter };
        let fate = *Fate::ALL.get(usize::from(tag & FATE))?;
        let port = weir_core::classify::InterfaceId(port);
        Some(Arrival { at, port, leaf, packet, fate, headers: &[] })
    }

    fn put_departure(&mut self, departure: &Departure, out: &mut Vec<u8>) -> bool {
        let Departure { handle, leaf, charged, arrived, at, finished, mark } = *departure;
        let Some(came) = self.waiting.get(&handle.0) else { return false };
        if came.leaf != leaf || came.arrived != arrived || mark != Mark::new(None) {
            return false;
        }
        let length = i64::from(came.length);
        let own = self.own();
        let took = finished.as_nanos().wrapping_sub(at.as_nanos());
        let is_charged = charged.get() as i64 == length.wrapping_add(own.overhead);
        let is_told = is_charged && own.took(charged.get()) == Some(took);
        let left = own.left;
        out.push(if is_told { DEPARTURE } else { DEPARTURE_TOLD });
        put_signed(out, i64::from(handle.0) - i64::from(left));
        self.put_instant(at, out);
        if !is_told {
            put(out, charged.get());
            put(out, took);
        }
        true
    }

    fn departure(&mut self, tag: u8, packed: &mut &[u8]) -> Option<Step<'static>> {
        let handle = Handle(self.own().left.wrapping_add(take_signed(packed)? as u32));
        let at = self.instant(packed)?;
        let &Waiting { leaf, arrived, length } = self.waiting.get(&handle.0)?;
        let own = self.own();
        let (charged, took) = if tag == DEPARTURE_TOLD {
            (take(packed)?, take(packed)?)
        } else {
            let charged = i64::from(length).wrapping_add(own.overhead) as u64;
            (charged, own.took(charged)?)
        };
        let finished = Instant::from_nanos(at.as_nanos().wrapping_add(took));
        let (charged, mark) = (Bytes::new(charged), Mark::new(None));
        Some(Step::Departure(Departure { handle, leaf, charged, arrived, at, finished, mark }))
    }

    fn put_dropped(&mut self, dropped: &Dropped, out: &mut Vec<u8>) -> bool {
        let came = self.waiting.get(&dropped.handle.0);
        if came.is_none_or(|came| (came.leaf, came.arrived) != (dropped.leaf, dropped.arrived)) {
            return false;
        }
        out.push(DROPPED);
        let came = self.own().came;
        put_signed(out, i64::from(dropped.handle.0) - i64::from(came));
        out.push(dropped.reason as u8);
        self.put_instant(dropped.at, out);
        true
    }

    fn dropped(&mut self, packed: &mut &[u8]) -> Option<Step<'static>> {
        let handle = Handle(self.own().came.wrapping_add(take_signed(packed)? as u32));
        let reason = *DropReason::ALL.get(usize::from(packed.u8()?))?;
        let at = self.instant(packed)?;
        let &Waiting { leaf, arrived, .. } = self.waiting.get(&handle.0)?;
        Some(Step::Dropped(Dropped { handle, leaf, reason, at, arrived }))
    }

    fn sent(&mut self, packed: &mut &[u8]) -> Option<Step<'static>> {
        let first = self.own().unsent.front().copied().unwrap_or(0);
        let handle = Handle(first.wrapping_add(take_signed(packed)? as u32));
        Some(Step::Sent { handle, at: self.instant(packed)? })
    }

    fn put_instant(&mut self, at: Instant, out: &mut Vec<u8>) {
        put_signed(out, at.as_nanos().wrapping_sub(self.own().now) as i64);
    }

    fn instant(&mut self, packed: &mut &[u8]) -> Option<Instant> {
        let by = take_signed(packed)? as u64;
        Some(Instant::from_nanos(self.own().now.wrapping_add(by)))
    }
}

impl Lane {
    fn took(&self, charged: u64) -> Option<u64> {
        let row = self.took.get(charged as usize % CHARGES)?;
        (row.0 == charged).then_some(row.1)
    }
}

/// Returns the part of a frame's first bytes that parses as all of them do.
fn headers_only(bytes: &[u8]) -> &[u8] {
    let whole = Headers::parse_ethernet(bytes);
    let link = usize::from(whole.link_len);
    let at = |place: usize| bytes.get(place).copied().map_or(0, usize::from);
    let network = match whole.addresses {
        Addresses::V4 { .. } => link + 4 * (at(link) & 15),
        Addresses::V6 { .. } => link + IPV6,
        Addresses::Unknown => return bytes,
    };
    let transport = match whole.protocol.map(|protocol| protocol.0) {
        Some(TCP) => 4 * (at(network + 12) >> 4),
        _ => UDP_HEADER,
    };
    match bytes.get(..network + transport) {
        Some(part) if Headers::parse_ethernet(part) == whole => part,
        _ => bytes,
    }
}

/// Returns the place of the flow of a frame: by its addresses and ports, if it is one of IPv4.
fn slot(headers: &[u8]) -> usize {
    let is_tagged = matches!(headers.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    let from = if is_tagged { 30 } else { 26 };
    let part = headers.get(from..(from + 12).min(headers.len())).unwrap_or_default();
    fnv1a(BASIS, part) as usize % FLOWS
}

/// Returns where the checksum of an IPv4 header is, and the right one.
fn checksum(headers: &[u8]) -> Option<(usize, [u8; 2])> {
    let is_tagged = matches!(headers.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    let from = if is_tagged { 18 } else { 14 };
    let header = headers.get(from..).filter(|header| header.first() == Some(&0x45))?;
    let words = header.get(..20)?.chunks_exact(2).enumerate().filter(|(word, _)| *word != 5);
    let sum: u32 = words.map(|(_, word)| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    Some((from + 10, (!folded as u16).to_be_bytes()))
}

fn fixed(arrival: &Arrival<'_>) -> Fixed {
    let Packet { flow, host, traffic_class, meter, .. } = arrival.packet;
    (arrival.leaf, flow, host, traffic_class, meter, arrival.port.0)
}

fn put_fixed(out: &mut Vec<u8>, (leaf, flow, host, traffic_class, meter, port): Fixed) {
    put(out, leaf.0.into());
    put(out, flow.into());
    out.extend_from_slice(&host.to_bits().to_le_bytes());
    out.push(traffic_class);
    put(out, meter.map_or(0, |meter| meter.index() as u64 + 1));
    put(out, port.into());
}

fn take_fixed(packed: &mut &[u8]) -> Option<Fixed> {
    let leaf = LeafId(u32::try_from(take(packed)?).ok()?);
    let flow = u32::try_from(take(packed)?).ok()?;
    let host = match packed.array().map(u128::from_le_bytes)? {
        0 => Host::NONE,
        bits => Host::from_bits(bits),
    };
    let traffic_class = packed.u8()?;
    let meter = match take(packed)? {
        0 => None,
        number => Some(MeterId::from_index(usize::try_from(number).ok()? - 1)?),
    };
    Some((leaf, flow, host, traffic_class, meter, u16::try_from(take(packed)?).ok()?))
}

/// Appends where `now` differs from `before`, which is as long: each run as how many bytes are the
/// same before it and how many it has, both below 16 in one byte, and its bytes; 0 ends them.
fn put_changes(before: &[u8], now: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(same) = (at..now.len()).position(|place| before[place] != now[place]) {
        at += same;
        (0..same / 15).for_each(|_| out.push(15 << 4));
        let run = (at..now.len()).take(15).take_while(|place| before[*place] != now[*place]);
        let run = run.count();
        out.push(((same % 15) << 4 | run) as u8);
        out.extend_from_slice(&now[at..at + run]);
        at += run;
    }
    out.push(0);
}

fn take_changes(headers: &mut [u8], packed: &mut &[u8]) -> Option<()> {
    let mut at = 0;
    loop {
        let both = packed.u8()?;
        if both == 0 {
            return Some(());
        }
        at += usize::from(both >> 4);
        let run = usize::from(both & 15);
        headers.get_mut(at..at + run)?.copy_from_slice(packed.part(run)?);
        at += run;
    }
}

/// Appends a number in as few groups of seven bits as it has.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(packed: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for group in 0..10 {
        let byte = packed.u8()?;
        number |= u64::from(byte & 0x7f) << (7 * group);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Appends a number that may be below zero: its sign is the lowest bit.
fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

fn take_signed(packed: &mut &[u8]) -> Option<i64> {
    let bits = take(packed)?;
    Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
}

/// Tags. That of an arrival has flags, and its fate in the lowest two bits.
const RAW: u8 = 0;
const LANE: u8 = 1;
const SERVE: u8 = 2;
const DEPARTURE: u8 = 3;
const DEPARTURE_TOLD: u8 = 4;
const DROPPED: u8 = 5;
const SENT: u8 = 6;
const ARRIVAL: u8 = 0x80;
const FATE: u8 = 3;
/// All but length, instant and handle are those of the frame before in the flow; the length is;
/// the headers are not as long; the checksum of IPv4 is right, and left out.
const ALIKE: u8 = 4;
const LONG: u8 = 8;
const DIFFERS: u8 = 16;
const CHECKSUM: u8 = 32;
/// Bound: flows whose last frame is remembered; two in one place take turns, and more room.
const FLOWS: usize = 1024;
/// Bound: charges of a lane whose time on the line is remembered; of others it is written.
const CHARGES: usize = 256;
/// Bound: frames of a lane on the way to the port that are remembered; the number of an earlier one
/// is written whole.
const UNSENT: usize = 4096;
/// Bound: frames that wait which are remembered; beyond, none is.
const WAITING: usize = 1 << 20;
/// Bytes of the fixed header of IPv6 and of UDP, and the number of TCP.
const IPV6: usize = 40;
const UDP_HEADER: usize = 8;
const TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::classify::InterfaceId;
    use weir_core::units::Duration;

    /// Draws from a seed.
    struct Draw(u64);

    impl Draw {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.0 >> 33
        }
    }

    /// A frame of TCP with time stamps and, behind its headers, bytes that nothing foretells.
    fn frame(draw: &mut Draw, (seq, ack): (u32, u32), length: u16, is_back: bool) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let (from, to) = if is_back { (other, one) } else { (one, other) };
        let ports: [u16; 2] = if is_back { [443, 40_000] } else { [40_000, 443] };
        frame.extend(length.to_be_bytes());
        frame.extend([draw.next() as u8, draw.next() as u8, 0x40, 0, 64, 6]);
        frame.extend([draw.next() as u8, draw.next() as u8]);
        frame.extend(from.into_iter().chain(to));
        ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
        frame.extend(seq.to_be_bytes().into_iter().chain(ack.to_be_bytes()));
        frame.extend([0x80, 0x10, 1, 0, draw.next() as u8, draw.next() as u8, 0, 0, 1, 1, 8, 10]);
        frame.extend((seq / 2896).to_be_bytes().into_iter().chain((ack / 2896).to_be_bytes()));
        if let Some((at, sum)) = checksum(&frame).filter(|_| !draw.next().is_multiple_of(50)) {
            frame[at..at + 2].copy_from_slice(&sum);
        }
        while frame.len() < 128.min(usize::from(length) + 14) {
            frame.push(draw.next() as u8);
        }
        frame
    }

    /// Full segments at a rate and an acknowledgement for every two, through a link and back, as a
    /// loop notes them; gives each step to `tell`, and returns how long that takes.
    fn transfer(segments: u32, bps: u64, mut tell: impl FnMut(u16, &Step<'_>)) -> Duration {
        let mut draw = Draw(7);
        let gap = 1514 * 8 * 1_000_000_000 / bps;
        let mut now = 1_000_000_000_000;
        let waits = 20;
        for n in 0..segments {
            now += gap / 2 + draw.next() % gap;
            let turns = [(0u16, n, 1500u16), (1, n, 52)];
            for (lane, n, length) in turns.into_iter().take(1 + (n % 2) as usize) {
                let numbers = (n.wrapping_mul(1448), 77);
                let numbers = if lane == 0 { numbers } else { (numbers.1, numbers.0) };
                let bytes = frame(&mut draw, numbers, length, lane == 1);
                let handle = |n: u32| Handle((n * 2 + u32::from(lane)) % 18_000);
                let at = |n: u64| Instant::from_nanos(n);
                let packet = Packet {
                    handle: handle(n),
                    length: u32::from(length) + 14,
                    // Seldom a train, of which nothing is foretold.
                    train: u16::from(n % 97 == 0) * 700,
                    flow: 0,
                    host: Host::NONE,
                    traffic_class: 0,
                    meter: None,
                };
                let (leaf, port, fate) = (LeafId(2), InterfaceId(lane), Fate::Offered);
                let arrival = Arrival { at: at(now), port, leaf, packet, fate, headers: &bytes };
                tell(lane, &Step::Arrival(arrival));
                tell(lane, &Step::Serve { until: at(now + 4000 + draw.next() % 2000) });
                if n < waits {
                    continue;
                }
                let left = now + 9000 + draw.next() % 300_000;
                let charged = Bytes::new(u64::from(length) + 14);
                let finished = at(left + charged.get() * 8_000_000_000 / bps);
                let arrived = at(now);
                let handle = handle(n);
                let (at_left, mark) = (at(left), Mark::new(None));
                tell(lane, &Step::Serve { until: at(left + 3000 + draw.next() % 2000) });
                let departure =
                    Departure { handle, leaf, charged, arrived, at: at_left, finished, mark };
                tell(lane, &Step::Departure(departure));
                tell(lane, &Step::Sent { handle, at: at(left + 9000 + draw.next() % 4000) });
            }
        }
        Duration::from_nanos(now - 1_000_000_000_000)
    }

    #[test]
    fn what_is_packed_comes_back_without_what_is_behind_headers() {
        let (mut packer, mut packed, mut steps) = (Packer::default(), Vec::new(), Vec::new());
        let mut keep = |lane: u16, step: &Step<'_>| {
            packer.pack(lane, step, &mut packed);
            let mut bytes = Vec::new();
            match step {
                Step::Arrival(of) => {
                    let headers = headers_only(of.headers);
                    assert!(headers.len() < 70, "{}", headers.len());
                    Step::Arrival(Arrival { headers, ..*of }).write(&mut bytes);
                }
                other => other.write(&mut bytes),
            }
            steps.push((lane, bytes));
        };
        let checkpoint = Step::Checkpoint {
            now: Instant::from_nanos(5),
            classified: Instant::ZERO,
            state: &[9; 300],
        };
        keep(0, &checkpoint);
        transfer(500, 20_000_000, &mut keep);
        let (at, arrived) = (Instant::from_nanos(77), Instant::ZERO);
        let unknown =
            Dropped { handle: Handle(9), leaf: LeafId(1), reason: DropReason::ALL[0], at, arrived };
        keep(3, &Step::Dropped(unknown));
        keep(3, &Step::Sent { handle: Handle(u32::MAX), at: Instant::ZERO });
        keep(0, &Step::Forfeit { before: Instant::from_nanos(1 << 61) });
        let mut unpacker = Unpacker::new(&packed);
        for (lane, bytes) in &steps {
            let (of, step) = unpacker.next_step().expect("as many come back");
            let mut again = Vec::new();
            step.write(&mut again);
            assert_eq!((of, &again), (*lane, bytes), "{step:?}");
        }
        assert!(unpacker.next_step().is_none());
    }

    #[test]
    fn any_bytes_are_some_steps_and_an_end() {
        let mut draw = Draw(3);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..draw.next() % 200).map(|_| draw.next() as u8 & 0x9f).collect();
            let mut unpacker = Unpacker::new(&bytes);
            let mut count = 0;
            while unpacker.next_step().is_some() {
                count += 1;
                assert!(count <= bytes.len());
            }
        }
    }

    #[test]
    fn a_ring_of_64_mib_has_ten_minutes_of_20_mbit_s_with_their_acknowledgements() {
        let (mut packer, mut packed) = (Packer::default(), Vec::new());
        let took = transfer(20_000, 20_000_000, |lane, step| packer.pack(lane, step, &mut packed));
        let a_second = packed.len() as f64 / (took.as_nanos() as f64 / 1e9);
        // A sixteenth goes when it is full, and states take a part.
        let seconds = 0.9 * f64::from(64 << 20) / a_second;
        assert!(seconds >= 600.0, "{seconds} s, {} bytes a segment", packed.len() / 20_000);
    }
}
