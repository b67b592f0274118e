//! The run loop's side: copies counts into a snapshot, a bounded part at each look.
//!
//! Invariant: a step copies at most [`LEAVES_PER_STEP`] leaves and never waits. It allocates for
//! leaves that count something for the first time, and where a reader asked for counts of hosts.
//! There are two
//! snapshots: one is on the board, the other is being filled. Where a reader still holds the
//! other, or the board itself, the loop tries again at its next look.

use std::sync::Arc;

use weir_core::account::Histogram;
use weir_core::queue::HostAccounts;
use weir_core::units::{Duration, Instant};

use super::board::Board;
use super::counts::{Head, Labels, LeafCounts, Snapshot};
use super::query::HOSTS_MAX;

/// Bound: leaves that one look of the loop copies; the rest follows in the next looks. A link with
/// fewer has all its counts of one instant.
pub const LEAVES_PER_STEP: usize = 256;

/// A bridge, as the source of counts.
pub(crate) trait Source {
    /// Returns what does not change.
    fn labels(&self) -> Labels;

    /// Writes what is not counted for each leaf, into memory that is large enough.
    fn head(&mut self, head: &mut Head);

    /// Returns the counts of a leaf of a lane.
    fn leaf(&mut self, lane: usize, leaf: usize) -> LeafCounts;

    /// Returns the accounts of the hosts of a leaf that sent most, at most so many; `None` where
    /// hosts do not take turns.
    fn hosts(&self, _lane: usize, _leaf: usize, _most: usize) -> Option<HostAccounts> {
        None
    }

    /// Copies the delays of a leaf; with `mark`, their measurement restarts.
    fn delays(&mut self, lane: usize, leaf: usize, mark: bool, to: &mut Histogram);
}

/// Publishes snapshots of a source on a board.
pub(crate) struct Publisher {
    /// The snapshot on the board, and the one to be filled.
    snapshots: [Arc<Snapshot>; 2],
    state: State,
    /// When the last look did something.
    stepped: Instant,
    begun: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next snapshot is not due.
    Idle,
    /// This place is to be copied next.
    Filling(Place),
    /// The snapshot is whole.
    Full,
}

/// A leaf among those of all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    lane: usize,
    leaf: usize,
    /// Its number among all.
    number: usize,
    /// Whether the measurement of delays restarts.
    mark: bool,
    /// Whether a reader waits.
    asked: bool,
}

impl Publisher {
    /// Allocates what steps need.
    pub fn new(source: &impl Source) -> Self {
        Self::of(&Arc::new(source.labels()))
    }

    /// Allocates what steps need of a source with these labels.
    pub fn of(labels: &Arc<Labels>) -> Self {
        let snapshot = || Arc::new(Snapshot::new(labels));
        Self {
            snapshots: [snapshot(), snapshot()],
            state: State::Idle,
            stepped: Instant::ZERO,
            begun: Instant::ZERO,
        }
    }

    /// Does the next part of the work, if it is due; returns how many leaves it copied.
    pub fn publish(&mut self, now: Instant, source: &mut impl Source, board: &Board) -> usize {
        board.count_poll();
        if now.since(self.stepped) < STEP_INTERVAL {
            return 0;
        }
        self.begin(now, source, board);
        let copied = self.copy(now, source, LEAVES_PER_STEP);
        self.hand_over(now, board);
        copied
    }

    /// Publishes a last snapshot at once: the loop has ended, so that nothing waits for it.
    pub fn end(&mut self, now: Instant, source: &mut impl Source, board: &Board) {
        self.state = State::Idle;
        self.begun = Instant::ZERO;
        while self.state == State::Idle {
            self.begin(now, source, board);
            std::thread::yield_now();
        }
        self.copy(now, source, usize::MAX);
        while self.state == State::Full {
            self.hand_over(now, board);
            std::thread::yield_now();
        }
    }

    /// Returns when to look again at the latest, if a reader waits.
    pub fn deadline(&self) -> Option<Instant> {
        let waits = match self.state {
            State::Idle => false,
            State::Filling(place) => place.asked,
            State::Full => true,
        };
        waits.then(|| self.stepped.after(STEP_INTERVAL))
    }

    /// Begins a snapshot if one is due. A periodic one begins anew when a reader requests one.
    fn begin(&mut self, now: Instant, source: &mut impl Source, board: &Board) {
        let ticket = board.newest_ticket();
        let asked = ticket > self.snapshots[0].ticket;
        let pause = if asked { ASKED_INTERVAL } else { REST_INTERVAL };
        let is_due = match self.state {
            State::Idle => self.begun == Instant::ZERO || now.since(self.begun) >= pause,
            State::Filling(place) => asked && !place.asked,
            State::Full => false,
        };
        // A reader that still copies it is done soon.
        let Some(draft) = Arc::get_mut(&mut self.snapshots[1]).filter(|_| is_due) else { return };
        (draft.begun, draft.ticket) = (now, ticket);
        draft.hosts.clear();
        draft.has_hosts = board.wants_hosts();
        source.head(&mut draft.head);
        let was_marking = matches!(self.state, State::Filling(place) if place.mark);
        let mark = board.take_mark() || was_marking;
        self.state = State::Filling(Place { lane: 0, leaf: 0, number: 0, mark, asked });
        (self.begun, self.stepped) = (now, now);
    }

    /// Copies up to `leaves_max` leaves; returns how many.
    fn copy(&mut self, now: Instant, source: &mut impl Source, leaves_max: usize) -> usize {
        let State::Filling(mut place) = self.state else { return 0 };
        let Some(draft) = Arc::get_mut(&mut self.snapshots[1]) else { return 0 };
        assert!(now >= draft.begun, "a snapshot ends behind its beginning");
        let mut copied = 0;
        while copied < leaves_max && place.lane < draft.labels.lanes.len() {
            if place.leaf == draft.labels.lanes[place.lane].leaves.len() {
                (place.lane, place.leaf) = (place.lane + 1, 0);
                continue;
            }
            draft.leaves.set(place.number, source.leaf(place.lane, place.leaf));
            if let Some(delays) = &mut draft.delays[place.number] {
                source.delays(place.lane, place.leaf, place.mark, delays);
            }
            if draft.has_hosts {
                let hosts = source.hosts(place.lane, place.leaf, HOSTS_MAX as usize);
                draft.hosts.extend(hosts.map(|hosts| (place.number, hosts)));
            }
            place.leaf += 1;
            place.number += 1;
            copied += 1;
        }
        draft.ended = now;
        let is_whole = place.number == draft.leaves.len();
        self.state = if is_whole { State::Full } else { State::Filling(place) };
        self.stepped = now;
        copied
    }

    /// Puts a whole snapshot on the board, unless a reader has the board right now.
    fn hand_over(&mut self, now: Instant, board: &Board) {
        if self.state == State::Full && board.try_publish(&self.snapshots[1]) {
            self.snapshots.swap(0, 1);
            self.state = State::Idle;
        } else if self.state == State::Full {
            self.stepped = now;
        }
    }
}

/// The shortest time between two steps that copy.
const STEP_INTERVAL: Duration = Duration::from_millis(1);
/// The shortest time between the beginnings of two snapshots that readers requested.
const ASKED_INTERVAL: Duration = Duration::from_millis(10);
/// The time between the beginnings of two snapshots while no reader requests one.
const REST_INTERVAL: Duration = Duration::from_millis(1000);
