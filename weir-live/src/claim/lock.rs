//! The lock of an interface: an abstract Unix socket named after its number.
//!
//! The kernel keeps abstract names for each network namespace, just as numbers of interfaces; it
//! frees a name with its last descriptor, so also after a crash; and an ordinary user in a user
//! namespace may bind one. A lock on a file would need a folder that every user may write, and a
//! name for the namespace. What is lost: any local user can bind the name first, and the message
//! then shows no deployment.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::error::{Result, SystemError};

/// A lock, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    #[expect(dead_code, reason = "the name exists as long as the socket is open")]
    lock: UnixDatagram,
    #[expect(dead_code, reason = "its name tells others who holds the lock")]
    owner: UnixDatagram,
}

impl Lock {
    /// Locks the interface `index` of this thread's network namespace.
    pub(super) fn take(index: u32, deployment: &str, action: impl Fn() -> String) -> Result<Self> {
        let name = format!("{PREFIX}{index}");
        let lock = match bind(&name) {
            Ok(lock) => lock,
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => {
                return Err(taken(index, action()));
            }
            Err(cause) => return Err(SystemError::new(action(), cause)),
        };
        let owner = bind(&format!("{name}/{}/{deployment}", std::process::id()))
            .map_err(|cause| SystemError::new(action(), cause))?;
        Ok(Self { lock, owner })
    }
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Returns which process and which deployment hold the lock of an interface of this thread's
/// network namespace.
pub(super) fn holder(index: u32) -> Option<(String, String)> {
    let sockets = sockets();
    owner(&sockets, index).map(|(process, name)| (process.to_owned(), name.to_owned()))
}

fn sockets() -> String {
    let bytes = fs::read("/proc/thread-self/net/unix").unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn taken(index: u32, action: String) -> SystemError {
    let (why, cure) = match owner(&sockets(), index) {
        Some((process, deployment)) => (
            format!("it belongs already to the deployment `{deployment}` (process {process})"),
            format!("stop that one (`kill {process}`), or name another interface"),
        ),
        None => (
            format!("another process holds its lock, the socket `@{PREFIX}{index}`"),
            format!("`ss -xap src @{PREFIX}{index}` shows which; stop it"),
        ),
    };
    SystemError::refused(action, why, cure)
}

/// Finds in a list of sockets the process and the deployment that hold the lock of an interface.
fn owner(sockets: &str, index: u32) -> Option<(&str, &str)> {
    let prefix = format!("@{PREFIX}{index}/");
    let name = sockets.lines().find_map(|line| line.split_once(&prefix))?.1;
    name.split_once('/')
}

/// The beginning of every name.
const PREFIX: &str = "weir-port-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_read_from_the_list_of_sockets() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                       0000000000000000: 00000002 00000000 00000000 0002 01 901 @weir-port-3\n\
                       0000000000000000: 00000002 00000000 00000000 0002 01 902 @weir-port-31/7/x\n\
                       0000000000000000: 00000002 00000000 00000000 0002 01 903 @weir-port-3/12/a.b\n\
                       0000000000000000: 00000002 00000000 00000000 0001 01 904 /run/weir/a.sock\n";
        for (index, wanted) in [(3, Some(("12", "a.b"))), (31, Some(("7", "x"))), (1, None)] {
            assert_eq!(owner(sockets, index), wanted, "{index}");
        }
    }
}
