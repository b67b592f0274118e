//! Memory that is never written to a disk: a page that has to be read back holds a frame for
//! milliseconds.

use std::fmt;
use std::fs;
use std::io;

/// How much memory is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locked {
    /// The bytes that the kernel counts as locked.
    pub bytes: u64,
    /// Why nothing is locked, with the cure; empty if it was not asked for.
    pub why_not: String,
}

/// Locks the memory that the process has now: program, pool, tables. Later memory is locked too if
/// the limit allows any amount, for else an allocation beyond it would fail.
///
/// It needs CAP_IPC_LOCK, or a limit (RLIMIT_MEMLOCK) above the address space of the process.
pub fn lock_memory() -> Locked {
    let later = if limit() == libc::RLIM_INFINITY { libc::MCL_FUTURE } else { 0 };
    // SAFETY: mlockall takes flags only.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | later) } != 0 {
        return Locked { bytes: 0, why_not: why_not(&io::Error::last_os_error()) };
    }
    if later == 0 {
        release_stack();
    }
    Locked { bytes: status_bytes("VmLck:"), why_not: String::new() }
}

/// Has the C library keep what is freed for later allocations (mallopt(3)). Before it gave any
/// memory of a thread back it would read a file, and another to learn how many areas of memory
/// threads may share, which the sandbox refuses and counts.
pub(super) fn keep_freed_memory() {
    // SAFETY: mallopt takes integers only, and these are valid.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_ARENA_MAX, AREAS_MAX);
    }
}

/// A locked stack cannot grow beyond the limit: the kernel ends a process whose stack has to.
fn release_stack() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let stack = maps.lines().find(|line| line.ends_with("[stack]")).and_then(range);
    if let Some((start, end)) = stack {
        let len = end.saturating_sub(start);
        // SAFETY: munlock changes no memory, only whether the kernel may move it out.
        unsafe { libc::munlock(std::ptr::without_provenance(start), len) };
    }
}

/// Reads `7ffc0000-7ffc2000 rw-p ...`.
fn range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let read = |text| usize::from_str_radix(text, 16).ok();
    Some((read(start)?, read(end)?))
}

fn limit() -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid limit to write to.
    match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } {
        0 => limit.rlim_cur,
        _ => 0,
    }
}

fn why_not(cause: &io::Error) -> String {
    let (has, limit) = (status_bytes("VmSize:") >> 20, limit() >> 20);
    format!(
        "{cause}; it has {has} MiB of addresses, and the limit is {limit} MiB: give it \
         CAP_IPC_LOCK, or a higher limit (LimitMEMLOCK=infinity in a unit)"
    )
}

/// Returns an amount from /proc/self/status, which is in kB there.
fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() << 10
}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.why_not.as_str()) {
            (0, "") => f.write_str("memory not locked"),
            (0, why) => write!(f, "memory not locked: {why}"),
            (bytes, _) => write!(f, "{} MiB of memory locked", bytes >> 20),
        }
    }
}

/// Areas of memory that the threads of a process share; as many as it has without asking.
#[cfg(target_env = "gnu")]
const AREAS_MAX: std::ffi::c_int = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_mapping_is_read() {
        let rows = [
            ("7ffc10-7ffc20 rw-p 00000000 00:00 0 [stack]", Some((0x7ffc10, 0x7ffc20))),
            ("", None),
            ("7ffc10 rw-p", None),
            ("x-y rw-p", None),
        ];
        for (line, expected) in rows {
            assert_eq!(range(line), expected, "{line:?}");
        }
    }
}
