//! The checksum of the Internet protocols [RFC 1071].
//!
//! Invariant: the order of additions does not matter, as long as only the last is of odd length.

/// A ones' complement sum of 16-bit words, in machine order until it is folded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds `bytes`; only the last addition may be of odd length.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(4);
        // 2^32 words of 32 bits fit; no frame is that long.
        for word in &mut words {
            self.0 += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        }
        let rest = words.remainder();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_ne_bytes(last));
    }

    /// Adds a number of 16 bits.
    #[inline]
    pub fn add_word(&mut self, word: u16) {
        self.0 += u64::from(word.to_be());
    }

    /// Returns the sum itself: all ones over bytes that contain their own checksum.
    #[inline]
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::from_be(sum as u16)
    }

    /// Returns the checksum: the complement of the sum.
    #[inline]
    pub fn finish(self) -> u16 {
        !self.fold()
    }

    /// Returns the checksum where 0 means that there is none: 0 is written as its equal, all ones
    /// [RFC 768].
    #[inline]
    pub fn finish_nonzero(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The sum as [RFC 1071 §1] describes it, one 16-bit word after the other.
    fn slow_sum(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn fast_sum_equals_slow_sum_at_every_length() {
        let bytes: Vec<u8> = (0..200u32).map(|n| (n * n * 7 + 0xf1) as u8).collect();
        for len in 0..bytes.len() {
            for start in 0..4.min(len) {
                let mut sum = Checksum::default();
                sum.add(&bytes[start..len]);
                let (fast, slow) = (sum.fold(), slow_sum(&bytes[start..len]));
                assert_eq!(fast % 0xffff, slow % 0xffff, "{start}..{len}");
            }
        }
    }

    #[test]
    fn a_sum_of_all_ones_is_written_as_no_zero() {
        let mut sum = Checksum::default();
        assert_eq!((sum.finish(), sum.finish_nonzero()), (0xffff, 0xffff));
        sum.add_word(0xff00);
        sum.add(&[0x00, 0xff]);
        assert_eq!((sum.fold(), sum.finish(), sum.finish_nonzero()), (0xffff, 0, 0xffff));
    }
}
