//! The queue of a modem in front of a line of varying capacity: first in, first out, and what does
//! not fit is dropped at the tail.
//!
//! The trace is known beforehand, so what becomes of a packet is known when it comes. Invariant: a
//! packet is sent once the line has done the work of it and of all packets before it since the line
//! was last idle, to the nanosecond.

use super::{Capacity, Work};
use std::collections::VecDeque;
use weir_core::units::{Bytes, Duration, Instant};

/// A queue in front of a capacity.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    capacity: Capacity,
    buffer: Buffer,
    /// The work after which everything that it holds is sent.
    busy: Work,
    /// When each packet that it holds is sent, and its bytes.
    waiting: VecDeque<(Instant, u32)>,
    backlog: Count,
}

/// The most that a modem's queue holds; an empty one takes any packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// Bytes, with the packet that is being sent.
    Bytes(u64),
    /// Packets, with the one that is being sent.
    Packets(u32),
    /// A packet that would wait longer is dropped.
    Time(Duration),
}

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Bottleneck {
    /// An empty queue.
    pub fn new(capacity: Capacity, buffer: Buffer) -> Self {
        let (busy, backlog) = (Work::default(), Count::default());
        Self { capacity, buffer, busy, waiting: VecDeque::new(), backlog }
    }

    /// Returns the capacity behind the queue.
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Takes a packet of `length` bytes at `at`, which is not before the one of an earlier call.
    /// Returns when its last bit is sent, the end of time if never; `None` if it is dropped.
    pub fn offer(&mut self, at: Instant, length: u32) -> Option<Instant> {
        self.send_until(at);
        let begins = self.busy.max(self.capacity.work_at(at));
        let busy = begins.plus(Work::of(Bytes::new(length.into())));
        let sent = self.capacity.instant_of(busy).unwrap_or(Instant::MAX);
        let fits = match self.buffer {
            Buffer::Bytes(most) => self.backlog.bytes + u64::from(length) <= most,
            Buffer::Packets(most) => self.backlog.packets < u64::from(most),
            Buffer::Time(most) => sent.since(at) <= most,
        };
        if !fits && self.backlog.packets > 0 {
            return None;
        }
        self.busy = busy;
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(length);
        self.waiting.push_back((sent, length));
        Some(sent)
    }

    /// Returns what it holds at `at`, which is not before the one of an earlier call.
    pub fn backlog(&mut self, at: Instant) -> Count {
        self.send_until(at);
        self.backlog
    }

    fn send_until(&mut self, at: Instant) {
        while let Some(&(_, length)) = self.waiting.front().filter(|row| row.0 <= at) {
            self.waiting.pop_front();
            self.backlog.packets -= 1;
            self.backlog.bytes -= u64::from(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::End;
    use super::*;

    /// Offers packets of 1000 bytes at these milliseconds to 8 Mbit/s, a packet a millisecond, with
    /// 4 ms of nothing from the 4th on.
    fn check(buffer: Buffer, at: &[u64], expected: &[Option<u64>]) {
        let rows = [(4, 8_000_000), (4, 0), (100, 8_000_000)];
        let rows = rows.map(|(millis, rate)| (Duration::from_millis(millis), rate));
        let capacity = Capacity::new(rows, End::Loop).expect("sound");
        let mut bottleneck = Bottleneck::new(capacity, buffer);
        let sent = |&at: &u64| {
            let at = Instant::from_nanos(at * 1_000_000);
            bottleneck.offer(at, 1000).map(|sent| sent.as_nanos() / 1_000_000)
        };
        assert_eq!(at.iter().map(sent).collect::<Vec<_>>(), expected, "{buffer:?}");
    }

    #[test]
    fn packets_wait_for_the_line_and_are_dropped_at_the_tail() {
        let all = Buffer::Bytes(1 << 30);
        check(all, &[0, 0, 2, 3], &[Some(1), Some(2), Some(3), Some(4)]);
        // The pause lies between them.
        check(all, &[3, 3, 6], &[Some(4), Some(9), Some(10)]);
        check(Buffer::Packets(2), &[0, 0, 0, 1, 1], &[Some(1), Some(2), None, Some(3), None]);
        check(Buffer::Bytes(2_999), &[0, 0, 0], &[Some(1), Some(2), None]);
        check(Buffer::Bytes(10), &[0, 0], &[Some(1), None]);
        let most = Buffer::Time(Duration::from_millis(3));
        check(most, &[0, 0, 0, 0, 4, 4], &[Some(1), Some(2), Some(3), None, Some(9), None]);
    }

    #[test]
    fn a_line_that_ended_holds_what_it_has() {
        let rows = [(Duration::from_millis(1), 8_000_000)];
        let capacity = Capacity::new(rows, End::Stop).expect("sound");
        let mut bottleneck = Bottleneck::new(capacity, Buffer::Packets(1));
        assert_eq!(bottleneck.offer(Instant::ZERO, 1001), Some(Instant::MAX));
        assert_eq!(bottleneck.offer(Instant::from_nanos(u64::MAX - 1), 1), None);
        assert_eq!(bottleneck.backlog(Instant::from_nanos(u64::MAX - 1)).bytes, 1001);
    }
}
