//! For how long limits held each leaf back, by samples: what a sample shows lasts until the next
//! one of the same leaf.
//!
//! Invariant: a call looks at a bounded number of leaves, whatever their number.

use weir_core::ids::LeafId;
use weir_core::units::{Duration, Instant};

pub(super) struct Limits {
    held_ns: Vec<u64>,
    /// Since when each leaf is held back, as the last sample showed.
    held_since: Vec<Option<Instant>>,
    /// The leaf with which the next sample begins.
    next: usize,
    sampled: Instant,
}

impl Limits {
    pub fn new(leaves: usize) -> Self {
        let held_since = vec![None; leaves];
        Self { held_ns: vec![0; leaves], held_since, next: 0, sampled: Instant::ZERO }
    }

    /// Returns for how long a leaf was held back, in ns.
    pub fn held_ns(&self, leaf: usize) -> u64 {
        self.held_ns[leaf]
    }

    /// Looks at the next leaves, unless it did so a moment ago.
    pub fn sample(&mut self, now: Instant, is_held: impl Fn(LeafId) -> bool) {
        let leaves = self.held_ns.len();
        if now.since(self.sampled) < SAMPLE_INTERVAL || leaves == 0 {
            return;
        }
        self.sampled = now;
        for _ in 0..SAMPLES.min(leaves) {
            let since = &mut self.held_since[self.next];
            if let Some(since) = since.take() {
                self.held_ns[self.next] += now.since(since).as_nanos();
            }
            *since = is_held(LeafId(self.next as u32)).then_some(now);
            self.next = (self.next + 1) % leaves;
        }
    }

    /// Goes on with what `before` measured of each leaf, at the row that it has now.
    pub fn go_on_from(&mut self, before: &Self, row: impl Fn(usize) -> usize) {
        for (old, held_ns) in before.held_ns.iter().enumerate() {
            if let Some(new) = self.held_ns.get_mut(row(old)) {
                *new = *held_ns;
            }
        }
    }

    /// Forgets what was measured of a leaf.
    pub fn forget(&mut self, leaf: usize) {
        self.held_ns[leaf] = 0;
        self.held_since[leaf] = None;
    }
}

/// The shortest time between two looks at limits, and the leaves that one look is for: it takes a
/// few microseconds.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);
const SAMPLES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_leaf_is_held_back_is_what_samples_show() {
        let mut limits = Limits::new(2);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        // Held from the sample at 10 ms to that at 40 ms; the one at 40.5 ms comes too soon.
        for (millis, held) in [(5, false), (10, true), (20, true), (40, false), (60, false)] {
            limits.sample(at(millis), |leaf| held && leaf == LeafId(1));
            limits.sample(at(millis).after(Duration::from_micros(500)), |_| true);
        }
        assert_eq!(limits.held_ns, [0, 30_000_000]);
        let mut many = Limits::new(10 * SAMPLES);
        (0..100).for_each(|millis| many.sample(at(10 + millis), |_| true));
        // Each leaf is looked at each 10 ms.
        assert!(many.held_ns.iter().all(|ns| (80_000_000..=90_000_000).contains(ns)));
    }
}
