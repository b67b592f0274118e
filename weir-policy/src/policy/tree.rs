//! Builds the tree: parents, depth, keys of leaves, sums of rates; and the plan.

use super::class::{ClassDraft, OVERSUBSCRIBE, has_rate, leaves};
use super::link::LinkSection;
use crate::codes;
use crate::finding::{Draft, Fix, RELATED_MAX, Report, Span};
use crate::reader::{nearest, suggest};
use std::collections::BTreeMap;
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{BuildError, Params, Scope, Value};
use weir_core::queue::{AnyDropper, Place};
use weir_core::sched::{ClassSpec, DEPTH_MAX, Descriptor, Entry, Tree, TreeError};
use weir_core::units::{Quantity, Rate};

/// The parents and children of classes, each known by its index in the order of the file.
pub(super) struct Shape {
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    /// The classes, parents before their children.
    downward: Vec<usize>,
}

impl Shape {
    /// Resolves the parents. `None` if one is missing or classes form a loop: findings about such a
    /// tree would only mislead.
    pub(super) fn of(classes: &mut [ClassDraft<'_>], report: &mut Report) -> Option<Self> {
        let parents = parents(classes, report)?;
        let depths = depths(classes, &parents, report)?;
        let mut children = vec![Vec::new(); classes.len()];
        for (index, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                children[parent].push(index);
                classes[parent].interior = true;
                classes[index].above = Some(parent);
            }
        }
        let mut downward: Vec<_> = (0..classes.len()).collect();
        downward.sort_by_key(|&index| depths[index]);
        Some(Self { parents, children, downward })
    }

    /// Returns the classes directly under `parent`, or under the link.
    fn under(&self, parent: Option<usize>) -> Vec<usize> {
        match parent {
            Some(parent) => self.children[parent].clone(),
            None => (0..self.parents.len()).filter(|&at| self.parents[at].is_none()).collect(),
        }
    }

    /// Reports a hierarchy under a scheduler without one.
    pub(super) fn check_scheduler(
        &self,
        classes: &[ClassDraft<'_>],
        scheduler: &Entry,
        report: &mut Report,
    ) {
        if scheduler.descriptor.promises.hierarchical {
            return;
        }
        let keyword = scheduler.descriptor.keyword;
        let below = |class: &&ClassDraft<'_>| class.parent.is_some();
        let Some(class) = classes.iter().find(below) else { return };
        let span = class.parent.as_ref().map_or(class.span, |node| node.span());
        let message =
            format!("scheduler `{keyword}` has no hierarchy, but `{}` has a parent", class.name);
        let hierarchical: Vec<_> = weir_core::sched::SCHEDULERS
            .iter()
            .map(|entry| entry.descriptor)
            .filter(|descriptor| descriptor.promises.hierarchical)
            .map(|descriptor| descriptor.keyword)
            .collect();
        let cure = match hierarchical.as_slice() {
            [] => "take `parent` out".to_owned(),
            words => format!(
                "remove `parent`, or choose a scheduler with a hierarchy: {}",
                crate::reader::list(words)
            ),
        };
        report.push(Draft::new(&codes::NOT_HIERARCHICAL, span, message).cure(cure));
    }
}

/// Reports keys that a class with children cannot have, and leaves without rules.
pub(super) fn check_leaves(classes: &[ClassDraft<'_>], report: &mut Report) {
    for class in classes {
        if class.interior {
            check_interior(class, report);
        } else if class.matches.is_empty() && class.default.is_none() {
            let message = format!("no rule leads to class `{}`, so it stays empty", class.name);
            let cure = "write `match = [{ ... }]`, or remove the class";
            report.push(Draft::new(&codes::UNREACHABLE, class.span, message).cure(cure));
        }
    }
}

fn check_interior(class: &ClassDraft<'_>, report: &mut Report) {
    let police = class.police.as_ref().map(|node| node.key_span());
    let own = [
        ("queue", class.queue_span),
        ("police", police),
        ("set_dscp", class.set_dscp.map(|written| written.1)),
        ("match", class.match_span),
        ("default", class.default),
        ("queues", class.spread_span),
    ];
    let own = own.into_iter().filter_map(|(what, span)| Some((what, span?)));
    for (what, span) in own.chain(class.leaf_only.iter().copied()) {
        let message =
            format!("class `{}` has children and holds no packets, so no `{what}`", class.name);
        let cure = format!("write `{what}` in one of its children");
        report.push(Draft::new(&codes::INTERIOR, span, message).cure(cure));
    }
}

fn parents(classes: &[ClassDraft<'_>], report: &mut Report) -> Option<Vec<Option<usize>>> {
    let names = classes.iter().enumerate().map(|(index, class)| (class.name, index));
    let by_name: BTreeMap<_, _> = names.collect();
    let mut all_known = true;
    let mut parents = Vec::with_capacity(classes.len());
    for class in classes {
        let Some(node) = &class.parent else {
            parents.push(None);
            continue;
        };
        let name = node.text(report);
        let parent = name.and_then(|name| by_name.get(name).copied());
        all_known &= parent.is_some();
        if let (Some(name), None) = (name, parent) {
            report.push_error(|| unknown_parent(class, name, node.span(), &by_name));
        }
        parents.push(parent);
    }
    all_known.then_some(parents)
}

fn unknown_parent(
    class: &ClassDraft<'_>,
    name: &str,
    span: Span,
    by_name: &BTreeMap<&str, usize>,
) -> Draft {
    let message = format!("class `{}`: its parent `{name}` is not declared", class.name);
    let known: Vec<_> = by_name.keys().take(SUGGESTED_MAX).copied().collect();
    Draft::new(&codes::UNKNOWN_PARENT, span, message)
        .cure(format!("declare `[class.{name}]` or name another class: {}", suggest(name, &known)))
        .fix(nearest(name, &known).map(|near| Fix::Replace(span, format!("\"{near}\""))))
}

/// Returns the depth of each class, from 1; `None` if there is a loop. Every class is visited once.
fn depths(
    classes: &[ClassDraft<'_>],
    parents: &[Option<usize>],
    report: &mut Report,
) -> Option<Vec<usize>> {
    let mut depths = vec![0; classes.len()];
    let mut entered_from = vec![usize::MAX; classes.len()];
    let mut looped = false;
    for start in 0..classes.len() {
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(class) = at.filter(|&class| depths[class] == 0) {
            if entered_from[class] == start {
                report_loop(classes, parents, class, report);
                looped = true;
                break;
            }
            if entered_from[class] != usize::MAX {
                // It leads into a loop that was already reported.
                break;
            }
            entered_from[class] = start;
            path.push(class);
            at = parents[class];
        }
        let above = at.map_or(0, |class| depths[class]);
        if at.is_some() && above == 0 {
            continue;
        }
        for (step, class) in path.into_iter().rev().enumerate() {
            depths[class] = above + step + 1;
            if depths[class] == DEPTH_MAX + 1 {
                report.push(too_deep(&classes[class]));
            }
        }
    }
    (!looped).then_some(depths)
}

fn report_loop(
    classes: &[ClassDraft<'_>],
    parents: &[Option<usize>],
    class: usize,
    report: &mut Report,
) {
    let place = |at: usize| classes[at].parent.as_ref().map_or(classes[at].span, |p| p.span());
    let message = format!("class `{}` is its own ancestor", classes[class].name);
    let mut draft = Draft::new(&codes::PARENT_LOOP, place(class), message)
        .cure("remove `parent` from one of these classes");
    let mut at = parents[class];
    // Terminates: the walk returns to `class`, or reaches the bound.
    for _ in 0..crate::finding::RELATED_MAX {
        let Some(next) = at.filter(|&next| next != class) else { break };
        draft = draft.related(place(next), format!("the parent of `{}`", classes[next].name));
        at = parents[next];
    }
    report.push(draft);
}

fn too_deep(class: &ClassDraft<'_>) -> Draft {
    let span = class.parent.as_ref().map_or(class.span, |node| node.span());
    let message = format!("class `{}` is below level {DEPTH_MAX}, the deepest", class.name);
    Draft::new(&codes::TOO_DEEP, span, message).cure("flatten the tree")
}

/// A rate, and where it is written.
#[derive(Clone, Copy)]
pub(super) struct WrittenRate {
    pub rate: Rate,
    pub span: Span,
    /// Whether its owner means to promise more than that.
    pub oversubscribes: bool,
}

impl WrittenRate {
    /// The rate of a class, or of the link, with these parameters.
    pub(super) fn of(rate: Rate, span: Span, params: &Params) -> Self {
        Self { rate, span, oversubscribes: params.flag(OVERSUBSCRIBE) == Some(true) }
    }
}

/// Turns shares into rates; reports missing parameters, and parents with less rate than their
/// children are promised.
pub(super) fn resolve_rates(
    classes: &mut [ClassDraft<'_>],
    shape: &Shape,
    link: WrittenRate,
    descriptor: &'static Descriptor,
    report: &mut Report,
) {
    for &index in &shape.downward {
        let Some((share, span)) = classes[index].share else { continue };
        let above = match shape.parents[index] {
            Some(parent) => classes[parent].written.params.rate("rate"),
            None => Some(link.rate),
        };
        let class = &mut classes[index];
        class.written.spans.push(("rate", span));
        let Some(share) = share else { continue };
        match above {
            Some(above) => {
                let rate = Value::Quantity(Quantity::Rate(above.part(share)));
                class.written.params.set("rate", rate);
            }
            None => report.push(share_of_nothing(class, span)),
        }
    }
    if has_rate(descriptor) {
        give_rest_to_default(classes, shape, link.rate, descriptor);
    }
    for class in classes.iter() {
        let here = |scope| scope == Scope::Class || scope == Scope::Leaf && !class.interior;
        let rows = descriptor.parameters.iter().filter(|row| here(row.scope));
        let owner = format!("class `{}`", class.name);
        class.written.check_required(&owner, class.span, rows, report);
    }
    if has_rate(descriptor) {
        check_sums(classes, shape, link, report);
    }
}

/// Gives the default class the rest of its parent's rate, if it needs a rate and has none written,
/// or may have one and has nothing written. If nothing is left, reports the missing rate.
fn give_rest_to_default(
    classes: &mut [ClassDraft<'_>],
    shape: &Shape,
    link: Rate,
    descriptor: &'static Descriptor,
) {
    let required =
        descriptor.parameters.iter().any(|row| row.name == "rate" && row.default.is_none());
    let default = classes.iter().position(|class| class.default.is_some());
    let bare = |index: usize| classes[index].written.spans.is_empty();
    let Some(index) = default.filter(|&index| required || bare(index)) else { return };
    if classes[index].written.span("rate").is_some() {
        return;
    }
    let above = match shape.parents[index] {
        Some(parent) => classes[parent].written.params.rate("rate"),
        None => Some(link),
    };
    let siblings = shape.under(shape.parents[index]);
    let rates = siblings.iter().filter_map(|&sibling| {
        let class = &classes[sibling];
        let rate = class.written.params.rate("rate")?.bits_per_second();
        Some(rate.saturating_mul(class.width().into()))
    });
    let taken = rates.fold(0, u64::saturating_add);
    let rest = above.and_then(|above| above.bits_per_second().checked_sub(taken));
    let width = u64::from(classes[index].width());
    if let Some(rest) = rest.and_then(|rest| Rate::new(rest / width)) {
        let class = &mut classes[index];
        class.written.spans.push(("rate", class.span));
        class.written.params.set("rate", Value::Quantity(Quantity::Rate(rest)));
    }
}

pub(super) fn share_of_nothing(class: &ClassDraft<'_>, span: Span) -> Draft {
    let message = format!("class `{}` has a share of a parent that has no rate", class.name);
    Draft::new(&codes::SHARE_OF_NOTHING, span, message)
        .cure("write `rate` or `share` in the parent, or `rate` here")
}

fn check_sums(classes: &[ClassDraft<'_>], shape: &Shape, link: WrittenRate, report: &mut Report) {
    // The rate that a class needs: its own, or else the sum of its children's.
    let mut promised = vec![0u128; classes.len()];
    let spreads = |below: &[usize]| below.iter().any(|&child| classes[child].width() > 1);
    for &index in shape.downward.iter().rev() {
        let sum = shape.children[index].iter().map(|&child| promised[child]).sum();
        let class = &classes[index];
        let Some(rate) = class.written.params.rate("rate") else {
            promised[index] = sum;
            continue;
        };
        promised[index] = u128::from(rate.bits_per_second()) * u128::from(class.width());
        if sum > promised[index] {
            let span = class.written.span("rate").unwrap_or(class.span);
            let below = shape.under(Some(index));
            let has = WrittenRate::of(rate, span, &class.written.params);
            let draft = overcommitted(Some(class.name), has, sum, below.len(), spreads(&below));
            let named = if has.oversubscribes { &[][..] } else { &below[..] };
            report.push(name_children(draft, classes, named, &promised));
        }
    }
    let top = shape.under(None);
    let sum = top.iter().map(|&class| promised[class]).sum();
    if sum > u128::from(link.rate.bits_per_second()) {
        let draft = overcommitted(None, link, sum, top.len(), spreads(&top));
        let named = if link.oversubscribes { &[][..] } else { &top[..] };
        report.push(name_children(draft, classes, named, &promised));
    }
}

/// The ratio from which on it says more than the difference.
const RATIO_SHOWN_MIN: f64 = 1.1;

/// The finding that `count` children have more than the class `owner`, or the link; `queues` says
/// whether one of them stands for several queues.
pub(super) fn overcommitted(
    owner: Option<&str>,
    WrittenRate { rate, span, oversubscribes }: WrittenRate,
    sum: u128,
    count: usize,
    queues: bool,
) -> Draft {
    let table = owner.map_or("[link]".to_owned(), |name| format!("[class.{name}]"));
    let owner = owner.map_or("the link".to_owned(), |name| format!("class `{name}`"));
    if oversubscribes {
        let ratio = sum as f64 / rate.bits_per_second() as f64;
        let excess = match ratio < RATIO_SHOWN_MIN {
            true => show_rate(sum - u128::from(rate.bits_per_second())) + " more than",
            false => format!("{ratio:.1} times"),
        };
        let sum = show_rate(sum);
        let promised = match count {
            1 => format!("the class under {owner} is promised {sum}"),
            _ => format!("the {count} classes under {owner} are promised {sum} together"),
        };
        let message = format!("{promised}, {excess} its {rate}, as `{OVERSUBSCRIBE}` says");
        let cure = "what each gets when all send is the column `greedy` of `weir check --bounds`";
        return Draft::new(&codes::OVERSUBSCRIBED, span, message).cure(cure);
    }
    let sum = show_rate(sum);
    let mut message =
        format!("the classes under {owner} are promised {sum} together, but it has {rate}");
    if count > RELATED_MAX {
        message += &format!("; the largest {RELATED_MAX} of {count} are listed");
    }
    let cure = match queues {
        true => "each of the `queues` of a class gets its rate or share; divide it by their number",
        false => "lower their rates",
    };
    Draft::new(&codes::OVERCOMMITTED, span, message).cure(format!(
        "{cure}, raise {owner} to `{sum}`, or write `{OVERSUBSCRIBE} = true` in `{table}` if not \
         all send at once"
    ))
}

fn name_children(
    mut draft: Draft,
    classes: &[ClassDraft<'_>],
    children: &[usize],
    promised: &[u128],
) -> Draft {
    let mut largest: Vec<usize> =
        children.iter().copied().filter(|&child| promised[child] > 0).collect();
    largest.sort_by_key(|&child| std::cmp::Reverse(promised[child]));
    for child in largest {
        let class = &classes[child];
        let span = class.written.span("rate").unwrap_or(class.span);
        let own = class.written.params.rate("rate").filter(|_| class.width() > 1);
        let each = own.map(|rate| format!("{} queues with {rate} each, ", class.width()));
        let (each, sum) = (each.unwrap_or_default(), show_rate(promised[child]));
        draft = draft.related(span, format!("`{}`: {each}{sum}", class.name));
    }
    draft
}

fn show_rate(bits_per_second: u128) -> String {
    let rate = u64::try_from(bits_per_second).ok().and_then(Rate::new);
    rate.map_or_else(|| format!("{bits_per_second} bit/s"), |rate| rate.to_string())
}

/// Builds the plan of a link, after every other check; builds scheduler and droppers once as a
/// check.
pub(super) fn plan(
    link: &LinkSection,
    classes: &[ClassDraft<'_>],
    shape: &Shape,
    report: &mut Report,
) -> Option<LinkPlan> {
    let (rate, entry) = (link.rate?, link.scheduler?);
    let firsts = first_ids(classes);
    let spec = |(class, parent): (&ClassDraft<'_>, &Option<usize>)| {
        let parent = parent.map(|parent| firsts[parent]);
        let params = class.written.params.clone();
        let spec = move |name| ClassSpec { name, parent, params: params.clone() };
        class.names().map(spec).collect::<Vec<_>>()
    };
    let specs = classes.iter().zip(&shape.parents).flat_map(spec).collect();
    let tree = Tree::new(rate, link.packet_max(), link.written.params.clone(), specs);
    let tree = tree.map_err(|error| report.push(tree_refused(error, classes))).ok()?;
    if let Err(error) = (entry.build)(&tree) {
        report.push(refused(&error, classes, link));
    }
    for (leaf, class) in leaves(classes) {
        let place = Place { leaf, rate, mtu: tree.mtu(), seed: link.seed };
        if let Err(error) = AnyDropper::build(&class.queue, place) {
            let span = class.queue_parameter_span(error.parameter);
            report.push(refused_at(span, class.name, &error));
        }
    }
    let mut plan = LinkPlan::new(entry.descriptor.keyword, tree);
    let queues = leaves(classes)
        .flat_map(|(_, class)| std::iter::repeat_n(&class.queue, class.width() as usize));
    plan.queues = queues.cloned().collect();
    plan.framing = link.framing;
    plan.charge = link.charge;
    plan.buffer = link.buffer;
    plan.follows_arrivals = link.follows_arrivals;
    plan.packets_max = link.packets_max(classes);
    plan.seed = link.seed;
    Some(plan)
}

/// Returns the first number in the plan of each class: a class with queues takes several.
fn first_ids(classes: &[ClassDraft<'_>]) -> Vec<ClassId> {
    let next = |next: &mut u32, class: &ClassDraft<'_>| {
        let first = ClassId(*next);
        *next += class.width();
        Some(first)
    };
    classes.iter().scan(0, next).collect()
}

fn class_of<'c, 'a>(id: ClassId, classes: &'c [ClassDraft<'a>]) -> Option<&'c ClassDraft<'a>> {
    let after = first_ids(classes).partition_point(|first| *first <= id);
    classes.get(after.checked_sub(1)?)
}

/// Cannot happen after the checks above; if the core gains a rule, the user still sees the error.
fn tree_refused(error: TreeError, classes: &[ClassDraft<'_>]) -> Draft {
    let class = match error {
        TreeError::Empty => None,
        TreeError::UnknownParent(class) | TreeError::Loop(class) | TreeError::TooDeep(class) => {
            class_of(class, classes)
        }
    };
    let span = class.map_or(Span::default(), |class| class.span);
    Draft::new(&codes::REFUSED, span, error.to_string())
}

fn refused(error: &BuildError, classes: &[ClassDraft<'_>], link: &LinkSection) -> Draft {
    let Some(class) = error.class.and_then(|id| class_of(id, classes)) else {
        let own = error.parameter.and_then(|name| link.written.span(name));
        return refused_at(own.unwrap_or(link.span), "[link]", error);
    };
    let own = error.parameter.and_then(|name| class.written.span(name));
    refused_at(own.unwrap_or(class.span), class.name, error)
}

fn refused_at(span: Span, owner: &str, error: &BuildError) -> Draft {
    let (message, cure) = error.message.rsplit_once("; ").unwrap_or((&error.message, ""));
    Draft::new(&codes::REFUSED, span, format!("{owner}: {message}")).cure(cure)
}

/// Names compared to suggest one for an unknown name.
const SUGGESTED_MAX: usize = 64;
