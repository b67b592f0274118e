//! What leaves get in the long run: while all want more than they get, and while one is alone.

use super::service;
use crate::fluid;
use weir_core::link::LinkPlan;
use weir_core::parameter::Params;
use weir_core::sched::service::{Bucket, Weighted};
use weir_core::sched::{ClassSpec, Service, Tree};
use weir_core::units::{Quantity, Rate};

/// What the leaves get in the fluid ideal, in bit/s and in the order of leaves.
#[derive(Clone, PartialEq, Debug)]
pub struct Effective {
    /// While every leaf always has something to send; `None` where that does not say it.
    pub greedy: Vec<Option<f64>>,
    /// While no other leaf has.
    pub alone: Vec<f64>,
}

impl Effective {
    /// Of the leaves of `plan`.
    pub fn of(plan: &LinkPlan) -> Self {
        let link = plan.tree.rate().bits_per_second() as f64;
        let flat = vec![link; plan.tree.leaf_count()];
        match service(plan) {
            Service::Arrivals { shaper } => {
                // Who offers more gets more: there is no share that all would have.
                let rate = shaper.map_or(link, |rate| rate.bits_per_second() as f64).min(link);
                let greedy = vec![None; flat.len()];
                Self { greedy, alone: vec![rate; flat.len()] }
            }
            Service::Ranks(ranks) => Self { greedy: first_rank(&ranks, link), alone: flat },
            Service::Rounds(rounds) => {
                Self { greedy: in_proportion(rounds.gains.iter().copied(), link), alone: flat }
            }
            Service::Fluid(leaves) => {
                let weights = leaves.iter().map(|&Weighted { weight, .. }| weight);
                Self { greedy: in_proportion(weights, link), alone: flat }
            }
            Service::Deadline(_) => Self { greedy: vec![None; flat.len()], alone: flat },
            Service::Buckets(rows) if ranked_excess(&rows, link) => {
                // Who goes first takes the excess, which the fluid ideal does not know.
                let Self { greedy, alone } = in_tree(plan);
                Self { greedy: vec![None; greedy.len()], alone }
            }
            Service::Unknown | Service::Buckets(_) | Service::Curves(_) => in_tree(plan),
        }
    }
}

/// Whether the rates of leaves leave some of the link over, or ask too much of it, and ranks say
/// who has it.
fn ranked_excess(leaves: &[Bucket], link: f64) -> bool {
    let ranked = leaves.iter().any(|leaf| leaf.rank != leaves[0].rank);
    let whole: f64 = leaves.iter().map(|leaf| leaf.rate.bits_per_second() as f64).sum();
    ranked && (whole - link).abs() > link * SLACK
}

fn in_tree(plan: &LinkPlan) -> Effective {
    let greedy = fluid::shares(&plan.tree, &vec![fluid::Demand::Greedy; plan.tree.leaf_count()]);
    let leaf = |(leaf, _)| plan.tree.class_of(leaf);
    let classes: Vec<_> = plan.tree.leaves().map(leaf).collect();
    let most = |&class| {
        let link = plan.tree.rate().bits_per_second() as f64;
        let limits = plan.tree.path(class).map(|at| fluid::limit(plan.tree.class(at)));
        limits.fold(link, f64::min)
    };
    Effective {
        greedy: classes.iter().map(|class| Some(greedy[class.index()])).collect(),
        alone: classes.iter().map(most).collect(),
    }
}

fn in_proportion(weights: impl Iterator<Item = u64> + Clone, link: f64) -> Vec<Option<f64>> {
    let whole: f64 = weights.clone().map(|weight| weight as f64).sum();
    weights.map(|weight| Some(link * weight as f64 / whole)).collect()
}

/// The first rank takes all, its leaves a packet each in turn.
fn first_rank(ranks: &[u32], link: f64) -> Vec<Option<f64>> {
    let first = ranks.iter().min().copied().unwrap_or(0);
    let peers = ranks.iter().filter(|&&rank| rank == first).count() as f64;
    let part = |&rank: &u32| Some(if rank == first { link / peers } else { 0.0 });
    ranks.iter().map(part).collect()
}

/// What each leaf is due of what it is offered, in bit/s: the fluid ideal, by weights where the
/// scheduler has them and not by rates.
pub fn due(plan: &LinkPlan, offered: &[f64]) -> Vec<f64> {
    let demand: Vec<_> = offered.iter().map(|&rate| fluid::Demand::Rate(rate)).collect();
    let weights: Option<Vec<u64>> = match service(plan) {
        Service::Rounds(rounds) => Some(rounds.gains),
        Service::Fluid(leaves) => Some(leaves.iter().map(|leaf| leaf.weight).collect()),
        _ => None,
    };
    let flat = weights.and_then(|weights| weighted(plan, &weights));
    let tree = flat.as_ref().unwrap_or(&plan.tree);
    let shares = fluid::shares(tree, &demand);
    tree.leaves().map(|(leaf, _)| shares[tree.class_of(leaf).index()]).collect()
}

/// The leaves of a plan side by side, with weights for rates.
fn weighted(plan: &LinkPlan, weights: &[u64]) -> Option<Tree> {
    let leaf = |((_, class), &weight): ((_, &ClassSpec), &u64)| {
        let rate = Rate::new(weight).unwrap_or(Rate::MIN);
        let params = Params::new().with("rate", Quantity::Rate(rate));
        ClassSpec { name: class.name.clone(), parent: None, params }
    };
    let leaves = plan.tree.leaves().zip(weights).map(leaf).collect();
    Tree::new(plan.tree.rate(), plan.tree.mtu(), Params::new(), leaves).ok()
}

/// The part of a link by which its classes' rates may miss it, for they are rounded.
const SLACK: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::parameter::Value;
    use weir_core::units::Bytes;

    /// Leaves of so many Mbit/s and priorities under one class of 10 Mbit/s, which is the link.
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
            leaf.params.set("prio", Value::Quantity(Quantity::Number(priority)));
            classes.push(leaf);
        }
        let tree = Tree::new(rate(10), Bytes::new(1514), Params::new(), classes).expect("a tree");
        let greedy = Effective::of(&LinkPlan::new(keyword, tree)).greedy;
        let first = greedy[0].map(|bits| (bits / 1e5).round() / 10.0);
        assert_eq!(first, expected, "{keyword} {leaves:?}");
    }

    #[test]
    fn who_goes_first_takes_an_excess_that_the_fluid_ideal_cannot_name() {
        check("htb", &[(2, 0), (3, 0)], Some(4.0));
        check("htb", &[(2, 0), (3, 1)], None);
        check("htb", &[(2, 0), (8, 1)], Some(2.0));
    }
}
