//! The recorder: every call that the cores of a run loop get, what came of it, and what was lost
//! outside them, for another thread to write ([`weir_trace::record`]).
//!
//! A loop that records appends the steps of each lane to a buffer of the lane, and hands them over
//! at the end of the turn, by a queue of bytes without locks (`queue.rs`). It takes no lock, and
//! memory only where a turn has more steps than any before. Invariant: a record has each step of
//! its lanes from its first to its last, or it says that it ends for want of room: what the other
//! thread does not take in time ends the record and never keeps the loop.

pub mod history;
mod queue;
mod session;
mod steps;
mod tap;

pub use session::{Progress, Session};
pub(crate) use steps::Steps;
pub(crate) use tap::Taps;

use queue::Sender;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use weir_core::units::Instant;
use weir_host::wait::{monotonic_ns, realtime_ns};

/// Bound: bytes of steps that wait for the thread that writes them; a record whose steps find no
/// room ends, and tells why. A fifth of a second of 300 000 frames a second, with the state of a
/// link of some ten thousand classes.
pub const BUFFER_BYTES: usize = 32 << 20;

/// Bound: records at a time of one run loop; a request for another is refused.
pub const RECORDS_MAX: usize = 4;

/// Returns the wall clock at instant 0 of the run loops, in nanoseconds since 1970.
pub fn epoch_ns() -> u64 {
    realtime_ns().saturating_sub(monotonic_ns())
}

/// Where another thread asks a run loop to record.
#[derive(Default)]
pub struct Seat {
    is_taken: AtomicBool,
    new: Mutex<Vec<Sender>>,
    /// The first instant in the ring; 0 if it has nothing.
    kept_since: AtomicU64,
}

impl Seat {
    /// Has the loop send steps from its next turn on.
    fn ask(&self, sender: Sender) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        self.is_taken.store(true, Ordering::Release);
    }

    /// Returns how long the ring of this loop reaches back; `None` if it has nothing.
    pub fn kept_ns(&self) -> Option<u64> {
        let since = self.kept_since.load(Ordering::Relaxed);
        (since > 0).then(|| monotonic_ns().saturating_sub(since))
    }

    /// Notes the first instant in the ring.
    fn keep_since(&self, first: Option<Instant>) {
        self.kept_since.store(first.map_or(0, Instant::as_nanos), Ordering::Relaxed);
    }

    /// Returns who else wants steps, for the loop: it does not wait.
    pub(crate) fn take(&self) -> Option<Vec<Sender>> {
        if !self.is_taken.load(Ordering::Acquire) {
            return None;
        }
        let mut new = match self.new.try_lock() {
            Ok(new) => new,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.is_taken.store(false, Ordering::Relaxed);
        Some(std::mem::take(&mut *new))
    }
}
