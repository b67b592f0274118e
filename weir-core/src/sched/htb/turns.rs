//! Whose turn it is: rows, feeds and their pointers [algorithms §5.3].
//!
//! A *row* holds the classes of one level that may send at their own rate at one priority; a *feed*
//! holds the children of one class that borrow through it at one priority. Both are ordered by
//! class number and visited round, from a pointer. Invariant: a pointer of a row names a member or
//! is at the right end; a pointer of a feed may name a former member, and then stands for it until
//! it returns, or for the next one.

use super::engine::{LEVELS, PRIORITIES};
use crate::ids::ClassId;
use crate::sched::Tree;
use crate::sched::id_set::IdSet;
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
    slot_of_class: Vec<u32>,
    class_of_slot: Vec<u32>,
}

struct Row {
    members: IdSet,
    pointer: u32,
}

/// The children of one class.
struct Family {
    first: u32,
    end: u32,
    pointers: [u32; PRIORITIES],
    /// How many members each feed has.
    members: [u32; PRIORITIES],
}

impl Turns {
    /// Empty rows and feeds. `families` names the classes with children, in the order of their
    /// numbers; `places` says for each class its level and the priorities of the leaves in it.
    pub(super) fn new(tree: &Tree, families: &[ClassId], places: &[(u8, u8)]) -> Self {
        let mut turns = Self {
            rows: rows_of(places),
            busy: [0; LEVELS],
            feeds: core::array::from_fn(|_| IdSet::new(0)),
            families: Vec::with_capacity(families.len()),
            slot_of_class: alloc::vec![RIGHT_END; places.len()],
            class_of_slot: Vec::new(),
        };
        turns.place_children(tree, families);
        let used = places.iter().fold(0, |used, place| used | place.1);
        for (priority, feed) in turns.feeds.iter_mut().enumerate() {
            if used & (1 << priority) != 0 {
                *feed = IdSet::new(turns.class_of_slot.len());
            }
        }
        turns
    }

    /// Gives the children of each family neighbouring slots, in the order of their numbers.
    fn place_children(&mut self, tree: &Tree, families: &[ClassId]) {
        let mut sizes = alloc::vec![0u32; self.slot_of_class.len()];
        for (_, class) in tree.classes() {
            if let Some(parent) = class.parent {
                sizes[parent.index()] += 1;
            }
        }
        // From here `next` holds the slot of the next child of each class.
        let mut next = sizes;
        let mut first = 0;
        for family in families {
            let end = first + next[family.index()];
            next[family.index()] = first;
            let (pointers, members) = ([RIGHT_END; PRIORITIES], [0; PRIORITIES]);
            self.families.push(Family { first, end, pointers, members });
            first = end;
        }
        self.class_of_slot.resize(first as usize, 0);
        for (id, class) in tree.classes() {
            let Some(parent) = class.parent else { continue };
            let slot = next[parent.index()];
            next[parent.index()] += 1;
            self.slot_of_class[id.index()] = slot;
            self.class_of_slot[slot as usize] = id.0;
        }
    }

    /// The first priority at which somebody at `level` may send.
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

    /// Takes `class` out of the rows of `priorities`; a pointer at it moves to the next member.
    // Two engines call it; out of line it costs each packet a tenth of its instructions.
    #[inline(always)]
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

    /// The class that the pointer of a busy row names; at the right end it starts again.
    #[inline]
    pub(super) fn row_front(&mut self, level: usize, priority: usize) -> u32 {
        let row = &mut self.rows[level * PRIORITIES + priority];
        if row.pointer == RIGHT_END {
            row.pointer = row.members.next(0).expect("a busy row has a member");
        }
        row.pointer
    }

    /// Moves the pointer of a row one member on.
    #[inline]
    pub(super) fn advance_row(&mut self, level: usize, priority: usize) {
        let row = &mut self.rows[level * PRIORITIES + priority];
        row.pointer = row.members.next(row.pointer + 1).unwrap_or(RIGHT_END);
    }

    /// Puts `class`, which is in none of them, into the feeds of `priorities` of its parent's
    /// `family`; answers those that were empty before.
    #[inline]
    pub(super) fn join_feeds(&mut self, family: usize, class: u32, priorities: u8) -> u8 {
        let mut fresh = 0;
        for priority in bits(priorities) {
            let members = &mut self.families[family].members[priority];
            if *members == 0 {
                fresh |= 1 << priority;
            }
            *members += 1;
            self.feeds[priority].insert(self.slot_of_class[class as usize]);
        }
        fresh
    }

    /// Takes `class`, which is in them, out of the feeds of `priorities`; answers those that are
    /// empty now. A pointer at it stays, to find it again or the next one.
    #[inline]
    pub(super) fn leave_feeds(&mut self, family: usize, class: u32, priorities: u8) -> u8 {
        let mut ended = 0;
        for priority in bits(priorities) {
            self.feeds[priority].remove(self.slot_of_class[class as usize]);
            let members = &mut self.families[family].members[priority];
            *members -= 1;
            if *members == 0 {
                ended |= 1 << priority;
            }
        }
        ended
    }

    /// The class that the pointer of a feed with members names, or `None` once at the right end,
    /// after which the feed starts again.
    #[inline]
    pub(super) fn feed_front(&mut self, family: usize, priority: usize) -> Option<u32> {
        let pointer = self.families[family].pointers[priority];
        let found = self.feed_next(family, priority, pointer);
        let pointer = found.or_else(|| self.feed_next(family, priority, 0));
        let pointer = pointer.expect("an active class has a child in its feed");
        self.families[family].pointers[priority] = pointer;
        found.map(|slot| self.class_of_slot[slot as usize])
    }

    /// Moves the pointer of a feed, which names a member, one member on.
    #[inline]
    pub(super) fn advance_feed(&mut self, family: usize, priority: usize) {
        let pointer = self.families[family].pointers[priority];
        let next = self.feed_next(family, priority, pointer + 1);
        self.families[family].pointers[priority] = next.unwrap_or(RIGHT_END);
    }

    /// The first slot of a feed's members that is `from` or later.
    #[inline]
    fn feed_next(&self, family: usize, priority: usize, from: u32) -> Option<u32> {
        let Family { first, end, .. } = self.families[family];
        self.feeds[priority].next(from.max(first)).filter(|&slot| slot < end)
    }
}

/// Rows with room where the tree can fill them.
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

/// The numbers of the bits set in `mask`.
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
