//! The queues between the loop and a worker, for one port, and the little that both may read.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};

use super::rest::Notice;
use super::side::Side;
use super::{BATCH, RECEIVED_MAX, SENDING_MAX, SLOTS};
use crate::pool::{FrameId, PassedFrame};
use crate::port::{
    Found, LaneRules, Port, PortCounters, PortState, RINGS_MAX, Reached, Received, Room,
};
use crate::stations::Address;
use weir_core::packet::Headers;

/// Work that the loop asks a worker to do at a port.
pub(super) type Task = Box<dyn FnOnce(&mut Side) + Send>;

/// A worker's side of a port until the worker starts.
pub(super) type Resting = Arc<Mutex<Option<Side>>>;

/// A frame that arrived, on its way to the loop.
pub(super) struct Arrived {
    pub frame: PassedFrame,
    pub at_ns: u64,
    pub headers: Headers,
    pub found: Found,
}

impl Arrived {
    /// Returns it as a frame that the loop has taken.
    #[inline]
    pub fn received_as(&self, frame: FrameId) -> Received {
        let Self { at_ns, headers, found, .. } = *self;
        Received { frame, at_ns, headers, found }
    }
}

/// The queues of a port, and what is shared of it.
pub(super) struct Exchange {
    pub loop_ends: LoopEnds,
    pub worker_ends: WorkerEnds,
    pub shared: Arc<Shared>,
}

/// The loop's ends of the queues of a port.
pub(super) struct LoopEnds {
    /// Free slots for the worker.
    pub fill: Producer<u32>,
    /// For each ring, frames that arrived.
    pub received: Vec<Consumer<Arrived>>,
    /// Frames to be sent.
    pub sending: Producer<PassedFrame>,
    /// Free slots that the worker needs no more.
    pub surplus: Consumer<u32>,
    /// The rules in which the worker looks frames up.
    pub rules: Producer<LaneRules>,
}

/// The worker's ends of them.
pub(super) struct WorkerEnds {
    pub fill: Consumer<u32>,
    pub received: Vec<Producer<Arrived>>,
    pub sending: Consumer<PassedFrame>,
    pub surplus: Producer<u32>,
    pub rules: Consumer<LaneRules>,
}

/// The parts of a port that the loop reads while a worker has it.
pub(super) struct Shared {
    /// For each ring, how far its frames are in the queue, as [`encoded`].
    reached: [AtomicU64; RINGS_MAX],
    state: AtomicU8,
    /// When the worker began its last turn; 0 before it starts.
    pub turned_ns: AtomicU64,
    /// Whether this turn opens the port or looks at its interface, which may take the kernel long.
    pub is_opening: AtomicBool,
    /// The loop's last word to a worker that hangs: it is to leave the port.
    pub is_given_up: AtomicBool,
    /// How many frames the port took or lost, of those that the loop passed on.
    pub finished: AtomicU64,
    facts: Mutex<Facts>,
    counters: Mutex<PortCounters>,
    /// Wakes the loop.
    pub for_loop: Arc<Notice>,
}

/// The interface, as last seen.
#[derive(Clone)]
pub(super) struct Facts {
    pub kind: &'static str,
    pub interface: String,
    pub address: Option<Address>,
    pub mtu: usize,
    pub warnings: Vec<String>,
    pub room: Room,
    pub rings: usize,
}

impl Facts {
    pub fn of(port: &dyn Port) -> Self {
        Self {
            kind: port.kind(),
            interface: port.interface().to_owned(),
            address: port.address(),
            mtu: port.mtu(),
            warnings: port.warnings(),
            room: port.room(),
            rings: port.rings(),
        }
    }
}

impl Exchange {
    /// The queues of a port of which this is known.
    pub fn of(facts: Facts, state: PortState, for_loop: Arc<Notice>) -> Self {
        let slots = SLOTS + SENDING_MAX + BATCH + facts.room.held_max;
        let (fill, filled) = RingBuffer::new(slots);
        let (returned, surplus) = RingBuffer::new(slots);
        let (sending, to_send) = RingBuffer::new(SENDING_MAX);
        let (rules, told) = RingBuffer::new(RULES_MAX);
        let rings = (0..RINGS_MAX).map(|_| RingBuffer::new(RECEIVED_MAX));
        let (arrived, received) = rings.unzip();
        let shared = Shared {
            reached: std::array::from_fn(|_| AtomicU64::new(encoded(Reached::All))),
            state: AtomicU8::new(state as u8),
            turned_ns: AtomicU64::new(0),
            is_opening: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            finished: AtomicU64::new(0),
            facts: Mutex::new(facts),
            counters: Mutex::new(PortCounters::default()),
            for_loop,
        };
        let loop_ends = LoopEnds { fill, received, sending, surplus, rules };
        let worker_ends = WorkerEnds {
            fill: filled,
            received: arrived,
            sending: to_send,
            surplus: returned,
            rules: told,
        };
        Self { loop_ends, worker_ends, shared: Arc::new(shared) }
    }
}

impl Shared {
    /// Returns how far the frames of a ring are in its queue.
    pub fn reached(&self, ring: usize) -> Reached {
        decoded(self.reached[ring].load(Ordering::Acquire))
    }

    pub fn set_reached(&self, ring: usize, reached: Reached) {
        let (reached, place) = (encoded(reached), &self.reached[ring]);
        // The loop has the line of this word in its cache: it is written only if it changes.
        if place.load(Ordering::Relaxed) != reached {
            place.store(reached, Ordering::Release);
        }
    }

    pub fn state(&self) -> PortState {
        let state = self.state.load(Ordering::Relaxed);
        let states = [PortState::Up, PortState::Down];
        states.into_iter().find(|one| *one as u8 == state).unwrap_or(PortState::Gone)
    }

    pub fn set_state(&self, state: PortState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the counters, unless the worker writes them at this moment.
    pub fn read_counters(&self, to: &mut PortCounters) {
        if let Ok(counters) = self.counters.try_lock() {
            *to = *counters;
        }
    }

    pub fn set_counters(&self, counters: PortCounters) {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }
}

/// Instants in one word: the lowest bit says that more frames wait.
fn encoded(reached: Reached) -> u64 {
    match reached {
        Reached::All => ALL,
        Reached::Behind(at_ns) => at_ns << 1 | 1,
        Reached::Looked(at_ns) => at_ns << 1,
    }
}

fn decoded(word: u64) -> Reached {
    match word {
        ALL => Reached::All,
        _ if word & 1 == 1 => Reached::Behind(word >> 1),
        _ => Reached::Looked(word >> 1),
    }
}

/// No instant: twice any of them is less.
const ALL: u64 = u64::MAX;

/// Bound: policies that a worker was told and has not taken up; of more the loop tells it later.
const RULES_MAX: usize = 2;
