//! Writes a policy for another scheduler, as its author would have: the text stays, with its
//! comments, rules, queues and meters, and only what the scheduler reads changes.
//!
//! Invariant: the text that is returned parses to the translated plan, or has findings that say why
//! the scheduler refuses it.

use super::{Translated, rewrite, translate};
use crate::finding::Outcome;
use crate::policy::{self, Goal, Measure, Policy, Promise};
use crate::reader;
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Params, Value};
use weir_core::sched::{ClassSpec, Descriptor, Tree};
use weir_core::units::Quantity;

/// A policy written for another scheduler.
#[derive(Debug)]
pub struct Converted {
    /// The text of the new policy.
    pub text: String,
    /// A note on each point that was translated differently or not at all.
    pub notes: Vec<String>,
    /// The policy that the text holds, with its findings.
    pub outcome: Outcome<Policy>,
}

/// Converts the policy `text` of the file `name` for the scheduler `to`, which is in the registry.
/// `policy` is what the text was read as.
///
/// # Errors
/// Why the other scheduler cannot express it, or why the text cannot be rewritten.
pub fn convert(
    (text, name): (&str, &str),
    policy: &Policy,
    to: &'static Descriptor,
) -> Result<Converted, String> {
    if reader::top_level(text.as_bytes()).iter().any(|key| key == "template") {
        return Err(
            "it has templates; only classes in tables `[class.NAME]` can be converted".into()
        );
    }
    let mut translated = translate(&policy.link, to)?;
    carry_delays(policy, to, &mut translated)?;
    let mut notes = std::mem::take(&mut translated.notes);
    notes.extend(lost_of_places(policy, to));
    let removed = |class: ClassId| {
        let name = &policy.link.tree.class(class).name;
        translated.plan.tree.classes().all(|(_, class)| class.name != *name)
    };
    let lost: Vec<usize> = (0..policy.promises.len())
        .filter(|&place| classes_of(&policy.promises[place]).any(removed))
        .collect();
    for &place in &lost {
        let that = &policy.promises[place].that;
        notes.push(format!("left out the promise `{that}`: its class is gone"));
    }
    // A share of the parent may mean another rate below another parent; then rates are written.
    let mut found = None;
    for keep_shares in [true, false] {
        let edit = rewrite::Edit { old: &policy.link, new: &translated, to, keep_shares };
        let text = edit.rewrite(text, &lost)?;
        let outcome = policy::parse(&text, name);
        let plan = outcome.plan.as_ref();
        let is_same = plan.is_none_or(|new| is_same(new, &translated.plan, policy));
        found = Some((is_same, Converted { text, notes: notes.clone(), outcome }));
        if found.as_ref().is_some_and(|found| found.0 && found.1.outcome.plan.is_some()) {
            break;
        }
    }
    match found {
        Some((true, converted)) => Ok(converted),
        _ => Err("the text cannot be rewritten; write each class as a table `[class.NAME]`".into()),
    }
}

/// Returns a note on the parameters of places that the other scheduler does not read.
fn lost_of_places(policy: &Policy, to: &Descriptor) -> Option<String> {
    if policy.link.scheduler == to.keyword {
        return None;
    }
    let mut lost: Vec<&str> =
        policy.places.iter().flat_map(|it| it.params.iter()).map(|row| row.0).collect();
    lost.retain(|name| !super::has(to, name));
    lost.sort_unstable();
    lost.dedup();
    let lost: Vec<_> = lost.iter().map(|name| format!("`{name}`")).collect();
    let names = lost.join(", ");
    (!lost.is_empty()).then(|| format!("left out of `places`: {names}; its own defaults hold"))
}

/// Gives leaves the delays that they want where the scheduler has a parameter for them.
fn carry_delays(
    policy: &Policy,
    to: &Descriptor,
    translated: &mut Translated,
) -> Result<(), String> {
    let wanted = policy.demands.iter().any(|demand| demand.delay.is_some());
    if policy.link.scheduler == to.keyword || !wanted || !super::has(to, "delay") {
        return Ok(());
    }
    let tree = &translated.plan.tree;
    let spec = |(id, class): (ClassId, &ClassSpec)| {
        let mut class = class.clone();
        let delay = tree.leaf_of(id).and_then(|leaf| policy.demands[leaf.index()].delay);
        if let Some(delay) = delay {
            class.params.set("delay", Value::Quantity(Quantity::Duration(delay)));
        }
        class
    };
    let classes = tree.classes().map(spec).collect();
    let tree = Tree::new(tree.rate(), tree.mtu(), Params::new(), classes);
    translated.plan.tree = tree.map_err(|error| error.to_string())?;
    translated.notes.push("`delay` shapes what a class gets after a pause".to_owned());
    translated.plan.build().map(drop).map_err(|error| error.to_string())
}

/// The classes that a promise is about.
fn classes_of(promise: &Promise) -> impl Iterator<Item = ClassId> {
    let class = |measure: &Measure<ClassId>| match measure {
        Measure::Class(class, _) => Some(*class),
        Measure::Fairness | Measure::Behind(_) => None,
    };
    let of_goal = match &promise.promised.goal {
        Goal::Value(_) => None,
        Goal::Part(_, measure) => class(measure),
    };
    class(&promise.promised.measure).into_iter().chain(of_goal)
}

/// Returns whether a policy has the plan, and all else as the original.
fn is_same(new: &Policy, plan: &LinkPlan, original: &Policy) -> bool {
    sorted(&new.link) == sorted(plan)
        && new.rules == original.rules
        && new.search == original.search
        && new.default == original.default
        && new.interfaces == original.interfaces
}

/// The plan with the parameters of each class in the order of their names.
fn sorted(plan: &LinkPlan) -> LinkPlan {
    let spec = |(_, class): (ClassId, &ClassSpec)| {
        let mut rows: Vec<_> = class.params.iter().copied().collect();
        rows.sort_by_key(|row| row.0);
        let mut params = Params::new();
        rows.into_iter().for_each(|(name, value)| params.set(name, value));
        ClassSpec { params, ..class.clone() }
    };
    let tree = &plan.tree;
    let classes = tree.classes().map(spec).collect();
    let tree = Tree::new(tree.rate(), tree.mtu(), tree.params().clone(), classes);
    LinkPlan { tree: tree.expect("it was a tree before"), ..plan.clone() }
}
