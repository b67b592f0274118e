//! A set of small numbers kept in order: a bitmap of 64-way levels.
//!
//! Bit `i` of a level says that word `i` of the level below is not zero, so inserting, removing and
//! finding the next member cost one word a level: three words for 262 144 numbers, four for 16
//! million. Invariant: a word is zero exactly if its bit above is.

use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

/// A set of numbers below a fixed capacity.
pub(crate) struct IdSet {
    words: Vec<u64>,
    /// Where each level starts in `words`, lowest first; levels above the top start at its end.
    starts: [u32; LEVELS_MAX + 1],
    levels: usize,
}

impl IdSet {
    /// An empty set for numbers below `capacity`.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(u32::try_from(capacity).is_ok(), "numbers have 32 bits");
        let mut starts = [0; LEVELS_MAX + 1];
        let mut levels = 0;
        let mut width = capacity;
        while levels < LEVELS_MAX && width > 1 || levels == 0 {
            width = width.div_ceil(WORD);
            starts[levels + 1] = starts[levels] + width as u32;
            levels += 1;
        }
        let total = starts[levels];
        starts[levels..].fill(total);
        Self { words: alloc::vec![0; total as usize], starts, levels }
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.last().is_none_or(|&top| top == 0)
    }

    /// Returns whether `id` is below the capacity, rounded up to whole words.
    pub(crate) const fn has_room(&self, id: u32) -> bool {
        id as usize / WORD < self.starts[1] as usize
    }

    /// Returns whether `id` is a member.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.next(id) == Some(id)
    }

    /// Returns the members in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        core::iter::successors(self.next(0), |&member| self.next(member + 1))
    }

    /// Inserts `id`; no effect if it is a member.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32) {
        debug_assert!(self.has_room(id), "a member is below the capacity");
        let word = &mut self.words[id as usize / WORD];
        let was_empty = *word == 0;
        *word |= 1 << (id as usize % WORD);
        if was_empty {
            self.insert_above(id as usize / WORD);
        }
    }

    /// Updates the levels above after word `index` of the lowest level became nonzero.
    fn insert_above(&mut self, mut index: usize) {
        for level in 1..self.levels {
            let word = &mut self.words[self.starts[level] as usize + index / WORD];
            let was_empty = *word == 0;
            *word |= 1 << (index % WORD);
            if !was_empty {
                return;
            }
            index /= WORD;
        }
    }

    /// Removes `id`; no effect if it is not a member.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        debug_assert!(self.has_room(id), "a member is below the capacity");
        let word = &mut self.words[id as usize / WORD];
        *word &= !(1 << (id as usize % WORD));
        if *word == 0 {
            self.remove_above(id as usize / WORD);
        }
    }

    /// Updates the levels above after word `index` of the lowest level became zero.
    fn remove_above(&mut self, mut index: usize) {
        for level in 1..self.levels {
            let word = &mut self.words[self.starts[level] as usize + index / WORD];
            *word &= !(1 << (index % WORD));
            if *word != 0 {
                return;
            }
            index /= WORD;
        }
    }

    /// Returns the smallest member that is `from` or larger.
    #[inline]
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let from = from as usize;
        if from / WORD >= self.starts[1] as usize {
            return None;
        }
        let rest = self.words[from / WORD] >> (from % WORD);
        if rest != 0 {
            return Some(from as u32 + rest.trailing_zeros());
        }
        self.next_above(from / WORD + 1)
    }

    /// Returns the smallest member in the lowest level's word `index` or a later one.
    fn next_above(&self, mut index: usize) -> Option<u32> {
        for level in 1..self.levels {
            let place = self.starts[level] as usize + index / WORD;
            if place >= self.starts[level + 1] as usize {
                return None;
            }
            let rest = self.words[place] & (u64::MAX << (index % WORD));
            if rest != 0 {
                let found = index / WORD * WORD + rest.trailing_zeros() as usize;
                return Some(self.descend(level, found));
            }
            index = index / WORD + 1;
        }
        None
    }

    /// Returns the smallest member under bit `index` of `level`, which is set.
    fn descend(&self, level: usize, mut index: usize) -> u32 {
        for lower in (0..level).rev() {
            let word = self.words[self.starts[lower] as usize + index];
            index = index * WORD + word.trailing_zeros() as usize;
        }
        index as u32
    }
}

const WORD: usize = 64;
/// 64^6 exceeds every `u32`.
const LEVELS_MAX: usize = 6;

/// The members in order.
impl State for IdSet {
    fn save(&self, to: &mut Writer) {
        to.number(self.iter().count() as u64);
        self.iter().for_each(|member| member.save(to));
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.words.fill(0);
        let capacity = self.starts[1] as usize * WORD;
        let mut next = 0;
        for _ in 0..from.count(capacity, "set")? {
            let member = from.index(capacity, "member of a set")? as u32;
            if member < next {
                return Err(StateError::Invalid("order of a set"));
            }
            self.insert(member);
            next = member + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeSet;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        for capacity in [0u32, 1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut set = IdSet::new(capacity as usize);
            let mut plain = BTreeSet::new();
            let mut random = Random::new(u64::from(capacity), 0);
            for _ in 0..4000 {
                let (id, draw) = (random.below(capacity), random.below(4));
                if capacity > 0 && draw == 0 {
                    set.insert(id);
                    plain.insert(id);
                } else if capacity > 0 && draw == 1 {
                    let near = plain.range(id..).next().copied().unwrap_or(id);
                    set.remove(near);
                    plain.remove(&near);
                }
                assert_eq!(set.next(id), plain.range(id..).next().copied(), "{capacity} {id}");
                assert_eq!(set.is_empty(), plain.is_empty());
            }
            assert_eq!(set.next(capacity), None);
            assert_eq!(set.next(u32::MAX), None);
        }
    }
}
