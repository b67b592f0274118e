//! The connection of a client: bytes in both directions, each until an instant.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) struct Stream {
    socket: UnixStream,
    /// The client acts for one of the API, and has a place among such clients.
    is_on_behalf: AtomicBool,
}

impl Stream {
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, is_on_behalf: AtomicBool::new(false) }
    }

    /// Notes that it acts for a client of the API from now on.
    pub fn act_on_behalf(&self) {
        self.is_on_behalf.store(true, Ordering::Relaxed);
    }

    /// Returns whether it acts for a client of the API.
    pub fn is_on_behalf(&self) -> bool {
        self.is_on_behalf.load(Ordering::Relaxed)
    }

    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(timeout))?;
        self.socket.set_write_timeout(Some(timeout))
    }

    /// Shuts both directions down.
    pub fn end(&self) {
        self.shutdown(Shutdown::Both);
    }

    /// A direction that has ended already stays so.
    fn shutdown(&self, how: Shutdown) {
        let _ended = self.socket.shutdown(how);
    }

    /// Ends the direction to the client.
    pub fn end_writing(&self) {
        self.shutdown(Shutdown::Write);
    }

    /// Ends the direction from the client.
    pub fn end_reading(&self) {
        self.shutdown(Shutdown::Read);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A stream that is read from and written to until an instant.
pub(super) struct Timed<'a> {
    pub stream: &'a Stream,
    pub end: Instant,
}

impl<'a> Timed<'a> {
    /// A stream that is used for so long.
    pub fn new(stream: &'a Stream, patience: Duration) -> Self {
        Self { stream, end: Instant::now() + patience }
    }

    /// Prepares the stream for the next call.
    pub fn ready(&self) -> io::Result<()> {
        self.stream.set_timeouts(left(self.end)?)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.ready()?;
            (&self.stream.socket).read(bytes)
        })
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.ready()?;
            (&self.stream.socket).write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that is written to for as long as each part of it is read in time.
pub(super) struct Paced<'a> {
    pub stream: &'a Stream,
    pub patience: Duration,
}

impl Write for Paced<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Timed::new(self.stream, self.patience).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls again what a signal to the process interrupted: a socket with a timeout is not restarted
/// by the kernel (signal(7)).
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Returns how long to wait until `end`.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // A timeout of zero would mean none.
    Ok(left.max(Duration::from_millis(1)))
}
