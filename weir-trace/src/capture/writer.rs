//! The writer: pcapng with nanosecond timestamps and a comment a packet.

use super::interface::Interface;
use super::pcapng::{
    BLOCK_FRAME_BYTES, BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE, OPTION_COMMENT, OPTION_END,
    OPTION_NAME, OPTION_RESOLUTION, SECTION, VERSION_MAJOR,
};
use super::{COMMENT_BYTES_MAX, NAME_BYTES_MAX, PACKET_BYTES_MAX};
use std::io::{self, Write};

/// Writes frames as a pcapng capture of one little-endian section.
///
/// Give it a buffered output; [`finish`](Self::finish) flushes it.
pub struct CaptureWriter<W> {
    output: W,
    interfaces: usize,
    /// The body of the block under construction.
    body: Vec<u8>,
}

/// One frame to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRecord<'r> {
    /// Its time in nanoseconds since the epoch.
    pub timestamp: u64,
    /// The number of its interface, in the order in which they were described.
    pub interface: u32,
    /// Its length on the link in bytes.
    pub original_length: u32,
    /// What was captured of it, [`PACKET_BYTES_MAX`] bytes at most.
    pub bytes: &'r [u8],
    /// The comment that goes with it. Empty: none. What is beyond [`COMMENT_BYTES_MAX`] bytes is
    /// left out.
    pub comment: &'r str,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the section's header to `output`.
    pub fn new(output: W) -> io::Result<Self> {
        let mut writer = Self { output, interfaces: 0, body: Vec::new() };
        writer.field(BYTE_ORDER_MAGIC.to_le_bytes());
        writer.field(VERSION_MAJOR.to_le_bytes());
        writer.field(0_u16.to_le_bytes());
        // [pcapng §4.1] A section length of -1: unspecified.
        writer.field((-1_i64).to_le_bytes());
        writer.option(OPTION_APPLICATION, b"weir");
        writer.option(OPTION_END, b"");
        writer.block(u32::from_le_bytes(SECTION))?;
        Ok(writer)
    }

    /// Describes those of `interfaces` that are not described yet. Give it every time the list of
    /// [`CaptureReader::interfaces`](super::CaptureReader::interfaces), which only grows.
    pub fn describe(&mut self, interfaces: &[Interface]) -> io::Result<()> {
        for interface in interfaces.iter().skip(self.interfaces) {
            self.field(interface.link_type.0.to_le_bytes());
            self.field(0_u16.to_le_bytes());
            self.field(interface.snap_length.to_le_bytes());
            if !interface.name.is_empty() {
                self.option(OPTION_NAME, within(&interface.name, NAME_BYTES_MAX).as_bytes());
            }
            self.option(OPTION_RESOLUTION, &[NANOSECONDS]);
            self.option(OPTION_END, b"");
            self.block(INTERFACE)?;
            self.interfaces += 1;
        }
        Ok(())
    }

    /// Writes one frame.
    ///
    /// # Panics
    /// Where its interface was not described or it is longer than [`PACKET_BYTES_MAX`].
    pub fn write(&mut self, record: &CaptureRecord<'_>) -> io::Result<()> {
        assert!((record.interface as usize) < self.interfaces, "the interface is described first");
        assert!(record.bytes.len() <= PACKET_BYTES_MAX as usize, "the packet is within the limit");
        self.field(record.interface.to_le_bytes());
        self.field(((record.timestamp >> 32) as u32).to_le_bytes());
        self.field((record.timestamp as u32).to_le_bytes());
        self.field((record.bytes.len() as u32).to_le_bytes());
        self.field(record.original_length.to_le_bytes());
        self.padded(record.bytes);
        if !record.comment.is_empty() {
            self.option(OPTION_COMMENT, within(record.comment, COMMENT_BYTES_MAX).as_bytes());
            self.option(OPTION_END, b"");
        }
        self.block(ENHANCED_PACKET)
    }

    /// Flushes the output and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn field<const N: usize>(&mut self, bytes: [u8; N]) {
        self.body.extend_from_slice(&bytes);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let length = u16::try_from(value.len()).expect("every option is cut to what fits");
        self.field(code.to_le_bytes());
        self.field(length.to_le_bytes());
        self.padded(value);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    /// Writes the body as a block, and begins the next block.
    fn block(&mut self, kind: u32) -> io::Result<()> {
        let body_length = u32::try_from(self.body.len()).expect("a packet, a comment and fields");
        let length = (body_length + BLOCK_FRAME_BYTES).to_le_bytes();
        self.output.write_all(&kind.to_le_bytes())?;
        self.output.write_all(&length)?;
        self.output.write_all(&self.body)?;
        self.output.write_all(&length)?;
        self.body.clear();
        Ok(())
    }
}

/// The beginning of `text` that fits `limit` bytes.
fn within(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.expect("0 is a boundary")]
}

const OPTION_APPLICATION: u16 = 4;
/// The `if_tsresol` of a nanosecond.
const NANOSECONDS: u8 = 9;
