//! A lane's link, with the frames that it has not been offered yet and the time up to which it was
//! served.
//!
//! Invariants: the link's time never goes back, and every departure lies within it; each frame that
//! was offered is in the link, was handed out, or is handed over as dropped.

use weir_core::event::Departure;
use weir_core::link::{AnyLink, Arrival, Pending, Prepared, Remains};
use weir_core::packet::Headers;
use weir_core::units::{Duration, Instant};

use super::books::Books;
use crate::pool::FramePool;
use crate::port::BATCH;
use crate::recorder::Steps;
use weir_trace::record::Step;

/// A turn of the run loop, as a lane is told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When the turn began.
    pub now: Instant,
    /// The latest instant up to which every ring of the lane's ports was emptied, if frames still
    /// wait in one.
    pub seen: Option<Instant>,
    /// When a worker of one of those ports looked last, the one that looked first; what arrived
    /// since may not be here yet.
    pub looked: Option<Instant>,
}

pub(super) struct LaneLink {
    link: Box<dyn AnyLink>,
    /// Classified frames that the link has not been offered yet, and the link's time.
    pub pending: Pending,
    /// The instant at which the link must be served again.
    next: Option<Instant>,
    /// Since when frames have waited in a ring all the time.
    behind_since: Option<Instant>,
    is_overloaded: bool,
    /// Whether it was served less far than time is because of a worker, which looks again soon.
    is_held_back: bool,
}

impl LaneLink {
    pub fn new(link: Box<dyn AnyLink>) -> Self {
        let pending = Pending::at(Instant::ZERO, Instant::ZERO, BATCH);
        Self {
            link,
            pending,
            next: None,
            behind_since: None,
            is_overloaded: false,
            is_held_back: false,
        }
    }

    /// Returns the link itself, for what is read of it.
    pub fn inner(&self) -> &dyn AnyLink {
        self.link.as_ref()
    }

    /// As [`LaneLink::inner`], for a class that joins or leaves: then call
    /// [`LaneLink::serve_soon`].
    pub fn inner_mut(&mut self) -> &mut dyn AnyLink {
        self.link.as_mut()
    }

    /// Adds a packet that the link is offered at its instant; its first frame has these bytes and
    /// headers.
    #[inline]
    pub fn push(&mut self, arrival: Arrival, frame: &[u8], headers: &Headers) {
        self.link.note_frame(&arrival, frame, headers);
        self.pending.push(arrival);
    }

    /// Serves the link with what is due, and appends what leaves to `out`.
    pub fn serve(&mut self, turn: Turn, out: &mut Vec<Departure>, steps: &mut Steps) {
        let until = self.until(turn);
        assert!(until >= self.pending.now(), "the link's time never goes back");
        let link = &mut self.link;
        let before = out.len();
        let mut offered = 0;
        self.next = self.pending.serve(until, |due| {
            offered = due.len();
            link.serve(due, until, out)
        });
        let departures = &out[before..];
        let is_within = departures.last().is_none_or(|last| last.at <= until);
        assert!(is_within, "nothing leaves the link later than it is served");
        debug_assert!(departures.is_sorted_by_key(|departure| departure.at), "in order of time");
        steps.served(until, offered, departures);
    }

    /// Returns the instant up to which the link is served in this turn. While frames wait in a
    /// ring, that is the one up to which every ring was emptied, so that frames count at the
    /// instants at which they came. A lane that stays behind for [`BEHIND_MAX`] is overloaded: then
    /// a frame counts when it is taken, and other frames wait for none.
    fn until(&mut self, Turn { now, seen, looked }: Turn) -> Instant {
        self.behind_since = seen.map(|_| self.behind_since.unwrap_or(now));
        self.is_overloaded = self.behind_since.is_some_and(|since| now.since(since) > BEHIND_MAX);
        let last = self.pending.last().unwrap_or(now);
        let until = match (seen, looked) {
            _ if self.is_overloaded => now.max(last),
            (Some(seen), looked) => looked.map_or(seen, |looked| looked.min(seen)),
            (None, Some(looked)) => looked.min(now.max(last)),
            (None, None) => now.max(last),
        };
        self.is_held_back = until < now && seen.is_none();
        until.max(self.pending.now())
    }

    /// Frees the frames that the link dropped, on arrival or when their turn came; returns how many
    /// there were.
    pub fn release_dropped(&mut self, books: &mut Books, pool: &mut FramePool) -> u64 {
        let mut count = 0;
        self.link.take_dropped(&mut |dropped| {
            books.dropped(dropped, pool);
            count += 1;
        });
        count
    }

    /// Starts the line anew at `now`, after a stall: what it could have sent before `limit` is
    /// forfeited, and what has become too old meanwhile is dropped.
    pub fn restart(
        &mut self,
        now: Instant,
        limit: Instant,
        books: &mut Books,
        pool: &mut FramePool,
    ) {
        assert!(limit <= now, "a line forfeits only time that is over");
        self.pending.forfeit_before(limit);
        self.link.forfeit_before(limit);
        books.steps.note(&Step::Forfeit { before: limit });
        if books.has_ages() {
            books.steps.note(&Step::DropOlder { clock: now });
            self.link.drop_older(&|leaf| books.oldest(leaf, now));
            books.forfeited += self.release_dropped(books, pool);
        }
    }

    /// Exchanges the link for another one that continues it; returns what is left of it.
    pub fn replace(&mut self, link: Prepared) -> Remains {
        link.apply(&mut self.link, self.pending.now())
    }

    /// Has the next turn ask the link when it has to be served: it is another one, or has other
    /// leaves.
    pub fn serve_soon(&mut self) {
        self.next = Some(self.pending.now());
    }

    /// Returns when the link must be served again.
    pub fn deadline(&self) -> Option<Instant> {
        let again = self.is_held_back && !self.pending.arrivals().is_empty();
        if again { Some(self.pending.now()) } else { self.next }
    }

    /// Returns whether it has been behind its rings for so long that it is overloaded.
    pub fn is_overloaded(&self) -> bool {
        self.is_overloaded
    }

    /// Returns the frames that wait, in front of the link and in it.
    pub fn held(&self) -> usize {
        self.pending.arrivals().len() + self.link.backlog() as usize
    }
}

/// How long a lane may stay behind its rings before it counts as overloaded: longer than it takes
/// to work off a full ring.
const BEHIND_MAX: Duration = Duration::from_millis(4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{labels, policy, us};
    use weir_core::ids::{Handle, LeafId};
    use weir_core::link::Packet;

    fn link() -> LaneLink {
        LaneLink::new(policy().link.build().expect("the policy is sound"))
    }

    fn books() -> Books {
        Books::new(labels(&policy()), 64)
    }

    /// Has a frame of 60 bytes arrive, which the line sends in 60 us.
    fn arrive(link: &mut LaneLink, books: &mut Books, handle: u32, at: Instant) {
        let packet = Packet::new(Handle(handle), 60);
        assert!(books.reserves.take(LeafId(1)));
        link.push(Arrival { at, leaf: LeafId(1), packet }, &[], &Headers::UNKNOWN);
    }

    /// When a turn begins, up to when rings were seen empty, and a stamp: the link's time after it,
    /// and whether the lane is overloaded.
    #[test]
    fn the_link_is_served_up_to_what_all_rings_have_reached() {
        type Row = (u64, Option<u64>, Option<u64>, u64, bool);
        let rows: [Row; 10] = [
            (10, None, None, 10, false),
            // A stamp may be ahead of the turn.
            (20, None, Some(25), 25, false),
            // Time never goes back.
            (22, None, None, 25, false),
            (40, Some(15), Some(39), 25, false),
            (50, Some(30), None, 30, false),
            // Behind since 40 us: for 4 ms, and longer.
            (4040, Some(35), None, 35, false),
            (4041, Some(36), None, 4041, true),
            (4050, Some(37), Some(4060), 4060, true),
            // The rings were emptied: from now on it counts anew.
            (4070, None, None, 4070, false),
            (9000, Some(5000), None, 5000, false),
        ];
        let (mut link, mut books, mut out) = (link(), books(), Vec::new());
        for (now, seen, stamp, until, is_overloaded) in rows {
            if let Some(stamp) = stamp {
                arrive(&mut link, &mut books, 0, us(stamp));
            }
            let turn = Turn { now: us(now), seen: seen.map(us), looked: None };
            link.serve(turn, &mut out, &mut books.steps);
            let found = (link.pending.now(), link.is_overloaded());
            assert_eq!(found, (us(until), is_overloaded), "{turn:?}");
        }
    }

    /// Three frames come at once. When the link is served: those that left, and what it holds then.
    #[test]
    fn frames_leave_as_the_line_becomes_free() {
        let rows: [(u64, &[u32], usize, Option<u64>); 4] = [
            (0, &[0], 2, Some(60)),
            (59, &[], 2, Some(60)),
            (60, &[1], 1, Some(120)),
            (500, &[2], 0, None),
        ];
        let (mut link, mut books) = (link(), books());
        (0..3).for_each(|handle| arrive(&mut link, &mut books, handle, us(0)));
        assert_eq!(link.held(), 3);
        for (at, left, held, next) in rows {
            let mut out = Vec::new();
            let turn = Turn { now: us(at), seen: None, looked: None };
            link.serve(turn, &mut out, &mut books.steps);
            let handles: Vec<_> = out.iter().map(|departure| departure.handle.0).collect();
            assert_eq!((handles.as_slice(), link.held()), (left, held), "at {at}");
            assert_eq!(link.deadline(), next.map(us), "at {at}");
        }
    }

    /// A frame waits behind another one from 0 us on, and may grow old for 1000 us. When the loop
    /// goes on after a stall of which 100 us count: the frames given up, and the link's time.
    #[test]
    fn a_line_that_starts_anew_gives_up_what_is_of_no_use() {
        for (age, at, forfeited) in [(None, 9000, 0), (Some(1000), 900, 0), (Some(1000), 9000, 1)] {
            let (mut link, mut books) = (link(), books());
            let ages = age.map(|age| vec![Duration::from_micros(age); 2]);
            books.labels.sojourn_max = ages.unwrap_or_default();
            let mut pool = FramePool::for_mtu(4, 1500);
            for _ in 0..2 {
                let frame = pool.insert(&[0; 60]).expect("the pool is empty");
                arrive(&mut link, &mut books, frame.0, us(0));
            }
            let turn = Turn { now: us(0), seen: None, looked: None };
            link.serve(turn, &mut Vec::new(), &mut books.steps);
            link.restart(us(at), us(at - 100), &mut books, &mut pool);
            let found = (books.forfeited, link.held() as u64, pool.free_count() as u64);
            assert_eq!(found, (forfeited, 1 - forfeited, 2 + forfeited), "{age:?}, {at}");
            assert_eq!(link.pending.now(), us(at - 100), "{age:?}, {at}");
        }
    }
}
