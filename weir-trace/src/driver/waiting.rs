//! How many packets wait in each leaf, over time.
//!
//! Invariant: `backlogged` is the number of leaves in which a packet waits, `indices` is the sum of
//! their indices.

use weir_core::ids::LeafId;
use weir_core::units::Instant;

/// The queue lengths of an outlet.
#[derive(Clone, Debug)]
pub struct Waiting {
    rows: Vec<Length>,
    backlogged: u32,
    /// The sum of the indices of these leaves: of one leaf, its own.
    indices: usize,
    counting: bool,
}

/// The queue length of a leaf.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length {
    packets: u32,
    since: Instant,
    /// The integral of the length over time, in packets times nanoseconds.
    pub area: u128,
    /// Nanoseconds in which nothing waited.
    pub empty: u64,
    /// The most that waited.
    pub max: u32,
    /// How often the scheduler was polled while packets waited in this leaf only.
    pub alone: u64,
}

impl Waiting {
    /// Nothing waits in any of so many leaves.
    pub fn new(leaves: usize) -> Self {
        let rows = vec![Length::default(); leaves];
        Self { rows, backlogged: 0, indices: 0, counting: false }
    }

    /// Leaves in which something waits.
    pub fn backlogged(&self) -> u32 {
        self.backlogged
    }

    /// A packet comes to `leaf`; it may go at once, so it is not yet the longest queue.
    pub fn add(&mut self, at: Instant, leaf: LeafId) {
        let row = &mut self.rows[leaf.index()];
        row.pass(at, self.counting);
        if row.packets == 0 {
            self.backlogged += 1;
            self.indices += leaf.index();
        }
        row.packets += 1;
    }

    /// The scheduler is polled: counts that for the leaf, if packets wait in one only.
    pub fn asked(&mut self) {
        if self.backlogged == 1 {
            self.rows[self.indices].alone += 1;
        }
    }

    /// All that happens at this instant has happened.
    pub fn note(&mut self, leaf: LeafId) {
        let row = &mut self.rows[leaf.index()];
        row.max = row.max.max(row.packets);
    }

    /// A packet leaves `leaf`, or is dropped there.
    pub fn remove(&mut self, at: Instant, leaf: LeafId) {
        // A packet that a change of plan drops does not wait under the new plan.
        let Some(row) = self.rows.get_mut(leaf.index()).filter(|row| row.packets > 0) else {
            return;
        };
        row.pass(at, self.counting);
        row.packets -= 1;
        if row.packets == 0 {
            self.backlogged -= 1;
            self.indices -= leaf.index();
        }
    }

    /// From now on `packets` wait in `leaf`; those of another class than before, if it `is_new`.
    pub fn set(&mut self, at: Instant, leaf: LeafId, packets: u32, is_new: bool) {
        let row = &mut self.rows[leaf.index()];
        row.pass(at, self.counting);
        let (was, is) = (row.packets > 0, packets > 0);
        self.backlogged = self.backlogged + u32::from(is) - u32::from(was);
        let index = leaf.index();
        self.indices = self.indices + index * usize::from(is) - index * usize::from(was);
        if is_new {
            *row = Length { since: row.since, ..Length::default() };
        }
        row.packets = packets;
        row.max = row.max.max(packets);
    }

    /// Time counts from now on.
    pub fn begin(&mut self, at: Instant) {
        self.counting = true;
        for row in &mut self.rows {
            *row =
                Length { packets: row.packets, since: at, max: row.packets, ..Length::default() };
        }
    }

    /// Begins anew for other leaves, in which `waiting` packets wait already.
    pub fn restart(&mut self, at: Instant, lengths: impl Iterator<Item = u32>) {
        let row = |packets| Length { packets, since: at, max: packets, ..Length::default() };
        self.rows = lengths.map(row).collect();
        let backlogged = || self.rows.iter().enumerate().filter(|(_, row)| row.packets > 0);
        self.backlogged = backlogged().count() as u32;
        self.indices = backlogged().map(|(index, _)| index).sum();
    }

    /// The lengths of all leaves until `end`.
    pub fn until(&self, end: Instant) -> Vec<Length> {
        let mut rows = self.rows.clone();
        rows.iter_mut().for_each(|row| row.pass(end, self.counting));
        rows
    }
}

impl Length {
    fn pass(&mut self, at: Instant, counting: bool) {
        let span = at.since(self.since).as_nanos();
        if counting {
            self.area += u128::from(span) * u128::from(self.packets);
            self.empty += if self.packets == 0 { span } else { 0 };
        }
        self.since = self.since.max(at);
    }
}
