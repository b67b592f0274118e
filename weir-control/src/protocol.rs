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

/// A request of a client. A field that it does not have is refused: the client may mean more by it
/// than the link would do. serde refuses it for `Mark {}`, but not for a variant without braces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Requests the status of the link.
    Status(Query),
    /// Lets the measurement of delays restart.
    Mark {},
    /// Lets the link read its deployment anew and go on with it, in a new process.
    Restart {},
    /// Requests what a new keeper needs to take over a link whose keeper died, as descriptors.
    HandOver {},
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that `call` may be, as serde lists them when it is another one.
    fn calls() -> Vec<String> {
        let error = serde_json::from_str::<Request>(r#"{"call":"?"}"#).expect_err("no request");
        let text = error.to_string();
        let quoted = text.split('`').skip(1).step_by(2);
        quoted.filter(|word| *word != "?").map(str::to_owned).collect()
    }

    #[test]
    fn no_request_has_a_field_that_is_ignored() {
        let calls = calls();
        assert!(calls.len() >= 4 && calls.iter().any(|call| call == "restart"), "{calls:?}");
        for call in calls {
            let line = format!(r#"{{"call":"{call}","no-such-field":"/etc/passwd"}}"#);
            let read = serde_json::from_str::<Request>(&line);
            let why = read.map_err(|error| error.to_string());
            assert!(matches!(&why, Err(why) if why.contains("no-such-field")), "{line}: {why:?}");
        }
    }
}
