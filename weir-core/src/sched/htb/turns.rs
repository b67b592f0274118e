//! The order of turns: rows, feeds and their pointers [algorithms §5.3].
//!
//! A *row* holds the classes of one level that may send at their own rate at one priority; a *feed*
//! holds the children of one class that borrow through it at one priority. Both are ordered by
//! class number and visited cyclically, from a pointer. Invariant: a pointer of a row names a
//! member or is at the right end; a pointer of a feed may name a former member, and then means that
//! member once it returns, or else the next one.

use super::engine::{LEVELS, PRIORITIES};
use crate::order::id_set::IdSet;
use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

/// All rows and feeds.
pub(super) struct Turns {
    /// By level and priority.
    rows: Vec<Row>,
    /// By level, a bit for each priority whose row has members.
    busy: [u8; LEVELS],
    /// By priority, the members of all feeds, by slot: a family's slots are neighbours.
    feeds: [IdSet; PRIORITIES],
    families: Vec<Family>,
    /// For each family the feeds of the priorities in use.
    family_feeds: Vec<Feed>,
    /// By priority, its index among those in use.
    feed_of: [u8; PRIORITIES],
    feeds_each: u32,
    /// The slots of classes that are not neighbours of their siblings; empty if all are.
    slots: Slots,
}

struct Row {
    members: IdSet,
    pointer: u32,
}

/// The children of one class, which have the slots from `first` on.
struct Family {
    first: u32,
    end: u32,
    /// The first child, where its siblings are the classes that follow it.
    eldest: u32,
}

/// The pointer of a feed and how many members it has.
#[derive(Clone, Copy)]
struct Feed {
    pointer: u32,
    members: u32,
}

/// Maps the slots of children to classes, and back.
#[derive(Default)]
struct Slots {
    of_class: Vec<u32>,
    classes: Vec<u32>,
}

impl Turns {
    /// Returns empty rows and feeds. `children` are those of each class that has any, in the order
    /// of their numbers; `places` gives for each class its level and the priorities of the leaves
    /// in it.
    pub(super) fn new(children: &[Vec<u32>], places: &[(u8, u8)]) -> Self {
        let used = places.iter().fold(0, |used, place| used | place.1);
        let mut turns = Self {
            rows: rows_of(places),
            busy: [0; LEVELS],
            feeds: core::array::from_fn(|_| IdSet::new(0)),
            families: Vec::with_capacity(children.len()),
            family_feeds: Vec::new(),
            feed_of: [0; PRIORITIES],
            feeds_each: used.count_ones(),
            slots: Slots::new(children, places.len()),
        };
        let mut first = 0;
        for siblings in children {
            let end = first + siblings.len() as u32;
            let eldest = siblings.first().copied().unwrap_or(0);
            turns.families.push(Family { first, end, eldest });
            first = end;
        }
        for (which, priority) in bits(used).enumerate() {
            turns.feeds[priority] = IdSet::new(first as usize);
            turns.feed_of[priority] = which as u8;
        }
        let feed = Feed { pointer: RIGHT_END, members: 0 };
        turns.family_feeds = alloc::vec![feed; children.len() * turns.feeds_each as usize];
        turns
    }

    /// Returns the slot of a child of `family`.
    #[inline]
    fn slot(&self, family: usize, class: u32) -> u32 {
        let Family { first, eldest, .. } = self.families[family];
        self.slots.of_class.get(class as usize).copied().unwrap_or_else(|| first + class - eldest)
    }

    /// Returns the child of `family` in a slot.
    #[inline]
    fn class(&self, family: usize, slot: u32) -> u32 {
        let Family { first, eldest, .. } = self.families[family];
        self.slots.classes.get(slot as usize).copied().unwrap_or_else(|| eldest + slot - first)
    }

    /// Returns whether there is a row for `class` at this level and priority and, where it has a
    /// parent's `family`, a feed.
    pub(super) fn has_room(
        &self,
        class: u32,
        family: Option<usize>,
        (level, priority): (u8, u8),
    ) -> bool {
        let (level, priority) = (usize::from(level), usize::from(priority));
        let has_feed = |family| self.feeds[priority].has_room(self.slot(family, class));
        self.rows[level * PRIORITIES + priority].members.has_room(class)
            && family.is_none_or(has_feed)
    }

    #[inline]
    fn feed(&mut self, family: usize, priority: usize) -> &mut Feed {
        let which = usize::from(self.feed_of[priority]);
        &mut self.family_feeds[family * self.feeds_each as usize + which]
    }

    /// Returns the first priority at which a class at `level` may send.
    #[inline]
    pub(super) fn first_busy(&self, level: usize) -> Option<usize> {
        let busy = self.busy[level];
        (busy != 0).then(|| busy.trailing_zeros() as usize)
    }

    /// Puts `class` into the rows of `priorities` at its level.
    #[inline]
    pub(super) fn join_rows(&mut self, level: usize, class: u32, priorities: u8) {
        self.busy[level] |= priorities;
        for priority in bits(priorities) {
            self.rows[level * PRIORITIES + priority].members.insert(class);
        }
    }

    /// Removes `class` from the rows of `priorities`; a pointer at it moves to the next member.
    #[inline]
    pub(super) fn leave_rows(&mut self, level: usize, class: u32, priorities: u8) {
        for priority in bits(priorities) {
            let row = &mut self.rows[level * PRIORITIES + priority];
            row.members.remove(class);
            if row.pointer == class {
                row.pointer = row.members.next(class).unwrap_or(RIGHT_END);
            }
            if row.members.is_empty() {
                self.busy[level] &= !(1 << priority);
            }
        }
    }

    /// Returns the class that the pointer of a row with members names; at the right end the pointer
    /// starts again.
    #[inline]
    pub(super) fn row_front(&mut self, level: usize, priority: usize) -> u32 {
        let row = &mut self.rows[level * PRIORITIES + priority];
        if row.pointer == RIGHT_END {
            row.pointer = row.members.next(0).expect("a busy row has a member");
        }
        row.pointer
    }

    /// Advances the pointer of a row to the next member.
    #[inline]
    pub(super) fn advance_row(&mut self, level: usize, priority: usize) {
        let row = &mut self.rows[level * PRIORITIES + priority];
        row.pointer = row.members.next(row.pointer + 1).unwrap_or(RIGHT_END);
    }

    /// Puts `class`, which is in none of them, into the feeds of `priorities` of its parent's
    /// `family`; returns those that were empty before.
    #[inline]
    pub(super) fn join_feeds(&mut self, family: usize, class: u32, priorities: u8) -> u8 {
        let mut fresh = 0;
        let slot = self.slot(family, class);
        for priority in bits(priorities) {
            let feed = self.feed(family, priority);
            if feed.members == 0 {
                fresh |= 1 << priority;
            }
            feed.members += 1;
            self.feeds[priority].insert(slot);
        }
        fresh
    }

    /// Removes `class`, which is in them, from the feeds of `priorities`; returns those that are
    /// empty now. A pointer at it stays, and later finds it again or the next one.
    #[inline]
    pub(super) fn leave_feeds(&mut self, family: usize, class: u32, priorities: u8) -> u8 {
        let mut ended = 0;
        let slot = self.slot(family, class);
        for priority in bits(priorities) {
            self.feeds[priority].remove(slot);
            let feed = self.feed(family, priority);
            feed.members -= 1;
            if feed.members == 0 {
                ended |= 1 << priority;
            }
        }
        ended
    }

    /// Returns the class that the pointer of a feed with members names, or `None` once at the right
    /// end, after which the feed starts again.
    #[inline]
    pub(super) fn feed_front(&mut self, family: usize, priority: usize) -> Option<u32> {
        let pointer = self.feed(family, priority).pointer;
        let found = self.feed_next(family, priority, pointer);
        let pointer = found.or_else(|| self.feed_next(family, priority, 0));
        let pointer = pointer.expect("an active class has a child in its feed");
        self.feed(family, priority).pointer = pointer;
        found.map(|slot| self.class(family, slot))
    }

    /// Advances the pointer of a feed, which names a member, to the next member.
    #[inline]
    pub(super) fn advance_feed(&mut self, family: usize, priority: usize) {
        let pointer = self.feed(family, priority).pointer;
        let next = self.feed_next(family, priority, pointer + 1);
        self.feed(family, priority).pointer = next.unwrap_or(RIGHT_END);
    }

    /// Returns the first slot of a feed's members that is `from` or later.
    #[inline]
    fn feed_next(&self, family: usize, priority: usize, from: u32) -> Option<u32> {
        let Family { first, end, .. } = self.families[family];
        self.feeds[priority].next(from.max(first)).filter(|&slot| slot < end)
    }
}

impl Slots {
    /// Where siblings are neighbours, slots follow from classes, and no table is needed.
    fn new(children: &[Vec<u32>], count: usize) -> Self {
        let is_run = |siblings: &Vec<u32>| siblings.is_sorted_by(|&a, &b| b == a + 1);
        if children.iter().all(is_run) {
            return Self::default();
        }
        let classes: Vec<u32> = children.iter().flatten().copied().collect();
        let mut of_class = alloc::vec![RIGHT_END; count];
        for (slot, &class) in classes.iter().enumerate() {
            of_class[class as usize] = slot as u32;
        }
        Self { of_class, classes }
    }
}

/// Returns rows with room where the tree can fill them.
fn rows_of(places: &[(u8, u8)]) -> Vec<Row> {
    let mut used = [0u8; LEVELS];
    for &(level, priorities) in places {
        used[usize::from(level)] |= priorities;
    }
    let row = |index: usize| {
        let in_use = used[index / PRIORITIES] & (1 << (index % PRIORITIES)) != 0;
        let capacity = if in_use { places.len() } else { 0 };
        Row { members: IdSet::new(capacity), pointer: RIGHT_END }
    };
    (0..LEVELS * PRIORITIES).map(row).collect()
}

/// Returns the numbers of the bits set in `mask`.
#[inline]
pub(super) fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        bit
    })
}

/// A pointer past the last member, as at the start.
const RIGHT_END: u32 = u32::MAX;

impl Turns {
    /// Writes the pointers, those of feeds for the priorities in `used`: a leaf that was retuned
    /// may have been the last of a priority. The members follow from modes and activity.
    pub(super) fn save(&self, used: u8, to: &mut Writer) {
        let Self {
            // The members follow.
            busy: _,
            feeds: _,
            rows,
            families,
            family_feeds,
            feed_of,
            feeds_each,
            slots: _,
        } = self;
        rows.iter().for_each(|row| row.pointer.save(to));
        for family in 0..families.len() {
            for which in bits(used).map(|priority| usize::from(feed_of[priority])) {
                family_feeds[family * *feeds_each as usize + which].pointer.save(to);
            }
        }
    }

    /// Reads the pointers, when all members are in their rows and feeds.
    pub(super) fn load(&mut self, used: u8, from: &mut Reader<'_>) -> Result<(), StateError> {
        for Row { members, pointer } in &mut self.rows {
            pointer.load(from)?;
            if *pointer != RIGHT_END && members.next(*pointer) != Some(*pointer) {
                return Err(StateError::Invalid("pointer of a row"));
            }
        }
        for family in 0..self.families.len() {
            for priority in bits(used) {
                self.feed(family, priority).pointer.load(from)?;
            }
        }
        Ok(())
    }
}
