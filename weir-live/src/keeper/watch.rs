//! Waiting for descriptors, for a loop without deadlines of packets.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Result, SystemError};

/// Waits up to `patience` until one of the descriptors is readable or at its end; returns which
/// are. A signal ends the wait early, with none.
pub fn readable(descriptors: &[BorrowedFd<'_>], patience: Duration) -> Result<Vec<bool>> {
    let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut watched: Vec<_> = descriptors.iter().copied().map(watch).collect();
    let timeout = Timespec {
        tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    match poll(&mut watched, Some(&timeout)) {
        Ok(_) => Ok(watched.iter().map(|watched| !watched.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; descriptors.len()]),
        Err(error) => Err(SystemError::new("wait for a process", error.into())),
    }
}
