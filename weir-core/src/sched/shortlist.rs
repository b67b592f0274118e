//! Who is lowest, where few are near the lowest: those in a row, the others in a tournament.
//!
//! Where keys come about in order, as deadlines do, a newcomer belongs at the end of the row and
//! costs a comparison; the lowest is the first in the row. When the row grows too long its higher
//! half goes to the tournament, and comes back when the row is used up, so that it costs no more
//! than the logarithm of all whatever the order. Of equal keys the smaller item is the lowest.
//! Invariant: everybody in the row is below `limit`, nobody in the tournament is.

use super::tournament::{Lane, Order};

/// Items numbered from 0, ordered by keys below 2^62.
pub(crate) struct Shortlist {
    /// Those that are near the lowest stand at `first..end`, in order; before them [`BEFORE_ALL`].
    row: [Item; BUFFER],
    first: usize,
    end: usize,
    limit: Item,
    others: Order,
    lane: Lane,
}

/// A key, then the item that has it; ordered as both.
type Item = u128;

#[inline]
fn item(key: u64, index: u32) -> Item {
    Item::from(key) << u64::BITS | Item::from(index)
}

impl Shortlist {
    /// Nobody, of so many items.
    pub(crate) fn new(items: usize) -> Self {
        // With few the row always has room.
        let (others, lanes) = Order::new(&[if items > ROW_MAX { items } else { 0 }]);
        let (first, end) = (START, START);
        Self { row: [BEFORE_ALL; BUFFER], first, end, limit: Item::MAX, others, lane: lanes[0] }
    }

    /// The lowest.
    #[inline]
    pub(crate) fn lowest(&mut self) -> Option<u32> {
        if self.first == self.end {
            self.refill();
        }
        (self.first < self.end).then(|| self.row[self.first] as u32)
    }

    /// Somebody who may be the lowest when `ahead` others were; beyond the row a guess.
    pub(crate) fn about(&self, ahead: usize) -> Option<u32> {
        let row = &self.row[self.first..self.end];
        match row.get(ahead) {
            Some(&item) => Some(item as u32),
            None => self.others.about(&self.lane, ahead - row.len()),
        }
    }

    /// Lets in `index`, which is not in.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: u64, index: u32) {
        let new = item(key, index);
        if new >= self.limit {
            return self.others.set(&mut self.lane, index, key);
        }
        if self.end == BUFFER {
            return self.insert_anew(key, index);
        }
        let mut at = self.end % BUFFER;
        let deep = at.wrapping_sub(DEEP);
        self.end += 1;
        // Ends: what stands before the first is smaller than any key.
        while self.row[(at - 1) % BUFFER] > new {
            if at == deep {
                return self.insert_deep(at, new);
            }
            self.row[at] = self.row[(at - 1) % BUFFER];
            at = (at - 1) % BUFFER;
        }
        self.row[at] = new;
    }

    /// Puts `new` where it belongs before the place `free`, moving all between at once.
    #[cold]
    fn insert_deep(&mut self, free: usize, new: Item) {
        let place = self.first + self.row[self.first..free].partition_point(|&item| item < new);
        self.row.copy_within(place..free, place + 1);
        self.row[place] = new;
    }

    /// Takes out `index`, which is in with that key.
    #[inline(always)]
    pub(crate) fn remove(&mut self, key: u64, index: u32) {
        let first = &mut self.row[self.first % BUFFER];
        if self.first < self.end && *first as u32 == index {
            *first = BEFORE_ALL;
            self.first += 1;
        } else {
            self.remove_behind(item(key, index));
        }
    }

    #[inline(never)]
    fn remove_behind(&mut self, old: Item) {
        match self.row[self.first..self.end].iter().position(|&other| other == old) {
            Some(place) => {
                self.row.copy_within(self.first + place + 1..self.end, self.first + place);
                self.end -= 1;
            }
            None => self.others.take_out(&mut self.lane, old as u32),
        }
    }

    /// Takes out everybody.
    pub(crate) fn clear(&mut self) {
        while self.lowest().is_some() {
            self.end = self.first;
        }
    }

    /// The same when the row has come to its end: moves it to the start, and shortens it if it is
    /// long.
    #[cold]
    fn insert_anew(&mut self, key: u64, index: u32) {
        if self.end - self.first > ROW_MAX {
            for place in self.first + ROW_MAX / 2..self.end {
                let item = self.row[place];
                self.others.set(&mut self.lane, item as u32, (item >> u64::BITS) as u64);
            }
            self.end = self.first + ROW_MAX / 2;
            self.limit = self.row[self.end];
        }
        self.row.copy_within(self.first..self.end, START);
        (self.first, self.end) = (START, START + self.end - self.first);
        self.insert(key, index);
    }

    /// Nobody is in the row: the lowest of the others come into it.
    #[cold]
    fn refill(&mut self) {
        (self.first, self.end) = (START, START);
        while self.end < START + ROW_MAX / 2 {
            let Some(index) = self.others.lowest(&self.lane) else {
                self.limit = Item::MAX;
                return;
            };
            self.row[self.end] = item(self.others.key(index), index);
            self.others.take_out(&mut self.lane, index);
            self.end += 1;
        }
        self.limit = self.row[self.end - 1] + 1;
    }
}

/// Below any item.
const BEFORE_ALL: Item = 0;
/// Where the row begins; what stands before it stays [`BEFORE_ALL`].
const START: usize = 1;
/// More are never in the row when it has been made shorter.
const ROW_MAX: usize = 128;
/// So many are moved one by one.
const DEEP: usize = 8;
/// The row moves along, so that it need not be moved each time.
const BUFFER: usize = 2 * ROW_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    fn check(count: u32, spread: u64) {
        let mut list = Shortlist::new(count as usize);
        let mut plain = BTreeSet::new();
        let mut keys: Vec<Option<u64>> = alloc::vec![None; count as usize];
        let mut random = Random::new(spread, u64::from(count));
        for step in 0..60_000u64 {
            let index = random.below(count);
            let grows = random.below(8) < if step / 1000 % 2 == 0 { 5 } else { 3 };
            match keys[index as usize] {
                None if grows => {
                    let key = step / 4 + random.bits() % spread;
                    keys[index as usize] = Some(key);
                    plain.insert((key, index));
                    list.insert(key, index);
                }
                Some(key) if random.below(4) == 0 => {
                    keys[index as usize] = None;
                    plain.remove(&(key, index));
                    list.remove(key, index);
                }
                _ => {
                    if let Some((key, lowest)) = plain.pop_first() {
                        assert_eq!(list.lowest(), Some(lowest), "{count} {spread} {step}");
                        assert_eq!(list.about(0), Some(lowest));
                        let later = list.about(1 + random.below(200) as usize);
                        assert!(later.is_none_or(|later| keys[later as usize].is_some()));
                        keys[lowest as usize] = None;
                        list.remove(key, lowest);
                    }
                }
            }
            assert_eq!(list.lowest(), plain.first().map(|row| row.1));
            if random.below(10_000) == 0 {
                (plain, keys) = (BTreeSet::new(), alloc::vec![None; count as usize]);
                list.clear();
                assert_eq!(list.lowest(), None);
            }
        }
    }

    #[test]
    fn it_agrees_with_an_ordered_set() {
        for count in [1, 20, 128, 129, 300, 2000] {
            for spread in [1, 100, 1 << 40] {
                check(count, spread);
            }
        }
    }
}
