//! The leaves of all waiting packets, in the order of arrival.
//!
//! The entry of a dropped packet stays, and is skipped when it comes to the front, so every
//! operation takes constant time. Invariant: `order` holds one entry for each packet that waits,
//! and the `stale` entries of packets that were dropped.

use crate::ids::LeafId;
use crate::state::state;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Leaves in the order of their packets' arrival.
pub(crate) struct Arrivals {
    order: VecDeque<LeafId>,
    /// The number of stale entries by leaf; these precede the leaf's valid ones.
    stale: Vec<u32>,
    /// The sum of `stale`. While it is zero, no leaf's count need be read.
    stale_total: u32,
}

impl Arrivals {
    /// Returns the order of no packets, for `leaves` leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        let order = VecDeque::with_capacity(leaves);
        Self { order, stale: alloc::vec![0; leaves], stale_total: 0 }
    }

    /// Records that a packet joined `leaf`.
    #[inline]
    pub(crate) fn push(&mut self, leaf: LeafId) {
        debug_assert!(leaf.index() < self.stale.len(), "the leaf is one of the tree");
        self.order.push_back(leaf);
    }

    /// Returns the leaf whose packet came first, if any waits.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<LeafId> {
        if self.stale_total > 0 {
            self.skip_stale();
        }
        self.order.front().copied()
    }

    /// Removes the packet that came first.
    #[inline]
    pub(crate) fn pop(&mut self) {
        let first = self.order.pop_front();
        debug_assert!(first.is_some(), "only a packet that waits leaves");
    }

    /// Records that a packet that waited in `leaf` was dropped.
    pub(crate) fn drop_from(&mut self, leaf: LeafId) {
        self.stale[leaf.index()] += 1;
        self.stale_total += 1;
        let entries = self.order.len();
        debug_assert!(self.stale_total as usize <= entries, "only a packet that waits is dropped");
    }

    /// Whether the packets are those that wait in each leaf.
    pub(crate) fn agrees(&self, packets: &[u32]) -> bool {
        let mut rest: Vec<u64> = self.stale.iter().map(|&stale| stale.into()).collect();
        rest.iter_mut().zip(packets).for_each(|(rest, &packets)| *rest += u64::from(packets));
        let take = |leaf: &LeafId| match rest.get_mut(leaf.index()) {
            Some(rest) if *rest > 0 => {
                *rest -= 1;
                true
            }
            _ => false,
        };
        self.order.iter().all(take)
            && rest.iter().all(|&rest| rest == 0)
            && self.stale.iter().map(|&stale| u64::from(stale)).sum::<u64>()
                == u64::from(self.stale_total)
    }

    #[cold]
    fn skip_stale(&mut self) {
        while let Some(leaf) = self.order.front() {
            let stale = &mut self.stale[leaf.index()];
            if *stale == 0 {
                return;
            }
            *stale -= 1;
            self.stale_total -= 1;
            self.order.pop_front();
        }
    }
}

state!(Arrivals { order, stale, stale_total });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Compares with a plain list, from which a drop takes the first packet of its leaf.
    #[test]
    fn they_agree_with_a_plain_list() {
        let (mut arrivals, mut plain) = (Arrivals::new(5), Vec::new());
        let mut random = Random::new(1, 0);
        for _ in 0..20_000 {
            let leaf = LeafId(random.below(5));
            match random.below(4) {
                0 | 1 if plain.len() < 20 => {
                    arrivals.push(leaf);
                    plain.push(leaf);
                }
                2 if plain.contains(&leaf) => {
                    let place = plain.iter().position(|&other| other == leaf);
                    plain.remove(place.expect("it is in"));
                    arrivals.drop_from(leaf);
                }
                _ if !plain.is_empty() => {
                    assert_eq!(arrivals.first(), Some(plain.remove(0)));
                    arrivals.pop();
                }
                _ => {}
            }
            assert_eq!(arrivals.first(), plain.first().copied());
        }
    }
}
