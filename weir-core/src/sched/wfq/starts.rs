//! Start tags of packets behind others, where they do not follow from the packets before.
//!
//! A packet starts where the one before it in its leaf finishes, unless the fluid had drained all
//! earlier packets when it arrived: then it starts at the virtual time of its arrival, which is
//! stored until the packet is first. At most a few packets a leaf need this, since packets are
//! never late by more than one largest packet.

use crate::state::{Reader, State, StateError, Writer};
use alloc::vec::Vec;

/// Start tags, a queue for each leaf, in one store.
pub(super) struct Starts {
    rows: Vec<Row>,
    free: u32,
}

struct Row {
    number: u32,
    start: u64,
    next: u32,
}

/// The queue of one leaf.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { first: NONE, last: NONE };
}

impl Starts {
    pub(super) const fn new() -> Self {
        Self { rows: Vec::new(), free: NONE }
    }

    /// Records that the packet `number` of this leaf starts at `start`.
    pub(super) fn push(&mut self, queue: &mut Queue, number: u32, start: u64) {
        let row = Row { number, start, next: NONE };
        let place = self.place_for(row);
        match self.rows.get_mut(queue.last as usize) {
            Some(last) => last.next = place,
            None => queue.first = place,
        }
        queue.last = place;
    }

    /// Returns the latest start of the packets up to `number`, and removes these.
    pub(super) fn take(&mut self, queue: &mut Queue, number: u32) -> Option<u64> {
        let mut latest = None;
        while let Some(row) = self.rows.get_mut(queue.first as usize) {
            // Numbers count on without end; those remembered are within half of all.
            if (number.wrapping_sub(row.number) as i32) < 0 {
                break;
            }
            latest = latest.max(Some(row.start));
            let next = core::mem::replace(&mut row.next, self.free);
            self.free = core::mem::replace(&mut queue.first, next);
        }
        if queue.first == NONE {
            queue.last = NONE;
        }
        latest
    }

    /// Removes all starts of this leaf.
    pub(super) fn clear(&mut self, queue: &mut Queue) {
        if let Some(last) = self.rows.get_mut(queue.last as usize) {
            last.next = core::mem::replace(&mut self.free, queue.first);
        }
        *queue = Queue::EMPTY;
    }

    /// Moves all tags `back`.
    pub(super) fn move_back(&mut self, back: u64) {
        self.rows.iter_mut().for_each(|row| row.start = row.start.saturating_sub(back));
    }

    fn place_for(&mut self, row: Row) -> u32 {
        let place = self.free;
        match self.rows.get_mut(place as usize) {
            Some(free) => {
                self.free = free.next;
                *free = row;
                place
            }
            None => {
                self.rows.push(row);
                self.rows.len() as u32 - 1
            }
        }
    }
}

/// The end of a queue.
const NONE: u32 = u32::MAX;

impl Starts {
    /// Writes the starts of a leaf.
    pub(super) fn save(&self, queue: &Queue, to: &mut Writer) {
        let Queue { first, last: _ } = *queue;
        let row = |place: u32| self.rows.get(place as usize);
        let rows = || core::iter::successors(row(first), |&before| row(before.next));
        to.number(rows().count() as u64);
        for Row { number, start, next: _ } in rows() {
            number.save(to);
            start.save(to);
        }
    }

    /// Reads the starts of a leaf, which has none; none is later than `latest`.
    pub(super) fn load(
        &mut self,
        queue: &mut Queue,
        latest: u64,
        from: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        for _ in 0..from.count(usize::MAX, "starts")? {
            let (mut number, mut start) = (0u32, 0u64);
            number.load(from)?;
            start.load(from)?;
            if start > latest {
                return Err(StateError::Invalid("start of a packet"));
            }
            self.push(queue, number, start);
        }
        Ok(())
    }
}
