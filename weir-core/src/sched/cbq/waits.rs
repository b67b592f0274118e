//! The classes that wait for their meters, earliest first.
//!
//! Invariant: a class is in the heap at most once, under a key that is not later than the instant
//! at which it conforms. Keys are mended when they come to the top, so a charge costs nothing here.

use crate::units::Instant;
use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Waiting classes by the instant at which they may conform.
pub(super) struct Waits {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    queued: Vec<bool>,
}

/// What a class says when its key has come to the top.
pub(super) enum Wake {
    /// It does not wait any more.
    Gone,
    /// It waits until then.
    Until(Instant),
}

impl Waits {
    /// Room for so many classes; nothing is allocated later.
    pub fn new(classes: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(classes), queued: alloc::vec![false; classes] }
    }

    /// `class` waits until `at`, or has already been waiting.
    pub fn push(&mut self, class: usize, at: Instant) {
        if !core::mem::replace(&mut self.queued[class], true) {
            self.heap.push(Reverse((at, class as u32)));
        }
    }

    /// A class that conforms at `now`, taken out; `wake` tells what a class waits for.
    pub fn pop_due(&mut self, now: Instant, wake: impl Fn(usize) -> Wake) -> Option<usize> {
        let (at, class) = self.first(now, wake)?;
        if at > now {
            return None;
        }
        self.take_first();
        Some(class)
    }

    /// When the first class conforms; `wake` tells what a class waits for.
    pub fn earliest(&mut self, wake: impl Fn(usize) -> Wake) -> Option<Instant> {
        self.first(Instant::MAX, wake).map(|(at, _)| at)
    }

    /// Mends the top until it is right or later than `limit`.
    fn first(&mut self, limit: Instant, wake: impl Fn(usize) -> Wake) -> Option<(Instant, usize)> {
        loop {
            let mut top = self.heap.peek_mut()?;
            let Reverse((key, class)) = *top;
            if key > limit {
                return Some((key, class as usize));
            }
            match wake(class as usize) {
                Wake::Until(at) if at == key => return Some((key, class as usize)),
                Wake::Until(at) => *top = Reverse((at, class)),
                Wake::Gone => {
                    PeekMut::pop(top);
                    self.queued[class as usize] = false;
                }
            }
        }
    }

    fn take_first(&mut self) {
        if let Some(Reverse((_, class))) = self.heap.pop() {
            self.queued[class as usize] = false;
        }
    }
}
