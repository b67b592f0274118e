//! The faults of a record, each with its place and its cure.

use super::{BLOCK_BYTES_MAX, LANES_MAX, VERSION};
use std::fmt;
use std::io;

/// The fault that ended the reading of a record.
#[derive(Debug)]
pub struct RecordError {
    /// The fault, with its values.
    pub fault: RecordFault,
    /// Where: the first byte of the faulty block, from the start of the record.
    pub offset: u64,
    /// How many whole steps were read before it.
    pub steps: u64,
}

/// A fault of a record.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordFault {
    /// The system failed to read on.
    Read(io::Error),
    /// The first blocks are not those of a record.
    NotARecord,
    /// It was written by a newer Weir.
    Version(u16),
    /// It ends inside a block.
    Cut,
    /// It ends between two blocks, without the block that ends a record.
    NoEnd,
    /// A length that no block has, at its start or at its end.
    Length(u32),
    /// A block that is none of a record's.
    Block(u32),
    /// A block whose fields do not fit it.
    Fields(&'static str),
    /// A step at an instant after [`super::INSTANT_MAX`].
    Instant,
    /// A step of a lane that the record does not have.
    Lane(u32),
    /// The reader met a fault before.
    Over,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} steps, at byte {}: {}", self.steps, self.offset, self.fault)
    }
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read on: {error}"),
            Self::NotARecord => {
                write!(f, "this is no record of Weir; `weir record` makes one")
            }
            Self::Version(version) => write!(
                f,
                "the record has version {version}, and this program reads up to {VERSION}; use \
                 the program that made it, or a newer one"
            ),
            Self::Cut => write!(f, "the record is cut inside a block; what came before is whole"),
            Self::NoEnd => write!(f, "the record is cut: it has no end; what came before is whole"),
            Self::Length(length) => write!(
                f,
                "a block of {length} bytes is impossible: a multiple of 4 up to {BLOCK_BYTES_MAX}, \
                 the same at its start and its end"
            ),
            Self::Block(kind) => write!(f, "a record has no block of type {kind:#x}"),
            Self::Fields(what) => write!(f, "the fields of the {what} do not fit it"),
            Self::Instant => write!(f, "the instant of a step comes after centuries"),
            Self::Lane(lane) => {
                write!(f, "there is no direction {lane}; a record has at most {LANES_MAX}")
            }
            Self::Over => write!(f, "nothing can be read behind a fault"),
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            RecordFault::Read(error) => Some(error),
            _ => None,
        }
    }
}
