//! Places: leaves that no class has yet, so that classes can join a link while it runs.
//!
//! `places = 1000` in a class, or in `[link]`, reserves them; `places = { count = 1000, ... }` says
//! with which parameters, and with which queue, they are built: those that a class at a place has
//! unless it writes others. A class has a place where it writes `place = N`: its leaf then has the
//! number of the place, wherever in the file the class is, and its rules are tried behind those of
//! all other classes, in the order of places.
//!
//! A policy as it is read has only the places that classes have, so that checks, simulations and
//! exports see what there is; [`Policy::with_places`] is the policy that a link runs, with all.
//! Invariant: classes at places have the last leaves, in the order of places.

use super::Policy;
use super::class::{CLASSES_MAX, ClassDraft, QueueDraft};
use super::link::LinkSection;
use super::values::{Basis, Written};
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::reader::Node;
use std::collections::BTreeMap;
use weir_core::classify::{Classifier, MatchOrder, Rule, RuleSet};
use weir_core::ids::{ClassId, LeafId};
use weir_core::link::LinkPlan;
use weir_core::parameter::{Kind, Params, Scope, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{self, ClassSpec, Tree};
use weir_core::units::{Dimension, Quantity, Rate};

/// Bound: places under one class, or under the link; a policy with more is refused.
pub const PLACES_MAX: u32 = 1 << 17;

/// Places under one class, or under the link.
#[derive(Clone, PartialEq, Debug)]
pub struct Places {
    /// The class; `None` for the link.
    pub parent: Option<ClassId>,
    /// The number of places, at most [`PLACES_MAX`].
    pub count: u32,
    /// The parameters that a class at one of them has unless it writes others.
    pub params: Params,
    /// The queue that it has unless it writes another.
    pub queue: QueuePlan,
}

/// `places` as written, before its class is known.
pub(crate) struct PlacesDraft {
    pub span: Span,
    pub count: u32,
    pub written: Written,
    pub queue: QueuePlan,
}

impl PlacesDraft {
    /// Reads a number, or `{ count, queue, parameters of a class }`.
    pub(super) fn read(
        node: &Node<'_>,
        Basis { descriptor, rate: link }: Basis,
        report: &mut Report,
    ) -> Option<Self> {
        let most = u64::from(PLACES_MAX);
        let draft = |count: u64| Self {
            span: node.span(),
            count: count as u32,
            written: Written::default(),
            queue: QueuePlan::default(),
        };
        if !node.is_table() {
            return node.number(1, most, report).map(draft);
        }
        let mut table = node.table(report)?.named("the places");
        let count = table.required("count", report)?.number(1, most, report)?;
        let mut places = draft(count);
        places.queue = QueueDraft::read(&mut table, link, report).plan;
        if let Some(descriptor) = descriptor {
            let scopes = [Scope::Class, Scope::Leaf];
            places.written =
                Written::read(&mut table, descriptor.parameters, &scopes, link, report);
            table.finish(report);
        }
        Some(places)
    }
}

/// Returns all places as written, those of the link first; each with the name of its class.
pub(crate) fn drafts<'d>(
    link: &'d LinkSection,
    classes: &'d [ClassDraft<'_>],
) -> impl Iterator<Item = (Option<&'d str>, &'d PlacesDraft)> {
    let own = link.places.iter().map(|draft| (None, draft));
    let below = classes.iter().filter_map(|class| Some((Some(class.name), class.places.as_ref()?)));
    own.chain(below)
}

/// Gives classes at places what their places say, and puts them behind all others, in the order of
/// places.
pub(super) fn take_seats(link: &LinkSection, classes: &mut [ClassDraft<'_>], report: &mut Report) {
    let owners: Vec<_> = drafts(link, classes)
        .map(|(name, draft)| {
            let Written { params, spans } = &draft.written;
            let written = Written { params: params.clone(), spans: spans.clone() };
            (name.map(str::to_owned), draft.count, written, draft.queue.clone())
        })
        .collect();
    let mut taken = BTreeMap::new();
    let mut ranks = BTreeMap::new();
    for class in classes.iter_mut() {
        let Some((number, span)) = class.place else { continue };
        let parent = class.parent.as_ref().and_then(|node| node.value().as_str());
        let owner = owners.iter().position(|row| row.0.as_deref() == parent);
        let count = owner.map_or(0, |owner| owners[owner].1);
        if number >= count {
            report.push(not_there(class, parent, (number, span, count)));
            continue;
        }
        let owner = owner.expect("it has places");
        if let Some(other) = taken.insert((owner, number), class.span) {
            let message = format!("class `{}` is at place {number}, which another has", class.name);
            let cure = "write another number, below the number of places";
            let draft = Draft::new(&codes::NO_PLACE, span, message).cure(cure);
            report.push(draft.related(other, "the other class"));
        }
        inherit(class, &owners[owner].2, &owners[owner].3);
        ranks.insert(class.name.to_owned(), (owner, number));
    }
    classes.sort_by_key(|class| ranks.get(class.name).copied().map_or((0, 0, 0), rank));
}

fn rank((owner, number): (usize, u32)) -> (u32, usize, u32) {
    (1, owner, number)
}

fn not_there(
    class: &ClassDraft<'_>,
    parent: Option<&str>,
    (number, span, count): (u32, Span, u32),
) -> Draft {
    let owner = parent.map_or("[link]".to_owned(), |parent| format!("class `{parent}`"));
    let message = match count {
        0 => format!("class `{}` is at place {number}, but {owner} has none", class.name),
        _ => format!("class `{}` is at place {number}, but {owner} has {count}", class.name),
    };
    let cure = format!("write `places = {}` in {owner}, or take `place` out", number + 1);
    Draft::new(&codes::NO_PLACE, span, message).cure(cure)
}

/// Gives a class the parameters and the queue of its place, where it has none written.
pub(super) fn inherit(class: &mut ClassDraft<'_>, written: &Written, queue: &QueuePlan) {
    for (name, value) in written.params.iter() {
        let is_shared = *name == "rate" && class.share.is_some();
        if class.written.span(name).is_none() && !is_shared {
            class.written.params.set(name, *value);
            class.written.spans.push((name, class.span));
        }
    }
    if class.queue_span.is_none() {
        class.queue = queue.clone();
    }
}

/// Checks places and the classes at them, once parents are known.
pub(super) fn check(link: &LinkSection, classes: &[ClassDraft<'_>], report: &mut Report) {
    let mut sum = classes.len();
    for (name, draft) in drafts(link, classes) {
        sum = sum.saturating_add(draft.count as usize);
        let is_own = |class: &&ClassDraft<'_>| {
            class.place.is_none()
                && class.above.map(|above| classes[above].name) == name
                && Some(class.name) != name
        };
        let refuse = |message: String, cure: &str| {
            Draft::new(&codes::NO_PLACE, draft.span, message).cure(cure)
        };
        let owner = name.map_or("the link".to_owned(), |name| format!("class `{name}`"));
        if !classes.iter().any(|class| is_own(&class)) {
            let message = format!("{owner} has places and no child in the file");
            report.push(refuse(message, "write a child class without `place`"));
        }
        if link.classifier.order != MatchOrder::First {
            let message = "rules of classes at places come behind all others".to_owned();
            report.push(refuse(message, "write `match_order = \"first\"` in [link]"));
        }
        if sum > CLASSES_MAX {
            let message = format!("classes and places are more than {CLASSES_MAX}");
            report.push(refuse(message, "write fewer places"));
        }
    }
    let has_places = drafts(link, classes).next().is_some();
    let shared = classes.iter().find(|class| !class.interior && class.queue.shares_limit());
    if let Some(class) = shared.filter(|_| has_places) {
        let message = format!("class `{}` shares its limit, so no class can join", class.name);
        let span = class.queue_span.unwrap_or(class.span);
        let cure = "write a queue with a limit of its own, or no `places`";
        report.push(Draft::new(&codes::NO_PLACE, span, message).cure(cure));
    }
    classes.iter().filter(|class| class.place.is_some()).for_each(|class| {
        check_class(class, report);
    });
}

/// Reports what a class at a place cannot have.
pub(super) fn check_class(class: &ClassDraft<'_>, report: &mut Report) {
    let police = class.police.as_ref().map(|node| node.key_span());
    let own = [
        ("default", class.default),
        ("police", police),
        ("set_dscp", class.set_dscp.map(|written| written.1)),
        ("queues", class.spread_span),
        ("places", class.places.as_ref().map(|draft| draft.span)),
        ("children", class.interior.then_some(class.span)),
    ];
    for (what, span) in own.into_iter().filter_map(|(what, span)| Some((what, span?))) {
        let message = format!("class `{}` is at a place and cannot have `{what}`", class.name);
        let cure = "write it in a class without `place`";
        report.push(Draft::new(&codes::NO_PLACE, span, message).cure(cure));
    }
}

/// Returns the places of a plan, and which of them its last leaves have. None where the scheduler
/// builds its classes together.
pub(super) fn plan(
    link: &LinkSection,
    classes: &[ClassDraft<'_>],
    plan: &LinkPlan,
) -> (Vec<Places>, Vec<(usize, u32)>) {
    if !sched::find(plan.scheduler).is_some_and(|entry| entry.refits) {
        return (Vec::new(), Vec::new());
    }
    let named = |name: &str| plan.tree.classes().find(|row| row.1.name == name).map(|row| row.0);
    let place = |(name, draft): (Option<&str>, &PlacesDraft)| Places {
        parent: name.and_then(named),
        count: draft.count,
        params: draft.written.params.clone(),
        queue: draft.queue.clone(),
    };
    let places: Vec<_> = drafts(link, classes).map(place).collect();
    let names: Vec<_> = drafts(link, classes).map(|row| row.0).collect();
    let seat = |class: &ClassDraft<'_>| {
        let parent = class.above.map(|above| classes[above].name);
        let owner = names.iter().position(|name| *name == parent)?;
        Some((owner, class.place?.0))
    };
    let seats = classes.iter().filter_map(seat).collect();
    (places, seats)
}

/// Returns whether the link can be built with all its places, and the rules of classes at places
/// have room; reports it if not.
pub(super) fn has_room(policy: &Policy, span: Span, report: &mut Report) -> bool {
    if policy.places.is_empty() {
        return true;
    }
    let built = policy.expanded().and_then(|all| all.build().map(drop).map_err(|e| e.message));
    if let Err(message) = built {
        let message = format!("the link cannot be built with its places: {message}");
        let cure = "write parameters in `places = { count = 10, ... }`, or fewer places";
        report.push(Draft::new(&codes::REFUSED, span, message).cure(cure));
        return false;
    }
    let mut classifier = Classifier::build(Vec::new(), policy.default, &policy.search)
        .expect("the keyword came from the registry");
    classifier.reserve(policy.first_place, policy.place_count());
    for (leaf, rules) in rules_by_leaf(&policy.rules, policy.first_place) {
        let set = RuleSet::new(rules).and_then(|set| classifier.fits(leaf, &set).map(|()| set));
        match set {
            Ok(set) => drop(classifier.join(leaf, set)),
            Err(why) => {
                let (message, cure) = why.rsplit_once("; ").unwrap_or((&why, ""));
                let message = format!("class `{}`: {message}", policy.leaf_name(leaf));
                report.push(Draft::new(&codes::TOO_MANY, span, message).cure(cure));
                return false;
            }
        }
    }
    true
}

/// Returns the rules of leaves from `first` on.
fn rules_by_leaf(rules: &[Rule], first: LeafId) -> BTreeMap<LeafId, Vec<Rule>> {
    let mut sets = BTreeMap::<_, Vec<_>>::new();
    for rule in rules.iter().filter(|rule| rule.leaf >= first) {
        sets.entry(rule.leaf).or_default().push(rule.clone());
    }
    sets
}

impl Policy {
    /// Returns the number of places.
    pub fn place_count(&self) -> usize {
        self.places.iter().map(|places| places.count as usize).sum()
    }

    /// Returns whether its link has leaves for all places.
    pub fn has_places(&self) -> bool {
        self.is_expanded
    }

    /// Returns the policy with a leaf for each place, as a link runs it.
    #[must_use]
    pub fn with_places(mut self) -> Self {
        if self.places.is_empty() || self.is_expanded {
            return self;
        }
        self.is_expanded = true;
        let link = self.expanded().expect("it was built when it was read");
        let first = self.first_place.index();
        let leaves: Vec<_> = self.seats.iter().map(|seat| self.leaf_of_seat(*seat)).collect();
        let mut demands = std::mem::take(&mut self.demands);
        let behind = demands.split_off(first);
        demands.resize_with(link.tree.leaf_count(), Default::default);
        for (leaf, demand) in leaves.iter().zip(behind) {
            demands[leaf.index()] = demand;
        }
        for (leaf, mut rules) in rules_by_leaf(&self.rules, self.first_place) {
            let leaf = leaves[leaf.index() - first];
            rules.iter_mut().for_each(|rule| rule.leaf = leaf);
            let set = RuleSet::new(rules).expect("its rules were checked");
            self.joined.insert(leaf, set);
        }
        self.rules.retain(|rule| rule.leaf.index() < first);
        (self.link, self.demands) = (link, demands);
        self
    }

    /// Returns the leaf of a place, in the policy with all places.
    pub(super) fn leaf_of_seat(&self, (owner, number): (usize, u32)) -> LeafId {
        let before: u32 = self.places[..owner].iter().map(|places| places.count).sum();
        LeafId(self.first_place.0 + before + number)
    }

    /// Returns the plan with a leaf for each place.
    fn expanded(&self) -> Result<LinkPlan, String> {
        let tree = &self.link.tree;
        let mut specs: Vec<ClassSpec> = tree.classes().map(|(_, spec)| spec.clone()).collect();
        let seated = specs.split_off(specs.len() - self.seats.len());
        let mut seated: BTreeMap<_, _> =
            self.seats.iter().zip(seated.into_iter().zip(0..)).collect();
        let (first, mut queues) = (self.first_place.index(), self.link.queues.clone());
        let own = queues.split_off(first);
        for (owner, places) in self.places.iter().enumerate() {
            let vacant = ClassSpec {
                name: String::new(),
                parent: places.parent,
                params: vacant_params(places, &self.link),
            };
            for number in 0..places.count {
                let (spec, queue) = match seated.remove(&(owner, number)) {
                    Some((spec, at)) => (spec, own[at].clone()),
                    None => (vacant.clone(), places.queue.clone()),
                };
                specs.push(spec);
                queues.push(queue);
            }
        }
        let (rate, mtu, params) = (tree.rate(), tree.mtu(), tree.params().clone());
        let tree = Tree::new(rate, mtu, params, specs).map_err(|error| error.to_string())?;
        let mut plan = LinkPlan { tree, queues, ..self.link.clone() };
        plan.leaf_meters.truncate(first);
        Ok(plan)
    }
}

/// Returns parameters with which a place can be built: those written, and where a rate must be, the
/// rate of the parent divided among the places.
pub(super) fn vacant_params(places: &Places, link: &LinkPlan) -> Params {
    let mut params = places.params.clone();
    let entry = sched::find(link.scheduler).expect("the keyword came from the registry");
    let above = places.parent.and_then(|parent| link.tree.class(parent).params.rate("rate"));
    let part = above.unwrap_or(link.tree.rate()).bits_per_second() / u64::from(places.count);
    let rate = Rate::new(part.max(1)).unwrap_or(Rate::MIN);
    let needed = entry.descriptor.parameters.iter().filter(|row| {
        let is_own = matches!(row.scope, Scope::Class | Scope::Leaf);
        let is_rate = row.kind == Kind::Quantity(Dimension::Rate);
        is_own && is_rate && row.default.is_none() && params.value(row.name).is_none()
    });
    let needed: Vec<_> = needed.map(|row| row.name).collect();
    for name in needed {
        params.set(name, Value::Quantity(Quantity::Rate(rate)));
    }
    params
}
