//! Reads numbers and addresses from untrusted bytes, in network order.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::error::Fault;

/// The rest of a message or an object.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns how many bytes are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Takes the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let short = Fault::Short { have: self.rest.len(), need: len };
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        Ok(self.take(N)?.try_into().expect("`take` returns as many bytes as were asked for"))
    }

    /// Reads an 8-bit number.
    pub fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a 16-bit number.
    pub fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a rate or size in single precision; neither is negative nor "not a number".
    pub fn amount(&mut self, what: &'static str) -> Result<f32, Fault> {
        let bits = self.u32()?;
        let amount = f32::from_bits(bits);
        let wanted = "0 or a positive number";
        // The negative zero is refused with the negative numbers.
        if amount.is_nan() || amount.is_sign_negative() {
            return Err(Fault::Value { what, found: bits, wanted });
        }
        Ok(amount)
    }

    /// Reads an IPv4 address.
    pub fn ipv4(&mut self) -> Result<Ipv4Addr, Fault> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    /// Reads an IPv6 address.
    pub fn ipv6(&mut self) -> Result<Ipv6Addr, Fault> {
        self.array::<16>().map(Ipv6Addr::from)
    }
}
