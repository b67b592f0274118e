//! Which nodes and rings are whose, by number, so that no class has to keep it.
//!
//! A leaf has two nodes, one for turns in its row and one for turns at its parent; a class with
//! children has two for each priority, and as many rings of children that may borrow. Priorities
//! are counted in a power of two, so that shifts do.

use super::classes::Classes;
use crate::tree::DEPTH_MAX;

/// The numbering of the nodes and rings of some classes.
#[derive(Clone, Copy)]
pub(super) struct Places {
    leaves: u32,
    rank_bits: u32,
    link_level: u8,
}

impl Places {
    /// That of `classes`.
    pub fn new(classes: &Classes) -> Self {
        let rank_bits = classes.priorities().next_power_of_two().trailing_zeros();
        let link_level = classes.plan(classes.link()).place.level;
        Self { leaves: classes.leaves() as u32, rank_bits, link_level }
    }

    /// How many nodes there are.
    pub fn nodes(self, classes: &Classes) -> usize {
        self.own(classes.count(), 0) as usize
    }

    /// How many rings there are.
    pub fn rings(self, classes: &Classes) -> usize {
        self.family_ring(classes.count(), 0)
    }

    /// The level of the link, at which no other class is.
    #[inline]
    pub const fn link_level(self) -> u8 {
        self.link_level
    }

    /// The node of a leaf in its row, or at its parent.
    #[inline]
    pub const fn of_leaf(leaf: usize, borrows: bool) -> u32 {
        2 * leaf as u32 + borrows as u32
    }

    /// The node of a class with children in its row, or at its parent.
    #[inline]
    pub const fn of_family(self, class: usize, rank: usize, borrows: bool) -> u32 {
        let pair = 2 * (class as u32 - self.leaves) + borrows as u32;
        2 * self.leaves + (pair << self.rank_bits) + rank as u32
    }

    /// The node of any class, of which a leaf has but one, whatever its rank.
    #[inline]
    pub const fn of(self, class: usize, rank: usize, borrows: bool) -> u32 {
        if class < self.leaves as usize {
            return Self::of_leaf(class, borrows);
        }
        self.of_family(class, rank, borrows)
    }

    /// The node of a class in its row.
    #[inline]
    pub const fn own(self, class: usize, rank: usize) -> u32 {
        self.of(class, rank, false)
    }

    /// Its node at its parent.
    #[inline]
    pub const fn borrow(self, class: usize, rank: usize) -> u32 {
        self.of(class, rank, true)
    }

    /// Whose node it is.
    #[inline]
    pub const fn class(self, node: u32) -> usize {
        if node < 2 * self.leaves {
            return node as usize / 2;
        }
        (self.leaves + ((node - 2 * self.leaves) >> (self.rank_bits + 1))) as usize
    }

    /// The ring of a row.
    #[inline]
    pub const fn row_ring(self, row: usize, rank: usize) -> usize {
        (row << self.rank_bits) + rank
    }

    /// The ring of the children of `class`, which has some, that may borrow from it.
    #[inline]
    pub const fn family_ring(self, class: usize, rank: usize) -> usize {
        ((ROWS + class - self.leaves as usize) << self.rank_bits) + rank
    }
}

/// The row of blocked classes for `efficient`: after the link's.
pub(super) const LAST_RESORT: usize = DEPTH_MAX + 1;
/// A row for each level, the link's too, and that one.
pub(super) const ROWS: usize = LAST_RESORT + 1;
