//! The formal rule, evaluated incrementally: no packet examines all classes.
//!
//! A class may send if it is not overlimit, or if a class above it, from which it may borrow, is
//! not and no class of a lower level anywhere is unsatisfied `[floyd95]`, [algorithms §1]. A class
//! is *unsatisfied* if it is not overlimit and a backlogged leaf below it may borrow up to it. So
//! the leaves below the unsatisfied classes of the lowest level that has any may send.
//! Invariant: an active class is in the ring of its level if it is unsatisfied, else it waits for
//! its undertime; and it is in the ring of its parent if it may borrow, whether it has to or not,
//! so that it does not lose its turn among its siblings while it is unsatisfied.

use super::classes::{Class, Classes, counted};
use super::ring::{General, Rings};
use crate::ids::LeafId;
use crate::order::heap::Heaps;
use crate::sched::{Head, Kin, Refit, RefitError, Selection, Waiting, Why};
use crate::state::{Reader, State, StateError, Writer, state};
use crate::tree::{DEPTH_MAX, Tree};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// The engine of the formal rule.
pub(super) struct Formal {
    pub classes: Classes,
    /// The turns of each rank.
    turns: Vec<Turns>,
    /// For each level the ranks, as bits, that have an unsatisfied class.
    unsatisfied: [u8; LEVELS],
    /// The active classes that are overlimit, by undertime. Charging one does not move it here: a
    /// key may be too early, and is corrected when it comes first.
    overlimit: Heaps<Instant>,
    efficient: bool,
}

/// The turns of classes in which something of one rank waits.
struct Turns {
    /// Among the unsatisfied classes of each level.
    level: Rings,
    /// Among the active children of each class that may borrow from it.
    family: Rings,
}

impl Formal {
    /// Returns the engine for `classes`, with no packet waiting.
    pub fn new(classes: Classes, general: General, efficient: bool) -> Self {
        let (link, families) = (classes.link(), classes.link() + 1 - classes.leaves());
        let turns = |_| Turns {
            level: Rings::new(general, link + 1, LEVELS),
            family: Rings::new(general, link, families),
        };
        let turns = (0..classes.priorities).map(turns).collect();
        let overlimit = Heaps::new(&[link], link);
        Self { classes, turns, unsatisfied: [0; LEVELS], overlimit, efficient }
    }

    /// Sets the first packet of `leaf`, or records that it has none.
    pub fn set_head(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        let class = self.classes.at_mut(leaf.index());
        class.head = head.map_or(0, |head| counted(head.length));
        match (class.active != 0, head.is_some()) {
            (false, true) => self.activate(now, leaf.index()),
            (true, false) => self.deactivate(leaf.index()),
            _ => {}
        }
    }

    /// Selects the leaf that may send.
    pub fn select(&mut self, now: Instant) -> Selection {
        while let Some((undertime, class)) = self.first_overlimit(now)
            && undertime <= now
        {
            self.reconsider(now, class);
        }
        let Some(level) = self.unsatisfied.iter().position(|&ranks| ranks != 0) else {
            let first = self.first_overlimit(Instant::MAX);
            return first.map_or(Selection::Idle, |(undertime, _)| Selection::At(undertime));
        };
        Selection::Leaf(LeafId(self.turn(level) as u32))
    }

    /// Charges `leaf`, just selected, for a packet.
    pub fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let exceeds = self.pay(now, leaf.index(), counted(sent));
        self.set_head(now, leaf, next);
        let mut at = leaf.index();
        while exceeds && at != self.classes.link() {
            let Class { active, overlimit, meter, parent, .. } = *self.classes.at(at);
            if active != 0 && !overlimit && meter.is_overlimit(now) {
                self.reconsider(now, at);
            }
            at = parent as usize;
        }
    }

    /// Why `leaf` could not send earlier; its lender is the class whose turn at a level it is.
    pub fn why(&self, leaf: LeafId, from: Instant) -> Why {
        let class = self.classes.at(leaf.index());
        if self.lends_at(class).is_some() && !class.meter.is_overlimit(from) {
            return Why::FREE;
        }
        let mut lenders = self.classes.lenders(leaf.index());
        let lender = lenders.find(|&at| self.lends_at(self.classes.at(at)).is_some());
        self.classes.why(leaf.index(), self.efficient, lender)
    }

    /// Takes over from `old` the meters of classes and their debts for turns.
    pub fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.classes.inherit(now, &old.classes, kin);
        for (new, was) in self.classes.kin(&old.classes, kin) {
            for (rank, old_rank) in self.classes.ranks(new).zip(old.classes.ranks(was)) {
                let (turns, old_turns) = (&mut self.turns[rank], &old.turns[old_rank]);
                turns.level.set_debt(new, old_turns.level.debt(was));
                turns.family.set_debt(new, old_turns.family.debt(was));
            }
        }
    }

    /// Follows the parameters of `leaf`, which is idle, in `tree`.
    pub fn refit(
        &mut self,
        now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        self.classes.refit(now, tree, leaf, refit)?;
        let leaf = leaf.index();
        for rank in self.classes.ranks(leaf).filter(|_| refit.is_new) {
            self.turns[rank].level.set_debt(leaf, 0);
            self.turns[rank].family.set_debt(leaf, 0);
        }
        Ok(())
    }

    /// Returns the overlimit class with the earliest undertime; beyond `limit` the undertime may be
    /// early.
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
            self.overlimit.increase(0, class, undertime);
        }
    }

    /// Returns the leaf whose turn it is, in the highest rank, below the class whose turn it is at
    /// `level`.
    fn turn(&mut self, level: usize) -> usize {
        let turns = &mut self.turns[self.unsatisfied[level].ilog2() as usize];
        loop {
            let lender = turns.level.front(level).expect("an unsatisfied class is in its ring");
            let mut leaf = lender;
            while let Some(family) = self.classes.family(leaf) {
                leaf = turns.family.front(family).expect("an active class has an active child");
            }
            if turns.cover(&self.classes, leaf, (lender, level)) {
                return leaf;
            }
        }
    }

    /// Takes a packet from the turn of the lender and of every overlimit class that may borrow, and
    /// counts it with all meters; returns whether one of those above may have become overlimit.
    ///
    /// This does not depend on the lender: if only the parent's loans counted, a class whose
    /// children send at their own rates would get these on top of its part of an excess.
    fn pay(&mut self, now: Instant, leaf: usize, sent: u32) -> bool {
        let rank = self.classes.at(leaf).rank;
        let (mut at, mut lender, mut exceeds) = (leaf, self.classes.link(), false);
        let mut lent = false;
        while at != self.classes.link() {
            let class = self.classes.at(at);
            if class.active != 0 && (class.overlimit || !lent) {
                // The turn at the parent is charged, whatever the packet's priority.
                let has_rank = class.active >> rank & 1 == 1;
                let rank = if has_rank { rank.into() } else { class.active.ilog2() as usize };
                match self.lends_at(class) {
                    Some(level) if !lent => {
                        self.turns[rank].level.pay(level, at, sent);
                        (lender, lent) = (at, true);
                    }
                    None if class.borrows => {
                        self.turns[rank].family.pay(self.classes.parent_family(class), at, sent);
                    }
                    _ => {}
                }
            }
            let class = self.classes.at_mut(at);
            let is_overlimit = class.meter.charge(now, Bytes::new(sent.into()));
            exceeds |= is_overlimit && !class.overlimit;
            at = class.parent as usize;
        }
        self.classes.count_loan(leaf, lender, sent);
        exceeds
    }

    /// Records that `leaf`, which was empty, is backlogged.
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
            self.enter_level(at, rank);
            let class = self.classes.at(at);
            let family = self.classes.parent_family(class);
            let turns = &mut self.turns[rank].family;
            if !class.borrows || !turns.push(family, at, class.family_quantum) {
                return;
            }
            at = class.parent as usize;
        }
    }

    /// Records that `leaf` is no longer backlogged.
    fn deactivate(&mut self, leaf: usize) {
        let rank = usize::from(self.classes.at(leaf).rank);
        let mut at = leaf;
        loop {
            self.leave_level(at, rank);
            let class = self.classes.at_mut(at);
            class.active &= !(1 << rank);
            if class.active == 0 && class.overlimit {
                self.overlimit.remove(0, at as u32);
            }
            let class = self.classes.at(at);
            let family = self.classes.parent_family(class);
            if !class.borrows || !self.turns[rank].family.remove(family, at) {
                return;
            }
            at = class.parent as usize;
        }
    }

    /// Records that `class`, which is active, became overlimit or ceased to be.
    fn reconsider(&mut self, now: Instant, class: usize) {
        let Class { active, overlimit, .. } = *self.classes.at(class);
        let ranks = (0..self.turns.len()).filter(|rank| active >> rank & 1 == 1);
        ranks.clone().for_each(|rank| self.leave_level(class, rank));
        if overlimit {
            self.overlimit.remove(0, class as u32);
        }
        self.find_limit(now, class);
        ranks.for_each(|rank| self.enter_level(class, rank));
    }

    /// Adds `class`, which is not among the overlimit ones, to them if it is overlimit.
    fn find_limit(&mut self, now: Instant, class: usize) {
        let at = self.classes.at_mut(class);
        at.overlimit = at.meter.is_overlimit(now);
        if at.overlimit {
            self.overlimit.insert(0, class as u32, at.meter.undertime());
        }
    }

    /// Puts `class` in the ring of its level, if it lends.
    fn enter_level(&mut self, class: usize, rank: usize) {
        let at = self.classes.at(class);
        let Some(level) = self.lends_at(at) else { return };
        // An unsatisfied class is owed its rate, so its first turn covers a packet.
        let credit = at.level_quantum.max(self.classes.packet);
        self.turns[rank].level.push(level, class, credit);
        self.unsatisfied[level] |= 1 << rank;
    }

    /// Removes `class` from the ring of its level, if it lends.
    fn leave_level(&mut self, class: usize, rank: usize) {
        let Some(level) = self.lends_at(self.classes.at(class)) else { return };
        if self.turns[rank].level.remove(level, class) {
            self.unsatisfied[level] &= !(1 << rank);
        }
    }

    /// Returns the level at which `class` lends, to itself or to those below it: none unless it is
    /// active and not overlimit. Under `efficient`, which lets classes use a link that would idle,
    /// a class that may not borrow lends in spite of its limit, but after all others.
    fn lends_at(&self, class: &Class) -> Option<usize> {
        if class.active == 0 {
            return None;
        }
        if !class.overlimit {
            return Some(class.level.into());
        }
        let is_last_resort = self.efficient && !class.borrows && class.level > 0;
        is_last_resort.then_some(LAST_RESORT)
    }
}

impl Turns {
    /// Returns whether the turns from `leaf` up to its lender, at a level, cover the packet of
    /// `leaf`. The lowest turn that does not gains a quantum and passes to the next in its ring.
    /// Every round adds to each credit, so one of them reaches a packet.
    fn cover(&mut self, classes: &Classes, leaf: usize, (lender, level): (usize, usize)) -> bool {
        let (length, mut at) = (classes.at(leaf).head, leaf);
        // The link is alone at its level: its turn never passes.
        while at != classes.link() {
            let class = classes.at(at);
            let (rings, ring, quantum) = if at == lender {
                (&mut self.level, level, class.level_quantum)
            } else {
                (&mut self.family, classes.parent_family(class), class.family_quantum)
            };
            if !rings.covers(at, length) {
                rings.refill(at, quantum);
                rings.turn_to(ring, rings.next(at));
                return false;
            }
            if at == lender {
                return true;
            }
            at = class.parent as usize;
        }
        true
    }
}

/// The level of classes that lend where `efficient` lets them: above the link's.
const LAST_RESORT: usize = DEPTH_MAX + 1;
/// A level for the leaves, each class above, the link, and the last resort.
const LEVELS: usize = LAST_RESORT + 1;

state!(Turns { level, family });

/// The levels with unsatisfied classes follow from the rings.
impl State for Formal {
    fn save(&self, to: &mut Writer) {
        let Self { classes, turns, unsatisfied: _, overlimit, efficient: _ } = self;
        classes.save(to);
        turns.save(to);
        overlimit.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.classes.load(from)?;
        self.turns.load(from)?;
        self.overlimit.load(from)?;
        for (level, ranks) in self.unsatisfied.iter_mut().enumerate() {
            let is_busy = |row: &(usize, &Turns)| row.1.level.front(level).is_some();
            let busy = self.turns.iter().enumerate().filter(is_busy);
            *ranks = busy.fold(0, |ranks, (rank, _)| ranks | 1 << rank);
        }
        Ok(())
    }
}

impl Formal {
    /// Whether the leaves are active in which packets wait, and each active class is where it
    /// belongs.
    pub fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let is_waiting = |class: &Class| class.active != 0 && class.overlimit;
        let in_heap = |class: usize| self.overlimit.contains(class as u32);
        let mut heaped = 0..self.classes.link();
        // A key may be older than the undertime, and is smaller then.
        let is_older =
            |(key, class): (Instant, u32)| key <= self.classes.at(class as usize).meter.undertime();
        // The link itself is never charged.
        let link = self.classes.at(self.classes.link());
        let mut all = (0..=self.classes.link()).map(|class| self.classes.at(class));
        let has_ranks = |class: &Class| u32::from(class.active) >> self.turns.len() == 0;
        self.classes.knows(waiting)
            && !link.overlimit
            && link.meter.undertime() == Instant::ZERO
            && all.all(has_ranks)
            && self.overlimit.items(0).all(is_older)
            && heaped.all(|class| in_heap(class) == is_waiting(self.classes.at(class)))
            && (0..self.turns.len()).all(|rank| self.rank_is_sound(rank))
    }

    /// Whether the classes with packets of this rank are in the rings where they belong.
    fn rank_is_sound(&self, rank: usize) -> bool {
        let turns = &self.turns[rank];
        let (levels, families) = (turns.level.of_classes(), turns.family.of_classes());
        let is_sound = |at: usize| {
            let class = self.classes.at(at);
            let has_rank = class.active >> rank & 1 == 1;
            let level = self.lends_at(class).filter(|_| has_rank);
            let borrows = has_rank && class.borrows && at != self.classes.link();
            let family = borrows.then(|| self.classes.parent_family(class));
            // A class with children has those packets that wait below it.
            let below = self
                .classes
                .family(at)
                .is_none_or(|family| turns.family.front(family).is_some() == has_rank);
            levels[at] == level && families.get(at).copied().flatten() == family && below
        };
        (0..=self.classes.link()).all(is_sound)
    }
}
