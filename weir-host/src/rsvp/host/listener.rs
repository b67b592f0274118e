//! Other programs on this host find one that reserves, request its status, and end it.
//!
//! Each has a socket with an abstract name (unix(7)): it vanishes with its process, needs no
//! folder, and belongs to one network namespace, as reservations do. Such a name has no
//! permissions, so both ends check the other's user: it must be their own or root.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::HostStatus;
use crate::error::{Result, SystemError};
use crate::peer;

/// The socket of a program that reserves.
pub(super) struct HostListener {
    listener: UnixListener,
    /// Connections of programs that asked it to end: they see its end when theirs is closed.
    ending: Vec<UnixStream>,
}

impl HostListener {
    /// Opens the socket of this process, or a further one.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn open() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let failed = |cause| SystemError::new("open a socket for `weir reserve list`", cause);
        let open = || {
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Ok(Self { listener: open().map_err(failed)?, ending: Vec::new() })
    }

    /// Answers the programs that wait, without waiting for others.
    pub(super) fn serve(&mut self, status: &HostStatus) {
        for _ in 0..CALLERS_MAX {
            let Ok((caller, _)) = self.listener.accept() else { return };
            // A caller that does not ask properly gets no answer.
            drop(self.answer(caller, status));
        }
    }

    fn answer(&mut self, mut caller: UnixStream, status: &HostStatus) -> io::Result<()> {
        if !is_trusted(&caller) {
            return Ok(());
        }
        caller.set_nonblocking(false)?;
        caller.set_read_timeout(Some(PATIENCE))?;
        caller.set_write_timeout(Some(PATIENCE))?;
        let mut asked = [0];
        caller.read_exact(&mut asked)?;
        match asked[0] {
            STATUS => caller.write_all(serde_json::to_string(status)?.as_bytes()),
            END if self.ending.len() < CALLERS_MAX => {
                self.ending.push(caller);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a program requested its end.
    pub(super) fn is_released(&self) -> bool {
        !self.ending.is_empty()
    }
}

impl AsFd for HostListener {
    /// Readable when a program has connected.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Lists the programs that reserve, or announce a flow, in this network namespace; each with the
/// name by which [`end`] finds it.
///
/// # Errors
/// When the system does not list its sockets.
pub fn list() -> Result<Vec<(String, HostStatus)>> {
    let sockets = fs::read_to_string("/proc/thread-self/net/unix")
        .map_err(|cause| SystemError::new("list the sockets of this host", cause))?;
    let mut names: Vec<&str> = sockets.lines().filter_map(name_of).take(PROGRAMS_MAX * 4).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(PROGRAMS_MAX);
    // One that ends meanwhile is not there.
    let status = |name: &&str| Some(((*name).to_owned(), status(name).ok()?));
    Ok(names.iter().filter_map(status).collect())
}

/// Ends the program of this name, and waits until its reservation is torn down.
///
/// # Errors
/// When it does not end.
pub fn end(name: &str) -> Result<()> {
    let failed = |cause| SystemError::new("end a reservation", cause);
    let ask = || -> io::Result<()> {
        let mut program = connect(name)?;
        program.set_read_timeout(Some(END_PATIENCE))?;
        program.write_all(&[END])?;
        match program.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(io::Error::other("the program does not say that it ended")),
        }
    };
    ask().map_err(failed)
}

fn status(name: &str) -> io::Result<HostStatus> {
    let mut program = connect(name)?;
    program.set_read_timeout(Some(PATIENCE))?;
    program.write_all(&[STATUS])?;
    let mut text = Vec::new();
    program.take(STATUS_BYTES_MAX).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn connect(name: &str) -> io::Result<UnixStream> {
    let program = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    if !is_trusted(&program) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    program.set_write_timeout(Some(PATIENCE))?;
    Ok(program)
}

/// The user of a process that reserves must be this one's or root.
fn is_trusted(other: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer::uid(other.as_fd()).is_ok_and(|user| user == own || user == 0)
}

/// The name in a line of /proc/net/unix, of which the kernel writes `@` for the zero in front.
fn name_of(line: &str) -> Option<&str> {
    let name = line.split_whitespace().nth(7)?.strip_prefix('@')?;
    name.starts_with(PREFIX).then_some(name)
}

const PREFIX: &str = "weir-reserve-";
/// Requests the status.
const STATUS: u8 = b's';
/// Requests the end.
const END: u8 = b'e';
/// Callers that a turn answers.
const CALLERS_MAX: usize = 8;
/// Programs that are listed.
const PROGRAMS_MAX: usize = 1000;
const STATUS_BYTES_MAX: u64 = 64 << 10;
/// How long the other end may take: it does nothing that waits.
const PATIENCE: Duration = Duration::from_millis(500);
const END_PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_of_programs_that_reserve_are_named() {
        let rows = [
            ("0000: 2 0 10000 0001 01 4242 @weir-reserve-17-0", Some("weir-reserve-17-0")),
            ("0000: 2 0 10000 0001 01 4242 @other", None),
            ("0000: 2 0 10000 0001 01 4242 /run/weir-reserve-17-0", None),
            ("0000: 2 0 10000 0001 01 4242", None),
            ("Num RefCount Protocol Flags Type St Inode Path", None),
        ];
        for (line, name) in rows {
            assert_eq!(name_of(line), name, "{line}");
        }
    }
}
