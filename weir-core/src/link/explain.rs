//! Explains why a packet was late: the parts of its sojourn.
//!
//! The scheduler says until when limits held a packet back ([`Why`]); the rest follows from when
//! the packet became first in its leaf and when the line was free. Costs nothing unless it is
//! switched on. Invariant: the parts of a sojourn sum to it, to the nanosecond; a sojourn fits one
//! cache line.

use super::Link;
use crate::event::DropReason;
use crate::ids::{ClassId, Handle, LeafId};
use crate::queue::QueueEntry;
use crate::sched::{Discipline, Regulation, Why};
use crate::state::state;
use crate::units::{Duration, Instant};
use alloc::vec::Vec;

/// The sojourn of a packet in the link, from its offer to its departure or drop. It stores what is
/// known when the packet leaves; its parts are computed on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sojourn {
    /// The caller's id of the packet.
    pub handle: Handle,
    /// The leaf in which it waited.
    pub leaf: LeafId,
    /// The instant at which the packet was offered to the link.
    pub arrived: Instant,
    /// The instant at which the link handed it out or dropped it.
    pub at: Instant,
    first: First,
    /// From this instant on neither its own limits nor those of its ancestors held it back.
    released: Instant,
    /// The class that lent to it, if it was not sent on its own class's account.
    pub lender: Option<ClassId>,
    /// The limit that held it back while it was [regulated](Sojourn::regulated).
    pub regulation: Regulation,
    /// The class whose limit that was: so many levels above the leaf's own class.
    pub level: u8,
    /// Why it was dropped, if it was.
    pub dropped: Option<DropReason>,
}

impl Sojourn {
    /// Returns the time from offer to departure or drop.
    pub const fn total(&self) -> Duration {
        self.at.since(self.arrived)
    }

    /// Returns the time it waited behind other packets of its own leaf, until the last of these was
    /// on the wire.
    pub fn own_leaf(&self) -> Duration {
        self.first.since.since(self.arrived)
    }

    /// Returns the time it was first in its leaf while the line sent earlier packets.
    pub fn line_busy(&self) -> Duration {
        self.line_was_free().since(self.became_first())
    }

    /// Returns the time after that in which its own limits or those of its ancestors held it back.
    pub fn regulated(&self) -> Duration {
        self.was_released().since(self.line_was_free())
    }

    /// Returns the time after that in which other leaves had their turns.
    pub fn others(&self) -> Duration {
        self.at.since(self.was_released())
    }

    // The instants at which its waits ended; each is not before the one above it.

    #[inline]
    fn became_first(&self) -> Instant {
        self.first.since.max(self.arrived)
    }

    #[inline]
    fn line_was_free(&self) -> Instant {
        self.first.line_free.min(self.at).max(self.became_first())
    }

    #[inline]
    fn was_released(&self) -> Instant {
        self.released.min(self.at).max(self.line_was_free())
    }
}

/// Records from which sojourns are computed.
pub(super) struct Explainer {
    leaves: Vec<First>,
    sojourns: Vec<Sojourn>,
}

/// Since when the first packet of a leaf is first, and when the line became free for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct First {
    since: Instant,
    line_free: Instant,
}

impl Explainer {
    /// For `leaves` leaves; packets that wait already count as first from `now` on.
    pub(super) fn new(leaves: usize, now: Instant) -> Self {
        let first = First { since: now, line_free: now };
        Self { leaves: alloc::vec![first; leaves], sojourns: Vec::new() }
    }

    /// Starts anew for the leaves of a changed plan; keeps the sojourns that were not taken yet.
    pub(super) fn restart(&mut self, leaves: usize, now: Instant) {
        self.leaves.clear();
        self.leaves.resize(leaves, First { since: now, line_free: now });
    }

    /// A packet is first in `leaf` from `now` on; the line is free for it from `line_free` on.
    #[inline]
    pub(super) fn first(&mut self, now: Instant, leaf: LeafId, line_free: Instant) {
        self.leaves[leaf.index()] = First { since: now, line_free: line_free.max(now) };
    }

    /// Returns from when on only limits and the turns of others hold back the first packet of
    /// `leaf`; later than now while the line is busy.
    #[inline]
    fn line_free(&self, leaf: LeafId) -> Instant {
        self.leaves[leaf.index()].line_free
    }

    /// The first packet of `leaf` leaves at `now`.
    #[inline]
    fn sent(&mut self, now: Instant, leaf: LeafId, entry: &QueueEntry, why: Why) {
        let first = self.leaves[leaf.index()];
        debug_assert!(first.since <= now, "the line had sent the one before it");
        self.sojourns.push(sojourn(now, leaf, entry, Cause { first, why, dropped: None }));
    }

    /// The line was handed a packet of `leaf` at `now` and is free again from `line_free` on; the
    /// packets behind it wait for the line until then.
    #[inline]
    pub(super) fn follow(&mut self, now: Instant, leaf: LeafId, line_free: Instant) {
        let free = line_free.max(now);
        self.leaves[leaf.index()] = First { since: free, line_free: free };
    }

    /// The first packet of `leaf` is dropped at `now`.
    fn dropped(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        why: Why,
        reason: DropReason,
    ) {
        let First { since, line_free } = self.leaves[leaf.index()];
        // The line may still be sending the one before it.
        let first = First { since: since.min(now), line_free };
        self.sojourns.push(sojourn(now, leaf, entry, Cause { first, why, dropped: Some(reason) }));
    }

    /// A packet that was not first in `leaf` is dropped at `now`: it waited only behind others of
    /// its own leaf.
    pub(super) fn dropped_behind(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        reason: DropReason,
    ) {
        let first = First { since: now, line_free: now };
        let cause = Cause { first, why: Why::FREE, dropped: Some(reason) };
        self.sojourns.push(sojourn(now, leaf, entry, cause));
    }

    /// Whether no leaf's packet is first from a later instant on than that at which the line is
    /// free.
    pub(super) fn is_sound(&self, free: Instant) -> bool {
        self.leaves.iter().all(|first| first.since <= free)
    }

    /// Passes the sojourns since the last call to `all`, as one slice.
    pub(super) fn take(&mut self, all: &mut dyn FnMut(&[Sojourn])) {
        all(&self.sojourns);
        self.sojourns.clear();
    }
}

impl<S: Discipline> Link<S> {
    /// Records the sojourn of the first packet of `leaf`, which was selected and not charged yet.
    #[inline(never)]
    pub(super) fn explain_sent(&mut self, now: Instant, leaf: LeafId, entry: &QueueEntry) {
        let Some(explainer) = &self.explainer else { return };
        let from = explainer.line_free(leaf);
        let why = self.why(now, leaf, from);
        let Some(explainer) = &mut self.explainer else { return };
        explainer.sent(now, leaf, entry, why);
    }

    /// Records the sojourn of the first packet of `leaf`, which is about to be dropped.
    #[cold]
    pub(super) fn explain_drop(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        reason: DropReason,
    ) {
        let Some(explainer) = &self.explainer else { return };
        let from = explainer.line_free(leaf);
        let why = self.why(now, leaf, from);
        let Some(explainer) = &mut self.explainer else { return };
        explainer.dropped(now, leaf, entry, why, reason);
        explainer.first(now, leaf, self.line.ready_at());
    }

    /// Returns why the first packet of `leaf` has waited since `from`, by the link's time.
    #[inline]
    fn why(&self, now: Instant, leaf: LeafId, from: Instant) -> Why {
        let (now, from) = (self.at(now), self.at(from));
        let why = self.scheduler.why(now, leaf, from);
        debug_assert!(
            why.agrees_from(from, self.scheduler.why(now, leaf, Instant::ZERO)),
            "what is left out ended before {from:?}: {why:?}"
        );
        Why { released: self.instant(why.released), ..why }
    }
}

/// The facts from which the parts of a sojourn follow.
struct Cause {
    first: First,
    why: Why,
    /// Why the packet was dropped, if it was.
    dropped: Option<DropReason>,
}

/// Returns the sojourn of `entry`, which ends at `at`.
#[inline]
fn sojourn(at: Instant, leaf: LeafId, entry: &QueueEntry, cause: Cause) -> Sojourn {
    let Cause { first, why, dropped } = cause;
    let QueueEntry { handle, arrived, .. } = *entry;
    let Why { released, regulation, level, lender } = why;
    Sojourn { handle, leaf, arrived, at, first, released, lender, regulation, level, dropped }
}

state!(First { since, line_free });
state!(Sojourn { handle, leaf, arrived, at, first, released, lender, regulation, level, dropped });
state!(Explainer { leaves; rows: sojourns });

const _: () = assert!(size_of::<Sojourn>() == 64);
