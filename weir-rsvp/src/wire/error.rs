//! Why bytes are no message.

use std::fmt;

/// Why bytes are no message, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireError {
    /// The byte of the message at which the faulty part begins.
    pub offset: usize,
    /// The fault of that part.
    pub fault: Fault,
}

/// A fault for which bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A part needs more bytes than are left.
    Short {
        /// The bytes that are left.
        have: usize,
        /// The bytes that the part needs.
        need: usize,
    },
    /// The version is not 1.
    Version(u8),
    /// The message has a checksum, and it is wrong.
    Checksum {
        /// The checksum in the header.
        found: u16,
        /// The checksum of the bytes.
        computed: u16,
    },
    /// The header's length is not that of the bytes.
    Length {
        /// The length in the header.
        found: usize,
        /// The bytes at hand.
        have: usize,
    },
    /// An object's length is not a multiple of 4 of at least 4.
    ObjectLength(u16),
    /// An object of this class is longer than what it holds.
    Trailing(usize),
    /// The message type is none that this node knows.
    Kind(u8),
    /// A value that its object does not allow.
    Value {
        /// The name of the field.
        what: &'static str,
        /// The bits of the field.
        found: u32,
        /// The values that are allowed.
        wanted: &'static str,
    },
    /// An object that the message must have.
    Missing(&'static str),
    /// An object at a place where it means nothing.
    Misplaced(&'static str),
    /// More of something than a message may hold.
    TooMany {
        /// The name of the part that is repeated.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the RSVP message: {}", self.offset, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short { have, need } => write!(f, "{have} bytes left, {need} needed"),
            Fault::Version(version) => write!(f, "version {version}; only 1 exists"),
            Fault::Checksum { found, computed } => {
                write!(f, "checksum {found:#06x}; the bytes give {computed:#06x}")
            }
            Fault::Length { found, have } => {
                write!(f, "the header says {found} bytes, the packet has {have}")
            }
            Fault::ObjectLength(length) => {
                write!(f, "an object of {length} bytes; lengths are multiples of 4 from 4 on")
            }
            Fault::Trailing(bytes) => write!(f, "{bytes} bytes too many in an object"),
            Fault::Kind(kind) => write!(f, "message type {kind}, which this node does not know"),
            Fault::Value { what, found, wanted } => {
                write!(f, "{what} is {found:#x}; it must be {wanted}")
            }
            Fault::Missing(what) => write!(f, "the message lacks its {what}"),
            Fault::Misplaced(what) => write!(f, "a {what} at a place where it means nothing"),
            Fault::TooMany { what, limit } => write!(f, "more than {limit} {what}"),
        }
    }
}

impl std::error::Error for WireError {}
