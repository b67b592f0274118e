//! Which member of a fanout group has which frames.
//!
//! Members are numbered in the order in which they joined. Each ring has one, and where several
//! workers share a port, ring 0 has one for each share: frames of a flow go to one share.

use super::RINGS_MAX;

/// Bound: shares of one port, and workers of one bridge; further ones are not started.
pub const SHARES_MAX: usize = 8;

/// The number of the member for each ring and share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Of each ring; of ring 0 that of share 0, which has the frames of no flow, too.
    pub rings: [u8; RINGS_MAX],
    /// Of each further share; `None` while it has none, and share 0 has its flows.
    pub others: Vec<Option<u8>>,
}

impl Places {
    /// Rings that joined in their order, and as many shares of which only the first is there.
    pub fn in_order(shares: usize) -> Self {
        assert!((1..=SHARES_MAX).contains(&shares), "a port has 1 to {SHARES_MAX} shares");
        let rings = std::array::from_fn(|ring| ring as u8);
        Self { rings, others: vec![None; shares - 1] }
    }

    /// Returns whether flows go to different members.
    pub fn are_spread(&self) -> bool {
        self.others.iter().any(Option::is_some)
    }

    /// Returns the member of each share, which has those flows whose hash leaves its number.
    pub fn of_shares(&self) -> impl Iterator<Item = u8> {
        let first = self.rings[0];
        [first].into_iter().chain(self.others.iter().map(move |place| place.unwrap_or(first)))
    }
}
