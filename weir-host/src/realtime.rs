//! The real-time class (SCHED_FIFO): the threads of a link go before all ordinary work of the
//! machine.
//!
//! A thread of this class that never sleeps would keep a processor to itself. The kernel then takes
//! it off for 50 ms of each second, in one piece, which is a gap in the traffic. So a watchdog
//! makes a thread that has run for [`RUN_MAX`] sleep for [`REST`]: other work gets its part in
//! small pieces and the kernel's guard never has to act. The watchdog is a limit of the process
//! (RLIMIT_RTTIME): the kernel counts, and sends SIGXCPU to the thread; a thread that does not even
//! heed that is ended with its process after [`RUN_LAST`].

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Result, SystemError};
use crate::precedence;
use crate::wait::usable_cpus;

/// How long a thread runs without a sleep until it is made to sleep.
pub const RUN_MAX: Duration = Duration::from_millis(40);
/// How long it is made to sleep: more than the twentieth part that the kernel would take.
pub const REST: Duration = Duration::from_millis(3);
/// How long a thread that the watchdog does not reach runs until the process is killed.
pub const RUN_LAST: Duration = Duration::from_secs(2);

/// How often a thread was made to sleep.
static RESTS: AtomicU64 = AtomicU64::new(0);

/// Puts this thread, and those that it starts, into the class, with the watchdog. The threads that
/// should not be in it call [`leave`].
///
/// # Errors
/// Without CAP_SYS_NICE, in a control group without real-time processor time, or where the process
/// has one processor: the shell that would stop the link could not run.
pub fn enter() -> Result<()> {
    if usable_cpus()?.len() < 2 {
        let why = "it would leave other programs no processor: this process has one";
        let cure = "set `priority = \"normal\"`, or give it two processors";
        return Err(SystemError::refused(ENTER, why, cure));
    }
    handle_signal().map_err(|cause| SystemError::new(ENTER, cause))?;
    limit_runs(RUN_LAST).map_err(|cause| SystemError::new(ENTER, cause))?;
    precedence::set_realtime().map_err(|error| SystemError {
        cure: "it needs CAP_SYS_NICE, and real-time processor time in its control group \
               (cpu.rt_runtime_us); or set `priority = \"normal\"`"
            .into(),
        ..error
    })
}

/// Puts this thread into the ordinary class, with the niceness that it had.
///
/// # Errors
/// When the system refuses.
pub fn leave() -> Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a valid sched_param, and 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters) } {
        0 => Ok(()),
        _ => Err(SystemError::last("put this thread into the ordinary scheduling class")),
    }
}

/// Returns how often a thread of this process was made to sleep.
pub fn rests() -> u64 {
    RESTS.load(Ordering::Relaxed)
}

const ENTER: &str = "put the link's threads into the real-time class";

/// Limits how long a thread of the class runs without a sleep. `last` is final: it cannot be
/// raised again.
fn limit_runs(last: Duration) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: RUN_MAX.as_micros() as libc::rlim_t,
        rlim_max: last.as_micros() as libc::rlim_t,
    };
    // SAFETY: `limit` is a valid limit.
    match unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn handle_signal() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = rest;
    // SAFETY: sigaction is integers and a set: all zero is a value, with an empty set.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: `action` is complete, and the handler only does what a handler may (`rest`).
    match unsafe { libc::sigaction(libc::SIGXCPU, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sleeps in place of the thread that ran too long. It makes two system calls, neither of which
/// allocates or takes a lock, and leaves the error number of the interrupted code as it was.
extern "C" fn rest(_signal: libc::c_int) {
    RESTS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the thread's own error number.
    let (place, before) = unsafe {
        let place = libc::__errno_location();
        (place, *place)
    };
    // The kernel raised the limit by a second when it sent the signal.
    let _ends_by_the_last_limit = limit_runs(RUN_LAST);
    let rest = libc::timespec { tv_sec: 0, tv_nsec: REST.as_nanos() as libc::c_long };
    // SAFETY: `rest` is valid, and no remaining time is asked for; `place` is as above.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &rest, std::ptr::null_mut());
        *place = before;
    }
}
