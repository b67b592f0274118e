//! The keys of a file: the JSON schemas that `weir schema` prints, which follow from the registries
//! of schedulers, droppers, meters and fields.
//!
//! Completion and hover walk a schema along a path, beside the values of the file: where a table
//! has several forms, the words that are written (`scheduler`, `kind`, `dropper`) choose one.

use crate::document::Document;
use crate::kind::Kind;
use crate::syntax::Step;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::police::METERS;
use weir_core::queue::DROPPERS;
use weir_core::sched;

/// The schemas of the kinds of file, and what puts the values that one allows into words.
pub struct Schemas {
    /// Of policies.
    pub policy: Value,
    /// Of deployments.
    pub deployment: Value,
    /// Of scenarios.
    pub scenario: Value,
    /// Returns the values that a schema allows, in words, as `docs/reference/` has them.
    pub words: fn(&Value) -> String,
}

/// A key that may be written.
#[derive(Clone, Debug, Default)]
pub struct Key<'s> {
    /// Its schemas, one for each form of its table.
    pub schemas: Vec<&'s Value>,
    /// Whether it must be written.
    pub required: bool,
}

/// The meaning of a word that names an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// In a sentence.
    pub summary: &'static str,
    /// Keys of `docs/sources.md`, with sections.
    pub sources: &'static [&'static str],
}

impl Schemas {
    /// Schemas without any key.
    pub fn none() -> Self {
        let (policy, deployment, scenario) = (Value::Null, Value::Null, Value::Null);
        Self { policy, deployment, scenario, words: |_| String::new() }
    }

    /// Returns the schemas that a value at this path of the document must meet.
    pub fn at<'s>(&'s self, document: &Document, path: &[Step]) -> Vec<&'s Value> {
        let root = match document.kind() {
            Some(Kind::Policy) => &self.policy,
            Some(Kind::Deployment) => &self.deployment,
            Some(Kind::Scenario) => &self.scenario,
            Some(Kind::Sweep) => sweep(),
            None => return Vec::new(),
        };
        let mut walk = Walk { root };
        let mut found = vec![root];
        let mut value = Some(document.json());
        for step in path {
            let forms: Vec<_> =
                found.iter().copied().flat_map(|schema| walk.forms(schema, value, 0)).collect();
            found = forms.into_iter().filter_map(|form| below(form, step)).collect();
            if step.is("policy") && !found.is_empty() {
                // A policy inside another file has the keys of one.
                walk.root = &self.policy;
                found.push(walk.root);
            }
            value = value.and_then(|value| match step {
                Step::Key(key) => value.get(key),
                Step::Index(index) => value.get(index),
            });
        }
        found.iter().copied().flat_map(|schema| walk.forms(schema, value, 0)).collect()
    }

    /// Returns the keys of the table at a path.
    pub fn keys<'s>(&'s self, document: &Document, path: &[Step]) -> BTreeMap<&'s str, Key<'s>> {
        let mut keys: BTreeMap<&str, Key<'_>> = BTreeMap::new();
        for form in self.at(document, path) {
            let required = |key: &str| {
                let list = form["required"].as_array();
                list.is_some_and(|list| list.iter().any(|one| one == key))
            };
            for (name, schema) in form["properties"].as_object().into_iter().flatten() {
                let key = keys.entry(name).or_default();
                key.schemas.push(schema);
                key.required |= required(name);
            }
        }
        keys
    }

    /// Returns the values of a key, in words.
    pub fn values(&self, key: &Key<'_>) -> String {
        let list = key.schemas.iter().find(|schema| schema.get("enum").is_some());
        if let Some(list) = list {
            return (self.words)(list);
        }
        let mut words: Vec<_> = key.schemas.iter().map(|schema| (self.words)(schema)).collect();
        let mut seen = BTreeSet::new();
        words.retain(|words| !words.is_empty() && seen.insert(words.clone()));
        words.join(", or ")
    }

    /// Returns what a key means, in Markdown: its sentence, its values and its default.
    pub fn describe(&self, key: &Key<'_>) -> String {
        let described = key.schemas.iter().find(|schema| schema.get("description").is_some());
        let schema = described.copied().unwrap_or(&Value::Null);
        let text = schema["description"].as_str().unwrap_or_default();
        let text = text.split(" Default: ").next().unwrap_or_default();
        let mut lines = vec![text.to_owned()];
        let words = self.values(key);
        lines.extend((!words.is_empty()).then(|| format!("Value: {words}.")));
        lines.extend(match &schema["default"] {
            Value::Null => None,
            Value::String(text) => Some(format!("Default: {text}.")),
            other => Some(format!("Default: {other}.")),
        });
        lines.retain(|line| !line.is_empty());
        lines.join("\n\n")
    }
}

/// Returns what `word` means as the value of this key.
pub fn meaning(key: &str, word: &str) -> Option<Meaning> {
    match key {
        "scheduler" => {
            let row = sched::find(word)?.descriptor;
            Some(Meaning { summary: row.summary, sources: row.sources })
        }
        "dropper" => {
            let row = DROPPERS.iter().find(|row| row.keyword == word)?;
            Some(Meaning { summary: row.summary, sources: row.sources })
        }
        "meter" => {
            let row = METERS.iter().find(|row| row.keyword == word)?;
            Some(Meaning { summary: row.summary, sources: row.sources })
        }
        _ => None,
    }
}

struct Walk<'s> {
    /// The schema to which references lead.
    root: &'s Value,
}

impl<'s> Walk<'s> {
    /// Returns the schema and its alternatives that do not contradict `value`, which is there or
    /// not.
    fn forms(&self, schema: &'s Value, value: Option<&Value>, depth: usize) -> Vec<&'s Value> {
        if depth > DEPTH_MAX {
            return Vec::new();
        }
        if let Some(path) = schema["$ref"].as_str() {
            let target = path.strip_prefix('#').and_then(|path| self.root.pointer(path));
            return target.map_or(Vec::new(), |target| self.forms(target, value, depth + 1));
        }
        let mut all = vec![schema];
        for key in ["allOf", "anyOf", "oneOf"] {
            let options = schema[key].as_array().into_iter().flatten();
            let options = options.filter(|option| key == "allOf" || !contradicts(option, value));
            all.extend(options.flat_map(|option| self.forms(option, value, depth + 1)));
        }
        all
    }
}

/// Returns the schema of what a step leads to.
fn below<'s>(schema: &'s Value, step: &Step) -> Option<&'s Value> {
    match step {
        Step::Index(_) => schema.get("items"),
        Step::Key(key) => {
            let own = schema["properties"].get(key);
            own.or_else(|| schema.get("additionalProperties").filter(|other| other.is_object()))
        }
    }
}

/// Returns whether a value shows that this form of a table is not meant: a word that chooses the
/// form is another one, or is missing where it must be written.
fn contradicts(form: &Value, value: Option<&Value>) -> bool {
    let Some(value) = value else { return false };
    if form["type"].as_str().is_some_and(|kind| !has_type(value, kind)) {
        return true;
    }
    let Some(table) = value.as_object() else { return false };
    let properties = form["properties"].as_object().into_iter().flatten();
    let required = form["required"].as_array();
    properties.into_iter().any(|(key, schema)| match (schema.get("const"), table.get(key)) {
        (Some(wanted), Some(found)) => wanted != found && !is_open(found),
        (Some(_), None) => required.is_some_and(|keys| keys.iter().any(|other| other == key)),
        (None, Some(found)) if found.is_object() => contradicts(schema, Some(found)),
        _ => false,
    })
}

/// Returns whether a word is still being written.
fn is_open(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty)
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        // A value that is half written may become any other.
        _ => !value.is_object() && !value.is_array(),
    }
}

/// The schema of sweeps, after `docs/sweeps.md`.
fn sweep() -> &'static Value {
    static SCHEMA: std::sync::OnceLock<Value> = std::sync::OnceLock::new();
    SCHEMA.get_or_init(|| {
        let axes = |what: &str| {
            json!({ "type": "object", "description": what, "additionalProperties": {
                "type": "array", "description": "Values, or the least and the most.",
            } })
        };
        json!({
            "type": "object",
            "required": ["scenario", "replications", "metrics"],
            "properties": {
                "scenario": {
                    "type": "string", "description": "The scenario, relative to this file.",
                },
                "replications": {
                    "type": "integer", "minimum": 1, "description": "Runs of each point.",
                },
                "metrics": {
                    "type": "array", "items": { "type": "string" },
                    "examples": [["voice.delay.p99", "link.utilisation"]],
                    "description": "What to measure.",
                },
                "seed": {
                    "type": "integer", "minimum": 0, "default": "the scenario's",
                    "description": "The first seed.",
                },
                "points": {
                    "type": "integer", "minimum": 1,
                    "description": "With `[random]` or `[latin]`: how many points are drawn.",
                },
                "draw": {
                    "type": "integer", "minimum": 0, "default": 0,
                    "description": "With `[random]` or `[latin]`: the seed that draws them.",
                },
                "grid": axes("Every combination of the values."),
                "random": axes("Ranges, of which each point draws every value by itself."),
                "latin": axes("Ranges, of which points are drawn as a Latin hypercube."),
            },
        })
    })
}

/// Bound: forms of a schema within each other; deeper ones are not followed.
const DEPTH_MAX: usize = 16;
