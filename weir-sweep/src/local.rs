//! The engine of this machine: batches of runs on threads.
//!
//! Batches are so long that scheduling is cheap: [`batches`] makes them of what one run takes.

use crate::sweep::{Done, Sweep};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Splits runs into batches of about [`BATCH_SECONDS`], if each takes `seconds`; there are several
/// for each of the workers, so that they end together.
pub fn batches(pending: &[usize], seconds: f64, workers: usize) -> Vec<Vec<usize>> {
    let long = (BATCH_SECONDS / seconds.max(1e-6)) as usize;
    let fair = pending.len() / (workers.max(1) * BATCHES_EACH);
    let size = long.min(fair).clamp(1, BATCH_MAX);
    pending.chunks(size).map(<[usize]>::to_vec).collect()
}

/// Does batches on threads, and gives each to `keep` when it is done. Once `stop` is set, or `keep`
/// fails, no batch begins, and those that have not ended are abandoned.
///
/// # Errors
/// When `keep` fails or a thread died.
pub fn run(
    sweep: &Arc<Sweep>,
    batches: Vec<Vec<usize>>,
    threads: usize,
    stop: &AtomicBool,
    keep: &mut dyn FnMut(Vec<Done>) -> Result<(), String>,
) -> Result<(), String> {
    let count = batches.len();
    let work = Arc::new((Arc::clone(sweep), batches, AtomicUsize::new(0)));
    let (tell, told) = mpsc::sync_channel(threads.max(1));
    for _ in 0..threads.clamp(1, count.max(1)) {
        let (work, tell) = (Arc::clone(&work), tell.clone());
        // Not joined: after a stop the caller does not wait for runs that have not ended.
        thread::spawn(move || {
            let (sweep, batches, next) = &*work;
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                if tell.send(sweep.run(batch, &mut || ())).is_err() {
                    return;
                }
            }
        });
    }
    drop(tell);
    let mut kept = 0;
    let mut outcome = Ok(());
    while kept < count && outcome.is_ok() && !stop.load(Ordering::Relaxed) {
        match told.recv_timeout(LOOK) {
            Ok(done) => {
                outcome = keep(done);
                kept += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                outcome = Err("a run panicked, which is a bug of Weir".to_owned());
            }
        }
    }
    work.2.store(count, Ordering::Relaxed);
    outcome
}

/// How long a batch is.
pub const BATCH_SECONDS: f64 = 1.0;
/// The least batches for each worker.
const BATCHES_EACH: usize = 8;
/// The most runs of a batch.
const BATCH_MAX: usize = 10_000;
/// The longest time until a stop is noticed.
const LOOK: Duration = Duration::from_millis(50);
