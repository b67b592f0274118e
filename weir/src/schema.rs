//! `weir schema`: the JSON schema of policies, from the descriptors of the registries.

use crate::Run;
use crate::output::{Exit, Output};
use serde_json::{Map, Value, json};
use weir_core::classify::{CLASSIFIERS, MatchOrder};
use weir_core::parameter::{Kind, Parameter, Scope};
use weir_core::police::METERS;
use weir_core::queue::DROPPERS;
use weir_core::sched::{Descriptor, SCHEDULERS};
use weir_core::units::Dimension;

/// Prints the JSON schema of a policy, for editors that complete and check TOML.
#[derive(clap::Args)]
pub struct Schema {}

impl Run for Schema {
    fn run(self, output: &Output) -> Exit {
        output.json(&policy());
        Exit::Clean
    }
}

/// The schema of a policy: what `[link]` calls its scheduler says what classes may hold.
fn policy() -> Value {
    let schedulers: Vec<Value> =
        SCHEDULERS.iter().map(|entry| with_scheduler(entry.descriptor)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weir policy",
        "type": "object",
        "required": ["link", "class"],
        "properties": {
            "link": true,
            "class": { "type": "object", "minProperties": 1 },
            "promise": { "type": "array", "items": promise() },
        },
        "additionalProperties": false,
        "allOf": [{ "properties": { "link": {
            "type": "object",
            "required": ["rate", "scheduler"],
            "properties": { "scheduler": {
                "enum": SCHEDULERS.iter().map(|entry| entry.descriptor.keyword).collect::<Vec<_>>(),
            } },
        } } }],
        "oneOf": schedulers,
        "$defs": { "queue": queue(), "police": police(), "rule": rule() },
    })
}

fn promise() -> Value {
    json!({
        "type": "object",
        "required": ["that", "under"],
        "properties": { "that": { "type": "string" }, "under": { "type": "string" } },
        "additionalProperties": false,
    })
}

/// A policy with this scheduler.
fn with_scheduler(descriptor: &Descriptor) -> Value {
    let own = table(descriptor.parameters, &[Scope::Link]);
    let mut link = common_link();
    link.insert("scheduler".into(), json!({ "const": descriptor.keyword }));
    link.insert(descriptor.keyword.into(), closed(own));
    let mut class = common_class();
    class.extend(table(descriptor.parameters, &[Scope::Class, Scope::Leaf]));
    let rated = descriptor
        .parameters
        .iter()
        .any(|row| row.name == "rate" && matches!(row.scope, Scope::Class | Scope::Leaf));
    if rated {
        let share = "The part of its parent's rate, such as 40 %.";
        class.entry("share").or_insert_with(|| json!({ "type": "string", "description": share }));
    }
    json!({
        "description": descriptor.summary,
        "properties": {
            "link": closed(link),
            "class": { "additionalProperties": closed(class) },
        },
    })
}

fn common_link() -> Map<String, Value> {
    let classifiers: Vec<_> = CLASSIFIERS.iter().map(|row| row.keyword).collect();
    let orders = MatchOrder::ALL.map(MatchOrder::keyword);
    let fragments = ["cache", "none", "altq-broken", "altq-fixed"];
    object(json!({
        "rate": quantity("What the line carries, such as 10 Mbit/s."),
        "overhead": {
            "description": "How the length on the wire follows from a frame.",
            "anyOf": [
                { "enum": ["frame", "none", "ethernet", "ip", "atm", "aal5"] },
                closed(object(json!({
                    "bytes": { "type": "integer" },
                    "minimum": { "type": "integer", "minimum": 0 },
                    "cell": { "const": 48 },
                }))),
            ],
        },
        "charge": { "enum": ["wire", "frame"] },
        "mtu": quantity("The largest IP packet."),
        "buffer": quantity("Bytes that wait in the driver."),
        "packets_max": quantity("The most packets that wait in all queues together."),
        "seed": { "type": "integer", "minimum": 0 },
        "classifier": { "enum": classifiers },
        "match_order": { "enum": orders },
        "fragments": { "anyOf": [
            { "enum": fragments },
            closed(object(json!({
                "entries": { "type": "integer", "minimum": 0 },
                "timeout": quantity("How long a fragment is remembered."),
            }))),
        ] },
    }))
}

fn common_class() -> Map<String, Value> {
    object(json!({
        "parent": { "type": "string" },
        "default": { "type": "boolean" },
        "queue": { "$ref": "#/$defs/queue" },
        "police": { "$ref": "#/$defs/police" },
        "hash": { "enum": ["dstaddr", "srcport", "full"] },
        "queues": { "type": "integer", "minimum": 1, "maximum": 2048 },
        "match": { "anyOf": [
            { "$ref": "#/$defs/rule" },
            { "type": "array", "items": { "$ref": "#/$defs/rule" } },
        ] },
    }))
}

/// A queue: one of the droppers, the first where none is named.
fn queue() -> Value {
    let one = |(index, row): (usize, &weir_core::queue::DropperDescriptor)| {
        let mut keys = table(row.parameters, &[Scope::Queue]);
        keys.insert("dropper".into(), json!({ "const": row.keyword }));
        named(closed(keys), "dropper", index == 0)
    };
    json!({ "type": "object", "anyOf": DROPPERS.iter().enumerate().map(one).collect::<Vec<_>>() })
}

/// A policer: one of the meters, the first where none is named.
fn police() -> Value {
    let one = |(index, row): (usize, &weir_core::police::MeterDescriptor)| {
        let mut keys = table(row.parameters, &[Scope::Meter]);
        keys.insert("meter".into(), json!({ "const": row.keyword }));
        for (outcome, _) in row.outcomes {
            let action = "`pass`, `drop`, or `mark` and a DSCP.";
            keys.insert((*outcome).into(), json!({ "type": "string", "description": action }));
        }
        named(closed(keys), "meter", index == 0)
    };
    json!({ "type": "object", "anyOf": METERS.iter().enumerate().map(one).collect::<Vec<_>>() })
}

/// A table that must say which it is, unless it is the one that is meant without a word.
fn named(mut table: Value, key: &str, first: bool) -> Value {
    if !first {
        table["required"] = json!([key]);
    }
    table
}

fn rule() -> Value {
    let scalar = json!({ "type": ["string", "integer"] });
    let prefixes = json!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "string" }, "minItems": 1 },
    ] });
    let mut keys = Map::new();
    for key in ["src", "dst"] {
        keys.insert(key.into(), prefixes.clone());
    }
    for key in
        ["proto", "sport", "dport", "dscp", "ecn", "vlan", "vlan_inner", "ethertype", "interface"]
    {
        keys.insert(key.into(), scalar.clone());
    }
    for order in MatchOrder::ALL {
        let Some((name, min, max, _)) = order.sort_key() else { continue };
        let range = json!({ "type": "integer", "minimum": min, "maximum": max });
        keys.insert(name.into(), range);
    }
    keys.insert("police".into(), json!({ "$ref": "#/$defs/police" }));
    closed(keys)
}

/// The parameters of these scopes.
fn table(parameters: &[Parameter], scopes: &[Scope]) -> Map<String, Value> {
    let own = parameters.iter().filter(|row| scopes.contains(&row.scope));
    own.map(|row| (row.name.to_owned(), parameter(row))).collect()
}

fn parameter(row: &Parameter) -> Value {
    let mut schema = match row.kind {
        Kind::Quantity(Dimension::Number) => json!({ "type": ["integer", "string"] }),
        Kind::Quantity(dimension) => quantity_like(dimension.example()),
        Kind::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Size(..) => quantity_like("1500 B"),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Limit => quantity_like("100 packets"),
    };
    let default = row.default.map_or_else(String::new, |text| format!(" Default: {text}."));
    schema["description"] = json!(format!("{}{default}", row.summary));
    schema
}

fn quantity(description: &str) -> Value {
    json!({ "type": ["string", "integer"], "description": description })
}

fn quantity_like(example: &str) -> Value {
    json!({ "type": ["string", "integer"], "examples": [example] })
}

fn closed(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The keys of an object that is written as one.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
