//! The schemas of deployments and scenarios, from the tables of their keys.

use super::{closed, quantity};
use serde_json::{Map, Value, json};
use weir_core::units::Dimension;
use weir_policy::deployment::keys as deployments;
use weir_policy::keys::{Key, Keys, MANY, MUST, Values, required};
use weir_sim::read::keys as scenarios;

/// Builds the schema of a deployment.
pub fn deployment() -> Value {
    titled(table(deployments::FILE), "Weir deployment")
}

/// Builds the schema of a scenario.
pub fn scenario() -> Value {
    let mut schema = titled(table(scenarios::FILE), "Weir scenario");
    let kinds: Vec<Value> = scenarios::sources().map(source).collect();
    schema["properties"]["source"]["items"] = json!({ "oneOf": kinds });
    // In a network the policies are those of links.
    schema["required"] = json!(["duration"]);
    schema
}

/// Builds the schema of a source of a kind.
fn source(kind: &scenarios::SourceKind) -> Value {
    let mut keys = properties(scenarios::SOURCE);
    keys.extend(properties(kind.keys));
    keys.insert("kind".into(), json!({ "const": kind.keyword }));
    let mut source = closed(keys);
    source["description"] = json!(kind.summary);
    let needed = required(scenarios::SOURCE).chain(required(kind.keys));
    source["required"] = needed.collect();
    source
}

fn titled(mut schema: Value, title: &str) -> Value {
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema
}

/// Builds the schema of a table with these keys.
fn table(keys: Keys) -> Value {
    let mut table = closed(properties(keys));
    let needed: Vec<_> = required(keys).collect();
    if !needed.is_empty() {
        table["required"] = json!(needed);
    }
    table
}

/// Returns the schema of each of these keys.
pub fn properties(keys: Keys) -> Map<String, Value> {
    let rows = keys.iter().flat_map(|rows| rows.iter());
    rows.map(|row| (row.name.to_owned(), property(row))).collect()
}

fn property(key: &Key) -> Value {
    let mut schema = values(&key.values);
    if !key.summary.is_empty() {
        schema["description"] = json!(key.summary);
    }
    if !matches!(key.default, "" | MUST) {
        schema["default"] = default(key);
    }
    schema
}

fn default(key: &Key) -> Value {
    match key.values {
        Values::Flag => json!(key.default == "true"),
        _ => key.default.parse::<u64>().map_or_else(|_| json!(key.default), Value::from),
    }
}

fn values(values: &Values) -> Value {
    match *values {
        Values::Text => json!({ "type": "string", "minLength": 1 }),
        Values::Form(pattern, example) => form(pattern, example),
        Values::Ipv4 => json!({ "type": "string", "format": "ipv4" }),
        Values::Ip => json!({ "type": "string", "pattern": "^[0-9A-Fa-f.:]{2,45}$" }),
        Values::Interface => json!({
            "type": "string", "pattern": r"^[!-.0-~]{1,15}$", "description": "The Linux interface.",
        }),
        Values::Flag => json!({ "type": "boolean" }),
        Values::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Values::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Values::Fraction => json!({ "type": ["number", "string"], "examples": [1.5] }),
        Values::Field => json!({ "type": ["string", "integer"], "minimum": 0 }),
        Values::Words(words) => json!({ "enum": words }),
        Values::Quantity(dimensions) => quantity(dimensions, ""),
        Values::Time(..) => ranged(Dimension::Duration, values),
        Values::Size(..) => ranged(Dimension::Bytes, values),
        Values::Packets(..) => ranged(Dimension::Packets, values),
        Values::WordOr(word, other) => json!({ "anyOf": [{ "const": word }, self::values(other)] }),
        Values::Either(all) => json!({ "anyOf": all.iter().map(self::values).collect::<Vec<_>>() }),
        Values::List(item, min, max) => {
            let list = json!({ "type": "array", "items": self::values(item) });
            counted(list, ["minItems", "maxItems"], (min, max))
        }
        Values::Table(keys) => table(keys),
        Values::Named(entry, min, max) => {
            let all = json!({ "type": "object", "additionalProperties": self::values(entry) });
            counted(all, ["minProperties", "maxProperties"], (min, max))
        }
        Values::Policy => json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "object" },
        ] }),
    }
}

fn form(pattern: &str, example: &str) -> Value {
    let mut form = json!({ "type": "string" });
    if !pattern.is_empty() {
        form["pattern"] = json!(pattern);
    }
    if !example.is_empty() {
        form["examples"] = json!([example]);
    }
    form
}

/// Builds the schema of a quantity; JSON has no word for its range.
fn ranged(dimension: Dimension, values: &Values) -> Value {
    let mut schema = quantity(&[dimension], "");
    schema["$comment"] = json!(values.range());
    schema
}

/// Adds the bounds of a number of entries, where there are any.
fn counted(mut schema: Value, names: [&str; 2], (min, max): (usize, usize)) -> Value {
    if min > 0 {
        schema[names[0]] = json!(min);
    }
    if max != MANY {
        schema[names[1]] = json!(max);
    }
    schema
}
