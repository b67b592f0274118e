//! Reads the `[class.NAME]` tables, each by itself.

use super::demand;
use super::places::PLACES_MAX;
use super::places::PlacesDraft;
use super::values::{Basis, Written};
use crate::codes;
use crate::edit;
use crate::finding::{Draft, Fix, Report, Span};
use crate::reader::{Node, Table, list, suggest, unknown_key};
use std::collections::BTreeMap;
use toml::de::DeValue;
use weir_core::classify::{AltqHash, Spread};
use weir_core::ids::LeafId;
use weir_core::packet::Dscp;
use weir_core::parameter::{Kind, Scope, Value};
use weir_core::queue::{DROPPERS, DropperDescriptor, QueuePlan, SHORT_KEY};
use weir_core::sched::{Descriptor, SCHEDULERS};
use weir_core::units::{Dimension, Rate, Share};

/// A class as written; relations to other classes are checked later.
pub(crate) struct ClassDraft<'a> {
    pub name: &'a str,
    pub span: Span,
    pub parent: Option<Node<'a>>,
    /// The written share, with its value unless that is wrong.
    pub share: Option<(Option<Share>, Span)>,
    pub written: Written,
    /// The entries of `written` that only a leaf may have.
    pub leaf_only: Vec<(&'static str, Span)>,
    pub queue: QueuePlan,
    pub queue_span: Option<Span>,
    pub queue_written: Written,
    /// The arrivals that it declares, and the delay that it wants.
    pub demand: demand::Written,
    /// The `police` table, not read yet.
    pub police: Option<Node<'a>>,
    /// The code point that its packets get, and where it is written.
    pub set_dscp: Option<(Option<Dscp>, Span)>,
    /// How its packets are spread if it stands for several leaves.
    pub spread: Option<Spread>,
    pub spread_span: Option<Span>,
    /// The elements of `match`.
    pub matches: Vec<Node<'a>>,
    pub match_span: Option<Span>,
    /// Where `default = true` is written.
    pub default: Option<Span>,
    /// The places for classes that join under it.
    pub places: Option<PlacesDraft>,
    /// The number of the place that it has, and where that is written.
    pub place: Option<(u32, Span)>,
    /// Has children, so it has no queue.
    pub interior: bool,
    /// The index of its parent.
    pub above: Option<usize>,
}

/// Returns the tables `[class.NAME]`, in the order of the file, and where `class` is written.
pub(super) fn nodes<'a>(top: &mut Table<'a>, report: &mut Report) -> (Vec<Node<'a>>, Span) {
    let table = top.field("class").and_then(|node| node.table(report));
    let nodes = table.iter().flat_map(Table::entries).collect();
    (nodes, table.map_or(Span::default(), |table| table.span()))
}

/// Reports a policy of which neither the file nor a template makes a class.
pub(super) fn check_any(nodes: &[Node<'_>], span: Span, report: &mut Report) {
    if nodes.is_empty() {
        let message = "the policy has no class, so packets have no queue";
        let cure = "write `[class.NAME]` with `default = true`";
        report.push(Draft::new(&codes::NO_CLASS, span, message).cure(cure));
    }
}

/// Reads the classes in their order. Without a scheduler, which was already reported, parameters
/// are not checked; rates may be percentages of that of the link.
pub(super) fn read_all<'a>(
    nodes: Vec<Node<'a>>,
    basis: Basis,
    report: &mut Report,
) -> Option<Vec<ClassDraft<'a>>> {
    if nodes.len() > CLASSES_MAX {
        let message = format!("{} classes are more than {CLASSES_MAX}", nodes.len());
        let span = nodes[CLASSES_MAX].key_span();
        report.push(Draft::new(&codes::TOO_MANY, span, message).cure("share classes"));
        return None;
    }
    let classes = nodes.iter().filter_map(|node| read(node, basis, report));
    let classes: Vec<_> = classes.collect();
    check_spread(&classes, report);
    (!classes.is_empty()).then_some(classes)
}

/// Returns the classes without children, each with the number of its first leaf.
pub(crate) fn leaves<'c, 'a>(
    classes: &'c [ClassDraft<'a>],
) -> impl Iterator<Item = (LeafId, &'c ClassDraft<'a>)> {
    let leaves = classes.iter().filter(|class| !class.interior);
    leaves.scan(0, |next, class| {
        let first = LeafId(*next);
        *next += class.width();
        Some((first, class))
    })
}

/// Returns the demands of each leaf.
pub(crate) fn demands(classes: &[ClassDraft<'_>]) -> Vec<demand::Demand> {
    let row = |(_, class): (LeafId, &ClassDraft<'_>)| {
        std::iter::repeat_n(class.demand.demand, class.width() as usize)
    };
    leaves(classes).flat_map(row).collect()
}

impl ClassDraft<'_> {
    /// Returns the number of leaves that it stands for.
    pub(crate) fn width(&self) -> u32 {
        self.spread.map_or(1, |spread| spread.queues)
    }

    /// Returns the names of these leaves.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let name = |at| match self.spread {
            None => self.name.to_owned(),
            Some(_) => format!("{}-{at}", self.name),
        };
        (0..self.width()).map(name)
    }

    /// Returns where the limit of its queue is written.
    pub(super) fn limit_span(&self) -> Option<Span> {
        self.queue_written.span("limit")
    }

    /// Returns where a parameter of its queue is written.
    pub(crate) fn queue_parameter_span(&self, name: Option<&str>) -> Span {
        let own = name.and_then(|name| self.queue_written.span(name));
        own.or(self.queue_span).unwrap_or(self.span)
    }
}

pub(super) fn read<'a>(
    node: &Node<'a>,
    basis: Basis,
    report: &mut Report,
) -> Option<ClassDraft<'a>> {
    check_name(node, report);
    let mut table = node.table(report)?.named(("class", node.key()));
    let parent = table.field("parent");
    let match_node = table.field("match");
    let default = table.field("default");
    let police = table.field("police");
    let set_dscp = table.field("set_dscp").map(|node| (node.parsed(report), node.key_span()));
    let Basis { descriptor, rate: link } = basis;
    let places = table.field("places").and_then(|node| PlacesDraft::read(&node, basis, report));
    let place = table.field("place").and_then(|node| {
        Some((node.number(0, u64::from(PLACES_MAX) - 1, report)? as u32, node.span()))
    });
    // It decides nothing, and stays in the text.
    if let Some(note) = table.field("note") {
        note.text(report);
    }
    let (spread, spread_span) = read_spread(&mut table, report);
    let oversubscribes = table.field(OVERSUBSCRIBE).and_then(|node| node.flag(report));
    let own_delay = descriptor.is_some_and(has_delay);
    let demand = demand::Written::read(&mut table, own_delay, link, report);
    let queue = QueueDraft::read(&mut table, link, report);
    check_isolation(&queue, spread_span, report);
    let mut draft = ClassDraft {
        name: node.key(),
        span: node.key_span(),
        parent,
        share: None,
        written: Written::default(),
        leaf_only: demand.spans.clone(),
        demand,
        queue: queue.plan,
        queue_span: queue.span,
        queue_written: queue.written,
        police,
        set_dscp,
        spread,
        spread_span,
        match_span: match_node.as_ref().map(Node::key_span),
        matches: match_node.iter().flat_map(Node::one_or_many).collect(),
        default: default.filter(|node| node.flag(report) == Some(true)).map(|node| node.span()),
        places,
        place,
        interior: false,
        above: None,
    };
    if let Some(descriptor) = descriptor {
        read_parameters(&mut draft, &mut table, descriptor, link, report);
    }
    if oversubscribes == Some(true) {
        draft.written.params.set(OVERSUBSCRIBE, Value::Flag(true));
    }
    Some(draft)
}

/// Checks a name, which is used in file names, tables and promises such as `voice.delay.p99`.
fn check_name(node: &Node<'_>, report: &mut Report) {
    let name = node.key();
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits) {
        return;
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    let message = format!("{shown:?} is not a valid name of a class");
    let cure = format!("use letters, digits, `-` and `_`, at most {NAME_BYTES_MAX} bytes");
    report.push(Draft::new(&codes::BAD_NAME, node.key_span(), message).cure(cure));
}

fn read_parameters(
    draft: &mut ClassDraft<'_>,
    table: &mut Table<'_>,
    descriptor: &'static Descriptor,
    link: Option<Rate>,
    report: &mut Report,
) {
    let scopes = [Scope::Class, Scope::Leaf];
    let rows = descriptor.parameters;
    draft.written = Written::read(table, rows, &scopes, link, report);
    for row in rows.iter().filter(|row| row.scope == Scope::Leaf) {
        draft.leaf_only.extend(draft.written.span(row.name).map(|span| (row.name, span)));
    }
    draft.demand.take_delay(&draft.written.params, draft.written.span("delay"));
    if has_rate(descriptor) && !rows.iter().any(|row| row.name == "share") {
        read_share(draft, table, report);
    }
    for node in table.unasked() {
        report.push_error(|| unsupported(&node, &table.known(), (descriptor, draft.name)));
    }
}

/// Returns whether classes under this scheduler have a rate, so that a share of one is defined.
pub(super) fn has_rate(descriptor: &Descriptor) -> bool {
    let kind = Kind::Quantity(Dimension::Rate);
    descriptor.parameters.iter().any(|row| {
        row.name == "rate" && row.kind == kind && matches!(row.scope, Scope::Class | Scope::Leaf)
    })
}

/// Returns whether `delay` is a parameter of the scheduler, where it shapes curves.
fn has_delay(descriptor: &Descriptor) -> bool {
    descriptor.parameters.iter().any(|row| row.name == "delay")
}

fn read_share(draft: &mut ClassDraft<'_>, table: &mut Table<'_>, report: &mut Report) {
    let Some(node) = table.field("share") else { return };
    draft.share = Some((node.share(report), node.span()));
    if let Some(rate) = draft.written.span("rate") {
        let message = format!("class `{}` has both a rate and a share", draft.name);
        report.push(
            Draft::new(&codes::RATE_AND_SHARE, node.span(), message)
                .related(rate, "the rate")
                .cure("keep the one you mean")
                .fix(["share", "rate"].map(|key| Fix::set(&["class", draft.name, key], ""))),
        );
    }
}

fn unsupported(
    node: &Node<'_>,
    known: &[&'static str],
    (descriptor, class): (&Descriptor, &str),
) -> Draft {
    let key = node.key();
    let has = |other: &Descriptor| {
        other.parameters.iter().any(|row| row.name == key) || key == "share" && has_rate(other)
    };
    let others: Vec<_> =
        SCHEDULERS.iter().map(|entry| entry.descriptor).filter(|other| has(other)).collect();
    if others.is_empty() {
        return unknown_key(node, known);
    }
    let keywords: Vec<_> = others.iter().map(|other| other.keyword).collect();
    let own: Vec<_> = known.iter().filter(|key| !CLASS_KEYS.contains(key)).copied().collect();
    let message = format!(
        "scheduler `{}` has no class parameter `{key}`; it has {}",
        descriptor.keyword,
        list(&own)
    );
    let draft = Draft::new(&codes::UNSUPPORTED_PARAMETER, node.key_span(), message);
    if let Some(quantum) = quantum_of_weight(node, descriptor) {
        let keys = [("quantum", format!("{quantum} B")), ("weight", String::new())];
        let keys = keys.map(|(key, value)| (edit::path(&["class", class, key]), value));
        return draft.fix([Fix::Set(keys.to_vec())]).cure(format!(
            "write `quantum = \"{quantum} B\"`: here classes share in proportion to their quanta, \
             and weight 1 is one largest packet, {LARGEST_PACKET} B"
        ));
    }
    draft
        .cure(format!("remove it, or choose a scheduler that has it: {}", list(&keywords)))
        .fix(node.removal())
}

/// Returns the quantum in bytes that stands for a weight, under a scheduler whose turns are quanta
/// and whose classes have no rate [drr95 §3].
fn quantum_of_weight(node: &Node<'_>, descriptor: &Descriptor) -> Option<u64> {
    let row = |name: &str| descriptor.parameters.iter().find(|row| row.name == name);
    let Some(Kind::Size(least, most)) = row("quantum").map(|row| row.kind) else { return None };
    let DeValue::Integer(weight) = node.value() else { return None };
    let weight = u64::from_str_radix(weight.as_str(), weight.radix()).ok()?;
    let is_weight = node.key() == "weight" && weight > 0 && row("rate").is_none();
    is_weight.then(|| weight.saturating_mul(LARGEST_PACKET).clamp(least, most))
}

/// Reads `hash` and `queues`; reports one without the other.
fn read_spread(table: &mut Table<'_>, report: &mut Report) -> (Option<Spread>, Option<Span>) {
    if !table.has("hash") && !table.has("queues") {
        return (None, None);
    }
    let words = HASHES.map(|row| row.0);
    let hash = table.required("hash", report);
    let queues = match &hash {
        Some(hash) if !table.has("queues") => {
            report.push(hash_alone(hash));
            table.field("queues")
        }
        _ => table.required("queues", report),
    };
    let span = queues.as_ref().or(hash.as_ref()).map(Node::key_span);
    let word = hash.and_then(|node| node.choice(&words, report));
    let hash = HASHES.iter().find(|row| Some(row.0) == word).map(|row| row.1);
    let queues = queues.and_then(|node| node.number(1, QUEUES_MAX, report));
    let spread = hash.zip(queues).map(|(hash, queues)| Spread { hash, queues: queues as u32 });
    (spread, span)
}

/// Makes the finding for `hash` without `queues`: who wants fairness among hosts need not count
/// queues.
fn hash_alone(node: &Node<'_>) -> Draft {
    let message = "spreads packets over `queues`, which is missing";
    let cure = format!(
        "write `queues = 64`, or `{SHORT_KEY} = \"flows within srcaddr\"` for turns among hosts in \
         one class"
    );
    node.draft(&codes::MISSING_KEY, message).cure(cure)
}

/// Reports classes that stand for too many leaves, and names that a queue of another class has.
fn check_spread(classes: &[ClassDraft<'_>], report: &mut Report) {
    let spread: BTreeMap<_, _> =
        classes.iter().filter_map(|class| Some((class.name, class.spread?.queues))).collect();
    let mut sum = 0;
    for class in classes {
        let fitted = sum <= CLASSES_MAX;
        sum += class.width() as usize;
        let span = class.spread_span.unwrap_or(class.span);
        if fitted && sum > CLASSES_MAX {
            let message = format!("classes with their queues are more than {CLASSES_MAX}");
            report.push(Draft::new(&codes::TOO_MANY, span, message).cure("write fewer `queues`"));
        }
        let longest = class.name.len() + class.width().saturating_sub(1).to_string().len() + 1;
        if class.spread.is_some() && longest > NAME_BYTES_MAX {
            let message = format!("the queues of `{}` get names that are too long", class.name);
            let cure = format!("shorten it, so that `NAME-0` has at most {NAME_BYTES_MAX} bytes");
            report.push(Draft::new(&codes::BAD_NAME, class.span, message).cure(cure));
        }
        let Some((owner, number)) = class.name.rsplit_once('-') else { continue };
        let Some(&queues) = spread.get(owner) else { continue };
        // Only in the form in which `names` writes it.
        let taken = number.parse().is_ok_and(|at: u32| at < queues && at.to_string() == number);
        if taken {
            let message = format!("a queue of class `{owner}` has the same name, `{}`", class.name);
            let cure = "give this class another name";
            report.push(Draft::new(&codes::BAD_NAME, class.span, message).cure(cure));
        }
    }
}

/// How packets wait, as written: `queue`, or in short the key [`SHORT_KEY`], or both.
#[derive(Default)]
pub(super) struct QueueDraft {
    pub plan: QueuePlan,
    written: Written,
    /// Where it begins.
    span: Option<Span>,
    /// Where the short key is.
    isolation: Option<Span>,
}

impl QueueDraft {
    /// Takes its keys out of the table of a class, or of places.
    pub(super) fn read(table: &mut Table<'_>, link: Option<Rate>, report: &mut Report) -> Self {
        let short = table.field(SHORT_KEY);
        let isolating = short.as_ref().and_then(|_| {
            DROPPERS.iter().find(|row| row.parameters.iter().any(|row| row.name == SHORT_KEY))
        });
        let node = table.field("queue");
        let mut draft = match (&node, isolating) {
            (Some(node), _) => Self::read_table(node, (short.as_ref(), isolating), link, report),
            (None, Some(dropper)) => Self::of(dropper, Written::default()),
            (None, None) => Self::default(),
        };
        if let (Some(node), Some(dropper)) = (&short, isolating) {
            draft.isolation = Some(node.key_span());
            let row = dropper.parameters.iter().find(|row| row.name == SHORT_KEY);
            let word = row.and_then(|row| match row.kind {
                Kind::Choice(words) => node.choice(words, report),
                _ => None,
            });
            if let Some(word) = word {
                draft.plan.params.set(SHORT_KEY, Value::Choice(word));
            }
        }
        draft.span = node.map(|node| node.key_span()).or(draft.isolation);
        draft
    }

    /// `queue = { dropper, ... }`; the dropper may follow from the short key.
    fn read_table(
        node: &Node<'_>,
        (short, isolating): (Option<&Node<'_>>, Option<&'static DropperDescriptor>),
        link: Option<Rate>,
        report: &mut Report,
    ) -> Self {
        let Some(table) = node.table(report) else { return Self::default() };
        let mut table = table.named("the queue");
        let words: Vec<_> = DROPPERS.iter().map(|row| row.keyword).collect();
        let named = table.field("dropper");
        let word = match &named {
            None => Some(isolating.unwrap_or(&DROPPERS[0]).keyword),
            Some(node) => node.choice(&words, report),
        };
        let Some(dropper) = DROPPERS.iter().find(|row| Some(row.keyword) == word) else {
            return Self::default();
        };
        let written = Written::read(&mut table, dropper.parameters, &[Scope::Queue], link, report);
        for node in table.unasked() {
            report.push(unsupported_in_queue(&node, &table.known(), dropper));
        }
        let owner = format!("dropper `{}`", dropper.keyword);
        written.check_required(&owner, node.key_span(), dropper.parameters, report);
        if let (Some(short), Some(isolating)) = (short, isolating) {
            let other = named.filter(|_| *dropper != *isolating).map(|node| (node, dropper));
            let twice = written.span(SHORT_KEY);
            report_contradiction(short, other, twice, report);
            if *dropper != *isolating {
                return Self::default();
            }
        }
        Self::of(dropper, written)
    }

    fn of(dropper: &'static DropperDescriptor, written: Written) -> Self {
        let plan = QueuePlan { dropper: dropper.keyword, params: written.params.clone() };
        Self { plan, written, ..Self::default() }
    }
}

/// Reports the short key beside another dropper, or beside the parameter that it stands for.
fn report_contradiction(
    short: &Node<'_>,
    other: Option<(Node<'_>, &DropperDescriptor)>,
    twice: Option<Span>,
    report: &mut Report,
) {
    if let Some((node, dropper)) = other {
        let keyword = dropper.keyword;
        let message = format!(
            "`{SHORT_KEY}` gives each flow a queue, and dropper `{keyword}` has one for all"
        );
        let cure = format!("remove `dropper`, or `{SHORT_KEY}`");
        report.push(
            node.draft(&codes::REFUSED, message)
                .related(short.key_span(), "where flows are isolated")
                .cure(cure),
        );
    }
    if let Some(span) = twice {
        let message = format!("`{SHORT_KEY}` is written in the class and in its queue");
        report.push(
            Draft::new(&codes::REFUSED, span, message)
                .related(short.key_span(), "that of the class")
                .cure("keep one of them"),
        );
    }
}

/// Reports a class that isolates and is spread over queues by a hash.
fn check_isolation(queue: &QueueDraft, spread: Option<Span>, report: &mut Report) {
    if let (Some(own), Some(spread)) = (queue.isolation, spread) {
        let message =
            format!("`{SHORT_KEY}` keeps all flows apart, and a hash spreads them before");
        report.push(
            Draft::new(&codes::REFUSED, spread, message)
                .related(own, "where flows are isolated")
                .cure("remove `hash` and `queues`: one class is enough"),
        );
    }
}

fn unsupported_in_queue(
    node: &Node<'_>,
    known: &[&'static str],
    dropper: &DropperDescriptor,
) -> Draft {
    let message = format!(
        "dropper `{}` has no parameter `{}`; it has {}",
        dropper.keyword,
        node.key(),
        list(known)
    );
    Draft::new(&codes::UNSUPPORTED_PARAMETER, node.key_span(), message)
        .cure(suggest(node.key(), known))
        .fix(node.corrected(known))
}

/// The key with which a class, or the link, promises its children more than it has.
pub(crate) const OVERSUBSCRIBE: &str = "oversubscribe";
/// Keys of a class under any scheduler.
const CLASS_KEYS: &[&str] = &[
    "parent",
    "match",
    "default",
    "queue",
    SHORT_KEY,
    "police",
    "set_dscp",
    "places",
    "place",
    "note",
    OVERSUBSCRIBE,
    "hash",
    "queues",
    "delay",
    "arrival",
    "window",
    "typical_packet",
];
/// The largest frame of Ethernet without its check sequence, in bytes: the quantum of weight 1.
const LARGEST_PACKET: u64 = 1514;
/// Bound: classes of a policy, with their queues; a policy with more is refused. More than the
/// largest file could hold with rules.
pub(super) const CLASSES_MAX: usize = 1 << 20;
const NAME_BYTES_MAX: usize = 64;
/// ALTQ's hashes for WFQ, by their names in its configuration, and those for hosts.
const HASHES: [(&str, AltqHash); 5] = [
    ("dstaddr", AltqHash::Destination),
    ("srcport", AltqHash::SourcePort),
    ("full", AltqHash::Full),
    ("srcaddr", AltqHash::Source),
    ("srcaddr,dstaddr", AltqHash::Hosts),
];
/// Bound: leaves of a class with `hash`; a policy with more is refused. [algorithms §4.1] ALTQ's
/// limit.
const QUEUES_MAX: u64 = 2048;
