//! The classes that wait for their meters, earliest first.
//!
//! Invariant: a class is in the heap at most once, under a key that is not later than the instant
//! at which it conforms. Keys are mended when they come to the top, so a charge costs nothing here.

use crate::units::Instant;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Waiting classes by the instant at which they may conform, of equals the smaller number first.
pub(super) struct Waits {
    heap: BinaryHeap<Reverse<Key>>,
    /// The first key, the end of time if there is none.
    soonest: Instant,
}

/// Twelve bytes: a time of eight would make it sixteen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// The halves of the time, the upper one first.
    until: [u32; 2],
    class: u32,
}

impl Waits {
    /// Room for so many classes; nothing is allocated later.
    pub fn new(classes: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(classes), soonest: Instant::MAX }
    }

    /// Puts in `class`, which is not in the heap and waits until then or later.
    pub fn push(&mut self, class: usize, until: Instant) {
        self.heap.push(Reverse(Key::new(class as u32, until)));
        self.soonest = self.soonest.min(until);
    }

    /// The first class and its key.
    #[inline]
    pub fn first(&self) -> Option<(Instant, usize)> {
        let Reverse(key) = self.heap.peek()?;
        Some((key.until(), key.class as usize))
    }

    /// The first class waits until then, which is later than its key.
    pub fn mend_first(&mut self, until: Instant) {
        if let Some(mut first) = self.heap.peek_mut() {
            first.0 = Key::new(first.0.class, until);
        }
        self.find_soonest();
    }

    /// Takes out the first class.
    pub fn take_first(&mut self) {
        self.heap.pop();
        self.find_soonest();
    }

    /// Nobody in the heap may conform earlier; the end of time if nobody is.
    #[inline]
    pub const fn soonest(&self) -> Instant {
        self.soonest
    }

    fn find_soonest(&mut self) {
        self.soonest = self.first().map_or(Instant::MAX, |(until, _)| until);
    }
}

impl Key {
    const fn new(class: u32, until: Instant) -> Self {
        let nanos = until.as_nanos();
        Self { until: [(nanos >> u32::BITS) as u32, nanos as u32], class }
    }

    const fn until(&self) -> Instant {
        let [upper, lower] = self.until;
        Instant::from_nanos((upper as u64) << u32::BITS | lower as u64)
    }
}
