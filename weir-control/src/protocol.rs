//! Requests and answers, each one JSON object on a line. An answer may bring descriptors beside it
//! (SCM_RIGHTS, unix(7)).
//!
//! A request is one line of the table below and an arm where the link acts on it
//! ([`crate::service::Service::act`]). The line makes its route of HTTP and its part of the OpenAPI
//! document in `weir-gateway`, too; docs/api.md describes both protocols.

use crate::circuits::{Circuits, Fed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
pub use weir_link::change::history::{Counts, Entry, File, Origin, REASON_MAX, Texts};
use weir_link::status::Status;
pub use weir_link::status::query::{CLASSES_DEFAULT, CLASSES_MAX, Query, Sort};
pub use weir_link::status::reservations::Reservations;

/// Bound: bytes of a request, as a line or as the body of HTTP; a longer one is refused before it
/// is read.
pub const REQUEST_MAX: usize = 64 << 10;
/// Bound: bytes of a request of root and of the user who runs the link; a longer one is refused. It
/// may bring a deployment with all its policies.
pub const OWNER_REQUEST_MAX: usize = 64 << 20;
/// The most descriptors that come with an answer.
pub const DESCRIPTORS_MAX: usize = 64;
/// The version of the requests and of their routes; docs/api.md says what may change within one.
pub const VERSION: &str = "1.6.0";

/// The type of a record.
pub const PCAPNG: &str = "application/x-pcapng";
/// Bound: milliseconds of a record by HTTP; a request for more is refused. There a client has no
/// other way to end one that leaves it whole.
pub const RECORD_MS_MAX: u64 = 3_600_000;

/// How an error begins where a keeper runs and no forwarder: said unasked.
pub const ABSENT: &str = "no forwarder runs";

/// Makes [`Request`] and [`CALLS`] of a line for each request: name and what comes with it,
/// keyword, the keyword of its answer, who may send it, and its route of HTTP.
macro_rules! requests {
    ($($(#[doc = $doc:literal])+ $name:ident $(($with:ty))? $({ $($fields:tt)* })?
        $keyword:literal -> $answer:literal, $right:ident, $route:expr;)+) => {
        /// A request of a client. A field that it does not have is refused: the client may mean
        /// more by it than the link would do. serde refuses it for `Mark {}`, but not for a variant
        /// without braces.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "call", deny_unknown_fields)]
        pub enum Request {
            $($(#[doc = $doc])+ #[serde(rename = $keyword)] $name $(($with))? $({ $($fields)* })?,)+
        }

        /// The table of requests, in their order.
        pub const CALLS: &[Call] = &[$(Call {
            keyword: $keyword,
            summary: concat!($($doc),+),
            answer: $answer,
            right: Right::$right,
            route: $route,
        }),+];

        impl Request {
            /// Returns its line of the table.
            pub fn call(&self) -> &'static Call {
                let keyword = match self {
                    $(Self::$name { .. } => $keyword,)+
                };
                let call = CALLS.iter().find(|call| call.keyword == keyword);
                call.expect("both are made from one table")
            }
        }
    };
}

requests! {
    /// Requests the status of the link.
    Status(Query) "status" -> "status", Read, get("/status");
    /// Requests what happened to the link of late.
    Events(Since) "events" -> "events", Read, get("/events");
    /// Lets the measurement of delays restart.
    Mark {} "mark" -> "done", Change, post("/mark");
    /// Lets the link read its deployment anew and go on with it, in a new process.
    Restart {} "restart" -> "done", Change, post("/restart");
    /// Requests a record, which follows the answer until the client half-closes or time is over.
    Record {
        /// How long to record, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ms: Option<u64>,
    } "record" -> "done", Change, record(Method::Post, "/record");
    /// Requests a record of what happened of late, which follows the answer.
    Snapshot {
        /// The first moment that is wanted, in milliseconds since 1970; all that is kept without
        /// it. The record begins with a state at or before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_ms: Option<u64>,
        /// The last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to_ms: Option<u64>,
    } "snapshot" -> "done", Change, record(Method::Get, "/snapshot");
    /// Requests the policies in force: their texts, identities and ages.
    Policy {} "policy" -> "policy", Read, get("/policy");
    /// Sets single values of the policies in force.
    Set {
        /// The values, which are set in this order.
        settings: Vec<Setting>,
        /// Trial, guards and reason.
        #[serde(default)]
        terms: Terms,
    } "set" -> "changed", Change, post("/set");
    /// Lets classes join at places of a policy, retunes those there, and lets classes leave,
    /// without a change of the others.
    Class {
        /// The direction whose policy has the places; needed where directions have several
        /// policies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<String>,
        /// Tables `[class.NAME]` as in a policy: as text, or by name with their keys. A class of
        /// that name at a place is retuned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        add: Option<Tables>,
        /// The names of classes at places that leave, which they do first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remove: Vec<String>,
        /// Whether to only say what it would change.
        #[serde(default)]
        dry_run: bool,
        /// The reason, for the log.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    } "class" -> "changed", Change, post("/class");
    /// Puts other texts in force.
    Reload {
        /// The deployment with its policies; without it the link reads its own files anew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        texts: Option<Box<Texts>>,
        /// Trial, guards and reason.
        #[serde(default)]
        terms: Terms,
    } "reload" -> "changed", Change, post("/reload");
    /// Puts the policies in force that were before the last change that still stands, or after an
    /// older one.
    Rollback {
        /// The number of the older change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
        /// Trial, guards and reason.
        #[serde(default)]
        terms: Terms,
    } "rollback" -> "changed", Change, post("/rollback");
    /// Lets the change that is on trial stay.
    Confirm {} "confirm" -> "done", Change, post("/confirm");
    /// Requests the last changes.
    Log {} "log" -> "log", Read, get("/log");
    /// Requests the sessions of RSVP, what they reserved, and how long they live unrefreshed.
    Reservations {
        /// The most sessions to describe.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    } "reservations" -> "reservations", Read, get("/reservations");
    /// Requests the circuits that come and go: how many are shaped, which are not, and why.
    Circuits {
        /// The most circuits to describe.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    } "circuits" -> "circuits", Read, get("/circuits");
    /// Lets circuits join and leave, where the deployment hears of them by the API.
    Feed {
        /// Lines of JSON, such as `{"join": {"id": "anna", "addresses": ["192.0.2.7"], "plan":
        /// "gold"}}` and `{"leave": "anna"}`.
        lines: String,
        /// Whether circuits that are not among them leave.
        #[serde(default)]
        whole: bool,
    } "feed" -> "fed", Change, post("/feed");
    /// Requests the deployment and the policies in force, as texts.
    Texts {} "texts" -> "texts", Change, get("/texts");
    /// Requests what a new keeper needs to take over a link whose keeper died, as descriptors.
    HandOver {} "hand-over" -> "done", Change, NO_ROUTE;
    /// Lets what follows on this connection act for a client of the API, with this right and no
    /// other: a connection gives up rights so, and cannot get them back.
    OnBehalf {
        /// The right of the client.
        right: Right,
        /// Whether its changes are in the log as those of the user who connected.
        #[serde(default)]
        keeps_user: bool,
    } "on-behalf" -> "done", Read, NO_ROUTE;
    /// Tells that a client of the API was refused before it reached the link.
    Refused {
        /// The kind of the refusal.
        cause: Cause,
        /// The cause in words.
        text: String,
    } "refused" -> "done", Change, NO_ROUTE;
}

/// A line of the table of requests.
pub struct Call {
    /// Its keyword: the value of `call`.
    pub keyword: &'static str,
    /// The effect of the request, in a sentence.
    pub summary: &'static str,
    /// The keyword of its answer, if it is met.
    pub answer: &'static str,
    /// The right that it needs.
    pub right: Right,
    /// How it is sent by HTTP; `None` if it cannot be: descriptors go with its answer.
    pub route: Option<Route>,
}

/// A right of clients; a greater one includes the smaller.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// Everyone who may connect: it only reads.
    Read,
    /// Root and the user who runs the link.
    Change,
}

/// The way of a request by HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method: what comes with a GET is in the query, with a POST in the body.
    pub method: Method,
    /// The path, as in `/texts`.
    pub path: &'static str,
    /// The type of what follows the answer: by HTTP it takes the answer's place.
    pub follows: Option<&'static str>,
}

impl Route {
    /// Returns whether a body may come with it.
    pub fn takes_body(self) -> bool {
        self.method == Method::Post
    }
}

/// Why a client was not served.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Too many clients, or too much was asked for at once.
    Busy,
    /// The request is for another host, from a page of another site, or without a token.
    Foreign,
    /// There is nothing at the path that it asked for.
    Unknown,
    /// It sent no whole request in time.
    Silent,
    /// Its request is too long.
    TooLong,
    /// The bytes are not a request.
    Malformed,
    /// It may not send this request.
    NotAllowed,
    /// It did not read the answer in time, or disconnected before the end.
    NotRead,
    /// The link could not meet the request.
    Failed,
}

impl Cause {
    /// The cause as events name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Foreign => "foreign",
            Self::Unknown => "unknown",
            Self::Silent => "silent",
            Self::TooLong => "too-long",
            Self::Malformed => "malformed",
            Self::NotAllowed => "not-allowed",
            Self::NotRead => "not-read",
            Self::Failed => "failed",
        }
    }
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads; changes nothing.
    Get,
    /// It may change something.
    Post,
}

impl Method {
    /// Returns the word of HTTP for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

const fn get(path: &'static str) -> Option<Route> {
    Some(Route { method: Method::Get, path, follows: None })
}

const fn post(path: &'static str) -> Option<Route> {
    Some(Route { method: Method::Post, path, follows: None })
}

/// The route of a record.
const fn record(method: Method, path: &'static str) -> Option<Route> {
    Some(Route { method, path, follows: Some(PCAPNG) })
}

const NO_ROUTE: Option<Route> = None;

/// Which events to tell of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Since {
    /// Only events after the one with this `id`; all that are remembered without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether to tell of events as they happen, from now on unless `after` says otherwise: the
    /// answer is then followed by a line for each, until the client half-closes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub follow: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A line of a stream of events. One without anything says that the link is still there.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct News {
    /// So many events that the client did not read in time are not remembered any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The place of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The event as docs/events.md describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<RawValue>>,
}

/// Events of the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Events after the one asked for that are not remembered any more.
    pub lost: u64,
    /// Events in their order, each as docs/events.md describes it, with its `id`.
    pub events: Vec<Map<String, Value>>,
}

/// A value to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// The tables of classes that join.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Tables {
    /// A text of TOML.
    Text(String),
    /// By name, each with its keys.
    Named(Map<String, Value>),
}

/// How a change is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// The result of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Its number in the history; `None` if nothing was changed.
    pub number: Option<u64>,
    /// The errors in the texts: with one, nothing was changed.
    pub errors: usize,
    /// The findings, as `weir check` prints them.
    pub text: String,
    /// The findings, as `weir check --format json` prints them.
    pub findings: Vec<serde_json::Value>,
    /// A line that names the differences.
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

/// The difference in one direction, as `weir diff` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The name of the direction.
    pub direction: String,
    /// The difference as text.
    pub text: String,
    /// The difference as JSON.
    pub difference: serde_json::Value,
}

/// The policies in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InForce {
    /// Each direction, in the order of the deployment.
    pub directions: Vec<PolicyOf>,
    /// The files of their policies, each once. What those name, such as lists, is not among them.
    pub files: Vec<File>,
}

/// The policy of a direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyOf {
    /// The name of the direction.
    pub direction: String,
    /// The name of its file.
    pub file: String,
    /// Tells the policy from others, as in the status.
    pub identity: String,
    /// Since when this process has had it in force, in nanoseconds of CLOCK_REALTIME.
    pub since_ns: u64,
}

/// An answer of the server. `S` is the status, read or to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<S = Box<Status>> {
    /// The answer to [`Request::Status`].
    Status(S),
    /// The answer to [`Request::Events`].
    Events(Events),
    /// The request was met.
    Done,
    /// The answer to a change.
    Changed(Box<Changed>),
    /// The answer to [`Request::Log`]: the last changes, the oldest first, without their texts.
    Log(Vec<Entry>),
    /// The answer to [`Request::Reservations`].
    Reservations(Box<Reservations>),
    /// The answer to [`Request::Circuits`].
    Circuits(Box<Circuits>),
    /// The answer to [`Request::Feed`].
    Fed(Fed),
    /// The answer to [`Request::Texts`].
    Texts(Box<Texts>),
    /// The answer to [`Request::Policy`].
    Policy(Box<InForce>),
    /// The request is malformed or cannot be met; the text gives the reason and the cure.
    Error(String),
    /// The request of a client of the API was refused by the server itself, with the cause, from
    /// which the status of HTTP follows.
    Refused {
        /// The kind of the refusal.
        cause: Cause,
        /// The reason and the cure.
        text: String,
    },
}

impl Request {
    /// Returns whether it only reads. Other requests are for root and the user who runs the link.
    pub fn reads(&self) -> bool {
        self.call().right == Right::Read
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
    #[test]
    fn each_line_of_the_table_is_a_request_with_a_known_answer_and_a_path_of_its_own() {
        let answers = serde_json::to_string(&schemars::schema_for!(Answer)).expect("it is JSON");
        assert_eq!(calls(), CALLS.iter().map(|call| call.keyword).collect::<Vec<_>>());
        for (index, call) in CALLS.iter().enumerate() {
            assert!(answers.contains(&format!("\"{}\"", call.answer)), "{}", call.answer);
            assert!(call.summary.ends_with('.'), "{}", call.keyword);
            let others = CALLS.iter().skip(index + 1);
            let same = others.filter(|other| call.route.is_some() && other.route == call.route);
            assert_eq!(same.count(), 0, "{} has a route of its own", call.keyword);
            let reads = call.route.is_none_or(|route| route.method == Method::Get);
            assert!(call.right == Right::Change || reads, "a POST changes something");
        }
    }
}
