//! The faults of a capture, each with its place and its cure.

use super::INTERFACES_MAX;
use std::fmt;
use std::io;

/// The fault that ended the reading of a capture.
#[derive(Debug)]
pub struct CaptureError {
    /// The fault, with its values.
    pub fault: CaptureFault,
    /// Where: the first byte of the faulty header, record or block, in bytes from the start of the
    /// capture, after decompression.
    pub offset: u64,
    /// How many whole frames were yielded before it.
    pub frames: u64,
}

/// A fault of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureFault {
    /// The file cannot be opened.
    Open {
        /// The path as it was given.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The system failed to read on.
    Read(io::Error),
    /// The gzip stream around the capture is damaged or cut short.
    Gzip(io::Error),
    /// The zstd stream around the capture is damaged or cut short.
    Zstd(io::Error),
    /// It has a window that would take too much memory: how large, and the limit.
    ZstdWindow(String),
    /// The first bytes are of neither pcap nor pcapng.
    NotACapture {
        /// The first bytes, four at most.
        magic: Vec<u8>,
    },
    /// A version of the format that is not read.
    Version {
        /// The name of the format.
        format: &'static str,
        /// The version's first number.
        major: u16,
        /// The version's second number.
        minor: u16,
        /// The first number that is read.
        supported: u16,
    },
    /// The capture ends inside a header, record or block.
    CutShort {
        /// The name of the part that is cut.
        part: &'static str,
        /// The bytes that it needs from its start.
        needed: u64,
        /// The bytes that are there.
        found: u64,
    },
    /// A length is beyond the bound that keeps memory small.
    TooLong {
        /// The name of the part with that length.
        part: &'static str,
        /// The length in bytes.
        length: u64,
        /// The bound in bytes.
        limit: u64,
    },
    /// A pcapng section whose byte-order magic is in neither order.
    ByteOrder {
        /// The four bytes found.
        magic: [u8; 4],
    },
    /// A pcapng block length too small for the block, or not a multiple of 4.
    BlockLength {
        /// The kind of block.
        part: &'static str,
        /// The length found, in bytes.
        length: u32,
        /// The smallest possible, in bytes.
        minimum: u32,
    },
    /// The length after a pcapng block is not the one before it.
    BlockEnd {
        /// The length before the block, in bytes.
        start: u32,
        /// The length after it, in bytes.
        end: u32,
    },
    /// More captured bytes than their block holds.
    CapturedLength {
        /// The captured length found, in bytes.
        captured: u32,
        /// The room for it in the block, in bytes.
        room: u32,
    },
    /// An option of an interface that does not fit its block or its type.
    InterfaceOption {
        /// The code of the option.
        code: u16,
        /// Its length in bytes.
        length: u16,
    },
    /// More than [`INTERFACES_MAX`] interfaces.
    TooManyInterfaces,
    /// A packet on an interface that its section has not described.
    UnknownInterface {
        /// The number in the packet.
        interface: u32,
        /// How many interfaces the section has described so far.
        described: u32,
    },
    /// A timestamp before 1970 or after 2554.
    Timestamp {
        /// The timestamp in ticks of its interface.
        ticks: u64,
        /// The interface's `if_tsresol` byte.
        resolution: u8,
        /// The interface's `if_tsoffset`, in seconds.
        offset_seconds: i64,
    },
}

impl CaptureError {
    pub(super) fn new(fault: CaptureFault, offset: u64) -> Self {
        Self { fault, offset, frames: 0 }
    }

    fn cure(&self) -> String {
        match &self.fault {
            CaptureFault::Open { .. } => "check the path and your permission to read it".into(),
            CaptureFault::NotACapture { magic } if magic.starts_with(SNOOP) => {
                "convert it with `editcap -F pcapng IN OUT`".into()
            }
            CaptureFault::Read(_) => "check the disk or the pipe it comes from".into(),
            CaptureFault::NotACapture { .. } | CaptureFault::Version { .. } => {
                "give a pcap or pcapng file, plain or in gzip or zstd, or convert it with \
                 `editcap -F pcapng IN OUT`"
                    .into()
            }
            CaptureFault::ZstdWindow(_) => {
                "unpack it first: `zstd -d --long=31 -c FILE | weir replay POLICY -`".into()
            }
            _ if self.frames == 0 => "copy or capture it again".into(),
            _ => format!(
                "copy or capture it again, or keep what is good with `editcap -r IN OUT 1-{}`",
                self.frames
            ),
        }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let CaptureFault::Open { .. } = self.fault {
            return write!(f, "{}; {}", self.fault, self.cure());
        }
        match self.frames {
            0 => write!(f, "before any frame, ")?,
            last => write!(f, "after frame {last}, ")?,
        }
        write!(f, "at byte {} of the capture: {}; {}", self.offset, self.fault, self.cure())
    }
}

impl fmt::Display for CaptureFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => write!(f, "cannot open `{path}`: {source}"),
            Self::Read(source) => write!(f, "cannot read on: {source}"),
            Self::Gzip(source) => {
                write!(f, "the gzip stream is damaged or cut short: {source}")
            }
            Self::Zstd(source) => {
                write!(f, "the zstd stream is damaged or cut short: {source}")
            }
            Self::ZstdWindow(window) => write!(f, "the zstd stream has {window}"),
            Self::NotACapture { magic } if magic.is_empty() => f.write_str("the file is empty"),
            Self::NotACapture { magic } if magic.starts_with(SNOOP) => {
                f.write_str("it is a capture of Solaris' snoop (RFC 1761), which is not read")
            }
            Self::NotACapture { magic } => {
                write!(f, "a file that begins with {} is not a capture", hexadecimal(magic))
            }
            Self::Version { format, major, minor, supported } => {
                write!(f, "{format} version {major}.{minor} is not read, only {supported}.x")
            }
            Self::CutShort { part, needed, found } => {
                write!(f, "the {part} is cut short: it needs {needed} bytes and {found} are there")
            }
            Self::TooLong { part, length, limit } => {
                write!(f, "the {part} claims {length} bytes, more than the limit of {limit}")
            }
            Self::ByteOrder { magic } => write!(
                f,
                "the section's byte-order magic is {}, not 1a2b3c4d in either order",
                hexadecimal(magic)
            ),
            Self::BlockLength { part, length, minimum } => write!(
                f,
                "the {part}'s length is {length} bytes, not a multiple of 4 of at least {minimum}"
            ),
            Self::BlockEnd { start, end } => {
                write!(f, "the block's length is {start} bytes at its start and {end} at its end")
            }
            Self::CapturedLength { captured, room } => write!(
                f,
                "the packet claims {captured} captured bytes in a block with room for {room}"
            ),
            Self::InterfaceOption { code, length } => {
                write!(f, "the interface's option {code} with {length} bytes does not fit")
            }
            Self::TooManyInterfaces => {
                write!(f, "the capture describes more than {INTERFACES_MAX} interfaces")
            }
            Self::UnknownInterface { interface, described } => write!(
                f,
                "the packet names interface {interface}, and its section describes {described}"
            ),
            Self::Timestamp { ticks, resolution, offset_seconds } => write!(
                f,
                "the timestamp of {ticks} ticks (if_tsresol {resolution}, if_tsoffset \
                 {offset_seconds} s) is not between the years 1970 and 2554"
            ),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            CaptureFault::Open { source, .. }
            | CaptureFault::Read(source)
            | CaptureFault::Gzip(source)
            | CaptureFault::Zstd(source) => Some(source),
            _ => None,
        }
    }
}

/// The first bytes of a capture of snoop [rfc1761].
const SNOOP: &[u8] = b"snoo";

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
