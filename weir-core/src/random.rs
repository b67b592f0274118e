//! Seeded random numbers for droppers and hashes: the same seed gives the same numbers everywhere.
//!
//! SplitMix64, by Sebastiano Vigna: 64 bits of state, one multiplication more than a counter.

use crate::state::state;

/// A stream of random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the stream number `stream` of `seed`.
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// Draws 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below `bound`, even to one part in 2^32; 0 if `bound` is 0.
    #[inline]
    pub const fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * bound as u64) >> 32) as u32
    }

    /// Returns true with a probability of `of_2_32` / 2^32.
    #[inline]
    pub const fn chance(&mut self, of_2_32: u64) -> bool {
        (self.bits() >> 32) < of_2_32
    }
}

state!(Random(state));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_equal_splitmix() {
        // The first outputs for the seed 0.
        let mut random = Random::new(0, 0);
        assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.bits(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn chances_are_even() {
        let mut random = Random::new(7, 3);
        let hits = (0..100_000).filter(|_| random.chance(1 << 30)).count();
        assert!((24_500..25_500).contains(&hits), "{hits}");
        let sum: u64 = (0..100_000).map(|_| u64::from(random.below(10))).sum();
        assert!((446_000..454_000).contains(&sum), "{sum}");
    }
}
