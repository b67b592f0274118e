//! Precedence over other work on the machine: niceness of threads and of the session, a short time
//! slice, real-time priority.
//!
//! A loop that shares its processor with busy processes must run soon after a frame arrives, and
//! must not be set aside for long. On Linux niceness alone does not give that: with
//! `sched_autogroup_enabled`, which is on by default, each session gets an equal share of a
//! processor and niceness ranks a thread only inside its session. So the session has a niceness as
//! well ([`SessionNiceness`]), but only if this process leads it: a terminal's session has other
//! programs in it and outlives this one, and they would keep what a killed process left behind. A
//! service of systemd leads a session, and so does what `setsid` starts; where a service has a
//! control group with processor shares, these count instead (`CPUWeight=`).

use crate::error::{Result, SystemError};
use std::fs;

/// The niceness of a loop that may have it.
pub const NICENESS_FIRST: i32 = -20;
/// The slice of a thread that goes first, the shortest that Linux has: the shorter a thread's
/// slice, the sooner it runs when it wakes.
const SLICE_NS: u64 = 100_000;
const SESSION: &str = "/proc/self/autogroup";

/// Sets the niceness of this thread and of those that it starts: -20 (first) to 19 (last). A lower
/// value than now needs CAP_SYS_NICE. From Linux 6.12 on a thread with a niceness below 0 has a
/// short slice as well.
pub fn set_niceness(niceness: i32) -> Result<()> {
    // SAFETY: setpriority takes three integers and touches no memory of ours.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) } != 0 {
        return Err(SystemError::last(format!("set the niceness to {niceness}")));
    }
    set_slice(niceness);
    Ok(())
}

/// Without effect where the kernel has no slices of threads; 0 is the kernel's default.
fn set_slice(niceness: i32) {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: if niceness < 0 { SLICE_NS } else { 0 },
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: `attributes` is a valid sched_attr of the size that it names, 0 is the calling
    // thread, and there are no flags.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// The niceness of this session among all sessions of the machine; the former one returns when
/// this is dropped.
#[derive(Debug)]
pub struct SessionNiceness {
    /// The former one; `None` where it was left as it was.
    before: Option<i32>,
}

impl SessionNiceness {
    /// Sets it, from -20 (first) to 19 (last). Nothing happens where the kernel does not group by
    /// session, and in a session that another process leads.
    ///
    /// # Errors
    /// When the privilege is missing: CAP_SYS_NICE for a lower value than now.
    pub fn set(niceness: i32) -> Result<Self> {
        let now = fs::read_to_string(SESSION).ok().and_then(|text| parse(&text));
        let before = now.filter(|_| leads_session());
        if before.is_some() {
            fs::write(SESSION, niceness.to_string()).map_err(|cause| {
                let action = format!("set the niceness of this session to {niceness}");
                SystemError {
                    cure: "it needs CAP_SYS_NICE".into(),
                    ..SystemError::new(action, cause)
                }
            })?;
        }
        Ok(Self { before })
    }

    /// Returns whether it was set.
    pub fn is_set(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for SessionNiceness {
    fn drop(&mut self) {
        // To a higher value anyone may return.
        if let Some(before) = self.before {
            drop(fs::write(SESSION, before.to_string()));
        }
    }
}

fn leads_session() -> bool {
    // SAFETY: both only return a number.
    unsafe { libc::getsid(0) == libc::getpid() }
}

/// Reads `/autogroup-39 nice 0`.
fn parse(text: &str) -> Option<i32> {
    text.trim().rsplit_once("nice ")?.1.parse().ok()
}

/// Puts this thread, and those that it starts, before all ordinary ones of the machine, at the
/// lowest real-time priority. Needs CAP_SYS_NICE in the first user namespace.
///
/// Where the kernel groups processes by session (`sched_autogroup_enabled`, on by default),
/// niceness ranks a thread only inside its session; this ranks it on the machine. It is for threads
/// that sleep: one that spins loses 50 ms of each second to the kernel's guard.
pub fn set_realtime() -> Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: `parameters` is a valid sched_param, and 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } {
        0 => Ok(()),
        _ => Err(SystemError::last("give this thread real-time priority 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_niceness_of_a_session_is_read() {
        let rows = [
            ("/autogroup-39 nice 0\n", Some(0)),
            ("/autogroup-7 nice -20\n", Some(-20)),
            ("", None),
            ("/autogroup-7", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
