//! The forwarder as a process: how it is started, watched and ended.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::{Result, SystemError};
use crate::watch;

/// A process that the keeper watches by a descriptor, so that a number that the system gives to
/// another process can never be meant.
#[derive(Debug)]
pub struct Process {
    number: u32,
    descriptor: OwnedFd,
    /// Of the process that this one started; `None` for one that another keeper started.
    child: Option<Child>,
}

impl Process {
    /// Starts `command`, which leads a session of its own, inherits exactly these descriptors
    /// beside standard error, and of the environment `KEPT` alone: the rest may hold secrets of
    /// the operator.
    pub fn start(mut command: Command, inherited: &[BorrowedFd<'_>]) -> Result<Self> {
        let action = format!("start {}", command.get_program().to_string_lossy());
        let failed = |cause| SystemError::new(action.clone(), cause);
        let numbers: Vec<RawFd> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let kept = KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.env_clear().envs(kept);
        // SAFETY: the closure runs between fork and exec and makes system calls only; `numbers` was
        // allocated before the fork.
        unsafe { command.pre_exec(move || prepare(&numbers)) };
        let child = command.spawn().map_err(failed)?;
        let number = child.id();
        let descriptor = open(number).map_err(|error| failed(error.into()))?;
        Ok(Self { number, descriptor, child: Some(child) })
    }

    /// A process that another keeper started: its number and the descriptor of it.
    pub fn adopt(number: u32, descriptor: OwnedFd) -> Self {
        Self { number, descriptor, child: None }
    }

    /// Returns the process that listens at the other end of a client's connection.
    ///
    /// # Errors
    /// When it has ended, or is in another namespace of processes.
    pub fn listener(stream: &UnixStream) -> Result<Self> {
        let failed = |error: Errno| SystemError::new("find the link's process", error.into());
        let peer = socket_peercred(stream).map_err(failed)?.pid;
        let mut process = Self::of(peer.as_raw_nonzero().get() as u32)?;
        match process.ended() {
            Some(_) => Err(failed(Errno::SRCH)),
            None => Ok(process),
        }
    }

    /// Returns the process of a number.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(number: u32) -> Result<Self> {
        let descriptor = open(number)
            .map_err(|error| SystemError::new(format!("find process {number}"), error.into()))?;
        Ok(Self::adopt(number, descriptor))
    }

    /// Returns its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Ends it at once.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Ends it at once, with a dump of its memory where the system keeps one.
    pub fn abort(&self) {
        self.signal(Signal::ABORT);
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// When it is another user's.
    pub fn terminate(&self) -> Result<()> {
        match pidfd_send_signal(&self.descriptor, Signal::TERM) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(SystemError::new("stop the link", error.into())),
        }
    }

    /// A process that has ended already is past signals.
    fn signal(&self, signal: Signal) {
        let _ended = pidfd_send_signal(&self.descriptor, signal);
    }

    /// Returns how it ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        if let Some(child) = &mut self.child {
            return child.try_wait().ok()?.map(|status| status.to_string());
        }
        let ended = watch::readable(&[self.descriptor.as_fd()], Duration::ZERO).ok()?;
        ended[0].then(|| "it was started by another keeper".to_owned())
    }

    /// Waits for its end.
    pub fn wait(&mut self) {
        while self.ended().is_none() {
            // Without a descriptor that can be watched, it is asked again and again.
            drop(watch::readable(&[self.descriptor.as_fd()], Duration::from_millis(100)));
        }
    }

    /// Waits for its end, at most so long; returns whether it has ended.
    pub fn wait_for(&mut self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.ended().is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            drop(watch::readable(&[self.descriptor.as_fd()], left));
        }
        true
    }
}

impl AsFd for Process {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Variables that a forwarder gets: they say what it tells of a panic, and where measurements of
/// its tests go.
const KEPT: [&str; 3] = ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE", "LLVM_PROFILE_FILE"];

/// Returns a descriptor of a process.
fn open(number: u32) -> std::result::Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(number as i32).ok_or(Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty())
}

/// In the new process: a session of its own, so that no terminal and no signal to the keeper's
/// group reaches it, and no descriptor but those.
fn prepare(inherited: &[RawFd]) -> std::io::Result<()> {
    let is_done = |status: i32| match status {
        0.. => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: these calls take integers only and touch no memory of ours. A kernel without
    // close_range leaves the descriptors as they are: closed by exec, all but those below.
    unsafe {
        is_done(libc::setsid())?;
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        inherited.iter().try_for_each(|fd| is_done(libc::fcntl(*fd, libc::F_SETFD, 0)))
    }
}

/// Returns the user of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Takes over a descriptor that this process inherited, by its number. Once for each.
///
/// # Errors
/// When it is no open descriptor.
pub fn inherited(number: RawFd) -> Result<OwnedFd> {
    // SAFETY: fcntl takes two integers; a number that is no open descriptor is refused.
    if number < 3 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(SystemError::last(format!("use the inherited descriptor {number}")));
    }
    // SAFETY: it is open, and nothing else of this process knows the number: it came with the
    // arguments, which are read once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Returns the command that runs this program again, whatever file has its name now.
pub fn same_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("weir");
    command
}

/// Names this process as the verb that it runs: the kernel calls what [`same_program`] starts by
/// the link's name, `exe`.
pub fn take_name() {
    const NAME: &str = "/proc/self/comm";
    let verb = std::env::args().nth(1).unwrap_or_default();
    if std::fs::read(NAME).is_ok_and(|name| name == b"exe\n") {
        // Where it cannot be written the name stays.
        let _stays = std::fs::write(NAME, format!("weir-{verb}"));
    }
}

/// Returns the command that runs the program that is installed where this one was, such as a newer
/// one, or where there is none this one again.
pub fn installed_program() -> Command {
    let path = std::env::current_exe().unwrap_or_default();
    let path = place(&path);
    if path.is_file() { Command::new(path) } else { same_program() }
}

/// Returns the place of a program: the kernel marks the path of one whose file was removed, or
/// replaced as installers do (proc_pid_exe(5)).
fn place(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    Path::new(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_is_found_at_its_place() {
        let rows = [
            ("/usr/bin/weir", "/usr/bin/weir"),
            ("/usr/bin/weir (deleted)", "/usr/bin/weir"),
            ("/a (deleted)/weir", "/a (deleted)/weir"),
            ("", ""),
        ];
        for (path, expected) in rows {
            assert_eq!(place(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
