//! Values that two policies write differently: also those, such as a burst, whose effect neither
//! rules nor bounds show.

use crate::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::ids::ClassId;
use weir_core::link::{Charge, Coding, Framing, LinkPlan};
use weir_core::parameter::{Parameter, Params, Value};
use weir_core::queue::{DROPPERS, QueuePlan};
use weir_core::sched;

/// A value that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The class; none if it is the link's.
    pub class: Option<String>,
    /// The key, such as `burst` or `queue.limit`.
    pub key: String,
    /// In the first policy.
    pub before: String,
    /// In the second policy.
    pub after: String,
}

/// Returns what changes between two policies in one line: what is written differently, without what
/// follows from it. `None` if both are the same.
pub fn line(old: &Policy, new: &Policy) -> Option<String> {
    if old == new {
        return None;
    }
    let settings = settings(old, new);
    let setting = |setting: &Setting| {
        let Setting { class, key, before, after } = setting;
        let class = class.as_ref().map(|class| format!("{class} ")).unwrap_or_default();
        format!("{class}{key} {before} -> {after}")
    };
    let mut parts: Vec<_> = settings.iter().map(setting).collect();
    let names = |of: &Policy| -> BTreeSet<String> {
        let named = of.link.tree.classes().filter(|(_, class)| !class.name.is_empty());
        named.map(|(_, class)| class.name.clone()).collect()
    };
    let (before, after) = (names(old), names(new));
    parts.extend(after.difference(&before).map(|name| format!("class {name} added")));
    parts.extend(before.difference(&after).map(|name| format!("class {name} removed")));
    if old.rules != new.rules || old.joined != new.joined || old.default != new.default {
        parts.push("other rules".to_owned());
    }
    if old.circuits != new.circuits {
        parts.insert(0, "another template or other plans of circuits".to_owned());
    }
    if parts.is_empty() {
        parts.push("values that `weir diff` shows".to_owned());
    }
    let more = parts.len().saturating_sub(PARTS_SHOWN);
    parts.truncate(PARTS_SHOWN);
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    Some(parts.join("; "))
}

/// Returns the values that differ: of the link, and of the classes that both have, in the order of
/// the first policy. Of classes under different schedulers only queues are compared.
pub fn settings(old: &Policy, new: &Policy) -> Vec<Setting> {
    let mut found = Vec::new();
    let (one, two) = (&old.link, &new.link);
    let mut link = |key: &str, before: String, after: String| {
        found.extend(differing(None, key, before, after));
    };
    link("scheduler", one.scheduler.into(), two.scheduler.into());
    link("rate", one.tree.rate().to_string(), two.tree.rate().to_string());
    link("overhead", overhead(one.framing), overhead(two.framing));
    link("charge", charge(one.charge).to_owned(), charge(two.charge).to_owned());
    link("buffer", one.buffer.to_string(), two.buffer.to_string());
    let follows = |plan: &LinkPlan| plan.follows_arrivals.to_string();
    link("follows_arrivals", follows(one), follows(two));
    let rows = sched::find(one.scheduler).map_or(&[][..], |entry| entry.descriptor.parameters);
    let same = one.scheduler == two.scheduler;
    if same {
        let params = (one.tree.params(), two.tree.params());
        found.extend(parameters(None, "", rows, params));
    }
    let others: BTreeMap<&str, ClassId> =
        two.tree.classes().map(|(id, class)| (class.name.as_str(), id)).collect();
    // Free places have no names.
    for (id, class) in one.tree.classes().filter(|(_, class)| !class.name.is_empty()) {
        let Some(&other) = others.get(class.name.as_str()) else { continue };
        let name = Some(class.name.as_str());
        if same {
            let params = (&class.params, &two.tree.class(other).params);
            found.extend(parameters(name, "", rows, params));
        }
        if let (Some(before), Some(after)) = (queue(one, id), queue(two, other)) {
            found.extend(queues(name, before, after));
        }
    }
    found
}

fn queue(link: &LinkPlan, class: ClassId) -> Option<&QueuePlan> {
    link.queues.get(link.tree.leaf_of(class)?.index())
}

fn queues(class: Option<&str>, before: &QueuePlan, after: &QueuePlan) -> Vec<Setting> {
    let (one, two) = (before.dropper.to_owned(), after.dropper.to_owned());
    let mut found = Vec::from_iter(differing(class, "queue.dropper", one, two));
    if before.dropper == after.dropper {
        let dropper = DROPPERS.iter().find(|dropper| dropper.keyword == before.dropper);
        let rows = dropper.map_or(&[][..], |dropper| dropper.parameters);
        found.extend(parameters(class, "queue.", rows, (&before.params, &after.params)));
    }
    found
}

/// Returns the parameters that differ; a value that equals the default is as none.
fn parameters(
    class: Option<&str>,
    prefix: &str,
    rows: &[Parameter],
    (before, after): (&Params, &Params),
) -> Vec<Setting> {
    let mut found = Vec::new();
    for row in rows {
        let [before, after] = [before, after].map(|params| {
            let written = params.value(row.name).map(shown);
            written.unwrap_or_else(|| row.default.unwrap_or("not written").to_owned())
        });
        found.extend(differing(class, &format!("{prefix}{}", row.name), before, after));
    }
    found
}

fn differing(class: Option<&str>, key: &str, before: String, after: String) -> Option<Setting> {
    let setting = |(before, after)| Setting {
        class: class.map(str::to_owned),
        key: key.to_owned(),
        before,
        after,
    };
    (before != after).then(|| setting((before, after)))
}

fn shown(value: Value) -> String {
    match value {
        Value::Quantity(quantity) => quantity.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Choice(word) => word.to_owned(),
    }
}

/// Returns an overhead as a policy writes it: its name, or a table.
fn overhead(framing: Framing) -> String {
    if let Some((name, _)) = Framing::PRESETS.iter().find(|row| row.1 == framing) {
        return (*name).to_owned();
    }
    let mut keys = vec![format!("bytes = {}", framing.added)];
    keys.extend((framing.minimum > 0).then(|| format!("minimum = {}", framing.minimum)));
    keys.extend(match framing.coding {
        Coding::Plain => None,
        Coding::Cells(_) => Some("cell = 48".to_owned()),
        Coding::Ptm => Some("ptm = true".to_owned()),
    });
    format!("{{ {} }}", keys.join(", "))
}

const fn charge(charge: Charge) -> &'static str {
    match charge {
        Charge::Wire => "wire",
        Charge::Frame => "frame",
    }
}

/// How many parts a line shows.
const PARTS_SHOWN: usize = 4;
