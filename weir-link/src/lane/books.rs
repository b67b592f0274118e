//! The counts of a lane's leaves, and its notes for readers and records.
//!
//! Tables by leaf have one row more, for leaves that a change removed: frames of theirs that were
//! in the outbox then, and what was counted of them. Invariant: each frame that the lane accepted
//! has room until it was sent, dropped or lost, and that is noted once.

use weir_core::account::{Count, Histogram, LeafAccount};
use weir_core::event::{Departure, Dropped, Marked};
use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, Arrival};
use weir_core::sched::Borrowed;
use weir_core::units::Instant;
use weir_trace::record::Step;

use super::limits::Limits;
use super::loss::{Loss, LossBook};
use super::reserves::Reserves;
use crate::alarm::LeafMeasures;
use crate::pool::{FrameId, FramePool};
use crate::recorder::Steps;
use crate::status::{LaneLabels, LeafCounts, Shape};

pub(super) struct Books {
    /// Names from its policy and its deployment, for readers.
    pub labels: LaneLabels,
    pub places: Places,
    pub reserves: Reserves,
    /// Frames lost outside the link.
    pub losses: LossBook,
    pub limits: Limits,
    /// For each leaf, frames that left with another traffic class than they arrived with.
    pub marked: Vec<Marked>,
    /// For each leaf, the time from the kernel's stamp to handing the frame to the other interface;
    /// empty unless the labels say that delays are measured.
    pub delays: Vec<Histogram>,
    /// Frames that the link dropped after a stall because they were too old.
    pub forfeited: u64,
    /// Frames that ride behind the first of their train: packets count trains as one.
    pub riders: usize,
    /// Whether the frames that wait are given up: see [`super::Lane::flush`].
    pub is_flushed: bool,
    /// The steps of this turn, for a record.
    pub steps: Steps,
}

/// The classes that have the places of a policy, and what those before them had borrowed.
pub(super) struct Places {
    /// The leaf of the first place.
    first: usize,
    /// The number of the class that has each place.
    tenants: Vec<u32>,
    /// For each place, what classes that left it had borrowed.
    borrowed_before: Vec<Borrowed>,
}

impl Books {
    pub fn new(labels: LaneLabels, frames_max: u32) -> Self {
        let leaves = labels.leaves.len();
        let measured = if labels.has_delays { leaves } else { 0 };
        Self {
            places: Places::of(&labels.shape),
            reserves: Reserves::new(frames_max, leaves),
            losses: LossBook::new(leaves),
            limits: Limits::new(leaves),
            marked: vec![Marked::default(); leaves + 1],
            forfeited: 0,
            riders: 0,
            is_flushed: false,
            steps: Steps::default(),
            delays: vec![Histogram::new(); measured],
            labels,
        }
    }

    /// Returns when the oldest frame of `leaf` arrived that may still be sent at `clock`.
    #[inline]
    pub fn oldest(&self, leaf: LeafId, clock: Instant) -> Instant {
        let age = self.labels.sojourn_max.get(leaf.index());
        age.map_or(Instant::ZERO, |age| clock.before(*age))
    }

    /// Returns whether frames become too old.
    pub fn has_ages(&self) -> bool {
        !self.labels.sojourn_max.is_empty()
    }

    /// Returns the longest train, in bytes, that passes as one packet of `leaf`; 0 where each frame
    /// passes by itself.
    #[inline]
    pub fn train_max(&self, leaf: LeafId) -> u32 {
        self.labels.train_max.get(leaf.index()).copied().unwrap_or(0)
    }

    /// Takes room for a packet of so many frames with this stamp; returns why it cannot be
    /// accepted, if so.
    pub fn admit(
        &mut self,
        (leaf, frames): (LeafId, u32),
        stamp: Instant,
        now: Instant,
    ) -> Option<Loss> {
        if self.oldest(leaf, now) > stamp {
            return Some(Loss::StaleOnArrival);
        }
        if !self.reserves.take_all(leaf, frames) {
            return Some(Loss::Pool);
        }
        self.riders += frames as usize - 1;
        None
    }

    /// Gives back the room of a train that was freed, or is to be.
    fn give_back(&mut self, leaf: LeafId, frames: u32) {
        (0..frames).for_each(|_| self.reserves.give_back(leaf));
        self.riders -= frames as usize - 1;
    }

    /// Gives back the room of a frame of a train that was sent while others of it wait.
    pub fn part_sent(&mut self, leaf: LeafId) {
        self.reserves.give_back(leaf);
        self.riders -= 1;
    }

    /// Frees the frames of an arrival that was not accepted.
    pub fn refuse(&mut self, arrival: &Arrival, cause: Loss, now: Instant, pool: &mut FramePool) {
        let Arrival { leaf, packet, .. } = *arrival;
        self.losses.count(leaf, cause, u64::from(packet.length));
        self.steps.lost(cause, (packet.handle, leaf), packet.length, now);
        pool.release_train(FrameId(packet.handle.0));
    }

    /// Frees a packet that the link dropped.
    pub fn dropped(&mut self, dropped: Dropped, pool: &mut FramePool) {
        self.steps.note(&Step::Dropped(dropped));
        let frames = pool.release_train(FrameId(dropped.handle.0));
        self.give_back(dropped.leaf, frames);
    }

    /// Frees the frames of a departure, from `first` on, that will not be sent.
    pub fn lose(
        &mut self,
        (departure, first): (&Departure, FrameId),
        cause: Loss,
        at: Instant,
        pool: &mut FramePool,
    ) {
        self.steps.lost_after(cause, departure, at);
        self.losses.count(departure.leaf, cause, departure.charged.get());
        let frames = pool.release_train(first);
        self.give_back(departure.leaf, frames);
    }

    /// Counts a departure with this stamp whose last frame the port took over at `now` and sends.
    #[inline]
    pub fn sent(&mut self, departure: &Departure, stamp: u64, now: Instant) {
        self.reserves.count_found();
        self.reserves.give_back(departure.leaf);
        self.steps.note(&Step::Sent { handle: departure.handle, at: now });
        let leaf = departure.leaf.index();
        if let Some(delays) = self.delays.get_mut(leaf) {
            // The link may have counted its arrival later: see `LaneLink::until`.
            delays.record(now.since(Instant::from_nanos(stamp)));
        }
        self.marked[leaf].count(departure.mark);
    }

    /// Counts a departure whose last frame the port took over at `now`, and of which it did not
    /// send all.
    pub fn not_sent(&mut self, departure: &Departure, now: Instant) {
        self.reserves.count_found();
        self.reserves.give_back(departure.leaf);
        self.losses.count(departure.leaf, Loss::NotSent, departure.charged.get());
        self.steps.lost_after(Loss::NotSent, departure, now);
    }

    /// Returns the frames that were too old to be sent, as after a stall.
    pub fn stale(&self) -> u64 {
        let lost = |cause: Loss| self.losses.total[cause as usize];
        self.forfeited + lost(Loss::Stale) + lost(Loss::StaleOnArrival)
    }

    /// Returns what alarms measure of a leaf with this account.
    pub fn measures(&self, leaf: LeafId, account: &LeafAccount) -> LeafMeasures {
        let losses = &self.losses.leaves[leaf.index()];
        let sum = |causes: &[Loss], of: fn(&Count) -> u64| -> u64 {
            causes.iter().map(|cause| of(&losses[*cause as usize])).sum()
        };
        let before = sum(&Loss::BEFORE, |count| count.packets);
        let after = sum(&Loss::AFTER, |count| count.packets);
        LeafMeasures {
            offered: account.offered.packets + before,
            dropped: account.dropped_total().packets + before + after,
            sent_bytes: account.sent.bytes - sum(&Loss::AFTER, |count| count.bytes),
            delays: self.delays.get(leaf.index()).cloned().unwrap_or_default(),
            ..LeafMeasures::default()
        }
    }

    /// Returns the counts of a leaf, with what its link counted.
    pub fn counts(&self, leaf: LeafId, link: &dyn AnyLink) -> LeafCounts {
        let index = leaf.index();
        let counts = LeafCounts {
            account: link.leaf_account(leaf),
            losses: self.losses.leaves[index],
            marked: self.marked[index],
            borrowed: self.places.borrowed(index, link.borrowed(leaf)),
            overlimit_ns: self.limits.held_ns(index),
            tenant: self.places.tenant(index),
        };
        if self.is_flushed { counts.flushed() } else { counts }
    }

    /// Returns what was counted of leaves that changes removed.
    pub fn retired(&self, link: &dyn AnyLink) -> LeafCounts {
        let row = self.reserves.removed();
        LeafCounts {
            account: link.retired(),
            losses: self.losses.leaves[row],
            marked: self.marked[row],
            ..LeafCounts::default()
        }
    }

    /// Copies the delays of a leaf; with `mark`, their measurement restarts.
    pub fn copy_delays(&mut self, leaf: usize, mark: bool, to: &mut Histogram) {
        if let Some(delays) = self.delays.get_mut(leaf) {
            to.copy_from(delays);
            if mark {
                delays.clear();
            }
        }
    }

    /// Counts what was counted of a leaf that leaves as of the removed ones; it had borrowed this.
    pub fn retire(&mut self, leaf: LeafId, borrowed: Borrowed) {
        let (index, removed) = (leaf.index(), self.reserves.removed());
        assert!(index < removed, "the row of removed leaves is none of them");
        let marked = std::mem::take(&mut self.marked[index]);
        self.marked[removed].add(marked);
        let losses = std::mem::take(&mut self.losses.leaves[index]);
        self.losses.add(removed, &losses);
        if let Some(delays) = self.delays.get_mut(index) {
            delays.clear();
        }
        self.limits.forget(index);
        self.places.leave(index, borrowed);
    }
}

impl Places {
    fn of(shape: &Shape) -> Self {
        let tenants = shape.tenants().numbers();
        let borrowed_before = vec![Borrowed::default(); tenants.len()];
        Self { first: shape.tenants().first(), tenants, borrowed_before }
    }

    /// Returns the place that a leaf is.
    fn of_leaf(&self, leaf: usize) -> Option<usize> {
        leaf.checked_sub(self.first).filter(|place| *place < self.tenants.len())
    }

    /// Returns the number of the class that has a leaf; 0 for one that is no place.
    fn tenant(&self, leaf: usize) -> u32 {
        self.of_leaf(leaf).map_or(0, |place| self.tenants[place])
    }

    /// Gives a leaf that is a place to the class with this number; 0 for none.
    pub fn seat(&mut self, leaf: LeafId, tenant: u32) {
        if let Some(place) = self.of_leaf(leaf.index()) {
            self.tenants[place] = tenant;
        }
    }

    /// Notes what the leaf had borrowed when a class left it.
    fn leave(&mut self, leaf: usize, borrowed: Borrowed) {
        if let Some(place) = self.of_leaf(leaf) {
            self.borrowed_before[place] = borrowed;
        }
    }

    /// Returns what the class of a leaf borrowed, of `all` that the leaf has.
    fn borrowed(&self, leaf: usize, mut all: Borrowed) -> Borrowed {
        if let Some(place) = self.of_leaf(leaf) {
            let before = &self.borrowed_before[place];
            all.iter_mut().zip(before).for_each(|(all, before)| *all = all.saturating_sub(*before));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{labels, policy, us};
    use weir_core::ids::Handle;
    use weir_core::link::Packet;
    use weir_core::units::{Bytes, Duration};

    const LEAF: LeafId = LeafId(1);

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fate {
        Waits,
        Sent,
        NotSent,
        Lost(Loss),
    }

    /// The rows say what happens to a departure of 60 bytes, which the link counts as sent: the
    /// packets offered and dropped and the bytes sent, as alarms measure them.
    #[test]
    fn each_fate_of_a_frame_is_counted_once() {
        let rows = [
            (Fate::Waits, [1, 0, 60]),
            (Fate::Sent, [1, 0, 60]),
            (Fate::NotSent, [1, 1, 0]),
            (Fate::Lost(Loss::Stale), [1, 1, 0]),
            (Fate::Lost(Loss::BusyPort), [1, 1, 0]),
            (Fate::Lost(Loss::Flushed), [1, 1, 0]),
        ];
        for (fate, [offered, dropped, sent_bytes]) in rows {
            let mut books = Books::new(labels(&policy()), 64);
            let mut pool = FramePool::for_mtu(1, 1500);
            let handle = Handle(pool.insert(&[0; 60]).expect("the pool is empty").0);
            assert_eq!(books.admit((LEAF, 1), us(0), us(0)), None);
            let charged = Bytes::new(60);
            let departure = Departure { handle, leaf: LEAF, charged, ..Departure::default() };
            match fate {
                Fate::Waits => {}
                Fate::Sent => books.sent(&departure, 0, us(5)),
                Fate::NotSent => books.not_sent(&departure, us(5)),
                Fate::Lost(cause) => {
                    books.lose((&departure, FrameId(handle.0)), cause, us(5), &mut pool);
                }
            }
            let passed = Count { packets: 1, bytes: 60 };
            let account = LeafAccount { offered: passed, sent: passed, ..LeafAccount::default() };
            let measures = books.measures(LEAF, &account);
            let found = [measures.offered, measures.dropped, measures.sent_bytes];
            assert_eq!(found, [offered, dropped, sent_bytes], "{fate:?}");
            assert_eq!(books.reserves.held(), usize::from(fate == Fate::Waits), "{fate:?}");
            // The port frees a frame that it took over.
            let is_freed = matches!(fate, Fate::Lost(_));
            assert_eq!(pool.free_count(), usize::from(is_freed), "{fate:?}");
            let delays: u64 = books.delays[LEAF.index()].counts().map(|bin| bin.1).sum();
            assert_eq!(delays, u64::from(fate == Fate::Sent), "{fate:?}");
        }
    }

    /// For a leaf that may hold six of eight frames, with an age of 1000 us: the stamp and the
    /// instant of a frame, and how many the leaf holds.
    #[test]
    fn a_frame_is_refused_that_is_too_old_or_has_no_room() {
        let rows = [
            (0, 0, 0, None),
            (0, 1000, 0, None),
            (0, 1001, 0, Some(Loss::StaleOnArrival)),
            (5000, 5000, 5, None),
            (5000, 5000, 6, Some(Loss::Pool)),
            // Age comes first: such a frame takes no room.
            (0, 5000, 6, Some(Loss::StaleOnArrival)),
        ];
        for (stamp, now, holds, refusal) in rows {
            let mut books = Books::new(labels(&policy()), 8);
            books.labels.sojourn_max = vec![Duration::from_micros(1000); 2];
            (0..holds).for_each(|_| assert!(books.reserves.take(LEAF)));
            assert_eq!(
                books.admit((LEAF, 1), us(stamp), us(now)),
                refusal,
                "{stamp} {now} {holds}"
            );
            let mut pool = FramePool::for_mtu(1, 1500);
            let Some(cause) = refusal else { continue };
            let handle = Handle(pool.insert(&[0; 60]).expect("the pool is empty").0);
            let packet = Packet::new(handle, 60);
            books.refuse(&Arrival { at: us(now), leaf: LEAF, packet }, cause, us(now), &mut pool);
            let measures = books.measures(LEAF, &LeafAccount::default());
            assert_eq!((measures.offered, measures.dropped, measures.sent_bytes), (1, 1, 0));
            assert_eq!((books.reserves.held(), pool.free_count()), (holds, 1));
        }
    }

    #[test]
    fn a_class_that_leaves_takes_its_counts_to_the_row_of_removed_leaves() {
        let mut books = Books::new(labels(&policy()), 64);
        books.losses.count(LEAF, Loss::Pool, 60);
        books.marked[LEAF.index()].packets = 3;
        books.delays[LEAF.index()].record(Duration::from_micros(7));
        books.retire(LEAF, Borrowed::default());
        let row = books.reserves.removed();
        let of = |row: usize| (books.losses.leaves[row][0].packets, books.marked[row].packets);
        assert_eq!([of(LEAF.index()), of(row)], [(0, 0), (1, 3)]);
        assert_eq!(books.delays[LEAF.index()].counts().count(), 0);
    }
}
