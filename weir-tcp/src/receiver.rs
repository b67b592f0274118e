//! The receiving side: what arrived, in order or not, and what is reported of it.
//!
//! Invariants: `read <= next`; the ranges are above `next`, in order, with gaps between; nothing is
//! acknowledged that did not arrive.

use crate::ack::AckState;
use crate::config::Config;
use crate::ecn::{EcnReceiver, option_len, sack_len};
use crate::segment::{SackBlock, SackBlocks, Segment, Timestamps};
use crate::seq::{Range, SeqNumber};
use crate::tuning::Tuning;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use weir_core::units::Instant;

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub config: Arc<Config>,
    pub now: Instant,
    /// The number of the peer's SYN.
    pub initial: SeqNumber,
    /// The next position expected (`rcv_nxt`).
    pub next: u64,
    /// The next position that the application reads (`copied_seq`).
    pub read: u64,
    /// Where the FIN is, once seen.
    pub fin_at: Option<u64>,
    /// The ranges that arrived above `next`.
    ranges: VecDeque<Range>,
    /// The bytes of `ranges`.
    out_of_order: u64,
    /// Positions in the ranges that changed last, the newest first.
    recent: [u64; 4],
    /// A duplicate to be reported [rfc2883].
    duplicate: Option<Range>,
    /// Blocks of an acknowledgement that was held back, and is to leave before newer ones.
    pub early: Option<SackBlocks>,
    pub sack_ok: bool,
    pub timestamps_ok: bool,
    /// The newest timestamp of the peer [rfc7323 §4.3].
    pub stamp: Option<u32>,
    /// The window offered last, and `next` at that time (`rcv_wnd`, `rcv_wup`).
    pub window: u32,
    pub window_from: u64,
    pub scale: u8,
    pub tuning: Tuning,
    pub ack: AckState,
    pub ecn: EcnReceiver,
}

/// The place of a segment's data in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    Nothing,
    InOrder,
    OutOfOrder,
    Duplicate,
}

impl Receiver {
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        Self {
            now,
            initial: SeqNumber(0),
            next: 0,
            read: 1,
            fin_at: None,
            ranges: VecDeque::new(),
            out_of_order: 0,
            recent: [0; 4],
            duplicate: None,
            early: None,
            sack_ok: false,
            timestamps_ok: false,
            stamp: None,
            window: 0,
            window_from: 0,
            scale: 0,
            tuning: Tuning::new(&config),
            ack: AckState::new(&config),
            ecn: EcnReceiver::default(),
            config,
        }
    }

    /// Returns whether the FIN and everything before it arrived.
    pub fn is_finished(&self) -> bool {
        self.fin_at.is_some_and(|at| self.next > at)
    }

    /// Returns the bytes that the application may read.
    pub fn readable(&self) -> u64 {
        self.fin_at.unwrap_or(u64::MAX).min(self.next).saturating_sub(self.read)
    }

    /// Returns whether anything is missing below what arrived.
    pub fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Returns the bytes that fill the buffer.
    pub fn buffered(&self) -> u64 {
        self.readable() + self.out_of_order
    }

    /// Takes the data of a segment at `start` (`tcp_data_queue`).
    pub fn take(&mut self, start: u64, segment: &Segment) -> Arrival {
        let mut end = start + segment.length as u64;
        if segment.flags.has(crate::segment::Flags::FIN) {
            let at = *self.fin_at.get_or_insert(end.max(self.next));
            end = end.min(at) + 1;
        } else if let Some(at) = self.fin_at {
            end = end.min(at);
        }
        let range = Range::new(start, end);
        if range.is_empty() {
            return Arrival::Nothing;
        }
        let arrival = self.place(range);
        if arrival != Arrival::Duplicate {
            self.arrived(segment);
        }
        arrival
    }

    fn place(&mut self, range: Range) -> Arrival {
        if range.end <= self.next {
            self.ecn.counters.take_duplicate(range.start);
            self.report_duplicate(range);
            return Arrival::Duplicate;
        }
        if range.start > self.next {
            return self.store(range);
        }
        if range.start < self.next {
            self.report_duplicate(Range::new(range.start, self.next));
        }
        let had_gap = self.has_gap();
        self.next = range.end;
        self.report_covered(range.end);
        self.drain();
        // [rfc5681 §4.2] A gap that is filled is acknowledged at once.
        if had_gap && !self.has_gap() {
            self.ack.demand();
        }
        Arrival::InOrder
    }

    /// Reports what waited out of order and came again with the data before `end`: the first range,
    /// and those that touch what is reported already (`tcp_dsack_extend`).
    fn report_covered(&mut self, end: u64) {
        for place in 0..self.ranges.len() {
            let range = self.ranges[place];
            if range.start >= end {
                return;
            }
            let again = Range::new(range.start, range.end.min(end));
            match self.duplicate {
                None => self.report_duplicate(again),
                Some(known) if again.start <= known.end && known.start <= again.end => {
                    let whole = Range::new(known.start.min(again.start), known.end.max(again.end));
                    self.duplicate = Some(whole);
                }
                Some(_) => {}
            }
        }
    }

    /// Joins to what is in order the ranges that follow it.
    fn drain(&mut self) {
        while let Some(first) = self.ranges.front().copied() {
            if first.start > self.next {
                return;
            }
            self.ranges.pop_front();
            self.out_of_order -= first.end - first.start;
            self.next = self.next.max(first.end);
        }
        self.ranges = VecDeque::new();
    }

    /// Stores what is out of order.
    fn store(&mut self, range: Range) -> Arrival {
        self.release_held_back(range);
        let from = self.ranges.partition_point(|known| known.end < range.start);
        let to = self.ranges.partition_point(|known| known.start <= range.end);
        let mut whole = range;
        if from < to {
            let (left, right) = (self.ranges[from], self.ranges[to - 1]);
            if left.contains(range) || right.contains(range) {
                self.report_duplicate(range);
                self.note_recent(range.start);
                return Arrival::Duplicate;
            }
            whole = Range::new(left.start.min(range.start), right.end.max(range.end));
            for known in self.ranges.drain(from..to) {
                self.out_of_order -= known.end - known.start;
            }
        }
        self.ranges.insert(from, whole);
        self.out_of_order += whole.end - whole.start;
        self.note_recent(range.start);
        Arrival::OutOfOrder
    }

    /// Lets an acknowledgement that was held back leave before `range` is reported, if that would
    /// push out of sight what it had to say (`tcp_sack_compress_send_ack`): a sender may believe
    /// lost what it never received.
    fn release_held_back(&mut self, range: Range) {
        if !self.ack.holds_back() {
            return;
        }
        let touches = |known: &Range| range.start <= known.end && known.start <= range.end;
        let before = self.newest().take_while(|known| !touches(known)).count();
        if before >= SACK_BLOCKS_EXPECTED {
            self.early = Some(self.blocks());
            self.ack.sent();
        }
    }

    /// Moves the range at `position` to the front of what is reported [rfc2018 §4].
    fn note_recent(&mut self, position: u64) {
        let Some(range) = self.range_at(position) else { return };
        let same = |at: &u64| range.start <= *at && *at < range.end;
        let place = self.recent.iter().position(same).unwrap_or(3);
        self.recent[..=place].rotate_right(1);
        self.recent[0] = position;
    }

    /// Returns the ranges that changed last, the newest first (`selective_acks`).
    fn newest(&self) -> impl Iterator<Item = Range> + '_ {
        let mut known = [Range::default(); 4];
        self.recent.iter().enumerate().filter_map(move |(place, position)| {
            let range = self.range_at(*position).filter(|range| !known.contains(range))?;
            known[place] = range;
            Some(range)
        })
    }

    fn range_at(&self, position: u64) -> Option<Range> {
        let place = self.ranges.partition_point(|known| known.end <= position);
        self.ranges.get(place).copied().filter(|known| known.start <= position)
    }

    pub fn report_duplicate(&mut self, range: Range) {
        if self.config.dsack && self.sack_ok && !range.is_empty() {
            self.duplicate = Some(range);
        }
    }

    /// Returns the bytes that options beside timestamps take now.
    pub fn options_len(&self) -> u32 {
        let blocks = self.block_count();
        match self.ecn.fit(self.options_room(), blocks) {
            Some(fit) => sack_len(fit.blocks) + option_len(fit.fields, fit.blocks),
            None => sack_len(blocks),
        }
    }

    /// Returns the bytes that such options may take.
    fn options_room(&self) -> u32 {
        if self.timestamps_ok { 28 } else { 40 }
    }

    fn block_count(&self) -> u32 {
        if !self.sack_ok {
            return 0;
        }
        let count = self.ranges.len() as u32 + u32::from(self.duplicate.is_some());
        count.min(if self.timestamps_ok { 3 } else { 4 })
    }

    /// Returns the blocks to be reported: a duplicate, then the ranges that changed last.
    fn blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::new();
        if !self.sack_ok || (self.ranges.is_empty() && self.duplicate.is_none()) {
            return blocks;
        }
        let room = if self.timestamps_ok { 3 } else { 4 };
        let wire = |range: Range| SackBlock {
            start: self.initial.at(range.start),
            end: self.initial.at(range.end),
        };
        if let Some(range) = self.duplicate {
            blocks.push(wire(range));
        }
        let left = room - blocks.as_slice().len();
        self.newest().take(left).for_each(|range| blocks.push(wire(range)));
        self.duplicate = None;
        blocks
    }

    /// Fills in what every segment carries: acknowledgement, window, timestamps, blocks, marks.
    pub fn dress(&mut self, segment: &mut Segment) {
        segment.ack = self.initial.at(self.next);
        segment.flags |= crate::segment::Flags::ACK;
        segment.window = self.select_window();
        segment.timestamps = self.timestamps();
        let early = self.early.take();
        let count = early.map_or(self.block_count(), |blocks| blocks.as_slice().len() as u32);
        let fit = self.ecn.fit(self.options_room(), count);
        segment.sack = early.unwrap_or_else(|| self.blocks());
        if let Some(fit) = fit {
            segment.sack.truncate(fit.blocks);
        }
        self.ecn.dress(segment, fit);
        if early.is_none() {
            self.ack.sent();
        }
    }

    /// Returns the timestamps option of a segment sent now.
    pub fn timestamps(&self) -> Option<Timestamps> {
        let echo = self.stamp.unwrap_or(0);
        self.timestamps_ok.then(|| Timestamps { value: crate::sender::timestamp(self.now), echo })
    }

    /// Returns whether a segment's timestamp is newer than those before (`FLAG_TS_PROGRESS`).
    pub fn is_newer(&self, start: u64, segment: &Segment) -> bool {
        let stamp = segment.timestamps.filter(|_| self.timestamps_ok && start <= self.window_from);
        let newer = |(new, known): (Timestamps, u32)| (new.value.wrapping_sub(known) as i32) > 0;
        stamp.zip(self.stamp).is_some_and(newer)
    }

    /// The application reads; returns how much there was.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.readable());
        self.read += taken;
        if taken > 0 {
            self.tune();
            self.ack_after_read();
        }
        taken
    }
}

/// Blocks that every acknowledgement has room for (`TCP_SACK_BLOCKS_EXPECTED`).
const SACK_BLOCKS_EXPECTED: usize = 2;
