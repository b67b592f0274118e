//! How a tree of classes becomes tables of leaves, families and limits.

use super::Hfsc;
use super::curve::{Curves, Position, Progress, Slope, Spec};
use super::family::{Family, Times};
use super::leaf::{Kind, Kinds, Leaf, Mark, Own};
use super::limit::{Limit, Limits, NONE};
use super::params::ClassPlan;
use super::real_time::RealTime;
use super::share::{Child, LINK, LinkShare, ORIGIN, Rare};
use crate::ids::ClassId;
use crate::parameter::BuildError;
use crate::sched::Tree;
use alloc::vec::Vec;

/// What is known of all classes before any table is made.
struct Plan<'a> {
    tree: &'a Tree,
    classes: Vec<ClassPlan>,
    /// By class, whether it or something below it has an upper limit.
    limited: Vec<bool>,
    /// The class of each family, [`None`] for the link's own children; the upper ones first.
    families: Vec<Option<ClassId>>,
    /// By family, where its children are in `children`, and where the next family's are.
    starts: Vec<usize>,
    /// Siblings in the order of their declaration.
    children: Vec<ClassId>,
}

/// What becomes of a plan.
struct Tables {
    share: LinkShare,
    kinds: Kinds,
    /// Real-time curves of two slopes.
    bends: Vec<Progress>,
    /// Of the families until now, whether the classes above are plain.
    are_plain: Vec<bool>,
}

/// Builds the tables for a tree.
pub(super) fn build(tree: &Tree) -> Result<Hfsc, BuildError> {
    let plan = Plan::new(tree)?;
    let mut tables = Tables::new(&plan);
    for family in 0..plan.families.len() {
        tables.add_family(&plan, family);
    }
    tables.share.top = plan.top();
    let mut interior: Vec<_> = plan.families.iter().zip(0..).collect();
    interior.sort_unstable();
    let interior = interior.into_iter().filter_map(|(&class, family)| Some((class?, family)));
    let Tables { mut share, kinds, bends, .. } = tables;
    share.limits = plan.limits(&mut share);
    share.kinds = kinds.finish();
    share.times.finish();
    let real_time = RealTime::new(share.leaves.len(), bends);
    Ok(Hfsc {
        share,
        real_time,
        backlogged: 0,
        chosen_by_deadline: false,
        interior: interior.collect(),
    })
}

impl<'a> Plan<'a> {
    fn new(tree: &'a Tree) -> Result<Self, BuildError> {
        let mut classes = Vec::with_capacity(tree.classes().len());
        for (id, _) in tree.classes() {
            classes.push(ClassPlan::new(tree, id)?);
        }
        let mut limited = alloc::vec![false; classes.len()];
        for (id, _) in tree.classes().filter(|row| classes[row.0.index()].upper_limit.is_some()) {
            tree.path(id).for_each(|class| limited[class.index()] = true);
        }
        let (families, starts, children) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = Self { tree, classes, limited, families, starts, children };
        plan.add_families();
        Ok(plan)
    }

    /// Puts siblings beside one another, one family after the other from the link down.
    fn add_families(&mut self) {
        // By class, 0 being the link, where its children begin.
        let place = |parent: Option<ClassId>| parent.map_or(0, |parent| parent.index() + 1);
        let mut starts = alloc::vec![0; self.classes.len() + 2];
        for (_, class) in self.tree.classes() {
            starts[place(class.parent) + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut by_parent = alloc::vec![ClassId(0); self.classes.len()];
        let mut next = starts.clone();
        for (id, class) in self.tree.classes() {
            let at = &mut next[place(class.parent)];
            by_parent[*at] = id;
            *at += 1;
        }
        self.families.push(None);
        let mut family = 0;
        while let Some(&parent) = self.families.get(family) {
            self.starts.push(self.children.len());
            for &id in &by_parent[starts[place(parent)]..starts[place(parent) + 1]] {
                self.children.push(id);
                if self.tree.leaf_of(id).is_none() {
                    self.families.push(Some(id));
                }
            }
            family += 1;
        }
        self.starts.push(self.children.len());
    }

    fn children(&self, family: usize) -> &[ClassId] {
        &self.children[self.starts[family]..self.starts[family + 1]]
    }

    /// The unit of a family's virtual time: of its fastest slope, the time of a byte or half of it.
    fn scale(&self, family: usize) -> u8 {
        let own = |id: &ClassId| self.classes[id.index()].link_share.map(Spec::shift_min);
        // Without any curve there is nothing to scale.
        self.children(family).iter().filter_map(own).min().unwrap_or(0)
    }

    /// Whether a class has a link-share curve of one slope, and no limit on it or below.
    fn is_plain(&self, id: ClassId) -> bool {
        let is_straight = self.classes[id.index()].link_share.is_some_and(Spec::is_linear);
        is_straight && !self.limited[id.index()]
    }

    /// The first family below the link where somebody has siblings, or is not plain.
    fn top(&self) -> u32 {
        let mut family = 0;
        // The first child with children of the first such family is that of the second.
        while let [only] = self.children(family)
            && self.tree.leaf_of(*only).is_none()
            && self.is_plain(*only)
        {
            family += 1;
        }
        family as u32
    }

    /// The tables of limits, and where each family finds those on its children.
    fn limits(&self, share: &mut LinkShare) -> Limits {
        let (mut table, mut sizes) = (Vec::new(), Vec::new());
        if self.limited.contains(&true) {
            share.lanes = alloc::vec![NONE; self.families.len()];
        }
        for family in 0..self.families.len() {
            let slots = share.families[family].start..;
            let lane = sizes.len() as u32;
            let rows = self.children(family).iter().zip(slots);
            let rows = rows.filter(|row| self.limited[row.0.index()]);
            let before = table.len();
            for (&id, slot) in rows {
                let place = share.place(share.child(family as u32, slot));
                share.rare[place].limit = table.len() as u32;
                let spec = self.classes[id.index()].upper_limit;
                let curve = spec.map_or(NONE, |spec| share.curves.intern(spec, 0));
                let mtu = self.tree.mtu();
                let slack = spec.map_or(Default::default(), |spec| spec.m2.transmit_time(mtu));
                table.push(Limit::new(curve, slot, lane, slack));
            }
            if table.len() > before {
                share.lanes[family] = lane;
                share.families[family].is_limited = true;
                sizes.push(table.len() - before);
            }
        }
        Limits::new(table, &sizes)
    }
}

impl Tables {
    fn new(plan: &Plan) -> Self {
        let own = Own { slot: NONE, family: NONE, fraction: 0, kind: NONE };
        let mut families = Vec::with_capacity(plan.families.len());
        families.resize(plan.families.len(), Family::new(own, ORIGIN));
        let mut leaves = Vec::with_capacity(plan.tree.leaf_count());
        leaves.resize(plan.tree.leaf_count(), Leaf::new(own));
        let is_bent = |spec: Option<Spec>| spec.is_some_and(|spec| !spec.is_linear());
        let is_rare = |class: &ClassPlan| {
            class.upper_limit.is_some() || is_bent(class.link_share) || is_bent(class.real_time)
        };
        let rare = if plan.classes.iter().any(is_rare) { leaves.len() + families.len() } else { 0 };
        let share = LinkShare {
            leaves,
            families,
            kinds: Vec::new(),
            times: Times::new(),
            top: LINK,
            mixed: Vec::new(),
            rare: alloc::vec![Rare::NOTHING; rare],
            curves: Curves::default(),
            bends: Vec::new(),
            limits: Limits::new(Vec::new(), &[]),
            lanes: Vec::new(),
            resuming: false,
            owing: Vec::new(),
            resumes: Vec::new(),
        };
        Self { share, kinds: Kinds::default(), bends: Vec::new(), are_plain: alloc::vec![true] }
    }

    fn add_family(&mut self, plan: &Plan, number: usize) {
        let scale = plan.scale(number);
        let mut family = self.share.families[number];
        let ids = plan.children(number);
        (family.size, family.scale) = (ids.len() as u32, scale);
        self.share.times.add(&mut family);
        let mut children = Vec::with_capacity(ids.len());
        for &id in ids {
            let is_plain = self.are_plain[number] && plan.is_plain(id);
            if let Some(leaf) = plan.tree.leaf_of(id) {
                children.push(Child::leaf(leaf.0));
                if is_plain && plan.classes[id.index()].real_time.is_none_or(Spec::is_linear) {
                    self.share.leaves[leaf.index()].mark(Mark::PLAIN);
                }
            } else {
                // Families are numbered in the order in which their classes come here.
                children.push(Child::family(self.are_plain.len() as u32));
                self.are_plain.push(is_plain);
            }
        }
        let follows = |pair: &[Child]| pair[1].number() == pair[0].number() + 1;
        family.is_mixed = !children.windows(2).all(follows);
        if family.is_mixed {
            family.first = self.share.mixed.len() as u32;
            self.share.mixed.extend_from_slice(&children);
        } else {
            family.first = children[0].number();
        }
        self.share.families[number] = family;
        for ((&id, &child), slot) in ids.iter().zip(&children).zip(family.start..) {
            self.add_class(plan, id, child, (number as u32, slot, scale));
        }
    }

    fn add_class(
        &mut self,
        plan: &Plan,
        id: ClassId,
        child: Child,
        (family, slot, scale): (u32, u32, u8),
    ) {
        let ClassPlan { real_time, link_share, .. } = plan.classes[id.index()];
        let slope = |spec: Option<Spec>| spec.map_or(Slope::NONE, |spec| Slope::of(spec.m2));
        let share = slope(link_share);
        let share = if link_share.is_some() { share.scaled(scale) } else { share };
        let kind = self.kinds.intern(Kind { guarantee: slope(real_time), share });
        let own = Own { slot, family, fraction: 0, kind };
        self.share.set_own(child, own);
        let place = self.share.place(child);
        if let Some(spec) = link_share.filter(|spec| !spec.is_linear()) {
            self.share.rare[place].bend = self.share.bends.len() as u32;
            let curve = self.share.curves.intern(spec, scale);
            self.share.bends.push(Progress { curve, position: Position::IDLE });
        }
        if let Ok(leaf) = child.either() {
            let this = &mut self.share.leaves[leaf as usize];
            if link_share.is_some() {
                this.mark(Mark::SHARES);
            }
            if real_time.is_some() {
                this.mark(Mark::GUARANTEED);
            }
            if let Some(spec) = real_time.filter(|spec| !spec.is_linear()) {
                this.mark(Mark::BENT);
                self.share.rare[place].guarantee = self.bends.len() as u32;
                let curve = self.share.curves.intern(spec, 0);
                self.bends.push(Progress { curve, position: Position::IDLE });
            }
        }
    }
}
