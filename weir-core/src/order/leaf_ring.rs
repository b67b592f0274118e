//! Leaves in a row: taken at the front, put in at the end, in one ring of memory.
//!
//! Like the standard library's `VecDeque`, but its size is a power of two, so that a place in the
//! ring costs one mask. Invariant: `places` has room for at least `len` leaves.
//!
//! A round robin has each leaf in its ring at most once and remembers its [`Standing`]. A leaf
//! that drops empty in the middle is not searched for: it keeps its place until its turn comes,
//! and has it again if a packet arrives before. So nothing costs more than a place, and a leaf
//! whose packets are dropped again and again is not sent to the end each time.

use crate::ids::LeafId;
use crate::tree::Kin;
use alloc::vec::Vec;

/// A queue of leaves.
pub(crate) struct LeafRing {
    /// Its length is a power of two.
    places: Vec<LeafId>,
    /// One less than that.
    mask: u32,
    /// Where the first stands, counted on without end.
    front: u32,
    len: u32,
}

/// How a leaf stands with a ring that holds it at most once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Standing {
    /// It is not in the ring.
    Out,
    /// It is in the ring and has a packet.
    Waiting,
    /// It is in the ring without a packet, until its turn comes.
    Emptied,
}

impl LeafRing {
    /// An empty ring with room for `capacity` leaves; it grows beyond that.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let places = alloc::vec![LeafId(0); capacity.next_power_of_two()];
        Self { mask: places.len() as u32 - 1, places, front: 0, len: 0 }
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
        if self.len > self.mask {
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
        if let Some(first) = self.front() {
            self.rotate_known(first);
        }
    }

    /// The same if who is first is known.
    #[inline]
    pub(crate) fn rotate_known(&mut self, first: LeafId) {
        debug_assert_eq!(self.front(), Some(first), "it is in front");
        // With all places taken this writes the first where it stands.
        let end = self.place(self.len);
        self.places[end] = first;
        self.front = self.front.wrapping_add(1);
    }

    /// `leaf`, which stood as told, has a packet now: it goes to the end unless it kept its place.
    #[inline]
    pub(crate) fn join(&mut self, leaf: LeafId, standing: &mut Standing) {
        if *standing == Standing::Out {
            self.push_back(leaf);
        }
        *standing = Standing::Waiting;
    }

    /// Drops took the last packet of `leaf`, which is in the ring: only the first goes at once.
    pub(crate) fn empty(&mut self, leaf: LeafId, standing: &mut Standing) {
        *standing = Standing::Emptied;
        if self.front() == Some(leaf) {
            self.pop_front();
            *standing = Standing::Out;
        }
    }

    /// Puts the leaves that were in `old` at the end, in its order; `kept` is told each one's name
    /// then and now.
    pub(crate) fn inherit(
        &mut self,
        old: &LeafRing,
        kin: &Kin,
        mut kept: impl FnMut(LeafId, LeafId),
    ) {
        let mut names: Vec<_> = kin.leaves().map(|(now, then)| (then, now)).collect();
        names.sort_unstable();
        for then in old.iter() {
            if let Ok(place) = names.binary_search_by_key(&then, |row| row.0) {
                let now = names[place].1;
                self.push_back(now);
                kept(then, now);
            }
        }
    }

    /// All leaves from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = LeafId> {
        (0..self.len).map(|offset| self.places[self.place(offset)])
    }

    /// How many leaves there are.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn place(&self, offset: u32) -> usize {
        (self.front.wrapping_add(offset) & self.mask) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.place(0);
        self.places.rotate_left(first);
        self.front = 0;
        self.places.resize(2 * self.places.len(), LeafId(0));
        self.mask = self.places.len() as u32 - 1;
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
                    5..=7 if !plain.is_empty() => {
                        ring.rotate();
                        plain.rotate_left(1);
                    }
                    _ => {}
                }
                assert_eq!(ring.front(), plain.front().copied());
                assert_eq!(ring.len() as usize, plain.len());
                let others = (seed >> 20) as usize % 16;
                assert_eq!(ring.get(others), plain.get(others).copied());
                assert!(ring.iter().eq(plain.iter().copied()));
            }
        }
    }
    #[test]
    fn a_leaf_that_drops_empty_keeps_its_place_until_its_turn() {
        let mut ring = LeafRing::with_capacity(2);
        let mut standings = [Standing::Out; 2];
        for leaf in [0, 1] {
            ring.join(LeafId(leaf), &mut standings[leaf as usize]);
        }
        ring.empty(LeafId(1), &mut standings[1]);
        assert_eq!((standings[1], ring.len()), (Standing::Emptied, 2));
        ring.join(LeafId(1), &mut standings[1]);
        assert_eq!((standings[1], ring.len()), (Standing::Waiting, 2));
        ring.empty(LeafId(0), &mut standings[0]);
        assert_eq!((standings[0], ring.len()), (Standing::Out, 1));
        assert_eq!(ring.front(), Some(LeafId(1)));
    }
}
