//! Draws any plan that a policy could give a link, including values at the ends of their ranges.

use crate::draw::Draw;
use weir_core::ids::{ClassId, LeafId, MeterId};
use weir_core::link::{Charge, Framing, LinkPlan};
use weir_core::parameter::{BuildError, Kind, Parameter, Params, Scope, Value};
use weir_core::police::{AnyMeter, METERS, MeterPlan};
use weir_core::queue::{AnyDropper, DROPPERS, Place, QueuePlan};
use weir_core::sched::{ClassSpec, DEPTH_MAX, Descriptor, Entry, Tree};
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Rate, Share};

/// Returns a plan for this scheduler that builds, or none if it refused all draws.
pub fn plan(draw: &mut Draw<'_>, entry: &Entry) -> Option<LinkPlan> {
    let tree = tree(draw, entry)?;
    let mut plan = LinkPlan::new(entry.descriptor.keyword, tree);
    let shared = Quantity::Bytes(Bytes::new(draw.wide(1, 1 << 40)));
    for index in 0..plan.queues.len() {
        plan.queues[index] = queue(draw, &plan.tree, shared);
    }
    if draw.one_in(3) {
        plan.meters = (0..METERS_MAX).filter_map(|_| meter(draw)).collect();
        plan.leaf_meters = (0..plan.tree.leaf_count()).map(|_| meter_id(draw)).collect();
    }
    plan.framing = [Framing::PTM, Framing::ETHERNET, Framing::IP, Framing::ATM][draw.index(4)];
    plan.charge = [Charge::Wire, Charge::Frame][draw.index(2)];
    plan.buffer = Bytes::new(draw.wide(0, 64 << 20));
    plan.packets_max = draw.wide(0, 128) as u32;
    plan.seed = u64::from(draw.byte());
    if plan.build().is_err() {
        // Replaces queues that contradict each other.
        plan.queues.fill(QueuePlan::default());
    }
    plan.build().is_ok().then_some(plan)
}

/// Draws one of the meters, or none.
pub fn meter_id(draw: &mut Draw<'_>) -> Option<MeterId> {
    let index = draw.index(2 * METERS_MAX);
    MeterId::from_index(index).filter(|_| index < METERS_MAX)
}

fn tree(draw: &mut Draw<'_>, entry: &Entry) -> Option<Tree> {
    let descriptor = entry.descriptor;
    let rate = Rate::new(draw.wide(1, LINK_RATE_MAX)).expect("at least 1");
    let mtu = Bytes::new(draw.wide(68, 65_549));
    let count = 1 + draw.index(CLASSES_MAX);
    let mut classes = Vec::with_capacity(count);
    for index in 0..count {
        let parent = parent(draw, descriptor, &classes);
        classes.push(ClassSpec { name: format!("c{index}"), parent, params: Params::new() });
    }
    let scopes = |classes: &[ClassSpec], index: usize| -> &[Scope] {
        let id = Some(ClassId(index as u32));
        let interior = classes.iter().any(|class| class.parent == id);
        if interior { &[Scope::Class] } else { &[Scope::Class, Scope::Leaf] }
    };
    for index in 0..count {
        let scopes = scopes(&classes, index);
        classes[index].params = params(draw, descriptor.parameters, scopes, rate);
    }
    let link = params(draw, descriptor.parameters, &[Scope::Link], rate);
    // Contradictory values are drawn again, as few mutations would repair them.
    let mut again = draw.endless();
    for _ in 0..REDRAWS {
        let tree = Tree::new(rate, mtu, link.clone(), classes.clone()).expect("parents come first");
        let Err(error) = (entry.build)(&tree) else { return Some(tree) };
        let index = error.class?.index();
        let scopes = scopes(&classes, index);
        classes[index].params = params(&mut again, descriptor.parameters, scopes, rate);
    }
    None
}

fn parent(draw: &mut Draw<'_>, descriptor: &Descriptor, classes: &[ClassSpec]) -> Option<ClassId> {
    if classes.is_empty() || !descriptor.promises.hierarchical || draw.one_in(3) {
        return None;
    }
    let parent = ClassId(draw.index(classes.len()) as u32);
    let above = |class: &ClassId| classes[class.index()].parent;
    let depth = std::iter::successors(Some(parent), above).count();
    (depth < DEPTH_MAX).then_some(parent)
}

/// Draws values for some of the parameters of a table, and for all required ones.
fn params(draw: &mut Draw<'_>, table: &[Parameter], scopes: &[Scope], rate: Rate) -> Params {
    let mut params = Params::new();
    for row in table.iter().filter(|row| scopes.contains(&row.scope)) {
        if row.default.is_none() || draw.one_in(3) {
            params.set(row.name, value(draw, row.kind, rate));
        }
    }
    params
}

/// Draws any value that a policy's reader accepts.
fn value(draw: &mut Draw<'_>, kind: Kind, rate: Rate) -> Value {
    Value::Quantity(match kind {
        Kind::Quantity(Dimension::Rate) => {
            let most = if draw.one_in(8) { u64::MAX } else { rate.bits_per_second() };
            Quantity::Rate(Rate::new(draw.wide(1, most)).expect("at least 1"))
        }
        Kind::Quantity(Dimension::Duration) => {
            let most = if draw.one_in(8) { u64::MAX } else { 1_000_000_000 };
            Quantity::Duration(Duration::from_nanos(draw.wide(0, most)))
        }
        Kind::Quantity(Dimension::Bytes) => Quantity::Bytes(Bytes::new(draw.wide(0, u64::MAX))),
        Kind::Quantity(Dimension::Packets) => {
            Quantity::Packets(draw.wide(0, u64::from(u32::MAX)) as u32)
        }
        Kind::Limit if draw.one_in(2) => Quantity::Bytes(Bytes::new(draw.wide(0, u64::MAX))),
        Kind::Limit => Quantity::Packets(draw.wide(0, u64::from(u32::MAX)) as u32),
        Kind::Quantity(Dimension::Share) => {
            let share = Share::from_ppb(draw.wide(0, 1_000_000_000));
            Quantity::Share(share.expect("at most the whole"))
        }
        Kind::Quantity(Dimension::Number) => Quantity::Number(draw.wide(0, u64::MAX)),
        Kind::Number(low, high) => Quantity::Number(draw.wide(low, high)),
        Kind::Size(low, high) => Quantity::Bytes(Bytes::new(draw.wide(low, high))),
        Kind::Flag => return Value::Flag(draw.one_in(2)),
        Kind::Choice(words) => return Value::Choice(words[draw.index(words.len())]),
    })
}

/// Draws a queue whose dropper accepts its parameters.
fn queue(draw: &mut Draw<'_>, tree: &Tree, shared: Quantity) -> QueuePlan {
    let row = &DROPPERS[draw.index(DROPPERS.len())];
    let mut params = params(draw, row.parameters, &[Scope::Queue], tree.rate());
    let limit = row.parameters.iter().find(|row| row.name == "limit");
    // A limit without packets is one that leaves share, and equal for all.
    if limit.is_some_and(|row| row.kind != Kind::Limit) {
        params.set("limit", Value::Quantity(shared));
    }
    let plan = QueuePlan { dropper: row.keyword, params };
    if dropper(&plan, tree).is_ok() { plan } else { QueuePlan::default() }
}

/// Returns the dropper of a drawn queue.
pub fn dropper_of(queue: &QueuePlan, tree: &Tree) -> AnyDropper {
    dropper(queue, tree).expect("a drawn plan builds")
}

fn dropper(queue: &QueuePlan, tree: &Tree) -> Result<AnyDropper, BuildError> {
    let place = Place { leaf: LeafId(0), rate: tree.rate(), mtu: tree.mtu(), seed: 0 };
    AnyDropper::build(queue, place)
}

/// Draws a meter, with actions of all kinds, if it accepts its parameters.
fn meter(draw: &mut Draw<'_>) -> Option<MeterPlan> {
    let row = &METERS[draw.index(METERS.len())];
    let rate = Rate::new(LINK_RATE_MAX).expect("not zero");
    let params = params(draw, row.parameters, &[Scope::Meter], rate);
    let mut action = || {
        let text = ["pass", "drop", "mark af12"][draw.index(3)];
        text.parse().expect("an action")
    };
    let actions = row.outcomes.iter().map(|row| (row.0, action())).collect();
    let plan = MeterPlan { meter: row.keyword, params, actions };
    AnyMeter::build(&plan, MeterId::from_index(0)?, 0).is_ok().then_some(plan)
}

const CLASSES_MAX: usize = 12;
const METERS_MAX: usize = 4;
const REDRAWS: usize = 64;
/// 400 Gbit/s, as the core allows.
const LINK_RATE_MAX: u64 = 400_000_000_000;
