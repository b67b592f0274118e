//! Whose packet came first: leaves in the order of their packets' arrival.
//!
//! Invariant: `order` holds one entry for each waiting packet, plus the `stale` entries of packets
//! that were dropped, which are skipped when they come to the front.

use super::leaf_ring::LeafRing;
use crate::ids::LeafId;
use alloc::vec::Vec;

/// The leaves of all waiting packets, first come first.
pub(crate) struct ArrivalOrder {
    order: LeafRing,
    /// By leaf, its stale entries; these come first.
    stale: Vec<u32>,
    /// The sum of them: as long as nothing is dropped, no packet looks at its leaf.
    stale_total: u32,
}

impl ArrivalOrder {
    /// No packet in any of `leaves` leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        let order = LeafRing::with_capacity(leaves);
        Self { order, stale: alloc::vec![0; leaves], stale_total: 0 }
    }

    /// A packet joined `leaf`.
    #[inline]
    pub(crate) fn arrived(&mut self, leaf: LeafId) {
        self.order.push_back(leaf);
    }

    /// The leaf whose packet came first, if any waits.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<LeafId> {
        if self.stale_total > 0 {
            self.skip_stale();
        }
        self.order.front()
    }

    /// The leaf whose packet comes after `ahead` others, unless some of these were dropped.
    #[inline]
    pub(crate) fn get(&self, ahead: usize) -> Option<LeafId> {
        self.order.get(ahead)
    }

    /// The leaf in front, which is `leaf`, sent its first packet.
    #[inline]
    pub(crate) fn sent(&mut self, leaf: LeafId) {
        debug_assert_eq!(self.order.front(), Some(leaf), "the leaf in front was selected");
        self.order.pop_front();
    }

    /// A packet that waited in `leaf` was dropped.
    pub(crate) fn dropped(&mut self, leaf: LeafId) {
        self.stale[leaf.index()] += 1;
        self.stale_total += 1;
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// Small letters arrive, capital ones are dropped; what is left is sent.
    fn check(events: &str, order: &str) {
        let mut arrivals = ArrivalOrder::new(3);
        for letter in events.bytes() {
            let leaf = LeafId(u32::from(letter.to_ascii_lowercase() - b'a'));
            if letter.is_ascii_lowercase() {
                arrivals.arrived(leaf);
            } else {
                arrivals.dropped(leaf);
            }
        }
        let mut sent = String::new();
        while let Some(leaf) = arrivals.front() {
            arrivals.sent(leaf);
            sent.push(char::from(b'a' + leaf.0 as u8));
        }
        assert_eq!(sent, order, "{events}");
    }

    #[test]
    fn who_came_first_goes_first_and_who_was_dropped_gives_up_the_first_place() {
        let rows = [("abcab", "abcab"), ("abaAc", "bac"), ("abABcab", "cab"), ("aabAbA", "bb")];
        for (events, order) in rows {
            check(events, order);
        }
    }
}
