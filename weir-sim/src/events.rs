//! The event queue: a heap with four children a node, in one allocation.
//!
//! Four children make the tree half as deep as two, and a node's children share cache lines.
//! Invariant: events come out by time, and at one time in the order in which they went in.

use weir_core::units::Instant;

/// Events that wait for their time.
#[derive(Clone, Debug)]
pub struct Events<E> {
    heap: Vec<Waiting<E>>,
    inserted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting<E> {
    /// The time in the upper half, the order of insertion in the lower: one comparison for both.
    key: u128,
    event: E,
}

impl<E: Copy> Waiting<E> {
    #[inline]
    fn at(&self) -> Instant {
        Instant::from_nanos((self.key >> 64) as u64)
    }
}

impl<E: Copy> Events<E> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { heap: Vec::new(), inserted: 0 }
    }

    /// Adds an event; events of one instant keep the order in which they were added.
    #[inline]
    pub fn push(&mut self, at: Instant, event: E) {
        let waiting = self.number(at, event);
        self.heap.push(waiting);
        self.rise(self.heap.len() - 1);
    }

    /// When the first event is due.
    #[inline]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.first().map(Waiting::at)
    }

    /// The first event, left in the queue.
    #[inline]
    pub fn first(&self) -> Option<(Instant, E)> {
        self.heap.first().map(|waiting| (waiting.at(), waiting.event))
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        let last = self.heap.pop()?;
        let Some(first) = self.first() else { return Some((last.at(), last.event)) };
        self.sink(last);
        Some(first)
    }

    /// Removes the first event and adds another, at half the cost of two calls.
    #[inline]
    pub fn replace_first(&mut self, at: Instant, event: E) {
        assert!(!self.heap.is_empty(), "the event that is replaced is still here");
        let waiting = self.number(at, event);
        self.sink(waiting);
    }

    #[inline]
    fn number(&mut self, at: Instant, event: E) -> Waiting<E> {
        let key = (u128::from(at.as_nanos()) << 64) | u128::from(self.inserted);
        self.inserted += 1;
        Waiting { key, event }
    }

    fn rise(&mut self, mut at: usize) {
        let waiting = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent].key < waiting.key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = waiting;
    }

    /// Puts `waiting` in its place below the top, whose event is overwritten. It is passed by
    /// value, since a key of two words that is written and read back at once stalls the processor.
    #[inline]
    fn sink(&mut self, waiting: Waiting<E>) {
        let mut at = 0;
        loop {
            let first = at * CHILDREN + 1;
            let (mut least, mut key) = (at, waiting.key);
            for child in first..(first + CHILDREN).min(self.heap.len()) {
                if self.heap[child].key < key {
                    (least, key) = (child, self.heap[child].key);
                }
            }
            if least == at {
                break;
            }
            self.heap[at] = self.heap[least];
            at = least;
        }
        self.heap[at] = waiting;
    }
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Self {
        Self::new()
    }
}

const CHILDREN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn events_leave_by_time_then_by_insertion() {
        let mut random = Random::stream(3, "events");
        let mut events = Events::new();
        let mut oracle = BTreeMap::new();
        for number in 0u64..50_000 {
            let at = Instant::from_nanos(random.below(200));
            match random.below(3) {
                0 if !oracle.is_empty() => {
                    let expected = oracle.pop_first().map(|((at, _), event)| (at, event));
                    assert_eq!(events.first(), expected);
                    assert_eq!(events.pop(), expected);
                }
                1 if !oracle.is_empty() => {
                    oracle.pop_first();
                    oracle.insert((at, number), number);
                    events.replace_first(at, number);
                }
                _ => {
                    oracle.insert((at, number), number);
                    events.push(at, number);
                }
            }
            assert_eq!(events.next_at(), oracle.keys().next().map(|key| key.0));
        }
        for ((at, _), event) in oracle {
            assert_eq!(events.pop(), Some((at, event)));
        }
        assert_eq!(events.pop(), None);
    }
}
