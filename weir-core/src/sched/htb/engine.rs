//! The engine of hierarchical token buckets [algorithms §5.3-5.6]: which class may send, which one
//! lends, and which one is next.
//!
//! A [`Precision`] gives the resolution of time and lengths, which distinguishes its two forms.
//!
//! Invariant: a class in mode `CanSend` with a backlogged leaf under it that reaches it by
//! borrowing is in the rows of its level, one in mode `MayBorrow` in the feeds of its parent; a
//! class in another mode than `CanSend` waits for the instant at which its mode may change.

use super::bucket::{Buckets, Mode, Rates};
use super::params::{ClassPlan, Defaults, LeafPlan};
use super::turns::{Turns, bits};
use crate::ids::{ClassId, LeafId};
use crate::order::families::Families;
use crate::order::heap::Heaps;
use crate::parameter::BuildError;
use crate::sched::loans::Loans;
use crate::sched::{
    Borrowed, Head, Kin, Refit, RefitError, Regulation, Scheduler, Selection, Tree, Waiting, Why,
};
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Hierarchical token buckets with the precision `P`.
pub struct Engine<P> {
    precision: P,
    /// The classes, numbered by the families.
    classes: Vec<Class>,
    families: Families,
    /// Parameters that equal classes share.
    rates: Vec<Shared>,
    /// The deficits of every leaf, one for each level at which a leaf can be served.
    deficits: Vec<i32>,
    deficits_each: usize,
    turns: Turns,
    /// A lane for each level.
    waits: Heaps<Instant>,
    /// A bit for each level that has classes.
    levels: u8,
    backlogged: u32,
    served: Served,
    loans: Loans,
}

pub(super) struct Class {
    buckets: Buckets,
    /// The parent; [`NONE`] for a top class.
    parent: u32,
    /// The number of its rates.
    rates: u32,
    mode: Mode,
    level: u8,
    /// The priority of a leaf.
    priority: u8,
    /// A bit for each priority at which it has packets to send.
    active: u8,
}

/// Parameters that equal classes share.
struct Shared {
    rates: Rates,
    /// In bytes; of leaves only.
    quantum: u32,
    /// How many classes have it.
    users: u32,
}

/// The resolution of an engine's times and lengths.
pub trait Precision: Send + 'static {
    /// Whether a class's mode remains until its tokens are a whole bucket below zero.
    fn hysteresis(&self) -> bool;

    /// Returns the cost of a packet of `bytes` in tokens, as bytes.
    fn counted(&self, bytes: Bytes) -> Bytes;

    /// Returns when a class that has earned its tokens after `wait` is examined; later than now.
    fn event(&self, now: Instant, wait: Duration) -> Instant;

    /// Returns the first instant from `at` on at which a class is examined.
    fn tick(&self, at: Instant) -> Instant;

    /// Returns the latest instant of the next poll; `all_wait` says whether every level has an
    /// event.
    fn patience(&self, now: Instant, all_wait: impl Fn() -> bool) -> Instant;
}

/// The leaf that `select` returned last.
#[derive(Clone, Copy)]
struct Served {
    leaf: LeafId,
    level: u8,
}

/// The parts that `build` fills, class by class.
#[derive(Default)]
struct Tables {
    classes: Vec<Class>,
    rates: Vec<Shared>,
    /// Which of them belong to a plan.
    rates_of: BTreeMap<(ClassPlan, u32), u32>,
}

impl<P: Precision> Scheduler for Engine<P> {
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        let class = &mut self.classes[leaf.index()];
        if class.active == 0 {
            class.active = 1 << class.priority;
            self.backlogged += 1;
            self.activate(leaf.0);
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
        let earliest = bits(self.levels).filter_map(|level| self.first_event(level)).min();
        let earliest = earliest.expect("a backlogged leaf that may not send waits for an event");
        let all_wait = || (0..LEVELS).all(|level| self.waits.len(level) > 0);
        Selection::At(earliest.min(self.precision.patience(now, all_wait)))
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        assert_eq!(self.served.leaf, leaf, "the leaf that was selected sends");
        let level = self.served.level;
        self.count_turn(leaf, level, sent);
        if level > 0 {
            // A top class is at the highest level.
            self.loans.count(leaf, LEVELS - usize::from(level), sent);
        }
        // Before the charge, as in Linux: a leaf that empties leaves rows and feeds in its old
        // mode.
        self.head_changed(now, leaf, next);
        self.charge_path(now, level, sent);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if head.is_none() && self.classes[leaf.index()].active != 0 {
            debug_assert!(self.backlogged > 0, "an active leaf is counted");
            self.deactivate(leaf.0);
            self.classes[leaf.index()].active = 0;
            self.backlogged -= 1;
        }
    }
}

impl<P: Precision> Engine<P> {
    /// See [`crate::sched::Explains::why`].
    #[inline]
    pub(in crate::sched) fn why_waited(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        // Usually neither bucket ever held it back.
        let class = &self.classes[leaf.index()];
        if class.mode == Mode::CanSend && !class.buckets.are_in_debt() {
            return Why::FREE;
        }
        self.why_held(now, leaf, from)
    }

    /// See [`crate::sched::Explains::borrowed`].
    pub(in crate::sched) fn loans_of(&self, leaf: LeafId) -> Borrowed {
        self.loans.of(leaf)
    }

    #[inline(never)]
    fn why_held(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        let mut why = Why { released: Instant::MAX, ..Why::FREE };
        // The ceiling that ends last, and how many levels above the leaf it is.
        let (mut ceiling, mut lending) = ((Instant::ZERO, 0), true);
        let mut at = leaf.0;
        for level in 0..LEVELS as u8 {
            let class = &self.classes[at as usize];
            let (own, limit) = self.held_until(class, now);
            ceiling = if limit > ceiling.0 { (limit, level) } else { ceiling };
            let held = match own.max(ceiling.0) {
                Instant::ZERO => (Instant::ZERO, Regulation::None, 0),
                until if until == own => (own, Regulation::Tokens, level),
                until => (until, Regulation::Ceiling, ceiling.1),
            };
            if held.0 < why.released {
                (why.released, why.regulation, why.level) = held;
            }
            if lending && class.mode == Mode::CanSend && class.level > 0 {
                why.lender = self.families.declared(at as usize);
            }
            lending &= class.mode == Mode::MayBorrow;
            at = class.parent;
            // Nothing later than that counts, and no class above is a lender any more.
            let is_settled = why.released <= from && !lending;
            if at == NONE || is_settled {
                break;
            }
        }
        why
    }

    /// Builds it for a tree; parameters that the tree does not give are those of `defaults`.
    pub(in crate::sched) fn new(
        tree: &Tree,
        precision: P,
        defaults: &Defaults,
    ) -> Result<Self, BuildError> {
        let families = Families::new(tree);
        let mut tables = Tables::default();
        tables.classes.reserve_exact(tree.classes().len());
        for id in families.order(tree) {
            tables.add_class(tree, id, &families, defaults)?;
        }
        let leaf_count = tree.leaf_count();
        let places = places(&tables.classes, leaf_count);
        let (mut sizes, mut levels) = ([0; LEVELS], 0);
        for &(level, _) in &places {
            sizes[usize::from(level)] += 1;
            levels |= 1 << level;
        }
        let depth = |leaf| tree.path(tree.class_of(leaf)).count();
        let deficits_each = tree.leaves().map(|(leaf, _)| depth(leaf)).max().unwrap_or(1);
        tables.rates.shrink_to_fit();
        Ok(Self {
            precision,
            turns: Turns::new(&children(tree, &families), &places),
            waits: Heaps::new(&sizes, places.len()),
            classes: tables.classes,
            families,
            rates: tables.rates,
            deficits: alloc::vec![0; leaf_count * deficits_each],
            deficits_each,
            levels,
            backlogged: 0,
            served: Served { leaf: LeafId(0), level: 0 },
            loans: Loans::new(tree),
        })
    }

    /// Takes over tokens, as times, and deficits; the order of turns starts anew.
    pub(in crate::sched) fn take_over(&mut self, now: Instant, old: &Self, kin: &Kin) {
        for (new, was) in self.families.kin(&old.families, kin) {
            let was = &old.classes[was as usize];
            let class = &mut self.classes[new as usize];
            let rates = &self.rates[class.rates as usize].rates;
            class.buckets.take_over(rates, &was.buckets);
            // Nothing waits yet, so a change of mode moves no class.
            let hysteresis = self.precision.hysteresis();
            let (mode, wait) = class.buckets.mode(rates, now, was.mode, hysteresis);
            class.mode = mode;
            if class.mode != Mode::CanSend {
                let due = self.precision.event(now, wait);
                self.waits.insert(usize::from(class.level), new, due);
            }
        }
        self.loans.inherit(&old.loans, kin);
        let each = self.deficits_each.min(old.deficits_each);
        for (new, was) in kin.leaves() {
            let quantum = self.rates[self.classes[new.index()].rates as usize].quantum;
            let before = &old.deficits[was.index() * old.deficits_each..][..each];
            let now = &mut self.deficits[new.index() * self.deficits_each..][..each];
            for (deficit, before) in now.iter_mut().zip(before) {
                *deficit = *before.min(&(quantum as i32));
            }
        }
    }

    /// See [`crate::sched::Changes::refit`].
    pub(in crate::sched) fn refit_leaf(
        &mut self,
        now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
        defaults: &Defaults,
    ) -> Result<(), RefitError> {
        let id = tree.class_of(leaf);
        let plan = ClassPlan::new(tree, id, defaults)?;
        let LeafPlan { quantum, priority } = LeafPlan::new(tree, id, plan.own.0, defaults);
        if !self.has_turns(leaf, priority) {
            return Err(RefitError::NeedsChange("no class had its priority"));
        }
        let rates = Rates::new(plan.own, plan.ceiling);
        self.share_rates(leaf, Shared { rates, quantum, users: 1 });
        let class = &mut self.classes[leaf.index()];
        class.priority = priority;
        let (before, was) = (class.buckets, class.mode);
        class.buckets = Buckets::full(&rates);
        if refit.is_new {
            class.mode = Mode::CanSend;
        } else {
            class.buckets.take_over(&rates, &before);
        }
        let hysteresis = self.precision.hysteresis();
        let (mode, wait) = class.buckets.mode(&rates, now, class.mode, hysteresis);
        class.mode = mode;
        if was != Mode::CanSend {
            self.waits.remove(0, leaf.0);
        }
        if mode != Mode::CanSend {
            self.waits.insert(0, leaf.0, self.precision.event(now, wait));
        }
        let most = if refit.is_new { 0 } else { quantum as i32 };
        for deficit in &mut self.deficits[leaf.index() * self.deficits_each..][..self.deficits_each]
        {
            *deficit = (*deficit).min(most);
        }
        Ok(())
    }

    /// Returns whether there are rows and feeds for `leaf` at this priority, up to the top.
    fn has_turns(&self, leaf: LeafId, priority: u8) -> bool {
        let mut at = leaf.0;
        loop {
            let Class { parent, level, .. } = self.classes[at as usize];
            let family = (parent != NONE).then(|| self.family(parent));
            if !self.turns.has_room(at, family, (level, priority)) {
                return false;
            }
            if parent == NONE {
                return true;
            }
            at = parent;
        }
    }

    /// Gives `leaf` these rates, in the place of its own if no other class shares them.
    fn share_rates(&mut self, leaf: LeafId, shared: Shared) {
        let number = &mut self.classes[leaf.index()].rates;
        let before = &mut self.rates[*number as usize];
        if before.users == 1 {
            *before = shared;
            return;
        }
        before.users -= 1;
        *number = self.rates.len() as u32;
        self.rates.push(shared);
    }

    /// The number of the family of a class with children.
    #[inline]
    fn family(&self, class: u32) -> usize {
        class as usize - self.families.leaves()
    }

    /// Returns until when the tokens of its rate and of its ceil hold a class back; the epoch if
    /// they do not, as when hysteresis lets it continue to send.
    fn held_until(&self, class: &Class, now: Instant) -> (Instant, Instant) {
        let (own, ceiling) = class.buckets.earned_at();
        let until = |earned: Instant, allowed: bool| {
            if allowed && earned > now { Instant::ZERO } else { self.precision.tick(earned) }
        };
        let own = until(own, class.mode == Mode::CanSend);
        (own, until(ceiling, class.mode != Mode::CantSend))
    }

    /// The earliest event of `level`.
    fn first_event(&self, level: usize) -> Option<Instant> {
        self.waits.first(level).map(|row| row.0)
    }

    /// Re-evaluates the classes of `level` whose event is due.
    fn wake(&mut self, level: usize, now: Instant) {
        // Each class once: those that continue to wait have an event after now.
        for _ in 0..self.waits.len(level) {
            let Some((due, class)) = self.waits.first(level) else { return };
            if due > now {
                return;
            }
            self.waits.remove(level, class);
            let wait = self.change_mode(class, now);
            if self.classes[class as usize].mode != Mode::CanSend {
                self.waits.insert(level, class, self.precision.event(now, wait));
            }
        }
    }

    /// Follows the pointers from a row down to a leaf. A feed at its right end restarts and
    /// advances the pointer above it, so a class's turn lasts until its children had theirs.
    fn next_leaf(&mut self, level: usize, priority: usize) -> LeafId {
        let mut class = self.turns.row_front(level, priority);
        // A step goes down, or restarts a feed that the next pass finds restarted.
        for _ in 0..STEPS_PER_CLASS * self.classes.len() {
            let at = self.classes[class as usize].level;
            if at == 0 {
                return LeafId(class);
            }
            class = match self.turns.feed_front(self.family(class), priority) {
                Some(child) => child,
                None if usize::from(at) == level => {
                    self.turns.advance_row(level, priority);
                    self.turns.row_front(level, priority)
                }
                None => {
                    let parent = self.classes[class as usize].parent;
                    self.turns.advance_feed(self.family(parent), priority);
                    parent
                }
            };
        }
        unreachable!("feeds hold active classes only, so the pointers lead to a leaf")
    }

    /// Returns the index of the deficit of `leaf` for turns at `level`.
    #[inline]
    fn deficit_place(&self, leaf: LeafId, level: u8) -> usize {
        // Levels 0, 7, 6, ... in the order in which a leaf of any depth has them.
        let place = if level == 0 { 0 } else { LEVELS - usize::from(level) };
        leaf.index() * self.deficits_each + place
    }

    /// [algorithms §5.5] Deducts the packet from the turn; a turn used up goes to the next.
    fn count_turn(&mut self, leaf: LeafId, level: u8, sent: Bytes) {
        let place = self.deficit_place(leaf, level);
        let deficit = &mut self.deficits[place];
        let sent = i32::try_from(sent.get()).unwrap_or(i32::MAX);
        *deficit = deficit.saturating_sub(sent);
        if *deficit >= 0 {
            return;
        }
        let Class { parent, priority, rates, .. } = self.classes[leaf.index()];
        *deficit += self.rates[rates as usize].quantum as i32;
        if level == 0 {
            self.turns.advance_row(0, usize::from(priority));
        } else {
            self.turns.advance_feed(self.family(parent), usize::from(priority));
        }
    }

    /// [algorithms §5.5] Charges the leaf last selected and its ancestors; `level` lent.
    fn charge_path(&mut self, now: Instant, level: u8, sent: Bytes) {
        let mut at = self.served.leaf.0;
        let sent = self.precision.counted(sent);
        let hysteresis = self.precision.hysteresis();
        for _ in 0..LEVELS {
            let class = &mut self.classes[at as usize];
            let lent = class.level < level;
            class.buckets.charge(&self.rates[class.rates as usize].rates, now, sent, lent);
            let parent = class.parent;
            if hysteresis || !class.buckets.keeps(class.mode) {
                self.follow_mode(at, now);
            }
            at = parent;
            if at == NONE {
                return;
            }
        }
    }

    /// Gives a class that was charged the mode of its tokens, and its event.
    // Out of line, so that the charge of a class whose mode does not change needs few registers.
    #[inline(never)]
    fn follow_mode(&mut self, at: u32, now: Instant) {
        let Class { mode: before, level, .. } = self.classes[at as usize];
        let lane = usize::from(level);
        let wait = self.change_mode(at, now);
        let mode = self.classes[at as usize].mode;
        if before == mode {
            return;
        }
        if before != Mode::CanSend {
            self.waits.remove(lane, at);
        }
        if mode != Mode::CanSend {
            self.waits.insert(lane, at, self.precision.event(now, wait));
        }
    }

    /// Gives a class the mode of its tokens; returns the wait until the next change.
    #[inline]
    fn change_mode(&mut self, class: u32, now: Instant) -> Duration {
        let this = &self.classes[class as usize];
        let shared = &self.rates[this.rates as usize];
        let hysteresis = self.precision.hysteresis();
        let (mode, wait) = this.buckets.mode(&shared.rates, now, this.mode, hysteresis);
        if mode == this.mode {
            return wait;
        }
        // A class that cannot send is in no row and no feed, and both calls leave it out.
        self.deactivate(class);
        self.classes[class as usize].mode = mode;
        self.activate(class);
        wait
    }

    /// Enters an active class into the row or feed of its mode, and the ancestors that it
    /// activates.
    fn activate(&mut self, class: u32) {
        let (mut at, mut priorities) = (class, self.classes[class as usize].active);
        while priorities != 0 {
            let Class { mode, parent, level, .. } = self.classes[at as usize];
            match mode {
                Mode::CanSend => return self.turns.join_rows(usize::from(level), at, priorities),
                Mode::MayBorrow if parent != NONE => {}
                _ => return,
            }
            priorities = self.turns.join_feeds(self.family(parent), at, priorities);
            self.classes[parent as usize].active |= priorities;
            at = parent;
        }
    }

    /// Reverses `activate`.
    fn deactivate(&mut self, class: u32) {
        let (mut at, mut priorities) = (class, self.classes[class as usize].active);
        while priorities != 0 {
            let Class { mode, parent, level, .. } = self.classes[at as usize];
            match mode {
                Mode::CanSend => return self.turns.leave_rows(usize::from(level), at, priorities),
                Mode::MayBorrow if parent != NONE => {}
                _ => return,
            }
            priorities = self.turns.leave_feeds(self.family(parent), at, priorities);
            self.classes[parent as usize].active &= !priorities;
            at = parent;
        }
    }
}

impl Tables {
    /// Adds the next class.
    fn add_class(
        &mut self,
        tree: &Tree,
        id: ClassId,
        families: &Families,
        defaults: &Defaults,
    ) -> Result<(), BuildError> {
        let plan = ClassPlan::new(tree, id, defaults)?;
        let ancestors = tree.path(id).count() - 1;
        let is_leaf = tree.leaf_of(id).is_some();
        // [algorithms §5.3] A leaf is at level 0, a top class with children at the highest.
        let level = if is_leaf { 0 } else { LEVELS - 1 - ancestors };
        let LeafPlan { quantum, priority } = LeafPlan::new(tree, id, plan.own.0, defaults);
        let rates = *self.rates_of.entry((plan, quantum)).or_insert(self.rates.len() as u32);
        if rates as usize == self.rates.len() {
            let rates = Rates::new(plan.own, plan.ceiling);
            self.rates.push(Shared { rates, quantum, users: 0 });
        }
        self.rates[rates as usize].users += 1;
        let parent = tree.class(id).parent;
        self.classes.push(Class {
            buckets: Buckets::full(&self.rates[rates as usize].rates),
            parent: parent.map_or(NONE, |parent| families.number(parent)),
            rates,
            mode: Mode::CanSend,
            level: level as u8,
            priority,
            active: 0,
        });
        Ok(())
    }
}

/// The children of each family, in the order of declaration.
fn children(tree: &Tree, families: &Families) -> Vec<Vec<u32>> {
    let mut children = alloc::vec![Vec::new(); families.len()];
    for (id, class) in tree.classes() {
        if let Some(parent) = class.parent {
            let family = families.number(parent) as usize - families.leaves();
            children[family].push(families.number(id));
        }
    }
    children
}

/// The level of each class and, as bits, the priorities of the leaves under it.
fn places(classes: &[Class], leaves: usize) -> Vec<(u8, u8)> {
    let mut places: Vec<_> = classes.iter().map(|class| (class.level, 0)).collect();
    for (leaf, class) in classes.iter().enumerate().take(leaves) {
        let mut at = leaf as u32;
        while at != NONE {
            places[at as usize].1 |= 1 << class.priority;
            at = classes[at as usize].parent;
        }
    }
    places
}

/// Level 0 holds the leaves, level 7 the top classes with children.
pub(super) const LEVELS: usize = 8;
/// `prio` 0 to 7.
pub(super) const PRIORITIES: usize = 8;
/// Stands for no class.
const NONE: u32 = u32::MAX;
/// Each feed restarts at most once on the way to a leaf, with one descent before and one after it.
const STEPS_PER_CLASS: usize = 4 * LEVELS;

// Which leaves are active is written beside the classes.
state!(Class { buckets, mode; kept: parent, rates, level, priority, active });

/// Tokens, modes, events and deficits, and which leaves wait. Which classes are active, and their
/// rows and feeds, follow from that; the pointers do not.
impl<P: Precision> State for Engine<P> {
    fn save(&self, to: &mut Writer) {
        let Self {
            precision: _,
            classes,
            families,
            rates: _,
            deficits,
            deficits_each: _,
            turns,
            waits,
            levels: _,
            backlogged: _,
            // The next choice replaces it.
            served: _,
            loans,
        } = self;
        classes.save(to);
        let leaves = &classes[..families.leaves()];
        leaves.iter().for_each(|leaf| (leaf.active != 0).save(to));
        deficits.save(to);
        waits.save(to);
        turns.save(self.used(), to);
        loans.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.classes.load(from)?;
        for leaf in 0..self.families.leaves() {
            let (mut is_active, class) = (false, &mut self.classes[leaf]);
            is_active.load(from)?;
            if is_active {
                class.active = 1 << class.priority;
                self.backlogged += 1;
                self.activate(leaf as u32);
            }
        }
        self.deficits.load(from)?;
        self.waits.load(from)?;
        if !self.waits_are_sound() {
            return Err(StateError::Invalid("events"));
        }
        self.turns.load(self.used(), from)?;
        self.loans.load(from)
    }
}

impl<P: Precision> Engine<P> {
    /// Returns a bit for each priority that a leaf has.
    fn used(&self) -> u8 {
        let leaves = &self.classes[..self.families.leaves()];
        leaves.iter().fold(0, |used, leaf| used | 1 << leaf.priority)
    }

    /// Whether exactly the classes wait for an event that may not send at their own rate, each in
    /// the lane of its level.
    fn waits_are_sound(&self) -> bool {
        let held = |class: &&Class| class.mode != Mode::CanSend;
        let is_sound = |level: usize, class: u32| {
            let class = &self.classes[class as usize];
            held(&class) && usize::from(class.level) == level
        };
        let mut lanes = (0..LEVELS).map(|level| (level, self.waits.items(level)));
        let count: usize = (0..LEVELS).map(|level| self.waits.len(level)).sum();
        lanes.all(|(level, mut items)| items.all(|(_, class)| is_sound(level, class)))
            && count == self.classes.iter().filter(held).count()
    }

    /// Whether exactly the leaves are active that `waiting` says.
    pub(in crate::sched) fn knows(&self, waiting: &Waiting<'_>) -> bool {
        waiting.all(|leaf, head| (self.classes[leaf].active != 0) == head.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_class_takes_at_most_128_bytes() {
        // A leaf with three levels, its place and its entry in the wait queue, and less than a byte
        // for its bits in a row and a feed. It also has a cache line of the store; classes with
        // children have none, which compensates for the extra byte.
        let leaf = size_of::<Class>() + 3 * size_of::<i32>();
        let order = size_of::<u32>() + 12 + 1;
        assert!(leaf + order <= 128 - 64 + 1, "{leaf} + {order}");
    }
}
