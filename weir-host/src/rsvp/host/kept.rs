//! A host at work in a thread of its own, for a program that has other things to do.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Host, HostPlan, HostStatus, State};
use crate::error::{Result, SystemError};

/// A flow that is announced, or reserved for, until this is dropped.
#[derive(Debug)]
pub struct Kept {
    stop: UnixStream,
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

/// The status that the thread shares.
#[derive(Debug)]
struct Seen {
    status: Mutex<HostStatus>,
    changed: Condvar,
}

impl Kept {
    /// Opens the sockets in this thread's network namespace, and begins.
    ///
    /// # Errors
    /// As [`Host::open`], or when the system gives no thread.
    pub fn start(plan: HostPlan) -> Result<Self> {
        let failed = |cause| SystemError::new("start a thread for a reservation", cause);
        let mut host = Host::open(plan)?;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        // The first messages leave before this returns.
        let (_, deadline) = host.turn();
        let status = Mutex::new(host.status());
        let seen = Arc::new(Seen { status, changed: Condvar::new() });
        let own = Arc::clone(&seen);
        let work = move || {
            work(&mut host, deadline, &stopped, &own);
            host.end();
        };
        let thread = thread::Builder::new().name("reservation".to_owned()).spawn(work);
        Ok(Self { stop, seen, thread: Some(thread.map_err(failed)?) })
    }

    /// Returns how it stands.
    pub fn status(&self) -> HostStatus {
        self.seen.lock().clone()
    }

    /// Waits at most so long until the network, or this host, decided; returns how it stands.
    pub fn wait(&self, patience: Duration) -> State {
        let end = Instant::now() + patience;
        let mut status = self.seen.lock();
        while matches!(status.state, State::Waiting | State::Asked) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.seen.changed.wait_timeout(status, left);
            status = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        status.state.clone()
    }
}

impl Drop for Kept {
    /// Takes the reservation back before it returns.
    fn drop(&mut self) {
        // A thread that ended by itself receives nothing.
        let _ended = self.stop.write_all(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Runs until it is stopped, or another program releases it.
fn work(
    host: &mut Host,
    mut deadline: Option<weir_core::units::Instant>,
    stopped: &UnixStream,
    seen: &Seen,
) {
    while stopped.set_nonblocking(true).is_ok() && !host.is_released() {
        if host.wait(deadline, &[stopped.as_fd()]).is_err() || is_stopped(stopped) {
            return;
        }
        (_, deadline) = host.turn();
        *seen.lock() = host.status();
        seen.changed.notify_all();
    }
}

fn is_stopped(mut stopped: &UnixStream) -> bool {
    use std::io::{ErrorKind, Read};
    let read = stopped.read(&mut [0]);
    !matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

impl Seen {
    /// A thread that failed left a whole status.
    fn lock(&self) -> MutexGuard<'_, HostStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
