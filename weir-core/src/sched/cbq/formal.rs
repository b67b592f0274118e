//! The formal rule, evaluated as things change: no packet looks at all classes.
//!
//! A class may send if it is not overlimit, or if a class above it, from which it may borrow, is
//! not and no class of a lower level anywhere is unsatisfied [floyd95], [algorithms §1]. A class is
//! *unsatisfied* if it is not overlimit and something waits below it that may borrow up to it. So
//! what may send are the leaves below the unsatisfied classes of the lowest level that has any.
//! Invariant: an active class is in the rings of its level if it is unsatisfied, else it waits for
//! its undertime; and it is in the rings of its parent if it may borrow, whether it has to or not,
//! so that none loses its turn among its siblings by being unsatisfied now and then.

use super::classes::{Class, Classes, counted};
use super::ring::{General, Rings};
use crate::ids::LeafId;
use crate::order::heap::Heaps;
use crate::sched::{Head, Kin, Selection, Why};
use crate::tree::DEPTH_MAX;
use crate::units::{Bytes, Instant};

/// The engine of the formal rule.
pub(super) struct Formal {
    classes: Classes,
    nodes: Nodes,
    /// Turns among the unsatisfied classes of one level and rank.
    level_turns: Rings,
    /// Turns among the active children of one class that may borrow from it, for each rank.
    sibling_turns: Rings,
    /// For each level the ranks, as bits, that have an unsatisfied class.
    unsatisfied: [u8; LEVELS],
    /// The active classes that are overlimit, by undertime. Charging one does not move it here: a
    /// key may be too early, and is corrected when it comes first.
    overlimit: Heaps<Instant>,
    efficient: bool,
}

impl Formal {
    /// The engine for `classes`, nothing waiting.
    pub fn new(classes: Classes, general: General, efficient: bool) -> Self {
        let nodes = Nodes::new(&classes);
        let count = nodes.node(classes.link() + 1, 0) as usize;
        let siblings = nodes.sibling_ring(classes.link() + 1, 0);
        Self {
            nodes,
            level_turns: Rings::new(general, count, nodes.level_ring(LEVELS, 0)),
            sibling_turns: Rings::new(general, count, siblings),
            unsatisfied: [0; LEVELS],
            overlimit: Heaps::new(&[classes.link()], classes.link()),
            classes,
            efficient,
        }
    }

    /// `leaf` has a first packet now, or another one, or none.
    pub fn set_head(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        let class = self.classes.at_mut(leaf.index());
        class.head = head.map_or(0, |head| counted(head.length));
        match (class.active != 0, head.is_some()) {
            (false, true) => self.activate(now, leaf.index()),
            (true, false) => self.deactivate(leaf.index()),
            _ => {}
        }
    }

    /// The leaf that may send.
    #[inline]
    pub fn select(&mut self, now: Instant) -> Selection {
        while let Some((undertime, class)) = self.first_overlimit(now)
            && undertime <= now
        {
            self.reconsider(now, class);
        }
        match self.unsatisfied.iter().position(|&ranks| ranks != 0) {
            Some(level) => Selection::Leaf(LeafId(self.turn(level) as u32)),
            None => match self.first_overlimit(Instant::MAX) {
                Some((undertime, _)) => Selection::At(undertime),
                None => Selection::Idle,
            },
        }
    }

    /// `leaf`, just selected, sent a packet.
    pub fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        self.pay(now, leaf.index(), counted(sent));
        self.set_head(now, leaf, next);
        let mut at = leaf.index();
        while at != self.classes.link() {
            let class = self.classes.at(at);
            let parent = class.parent as usize;
            if class.active != 0 && !class.overlimit && class.meter.is_overlimit(now) {
                self.reconsider(now, at);
            }
            at = parent;
        }
    }

    /// Why `leaf` could not send earlier; its lender is the class whose turn at a level it is.
    pub fn why(&self, leaf: LeafId, from: Instant) -> Why {
        let class = self.classes.at(leaf.index());
        if self.lends_at(leaf.index()).is_some() && !class.meter.is_overlimit(from) {
            return Why::FREE;
        }
        let mut lenders = self.classes.lenders(leaf.index());
        let lender = lenders.find(|&at| self.lends_at(at).is_some());
        self.classes.why(leaf.index(), self.efficient, lender, from)
    }

    /// Takes over what classes of `old` owe for turns.
    pub fn inherit(&mut self, old: &Self, kin: &Kin) {
        for (new, was) in self.classes.kin(&old.classes, kin) {
            for rank in 0..self.nodes.count(new).min(old.nodes.count(was)) {
                let (node, old_node) = (self.nodes.node(new, rank), old.nodes.node(was, rank));
                self.level_turns.inherit(node, &old.level_turns, old_node);
                self.sibling_turns.inherit(node, &old.sibling_turns, old_node);
            }
        }
    }

    /// The classes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The classes, to be changed.
    pub fn classes_mut(&mut self) -> &mut Classes {
        &mut self.classes
    }

    /// The overlimit class with the earliest undertime; beyond `limit` the undertime may be early.
    fn first_overlimit(&mut self, limit: Instant) -> Option<(Instant, usize)> {
        loop {
            let (key, class) = self.overlimit.first(0)?;
            if key > limit {
                return Some((key, class as usize));
            }
            let undertime = self.classes.at(class as usize).meter.undertime();
            if undertime == key {
                return Some((key, class as usize));
            }
            self.overlimit.update(0, class, undertime);
        }
    }

    /// The leaf whose turn it is: below the class whose turn it is at `level`, in the highest rank.
    ///
    /// A packet needs every turn from its leaf up to there. The lowest that does not cover it gains
    /// a quantum and passes to the next in its ring. Ends: every round adds to each credit, and one
    /// of them must reach one packet.
    fn turn(&mut self, level: usize) -> usize {
        let rank = self.unsatisfied[level].ilog2() as usize;
        let ring = self.nodes.level_ring(level, rank);
        loop {
            let front = self.level_turns.front(ring).expect("an unsatisfied class is in its ring");
            let lender = self.nodes.class(front);
            let leaf = self.leaf_below(lender, rank);
            if self.covers(leaf, (lender, ring), rank) {
                return leaf;
            }
        }
    }

    /// Follows the turns among siblings from `class` down to a leaf.
    fn leaf_below(&self, class: usize, rank: usize) -> usize {
        let mut at = class;
        while at >= self.classes.leaves() {
            let front = self.sibling_turns.front(self.nodes.sibling_ring(at, rank));
            at = self.nodes.class(front.expect("an active class has an active child"));
        }
        at
    }

    /// Whether the turns from `leaf` up to its lender cover the packet of `leaf`; if one does not,
    /// it passes. Comes with the lender and the ring of its level.
    fn covers(&mut self, leaf: usize, (lender, level_ring): (usize, usize), rank: usize) -> bool {
        let (link, length, mut at) = (self.classes.link(), self.classes.at(leaf).head, leaf);
        // The link is alone at its level: its turn never passes.
        while at != link {
            let class = self.classes.at(at);
            let node = self.nodes.node(at, rank);
            let (rings, ring, quantum) = if at == lender {
                (&mut self.level_turns, level_ring, class.level_quantum)
            } else {
                let ring = self.nodes.sibling_ring(class.parent as usize, rank);
                (&mut self.sibling_turns, ring, class.sibling_quantum)
            };
            if !rings.covers(node, length) {
                rings.refill(node, quantum);
                rings.turn_to(ring, rings.next(node));
                return false;
            }
            if at == lender {
                return true;
            }
            at = class.parent as usize;
        }
        true
    }

    /// Takes a packet from the turn of the lender and of every overlimit class that may borrow, and
    /// counts it with all meters.
    ///
    /// Whatever class lent: if only what the parent lent counted, a class with children that live
    /// on their own rates would get their rates on top of its part of an excess.
    fn pay(&mut self, now: Instant, leaf: usize, sent: u32) {
        let rank = usize::from(self.classes.at(leaf).rank);
        let (link, mut at, mut lent) = (self.classes.link(), leaf, false);
        while at != link {
            let class = self.classes.at(at);
            if class.active != 0 {
                // Whatever the packet's priority, the turn at the parent pays.
                let has_rank = class.active >> rank & 1 == 1;
                let rank = if has_rank { rank } else { class.active.ilog2() as usize };
                let node = self.nodes.node(at, rank);
                match self.lends_at(at) {
                    Some(level) if !lent => {
                        self.level_turns.pay(self.nodes.level_ring(level, rank), node, sent);
                        lent = true;
                    }
                    None if class.borrows => {
                        let ring = self.nodes.sibling_ring(class.parent as usize, rank);
                        self.sibling_turns.pay(ring, node, sent);
                    }
                    _ => {}
                }
            }
            let class = self.classes.at_mut(at);
            class.meter.charge(now, sent);
            at = class.parent as usize;
        }
    }

    /// Something waits in `leaf`, which was empty.
    fn activate(&mut self, now: Instant, leaf: usize) {
        let rank = usize::from(self.classes.at(leaf).rank);
        let mut at = leaf;
        loop {
            let class = self.classes.at_mut(at);
            let was_active = class.active != 0;
            class.active |= 1 << rank;
            if !was_active {
                self.find_limit(now, at);
            }
            self.enter_level(at, 1 << rank);
            let Class { borrows, parent, sibling_quantum, .. } = *self.classes.at(at);
            let (node, parent) = (self.nodes.node(at, rank), parent as usize);
            let ring = self.nodes.sibling_ring(parent, rank);
            if !borrows || !self.sibling_turns.push(ring, node, sibling_quantum) {
                return;
            }
            at = parent;
        }
    }

    /// Nothing waits in `leaf` any more.
    fn deactivate(&mut self, leaf: usize) {
        let rank = usize::from(self.classes.at(leaf).rank);
        let mut at = leaf;
        loop {
            self.leave_level(at, 1 << rank);
            let class = self.classes.at_mut(at);
            class.active &= !(1 << rank);
            if class.active == 0 && class.overlimit {
                self.overlimit.remove(0, at as u32);
            }
            let (borrows, parent) = (class.borrows, class.parent as usize);
            let (node, ring) = (self.nodes.node(at, rank), self.nodes.sibling_ring(parent, rank));
            if !borrows || !self.sibling_turns.remove(ring, node) {
                return;
            }
            at = parent;
        }
    }

    /// `class`, active, became overlimit or is so no more.
    fn reconsider(&mut self, now: Instant, class: usize) {
        let active = self.classes.at(class).active;
        self.leave_level(class, active);
        if self.classes.at(class).overlimit {
            self.overlimit.remove(0, class as u32);
        }
        self.find_limit(now, class);
        self.enter_level(class, active);
    }

    /// Finds whether `class`, which is not among the overlimit ones, belongs there.
    fn find_limit(&mut self, now: Instant, class: usize) {
        let at = self.classes.at_mut(class);
        at.overlimit = at.meter.is_overlimit(now);
        if at.overlimit {
            self.overlimit.insert(0, class as u32, at.meter.undertime());
        }
    }

    /// Puts `class` in the rings of its level for each of `ranks`, if it lends.
    fn enter_level(&mut self, class: usize, ranks: u8) {
        let Some(level) = self.lends_at(class) else { return };
        // An unsatisfied class is owed its rate, so its first turn covers a packet.
        let credit = self.classes.at(class).level_quantum.max(self.classes.packet());
        for rank in bits(ranks) {
            let (ring, node) = (self.nodes.level_ring(level, rank), self.nodes.node(class, rank));
            self.level_turns.push(ring, node, credit);
        }
        self.unsatisfied[level] |= ranks;
    }

    /// Takes `class` out of the rings of its level for each of `ranks`, if it lends.
    fn leave_level(&mut self, class: usize, ranks: u8) {
        let Some(level) = self.lends_at(class) else { return };
        for rank in bits(ranks) {
            let (ring, node) = (self.nodes.level_ring(level, rank), self.nodes.node(class, rank));
            if self.level_turns.remove(ring, node) {
                self.unsatisfied[level] &= !(1 << rank);
            }
        }
    }

    /// The level at which `class` lends, to itself or to those below it: none unless it is active
    /// and not overlimit. Where `efficient` lets classes use a link that would idle, one that may
    /// not borrow itself lends in spite of its limit, but after all others.
    #[inline]
    fn lends_at(&self, class: usize) -> Option<usize> {
        let at = self.classes.at(class);
        if at.active == 0 {
            return None;
        }
        if !at.overlimit {
            return Some(at.level.into());
        }
        let is_last_resort = self.efficient && !at.borrows && at.level > 0;
        is_last_resort.then_some(LAST_RESORT)
    }
}

/// Which nodes and rings belong to which class, by number: a leaf has one node in each set of
/// rings, a class with children one for each rank. Ranks are counted in a power of two.
#[derive(Clone, Copy)]
struct Nodes {
    leaves: u32,
    rank_bits: u32,
}

impl Nodes {
    fn new(classes: &Classes) -> Self {
        let rank_bits = classes.priorities().next_power_of_two().trailing_zeros();
        Self { leaves: classes.leaves() as u32, rank_bits }
    }

    /// How many nodes `class` has.
    fn count(self, class: usize) -> usize {
        if class < self.leaves as usize { 1 } else { 1 << self.rank_bits }
    }

    /// The node of `class` for turns of `rank`.
    #[inline]
    fn node(self, class: usize, rank: usize) -> u32 {
        match (class as u32).checked_sub(self.leaves) {
            None => class as u32,
            Some(family) => self.leaves + (family << self.rank_bits) + rank as u32,
        }
    }

    /// The class of a node.
    #[inline]
    fn class(self, node: u32) -> usize {
        match node.checked_sub(self.leaves) {
            None => node as usize,
            Some(place) => (self.leaves + (place >> self.rank_bits)) as usize,
        }
    }

    /// The ring of the unsatisfied classes of `level`.
    #[inline]
    fn level_ring(self, level: usize, rank: usize) -> usize {
        (level << self.rank_bits) + rank
    }

    /// The ring of the children of `class` that may borrow from it.
    #[inline]
    fn sibling_ring(self, class: usize, rank: usize) -> usize {
        ((class - self.leaves as usize) << self.rank_bits) + rank
    }
}

/// The numbers of the bits that are set.
#[inline]
fn bits(mut ranks: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let rank = (ranks != 0).then(|| ranks.trailing_zeros() as usize);
        ranks &= ranks.wrapping_sub(1);
        rank
    })
}

/// The level of classes that lend where `efficient` lets them: above the link's.
const LAST_RESORT: usize = DEPTH_MAX + 1;
/// A level for the leaves, each class above, the link, and the last resort.
const LEVELS: usize = LAST_RESORT + 1;
