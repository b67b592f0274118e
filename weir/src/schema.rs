//! `weir schema`: prints the JSON schema of a kind of file, or its reference as a page.
//!
//! This file has the schema of policies, from the descriptors of the registries; `schema/` has
//! those of the other kinds, and the pages, which are made from the schemas.

mod about;
mod keys;
mod page;

use crate::Run;
use crate::output::{Exit, Output};
use serde_json::{Map, Value, json};
use weir_core::classify::{CLASSIFIERS, MatchOrder};
use weir_core::link::Framing;
use weir_core::packet::FlowKey;
use weir_core::parameter::{Kind, Parameter, Scope};
use weir_core::police::METERS;
use weir_core::queue::{DROPPERS, SHORT_KEY};
use weir_core::sched::{Descriptor, SCHEDULERS};
use weir_core::units::{Bytes, Dimension};
use weir_policy::policy::PLACES_MAX;

/// Prints the JSON schema of a kind of file, for editors that complete and check TOML.
#[derive(clap::Args)]
pub struct Schema {
    /// The kind of file.
    #[arg(value_enum, default_value_t = Kinds::Policy)]
    kind: Kinds,
    /// Print a page with every key, its values and its default, as in docs/reference/.
    #[arg(long)]
    markdown: bool,
}

/// Kinds of files that have a schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Kinds {
    /// A link, its classes and rules.
    Policy,
    /// Sources and links, for `weir sim`.
    Scenario,
    /// Ports and directions, for `weir up`.
    Deployment,
}

impl Run for Schema {
    fn run(self, output: &Output) -> Exit {
        match (self.kind, self.markdown) {
            (Kinds::Policy, false) => output.json(&policy()),
            (Kinds::Policy, true) => output.text(&page::policy()),
            (Kinds::Scenario, false) => output.json(&keys::scenario()),
            (Kinds::Scenario, true) => output.text(&page::scenario()),
            (Kinds::Deployment, false) => output.json(&keys::deployment()),
            (Kinds::Deployment, true) => output.text(&page::deployment()),
        }
        Exit::Clean
    }
}

/// Returns the schemas of all kinds of file.
pub fn all() -> weir_lsp::Schemas {
    weir_lsp::Schemas {
        policy: policy(),
        deployment: keys::deployment(),
        scenario: keys::scenario(),
        words: page::value,
    }
}

/// Builds the schema of a policy: `scheduler` in `[link]` determines the keys of classes.
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
            "plan": { "type": "object", "additionalProperties": { "type": "object" } },
            "template": true,
            "exception": { "type": "object", "additionalProperties": { "type": "object" } },
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
        "properties": {
            "that": {
                "type": "string", "examples": ["voice.delay.p99 < 5 ms"],
                "description": "What must hold: a measure of a class, compared with a value.",
            },
            "under": { "type": "string", "description": "The scenario in which it must hold." },
        },
        "additionalProperties": false,
    })
}

/// Builds the schema of a policy with this scheduler.
fn with_scheduler(descriptor: &Descriptor) -> Value {
    let own = table(descriptor.parameters, &[Scope::Link]);
    let mut link = common_link();
    link.insert("scheduler".into(), json!({ "const": descriptor.keyword }));
    let mut link = about::described(link, about::LINK);
    link.insert(descriptor.keyword.into(), closed(own));
    let mut class = about::described(common_class(), about::CLASS);
    class.extend(table(descriptor.parameters, &[Scope::Class, Scope::Leaf]));
    let rated = descriptor
        .parameters
        .iter()
        .any(|row| row.name == "rate" && matches!(row.scope, Scope::Class | Scope::Leaf));
    let mut besides = |key: &str, dimension, description| {
        class.entry(key).or_insert_with(|| quantity(&[dimension], description));
    };
    besides("delay", Dimension::Duration, "The longest delay of a packet.");
    if rated {
        besides("share", Dimension::Share, "The part of its parent's rate, such as 40 %.");
    }
    let template = template(&class);
    json!({
        "description": descriptor.summary,
        "properties": {
            "template": { "type": "object", "additionalProperties": template },
            "link": closed(link),
            "class": { "additionalProperties": closed(class), "propertyNames": {
                "pattern": r"^[^\s!-,./:-@\[-^`{-~]+$", "maxLength": 64,
            } },
        },
    })
}

/// Builds the schema of a template for classes with these keys: a text with placeholders may stand
/// for any value.
fn template(class: &Map<String, Value>) -> Value {
    let values = class.keys().map(|key| (key.clone(), json!(true))).collect();
    let mut template = closed(object(json!({
        "list": {
            "description": "A CSV or TOML file, relative to the policy, or the rows themselves.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "object" } },
            ],
        },
        "name": { "type": "string", "description": "The name of each class, such as {name}." },
        "join": {
            "type": "boolean", "default": false,
            "description": "Whether rows of one name are one class, with the rules of all.",
        },
        "circuits": {
            "type": "boolean", "default": false,
            "description": "Whether its rows are circuits that come and go \
                            (`[deployment.circuits]`), in place of `list` and `name`.",
        },
        "class": closed(values),
    })));
    template["properties"]["class"]["description"] = json!("The keys of each class.");
    template["required"] = json!(["class"]);
    template["anyOf"] = json!([
        { "required": ["list", "name"] },
        { "properties": { "circuits": { "const": true } }, "required": ["circuits"] },
    ]);
    template
}

fn common_link() -> Map<String, Value> {
    use Dimension::{Bytes, Duration, Number, Packets, Rate};
    let classifiers: Vec<_> = CLASSIFIERS.iter().map(|row| row.keyword).collect();
    let framings: Vec<_> = Framing::PRESETS.iter().map(|row| row.0).collect();
    let orders = MatchOrder::ALL.map(MatchOrder::keyword);
    let fragments = ["cache", "none", "altq-broken", "altq-fixed"];
    object(json!({
        "rate": quantity(&[Rate], "The rate of the line, such as 10 Mbit/s."),
        "overhead": {
            "description": "How the length on the wire follows from a frame.",
            "anyOf": [
                { "enum": framings },
                closed(object(json!({
                    "bytes": { "type": "integer", "minimum": -64, "maximum": 256 },
                    "minimum": { "type": "integer", "minimum": 0, "maximum": 65_535 },
                    "cell": { "const": 48 },
                    "ptm": { "type": "boolean" },
                }))),
            ],
        },
        "charge": { "enum": ["wire", "frame"] },
        "mtu": bounded(quantity(&[Bytes, Number], "The largest IP packet."), 68, 65_535),
        "buffer": quantity(&[Bytes], "Bytes in the driver's buffer."),
        "rtt": quantity(&[Duration], "The round-trip time of the paths through the link."),
        "packets_max": quantity(&[Packets], "The most packets that wait in all queues together."),
        "follows_arrivals": { "type": "boolean" },
        "oversubscribe": { "type": "boolean" },
        "seed": { "type": "integer", "minimum": 0 },
        "places": places(),
        "classifier": { "enum": classifiers },
        "match_order": { "enum": orders },
        "fragments": { "anyOf": [
            { "enum": fragments },
            closed(object(json!({
                "entries": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
                "timeout": quantity(&[Duration], "How long a fragment is remembered."),
            }))),
        ] },
    }))
}

fn common_class() -> Map<String, Value> {
    use Dimension::{Bytes, Rate, Share};
    let mut arrival = closed(object(json!({
        "rate": quantity(&[Rate, Share], "The long-run rate of its arrivals."),
        "burst": quantity(&[Bytes], "The largest burst of its arrivals."),
    })));
    arrival["required"] = json!(["rate", "burst"]);
    object(json!({
        "parent": { "type": "string" },
        "default": { "type": "boolean" },
        "queue": { "$ref": "#/$defs/queue" },
        "police": { "$ref": "#/$defs/police" },
        "set_dscp": bounded(json!({ "type": ["string", "integer"] }), 0, 63),
        (SHORT_KEY): { "enum": FlowKey::ISOLATION_WORDS },
        "hash": { "enum": ["dstaddr", "srcport", "full", "srcaddr", "srcaddr,dstaddr"] },
        "queues": { "type": "integer", "minimum": 1, "maximum": 2048 },
        "places": places(),
        "place": { "type": "integer", "minimum": 0, "maximum": PLACES_MAX - 1 },
        "note": { "type": "string" },
        "oversubscribe": { "type": "boolean" },
        "arrival": arrival,
        "window": quantity(&[Bytes], "The TCP window of the single flow that it carries."),
        "typical_packet": quantity(&[Bytes], "The length of most of its packets."),
        "match": { "anyOf": [
            { "$ref": "#/$defs/rule" },
            { "type": "array", "items": { "$ref": "#/$defs/rule" } },
        ] },
    }))
}

/// Builds the schema of places: a number, or a table that may have parameters of a class, too.
fn places() -> Value {
    let count = json!({ "type": "integer", "minimum": 1, "maximum": PLACES_MAX });
    json!({ "anyOf": [
        count,
        {
            "type": "object",
            "properties": {
                "count": count,
                "queue": { "$ref": "#/$defs/queue" },
                (SHORT_KEY): { "enum": FlowKey::ISOLATION_WORDS },
            },
            "required": ["count"],
        },
    ] })
}

/// Builds the schema of a queue: one of the droppers, the first by default.
fn queue() -> Value {
    let one = |(index, row): (usize, &weir_core::queue::DropperDescriptor)| {
        let mut keys = table(row.parameters, &[Scope::Queue]);
        keys.insert("dropper".into(), json!({ "const": row.keyword }));
        // A class may name the dropper with the short key in short.
        let is_short = row.parameters.iter().any(|row| row.name == SHORT_KEY);
        named(closed(keys), "dropper", index == 0 || is_short)
    };
    json!({ "type": "object", "anyOf": DROPPERS.iter().enumerate().map(one).collect::<Vec<_>>() })
}

/// Builds the schema of a policer: one of the meters, the first by default.
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

/// Requires the key that names the kind of a table, unless the kind is the default.
fn named(mut table: Value, key: &str, first: bool) -> Value {
    if !first {
        table["required"] = json!([key]);
    }
    table
}

fn rule() -> Value {
    let scalar = |max: u32| bounded(json!({ "type": ["string", "integer"] }), 0, max);
    let prefixes = one_or_more(json!({ "type": "string" }));
    let mut keys = Map::new();
    for key in ["src", "dst"] {
        keys.insert(key.into(), prefixes.clone());
    }
    for (key, max) in FIELDS {
        keys.insert((*key).into(), scalar(*max));
    }
    for (key, max) in LISTED {
        keys.insert((*key).into(), one_or_more(scalar(*max)));
    }
    let station = json!({
        "type": "string", "pattern": "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$",
        "examples": ["02:00:5e:10:00:01"],
    });
    let named = |pattern: &str, examples: Value| {
        one_or_more(json!({
            "type": ["string", "integer"], "pattern": pattern, "examples": examples,
        }))
    };
    let flag = "!?[A-Za-z]{3}";
    let flags = named(&format!("^{flag}(,{flag})*$"), json!(["syn", "ack,!psh"]));
    keys.insert("tcp_flags".into(), flags);
    keys.insert("length".into(), named("^[0-9]+(-[0-9]+)? ?B$", json!(["0-100 B", "1500 B"])));
    let icmp = named("^[0-9A-Za-z-]+(/[0-9]+)?$", json!(["echo-request", 8, "3/4"]));
    keys.insert("icmp_type".into(), icmp);
    for key in ["src_mac", "dst_mac"] {
        keys.insert(key.into(), one_or_more(station.clone()));
    }
    let mark = json!({
        "type": ["string", "integer"], "minimum": 0, "maximum": u32::MAX,
        "pattern": "^([0-9]+|0[xX][0-9A-Fa-f]+)(/([0-9]+|0[xX][0-9A-Fa-f]+))?$",
        "examples": [5, "0x10/0xf0"],
    });
    keys.insert("mark".into(), mark);
    keys.insert("interface".into(), json!({ "type": "string", "minLength": 1 }));
    for order in MatchOrder::ALL {
        let Some((name, min, max, _)) = order.sort_key() else { continue };
        let range = json!({ "type": "integer", "minimum": min, "maximum": max });
        keys.insert(name.into(), range);
    }
    keys.insert("police".into(), json!({ "$ref": "#/$defs/police" }));
    keys.insert("set_dscp".into(), scalar(63));
    closed(about::described(keys, about::RULE))
}

/// Builds the schema of one value, or of a list of at least one.
fn one_or_more(value: Value) -> Value {
    json!({ "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }] })
}

/// Returns the parameters of these scopes.
fn table(parameters: &[Parameter], scopes: &[Scope]) -> Map<String, Value> {
    let own = parameters.iter().filter(|row| scopes.contains(&row.scope));
    own.map(|row| (row.name.to_owned(), parameter(row))).collect()
}

fn parameter(row: &Parameter) -> Value {
    let default = row.default.map_or_else(String::new, |text| format!(" Default: {text}."));
    let description = format!("{}{default}", row.summary);
    let mut schema = match row.kind {
        Kind::Quantity(Dimension::Rate) => {
            quantity(&[Dimension::Rate, Dimension::Share], &description)
        }
        Kind::Quantity(dimension) => quantity(&[dimension], &description),
        Kind::Size(min, max) => {
            let range = format!("{} to {}", Bytes::new(min), Bytes::new(max));
            let mut schema = quantity(&[Dimension::Bytes], &description);
            schema["$comment"] = json!(range);
            schema
        }
        Kind::Limit => quantity(&[Dimension::Packets, Dimension::Bytes], &description),
        Kind::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Choice(words) => json!({ "enum": words }),
    };
    schema["description"] = json!(description);
    if let Some(text) = row.default {
        schema["default"] = text.parse::<u64>().map_or_else(|_| json!(text), Value::from);
    }
    schema
}

/// Builds the schema of a number with a unit of one of these dimensions.
fn quantity(dimensions: &[Dimension], description: &str) -> Value {
    let units: Vec<_> = dimensions.iter().map(|dimension| units(*dimension)).collect();
    let pattern = format!(r"^\s*[0-9][0-9_]*(\.[0-9_]*)?\s*({})\s*$", units.join("|"));
    let examples: Vec<_> = dimensions.iter().map(|dimension| dimension.example()).collect();
    // Only a quantity without unit may be written as a number.
    let plain = dimensions.contains(&Dimension::Number);
    let types = if plain { json!(["string", "integer"]) } else { json!("string") };
    json!({
        "type": types, "pattern": pattern, "examples": examples, "description": description,
    })
}

/// Returns the units of a dimension, as a pattern.
const fn units(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Rate => "[kMGT]?bit/s|[kMG]?B/s",
        Dimension::Duration => "[nuµm]?s|min|h",
        Dimension::Bytes => "[kKMG]?B|[KMG]iB",
        Dimension::Packets => "packets?",
        Dimension::Share => "%",
        Dimension::Number => "",
    }
}

/// Adds bounds for a number, both included.
fn bounded(mut schema: Value, min: u32, max: u32) -> Value {
    schema["minimum"] = json!(min);
    schema["maximum"] = json!(max);
    schema
}

fn closed(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Returns the keys of a JSON object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Header fields of which a rule may list several values, and the largest number of each.
const LISTED: &[(&str, u32)] = &[("sport", 65_535), ("dport", 65_535), ("dscp", 63), ("pcp", 7)];
/// Other header fields that a rule may test, and the largest number of each.
const FIELDS: &[(&str, u32)] =
    &[("proto", 255), ("ecn", 3), ("vlan", 4094), ("vlan_inner", 4094), ("ethertype", 65_535)];
