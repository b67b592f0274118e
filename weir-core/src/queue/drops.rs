//! Counts of dropped packets, by leaf and reason.

use crate::account::Count;
use crate::event::DropReason;
use crate::ids::LeafId;
use crate::units::Bytes;
use alloc::vec::Vec;

/// Drops by leaf and reason; only leaves that dropped use memory.
#[derive(Default)]
pub(super) struct Drops {
    /// By leaf, 1 + the place in `counts`; empty until the first drop.
    places: Vec<u32>,
    counts: Vec<[Count; DropReason::ALL.len()]>,
}

impl Drops {
    #[inline]
    pub(super) fn count(&mut self, leaves: usize, leaf: LeafId, reason: DropReason, bytes: Bytes) {
        let place = self.places.get(leaf.index()).map_or(0, |&place| place as usize);
        match place.checked_sub(1).and_then(|place| self.counts.get_mut(place)) {
            Some(counts) => counts[reason as usize].add(bytes),
            None => self.add(leaves, leaf, reason, Count { packets: 1, bytes: bytes.get() }),
        }
    }

    #[cold]
    pub(super) fn add(&mut self, leaves: usize, leaf: LeafId, reason: DropReason, count: Count) {
        if count.packets == 0 {
            return;
        }
        if self.places.is_empty() {
            self.places = alloc::vec![0; leaves];
        }
        let place = &mut self.places[leaf.index()];
        if *place == 0 {
            self.counts.push(Default::default());
            *place = self.counts.len() as u32;
        }
        let sum = &mut self.counts[*place as usize - 1][reason as usize];
        *sum = sum.plus(count);
    }

    /// Returns the counts of each leaf that dropped.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LeafId, &[Count; DropReason::ALL.len()])> {
        let row = |(leaf, &place): (usize, &u32)| {
            let counts = self.counts.get((place as usize).checked_sub(1)?)?;
            Some((LeafId(leaf as u32), counts))
        };
        self.places.iter().enumerate().filter_map(row)
    }

    pub(super) fn of(&self, leaf: LeafId) -> [Count; DropReason::ALL.len()] {
        match self.places.get(leaf.index()) {
            None | Some(0) => Default::default(),
            Some(&place) => self.counts[place as usize - 1],
        }
    }
}
