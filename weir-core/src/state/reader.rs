//! Reads what a [`Writer`](super::Writer) wrote, from bytes that cannot be trusted.

use super::StateError;
use super::writer::{LOW_BITS, MORE};

/// The rest of a sequence of bytes.
#[derive(Clone, Debug)]
pub struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Reads `bytes` from their start.
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns what was not read yet.
    pub const fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// Reads a byte.
    ///
    /// # Errors
    /// When no byte is left.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, StateError> {
        let (&byte, rest) = self.rest.split_first().ok_or(StateError::Cut)?;
        self.rest = rest;
        Ok(byte)
    }

    /// Reads a word of eight bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn word(&mut self) -> Result<u64, StateError> {
        let (&word, rest) = self.rest.split_first_chunk().ok_or(StateError::Cut)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(word))
    }

    /// Reads this many bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn bytes(&mut self, count: usize) -> Result<&'b [u8], StateError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(StateError::Cut)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads a number of one to ten bytes.
    ///
    /// # Errors
    /// When the bytes end before it, it exceeds 64 bits, or it is longer than it need be.
    #[inline]
    pub fn number(&mut self) -> Result<u64, StateError> {
        let byte = self.byte()?;
        if byte & MORE == 0 {
            return Ok(u64::from(byte));
        }
        self.number_from(u64::from(byte) & LOW_BITS)
    }

    /// Reads what follows the lowest bits of a number.
    fn number_from(&mut self, mut number: u64) -> Result<u64, StateError> {
        let bits = LOW_BITS.count_ones();
        for shift in (bits..u64::BITS).step_by(bits as usize) {
            let byte = self.byte()?;
            let part = u64::from(byte) & LOW_BITS;
            number |= part << shift;
            if byte & MORE == 0 {
                // A number has one form only, so equal states have equal bytes.
                let fits = number >> shift == part && part > 0;
                return if fits { Ok(number) } else { Err(StateError::Invalid("number")) };
            }
        }
        Err(StateError::Invalid("number"))
    }

    /// Reads a signed number.
    ///
    /// # Errors
    /// As [`Reader::number`].
    #[inline]
    pub fn signed(&mut self) -> Result<i64, StateError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a count of `what`, of which at most `most` are possible.
    ///
    /// # Errors
    /// When it is larger, or larger than the number of bytes that are left: each of what is counted
    /// takes one at least, so a count never makes a reader allocate more than the bytes justify.
    pub fn count(&mut self, most: usize, what: &'static str) -> Result<usize, StateError> {
        let count = self.number()?;
        match usize::try_from(count) {
            Ok(count) if count <= most && count <= self.rest.len() => Ok(count),
            _ => Err(StateError::Invalid(what)),
        }
    }

    /// Reads an index of one of `count` things.
    ///
    /// # Errors
    /// When it is not smaller than `count`.
    pub fn index(&mut self, count: usize, what: &'static str) -> Result<usize, StateError> {
        let index = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if index < count { Ok(index) } else { Err(StateError::Invalid(what)) }
    }
}
