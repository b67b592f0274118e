//! Whether the ports of a bridge take frames: another thread says what it wants, and the run loop
//! says what it did.
//!
//! While the intake is closed, the kernel hands the ports no frame and everything else is ready.
//! So one bridge takes over from another: the one closes its intake, and then the other opens its
//! own. No frame is taken twice; those that arrive between the two are lost.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub struct Intake {
    /// [`UNSAID`], [`CLOSED`] or [`OPEN`].
    wanted: AtomicU8,
    done: Mutex<Option<Done>>,
    changed: Condvar,
}

/// What the loop did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The intake is open.
    pub is_open: bool,
    /// Each port could do it at once. One that cannot yet, such as an AF_XDP port whose queue still
    /// belongs to another process, tries again by itself.
    pub by_all: bool,
}

const UNSAID: u8 = 0;
const CLOSED: u8 = 1;
const OPEN: u8 = 2;

impl Intake {
    /// Says whether the ports should take frames. The loop follows when it runs the next time: wake
    /// it.
    pub fn want(&self, open: bool) {
        self.wanted.store(if open { OPEN } else { CLOSED }, Ordering::Release);
    }

    /// Waits until the loop has followed to `open`; `None` if it has not within `patience`.
    pub fn wait(&self, open: bool, patience: Duration) -> Option<Done> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |done: &Option<Done>| done.is_some_and(|done| done.is_open == open);
        let (done, _) = self
            .changed
            .wait_timeout_while(done, patience, |done| !is_there(done))
            .unwrap_or_else(PoisonError::into_inner);
        done.filter(|done| done.is_open == open)
    }

    /// Returns what is wanted; `None` if nothing was said as yet. For the loop: it takes no lock.
    pub fn wanted(&self) -> Option<bool> {
        match self.wanted.load(Ordering::Acquire) {
            UNSAID => None,
            wanted => Some(wanted == OPEN),
        }
    }

    /// Says what the loop did.
    pub fn report(&self, is_open: bool, by_all: bool) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done = Some(Done { is_open, by_all });
        self.changed.notify_all();
    }
}
