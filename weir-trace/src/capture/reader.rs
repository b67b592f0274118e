//! The reader: frame after frame of a capture of either format, with one order and one numbering.

use super::error::{CaptureError, CaptureFault};
use super::input::{Input, Record};
use super::interface::Interface;
use super::pcap::Pcap;
use super::pcapng::{Pcapng, SECTION};
use super::stream::{Compression, Stream};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads the frames of a pcap or pcapng capture, plain or in gzip or zstd, one at a time.
///
/// Frames before a fault are yielded first, then the fault, and nothing after it. Memory
/// is bounded by [`PACKET_BYTES_MAX`](super::PACKET_BYTES_MAX) and
/// [`INTERFACES_MAX`](super::INTERFACES_MAX) whatever the capture claims.
pub struct CaptureReader<'s> {
    input: Input<'s>,
    format: Format,
    totals: CaptureTotals,
    /// The latest timestamp so far.
    latest: u64,
    ended: bool,
}

/// One frame of a capture, valid until the next is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFrame<'r> {
    /// When it was captured, in nanoseconds since the epoch. A frame without a timestamp (a pcapng
    /// simple packet) has the latest of those before it.
    pub timestamp: u64,
    /// The number of its interface, from 0 over the whole capture: an index of
    /// [`CaptureReader::interfaces`].
    pub interface: u32,
    /// That interface: its link type and name.
    pub link: &'r Interface,
    /// Its length on the link in bytes, never less than was captured of it.
    pub original_length: u32,
    /// The captured bytes, from the start of the frame.
    pub bytes: &'r [u8],
    /// Where its record or block begins, in bytes from the start of the uncompressed capture.
    pub offset: u64,
}

/// The frames of a capture, counted as they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureTotals {
    /// Frames that were returned.
    pub frames: u64,
    /// The sum of their captured bytes.
    pub captured_bytes: u64,
    /// Their bytes on the link.
    pub original_bytes: u64,
    /// Frames of which less was captured than was on the link.
    pub cut: u64,
    /// Frames with a timestamp earlier than the latest before them.
    pub backward: u64,
    /// Frames without a timestamp.
    pub untimed: u64,
}

/// Returns whether these bytes begin as a capture does, compressed or not.
pub fn is_capture(bytes: &[u8]) -> bool {
    let plain = |magic: [u8; 4]| magic == SECTION || Pcap::from_magic(magic).is_some();
    bytes.first_chunk().is_some_and(|magic| plain(*magic)) || Compression::of(bytes).is_some()
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl CaptureReader<'static> {
    /// Opens the capture in the file at `path` and reads its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| {
            let path = path.display().to_string();
            CaptureError::new(CaptureFault::Open { path, source }, 0)
        })?;
        Self::new(file)
    }
}

impl<'s> CaptureReader<'s> {
    /// Reads the header of the capture that `source` yields. It need not be buffered.
    pub fn new(source: impl Read + 's) -> Result<Self, CaptureError> {
        let mut stream = Stream::new(source)?;
        let part = stream.begin("file header");
        let mut magic = [0; 4];
        let found = stream.up_to(&mut magic)?;
        let mut interfaces = Vec::new();
        let format = if magic == SECTION {
            Format::Pcapng(Pcapng::open(&mut stream, part)?)
        } else if let Some(pcap) = Pcap::from_magic(magic) {
            interfaces.push(pcap.header(&mut stream, part)?);
            Format::Pcap(pcap)
        } else {
            let magic = magic[..found].to_vec();
            return Err(part.error(CaptureFault::NotACapture { magic }));
        };
        let input = Input { stream, packet: Vec::new(), interfaces };
        let totals = CaptureTotals::default();
        Ok(Self { input, format, totals, latest: 0, ended: false })
    }

    /// The next frame; after the last, or after the fault that ended the reading, `None`.
    pub fn next_frame(&mut self) -> Option<Result<CaptureFrame<'_>, CaptureError>> {
        if self.ended {
            return None;
        }
        match self.next_record() {
            Ok(Some(record)) => Some(Ok(self.frame(record))),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(CaptureError { frames: self.totals.frames, ..error }))
            }
        }
    }

    /// The interfaces described so far; a frame's own is always among them.
    pub fn interfaces(&self) -> &[Interface] {
        &self.input.interfaces
    }

    /// Returns the counts of the frames so far.
    pub fn totals(&self) -> CaptureTotals {
        self.totals
    }

    fn next_record(&mut self) -> Result<Option<Record>, CaptureError> {
        match &mut self.format {
            Format::Pcap(pcap) => pcap.next_record(&mut self.input),
            Format::Pcapng(pcapng) => pcapng.next_record(&mut self.input),
        }
    }

    fn frame(&mut self, record: Record) -> CaptureFrame<'_> {
        let packet = &self.input.packet;
        let captured_length = u32::try_from(packet.len()).expect("at most `PACKET_BYTES_MAX`");
        let frame = CaptureFrame {
            timestamp: record.timestamp.unwrap_or(self.latest),
            interface: record.interface,
            link: &self.input.interfaces[record.interface as usize],
            // Some tools write 0, or leave a link header out, in the length on the link.
            original_length: record.original_length.max(captured_length),
            bytes: packet,
            offset: record.offset,
        };
        self.totals.untimed += u64::from(record.timestamp.is_none());
        self.totals.count(&frame, self.latest);
        self.latest = self.latest.max(frame.timestamp);
        frame
    }
}

impl CaptureTotals {
    fn count(&mut self, frame: &CaptureFrame<'_>, latest: u64) {
        let captured = frame.bytes.len() as u64;
        let original = u64::from(frame.original_length);
        self.frames += 1;
        self.captured_bytes += captured;
        self.original_bytes += original;
        self.cut += u64::from(captured < original);
        self.backward += u64::from(frame.timestamp < latest);
    }
}
