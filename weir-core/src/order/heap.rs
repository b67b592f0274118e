//! Items ordered by a key: four-way heaps whose items know their place.
//!
//! One structure holds several *lanes*, each a heap of its own; an item stands in one lane at most,
//! so all lanes share one table of places. Of equal keys the smaller item comes first, so the order
//! does not depend on what happened before. Every operation but looking at the first costs the
//! logarithm of the items in the lane. Each is one function call with its parts inlined, since
//! further calls cost a twentieth of `wf2q+`. Invariant: `places[item]` is where the item stands.

use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

/// Heaps over items numbered from 0.
pub(crate) struct Heaps<K> {
    /// The lanes, one after the other, each with room for all its items.
    entries: Vec<Entry<K>>,
    lanes: Vec<Lane>,
    places: Vec<u32>,
}

/// Packed, so that an instant and its item take 12 bytes and not 16.
#[derive(Clone, Copy)]
#[repr(Rust, packed(4))]
struct Entry<K> {
    key: K,
    item: u32,
}

#[derive(Clone, Copy)]
struct Lane {
    start: u32,
    len: u32,
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

    /// Whether no item stands in any lane.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.len == 0)
    }

    /// The least key in this lane and its item.
    #[inline]
    pub(crate) fn first(&self, lane: usize) -> Option<(K, u32)> {
        let Lane { start, len } = self.lanes[lane];
        let first = &self.entries.get(start as usize).filter(|_| len > 0)?;
        Some((first.key, first.item))
    }

    /// The key of `item`, if it stands in `lane`.
    #[inline]
    pub(crate) fn key(&self, lane: usize, item: u32) -> Option<K> {
        let place = self.places[item as usize];
        let at = self.lanes[lane].start as usize + place as usize;
        (place != ABSENT).then(|| self.entries[at].key)
    }

    /// Whether `item` stands in a lane.
    #[inline]
    pub(crate) fn contains(&self, item: u32) -> bool {
        self.places[item as usize] != ABSENT
    }

    /// Inserts `item`, which stands in no lane.
    #[inline(never)]
    pub(crate) fn insert(&mut self, lane: usize, item: u32, key: K) {
        assert!(!self.contains(item), "an item stands in one lane");
        let Lane { start, len } = self.lanes[lane];
        let end = self.lanes.get(lane + 1).map_or(self.entries.len(), |next| next.start as usize);
        debug_assert!(((start + len) as usize) < end, "a lane has room for all its items");
        let at = len as usize;
        self.lanes[lane].len += 1;
        let (heap, places) = self.heap(lane);
        sift_up(heap, places, at, Entry { key, item });
    }

    /// Gives `item`, which stands in `lane`, a key that is not larger than the one it has.
    #[inline(never)]
    pub(crate) fn decrease(&mut self, lane: usize, item: u32, key: K) {
        debug_assert!(self.contains(item), "only an item in a lane has another key");
        let at = self.places[item as usize] as usize;
        let (heap, places) = self.heap(lane);
        sift_up(heap, places, at, Entry { key, item });
    }

    /// Gives `item`, which stands in `lane`, a key that is not smaller than the one it has.
    #[inline(never)]
    pub(crate) fn increase(&mut self, lane: usize, item: u32, key: K) {
        debug_assert!(self.contains(item), "only an item in a lane has another key");
        let at = self.places[item as usize] as usize;
        let (heap, places) = self.heap(lane);
        sift_down(heap, places, at, Entry { key, item });
    }

    /// Removes `item`, which stands in `lane`.
    #[inline(never)]
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
    #[inline(never)]
    pub(crate) fn update(&mut self, lane: usize, item: u32, key: K) {
        debug_assert!(self.contains(item), "only an item in a lane has another key");
        let at = self.places[item as usize] as usize;
        let (heap, places) = self.heap(lane);
        settle(heap, places, at, Entry { key, item });
    }

    /// Returns the keys and items of a lane, in no order.
    pub(crate) fn items(&self, lane: usize) -> impl Iterator<Item = (K, u32)> {
        let Lane { start, len } = self.lanes[lane];
        let entries = &self.entries[start as usize..][..len as usize];
        entries.iter().map(|entry| (entry.key, entry.item))
    }

    /// Changes all keys by `change`, which may make some equal but puts none before another.
    pub(crate) fn change_keys(&mut self, change: impl Fn(K) -> K) {
        for lane in 0..self.lanes.len() {
            let (heap, places) = self.heap(lane);
            heap.iter_mut().for_each(|entry| entry.key = change(entry.key));
            // Among equal keys the items decide now.
            for at in (0..heap.len()).rev() {
                let entry = heap[at];
                sift_down(heap, places, at, entry);
            }
        }
    }

    /// The entries of a lane, and all places.
    #[inline]
    fn heap(&mut self, lane: usize) -> (&mut [Entry<K>], &mut [u32]) {
        let Lane { start, len } = self.lanes[lane];
        (&mut self.entries[start as usize..][..len as usize], &mut self.places)
    }
}

impl<K: Ord + Copy> Entry<K> {
    /// Whether this entry comes before `other`: by key, then by item.
    // Without a jump: which of two comes first is hard to foresee.
    #[inline(always)]
    fn precedes(&self, other: &Self) -> bool {
        let ((key, item), (other_key, other)) = ((self.key, self.item), (other.key, other.item));
        (key < other_key) | ((key == other_key) & (item < other))
    }
}

/// Puts `entry` at `at`, whose entry is to be replaced, and moves it to where it belongs.
#[inline(always)]
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
#[inline(always)]
fn sift_down<K: Ord + Copy>(
    heap: &mut [Entry<K>],
    places: &mut [u32],
    mut at: usize,
    entry: Entry<K>,
) {
    while let Some(least) = least_child(heap, at) {
        let child = heap[least];
        if !child.precedes(&entry) {
            break;
        }
        heap[at] = child;
        places[child.item as usize] = at as u32;
        at = least;
    }
    heap[at] = entry;
    places[entry.item as usize] = at as u32;
}

/// The child of `at` that comes before its siblings, if it has children.
#[inline(always)]
fn least_child<K: Ord + Copy>(heap: &[Entry<K>], at: usize) -> Option<usize> {
    let first = at * WAYS + 1;
    let later = |a: usize, b: usize| if heap[b].precedes(&heap[a]) { b } else { a };
    if first + WAYS <= heap.len() {
        return Some(later(later(first, first + 1), later(first + 2, first + 3)));
    }
    (first..heap.len()).reduce(later)
}

/// Children of a node.
const WAYS: usize = 4;
/// The place of an item that stands in no lane.
const ABSENT: u32 = u32::MAX;

/// The items of each lane with their keys, as they stand; the places follow from that.
impl<K: Ord + Copy + Default + State> State for Heaps<K> {
    fn save(&self, to: &mut Writer) {
        let Self { entries, lanes, places: _ } = self;
        for &Lane { start, len } in lanes {
            to.number(u64::from(len));
            for entry in &entries[start as usize..][..len as usize] {
                let (key, item) = (entry.key, entry.item);
                key.save(to);
                item.save(to);
            }
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.places.fill(ABSENT);
        for lane in 0..self.lanes.len() {
            let next =
                self.lanes.get(lane + 1).map_or(self.entries.len(), |row| row.start as usize);
            let start = self.lanes[lane].start as usize;
            let len = from.count(next - start, "heap")?;
            self.lanes[lane].len = len as u32;
            for at in 0..len {
                let mut key = K::default();
                key.load(from)?;
                let item = from.index(self.places.len(), "item of a heap")? as u32;
                let entry = Entry { key, item };
                let parent = at.saturating_sub(1) / WAYS;
                let misplaced = at > 0 && entry.precedes(&self.entries[start + parent]);
                if misplaced || self.contains(item) {
                    return Err(StateError::Invalid("order of a heap"));
                }
                self.entries[start + at] = entry;
                self.places[item as usize] = at as u32;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeSet;
    use core::cmp::Ordering;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        const ITEMS: u32 = 200;
        let mut heaps = Heaps::new(&[ITEMS as usize / 2; 2], ITEMS as usize);
        let mut plain = [BTreeSet::new(), BTreeSet::new()];
        let mut keys: [Option<u32>; ITEMS as usize] = [None; ITEMS as usize];
        let mut random = Random::new(7, 0);
        for _ in 0..50_000 {
            let (item, key) = (random.below(ITEMS), random.below(64));
            let lane = item as usize % 2;
            if random.below(1_000) == 0 {
                heaps.change_keys(|key: u32| key.saturating_sub(3));
                plain = plain.map(|rows| {
                    rows.into_iter()
                        .map(|(key, item): (u32, u32)| (key.saturating_sub(3), item))
                        .collect()
                });
                keys = keys.map(|key| key.map(|key| key.saturating_sub(3)));
            }
            match (keys[item as usize].take(), random.below(3)) {
                (Some(old), 0) => {
                    heaps.remove(lane, item);
                    plain[lane].remove(&(old, item));
                }
                (Some(old), way) => {
                    match key.cmp(&old) {
                        Ordering::Less if way == 1 => heaps.decrease(lane, item, key),
                        Ordering::Greater if way == 1 => heaps.increase(lane, item, key),
                        _ => heaps.update(lane, item, key),
                    }
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
            assert_eq!(heaps.key(lane, item), keys[item as usize]);
            assert_eq!(heaps.len(lane), plain[lane].len());
            assert_eq!(heaps.is_empty(), plain.iter().all(BTreeSet::is_empty));
            assert_eq!(heaps.first(lane), plain[lane].first().copied());
        }
    }
}
