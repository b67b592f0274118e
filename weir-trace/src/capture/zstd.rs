//! The bytes in a zstd stream [RFC 8878]: its frames one after another, and those to skip.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fmt;
use std::io::{self, BufRead, Read};

/// Decodes `source`.
///
/// The decoder keeps a window of its latest bytes back until a frame ends. Where the source ends
/// before, what it keeps is complete, so it is given out before the fault. Where the stream is
/// damaged, these bytes may be wrong, and are lost.
pub(super) struct Zstd<R> {
    source: Watched<R>,
    decoder: FrameDecoder,
    /// A fault, to be reported behind the last bytes.
    fault: Option<io::Error>,
    within_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    pub fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        let source = Watched { source, ended: false, failed: None };
        Self { source, decoder, fault: None, within_frame: false }
    }

    /// Begins the next frame; false where there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.within_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(length.into())?,
                Err(error) => return Err(self.source.explain(&error)),
            }
        }
        Ok(false)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
        match skipped == length {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Decodes until there are bytes to give out, or the frame has ended.
    fn fill(&mut self) -> io::Result<()> {
        while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
            let one = BlockDecodingStrategy::UptoBlocks(1);
            if let Err(error) = self.decoder.decode_blocks(&mut self.source, one) {
                let error = self.source.explain(&error);
                if !self.source.ended {
                    return Err(error);
                }
                self.fault = Some(error);
                let all = BlockDecodingStrategy::All;
                let decoded = self.decoder.decode_blocks(LAST_BLOCK, all);
                decoded.map_err(|error| self.source.explain(&error))?;
            }
        }
        Ok(())
    }

    /// Checks what the frame says of its bytes, once all are given out.
    fn end(&mut self) -> io::Result<()> {
        self.within_frame = false;
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let written = self.decoder.get_checksum_from_data();
        if written.is_some() && written != self.decoder.get_calculated_checksum() {
            return Err(io::Error::other("the checksum of a frame is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within_frame && !self.begin()? {
                return Ok(0);
            }
            self.fill()?;
            let length = self.decoder.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            self.end()?;
        }
    }
}

/// A source that remembers whether it was read to its end, and an error of its own.
struct Watched<R> {
    source: R,
    ended: bool,
    failed: Option<io::Error>,
}

impl<R> Watched<R> {
    /// Returns an error of the decoder in plain words; its own are in the terms of its code.
    fn explain(&mut self, error: &FrameDecoderError) -> io::Error {
        if let Some(error) = self.failed.take() {
            return error;
        }
        match error {
            FrameDecoderError::WindowSizeTooBig { requested, .. } => {
                io::Error::other(LargeWindow(*requested))
            }
            FrameDecoderError::DictNotProvided { .. } => io::Error::other("it needs a dictionary"),
            _ if self.ended => io::Error::new(io::ErrorKind::UnexpectedEof, "a frame has no end"),
            FrameDecoderError::ReadFrameHeaderError(_) | FrameDecoderError::FrameHeaderError(_) => {
                io::Error::other("the header of a frame is wrong")
            }
            _ => io::Error::other("a block cannot be decoded"),
        }
    }
}

/// The window of a frame, in bytes, is larger than the decoder allows.
#[derive(Debug)]
pub(super) struct LargeWindow(pub u64);

impl fmt::Display for LargeWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a window of {} bytes, more than the limit of {WINDOW_BYTES_MAX}", self.0)
    }
}

impl std::error::Error for LargeWindow {}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer);
        self.ended |= read.as_ref().is_ok_and(|length| *length == 0 && !buffer.is_empty());
        // `io::Error` cannot be cloned, and the decoder wraps this one.
        let copy = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        self.failed = read.as_ref().err().map(copy);
        read
    }
}

/// Bound: bytes of the window of a zstd stream, and so the decoder's memory; a stream with more is
/// an error. That of `zstd --long`.
const WINDOW_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// An empty block that ends a frame, and room for a checksum.
const LAST_BLOCK: &[u8] = &[1, 0, 0, 0, 0, 0, 0];
