//! A policy: one link, its tree of classes, the rules that lead to them, templates, and promises.
//!
//! Rules are tried in the order of the file, class after class and in a class from first to last,
//! unless `match_order` names another order. Invariant: a [`Policy`] builds, since its scheduler
//! and its droppers were built once as a check.

pub(crate) mod class;
mod classifier;
pub(crate) mod demand;
mod identity;
mod join;
mod joining;
pub(crate) mod link;
pub(crate) mod places;
mod police;
pub(crate) mod promise;
mod rules;
mod template;
mod tree;
mod values;
mod written;

use crate::codes;
use crate::file::{self, ReadFile};
use crate::finding::{Draft, Fix, Outcome, Report};
use crate::lints;
use crate::reader::{Document, Table};
use class::ClassDraft;
use joining::Joining;
use link::LinkSection;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tree::Shape;
use weir_core::classify::{Classifier, ClassifierPlan, Rule, RuleSet, Target};
use weir_core::ids::{ClassId, LeafId};
use weir_core::link::LinkPlan;

pub use demand::{Arrival, Demand};
pub use identity::Identity;
pub use join::{JoinRequest, Seating};
pub use places::{PLACES_MAX, Places};
pub use promise::read as read_promise;
pub use promise::{Behind, Comparison, Goal, Measure, Metric, Promise, Promised};
pub use template::{CIRCUIT_PREFIX, CircuitRow, CircuitTemplate, circuit_class};

/// A policy without errors, ready to be run.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The plan of the link.
    pub link: LinkPlan,
    /// The rules in the order in which they are tried; those of [`Policy::joined`] come behind
    /// them.
    pub rules: Vec<Rule>,
    /// How rules are searched.
    pub search: ClassifierPlan,
    /// The target of packets that no rule matches.
    pub default: Target,
    /// The names of interfaces: `InterfaceId(n)` in a rule is the nth of them.
    pub interfaces: Vec<String>,
    /// The delay that each leaf wants, and the arrivals that it declares.
    pub demands: Vec<Demand>,
    /// Conditions on the results of runs.
    pub promises: Vec<Promise>,
    /// The templates of circuits, which come and go while a link runs.
    pub circuits: Vec<CircuitTemplate>,
    /// The places for classes that join while a link runs.
    pub places: Vec<Places>,
    /// The first leaf of a class at a place; leaves before it belong to the other classes.
    pub first_place: LeafId,
    /// Of each class at a place, in the order of leaves: where its places are in `places`, and its
    /// number among them.
    pub seats: Vec<(usize, u32)>,
    /// Has a leaf for each place: see [`Policy::with_places`].
    is_expanded: bool,
    /// After [`Policy::with_places`], the rules of classes at places.
    pub joined: BTreeMap<LeafId, Arc<RuleSet>>,
    /// The facts against which joining classes are checked; collected when the first one joins.
    joining: OnceLock<Arc<Joining>>,
    /// Identifies this policy: computed from the text of its file and its lists.
    pub identity: Identity,
}

/// Checks the policy `text` of the file `name`; lists of its templates are not read. Interfaces are
/// numbered in the order in which rules name them.
pub fn parse(text: &str, name: &str) -> Outcome<Policy> {
    parse_bytes(text.as_bytes(), name, None, &file::none)
}

/// As [`parse`], for bytes that may not be text. With `ports`, rules may name only these, and
/// `InterfaceId(n)` is the nth. `read_file` reads the lists of templates.
pub fn parse_bytes(
    bytes: &[u8],
    name: &str,
    ports: Option<&[String]>,
    read_file: ReadFile<'_>,
) -> Outcome<Policy> {
    of_document(&Document::new(name, bytes), ports, read_file)
}

/// As [`parse_bytes`], for a file that was already parsed.
pub fn of_document(
    document: &Document<'_>,
    ports: Option<&[String]>,
    read_file: ReadFile<'_>,
) -> Outcome<Policy> {
    document.read(|top, report| build(top, report, ports, read_file))
}

impl PartialEq for Policy {
    /// Policies are equal if they do the same, however they are written.
    fn eq(&self, other: &Self) -> bool {
        let Self {
            link,
            rules,
            search,
            default,
            interfaces,
            demands,
            promises,
            circuits,
            places,
            first_place: _,
            seats: _,
            is_expanded: _,
            joined,
            joining: _,
            identity: _,
        } = self;
        let same_rules = (rules, search, default) == (&other.rules, &other.search, &other.default);
        let same_link = (link, interfaces) == (&other.link, &other.interfaces);
        let same_places = (places, joined) == (&other.places, &other.joined);
        let same_circuits = *circuits == other.circuits;
        let same_demands = (demands, promises) == (&other.demands, &other.promises);
        same_rules && same_link && same_places && same_demands && same_circuits
    }
}

impl Policy {
    /// Builds a classifier of its rules.
    pub fn classifier(&self) -> Classifier {
        let classifier = Classifier::build(self.rules.clone(), self.default, &self.search);
        let mut classifier = classifier.expect("the keyword came from the registry");
        if self.has_places() {
            classifier.reserve(self.first_place, self.place_count());
        }
        for (&leaf, set) in &self.joined {
            classifier.join(leaf, Arc::clone(set));
        }
        classifier
    }

    /// Returns the name of a leaf's class.
    pub fn leaf_name(&self, leaf: LeafId) -> &str {
        &self.link.tree.class(self.link.tree.class_of(leaf)).name
    }

    /// Returns the leaf of this name.
    pub fn leaf(&self, name: &str) -> Option<LeafId> {
        self.link.tree.leaf_of(self.class(name)?)
    }

    /// Returns the class of this name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.link.tree.classes().find(|(_, class)| class.name == name).map(|(id, _)| id)
    }
}

/// Reads the policy in the table `top`, which may be inside another file; the caller finishes it.
/// `read_file` reads the lists of templates.
pub fn build(
    top: &mut Table<'_>,
    report: &mut Report,
    ports: Option<&[String]>,
    read_file: ReadFile<'_>,
) -> Option<Policy> {
    let link = top.required("link", report).and_then(|node| node.table(report));
    let link = link.map(|table| LinkSection::read(table, report));
    let promises = promise::read_all(top, report);
    let (written, span) = class::nodes(top, report);
    let templates = template::Section::read(top, report);
    let identity = RefCell::new(Identity::of(report.source().text().as_bytes()));
    let read_file = |path: &Path| {
        let bytes = read_file(path)?;
        identity.borrow_mut().add(&bytes);
        Ok(bytes)
    };
    let files = templates.files(&read_file, report);
    let made = templates.expand(&files, &written, report)?;
    let nodes: Vec<_> = written.into_iter().chain(made.classes()).collect();
    class::check_any(&nodes, span, report);
    let basis = link.as_ref().map(LinkSection::basis).unwrap_or_default();
    let classes = class::read_all(nodes, basis, report);
    let (link, mut classes) = (link?, classes?);
    places::take_seats(&link, &mut classes, report);
    check_default(&classes, report);
    let shape = Shape::of(&mut classes, report);
    places::check(&link, &classes, report);
    let mut police = police::Meters::of_classes(&classes, link.rate, report);
    let order = link.classifier.order;
    let (rules, interfaces) = rules::read_all(&classes, (ports, order), &mut police, report);
    let search = link.classifier;
    let shape = shape?;
    tree::check_leaves(&classes, report);
    if let (Some(scheduler), Some(rate)) = (link.scheduler, link.rate) {
        shape.check_scheduler(&classes, scheduler, report);
        let rate = tree::WrittenRate::of(rate, link.rate_span, &link.written.params);
        tree::resolve_rates(&mut classes, &shape, rate, scheduler.descriptor, report);
    }
    link.check_sizes(&classes, report);
    if report.failed() {
        return None;
    }
    let mut plan = tree::plan(&link, &classes, &shape, report)?;
    police.give_to(&mut plan);
    lints::check(&lints::Subject::new(&link, &classes, &plan, (&rules, &search)), report);
    let (places, seats) = places::plan(&link, &classes, &plan);
    let policy = Policy {
        demands: class::demands(&classes),
        promises: promise::resolve(promises, &plan.tree, report),
        circuits: templates.circuits(),
        first_place: LeafId((plan.tree.leaf_count() - seats.len()) as u32),
        link: plan,
        rules,
        search,
        default: default_target(&classes)?,
        interfaces,
        places,
        seats,
        is_expanded: false,
        joined: BTreeMap::new(),
        joining: OnceLock::new(),
        identity: identity.into_inner(),
    };
    let span = places::drafts(&link, &classes).next().map_or(link.span, |(_, draft)| draft.span);
    places::has_room(&policy, span, report).then_some(policy)
}

fn default_target(classes: &[ClassDraft<'_>]) -> Option<Target> {
    let (leaf, class) = class::leaves(classes).find(|(_, class)| class.default.is_some())?;
    let flow = class.queue.flow_key();
    Some(Target { leaf, meter: None, spread: class.spread, flow })
}

/// Reports a missing default class, or more than one.
fn check_default(classes: &[ClassDraft<'_>], report: &mut Report) {
    let mut defaults = classes.iter().filter(|class| class.default.is_some());
    let Some(class) = defaults.next() else {
        let end = report.source().text().len();
        let message = "packets that match no rule have no class";
        report.push(
            Draft::new(&codes::NO_DEFAULT, (end..end).into(), message)
                .cure("write `default = true` in one leaf class"),
        );
        return;
    };
    for other in defaults {
        let message = format!("`{}` and `{}` are both the default", class.name, other.name);
        report.push(
            Draft::new(&codes::TWO_DEFAULTS, other.default.unwrap_or(other.span), message)
                .related(class.default.unwrap_or(class.span), "the first one")
                .cure("keep `default = true` in one of them")
                .fix(
                    [class.name, other.name].map(|name| Fix::set(&["class", name, "default"], "")),
                ),
        );
    }
}
