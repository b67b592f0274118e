//! The classes of a `cbq` link with their meters, as both engines use them.
//!
//! Invariant: the link is the last class, the parent of all that have none; it is never overlimit,
//! for it paces itself.

use super::meter::{Meter, Terms};
use super::ring::CREDIT_BITS;
use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::sched::service::Bucket;
use crate::sched::tree::{DEPTH_MAX, Tree};
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

/// The classes in the order of declaration, the link last.
pub(super) struct Classes {
    list: Vec<Class>,
    /// What classes that are alike share.
    terms: Vec<Shared>,
    of_leaf: Vec<u32>,
    priorities: usize,
    packet: i64,
}

/// A class as the sharing rules see it.
pub(super) struct Class {
    pub meter: Meter,
    /// Which terms it has.
    terms: u32,
    pub parent: u32,
    /// 0 for a leaf, else one more than the highest level below.
    pub level: u8,
    pub borrow: bool,
    /// Rank among the priorities in use, larger served first; only of leaves.
    pub priority: u8,
    pub leaf: Option<LeafId>,
    /// Whether a packet waits, and its length; only of leaves.
    pub backlogged: bool,
    pub head: Bytes,
}

/// What classes that are alike share.
struct Shared {
    meter: Terms,
    quanta: Quanta,
}

/// What a class gains with each turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quanta {
    /// Among all conforming classes of the level.
    pub own: i64,
    /// Among siblings that borrow.
    pub borrow: i64,
}

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
        let mut list = Vec::with_capacity(link + 1);
        let (mut terms, mut alike) = (Vec::new(), BTreeMap::new());
        for (id, spec) in tree.classes() {
            let at = id.index();
            let burst = spec.params.bytes("burst").unwrap_or(Bytes::new(BURST_PACKETS * mtu));
            let turn = Bytes::new(borrow[at] as u64 >> CREDIT_BITS);
            let debt_max = turn.plus(Bytes::new(DEBT_PACKETS * mtu));
            let priority = spec.params.number("priority").unwrap_or(PRIORITY_DEFAULT);
            let number = terms.len() as u32;
            let quanta = Quanta { own: own[at], borrow: borrow[at] };
            let which = *alike.entry((rates[at], burst, debt_max, quanta)).or_insert(number);
            if which == number {
                terms.push(Shared { meter: Terms::new(rates[at], burst, debt_max), quanta });
            }
            list.push(Class {
                meter: Meter::FULL,
                terms: which,
                parent: parents[at],
                level: levels[at],
                borrow: spec.params.flag("borrow").unwrap_or(true),
                priority: ranks[(priority.min(PRIORITY_MAX)) as usize],
                leaf: tree.leaf_of(id),
                backlogged: false,
                head: Bytes::ZERO,
            });
        }
        let packet = (mtu << CREDIT_BITS) as i64;
        list.push(Class::link(terms.len() as u32, levels[link], link));
        // Never charged, and alone in its row: any terms and any credit do.
        let meter = Terms::new(tree.rate(), Bytes::ZERO, Bytes::ZERO);
        terms.push(Shared { meter, quanta: Quanta { own: packet, borrow: packet } });
        let of_leaf = tree.leaves().map(|(leaf, _)| tree.class_of(leaf).0).collect();
        let priorities = usize::from(ranks[PRIORITY_MAX as usize]) + 1;
        Ok(Self { list, terms, of_leaf, priorities, packet })
    }

    /// What each leaf may always send.
    pub fn buckets(&self, tree: &Tree) -> Vec<Bucket> {
        let row = |(leaf, spec): (LeafId, &ClassSpec)| {
            let class = self.at(self.of_leaf(leaf));
            let terms = self.terms(class);
            Bucket {
                rate: spec.params.rate("rate").unwrap_or(Rate::MIN),
                burst: terms.burst(),
                saves: terms.burst(),
                debt: terms.debt_max().max(tree.mtu().plus(tree.mtu())),
                rank: u32::from(u8::MAX - class.priority),
                turn: None,
            }
        };
        tree.leaves().map(row).collect()
    }

    /// The class at an index.
    #[inline]
    pub fn at(&self, class: usize) -> &Class {
        &self.list[class]
    }

    /// The index of the link.
    #[inline]
    pub fn link(&self) -> usize {
        self.list.len() - 1
    }

    /// The index of a leaf.
    #[inline]
    pub fn of_leaf(&self, leaf: LeafId) -> usize {
        self.of_leaf[leaf.index()] as usize
    }

    /// How many ranks of priority there are.
    #[inline]
    pub fn priorities(&self) -> usize {
        self.priorities
    }

    /// Credit for one largest packet.
    #[inline]
    pub fn packet(&self) -> i64 {
        self.packet
    }

    /// All classes, the link last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Class> {
        self.list.iter()
    }

    /// The parent of a class that is not the link.
    #[inline]
    pub fn parent(&self, class: usize) -> usize {
        self.list[class].parent as usize
    }

    /// What waits first in a leaf now.
    #[inline]
    pub fn set_head(&mut self, class: usize, head: Option<Bytes>) {
        let class = &mut self.list[class];
        class.backlogged = head.is_some();
        class.head = head.unwrap_or(Bytes::ZERO);
    }

    /// The class at an index, to be charged, and the terms of its meter.
    #[inline]
    pub fn at_with_terms(&mut self, class: usize) -> (&mut Class, &Terms) {
        let class = &mut self.list[class];
        let terms = &self.terms[class.terms as usize].meter;
        (class, terms)
    }

    /// Charges a packet to the meters of `class` and of every class above it.
    pub fn charge(&mut self, now: Instant, class: usize, sent: Bytes) {
        let (link, mut at) = (self.link(), class);
        while at != link {
            let (class, terms) = self.at_with_terms(at);
            class.meter.charge(terms, now, sent);
            at = class.parent as usize;
        }
    }

    /// The terms of the meter of `class`.
    #[inline]
    pub fn terms(&self, class: &Class) -> &Terms {
        &self.terms[class.terms as usize].meter
    }

    /// What `class` gains with each turn.
    #[inline]
    pub fn quanta(&self, class: usize) -> Quanta {
        self.terms[self.list[class].terms as usize].quanta
    }

    /// The class itself and those that it may borrow from, one through the other.
    pub fn chain(&self, class: usize) -> impl Iterator<Item = usize> {
        let above = |&at: &usize| self.at(at).borrow.then(|| self.parent(at));
        core::iter::successors(Some(class), above)
    }

    /// From when on the meters let a leaf, `class`, send: its own or one that lends. Where
    /// `efficient` lets a blocked class lend, nothing but others holds back those below it.
    pub fn why(&self, class: usize, efficient: bool, lender: Option<usize>, from: Instant) -> Why {
        let mut released = Instant::MAX;
        for at in self.chain(class) {
            released = released.min(self.at(at).meter.conforms_at());
            if released <= from {
                break;
            }
        }
        if efficient && self.at(class).borrow {
            released = Instant::ZERO;
        }
        let regulation = match released {
            Instant::ZERO => Regulation::None,
            _ => Regulation::Undertime,
        };
        // The link is no class of the tree.
        let lender = lender.filter(|&at| at != class && at != self.link());
        Why { released, regulation, lender: lender.map(|at| ClassId(at as u32)) }
    }

    /// Takes over the meters of kin classes.
    pub fn take_over(&mut self, now: Instant, old: &Classes, kin: &Kin) {
        for (new, was) in kin.classes() {
            let (class, was) = (&mut self.list[new.index()], &old.list[was.index()]);
            let terms = &self.terms[class.terms as usize].meter;
            class.meter.take_over(terms, now, &was.meter, old.terms(was));
        }
    }
}

impl Class {
    /// The link: never charged, so it always conforms.
    fn link(terms: u32, level: u8, index: usize) -> Self {
        Self {
            meter: Meter::FULL,
            terms,
            parent: index as u32,
            level,
            borrow: false,
            priority: 0,
            leaf: None,
            backlogged: false,
            head: Bytes::ZERO,
        }
    }
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
fn quanta(rates: &[Rate], mtu: u64, turn_max: u64, group: impl Fn(usize) -> usize) -> Vec<i64> {
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
        (quantum as i64).max((packet / ROUNDS_MAX) as i64)
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
