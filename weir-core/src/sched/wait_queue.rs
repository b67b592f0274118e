//! Items that wait for their time: four-way heaps whose items know their place.
//!
//! One structure holds several *lanes*, each a heap of its own; an item waits in one lane at most,
//! so all lanes share one table of places. Items of one time leave in the order of their numbers,
//! so the order does not depend on what happened before. Invariant: `place[item]` is where it
//! stands.

use crate::units::Instant;
use alloc::vec::Vec;

/// Items with the times that they wait for.
pub(crate) struct WaitQueue {
    lanes: Vec<Vec<Wait>>,
    place: Vec<u32>,
}

/// Twelve bytes: a time of eight would make it sixteen.
#[derive(Clone, Copy)]
struct Wait {
    /// The halves of the time, the upper one first.
    until: [u32; 2],
    item: u32,
}

impl WaitQueue {
    /// Empty lanes for items numbered below `items`; `sizes` says how many may wait in each lane,
    /// so that waiting never allocates.
    pub(crate) fn new(sizes: &[usize], items: usize) -> Self {
        let lanes = sizes.iter().map(|&size| Vec::with_capacity(size)).collect();
        Self { lanes, place: alloc::vec![ABSENT; items] }
    }

    /// How many wait in this lane.
    #[inline]
    pub(crate) fn len(&self, lane: usize) -> usize {
        self.lanes[lane].len()
    }

    /// The earliest time in this lane.
    #[inline]
    pub(crate) fn earliest(&self, lane: usize) -> Option<Instant> {
        self.lanes[lane].first().map(Wait::until)
    }

    /// Lets `item`, which waits nowhere, wait in `lane`.
    #[inline]
    pub(crate) fn insert(&mut self, lane: usize, item: u32, until: Instant) {
        assert_eq!(self.place[item as usize], ABSENT, "an item waits once");
        let heap = &mut self.lanes[lane];
        heap.push(Wait::new(until, item));
        let last = heap.len() - 1;
        sift_up(heap, &mut self.place, last);
    }

    /// Takes `item`, which waits in `lane`, out.
    #[inline]
    pub(crate) fn remove(&mut self, lane: usize, item: u32) {
        let at = self.place[item as usize] as usize;
        let heap = &mut self.lanes[lane];
        assert!(heap.get(at).is_some_and(|wait| wait.item == item), "the item waits in its lane");
        self.place[item as usize] = ABSENT;
        heap.swap_remove(at);
        if at < heap.len() {
            let at = sift_up(heap, &mut self.place, at);
            sift_down(heap, &mut self.place, at);
        }
    }

    /// Takes out the first item of `lane` if its time is `now` or earlier.
    #[inline]
    pub(crate) fn pop_due(&mut self, lane: usize, now: Instant) -> Option<u32> {
        let first = *self.lanes[lane].first()?;
        if first.until() > now {
            return None;
        }
        self.remove(lane, first.item);
        Some(first.item)
    }
}

impl Wait {
    const fn new(until: Instant, item: u32) -> Self {
        let nanos = until.as_nanos();
        Self { until: [(nanos >> u32::BITS) as u32, nanos as u32], item }
    }

    const fn until(&self) -> Instant {
        let [upper, lower] = self.until;
        Instant::from_nanos((upper as u64) << u32::BITS | lower as u64)
    }

    /// What the order is by.
    #[inline]
    const fn key(&self) -> (Instant, u32) {
        (self.until(), self.item)
    }
}

/// Moves what stands `at` towards the front; answers where it came to stand.
fn sift_up(heap: &mut [Wait], place: &mut [u32], mut at: usize) -> usize {
    let moving = heap[at];
    let key = moving.key();
    while at > 0 {
        let parent = (at - 1) / WAYS;
        if heap[parent].key() <= key {
            break;
        }
        heap[at] = heap[parent];
        place[heap[at].item as usize] = at as u32;
        at = parent;
    }
    heap[at] = moving;
    place[moving.item as usize] = at as u32;
    at
}

/// Moves what stands `at` towards the back.
fn sift_down(heap: &mut [Wait], place: &mut [u32], mut at: usize) {
    let moving = heap[at];
    let key = moving.key();
    loop {
        let first = at * WAYS + 1;
        let children = first..(first + WAYS).min(heap.len());
        let Some(least) = children.min_by_key(|&child| heap[child].key()) else { break };
        if key <= heap[least].key() {
            break;
        }
        heap[at] = heap[least];
        place[heap[at].item as usize] = at as u32;
        at = least;
    }
    heap[at] = moving;
    place[moving.item as usize] = at as u32;
}

/// Children of a node: four share a cache line, or two.
const WAYS: usize = 4;
/// The place of an item that does not wait.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        const ITEMS: u32 = 200;
        let mut queue = WaitQueue::new(&[ITEMS as usize; 2], ITEMS as usize);
        let mut plain = [BTreeSet::new(), BTreeSet::new()];
        let mut waiting = [None; ITEMS as usize];
        let mut seed = 7u64;
        for step in 0..50_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let item = (seed >> 40) as u32 % ITEMS;
            let lane = item as usize % 2;
            if let Some(until) = waiting[item as usize].take() {
                queue.remove(lane, item);
                plain[lane].remove(&(until, item));
            } else {
                let until = Instant::from_nanos(step + (seed >> 50) % 64);
                queue.insert(lane, item, until);
                plain[lane].insert((until, item));
                waiting[item as usize] = Some(until);
            }
            assert_eq!(queue.len(lane), plain[lane].len());
            assert_eq!(queue.earliest(lane), plain[lane].first().map(|wait| wait.0));
            let now = Instant::from_nanos(step);
            while let Some(due) = queue.pop_due(lane, now) {
                let (until, first) = plain[lane].pop_first().expect("as many as in the queue");
                assert_eq!(due, first);
                assert!(until <= now);
                waiting[due as usize] = None;
            }
            assert!(plain[lane].first().is_none_or(|wait| wait.0 > now));
        }
    }
}
