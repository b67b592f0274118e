//! The connection of a client: bytes in both directions, each until an instant.

use rustix::net::{RecvFlags, recv};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection.
pub enum Stream {
    /// On the control socket.
    Unix(UnixStream),
    /// On the address of `[deployment.api]`.
    Tcp(TcpStream),
}

/// Bytes in both directions, for which there is a limit of time.
pub trait Wire: Read + Write {
    /// What follows is done before this instant, or fails.
    fn until(&mut self, end: Instant);

    /// Returns whether the other end is known to be closed.
    fn is_gone(&self) -> bool;
}

impl Stream {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    /// Ends both directions.
    pub fn end(&self) {
        self.shutdown(Shutdown::Both);
    }

    /// A direction that has ended already stays so.
    fn shutdown(&self, how: Shutdown) {
        let _ended = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }

    /// Ends the direction to the client.
    pub(super) fn end_writing(&self) {
        self.shutdown(Shutdown::Write);
    }

    /// Ends the direction from the client.
    pub fn end_reading(&self) {
        self.shutdown(Shutdown::Read);
    }

    /// Waits until `end` for the first byte, and leaves it to be read; `None` at the end.
    pub(super) fn first(&self, end: Instant) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let count = uninterrupted(|| {
            self.set_timeouts(left(end)?)?;
            Ok(recv(self, &mut byte, RecvFlags::PEEK)?.0)
        })?;
        Ok((count > 0).then_some(byte[0]))
    }

    /// Returns the first byte if it is there already, and leaves it to be read.
    pub fn first_now(&self) -> Option<u8> {
        let mut byte = [0];
        let received = recv(self, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        received.is_ok_and(|(count, _)| count > 0).then_some(byte[0])
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A stream that is read from and written to until an instant.
pub struct Timed<'a> {
    pub(super) stream: &'a Stream,
    pub(super) end: Instant,
}

impl<'a> Timed<'a> {
    /// A stream that is used for so long.
    pub fn new(stream: &'a Stream, patience: Duration) -> Self {
        Self { stream, end: Instant::now() + patience }
    }

    /// Prepares the stream for the next call.
    pub(super) fn ready(&self) -> io::Result<()> {
        self.stream.set_timeouts(left(self.end)?)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.ready()?;
            match self.stream {
                Stream::Unix(stream) => (&mut &*stream).read(bytes),
                Stream::Tcp(stream) => (&mut &*stream).read(bytes),
            }
        })
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.ready()?;
            match self.stream {
                Stream::Unix(stream) => (&mut &*stream).write(bytes),
                Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            }
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

impl Wire for Timed<'_> {
    fn until(&mut self, end: Instant) {
        self.end = end;
    }

    fn is_gone(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(recv(self.stream, &mut [0u8], flags), Ok((0, _)))
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
