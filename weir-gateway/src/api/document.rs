//! The description of the API as OpenAPI 3.1, made from the table of requests and from the types
//! that read and write them.

use super::route::{DOCUMENT, FEED, METRICS, schema, with};
use super::stream;
use crate::http::respond::{JSON, LINES};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use weir_control::protocol::{Answer, CALLS, Call, Method, Query, Request, Right, VERSION};

/// Returns the description of the API in OpenAPI 3.1.
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let answers = generator.root_schema_for::<Answer>().to_value();
    let requests = generator.root_schema_for::<Request>().to_value();
    let mut paths = Map::new();
    for call in CALLS {
        let Some(route) = call.route else { continue };
        let operation = operation(call, &requests, &answers);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.name().to_ascii_lowercase()] = operation;
    }
    paths.insert(METRICS.to_owned(), json!({ "get": metrics() }));
    paths.insert(DOCUMENT.to_owned(), json!({ "get": itself() }));
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Error".to_owned(), error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir",
            "version": VERSION,
            "summary": "What a running link can be asked.",
            "description": "docs/api.md describes access, limits, versions and the stream of \
                            events.",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "error": {
                "description": "The reason why the request was not met, and the cure.",
                "content": { JSON: { "schema": { "$ref": "#/components/schemas/Error" } } },
            } },
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "One of the tokens of [deployment.api].",
            } },
        },
        "security": [{ "token": [] }],
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": { "type": "string" } },
    })
}

fn operation(call: &Call, requests: &Value, answers: &Value) -> Value {
    let mut content = match call.route.and_then(|route| route.follows) {
        Some(kind) => json!({ kind: { "schema": { "type": "string", "format": "binary" } } }),
        None => json!({ JSON: { "schema": variant(answers, call.answer) } }),
    };
    if call.keyword == "events" {
        content[stream::KIND] = json!({ "schema": { "type": "string" } });
    }
    let rights = match call.right {
        Right::Read => "With either token.",
        Right::Change => "With the token that may change the link.",
    };
    let mut operation = json!({
        "operationId": call.keyword,
        "summary": call.summary.trim(),
        "description": rights,
        "responses": responses("The request was met.", &content),
    });
    let keys = with(requests, call);
    if keys["properties"].as_object().is_none_or(Map::is_empty) && keys["$ref"].is_null() {
        return operation;
    }
    match call.route.map(|route| route.method) {
        Some(Method::Get) => operation["parameters"] = parameters(&schema(call)),
        _ => operation["requestBody"] = json!({ "content": { JSON: { "schema": keys } } }),
    }
    if call.keyword == FEED {
        let content = &mut operation["requestBody"]["content"];
        content[LINES] = json!({ "schema": { "type": "string" } });
    }
    operation
}

/// Returns the part of the schema of answers that describes one of them.
fn variant(answer: &Value, keyword: &str) -> Value {
    let all = answer["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_it = |one: &&Value| {
        let named =
            |names: &Value| names.as_array().is_some_and(|all| all.contains(&keyword.into()));
        named(&one["required"]) || named(&one["enum"]) || one["const"] == keyword
    };
    all.iter().find(is_it).cloned().unwrap_or(Value::Bool(true))
}

/// Describes the keys of a query.
fn parameters(schema: &Value) -> Value {
    let keys = schema["properties"].as_object();
    let describe = |(key, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({
            "name": key,
            "in": "query",
            "description": description.unwrap_or_default(),
            "schema": schema,
        })
    };
    keys.into_iter().flatten().map(describe).collect()
}

fn responses(description: &str, content: &Value) -> Value {
    json!({
        "200": { "description": description, "content": content },
        "default": { "$ref": "#/components/responses/error" },
    })
}

/// Returns the content of an answer that has no closer schema.
fn of_type(content: &str, kind: &str) -> Value {
    json!({ content: { "schema": { "type": kind } } })
}

fn metrics() -> Value {
    let generator =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let query = generator.into_generator().into_root_schema_for::<Query>().to_value();
    let kind = crate::metrics::CONTENT;
    json!({
        "operationId": "metrics",
        "summary": "Returns the counters of the link as OpenMetrics.",
        "description": "With either token.",
        "parameters": parameters(&query),
        "responses": responses("The counters.", &of_type(kind, "string")),
    })
}

fn itself() -> Value {
    json!({
        "operationId": "openapi",
        "summary": "Returns this document.",
        "description": "With either token.",
        "responses": responses("The document.", &of_type(JSON, "object")),
    })
}
