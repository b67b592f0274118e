//! The classes of a `cbq` link with their meters, used by both engines.
//!
//! Classes are numbered as [`Families`] does, so a leaf has the number of its class. Invariant: the
//! link is the last class, the parent of all that have none; it is never overlimit, for it paces
//! itself.

use super::meter::Meter;
use super::quanta::Quanta;
use super::ring::CREDIT_BITS;
use crate::ids::{ClassId, LeafId};
use crate::order::families::Families;
use crate::parameter::{BuildError, Params};
use crate::sched::loans::Loans;
use crate::sched::service::Bucket;
use crate::sched::{ClassSpec, Kin, Refit, RefitError, Regulation, Waiting, Why};
use crate::state::state;
use crate::tree::{DEPTH_MAX, Tree};
use crate::units::{Bytes, Instant, Rate};
use alloc::format;
use alloc::vec::Vec;

/// The classes, the link last.
pub(super) struct Classes {
    list: Vec<Class>,
    families: Families,
    /// How many priorities are in use.
    pub priorities: usize,
    /// Credit for one largest packet.
    pub packet: i32,
    /// The number of classes from each up to its top class, both counted; 0 for the link.
    depths: Vec<u8>,
    pub loans: Loans,
    mtu: u64,
    /// The quanta among unsatisfied classes of a level.
    level_quanta: Quanta,
    /// The quanta among siblings that borrow, by family; the link's children last.
    family_quanta: Quanta,
}

/// A class as the sharing rules see it, in one line of memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Class {
    pub meter: Meter,
    pub parent: u32,
    /// The length of the packet that waits first; only of leaves.
    pub head: u32,
    /// The quantum of a turn among unsatisfied classes of its level.
    pub level_quantum: i32,
    /// The quantum of a turn among siblings that borrow.
    pub family_quantum: i32,
    /// 0 for a leaf, else one more than the highest level below.
    pub level: u8,
    /// Its priority among those in use, the larger served first; only of leaves.
    pub rank: u8,
    pub borrows: bool,
    /// The ranks, as bits, of backlogged leaves: itself, or those below it that may borrow from it.
    /// The scan uses only those of leaves.
    pub active: u8,
    /// Waits for its undertime; set only for an active class under the formal rule.
    pub overlimit: bool,
}

impl Classes {
    /// The classes of `tree`.
    pub fn build(tree: &Tree) -> Result<Self, BuildError> {
        let link = tree.classes().len();
        let rates: Vec<_> = tree.classes().map(rate).collect::<Result<_, _>>()?;
        let (levels, ranks) = (levels(tree), ranks(tree));
        let families = Families::new(tree);
        let group = |(_, spec): (ClassId, &ClassSpec)| group_of(&families, spec.parent);
        let groups: Vec<_> = tree.classes().map(group).collect();
        let mtu = tree.mtu().get().clamp(MTU_MIN, MTU_MAX);
        let packet = mtu << CREDIT_BITS;
        let by_level = (0..link).map(|class| (levels[class].into(), rates[class]));
        let level_quanta = Quanta::new(by_level, DEPTH_MAX + 1, packet, LEVEL_TURN_MAX);
        let by_family = (0..link).map(|class| (groups[class], rates[class]));
        let family_quanta = Quanta::new(by_family, families.len() + 1, packet, FAMILY_TURN_MAX);
        let mut list = Vec::with_capacity(link + 1);
        for id in families.order(tree) {
            let (at, params) = (id.index(), &tree.class(id).params);
            let family_quantum = family_quanta.of(groups[at], rates[at]);
            list.push(Class {
                meter: Meter::new(rates[at], burst(params, mtu), debt(family_quantum, mtu)),
                parent: tree.class(id).parent.map_or(link as u32, |id| families.number(id)),
                head: 0,
                level_quantum: level_quanta.of(levels[at].into(), rates[at]),
                family_quantum,
                level: levels[at],
                rank: ranks[priority(tree.class(id))],
                borrows: params.flag("borrow").unwrap_or(true),
                active: 0,
                overlimit: false,
            });
        }
        // Never charged, and alone at its level: any quantum does.
        let (meter, level) = (Meter::new(tree.rate(), Bytes::ZERO, 0), levels[link]);
        list.push(Class { meter, parent: link as u32, level, rank: 0, borrows: false, ..list[0] });
        let priorities = usize::from(ranks[PRIORITY_MAX as usize]) + 1;
        let packet = packet as i32;
        let depths = families.order(tree).map(|id| tree.path(id).count() as u8);
        let depths = depths.chain([0]).collect();
        let loans = Loans::new(tree);
        Ok(Self {
            list,
            families,
            priorities,
            packet,
            depths,
            loans,
            mtu,
            level_quanta,
            family_quanta,
        })
    }

    /// Follows the parameters of `leaf`, which is idle, in `tree`.
    pub fn refit(
        &mut self,
        now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        let (id, spec) = (tree.class_of(leaf), tree.leaf(leaf));
        if priority_of(&spec.params) != priority_of(refit.before) {
            return Err(RefitError::NeedsChange("its priority is another"));
        }
        let rate = rate((id, spec))?;
        self.requote(tree, leaf, refit.before.rate("rate").unwrap_or(rate));
        let mtu = self.mtu;
        let class = &mut self.list[leaf.index()];
        let before = class.meter;
        class.borrows = spec.params.flag("borrow").unwrap_or(true);
        class.meter = Meter::new(rate, burst(&spec.params, mtu), debt(class.family_quantum, mtu));
        if !refit.is_new {
            class.meter.inherit(now, &before);
        }
        Ok(())
    }

    /// Sets the quanta of `leaf`, whose rate was `before`, and of the classes that take turns with
    /// it if they are others now: those of its level, the leaves, and its siblings.
    fn requote(&mut self, tree: &Tree, leaf: LeafId, before: Rate) {
        let parent = tree.leaf(leaf).parent;
        let group = group_of(&self.families, parent);
        let rate = rate_of(tree.leaf(leaf));
        let leaves = tree.leaves().map(|(leaf, spec)| (leaf.index(), rate_of(spec)));
        if self.level_quanta.replace(0, before, rate) {
            self.list[leaf.index()].level_quantum = self.level_quanta.of(0, rate);
        } else {
            self.level_quanta.recount(0, leaves.clone().map(|row| row.1));
            for (class, rate) in leaves {
                self.list[class].level_quantum = self.level_quanta.of(0, rate);
            }
        }
        if self.family_quanta.replace(group, before, rate) {
            self.list[leaf.index()].family_quantum = self.family_quanta.of(group, rate);
            return;
        }
        let siblings = tree.classes().filter(|(_, spec)| spec.parent == parent);
        self.family_quanta.recount(group, siblings.clone().map(|(_, spec)| rate_of(spec)));
        for (id, spec) in siblings {
            let class = &mut self.list[self.families.number(id) as usize];
            class.family_quantum = self.family_quanta.of(group, rate_of(spec));
            class.meter.set_debt(debt(class.family_quantum, self.mtu));
        }
    }

    /// Returns what each leaf may always send.
    pub fn buckets(&self, tree: &Tree) -> Vec<Bucket> {
        let row = |(leaf, spec): (LeafId, &ClassSpec)| {
            let Class { meter, rank, .. } = self.at(leaf.index());
            Bucket {
                rate: spec.params.rate("rate").unwrap_or(Rate::MIN),
                burst: meter.burst(),
                saves: meter.burst(),
                debt: meter.debt().max(tree.mtu().plus(tree.mtu())),
                rank: u32::from(u8::MAX - rank),
                turn: None,
            }
        };
        tree.leaves().map(row).collect()
    }

    /// The class with this number.
    pub fn at(&self, class: usize) -> &Class {
        &self.list[class]
    }

    /// Returns the class with this number for mutation.
    pub fn at_mut(&mut self, class: usize) -> &mut Class {
        &mut self.list[class]
    }

    /// The number of the link.
    pub fn link(&self) -> usize {
        self.list.len() - 1
    }

    /// Returns the number of leaves; their numbers come first.
    pub fn leaves(&self) -> usize {
        self.families.leaves()
    }

    /// Returns the index of `class` among those with children; `None` for a leaf.
    pub fn family(&self, class: usize) -> Option<usize> {
        class.checked_sub(self.leaves())
    }

    /// Returns the index of the parent of `class` among those with children.
    pub fn parent_family(&self, class: &Class) -> usize {
        class.parent as usize - self.leaves()
    }

    /// The ranks of what may wait in `class`.
    pub fn ranks(&self, class: usize) -> core::ops::Range<usize> {
        let rank = usize::from(self.at(class).rank);
        if class < self.leaves() { rank..rank + 1 } else { 0..self.priorities }
    }

    /// Returns the classes that both trees have according to `kin`: their numbers here and in
    /// `old`.
    pub fn kin(&self, old: &Classes, kin: &Kin) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.families.kin(&old.families, kin);
        rows.map(|(new, was)| (new as usize, was as usize))
    }

    /// Takes over the meters of the classes that `old` had.
    pub fn inherit(&mut self, now: Instant, old: &Classes, kin: &Kin) {
        for (new, was) in self.families.kin(&old.families, kin) {
            let (new, was) = (new as usize, was as usize);
            self.list[new].meter.inherit(now, &old.list[was].meter);
        }
        self.loans.inherit(&old.loans, kin);
    }

    /// Counts a packet of `leaf` for which `lender` lends, unless that is the leaf itself.
    #[inline]
    pub fn count_loan(&mut self, leaf: usize, lender: usize, sent: u32) {
        if lender != leaf {
            let depth = usize::from(self.depths[lender]);
            self.loans.count(LeafId(leaf as u32), depth, Bytes::new(sent.into()));
        }
    }

    /// Returns the class itself, its lender, the lender's lender, and so on.
    pub fn lenders(&self, class: usize) -> impl Iterator<Item = usize> {
        let above = |&at: &usize| self.at(at).borrows.then(|| self.at(at).parent as usize);
        core::iter::successors(Some(class), above)
    }

    /// Returns why `leaf`, for which `lender` lends, could not send earlier: until then all classes
    /// that may lend to it, itself included, were overlimit. Under `efficient` a leaf that may
    /// borrow waits only for other leaves' turns.
    pub fn why(&self, leaf: usize, efficient: bool, lender: Option<usize>) -> Why {
        let undertime = self.lenders(leaf).map(|at| self.at(at).meter.undertime()).min();
        let is_free = efficient && self.at(leaf).borrows;
        let released = undertime.filter(|_| !is_free).unwrap_or(Instant::ZERO);
        let regulation = match released {
            Instant::ZERO => Regulation::None,
            _ => Regulation::Undertime,
        };
        // A leaf that sends at its own account has no lender, and the link has no id.
        let lender = lender.and_then(|lender| self.families.declared(lender));
        Why { released, regulation, level: 0, lender }
    }

    /// Whether the first packets of leaves are those that wait, and a leaf is active exactly if one
    /// does.
    pub fn knows(&self, waiting: &Waiting<'_>) -> bool {
        waiting.all(|leaf, head| {
            let class = self.at(leaf);
            let active = if head.is_some() { 1 << class.rank } else { 0 };
            class.head == head.map_or(0, |head| counted(head.length)) && class.active == active
        })
    }
}

/// The bytes that a packet counts; no packet of a link is longer.
#[inline]
pub(super) fn counted(bytes: Bytes) -> u32 {
    bytes.get().min(u64::from(u32::MAX)) as u32
}

/// The rate of a class.
fn rate((id, spec): (ClassId, &ClassSpec)) -> Result<Rate, BuildError> {
    let missing = || {
        let message = format!("class {} has no rate; give it one: `rate = ...`", spec.name);
        BuildError::in_class(id, "rate", message)
    };
    spec.params.rate("rate").ok_or_else(missing)
}

/// The rate of a class that has one.
fn rate_of(spec: &ClassSpec) -> Rate {
    spec.params.rate("rate").unwrap_or(Rate::MIN)
}

/// The group of the children of a class, or of the link.
fn group_of(families: &Families, parent: Option<ClassId>) -> usize {
    parent.map_or(families.len(), |id| families.number(id) as usize - families.leaves())
}

fn burst(params: &Params, mtu: u64) -> Bytes {
    params.bytes("burst").unwrap_or(Bytes::new(BURST_PACKETS * mtu))
}

/// The most bytes that a class with this quantum may be in debt.
fn debt(family_quantum: i32, mtu: u64) -> u32 {
    (family_quantum >> CREDIT_BITS) as u32 + (DEBT_PACKETS * mtu) as u32
}

/// The level of each class, of the link last [algorithms §1].
fn levels(tree: &Tree) -> Vec<u8> {
    let link = tree.classes().len();
    let mut levels = alloc::vec![0u8; link + 1];
    for (leaf, _) in tree.leaves() {
        let mut level = 0;
        for class in tree.path(tree.class_of(leaf)) {
            levels[class.index()] = levels[class.index()].max(level);
            level += 1;
        }
        levels[link] = levels[link].max(level);
    }
    levels
}

fn priority(class: &ClassSpec) -> usize {
    priority_of(&class.params)
}

fn priority_of(params: &Params) -> usize {
    params.number("priority").unwrap_or(PRIORITY_DEFAULT).min(PRIORITY_MAX) as usize
}

/// The rank of each priority among those in use, so that unused ones cost nothing.
fn ranks(tree: &Tree) -> [u8; PRIORITY_MAX as usize + 1] {
    let mut used = [false; PRIORITY_MAX as usize + 1];
    for (_, spec) in tree.leaves() {
        used[priority(spec)] = true;
    }
    let mut seen = 0u8;
    used.map(|used| {
        seen += u8::from(used);
        seen.saturating_sub(1)
    })
}

/// Highest priority, as in ALTQ.
pub(super) const PRIORITY_MAX: u64 = 7;
/// Priority of a class that names none, as in ALTQ.
const PRIORITY_DEFAULT: u64 = 1;
/// Default burst in largest packets: ALTQ's `maxburst` on a slow link [algorithms §3.2].
const BURST_PACKETS: u64 = 4;
/// Bound: largest packets that a class may be in debt for beyond its burst and one turn; what it
/// owes beyond is forgotten.
const DEBT_PACKETS: u64 = 4;
/// Quanta are computed for largest packets between these bounds, so that no turn is too short or
/// too long.
const MTU_MIN: u64 = 512;
const MTU_MAX: u64 = 1 << 16;
/// The longest turn among the classes of a level, in largest packets: what a voice packet may wait.
const LEVEL_TURN_MAX: u64 = 4;
/// The longest turn among borrowing siblings, in largest packets.
const FAMILY_TURN_MAX: u64 = 64;

const _: () = assert!(size_of::<Class>() == 64, "a class is one line of memory");

state!(Classes {
    list, loans;
    kept: families, priorities, packet, depths, mtu, level_quanta, family_quanta
});
state!(Class {
    meter, head, active, overlimit;
    kept: parent, level_quantum, family_quantum, level, rank, borrows
});
