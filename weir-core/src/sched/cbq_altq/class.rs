//! The classes of an ALTQ link and their places in the tree [algorithms §3.4].
//!
//! Classes are numbered by [`Families`], leaves first. Invariant: the root is the one class without
//! a parent, if there is only one and it has children; otherwise it is a class of the whole link
//! that the policy does not name, the last in the list.

use super::clock::{Stamp, Stored};
use super::params::{ClassPlan, Switches};
use super::spec::Limits;
use crate::ids::{ClassId, LeafId};
use crate::order::families::Families;
use crate::parameter::BuildError;
use crate::sched::Tree;
use crate::state::state;
use crate::units::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The state of a class, in one cache line.
pub(super) struct Class {
    avgidle: i64,
    undertime: Stored,
    last: Stored,
    /// When it was last woken; while it is suspended, when its timer fires.
    pub event: Instant,
    /// The bytes that are left of its turn; a debt if negative.
    pub credit: i64,
    last_packet_time: u32,
    pub backlog: u32,
    /// The length of the first packet, and flags.
    state: u32,
    /// The class above; [`NONE`] for the root.
    pub parent: u32,
    /// The next class of its circle.
    pub next: u32,
    plan: u32,
}

/// The parameters that classes with equal parameters share.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub place: Place,
    /// The bytes that a class gains per turn.
    pub weight: i64,
}

/// The place in the tree and the rate of classes that share a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// 0 for a leaf, else one more than the deepest child's.
    pub depth: u8,
    pub priority: u8,
    /// Whether the parent lends to it.
    pub borrow: bool,
    /// In bit/s.
    pub rate: u64,
    pub limits: Limits,
}

/// The state of a class's estimator: times in µs, averages in 1/32 µs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meter {
    pub avgidle: i64,
    /// Until when the class is overlimit; unset if it is not.
    pub undertime: Stamp,
    /// The estimated end of transmission of its last packet.
    pub last: Stamp,
    /// The time of its last packet at its rate, saturated to 32 bits, as every offtime is.
    pub last_packet_time: i64,
}

pub(super) struct Classes {
    pub list: Vec<Class>,
    pub plans: Vec<Plan>,
    pub root: usize,
    families: Families,
    children: Children,
}

/// The children of each class that has some.
#[derive(Default)]
struct Children {
    /// The first child and the one after the last: as numbers, or as places in the table.
    ranges: Vec<(u32, u32)>,
    /// Empty where all siblings are neighbours.
    table: Vec<u32>,
}

impl Classes {
    /// Builds the classes of `tree`.
    pub fn build(tree: &Tree, switches: &Switches) -> Result<Self, BuildError> {
        let (top, whole) = (only_top(tree), tree.rate());
        let rate = top.and_then(|top| tree.class(top).params.rate("rate"));
        // A root above the line's rate is refused like any other class.
        let bandwidth = rate.map_or(whole, |rate| rate.min(whole)).bits_per_second();
        let plan = |(id, _)| ClassPlan::new(tree, id, bandwidth, switches.minidle_scaled);
        let written = tree.classes().map(plan).collect::<Result<Vec<_>, _>>()?;
        let families = Families::new(tree);
        let root = top.map_or(written.len(), |top| families.number(top) as usize);
        let count = written.len().max(root + 1);
        let mut parents = alloc::vec![root as u32; count];
        for (id, spec) in tree.classes() {
            if let Some(parent) = spec.parent {
                parents[families.number(id) as usize] = families.number(parent);
            }
        }
        parents[root] = NONE;
        let depths = depths(&parents, tree.leaf_count());
        let unnamed =
            (root == written.len()).then(|| ClassPlan::root(tree, switches.minidle_scaled));
        let order = families.order(tree).map(|id| &written[id.index()]);
        let (mut list, mut plans) = (Vec::with_capacity(count), Vec::new());
        let mut alike = BTreeMap::new();
        for (number, written) in order.chain(&unnamed).enumerate() {
            let is_root = number == root;
            let place = Place {
                depth: depths[number],
                priority: if is_root { 0 } else { written.priority },
                borrow: written.borrow && !is_root,
                rate: written.rate,
                limits: written.limits,
            };
            let plan = *alike.entry(place).or_insert(plans.len() as u32);
            if plan as usize == plans.len() {
                plans.push(Plan { place, weight: 0 });
            }
            list.push(Class::new(parents[number], plan, place.limits.maxidle));
        }
        plans.shrink_to_fit();
        let children = Children::new(&parents, tree.leaf_count());
        Ok(Self { list, plans, root, families, children })
    }

    /// Returns the class of a leaf.
    pub fn of_leaf(&self, leaf: LeafId) -> usize {
        leaf.index()
    }

    /// Returns the leaf that a class is, if it is one.
    pub fn leaf(&self, class: usize) -> Option<LeafId> {
        (class < self.families.leaves()).then_some(LeafId(class as u32))
    }

    /// Returns the number of the class that was declared as `id`.
    pub fn number(&self, id: ClassId) -> usize {
        self.families.number(id) as usize
    }

    /// Returns the class with this number.
    pub fn at(&self, class: u32) -> &Class {
        &self.list[class as usize]
    }

    /// Returns the class's place in the tree.
    pub fn place(&self, class: u32) -> &Place {
        &self.plan(class).place
    }

    /// Returns the class's plan.
    pub fn plan(&self, class: u32) -> &Plan {
        &self.plans[self.at(class).plan as usize]
    }

    /// Returns the class's plan for mutation.
    pub fn plan_mut(&mut self, class: u32) -> &mut Plan {
        &mut self.plans[self.list[class as usize].plan as usize]
    }

    /// Returns a class for mutation, and its plan.
    pub fn at_with_plan(&mut self, class: usize) -> (&mut Class, &Plan) {
        let class = &mut self.list[class];
        let plan = &self.plans[class.plan as usize];
        (class, plan)
    }

    /// Returns the policy's id of the class, if it has children and the policy declares it.
    pub fn name(&self, class: u32) -> Option<ClassId> {
        self.families.declared(class as usize)
    }

    /// Returns whether the class has a lender.
    pub fn may_borrow(&self, class: usize) -> bool {
        self.place(class as u32).borrow
    }

    /// Returns the class that lends to it: its parent, or `None`.
    pub fn lender(&self, class: u32) -> Option<u32> {
        self.place(class).borrow.then(|| self.at(class).parent)
    }

    /// Returns the class itself, its lender, the lender's lender, and so on.
    pub fn lenders(&self, class: usize) -> impl Iterator<Item = u32> {
        core::iter::successors(Some(class as u32), |&at| self.lender(at))
    }

    /// The children of a class that has some.
    pub fn children(&self, class: u32) -> impl Iterator<Item = u32> {
        let (first, end) = self.children.ranges[class as usize - self.families.leaves()];
        let table = &self.children.table;
        (first..end).map(|at| table.get(at as usize).copied().unwrap_or(at))
    }

    /// Returns the classes in the order in which a kernel receives them: the root, then as
    /// declared.
    pub fn as_declared(&self, tree: &Tree) -> impl Iterator<Item = u32> {
        let root = self.root as u32;
        let others = tree.classes().map(|(id, _)| self.number(id) as u32);
        core::iter::once(root).chain(others.filter(move |&class| class != root))
    }

    /// Whether averages, credits and the bits of states are within their bounds.
    fn is_sound(&self) -> bool {
        let is_sound = |class: &Class| {
            let Limits { minidle, maxidle, .. } = self.plans[class.plan as usize].place.limits;
            let waits = class.state & WAITS != 0 || class.state & LENGTH == 0;
            (minidle.min(maxidle)..=maxidle.max(minidle)).contains(&class.avgidle)
                && (CREDIT_MIN..=CREDIT_MAX).contains(&class.credit)
                && class.state < 2 * BEGUN
                && waits
        };
        self.list.iter().all(is_sound)
    }
}

impl Class {
    fn new(parent: u32, plan: u32, maxidle: i64) -> Self {
        Self {
            avgidle: maxidle,
            undertime: Stored::UNSET,
            last: Stored::UNSET,
            event: Instant::ZERO,
            credit: 0,
            last_packet_time: 0,
            backlog: 0,
            state: 0,
            parent,
            next: NONE,
            plan,
        }
    }

    /// Returns the state of the estimator.
    pub fn meter(&self) -> Meter {
        Meter {
            avgidle: self.avgidle,
            undertime: self.undertime(),
            last: self.last.stamp(),
            last_packet_time: self.last_packet_time.into(),
        }
    }

    /// Sets the state of the estimator.
    pub fn set_meter(&mut self, meter: Meter) {
        self.avgidle = meter.avgidle;
        self.set_undertime(meter.undertime);
        self.last = Stored::of(meter.last);
        self.last_packet_time = meter.last_packet_time.clamp(0, u32::MAX.into()) as u32;
    }

    /// Until when the class is overlimit; unset if it is not.
    pub const fn undertime(&self) -> Stamp {
        self.undertime.stamp()
    }

    /// Sets until when the class is overlimit.
    pub const fn set_undertime(&mut self, undertime: Stamp) {
        self.undertime = Stored::of(undertime);
    }

    /// The length of the first packet, `None` if none waits.
    pub fn head(&self) -> Option<i64> {
        (self.state & WAITS != 0).then_some((self.state & LENGTH).into())
    }

    /// Sets the length of the first packet, at most 2^24.
    pub fn set_head(&mut self, head: Option<i64>) {
        let head = head.map_or(0, |length| WAITS | length as u32 & LENGTH);
        self.state = self.state & (SLEEPS | BEGUN) | head;
    }

    /// Returns whether it is suspended: until its timer fires, or until `Sharing::permit` finds
    /// that its undertime has passed.
    pub const fn sleeps(&self) -> bool {
        self.state & SLEEPS != 0
    }

    /// Suspends it until `timer`.
    pub const fn suspend(&mut self, timer: Instant) {
        self.state |= SLEEPS;
        self.event = timer;
    }

    pub const fn wake(&mut self, at: Instant) {
        self.state &= !SLEEPS;
        self.event = at;
    }

    /// Sets whether its turn under `drr` has begun; returns what it was.
    pub const fn begin(&mut self, begun: bool) -> bool {
        let was = self.state & BEGUN != 0;
        self.state = if begun { self.state | BEGUN } else { self.state & !BEGUN };
        was
    }
}

impl Children {
    /// Builds the lists of children of the classes from `leaves` on.
    fn new(parents: &[u32], leaves: usize) -> Self {
        let mut lists = alloc::vec![Vec::new(); parents.len() - leaves];
        for (class, &parent) in (0..).zip(parents).filter(|row| *row.1 != NONE) {
            let siblings: &mut Vec<u32> = &mut lists[parent as usize - leaves];
            siblings.push(class);
        }
        let are_neighbours = |list: &Vec<u32>| list.is_sorted_by(|&a, &b| b == a + 1);
        if lists.iter().all(are_neighbours) {
            let range = |list: &Vec<u32>| {
                let first = list.first().copied().unwrap_or(0);
                (first, first + list.len() as u32)
            };
            return Self { ranges: lists.iter().map(range).collect(), table: Vec::new() };
        }
        let mut this = Self { ranges: Vec::with_capacity(lists.len()), table: Vec::new() };
        for list in lists {
            let first = this.table.len() as u32;
            this.ranges.push((first, first + list.len() as u32));
            this.table.extend(list);
        }
        this
    }
}

/// Returns how many steps each class is above the deepest leaf below it.
fn depths(parents: &[u32], leaves: usize) -> Vec<u8> {
    let mut depths = alloc::vec![0u8; parents.len()];
    for &parent in &parents[..leaves] {
        let (mut at, mut depth) = (parent, 1);
        while at != NONE {
            let class = at as usize;
            depths[class] = depths[class].max(depth);
            (at, depth) = (parents[class], depth + 1);
        }
    }
    depths
}

/// Returns the only class without a parent, if it has children.
fn only_top(tree: &Tree) -> Option<ClassId> {
    let mut tops = tree.classes().filter(|(_, class)| class.parent.is_none());
    let (only, _) = tops.next().filter(|(id, _)| tree.leaf_of(*id).is_none())?;
    tops.next().is_none().then_some(only)
}

/// Stands for no class.
pub(super) const NONE: u32 = u32::MAX;
/// The bits of a class's state: the length of its first packet, whether there is one, whether it
/// sleeps, and whether its turn has begun.
const LENGTH: u32 = (1 << 25) - 1;
const WAITS: u32 = 1 << 25;
const SLEEPS: u32 = 1 << 26;
const BEGUN: u32 = 1 << 27;

/// No credit is less: the longest packet is sent with the least.
const CREDIT_MIN: i64 = -(1 << 25);
/// No credit is more: twice the largest weight.
const CREDIT_MAX: i64 = 1 << 61;

state!(Classes { list; kept: plans, root, families, children; check: Classes::is_sound });
state!(Class {
    avgidle, undertime, last, event, credit, last_packet_time, backlog, state;
    kept: parent, next, plan
});
