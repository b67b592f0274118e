//! The tree of classes of a lane, as readers of its status are told: it changes only with the
//! policy.
//!
//! Invariant: a class comes behind its parent in a path, and there are at most [`DEPTH_MAX`] of
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_core::ids::{ClassId, LeafId};
use weir_core::link::LinkPlan;
use weir_core::sched::{ClassSpec, DEPTH_MAX};
use weir_policy::Policy;
use weir_policy::calculus::Effective;

use super::facts::{Facts, shared};
use super::recent::{InnerStatus, PolicyStatus, Sums};
use super::tenants::Tenants;

/// The classes of a policy, with what they may have.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    identity: String,
    scheduler: String,
    rate_bps: f64,
    classes: Vec<Class>,
    /// The class of each leaf.
    leaves: Vec<u32>,
    /// The classes at places, which come and go.
    tenants: Arc<Tenants>,
}

#[derive(Clone, Debug)]
struct Class {
    parent: Option<u32>,
    facts: Facts,
}

impl Shape {
    /// That of a policy.
    pub fn of(policy: &Policy) -> Self {
        let shape = Self::of_plan(&policy.link);
        let facts = |leaf: LeafId| {
            let class = shape.leaves[leaf.index()] as usize;
            shape.classes[class].facts.clone()
        };
        let tenants = Arc::new(Tenants::of(policy, facts));
        Self { identity: policy.identity.to_string(), tenants, ..shape }
    }

    /// That of a plan for which there is no policy.
    pub fn of_plan(plan: &LinkPlan) -> Self {
        let tree = &plan.tree;
        let shares = shares(plan);
        let mut known = BTreeSet::new();
        let class = |(id, spec): (ClassId, &ClassSpec)| {
            let own = Facts::of(spec, shares[id.index()]);
            let parameters = shared(&mut known, &own.parameters);
            let facts = Facts { parameters, ..own };
            Class { parent: spec.parent.map(|parent| parent.0), facts }
        };
        Self {
            identity: String::new(),
            scheduler: plan.scheduler.to_owned(),
            rate_bps: tree.rate().bits_per_second() as f64,
            classes: tree.classes().map(class).collect(),
            leaves: tree.leaves().map(|(leaf, _)| tree.class_of(leaf).0).collect(),
            tenants: Arc::default(),
        }
    }

    /// Returns every class in the order of declaration, each with the place of its parent.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = (Option<u32>, &Facts)> {
        self.classes.iter().map(|class| (class.parent, &class.facts))
    }

    /// Returns the classes at places.
    pub(crate) fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Returns what is told of the policy, in force for `age_ns`.
    pub fn policy(&self, age_ns: u64) -> PolicyStatus {
        PolicyStatus {
            identity: self.tenants.identity().unwrap_or_else(|| self.identity.clone()),
            age_ns,
            scheduler: self.scheduler.clone(),
            rate_bps: self.rate_bps,
        }
    }

    /// Returns what is told of a leaf; nothing where the tree is not known.
    pub(super) fn leaf(&self, leaf: LeafId) -> Option<&Facts> {
        Some(&self.classes[*self.leaves.get(leaf.index())? as usize].facts)
    }

    /// Returns the classes above a leaf, its parent first.
    pub(super) fn upwards(&self, leaf: LeafId) -> impl Iterator<Item = u32> + '_ {
        let own = self.leaves.get(leaf.index()).map(|class| *class as usize);
        let parent = own.and_then(|own| self.classes[own].parent);
        std::iter::successors(parent, |at| self.classes[*at as usize].parent).take(DEPTH_MAX)
    }

    /// Returns the classes above a leaf, the nearest to the link first.
    pub(super) fn above(&self, leaf: LeafId) -> Vec<u32> {
        let mut above: Vec<_> = self.upwards(leaf).collect();
        above.reverse();
        above
    }

    /// Returns the classes above some leaves, each behind its parent, with their places and the
    /// sums of each class.
    pub(super) fn inner(&self, leaves: impl Iterator<Item = LeafId>, sums: &[Sums]) -> Inner {
        let mut inner = Inner { places: vec![None; self.classes.len()], rows: Vec::new() };
        for class in leaves.flat_map(|leaf| self.above(leaf)) {
            let Class { parent, facts } = &self.classes[class as usize];
            if inner.places[class as usize].is_none() {
                inner.places[class as usize] = Some(inner.rows.len() as u32);
                let parent = parent.and_then(|parent| inner.places[parent as usize]);
                let sums = sums[class as usize];
                inner.rows.push(facts.told(parent, sums));
            }
        }
        inner
    }
}

/// The classes with children, as rows of the status.
#[derive(Clone, Debug, Default)]
pub(super) struct Inner {
    /// The place of each class in the rows.
    places: Vec<Option<u32>>,
    pub rows: Vec<InnerStatus>,
}

impl Inner {
    /// Returns the place of a class.
    pub fn place(&self, class: u32) -> Option<u32> {
        self.places.get(class as usize).copied().flatten()
    }
}

/// Returns what each class gets while all want more than they get, in bit/s; where that depends on
/// the traffic, its rate.
fn shares(plan: &LinkPlan) -> Vec<Option<f64>> {
    let tree = &plan.tree;
    let rate = |(_, spec): (ClassId, &ClassSpec)| {
        spec.params.rate("rate").map(|rate| rate.bits_per_second() as f64)
    };
    let rates = tree.classes().map(rate);
    if tree.leaf_count() > SHARES_MAX {
        return rates.collect();
    }
    let greedy = Effective::of(plan).greedy;
    let mut shares = vec![Some(0.0); tree.classes().len()];
    for (leaf, _) in tree.leaves() {
        for class in tree.path(tree.class_of(leaf)) {
            let share = &mut shares[class.index()];
            *share = share.zip(greedy[leaf.index()]).map(|(sum, own)| sum + own);
        }
    }
    shares.into_iter().zip(rates).map(|(share, rate)| share.or(rate)).collect()
}

/// With more leaves the shares are the classes' rates, so that a large policy is not computed at
/// each change.
const SHARES_MAX: usize = 4096;
