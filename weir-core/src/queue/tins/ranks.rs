//! Which flow of a leaf holds most bytes, asked when the leaf is full.
//!
//! A heap, made when it is first asked. A departure does not update it: a flow's rank can only be
//! too high, and is corrected when the flow reaches the top. Invariant: a flow with packets is in
//! the heap, at its true rank or above. So the answer does not depend on what happened before, and
//! the heap need not be in a checkpoint.

use alloc::vec::Vec;
use core::cmp::Reverse;

/// The ranks of flows; empty until asked.
#[derive(Default)]
pub(super) struct Ranks {
    heap: Vec<Rank>,
    /// By flow, its index in the heap, or [`NOWHERE`].
    places: Vec<u32>,
}

/// The longer first; of equals, the one with the lower number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    bytes: u64,
    flow: Reverse<u32>,
}

impl Ranks {
    /// Records that `flow` holds `bytes` now, more than before.
    #[inline]
    pub(super) fn rise(&mut self, flow: u32, bytes: u64) {
        if self.heap.is_empty() {
            return;
        }
        let rank = Rank { bytes, flow: Reverse(flow) };
        if self.places.len() <= flow as usize {
            self.places.resize(flow as usize + 1, NOWHERE);
        }
        let mut place = self.places[flow as usize] as usize;
        if place as u32 == NOWHERE {
            place = self.heap.len();
            self.heap.push(rank);
        }
        if rank >= self.heap[place] {
            self.heap[place] = rank;
            self.lift(place);
        }
    }

    /// Returns the flow with most of the `bytes` of each of so many flows.
    pub(super) fn first(&mut self, flows: u32, bytes: impl Fn(u32) -> u64) -> u32 {
        if self.heap.is_empty() {
            self.places = alloc::vec![NOWHERE; flows as usize];
            for flow in (0..flows).filter(|&flow| bytes(flow) > 0) {
                self.heap.push(Rank { bytes: bytes(flow), flow: Reverse(flow) });
                self.lift(self.heap.len() - 1);
            }
        }
        loop {
            let Some(&top) = self.heap.first() else { return 0 };
            let flow = top.flow.0;
            let now = bytes(flow);
            if now == top.bytes {
                return flow;
            }
            debug_assert!(now < top.bytes, "a rank is the flow's or above it");
            self.heap[0].bytes = now;
            self.sink();
        }
    }

    /// Moves the rank at `place` up to its place.
    fn lift(&mut self, mut place: usize) {
        while place > 0 && self.heap[place] > self.heap[(place - 1) / 2] {
            self.heap.swap(place, (place - 1) / 2);
            self.note(place);
            place = (place - 1) / 2;
        }
        self.note(place);
    }

    /// Moves the first rank down to its place.
    fn sink(&mut self) {
        let mut place = 0;
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(most) = children.max_by_key(|&child| self.heap[child]) else { break };
            if self.heap[most] < self.heap[place] {
                break;
            }
            self.heap.swap(most, place);
            self.note(place);
            place = most;
        }
        self.note(place);
    }

    fn note(&mut self, place: usize) {
        self.places[self.heap[place].flow.0 as usize] = place as u32;
    }
}

/// The place of a flow that is not in the heap.
const NOWHERE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn it_finds_the_longest_whatever_came_and_left() {
        let mut ranks = Ranks::default();
        let mut bytes = alloc::vec![0u64; 30];
        let mut random = Random::new(5, 0);
        for step in 0..20_000 {
            let flow = random.below(30);
            if random.below(2) == 0 {
                bytes[flow as usize] += u64::from(random.below(1500));
                ranks.rise(flow, bytes[flow as usize]);
            } else {
                let less = u64::from(random.below(1500));
                bytes[flow as usize] = bytes[flow as usize].saturating_sub(less);
            }
            if step > 100 && random.below(3) == 0 && bytes.iter().any(|&bytes| bytes > 0) {
                let most = (0..30).max_by_key(|&flow| (bytes[flow as usize], Reverse(flow)));
                assert_eq!(Some(ranks.first(30, |flow| bytes[flow as usize])), most);
            }
        }
    }
}
