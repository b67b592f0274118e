//! The scoreboard: what was sent and is not acknowledged, segment by segment.
//!
//! Entries are consecutive in sequence, so one is found by binary search. Three orders are kept
//! besides: by the time of the last transmission (a list through the entries, for RACK), by
//! sequence those to be sent again (a queue), and the ranges acknowledged selectively. Invariants:
//! the counts are those of the entries' marks; each operation takes amortised constant or
//! logarithmic time.

use crate::seq::Range;
use alloc::collections::VecDeque;
use weir_core::units::Instant;

/// The other side has it, by a selective acknowledgement (`TCPCB_SACKED_ACKED`).
pub(crate) const SACKED: u8 = 1;
/// It is considered lost (`TCPCB_LOST`).
pub(crate) const LOST: u8 = 2;
/// It was sent again, and that is under way (`TCPCB_SACKED_RETRANS`).
pub(crate) const RETRANSMITTED: u8 = 4;
/// It was ever sent again (`TCPCB_EVER_RETRANS`).
pub(crate) const EVER: u8 = 8;
/// It ends with a FIN.
pub(crate) const FIN: u8 = 16;
/// Its data ends a write of the application.
pub(crate) const PUSH: u8 = 32;

/// Ends a list of entries.
const NONE: u64 = u64::MAX;

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// The position of its first byte.
    pub start: u64,
    /// The sequence numbers that it takes, a FIN included.
    pub length: u32,
    pub marks: u8,
    /// When it was sent last.
    pub at: Instant,
    /// The number of that transmission: several may have left at one instant.
    pub order: u64,
    pub snapshot: Snapshot,
    earlier: u64,
    later: u64,
}

/// The state of deliveries when a segment was sent (`tcp_rate_skb_sent`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    pub delivered: u64,
    pub delivered_at: Instant,
    pub first_sent: Instant,
    pub lost: u64,
    pub in_flight: u32,
    pub app_limited: bool,
}

impl Sent {
    pub fn new(range: Range, marks: u8, at: Instant, snapshot: Snapshot) -> Self {
        let length = (range.end - range.start) as u32;
        let (start, order) = (range.start, 0);
        Self { start, length, marks, at, order, snapshot, earlier: NONE, later: NONE }
    }

    pub fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }

    pub fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// The bytes of data.
    pub fn payload(&self) -> u32 {
        self.length - u32::from(self.has(FIN))
    }
}

/// Segments sent and not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    entries: VecDeque<Sent>,
    /// The number of the first entry; numbers go on for ever.
    base: u64,
    /// The ends of the list by time: 0 is no entry, others are numbers plus 1.
    first: u64,
    last: u64,
    /// Numbers of lost entries in order of sequence; some may be acknowledged meanwhile.
    lost_queue: VecDeque<u64>,
    /// The ranges that are acknowledged selectively, in order, with gaps between.
    ranges: VecDeque<Range>,
    /// Without SACK, the number of duplicate acknowledgements.
    pub sacked: u32,
    pub lost: u32,
    pub retransmitted: u32,
    /// The number of the last transmission.
    transmissions: u64,
    /// The end of the highest entry acknowledged selectively.
    pub highest_sacked: u64,
}

impl Scoreboard {
    /// Returns how many segments there are (`packets_out`).
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many segments are on the way [rfc6675 §4] (`tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        (self.len() + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }

    /// Returns how many segments left the network (`tcp_left_out`).
    pub fn left(&self) -> u32 {
        self.sacked + self.lost
    }

    pub fn front(&self) -> Option<&Sent> {
        self.entries.front()
    }

    /// Returns the number of the newest entry.
    pub fn newest(&self) -> Option<u64> {
        let length = self.entries.len() as u64;
        (length > 0).then(|| self.base + length - 1)
    }

    pub fn get(&self, number: u64) -> Option<&Sent> {
        self.entries.get(number.checked_sub(self.base)? as usize)
    }

    pub fn entry_mut(&mut self, number: u64) -> Option<&mut Sent> {
        self.entries.get_mut(number.checked_sub(self.base)? as usize)
    }

    /// Returns the number of the first entry that ends after `position`.
    pub fn number_at(&self, position: u64) -> u64 {
        self.base + self.entries.partition_point(|sent| sent.end() <= position) as u64
    }

    /// Adds a segment sent now, at the end.
    pub fn push(&mut self, sent: Sent) {
        let number = self.base + self.entries.len() as u64;
        self.transmissions += 1;
        self.entries.push_back(Sent { order: self.transmissions, ..sent });
        self.append(number);
    }

    /// Takes the first segment off if it ends at or before `acked`.
    pub fn pop_acked(&mut self, acked: u64) -> Option<Sent> {
        let front = self.entries.front()?;
        if front.end() > acked {
            return None;
        }
        self.unlink(self.base);
        let front = self.entries.pop_front()?;
        self.base += 1;
        self.uncount(front.marks);
        if self.entries.is_empty() && self.entries.capacity() > 0 {
            self.shrink();
        }
        Some(front)
    }

    /// Cuts acknowledged bytes off the first segment (`tcp_trim_head`).
    pub fn trim(&mut self, acked: u64) {
        let Some(front) = self.entries.front_mut() else { return };
        if front.start < acked {
            front.length = (front.end() - acked) as u32;
            front.start = acked;
        }
    }

    fn uncount(&mut self, marks: u8) {
        self.sacked -= u32::from(marks & SACKED != 0);
        self.lost -= u32::from(marks & LOST != 0);
        self.retransmitted -= u32::from(marks & RETRANSMITTED != 0);
    }

    /// Returns memory of a large flight once all is acknowledged.
    fn shrink(&mut self) {
        self.lost_queue.clear();
        if self.entries.capacity() > KEPT {
            self.entries = VecDeque::new();
            self.lost_queue = VecDeque::new();
            self.ranges = VecDeque::new();
        }
    }

    /// Gives all memory back; nothing is in flight.
    pub fn release(&mut self) {
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
            self.lost_queue = VecDeque::new();
            self.ranges = VecDeque::new();
        }
    }

    // The list by time.

    /// Returns the number of the segment whose last transmission is the oldest.
    pub fn oldest(&self) -> Option<u64> {
        self.first.checked_sub(1)
    }

    /// Returns the number of the segment sent after this one.
    pub fn later(&self, number: u64) -> Option<u64> {
        self.get(number).map(|sent| sent.later).filter(|later| *later != NONE)
    }

    fn append(&mut self, number: u64) {
        let last = self.last.wrapping_sub(1);
        if let Some(sent) = self.entry_mut(number) {
            (sent.earlier, sent.later) = (last, NONE);
        }
        match self.last {
            0 => self.first = number + 1,
            _ => self.entry_mut(last).expect("the list holds entries").later = number,
        }
        self.last = number + 1;
    }

    /// Takes a segment out of the list by time, if it is there.
    pub fn unlink(&mut self, number: u64) {
        let Some(sent) = self.get(number) else { return };
        let (earlier, later) = (sent.earlier, sent.later);
        if earlier == NONE && self.first != number + 1 {
            return;
        }
        match self.entry_mut(earlier) {
            Some(sent) => sent.later = later,
            None => self.first = later.wrapping_add(1),
        }
        match self.entry_mut(later) {
            Some(sent) => sent.earlier = earlier,
            None => self.last = earlier.wrapping_add(1),
        }
        if let Some(sent) = self.entry_mut(number) {
            (sent.earlier, sent.later) = (NONE, NONE);
        }
    }

    // Selective acknowledgements.

    /// Adds a block; returns what of it has to be looked at, and the whole range that it is part
    /// of.
    pub fn cover(&mut self, block: Range) -> Option<Covered> {
        let from = self.ranges.partition_point(|range| range.end < block.start);
        let to = self.ranges.partition_point(|range| range.start <= block.end);
        let mut covered = Covered { scan: block, whole: block };
        if from < to {
            let (left, right) = (self.ranges[from], self.ranges[to - 1]);
            if left.contains(block) || right.contains(block) {
                return None;
            }
            covered.whole = Range::new(left.start.min(block.start), right.end.max(block.end));
            if left.start <= block.start {
                covered.scan.start = left.end;
            }
            if right.end >= block.end {
                covered.scan.end = right.start;
            }
            self.ranges[from] = covered.whole;
            self.ranges.drain(from + 1..to);
        } else {
            self.ranges.insert(from, block);
        }
        Some(covered)
    }

    /// Forgets ranges that are acknowledged.
    pub fn forget(&mut self, acked: u64) {
        while self.ranges.front().is_some_and(|range| range.end <= acked) {
            self.ranges.pop_front();
        }
    }

    /// Marks a segment as received; returns how it was before.
    pub fn mark_sacked(&mut self, number: u64) -> Option<Sent> {
        let before = *self.get(number)?;
        self.unlink(number);
        let mut marks = before.marks | SACKED;
        // A retransmission of what is not lost is believed to be still on its way.
        if before.has(LOST) {
            self.lost -= 1;
            if before.has(RETRANSMITTED) {
                self.retransmitted -= 1;
            }
            marks &= !(LOST | RETRANSMITTED);
        }
        self.sacked += 1;
        self.entry_mut(number)?.marks = marks;
        self.highest_sacked = self.highest_sacked.max(before.end());
        Some(before)
    }

    /// Takes back all selective acknowledgements: the receiver may have dropped the data.
    pub fn renege(&mut self) {
        for number in self.base..self.base + self.entries.len() as u64 {
            let Some(sent) = self.entry_mut(number) else { continue };
            if sent.has(SACKED) {
                sent.marks &= !SACKED;
                self.append(number);
            }
        }
        self.sacked = 0;
        self.ranges.clear();
    }

    // Losses.

    /// Marks a segment as lost, again if its retransmission is under way (`tcp_mark_skb_lost`).
    /// Returns whether that is new.
    pub fn mark_lost(&mut self, number: u64) -> bool {
        let Some(sent) = self.entry_mut(number) else { return false };
        let marks = sent.marks;
        if marks & SACKED != 0 || marks & (LOST | RETRANSMITTED) == LOST {
            return false;
        }
        if marks & LOST != 0 {
            sent.marks &= !RETRANSMITTED;
            self.retransmitted -= 1;
        } else {
            sent.marks |= LOST;
            self.lost += 1;
        }
        if self.get(number).is_some_and(|sent| !sent.has(RETRANSMITTED)) {
            self.unlink(number);
            self.enqueue_lost(number);
        }
        true
    }

    fn enqueue_lost(&mut self, number: u64) {
        if self.lost_queue.back().is_none_or(|last| *last < number) {
            self.lost_queue.push_back(number);
        } else if let Err(place) = self.lost_queue.binary_search(&number) {
            self.lost_queue.insert(place, number);
        }
    }

    /// Returns the first lost segment that was not sent again.
    pub fn next_lost(&mut self) -> Option<u64> {
        while let Some(number) = self.lost_queue.front().copied() {
            let waits = |sent: &Sent| sent.has(LOST) && !sent.has(SACKED | RETRANSMITTED);
            if self.get(number).is_some_and(waits) {
                return Some(number);
            }
            self.lost_queue.pop_front();
        }
        None
    }

    /// Notes that a segment is sent again now, with these marks; returns it.
    pub fn mark_sent_again(
        &mut self,
        number: u64,
        marks: u8,
        at: Instant,
        snapshot: Snapshot,
    ) -> Sent {
        self.unlink(number);
        self.append(number);
        self.transmissions += 1;
        let order = self.transmissions;
        let sent = self.entry_mut(number).expect("the caller has just found it");
        let fresh = marks & !sent.marks & RETRANSMITTED != 0;
        sent.marks |= marks;
        (sent.at, sent.order, sent.snapshot) = (at, order, snapshot);
        let copy = *sent;
        self.retransmitted += u32::from(fresh);
        copy
    }

    /// Notes that a retransmission proved to be a duplicate.
    pub fn clear_retransmitted(&mut self, number: u64) {
        let Some(sent) = self.entry_mut(number) else { return };
        if sent.has(RETRANSMITTED) {
            sent.marks &= !RETRANSMITTED;
            self.retransmitted -= 1;
            if self.get(number).is_some_and(|sent| sent.has(LOST) && !sent.has(SACKED)) {
                self.enqueue_lost(number);
            }
        }
    }

    /// Considers nothing lost any more: the losses proved to be delays.
    pub fn unmark_losses(&mut self) {
        for number in self.base..self.base + self.entries.len() as u64 {
            let Some(sent) = self.entry_mut(number) else { continue };
            if sent.has(LOST) {
                sent.marks &= !LOST;
                let unlinked = sent.earlier == NONE && self.first != number + 1;
                if unlinked && self.get(number).is_some_and(|sent| !sent.has(SACKED)) {
                    self.append(number);
                }
            }
        }
        self.lost = 0;
        self.lost_queue.clear();
    }

    /// Returns the numbers of all segments, in order.
    pub fn numbers(&self) -> core::ops::Range<u64> {
        self.base..self.base + self.entries.len() as u64
    }
}

/// A block that brought something new.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    /// Where entries may be complete now.
    pub scan: Range,
    /// The range around it that is all received.
    pub whole: Range,
}

/// Entries whose memory an empty scoreboard keeps, as a flow in between writes would allocate anew.
const KEPT: usize = 64;
