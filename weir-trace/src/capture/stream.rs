//! The bytes of a capture after decompression, with the offset of each.

use super::error::{CaptureError, CaptureFault};
use super::zstd::{LargeWindow, Zstd};
use flate2::read::MultiGzDecoder;
use std::io::{self, BufReader, Read};

/// A source of bytes that counts them, so that every fault can name its place.
///
/// Lengths come from the capture and may be hostile: [`Stream::read`] lets its buffer grow only as
/// bytes arrive, and its callers bound the length first.
pub(super) struct Stream<'s> {
    input: Box<dyn Read + 's>,
    compression: Option<Compression>,
    offset: u64,
}

/// A header, record or block being read: what to call it, and where it began.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub name: &'static str,
    pub offset: u64,
}

impl Part {
    /// Returns `fault` as an error of this part.
    pub fn error(self, fault: CaptureFault) -> CaptureError {
        CaptureError::new(fault, self.offset)
    }
}

impl<'s> Stream<'s> {
    /// The bytes of `input`, decompressed where it begins as gzip or zstd does.
    ///
    /// Where a gzip stream is damaged (not merely cut short), the decompressor withholds the bytes
    /// that it decoded last, less than 128 KiB: those frames are lost with the damaged ones. Of
    /// zstd it withholds a window, and of a stream cut short the last block, of 128 KiB at most.
    pub fn new(mut input: impl Read + 's) -> Result<Self, CaptureError> {
        let mut start = Vec::with_capacity(MAGIC_BYTES);
        input
            .by_ref()
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut start)
            .map_err(|source| CaptureError::new(CaptureFault::Read(source), 0))?;
        let compression = Compression::of(&start);
        let input = BufReader::with_capacity(READ_BYTES, io::Cursor::new(start).chain(input));
        let input: Box<dyn Read + 's> = match compression {
            Some(Compression::Gzip) => buffered(MultiGzDecoder::new(input)),
            Some(Compression::Zstd) => buffered(Zstd::new(input)),
            None => Box::new(input),
        };
        Ok(Self { input, compression, offset: 0 })
    }

    /// Begins a part here.
    pub fn begin(&self, name: &'static str) -> Part {
        Part { name, offset: self.offset }
    }

    /// The next `N` bytes of `part`.
    pub fn array<const N: usize>(&mut self, part: Part) -> Result<[u8; N], CaptureError> {
        let bytes = self.array_or_end(part)?;
        bytes.ok_or_else(|| self.cut_short(part, N as u64))
    }

    /// The next `N` bytes of `part`, or `None` where the capture ends before them.
    pub fn array_or_end<const N: usize>(
        &mut self,
        part: Part,
    ) -> Result<Option<[u8; N]>, CaptureError> {
        let mut bytes = [0; N];
        match self.up_to(&mut bytes)? {
            0 => Ok(None),
            length if length == N => Ok(Some(bytes)),
            length => Err(self.cut_short(part, (N - length) as u64)),
        }
    }

    /// Fills `bytes` as far as the capture goes; returns how many bytes that is.
    pub fn up_to(&mut self, bytes: &mut [u8]) -> Result<usize, CaptureError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(self.failed(source)),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Replaces what `buffer` holds by the next `length` bytes of `part`.
    pub fn read(
        &mut self,
        part: Part,
        length: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<(), CaptureError> {
        buffer.clear();
        let length = u64::from(length);
        let outcome = self.input.by_ref().take(length).read_to_end(buffer);
        self.finish(part, length, buffer.len() as u64, outcome.map(drop))
    }

    /// Passes over the next `length` bytes of `part`.
    pub fn skip(&mut self, part: Part, length: u32) -> Result<(), CaptureError> {
        let length = u64::from(length);
        let outcome = io::copy(&mut self.input.by_ref().take(length), &mut io::sink());
        let skipped = outcome.as_ref().map_or(0, |skipped| *skipped);
        self.finish(part, length, skipped, outcome.map(drop))
    }

    fn finish(
        &mut self,
        part: Part,
        wanted: u64,
        length: u64,
        outcome: io::Result<()>,
    ) -> Result<(), CaptureError> {
        self.offset += length;
        outcome.map_err(|source| self.failed(source))?;
        match length == wanted {
            true => Ok(()),
            false => Err(self.cut_short(part, wanted - length)),
        }
    }

    fn cut_short(&self, part: Part, missing: u64) -> CaptureError {
        let found = self.offset - part.offset;
        part.error(CaptureFault::CutShort { part: part.name, needed: found + missing, found })
    }

    fn failed(&self, source: io::Error) -> CaptureError {
        let fault = match self.compression {
            Some(Compression::Gzip) => CaptureFault::Gzip(source),
            Some(Compression::Zstd) => match source.downcast::<LargeWindow>() {
                Ok(window) => CaptureFault::ZstdWindow(window.to_string()),
                Err(source) => CaptureFault::Zstd(source),
            },
            None => CaptureFault::Read(source),
        };
        CaptureError::new(fault, self.offset)
    }
}

fn buffered<'s>(input: impl Read + 's) -> Box<dyn Read + 's> {
    Box::new(BufReader::with_capacity(READ_BYTES, input))
}

/// A compression around a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// The compression of what begins with these bytes.
    pub fn of(start: &[u8]) -> Option<Self> {
        if start.starts_with(&[0x1f, 0x8b]) {
            return Some(Self::Gzip);
        }
        let magic = u32::from_le_bytes(*start.first_chunk()?);
        // [RFC 8878 §3.1] A frame, or one to skip, with which tools may begin.
        let zstd = magic == ZSTD_MAGIC || magic & !0xf == ZSTD_SKIPPABLE;
        zstd.then_some(Self::Zstd)
    }
}

const MAGIC_BYTES: usize = 4;
pub(super) const ZSTD_MAGIC: u32 = 0xfd2f_b528;
pub(super) const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;
const READ_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_length_allocates_only_for_what_is_there() {
        let mut stream = Stream::new(&[0; 100][..]).expect("a readable source");
        let part = stream.begin("packet record");
        let mut buffer = Vec::new();
        let error = stream.read(part, u32::MAX, &mut buffer).expect_err("100 bytes are there");
        assert!(matches!(error.fault, CaptureFault::CutShort { found: 100, .. }), "{error}");
        assert!(buffer.capacity() < 1000, "{}", buffer.capacity());
    }
}
