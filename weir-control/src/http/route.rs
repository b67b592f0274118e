//! What a path means: a request of the table ([`CALLS`]), or a document.

use super::head::pairs;
use super::{Fault, JSON};
use crate::protocol::{CALLS, Call, Method, REQUEST_MAX, Request};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// What is asked for.
pub(super) enum Target {
    /// A request.
    Call(&'static Call),
    /// The counters for Prometheus.
    Metrics,
    /// The description of the API.
    Document,
}

impl Target {
    /// Returns the most bytes of a body.
    pub fn body_max(&self) -> usize {
        match self {
            Self::Call(call) if call.route.is_some_and(|route| route.method == Method::Post) => {
                REQUEST_MAX
            }
            _ => 0,
        }
    }
}

/// The path of the counters.
pub(super) const METRICS: &str = "/metrics";
/// The path of the description.
pub(super) const DOCUMENT: &str = "/openapi.json";

/// Returns what a method means at a path; HEAD is a GET whose answer is cut.
pub(super) fn find(method: &str, path: &str) -> Result<Target, Fault> {
    let reads = matches!(method, "GET" | "HEAD");
    let (target, known) = match path {
        METRICS => (Target::Metrics, Method::Get),
        DOCUMENT => (Target::Document, Method::Get),
        _ => {
            let at = |call: &&Call| call.route.is_some_and(|route| route.path == path);
            // A path with two methods is two lines.
            let is_meant = |call: &&Call| {
                call.route.is_some_and(|route| (route.method == Method::Get) == reads)
            };
            let lines: Vec<_> = CALLS.iter().filter(at).collect();
            let line = lines.iter().copied().find(is_meant).or(lines.first().copied());
            let text = format!("there is nothing here; `GET {DOCUMENT}` says what there is");
            let line = line.ok_or_else(|| Fault::new(404, text))?;
            (Target::Call(line), line.route.map_or(Method::Get, |route| route.method))
        }
    };
    let is_right = match known {
        Method::Get => reads,
        Method::Post => method == "POST",
    };
    if is_right {
        return Ok(target);
    }
    let allowed = if known == Method::Get { "GET, HEAD" } else { "POST" };
    let fault = Fault::new(405, format!("send {} here", known.name()));
    Err(Fault { header: Some(("Allow", allowed)), ..fault })
}

/// Reads what comes with a request, from the query and the body.
///
/// # Errors
/// When it is not what the request takes.
pub(super) fn request(call: &Call, query: &str, body: &[u8]) -> Result<Request, Fault> {
    let mut fields: Map<String, Value> = match body {
        [] => Map::new(),
        body => serde_json::from_slice(body).map_err(|error| malformed(&error))?,
    };
    let schema = schema(call);
    for (key, text) in pairs(query)? {
        let value = typed(&schema, &key, text);
        if fields.insert(key, value).is_some() {
            return Err(Fault::bad("a key comes twice; send each once"));
        }
    }
    if fields.contains_key(TAG) || (schema.is_null() && !fields.is_empty()) {
        return Err(Fault::bad(format!("`{}` takes none of these keys", call.keyword)));
    }
    fields.insert(TAG.to_owned(), call.keyword.into());
    serde_json::from_value(Value::Object(fields)).map_err(|error| malformed(&error))
}

/// Returns the schema of what comes with a request, without references; null for nothing.
pub(super) fn schema(call: &Call) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut generator = settings.into_generator();
    call.with.map_or(Value::Null, |with| with(&mut generator).to_value())
}

/// Returns a value of a query as the schema has it.
fn typed(schema: &Value, key: &str, text: String) -> Value {
    let kinds = &schema["properties"][key]["type"];
    let is = |kind: &str| match kinds {
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        one => one == kind,
    };
    let typed = match () {
        () if is("integer") => text.parse::<u64>().ok().map(Value::from),
        () if is("number") => text.parse::<f64>().ok().map(Value::from),
        () if is("boolean") => text.parse::<bool>().ok().map(Value::from),
        () => None,
    };
    typed.unwrap_or(Value::String(text))
}

fn malformed(error: &serde_json::Error) -> Fault {
    // The error may quote what was sent.
    let error: String = error.to_string().chars().take(QUOTED_MAX).collect();
    Fault::bad(format!("not {JSON} that this request takes: {error}"))
}

/// The key that names the request in its JSON.
const TAG: &str = "call";
/// The most characters of a client's own that come back to it.
const QUOTED_MAX: usize = 200;
