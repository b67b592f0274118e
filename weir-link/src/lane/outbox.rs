//! Departures that wait for the interface behind a lane.
//!
//! Invariant: they leave in the order in which the link handed them out, at most [`OUTBOX_MAX`]
//! wait for the next turn, and none is sent that has become too old.

use std::ops::Range;

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
    /// The frames that the port sent, if they are noted.
    left: Option<Vec<Left>>,
}

/// A frame that the port sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub frame: FrameId,
    pub at: Instant,
    /// The bytes that the policy charges for it.
    pub charged: u64,
}

impl Outbox {
    pub fn new() -> Self {
        Self { departures: Vec::with_capacity(BATCH), left: None }
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
        self.departures.retain(|departure| {
            let is_stale = is_stale(books, pool, departure);
            if is_stale {
                books.lose(departure, Loss::Stale, clock, pool);
            }
            !is_stale
        });
    }

    /// Gives the departures to the interface; returns whether it was done with any.
    pub fn send(&mut self, books: &mut Books, pool: &mut FramePool, port: &mut dyn Port) -> bool {
        let mut done = 0;
        while done < self.len() {
            let batch = done..self.len().min(done + BATCH);
            let taken = self.send_batch(batch.clone(), books, pool, port);
            done += taken;
            if taken < batch.len() {
                break;
            }
        }
        self.departures.drain(..done);
        done > 0
    }

    /// Gives these departures to the interface; returns how many it took over.
    fn send_batch(
        &mut self,
        batch: Range<usize>,
        books: &mut Books,
        pool: &mut FramePool,
        port: &mut dyn Port,
    ) -> usize {
        let batch = &self.departures[batch];
        let mut frames = [FrameId(0); BATCH];
        for (frame, departure) in frames.iter_mut().zip(batch) {
            *frame = FrameId(departure.handle.0);
            if let Some(traffic_class) = departure.mark.written() {
                // May run again if the interface was busy, without effect.
                write_traffic_class(LinkType::Ethernet, pool.bytes_mut(*frame), traffic_class);
            }
        }
        let sent = port.send(pool, &frames[..batch.len()]);
        assert!(sent.taken <= batch.len(), "a port takes frames that it is given");
        let now = Instant::from_nanos(monotonic_ns());
        for (index, departure) in batch[..sent.taken].iter().enumerate() {
            if sent.is_lost(index) {
                books.not_sent(departure, now);
            } else {
                books.sent(departure, now, pool);
                if let Some(left) = &mut self.left {
                    let (frame, charged) = (FrameId(departure.handle.0), departure.charged.get());
                    left.push(Left { frame, at: now, charged });
                }
            }
        }
        sent.taken
    }

    /// Drops the oldest frames of a busy interface beyond [`OUTBOX_MAX`].
    pub fn shed(&mut self, now: Instant, books: &mut Books, pool: &mut FramePool) {
        let excess = self.len().saturating_sub(OUTBOX_MAX);
        for departure in self.departures.drain(..excess) {
            books.lose(&departure, Loss::BusyPort, now, pool);
        }
        assert!(self.len() <= OUTBOX_MAX, "the outbox has its bound");
    }

    /// Gives up all frames.
    pub fn flush(&mut self, now: Instant, books: &mut Books, pool: &mut FramePool) {
        for departure in self.departures.drain(..) {
            books.lose(&departure, Loss::Flushed, now, pool);
        }
    }
}

/// Bound: frames that wait for a busy interface; the oldest are dropped.
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
            assert_eq!((sent[0][15], scene.books.marked[LEAF.index()]), (written, marked));
        }
    }
}
