//! Items ordered by a key: four-way heaps whose items know their place.
//!
//! One structure holds several *lanes*, each a heap of its own; an item stands in one lane at most,
//! so all lanes share one table of places. Of equal keys the smaller item comes first, so the order
//! does not depend on what happened before. Every operation but looking at the first costs the
//! logarithm of the items in the lane. Invariant: `places[item]` is where the item stands.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// Heaps over items numbered from 0.
#[derive(Clone)]
pub(crate) struct Heaps<K> {
    /// The lanes, one after the other, each with room for all its items.
    entries: Vec<Entry<K>>,
    lanes: Vec<Lane>,
    places: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Entry<K> {
    key: K,
    item: u32,
}

#[derive(Clone, Copy)]
struct Lane {
    start: u32,
    len: u32,
}

impl<K: Ord> Entry<K> {
    #[inline(always)]
    fn precedes(&self, other: &Self) -> bool {
        (self.key < other.key) | ((self.key == other.key) & (self.item < other.item))
    }
}

impl<K: Ord + Copy + Default> Heaps<K> {
    /// Empty lanes for items numbered below `items`; `sizes` says how many may stand in each lane,
    /// so that nothing allocates later.
    pub(crate) fn new(sizes: &[usize], items: usize) -> Self {
        let mut start = 0;
        let mut lanes = Vec::with_capacity(sizes.len());
        for &size in sizes {
            lanes.push(Lane { start, len: 0 });
            start += size as u32;
        }
        let entry = Entry { key: K::default(), item: ABSENT };
        let entries = alloc::vec![entry; start as usize];
        Self { entries, lanes, places: alloc::vec![ABSENT; items] }
    }

    /// How many items stand in this lane.
    #[inline]
    pub(crate) fn len(&self, lane: usize) -> usize {
        self.lanes[lane].len as usize
    }

    /// The least key in this lane and its item.
    #[inline]
    pub(crate) fn first(&self, lane: usize) -> Option<(K, u32)> {
        let Lane { start, len } = self.lanes[lane];
        let first = &self.entries.get(start as usize).filter(|_| len > 0)?;
        Some((first.key, first.item))
    }

    /// Whether `item` stands in a lane.
    #[inline]
    pub(crate) fn contains(&self, item: u32) -> bool {
        self.places[item as usize] != ABSENT
    }

    /// Inserts `item`, which stands in no lane.
    #[inline]
    pub(crate) fn insert(&mut self, lane: usize, item: u32, key: K) {
        assert!(!self.contains(item), "an item stands in one lane");
        let at = self.lanes[lane].len as usize;
        self.lanes[lane].len += 1;
        let (heap, places) = self.heap(lane);
        sift_up(heap, places, at, Entry { key, item });
    }

    /// Removes `item`, which stands in `lane`.
    #[inline]
    pub(crate) fn remove(&mut self, lane: usize, item: u32) {
        let at = core::mem::replace(&mut self.places[item as usize], ABSENT) as usize;
        let (heap, places) = self.heap(lane);
        assert!(heap.get(at).is_some_and(|entry| entry.item == item), "the item is in its lane");
        let last = heap.len() - 1;
        let moved = heap[last];
        if at < last {
            settle(&mut heap[..last], places, at, moved);
        }
        self.lanes[lane].len -= 1;
    }

    /// Gives `item`, which stands in `lane`, another key.
    #[inline]
    #[allow(dead_code, reason = "the fair queues take it up next")]
    pub(crate) fn update(&mut self, lane: usize, item: u32, key: K) {
        let at = self.places[item as usize] as usize;
        let (heap, places) = self.heap(lane);
        settle(heap, places, at, Entry { key, item });
    }

    /// Gives `item`, which stands in `lane`, a key that is not larger than the one it has.
    #[inline]
    pub(crate) fn decrease(&mut self, lane: usize, item: u32, key: K) {
        let at = self.places[item as usize] as usize;
        let (heap, places) = self.heap(lane);
        sift_up(heap, places, at, Entry { key, item });
    }

    /// Gives `item`, which stands in `lane`, a key that is not smaller than the one it has.
    #[inline]
    pub(crate) fn increase(&mut self, lane: usize, item: u32, key: K) {
        let at = self.places[item as usize] as usize;
        let (heap, places) = self.heap(lane);
        sift_down(heap, places, at, Entry { key, item });
    }

    /// The entries of a lane, and all places.
    #[inline]
    fn heap(&mut self, lane: usize) -> (&mut [Entry<K>], &mut [u32]) {
        let Lane { start, len } = self.lanes[lane];
        (&mut self.entries[start as usize..][..len as usize], &mut self.places)
    }
}

/// Puts `entry` at `at`, whose entry is to be replaced, and moves it to where it belongs.
#[inline]
fn settle<K: Ord + Copy>(heap: &mut [Entry<K>], places: &mut [u32], at: usize, entry: Entry<K>) {
    if at > 0 && entry.precedes(&heap[(at - 1) / WAYS]) {
        sift_up(heap, places, at, entry);
    } else {
        sift_down(heap, places, at, entry);
    }
}

/// Puts `entry` at `at` or nearer to the front.
#[inline(always)]
fn sift_up<K: Ord + Copy>(
    heap: &mut [Entry<K>],
    places: &mut [u32],
    mut at: usize,
    entry: Entry<K>,
) {
    while at > 0 {
        let parent = (at - 1) / WAYS;
        if !entry.precedes(&heap[parent]) {
            break;
        }
        heap[at] = heap[parent];
        places[heap[at].item as usize] = at as u32;
        at = parent;
    }
    heap[at] = entry;
    places[entry.item as usize] = at as u32;
}

/// Puts `entry` at `at` or nearer to the back.
#[inline]
fn sift_down<K: Ord + Copy>(
    heap: &mut [Entry<K>],
    places: &mut [u32],
    mut at: usize,
    entry: Entry<K>,
) {
    loop {
        let first = at * WAYS + 1;
        let Some(least) = least_child(heap, first) else { break };
        if !heap[least].precedes(&entry) {
            break;
        }
        heap[at] = heap[least];
        places[heap[at].item as usize] = at as u32;
        at = least;
    }
    heap[at] = entry;
    places[entry.item as usize] = at as u32;
}

/// The least of the children from `first` on. Which it is cannot be foretold, so full nodes are
/// compared without jumps.
#[inline(always)]
fn least_child<K: Ord + Copy>(heap: &[Entry<K>], first: usize) -> Option<usize> {
    let Some([a, b, c, d]) = heap.get(first..first + WAYS) else {
        let less =
            |one: usize, other: usize| if heap[other].precedes(&heap[one]) { other } else { one };
        return (first..heap.len()).reduce(less);
    };
    let (ab, one) = select_unpredictable(b.precedes(a), (1, b), (0, a));
    let (cd, other) = select_unpredictable(d.precedes(c), (3, d), (2, c));
    Some(first + select_unpredictable(other.precedes(one), cd, ab))
}

/// Children of a node.
const WAYS: usize = 4;
/// The place of an item that stands in no lane.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeSet;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        const ITEMS: u32 = 200;
        let mut heaps = Heaps::new(&[ITEMS as usize / 2; 2], ITEMS as usize);
        let mut plain = [BTreeSet::new(), BTreeSet::new()];
        let mut keys = [None; ITEMS as usize];
        let mut random = Random::new(7, 0);
        for _ in 0..50_000 {
            let (item, key) = (random.below(ITEMS), random.below(64));
            let lane = item as usize % 2;
            match (keys[item as usize].take(), random.below(3)) {
                (Some(old), 0) => {
                    heaps.remove(lane, item);
                    plain[lane].remove(&(old, item));
                }
                (Some(old), _) => {
                    heaps.update(lane, item, key);
                    plain[lane].remove(&(old, item));
                    plain[lane].insert((key, item));
                    keys[item as usize] = Some(key);
                }
                (None, _) => {
                    heaps.insert(lane, item, key);
                    plain[lane].insert((key, item));
                    keys[item as usize] = Some(key);
                }
            }
            assert_eq!(heaps.contains(item), keys[item as usize].is_some());
            assert_eq!(heaps.len(lane), plain[lane].len());
            assert_eq!(heaps.first(lane), plain[lane].first().copied());
        }
    }
}
