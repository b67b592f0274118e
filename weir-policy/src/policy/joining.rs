//! The facts against which a joining class is checked, kept so that a check takes no longer where
//! many classes have joined: names, sums of rates, and patterns of rules.
//!
//! Invariant: it equals what [`Joining::of`] makes of the policy; [`Policy::follow`] keeps it so.

use super::{Policy, class};
use std::collections::BTreeMap;
use weir_core::classify::Rule;
use weir_core::classify::cover::Covers;
use weir_core::classify::joined_covers::JoinedCovers;
use weir_core::ids::{ClassId, LeafId};
use weir_core::parameter::Params;
use weir_core::sched;
use weir_core::tree::{ClassSpec, Tree};
use weir_core::units::Rate;

/// Sums, names and rules of a policy's classes: see the module.
#[derive(Clone, Debug)]
pub struct Joining {
    /// Finds rules of the file that cover another one.
    fixed: Covers,
    joined: JoinedCovers,
    /// The classes of the file, by their names.
    of_file: Vec<ClassId>,
    /// The leaves of classes at places.
    names: BTreeMap<String, LeafId>,
    /// Whether the scheduler's classes have rates.
    is_rated: bool,
    /// By the class, or the link, that has a rate, what the classes below it are promised.
    sums: BTreeMap<Option<ClassId>, Promised>,
}

/// The sum of the rates of some classes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Promised {
    /// The sum of their rates in bit/s.
    pub rate: u128,
    /// How many they are.
    pub count: usize,
}

impl Joining {
    /// Collects the facts of a policy with all its places.
    pub(super) fn of(policy: &Policy) -> Self {
        let tree = &policy.link.tree;
        let entry = sched::find(policy.link.scheduler).expect("the policy was read");
        // Places are the last classes of the tree.
        let count = match policy.has_places() {
            true => tree.class_of(policy.first_place).index(),
            false => tree.classes().len(),
        };
        let mut of_file: Vec<_> = tree.classes().take(count).map(|(id, _)| id).collect();
        of_file.sort_by_key(|id| &tree.class(*id).name);
        let mut joining = Self {
            fixed: Covers::of(&policy.rules),
            joined: JoinedCovers::default(),
            of_file,
            names: BTreeMap::new(),
            is_rated: class::has_rate(entry.descriptor),
            sums: BTreeMap::new(),
        };
        for (leaf, rules) in &policy.joined {
            joining.joined.insert(*leaf, rules.rules());
        }
        let seated = (policy.first_place.0..tree.leaf_count() as u32).map(LeafId);
        for leaf in seated.filter(|leaf| !tree.is_vacant(*leaf)) {
            joining.names.insert(tree.leaf(leaf).name.clone(), leaf);
        }
        for (_, class) in tree.classes().filter(|(_, class)| !class.name.is_empty()) {
            joining.promise(tree, class);
        }
        joining
    }

    /// Returns the class of this name, of the file or at a place.
    pub(super) fn class(&self, tree: &Tree, name: &str) -> Option<ClassId> {
        let name_of = |id: &ClassId| tree.class(*id).name.as_str();
        let found = self.of_file.binary_search_by_key(&name, name_of);
        let of_file = found.ok().map(|at| self.of_file[at]);
        of_file.or_else(|| self.leaf(name).map(|leaf| tree.class_of(leaf)))
    }

    /// Returns the leaf of a class at a place.
    pub(super) fn leaf(&self, name: &str) -> Option<LeafId> {
        self.names.get(name).copied()
    }

    /// Returns what the classes below `owner` are promised.
    pub(super) fn promised(&self, owner: Option<ClassId>) -> Promised {
        self.sums.get(&owner).copied().unwrap_or_default()
    }

    /// Returns the leaf with a rule that takes all packets of `rule`, which has not joined yet.
    pub(super) fn cover(&self, policy: &Policy, rule: &Rule) -> Option<LeafId> {
        let fixed = self.fixed.first(&policy.rules, &rule.matches);
        fixed
            .map(|at| policy.rules[at].leaf)
            .or_else(|| self.joined.first((rule.leaf, &rule.matches), |leaf| policy.rules_of(leaf)))
    }

    /// Forgets the class of a leaf.
    pub(super) fn leave(&mut self, tree: &Tree, leaf: LeafId, rules: &[Rule]) {
        let class = tree.leaf(leaf);
        self.joined.remove(leaf, rules);
        self.names.remove(&class.name);
        if let Some((owner, rate)) = promise_of(tree, class)
            && let Some(sum) = self.sums.get_mut(&owner)
        {
            *sum = sum.without(rate);
        }
    }

    /// Adds the class of a leaf.
    pub(super) fn join(&mut self, tree: &Tree, leaf: LeafId, rules: &[Rule]) {
        let class = tree.leaf(leaf);
        self.joined.insert(leaf, rules);
        self.names.insert(class.name.clone(), leaf);
        self.promise(tree, class);
    }

    fn promise(&mut self, tree: &Tree, class: &ClassSpec) {
        if let Some((owner, rate)) = promise_of(tree, class).filter(|_| self.is_rated) {
            let sum = self.sums.entry(owner).or_default();
            *sum = sum.with(rate);
        }
    }
}

impl Promised {
    pub(super) fn with(self, rate: u64) -> Self {
        Self { rate: self.rate + u128::from(rate), count: self.count + 1 }
    }

    pub(super) fn without(self, rate: u64) -> Self {
        Self { rate: self.rate - u128::from(rate), count: self.count - 1 }
    }
}

/// Returns the rate of a class in bit/s, and the class above it, or the link, that has to have it.
fn promise_of(tree: &Tree, class: &ClassSpec) -> Option<(Option<ClassId>, u64)> {
    Some((owner_of(tree, class.parent), rate(&class.params)?))
}

/// Returns the class with a rate from `from` upwards; `None` is the link.
pub(super) fn owner_of(tree: &Tree, from: Option<ClassId>) -> Option<ClassId> {
    let mut up = std::iter::successors(from, |at| tree.class(*at).parent);
    up.find(|at| rate(&tree.class(*at).params).is_some())
}

pub(super) fn rate(params: &Params) -> Option<u64> {
    params.rate("rate").map(Rate::bits_per_second)
}
