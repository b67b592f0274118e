//! Every sharing rule in its plain form: each choice asks the backlogged leaves one by one.
//!
//! Runs `ancestor-only` and `top-level`; under the formal rule it is the oracle of the fast engine.
//! The cost grows with the backlogged leaves. Invariant: each backlogged leaf is in the ring of its
//! priority, no other is.

use super::classes::{Classes, General, counted};
use super::ring::Rings;
use crate::ids::LeafId;
use crate::sched::{Head, Kin, Selection, Why};
use crate::units::{Bytes, Instant};

/// Who may borrow from whom [algorithms §1].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// From a class below whose level nobody anywhere is unsatisfied.
    Formal,
    /// From any class above that conforms.
    AncestorOnly,
    /// From a class above that conforms and is not above a level that moves with the traffic.
    TopLevel,
}

/// The engine that asks every backlogged leaf.
pub(super) struct Scan {
    classes: Classes,
    rings: Rings,
    sharing: Sharing,
    efficient: bool,
    /// The highest level that lends under `TopLevel`.
    cutoff: u8,
}

impl Scan {
    /// The engine for `classes`, nothing waiting.
    pub fn new(classes: Classes, sharing: Sharing, general: General, efficient: bool) -> Self {
        // Here nodes are numbered as classes, and rings as ranks.
        let rings = Rings::new(general, classes.count(), classes.priorities());
        let cutoff = level(&classes, classes.link());
        Self { classes, rings, sharing, efficient, cutoff }
    }

    /// `leaf` was offered a packet: who is owed its rate lowers the cutoff [algorithms §2.5].
    pub fn offered(&mut self, now: Instant, leaf: LeafId) {
        let class = leaf.index();
        let parent = self.classes.parent(class);
        if self.classes.conforms(class, now) {
            self.cutoff = 0;
        } else if self.classes.plan(class).place.borrow && self.classes.conforms(parent, now) {
            self.cutoff = self.cutoff.min(level(&self.classes, parent));
        }
    }

    /// `leaf` has a first packet now, or another one, or none.
    pub fn set_head(&mut self, leaf: LeafId, head: Option<Head>) {
        self.set_head_length(leaf, head.map(|head| head.length));
    }

    fn set_head_length(&mut self, leaf: LeafId, head: Option<Bytes>) {
        self.classes.set_head(leaf, head);
        let (class, plan) = self.classes.at_with_plan(leaf.index());
        let (rank, own) = (plan.place.rank, plan.quanta.own);
        let was_backlogged = class.active != 0;
        class.active = u8::from(head.is_some()) << rank;
        match (was_backlogged, head.is_some()) {
            (false, true) => _ = self.rings.push(rank.into(), leaf.0, own),
            (true, false) => _ = self.rings.remove(rank.into(), leaf.0),
            _ => {}
        }
    }

    /// Who may send.
    pub fn select(&mut self, now: Instant) -> Selection {
        loop {
            let ceiling = self.ceiling(now);
            let permitted =
                |classes: &Classes, class| lender(classes, now, class, ceiling).is_some();
            if let Some(leaf) = self.choose(permitted) {
                return Selection::Leaf(leaf);
            }
            // [algorithms §3.7] Nobody may send below the cutoff, so it rises.
            let top = level(&self.classes, self.classes.link());
            if self.sharing != Sharing::TopLevel || self.cutoff >= top {
                break;
            }
            self.cutoff += 1;
        }
        if self.efficient
            && let Some(leaf) = self.choose(|classes, class| classes.plan(class).place.borrow)
        {
            return Selection::Leaf(leaf);
        }
        self.earliest().map_or(Selection::Idle, Selection::At)
    }

    /// `leaf`, just selected, sent a packet; `next` is the length of the one that is first now.
    // Not told all of it, which would then go through memory under the formal rule, too.
    #[inline(never)]
    pub fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Bytes>) {
        let class = leaf.index();
        let ceiling = self.ceiling(now);
        let lender = lender(&self.classes, now, class, ceiling);
        if self.rings.are_of_one_packet() {
            self.rings.pass_on(self.classes.plan(class).place.rank.into(), leaf.0);
        } else {
            self.rings.pay(leaf.0, self.rings.price(counted(sent)));
        }
        self.set_head_length(leaf, next);
        self.classes.charge(now, class, sent);
        if let Some(lender) = lender {
            self.depart(now, lender, next.is_none());
        }
    }

    /// Why `leaf` could not send earlier.
    #[inline(never)]
    pub fn why(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        let lender = lender(&self.classes, now, leaf.index(), u8::MAX);
        self.classes.why(leaf.index(), self.efficient, lender, from)
    }

    /// Takes over meters, debts of turns and, under `TopLevel`, the cutoff.
    pub fn take_over(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.classes.take_over(now, &old.classes, kin);
        for (new, was) in kin.classes() {
            let (new, was) = (self.classes.number(new), old.classes.number(was));
            self.rings.take_debt(new as u32, &old.rings, was as u32);
        }
        if self.sharing == Sharing::TopLevel && old.sharing == Sharing::TopLevel {
            self.cutoff = old.cutoff.min(self.cutoff);
        }
    }

    /// The classes, for an engine of another kind.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The same, to be changed.
    pub fn classes_mut(&mut self) -> &mut Classes {
        &mut self.classes
    }

    /// Whether `leaf` may send; `efficient` left aside.
    #[cfg(test)]
    pub fn permits(&self, now: Instant, leaf: LeafId) -> bool {
        lender(&self.classes, now, leaf.index(), self.ceiling(now)).is_some()
    }

    /// Whether `leaf` may borrow at all.
    #[cfg(test)]
    pub fn borrows(&self, leaf: LeafId) -> bool {
        self.classes.plan(leaf.index()).place.borrow
    }

    /// Moves the cutoff after a packet sent by leave of `lender` [algorithms §2.6].
    fn depart(&mut self, now: Instant, lender: usize, emptied: bool) {
        let level_of_lender = level(&self.classes, lender);
        if self.cutoff >= level_of_lender {
            let done = emptied || !self.classes.conforms(lender, now);
            let top = level(&self.classes, self.classes.link());
            self.cutoff = if done { top } else { level_of_lender };
        }
    }

    /// The highest level that may lend now.
    fn ceiling(&self, now: Instant) -> u8 {
        match self.sharing {
            Sharing::AncestorOnly => u8::MAX,
            Sharing::TopLevel => self.cutoff,
            Sharing::Formal => self.unsatisfied_level(now),
        }
    }

    /// The lowest level that has an unsatisfied class.
    fn unsatisfied_level(&self, now: Instant) -> u8 {
        let lowest = |class| {
            let mut conforming = self
                .classes
                .chain(class)
                .filter(|&at| self.classes.conforms(at, now))
                .map(|at| level(&self.classes, at));
            conforming.next()
        };
        self.backlogged().filter_map(lowest).min().unwrap_or(u8::MAX)
    }

    /// The first leaf in turn among those permitted, of the highest priority that has one.
    fn choose(&mut self, permitted: impl Fn(&Classes, usize) -> bool) -> Option<LeafId> {
        let node = (0..self.classes.priorities())
            .rev()
            .find_map(|ring| self.choose_in(ring, &permitted).map(|node| (ring, node)));
        let (ring, node) = node?;
        self.rings.turn_to(ring, node);
        Some(LeafId(node))
    }

    /// Goes round `ring` until the turn of a permitted leaf covers its packet [algorithms §3.8].
    /// Who is not permitted keeps its credit; who lacks credit gains a quantum and is passed over.
    fn choose_in(
        &mut self,
        ring: usize,
        permitted: impl Fn(&Classes, usize) -> bool,
    ) -> Option<u32> {
        let start = self.rings.front(ring)?;
        let (mut node, mut refilled) = (start, false);
        loop {
            if permitted(&self.classes, node as usize) {
                let needed = self.rings.needed(self.classes.at(node as usize).head);
                if needed <= self.rings.credit(node) {
                    return Some(node);
                }
                self.rings.refill(node, self.classes.plan(node as usize).quanta.own);
                refilled = true;
            }
            node = self.rings.next(node);
            if node == start && !core::mem::take(&mut refilled) {
                return None;
            }
        }
    }

    /// When the first backlogged leaf may send, if nothing is sent until then.
    fn earliest(&self) -> Option<Instant> {
        let conforms_at = |class| {
            let chain = self.classes.chain(class);
            chain.map(|at| self.classes.conforms_at(at)).min()
        };
        self.backlogged().filter_map(conforms_at).min()
    }

    fn backlogged(&self) -> impl Iterator<Item = usize> {
        (0..self.classes.leaves()).filter(|&leaf| self.classes.at(leaf).active != 0)
    }
}

/// Who lends to a leaf, itself included: the first that conforms, not above the level `ceiling`.
fn lender(classes: &Classes, now: Instant, class: usize, ceiling: u8) -> Option<usize> {
    let found = classes.chain(class).find(|&at| classes.conforms(at, now))?;
    (level(classes, found) <= ceiling).then_some(found)
}

fn level(classes: &Classes, class: usize) -> u8 {
    classes.plan(class).place.level
}
