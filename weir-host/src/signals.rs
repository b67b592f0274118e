//! A clean stop: SIGINT and SIGTERM set a flag and wake a descriptor; a second signal exits at
//! once, unless it comes with the first: `timeout`, a terminal and a service manager may signal a
//! process and its group. [`Signals`] is for a loop that handles each signal in its turn.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXFSZ,
};

use crate::error::{Result, SystemError};
use crate::wait::monotonic_ns;

/// Records whether the user asked the program to stop.
#[derive(Debug)]
pub struct StopSignal {
    requested: Arc<AtomicBool>,
    wake: UnixStream,
}

impl StopSignal {
    /// Handles SIGINT and SIGTERM from now on. One that comes a second or more after the first
    /// exits with 128 + its number.
    pub fn install() -> Result<Self> {
        let failed = |cause| SystemError::new("handle SIGINT and SIGTERM", cause);
        let (wake, write) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        let requested = Arc::new(AtomicBool::new(false));
        let first = Arc::new(AtomicU64::new(0));
        for signal in [SIGINT, SIGTERM] {
            let (flag, first) = (Arc::clone(&requested), Arc::clone(&first));
            let act = move || {
                if is_repeated(&first, monotonic_ns()) {
                    signal_hook::low_level::exit(128 + signal);
                }
                flag.store(true, Ordering::Relaxed);
            };
            // SAFETY: a handler may use atomics, clock_gettime and _exit (signal-safety(7)), which
            // is all that `act` does; it neither allocates nor panics: the clock can be read.
            unsafe { signal_hook::low_level::register(signal, act) }.map_err(failed)?;
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

impl AsFd for StopSignal {
    /// Readable once a signal came.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Signals that a loop handles in its turn, in the order in which they came.
#[derive(Debug)]
pub struct Signals {
    read: UnixStream,
}

/// The request that a signal stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGTERM or SIGINT, by its number: to end.
    Stop(i32),
    /// SIGUSR1: to measure delays anew.
    Mark,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

impl Signals {
    /// Handles SIGTERM, SIGINT, SIGUSR1 and SIGHUP from now on, for as long as the process lives,
    /// and lets none of `HARMLESS` end it.
    pub fn install() -> Result<Self> {
        let failed = |cause| SystemError::new("handle signals", cause);
        let (read, write) = UnixStream::pair().map_err(failed)?;
        read.set_nonblocking(true).map_err(failed)?;
        for signal in [SIGTERM, SIGINT, SIGUSR1, SIGHUP] {
            let write = write.try_clone().map_err(failed)?;
            let act = move || {
                let (byte, flags) = (signal as u8, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
                // SAFETY: send may be called in a handler (signal-safety(7)); the pointer is that
                // of one live byte. A full buffer has enough signals in it.
                unsafe { libc::send(write.as_raw_fd(), (&raw const byte).cast(), 1, flags) };
            };
            // SAFETY: `act` calls send, and neither allocates nor panics.
            unsafe { signal_hook::low_level::register(signal, act) }.map_err(failed)?;
        }
        for signal in HARMLESS {
            // Not ignored, since a program that this one starts would inherit that.
            // SAFETY: the handler does nothing.
            unsafe { signal_hook::low_level::register(signal, || {}) }.map_err(failed)?;
        }
        Ok(Self { read })
    }

    /// Returns what the signals since the last call ask for.
    pub fn take(&mut self) -> Vec<Asked> {
        let mut bytes = [0; 64];
        let count = self.read.read(&mut bytes).unwrap_or_default();
        let asked = |byte: &u8| match i32::from(*byte) {
            SIGUSR1 => Asked::Mark,
            SIGHUP => Asked::HangUp,
            signal => Asked::Stop(signal),
        };
        bytes[..count].iter().map(asked).collect()
    }
}

impl AsFd for Signals {
    /// Readable once a signal came.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// Has the kernel send SIGTERM to this process when the thread ends that started it; `starter` is
/// the process of that thread.
///
/// # Errors
/// When that has ended already.
pub fn stop_with(starter: u32) -> Result<()> {
    let failed =
        |cause: io::Error| SystemError::new("stop with the process that started it", cause);
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|cause| failed(cause.into()))?;
    // It may have ended before the call.
    match getppid().is_some_and(|parent| parent.as_raw_nonzero().get() as u32 == starter) {
        true => Ok(()),
        false => Err(failed(io::Error::other(format!("process {starter} did not, or has ended")))),
    }
}

/// Sends SIGTERM to a process, or with `at_once` SIGKILL.
///
/// # Errors
/// When there is none of this number, or it is another user's.
pub fn end(process: u32, at_once: bool) -> Result<()> {
    let signal = if at_once { Signal::KILL } else { Signal::TERM };
    let found = Pid::from_raw(process as i32).ok_or(rustix::io::Errno::SRCH);
    let sent = found.and_then(|pid| kill_process(pid, signal));
    sent.map_err(|cause| SystemError::new(format!("end process {process}"), cause.into()))
}

/// Returns whether a signal at `now_ns` comes at least [`SAME_STOP_NS`] after the first. If it is
/// the first itself, its time is kept.
fn is_repeated(first: &AtomicU64, now_ns: u64) -> bool {
    match first.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => false,
        Err(first_ns) => now_ns.saturating_sub(first_ns) >= SAME_STOP_NS,
    }
}

/// Signals that end a process unless it handles them, and mean nothing here: they come by mistake,
/// or say what a system call returns as well (SIGPIPE, and SIGXFSZ for a log of the largest size
/// that the process may write).
const HARMLESS: [i32; 7] = [SIGUSR2, SIGPIPE, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGXFSZ];

/// Signals within this time are one request: no person has waited for the stop by then.
const SAME_STOP_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{WaitPolicy, Waiter};

    #[test]
    fn a_signal_requests_a_stop_and_wakes_the_loop() {
        let mut stop = StopSignal::install().expect("signals can be handled");
        assert!(!stop.requested());
        signal_hook::low_level::raise(SIGTERM).expect("a signal can be raised");
        let mut waiter = Waiter::new(WaitPolicy::Block, &[stop.descriptor()]);
        waiter.wait(monotonic_ns(), None).expect("wait works");
        assert!(stop.requested() && waiter.is_ready(0));
        // Together with the first it is no reason to exit.
        signal_hook::low_level::raise(SIGINT).expect("a signal can be raised");
        stop.acknowledge();
        waiter.wait(monotonic_ns(), Some(monotonic_ns() + 1_000_000)).expect("wait works");
        assert!(stop.requested() && !waiter.is_ready(0));
    }

    /// The time of each signal in turn, and whether it exits at once.
    #[test]
    fn signals_within_a_second_of_the_first_are_one() {
        let first = AtomicU64::new(0);
        let start = 5_000_000_000;
        for (after, exits) in [(0, false), (1, false), (999_999_999, false), (1_000_000_000, true)]
        {
            assert_eq!(is_repeated(&first, start + after), exits, "{after} ns after the first");
        }
    }
}
