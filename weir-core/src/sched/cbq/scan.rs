//! Every sharing rule in its plain form: each choice tests the backlogged leaves one by one.
//!
//! Runs `ancestor-only` and `top-level`; under the formal rule it is the oracle of the fast engine.
//! The cost grows with the backlogged leaves. Invariant: each backlogged leaf is in the ring of its
//! priority, no other is.

use super::classes::{Classes, counted};
use super::ring::{General, Rings};
use crate::ids::LeafId;
use crate::sched::{Head, Kin, Selection, Waiting, Why};
use crate::state::state;
use crate::units::{Bytes, Instant};

/// From which classes a class may borrow [algorithms §1].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// From an ancestor that is not overlimit, while no class of a lower level is unsatisfied.
    Formal,
    /// From any ancestor that is not overlimit.
    AncestorOnly,
    /// From an ancestor that is not overlimit and not above a level that moves with the traffic.
    TopLevel,
}

/// The engine that tests every backlogged leaf.
pub(super) struct Scan {
    pub classes: Classes,
    /// The turns of leaves, a ring for each rank.
    turns: Rings,
    sharing: Sharing,
    efficient: bool,
    /// The highest level that lends under `TopLevel`.
    top_level: u8,
}

impl Scan {
    /// Returns the engine for `classes`, with no packet waiting.
    pub fn new(classes: Classes, sharing: Sharing, general: General, efficient: bool) -> Self {
        let turns = Rings::new(general, classes.link(), classes.priorities);
        let top_level = classes.at(classes.link()).level;
        Self { classes, turns, sharing, efficient, top_level }
    }

    /// Records that `leaf` was offered a packet: if it, or the parent that lends to it, is not
    /// overlimit, the top level falls [algorithms §2.5].
    pub fn offered(&mut self, now: Instant, leaf: LeafId) {
        let class = self.classes.at(leaf.index());
        let parent = self.classes.at(class.parent as usize);
        if !class.meter.is_overlimit(now) {
            self.top_level = 0;
        } else if class.borrows && !parent.meter.is_overlimit(now) {
            self.top_level = self.top_level.min(parent.level);
        }
    }

    /// Sets the first packet of `leaf`, or records that it has none.
    pub fn set_head(&mut self, leaf: LeafId, head: Option<Head>) {
        let class = self.classes.at_mut(leaf.index());
        class.head = head.map_or(0, |head| counted(head.length));
        let (rank, was_backlogged) = (class.rank.into(), class.active != 0);
        class.active = u8::from(head.is_some());
        match (was_backlogged, head.is_some()) {
            (false, true) => _ = self.turns.push(rank, leaf.index(), class.level_quantum),
            (true, false) => _ = self.turns.remove(rank, leaf.index()),
            _ => {}
        }
    }

    /// Selects the leaf that may send.
    pub fn select(&mut self, now: Instant) -> Selection {
        loop {
            let level_max = self.level_max(now);
            let permitted = |classes: &Classes, at| lender(classes, now, at, level_max).is_some();
            if let Some(leaf) = self.choose(permitted) {
                return Selection::Leaf(leaf);
            }
            // [algorithms §3.7] No leaf may send below the top level, so it rises.
            if self.sharing != Sharing::TopLevel || self.top_level >= self.link_level() {
                break;
            }
            self.top_level += 1;
        }
        if self.efficient
            && let Some(leaf) = self.choose(|classes, leaf| classes.at(leaf).borrows)
        {
            return Selection::Leaf(leaf);
        }
        self.earliest().map_or(Selection::Idle, Selection::At)
    }

    /// Charges `leaf`, just selected, for a packet.
    pub fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let lender = lender(&self.classes, now, leaf.index(), self.level_max(now));
        let sent = counted(sent);
        self.turns.pay(self.classes.at(leaf.index()).rank.into(), leaf.index(), sent);
        self.set_head(leaf, next);
        let mut at = leaf.index();
        while at != self.classes.link() {
            let class = self.classes.at_mut(at);
            class.meter.charge(now, Bytes::new(sent.into()));
            at = class.parent as usize;
        }
        // Without a lender the link would otherwise idle.
        let lends = lender.unwrap_or(self.classes.link());
        self.classes.count_loan(leaf.index(), lends, sent);
        if let Some(lender) = lender {
            self.depart(now, lender, next.is_none());
        }
    }

    /// Why `leaf` could not send earlier.
    pub fn why(&self, now: Instant, leaf: LeafId) -> Why {
        let lender = lender(&self.classes, now, leaf.index(), u8::MAX);
        self.classes.why(leaf.index(), self.efficient, lender)
    }

    /// Takes over what classes of `old` used and owe for turns and, under `TopLevel`, the level.
    pub fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.classes.inherit(now, &old.classes, kin);
        for (new, was) in self.classes.kin(&old.classes, kin) {
            self.turns.set_debt(new, old.turns.debt(was));
        }
        if self.sharing == Sharing::TopLevel && old.sharing == Sharing::TopLevel {
            self.top_level = old.top_level.min(self.top_level);
        }
    }

    /// Returns whether `leaf` may send, `efficient` aside.
    #[cfg(test)]
    pub fn permits(&self, now: Instant, leaf: LeafId) -> bool {
        lender(&self.classes, now, leaf.index(), self.level_max(now)).is_some()
    }

    /// Moves the top level after a packet that `lender` lent for [algorithms §2.6].
    fn depart(&mut self, now: Instant, lender: usize, emptied: bool) {
        let lender = self.classes.at(lender);
        if self.top_level >= lender.level {
            let is_done = emptied || lender.meter.is_overlimit(now);
            self.top_level = if is_done { self.link_level() } else { lender.level };
        }
    }

    /// Returns the highest level that may lend now.
    fn level_max(&self, now: Instant) -> u8 {
        match self.sharing {
            Sharing::AncestorOnly => u8::MAX,
            Sharing::TopLevel => self.top_level,
            Sharing::Formal => self.unsatisfied_level(now),
        }
    }

    /// Returns the lowest level that has an unsatisfied class: the first on the path up from a
    /// backlogged leaf, itself included, that is not overlimit.
    fn unsatisfied_level(&self, now: Instant) -> u8 {
        let lender = |leaf| lender(&self.classes, now, leaf, u8::MAX);
        let level = |at| self.classes.at(at).level;
        self.backlogged().filter_map(lender).map(level).min().unwrap_or(u8::MAX)
    }

    /// The first leaf in turn among those permitted, of the highest priority that has one.
    fn choose(&mut self, permitted: impl Fn(&Classes, usize) -> bool) -> Option<LeafId> {
        let mut ranks = (0..self.classes.priorities).rev();
        ranks.find_map(|rank| self.choose_in(rank, &permitted))
    }

    /// Advances a ring until the turn of a permitted leaf covers its packet [algorithms §3.8]. The
    /// credit of a leaf that is not permitted does not change; a leaf that lacks credit gains a
    /// quantum and is passed over.
    fn choose_in(
        &mut self,
        rank: usize,
        permitted: impl Fn(&Classes, usize) -> bool,
    ) -> Option<LeafId> {
        let start = self.turns.front(rank)?;
        let (mut leaf, mut refilled) = (start, false);
        loop {
            if permitted(&self.classes, leaf) {
                let class = self.classes.at(leaf);
                if self.turns.covers(leaf, class.head) {
                    self.turns.turn_to(rank, leaf);
                    return Some(LeafId(leaf as u32));
                }
                self.turns.refill(leaf, class.level_quantum);
                refilled = true;
            }
            leaf = self.turns.next(leaf);
            if leaf == start && !core::mem::take(&mut refilled) {
                return None;
            }
        }
    }

    /// Returns when the first backlogged leaf may send, if nothing is sent until then.
    fn earliest(&self) -> Option<Instant> {
        let lenders = self.backlogged().flat_map(|leaf| self.classes.lenders(leaf));
        lenders.map(|at| self.classes.at(at).meter.undertime()).min()
    }

    fn backlogged(&self) -> impl Iterator<Item = usize> {
        (0..self.classes.leaves()).filter(|&leaf| self.classes.at(leaf).active != 0)
    }

    fn link_level(&self) -> u8 {
        self.classes.at(self.classes.link()).level
    }
}

/// Returns the class that lends to a leaf, perhaps the leaf itself: the first on the path up that
/// is not overlimit, unless it is above `level_max`.
fn lender(classes: &Classes, now: Instant, leaf: usize, level_max: u8) -> Option<usize> {
    let mut lenders = classes.lenders(leaf);
    let lender = lenders.find(|&at| !classes.at(at).meter.is_overlimit(now))?;
    (classes.at(lender).level <= level_max).then_some(lender)
}

state!(Scan { classes, turns, top_level; kept: sharing, efficient });

impl Scan {
    /// Whether the leaves in which packets wait are in the rings, and no others.
    pub fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let rings = self.turns.of_classes();
        let is_known = |leaf: usize, head: Option<Head>| {
            let class = self.classes.at(leaf);
            let ring = head.is_some().then_some(usize::from(class.rank));
            let is_first = class.head == head.map_or(0, |head| counted(head.length));
            rings[leaf] == ring && is_first && class.active == u8::from(head.is_some())
        };
        let leaves = self.classes.leaves();
        waiting.all(is_known)
            && rings[leaves..].iter().all(Option::is_none)
            && self.top_level <= self.link_level()
    }
}
