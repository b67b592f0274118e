//! Draws numbers from an input: each from the next bytes, with extremes as likely as the rest.

use weir_core::fnv::{BASIS, fnv1a};
use weir_core::ids::LeafId;
use weir_core::random::Random;

/// The rest of an input.
pub struct Draw<'a> {
    rest: &'a [u8],
    /// Draws without end, for values that bytes alone would rarely get right.
    random: Option<Random>,
}

impl<'a> Draw<'a> {
    /// Draws from `input`; after its end every byte is 0.
    pub fn new(input: &'a [u8]) -> Self {
        Self { rest: input, random: None }
    }

    /// Returns draws without end, equal for the same remaining bytes.
    pub fn endless(&self) -> Draw<'static> {
        Draw { rest: &[], random: Some(Random::new(fnv1a(BASIS, self.rest), 0)) }
    }

    /// Returns whether no bytes are left.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        if let Some(random) = &mut self.random {
            return (random.bits() >> 32) as u8;
        }
        let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        byte
    }

    /// Draws a number below `count`, which is not 0.
    pub fn index(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// Draws a leaf of `count`.
    pub fn leaf(&mut self, count: usize) -> LeafId {
        LeafId(self.index(count) as u32)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u8) -> bool {
        self.byte() % n == n - 1
    }

    /// Draws from `low` to `high`, both included: an end, or a number whose logarithm is uniform.
    pub fn wide(&mut self, low: u64, high: u64) -> u64 {
        match self.byte() {
            0..=7 => low,
            8..=15 => high,
            byte => {
                let (least, most) = (low.max(1).ilog2(), high.max(1).ilog2());
                let bits = least + u32::from(byte) % (most - least + 1);
                let below = (u64::from(self.byte()) << 56 | u64::from(self.byte()) << 48) >> 1;
                (1 << bits | below >> (63 - bits)).clamp(low, high)
            }
        }
    }
}
