//! The checksum of the Internet protocols.
//!
//! Invariant: the order of additions does not matter, as long as only the last is of odd length.

/// The ones' complement sum of [RFC 1071], in machine order until it is folded.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds `bytes`; only the last addition may be of odd length.
    pub(super) fn add(&mut self, bytes: &[u8]) {
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

    pub(super) fn add_word(&mut self, word: u16) {
        self.0 += u64::from(word.to_be());
    }

    pub(super) fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::from_be(sum as u16)
    }

    /// Returns the checksum. [RFC 768] Zero is sent as all ones; for TCP both are equivalent.
    pub(super) fn finish(self) -> u16 {
        match !self.fold() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}
