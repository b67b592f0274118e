//! Classes that join a policy while its link runs, are retuned there, or leave it, one by one.
//!
//! [`Policy::seat`] checks them as reading a policy does, without the other classes' text, and says
//! where each goes; [`Policy::follow`] makes the policy the one that it leads to. Invariant: the
//! policy that follows equals the one read from its text with the tables of these classes, in any
//! order, at the places that [`Seated::text`] names.

use super::class::{self, ClassDraft};
use super::demand::Demand;
use super::joining::{Joining, Promised, owner_of, rate};
use super::link::check_class;
use super::places;
use super::tree::{WrittenRate, overcommitted, share_of_nothing};
use super::values::{Basis, Written};
use super::written::text_of_class;
use super::{Policy, rules};
use crate::codes;
use crate::finding::{Draft, Outcome, Report, Span};
use crate::reader::{Document, Node};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use toml_edit::{DocumentMut, Table};
use weir_core::classify::{Match, Prefix, Rule, RuleSet};
use weir_core::ids::{ClassId, LeafId};
use weir_core::link::Graft;
use weir_core::parameter::{Params, Scope, Value};
use weir_core::queue::{AnyDropper, Place, QueuePlan};
use weir_core::sched::{self, Descriptor};
use weir_core::units::{Quantity, Rate};

/// A change of the classes at places of a running link.
#[derive(Clone, Copy, Debug)]
pub struct JoinRequest<'w> {
    /// Classes at places that leave.
    pub remove: &'w [String],
    /// Tables `[class.NAME]` of classes that join; one at a place already is retuned.
    pub tables: &'w str,
    /// The name of `tables` in findings.
    pub name: &'w str,
}

/// The change of one class at a place.
#[derive(Clone, Debug)]
pub struct Seating {
    /// The name of the class.
    pub name: String,
    /// The leaf of its place.
    pub leaf: LeafId,
    /// The class that it is from now on; `None` if it leaves.
    pub class: Option<Seated>,
    /// The class was at the place before, and is retuned or leaves.
    pub was_there: bool,
}

/// A class at a place.
#[derive(Clone, Debug)]
pub struct Seated {
    /// The scheduler's parameters of the class.
    pub params: Params,
    /// The limit and the dropper of its leaf.
    pub queue: QueuePlan,
    /// The delay that it wants, and the arrivals that it declares.
    pub demand: Demand,
    /// The rules by which packets reach it.
    pub rules: Arc<RuleSet>,
    /// Its table of TOML, with its place.
    pub text: String,
}

impl Seating {
    /// Returns what is done to the plan of `policy` and its link, in this order; packets of a class
    /// that leaves go to the default class.
    pub fn grafts(&self, policy: &Policy) -> Vec<Graft> {
        let (leaf, heir) = (self.leaf, policy.default.leaf);
        match &self.class {
            Some(Seated { params, queue, .. }) => {
                let (params, queue) = (params.clone(), queue.clone());
                let name = self.name.clone();
                vec![match self.was_there {
                    true => Graft::Retune { leaf, params, queue },
                    false => Graft::Take { leaf, name, params, queue },
                }]
            }
            None => {
                let (params, queue) = policy.of_vacant(leaf);
                vec![Graft::Remove { leaf, heir }, Graft::Reset { leaf, params, queue }]
            }
        }
    }

    /// Returns the rules that it has from now on; `None` if it leaves.
    pub fn rules(&self) -> Option<Arc<RuleSet>> {
        Some(Arc::clone(&self.class.as_ref()?.rules))
    }
}

impl Policy {
    /// Checks a request for a policy with all its places, and returns the change of each class. The
    /// plan of the outcome is empty where the request is.
    pub fn seat(&self, request: &JoinRequest<'_>) -> Outcome<Vec<Seating>> {
        self.seat_with(request, texts(request.tables))
    }

    /// As [`Policy::seat`]; the texts of the classes are not kept, which take a third of the time.
    pub(crate) fn seat_without_text(&self, request: &JoinRequest<'_>) -> Outcome<Vec<Seating>> {
        self.seat_with(request, None)
    }

    fn seat_with(&self, request: &JoinRequest<'_>, texts: Option<Table>) -> Outcome<Vec<Seating>> {
        Document::new(request.name, request.tables.as_bytes()).read(|top, report| {
            let (taken, rows) = (BTreeSet::new(), Vec::new());
            let mut seating = Seats { policy: self, texts, taken, rows };
            seating.remove(request.remove, report);
            if !request.tables.trim().is_empty() {
                let (nodes, span) = class::nodes(top, report);
                class::check_any(&nodes, span, report);
                for node in nodes {
                    seating.add(&node, report);
                }
            }
            seating.check_sums(report);
            (!report.failed()).then_some(seating.rows)
        })
    }

    /// Becomes the policy in which that was done.
    pub fn follow(&mut self, seating: &Seating) {
        let leaf = seating.leaf;
        let mut joining = self.joining.take();
        if !self.link.tree.is_vacant(leaf)
            && let Some(joining) = &mut joining
        {
            let rules = self.rules_of(leaf);
            Arc::make_mut(joining).leave(&self.link.tree, leaf, rules);
        }
        self.put(seating);
        if let Some(mut joining) = joining {
            if seating.class.is_some() {
                let rules = self.rules_of(leaf);
                Arc::make_mut(&mut joining).join(&self.link.tree, leaf, rules);
            }
            self.joining = OnceLock::from(joining);
        }
    }

    fn put(&mut self, seating: &Seating) {
        let leaf = seating.leaf;
        match &seating.class {
            Some(class) => {
                let Seated { params, queue, demand, rules, .. } = class.clone();
                self.link.replace_leaf(leaf, seating.name.clone(), params, queue);
                self.demands[leaf.index()] = demand;
                if rules.rules().is_empty() {
                    self.joined.remove(&leaf);
                } else {
                    self.joined.insert(leaf, rules);
                }
            }
            None => {
                let (params, queue) = self.of_vacant(leaf);
                self.link.replace_leaf(leaf, String::new(), params, queue);
                self.demands[leaf.index()] = Demand::default();
                self.joined.remove(&leaf);
            }
        }
    }

    /// Returns the policy, which has all its places, without the classes at them.
    pub(crate) fn vacated(mut self) -> Self {
        self.joining = OnceLock::new();
        let count: u32 = self.places.iter().map(|places| places.count).sum();
        for leaf in (self.first_place.0..self.first_place.0 + count).map(LeafId) {
            if !self.link.tree.is_vacant(leaf) {
                self.put(&Seating { name: String::new(), leaf, class: None, was_there: true });
            }
        }
        self
    }

    /// Returns what the leaf of a place is now, to become it again; its text is not kept.
    pub fn seating(&self, leaf: LeafId) -> Seating {
        let is_vacant = self.link.tree.is_vacant(leaf);
        let spec = self.link.tree.leaf(leaf);
        let class = (!is_vacant).then(|| Seated {
            params: spec.params.clone(),
            queue: self.link.queues[leaf.index()].clone(),
            demand: self.demands[leaf.index()],
            rules: self.joined.get(&leaf).cloned().unwrap_or_default(),
            text: String::new(),
        });
        Seating { name: spec.name.clone(), leaf, class, was_there: !is_vacant }
    }

    /// Returns the rules of a place.
    pub(super) fn rules_of(&self, leaf: LeafId) -> &[Rule] {
        self.joined.get(&leaf).map_or(&[], |set| set.rules())
    }

    /// Returns the class at a place of this name.
    fn seated(&self, name: &str) -> Option<LeafId> {
        self.joining().leaf(name).filter(|_| self.has_places())
    }

    /// Returns what classes that join are checked against.
    fn joining(&self) -> &Joining {
        self.joining.get_or_init(|| Arc::new(Joining::of(self)))
    }

    /// Returns the class of this name, of the file or at a place.
    fn known(&self, name: &str) -> Option<ClassId> {
        self.joining().class(&self.link.tree, name)
    }

    /// Returns the parameters and the queue with which the place of a leaf is built.
    fn of_vacant(&self, leaf: LeafId) -> (Params, QueuePlan) {
        let mut behind = leaf.0 - self.first_place.0;
        let owner = self.places.iter().find(|places| {
            let is_here = behind < places.count;
            behind = behind.saturating_sub(places.count);
            is_here
        });
        let owner = owner.expect("the leaf is a place");
        (places::vacant_params(owner, &self.link), owner.queue.clone())
    }
}

/// The changes of a request, while it is read.
struct Seats<'p> {
    policy: &'p Policy,
    /// The tables of the classes as they are written, if they are to be kept.
    texts: Option<Table>,
    /// The leaves that something is done to.
    taken: BTreeSet<LeafId>,
    rows: Vec<Seating>,
}

impl Seats<'_> {
    fn remove(&mut self, names: &[String], report: &mut Report) {
        for name in names {
            let Some(leaf) = self.policy.seated(name) else {
                let message = format!("there is no class `{name}` at a place");
                let cure = "name one that was added; a class of the file goes by `weir reload`";
                report.push(Draft::new(&codes::NO_PLACE, Default::default(), message).cure(cure));
                continue;
            };
            if self.taken.insert(leaf) {
                let name = name.clone();
                self.rows.push(Seating { name, leaf, class: None, was_there: true });
            }
        }
    }

    fn add(&mut self, node: &Node<'_>, report: &mut Report) {
        let policy = self.policy;
        let tree = &policy.link.tree;
        let entry = sched::find(policy.link.scheduler).expect("the policy was read");
        let basis = Basis { descriptor: Some(entry.descriptor), rate: Some(tree.rate()) };
        let errors = report.errors();
        let Some(mut draft) = class::read(node, basis, report) else { return };
        let Some((owner, leaf)) = self.place(&draft, report) else { return };
        let places = &policy.places[owner];
        let spans = Vec::new();
        places::inherit(
            &mut draft,
            &Written { params: places.params.clone(), spans },
            &places.queue,
        );
        places::check_class(&draft, report);
        self.check(&mut draft, (places.parent, leaf), entry.descriptor, report);
        let rules = rules::read_joining((&draft, leaf), &policy.interfaces, report);
        let rules = self.check_rules(&draft, rules, report);
        let Some(rules) = rules.filter(|_| report.errors() <= errors) else { return };
        let first = policy.leaf_of_seat((owner, 0));
        let place = leaf.0 - first.0;
        let texts = self.texts.as_mut();
        let text = texts.map_or_else(String::new, |texts| text_of(texts, draft.name, place));
        self.taken.insert(leaf);
        let was_there = !tree.is_vacant(leaf);
        let (params, queue, demand) = (draft.written.params, draft.queue, draft.demand.demand);
        let class = Some(Seated { params, queue, demand, rules, text });
        self.rows.push(Seating { name: draft.name.to_owned(), leaf, class, was_there });
    }

    /// Returns which places a class is to have one of, and the leaf of that one.
    fn place(&self, draft: &ClassDraft<'_>, report: &mut Report) -> Option<(usize, LeafId)> {
        let policy = self.policy;
        let parent = match &draft.parent {
            None => None,
            Some(node) => Some(node.text(report)?),
        };
        let id = parent.and_then(|name| policy.known(name));
        let is_owner =
            |places: &super::Places| places.parent == id && parent.is_some() == id.is_some();
        let refuse = |message: String, cure: &str| {
            Some(Draft::new(&codes::NO_PLACE, draft.span, message).cure(cure))
        };
        let name = draft.name;
        let Some(owner) = policy.places.iter().position(is_owner) else {
            let owner = parent.map_or("the link".to_owned(), |name| format!("class `{name}`"));
            let message = format!("class `{name}` finds no place: {owner} has none");
            let cure = "write `places` there and use `weir reload`, or name a parent that has some";
            report.push(refuse(message, cure)?);
            return None;
        };
        let places = &policy.places[owner];
        let first = policy.leaf_of_seat((owner, 0));
        let here = |leaf: &LeafId| (first.0..first.0 + places.count).contains(&leaf.0);
        let is_free = |leaf: &LeafId| !self.taken.contains(leaf);
        if let Some(known) = policy.known(name) {
            let own = policy.link.tree.leaf_of(known).filter(here).filter(is_free);
            let wanted = draft.place.is_none_or(|(place, _)| Some(LeafId(first.0 + place)) == own);
            if own.is_none() || !wanted {
                let message = format!("the link has a class `{name}` already");
                let cure =
                    "give it another name, or remove the other one first, by another request";
                report.push(refuse(message, cure)?);
            }
            return own.filter(|_| wanted).map(|leaf| (owner, leaf));
        }
        let mut vacant = policy.link.tree.vacancies(id);
        let found = match draft.place {
            Some((place, _)) => {
                let leaf = LeafId(first.0.saturating_add(place));
                Some(leaf).filter(|leaf| here(leaf) && policy.link.tree.is_vacant(*leaf))
            }
            None => vacant.find(is_free),
        };
        if found.filter(is_free).is_none() {
            let message = format!("class `{name}` finds no place: {} are taken", places.count);
            let cure = "remove another class, or write more `places` and use `weir reload`";
            report.push(refuse(message, cure)?);
        }
        found.filter(is_free).map(|leaf| (owner, leaf))
    }

    /// Checks a class by itself.
    fn check(
        &self,
        draft: &mut ClassDraft<'_>,
        (parent, leaf): (Option<ClassId>, LeafId),
        descriptor: &Descriptor,
        report: &mut Report,
    ) {
        let LinkPlanFacts { rate, mtu, seed } = self.facts();
        if let Some((share, span)) = draft.share {
            draft.written.spans.push(("rate", span));
            let above = match parent {
                Some(parent) => self.policy.link.tree.class(parent).params.rate("rate"),
                None => Some(rate),
            };
            match above.zip(share) {
                Some((above, share)) => {
                    let own = Value::Quantity(Quantity::Rate(above.part(share)));
                    draft.written.params.set("rate", own);
                }
                None if above.is_none() => report.push(share_of_nothing(draft, span)),
                None => {}
            }
        }
        let here = |scope| scope == Scope::Class || scope == Scope::Leaf;
        let rows = descriptor.parameters.iter().filter(|row| here(row.scope));
        draft.written.check_required(&format!("class `{}`", draft.name), draft.span, rows, report);
        check_class(draft, mtu, report);
        let place = Place { leaf, rate, mtu, seed };
        let span = draft.queue_parameter_span(None);
        if let Err(error) = AnyDropper::build(&draft.queue, place) {
            let message = format!("class `{}`: {}", draft.name, error.message);
            report.push(Draft::new(&codes::REFUSED, span, message));
        }
        if draft.queue.shares_limit() {
            let message = format!("class `{}` shares its limit and cannot join", draft.name);
            let cure = "write a queue with a limit of its own";
            report.push(Draft::new(&codes::NO_PLACE, span, message).cure(cure));
        }
    }

    fn facts(&self) -> LinkPlanFacts {
        let link = &self.policy.link;
        LinkPlanFacts { rate: link.tree.rate(), mtu: link.tree.mtu(), seed: link.seed }
    }

    /// Reports rules that decide nothing, or too many; returns them if they are not.
    fn check_rules(
        &self,
        draft: &ClassDraft<'_>,
        rules: Vec<Rule>,
        report: &mut Report,
    ) -> Option<Arc<RuleSet>> {
        let span = draft.match_span.unwrap_or(draft.span);
        let set = match RuleSet::new(rules) {
            Ok(set) => set,
            Err(why) => {
                let (message, cure) = why.rsplit_once("; ").unwrap_or((&why, ""));
                report.push(Draft::new(&codes::TOO_MANY, span, message).cure(cure));
                return None;
            }
        };
        if set.rules().is_empty() {
            let message = format!("class `{}` has no `match`: no packet reaches it", draft.name);
            report.push(Draft::new(&codes::UNREACHABLE, span, message).cure("write `match`"));
        }
        for rule in set.rules() {
            let Some((what, other)) = self.hidden(rule) else { continue };
            let message = format!(
                "{what} of class `{}` decides nothing: one of `{}` takes all its packets",
                draft.name,
                self.policy.leaf_name(other)
            );
            let cure = "write other conditions";
            report.push(Draft::new(&codes::SHADOWED, span, message).cure(cure));
        }
        Some(set)
    }

    /// Returns the leaf whose rule takes all packets of this one, or of one of its prefixes.
    fn hidden(&self, rule: &Rule) -> Option<(String, LeafId)> {
        let cover = |rule: &Rule| self.policy.joining().cover(self.policy, rule);
        if let Some(other) = cover(rule) {
            return Some(("a rule".to_owned(), other));
        }
        let own = &rule.matches;
        let part = |prefix: &Prefix, matches: Match| {
            let other = cover(&Rule { matches, ..rule.clone() })?;
            Some((format!("`{prefix}` in a rule"), other))
        };
        let several = |list: &'_ [Prefix]| if list.len() > 1 { list.to_vec() } else { Vec::new() };
        let (sources, destinations) = (several(&own.sources), several(&own.destinations));
        let mut from = sources
            .iter()
            .filter_map(|prefix| part(prefix, Match { sources: vec![*prefix], ..own.clone() }));
        let mut to = destinations.iter().filter_map(|prefix| {
            part(prefix, Match { destinations: vec![*prefix], ..own.clone() })
        });
        from.next().or_else(|| to.next())
    }

    /// Reports parents that have less rate than their children are promised from now on.
    fn check_sums(&self, report: &mut Report) {
        let tree = &self.policy.link.tree;
        let entry = sched::find(self.policy.link.scheduler).expect("the policy was read");
        if !class::has_rate(entry.descriptor) {
            return;
        }
        let below = |row: &&Seating| owner_of(tree, tree.leaf(row.leaf).parent);
        let added = self.rows.iter().filter(|row| row.class.is_some());
        let owners: BTreeSet<_> = added.map(|row| below(&row)).collect();
        for owner in owners {
            let mut promised = self.policy.joining().promised(owner);
            for row in self.rows.iter().filter(|row| below(row) == owner) {
                let before = Some(tree.leaf(row.leaf)).filter(|_| row.was_there);
                if let Some(rate) = before.and_then(|class| rate(&class.params)) {
                    promised = promised.without(rate);
                }
                if let Some(rate) = row.class.as_ref().and_then(|class| rate(&class.params)) {
                    promised = promised.with(rate);
                }
            }
            let Promised { rate: sum, count } = promised;
            let (name, has, params) = match owner {
                Some(owner) => {
                    let class = tree.class(owner);
                    (Some(class.name.as_str()), class.params.rate("rate"), &class.params)
                }
                None => (None, Some(tree.rate()), tree.params()),
            };
            let Some(has) = has.filter(|has| sum > u128::from(has.bits_per_second())) else {
                continue;
            };
            let has = WrittenRate::of(has, Span::default(), params);
            report.push(overcommitted(name, has, sum, count, false));
        }
    }
}

/// The properties of a link with which its queues are built.
struct LinkPlanFacts {
    rate: Rate,
    mtu: weir_core::units::Bytes,
    seed: u64,
}

/// Returns the tables of the classes, to be written with their places.
fn texts(tables: &str) -> Option<Table> {
    let mut document: DocumentMut = tables.parse().ok()?;
    document.remove("class")?.into_table().ok()
}

/// Returns the table of a class with its place.
fn text_of(texts: &mut Table, name: &str, place: u32) -> String {
    let written = texts.remove(name);
    let mut own = written.and_then(|item| item.into_table().ok()).unwrap_or_default();
    own.insert("place", toml_edit::value(i64::from(place)));
    text_of_class(name, own)
}
