//! Runs simulations in parallel on all cores.
//!
//! Each run is a scenario of its own, so runs share nothing; results are put in the order in which
//! the runs were given. Invariant: the results do not depend on the number of threads.

use crate::{Report, RunError, Scenario};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

/// The outcome of a run.
pub type Outcome = Result<Report, RunError>;

/// Runs the scenarios `make(0)` to `make(count - 1)`, each made when its turn comes, and calls
/// `done` for each that ends. Once `stop` is set no run begins, and those that have not ended are
/// abandoned; returns those that ended with their places, in order.
pub fn each(
    count: usize,
    make: impl Fn(usize) -> Scenario + Send + Sync + 'static,
    threads: usize,
    stop: &AtomicBool,
    done: &mut dyn FnMut(),
) -> Vec<(usize, Outcome)> {
    let work = Arc::new(Work { count, make, next: AtomicUsize::new(0) });
    let (tell, told) = mpsc::sync_channel(threads.max(1));
    for _ in 0..threads.clamp(1, count.max(1)) {
        let (work, tell) = (Arc::clone(&work), tell.clone());
        // Not joined: after a stop the caller does not wait for runs that have not ended.
        thread::spawn(move || work.run(&tell));
    }
    drop(tell);
    let mut outcomes = Vec::new();
    while outcomes.len() < count && !stop.load(Ordering::Relaxed) {
        match told.recv_timeout(LOOK) {
            Ok(outcome) => {
                done();
                outcomes.push(outcome);
            }
            Err(RecvTimeoutError::Timeout) => {}
            // A run panicked, and its thread has reported it.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    work.next.store(count, Ordering::Relaxed);
    outcomes.sort_by_key(|row| row.0);
    outcomes
}

/// The runs, and the next to begin.
struct Work<F> {
    count: usize,
    make: F,
    next: AtomicUsize,
}

impl<F: Fn(usize) -> Scenario> Work<F> {
    fn run(&self, tell: &SyncSender<(usize, Outcome)>) {
        loop {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            if place >= self.count {
                return;
            }
            let mut outcome = crate::run(&(self.make)(place), &mut |_| {});
            if let Ok(Report { network: Some(network), .. }) = &mut outcome {
                // No caller reads them again, and all reports stay in memory until the end.
                network.taps.iter_mut().for_each(|tap| tap.rows = Vec::new());
            }
            if tell.send((place, outcome)).is_err() {
                return;
            }
        }
    }
}

/// The longest time until a stop is noticed.
const LOOK: Duration = Duration::from_millis(50);
