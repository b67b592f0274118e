//! The frames of one capture, of two captures, or of a record, in the order of time.
//!
//! A capture streams. Two captures are merged by their clocks. A record has the frames of each
//! direction in order, and the directions may come one after another: frames wait until all
//! directions are past them, [`WAITING_MAX`] of them at most. Invariant: a fault ends the reading,
//! and what precedes it was given.

use crate::frame::{Seen, Where};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use weir_core::packet::Headers;
use weir_core::units::{Instant, Rate};
use weir_sim::replay::{frame_length, headers};
use weir_trace::capture::{CaptureFrame, CaptureReader};
use weir_trace::record::{Fate, RecordReader, Step};

/// The traffic to infer from.
pub enum Input<'s> {
    /// One capture of both directions.
    Capture(CaptureReader<'s>),
    /// Two captures of the same traffic, inside and outside of the link, by clocks that agree.
    Captures(CaptureReader<'s>, CaptureReader<'s>),
    /// A record of a running link.
    Record(RecordReader<'s>),
}

/// The end of the reading.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The fault that ended it, if one did.
    pub fault: Option<String>,
    /// The names of a record's directions.
    pub directions: Vec<String>,
    /// The rates of those whose rate was changed while the record ran.
    pub varied: BTreeMap<String, Varied>,
    /// Frames of a record that did not wait for all directions: their order may be wrong.
    pub hurried: u64,
    /// Frames that a record says were lost or dropped in the link.
    pub dropped: u64,
}

/// A rate that was changed without a change of the policy.
#[derive(Clone, Copy, Debug)]
pub struct Varied {
    changes: u64,
    least: Rate,
    most: Rate,
}

impl Varied {
    /// Returns what it means for forecasts.
    pub fn note(&self) -> String {
        let Self { changes, least, most } = self;
        format!(
            "the rate of the link was changed {changes} times while the record ran, between \
             {least} and {most}; the simulation has one rate all the time, and may differ as much"
        )
    }
}

impl Input<'_> {
    /// Gives each frame to `each`.
    pub(crate) fn read(self, each: &mut dyn FnMut(&Seen<'_>)) -> Read {
        match self {
            Input::Capture(reader) => one(reader, each),
            Input::Captures(inside, outside) => two(inside, outside, each),
            Input::Record(reader) => record(reader, each),
        }
    }
}

fn one(mut reader: CaptureReader<'_>, each: &mut dyn FnMut(&Seen<'_>)) -> Read {
    while let Some(next) = reader.next_frame() {
        match next {
            Ok(frame) => each(&seen(&frame, frame.bytes, Where::Point)),
            Err(error) => return Read { fault: Some(error.to_string()), ..Read::default() },
        }
    }
    Read::default()
}

fn seen<'f>(frame: &CaptureFrame<'_>, bytes: &'f [u8], place: Where) -> Seen<'f> {
    Seen {
        at: Instant::from_nanos(frame.timestamp),
        place,
        headers: headers(frame),
        length: frame_length(frame),
        bytes,
        number: None,
    }
}

/// A frame that waits for its turn.
struct Held {
    at: Instant,
    place: Where,
    headers: Headers,
    length: u32,
    bytes: Box<[u8]>,
    number: Option<u64>,
}

impl Held {
    fn give(&self, each: &mut dyn FnMut(&Seen<'_>)) {
        let Self { at, place, headers, length, ref bytes, number } = *self;
        each(&Seen { at, place, headers, length, bytes, number });
    }
}

fn two(
    inside: CaptureReader<'_>,
    outside: CaptureReader<'_>,
    each: &mut dyn FnMut(&Seen<'_>),
) -> Read {
    let mut readers = [inside, outside];
    let mut read = Read::default();
    let mut next = |place: usize, read: &mut Read| {
        let frame = readers[place].next_frame()?;
        match frame {
            Ok(frame) => {
                let place = Where::OneOfTwo(place as u16);
                let bytes = frame.bytes.get(..HEADER_BYTES).unwrap_or(frame.bytes);
                let Seen { at, headers, length, .. } = seen(&frame, bytes, place);
                Some(Held { at, place, headers, length, bytes: bytes.into(), number: None })
            }
            Err(error) => {
                let which = ["inside", "outside"][place];
                read.fault.get_or_insert(format!("{which}: {error}"));
                None
            }
        }
    };
    let mut heads = [next(0, &mut read), next(1, &mut read)];
    loop {
        let first = match &heads {
            [None, None] => return read,
            [Some(_), None] => 0,
            [None, Some(_)] => 1,
            [Some(inside), Some(outside)] => usize::from(outside.at < inside.at),
        };
        if let Some(held) = heads[first].take() {
            held.give(each);
        }
        heads[first] = next(first, &mut read);
    }
}

/// A frame in a heap: by its time, then in the order of the record.
struct Turn(Reverse<(Instant, u64)>, Held);

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Turn {}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// A frame in the link: its headers, its length, the bytes that the record has of it, and its
/// number.
type Inside = (Headers, u32, Box<[u8]>, u64);

/// The frames of a record on their way through it.
#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Turn>,
    /// Frames in the link, by direction and handle.
    inside: BTreeMap<(usize, u32), Inside>,
    /// The frames that were put into the heap, and those that came to the link.
    number: u64,
    arrived: u64,
    /// The latest instant of each direction.
    latest: Vec<Instant>,
}

impl Waiting {
    fn push(&mut self, held: Held, lane: usize) {
        self.latest[lane] = self.latest[lane].max(held.at);
        self.number += 1;
        self.heap.push(Turn(Reverse((held.at, self.number)), held));
    }

    /// Gives what no direction can still precede.
    fn give(&mut self, read: &mut Read, each: &mut dyn FnMut(&Seen<'_>)) {
        let past = self.latest.iter().copied().min().unwrap_or(Instant::MAX);
        while let Some(Turn(Reverse((at, _)), _)) = self.heap.peek() {
            if *at >= past {
                if self.heap.len() < WAITING_MAX {
                    return;
                }
                read.hurried += 1;
            }
            if let Some(Turn(_, held)) = self.heap.pop() {
                held.give(each);
            }
        }
    }
}

fn record(mut reader: RecordReader<'_>, each: &mut dyn FnMut(&Seen<'_>)) -> Read {
    let lanes = &reader.head().lanes;
    let directions = lanes.iter().map(|lane| lane.name.clone()).collect();
    let mut read = Read { directions, ..Read::default() };
    let mut waiting =
        Waiting { latest: vec![Instant::ZERO; read.directions.len()], ..Waiting::default() };
    loop {
        match reader.next_step() {
            Ok(Some((lane, step))) => {
                take(&mut waiting, &mut read, lane, &step);
                waiting.give(&mut read, each);
            }
            Ok(None) => break,
            Err(error) => {
                read.fault = Some(error.to_string());
                break;
            }
        }
    }
    while let Some(Turn(_, held)) = waiting.heap.pop() {
        held.give(each);
    }
    read
}

fn take(waiting: &mut Waiting, read: &mut Read, lane: usize, step: &Step<'_>) {
    match step {
        Step::Arrival(arrival) => {
            let headers = Headers::parse_ethernet(arrival.headers);
            let length = arrival.packet.length;
            let bytes: Box<[u8]> =
                arrival.headers.get(..HEADER_BYTES).unwrap_or(arrival.headers).into();
            waiting.arrived += 1;
            let number = waiting.arrived;
            if arrival.fate != Fate::Refused && waiting.inside.len() < WAITING_MAX {
                let key = (lane, arrival.packet.handle.0);
                waiting.inside.insert(key, (headers, length, bytes.clone(), number));
            }
            if arrival.fate != Fate::Resumed {
                let (at, place) = (arrival.at, Where::Enters(lane as u16));
                let number = Some(number);
                waiting.push(Held { at, place, headers, length, bytes, number }, lane);
            }
        }
        Step::Departure(departure) => {
            let key = (lane, departure.handle.0);
            let Some((headers, length, bytes, number)) = waiting.inside.remove(&key) else {
                return;
            };
            // The transmission is the link's, which a simulation has itself.
            let (at, place) = (departure.finished, Where::Leaves(lane as u16));
            let number = Some(number);
            waiting.push(Held { at, place, headers, length, bytes, number }, lane);
        }
        Step::Dropped(dropped) => {
            read.dropped += 1;
            waiting.inside.remove(&(lane, dropped.handle.0));
        }
        Step::Rate { rate, .. } => {
            let Some(name) = read.directions.get(lane) else { return };
            let new = Varied { changes: 0, least: *rate, most: *rate };
            let varied = read.varied.entry(name.clone()).or_insert(new);
            varied.changes += 1;
            varied.least = varied.least.min(*rate);
            varied.most = varied.most.max(*rate);
        }
        Step::Lost(_) => read.dropped += 1,
        Step::Serve { until } => waiting.latest[lane] = waiting.latest[lane].max(*until),
        _ => {}
    }
}

/// Bound: frames of a record that wait for other directions, or in the link; beyond it the oldest
/// goes first, and frames may be out of order.
const WAITING_MAX: usize = 1 << 21;
/// The bytes of a frame that are kept while it waits: headers with their options.
const HEADER_BYTES: usize = 160;
