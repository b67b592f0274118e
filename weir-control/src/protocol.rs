//! Requests and answers, each one JSON object on a line. An answer may bring descriptors beside it
//! (SCM_RIGHTS, unix(7)).
//!
//! A request is one line of the table below and an arm where the link acts on it
//! ([`crate::service::Service::act`]). The line makes its route of HTTP (`http/`) and its part of
//! the OpenAPI document, too; docs/api.md describes both protocols.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_live::status::Status;
pub use weir_live::status::query::{CLASSES_DEFAULT, CLASSES_MAX, Query, Sort};

/// The longest request, as a line or as the body of HTTP; a longer one is refused before it is
/// read.
pub const REQUEST_MAX: usize = 64 << 10;
/// The most descriptors that come with an answer.
pub const DESCRIPTORS_MAX: usize = 64;
/// The version of the requests and of their routes; docs/api.md says what may change within one.
pub const VERSION: &str = "1.0.0";

/// How an error begins where a keeper runs and no forwarder: said unasked.
pub const ABSENT: &str = "no forwarder runs";

/// Makes [`Request`] and [`CALLS`] of a line for each request: name, what comes with it, keyword,
/// the keyword of its answer, who may send it, and its route of HTTP.
macro_rules! requests {
    ($(#[doc = $doc:literal] $name:ident $(($with:ty))? $keyword:literal -> $answer:literal,
        $right:ident, $route:expr;)+) => {
        /// A request of a client.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "call")]
        pub enum Request {
            $(#[doc = $doc] #[serde(rename = $keyword)] $name $(($with))?,)+
        }

        /// What can be asked for, in the order of the table.
        pub const CALLS: &[Call] = &[$(Call {
            keyword: $keyword,
            summary: $doc,
            answer: $answer,
            right: Right::$right,
            route: $route,
            with: requests!(@with $($with)?),
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
    (@with) => { None };
    (@with $with:ty) => { Some(|generator| generator.subschema_for::<$with>()) };
}

requests! {
    /// Requests the status of the link.
    Status(Query) "status" -> "status", Read, get("/status");
    /// Requests what happened to the link of late.
    Events(Since) "events" -> "events", Read, get("/events");
    /// Lets the measurement of delays restart.
    Mark "mark" -> "done", Change, post("/mark");
    /// Lets the link read its deployment anew and go on with it, in a new process.
    Restart "restart" -> "done", Change, post("/restart");
    /// Requests what a new keeper needs to take over a link whose keeper died, as descriptors.
    HandOver "hand-over" -> "done", Change, NO_ROUTE;
}

/// A line of the table of requests.
pub struct Call {
    /// Its keyword: the value of `call`.
    pub keyword: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// The keyword of its answer, if it is met.
    pub answer: &'static str,
    /// Who may send it.
    pub right: Right,
    /// How it is sent by HTTP; `None` if it cannot be: descriptors go with its answer.
    pub route: Option<Route>,
    /// The schema of what comes with it.
    pub with: Option<fn(&mut SchemaGenerator) -> Schema>,
}

/// Who may send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The path.
    pub path: &'static str,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It changes nothing.
    Get,
    /// It may change something.
    Post,
}

impl Method {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

const fn get(path: &'static str) -> Option<Route> {
    Some(Route { method: Method::Get, path })
}

const fn post(path: &'static str) -> Option<Route> {
    Some(Route { method: Method::Post, path })
}

const NO_ROUTE: Option<Route> = None;

/// Which events to tell of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Since {
    /// Only events after the one with this `id`; all that are remembered without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What happened to the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Events after the one asked for that are not remembered any more.
    pub lost: u64,
    /// Events in their order, each as docs/events.md describes it, with its `id`.
    pub events: Vec<Map<String, Value>>,
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
    /// The request is malformed or cannot be met; the text gives the reason and the cure.
    Error(String),
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

    #[test]
    fn each_line_of_the_table_is_a_request_with_a_known_answer_and_a_path_of_its_own() {
        let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
        let answers = serde_json::to_string(&generator.subschema_for::<Answer>());
        let answers = answers.expect("a schema is JSON")
            + &serde_json::to_string(&generator.definitions()).expect("a schema is JSON");
        for (index, call) in CALLS.iter().enumerate() {
            let text = format!("{{\"call\":\"{}\"}}", call.keyword);
            let request: Request = serde_json::from_str(&text).expect(call.keyword);
            assert_eq!(request.call().keyword, call.keyword);
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
