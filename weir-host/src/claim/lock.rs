//! The lock of an interface: an abstract Unix socket named after its number.
//!
//! The kernel keeps abstract names for each network namespace, just as numbers of interfaces; it
//! frees a name with its last descriptor, so also after a crash; and an ordinary user in a user
//! namespace may bind one. A lock on a file would need a folder that every user may write, and a
//! name for the namespace. What is lost: any local user can bind the name first, and the message
//! then shows no deployment.
//!
//! Two more names say who holds it: the process that took it, and one that holds a copy of it, so
//! that the lock outlives the first.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread;
use std::time::Duration;

use crate::error::{Result, SystemError};

/// A lock, held until it and its copies are dropped.
#[derive(Debug)]
pub(super) struct Lock {
    index: u32,
    deployment: String,
    /// Its name exists as long as the socket is open.
    lock: UnixDatagram,
    #[expect(dead_code, reason = "its name tells others who holds the lock")]
    owner: UnixDatagram,
}

impl Lock {
    /// Locks the interface `index` of this thread's network namespace.
    pub(super) fn take(index: u32, deployment: &str, action: impl Fn() -> String) -> Result<Self> {
        let mut bound = bind(&name(index));
        for _ in 0..TRIES_MAX {
            let is_held =
                bound.as_ref().is_err_and(|cause| cause.kind() == io::ErrorKind::AddrInUse);
            if !is_held || !is_ending(index) {
                break;
            }
            thread::sleep(TRY_INTERVAL);
            bound = bind(&name(index));
        }
        match bound {
            Ok(lock) => Self::own(index, deployment, lock, action),
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => Err(taken(index, action())),
            Err(cause) => Err(SystemError::new(action(), cause)),
        }
    }

    /// Takes over the lock of an interface from a copy of it. The name was never free.
    ///
    /// # Errors
    /// When it is none, such as a socket of another name.
    pub(super) fn adopt(
        index: u32,
        deployment: &str,
        copy: OwnedFd,
        action: impl Fn() -> String,
    ) -> Result<Self> {
        let copy = UnixDatagram::from(copy);
        let address = copy.local_addr().ok();
        let found = address.as_ref().and_then(SocketAddr::as_abstract_name);
        if found != Some(name(index).as_bytes()) {
            let why = "the socket that was handed over is not its lock";
            return Err(SystemError::refused(action(), why, "stop the process that had it"));
        }
        match bind(&name(index)) {
            // The copy was of another namespace.
            Ok(lock) => Self::own(index, deployment, lock, action),
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => {
                Self::own(index, deployment, copy, action)
            }
            Err(cause) => Err(SystemError::new(action(), cause)),
        }
    }

    fn own(
        index: u32,
        deployment: &str,
        lock: UnixDatagram,
        action: impl Fn() -> String,
    ) -> Result<Self> {
        let owner = bind(&format!("{}/{}/{deployment}", name(index), std::process::id()))
            .map_err(|cause| SystemError::new(action(), cause))?;
        Ok(Self { index, deployment: deployment.to_owned(), lock, owner })
    }

    /// Returns what lets the process `holder` hold the lock too: a copy of it, and the name that
    /// tells so, unless that process has one already.
    pub(super) fn copy_for(&self, holder: u32) -> io::Result<Vec<OwnedFd>> {
        let mut copies = vec![self.lock.as_fd().try_clone_to_owned()?];
        match bind(&format!("{HOLDER_PREFIX}{}/{holder}/{}", self.index, self.deployment)) {
            Ok(name) => copies.push(name.into()),
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => {}
            Err(cause) => return Err(cause),
        }
        Ok(copies)
    }
}

/// Returns whether no process that holds the lock runs: the kernel closes what a process had open
/// some time after its end.
fn is_ending(index: u32) -> bool {
    let sockets = sockets();
    let holders = [PREFIX, HOLDER_PREFIX].map(|prefix| owner(&sockets, prefix, index));
    let runs = |(process, _): (&str, &str)| {
        let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    holders.iter().any(Option::is_some) && !holders.into_iter().flatten().any(runs)
}

const TRIES_MAX: u32 = 40;
const TRY_INTERVAL: Duration = Duration::from_millis(25);

fn name(index: u32) -> String {
    format!("{PREFIX}{index}")
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Returns which process and which deployment hold the lock of an interface of this thread's
/// network namespace.
pub(super) fn holder(index: u32) -> Option<(String, String)> {
    let sockets = sockets();
    owner(&sockets, PREFIX, index).map(|(process, name)| (process.to_owned(), name.to_owned()))
}

fn sockets() -> String {
    let bytes = fs::read("/proc/thread-self/net/unix").unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn taken(index: u32, action: String) -> SystemError {
    let sockets = sockets();
    let (why, cure) = if let Some((process, deployment)) = owner(&sockets, PREFIX, index) {
        (
            format!("it belongs already to the deployment `{deployment}` (process {process})"),
            format!("stop that one (`kill {process}`), or name another interface"),
        )
    } else if let Some((process, deployment)) = owner(&sockets, HOLDER_PREFIX, index) {
        (
            format!(
                "it belongs to the deployment `{deployment}`, whose keeper has ended and whose \
                 forwarder, process {process}, forwards on"
            ),
            format!("`weir up` with that deployment takes it over; `kill {process}` ends it"),
        )
    } else {
        (
            format!("another process holds its lock, the socket `@{PREFIX}{index}`"),
            format!("`ss -xap src @{PREFIX}{index}` shows which; stop it"),
        )
    };
    SystemError::refused(action, why, cure)
}

/// Finds in a list of sockets the process and the deployment in a name with this prefix and the
/// number of an interface.
fn owner<'s>(sockets: &'s str, prefix: &str, index: u32) -> Option<(&'s str, &'s str)> {
    let prefix = format!("@{prefix}{index}/");
    let name = sockets.lines().find_map(|line| line.split_once(&prefix))?.1;
    name.split_once('/')
}

/// The beginning of every name of a lock, and of its owner.
const PREFIX: &str = "weir-port-";
/// The beginning of the name of a process that has a copy.
const HOLDER_PREFIX: &str = "weir-forwarder-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_read_from_the_list_of_sockets() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                       0000000000000000: 00000002 00000000 00000000 0002 01 901 @weir-port-3\n\
                       0000000000000000: 00000002 00000000 00000000 0002 01 902 @weir-port-31/7/x\n\
                       0000000000000000: 00000002 00000000 00000000 0002 01 903 @weir-forwarder-3/9/y\n\
                       0000000000000000: 00000002 00000000 00000000 0002 01 904 @weir-port-3/12/a.b\n\
                       0000000000000000: 00000002 00000000 00000000 0001 01 905 /run/weir/a.sock\n";
        let rows = [
            (PREFIX, 3, Some(("12", "a.b"))),
            (HOLDER_PREFIX, 3, Some(("9", "y"))),
            (PREFIX, 31, Some(("7", "x"))),
            (PREFIX, 1, None),
        ];
        for (prefix, index, wanted) in rows {
            assert_eq!(owner(sockets, prefix, index), wanted, "{prefix}{index}");
        }
    }
}
