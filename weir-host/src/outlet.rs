//! Standard output of a process that waits for no reader: what is not taken in time is lost, and
//! counted.
//!
//! A pipe without a reader, a stopped terminal and a service manager that hangs would otherwise
//! hold a keeper up, and with it the replacement of a forwarder that died. Invariant: a text is
//! printed whole, or counted; what follows a text that was cut begins on a line of its own.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::watch;

/// The one standard output of this process.
static OUTLET: Mutex<Outlet> = Mutex::new(Outlet { lost: 0, is_torn: false, is_stuck: false });

/// How far an output is.
#[derive(Debug, Default)]
struct Outlet {
    /// Texts that were not taken, and not told yet.
    lost: u64,
    /// Whether the last text ends in its middle.
    is_torn: bool,
    /// Whether the reader did not take the last text; it is not waited for again.
    is_stuck: bool,
}

/// Prints a text, which may be several lines. A reader has `patience` for each piece of
/// [`PIECE`] bytes, unless it did not take the text before.
///
/// # Errors
/// When the reader has closed it, or it cannot be written.
pub fn print(text: &str, patience: Duration) -> io::Result<()> {
    // Nothing else of this process has begun a line there.
    io::stdout().flush()?;
    outlet().print(io::stdout().as_fd(), text, patience)
}

/// Returns how many texts were lost that were not [forgiven](forgive).
pub fn lost() -> u64 {
    outlet().lost
}

/// Notes that it was told of so many lost texts, if the text that tells it was printed.
pub fn forgive(count: u64) {
    let mut outlet = outlet();
    if !outlet.is_stuck {
        outlet.lost -= count.min(outlet.lost);
    }
}

fn outlet() -> MutexGuard<'static, Outlet> {
    OUTLET.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outlet {
    fn print(&mut self, out: BorrowedFd<'_>, text: &str, patience: Duration) -> io::Result<()> {
        let patience = if self.is_stuck { Duration::ZERO } else { patience };
        let whole = format!("{}{text}", if self.is_torn { "\n" } else { "" });
        let mut rest = whole.as_bytes();
        while !rest.is_empty() {
            let is_ready = watch::writable(out, patience).map_err(|error| error.cause)?;
            if !is_ready {
                self.lost += 1;
                self.is_stuck = true;
                self.is_torn |= rest.len() < whole.len();
                return Ok(());
            }
            let written = rustix::io::write(out, &rest[..rest.len().min(PIECE)])?;
            rest = &rest[written..];
        }
        (self.is_torn, self.is_stuck) = (false, false);
        Ok(())
    }
}

/// A pipe that is ready takes as much at once (pipe(7), PIPE_BUF).
pub const PIECE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_a_reader_does_not_take_is_lost_and_counted() {
        let (mut reader, writer) = io::pipe().expect("a pipe can be made");
        let mut outlet = Outlet::default();
        let mut print = |text: &str| {
            outlet.print(writer.as_fd(), text, Duration::ZERO).expect("the pipe is whole");
            (outlet.lost, outlet.is_torn)
        };
        assert_eq!(print("first\n"), (0, false));
        // More than a pipe holds: it is cut.
        assert_eq!(print(&"x".repeat(1 << 20)), (1, true));
        assert_eq!(print("lost\n"), (2, true));
        let mut taken = vec![0; 1 << 16];
        let count = reader.read(&mut taken).expect("there is something");
        assert!(taken[..count].starts_with(b"first\nxxx"));
        assert_eq!(print("last\n"), (2, false));
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("it is text");
        assert!(rest.ends_with("\nlast\n") && !rest.contains("lost"), "{}", rest.len());
    }
}
