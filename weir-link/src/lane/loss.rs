//! Frames that a lane loses outside its link, by leaf and cause.
//!
//! Invariant: each lost frame is counted once; the sum over the leaves is the total.

use weir_core::account::Count;
use weir_core::ids::LeafId;

/// A cause for which a lane loses a frame outside its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The leaf had its reserve of frames, and the shared rest was taken.
    Pool,
    /// It waited too long for a busy interface.
    BusyPort,
    /// It was too old when it was taken from its ring.
    StaleOnArrival,
    /// It was too old when the interface was to send it.
    Stale,
    /// The interface did not send it: no link, or too long for it.
    NotSent,
    /// The forwarder ended before its turn came.
    Flushed,
}

impl Loss {
    /// All causes, in the order of [`Losses`].
    pub const ALL: [Self; 6] = [
        Self::Pool,
        Self::BusyPort,
        Self::StaleOnArrival,
        Self::Stale,
        Self::NotSent,
        Self::Flushed,
    ];
    /// Losses before the link, to which the frame was never offered.
    pub(crate) const BEFORE: [Self; 2] = [Self::Pool, Self::StaleOnArrival];
    /// Losses behind the link, which counts the frame as sent.
    pub(crate) const AFTER: [Self; 4] = [Self::BusyPort, Self::Stale, Self::NotSent, Self::Flushed];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::BusyPort => "busy port",
            Self::StaleOnArrival => "stale on arrival",
            Self::Stale => "stale",
            Self::NotSent => "not sent",
            Self::Flushed => "flushed",
        }
    }
}

/// Frames lost, by [`Loss`].
pub type Losses = [Count; Loss::ALL.len()];

/// The losses of each leaf, with a last row for leaves that changes removed, and of all together.
pub(super) struct LossBook {
    pub leaves: Vec<Losses>,
    pub total: [u64; Loss::ALL.len()],
}

impl LossBook {
    pub fn new(leaves: usize) -> Self {
        Self { leaves: vec![Losses::default(); leaves + 1], total: Default::default() }
    }

    pub fn count(&mut self, leaf: LeafId, cause: Loss, bytes: u64) {
        let losses = &mut self.leaves[leaf.index()][cause as usize];
        losses.packets += 1;
        losses.bytes += bytes;
        self.total[cause as usize] += 1;
    }

    /// Counts what `old` lost as lost by the leaf or row `row`.
    pub fn add(&mut self, row: usize, old: &Losses) {
        for (sum, count) in self.leaves[row].iter_mut().zip(old) {
            *sum = sum.plus(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trace::record;

    #[test]
    fn records_name_each_cause_of_a_loss_as_reports_do() {
        let names = Loss::ALL.map(Loss::name);
        assert_eq!(record::Loss::CAUSES, names);
        for (number, cause) in Loss::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number, "{cause:?} has its own place in Losses");
        }
        for cause in Loss::ALL {
            let sides = [Loss::BEFORE.contains(&cause), Loss::AFTER.contains(&cause)];
            assert_ne!(sides[0], sides[1], "{cause:?} comes before the link or after it");
        }
    }

    #[test]
    fn what_leaves_lost_adds_up_to_the_total() {
        // Leaf, cause, bytes.
        let rows = [(0, Loss::Pool, 100), (1, Loss::Pool, 60), (1, Loss::Stale, 40)];
        let mut book = LossBook::new(2);
        for (leaf, cause, bytes) in rows {
            book.count(LeafId(leaf), cause, bytes);
        }
        let counted = |leaf: usize, cause: Loss| {
            let Count { packets, bytes } = book.leaves[leaf][cause as usize];
            (packets, bytes)
        };
        assert_eq!([counted(0, Loss::Pool), counted(1, Loss::Pool)], [(1, 100), (1, 60)]);
        assert_eq!(counted(1, Loss::Stale), (1, 40));
        for cause in Loss::ALL {
            let sum: u64 = book.leaves.iter().map(|leaf| leaf[cause as usize].packets).sum();
            assert_eq!(book.total[cause as usize], sum, "{cause:?}");
        }
    }
}
