//! The error of this crate: the action, the system's reason, and the cure.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// A failed system call, described so that a user can act on it.
#[derive(Debug)]
pub struct SystemError {
    /// The action, with the value, as in "open a packet socket on `eth1`".
    pub action: String,
    /// The error that the system gave.
    pub cause: io::Error,
    /// Advice to the user; empty where the cause says it all.
    pub cure: Cow<'static, str>,
}

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, SystemError>;

impl SystemError {
    /// `action` failed with `cause`; a known error number determines the cure.
    pub fn new(action: impl Into<String>, cause: io::Error) -> Self {
        let cure = match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "run as root, or give the program CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (setcap \
                 cap_net_raw,cap_net_admin,cap_bpf+ep), or use a user namespace (unshare -Urn)"
            }
            Some(libc::ENODEV | libc::ENXIO) => "`ip link` lists the interfaces",
            Some(libc::ENOMEM | libc::ENOBUFS) => "configure a smaller ring or free some memory",
            Some(libc::EEXIST) => "remove the existing one first, or choose another name",
            _ => "",
        };
        Self { action: action.into(), cause, cure: Cow::Borrowed(cure) }
    }

    /// `action` failed with the error number of the last system call.
    pub fn last(action: impl Into<String>) -> Self {
        Self::new(action, io::Error::last_os_error())
    }

    /// An error found by Weir itself, before any system call.
    pub fn refused(
        action: impl Into<String>,
        why: impl Into<String>,
        cure: impl Into<Cow<'static, str>>,
    ) -> Self {
        let cause = io::Error::new(io::ErrorKind::InvalidInput, why.into());
        Self { action: action.into(), cause, cure: cure.into() }
    }

    /// Returns the error number, if the system gave one.
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
