//! The classes of an ALTQ link and their places in the tree [algorithms §3.4].
//!
//! Invariant: the root is the one class without a parent, if there is only one and it has children;
//! otherwise it is a class of the whole link that no policy names, the last in the list.

use super::clock::Stamp;
use super::params::{ClassPlan, Switches};
use super::spec::Limits;
use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::sched::Tree;
use crate::units::Instant;
use alloc::vec::Vec;

/// A class as the scheduler sees it.
pub(super) struct Class {
    /// The class above; [`NONE`] for the root.
    pub parent: u32,
    /// The class that lends to it: its parent, or [`NONE`].
    pub lender: u32,
    pub children: Vec<u32>,
    pub leaf: Option<LeafId>,
    /// 0 for a leaf, else one more than the deepest child's.
    pub depth: u8,
    pub priority: u8,
    /// bit/s.
    pub rate: u64,
    pub limits: Limits,
    pub meter: Meter,
    /// Suspended until its timer fires, or until it is asked after its undertime.
    pub sleeping: bool,
    /// When its timer fires, while it sleeps.
    pub timer: Instant,
    /// When it was last woken.
    pub released: Instant,
    /// Packets that wait.
    pub backlog: u32,
    /// The length of the first packet, `None` if none waits.
    pub head: Option<i64>,
}

/// What the estimator knows of a class: times in µs, averages in 1/32 µs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meter {
    pub avgidle: i64,
    /// Until when the class is overlimit; unset if it is not.
    pub undertime: Stamp,
    /// The estimated end of transmission of its last packet.
    pub last: Stamp,
    /// What its last packet takes at its rate.
    pub last_packet_time: i64,
}

/// All classes, numbered as in the policy.
pub(super) struct Classes {
    pub list: Vec<Class>,
    pub root: usize,
    of_leaf: Vec<u32>,
    /// How many the policy names.
    named: usize,
}

impl Classes {
    /// The classes of `tree`.
    pub fn build(tree: &Tree, switches: &Switches) -> Result<Self, BuildError> {
        let (top, whole) = (only_top(tree), tree.rate());
        let rate = top.and_then(|top| tree.class(top).params.rate("rate"));
        // A root above the line's rate is refused like any other class.
        let bandwidth = rate.map_or(whole, |rate| rate.min(whole)).bits_per_second();
        let plan = |(id, _)| ClassPlan::new(tree, id, bandwidth, switches.minidle_scaled);
        let mut plans = tree.classes().map(plan).collect::<Result<Vec<_>, _>>()?;
        let root = top.map_or(plans.len(), ClassId::index);
        if root == plans.len() {
            plans.push(ClassPlan::root(tree, switches.minidle_scaled));
        }
        let mut list: Vec<_> = plans.iter().map(Class::new).collect();
        for (id, spec) in tree.classes().filter(|(id, _)| id.index() != root) {
            let parent = spec.parent.map_or(root, ClassId::index);
            list[parent].children.push(id.0);
            let class = &mut list[id.index()];
            class.parent = parent as u32;
            class.lender = if plans[id.index()].borrow { class.parent } else { NONE };
            class.leaf = tree.leaf_of(id);
        }
        list[root].priority = 0;
        let of_leaf: Vec<_> = tree.leaves().map(|(leaf, _)| tree.class_of(leaf).0).collect();
        let mut this = Self { list, root, of_leaf, named: tree.classes().len() };
        for leaf in 0..this.of_leaf.len() {
            this.deepen(this.of_leaf[leaf]);
        }
        Ok(this)
    }

    /// Takes account of a leaf in the depths of all above it.
    fn deepen(&mut self, leaf: u32) {
        let (mut at, mut depth) = (self.list[leaf as usize].parent, 1);
        while at != NONE {
            let class = &mut self.list[at as usize];
            class.depth = class.depth.max(depth);
            (at, depth) = (class.parent, depth + 1);
        }
    }

    /// The class of a leaf.
    pub fn of_leaf(&self, leaf: LeafId) -> usize {
        self.of_leaf[leaf.index()] as usize
    }

    /// The class with this number.
    pub fn at(&self, class: u32) -> &Class {
        &self.list[class as usize]
    }

    /// What the policy calls the class, if it does.
    pub fn name(&self, class: u32) -> Option<ClassId> {
        ((class as usize) < self.named).then_some(ClassId(class))
    }

    /// Whether somebody lends to the class.
    pub fn may_borrow(&self, class: usize) -> bool {
        self.list[class].lender != NONE
    }

    /// The class itself and those that lend to it, one through the other.
    pub fn lenders(&self, class: usize) -> impl Iterator<Item = u32> {
        let above = |&at: &u32| Some(self.at(at).lender).filter(|&lender| lender != NONE);
        core::iter::successors(Some(class as u32), above)
    }
}

impl Class {
    fn new(plan: &ClassPlan) -> Self {
        Self {
            parent: NONE,
            lender: NONE,
            children: Vec::new(),
            leaf: None,
            depth: 0,
            priority: plan.priority,
            rate: plan.rate,
            limits: plan.limits,
            meter: Meter {
                avgidle: plan.limits.maxidle,
                undertime: Stamp::UNSET,
                last: Stamp::UNSET,
                last_packet_time: 0,
            },
            sleeping: false,
            timer: Instant::ZERO,
            released: Instant::ZERO,
            backlog: 0,
            head: None,
        }
    }
}

/// The one class without a parent, if it has children.
fn only_top(tree: &Tree) -> Option<ClassId> {
    let mut tops = tree.classes().filter(|(_, class)| class.parent.is_none());
    let (only, _) = tops.next().filter(|(id, _)| tree.leaf_of(*id).is_none())?;
    tops.next().is_none().then_some(only)
}

/// No class.
pub(super) const NONE: u32 = u32::MAX;
