//! The last seconds of a link: a record that is always made and whose oldest part always goes.
//!
//! Invariant: what is kept of a loop is segments, each of which begins with the state of the loop's
//! lanes; so what is left begins with a state, whatever went.

use super::BUFFER_BYTES;
use super::queue::{self, Receiver};
use crate::status::Board;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_core::units::Instant;
use weir_trace::record::packed::{Packer, Unpacker};
use weir_trace::record::{End, RecordWriter, Step};

/// The last seconds of each loop: see the module.
pub struct History {
    boards: Vec<Arc<Board>>,
    /// The lanes of each board's loop.
    lanes: Vec<usize>,
    /// The bytes that are kept of each loop.
    bytes_max: usize,
    loops: Mutex<Vec<Kept>>,
    /// The kept steps are of an earlier policy.
    is_stale: AtomicBool,
}

/// The steps of a loop that are kept.
#[derive(Default)]
struct Kept {
    segments: VecDeque<Arc<Segment>>,
    /// Packs the steps of the last segment.
    packer: Packer,
    bytes: usize,
    /// Whether the loop was asked for its state, with which the next segment begins.
    is_asked: bool,
}

/// Packed steps of all lanes.
#[derive(Clone, Default)]
struct Segment {
    packed: Vec<u8>,
    /// The instant of the state with which it begins.
    since: Instant,
}

impl History {
    /// Nothing as yet of these loops, each with the number of its lanes; at most `bytes` in all.
    pub fn new(boards: Vec<Arc<Board>>, lanes: Vec<usize>, bytes: usize) -> Self {
        let bytes_max = (bytes / boards.len().max(1)).max(BYTES_MIN);
        let loops = boards.iter().map(|_| Kept::default()).collect();
        let (loops, is_stale) = (Mutex::new(loops), AtomicBool::new(false));
        Self { boards, lanes, bytes_max, loops, is_stale }
    }

    /// Returns the most memory that it takes to keep so many bytes of so many loops: none if
    /// nothing is kept.
    pub fn bytes_for(bytes: u64, loops: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let kept = bytes.max(loops.saturating_mul(BYTES_MIN as u64));
        // A segment is above the limit before the oldest goes, and another one is copied while a
        // snapshot is written; a segment takes more than it has.
        let beside = kept / SEGMENTS as u64 * 2 + kept / 4;
        let queues = loops.saturating_mul(BUFFER_BYTES as u64 / 4);
        kept.saturating_add(beside).saturating_add(queues)
    }

    /// Keeps what the loops do, until one of them ends; is told why it begins anew where it could
    /// not follow.
    pub fn keep(&self, report: impl Fn(End)) {
        loop {
            match self.follow() {
                End::Stopped => return,
                End::Snapshot => {}
                end => report(end),
            }
            self.lock().iter_mut().for_each(|kept| *kept = Kept::default());
            self.tell_since();
            self.is_stale.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets what is kept: it is of other policies than those in force from now on.
    pub fn forget(&self) {
        let mut loops = self.lock();
        self.is_stale.store(true, Ordering::Relaxed);
        loops.iter_mut().for_each(|kept| *kept = Kept::default());
        drop(loops);
        self.tell_since();
    }

    /// Tells readers of the status since when there are packets.
    fn tell_since(&self) {
        for (board, kept) in self.boards.iter().zip(self.lock().iter()) {
            board.recording.keep_since(kept.segments.front().map(|segment| segment.since));
        }
    }

    /// Writes what is kept, from the last state at or before the first instant up to that behind
    /// the second one.
    ///
    /// # Errors
    /// When the output refuses it.
    pub fn write<W: Write>(
        &self,
        writer: &mut RecordWriter<W>,
        (from, to): (Instant, Instant),
    ) -> io::Result<()> {
        let loops: Vec<Vec<_>> = self.lock().iter().map(|kept| kept.between(from, to)).collect();
        let mut first_lane = 0;
        for (segments, lanes) in loops.iter().zip(&self.lanes) {
            for segment in segments {
                segment.write(first_lane, writer)?;
            }
            first_lane += lanes;
        }
        Ok(())
    }

    fn follow(&self) -> End {
        let ask = |board: &Arc<Board>| {
            let (sender, receiver) = queue::queue(BUFFER_BYTES / 4);
            board.recording.ask(sender);
            receiver
        };
        let mut receivers: Vec<_> = self.boards.iter().map(ask).collect();
        let mut part = Vec::new();
        loop {
            for (number, receiver) in receivers.iter_mut().enumerate() {
                // Before the last parts, which come before the end.
                let end = receiver.end();
                if !self.take(number, receiver, &mut part) {
                    return End::Snapshot;
                }
                if let Some(end) = end {
                    return end;
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes what a loop did; returns false if all is to be forgotten.
    fn take(&self, number: usize, receiver: &mut Receiver, part: &mut Vec<u8>) -> bool {
        let mut loops = self.lock();
        if self.is_stale.load(Ordering::Relaxed) {
            return false;
        }
        let kept = &mut loops[number];
        while let Some(lane) = receiver.take(part) {
            kept.add(lane, part);
        }
        kept.shorten(self.bytes_max);
        let since = kept.segments.front().map(|segment| segment.since);
        self.boards[number].recording.keep_since(since);
        if kept.wants_segment(self.bytes_max) {
            kept.is_asked = true;
            receiver.ask_for_state();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, lane: u16, part: &[u8]) {
        // The states of all lanes come one after the other, that of lane 0 first.
        let first = if lane == 0 { Step::read(&mut &part[..]) } else { None };
        if let Some(Step::Checkpoint { now, .. }) = first {
            self.segments.push_back(Arc::new(Segment { since: now, ..Segment::default() }));
            self.packer = Packer::default();
            self.is_asked = false;
        }
        let Some(segment) = self.segments.back_mut() else { return };
        // Copied only where a snapshot has just taken it.
        let segment = Arc::make_mut(segment);
        let (before, mut rest) = (segment.packed.len(), part);
        while !rest.is_empty() {
            let step = Step::read(&mut rest).expect("they were written as steps");
            // The state of a link that was not served yet is of instant 0.
            if segment.since == Instant::ZERO {
                segment.since = step.instant().unwrap_or_default();
            }
            self.packer.pack(lane, &step, &mut segment.packed);
        }
        self.bytes += segment.packed.len() - before;
    }

    /// Returns the segments that have what happened between these instants.
    fn between(&self, from: Instant, to: Instant) -> Vec<Arc<Segment>> {
        let all = &self.segments;
        let first = all.iter().rposition(|segment| segment.since <= from).unwrap_or(0);
        let wanted = all.iter().skip(first).take_while(|segment| segment.since <= to);
        let wanted: Vec<_> = wanted.cloned().collect();
        // What is before all that is kept is met by the first of it.
        if wanted.is_empty() { all.iter().take(1).cloned().collect() } else { wanted }
    }

    /// Lets the oldest segments go, but never the only one.
    fn shorten(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.segments.len() > 1 {
            let oldest = self.segments.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.packed.len());
        }
    }

    fn wants_segment(&self, bytes_max: usize) -> bool {
        let is_full = |last: &Arc<Segment>| last.packed.len() >= bytes_max / SEGMENTS;
        !self.is_asked && self.segments.back().is_some_and(is_full)
    }
}

impl Segment {
    fn write<W: Write>(&self, first_lane: usize, writer: &mut RecordWriter<W>) -> io::Result<()> {
        let mut steps = Unpacker::new(&self.packed);
        while let Some((lane, step)) = steps.next_step() {
            writer.step(first_lane + usize::from(lane), &step)?;
        }
        Ok(())
    }
}

/// The parts of what is kept that go at once.
const SEGMENTS: usize = 16;
/// The least that is kept of a loop.
const BYTES_MIN: usize = 1 << 20;
/// How long steps wait in the queue.
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn state(lane: u16) -> (u16, Vec<u8>) {
        let mut part = Vec::new();
        let (now, classified) = (Instant::ZERO, Instant::ZERO);
        Step::Checkpoint { now, classified, state: &[7; 50] }.write(&mut part);
        (lane, part)
    }

    fn serves(lane: u16, count: u64) -> (u16, Vec<u8>) {
        let mut part = Vec::new();
        (0..count).for_each(|at| Step::Serve { until: Instant::from_nanos(at) }.write(&mut part));
        (lane, part)
    }

    #[test]
    fn the_oldest_segment_goes_and_each_begins_with_the_state() {
        let (mut kept, bytes_max) = (Kept::default(), 2 * 1024);
        let mut asked = 0;
        kept.add(1, &serves(1, 3).1);
        assert_eq!(kept.segments.len(), 0, "nothing is kept without a state");
        for (lane, part) in [state(0), state(1)] {
            kept.add(lane, &part);
        }
        for turn in 0..1000 {
            let (lane, part) = serves(turn % 2, 20);
            kept.add(lane, &part);
            kept.shorten(bytes_max);
            assert!(kept.bytes <= bytes_max + part.len());
            if kept.wants_segment(bytes_max) {
                kept.is_asked = true;
                asked += 1;
            }
            // The loop sends it a turn later.
            if kept.is_asked && turn % 3 == 0 {
                [state(0), state(1)].iter().for_each(|(lane, part)| kept.add(*lane, part));
            }
        }
        assert!(asked > 20 && (2..=SEGMENTS + 1).contains(&kept.segments.len()), "{asked}");
        for segment in &kept.segments {
            let mut steps = Unpacker::new(&segment.packed);
            let first = steps.next_step();
            assert!(matches!(first, Some((0, Step::Checkpoint { .. }))), "{first:?}");
        }
        let sum: usize = kept.segments.iter().map(|segment| segment.packed.len()).sum();
        assert_eq!(sum, kept.bytes);
    }
    #[test]
    fn what_begins_with_a_link_that_was_not_served_yet_is_kept_since_its_first_step() {
        let mut kept = Kept::default();
        for (lane, part) in [state(0), state(1), serves(0, 1), serves(1, 8)] {
            kept.add(lane, &part);
        }
        assert_eq!(kept.segments[0].since, Instant::from_nanos(1));
    }

    #[test]
    fn a_part_of_the_time_takes_the_segments_that_have_it() {
        let mut kept = Kept::default();
        for since in [100, 200, 300] {
            let mut part = Vec::new();
            let (now, classified) = (Instant::from_nanos(since), Instant::ZERO);
            Step::Checkpoint { now, classified, state: &[7; 9] }.write(&mut part);
            kept.add(0, &part);
        }
        for (from, to, wanted) in [
            (0, 50, &[100][..]),
            (0, 150, &[100]),
            (150, 199, &[100]),
            (200, 250, &[200]),
            (150, 300, &[100, 200, 300]),
            (400, 500, &[300]),
            (0, u64::MAX, &[100, 200, 300]),
        ] {
            let found = kept.between(Instant::from_nanos(from), Instant::from_nanos(to));
            let found: Vec<u64> = found.iter().map(|segment| segment.since.as_nanos()).collect();
            assert_eq!(found, wanted, "{from} to {to}");
        }
    }
}
