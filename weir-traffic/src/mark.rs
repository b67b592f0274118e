//! The mark at the start of a payload: which stream a packet belongs to, its number, when it left.
//!
//! ```text
//! 0        2      3       4            8                16               24
//! | "We"   | kind | clock | stream     | number         | sent, in ns    |
//! ```
//! Numbers are in network order. Invariant: a mark that was written reads back, and bytes that are
//! no mark read as none.

/// The bytes of a mark; a shorter payload has none.
pub const MARK_BYTES: usize = 24;

/// The mark in a packet's payload, by which its receiver measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// A packet of the stream, or the end of the stream.
    pub kind: Kind,
    /// The clock of `sent_ns`.
    pub clock: Clock,
    /// The stream, which the sender's address and this number name.
    pub stream: u32,
    /// The number of the packet, from 0; in an end mark, how many there were.
    pub number: u64,
    /// When it was sent.
    pub sent_ns: u64,
}

/// The kind of a marked packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A packet of the stream, or the start of a transfer over TCP.
    Packet,
    /// The stream has ended.
    End,
}

/// The clock that send times are read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// CLOCK_MONOTONIC: for a sender and a receiver on one machine.
    #[default]
    Monotonic,
    /// CLOCK_REALTIME: for two machines whose clocks are synchronised.
    Realtime,
}

impl Mark {
    /// Returns the mark as the payload begins with it.
    pub fn bytes(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = self.kind as u8;
        bytes[3] = self.clock as u8;
        bytes[4..8].copy_from_slice(&self.stream.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..].copy_from_slice(&self.sent_ns.to_be_bytes());
        bytes
    }

    /// Reads the mark at the start of a payload; `None` if there is none.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<MARK_BYTES>()?;
        if bytes[..2] != MAGIC {
            return None;
        }
        let kind = [Kind::Packet, Kind::End].into_iter().find(|kind| *kind as u8 == bytes[2])?;
        let clocks = [Clock::Monotonic, Clock::Realtime];
        let clock = clocks.into_iter().find(|clock| *clock as u8 == bytes[3])?;
        let number = |at: usize| {
            let eight = bytes[at..at + 8].first_chunk().copied();
            u64::from_be_bytes(eight.unwrap_or_default())
        };
        let stream = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let mark = Self { kind, clock, stream, number: number(8), sent_ns: number(16) };
        (mark.number <= NUMBER_MAX).then_some(mark)
    }
}

/// The highest number of a packet: sums of numbers cannot overflow.
pub const NUMBER_MAX: u64 = 1 << 48;
const MAGIC: [u8; 2] = *b"We";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back() {
        for (kind, clock) in [(Kind::Packet, Clock::Realtime), (Kind::End, Clock::Monotonic)] {
            let mark = Mark { kind, clock, stream: 0x0102_0304, number: 1 << 40, sent_ns: 77 };
            let mut payload = mark.bytes().to_vec();
            payload.extend([1, 2, 3]);
            assert_eq!(Mark::read(&payload), Some(mark));
            assert_eq!(Mark::read(&payload[..MARK_BYTES - 1]), None, "cut");
            for (place, wrong) in [(0, b'w'), (1, b'E'), (2, 9), (3, 9), (8, 1)] {
                let mut damaged = payload.clone();
                damaged[place] = wrong;
                assert_eq!(Mark::read(&damaged), None, "byte {place}");
            }
        }
    }
}
