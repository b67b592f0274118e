//! The other thread's side: the steps of all loops of a link, as one record.

use super::queue::{self, Receiver};
use super::{BUFFER_BYTES, Seat};
use std::io::{self, Write};
use weir_trace::record::{End, RecordWriter};

/// A record that is being made.
pub struct Session {
    loops: Vec<Loop>,
    /// Holds a part while it is written.
    part: Vec<u8>,
    /// Frames that came, so far.
    frames: u64,
}

/// A run loop whose steps are recorded.
struct Loop {
    receiver: Receiver,
    /// The number of its first lane in the record.
    first_lane: usize,
}

/// How a record goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whether anything was written since the last look.
    pub is_busy: bool,
    /// Why there will be no more.
    pub end: Option<End>,
}

impl Session {
    /// Has these loops record from their next turn on; each with the number of its lanes.
    pub fn begin<'s>(seats: impl IntoIterator<Item = (&'s Seat, usize)>) -> Self {
        Self::with_buffer(seats, BUFFER_BYTES)
    }

    /// As [`Session::begin`], with a buffer of so many bytes for each loop.
    pub fn with_buffer<'s>(
        seats: impl IntoIterator<Item = (&'s Seat, usize)>,
        bytes: usize,
    ) -> Self {
        let mut first_lane = 0;
        let mut ask = |(seat, lanes): (&Seat, usize)| {
            let (sender, receiver) = queue::queue(bytes);
            seat.ask(sender);
            let this = Loop { receiver, first_lane };
            first_lane += lanes;
            this
        };
        let loops = seats.into_iter().map(&mut ask).collect();
        Self { loops, part: Vec::new(), frames: 0 }
    }

    /// Returns whether each loop has begun, or ended.
    pub fn has_begun(&self) -> bool {
        self.loops.iter().all(|one| one.receiver.has_begun())
    }

    /// Writes what the loops did since the last call.
    ///
    /// # Errors
    /// When the output refuses it.
    pub fn pump<W: Write>(&mut self, writer: &mut RecordWriter<W>) -> io::Result<Progress> {
        let mut progress = Progress { is_busy: false, end: None };
        for one in &mut self.loops {
            // Before the last parts, which come before the end.
            let end = one.receiver.end();
            let mut taken = 0;
            while let Some(lane) = one.receiver.take(&mut self.part) {
                self.frames += writer.steps(one.first_lane + usize::from(lane), &self.part)?;
                progress.is_busy = true;
                taken += self.part.len();
                // Another loop may have as much.
                if taken > TAKEN_MAX {
                    break;
                }
            }
            progress.end = progress.end.or(end.filter(|_| taken <= TAKEN_MAX));
        }
        Ok(progress)
    }

    /// Returns the number of frames that came, so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

/// The bytes of one loop that are written before those of the next.
const TAKEN_MAX: usize = BUFFER_BYTES / 8;
