//! Requests and answers: one JSON object on a line each.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weir_live::status::Status;

/// The longest request line; a longer one is refused before it is read.
pub const REQUEST_MAX: u64 = 64 << 10;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum Request {
    /// What the link did so far.
    Status,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// The request was not understood or cannot be met: why, and the cure.
    Error(String),
}

/// Where a link of this name listens unless told otherwise: under the user's runtime directory, or
/// under `/run/weir` for root.
pub fn default_socket(name: &str) -> PathBuf {
    let directory = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => PathBuf::from(directory).join("weir"),
        None => PathBuf::from("/run/weir"),
    };
    directory.join(format!("{name}.sock"))
}
