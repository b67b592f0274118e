//! Lists of items, chained both ways by the items' numbers, so that any item leaves its list in
//! constant time.
//!
//! Items are numbered from 0, and each is in at most one list. Invariant: an item in a list is
//! reached from the list's first item, and knows which list that is.

use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

/// The lists, and the neighbours of each item.
pub(crate) struct LinkedLists {
    links: Vec<Link>,
    ends: Vec<Ends>,
}

#[derive(Clone, Copy)]
struct Link {
    /// The list that the item is in; [`NOWHERE`] without one.
    list: u32,
    /// [`END`] for the first of a list.
    before: u32,
    /// [`END`] for the last of a list.
    next: u32,
}

/// The first and the last item of a list; [`END`] while it is empty.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

impl LinkedLists {
    /// Returns so many empty lists, and no item.
    pub(crate) fn new(lists: usize) -> Self {
        Self { links: Vec::new(), ends: alloc::vec![Ends::NONE; lists] }
    }

    /// Adds an item, whose number is one more than the last one's.
    pub(crate) fn add_item(&mut self) {
        self.links.push(Link::NONE);
    }

    /// Returns the list that `item` is in.
    #[inline]
    pub(crate) fn list_of(&self, item: u32) -> Option<usize> {
        let list = self.links[item as usize].list;
        (list != NOWHERE).then_some(list as usize)
    }

    /// Returns the first item of a list.
    #[inline]
    pub(crate) fn first(&self, list: usize) -> Option<u32> {
        let first = self.ends[list].first;
        (first != END).then_some(first)
    }

    /// Moves `item` to the end of a list, from the one that it is in if it is in any.
    #[inline]
    pub(crate) fn move_to(&mut self, list: usize, item: u32) {
        self.remove(item);
        let before = core::mem::replace(&mut self.ends[list].last, item);
        self.links[item as usize] = Link { list: list as u32, before, next: END };
        match self.links.get_mut(before as usize) {
            Some(link) => link.next = item,
            None => self.ends[list].first = item,
        }
    }

    /// Moves the first item of a list, which is not empty, to its end.
    #[inline]
    pub(crate) fn rotate(&mut self, list: usize) {
        let Ends { first, last } = self.ends[list];
        if first == last {
            return;
        }
        let link = &mut self.links[first as usize];
        let next = core::mem::replace(&mut link.next, END);
        link.before = last;
        self.links[last as usize].next = first;
        self.links[next as usize].before = END;
        self.ends[list] = Ends { first: next, last: first };
    }

    /// Removes `item` from its list, if it is in one.
    #[inline]
    pub(crate) fn remove(&mut self, item: u32) {
        let Link { list, before, next } = self.links[item as usize];
        if list == NOWHERE {
            return;
        }
        self.links[item as usize] = Link::NONE;
        match self.links.get_mut(before as usize) {
            Some(link) => link.next = next,
            None => self.ends[list as usize].first = next,
        }
        match self.links.get_mut(next as usize) {
            Some(link) => link.before = before,
            None => self.ends[list as usize].last = before,
        }
    }

    /// Removes all items from their lists.
    pub(crate) fn clear(&mut self) {
        self.links.fill(Link::NONE);
        self.ends.fill(Ends::NONE);
    }

    /// Returns the items of a list, from the first on.
    pub(crate) fn iter(&self, list: usize) -> impl Iterator<Item = u32> {
        let next = |&item: &u32| Some(self.links[item as usize].next).filter(|&next| next != END);
        core::iter::successors(self.first(list), next)
    }
}

impl Link {
    const NONE: Link = Link { list: NOWHERE, before: END, next: END };
}

impl Ends {
    const NONE: Ends = Ends { first: END, last: END };
}

/// The neighbour of an item at the end of its list; no item has this number.
const END: u32 = u32::MAX;
/// The list of an item that is in none.
const NOWHERE: u32 = u32::MAX;

/// The items of each list in their order; the links follow from that.
impl State for LinkedLists {
    fn save(&self, to: &mut Writer) {
        let Self { links: _, ends } = self;
        for list in 0..ends.len() {
            to.number(self.iter(list).count() as u64);
            self.iter(list).for_each(|item| item.save(to));
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.clear();
        for list in 0..self.ends.len() {
            for _ in 0..from.count(self.links.len(), "list")? {
                let item = from.index(self.links.len(), "item of a list")? as u32;
                if self.list_of(item).is_some() {
                    return Err(StateError::Invalid("item in two lists"));
                }
                self.move_to(list, item);
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
        let mut lists = LinkedLists::new(LISTS);
        let mut plain = alloc::vec![VecDeque::new(); LISTS];
        let mut random = Random::new(1, 0);
        for _ in 0..40 {
            lists.add_item();
        }
        for _ in 0..50_000 {
            let (list, item) = (random.below(LISTS as u32) as usize, random.below(40));
            let place = plain.iter().position(|rows| rows.contains(&item));
            assert_eq!(lists.list_of(item), place);
            plain.iter_mut().for_each(|rows| rows.retain(|&other| other != item));
            if random.below(3) > 0 {
                lists.move_to(list, item);
                plain[list].push_back(item);
                lists.rotate(list);
                plain[list].rotate_left(1);
            } else {
                lists.remove(item);
            }
            for (list, rows) in plain.iter().enumerate() {
                assert_eq!(lists.first(list), rows.front().copied());
                assert!(lists.iter(list).eq(rows.iter().copied()));
            }
        }
    }
}
