//! Who is at the other end of a Unix socket.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::{Result, SystemError};

/// The process that connected, as the kernel noted it then (SO_PEERCRED, unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The effective user, as the kernel noted it.
    pub uid: u32,
    /// Its number; `None` where it is of another namespace of processes. Another process may have
    /// it by now.
    pub process: Option<u32>,
}

/// Returns the user of the process that connected.
///
/// # Errors
/// When it is not a Unix socket.
pub fn uid(socket: BorrowedFd<'_>) -> Result<u32> {
    credentials(socket).map(|credentials| credentials.uid)
}

/// Returns the process that connected.
///
/// # Errors
/// When it is not a Unix socket.
pub fn credentials(socket: BorrowedFd<'_>) -> Result<Credentials> {
    let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `credentials`, and all bytes of
    // a ucred are integers, so that it is valid whatever was written.
    let (status, credentials) = unsafe {
        let status = libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            credentials.as_mut_ptr().cast(),
            &raw mut length,
        );
        (status, credentials.assume_init())
    };
    if status == 0 {
        let process = u32::try_from(credentials.pid).ok().filter(|process| *process > 0);
        Ok(Credentials { uid: credentials.uid, process })
    } else {
        Err(SystemError::last("read who is at the other end of a socket"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_a_pair_is_this_user() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let credentials = credentials(one.as_fd()).expect("a process");
        assert_eq!(credentials.process, Some(std::process::id()));
        assert_eq!(credentials.uid, uid(other.as_fd()).expect("a user"));
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert!(uid(file.as_fd()).is_err());
    }
}
