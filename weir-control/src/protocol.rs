//! Requests and answers, each one JSON object on a line.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weir_live::status::Status;

/// The longest request line; a longer one is refused before it is read.
pub const REQUEST_MAX: u64 = 64 << 10;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum Request {
    /// Requests the status of the link.
    Status,
}

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The answer to [`Request::Status`].
    Status(Box<Status>),
    /// The request is malformed or cannot be met; the text gives the reason and the cure.
    Error(String),
}

/// Returns the default socket of a link of this name: under the user's runtime directory, or under
/// `/run/weir` for root.
pub fn default_socket(name: &str) -> PathBuf {
    let directory = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => PathBuf::from(directory).join("weir"),
        None => PathBuf::from("/run/weir"),
    };
    directory.join(format!("{name}.sock"))
}
