//! Where the run loop leaves its newest snapshot for readers.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use weir_core::ids::LeafId;
use weir_core::units::Instant;

use super::Status;
use super::counts::{Labels, Rows, Snapshot};
use super::history::{Recents, Windowed};
use crate::intake::Intake;
use crate::recorder::Seat;
use weir_host::wait::monotonic_ns;

/// The newest snapshot of a run loop, and the requests for newer ones.
#[derive(Default)]
pub struct Board {
    /// The number of requests so far: the ticket of the newest.
    tickets: AtomicU64,
    marking: AtomicBool,
    /// How many readers wait for counts of hosts.
    host_readers: AtomicU32,
    polls: AtomicU64,
    published: Mutex<Option<Arc<Snapshot>>>,
    changed: Condvar,
    /// Whether the bridge's ports take frames.
    pub intake: Intake,
    /// The place where a recorder registers.
    pub recording: Seat,
    /// The last seconds of the loop.
    pub(super) windowed: Windowed,
}

impl Board {
    /// A board on which nothing is published.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the status at a moment after this call; `None` if the loop gives none within
    /// `patience`.
    pub fn ask(&self, patience: Duration) -> Option<Status> {
        self.newer(patience).map(|snapshot| self.whole(&snapshot))
    }

    /// As [`Board::ask`], with the delays of each class in bins.
    pub fn ask_with_bins(&self, patience: Duration) -> Option<Status> {
        let snapshot = self.newer(patience)?;
        let rows = |lane: usize, first: usize| {
            let leaves = 0..snapshot.labels.lanes[lane].leaves.len() as u32;
            let rows = Rows::new(&snapshot, None, (lane, first), leaves.map(LeafId));
            rows.with_bins(&snapshot, first)
        };
        Some(snapshot.status(Instant::from_nanos(monotonic_ns()), None, rows).whole())
    }

    /// As [`Board::ask`], and the measurement of delays restarts after it. Counters continue, so
    /// that they still balance; take differences.
    pub fn mark(&self, patience: Duration) -> Option<Status> {
        self.request_mark();
        self.ask(patience)
    }

    /// Lets the measurement of delays restart soon, and does not wait for it.
    pub fn request_mark(&self) {
        self.marking.store(true, Ordering::Relaxed);
        self.tickets.fetch_add(1, Ordering::Release);
    }

    /// Returns the last status that the loop gave, however old, and does not wait for a newer one.
    /// `None` if it gave none yet.
    pub fn latest(&self) -> Option<Status> {
        self.lock().as_ref().map(Arc::clone).map(|snapshot| self.whole(&snapshot))
    }

    /// Returns a snapshot that is taken after this call; `None` if the loop gives none within
    /// `patience`.
    pub(super) fn newer(&self, patience: Duration) -> Option<Arc<Snapshot>> {
        let ticket = self.tickets.fetch_add(1, Ordering::AcqRel) + 1;
        let is_older = |published: &mut Option<Arc<Snapshot>>| {
            published.as_ref().is_none_or(|snapshot| snapshot.ticket < ticket)
        };
        let (published, timeout) = self
            .changed
            .wait_timeout_while(self.lock(), patience, is_older)
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() { None } else { published.as_ref().map(Arc::clone) }
    }

    /// As [`Board::newer`], but if the loop gives none, the last one that it gave.
    pub(super) fn newer_or_last(&self, patience: Duration) -> Option<Arc<Snapshot>> {
        self.newer(patience).or_else(|| self.lock().as_ref().map(Arc::clone))
    }

    /// Returns the last snapshot that the loop gave, or waits for the first.
    pub(super) fn last(&self, patience: Duration) -> Option<Arc<Snapshot>> {
        let last = self.lock().as_ref().map(Arc::clone);
        last.or_else(|| self.newer(patience))
    }

    /// As [`Board::newer_or_last`], with counts of hosts if the loop gives new ones.
    pub(super) fn newer_with_hosts(&self, patience: Duration) -> Option<Arc<Snapshot>> {
        self.host_readers.fetch_add(1, Ordering::AcqRel);
        let snapshot = self.newer_or_last(patience);
        self.host_readers.fetch_sub(1, Ordering::AcqRel);
        snapshot
    }

    /// Returns whether a reader waits for counts of hosts.
    pub(super) fn wants_hosts(&self) -> bool {
        self.host_readers.load(Ordering::Acquire) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ticket of the newest request.
    pub(super) fn newest_ticket(&self) -> u64 {
        self.tickets.load(Ordering::Acquire)
    }

    /// Returns how often the loop has polled the board: a loop that hangs does not.
    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Counts a poll by the loop.
    pub(super) fn count_poll(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a mark was requested since the last call.
    pub(super) fn take_mark(&self) -> bool {
        self.marking.load(Ordering::Relaxed) && self.marking.swap(false, Ordering::Relaxed)
    }

    /// Publishes a snapshot, unless a reader has the board; returns whether it did.
    pub(super) fn try_publish(&self, snapshot: &Arc<Snapshot>) -> bool {
        let mut published = match self.published.try_lock() {
            Ok(published) => published,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let last = published.as_ref().map_or(0, |last| last.ticket);
        assert!(last <= snapshot.ticket, "snapshots are published in the order of requests");
        *published = Some(Arc::clone(snapshot));
        drop(published);
        self.changed.notify_all();
        true
    }

    /// Returns what the loop did in the last seconds; `None` if that is not known, or of a time
    /// with other labels.
    pub(super) fn recents(&self, labels: &Arc<Labels>) -> Option<Arc<Recents>> {
        self.windowed.of(labels)
    }

    /// Makes the status of all classes of a snapshot.
    fn whole(&self, snapshot: &Snapshot) -> Status {
        let recents = self.recents(&snapshot.labels);
        let rows = |lane: usize, first: usize| {
            let leaves = 0..snapshot.labels.lanes[lane].leaves.len() as u32;
            Rows::new(snapshot, recents.as_deref(), (lane, first), leaves.map(LeafId))
        };
        snapshot.status(Instant::from_nanos(monotonic_ns()), recents.as_deref(), rows).whole()
    }
}
