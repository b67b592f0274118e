//! The engine of hierarchical token buckets [algorithms §5.3-5.6]: who may send, who lends, whose
//! turn it is. A [`Precision`] says how exactly it knows time and lengths, and so which of its two
//! forms it is.
//!
//! Invariant: a class in mode `CanSend` with a backlogged leaf under it that reaches it by
//! borrowing is in the rows of its level, one in mode `MayBorrow` in the feeds of its parent; a
//! class in another mode than `CanSend` waits for the instant at which its mode may change.

use super::bucket::{Buckets, Mode, Rates};
use super::params::{ClassPlan, Defaults, LeafPlan};
use super::turns::{Turns, bits};
use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::sched::wait_queue::WaitQueue;
use crate::sched::{Head, Kin, Regulation, Scheduler, Selection, Tree, Why};
use crate::units::{Bytes, Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Hierarchical token buckets, as exact as `P`.
pub struct Engine<P> {
    precision: P,
    classes: Vec<Class>,
    /// What classes that are alike share.
    rates: Vec<Rates>,
    leaves: Vec<Leaf>,
    /// The deficits of every leaf, one for each level at which it can be served.
    deficits: Vec<i32>,
    turns: Turns,
    /// A lane for each level.
    waits: WaitQueue,
    /// A bit for each level that has classes.
    levels: u8,
    backlogged: u32,
    served: Served,
}

pub(super) struct Class {
    buckets: Buckets,
    /// The class above, [`NONE`] at the top.
    parent: u32,
    /// The number of its leaf, or of its family if it has children.
    member: u32,
    /// Which rates it has.
    rates: u32,
    mode: Mode,
    level: u8,
    /// The priority of a leaf.
    priority: u8,
    /// A bit for each priority at which it has something to send.
    active: u8,
}

#[derive(Clone, Copy)]
pub(super) struct Leaf {
    class: u32,
    quantum: u32,
    /// Where its deficits start.
    deficits: u32,
}

/// How exactly an engine knows time and lengths.
pub trait Precision: Send + 'static {
    /// Whether charging a sum is charging packet by packet: there is no hysteresis, and what counts
    /// is every byte.
    const ADDITIVE: bool;

    /// Whether a class keeps its mode until its tokens are a whole bucket below zero.
    fn hysteresis(&self) -> bool;

    /// What a packet of `bytes` costs in tokens, as bytes.
    fn counted(&self, bytes: Bytes) -> Bytes;

    /// When a class that has earned its tokens after `wait` is looked at; later than now.
    fn event(&self, now: Instant, wait: Duration) -> Instant;

    /// The first instant from `at` on at which a class is looked at.
    fn tick(&self, at: Instant) -> Instant;

    /// The latest instant at which to ask again; `all_wait` says whether every level has an event.
    fn patience(&self, now: Instant, all_wait: impl Fn() -> bool) -> Instant;
}

/// The last answer of `select`.
#[derive(Clone, Copy)]
struct Served {
    leaf: LeafId,
    level: u8,
}

/// What `build` fills, class after class.
#[derive(Default)]
struct Tables {
    classes: Vec<Class>,
    rates: Vec<Rates>,
    /// Which of them belong to a plan.
    rates_of: BTreeMap<ClassPlan, u32>,
    leaves: Vec<Leaf>,
    deficits: Vec<i32>,
    /// The classes with children.
    families: Vec<ClassId>,
}

impl<P: Precision> Scheduler for Engine<P> {
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        let index = self.leaves[leaf.index()].class;
        let class = &mut self.classes[index as usize];
        if class.active == 0 {
            class.active = 1 << class.priority;
            self.backlogged += 1;
            self.activate(index);
        }
    }

    fn select(&mut self, now: Instant) -> Selection {
        if self.backlogged == 0 {
            return Selection::Idle;
        }
        // [algorithms §5.5] Own rate before borrowed rate: the levels from the leaves up, and the
        // events of a level only when its turn comes.
        for level in bits(self.levels) {
            self.wake(level, now);
            if let Some(priority) = self.turns.first_busy(level) {
                let leaf = self.next_leaf(level, priority);
                self.served = Served { leaf, level: level as u8 };
                return Selection::Leaf(leaf);
            }
        }
        let earliest = bits(self.levels).filter_map(|level| self.waits.earliest(level)).min();
        let earliest = earliest.expect("a backlogged leaf that may not send waits for an event");
        let all_wait = || (0..LEVELS).all(|level| self.waits.earliest(level).is_some());
        Selection::At(earliest.min(self.precision.patience(now, all_wait)))
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        assert_eq!(self.served.leaf, leaf, "the leaf that was selected sends");
        let level = self.served.level;
        self.count_turn(leaf, level, sent);
        // Before the charge, as in Linux: whoever empties leaves rows and feeds in its old mode.
        self.head_changed(now, leaf, next);
        self.charge_path(now, level, sent);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let class = self.leaves[leaf.index()].class;
        if head.is_none() && self.classes[class as usize].active != 0 {
            self.deactivate(class);
            self.classes[class as usize].active = 0;
            self.backlogged -= 1;
        }
    }

    fn allowance(&self, now: Instant, leaf: LeafId) -> Bytes {
        let Served { leaf: served, level } = self.served;
        if !P::ADDITIVE || served != leaf {
            return Bytes::ZERO;
        }
        let mut at = self.leaves[leaf.index()].class;
        // As long as the deficit lasts the turn does, and as long as no mode changes no row does.
        let deficit = self.deficits[self.deficit_place(leaf, level)];
        let mut bytes = deficit.max(0) as u64;
        if bytes == 0 {
            return Bytes::ZERO;
        }
        for _ in 0..LEVELS {
            let class = &self.classes[at as usize];
            let rates = &self.rates[class.rates as usize];
            bytes = bytes.min(class.buckets.room(rates, now, class.mode, class.level < level));
            at = class.parent;
            if at == NONE {
                break;
            }
        }
        Bytes::new(bytes)
    }

    fn why(&self, now: Instant, leaf: LeafId) -> Why {
        let mut why = Why { released: Instant::MAX, ..Why::FREE };
        let (mut ceiling, mut lending) = (Instant::ZERO, true);
        let mut at = self.leaves[leaf.index()].class;
        for _ in 0..LEVELS {
            let class = &self.classes[at as usize];
            let (own, limit) = self.held_until(class, now);
            ceiling = ceiling.max(limit);
            let held = match own.max(ceiling) {
                Instant::ZERO => (Instant::ZERO, Regulation::None),
                until if until == own => (own, Regulation::Tokens),
                until => (until, Regulation::Ceiling),
            };
            if held.0 < why.released {
                (why.released, why.regulation) = held;
            }
            if lending && class.mode == Mode::CanSend && class.level > 0 {
                why.lender = Some(ClassId(at));
            }
            lending &= class.mode == Mode::MayBorrow;
            at = class.parent;
            // Nothing is earlier than the epoch, and nobody above is a lender any more.
            let is_settled = why.released == Instant::ZERO && !lending;
            if at == NONE || is_settled {
                break;
            }
        }
        why
    }
}

impl<P: Precision> Engine<P> {
    /// Builds it for a tree; what the tree does not say is that of `defaults`.
    pub(in crate::sched) fn new(
        tree: &Tree,
        precision: P,
        defaults: &Defaults,
    ) -> Result<Self, BuildError> {
        let mut tables = Tables::default();
        for (id, _) in tree.classes() {
            tables.add_class(tree, id, defaults)?;
        }
        let places = tables.places();
        let (mut sizes, mut levels) = ([0; LEVELS], 0);
        for &(level, _) in &places {
            sizes[usize::from(level)] += 1;
            levels |= 1 << level;
        }
        Ok(Self {
            precision,
            turns: Turns::new(tree, &tables.families, &places),
            waits: WaitQueue::new(&sizes, places.len()),
            classes: tables.classes,
            rates: tables.rates,
            leaves: tables.leaves,
            deficits: tables.deficits,
            levels,
            backlogged: 0,
            served: Served { leaf: LeafId(0), level: 0 },
        })
    }

    /// Takes over tokens, as times, and deficits; whose turn it is starts anew.
    pub(in crate::sched) fn take_over(&mut self, now: Instant, old: &Self, kin: &Kin) {
        for (new, was) in kin.classes() {
            let (class, was) = (&mut self.classes[new.index()], &old.classes[was.index()]);
            let rates = &self.rates[class.rates as usize];
            class.buckets.take_over(rates, &was.buckets);
            // Nothing waits yet, so a change of mode moves nobody.
            let hysteresis = self.precision.hysteresis();
            let (mode, wait) = class.buckets.mode(rates, now, was.mode, hysteresis);
            class.mode = mode;
            if class.mode != Mode::CanSend {
                let due = self.precision.event(now, wait);
                self.waits.insert(usize::from(class.level), new.0, due);
            }
        }
        for (new, was) in kin.leaves() {
            let (Leaf { deficits, quantum, .. }, places) = self.deficits_of(new);
            let (Leaf { deficits: from, .. }, places_before) = old.deficits_of(was);
            for place in 0..places.min(places_before) {
                let deficit = old.deficits[from as usize + place];
                self.deficits[deficits as usize + place] = deficit.min(quantum as i32);
            }
        }
    }

    /// A leaf and how many deficits it has.
    fn deficits_of(&self, leaf: LeafId) -> (Leaf, usize) {
        let end = self.leaves.get(leaf.index() + 1).map(|next| next.deficits as usize);
        let row = self.leaves[leaf.index()];
        (row, end.unwrap_or(self.deficits.len()) - row.deficits as usize)
    }

    /// Until when the tokens of its rate and of its ceil hold a class back; the epoch if not at
    /// all, as when hysteresis lets it send on.
    fn held_until(&self, class: &Class, now: Instant) -> (Instant, Instant) {
        let (own, ceiling) = class.buckets.earned_at();
        let until = |earned: Instant, allowed: bool| {
            if allowed && earned > now { Instant::ZERO } else { self.precision.tick(earned) }
        };
        let own = until(own, class.mode == Mode::CanSend);
        (own, until(ceiling, class.mode != Mode::CantSend))
    }

    /// Re-evaluates the classes of `level` whose event is due.
    fn wake(&mut self, level: usize, now: Instant) {
        // Each class once: those that go on waiting have an event after now.
        for _ in 0..self.waits.len(level) {
            let Some(class) = self.waits.pop_due(level, now) else { return };
            let wait = self.change_mode(class, now);
            if self.classes[class as usize].mode != Mode::CanSend {
                self.waits.insert(level, class, self.precision.event(now, wait));
            }
        }
    }

    /// Follows the pointers from a row down to a leaf. A feed at its right end starts again and
    /// moves the pointer above it on, so a class keeps its turn until its children had theirs.
    fn next_leaf(&mut self, level: usize, priority: usize) -> LeafId {
        let mut class = self.turns.row_front(level, priority);
        // A step goes down, or restarts a feed that the next pass finds restarted.
        for _ in 0..STEPS_PER_CLASS * self.classes.len() {
            let Class { member, level: at, .. } = self.classes[class as usize];
            if at == 0 {
                return LeafId(member);
            }
            class = match self.turns.feed_front(member as usize, priority) {
                Some(child) => child,
                None if usize::from(at) == level => {
                    self.turns.advance_row(level, priority);
                    self.turns.row_front(level, priority)
                }
                None => {
                    let parent = self.classes[class as usize].parent;
                    let family = self.classes[parent as usize].member;
                    self.turns.advance_feed(family as usize, priority);
                    parent
                }
            };
        }
        unreachable!("feeds hold active classes only, so the pointers lead to a leaf")
    }

    /// Where the deficit of `leaf` for turns at `level` is.
    #[inline]
    fn deficit_place(&self, leaf: LeafId, level: u8) -> usize {
        // Levels 0, 7, 6, ... in the order in which a leaf of any depth has them.
        let place = if level == 0 { 0 } else { LEVELS - usize::from(level) };
        self.leaves[leaf.index()].deficits as usize + place
    }

    /// [algorithms §5.5] Deducts the packet from the turn; a turn used up goes to the next.
    fn count_turn(&mut self, leaf: LeafId, level: u8, sent: Bytes) {
        let place = self.deficit_place(leaf, level);
        let Leaf { class, quantum, .. } = self.leaves[leaf.index()];
        let deficit = &mut self.deficits[place];
        let sent = i32::try_from(sent.get()).unwrap_or(i32::MAX);
        *deficit = deficit.saturating_sub(sent);
        if *deficit >= 0 {
            return;
        }
        *deficit += quantum as i32;
        let Class { parent, priority, .. } = self.classes[class as usize];
        if level == 0 {
            self.turns.advance_row(0, usize::from(priority));
        } else {
            let family = self.classes[parent as usize].member;
            self.turns.advance_feed(family as usize, usize::from(priority));
        }
    }

    /// [algorithms §5.5] Charges the leaf last selected and its ancestors; `level` lent.
    fn charge_path(&mut self, now: Instant, level: u8, sent: Bytes) {
        let mut at = self.leaves[self.served.leaf.index()].class;
        let sent = self.precision.counted(sent);
        for _ in 0..LEVELS {
            let class = &mut self.classes[at as usize];
            let lent = class.level < level;
            class.buckets.charge(&self.rates[class.rates as usize], now, sent, lent);
            let (parent, keeps) = (class.parent, P::ADDITIVE && class.buckets.keeps(class.mode));
            if !keeps {
                self.follow_mode(at, now);
            }
            at = parent;
            if at == NONE {
                return;
            }
        }
    }

    /// Gives a class that was charged the mode of its tokens, and its event.
    // Out of line, so that the charge of a class that keeps its mode needs few registers.
    #[inline(never)]
    fn follow_mode(&mut self, at: u32, now: Instant) {
        let class = &self.classes[at as usize];
        let (old, lane) = (class.mode, usize::from(class.level));
        let wait = self.change_mode(at, now);
        let mode = self.classes[at as usize].mode;
        if old == mode {
            return;
        }
        if old != Mode::CanSend {
            self.waits.remove(lane, at);
        }
        if mode != Mode::CanSend {
            self.waits.insert(lane, at, self.precision.event(now, wait));
        }
    }

    /// Gives a class the mode of its tokens; answers the wait until the next change.
    #[inline]
    fn change_mode(&mut self, class: u32, now: Instant) -> Duration {
        let this = &self.classes[class as usize];
        let (rates, hysteresis) = (&self.rates[this.rates as usize], self.precision.hysteresis());
        let (mode, wait) = this.buckets.mode(rates, now, this.mode, hysteresis);
        if mode == this.mode {
            return wait;
        }
        // A class that cannot send is in no row and no feed, and both calls leave it out.
        self.deactivate(class);
        self.classes[class as usize].mode = mode;
        self.activate(class);
        wait
    }

    /// Enters an active class where its mode puts it, and the classes it makes active above.
    fn activate(&mut self, class: u32) {
        let (mut at, mut priorities) = (class, self.classes[class as usize].active);
        while priorities != 0 {
            let Class { mode, parent, level, .. } = self.classes[at as usize];
            match mode {
                Mode::CanSend => return self.turns.join_rows(usize::from(level), at, priorities),
                Mode::MayBorrow if parent != NONE => {}
                _ => return,
            }
            let above = &mut self.classes[parent as usize];
            priorities = self.turns.join_feeds(above.member as usize, at, priorities);
            above.active |= priorities;
            at = parent;
        }
    }

    /// The mirror image of `activate`.
    fn deactivate(&mut self, class: u32) {
        let (mut at, mut priorities) = (class, self.classes[class as usize].active);
        while priorities != 0 {
            let Class { mode, parent, level, .. } = self.classes[at as usize];
            match mode {
                Mode::CanSend => return self.turns.leave_rows(usize::from(level), at, priorities),
                Mode::MayBorrow if parent != NONE => {}
                _ => return,
            }
            let above = &mut self.classes[parent as usize];
            priorities = self.turns.leave_feeds(above.member as usize, at, priorities);
            above.active &= !priorities;
            at = parent;
        }
    }
}

impl Tables {
    fn add_class(
        &mut self,
        tree: &Tree,
        id: ClassId,
        defaults: &Defaults,
    ) -> Result<(), BuildError> {
        let plan = ClassPlan::new(tree, id, defaults)?;
        let ancestors = tree.path(id).count() - 1;
        // [algorithms §5.3] A leaf is at level 0, a top class with children at the highest.
        let (member, level) = match tree.leaf_of(id) {
            Some(leaf) => (leaf.0, 0),
            None => (self.families.len() as u32, LEVELS - 1 - ancestors),
        };
        let LeafPlan { quantum, priority } = LeafPlan::new(tree, id, plan.own.0, defaults);
        if level > 0 {
            self.families.push(id);
        } else {
            let deficits = self.deficits.len() as u32;
            self.leaves.push(Leaf { class: id.0, quantum, deficits });
            self.deficits.resize(self.deficits.len() + 1 + ancestors, 0);
        }
        let rates = *self.rates_of.entry(plan).or_insert(self.rates.len() as u32);
        if rates as usize == self.rates.len() {
            self.rates.push(Rates::new(plan.own, plan.ceiling));
        }
        self.classes.push(Class {
            buckets: Buckets::full(&self.rates[rates as usize]),
            parent: tree.class(id).parent.map_or(NONE, |parent| parent.0),
            member,
            rates,
            mode: Mode::CanSend,
            level: level as u8,
            priority,
            active: 0,
        });
        Ok(())
    }

    /// The level of each class and, as bits, the priorities of the leaves under it.
    fn places(&self) -> Vec<(u8, u8)> {
        let mut places: Vec<_> = self.classes.iter().map(|class| (class.level, 0)).collect();
        for leaf in &self.leaves {
            let mut at = leaf.class;
            while at != NONE {
                places[at as usize].1 |= 1 << self.classes[leaf.class as usize].priority;
                at = self.classes[at as usize].parent;
            }
        }
        places
    }
}

/// Level 0 holds the leaves, level 7 the top classes with children.
pub(super) const LEVELS: usize = 8;
/// `prio` 0 to 7.
pub(super) const PRIORITIES: usize = 8;
/// No class.
const NONE: u32 = u32::MAX;
/// Each feed restarts at most once on the way to a leaf; before and after it, one way down.
const STEPS_PER_CLASS: usize = 4 * LEVELS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_class_takes_at_most_128_bytes() {
        // A leaf with three levels; its slot both ways, its place and its wait in the queue; its
        // bit in a row and a feed with the tiers above, under two bits each.
        let leaf = size_of::<Class>() + size_of::<Leaf>() + 3 * size_of::<i32>();
        let order = 3 * size_of::<u32>() + 16 + 1;
        assert!(leaf + order <= 128, "{leaf} + {order}");
    }
}
