//! Captures as ports: pcap and pcapng files in, pcapng files out.
//!
//! [`CaptureReader`] yields the frames of a capture one at a time from any byte source, plain or in
//! gzip or zstd, in memory that does not grow with the capture. A fault ends it: the frames before
//! the fault are yielded, then one [`CaptureError`] that names the fault and its offset.
//! [`CaptureWriter`] writes frames with nanosecond timestamps and a comment each. The formats are
//! the keys `pcap` (draft-ietf-opsawg-pcap) and `pcapng` (draft-ietf-opsawg-pcapng) of
//! `docs/sources.md`.
//!
//! Timestamps are taken as the capture has them. They may run backwards; the reader counts that in
//! [`CaptureTotals::backward`], and a replay clamps them.

mod error;
mod fields;
mod input;
mod interface;
mod pcap;
mod pcapng;
mod reader;
mod stream;
mod tick;
mod writer;
mod zstd;

pub use error::{CaptureError, CaptureFault};
pub use interface::{CaptureLink, Interface};
pub use reader::{CaptureFrame, CaptureReader, CaptureTotals, is_capture};
pub use writer::{CaptureRecord, CaptureWriter};

/// Bound: bytes of a packet of a capture; a longer one is an error. Above the 256 KiB of any known
/// snap length, so that only a damaged length field meets it.
pub const PACKET_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// Bound: interfaces of a capture, over all its sections; one with more is an error.
pub const INTERFACES_MAX: usize = 65_536;

/// The longest interface description read, in bytes with its options.
pub const INTERFACE_BLOCK_BYTES_MAX: u32 = 1024 * 1024;

/// The longest interface name stored, in bytes; the rest of a longer one is left out.
pub const NAME_BYTES_MAX: usize = crate::pcapng::NAME_BYTES_MAX;

/// The longest comment written, in bytes: what the 16-bit length of a pcapng option holds.
pub const COMMENT_BYTES_MAX: usize = u16::MAX as usize;

/// Reads `bytes` as a capture to its end or its fault, for the fuzz target: returns how many frames
/// it held. A panic, an endless run or a broken promise of [`CaptureFrame`] is a finding.
pub fn exercise(bytes: &[u8]) -> u64 {
    let Ok(mut reader) = CaptureReader::new(bytes) else {
        return 0;
    };
    let mut faults = 0;
    while let Some(next) = reader.next_frame() {
        match next {
            Ok(frame) => {
                assert!(frame.bytes.len() <= frame.original_length as usize);
                assert!(frame.bytes.len() <= PACKET_BYTES_MAX as usize);
            }
            Err(error) => {
                faults += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(faults <= 1, "the reader went on after a fault");
    reader.totals().frames
}

#[cfg(test)]
mod tests;
