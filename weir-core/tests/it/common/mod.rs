//! Random workloads for any registered scheduler.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod seeds;

use weir_core::ids::{ClassId, LeafId, MeterId};
use weir_core::link::{Graft, LinkPlan};
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::police::{AnyMeter, METERS, MeterPlan};
use weir_core::queue::{AnyDropper, DROPPERS, Place, QueuePlan};
use weir_core::random;
use weir_core::sched::{ClassSpec, Descriptor, Tree};
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Rate, Share};

/// Seeded draws for workloads.
pub struct Random(random::Random);

impl Random {
    /// A generator for one workload.
    pub fn new(seed: u64) -> Self {
        Self(random::Random::new(seed, 0))
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Draws a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + ((u128::from(self.next()) * u128::from(high - low + 1)) >> 64) as u64
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.between(1, n) == 1
    }

    /// Draws a number whose logarithm is uniform between those of `low` and `high`.
    pub fn wide(&mut self, low: u64, high: u64) -> u64 {
        let bits = self.between(u64::from(low.max(1).ilog2()), u64::from(high.ilog2()));
        self.between(1 << bits, (2u64 << bits) - 1).clamp(low, high)
    }
}

/// Draws a rate for a link: that of its plan, one near it, or any.
pub fn random_rate(random: &mut Random, plan: &LinkPlan) -> Rate {
    let planned = plan.tree.rate().bits_per_second();
    let bits = match random.between(0, 9) {
        0 | 1 => planned,
        2 => random.wide(1, u64::MAX >> 1),
        _ => random.wide((planned / 30).max(1), planned * 30),
    };
    Rate::new(bits).expect("at least 1")
}

/// Draws a tree for a scheduler: flat, or of up to three levels where it promises hierarchy.
pub fn random_tree(random: &mut Random, descriptor: &Descriptor) -> Tree {
    let link_rate = Rate::new(random.wide(8_000, 100_000_000_000)).expect("at least 8000");
    let mut classes = vec![spec(0, None)];
    for index in 1..random.between(1, 12) {
        let parent = if descriptor.promises.hierarchical && random.one_in(2) {
            Some(ClassId(random.between(0, index - 1) as u32))
        } else {
            None
        };
        classes.push(spec(index, parent.filter(|&parent| depth(&classes, parent) < 4)));
    }
    let interior: Vec<bool> = (0..classes.len())
        .map(|index| classes.iter().any(|class| class.parent == Some(ClassId(index as u32))))
        .collect();
    for (class, interior) in classes.iter_mut().zip(interior) {
        let scopes: &[Scope] =
            if interior { &[Scope::Class] } else { &[Scope::Class, Scope::Leaf] };
        class.params = random_params(random, descriptor.parameters, scopes, link_rate);
    }
    let params = random_params(random, descriptor.parameters, &[Scope::Link], link_rate);
    let mut tree = Tree::new(link_rate, Bytes::new(1514), params.clone(), classes.clone());
    let entry = weir_core::sched::find(descriptor.keyword).expect("registered");
    // Values that contradict each other within a class are drawn again.
    for _ in 0..REDRAWS {
        let Err(error) = (entry.build)(tree.as_ref().expect("parents come first")) else { break };
        let Some(class) = error.class else { break };
        let interior = classes.iter().any(|other| other.parent == Some(class));
        let scopes: &[Scope] =
            if interior { &[Scope::Class] } else { &[Scope::Class, Scope::Leaf] };
        classes[class.index()].params =
            random_params(random, descriptor.parameters, scopes, link_rate);
        tree = Tree::new(link_rate, Bytes::new(1514), params.clone(), classes.clone());
    }
    tree.expect("parents come first")
}

/// Classes with many interdependent parameters are refused more often than not.
const REDRAWS: usize = 500;

/// Draws a tree of at least `leaves` leaves: a small random tree, repeated. The copies stand side by
/// side, or in branches that are copies of an inner class of the small tree.
///
/// Returns `None` if the scheduler refuses the small tree.
pub fn large_tree(random: &mut Random, descriptor: &Descriptor, leaves: usize) -> Option<Tree> {
    let small = random_tree(random, descriptor);
    let entry = weir_core::sched::find(descriptor.keyword).expect("registered");
    (entry.build)(&small).ok()?;
    let copies = leaves.div_ceil(small.leaf_count());
    let inner = small.classes().find(|(class, _)| small.leaf_of(*class).is_none());
    let inner = inner.filter(|_| random.one_in(2)).map(|(_, class)| class.params.clone());
    let branch = if inner.is_some() { copies.isqrt() } else { copies };
    let mut classes: Vec<ClassSpec> = Vec::new();
    for copy in 0..copies {
        if let Some(params) = inner.as_ref().filter(|_| copy % branch == 0) {
            let name = format!("branch-{copy}");
            classes.push(ClassSpec { name, parent: None, params: params.clone() });
        }
        let above =
            inner.is_some().then(|| classes.len() - 1 - copy % branch * small.classes().len());
        let first = classes.len() as u32;
        classes.extend(small.classes().map(|(_, class)| ClassSpec {
            name: format!("{}-{copy}", class.name),
            parent: match class.parent {
                Some(parent) => Some(ClassId(first + parent.0)),
                None => above.map(|at| ClassId(at as u32)),
            },
            params: class.params.clone(),
        }));
    }
    let tree = Tree::new(small.rate(), small.mtu(), small.params().clone(), classes);
    Some(tree.expect("a branch is one level more than the small tree"))
}

fn depth(classes: &[ClassSpec], class: ClassId) -> usize {
    classes[class.index()].parent.map_or(1, |parent| 1 + depth(classes, parent))
}

fn spec(index: u64, parent: Option<ClassId>) -> ClassSpec {
    ClassSpec { name: format!("c{index}"), parent, params: Params::new() }
}

/// Draws values for some of the parameters of a table, and for all required ones.
pub fn random_params(
    random: &mut Random,
    table: &[Parameter],
    scopes: &[Scope],
    link_rate: Rate,
) -> Params {
    let mut params = Params::new();
    for parameter in table.iter().filter(|parameter| scopes.contains(&parameter.scope)) {
        if parameter.default.is_none() || random.one_in(3) {
            params.set(parameter.name, random_value(random, parameter, link_rate));
        }
    }
    params
}

fn random_value(random: &mut Random, parameter: &Parameter, link_rate: Rate) -> Value {
    let rate = |random: &mut Random| {
        let part = random.wide(1, link_rate.bits_per_second());
        Rate::new(part).expect("at least 1")
    };
    Value::Quantity(match parameter.kind {
        Kind::Quantity(Dimension::Rate) => Quantity::Rate(rate(random)),
        Kind::Quantity(Dimension::Duration) => {
            Quantity::Duration(Duration::from_micros(random.wide(1, 1_000_000)))
        }
        Kind::Quantity(Dimension::Bytes) => Quantity::Bytes(Bytes::new(random.wide(1, 1 << 20))),
        Kind::Quantity(Dimension::Packets) | Kind::Limit => {
            Quantity::Packets(random.wide(1, 1000) as u32)
        }
        Kind::Quantity(Dimension::Share) => {
            let share = Share::from_ppb(random.between(1, 1_000_000_000));
            Quantity::Share(share.expect("at most the whole"))
        }
        Kind::Quantity(Dimension::Number) => Quantity::Number(random.wide(1, 1000)),
        Kind::Number(low, high) => Quantity::Number(random.between(low, high)),
        Kind::Size(low, high) => Quantity::Bytes(Bytes::new(random.wide(low, high))),
        Kind::Flag => return Value::Flag(random.one_in(2)),
        Kind::Choice(words) => {
            return Value::Choice(words[random.between(0, words.len() as u64 - 1) as usize]);
        }
    })
}

/// Draws a usual length, or an extreme one.
pub fn random_length(random: &mut Random) -> u32 {
    match random.between(0, 9) {
        0 => 0,
        1 => 65_535,
        2..=5 => 1_514,
        _ => random.between(42, 1_514) as u32,
    }
}

/// Draws a plan for a scheduler: droppers, limits, a bound on all packets and a driver's buffer.
pub fn random_plan(random: &mut Random, descriptor: &Descriptor, tree: Tree) -> LinkPlan {
    let mut plan = LinkPlan::new(descriptor.keyword, tree);
    let shared = Quantity::Bytes(Bytes::new(random.wide(1, 20_000)));
    for queue in &mut plan.queues {
        *queue = random_queue(random, plan.tree.rate(), shared);
    }
    plan.seed = random.next();
    if random.one_in(4) {
        plan.meters = (0..4).map(|_| random_meter(random, plan.tree.rate())).collect();
        let leaves = plan.tree.leaf_count();
        plan.leaf_meters = (0..leaves).map(|_| random_meter_id(random)).collect();
    }
    plan.packets_max = random.wide(1, 128) as u32;
    plan.buffer = Bytes::new(if random.one_in(3) { random.wide(1, 20_000) } else { 0 });
    plan
}

/// Places reserved under each parent.
const PLACES: usize = 3;

/// Draws a plan with places under each parent that has leaves, with the parameters of such a leaf.
pub fn plan_with_places(random: &mut Random, descriptor: &Descriptor) -> LinkPlan {
    let tree = random_tree(random, descriptor);
    let mut plan = random_plan(random, descriptor, tree);
    // Leaves that share a limit are changed together.
    for queue in plan.queues.iter_mut().filter(|queue| queue.dropper == "longest") {
        *queue = QueuePlan::default();
    }
    let rows: Vec<_> = plan.tree.leaves().map(|(leaf, class)| (leaf, class.clone())).collect();
    for (leaf, class) in rows {
        let queue = plan.queues[leaf.index()].clone();
        if plan.tree.vacancy(class.parent).is_none() {
            assert!(plan.reserve(class.parent, PLACES, &class.params, &queue));
        }
    }
    plan
}

/// Draws parameters for a leaf: other ones, or those of another leaf.
fn leaf_params(random: &mut Random, plan: &LinkPlan) -> Params {
    let entry = weir_core::sched::find(plan.scheduler).expect("registered");
    let table = entry.descriptor.parameters;
    if random.one_in(2) {
        return random_params(random, table, &[Scope::Class, Scope::Leaf], plan.tree.rate());
    }
    plan.tree.leaf(any_leaf(random, plan)).params.clone()
}

/// Draws a leaf, which may be a place.
pub fn any_leaf(random: &mut Random, plan: &LinkPlan) -> LeafId {
    LeafId(random.between(0, plan.tree.leaf_count() as u64 - 1) as u32)
}

/// Draws a parent of leaves.
pub fn any_parent(random: &mut Random, plan: &LinkPlan) -> Option<ClassId> {
    plan.tree.leaf(any_leaf(random, plan)).parent
}

/// Draws a graft; a class that is added has this name.
pub fn random_graft(random: &mut Random, plan: &LinkPlan, name: String) -> Graft {
    let params = leaf_params(random, plan);
    let queue = plan.queues[any_leaf(random, plan).index()].clone();
    match random.between(0, 2) {
        0 => {
            let parent = any_parent(random, plan);
            Graft::Add { parent, name, params, queue }
        }
        1 => Graft::Retune { leaf: any_leaf(random, plan), params, queue },
        _ => Graft::Remove { leaf: any_leaf(random, plan), heir: any_leaf(random, plan) },
    }
}

/// Draws a plan for a large tree: only busy leaves have drawn queues, and there is room for all
/// packets.
pub fn large_plan(random: &mut Random, descriptor: &Descriptor, tree: Tree) -> LinkPlan {
    let mut plan = LinkPlan::new(descriptor.keyword, tree);
    let (rate, leaves) = (plan.tree.rate(), plan.queues.len());
    let shared = Quantity::Bytes(Bytes::new(random.wide(1, 20_000)));
    for index in 0..BUSY_LEAVES {
        plan.queues[busy_leaf(index, leaves)] = random_queue(random, rate, shared);
    }
    plan.seed = random.next();
    plan
}

/// The leaf number `index` of [`BUSY_LEAVES`], spread over a tree of `leaves` leaves.
pub fn busy_leaf(index: usize, leaves: usize) -> usize {
    index * leaves / BUSY_LEAVES
}

/// The leaves of a large tree that get half of all packets.
pub const BUSY_LEAVES: usize = 64;

/// Draws a queue whose dropper accepts its parameters.
fn random_queue(random: &mut Random, rate: Rate, shared: Quantity) -> QueuePlan {
    let place = Place { leaf: LeafId(0), rate, mtu: Bytes::new(1514), seed: 0 };
    loop {
        let row = &DROPPERS[random.between(0, DROPPERS.len() as u64 - 1) as usize];
        let mut params = random_params(random, row.parameters, &[Scope::Queue], rate);
        let limit = row.parameters.iter().find(|row| row.name == "limit");
        // A limit without packets is one that leaves share, and equal for all.
        let limit = if limit.is_some_and(|row| row.kind != Kind::Limit) {
            shared
        } else if random.one_in(2) {
            Quantity::Packets(random.wide(1, 64) as u32)
        } else {
            Quantity::Bytes(Bytes::new(random.wide(1, 100_000)))
        };
        params.set("limit", Value::Quantity(limit));
        let plan = QueuePlan { dropper: row.keyword, params };
        if AnyDropper::build(&plan, place).is_ok() {
            return plan;
        }
    }
}

/// Draws a meter that accepts its parameters, with actions of all kinds.
fn random_meter(random: &mut Random, rate: Rate) -> MeterPlan {
    loop {
        let row = &METERS[random.between(0, METERS.len() as u64 - 1) as usize];
        let params = random_params(random, row.parameters, &[Scope::Meter], rate);
        let action = |random: &mut Random| {
            let text = ["pass", "drop", "mark af12"][random.between(0, 2) as usize];
            text.parse().expect("an action")
        };
        let actions = row.outcomes.iter().map(|row| (row.0, action(random))).collect();
        let plan = MeterPlan { meter: row.keyword, params, actions };
        if AnyMeter::build(&plan, MeterId::from_index(0).expect("the first"), 0).is_ok() {
            return plan;
        }
    }
}

/// One of four meters, or none.
pub fn random_meter_id(random: &mut Random) -> Option<MeterId> {
    MeterId::from_index(random.between(0, 3) as usize).filter(|_| random.one_in(2))
}
