//! The `[[node]]`, `[[link]]` and `[[tap]]` entries: a network in place of one link.

use super::driver::{driver, tick};
use super::files::Files;
use super::values::Address;
use super::{Policies, bounded, codes, keys, rows};
use super::{autorate, behind};
use crate::behind::Behind;
use crate::network::Disturbance;
use crate::network::plan::{
    Cpu, Driver, LINKS_MAX, NODES_MAX, Network, NetworkLink, Node as Place, NodeId, OutletId,
    OutletPlan, Point, Queueing, TAP_ROWS_DEFAULT, TAP_ROWS_MAX, TAPS_MAX, TapPlan,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weir_core::classify::{Classifier, FragmentPolicy};
use weir_core::ids::LeafId;
use weir_core::link::{Framing, LinkPlan};
use weir_core::parameter::Params;
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, SCHEDULERS, Tree};
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Rate, Share};
use weir_policy::codes as common;
use weir_policy::finding::{Draft, Report, Span};
use weir_policy::keyed::Packets;
use weir_policy::policy::Policy;
use weir_policy::reader::{Node, Table, list, suggest};
use weir_trace::capacity::Capacity;

/// A network as read.
pub(super) struct Read {
    pub network: Network,
    /// The policy of the main outlet, whose queueing is the scenario's.
    pub main: Queueing,
    /// Of each outlet that has one.
    pub policies: BTreeMap<OutletId, Policy>,
    /// The address of each node.
    pub addresses: Vec<IpAddr>,
}

/// Whether a scenario has a network.
pub(super) fn is_written(top: &Table<'_>) -> bool {
    top.has("node") || top.has("link")
}

/// Reads the network; `None` if it has an error.
pub(super) fn read(
    top: &mut Table<'_>,
    policies: &mut Policies<'_>,
    report: &mut Report,
) -> Option<Read> {
    let mut nodes = Nodes::default();
    for node in tables(top, "node", NODES_MAX, report) {
        nodes.read(&node, report);
    }
    let mut links = Links { nodes: &nodes, names: BTreeMap::new(), pairs: BTreeMap::new() };
    let (mut plans, mut own) = (Vec::new(), BTreeMap::new());
    let written = tables(top, "link", LINKS_MAX, report);
    let count = written.len();
    for node in written {
        let place = plans.len() as u32;
        let Some((link, found)) = links.read(&node, policies, report) else { continue };
        plans.push(link);
        for (end, policy) in found.into_iter().enumerate() {
            own.extend(policy.map(|policy| (OutletId(2 * place + end as u32), policy)));
        }
    }
    let known: Vec<&str> = nodes.list.iter().map(|node| node.name.as_str()).collect();
    if plans.len() != count || plans.is_empty() {
        // Other keys that name a link would only report that it does not exist.
        top.field("tap");
        return None;
    }
    let taps = taps(top, &plans, &known, report);
    let main = own.keys().next().copied().unwrap_or(OutletId(0));
    let policies = own.keys().copied().collect();
    let mut network = Network {
        nodes: nodes.list,
        links: plans,
        main,
        policies,
        taps: taps?,
        signalling: None,
        disturbance: Disturbance::default(),
    };
    let link = &mut network.links[main.index() / 2];
    let queueing = link.outlets[main.index() % 2].queueing.take();
    let addresses = nodes.addresses;
    Some(Read { network, main: *queueing?, policies: own, addresses })
}

/// The tables of an array.
fn tables<'a>(
    top: &mut Table<'a>,
    key: &'static str,
    most: usize,
    report: &mut Report,
) -> Vec<Node<'a>> {
    let node = top.required(key, report);
    node.and_then(|node| rows(&node, ("of them", most), report)).unwrap_or_default()
}

/// Nodes by name.
#[derive(Default)]
struct Nodes {
    list: Vec<Place>,
    addresses: Vec<IpAddr>,
    names: BTreeMap<String, Span>,
}

impl Nodes {
    fn read(&mut self, node: &Node<'_>, report: &mut Report) -> Option<()> {
        let mut table = node.table(report)?.with_keys(keys::NODES);
        let name = table.required("name", report)?;
        let name = own_name(&name, "nodes", &mut self.names, report)?;
        table = table.named(format!("node `{name}`"));
        table.field("name");
        let router = table.value("router", report);
        let address = table.field("address").map(|node| node.parsed::<Address>(report));
        let cpu = table.field("cpu").map(|node| cpu(&node, report));
        table.finish(report);
        // Of the block for private use: as many as there are nodes, and none ends in 0 or 255.
        let place = self.list.len() as u32;
        let own = Ipv4Addr::from(10 << 24 | (place / 250) << 8 | (place % 250 + 1));
        let address = address.map_or(Some(own.into()), |read| Some(read?.0));
        // Also where a key has an error, so that links which name the node have none.
        self.addresses.push(address.unwrap_or(own.into()));
        let (router, cpu) = (router.unwrap_or_default(), cpu.flatten());
        self.list.push(Place { name, router, cpu });
        Some(())
    }

    /// The node that is named there.
    fn find(&self, node: &Node<'_>, report: &mut Report) -> Option<NodeId> {
        let name = node.name(report)?;
        let place = self.list.iter().position(|row| row.name == name);
        if place.is_none() {
            let known: Vec<_> = self.list.iter().map(|row| row.name.as_str()).collect();
            report.push(unknown_node(node, name, &known));
        }
        place.map(|place| NodeId(place as u32))
    }
}

/// Reports that no node has this name.
pub(super) fn unknown_node(node: &Node<'_>, name: &str, known: &[&str]) -> Draft {
    let message = format!("no node is called `{name}`; there are {}", list(known));
    node.draft(&codes::UNKNOWN_NODE, message).cure(suggest(name, known))
}

/// Reads a name that no other of its kind has.
fn own_name(
    node: &Node<'_>,
    kind: &str,
    names: &mut BTreeMap<String, Span>,
    report: &mut Report,
) -> Option<String> {
    let name = node.name(report)?.to_owned();
    if let Some(first) = names.insert(name.clone(), node.span()) {
        let message = format!("two {kind} are called `{name}`");
        let draft = Draft::new(&codes::PLACE_TWICE, node.span(), message);
        let draft = draft.related(first, "the first one");
        report.push(draft.cure("give each a name of its own"));
        return None;
    }
    Some(name)
}

fn cpu(node: &Node<'_>, report: &mut Report) -> Option<Cpu> {
    let mut table = node.table(report)?.named("the cpu").with_keys(keys::COSTS);
    let mut cost = |key| table.value_by(key, report, bounded);
    let (receive, base) = (cost("receive"), cost("base"));
    let (per_byte, per_cell, per_class) = (cost("per_byte"), cost("per_cell"), cost("per_class"));
    let queue = table.value_by("queue", report, |node, report| packets(node, report).map(Packets));
    table.finish(report);
    Some(Cpu {
        receive: receive?,
        base: base?,
        per_byte: per_byte?,
        per_cell: per_cell?,
        per_class: per_class?,
        queue: queue?.0,
    })
}

fn packets(node: &Node<'_>, report: &mut Report) -> Option<u32> {
    let packets = node.packets(report)?;
    let fits = (1..=QUEUE_MAX).contains(&packets);
    if !fits {
        let message = format!("{packets} packets is not in 1..={QUEUE_MAX}");
        let cure = "write how many packets may wait, such as `50 packets`";
        report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    }
    fits.then_some(packets)
}

/// Links by name and ends.
struct Links<'a> {
    nodes: &'a Nodes,
    names: BTreeMap<String, Span>,
    pairs: BTreeMap<[NodeId; 2], Span>,
}

/// The policies of both directions, where there are any.
type Both = [Option<Policy>; 2];

impl Links<'_> {
    fn read(
        &mut self,
        node: &Node<'_>,
        policies: &mut Policies<'_>,
        report: &mut Report,
    ) -> Option<(NetworkLink, Both)> {
        let mut table = node.table(report)?.with_keys(keys::LINKS);
        let name = table.required("name", report)?;
        let name = own_name(&name, "links", &mut self.names, report)?;
        table = table.named(format!("link `{name}`"));
        table.field("name");
        let ends = table.required("ends", report).and_then(|node| self.ends(&node, report));
        let mtu = table.field("mtu").map_or(Some(MTU_DEFAULT), |node| mtu(&node, report));
        let back = table.field("back");
        let there = direction(&mut table, None, policies, report);
        table.finish(report);
        let there = there?;
        let back = match back {
            None => plain(&there.wire, there.passage, report, table.span()),
            Some(node) => {
                let own = node.table(report)?.named(format!("the way back of link `{name}`"));
                let mut own = own.with_keys(keys::WAYS);
                let back = direction(&mut own, Some(&there), policies, report);
                own.finish(report);
                back
            }
        }?;
        let policies = [there.policy, back.policy];
        let outlets = [there.plan, back.plan];
        Some((NetworkLink { name, ends: ends?, mtu: mtu?, outlets }, policies))
    }

    /// The two nodes that a link joins, which no other joins.
    fn ends(&mut self, node: &Node<'_>, report: &mut Report) -> Option<[NodeId; 2]> {
        let names = node.elements(report)?;
        let [one, other] = &names[..] else {
            let message = format!("names {} nodes, not two", names.len());
            let cure = "write the two nodes that the link joins";
            report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
            return None;
        };
        let (one, other) = (self.nodes.find(one, report), self.nodes.find(other, report));
        let ends = [one?, other?];
        let name = |end: NodeId| &self.nodes.list[end.0 as usize].name;
        if ends[0] == ends[1] {
            let message = format!("leads from `{}` to itself", name(ends[0]));
            let cure = "name two nodes";
            report.push(node.draft(&codes::LINK_LOOP, message).cure(cure));
            return None;
        }
        let pair = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        if let Some(first) = self.pairs.insert(pair, node.span()) {
            let message = format!("`{}` and `{}` are joined twice", name(ends[0]), name(ends[1]));
            let draft = node.draft(&codes::LINK_TWICE, message);
            let cure = "take one of the links out, or put a router between";
            report.push(draft.related(first, "the first link").cure(cure));
            return None;
        }
        Some(ends)
    }
}

/// A direction of a link as read.
struct Direction {
    plan: OutletPlan,
    policy: Option<Policy>,
    /// The keys that a plain way back takes over.
    wire: Wire,
    passage: Passage,
}

/// The delays and losses behind the wire.
#[derive(Clone, Copy, Default)]
struct Passage {
    delay: Duration,
    loss: Share,
    jitter: Duration,
}

/// A line and the queue in front of it.
#[derive(Clone)]
struct Wire {
    rate: Rate,
    /// The rate over time, if it varies; then the queue is behind a line of `rate`.
    capacity: Option<Capacity>,
    framing: Framing,
    queue: Quantity,
}

/// Reads one direction; what the way back does not say is as on the way `there`.
fn direction(
    table: &mut Table<'_>,
    there: Option<&Direction>,
    policies: &mut Policies<'_>,
    report: &mut Report,
) -> Option<Direction> {
    let passage = passage(table, there.map(|there| there.passage).unwrap_or_default(), report);
    let driver = table.field("driver").map_or(Some(Driver::Line), |node| driver(&node, report));
    let tick = table.field("tick").map(|node| tick(&node, report));
    let cells = table.field("pvc_rate_is");
    let behind = table.field("behind");
    let behind = behind.map(|node| behind::behind(&node, &policies.files(), report).map(Box::new));
    let varies = table.field("autorate");
    let node = table.field("policy");
    if let Some(varies) = varies.as_ref().filter(|_| node.is_none()) {
        let message = "it sets the rate of a policy's link, and this link has no `policy`";
        let cure = "write a `policy` beside it, or leave it out";
        report.push(varies.draft(&codes::NEEDLESS, message).cure(cure));
    }
    let control = varies.as_ref().map(|node| autorate::control(node, behind.is_some(), report));
    let own = there.map(|there| &there.wire);
    let wire = wire(table, (own, node.as_ref()), &policies.files(), report);
    let policy = node.as_ref().map(|node| policies.read(node, report));
    if let (Some(varies), Some(Some(policy))) = (&varies, &policy)
        && policy.link.follows_arrivals
    {
        let message = "its policy has `follows_arrivals` in [link]: two rules would set one rate";
        let draft = varies.draft(&common::BAD_AUTORATE, message);
        report.push(draft.cure("leave out `follows_arrivals`, or this controller"));
    }
    let tick = tick.map_or(Some(None), |read| Some(Some(read?)));
    let mut direction = match policy {
        Some(policy) => by_policy(policy?, passage?),
        None => plain(&wire?, passage?, report, table.span())?,
    };
    if let Some(node) = cells {
        count_cells(&node, &mut direction, report)?;
    }
    (direction.plan.driver, direction.plan.tick) = (driver?, tick?);
    if let Some(behind) = behind {
        direction.plan.behind = Some(behind?);
    }
    if let Some(control) = control {
        let (control, reflectors) = control?;
        (direction.plan.control, direction.plan.reflectors) = (Some(Box::new(control)), reflectors);
    }
    Some(direction)
}

/// Reads `delay`, `loss` and `jitter`.
fn passage(table: &mut Table<'_>, own: Passage, report: &mut Report) -> Option<Passage> {
    let mut time = |table: &mut Table<'_>, key, own| match table.field(key) {
        Some(node) => bounded(&node, report),
        None => Some(own),
    };
    let delay = time(table, "delay", own.delay);
    let jitter = time(table, "jitter", own.jitter);
    let loss = table.field("loss").map_or(Some(own.loss), |node| node.share(report));
    Some(Passage { delay: delay?, loss: loss?, jitter: jitter? })
}

/// A direction that queues by a policy.
fn by_policy(policy: Policy, passage: Passage) -> Direction {
    let wire = Wire {
        rate: policy.link.tree.rate(),
        capacity: None,
        framing: policy.link.framing,
        queue: Quantity::Packets(QUEUE_DEFAULT),
    };
    let queueing = Queueing { link: policy.link.clone(), classifier: policy.classifier() };
    let plan = OutletPlan {
        queueing: Some(Box::new(queueing)),
        interfaces: policy.interfaces.clone(),
        behind: None,
        control: None,
        reflectors: Vec::new(),
        delay: passage.delay,
        loss: passage.loss,
        jitter: passage.jitter,
        driver: Driver::Line,
        tick: None,
    };
    Direction { plan, policy: Some(policy), wire, passage }
}

/// A direction with one queue.
fn plain(wire: &Wire, passage: Passage, report: &mut Report, span: Span) -> Option<Direction> {
    let class = ClassSpec { name: PLAIN.to_owned(), parent: None, params: Params::new() };
    let packet = Bytes::new(u64::from(wire.framing.wire_length(MTU_MAX)));
    let tree = match Tree::new(wire.rate, packet, Params::new(), vec![class]) {
        Ok(tree) => tree,
        Err(error) => {
            let draft = Draft::new(&common::OUT_OF_RANGE, span, error.to_string());
            report.push(draft.cure("write another rate"));
            return None;
        }
    };
    // The registry begins with the plainest scheduler, in which packets leave in their order.
    let mut link = LinkPlan::new(SCHEDULERS[0].descriptor.keyword, tree);
    link.framing = wire.framing;
    if let Quantity::Packets(packets) = wire.queue {
        link.packets_max = link.packets_max.max(packets);
    }
    let params = Params::new().with("limit", wire.queue);
    link.queues.fill(QueuePlan { params, ..QueuePlan::default() });
    let classifier = Classifier::new(Vec::new(), LeafId(0), FragmentPolicy::EachAlone);
    let behind = wire.capacity.clone().map(|capacity| {
        let buffer = behind::of_queue(wire.queue);
        Behind { capacity, buffer, framing: wire.framing }
    });
    let plan = OutletPlan {
        queueing: Some(Box::new(Queueing { link, classifier })),
        interfaces: Vec::new(),
        behind: behind.map(Box::new),
        control: None,
        reflectors: Vec::new(),
        delay: passage.delay,
        loss: passage.loss,
        jitter: passage.jitter,
        driver: Driver::Line,
        tick: None,
    };
    Some(Direction { plan, policy: None, wire: wire.clone(), passage })
}

/// `rate`, `framing` and `queue`, which a policy excludes.
fn wire(
    table: &mut Table<'_>,
    (there, policy): (Option<&Wire>, Option<&Node<'_>>),
    files: &Files<'_>,
    report: &mut Report,
) -> Option<Wire> {
    let rate = match (there, policy) {
        (None, None) => table.required("rate", report),
        _ => table.field("rate"),
    };
    let (framing_node, queue) = (table.field("framing"), table.field("queue"));
    if let Some(policy) = policy {
        for node in [&rate, &framing_node, &queue].into_iter().flatten() {
            let draft = node.draft(&codes::EXCLUSIVE, "excludes `policy`");
            let draft = draft.related(policy.key_span(), "the policy, which says it too");
            report.push(draft.cure("take it out; the policy's [link] has it"));
        }
        return None;
    }
    let own = |of: fn(&Wire) -> Quantity| there.map(of);
    let (rate, capacity) = match rate {
        Some(node) if node.is_table() => (Some(FAST), Some(behind::rate(&node, files, report)?)),
        Some(node) => (node.rate(report), None),
        None => (there.map(|wire| wire.rate), there.and_then(|wire| wire.capacity.clone())),
    };
    let framing = match framing_node {
        Some(node) => node.one_of(Framing::PRESETS, report),
        None => Some(there.map_or(Framing::FRAME, |wire| wire.framing)),
    };
    let queue = match queue {
        Some(node) => queue_limit(&node, report),
        None => own(|wire| wire.queue).or(Some(Quantity::Packets(QUEUE_DEFAULT))),
    };
    Some(Wire { rate: rate?, capacity, framing: framing?, queue: queue? })
}

fn queue_limit(node: &Node<'_>, report: &mut Report) -> Option<Quantity> {
    let quantity = node.quantity_of(&[Dimension::Packets, Dimension::Bytes], report)?;
    match quantity {
        Quantity::Packets(_) => packets(node, report).map(Quantity::Packets),
        Quantity::Bytes(bytes) if bytes == Bytes::ZERO => {
            let cure = "write what may wait, such as `50 packets`";
            report.push(node.draft(&common::OUT_OF_RANGE, "must be more than 0 B").cure(cure));
            None
        }
        _ => Some(quantity),
    }
}

/// [algorithms §13.1] What the rate of a permanent virtual circuit counts.
fn count_cells(node: &Node<'_>, direction: &mut Direction, report: &mut Report) -> Option<()> {
    let framing = node.one_of(CELLS, report)?;
    if direction.wire.framing != Framing::ATM {
        let cure = "write `framing = \"atm\"`, in a policy `overhead = \"atm\"`, or take it out";
        report.push(node.draft(&codes::NEEDLESS, "needs the framing `atm`").cure(cure));
        return None;
    }
    direction.wire.framing = framing;
    direction.plan.queueing.as_mut()?.link.framing = framing;
    Some(())
}

fn mtu(node: &Node<'_>, report: &mut Report) -> Option<u32> {
    let bytes = node.bytes(report)?;
    let mtu = u32::try_from(bytes.get()).ok().filter(|mtu| (MTU_MIN..=MTU_MAX).contains(mtu));
    if mtu.is_none() {
        let message = format!("{bytes} is not in {MTU_MIN} B to {MTU_MAX} B");
        let cure = "write the length of the largest IP packet, such as `1500 B`";
        report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    }
    mtu
}

fn taps(
    top: &mut Table<'_>,
    links: &[NetworkLink],
    nodes: &[&str],
    report: &mut Report,
) -> Option<Vec<TapPlan>> {
    if !top.has("tap") {
        top.field("tap");
        return Some(Vec::new());
    }
    let rows = tables(top, "tap", TAPS_MAX, report);
    let mut taps = Vec::with_capacity(rows.len());
    let mut left = TAP_ROWS_MAX;
    for node in &rows {
        let mut table = node.table(report)?.named("a tap").with_keys(keys::TAPS);
        let outlet = find_outlet(&mut table, links, nodes, report);
        let points = [Point::Discipline, Point::Software, Point::Wire];
        let point = table.one_of("point", &points.map(|point| (point.keyword(), point)), report);
        let most = match table.field("rows") {
            Some(node) => node.number(1, left.into(), report),
            None => Some(TAP_ROWS_DEFAULT.min(left).into()),
        };
        table.finish(report);
        let (Some(outlet), Some(point), Some(most)) = (outlet, point, most) else { continue };
        left = left.saturating_sub(most as u32);
        taps.push(TapPlan { outlet, point, rows: most as u32 });
    }
    Some(taps)
}

/// The outlet that `link` and `from` name; without `from`, that of the link's first end.
pub(super) fn find_outlet(
    table: &mut Table<'_>,
    links: &[NetworkLink],
    nodes: &[&str],
    report: &mut Report,
) -> Option<OutletId> {
    let link = table.required("link", report);
    let from = table.field("from");
    let link = link?;
    let name = link.name(report)?;
    let Some(place) = links.iter().position(|row| row.name == name) else {
        let known: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
        let message = format!("no link is called `{name}`; there are {}", list(&known));
        report.push(link.draft(&codes::UNKNOWN_LINK, message).cure(suggest(name, &known)));
        return None;
    };
    let Some(from) = from else { return Some(OutletId(2 * place as u32)) };
    let ends = links[place].ends.map(|end| nodes[end.0 as usize]);
    let name = from.name(report)?;
    let end = ends.iter().position(|end| *end == name);
    if end.is_none() {
        report.push(unknown_node(&from, name, &ends));
    }
    Some(OutletId((2 * place + end?) as u32))
}

/// The words of `pvc_rate_is`.
pub(super) const CELLS: &[(&str, Framing)] =
    &[("cells", Framing::ATM), ("aal5", Framing::AAL5), ("ip", Framing::IP)];
/// The class of an outlet without a policy.
const PLAIN: &str = "all";
/// Of a link whose rate varies: what waits, waits behind it.
const FAST: Rate = Rate::new(400_000_000_000).expect("not zero");
const MTU_DEFAULT: u32 = 1500;
/// [RFC 791 §3.2] Every line carries packets of 68 bytes.
const MTU_MIN: u32 = 68;
const MTU_MAX: u32 = 65_535;
/// In packets, as BSD's interface queue.
const QUEUE_DEFAULT: u32 = 50;
/// The most packets that wait for a link or a processor.
const QUEUE_MAX: u32 = 1 << 20;
