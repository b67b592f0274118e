//! Work without Python's lock, which Ctrl-C ends.
//!
//! The work runs on a thread of its own, and the calling one looks for signals. Where the work
//! reports progress it ends at the next report; where it does not, it is left to its end, and its
//! result is thrown away.

use crate::answer;
use pyo3::prelude::*;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Whether Python was interrupted.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

/// The payload of the panic that ends a stopped run.
struct Stopped;

impl Stop {
    /// Ends this thread's work if Python was interrupted.
    pub fn look(&self) {
        if self.0.load(Ordering::Relaxed) {
            // Unwinds without a message: nothing is wrong.
            panic::resume_unwind(Box::new(Stopped));
        }
    }

    /// Ends this work at its next look.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns the flag, which is true once Python was interrupted.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// Returns what `work` returns.
///
/// # Errors
/// KeyboardInterrupt, or what else a handler of a signal raised; a [`crate::answer::Error`] if the
/// work panicked, which is a bug of Weir.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> PyResult<T> {
    run_until(py, &Stop::default(), work)
}

/// As [`run`], and others may end the work by `stop`.
///
/// # Errors
/// As [`run`].
pub fn run_until<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> PyResult<T> {
    let (tell, told) = mpsc::sync_channel(1);
    let own = stop.clone();
    thread::spawn(move || {
        // The caller is gone if it was interrupted.
        let _ = tell.send(work(&own));
    });
    // A receiver belongs to one thread at a time, and `detach` stays on this one.
    let told = std::sync::Mutex::new(told);
    loop {
        let next = py.detach(|| {
            let told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            told.recv_timeout(SLICE)
        });
        match next {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| stop.stop())?,
            Err(RecvTimeoutError::Disconnected) if stop.flag().load(Ordering::Relaxed) => {
                return Err(answer::error(py, "the work was stopped".to_owned(), &[]));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the work ended without a result, which is a bug of Weir";
                return Err(answer::error(py, why.to_owned(), &[]));
            }
        }
    }
}

/// How often Ctrl-C is looked for.
const SLICE: Duration = Duration::from_millis(50);
