//! The values that can be set in a policy, for an operator who tunes a link: each parameter that
//! the registry lists for the scheduler, the dropper and the meter in force, with its key, its
//! range and its effect.
//!
//! [`crate::setting`] has the numbers that a program may move; these are all values, words among
//! them. Classes that a template makes have no text of their own, and no knobs.

use crate::edit;
use crate::policy::Policy;
use crate::setting::{default, parse, part};
use toml_edit::{Item, TableLike};
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::police::METERS;
use weir_core::queue::{DROPPERS, SHORT_KEY};
use weir_core::sched;
use weir_core::units::{Dimension, Quantity};

/// A value that can be set.
#[derive(Clone, PartialEq, Debug)]
pub struct Knob {
    /// The key, as `weir set` takes it: `class.voice.rate`.
    pub key: String,
    /// The class that it belongs to; `None` for the link.
    pub class: Option<String>,
    /// The name of the parameter.
    pub parameter: String,
    /// Its effect, in a sentence.
    pub summary: &'static str,
    /// The unit of its numbers: `bit/s`, `s`, `bytes`, `packets`, `1` for shares, or none.
    pub unit: &'static str,
    /// The value in the policy, as it is written there.
    pub written: Option<String>,
    /// The value in force, if it is a number that is known.
    pub number: Option<f64>,
    /// The smallest and the largest value, if there are such.
    pub range: Option<(f64, f64)>,
    /// The words that it takes, if it takes words.
    pub choices: Option<Vec<String>>,
    /// The value where nothing is written.
    pub default: &'static str,
}

/// Returns every value that can be set in a policy with this text, in the order of the text.
///
/// # Errors
/// When the text cannot be edited.
pub fn all(text: &str, policy: &Policy) -> Result<Vec<Knob>, String> {
    let document = parse(text)?;
    let plan = &policy.link;
    let mut knobs = Vec::new();
    link_knobs(document.get("link").and_then(Item::as_table_like), plan, &mut knobs);
    let classes = document.get("class").and_then(Item::as_table_like);
    for (name, class) in classes.iter().flat_map(|classes| classes.iter()) {
        // A class with `queues` has several classes in the plan, all with the same values.
        let id = policy.class(name).or_else(|| policy.class(&format!("{name}-0")));
        if let (Some(id), Some(class)) = (id, class.as_table_like()) {
            class_knobs(class, (name, id), plan, &mut knobs);
        }
    }
    Ok(knobs)
}

/// A table of the text, and the values that it has in the plan.
struct Place<'a> {
    /// The keys that lead to it, as they are written.
    path: String,
    class: Option<&'a str>,
    params: &'a Params,
    text: Option<&'a dyn TableLike>,
    plan: &'a LinkPlan,
}

fn link_knobs(link: Option<&dyn TableLike>, plan: &LinkPlan, knobs: &mut Vec<Knob>) {
    let rate = Params::new().with("rate", Quantity::Rate(plan.tree.rate()));
    let path = "link".to_owned();
    let place = Place { path, class: None, params: &rate, text: link, plan };
    knobs.push(place.knob(&LINK_RATE));
    let Some(entry) = sched::find(plan.scheduler) else { return };
    let keyword = entry.descriptor.keyword;
    let text = link.and_then(|link| part(link, keyword));
    let path = edit::path(&["link", keyword]);
    let place = Place { path, class: None, params: plan.tree.params(), text, plan };
    let of_link = entry.descriptor.parameters.iter().filter(|row| row.scope == Scope::Link);
    knobs.extend(of_link.map(|row| place.knob(row)));
}

fn class_knobs(
    class: &dyn TableLike,
    (name, id): (&str, ClassId),
    plan: &LinkPlan,
    knobs: &mut Vec<Knob>,
) {
    let path = edit::path(&["class", name]);
    let leaf = plan.tree.leaf_of(id);
    if let Some(entry) = sched::find(plan.scheduler) {
        let here = |row: &&Parameter| {
            row.scope == Scope::Class || row.scope == Scope::Leaf && leaf.is_some()
        };
        let params = &plan.tree.class(id).params;
        let place =
            Place { path: path.clone(), class: Some(name), params, text: Some(class), plan };
        let rows = entry.descriptor.parameters.iter().filter(here);
        knobs.extend(rows.map(|row| place.share(row).unwrap_or_else(|| place.knob(row))));
    }
    let Some(leaf) = leaf else { return };
    let queue = &plan.queues[leaf.index()];
    let of_queue =
        |path, text| Place { path, class: Some(name), params: &queue.params, text, plan };
    let place = of_queue(format!("{path}.queue"), part(class, "queue"));
    // The class may write it itself.
    let short = class.contains_key(SHORT_KEY).then(|| of_queue(path.clone(), Some(class)));
    let knob = |row: &Parameter| {
        let place = short.as_ref().filter(|_| row.name == SHORT_KEY).unwrap_or(&place);
        place.knob(row)
    };
    knobs.push(place.dropper(queue.dropper));
    if let Some(dropper) = DROPPERS.iter().find(|row| row.keyword == queue.dropper) {
        knobs.extend(dropper.parameters.iter().map(knob));
    }
    let meter = plan.leaf_meters.get(leaf.index()).copied().flatten();
    let meter = meter.and_then(|meter| plan.meters.get(meter.index()));
    if let (Some(meter), Some(text)) = (meter, part(class, "police")) {
        let path = format!("{path}.police");
        let place =
            Place { path, class: Some(name), params: &meter.params, text: Some(text), plan };
        let rows = METERS.iter().find(|row| row.keyword == meter.meter);
        knobs.extend(rows.iter().flat_map(|row| row.parameters).map(|row| place.knob(row)));
    }
}

impl Place<'_> {
    fn knob(&self, row: &Parameter) -> Knob {
        let value = match self.params.value(row.name) {
            Some(Value::Quantity(quantity)) => Some(quantity),
            Some(_) => None,
            None => default(row, self.params, self.plan),
        };
        Knob {
            key: format!("{}.{}", self.path, edit::path(&[row.name])),
            class: self.class.map(str::to_owned),
            parameter: row.name.to_owned(),
            summary: row.summary,
            unit: unit(row.kind, value),
            written: self.written(row.name),
            number: value.map(number),
            range: range(row.kind),
            choices: choices(row.kind),
            default: row.default.unwrap_or("must be written"),
        }
    }

    /// Returns the knob of a rate that is written as a share.
    fn share(&self, row: &Parameter) -> Option<Knob> {
        let written = self.written(SHARE).filter(|_| row.name == "rate")?;
        let share = written.parse::<Quantity>().ok()?;
        Some(Knob {
            key: format!("{}.{SHARE}", self.path),
            parameter: SHARE.to_owned(),
            unit: "1",
            number: Some(number(share)),
            range: range(Kind::Quantity(Dimension::Share)),
            written: Some(written),
            ..self.knob(row)
        })
    }

    fn dropper(&self, keyword: &str) -> Knob {
        let words = DROPPERS.iter().map(|dropper| dropper.keyword.to_owned());
        Knob {
            key: format!("{}.dropper", self.path),
            class: self.class.map(str::to_owned),
            parameter: "dropper".to_owned(),
            summary: "Which packets are dropped when too many wait.",
            unit: "",
            written: self.written("dropper").or_else(|| Some(keyword.to_owned())),
            number: None,
            range: None,
            choices: Some(words.collect()),
            default: DROPPERS[0].keyword,
        }
    }

    fn written(&self, name: &str) -> Option<String> {
        let value = self.text?.get(name)?.as_value()?;
        let text = value.as_str().map(str::to_owned);
        Some(text.unwrap_or_else(|| value.clone().decorated("", "").to_string()))
    }
}

fn unit(kind: Kind, value: Option<Quantity>) -> &'static str {
    match kind {
        Kind::Quantity(Dimension::Rate) => "bit/s",
        Kind::Quantity(Dimension::Duration) => "s",
        Kind::Quantity(Dimension::Share) => "1",
        Kind::Quantity(Dimension::Bytes) | Kind::Size(..) => "bytes",
        Kind::Quantity(Dimension::Packets) => "packets",
        Kind::Limit if matches!(value, Some(Quantity::Bytes(_))) => "bytes",
        Kind::Limit => "packets",
        Kind::Quantity(Dimension::Number) | Kind::Number(..) | Kind::Flag | Kind::Choice(_) => "",
    }
}

/// Returns a quantity in the unit of its knob.
fn number(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Rate(rate) => rate.bits_per_second() as f64,
        Quantity::Duration(time) => time.as_nanos() as f64 / 1e9,
        Quantity::Bytes(bytes) => bytes.get() as f64,
        Quantity::Packets(packets) => packets.into(),
        Quantity::Share(share) => f64::from(share.ppb()) / 1e9,
        Quantity::Number(number) => number as f64,
    }
}

fn range(kind: Kind) -> Option<(f64, f64)> {
    match kind {
        Kind::Number(min, max) | Kind::Size(min, max) => Some((min as f64, max as f64)),
        Kind::Quantity(Dimension::Share) => Some((0.0, 1.0)),
        _ => None,
    }
}

fn choices(kind: Kind) -> Option<Vec<String>> {
    let words: &[&str] = match kind {
        Kind::Flag => &["false", "true"],
        Kind::Choice(words) => words,
        _ => return None,
    };
    Some(words.iter().map(|word| (*word).to_owned()).collect())
}

const LINK_RATE: Parameter = Parameter {
    name: "rate",
    scope: Scope::Link,
    kind: Kind::Quantity(Dimension::Rate),
    default: None,
    summary: "The rate of the link.",
};
/// A rate in parts of the parent's.
const SHARE: &str = "share";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{Edit, set_all};
    use crate::policy::parse as read;

    const POLICY: &str = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\n\
        [class.a-b]\nrate = \"2 Mbit/s\" # as agreed\nprio = 1\n\
        queue = { limit = \"50 packets\" }\nmatch = [{ proto = \"udp\" }]\n\
        [class.hosts]\nrate = \"1 Mbit/s\"\nisolate = \"flows within dstaddr\"\n\
        match = { dport = 7 }\n\
        [class.rest]\nshare = \"60 %\"\nceil = \"10 Mbit/s\"\ndefault = true\n";

    /// Expects a knob with this key: what is written, number, unit.
    fn check(key: &str, written: Option<&str>, number: Option<f64>, unit: &str) {
        let policy = read(POLICY, "p.toml").plan.expect("the policy is right");
        let all = all(POLICY, &policy).expect("the text can be edited");
        let keys: Vec<_> = all.iter().map(|knob| knob.key.as_str()).collect();
        let knob = all.iter().find(|knob| knob.key == key);
        let knob = knob.unwrap_or_else(|| panic!("{key} is not among {keys:?}"));
        let found = (knob.written.as_deref(), knob.number, knob.unit);
        assert_eq!(found, (written, number, unit), "{key}");
        assert!(knob.summary.ends_with('.'), "{key}: {}", knob.summary);
    }

    #[test]
    fn a_knob_has_what_is_written_and_what_is_in_force() {
        check("link.rate", Some("10 Mbit/s"), Some(10e6), "bit/s");
        check("link.htb.r2q", None, Some(10.0), "");
        check("class.a-b.rate", Some("2 Mbit/s"), Some(2e6), "bit/s");
        check("class.a-b.ceil", None, Some(2e6), "bit/s");
        check("class.a-b.prio", Some("1"), Some(1.0), "");
        check("class.a-b.queue.limit", Some("50 packets"), Some(50.0), "packets");
        check("class.rest.share", Some("60 %"), Some(0.6), "1");
        check("class.rest.queue.limit", None, Some(100.0), "packets");
        check("class.rest.queue.dropper", Some("tail"), None, "");
        check("class.hosts.isolate", Some("flows within dstaddr"), None, "");
    }

    #[test]
    fn each_knob_of_a_number_can_be_set_by_its_key() {
        let policy = read(POLICY, "p.toml").plan.expect("the policy is right");
        for knob in all(POLICY, &policy).expect("the text can be edited") {
            let Some(written) = &knob.written else { continue };
            let edit = Edit { key: &knob.key, value: written };
            let text = set_all(POLICY, &[edit]).expect("the key leads somewhere");
            assert!(read(&text, "p.toml").plan.is_some(), "{}: {text}", knob.key);
        }
    }
}
