//! Why a packet was late: how its sojourn divides.
//!
//! The scheduler says until when limits held a packet back ([`Why`]); the rest follows from when
//! the packet came first in its leaf and when the line was free. Costs nothing unless asked for.
//! Invariant: the parts of a sojourn sum to it, to the nanosecond; a sojourn is one cache line.

use crate::event::DropReason;
use crate::ids::{ClassId, Handle, LeafId};
use crate::sched::{Regulation, Why};
use crate::units::{Duration, Instant};
use alloc::vec::Vec;

/// The sojourn of a packet in the link, from its offer to its departure or drop. It keeps what is
/// known when the packet leaves; how its time divides is worked out when somebody asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sojourn {
    /// Which packet.
    pub handle: Handle,
    /// Its leaf.
    pub leaf: LeafId,
    /// When the link was offered it.
    pub arrived: Instant,
    /// When the link handed it out or dropped it.
    pub at: Instant,
    first: First,
    /// From when on neither its own limits nor those above it held it back.
    released: Instant,
    /// Who lent for it, if it was not sent at the account of its own class.
    pub lender: Option<ClassId>,
    /// What held it back while it was [regulated](Sojourn::regulated), if it was.
    pub regulation: Regulation,
    /// Why it was dropped, if it was.
    pub dropped: Option<DropReason>,
}

impl Sojourn {
    /// From offer to departure or drop.
    pub const fn total(&self) -> Duration {
        self.at.since(self.arrived)
    }

    /// Behind others of its own leaf, until the last of these was on the wire.
    pub fn own_leaf(&self) -> Duration {
        self.first.since.since(self.arrived)
    }

    /// First in its leaf, until the line had sent what it was handed before.
    pub fn line_busy(&self) -> Duration {
        self.line_was_free().since(self.became_first())
    }

    /// Then, until neither its own limits nor those above it held it back.
    pub fn regulated(&self) -> Duration {
        self.was_released().since(self.line_was_free())
    }

    /// Then, while others had their turns.
    pub fn others(&self) -> Duration {
        self.at.since(self.was_released())
    }

    // The instants at which its waits ended, of which none is before the one above it.

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

/// Keeps what sojourns are divided by.
pub(crate) struct Explainer {
    leaves: Vec<First>,
    sojourns: Vec<Sojourn>,
}

/// Since when the first packet of a leaf is first, and when the line was free for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct First {
    since: Instant,
    line_free: Instant,
}

/// The packet that is first in its leaf, and where to note its sojourn.
pub(crate) struct Waiting<'a> {
    first: &'a mut First,
    sojourns: &'a mut Vec<Sojourn>,
}

/// A packet that leaves, and its leaf.
#[derive(Clone, Copy)]
pub(crate) struct Leaving {
    pub handle: Handle,
    pub leaf: LeafId,
    pub arrived: Instant,
}

impl Explainer {
    /// For so many leaves; whoever waits already counts as first from `now` on.
    pub(crate) fn new(leaves: usize, now: Instant) -> Self {
        let first = First { since: now, line_free: now };
        Self { leaves: alloc::vec![first; leaves], sojourns: Vec::new() }
    }

    /// The same for the leaves of a changed plan; sojourns that nobody took yet are kept.
    pub(crate) fn changed(self, leaves: usize, now: Instant) -> Self {
        Self { sojourns: self.sojourns, ..Self::new(leaves, now) }
    }

    /// A packet is first in `leaf` from `now` on; the line is free for it from `line_free` on.
    #[inline]
    pub(crate) fn first(&mut self, now: Instant, leaf: LeafId, line_free: Instant) {
        self.leaves[leaf.index()] = First { since: now, line_free: line_free.max(now) };
    }

    /// The packet that is first in `leaf`.
    #[inline(always)]
    pub(crate) fn waiting(&mut self, leaf: LeafId) -> Waiting<'_> {
        Waiting { first: &mut self.leaves[leaf.index()], sojourns: &mut self.sojourns }
    }

    /// From when on nothing but limits and the turns of others hold back the packet that is first
    /// in `leaf`; later than now if the line does.
    pub(crate) fn line_free(&self, leaf: LeafId) -> Instant {
        self.leaves[leaf.index()].line_free
    }

    /// The first packet of its leaf is dropped at `now`.
    pub(crate) fn dropped(&mut self, now: Instant, packet: Leaving, why: Why, reason: DropReason) {
        let First { since, line_free } = self.leaves[packet.leaf.index()];
        // The line may still be sending the one before it.
        let first = First { since: since.min(now), line_free };
        self.sojourns.push(packet.sojourn(now, first, why, Some(reason)));
    }

    /// A packet that was not first in its leaf is dropped at `now`: it waited behind others of its
    /// own leaf only.
    pub(crate) fn dropped_behind(&mut self, now: Instant, packet: Leaving, reason: DropReason) {
        let first = First { since: now, line_free: now };
        self.sojourns.push(packet.sojourn(now, first, Why::FREE, Some(reason)));
    }

    /// Hands over what was explained since the last call.
    // Together, for a call for each would cost a packet a tenth of what explaining does.
    pub(crate) fn take(&mut self, all: &mut dyn FnMut(&[Sojourn])) {
        all(&self.sojourns);
        self.sojourns.clear();
    }
}

impl<'a> Waiting<'a> {
    /// See [`Explainer::line_free`].
    #[inline(always)]
    pub(crate) fn line_free(&self) -> Instant {
        self.first.line_free
    }

    /// It leaves at `now`; answers where to note since when the next one is first.
    #[inline(always)]
    pub(crate) fn sent(self, now: Instant, packet: Leaving, why: Why) -> &'a mut First {
        debug_assert!(self.first.since <= now, "the line had sent the one before it");
        self.sojourns.push(packet.sojourn(now, *self.first, why, None));
        self.first
    }
}

impl First {
    /// The line has at `now` what was sent and is free again from `line_free` on: until then those
    /// behind it wait for it.
    #[inline(always)]
    pub(crate) fn follow(&mut self, now: Instant, line_free: Instant) {
        let free = line_free.max(now);
        *self = First { since: free, line_free: free };
    }
}

impl Leaving {
    /// Its sojourn, which ends at `at`.
    #[inline(always)]
    fn sojourn(self, at: Instant, first: First, why: Why, dropped: Option<DropReason>) -> Sojourn {
        let Leaving { handle, leaf, arrived } = self;
        let Why { released, regulation, lender } = why;
        Sojourn { handle, leaf, arrived, at, first, released, lender, regulation, dropped }
    }
}

const _: () = assert!(size_of::<Sojourn>() == 64);
