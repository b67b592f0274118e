//! Records: every call that the core of a running link got, what came of it, and what was lost
//! outside it.
//!
//! A record is a pcapng file (key `pcapng` of `docs/sources.md`): each frame is an Enhanced Packet
//! Block with its first bytes, so that other programs list the frames, and the rest is in custom
//! blocks and a custom option. docs/record.md defines the form, its version, and the rule for
//! records of other versions. [`Head`] says what was recorded, [`Step`] is one step of a lane,
//! [`RecordWriter`] and [`RecordReader`] write and read them. [`weir_core::link::Pending`] is the
//! rule by which frames are offered.
//!
//! The reader trusts no byte: a record that is damaged or cut gives the steps before the fault,
//! then one [`RecordError`] with its offset. The reader of [`crate::capture`] is not used: it
//! reads every byte order, clock, link and compression, and passes over the blocks that matter
//! here; this one reads what [`RecordWriter`] writes and nothing else.

mod block;
mod error;
mod fields;
mod file_head;
pub mod packed;
pub(crate) mod policy;
mod read;
pub mod state;
mod step;
mod write;

pub use error::{RecordError, RecordFault};
pub use file_head::{File, Head, LaneHead};
pub use read::{RecordReader, is_record};
pub use step::{Arrival, Change, End, Fate, Joins, Loss, Step, headers_of};
pub use write::RecordWriter;

use weir_core::units::Instant;

/// The version of the form that is written. Older ones are read; newer ones are refused.
pub const VERSION: u16 = 4;

/// Bound: bytes of a block of a record; a longer one is an error. A policy of the greatest size
/// with its lists, or the state of a link of a million classes.
pub const BLOCK_BYTES_MAX: u32 = 512 * 1024 * 1024;

/// The latest instant of a step: later than any clock of a machine, and nothing overflows up to
/// there.
pub const INSTANT_MAX: Instant = Instant::from_nanos(1 << 62);

/// Bound: lanes of a record; one with more is an error.
pub const LANES_MAX: usize = 4096;

/// The bytes of a frame that a record stores, unless its headers are longer.
pub const HEADER_BYTES: usize = 128;

/// The most bytes of a frame that a record stores.
pub const HEADER_BYTES_MAX: usize = u16::MAX as usize;

/// Reads `bytes` as a record to its end or its fault, for the fuzz target: returns the number of
/// steps. A panic, an endless run or a broken promise of the reader is a finding.
pub fn exercise(bytes: &[u8]) -> u64 {
    let mut reader = match RecordReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return 0;
        }
    };
    let lanes = reader.head().lanes.len();
    let (mut steps, mut again) = (0, Vec::new());
    loop {
        match reader.next_step() {
            Ok(Some((lane, step))) => {
                assert!(lane < lanes, "a step is of a lane of the head");
                again.clear();
                step.write(&mut again);
                let read = Step::read(&mut again.as_slice());
                assert_eq!(read.as_ref(), Some(&step), "a step is read as written");
                steps += 1;
            }
            Ok(None) => return steps,
            Err(error) => {
                assert!(error.offset <= bytes.len() as u64 && !error.to_string().is_empty());
                assert!(reader.next_step().is_err(), "a fault stays");
                return steps;
            }
        }
    }
}

#[cfg(test)]
mod tests;
