//! A change of a scheduler's plan, and the check of a loaded checkpoint.
//!
//! Only the check of a checkpoint is required. The rest has defaults: then classes start anew with
//! each change, and no leaf is refitted alone.

use super::refit::Refit;
use crate::ids::LeafId;
use crate::packet::Head;
use crate::parameter::RefitError;
use crate::tree::{Kin, Tree};
use crate::units::Instant;

/// How a scheduler follows a change of its plan, and what it requires of a checkpoint.
pub trait Changes: Sized {
    /// Whether its state, loaded from a checkpoint, can be that of a scheduler whose leaves hold
    /// what waits. Checks whatever its other functions rely on, so that a forged checkpoint is
    /// refused here and does no harm later.
    fn agrees(&self, waiting: &Waiting<'_>) -> bool;

    /// Whether single leaves can be refitted while it runs.
    const REFITS: bool = false;

    /// Takes over from `old`, built from another tree, the state of the classes that both trees
    /// have according to `kin`: balances, tokens, virtual times. Called once, right after `build`;
    /// then `enqueued` is called for every leaf in which packets wait, and with
    /// [`Calls::per_packet`](super::Calls::per_packet) also `joined` for every packet behind the
    /// first. Without it, classes start anew.
    fn inherit(&mut self, _now: Instant, _old: &Self, _kin: &Kin) {}

    /// Follows the parameters of `leaf`, which are others in `tree` than before; no packet waits in
    /// it. After that it decides as one that was built from the tree. A leaf that is not new keeps
    /// what [`Changes::inherit`] would take over. Called only with [`Changes::REFITS`].
    ///
    /// # Errors
    /// When it takes a whole change, or the values contradict each other; then nothing is changed.
    fn refit(
        &mut self,
        _now: Instant,
        _tree: &Tree,
        _leaf: LeafId,
        _refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        Err(RefitError::NeedsChange("the scheduler builds its classes together"))
    }
}

/// The packets that wait in the leaves when a checkpoint is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'w> {
    /// The time of the link.
    pub now: Instant,
    /// The first packet of each leaf, as the scheduler was notified of it.
    pub heads: &'w [Option<Head>],
    /// The number of packets in each leaf.
    pub packets: &'w [u32],
}

impl Waiting<'_> {
    /// Returns whether `is_so` holds for each leaf: its number, and its first packet.
    pub(crate) fn all(&self, mut is_so: impl FnMut(usize, Option<Head>) -> bool) -> bool {
        self.heads.iter().enumerate().all(|(leaf, &head)| is_so(leaf, head))
    }

    /// Returns the number of leaves in which packets wait.
    pub(crate) fn leaves(&self) -> usize {
        self.heads.iter().flatten().count()
    }
}
