//! The last steps of a forwarding process before the first frame passes: afterwards it has no
//! capability, and can open no file, socket or interface, start no program and reach no other
//! process. What it needs was opened before, or is handed to it by the process that started it.
//!
//! In order: [`drop_capabilities`] first of all, then [`enter`] once the ports are open and while
//! the process has one thread. Threads that start later have the same limits.
//!
//! Four things stand behind each other. The process is another user without capabilities, so the
//! kernel refuses what needs a privilege. `no_new_privs` makes that final. Landlock refuses each
//! file, TCP port, abstract socket and signal outside. A filter of system calls (`calls`) refuses
//! the rest, and kills the process that tries what only an intruder tries.
//!
//! An intruder keeps the packets of the link, the sockets that are open, and the processor time of
//! the process. A packet socket can be pointed at another interface of its network namespace by the
//! address in a message, which no filter reads.

mod calls;
mod capabilities;
mod denied;
mod memory;

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetStatus, Scope,
};
use std::fmt;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use crate::error::{Result, SystemError};
pub use capabilities::{Dropped, User, check_user, drop_capabilities, is_user};
pub use denied::{Denial, Denials};
pub use memory::{Locked, lock_memory};

/// The options of [`enter`].
#[derive(Clone, Copy, Debug)]
pub struct SandboxConfig {
    /// Whether the memory of the process is locked first.
    pub locks_memory: bool,
    /// Whether the process waits by epoll, on a descriptor that it has.
    pub waits_by_epoll: bool,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { locks_memory: true, waits_by_epoll: false }
    }
}

/// The restrictions that hold since [`enter`]; the text says them in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// How much of the file and network access Landlock refuses.
    pub landlock: Landlock,
    /// How many system calls are allowed, some of them only with certain arguments.
    pub calls_allowed: usize,
    /// How much memory is locked.
    pub memory: Locked,
}

/// How much Landlock refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// All that Weir asks for, by this version of the kernel's interface.
    Full(i32),
    /// The part that this older version has.
    Part(i32),
    /// Nothing: this kernel has none, or it is switched off.
    Absent,
}

/// Gives up what the process could still do. The ports are open and there is one thread.
///
/// # Errors
/// When there are more threads, or the kernel refuses a filter. Landlock and locked memory depend
/// on the kernel and its limits: the result says whether they hold.
pub fn enter(config: &SandboxConfig) -> Result<Entered> {
    expect_one_thread()?;
    memory::keep_freed_memory();
    let memory = if config.locks_memory { lock_memory() } else { Locked::default() };
    capabilities::drop_all()?;
    capabilities::forbid_new()?;
    let landlock = restrict_files()?;
    let calls_allowed = calls::restrict(config.waits_by_epoll)?;
    Ok(Entered { landlock, calls_allowed, memory })
}

/// Refuses every file, TCP port, abstract socket and signal outside, as far as this kernel can.
fn restrict_files() -> Result<Landlock> {
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(WANTED))?
            .handle_access(AccessNet::from_all(WANTED))?
            .scope(Scope::from_all(WANTED))?
            .create()?
            .restrict_self()
    };
    let status = restrict().map_err(|error| {
        let cure = "start it outside of other sandboxes, or on a kernel that allows Landlock";
        SystemError::refused("refuse files to this process by Landlock", error.to_string(), cure)
    })?;
    Ok(Landlock::of(&status))
}

/// The version of Landlock that has all that is asked for: scopes of signals and abstract sockets.
const WANTED: ABI = ABI::V6;

impl Landlock {
    fn of(status: &RestrictionStatus) -> Self {
        let version = match status.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => {
                kernel_abi.unwrap_or(effective_abi as i32)
            }
            _ => return Self::Absent,
        };
        match status.ruleset {
            RulesetStatus::FullyEnforced => Self::Full(version),
            RulesetStatus::PartiallyEnforced => Self::Part(version),
            RulesetStatus::NotEnforced => Self::Absent,
        }
    }
}

/// Capabilities and Landlock belong to a thread: those of others would stay.
fn expect_one_thread() -> Result<()> {
    let action = "enter the sandbox";
    // A thread that was joined may be listed for a moment.
    for _ in 0..LOOKS_MAX {
        let tasks = fs::read_dir("/proc/self/task");
        if tasks.map_err(|cause| SystemError::new(action, cause))?.count() == 1 {
            return Ok(());
        }
        thread::sleep(LOOK_INTERVAL);
    }
    Err(SystemError::refused(
        action,
        "the process has several threads",
        "enter it before they start",
    ))
}

const LOOKS_MAX: u32 = 100;
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Calls `prctl` with integers only.
fn set_process_option(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: each option that is set here takes integers; unused arguments are zero.
    match unsafe { libc::prctl(option, value, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl fmt::Display for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { landlock, calls_allowed, memory } = self;
        write!(f, "no new privileges; {landlock}; {calls_allowed} system calls allowed; {memory}")
    }
}

impl fmt::Display for Landlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(version) => {
                write!(f, "files, TCP ports and signals refused by Landlock {version}")
            }
            Self::Part(version) => {
                write!(f, "what Landlock {version} has refused; newer kernels refuse more")
            }
            Self::Absent => f.write_str("this kernel has no Landlock, or it is switched off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_said_in_a_line() {
        let memory = Locked { bytes: 9 << 20, why_not: String::new() };
        let of = |landlock| Entered { landlock, calls_allowed: 70, memory: memory.clone() };
        let rows = [
            (
                of(Landlock::Full(7)),
                "no new privileges; files, TCP ports and signals refused by Landlock 7; 70 system \
                 calls allowed; 9 MiB of memory locked",
            ),
            (
                of(Landlock::Part(3)),
                "no new privileges; what Landlock 3 has refused; newer kernels refuse more; 70 \
                 system calls allowed; 9 MiB of memory locked",
            ),
            (
                Entered {
                    memory: Locked { bytes: 0, why_not: "it is 80 MiB".to_owned() },
                    ..of(Landlock::Absent)
                },
                "no new privileges; this kernel has no Landlock, or it is switched off; 70 system \
                 calls allowed; memory not locked: it is 80 MiB",
            ),
        ];
        for (entered, text) in rows {
            assert_eq!(entered.to_string(), text);
        }
    }
}
