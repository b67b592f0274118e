//! The numbers of flows by hash.

use crate::random::Random;

/// Hashes a flow to a number of 16 bits, evenly for a random seed. The hash is the same for all
/// leaves, so that a flow keeps its number when leaves are added or removed.
#[derive(Clone, Copy)]
pub(in super::super) struct FlowHash(u64);

impl FlowHash {
    /// The hash of a link with this seed.
    pub(in super::super) fn new(seed: u64) -> Self {
        Self(Random::new(seed, HASH_STREAM).bits())
    }

    /// Returns the number of a packet's `flow`, never that of the unknown one.
    #[inline]
    pub(in super::super) fn of(&self, flow: u32) -> u16 {
        ((Random::new(self.0, u64::from(flow)).bits() >> 48) as u16).max(UNKNOWN_FLOW + 1)
    }
}

/// The number of unknown flows.
pub(in super::super) const UNKNOWN_FLOW: u16 = 0;
/// No leaf has this number, so no dropper draws from this stream.
const HASH_STREAM: u64 = u64::MAX;
