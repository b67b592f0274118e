//! The values that come with a request, by the table of requests ([`CALLS`]).

use crate::http::Fault;
use crate::http::heading::pairs;
use crate::http::respond::{JSON, LINES};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::sync::OnceLock;
use weir_control::protocol::{CALLS, Call, Method, Request};

/// The path of the counters.
pub const METRICS: &str = "/metrics";
/// The path of the description.
pub const DOCUMENT: &str = "/openapi.json";

/// Returns why nothing is meant by a method at a path: there is nothing, or another method is
/// meant.
pub fn missing(path: &str) -> Fault {
    let methods: Vec<Method> = match path {
        METRICS | DOCUMENT => vec![Method::Get],
        _ => {
            let routes = CALLS.iter().filter_map(|call| call.route);
            routes.filter(|route| route.path == path).map(|route| route.method).collect()
        }
    };
    match methods.first() {
        Some(Method::Get) => Fault::method(Method::Get.name(), "GET, HEAD"),
        Some(Method::Post) => Fault::method(Method::Post.name(), "POST"),
        None => {
            Fault::new(404, format!("there is nothing here; `GET {DOCUMENT}` says what there is"))
        }
    }
}

/// Reads what comes with a request, from the query and the body.
///
/// # Errors
/// When it is not what the request takes.
pub fn request(call: &Call, query: &str, body: &[u8]) -> Result<Request, Fault> {
    let mut fields: Map<String, Value> = match body {
        [] => Map::new(),
        body => serde_json::from_slice(body).map_err(|error| malformed(&error))?,
    };
    let schema = schema(call);
    for (key, text) in pairs(query)? {
        let value = typed(&schema, &key, text)?;
        if fields.insert(key, value).is_some() {
            return Err(Fault::bad("a key comes twice; send each once"));
        }
    }
    if fields.contains_key(TAG) {
        return Err(Fault::bad(format!("the path says what is asked for; leave `{TAG}` out")));
    }
    fields.insert(TAG.to_owned(), call.keyword.into());
    serde_json::from_value(Value::Object(fields)).map_err(|error| malformed(&error))
}

/// Returns the body of a feed, whose lines came as they are, as the request has them.
///
/// # Errors
/// When the request takes no lines, or they are no text.
pub fn of_lines(call: &Call, body: &[u8]) -> Result<Vec<u8>, Fault> {
    if call.keyword != FEED {
        return Err(Fault::new(415, format!("send the body with `Content-Type: {JSON}`")));
    }
    let lines = str::from_utf8(body);
    let lines = lines.map_err(|_| Fault::bad(format!("not {LINES}: it is no text")))?;
    Ok(serde_json::json!({ "lines": lines }).to_string().into_bytes())
}

/// Returns the schema of what comes with a request, without references.
pub(super) fn schema(call: &Call) -> Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    let make = || {
        let settings = SchemaSettings::draft2020_12();
        let settings = settings.with(|settings| settings.inline_subschemas = true);
        settings.into_generator().into_root_schema_for::<Request>().to_value()
    };
    with(SCHEMA.get_or_init(make), call)
}

/// Returns what the schema of requests says of one, without the key that names it.
pub(super) fn with(requests: &Value, call: &Call) -> Value {
    let all = requests["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_it = |one: &&Value| one["properties"][TAG]["const"] == call.keyword;
    let mut schema = all.iter().find(is_it).cloned().unwrap_or_default();
    if let Some(keys) = schema["properties"].as_object_mut() {
        keys.remove(TAG);
    }
    if let Some(names) = schema["required"].as_array_mut() {
        names.retain(|name| name != TAG);
    }
    schema
}

/// Returns a value of a query as the schema has it.
fn typed(schema: &Value, key: &str, text: String) -> Result<Value, Fault> {
    let kinds = &schema["properties"][key]["type"];
    let is = |kind: &str| match kinds {
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        one => one == kind,
    };
    let (typed, cure) = match () {
        () if is("integer") => (text.parse::<u64>().ok().map(Value::from), "a whole number"),
        () if is("number") => (text.parse::<f64>().ok().map(Value::from), "a number"),
        () if is("boolean") => (text.parse::<bool>().ok().map(Value::from), "`true` or `false`"),
        () => return Ok(Value::String(text)),
    };
    let shown: String = text.chars().take(QUOTED_MAX).collect();
    typed.ok_or_else(|| Fault::bad(format!("`{key}` is `{shown}`; write {cure}")))
}

fn malformed(error: &serde_json::Error) -> Fault {
    // The error may quote what was sent.
    let error: String = error.to_string().chars().take(QUOTED_MAX).collect();
    Fault::bad(format!("not {JSON} that this request takes: {error}"))
}

/// The request whose body may be lines of JSON.
pub const FEED: &str = "feed";
/// The key that names the request in its JSON.
const TAG: &str = "call";
/// The most characters of a client's own that come back to it.
const QUOTED_MAX: usize = 200;
