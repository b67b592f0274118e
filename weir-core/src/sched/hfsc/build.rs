//! How a tree of classes becomes tables of leaves, families and limits.

use super::curve::{Curves, Position, Slope, Spec};
use super::limit::{Limit, Limits, NONE};
use super::params::ClassPlan;
use super::real_time::RealTime;
use super::share::{Bend, Class, Family, LINK, LinkShare};
use super::{Hfsc, Leaf};
use crate::ids::ClassId;
use crate::parameter::BuildError;
use crate::sched::Tree;
use crate::sched::tournament::Order;
use alloc::vec::Vec;

/// What is known of all classes before any table is made.
struct Plan<'a> {
    tree: &'a Tree,
    classes: Vec<ClassPlan>,
    /// The family of its children by class; [`NONE`] for a leaf.
    families: Vec<u32>,
    /// Classes in the order of their slots, and the number of each family.
    slots: Vec<ClassId>,
    sizes: Vec<usize>,
    /// By class, whether it or something below it has an upper limit.
    limited: Vec<bool>,
}

/// Builds the tables for a tree.
pub(super) fn build(tree: &Tree) -> Result<Hfsc, BuildError> {
    let plan = Plan::new(tree)?;
    let mut curves = Curves::default();
    let mut slot_of_class = alloc::vec![NONE; tree.classes().len()];
    for (slot, class) in plan.slots.iter().enumerate() {
        slot_of_class[class.index()] = slot as u32;
    }
    let (mut leaves, mut guarantees) = (Vec::with_capacity(tree.leaf_count()), Vec::new());
    for (leaf, _) in tree.leaves() {
        let class = tree.class_of(leaf);
        let spec = plan.classes[class.index()].real_time;
        let guarantee = spec.map_or(NONE, |_| guarantees.len() as u32);
        guarantees.extend(spec.map(|spec| (leaf, spec)));
        leaves.push(Leaf { slot: slot_of_class[class.index()], guarantee, backlogged: false });
    }
    Ok(Hfsc {
        real_time: RealTime::new(&mut curves, &guarantees),
        share: plan.link_share(&mut curves, &slot_of_class),
        curves,
        leaves,
        slot_of_class,
        backlogged: 0,
        chosen_by_deadline: false,
    })
}

impl<'a> Plan<'a> {
    fn new(tree: &'a Tree) -> Result<Self, BuildError> {
        let mut plan = Self {
            tree,
            classes: Vec::with_capacity(tree.classes().len()),
            families: Vec::with_capacity(tree.classes().len()),
            slots: Vec::new(),
            sizes: alloc::vec![0],
            limited: alloc::vec![false; tree.classes().len()],
        };
        for (id, _) in tree.classes() {
            plan.classes.push(ClassPlan::new(tree, id)?);
            let interior = tree.leaf_of(id).is_none();
            plan.families.push(if interior { plan.sizes.len() as u32 } else { NONE });
            plan.sizes.resize(plan.sizes.len() + usize::from(interior), 0);
        }
        plan.place_classes();
        for (id, _) in tree.classes() {
            if plan.classes[id.index()].upper_limit.is_some() {
                tree.path(id).for_each(|class| plan.limited[class.index()] = true);
            }
        }
        Ok(plan)
    }

    /// Gives siblings neighbouring slots, in the order of their declaration.
    fn place_classes(&mut self) {
        for (id, _) in self.tree.classes() {
            let family = self.family_of(id) as usize;
            self.sizes[family] += 1;
        }
        let mut next = 0;
        let starts = self.sizes.iter().map(|&size| {
            next += size;
            next - size
        });
        let mut starts: Vec<usize> = starts.collect();
        self.slots.resize(next, ClassId(0));
        for (id, _) in self.tree.classes() {
            let start = &mut starts[self.family_of(id) as usize];
            self.slots[*start] = id;
            *start += 1;
        }
    }

    /// The family that a class is a child in.
    fn family_of(&self, id: ClassId) -> u32 {
        self.tree.class(id).parent.map_or(LINK, |parent| self.families[parent.index()])
    }

    fn link_share(&self, curves: &mut Curves, slot_of_class: &[u32]) -> LinkShare {
        let (order, lanes) = Order::new(&self.sizes);
        let mut families: Vec<_> = lanes.into_iter().map(Family::new).collect();
        for (id, _) in self.tree.classes().filter(|row| self.tree.leaf_of(row.0).is_none()) {
            let family = &mut families[self.families[id.index()] as usize];
            family.parent = slot_of_class[id.index()];
        }
        self.set_scales(&mut families);
        let limits = self.limits(curves, &mut families);
        let (mut classes, mut bends) = (Vec::with_capacity(self.slots.len()), Vec::new());
        let mut limit = 0;
        for &id in &self.slots {
            let scale = families[self.family_of(id) as usize].scale;
            let mut class = self.class(id, scale);
            if let Some(spec) = self.classes[id.index()].link_share.filter(|spec| !spec.is_linear())
            {
                class.bend = bends.len() as u32;
                bends.push(Bend { curve: curves.intern(spec, scale), position: Position::IDLE });
            }
            if self.limited[id.index()] {
                class.limit = limit;
                limit += 1;
            }
            class.is_plain = class.shares && class.bend == NONE && class.limit == NONE;
            classes.push(class);
        }
        LinkShare { classes, families, bends, limits, order, resuming: false }
    }

    fn class(&self, id: ClassId, scale: u8) -> Class {
        let spec = self.classes[id.index()].link_share;
        let slope = spec.map_or(Slope { mantissa: 0, shift: 0 }, |spec| {
            let Slope { mantissa, shift } = Slope::of(spec.m2);
            Slope { mantissa, shift: shift - scale }
        });
        let leaf = self.tree.leaf_of(id);
        Class {
            fraction: 0,
            slope,
            family: self.family_of(id),
            below: leaf.map_or(self.families[id.index()], |leaf| leaf.0),
            limit: NONE,
            bend: NONE,
            is_leaf: leaf.is_some(),
            is_plain: false,
            shares: spec.is_some(),
            active: false,
            resumes: false,
        }
    }

    /// The unit of a family's virtual time: of its fastest slope, the time of a byte or half of it.
    fn set_scales(&self, families: &mut [Family]) {
        let mut scales = alloc::vec![u8::MAX; families.len()];
        for (id, _) in self.tree.classes() {
            let scale = &mut scales[self.family_of(id) as usize];
            let own = self.classes[id.index()].link_share.map(Spec::shift_min);
            *scale = own.map_or(*scale, |own| own.min(*scale));
        }
        for (family, scale) in families.iter_mut().zip(scales) {
            // Without any curve there is nothing to scale.
            family.scale = if scale == u8::MAX { 0 } else { scale };
        }
    }

    fn limits(&self, curves: &mut Curves, families: &mut [Family]) -> Limits {
        let (mut table, mut sizes) = (Vec::new(), Vec::new());
        for (slot, &id) in self.slots.iter().enumerate().filter(|row| self.limited[row.1.index()]) {
            let lane = &mut families[self.family_of(id) as usize].limits;
            if *lane == NONE {
                *lane = sizes.len() as u32;
                sizes.push(0);
            }
            sizes[*lane as usize] += 1;
            let spec = self.classes[id.index()].upper_limit;
            let curve = spec.map_or(NONE, |spec| curves.intern(spec, 0));
            let mtu = self.tree.mtu();
            let slack = spec.map_or(Default::default(), |spec| spec.m2.transmit_time(mtu));
            table.push(Limit::new(curve, slot as u32, *lane, slack));
        }
        Limits::new(table, &sizes)
    }
}
