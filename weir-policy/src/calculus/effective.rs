//! The long-run rates of leaves: while all want more than they get, and while only one sends.
//!
//! Where lengths matter, packets are the largest. The result is `None` where the order of arrival
//! decides, or a rule that this file does not model.

use super::excess::{self, Given};
use super::{Line, service};
use crate::fluid::{self, Demand};
use std::collections::BTreeMap;
use weir_core::ids::ClassId;
use weir_core::link::{Charge, LinkPlan};
use weir_core::parameter::Params;
use weir_core::sched::service::{Bucket, Buckets, Curve, Excess, Weighted};
use weir_core::sched::{self, ClassSpec, Service, Tree};
use weir_core::units::{Quantity, Rate};

/// The rates of leaves, in bit/s and in the order of leaves; `None` where unknown.
#[derive(Clone, PartialEq, Debug)]
pub struct Effective {
    /// While every leaf always has something to send.
    pub greedy: Vec<Option<f64>>,
    /// While no other leaf sends.
    pub alone: Vec<Option<f64>>,
}

impl Effective {
    /// Computes the rates of the leaves of `plan`.
    pub fn of(plan: &LinkPlan) -> Self {
        let link = line(plan);
        let count = plan.tree.leaf_count();
        let all = |alone| Self { greedy: vec![None; count], alone: vec![alone; count] };
        if plan.follows_arrivals {
            return all(None);
        }
        match service(plan) {
            // A leaf that offers more gets more, so no share holds in general.
            Service::Arrivals { shaper } => {
                let rate = shaper.map_or(link, |rate| rate.bits_per_second() as f64);
                all(Some(rate.min(link)))
            }
            Service::Ranks(ranks) => Self { greedy: first_rank(&ranks, link), ..all(Some(link)) },
            Service::Rounds(rounds) => {
                let greedy = in_proportion(rounds.gains.iter().copied(), link);
                Self { greedy, ..all(Some(link)) }
            }
            Service::Fluid(leaves) => {
                let weights = leaves.iter().map(|&Weighted { weight, .. }| weight);
                Self { greedy: in_proportion(weights, link), ..all(Some(link)) }
            }
            Service::Deadline(_) => all(Some(link)),
            Service::Buckets(buckets) => of_buckets(plan, &buckets, link),
            Service::Curves(curves) => of_curves(&plan.tree, &curves, link),
            Service::Unknown => all(is_work_conserving(plan).then_some(link)),
        }
    }
}

/// Returns the rate of the line, in charged bit/s.
fn line(plan: &LinkPlan) -> f64 {
    let rate = plan.tree.rate().bits_per_second() as f64;
    let packet = plan.tree.mtu().get().max(1);
    match plan.charge {
        Charge::Wire => rate,
        Charge::Frame => {
            rate * packet as f64 / f64::from(plan.framing.wire_length(packet as u32).max(1))
        }
    }
}

fn is_work_conserving(plan: &LinkPlan) -> bool {
    sched::find(plan.scheduler).is_some_and(|entry| entry.descriptor.promises.work_conserving)
}

pub(super) fn of_buckets(plan: &LinkPlan, buckets: &Buckets, link: f64) -> Effective {
    let tree = &plan.tree;
    let all = |of: &dyn Fn(ClassId) -> Option<f64>| {
        tree.leaves().map(|(leaf, _)| of(tree.class_of(leaf))).collect()
    };
    match buckets.excess {
        Excess::Turns => Effective {
            greedy: by_turns(plan, &buckets.leaves, link),
            alone: all(&|class| Some(excess::alone(tree, class, link))),
        },
        Excess::Rates => Effective {
            greedy: by_rates(tree, buckets, link),
            alone: all(&|class| Some(borrowed(tree, class, link))),
        },
        Excess::Unknown => Effective { greedy: all(&|_| None), alone: all(&|_| None) },
    }
}

/// Excess lent by turns, as long as no leaf misses a turn; and on a busy line, as long as no leaf
/// loses rate to others in a pause longer than its burst.
fn by_turns(plan: &LinkPlan, leaves: &[Bucket], link: f64) -> Vec<Option<f64>> {
    let given = excess::by_turns(&plan.tree, leaves, &vec![f64::INFINITY; leaves.len()], link);
    let busy = given.iter().map(|given| given.rate).sum::<f64>() > link * BUSY;
    let keep = keep_rates(leaves, &Line::of(plan), OUTLASTS);
    let short = plan.tree.classes().any(|(_, class)| is_short(class));
    let lost = busy && (short || keep.iter().any(|keeps| !keeps));
    let known = |(leaf, given): (usize, &Given)| {
        let own = leaves[leaf].rate.bits_per_second() as f64;
        let certain = !lost || (keep[leaf] && given.rate <= own * (1.0 + SLACK));
        (certain && !given.doubtful).then_some(given.rate)
    };
    given.iter().enumerate().map(known).collect()
}

/// Returns for each leaf whether its burst outlasts the pauses of a busy line on which all are
/// greedy, so that no leaf loses tokens: a pause is one packet of each other leaf of its rank and
/// of those before it; it lasts for at most `outlasts` bursts.
pub(super) fn keep_rates(leaves: &[Bucket], line: &Line, outlasts: f64) -> Vec<bool> {
    let mut ranks: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for leaf in leaves {
        let sum = ranks.entry(leaf.rank).or_default();
        *sum = (sum.0 + line.packet, sum.1 + leaf.rate.bits_per_second() as f64 / 8.0);
    }
    let (mut packets, mut rates) = (0.0, 0.0);
    for sum in ranks.values_mut() {
        let rank = *sum;
        packets += rank.0;
        *sum = (packets / (line.rate - rates).max(1.0), 0.0);
        rates += rank.1;
    }
    let keeps = |leaf: &Bucket| {
        let saved = leaf.saves.get() as f64 * 8.0 / leaf.rate.bits_per_second() as f64;
        ranks[&leaf.rank].0 <= saved * outlasts
    };
    leaves.iter().map(keeps).collect()
}

/// Returns whether a class, which may lend, has a burst shorter than the pauses of a busy line.
fn is_short(class: &ClassSpec) -> bool {
    let rate = fluid::rate(class, "rate").unwrap_or(0.0);
    let burst = class.params.bytes("burst").map(|burst| burst.get() as f64 * 8.0);
    burst.is_some_and(|burst| burst < rate * PAUSE)
}

/// Divides in proportion to rates, level by level, as long as this gives each class its rate, since
/// a class within its rate precedes others whatever its parent's share; and as long as ranks do not
/// matter.
fn by_rates(tree: &Tree, buckets: &Buckets, link: f64) -> Vec<Option<f64>> {
    let count = buckets.leaves.len();
    let parts = fluid::parts(tree, link, &vec![Demand::Greedy; count], &vec![0.0; count]);
    let shares: Vec<f64> = parts.iter().map(|part| part.share).collect();
    let ranked = buckets.leaves.iter().any(|leaf| leaf.rank != buckets.leaves[0].rank);
    let has_room = has_room(tree, &shares);
    let holds = tree.classes().all(|(id, class)| {
        let rate = fluid::rate(class, "rate").unwrap_or(0.0);
        let (share, is_leaf) = (shares[id.index()], tree.leaf_of(id).is_some());
        let has_more = share > rate * (1.0 + SLACK);
        // A class does not get what its children may not use.
        let holds = share >= rate * (1.0 - SLACK) || (!is_leaf && !has_room[id.index()]);
        holds && !(ranked && is_leaf && has_more)
    });
    let share = |(leaf, _)| shares[tree.class_of(leaf).index()];
    tree.leaves().map(|leaf| holds.then(|| share(leaf))).collect()
}

/// Returns for each class whether a child of it may have more than its share.
fn has_room(tree: &Tree, shares: &[f64]) -> Vec<bool> {
    let mut has_room = vec![false; shares.len()];
    for (id, class) in tree.classes() {
        let Some(parent) = class.parent else { continue };
        has_room[parent.index()] |= shares[id.index()] < fluid::limit(class) * (1.0 - SLACK);
    }
    has_room
}

/// Returns the largest rate among a class and the ancestors that it may borrow from.
fn borrowed(tree: &Tree, leaf: ClassId, link: f64) -> f64 {
    let mut most = 0.0_f64;
    for class in tree.path(leaf) {
        let class = tree.class(class);
        most = most.max(fluid::rate(class, "rate").unwrap_or(0.0));
        if class.params.flag("borrow") == Some(false) {
            return most.min(link);
        }
    }
    link
}

/// Divides by link sharing, but gives at least what real-time curves promise, which no limit holds
/// back.
pub(super) fn of_curves(tree: &Tree, curves: &[Option<Curve>], link: f64) -> Effective {
    let floor = |curve: &Option<Curve>| curve.map_or(0.0, |it| it.m2.bits_per_second() as f64);
    let floors: Vec<f64> = curves.iter().map(floor).collect();
    let fits = floors.iter().sum::<f64>() <= link * (1.0 + 1e-9);
    let parts = fluid::parts(tree, link, &vec![Demand::Greedy; floors.len()], &floors);
    let held = held(tree, &parts, link);
    let share = |(leaf, _)| {
        let class = tree.class_of(leaf);
        let known = fits && !tree.path(class).any(|at| held[family(tree, at)]);
        known.then(|| parts[class.index()].share)
    };
    let alone = |((leaf, _), &floor): ((_, _), &f64)| {
        let path = tree.path(tree.class_of(leaf));
        let most = path.map(|at| fluid::limit(tree.class(at))).fold(link, f64::min);
        Some(most.max(floor).min(link))
    };
    Effective {
        greedy: tree.leaves().map(share).collect(),
        alone: tree.leaves().zip(&floors).map(alone).collect(),
    }
}

/// Returns the number of the class's parent; that of the link comes last.
fn family(tree: &Tree, class: ClassId) -> usize {
    tree.class(class).parent.map_or(tree.classes().len(), ClassId::index)
}

/// [algorithms §6.5] Returns for each family whether a class in it is passed over while it is at
/// its upper limit for the moment, although it gets less in the long run. It never catches up, so
/// the division among its siblings differs. A class that would have far more without its limit
/// simply gets its limit.
fn held(tree: &Tree, parts: &[fluid::Part], link: f64) -> Vec<bool> {
    let mut held = vec![false; parts.len() + 1];
    let leaf = |(leaf, _)| parts[tree.class_of(leaf).index()].share;
    let busy = tree.leaves().map(leaf).sum::<f64>() > link * FULL;
    for (id, _) in tree.classes() {
        let part = &parts[id.index()];
        // Link sharing gives nothing to a class that gets no more than its real-time curve.
        let shares = part.wants > part.floor;
        let may_bind = part.even < part.wants * CLEARLY_ABOVE || (busy && part.wants > link * FAST);
        held[family(tree, id)] |= shares && part.wants < link && may_bind;
    }
    held
}

fn in_proportion(weights: impl Iterator<Item = u64> + Clone, link: f64) -> Vec<Option<f64>> {
    let whole: f64 = weights.clone().map(|weight| weight as f64).sum();
    weights.map(|weight| Some(link * weight as f64 / whole)).collect()
}

/// The first rank takes all, and its leaves alternate packet by packet.
fn first_rank(ranks: &[u32], link: f64) -> Vec<Option<f64>> {
    let first = ranks.iter().min().copied().unwrap_or(0);
    let peers = ranks.iter().filter(|&&rank| rank == first).count() as f64;
    let part = |&rank: &u32| Some(if rank == first { link / peers } else { 0.0 });
    ranks.iter().map(part).collect()
}

/// Returns what each leaf is due of what it is offered, in bit/s: the fluid ideal, by weights where
/// the scheduler has them instead of rates, and by turns where it lends by turns.
pub fn due(plan: &LinkPlan, offered: &[f64]) -> Vec<f64> {
    let demand: Vec<_> = offered.iter().map(|&rate| Demand::Rate(rate)).collect();
    let weights: Option<Vec<u64>> = match service(plan) {
        Service::Rounds(rounds) => Some(rounds.gains),
        Service::Fluid(leaves) => Some(leaves.iter().map(|leaf| leaf.weight).collect()),
        Service::Buckets(Buckets { leaves, excess: Excess::Turns }) => {
            let given = excess::by_turns(&plan.tree, &leaves, offered, line(plan));
            return given.into_iter().map(|given| given.rate).collect();
        }
        _ => None,
    };
    let flat = weights.and_then(|weights| weighted(plan, &weights));
    let tree = flat.as_ref().unwrap_or(&plan.tree);
    let shares = fluid::shares(tree, &demand);
    tree.leaves().map(|(leaf, _)| shares[tree.class_of(leaf).index()]).collect()
}

/// Returns the leaves of a plan as siblings, with weights for rates.
fn weighted(plan: &LinkPlan, weights: &[u64]) -> Option<Tree> {
    let leaf = |((_, class), &weight): ((_, &ClassSpec), &u64)| {
        let rate = Rate::new(weight).unwrap_or(Rate::MIN);
        let params = Params::new().with("rate", Quantity::Rate(rate));
        ClassSpec { name: class.name.clone(), parent: None, params }
    };
    let leaves = plan.tree.leaves().zip(weights).map(leaf).collect();
    Tree::new(plan.tree.rate(), plan.tree.mtu(), Params::new(), leaves).ok()
}

/// The relative error that shares may have, since rates are rounded.
const SLACK: f64 = 1e-3;
/// From this part of its rate on a line is hardly ever idle, and from the next only now and then.
const BUSY: f64 = 0.95;
const FULL: f64 = 0.8;
/// Pauses are rarely as long as they can be.
const OUTLASTS: f64 = 2.0;
/// [algorithms §5.2] A default burst outlasts such a pause of a busy line, in seconds.
const PAUSE: f64 = 4e-3;
/// A limit that is more than this part of the line loses some of it if the line is busy.
const FAST: f64 = 0.25;
/// The ratio from which on a limit is clearly below a part.
const CLEARLY_ABOVE: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::parameter::Value;
    use weir_core::units::Bytes;

    /// Checks leaves of these Mbit/s and priorities under one class of 10 Mbit/s, the whole link.
    fn check(keyword: &'static str, leaves: &[(u64, u64)], expected: Option<f64>) {
        let rate = |megabits: u64| Rate::new(megabits * 1_000_000).expect("not zero");
        let class = |name: &str, parent, megabits| ClassSpec {
            name: name.to_owned(),
            parent,
            params: Params::new().with("rate", Quantity::Rate(rate(megabits))),
        };
        let mut classes = vec![class("all", None, 10)];
        for &(megabits, priority) in leaves {
            let mut leaf = class("leaf", Some(weir_core::ids::ClassId(0)), megabits);
            leaf.name = format!("leaf{}", classes.len());
            leaf.params.set("ceil", Value::Quantity(Quantity::Rate(rate(10))));
            for name in ["prio", "priority"] {
                leaf.params.set(name, Value::Quantity(Quantity::Number(priority)));
            }
            classes.push(leaf);
        }
        let tree = Tree::new(rate(10), Bytes::new(1514), Params::new(), classes).expect("a tree");
        let greedy = Effective::of(&LinkPlan::new(keyword, tree)).greedy;
        let first = greedy[0].map(|bits| (bits / 1e5).round() / 10.0);
        assert_eq!(first, expected, "{keyword} {leaves:?}");
    }

    #[test]
    fn rates_that_fill_their_parent_are_what_leaves_get() {
        check("htb", &[(2, 0), (5, 1), (3, 2)], Some(2.0));
        check("htb", &[(2, 0), (3, 0)], Some(4.0));
    }

    #[test]
    fn priority_takes_an_excess_that_the_fluid_ideal_does_not_know() {
        check("cbq", &[(2, 0), (3, 0)], Some(4.0));
        check("cbq", &[(2, 0), (3, 1)], None);
        check("cbq", &[(2, 0), (8, 1)], Some(2.0));
    }
}
