//! The one error of this crate: what was tried on what, why the system refused, and the cure.

use std::fmt;
use std::io;

/// A system call that failed, told so that a user can act on it.
#[derive(Debug)]
pub struct SystemError {
    /// What was tried, naming the value, as in "open a packet socket on `eth1`".
    pub action: String,
    /// What the system answered.
    pub cause: io::Error,
    /// What the user can do about it; empty where nothing better than the cause can be said.
    pub cure: &'static str,
}

/// What every fallible call of this crate returns.
pub type Result<T> = std::result::Result<T, SystemError>;

impl SystemError {
    /// `action` failed with `cause`; the cure follows from the error number where one is known.
    pub fn new(action: impl Into<String>, cause: io::Error) -> Self {
        let cure = match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "run as root, or give the program CAP_NET_RAW and CAP_NET_ADMIN \
                 (setcap cap_net_raw,cap_net_admin+ep), or use a user namespace (unshare -Urn)"
            }
            Some(libc::ENODEV | libc::ENXIO) => "`ip link` lists the interfaces there are",
            Some(libc::ENOMEM | libc::ENOBUFS) => "ask for a smaller ring or free some memory",
            Some(libc::EEXIST) => "remove the existing one first, or choose another name",
            _ => "",
        };
        Self { action: action.into(), cause, cure }
    }

    /// `action` failed with the error number the last system call left.
    pub fn last(action: impl Into<String>) -> Self {
        Self::new(action, io::Error::last_os_error())
    }

    /// A refusal of our own, for input that the system was not asked about.
    pub fn refused(action: impl Into<String>, why: impl Into<String>, cure: &'static str) -> Self {
        let cause = io::Error::new(io::ErrorKind::InvalidInput, why.into());
        Self { action: action.into(), cause, cure }
    }

    /// The error number, if the system gave one.
    pub fn errno(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.cause)?;
        if self.cure.is_empty() { Ok(()) } else { write!(f, "; {}", self.cure) }
    }
}

impl std::error::Error for SystemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}
