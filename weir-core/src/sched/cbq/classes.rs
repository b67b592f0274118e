//! The classes of a `cbq` link with their meters, used by both engines.
//!
//! Classes are numbered as [`Families`] does, so a leaf has the number of its class. Invariant: the
//! link is the last class, the parent of all that have none; it is never overlimit, for it paces
//! itself.

use super::meter::Meter;
use super::ring::CREDIT_BITS;
use crate::ids::{ClassId, LeafId};
use crate::order::families::Families;
use crate::parameter::BuildError;
use crate::sched::service::Bucket;
use crate::sched::{ClassSpec, Kin, Regulation, Why};
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
    /// Whether it may borrow.
    pub borrows: bool,
    /// The ranks, as bits, of backlogged leaves: itself, or those below it that may borrow from it.
    /// The scan uses only those of leaves.
    pub active: u8,
    /// Whether it waits for its undertime; only of an active class under the formal rule.
    pub overlimit: bool,
}

impl Classes {
    /// The classes of `tree`.
    pub fn build(tree: &Tree) -> Result<Self, BuildError> {
        let link = tree.classes().len();
        let (rates, levels, ranks) = (rates(tree)?, levels(tree), ranks(tree));
        let parent = |(_, spec): (ClassId, &ClassSpec)| spec.parent.map_or(link, ClassId::index);
        let parents: Vec<_> = tree.classes().map(parent).collect();
        let mtu = tree.mtu().get().clamp(MTU_MIN, MTU_MAX);
        let level_quanta = quanta(&rates, mtu, LEVEL_TURN_MAX, |class| levels[class].into());
        let family_quanta = quanta(&rates, mtu, FAMILY_TURN_MAX, |class| parents[class]);
        let families = Families::new(tree);
        let mut list = Vec::with_capacity(link + 1);
        for id in families.order(tree) {
            let (at, params) = (id.index(), &tree.class(id).params);
            let burst = params.bytes("burst").unwrap_or(Bytes::new(BURST_PACKETS * mtu));
            let debt = (family_quanta[at] >> CREDIT_BITS) as u32 + (DEBT_PACKETS * mtu) as u32;
            list.push(Class {
                meter: Meter::new(rates[at], burst, debt),
                parent: tree.class(id).parent.map_or(link as u32, |id| families.number(id)),
                head: 0,
                level_quantum: level_quanta[at],
                family_quantum: family_quanta[at],
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
        Ok(Self { list, families, priorities, packet: (mtu << CREDIT_BITS) as i32 })
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
}

/// The bytes that a packet counts; no packet of a link is longer.
#[inline]
pub(super) fn counted(bytes: Bytes) -> u32 {
    bytes.get().min(u64::from(u32::MAX)) as u32
}

fn rates(tree: &Tree) -> Result<Vec<Rate>, BuildError> {
    let rate = |(id, spec): (ClassId, &ClassSpec)| {
        let missing = || {
            let message = format!("class {} has no rate; give it one: `rate = ...`", spec.name);
            BuildError::in_class(id, "rate", message)
        };
        spec.params.rate("rate").ok_or_else(missing)
    };
    tree.classes().map(rate).collect()
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
    class.params.number("priority").unwrap_or(PRIORITY_DEFAULT).min(PRIORITY_MAX) as usize
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

/// The quanta of all classes: in proportion to the rates inside each group.
///
/// The lightest of a group has a quantum of one largest packet [algorithms §3.15]. If the heaviest
/// would then hold the turn for more than `turn_max` packets, it gets that, and the lighter ones
/// collect credit over up to [`ROUNDS_MAX`] rounds for a packet; beyond that proportions are cut.
fn quanta(rates: &[Rate], mtu: u64, turn_max: u64, group: impl Fn(usize) -> usize) -> Vec<i32> {
    let mut bounds = alloc::vec![(u64::MAX, 0u64); rates.len().max(DEPTH_MAX) + 1];
    for (class, rate) in rates.iter().enumerate() {
        let bound = &mut bounds[group(class)];
        let rate = rate.bits_per_second();
        *bound = (bound.0.min(rate), bound.1.max(rate));
    }
    let packet = mtu << CREDIT_BITS;
    let quantum = |(class, rate): (usize, &Rate)| {
        let (lightest, heaviest) = bounds[group(class)];
        let (turn, whole) = if heaviest / turn_max <= lightest {
            (u128::from(packet), lightest)
        } else {
            (u128::from(packet) * u128::from(turn_max), heaviest)
        };
        let quantum = turn * u128::from(rate.bits_per_second()) / u128::from(whole);
        // At most 127 packets of 2^16 bytes, even where rates are a few bit/s.
        (quantum as i32).max((packet / ROUNDS_MAX) as i32)
    };
    rates.iter().enumerate().map(quantum).collect()
}

/// Highest priority, as in ALTQ.
pub(super) const PRIORITY_MAX: u64 = 7;
/// Priority of a class that names none, as in ALTQ.
const PRIORITY_DEFAULT: u64 = 1;
/// Default burst in largest packets: ALTQ's `maxburst` on a slow link [algorithms §3.2].
const BURST_PACKETS: u64 = 4;
/// Largest packets that a class may be in debt for beyond its burst and one turn.
const DEBT_PACKETS: u64 = 4;
/// Quanta are computed for largest packets between these bounds, so that no turn is too short or
/// too long.
const MTU_MIN: u64 = 512;
const MTU_MAX: u64 = 1 << 16;
/// The longest turn among the classes of a level, in largest packets: what a voice packet may wait.
const LEVEL_TURN_MAX: u64 = 4;
/// The longest turn among borrowing siblings, in largest packets.
const FAMILY_TURN_MAX: u64 = 64;
/// The most rounds that a class collects credit for a largest packet.
const ROUNDS_MAX: u64 = 64;

const _: () = assert!(size_of::<Class>() == 64, "a class is one line of memory");
