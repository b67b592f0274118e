//! A clean stop: SIGINT and SIGTERM set a flag and wake a descriptor; a second signal exits at
//! once.

use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Result, SystemError};

/// Records whether the user asked the program to stop.
#[derive(Debug)]
pub struct StopSignal {
    requested: Arc<AtomicBool>,
    wake: UnixStream,
}

impl StopSignal {
    /// Handles SIGINT and SIGTERM from now on. A second one exits with 128 + its number.
    pub fn install() -> Result<Self> {
        let failed = |cause| SystemError::new("handle SIGINT and SIGTERM", cause);
        let (wake, write) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        let requested = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let exit = 128 + signal;
            let flag = || Arc::clone(&requested);
            // In this order the first signal finds the flag unset and does not exit.
            signal_hook::flag::register_conditional_shutdown(signal, exit, flag())
                .map_err(failed)?;
            signal_hook::flag::register(signal, flag()).map_err(failed)?;
            let write = write.try_clone().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, write).map_err(failed)?;
        }
        Ok(Self { requested, wake })
    }

    /// Returns whether to stop.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Returns the flag itself, for a loop that reads it often.
    pub fn flag(&self) -> &AtomicBool {
        &self.requested
    }

    /// Requests a stop from within the program, as a signal would.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Returns a descriptor that is readable once a signal came: for [`crate::wait::Waiter`].
    pub fn descriptor(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Empties the descriptor, so that a loop that runs on for a while does not spin on it.
    pub fn acknowledge(&mut self) {
        let mut bytes = [0; 16];
        while matches!(self.wake.read(&mut bytes), Ok(count) if count > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{WaitPolicy, Waiter, monotonic_ns};

    #[test]
    fn a_signal_requests_a_stop_and_wakes_the_loop() {
        let mut stop = StopSignal::install().expect("signals can be handled");
        assert!(!stop.requested());
        signal_hook::low_level::raise(SIGTERM).expect("a signal can be raised");
        let mut waiter = Waiter::new(WaitPolicy::Block, &[stop.descriptor()]);
        waiter.wait(monotonic_ns(), None).expect("wait works");
        assert!(stop.requested() && waiter.is_ready(0));
        stop.acknowledge();
        waiter.wait(monotonic_ns(), Some(monotonic_ns() + 1_000_000)).expect("wait works");
        assert!(stop.requested() && !waiter.is_ready(0));
    }
}
