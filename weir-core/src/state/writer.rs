//! Writes numbers: bytes, words of eight bytes, and numbers of variable length.

use alloc::vec::Vec;

/// A growing sequence of bytes.
#[derive(Clone, Default, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty sequence.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Returns what was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns what was written up to now.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes one byte, as it is.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes eight bytes, the lowest first.
    pub fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Writes a number in one to ten bytes: seven bits each, the lowest first, and a bit that says
    /// whether more follow.
    #[inline]
    pub fn number(&mut self, mut number: u64) {
        while number > LOW_BITS {
            self.bytes.push((number & LOW_BITS) as u8 | MORE);
            number >>= LOW_BITS.count_ones();
        }
        self.bytes.push(number as u8);
    }

    /// Writes a signed number; one near zero takes few bytes.
    #[inline]
    pub fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    /// Replaces the word at `place`.
    pub(super) fn replace_word(&mut self, place: usize, word: u64) {
        self.bytes[place..][..8].copy_from_slice(&word.to_le_bytes());
    }
}

/// The bits of a number in each byte.
pub(super) const LOW_BITS: u64 = 0x7f;
/// The bit that says that more bytes follow.
pub(super) const MORE: u8 = 0x80;
