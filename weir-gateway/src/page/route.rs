//! The meaning of paths below `/view`, and of what comes with them.

use crate::api::route as control;
use crate::http::Fault;
use crate::http::heading::pairs;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use weir_control::protocol::{Method, Right};

/// A route below `/view`.
pub(super) struct Route {
    pub path: &'static str,
    pub method: Method,
    /// The right that it needs: what takes long to compute is for clients that may change the link.
    pub right: Right,
    pub what: What,
}

/// The data of a route.
#[derive(Clone, Copy)]
pub(super) enum What {
    About,
    History,
    Heat,
    Events,
    Knobs,
    Promises,
    Predict,
    Packets,
    Fork,
    Reacting,
    Beside,
    Runs,
}

impl What {
    /// Returns whether it computes for long, or asks the link.
    pub fn is_long(self) -> bool {
        matches!(
            self,
            Self::Predict
                | Self::Packets
                | Self::Fork
                | Self::Reacting
                | Self::Knobs
                | Self::Beside
                | Self::Promises
        )
    }

    /// Returns whether it goes through all that is kept.
    pub fn is_wide(self) -> bool {
        matches!(self, Self::History | Self::Heat | Self::Runs)
    }
}

pub(super) const ROUTES: &[Route] = &[
    get("/view/about", What::About, Right::Read),
    get("/view/history", What::History, Right::Read),
    get("/view/heat", What::Heat, Right::Read),
    get("/view/events", What::Events, Right::Read),
    get("/view/knobs", What::Knobs, Right::Read),
    get("/view/promises", What::Promises, Right::Read),
    get("/view/packets", What::Packets, Right::Change),
    get("/view/beside", What::Beside, Right::Change),
    get("/view/runs", What::Runs, Right::Read),
    post("/view/predict", What::Predict),
    post("/view/fork", What::Fork),
    post("/view/reacting", What::Reacting),
];
/// The path of the stream.
pub(super) const STREAM: &str = "/view/stream";

const fn get(path: &'static str, what: What, right: Right) -> Route {
    Route { path, method: Method::Get, right, what }
}

const fn post(path: &'static str, what: What) -> Route {
    Route { path, method: Method::Post, right: Right::Change, what }
}

/// Returns why nothing is meant by a method at a path.
pub(super) fn missing(path: &str) -> Fault {
    if !path.starts_with("/view/") {
        return control::missing(path);
    }
    let route = ROUTES.iter().find(|route| route.path == path);
    match route.map(|route| route.method).or((path == STREAM).then_some(Method::Get)) {
        Some(Method::Get) => Fault::method("GET", "GET, HEAD"),
        Some(Method::Post) => Fault::method("POST", "POST"),
        None => {
            let known: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
            let text = format!("there is nothing here; there are {STREAM}, {}", known.join(", "));
            Fault::new(404, text)
        }
    }
}

/// Reads what a query asks for.
///
/// # Errors
/// When a key is unknown or comes twice, or a value is none.
pub(super) fn query<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let mut fields = Map::new();
    for (key, text) in pairs(text)? {
        let value = if NUMBERS.contains(&key.as_str()) {
            number(&text).ok_or_else(|| {
                let text: String = text.chars().take(QUOTED_MAX).collect();
                Fault::bad(format!("`{key}` is a number, and {text:?} is none"))
            })?
        } else {
            Value::String(text)
        };
        if fields.insert(key, value).is_some() {
            return Err(Fault::bad("a key comes twice; send each once"));
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| malformed(&error))
}

/// Reads a number; a whole one may go into a field of whole numbers.
fn number(text: &str) -> Option<Value> {
    let whole = text.parse::<u32>().map(Value::from).ok();
    let finite = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    whole.or_else(|| finite().map(Value::from))
}

/// Reads the body of a request.
///
/// # Errors
/// When it is not what the route takes.
pub(super) fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|error| malformed(&error))
}

fn malformed(error: &serde_json::Error) -> Fault {
    // The error may quote what was sent.
    let error: String = error.to_string().chars().take(QUOTED_MAX).collect();
    Fault::bad(format!("not what this route takes: {error}; docs/view.md describes it"))
}

/// The keys of queries that are numbers.
const NUMBERS: &[&str] = &["from", "to", "step", "limit", "delay_min_us", "delay_max_us"];
/// The most characters of a client's own that come back to it.
const QUOTED_MAX: usize = 200;
