//! Leaves in a row: taken at the front, put in at the end, in one ring of memory.
//!
//! Like the standard library's `VecDeque`, but its size is a power of two, so that a place in the
//! ring costs one mask. Invariant: `places` has room for at least `len` leaves.

use crate::ids::LeafId;
use alloc::vec::Vec;

/// A queue of leaves.
pub(crate) struct LeafRing {
    /// Its length is a power of two.
    places: Vec<LeafId>,
    /// Where the first stands, counted on without end.
    front: u32,
    len: u32,
}

impl LeafRing {
    /// An empty ring with room for `capacity` leaves; it grows beyond that.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { places: alloc::vec![LeafId(0); capacity.next_power_of_two()], front: 0, len: 0 }
    }

    /// The first.
    #[inline]
    pub(crate) fn front(&self) -> Option<LeafId> {
        if self.len == 0 { None } else { self.places.get(self.place(0)).copied() }
    }

    /// The one that stands behind `ahead` others.
    #[inline]
    pub(crate) fn get(&self, ahead: usize) -> Option<LeafId> {
        if ahead >= self.len as usize { None } else { Some(self.places[self.place(ahead as u32)]) }
    }

    /// Puts `leaf` at the end.
    #[inline]
    pub(crate) fn push_back(&mut self, leaf: LeafId) {
        if self.len as usize == self.places.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.places[place] = leaf;
        self.len += 1;
    }

    /// Takes the first out of a ring that is not empty.
    #[inline]
    pub(crate) fn pop_front(&mut self) {
        assert!(self.len > 0, "only what stands in the ring is taken out");
        self.front = self.front.wrapping_add(1);
        self.len -= 1;
    }

    /// Puts the first at the end, in a ring that is not empty.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        // With all places taken this writes the first where it stands.
        let (first, end) = (self.place(0), self.place(self.len));
        self.places[end] = self.places[first];
        self.front = self.front.wrapping_add(1);
    }

    /// Takes `leaf` out wherever it stands; costs time in proportion to the ring.
    pub(crate) fn remove(&mut self, leaf: LeafId) {
        let mut kept = 0;
        for offset in 0..self.len {
            let other = self.places[self.place(offset)];
            let place = self.place(kept);
            self.places[place] = other;
            kept += u32::from(other != leaf);
        }
        self.len = kept;
    }

    #[inline]
    fn place(&self, offset: u32) -> usize {
        self.front.wrapping_add(offset) as usize & (self.places.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.place(0);
        self.places.rotate_left(first);
        self.front = 0;
        self.places.resize(2 * self.places.len(), LeafId(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    #[test]
    fn it_agrees_with_the_standard_queue() {
        for capacity in [0usize, 1, 3, 8] {
            let mut ring = LeafRing::with_capacity(capacity);
            let mut plain = VecDeque::new();
            let mut seed = capacity as u64;
            for _ in 0..20_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let leaf = LeafId((seed >> 40) as u32 % 16);
                match seed >> 61 {
                    0..=2 => {
                        ring.push_back(leaf);
                        plain.push_back(leaf);
                    }
                    3..=4 if !plain.is_empty() => {
                        ring.pop_front();
                        plain.pop_front();
                    }
                    5..=6 if !plain.is_empty() => {
                        ring.rotate();
                        plain.rotate_left(1);
                    }
                    _ => {
                        ring.remove(leaf);
                        plain.retain(|&other| other != leaf);
                    }
                }
                assert_eq!(ring.front(), plain.front().copied());
                assert_eq!(ring.len as usize, plain.len());
            }
        }
    }
}
