//! Counts of dropped packets, by leaf and reason.

use crate::account::Count;
use crate::event::DropReason;
use crate::ids::LeafId;
use crate::state::{Reader, State, StateError, Writer};
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

    /// Forgets what was counted for `leaf`.
    pub(super) fn forget(&mut self, leaf: LeafId) {
        if let Some(&place) = self.places.get(leaf.index()).filter(|&&place| place > 0) {
            self.counts[place as usize - 1] = Default::default();
        }
    }

    pub(super) fn of(&self, leaf: LeafId) -> [Count; DropReason::ALL.len()] {
        match self.places.get(leaf.index()) {
            None | Some(0) => Default::default(),
            Some(&place) => self.counts[place as usize - 1],
        }
    }
}

impl Drops {
    /// Writes the counts of each leaf that dropped.
    pub(super) fn save(&self, to: &mut Writer) {
        let Self { places, counts } = self;
        to.number(counts.len() as u64);
        for (leaf, &place) in places.iter().enumerate().filter(|row| *row.1 > 0) {
            to.number(leaf as u64);
            counts[place as usize - 1].save(to);
        }
    }

    /// Reads the counts of a link with this many leaves.
    pub(super) fn load(&mut self, leaves: usize, from: &mut Reader<'_>) -> Result<(), StateError> {
        *self = Self::default();
        let mut next = 0;
        for place in 1..=from.count(leaves, "leaves that dropped")? {
            let leaf = from.index(leaves, "leaf that dropped")?;
            if self.places.is_empty() {
                self.places = alloc::vec![0; leaves];
            }
            if leaf < next {
                return Err(StateError::Invalid("order of leaves that dropped"));
            }
            next = leaf + 1;
            let mut counts = <[Count; DropReason::ALL.len()]>::default();
            counts.load(from)?;
            self.places[leaf] = place as u32;
            self.counts.push(counts);
        }
        Ok(())
    }
}
