//! The state of a connection beside its bytes: how much was read of its requests, and whether one
//! is being answered.

use super::Fault;
use super::heading::Head;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use weir_control::protocol::Cause;

/// How long a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a whole request, and from one to the next.
    pub request: Duration,
    /// Until it has read a whole answer, or the next part of one that takes as long as it likes.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { request: Duration::from_secs(2), answer: Duration::from_secs(10) }
    }
}

/// A request whose head was read.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its first line and its headers.
    pub head: Head,
    /// When the whole request is to be there.
    pub until: Instant,
}

/// The state of a connection, shared by its task and its handlers.
pub struct Talk {
    /// How long the client may take.
    pub patience: Patience,
    /// Another descriptor of its socket.
    socket: OwnedFd,
    /// Whether the server ends.
    ending: watch::Receiver<bool>,
    state: Mutex<State>,
    is_answering: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Heads that were read and are not met yet, and the fault with which reading ended.
    asked: VecDeque<Result<Asked, Fault>>,
    /// When the client is to have read the answer that is on its way.
    answer_until: Option<Instant>,
    /// Why the client was refused.
    refusal: Option<(Cause, String)>,
    /// Waits for the end of an answer, to read the next request.
    reader: Option<Waker>,
}

impl Talk {
    /// A connection by this socket, on which nothing was said yet.
    pub fn new(socket: OwnedFd, patience: Patience, ending: watch::Receiver<bool>) -> Self {
        let is_answering = AtomicBool::new(false);
        Self { patience, socket, ending, state: Mutex::default(), is_answering }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, or the reason why no further one is read.
    pub fn push(&self, asked: Result<Asked, Fault>) {
        self.state().asked.push_back(asked);
    }

    /// Begins to meet the next request.
    pub fn begin(&self) -> Option<Result<Asked, Fault>> {
        self.is_answering.store(true, Ordering::Relaxed);
        self.state().asked.pop_front()
    }

    /// Notes when an answer is to be read, where all of it is there.
    pub fn answer_until(&self, until: Option<Instant>) {
        self.state().answer_until = until;
    }

    /// Returns when the answer is to be read.
    pub fn until(&self) -> Option<Instant> {
        self.state().answer_until
    }

    /// Notes that an answer has been given to the connection.
    pub fn end(&self) {
        self.is_answering.store(false, Ordering::Relaxed);
        if let Some(reader) = self.state().reader.take() {
            reader.wake();
        }
    }

    /// Returns whether an answer is under way; if so, `reader` is woken at its end.
    pub fn is_answering(&self, reader: &Waker) -> bool {
        let mut state = self.state();
        let is_answering = self.is_answering.load(Ordering::Relaxed);
        state.reader = is_answering.then(|| reader.clone());
        is_answering
    }

    /// Notes why the client is refused; the first reason counts.
    pub fn refuse(&self, cause: Cause, text: &str) {
        self.state().refusal.get_or_insert_with(|| (cause, text.to_owned()));
    }

    /// Returns why the client was refused.
    pub fn refusal(&self) -> Option<(Cause, String)> {
        self.state().refusal.take()
    }

    /// Returns whether the client has closed its end, or the server ends.
    pub fn is_over(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        *self.ending.borrow() || matches!(recv(self.socket.as_fd(), &mut [0u8], flags), Ok((0, _)))
    }

    /// Ends the connection, whatever other descriptors of it there are.
    pub fn close(&self) {
        // One that has ended already stays so.
        let _ended = shutdown(&self.socket, Shutdown::Both);
    }

    /// Waits until [`Talk::is_over`] returns true.
    pub async fn over(&self) {
        while !self.is_over() {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// How soon a stream sees that its client or the server is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
