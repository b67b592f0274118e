//! A scenario of ns-2's CBQ tests in TOML; `docs/ns2-cbq.md` lists all keys.

use weir_core::ids::{ClassId, LeafId};
use weir_core::parameter::{Kind, Params, Scope, Value};
use weir_core::sched::{ClassSpec, Descriptor, Discipline, Tree, cbq_ref::CbqRef};
use weir_core::units::{Bytes, Duration, Quantity, Rate, Share};
use weir_policy::codes;
use weir_policy::finding::{Draft, Report};
use weir_policy::reader::{self, Node, Table};
use weir_policy::render;

/// Sources, the link that they share and the claims about the outcome.
pub struct Scenario {
    pub name: String,
    /// The length of the run, which is also the number of bins.
    pub seconds: usize,
    /// The instant from which on a flow's share and its bursts are counted.
    pub count_from: f64,
    pub tree: Tree,
    /// ns-2's limit of the queue of each leaf.
    pub limits: Vec<usize>,
    pub sources: Vec<Source>,
    pub changes: Vec<Change>,
    pub claims: Vec<Claim>,
}

/// A sender at constant rate; the nth is flow n, from 1. Times are seconds.
pub struct Source {
    pub leaf: LeafId,
    pub size: u32,
    pub interval: f64,
    /// The instants at which it starts, stops, starts again, and so on.
    pub switched: Vec<f64>,
    /// The access link, shared by sources that name the same.
    pub access: usize,
}

/// New shares from an instant on.
pub struct Change {
    pub at: f64,
    pub tree: Tree,
}

/// A claim about a flow from `from` until the end.
pub struct Claim {
    pub flow: usize,
    pub from: f64,
    pub claimed: Claimed,
    /// The tolerance, in the unit of the claim.
    pub within: f64,
}

/// The claimed quantity of a flow.
pub enum Claimed {
    /// Its part of the link.
    Share(f64),
    /// Packets of its longest burst: consecutive on the line, which does not idle in between.
    LongestBurst(u64),
    /// Packets of its median burst.
    UsualBurst(u64),
}

/// Reads a scenario.
///
/// # Errors
/// When it is wrong: all findings, with places and cures.
pub fn parse(bytes: &[u8], file: &str, name: &str) -> Result<Scenario, String> {
    let outcome = reader::read(file, bytes, |top, report| read(top, name, report));
    let text = || render::render(&outcome.findings, &outcome.sources, false);
    outcome.plan.ok_or_else(text)
}

fn read(top: &mut Table<'_>, name: &str, report: &mut Report) -> Option<Scenario> {
    let seconds = top.required("seconds", report).and_then(|node| node.number(1, 3600, report));
    let title = top.field("name").and_then(|node| node.name(report)).unwrap_or(name);
    let count_from = top.field("count_from").map_or(Some(0.0), |node| self::seconds(&node, report));
    let (rate, link) = link(top, report)?;
    let (specs, limits) = classes(top, report)?;
    let tree = tree(top, rate, &link, specs, report)?;
    let limits = tree.leaves().map(|(leaf, _)| limits[tree.class_of(leaf).index()]).collect();
    let sources = sources(top, &tree, report);
    let changes = changes(top, &tree, report);
    let claims = claims(top, sources.len(), report);
    let seconds = seconds? as usize;
    Some(Scenario {
        name: title.to_owned(),
        seconds,
        count_from: count_from?,
        tree,
        limits,
        sources,
        changes,
        claims,
    })
}

/// Reads the rate and the scheduler's parameters of the link.
fn link(top: &mut Table<'_>, report: &mut Report) -> Option<(Rate, Params)> {
    let mut params = Params::new();
    params.set("wake", Value::Choice("arrivals-only"));
    let mut rate = Rate::new(RATE_DEFAULT);
    if let Some(node) = top.field("link") {
        let mut table = node.table(report)?;
        if let Some(node) = table.field("rate") {
            rate = node.rate(report);
        }
        parameters(&mut table, &[Scope::Link], &mut params, report);
        table.finish(report);
    }
    Some((rate?, params))
}

/// Reads the classes in the order of the file, with the limits of their queues.
fn classes(top: &mut Table<'_>, report: &mut Report) -> Option<(Vec<ClassSpec>, Vec<usize>)> {
    let table = top.required("class", report)?.table(report)?;
    let names: Vec<&str> = table.entries().map(|node| node.key()).collect();
    let (mut specs, mut limits) = (Vec::new(), Vec::new());
    for node in table.entries() {
        let mut class = node.table(report)?.named(format!("class `{}`", node.key()));
        let mut params = Params::new();
        let parent = match class.field("parent") {
            None => None,
            Some(node) => Some(ClassId(known(&node, &names, report)? as u32)),
        };
        let limit = class.field("queue").map(|node| node.number(2, 1 << 20, report));
        limits.push(limit.unwrap_or(Some(LIMIT_DEFAULT))? as usize);
        parameters(&mut class, &[Scope::Class, Scope::Leaf], &mut params, report);
        class.finish(report);
        specs.push(ClassSpec { name: node.key().to_owned(), parent, params });
    }
    Some((specs, limits))
}

/// Returns the index of the name in `node`.
fn known(node: &Node<'_>, names: &[&str], report: &mut Report) -> Option<usize> {
    let name = node.name(report)?;
    let found = names.iter().position(|known| *known == name);
    if found.is_none() {
        let message = format!("there is no class `{name}`");
        let draft = node.draft(&codes::BAD_VALUE, message);
        report.push(draft.cure(format!("name one of {}", reader::list(names))));
    }
    found
}

/// Reads the scheduler's parameters of one scope, as its descriptor lists them.
fn parameters(table: &mut Table<'_>, scopes: &[Scope], params: &mut Params, report: &mut Report) {
    const DESCRIPTOR: Descriptor = CbqRef::DESCRIPTOR;
    for row in DESCRIPTOR.parameters.iter().filter(|row| scopes.contains(&row.scope)) {
        let node = if row.default.is_none() {
            table.required(row.name, report)
        } else {
            table.field(row.name)
        };
        let value = node.and_then(|node| match row.kind {
            Kind::Quantity(dimension) => node.quantity(dimension, report).map(Value::Quantity),
            Kind::Number(low, high) => {
                node.number(low, high, report).map(|n| Value::Quantity(Quantity::Number(n)))
            }
            Kind::Size(low, high) => size(&node, low, high, report)
                .map(|bytes| Value::Quantity(Quantity::Bytes(Bytes::new(bytes)))),
            Kind::Flag => node.flag(report).map(Value::Flag),
            Kind::Choice(words) => node.choice(words, report).map(Value::Choice),
            Kind::Limit => None,
        });
        if let Some(value) = value {
            params.set(row.name, value);
        }
    }
}

fn size(node: &Node<'_>, low: u64, high: u64, report: &mut Report) -> Option<u64> {
    let bytes = node.bytes(report)?.get();
    if !(low..=high).contains(&bytes) {
        let message = format!("{bytes} B is not in {low} B to {high} B");
        let cure = format!("write a size from {low} B to {high} B");
        report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
        return None;
    }
    Some(bytes)
}

/// Builds the tree, if the scheduler accepts it.
fn tree(
    top: &Table<'_>,
    rate: Rate,
    link: &Params,
    specs: Vec<ClassSpec>,
    report: &mut Report,
) -> Option<Tree> {
    if report.failed() {
        return None;
    }
    let tree = Tree::new(rate, Bytes::new(MTU), link.clone(), specs);
    let tree = tree.map_err(|error| error.to_string());
    let built = tree.and_then(|tree| match CbqRef::build(&tree) {
        Ok(_) => Ok(tree),
        Err(error) => Err(error.to_string()),
    });
    built.map_err(|error| report.push(Draft::new(&codes::REFUSED, top.span(), error))).ok()
}

fn sources(top: &mut Table<'_>, tree: &Tree, report: &mut Report) -> Vec<Source> {
    let nodes = top.required("source", report).and_then(|node| node.elements(report));
    let mut accesses = Vec::new();
    let source = |(index, node): (usize, &Node<'_>)| {
        let mut table = node.table(report)?.named(format!("source {}", index + 1));
        let class = table.required("class", report);
        let bytes = table.required("size", report);
        let interval = table.required("interval", report);
        let switched = table.field("on");
        let access = table.field("access").and_then(|node| node.name(report));
        table.finish(report);
        let interval = interval?;
        let seconds_apart = seconds(&interval, report)?;
        if seconds_apart <= 0.0 {
            let draft = interval.draft(&codes::OUT_OF_RANGE, "no time passes between packets");
            report.push(draft.cure("write an interval of at least 1 ns"));
        }
        let access = access.map_or_else(|| format!("{index}"), |name| format!("={name}"));
        let place = accesses.iter().position(|known| *known == access).unwrap_or_else(|| {
            accesses.push(access);
            accesses.len() - 1
        });
        Some(Source {
            leaf: leaf(&class?, tree, report)?,
            size: size(&bytes?, 1, u64::from(u16::MAX), report)? as u32,
            interval: seconds_apart,
            switched: switched.map_or_else(|| Some(vec![0.0]), |node| instants(&node, report))?,
            access: place,
        })
    };
    nodes.unwrap_or_default().iter().enumerate().filter_map(source).collect()
}

fn leaf(node: &Node<'_>, tree: &Tree, report: &mut Report) -> Option<LeafId> {
    let rows: Vec<_> = tree.leaves().collect();
    let names: Vec<&str> = rows.iter().map(|(_, spec)| spec.name.as_str()).collect();
    known(node, &names, report).map(|index| rows[index].0)
}

/// Reads instants that do not go back.
fn instants(node: &Node<'_>, report: &mut Report) -> Option<Vec<f64>> {
    let elements = node.elements(report)?;
    let instants: Vec<f64> = elements.iter().filter_map(|node| seconds(node, report)).collect();
    if !instants.is_sorted() {
        let draft = node.draft(&codes::BAD_VALUE, "these instants go back");
        report.push(draft.cure("write start, stop, start and so on in the order of time"));
    }
    Some(instants)
}

fn seconds(node: &Node<'_>, report: &mut Report) -> Option<f64> {
    node.duration(report).map(in_seconds)
}

/// Returns the nearest float, as ns-2 reads the decimal number.
fn in_seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// Reads the changes, each on top of the earlier ones.
fn changes(top: &mut Table<'_>, tree: &Tree, report: &mut Report) -> Vec<Change> {
    let Some(nodes) = top.field("change").and_then(|node| node.elements(report)) else {
        return Vec::new();
    };
    let mut specs: Vec<ClassSpec> = tree.classes().map(|(_, spec)| spec.clone()).collect();
    let change = |node: &Node<'_>| {
        let mut table = node.table(report)?.named("a change");
        let at = table.required("at", report).and_then(|node| seconds(&node, report));
        let shares = table.required("share", report).and_then(|node| node.table(report));
        table.finish(report);
        for node in shares?.entries() {
            let share = node.share(report)?;
            let Some(spec) = specs.iter_mut().find(|spec| spec.name == node.key()) else {
                let draft = node.draft(&codes::BAD_VALUE, "there is no such class");
                report.push(draft.cure("name a class of this file"));
                return None;
            };
            spec.params.set("share", Value::Quantity(Quantity::Share(share)));
        }
        let (rate, mtu) = (tree.rate(), tree.mtu());
        let tree = Tree::new(rate, mtu, tree.params().clone(), specs.clone());
        let tree = tree.expect("only shares differ from a tree that was built");
        if let Err(error) = CbqRef::build(&tree) {
            report.push(node.draft(&codes::REFUSED, error.to_string()));
        }
        Some(Change { at: at?, tree })
    };
    nodes.iter().filter_map(change).collect()
}

fn claims(top: &mut Table<'_>, flows: usize, report: &mut Report) -> Vec<Claim> {
    let nodes = top.field("claim").and_then(|node| node.elements(report));
    let claim = |node: &Node<'_>| {
        let mut table = node.table(report)?.named("a claim");
        let flow = table.required("flow", report);
        let flow = flow.and_then(|node| node.number(1, flows.max(1) as u64, report));
        let from = table.field("from").map_or(Some(0.0), |node| seconds(&node, report));
        let share = table.field("share").and_then(|node| node.share(report)).map(part);
        let longest = table.field("longest_burst").and_then(|node| node.number(1, 1000, report));
        let usual = table.field("usual_burst").and_then(|node| node.number(1, 1000, report));
        let within = table.required("within", report);
        let claimed = match (share, longest, usual) {
            (Some(share), None, None) => Some(Claimed::Share(share)),
            (None, Some(packets), None) => Some(Claimed::LongestBurst(packets)),
            (None, None, Some(packets)) => Some(Claimed::UsualBurst(packets)),
            _ => {
                let message = "a claim is about one quantity";
                let draft = Draft::new(&codes::BAD_VALUE, table.span(), message);
                report.push(draft.cure("write one of share, longest_burst and usual_burst"));
                None
            }
        };
        table.finish(report);
        let within = match claimed {
            Some(Claimed::Share(_)) => within?.share(report).map(part),
            _ => within?.number(0, 1000, report).map(|packets| packets as f64),
        };
        Some(Claim { flow: flow? as usize - 1, from: from?, claimed: claimed?, within: within? })
    };
    nodes.unwrap_or_default().iter().filter_map(claim).collect()
}

fn part(share: Share) -> f64 {
    f64::from(share.ppb()) / 1e9
}

/// The link of all these tests.
const RATE_DEFAULT: u64 = 1_500_000;
/// The largest packet of these tests; the scheduler does not use it.
const MTU: u64 = 1500;
/// ns-2's limit of the queues of all these tests except the bursts.
const LIMIT_DEFAULT: u64 = 20;
