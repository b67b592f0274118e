//! The classes of a `cbq` link with their meters, as both engines use them.
//!
//! Invariant: the link is the last class, the parent of all that have none; it is never overlimit,
//! for it paces itself.

use super::meter::{Meter, ShortTerms, Terms};
use super::ring::CREDIT_BITS;
use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::order::families::Families;
use crate::sched::service::Bucket;
use crate::tree::{DEPTH_MAX, Tree};
use crate::sched::{ClassSpec, Kin, Regulation, Why};
use crate::units::{Bytes, Instant, Rate};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// How permitted classes of one priority take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum General {
    /// Deficit round robin.
    Drr,
    /// Weighted round robin by bytes.
    Wrr,
    /// One packet each.
    Prr,
}

/// The classes as [`Families`] numbers them, the link last.
pub(super) struct Classes {
    list: Vec<Class>,
    /// What classes that are alike share.
    plans: Vec<Plan>,
    families: Families,
    priorities: usize,
    packet: i32,
}

/// A class as the sharing rules see it.
#[derive(Clone, Copy)]
pub(super) struct Class {
    pub meter: Meter,
    /// The length of the packet that waits first; only of leaves.
    pub head: u32,
    /// Which plan it has.
    plan: u32,
    pub parent: u32,
    /// The priorities, as bits, of what waits in it: in a leaf, or below it and able to borrow from
    /// it. The plain engine keeps only those of leaves.
    pub active: u8,
    /// Of the fast engine.
    pub row: Row,
    /// Of the fast engine: whether the class is among its waits.
    pub queued: bool,
    /// Of the fast engine, of leaves only.
    pub at_parent: AtParent,
}

/// Where a leaf that may borrow stands among its siblings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtParent {
    /// Nowhere.
    Away,
    /// Noted for the ring of its parent, also after it went.
    Noted,
    /// In the ring.
    Linked,
}

/// Where an active class stands under the formal rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// Conforms: in the row of its level.
    Ready,
    /// Overlimit: waits.
    Waiting,
    /// Overlimit and waits; `efficient` lets those below it send when nobody else may.
    LastResort,
}

/// What classes that are alike share.
pub(super) struct Plan {
    pub terms: Terms,
    pub quanta: Quanta,
    pub place: Place,
}

/// Where a class stands in the tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// 0 for a leaf, else one more than the highest level below.
    pub level: u8,
    pub borrow: bool,
    /// Rank among the priorities in use, larger served first; only of leaves.
    pub rank: u8,
}

/// What a class gains with each turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quanta {
    /// Among all conforming classes of the level.
    pub own: i32,
    /// Among siblings that borrow.
    pub borrow: i32,
}

/// What plans are alike by: the rate, the burst, the debt, and the rest as it is.
type Likeness = (Rate, Bytes, Bytes, Quanta, Place);

impl Classes {
    /// The classes of `tree`.
    pub fn build(tree: &Tree) -> Result<Self, BuildError> {
        let link = tree.classes().len();
        let rates = rates(tree)?;
        let levels = levels(tree);
        let ranks = priority_ranks(tree);
        let mtu = tree.mtu().get().clamp(MTU_MIN, MTU_MAX);
        let own = quanta(&rates, mtu, OWN_TURN_MAX, |class| usize::from(levels[class]));
        let parents = parents(tree);
        let borrow = quanta(&rates, mtu, BORROW_TURN_MAX, |class| parents[class] as usize);
        let families = Families::new(tree);
        let mut list = Vec::with_capacity(link + 1);
        let (mut plans, mut alike) = (Vec::new(), BTreeMap::new());
        for id in families.order(tree) {
            let (at, params) = (id.index(), &tree.class(id).params);
            let burst = params.bytes("burst").unwrap_or(Bytes::new(BURST_PACKETS * mtu));
            let turn = Bytes::new(borrow[at] as u64 >> CREDIT_BITS);
            let debt_max = turn.plus(Bytes::new(DEBT_PACKETS * mtu));
            let priority = params.number("priority").unwrap_or(PRIORITY_DEFAULT);
            let place = Place {
                level: levels[at],
                borrow: params.flag("borrow").unwrap_or(true),
                rank: ranks[(priority.min(PRIORITY_MAX)) as usize],
            };
            let quanta = Quanta { own: own[at], borrow: borrow[at] };
            let likeness: Likeness = (rates[at], burst, debt_max, quanta, place);
            let plan = *alike.entry(likeness).or_insert(plans.len() as u32);
            if plan as usize == plans.len() {
                plans.push(Plan { terms: Terms::new(rates[at], burst, debt_max), quanta, place });
            }
            let parent = tree.class(id).parent.map_or(link as u32, |id| families.number(id));
            list.push(Class::new(plan, parent));
        }
        let packet = (mtu << CREDIT_BITS) as i32;
        list.push(Class::new(plans.len() as u32, link as u32));
        // Never charged, and alone in its row: any terms and any credit do.
        plans.push(Plan {
            terms: Terms::new(tree.rate(), Bytes::ZERO, Bytes::ZERO),
            quanta: Quanta { own: packet, borrow: packet },
            place: Place { level: levels[link], borrow: false, rank: 0 },
        });
        plans.shrink_to_fit();
        let priorities = usize::from(ranks[PRIORITY_MAX as usize]) + 1;
        Ok(Self { list, plans, families, priorities, packet })
    }

    /// What each leaf may always send.
    pub fn buckets(&self, tree: &Tree) -> Vec<Bucket> {
        let row = |(leaf, spec): (LeafId, &ClassSpec)| {
            let Plan { terms, place, .. } = self.plan(leaf.index());
            Bucket {
                rate: spec.params.rate("rate").unwrap_or(Rate::MIN),
                burst: terms.burst(),
                saves: terms.burst(),
                debt: terms.debt_max().max(tree.mtu().plus(tree.mtu())),
                rank: u32::from(u8::MAX - place.rank),
                turn: None,
            }
        };
        tree.leaves().map(row).collect()
    }

    /// The class with a number; a leaf has that of its own.
    #[inline]
    pub fn at(&self, class: usize) -> &Class {
        &self.list[class]
    }

    /// The same, to be changed.
    #[inline]
    pub fn at_mut(&mut self, class: usize) -> &mut Class {
        &mut self.list[class]
    }

    /// What a class shares with those that are alike.
    #[inline]
    pub fn plan(&self, class: usize) -> &Plan {
        self.plan_of(&self.list[class])
    }

    /// The same for a class at hand.
    #[inline]
    pub fn plan_of(&self, class: &Class) -> &Plan {
        &self.plans[class.plan as usize]
    }

    /// A class, to be charged, and its plan.
    #[inline]
    pub fn at_with_plan(&mut self, class: usize) -> (&mut Class, &Plan) {
        let class = &mut self.list[class];
        let plan = &self.plans[class.plan as usize];
        (class, plan)
    }

    /// The number of the link.
    #[inline]
    pub fn link(&self) -> usize {
        self.list.len() - 1
    }

    /// How many leaves there are; their numbers come first.
    #[inline]
    pub fn leaves(&self) -> usize {
        self.families.leaves()
    }

    /// The number of the class that was declared as `id`.
    pub fn number(&self, id: ClassId) -> usize {
        self.families.number(id) as usize
    }

    /// How many ranks of priority there are.
    #[inline]
    pub fn priorities(&self) -> usize {
        self.priorities
    }

    /// Credit for one largest packet.
    #[inline]
    pub fn packet(&self) -> i32 {
        self.packet
    }

    /// How many classes there are, the link too.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The parent of a class that is not the link.
    #[inline]
    pub fn parent(&self, class: usize) -> usize {
        self.list[class].parent as usize
    }

    /// Whether the meter of a class lets it send.
    #[inline]
    pub fn conforms(&self, class: usize, now: Instant) -> bool {
        let class = &self.list[class];
        class.meter.conforms(&self.plan_of(class).terms, now)
    }

    /// From when on it does, if nothing more is sent.
    #[inline]
    pub fn conforms_at(&self, class: usize) -> Instant {
        let class = &self.list[class];
        class.meter.conforms_at(&self.plan_of(class).terms)
    }

    /// The length of what waits first in a leaf now; whether something waits is for the caller to
    /// write.
    #[inline]
    pub fn set_head(&mut self, leaf: LeafId, head: Option<Bytes>) {
        self.list[leaf.index()].head = head.map_or(0, counted);
    }

    /// Charges a packet to the meters of `class` and of every class above it.
    pub fn charge(&mut self, now: Instant, class: usize, sent: Bytes) {
        let (link, mut at) = (self.link(), class);
        let sent = counted(sent);
        while at != link {
            let (class, plan) = self.at_with_plan(at);
            class.meter.charge(&plan.terms, now, sent);
            at = class.parent as usize;
        }
    }

    /// Charges a packet to the meter of `class` alone, whose terms are `terms`; answers whether it
    /// conforms now, but for the end of time.
    #[inline(always)]
    pub fn charge_one(
        &mut self,
        class: usize,
        terms: &ShortTerms,
        now: Instant,
        sent: u32,
    ) -> bool {
        match self.list[class].meter.charge_short(terms, now, sent) {
            Some(conforms) => conforms,
            None => self.charge_far(class, now, sent),
        }
    }

    /// How many of `bytes` a class, which conforms, may send and conforms still; rounded down to
    /// none where its terms, `terms`, are not short.
    #[inline]
    pub fn room(&self, class: usize, terms: &ShortTerms, now: Instant, bytes: u32) -> u32 {
        let class = &self.list[class];
        match class.meter.room_short(terms, now, bytes) {
            Some(room) => room,
            None if class.meter.covers(&self.plan_of(class).terms, now, bytes) => bytes,
            None => 0,
        }
    }

    #[inline(never)]
    fn charge_far(&mut self, class: usize, now: Instant, sent: u32) -> bool {
        let (class, plan) = self.at_with_plan(class);
        class.meter.charge_far(&plan.terms, now, sent)
    }

    /// The class itself and those that it may borrow from, one through the other.
    pub fn chain(&self, class: usize) -> impl Iterator<Item = usize> {
        let above = |&at: &usize| self.plan(at).place.borrow.then(|| self.parent(at));
        core::iter::successors(Some(class), above)
    }

    /// From when on the meters let a leaf, `class`, send: its own or one that lends. Where
    /// `efficient` lets a blocked class lend, nothing but others holds back those below it.
    pub fn why(&self, class: usize, efficient: bool, lender: Option<usize>, from: Instant) -> Why {
        let mut released = Instant::MAX;
        for at in self.chain(class) {
            released = released.min(self.conforms_at(at));
            if released <= from {
                break;
            }
        }
        if efficient && self.plan(class).place.borrow {
            released = Instant::ZERO;
        }
        let regulation = match released {
            Instant::ZERO => Regulation::None,
            _ => Regulation::Undertime,
        };
        // Neither a leaf that lends to itself nor the link is a class with children of the tree.
        let lender = lender.and_then(|lender| self.families.declared(lender));
        Why { released, regulation, lender }
    }

    /// Takes over the meters of kin classes.
    pub fn take_over(&mut self, now: Instant, old: &Classes, kin: &Kin) {
        for (new, was) in kin.classes() {
            let (new, was) = (self.number(new), old.number(was));
            let (class, plan) = self.at_with_plan(new);
            class.meter.take_over(&plan.terms, now, &old.at(was).meter, &old.plan(was).terms);
        }
    }
}

impl Class {
    fn new(plan: u32, parent: u32) -> Self {
        let meter = Meter::FULL;
        let (row, at_parent) = (Row::Waiting, AtParent::Away);
        Self { meter, head: 0, plan, parent, active: 0, row, queued: false, at_parent }
    }

    /// Whether it is in the row of its level.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.active != 0 && self.row == Row::Ready
    }
}

/// The bytes that a packet counts; no packet of a link is longer.
#[inline]
pub(super) fn counted(bytes: Bytes) -> u32 {
    bytes.get().min(u64::from(u32::MAX)) as u32
}

fn rates(tree: &Tree) -> Result<Vec<Rate>, BuildError> {
    let rate = |(id, spec): (ClassId, &crate::sched::ClassSpec)| {
        let missing = || {
            let message = format!("class {} has no rate; give it one: `rate = ...`", spec.name);
            BuildError::in_class(id, "rate", message)
        };
        spec.params.rate("rate").ok_or_else(missing)
    };
    tree.classes().map(rate).collect()
}

/// Indices of the parents; the link stands above whoever has none.
fn parents(tree: &Tree) -> Vec<u32> {
    let link = tree.classes().len() as u32;
    tree.classes().map(|(_, spec)| spec.parent.map_or(link, |parent| parent.0)).collect()
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

/// The rank of each priority among those in use, so that unused ones cost nothing.
fn priority_ranks(tree: &Tree) -> [u8; PRIORITY_MAX as usize + 1] {
    let mut used = [false; PRIORITY_MAX as usize + 1];
    for (_, spec) in tree.leaves() {
        let priority = spec.params.number("priority").unwrap_or(PRIORITY_DEFAULT);
        used[priority.min(PRIORITY_MAX) as usize] = true;
    }
    let mut ranks = [0; PRIORITY_MAX as usize + 1];
    let mut seen = 0u8;
    for (rank, used) in ranks.iter_mut().zip(used) {
        seen += u8::from(used);
        *rank = seen.saturating_sub(1);
    }
    ranks
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
/// Quanta are reckoned for largest packets between these bounds, so that no turn is absurd.
const MTU_MIN: u64 = 512;
const MTU_MAX: u64 = 1 << 16;
/// The longest turn among conforming classes, in largest packets: what a voice packet may wait.
const OWN_TURN_MAX: u64 = 4;
/// The longest turn among borrowing siblings, in largest packets.
const BORROW_TURN_MAX: u64 = 64;
/// The most rounds that a class collects credit for a largest packet.
const ROUNDS_MAX: u64 = 64;
