//! First-in-first-out lists of items, chained by the items' numbers.
//!
//! Items are numbered from 0, and each is in at most one list, so one table of successors serves
//! all lists. Every operation takes constant time. Invariant: an item in a list is reached from the
//! list's first item.

use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

pub(crate) struct Lists {
    /// The successor of each item; [`END`] for the last of a list, [`ABSENT`] for one in no list.
    nexts: Vec<u32>,
    lists: Vec<List>,
}

#[derive(Clone, Copy)]
struct List {
    /// [`END`] while the list is empty.
    first: u32,
    /// Meaningless while the list is empty.
    last: u32,
}

impl Lists {
    /// Returns `lists` empty lists, for items numbered below `items`.
    pub(crate) fn new(lists: usize, items: usize) -> Self {
        let list = List { first: END, last: END };
        Self { nexts: alloc::vec![ABSENT; items], lists: alloc::vec![list; lists] }
    }

    /// Adds an item, whose number is one more than the last one's.
    pub(crate) fn add_item(&mut self) {
        self.nexts.push(ABSENT);
    }

    /// Adds so many empty lists.
    pub(crate) fn add_lists(&mut self, lists: usize) {
        let list = List { first: END, last: END };
        self.lists.resize(self.lists.len() + lists, list);
    }

    /// Returns whether `item` is in a list.
    #[inline]
    pub(crate) fn contains(&self, item: u32) -> bool {
        self.nexts[item as usize] != ABSENT
    }

    /// Returns the first item of a list.
    #[inline]
    pub(crate) fn first(&self, list: usize) -> Option<u32> {
        let first = self.lists[list].first;
        (first != END).then_some(first)
    }

    /// Appends `item`, which is in no list, to one.
    #[inline]
    pub(crate) fn push(&mut self, list: usize, item: u32) {
        debug_assert!(!self.contains(item), "an item is in at most one list");
        let List { first, last } = &mut self.lists[list];
        self.nexts[item as usize] = END;
        if *first == END {
            *first = item;
        } else {
            self.nexts[*last as usize] = item;
        }
        *last = item;
    }

    /// Puts `item`, which is in no list, in front of one.
    pub(crate) fn push_first(&mut self, list: usize, item: u32) {
        debug_assert!(!self.contains(item), "an item is in at most one list");
        let List { first, last } = &mut self.lists[list];
        self.nexts[item as usize] = *first;
        if *first == END {
            *last = item;
        }
        *first = item;
    }

    /// Removes `item` from a list that it is in. Costs its place in the list.
    pub(crate) fn remove(&mut self, list: usize, item: u32) {
        debug_assert!(self.iter(list).any(|other| other == item), "the item is in the list");
        let next = core::mem::replace(&mut self.nexts[item as usize], ABSENT);
        if self.lists[list].first == item {
            self.lists[list].first = next;
            return;
        }
        let mut before = self.lists[list].first;
        while self.nexts[before as usize] != item {
            before = self.nexts[before as usize];
        }
        self.nexts[before as usize] = next;
        if next == END {
            self.lists[list].last = before;
        }
    }

    /// Removes and returns the first item of a list.
    #[inline]
    pub(crate) fn pop(&mut self, list: usize) -> Option<u32> {
        let item = self.first(list)?;
        let next = core::mem::replace(&mut self.nexts[item as usize], ABSENT);
        debug_assert!(next != ABSENT, "an item of a list has a successor or is its last");
        self.lists[list].first = next;
        Some(item)
    }

    /// Returns the items of a list, from the first on.
    pub(crate) fn iter(&self, list: usize) -> impl Iterator<Item = u32> {
        let next = |&item: &u32| Some(self.nexts[item as usize]).filter(|&next| next != END);
        core::iter::successors(self.first(list), next)
    }
}

/// Marks the last item of a list.
const END: u32 = u32::MAX;
/// Marks an item that is in no list.
const ABSENT: u32 = u32::MAX - 1;

/// The items of each list in their order; the table of successors follows from that.
impl State for Lists {
    fn save(&self, to: &mut Writer) {
        let Self { nexts: _, lists } = self;
        for list in 0..lists.len() {
            to.number(self.iter(list).count() as u64);
            self.iter(list).for_each(|item| item.save(to));
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.nexts.fill(ABSENT);
        self.lists.fill(List { first: END, last: END });
        for list in 0..self.lists.len() {
            for _ in 0..from.count(self.nexts.len(), "list")? {
                let item = from.index(self.nexts.len(), "item of a list")? as u32;
                if self.contains(item) {
                    return Err(StateError::Invalid("item in two lists"));
                }
                self.push(list, item);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::VecDeque;

    #[test]
    fn they_agree_with_standard_queues() {
        const LISTS: usize = 3;
        let mut lists = Lists::new(LISTS, 0);
        let mut plain = alloc::vec![VecDeque::new(); LISTS];
        let mut random = Random::new(1, 0);
        for _ in 0..100 {
            lists.add_item();
        }
        for _ in 0..50_000 {
            let (list, item) = (random.below(LISTS as u32) as usize, random.below(100));
            let is_in = plain.iter().any(|rows| rows.contains(&item));
            assert_eq!(lists.contains(item), is_in);
            match random.below(5) {
                0 | 1 => assert_eq!(lists.pop(list), plain[list].pop_front()),
                2 | 3 if !is_in => {
                    lists.push(list, item);
                    plain[list].push_back(item);
                }
                2 if plain[list].contains(&item) => {
                    lists.remove(list, item);
                    plain[list].retain(|&other| other != item);
                }
                4 if !is_in => {
                    lists.push_first(list, item);
                    plain[list].push_front(item);
                }
                _ => {}
            }
            assert_eq!(lists.first(list), plain[list].front().copied());
            assert!(lists.iter(list).eq(plain[list].iter().copied()));
        }
    }
}
