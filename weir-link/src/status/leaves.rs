//! The counts of many leaves, most of which may have none: a circuit without a packet has no room.
//!
//! Invariant: a leaf without room has counted nothing.

use super::counts::LeafCounts;

/// The counts of the leaves of a bridge, by number.
#[derive(Clone, Debug)]
pub(crate) struct CountsOfLeaves {
    rows: Vec<Option<Box<LeafCounts>>>,
    /// Those of a leaf that counted nothing.
    none: LeafCounts,
}

impl CountsOfLeaves {
    /// So many leaves that counted nothing.
    pub fn new(leaves: usize) -> Self {
        Self { rows: vec![None; leaves], none: LeafCounts::default() }
    }

    /// Returns the number of leaves.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the counts of a leaf.
    pub fn of(&self, number: usize) -> &LeafCounts {
        self.rows[number].as_deref().unwrap_or(&self.none)
    }

    /// Returns the counts of all leaves, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &LeafCounts> {
        self.rows.iter().map(|row| row.as_deref().unwrap_or(&self.none))
    }

    /// Notes the counts of a leaf. Allocates for one that has counted nothing before.
    pub fn set(&mut self, number: usize, counts: LeafCounts) {
        match &mut self.rows[number] {
            Some(row) => **row = counts,
            None if counts == self.none => {}
            row @ None => *row = Some(Box::new(counts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::event::Marked;

    #[test]
    fn a_leaf_has_room_once_it_counts() {
        let mut leaves = CountsOfLeaves::new(3);
        let marked = Marked { packets: 7, ..Marked::default() };
        let counts = LeafCounts { marked, ..LeafCounts::default() };
        leaves.set(1, counts);
        leaves.set(2, LeafCounts::default());
        assert_eq!(leaves.iter().map(|row| row.marked.packets).collect::<Vec<_>>(), [0, 7, 0]);
        assert_eq!(leaves.rows.iter().filter(|row| row.is_some()).count(), 1);
        leaves.set(1, LeafCounts::default());
        assert_eq!((leaves.of(1).marked.packets, leaves.len()), (0, 3));
    }
}
