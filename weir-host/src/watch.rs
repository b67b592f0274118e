//! Waiting for descriptors, for a loop without deadlines of packets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};

use crate::error::{Result, SystemError};

/// Waits up to `patience` until one of the descriptors is readable or at its end; returns which
/// are. A signal ends the wait early, with none.
pub fn readable(descriptors: &[BorrowedFd<'_>], patience: Duration) -> Result<Vec<bool>> {
    let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut watched: Vec<_> = descriptors.iter().copied().map(watch).collect();
    match poll(&mut watched, Some(&timespec(patience))) {
        Ok(_) => Ok(watched.iter().map(|watched| !watched.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; descriptors.len()]),
        Err(error) => Err(SystemError::new("wait for a process", error.into())),
    }
}

/// Waits up to `patience` until a descriptor can be written to, or never will be again.
pub fn writable(descriptor: BorrowedFd<'_>, patience: Duration) -> Result<bool> {
    let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)];
    match poll(&mut watched, Some(&timespec(patience))) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(SystemError::new("wait for an output", error.into())),
    }
}

fn timespec(patience: Duration) -> Timespec {
    Timespec {
        tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    }
}

/// Wakes a loop that waits for its descriptor.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Makes one.
    ///
    /// # Errors
    /// When there are too many descriptors.
    pub fn new() -> Result<Self> {
        let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        made.map(Self).map_err(|cause| SystemError::new("make an eventfd", cause.into()))
    }

    /// Wakes the loop, now or when it waits next.
    pub fn wake(&self) {
        // Where its count is full, it wakes the loop as well.
        let _full = write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Lets the loop sleep again.
    pub fn reset(&self) {
        let _empty = read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    /// Readable once it was woken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
