//! Refused system calls are counted, by number: a forwarding process that tries one has a fault or
//! an intruder, and the operator should see which.
//!
//! The kernel sends the thread SIGSYS in place of the call; the handler counts it and makes the
//! call return EPERM. A thread that has blocked all signals is ended with its process. On
//! processors other than x86-64 the kernel returns EPERM by itself, uncounted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;

/// System calls of one number that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The number of the call.
    pub number: i64,
    /// How many were refused since the last call.
    pub count: u64,
}

/// Counts the refused system calls that were not yet reported.
#[derive(Debug)]
pub struct Denials {
    seen: [u64; NUMBERS],
}

/// Refused calls by number; the last counts all higher numbers.
static REFUSED: [AtomicU64; NUMBERS] = [const { AtomicU64::new(0) }; NUMBERS];
/// Above the highest number of a system call today.
const NUMBERS: usize = 512;

impl Default for Denials {
    fn default() -> Self {
        Self { seen: [0; NUMBERS] }
    }
}

impl Denials {
    /// Returns what was refused since the last call of this, by any thread of the process.
    pub fn take_new(&mut self) -> Vec<Denial> {
        let mut new = Vec::new();
        for (number, (seen, refused)) in (0..).zip(self.seen.iter_mut().zip(&REFUSED)) {
            let refused = refused.load(Ordering::Relaxed);
            let count = refused - *seen;
            *seen = refused;
            if count > 0 {
                new.push(Denial { number, count });
            }
        }
        new
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, count } = self;
        let name = NAMES.iter().find(|(known, _)| known == number).map(|(_, name)| *name);
        match name {
            Some(name) => write!(f, "{name} refused, {count} times"),
            None => write!(f, "system call {number} refused, {count} times"),
        }
    }
}

/// The calls that a fault or an intruder tries first.
const NAMES: &[(i64, &str)] = &[
    (libc::SYS_openat, "openat"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_bind, "bind"),
    (libc::SYS_listen, "listen"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_setsockopt, "setsockopt"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_tgkill, "tgkill"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_readlinkat, "readlinkat"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_getcwd, "getcwd"),
    (libc::SYS_sched_setscheduler, "sched_setscheduler"),
    (libc::SYS_prlimit64, "prlimit64"),
];

/// Whether refused calls are counted on this processor.
pub(super) const COUNTS: bool = cfg!(target_arch = "x86_64");

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn install() -> Result<()> {
    Ok(())
}

/// Handles SIGSYS from now on.
#[cfg(target_arch = "x86_64")]
pub(super) fn install() -> Result<()> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = refuse;
    // SAFETY: sigaction is integers and a set: all zero is a value, with an empty set.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // Another refused call may come while one is counted on another thread, never inside this one.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: `action` is complete, and the handler only does what a handler may (`refuse`).
    match unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(crate::error::SystemError::last("handle refused system calls")),
    }
}

/// Counts the call and makes it return EPERM. It uses atomics only (signal-safety(7)).
#[cfg(target_arch = "x86_64")]
extern "C" fn refuse(
    _signal: libc::c_int,
    cause: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    /// <asm-generic/siginfo.h>: the signal comes from a filter of system calls.
    const SYS_SECCOMP: libc::c_int = 1;
    // SAFETY: with SA_SIGINFO the kernel passes the cause, which lives as long as the handler runs.
    if unsafe { (*cause).si_code } != SYS_SECCOMP {
        return;
    }
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: with SA_SIGINFO the third argument is the context of the interrupted thread, which
    // only this handler uses meanwhile.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let register = &mut registers[libc::REG_RAX as usize];
    let number = usize::try_from(*register).unwrap_or(NUMBERS).min(NUMBERS - 1);
    REFUSED[number].fetch_add(1, Ordering::Relaxed);
    // What the call returns.
    *register = -libc::greg_t::from(libc::EPERM);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_taken_once() {
        let mut denials = Denials::default();
        denials.take_new();
        // No call has this number, so no other test counts it.
        let number = NUMBERS - 2;
        REFUSED[number].fetch_add(2, Ordering::Relaxed);
        let denial = Denial { number: number as i64, count: 2 };
        assert!(denials.take_new().contains(&denial));
        assert!(denials.take_new().is_empty());
        assert_eq!(denial.to_string(), "system call 510 refused, 2 times");
        let openat = Denial { number: libc::SYS_openat, count: 1 };
        assert_eq!(openat.to_string(), "openat refused, 1 times");
    }
}
