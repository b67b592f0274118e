//! Whether the ports of a bridge take frames: another thread says what it wants, and the run loop
//! says what it did.
//!
//! While the intake is closed, the kernel hands the ports no frame and everything else is ready.
//! So one bridge takes over from another: the one closes its intake, and then the other opens its
//! own. No frame is taken twice; those that arrive between the two are lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The requested and the actual intake of a bridge: see the module.
#[derive(Debug, Default)]
pub struct Intake {
    /// Twice the number of the request, and 1 if it is for an open intake; 0 before the first.
    wanted: AtomicU32,
    done: Mutex<Option<Done>>,
    changed: Condvar,
}

/// The loop's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The number of the request that it followed; 0 for what the bridge began with.
    pub number: u32,
    /// The intake is open.
    pub is_open: bool,
    /// Each port could do it at once. One that cannot yet, such as an AF_XDP port whose queue still
    /// belongs to another process, tries again by itself.
    pub by_all: bool,
}

/// A request of another thread to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeRequest {
    /// Whether the intake should be open.
    pub open: bool,
    /// The number of the request: a repeated one is a request, too.
    pub number: u32,
}

impl Intake {
    /// Says whether the ports should take frames. The loop follows when it runs the next time: wake
    /// it. A repeated request has ports try at once that could not before.
    pub fn want(&self, open: bool) {
        let next = |wanted: u32| Some(2 * (wanted / 2 + 1) + u32::from(open));
        let _always = self.wanted.fetch_update(Ordering::Release, Ordering::Relaxed, next);
    }

    /// Waits until the loop has followed to `open`; `None` if it has not within `patience`.
    pub fn wait(&self, open: bool, patience: Duration) -> Option<Done> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.wanted().map_or(0, |request| request.number);
        let is_it = |done: &Done| (done.is_open, done.number) == (open, number);
        let is_there = |done: &Option<Done>| done.as_ref().is_some_and(is_it);
        let (done, _) = self
            .changed
            .wait_timeout_while(done, patience, |done| !is_there(done))
            .unwrap_or_else(PoisonError::into_inner);
        done.filter(is_it)
    }

    /// Returns what is wanted; `None` if nothing was said as yet. For the loop: it takes no lock.
    pub fn wanted(&self) -> Option<IntakeRequest> {
        match self.wanted.load(Ordering::Acquire) {
            0 => None,
            wanted => Some(IntakeRequest { open: wanted % 2 == 1, number: wanted / 2 }),
        }
    }

    /// Says what the loop did, for those who wait for it.
    pub fn report(&self, followed: Done) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done = Some(followed);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn what_the_loop_did_answers_the_last_wish() {
        let intake = Intake::default();
        let done = |number, is_open| Done { number, is_open, by_all: true };
        assert_eq!((intake.wanted(), intake.wait(false, SHORT)), (None, None));
        intake.report(done(0, false));
        assert_eq!(intake.wait(false, SHORT), Some(done(0, false)));
        for (number, open) in [(1, true), (2, true), (3, false)] {
            intake.want(open);
            assert_eq!(intake.wanted(), Some(IntakeRequest { open, number }));
            assert_eq!(intake.wait(open, SHORT), None, "request {number} is not followed");
            intake.report(done(number, open));
            assert_eq!(intake.wait(open, SHORT), Some(done(number, open)));
            assert_eq!(intake.wait(!open, SHORT), None, "request {number} was for the contrary");
        }
    }
}
