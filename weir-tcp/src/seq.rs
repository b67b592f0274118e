//! Sequence numbers: 32 bits that wrap on the wire, positions of 64 bits inside.
//!
//! A position counts from the initial sequence number: the SYN is at 0, the first byte at 1, and
//! the FIN is after the last byte [rfc9293 §3.4]. Invariant: positions never wrap.

/// A sequence number as it is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Returns the number of the position that is `position` after this initial sequence number.
    pub const fn at(self, position: u64) -> SeqNumber {
        SeqNumber(self.0.wrapping_add(position as u32))
    }

    /// Returns the position of this number after `initial` that is nearest to `near`; `None` if it
    /// would be before the SYN.
    pub const fn position(self, initial: SeqNumber, near: u64) -> Option<u64> {
        let distance = self.0.wrapping_sub(initial.at(near).0) as i32;
        near.checked_add_signed(distance as i64)
    }
}

/// A range of positions: from `start` on, up to but without `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Range {
    pub start: u64,
    pub end: u64,
}

impl Range {
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    pub const fn contains(self, other: Range) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_the_wrap() {
        let initial = SeqNumber(u32::MAX - 9);
        for position in [0u64, 1, 9, 10, 11, 1 << 31, (1 << 32) + 5, 1 << 40] {
            let wire = initial.at(position);
            for near in [position.saturating_sub(1 << 30), position, position + (1 << 30)] {
                assert_eq!(wire.position(initial, near), Some(position), "{position} {near}");
            }
        }
        assert_eq!(SeqNumber(5).position(SeqNumber(10), 2), None);
    }
}
