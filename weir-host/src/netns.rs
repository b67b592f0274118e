//! Private network namespaces without names: the kernel removes them however the program ends.
//!
//! A namespace exists as long as a descriptor of it, or a socket opened inside, is open. An
//! ordinary user first enters a user namespace, in which it is root over its own networks.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use crate::error::{Result, SystemError};
use crate::privilege::{Need, Privilege};

/// A network namespace, held open by its descriptor.
#[derive(Debug)]
pub struct NetNs {
    descriptor: OwnedFd,
}

impl NetNs {
    /// Makes an empty network namespace. Needs CAP_SYS_ADMIN, or a user namespace entered before.
    pub fn new() -> Result<Self> {
        let make = || -> io::Result<OwnedFd> {
            // SAFETY: unshare changes only the calling thread, which ends right after.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            own_namespace()
        };
        Self::from_thread(make, "make a private network namespace")
    }

    /// Opens the namespace that `ip netns add` made under this name.
    pub fn named(name: &str) -> Result<Self> {
        let failed =
            |cause| SystemError::new(format!("open the network namespace `{name}`"), cause);
        let path = std::path::Path::new("/run/netns").join(name.replace('/', "_"));
        Ok(Self { descriptor: fs::File::open(path).map_err(failed)?.into() })
    }

    /// Returns the namespace of this thread.
    pub fn current() -> Result<Self> {
        let failed = |cause| SystemError::new("open this thread's network namespace", cause);
        Ok(Self { descriptor: own_namespace().map_err(failed)? })
    }

    /// Returns whether it is the namespace of this thread.
    pub fn is_current(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let number = |fd: OwnedFd| Some(fs::File::from(fd).metadata().ok()?.ino());
        let own = own_namespace().ok().and_then(number);
        own.is_some() && own == self.descriptor.try_clone().ok().and_then(number)
    }

    /// Runs `work` on a thread of its own inside the namespace. Sockets opened there stay there,
    /// even when used outside.
    ///
    /// # Panics
    /// If `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let inside = || {
            self.enter()?;
            Ok(work())
        };
        // A scoped thread: `work` may borrow, and the caller's own namespace is never touched.
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Runs `work` inside the namespace: on this thread if that is there, else as [`NetNs::run`].
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        if self.is_current() { Ok(work()) } else { self.run(work) }
    }

    /// Moves the calling thread into the namespace permanently.
    pub fn enter(&self) -> Result<()> {
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: setns changes only the calling thread; the descriptor is open.
        match unsafe { libc::setns(fd, libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(SystemError::last("enter a private network namespace")),
        }
    }

    fn from_thread(
        make: impl FnOnce() -> io::Result<OwnedFd> + Send,
        action: &str,
    ) -> Result<Self> {
        let made = thread::scope(|scope| scope.spawn(make).join());
        let result = made.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let descriptor = result.map_err(|cause| SystemError::new(action, cause))?;
        Ok(Self { descriptor })
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn own_namespace() -> io::Result<OwnedFd> {
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}

/// Enters a user namespace in which this process is root over its own networks. Call it first in
/// `main`: the system refuses it once the process has a second thread.
pub fn enter_user_namespace() -> Result<()> {
    // SAFETY: getuid and getgid cannot fail and touch no memory.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let failed = |cause| {
        let mut error = SystemError::new("enter a user namespace", cause);
        error.cure = "call it before any thread starts; an administrator can allow user \
             namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0); or run as root"
            .into();
        error
    };
    unshare_user(&UserMaps::new(uid, gid)).map_err(failed)
}

/// Ensures that this process may make private networks: root may, others enter a user namespace
/// first. Call it first in `main`.
///
/// # Errors
/// When neither is possible: which privilege is missing, how to get it, what works without.
pub fn prepare_private_networks() -> std::result::Result<(), String> {
    let privilege = Privilege::detect();
    privilege.check(Need::PrivateNetworks).map_err(|missing| missing.to_string())?;
    if privilege.makes_networks() {
        return Ok(());
    }
    enter_user_namespace().map_err(|error| error.to_string())
}

/// Makes `command` start in a user namespace of its own, as root there. For a program that already
/// has threads and so cannot enter one itself.
pub fn start_in_user_namespace(command: &mut Command) -> &mut Command {
    // SAFETY: as in `enter_user_namespace`.
    let maps = unsafe { UserMaps::new(libc::geteuid(), libc::getegid()) };
    // SAFETY: the closure runs between fork and exec and makes system calls only; what it writes
    // was formatted before the fork.
    unsafe { command.pre_exec(move || unshare_user(&maps)) }
}

/// The lines for `/proc/self/uid_map` and `gid_map`, formatted before a fork.
struct UserMaps {
    uid: Vec<u8>,
    gid: Vec<u8>,
}

impl UserMaps {
    fn new(uid: libc::uid_t, gid: libc::gid_t) -> Self {
        Self { uid: format!("0 {uid} 1").into_bytes(), gid: format!("0 {gid} 1").into_bytes() }
    }
}

fn unshare_user(maps: &UserMaps) -> io::Result<()> {
    // SAFETY: unshare takes flags only; the process is single-threaded or the call fails.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A group may be mapped only by a process that can no longer drop groups.
    write_at_once(c"/proc/self/setgroups", b"deny")?;
    write_at_once(c"/proc/self/uid_map", &maps.uid)?;
    write_at_once(c"/proc/self/gid_map", &maps.gid)
}

/// Writes without allocating: it may run between fork and exec.
fn write_at_once(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: `path` ends in a zero, and the descriptor is closed below.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `bytes` is valid for its length, and `fd` is open.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    let outcome = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: `fd` is ours and not used again.
    unsafe { libc::close(fd) };
    outcome
}
