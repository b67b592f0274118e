//! The writer: pcapng with nanosecond timestamps and a comment a packet.

use super::interface::Interface;
use super::{COMMENT_BYTES_MAX, PACKET_BYTES_MAX};
use crate::pcapng::{
    OPTION_COMMENT, OPTION_END, Packet, put_interface, put_option, put_packet, put_section, within,
};
use std::io::{self, Write};

/// Writes frames as a pcapng capture of one little-endian section.
///
/// Give it a buffered output; [`finish`](Self::finish) flushes it.
pub struct CaptureWriter<W> {
    output: W,
    interfaces: usize,
    /// The block under construction.
    block: Vec<u8>,
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
    /// The captured bytes, [`PACKET_BYTES_MAX`] at most.
    pub bytes: &'r [u8],
    /// The comment that goes with it. Empty: none. What is beyond [`COMMENT_BYTES_MAX`] bytes is
    /// left out.
    pub comment: &'r str,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the section's header to `output`.
    pub fn new(output: W) -> io::Result<Self> {
        let mut writer = Self { output, interfaces: 0, block: Vec::new() };
        put_section(&mut writer.block);
        writer.flush_block()?;
        Ok(writer)
    }

    /// Describes those of `interfaces` that are not described yet. Give it every time the list of
    /// [`CaptureReader::interfaces`](super::CaptureReader::interfaces), which only grows.
    pub fn describe(&mut self, interfaces: &[Interface]) -> io::Result<()> {
        for interface in interfaces.iter().skip(self.interfaces) {
            let Interface { link_type, name, snap_length } = interface;
            put_interface(&mut self.block, link_type.0, *snap_length, name);
            self.flush_block()?;
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
        let packet = Packet {
            interface: record.interface,
            timestamp: record.timestamp,
            original_length: record.original_length,
            bytes: record.bytes,
        };
        let comment = within(record.comment, COMMENT_BYTES_MAX);
        put_packet(&mut self.block, &packet, |out| {
            if !comment.is_empty() {
                put_option(out, OPTION_COMMENT, comment.as_bytes());
                put_option(out, OPTION_END, b"");
            }
        });
        self.flush_block()
    }

    /// Flushes the output and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    /// Writes the block, and begins the next one.
    fn flush_block(&mut self) -> io::Result<()> {
        self.output.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}
