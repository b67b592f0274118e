//! Requests and answers, each one JSON object on a line. An answer may bring descriptors beside it
//! (SCM_RIGHTS, unix(7)).
//!
//! A request is one line of [`Request`] here and an arm where the link acts on it
//! ([`crate::service::Service::act`]).

use serde::{Deserialize, Serialize};
pub use weir_live::change::history::{Entry, File, Origin, REASON_MAX, Texts};
use weir_live::status::Status;
pub use weir_live::status::query::{CLASSES_DEFAULT, CLASSES_MAX, Query, Sort};

/// The longest request line; a longer one is refused before it is read.
pub const REQUEST_MAX: usize = 64 << 10;
/// The longest request line of root and of the user who runs the link: it may bring a deployment
/// with all its policies.
pub const OWNER_REQUEST_MAX: usize = 64 << 20;
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
    /// Sets single values of the policies in force.
    Set {
        /// What to set, in this order.
        settings: Vec<Setting>,
        /// How.
        #[serde(default)]
        terms: Terms,
    },
    /// Puts other texts in force.
    Reload {
        /// The deployment with its policies; without it the link reads its own files anew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        texts: Option<Box<Texts>>,
        /// How.
        #[serde(default)]
        terms: Terms,
    },
    /// Puts the policies in force that were before the last change, or after an older one.
    Rollback {
        /// The number of the older change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
        /// How.
        #[serde(default)]
        terms: Terms,
    },
    /// Lets the change that is on trial stay.
    Confirm {},
    /// Requests the last changes.
    Log {},
    /// Requests what a new keeper needs to take over a link whose keeper died, as descriptors.
    HandOver {},
}

/// A value to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The direction whose policy has it; needed where directions have several policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The path of the key, as in the policy; one that begins with `deployment.` or `direction.` is
    /// in the deployment.
    pub key: String,
    /// The value in TOML, or a text; empty to remove the key.
    pub value: String,
}

/// How a change is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Only say what it would change.
    #[serde(default)]
    pub dry_run: bool,
    /// It is undone after so many milliseconds unless it is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_ms: Option<u64>,
    /// It is undone as soon as one of these conditions is broken, such as
    /// `voice.delay.p99 < 10 ms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<String>,
    /// Why it is made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What became of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// Its number in the history; `None` if nothing was changed.
    pub number: Option<u64>,
    /// The errors in the texts: with one, nothing was changed.
    pub errors: usize,
    /// The findings, as `weir check` prints them.
    pub text: String,
    /// The findings, as `weir check --format json` prints them.
    pub findings: Vec<serde_json::Value>,
    /// What changes, in a line.
    pub what: String,
    /// Of a dry run: what changes in each direction.
    pub directions: Vec<Difference>,
    /// The changes by `weir set` that it replaced with what files say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<u64>,
    /// For how long it is on trial, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_ms: Option<u64>,
    /// From when the request was read until all loops had made the change, in microseconds.
    pub took_us: u64,
}

/// What changes in a direction, as `weir diff` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Its name.
    pub direction: String,
    /// As text.
    pub text: String,
    /// As JSON.
    pub difference: serde_json::Value,
}

/// An answer of the server. `S` is the status, read or to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<S = Box<Status>> {
    /// The answer to [`Request::Status`].
    Status(S),
    /// The request was met.
    Done,
    /// The answer to a change.
    Changed(Box<Changed>),
    /// The answer to [`Request::Log`]: the last changes, the oldest first, without their texts.
    Log(Vec<Entry>),
    /// The request is malformed or cannot be met; the text gives the reason and the cure.
    Error(String),
}

impl Request {
    /// Returns whether it only reads. Other requests are for root and the user who runs the link.
    pub fn reads(&self) -> bool {
        matches!(self, Self::Status(_) | Self::Log {})
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
