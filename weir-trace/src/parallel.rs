//! Computes results in parallel on all cores.
//!
//! Each result is of a call of its own, so threads share nothing; results are in the order of their
//! numbers. Invariant: the results do not depend on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Returns `work(0)` to `work(count - 1)`, computed on so many threads, in this order.
pub fn map<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync, threads: usize) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return done;
            }
            done.push((place, work(place)));
        }
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(share)).collect();
        let mut results = share();
        for other in others {
            results.extend(other.join().expect("a thread that panicked has reported it"));
        }
        results
    });
    results.sort_by_key(|row| row.0);
    results.into_iter().map(|row| row.1).collect()
}

/// Returns how many runs this machine does in parallel.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
