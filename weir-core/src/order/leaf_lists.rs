//! Many queues of leaves in one store: chunks of sixteen leaves, chained.
//!
//! A leaf takes 4 bytes and a little; putting in and taking out touch one chunk, and the leaves
//! that stand behind the first are found without walking through leaves. Invariant: every chunk is
//! in one chain, that of a list or the free one.

use crate::ids::LeafId;
use alloc::vec::Vec;

/// Lists of leaves, numbered from 0.
pub(crate) struct LeafLists {
    chunks: Vec<Chunk>,
    /// The chunk after each.
    nexts: Vec<u32>,
    free: u32,
    lists: Vec<List>,
}

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Chunk([LeafId; CHUNK]);

/// The first leaf of a list stands at `first` of the chunk `head`.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    first: u32,
    len: u32,
}

impl LeafLists {
    /// Empty lists, for `leaves` of which each stands in one list at most; it grows beyond that.
    pub(crate) fn new(lists: usize, leaves: usize) -> Self {
        let list = List { head: NONE, tail: NONE, first: 0, len: 0 };
        let count = leaves / CHUNK + 2 * lists.min(leaves);
        let (chunks, nexts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Self { chunks, nexts, free: NONE, lists: alloc::vec![list; lists] }
    }

    /// Whether nobody stands in the list.
    #[inline]
    pub(crate) fn is_empty(&self, list: usize) -> bool {
        self.lists[list].len == 0
    }

    /// The first of a list that is not empty.
    #[inline]
    pub(crate) fn front(&self, list: usize) -> LeafId {
        let List { head, first, .. } = self.lists[list];
        self.chunks[head as usize].0[first as usize % CHUNK]
    }

    /// The leaf behind `ahead` others, if the list is so long.
    pub(crate) fn get(&self, list: usize, ahead: usize) -> Option<LeafId> {
        let List { mut head, first, len, .. } = self.lists[list];
        if ahead >= len as usize {
            return None;
        }
        let mut place = first as usize + ahead;
        while place >= CHUNK {
            head = self.nexts[head as usize];
            place -= CHUNK;
        }
        Some(self.chunks[head as usize].0[place])
    }

    /// How many stand in the list.
    #[inline]
    pub(crate) fn len(&self, list: usize) -> usize {
        self.lists[list].len as usize
    }

    /// Puts `leaf` at the end.
    #[inline]
    pub(crate) fn push(&mut self, list: usize, leaf: LeafId) {
        let List { first, len, tail, .. } = self.lists[list];
        let place = (first + len) as usize % CHUNK;
        let tail = if len == 0 || place == 0 { self.lengthen(list) } else { tail };
        self.chunks[tail as usize].0[place] = leaf;
        self.lists[list].len = len + 1;
    }

    /// Takes the first out of a list that is not empty.
    #[inline]
    pub(crate) fn pop(&mut self, list: usize) {
        let state = &mut self.lists[list];
        state.len -= 1;
        state.first += 1;
        if state.len == 0 || state.first as usize == CHUNK {
            let next = &mut self.nexts[state.head as usize];
            let emptied = core::mem::replace(&mut state.head, *next);
            *next = core::mem::replace(&mut self.free, emptied);
            state.first = 0;
        }
    }

    /// Puts an empty chunk at the end of the list; answers which.
    fn lengthen(&mut self, list: usize) -> u32 {
        let chunk = self.empty_chunk();
        let state = &mut self.lists[list];
        let last = core::mem::replace(&mut state.tail, chunk);
        if state.len == 0 {
            state.head = chunk;
        } else {
            self.nexts[last as usize] = chunk;
        }
        chunk
    }

    fn empty_chunk(&mut self) -> u32 {
        if self.free == NONE {
            self.chunks.push(Chunk([LeafId(0); CHUNK]));
            self.nexts.push(NONE);
            return self.chunks.len() as u32 - 1;
        }
        let chunk = self.free;
        self.free = core::mem::replace(&mut self.nexts[chunk as usize], NONE);
        chunk
    }
}

const CHUNK: usize = 16;
/// The end of a chain.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::VecDeque;

    #[test]
    fn they_agree_with_standard_queues() {
        const LISTS: usize = 3;
        let mut lists = LeafLists::new(LISTS, 100);
        let mut plain = alloc::vec![VecDeque::new(); LISTS];
        let mut random = Random::new(1, 0);
        for step in 0..100_000u32 {
            let list = random.below(LISTS as u32) as usize;
            // Long stretches in which the lists grow, and such in which they shrink.
            let grows = random.below(8) < if step / 1000 % 2 == 0 { 5 } else { 3 };
            if grows {
                lists.push(list, LeafId(step));
                plain[list].push_back(LeafId(step));
            } else if plain[list].pop_front().is_some() {
                lists.pop(list);
            }
            assert_eq!(lists.is_empty(list), plain[list].is_empty());
            assert_eq!(lists.len(list), plain[list].len());
            if let Some(&front) = plain[list].front() {
                assert_eq!(lists.front(list), front);
            }
            let ahead = random.below(60) as usize;
            assert_eq!(lists.get(list, ahead), plain[list].get(ahead).copied());
        }
        assert!(lists.chunks.len() < 1_000, "chunks are used again: {}", lists.chunks.len());
    }
}
