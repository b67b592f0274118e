//! A policy: one link, its tree of classes, the rules that lead to them, and promises.
//!
//! Rules are tried in the order of the file, class after class and in a class from first to last,
//! unless `match_order` names another.
//! Invariant: a [`Policy`] builds. Its scheduler and its droppers were built once to be sure.

mod class;
mod classifier;
mod link;
mod police;
mod rules;
mod tree;
mod values;

use crate::codes;
use crate::finding::{Draft, Outcome, Report};
use crate::reader::{self, Table};
use class::ClassDraft;
use link::LinkSection;
use tree::Shape;
use weir_core::classify::{Classifier, ClassifierPlan, Rule};
use weir_core::ids::{ClassId, LeafId};
use weir_core::link::LinkPlan;

/// A checked policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// What the link is built from.
    pub link: LinkPlan,
    /// The rules in the order of the file.
    pub rules: Vec<Rule>,
    /// How they are searched.
    pub search: ClassifierPlan,
    /// Where packets go that no rule matches.
    pub default: LeafId,
    /// The names of interfaces: `InterfaceId(n)` in a rule is the nth of them.
    pub interfaces: Vec<String>,
    /// What the policy promises.
    pub promises: Vec<Promise>,
}

/// A promise, as written; `weir check` keeps it and does not prove it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// What is to hold, such as `voice.delay.p99 < 10 ms`.
    pub that: String,
    /// The scenario in which it is to hold.
    pub under: String,
}

/// Checks the policy `text` of the file `name`. Interfaces are numbered as rules first name them.
pub fn parse(text: &str, name: &str) -> Outcome<Policy> {
    parse_bytes(text.as_bytes(), name, None)
}

/// As [`parse`], for bytes that may be no text. With `ports`, rules may name only these, and
/// `InterfaceId(n)` is the nth.
pub fn parse_bytes(bytes: &[u8], name: &str, ports: Option<&[String]>) -> Outcome<Policy> {
    reader::read(name, bytes, |top, report| build(top, report, ports))
}

impl Policy {
    /// A classifier of its rules.
    pub fn classifier(&self) -> Classifier {
        let classifier = Classifier::build(self.rules.clone(), self.default, &self.search);
        classifier.expect("the keyword came from the registry")
    }

    /// The name of a leaf's class.
    pub fn leaf_name(&self, leaf: LeafId) -> &str {
        &self.link.tree.class(self.link.tree.class_of(leaf)).name
    }

    /// The leaf of this name.
    pub fn leaf(&self, name: &str) -> Option<LeafId> {
        self.link.tree.leaf_of(self.class(name)?)
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.link.tree.classes().find(|(_, class)| class.name == name).map(|(id, _)| id)
    }
}

/// Reads the policy in the table `top`, which may lie inside another file; the caller finishes it.
pub fn build(top: &mut Table<'_>, report: &mut Report, ports: Option<&[String]>) -> Option<Policy> {
    let link = top.required("link", report).and_then(|node| node.table(report));
    let link = link.map(|table| LinkSection::read(table, report));
    let classes = class::read_all(top, link.as_ref().and_then(|link| link.scheduler), report);
    let promises = promises(top, report);
    let (link, mut classes) = (link?, classes?);
    let default = default_class(&classes, report);
    let shape = Shape::of(&mut classes, report);
    let mut police = police::Meters::of_classes(&classes, report);
    let order = link.classifier.order;
    let (rules, interfaces) = rules::read_all(&classes, (ports, order), &mut police, report);
    let search = link.classifier;
    let shape = shape?;
    tree::check_leaves(&classes, report);
    if let (Some(scheduler), Some(rate)) = (link.scheduler, link.rate) {
        shape.check_scheduler(&classes, scheduler, report);
        let rate = (rate, link.rate_span);
        tree::resolve_rates(&mut classes, &shape, rate, scheduler.descriptor, report);
    }
    link.check_sizes(&classes, report);
    if report.failed() {
        return None;
    }
    let mut link = tree::plan(link, &classes, &shape, report)?;
    police.give_to(&mut link);
    let default = link.tree.leaf_of(ClassId(default? as u32))?;
    Some(Policy { link, rules, search, default, interfaces, promises })
}

/// The index of the one default class.
fn default_class(classes: &[ClassDraft<'_>], report: &mut Report) -> Option<usize> {
    let mut defaults = classes.iter().enumerate().filter(|(_, class)| class.default.is_some());
    let Some((first, class)) = defaults.next() else {
        let end = report.source().text().len();
        let message = "no class takes what no rule matches";
        report.push(
            Draft::new(&codes::NO_DEFAULT, (end..end).into(), message)
                .cure("write `default = true` in one leaf class"),
        );
        return None;
    };
    for (_, other) in defaults {
        let message = format!("`{}` and `{}` are both the default", class.name, other.name);
        report.push(
            Draft::new(&codes::TWO_DEFAULTS, other.default.unwrap_or(other.span), message)
                .related(class.default.unwrap_or(class.span), "the first one")
                .cure("keep `default = true` in one of them"),
        );
    }
    Some(first)
}

fn promises(top: &mut Table<'_>, report: &mut Report) -> Vec<Promise> {
    let Some(node) = top.field("promise") else { return Vec::new() };
    let elements = node.elements(report).unwrap_or_default();
    let promises: Vec<_> = elements
        .iter()
        .filter_map(|element| {
            let mut table = element.table(report)?;
            let that = table.required("that", report).and_then(|node| node.name(report));
            let under = table.required("under", report).and_then(|node| node.name(report));
            table.finish(report);
            Some(Promise { that: that?.to_owned(), under: under?.to_owned() })
        })
        .collect();
    if !promises.is_empty() {
        let message = "promises are kept with the policy; checking it does not prove them";
        let cure = "simulate the scenario that a promise names and compare";
        report.push(Draft::new(&codes::PROMISE_UNPROVED, node.key_span(), message).cure(cure));
    }
    promises
}
