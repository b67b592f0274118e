//! Pages of reference, made from the schemas: every key, its values, its default and its meaning.

use super::{
    about, common_class, common_link, keys, object, policy as policy_schema, promise, quantity,
    rule, table, template,
};
use serde_json::{Map, Value};
use std::fmt::Write;
use weir_core::parameter::{Parameter, Scope};
use weir_core::police::METERS;
use weir_core::queue::DROPPERS;
use weir_core::sched::SCHEDULERS;
use weir_core::units::Dimension;
use weir_policy::deployment::keys as deployments;
use weir_policy::keys::{Keys, required};
use weir_sim::read::keys as scenarios;

/// A page as it grows.
struct Page(String);

/// The page of policies.
pub fn policy() -> String {
    let mut page = Page::begin("Policies", POLICY);
    let mut link = common_link();
    let all = policy_schema();
    let scheduler = all["allOf"][0]["properties"]["link"]["properties"]["scheduler"].clone();
    link.insert("scheduler".into(), scheduler);
    let link = about::described(link, about::LINK);
    page.section("`[link]`", "", &link, &["rate", "scheduler"]);
    let mut class = common_class();
    class.insert("delay".into(), quantity(&[Dimension::Duration], ""));
    let class = about::described(class, about::CLASS);
    page.section("`[class.NAME]`", CLASS, &class, &[]);
    page.section("Rules: `match`", RULES, &object(rule()["properties"].clone()), &[]);
    page.text("## Schedulers\n");
    for entry in SCHEDULERS {
        let row = entry.descriptor;
        page.text(&format!("### `scheduler = \"{}\"`\n\n{}\n", row.keyword, row.summary));
        let link = format!("In `[link.{}]`:", row.keyword);
        page.parameters(&link, row.parameters, &[Scope::Link]);
        page.parameters("In classes:", row.parameters, &[Scope::Class, Scope::Leaf]);
    }
    page.text("## Queues: `queue`\n\n`dropper` chooses; the first is the default.\n");
    for row in DROPPERS {
        page.text(&format!("### `dropper = \"{}\"`\n\n{}\n", row.keyword, row.summary));
        page.parameters("", row.parameters, &[Scope::Queue]);
    }
    page.text("## Policers: `police`\n\n`meter` chooses; the first is the default.\n");
    for row in METERS {
        page.text(&format!("### `meter = \"{}\"`\n\n{}\n", row.keyword, row.summary));
        page.parameters("", row.parameters, &[Scope::Meter]);
        let outcome = |(name, action): &(&str, _)| format!("`{name}` (default: `{action}`)");
        let outcomes: Vec<_> = row.outcomes.iter().map(outcome).collect();
        page.text(&format!(
            "Actions, each `pass`, `drop`, or `mark` and a DSCP: {}.\n",
            outcomes.join(", ")
        ));
    }
    let required = ["class"];
    let keys = object(template(&Map::new())["properties"].clone());
    page.section("`[template.NAME]` and `[plan.NAME]`", TEMPLATES, &keys, &required);
    let keys = object(promise()["properties"].clone());
    page.section("`[[promise]]`", PROMISES, &keys, &["that", "under"]);
    page.0
}

/// The page of deployments.
pub fn deployment() -> String {
    let mut page = Page::begin("Deployments", DEPLOYMENT);
    page.keys("`[deployment]`", "", deployments::DEPLOYMENT);
    page.keys("A port that is a table", PORT, deployments::PORT);
    page.keys("`[direction.NAME]`", WAYS, deployments::DIRECTION);
    page.keys("`[direction.NAME.autorate]`", AUTORATE, deployments::AUTORATE);
    page.keys("`[deployment.alarm.NAME]`", ALARMS, deployments::ALARM);
    page.keys("`[deployment.api]`", API, deployments::API);
    page.keys("`[deployment.rsvp]`", RSVP, deployments::RSVP);
    page.keys("`[deployment.circuits]`", CIRCUITS, deployments::CIRCUITS);
    page.0
}

/// The page of scenarios.
pub fn scenario() -> String {
    let mut page = Page::begin("Scenarios", SCENARIO);
    page.keys("Top level", "", scenarios::TOP_LEVEL);
    page.keys("Every `[[source]]`", "", scenarios::SOURCE);
    for kind in scenarios::sources() {
        page.keys(kind.keyword, kind.summary, kind.keys);
    }
    page.keys("A row of `conversation`", EXCHANGE, scenarios::EXCHANGES);
    page.keys("`[[change]]`", "", scenarios::CHANGES);
    page.keys("`[behind]`", BEHIND, scenarios::BEHINDS);
    page.keys("A table `rate`", CAPACITY, scenarios::CAPACITIES);
    page.keys("Networks: `[[node]]`", NETWORK, scenarios::NODES);
    let back: Vec<_> = keys::properties(scenarios::WAYS).into_iter().map(|row| row.0).collect();
    let (last, others) = back.split_last().expect("a way has keys");
    let back = format!(
        "`back` is a table `[link.back]` with any of the keys `{}` and `{last}`.",
        others.join("`, `")
    );
    page.keys("Networks: `[[link]]`", &back, scenarios::LINKS);
    page.keys("Networks: `autorate` of a `[[link]]`", "", scenarios::AUTORATES);
    page.keys("Networks: `[[tap]]`", "", scenarios::TAPS);
    page.keys("Networks: `[rsvp]`", SIGNALLING, scenarios::SIGNALLING);
    page.keys("Networks: `[[reservation]]`", "", scenarios::RESERVATIONS);
    page.0
}

impl Page {
    fn begin(title: &str, text: &str) -> Self {
        let kind = title.to_lowercase();
        let kind = kind
            .strip_suffix("ies")
            .map_or_else(|| kind.trim_end_matches('s').to_owned(), |stem| format!("{stem}y"));
        let mut page = Self(String::new());
        page.text(&format!("# {title}: every key\n\n{text}\n"));
        page.text(&format!("`weir schema {kind} --markdown` prints this page, {UNITS}\n"));
        page
    }

    fn text(&mut self, text: &str) {
        self.0 += text;
        self.0 += "\n";
    }

    fn section(&mut self, title: &str, text: &str, keys: &Map<String, Value>, required: &[&str]) {
        self.text(&format!("## {title}\n"));
        if !text.is_empty() {
            self.text(&format!("{text}\n"));
        }
        self.table(keys, |key| if required.contains(&key) { "must be written" } else { "" });
    }

    fn keys(&mut self, title: &str, text: &str, keys: Keys) {
        let required: Vec<_> = required(keys).collect();
        self.section(title, text, &keys::properties(keys), &required);
    }

    fn parameters(&mut self, title: &str, rows: &[Parameter], scopes: &[Scope]) {
        let keys = table(rows, scopes);
        if keys.is_empty() {
            return;
        }
        if !title.is_empty() {
            self.text(&format!("{title}\n"));
        }
        self.table(&keys, |_| "must be written");
    }

    /// Adds a table; `otherwise` is the default of a key that has none.
    fn table(&mut self, keys: &Map<String, Value>, otherwise: impl Fn(&str) -> &'static str) {
        self.text("| key | value | default | meaning |\n| --- | --- | --- | --- |");
        for (key, schema) in keys {
            let what = schema["description"].as_str().unwrap_or_default();
            // An editor shows the default with the description; here it has its own column.
            let what = what.split(" Default: ").next().unwrap_or_default();
            let default = match &schema["default"] {
                Value::Null => otherwise(key).to_owned(),
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            let line = [format!("`{key}`"), value(schema), default, what.to_owned()];
            let line = line.map(|cell| cell.replace('|', "\\|"));
            self.text(&format!("| {} |", line.join(" | ")));
        }
        self.text("");
    }
}

/// Returns the values that a schema allows, in words.
pub fn value(schema: &Value) -> String {
    let mut text = plain(schema);
    if let Some(range) = schema["$comment"].as_str() {
        // A text can always grow.
        let _ = write!(text, ", {range}");
    }
    text
}

fn plain(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        return quoted.join(", ");
    }
    if let Some(options) = schema["anyOf"].as_array() {
        let options: Vec<_> = options.iter().map(value).collect();
        return options.join(", or ");
    }
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        return format!("a table: {name}");
    }
    if let Some(word) = schema.get("const") {
        return format!("`{word}`");
    }
    if let Some(examples) = schema["examples"].as_array() {
        let examples: Vec<_> = examples.iter().map(|one| format!("`{one}`")).collect();
        return format!("such as {}{}", examples.join(" or "), range(schema));
    }
    match schema["type"].as_str() {
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("integer" | "number") => number(schema),
        Some("array") => format!("a list of: {}", value(&schema["items"])),
        Some("object") => match schema["properties"].as_object() {
            Some(keys) => {
                let keys: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
                format!("a table of {}", keys.join(", "))
            }
            None => "a table".to_owned(),
        },
        Some(_) => "a text".to_owned(),
        None => format!("a word or a number{}", range(schema)),
    }
}

fn number(schema: &Value) -> String {
    format!("a number{}", range(schema))
}

fn range(schema: &Value) -> String {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Null, _) => String::new(),
        (min, Value::Null) => format!(", at least {min}"),
        (min, max) => format!(", {min} to {max}"),
    }
}

const UNITS: &str = "and a test compares them. Quantities are texts with a unit: rates in \
`kbit/s`, `Mbit/s`, `Gbit/s` or `kB/s`, times in `us`, `ms`, `s`, `min` or `h`, sizes in `B`, \
`KB` or `KiB`, shares in `%`, numbers of packets as `30 packets`.";
const POLICY: &str = "A policy says how one direction of a link is shared. `weir check` reads it.";
const CLASS: &str = "Every class has these keys, and those of the scheduler below. Where classes \
have a `rate`, `share` may be written in its place: a part of the parent's rate, such as `40 %`. \
Names have letters, digits, `-` and `_`, at most 64 bytes.";
const RULES: &str = "A packet must meet every key of a rule that is written.";
const TEMPLATES: &str = "A class for each row of a list; [templates.md](../templates.md) explains \
it. `class` has keys of a class, with placeholders; a plan has the keys that templates name.";
const PROMISES: &str =
    "What `weir test` proves by simulation; [promises.md](../promises.md) explains it.";
const BEHIND: &str = "The bottleneck behind the link; in a network it is `behind` of a `[[link]]`.";
const CAPACITY: &str = "A capacity that varies, as in `rate = { trace = \"lte.csv\" }`.";
const EXCHANGE: &str = "A request and its response, as in `conversation = [{ after = \"0.2 s\", \
up = 517, down = 24310 }]`. In each direction the bytes are under its sender's congestion control.";
const DEPLOYMENT: &str = "A deployment says which policy shapes which direction between \
interfaces. `weir up` runs it, and [running.md](../running.md) says what to know before.";
const PORT: &str = "As in `ports = { inside = \"eth0\", outside = { interface = \"eth1\", delay = \
\"25 ms\" } }`. Delay and loss meet the frames that leave by the port; with `host`, those that \
leave the machine.";
const WAYS: &str = "Ports that directions join, one after another, are one bridge, and each bridge \
runs on a thread of its own. Frames between two ports of a bridge that no direction joins pass at \
once. Two ports without any direction are a bridge that shapes nothing.";
const AUTORATE: &str = "The rate of the direction follows what the line carries, which is measured \
by how long frames wait in the modem. All rates of the policy scale with it. \
[guide/variable.md](../guide/variable.md) explains it.";
const API: &str = "The control API on a TCP address, which programs call with a token; docs/api.md \
                   describes it. On an address that others can reach it takes a certificate.";
const RSVP: &str = "Reservations by RSVP on a routing machine, with `ports = { host = ... }`, or \
on a bridge with an `address`: each that is admitted is a class at a place. \
[reservations.md](../reservations.md) explains it.";
const CIRCUITS: &str = "Circuits of subscribers that come and go while the link runs: each is a \
class at a place, by a template of the policy. [running/circuits.md](../running/circuits.md) \
explains it.";
const ALARMS: &str = "What is watched while the deployment runs. An alarm that is raised, and one \
that ends, is an event; `run` and `webhook` tell others of it. At most 64.";
const SCENARIO: &str = "A scenario says what `weir sim` simulates; [scenarios.md](../scenarios.md) \
explains it, and the models behind the keys.";
const SIGNALLING: &str = "With this table and `[[reservation]]` every node speaks RSVP.";
const NETWORK: &str = "With these tables a scenario is a network, and `policy` and `delay` belong \
to its links.";
