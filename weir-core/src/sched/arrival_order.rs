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
    leaves: Vec<Entries>,
}

/// How many entries in `order` a leaf has.
#[derive(Clone, Copy, Default)]
struct Entries {
    /// Of packets that wait.
    waiting: u32,
    /// Of packets that were dropped; these come first.
    stale: u32,
}

impl ArrivalOrder {
    /// No packet in any of `leaves` leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        let order = LeafRing::with_capacity(leaves);
        Self { order, leaves: alloc::vec![Entries::default(); leaves] }
    }

    /// A packet joined `leaf`.
    #[inline]
    pub(crate) fn arrived(&mut self, leaf: LeafId) {
        self.order.push_back(leaf);
        self.leaves[leaf.index()].waiting += 1;
    }

    /// The leaf whose packet came first, if any waits.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<LeafId> {
        while let Some(leaf) = self.order.front() {
            let entries = &mut self.leaves[leaf.index()];
            if entries.stale == 0 {
                return Some(leaf);
            }
            entries.stale -= 1;
            self.order.pop_front();
        }
        None
    }

    /// `leaf`, which is in front, sent its first packet; `empty` says whether none is left.
    #[inline]
    pub(crate) fn sent(&mut self, leaf: LeafId, empty: bool) {
        assert_eq!(self.order.front(), Some(leaf), "the leaf in front was selected");
        self.order.pop_front();
        let entries = &mut self.leaves[leaf.index()];
        entries.waiting -= 1;
        entries.settle(empty);
    }

    /// A packet that waited in `leaf` was dropped; `empty` says whether none is left.
    pub(crate) fn dropped(&mut self, leaf: LeafId, empty: bool) {
        let entries = &mut self.leaves[leaf.index()];
        entries.waiting -= 1;
        entries.stale += 1;
        entries.settle(empty);
    }
}

impl Entries {
    /// An empty leaf waits for nothing: entries left over from drops inside its queue are stale.
    #[inline]
    fn settle(&mut self, empty: bool) {
        if empty {
            self.stale += core::mem::take(&mut self.waiting);
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
        let mut waiting = [0u32; 3];
        for letter in events.bytes() {
            let leaf = LeafId(u32::from(letter.to_ascii_lowercase() - b'a'));
            if letter.is_ascii_lowercase() {
                arrivals.arrived(leaf);
                waiting[leaf.index()] += 1;
            } else {
                waiting[leaf.index()] -= 1;
                arrivals.dropped(leaf, waiting[leaf.index()] == 0);
            }
        }
        let mut sent = String::new();
        while let Some(leaf) = arrivals.front() {
            waiting[leaf.index()] -= 1;
            arrivals.sent(leaf, waiting[leaf.index()] == 0);
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
