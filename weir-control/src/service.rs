//! The parts that a server is given: where counts are, who may change the link, and what acts on
//! requests.

pub use crate::protocol::Cause;
use crate::protocol::{Answer, REQUEST_MAX, Request, Right};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weir_link::events::feed::Feed;
use weir_link::status::{Board, Processes, Rows, Status};

/// The link behind a server.
pub struct Service {
    /// The name of its deployment.
    pub name: String,
    /// The boards of its loops.
    pub boards: Vec<Arc<Board>>,
    /// The last events, for clients that ask.
    pub feed: Arc<Feed>,
    /// The user who started it: this one and root may send requests that change something.
    pub owner: u32,
    /// The keeper of the link, if it is a forwarder; 0 while that is gone.
    pub keeper: Option<Arc<AtomicU32>>,
    /// The longest request line of those who may change the link.
    pub owner_request_max: usize,
    /// Acts on a request that only reads or that comes from one who may change the link, and that
    /// the server does not answer itself. It runs on the thread of a client.
    pub act: Act,
    /// Is told of each request and client that was refused.
    pub refused: Box<dyn Fn(Refused) + Send + Sync>,
    /// How long it waits.
    pub patience: Patience,
}

/// How long a server waits for one client; others do not wait with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a whole request.
    pub request: Duration,
    /// For the run loop to give new counts.
    pub counts: Duration,
    /// Until the client has read a whole answer.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { request: seconds(2), counts: seconds(2), answer: seconds(10) }
    }
}

/// The function that meets requests: see [`Service::act`].
pub type Act = Box<dyn Fn(&Request, &Peer) -> Reply + Send + Sync>;

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user; `None` if the kernel does not tell, or if it acts for another client.
    pub uid: Option<u32>,
    /// The user whose its changes are in the log; it gives no right.
    pub user: Option<u32>,
    /// The right of the client for which it acts: one of the API, with a token.
    pub token: Option<Right>,
}

/// An answer, with the descriptors that go with it.
pub struct Reply {
    /// The answer to the request.
    pub answer: Answer<Status<Rows>>,
    /// At most [`crate::protocol::DESCRIPTORS_MAX`]; they are closed here once they are sent.
    pub descriptors: Vec<OwnedFd>,
    /// Writes what follows the answer on the client's connection, which ends with it.
    pub tail: Option<Tail>,
}

/// See [`Reply::tail`]. It runs on the thread of the client, and is given the connection and what
/// returns whether the client has closed its half of it. The text of an error says why it ended
/// early.
pub type Tail = Box<dyn FnOnce(&mut dyn Write, &dyn Fn() -> bool) -> Result<(), String> + Send>;

/// A client that was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its user; `None` if the kernel does not tell, or for a client of the API.
    pub uid: Option<u32>,
    /// It came by the address of the API, not by the control socket.
    pub is_tcp: bool,
    /// The kind of the refusal.
    pub cause: Cause,
    /// The cause in words that are fit to print.
    pub text: String,
}

impl Service {
    /// A link of this user that tells its status and restarts the measurement of delays; what it
    /// refuses is not told to anyone.
    pub fn of(boards: Vec<Arc<Board>>, owner: u32) -> Self {
        Self {
            name: String::new(),
            boards,
            feed: Arc::default(),
            owner,
            keeper: None,
            owner_request_max: REQUEST_MAX,
            act: Box::new(|_, _| Reply::error("this link does not know the request")),
            refused: Box::new(drop),
            patience: Patience::default(),
        }
    }

    /// Returns the processes of the link.
    pub fn processes(&self) -> Option<Processes> {
        let keeper = self.keeper.as_ref()?.load(Ordering::Relaxed);
        Some(Processes { keeper: (keeper > 0).then_some(keeper), forwarder: std::process::id() })
    }

    /// Returns whether this is the number of the keeper of the link.
    pub(crate) fn is_keeper(&self, process: u32) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.load(Ordering::Relaxed) == process)
    }

    /// Returns how long a request of this client may be.
    pub(crate) fn request_max(&self, peer: &Peer) -> usize {
        if self.may_change(peer) { self.owner_request_max } else { REQUEST_MAX }
    }

    /// Returns whether a process may change the link.
    pub fn may_change(&self, peer: &Peer) -> bool {
        let is_owner = peer.uid.is_some_and(|uid| uid == 0 || uid == self.owner);
        is_owner || peer.token == Some(Right::Change)
    }
}

impl Reply {
    /// An answer without descriptors.
    pub fn of(answer: Answer<Status<Rows>>) -> Self {
        Self { answer, descriptors: Vec::new(), tail: None }
    }

    /// An error, with its cure.
    pub fn error(text: impl Into<String>) -> Self {
        Self::of(Answer::Error(text.into()))
    }
}

impl From<Answer<Status<Rows>>> for Reply {
    fn from(answer: Answer<Status<Rows>>) -> Self {
        Self::of(answer)
    }
}
