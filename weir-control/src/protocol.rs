//! Requests and answers, each one JSON object on a line. An answer may bring descriptors beside it
//! (SCM_RIGHTS, unix(7)).
//!
//! A request is one line of [`Request`] here and an arm where the link acts on it
//! ([`crate::service::Service::act`]).

use serde::{Deserialize, Serialize};
use weir_live::status::Status;
pub use weir_live::status::query::{CLASSES_DEFAULT, CLASSES_MAX, Query, Sort};

/// The longest request line; a longer one is refused before it is read.
pub const REQUEST_MAX: usize = 64 << 10;
/// The most descriptors that come with an answer.
pub const DESCRIPTORS_MAX: usize = 64;

/// How an error begins where a keeper runs and no forwarder: said unasked.
pub const ABSENT: &str = "no forwarder runs";

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum Request {
    /// Requests the status of the link.
    Status(Query),
    /// Lets the measurement of delays restart.
    Mark,
    /// Lets the link read its deployment anew and go on with it, in a new process.
    Restart,
    /// Requests a record: behind the answer it follows as bytes, until the client closes its half of
    /// the connection, or the time is over.
    Record {
        /// How long to record, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ms: Option<u64>,
    },
    /// Requests a record of what happened of late: behind the answer it follows as bytes.
    Snapshot,
    /// Requests what a new keeper needs to take over a link whose keeper died, as descriptors.
    HandOver,
}

/// An answer of the server. `S` is the status, read or to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<S = Box<Status>> {
    /// The answer to [`Request::Status`].
    Status(S),
    /// The request was met.
    Done,
    /// The request is malformed or cannot be met; the text gives the reason and the cure.
    Error(String),
}

impl Request {
    /// Returns whether it only reads. Other requests are for root and the user who runs the link.
    pub fn reads(&self) -> bool {
        matches!(self, Self::Status(_))
    }
}
