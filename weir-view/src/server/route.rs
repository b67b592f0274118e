//! What a path means: data of the page, or a request of the control API.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use weir_control::http::heading::{Head, pairs};
use weir_control::http::{Fault, route as control};
use weir_control::protocol::Right;

/// What is asked for.
pub(super) enum Target {
    /// Data of the page.
    Data(&'static Route),
    /// What happens now, for as long as the client reads it.
    Stream,
    /// A request of the control API, with the right that it needs and whether it has a body.
    Pass(Right, bool),
}

/// A route below `/view`.
pub(super) struct Route {
    pub path: &'static str,
    pub method: &'static str,
    /// Who may ask: what computes for long is for those who may change the link.
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
    Predict,
    Packets,
    Fork,
    Beside,
}

impl What {
    /// Returns whether it computes for long, or asks the link.
    pub fn is_long(self) -> bool {
        matches!(self, Self::Predict | Self::Packets | Self::Fork | Self::Knobs | Self::Beside)
    }

    /// Returns whether it goes through all that is kept.
    pub fn is_wide(self) -> bool {
        matches!(self, Self::History | Self::Heat)
    }
}

const ROUTES: &[Route] = &[
    get("/view/about", What::About, Right::Read),
    get("/view/history", What::History, Right::Read),
    get("/view/heat", What::Heat, Right::Read),
    get("/view/events", What::Events, Right::Read),
    get("/view/knobs", What::Knobs, Right::Read),
    get("/view/packets", What::Packets, Right::Change),
    get("/view/beside", What::Beside, Right::Change),
    post("/view/predict", What::Predict),
    post("/view/fork", What::Fork),
];
const STREAM: &str = "/view/stream";

const fn get(path: &'static str, what: What, right: Right) -> Route {
    Route { path, method: "GET", right, what }
}

const fn post(path: &'static str, what: What) -> Route {
    Route { path, method: "POST", right: Right::Change, what }
}

impl Target {
    /// Returns who may ask for it.
    pub fn right(&self) -> Right {
        match self {
            Self::Data(route) => route.right,
            Self::Stream => Right::Read,
            Self::Pass(right, _) => *right,
        }
    }

    /// Returns whether a body may come with it.
    pub fn takes_body(&self) -> bool {
        match self {
            Self::Data(route) => route.method == "POST",
            Self::Stream => false,
            Self::Pass(_, takes_body) => *takes_body,
        }
    }
}

/// Returns what a request asks for; HEAD is a GET whose answer is cut.
pub(super) fn find(head: &Head) -> Result<Target, Fault> {
    let reads = matches!(head.method.as_str(), "GET" | "HEAD");
    if !head.path.starts_with("/view/") {
        let target = control::find(&head.method, &head.path)?;
        let call = target.call();
        if call.and_then(|call| call.route).is_some_and(|route| route.follows.is_some()) {
            let text = "records are not passed on; use `weir record` or `weir snapshot`";
            return Err(Fault::new(404, text));
        }
        let takes_body = call.and_then(|call| call.route).is_some_and(|route| route.takes_body());
        return Ok(Target::Pass(call.map_or(Right::Read, |call| call.right), takes_body));
    }
    let route = ROUTES.iter().find(|route| route.path == head.path);
    let method = match route {
        _ if head.path == STREAM => "GET",
        Some(route) => route.method,
        None => {
            let known: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
            let text = format!("there is nothing here; there are {STREAM}, {}", known.join(", "));
            return Err(Fault::new(404, text));
        }
    };
    if head.method != method && !(method == "GET" && reads) {
        let allowed = if method == "GET" { "GET, HEAD" } else { "POST" };
        let fault = Fault::new(405, format!("send {method} here"));
        return Err(Fault { header: Some(("Allow", allowed)), ..fault });
    }
    Ok(route.map_or(Target::Stream, Target::Data))
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
