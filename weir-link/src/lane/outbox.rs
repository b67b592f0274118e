//! Departures that wait for the interface behind a lane.
//!
//! Invariant: they leave in the order in which the link handed them out, at most [`OUTBOX_MAX`]
//! wait for the next turn, and none is sent that has become too old.

use weir_core::event::Departure;
use weir_core::packet::{LinkType, write_traffic_class};
use weir_core::units::Instant;

use super::books::Books;
use super::loss::Loss;
use crate::pool::{FrameId, FramePool};
use crate::port::{BATCH, Port};
use weir_host::wait::monotonic_ns;

pub(super) struct Outbox {
    pub departures: Vec<Departure>,
    /// How far the first of them was sent, if that is a train of which the port took a part.
    begun: Option<Begun>,
    /// The frames that the port sent, if they are noted.
    left: Option<Vec<Left>>,
}

/// A frame that the port sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub frame: FrameId,
    pub at: Instant,
    /// The bytes that the policy charges for it; of a train, with its last frame.
    pub charged: u64,
}

/// A train of which frames were sent.
#[derive(Clone, Copy)]
struct Begun {
    /// The frame that is next.
    next: FrameId,
    /// When the train arrived; the slot of its first frame may have another one by now.
    stamp: u64,
    /// Whether the port did not send one of them.
    is_lost: bool,
}

/// A frame on its way to the port.
#[derive(Clone, Copy, Default)]
struct Loaded {
    /// The frame behind it in its train.
    next: Option<FrameId>,
}

impl Outbox {
    pub fn new() -> Self {
        Self { departures: Vec::with_capacity(BATCH), begun: None, left: None }
    }

    /// From now on notes which frames the port sends; each turn takes the notes.
    pub fn note_left(&mut self) {
        self.left.get_or_insert_with(|| Vec::with_capacity(OUTBOX_MAX));
    }

    /// Hands over the notes.
    pub fn take_left(&mut self, each: impl FnMut(Left)) {
        self.left.iter_mut().flat_map(|left| left.drain(..)).for_each(each);
    }

    pub fn len(&self) -> usize {
        self.departures.len()
    }

    pub fn is_empty(&self) -> bool {
        self.departures.is_empty()
    }

    /// Drops the departures that are too old to be of use.
    pub fn drop_stale(&mut self, now: Instant, books: &mut Books, pool: &mut FramePool) {
        if self.is_empty() || !books.has_ages() {
            return;
        }
        // Not the turn's time: the process may have been stopped since the turn began.
        let clock = now.max(Instant::from_nanos(monotonic_ns()));
        let is_stale = |books: &Books, pool: &FramePool, departure: &Departure| {
            let stamp = pool.stamp(FrameId(departure.handle.0));
            stamp < books.oldest(departure.leaf, clock).as_nanos()
        };
        if !self.departures.iter().any(|departure| is_stale(books, pool, departure)) {
            return;
        }
        let mut is_begun = self.begun.is_some();
        self.departures.retain(|departure| {
            // The rest of a train follows its first frames.
            let is_stale = !std::mem::take(&mut is_begun) && is_stale(books, pool, departure);
            if is_stale {
                books.lose((departure, first_of(departure)), Loss::Stale, clock, pool);
            }
            !is_stale
        });
    }

    /// Returns each departure that waits, with the number of its frames that do.
    pub fn waiting(&mut self, pool: &FramePool) -> impl Iterator<Item = (&mut Departure, u32)> {
        let mut begun = self.begun;
        self.departures.iter_mut().map(move |departure| {
            let first = begun.take().map_or(first_of(departure), |begun| begun.next);
            (departure, pool.train(first).count() as u32)
        })
    }

    /// Gives the departures to the interface; returns whether it was done with any frame.
    pub fn send(&mut self, books: &mut Books, pool: &mut FramePool, port: &mut dyn Port) -> bool {
        let (mut done, mut is_done_with_any) = (0, false);
        while done < self.len() {
            let batch = self.send_batch(done, books, pool, port);
            done += batch.ended;
            is_done_with_any |= batch.taken > 0;
            if batch.taken < batch.offered {
                break;
            }
        }
        self.departures.drain(..done);
        is_done_with_any
    }

    /// Gives the departures behind the first `done` to the interface, as many frames as a batch
    /// has.
    fn send_batch(
        &mut self,
        done: usize,
        books: &mut Books,
        pool: &mut FramePool,
        port: &mut dyn Port,
    ) -> Batch {
        let (mut frames, mut loaded) = ([FrameId(0); BATCH], [Loaded::default(); BATCH]);
        let offered = self.load(done, (&mut frames, &mut loaded), pool);
        let sent = port.send(pool, &frames[..offered]);
        assert!(sent.taken <= offered, "a port takes frames that it is given");
        let now = Instant::from_nanos(monotonic_ns());
        let mut ended = 0;
        for (index, loaded) in loaded[..sent.taken].iter().enumerate() {
            let departure = &self.departures[done + ended];
            let first = first_of(departure);
            let fresh = || Begun { next: first, stamp: pool.stamp(first), is_lost: false };
            let mut begun = self.begun.take().unwrap_or_else(fresh);
            begun.is_lost |= sent.is_lost(index);
            if let Some(left) = self.left.as_mut().filter(|_| !sent.is_lost(index)) {
                let charged = if loaded.next.is_none() { departure.charged.get() } else { 0 };
                left.push(Left { frame: frames[index], at: now, charged });
            }
            if let Some(next) = loaded.next {
                books.part_sent(departure.leaf);
                self.begun = Some(Begun { next, ..begun });
                continue;
            }
            ended += 1;
            match begun.is_lost {
                true => books.not_sent(departure, now),
                false => books.sent(departure, begun.stamp, now),
            }
        }
        Batch { offered, taken: sent.taken, ended }
    }

    /// Lays out the frames of the departures behind the first `done`, with their marks written;
    /// returns how many they are.
    fn load(
        &self,
        done: usize,
        (frames, loaded): (&mut [FrameId; BATCH], &mut [Loaded; BATCH]),
        pool: &mut FramePool,
    ) -> usize {
        let (mut begun, mut count) = (self.begun, 0);
        for departure in &self.departures[done..] {
            let mut next = Some(begun.take().map_or(first_of(departure), |begun| begun.next));
            while let Some(frame) = next {
                if count == BATCH {
                    return count;
                }
                next = pool.coupled(frame);
                if let Some(traffic_class) = departure.mark.written() {
                    // May run again if the interface was busy, without effect.
                    write_traffic_class(LinkType::Ethernet, pool.bytes_mut(frame), traffic_class);
                }
                (frames[count], loaded[count]) = (frame, Loaded { next });
                count += 1;
            }
        }
        count
    }

    /// Drops the oldest frames of a busy interface beyond [`OUTBOX_MAX`].
    pub fn shed(&mut self, now: Instant, books: &mut Books, pool: &mut FramePool) {
        let excess = self.len().saturating_sub(OUTBOX_MAX);
        self.lose_first(excess, Loss::BusyPort, now, books, pool);
        assert!(self.len() <= OUTBOX_MAX, "the outbox has its bound");
    }

    /// Gives up all frames.
    pub fn flush(&mut self, now: Instant, books: &mut Books, pool: &mut FramePool) {
        self.lose_first(self.len(), Loss::Flushed, now, books, pool);
    }

    fn lose_first(
        &mut self,
        count: usize,
        cause: Loss,
        now: Instant,
        books: &mut Books,
        pool: &mut FramePool,
    ) {
        for departure in self.departures.drain(..count) {
            let first = self.begun.take().map_or(first_of(&departure), |begun| begun.next);
            books.lose((&departure, first), cause, now, pool);
        }
    }
}

/// Returns the first frame of a departure.
fn first_of(departure: &Departure) -> FrameId {
    FrameId(departure.handle.0)
}

/// The frames of one call: how many there were, and how far the port came.
struct Batch {
    offered: usize,
    taken: usize,
    /// Departures whose last frame was taken.
    ended: usize,
}

/// Bound: packets that wait for a busy interface; the oldest are dropped.
const OUTBOX_MAX: usize = 1024;
/// With so many the lane counts as jammed: what one turn adds still has room.
pub(super) const JAMMED: usize = OUTBOX_MAX / 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{frame, labels, policy};
    use crate::port::mem::{Cable, Mem};
    use weir_core::event::Mark;
    use weir_core::ids::{Handle, LeafId};
    use weir_core::units::{Bytes, Duration};

    const FRAMES: u32 = 2048;
    const LEAF: LeafId = LeafId(1);

    /// An outbox before a port in memory.
    struct Scene {
        outbox: Outbox,
        books: Books,
        pool: FramePool,
        port: Mem,
        cable: Cable,
    }

    impl Scene {
        fn new() -> Self {
            let (port, cable) = Mem::new("mem", 1);
            let books = Books::new(labels(&policy()), FRAMES);
            let pool = FramePool::for_mtu(FRAMES, 1500);
            Self { outbox: Outbox::new(), books, pool, port, cable }
        }

        /// Has a frame with this stamp leave the link.
        fn hand_out(&mut self, stamp: u64, mark: Mark) {
            let frame = self.pool.insert(&frame(2)).expect("the pool has a frame");
            self.pool.set_stamp(frame, stamp);
            assert!(self.books.reserves.take(LEAF));
            let (handle, charged) = (Handle(frame.0), Bytes::new(60));
            let departure = Departure { handle, leaf: LEAF, charged, mark, ..Departure::default() };
            self.outbox.departures.push(departure);
        }

        fn turn(&mut self, now: Instant) -> bool {
            self.outbox.drop_stale(now, &mut self.books, &mut self.pool);
            let worked = self.outbox.send(&mut self.books, &mut self.pool, &mut self.port);
            self.outbox.shed(now, &mut self.books, &mut self.pool);
            assert_eq!(self.outbox.len(), self.books.reserves.held(), "each has room");
            assert_eq!(self.outbox.len() + self.pool.free_count(), FRAMES as usize);
            worked
        }

        fn lost(&self, cause: Loss) -> usize {
            self.books.losses.leaves[LEAF.index()][cause as usize].packets as usize
        }
    }

    /// How many departures wait and how many the port takes: those sent, left and shed.
    #[test]
    fn a_busy_port_keeps_frames_up_to_a_bound() {
        let rows = [
            (0, usize::MAX, [0, 0, 0]),
            (3, usize::MAX, [3, 0, 0]),
            (3, 2, [2, 1, 0]),
            (200, 130, [130, 70, 0]),
            (OUTBOX_MAX, 0, [0, OUTBOX_MAX, 0]),
            (OUTBOX_MAX + 76, 0, [0, OUTBOX_MAX, 76]),
            (OUTBOX_MAX + 76, 70, [70, OUTBOX_MAX, 6]),
        ];
        for (count, room, [sent, left, shed]) in rows {
            let mut scene = Scene::new();
            (0..count).for_each(|_| scene.hand_out(0, Mark::default()));
            let oldest = scene.outbox.departures.get(sent + shed).map(|next| next.handle);
            scene.cable.set_room(room);
            assert_eq!(scene.turn(Instant::ZERO), sent > 0, "{count} {room}");
            let found = [scene.cable.take_sent().len(), scene.outbox.len()];
            assert_eq!((found, scene.lost(Loss::BusyPort)), ([sent, left], shed));
            // Of those that the port does not take, the oldest are shed.
            assert_eq!(scene.outbox.departures.first().map(|first| first.handle), oldest);
        }
    }

    /// Frames that waited for so many minutes where an hour is allowed: those that are sent.
    #[test]
    fn what_has_become_too_old_is_not_sent() {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        // Later than the clock that `drop_stale` reads.
        let now = Instant::from_nanos(monotonic_ns()).after(minutes(600));
        let rows: [(&[u64], usize); 4] = [(&[], 0), (&[30], 1), (&[90], 0), (&[120, 30, 90, 0], 2)];
        for (ages, sent) in rows {
            let mut scene = Scene::new();
            scene.books.labels.sojourn_max = vec![minutes(60); 2];
            for age in ages {
                scene.hand_out(now.before(minutes(*age)).as_nanos(), Mark::default());
            }
            scene.turn(now);
            assert_eq!(scene.cable.take_sent().len(), sent, "{ages:?}");
            assert_eq!(scene.lost(Loss::Stale), ages.len() - sent, "{ages:?}");
        }
    }

    #[test]
    fn a_mark_is_written_into_the_frame() {
        for (mark, written, marked) in [(None, 0, 0), (Some(0x2e << 2), 0x2e << 2, 1)] {
            let mut scene = Scene::new();
            scene.hand_out(0, Mark::new(mark));
            scene.turn(Instant::ZERO);
            let sent = scene.cable.take_sent();
            assert_eq!((sent[0][15], scene.books.marked[LEAF.index()].packets), (written, marked));
        }
    }
}
