//! The promises of a policy to each class, in terms that do not depend on its scheduler.

use serde::Serialize;
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::Parameter;
use weir_core::sched::{self, ClassSpec, Descriptor, Tree};
use weir_core::units::Quantity;

/// The promises of a policy to one class.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Promised {
    /// The rate that it may always have, in bit/s.
    pub rate: f64,
    /// The most it may have, in bit/s; `None` for as much as there is.
    pub ceil: Option<f64>,
    /// The number of precedence levels before it: 0 goes first.
    pub rank: u64,
}

impl Promised {
    /// Returns whether the class may have more than its rate.
    pub(super) fn borrows(&self) -> bool {
        self.ceil.is_none_or(|ceil| ceil > self.rate)
    }
}

/// Returns the promises of the plan, in the order of classes.
pub fn promises(plan: &LinkPlan) -> Vec<Promised> {
    let tree = &plan.tree;
    let descriptor = sched::find(plan.scheduler).map(|entry| entry.descriptor);
    let ranks = ranks(plan, descriptor);
    let link = tree.rate().bits_per_second() as f64;
    let families = Families::of(tree);
    let mut rates = vec![None; tree.classes().len()];
    // From the top down: a class without a rate of its own has a part of what its parent has.
    let mut order: Vec<ClassId> = tree.classes().map(|(id, _)| id).collect();
    order.sort_by_key(|&id| tree.path(id).count());
    for id in order {
        let above = tree.class(id).parent.and_then(|parent| rates[parent.index()]);
        let above = above.unwrap_or(link);
        rates[id.index()] = Some(rate(tree, id, above, &families));
    }
    let promised = |(id, class): (ClassId, &ClassSpec)| {
        let rate = rates[id.index()].unwrap_or(0.0);
        // A limit at the rate of the line does not limit.
        let ceil = ceil(class, descriptor, rate).filter(|&ceil| ceil < link);
        Promised { rate, ceil, rank: ranks[id.index()] }
    };
    tree.classes().map(promised).collect()
}

/// Sums over siblings: of the children of each class, and last of the top classes.
struct Families {
    /// The sum of the written rates.
    taken: Vec<f64>,
    /// The sum of the weights of those without a rate.
    weights: Vec<f64>,
}

impl Families {
    fn of(tree: &Tree) -> Self {
        let count = tree.classes().len() + 1;
        let mut families = Self { taken: vec![0.0; count], weights: vec![0.0; count] };
        for (_, class) in tree.classes() {
            let place = Self::place(tree, class);
            match written(class) {
                Some(rate) => families.taken[place] += rate,
                None => families.weights[place] += weight(tree, class),
            }
        }
        families
    }

    fn place(tree: &Tree, class: &ClassSpec) -> usize {
        class.parent.map_or(tree.classes().len(), ClassId::index)
    }
}

/// The rate of a class: as written, or by its weight among its siblings.
fn rate(tree: &Tree, id: ClassId, above: f64, families: &Families) -> f64 {
    let class = tree.class(id);
    let place = Families::place(tree, class);
    let taken = families.taken[place];
    if let Some(rate) = written(class) {
        // A link-share curve only divides, so siblings may have more together than there is.
        let divides = class.params.rate("rate").is_none() && class.params.rate("ls_m2").is_some();
        return if divides && taken > above { rate * above / taken } else { rate };
    }
    if let Some(Quantity::Share(share)) = class.params.quantity("share") {
        return tree.rate().bits_per_second() as f64 * f64::from(share.ppb()) / 1e9;
    }
    // Siblings with a rate have that; the rest is divided by weight or quantum.
    (above - taken).max(0.0) * weight(tree, class) / families.weights[place]
}

/// The rate that a class has written, in bit/s.
fn written(class: &ClassSpec) -> Option<f64> {
    let rate = ["rate", "ls_m2", "rt_m2"].iter().find_map(|name| class.params.rate(name));
    rate.map(|rate| rate.bits_per_second() as f64)
}

fn weight(tree: &Tree, class: &ClassSpec) -> f64 {
    let weight = class.params.number("weight").map(|weight| weight as f64);
    let quantum = class.params.bytes("quantum").map(|quantum| quantum.get() as f64);
    weight.or(quantum.map(|quantum| quantum / tree.mtu().get() as f64)).unwrap_or(1.0)
}

/// The most that a class may have.
fn ceil(class: &ClassSpec, descriptor: Option<&Descriptor>, rate: f64) -> Option<f64> {
    let bits = |name: &str| class.params.rate(name).map(|rate| rate.bits_per_second() as f64);
    let has = |name: &str| descriptor.and_then(|it| it.parameters.iter().find(|p| p.name == name));
    if has("ceil").is_some() {
        // [algorithms §5.3] A class borrows from its parent; a top class has none, whatever its
        // ceiling says.
        return Some(bits("ceil").filter(|_| class.parent.is_some()).unwrap_or(rate));
    }
    if let Some(parameter) = has("borrow") {
        let usual = parameter.default == Some("true");
        return (!class.params.flag("borrow").unwrap_or(usual)).then_some(rate);
    }
    // Without a share of the link a class has its guarantee and no more.
    let shares = ["rate", "ls_m2"].iter().any(|name| bits(name).is_some());
    bits("ul_m2").or(bits("rt_m2").filter(|_| !shares))
}

/// The place of each class in the order of precedence; all 0 if the policy makes no difference.
fn ranks(plan: &LinkPlan, descriptor: Option<&Descriptor>) -> Vec<u64> {
    let word = descriptor.and_then(precedence);
    let level = |class: &ClassSpec| {
        let Some((parameter, larger_first)) = word else { return 0 };
        let usual = parameter.default.and_then(|text| text.parse().ok()).unwrap_or(0);
        let level = class.params.number(parameter.name).unwrap_or(usual) as i64;
        if larger_first { -level } else { level }
    };
    let mut known: Vec<i64> = plan.tree.leaves().map(|(_, class)| level(class)).collect();
    known.sort_unstable();
    known.dedup();
    // Classes with children send nothing themselves, so they have no precedence.
    let rank = |(id, class): (ClassId, &ClassSpec)| match plan.tree.leaf_of(id) {
        Some(_) => known.partition_point(|&other| other < level(class)) as u64,
        None => 0,
    };
    plan.tree.classes().map(rank).collect()
}

/// The parameter that orders classes, and whether the larger goes first. In `cbq-ref`, as in ns-2,
/// and in `htb` it is the smaller; a class with a smaller delay parameter goes earlier, too.
pub(super) fn precedence(descriptor: &Descriptor) -> Option<(&'static Parameter, bool)> {
    let row = |name: &str| descriptor.parameters.iter().find(|row| row.name == name);
    row("priority")
        .map(|row| (row, descriptor.keyword != "cbq-ref"))
        .or_else(|| row("prio").or_else(|| row("ddp")).map(|row| (row, false)))
}
