//! A set of small numbers kept in order: a bitmap of 64-way tiers.
//!
//! Bit `i` of a tier says that word `i` of the tier below is not zero, so inserting, removing and
//! finding the next member cost one word a tier: three words for 262 144 numbers, four for 16
//! million. Invariant: a word is zero exactly if its bit above is.

use alloc::vec::Vec;

/// A set of numbers below a fixed capacity.
pub(crate) struct IdSet {
    words: Vec<u64>,
    /// Where each tier starts in `words`, lowest first; ends repeat after the top.
    starts: [u32; TIERS_MAX + 1],
    tiers: usize,
}

impl IdSet {
    /// An empty set for numbers below `capacity`.
    pub(crate) fn new(capacity: usize) -> Self {
        let mut starts = [0; TIERS_MAX + 1];
        let mut tiers = 0;
        let mut width = capacity;
        while tiers < TIERS_MAX && width > 1 || tiers == 0 {
            width = width.div_ceil(WORD);
            starts[tiers + 1] = starts[tiers] + width as u32;
            tiers += 1;
        }
        let total = starts[tiers];
        starts[tiers..].fill(total);
        Self { words: alloc::vec![0; total as usize], starts, tiers }
    }

    /// Whether nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.last().is_none_or(|&top| top == 0)
    }

    /// Puts `id` in; no effect if it is in.
    #[inline(always)]
    pub(crate) fn insert(&mut self, id: u32) {
        let word = &mut self.words[id as usize / WORD];
        let was_empty = *word == 0;
        *word |= 1 << (id as usize % WORD);
        if was_empty {
            self.insert_above(id as usize / WORD);
        }
    }

    /// Word `index` of the lowest tier is not zero any longer.
    fn insert_above(&mut self, mut index: usize) {
        for tier in 1..self.tiers {
            let word = &mut self.words[self.starts[tier] as usize + index / WORD];
            let was_empty = *word == 0;
            *word |= 1 << (index % WORD);
            if !was_empty {
                return;
            }
            index /= WORD;
        }
    }

    /// Takes `id` out; no effect if it is not in.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: u32) {
        let word = &mut self.words[id as usize / WORD];
        *word &= !(1 << (id as usize % WORD));
        if *word == 0 {
            self.remove_above(id as usize / WORD);
        }
    }

    /// The same if `is_out`, without a branch; answers whether the set is empty now.
    #[inline(always)]
    pub(crate) fn remove_if(&mut self, id: u32, is_out: bool) -> bool {
        let word = &mut self.words[id as usize / WORD];
        *word &= !(u64::from(is_out) << (id as usize % WORD));
        if *word != 0 {
            return false;
        }
        self.remove_above(id as usize / WORD);
        self.is_empty()
    }

    /// Word `index` of the lowest tier is zero.
    fn remove_above(&mut self, mut index: usize) {
        for tier in 1..self.tiers {
            let word = &mut self.words[self.starts[tier] as usize + index / WORD];
            *word &= !(1 << (index % WORD));
            if *word != 0 {
                return;
            }
            index /= WORD;
        }
    }

    /// The smallest member that is `from` or larger.
    #[inline(always)]
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

    /// The same, or the smallest of all; the set is not empty.
    #[inline(never)]
    pub(crate) fn next_or_first(&self, from: u32) -> u32 {
        self.next(from).or_else(|| self.next(0)).expect("it is not empty")
    }

    /// The members from 64 times `index` on, a bit each.
    #[inline(always)]
    pub(crate) fn word(&self, index: u32) -> u64 {
        self.words[index as usize]
    }

    /// The smallest member in the lowest tier's word `index` or a later one.
    #[inline(never)]
    fn next_above(&self, mut index: usize) -> Option<u32> {
        for tier in 1..self.tiers {
            let place = self.starts[tier] as usize + index / WORD;
            if place >= self.starts[tier + 1] as usize {
                return None;
            }
            let rest = self.words[place] & (u64::MAX << (index % WORD));
            if rest != 0 {
                let found = index / WORD * WORD + rest.trailing_zeros() as usize;
                return Some(self.descend(tier, found));
            }
            index = index / WORD + 1;
        }
        None
    }

    /// The smallest member below bit `index` of `tier`, which is set.
    fn descend(&self, tier: usize, mut index: usize) -> u32 {
        for lower in (0..tier).rev() {
            let word = self.words[self.starts[lower] as usize + index];
            index = index * WORD + word.trailing_zeros() as usize;
        }
        index as u32
    }
}

const WORD: usize = 64;
/// 64^6 exceeds every `u32`.
const TIERS_MAX: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        for capacity in [0u32, 1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut set = IdSet::new(capacity as usize);
            let mut plain = BTreeSet::new();
            let mut seed = u64::from(capacity) + 1;
            for _ in 0..4000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let id = ((seed >> 33) as u32).checked_rem(capacity).unwrap_or(0);
                if capacity > 0 && seed >> 62 == 0 {
                    set.insert(id);
                    plain.insert(id);
                } else if capacity > 0 && seed >> 62 == 1 {
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
