//! Why a packet was late: how its sojourn divides.
//!
//! The scheduler says until when limits held a packet back ([`Why`]); the rest follows from when
//! the packet came first in its leaf and when the line was free. Costs nothing unless asked for.
//! Invariant: the parts of a sojourn sum to it, to the nanosecond; a sojourn keeps the instants
//! between them, and is one line of a cache.

use crate::event::DropReason;
use crate::ids::{ClassId, Handle, LeafId};
use crate::sched::{Regulation, Why};
use crate::units::{Duration, Instant};
use alloc::vec::Vec;

/// The sojourn of a packet in the link, from its offer to its departure or drop: the instants at
/// which each of its waits ended, of which none is before the one above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sojourn {
    /// Which packet.
    pub handle: Handle,
    /// Its leaf.
    pub leaf: LeafId,
    /// When the link was offered it.
    pub arrived: Instant,
    /// When the last of its own leaf before it was on the wire.
    pub first: Instant,
    /// When the line had sent what it was handed before.
    pub line_free: Instant,
    /// When neither its own limits nor those above it held it back any longer.
    pub released: Instant,
    /// When the link handed it out or dropped it.
    pub at: Instant,
    /// Who lent for it, if it was not sent at the account of its own class.
    pub lender: Option<ClassId>,
    /// What held it back.
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
    pub const fn own_leaf(&self) -> Duration {
        self.first.since(self.arrived)
    }

    /// First in its leaf, until the line had sent what it was handed before.
    pub const fn line_busy(&self) -> Duration {
        self.line_free.since(self.first)
    }

    /// Then, until neither its own limits nor those above it held it back.
    pub const fn regulated(&self) -> Duration {
        self.released.since(self.line_free)
    }

    /// Then, while others had their turns.
    pub const fn others(&self) -> Duration {
        self.at.since(self.released)
    }
}

/// Keeps what sojourns are divided by.
pub(crate) struct Explainer {
    leaves: Vec<First>,
    sojourns: Vec<Sojourn>,
}

/// Since when the first packet of a leaf is first, and when the line was free for it.
#[derive(Clone, Copy)]
struct First {
    since: Instant,
    line_free: Instant,
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

    /// The first packet of its leaf leaves at `now` and is handed to the line, which is free again
    /// from `line_free` on: until then those behind it wait for it.
    #[inline(always)]
    pub(crate) fn sent(&mut self, now: Instant, packet: Leaving, why: Why, line_free: Instant) {
        self.left(now, packet, why, None);
        let free = line_free.max(now);
        self.leaves[packet.leaf.index()] = First { since: free, line_free: free };
    }

    /// The first packet of its leaf leaves or is dropped at `now`.
    #[inline(always)]
    pub(crate) fn left(
        &mut self,
        now: Instant,
        packet: Leaving,
        why: Why,
        dropped: Option<DropReason>,
    ) {
        let Leaving { handle, leaf, arrived } = packet;
        let First { since, line_free } = self.leaves[leaf.index()];
        let first = since.min(now).max(arrived);
        let line_free = line_free.min(now).max(first);
        let released = why.released.min(now).max(line_free);
        let is_regulated = released > line_free;
        self.sojourns.push(Sojourn {
            handle,
            leaf,
            arrived,
            first,
            line_free,
            released,
            at: now,
            lender: why.lender,
            regulation: if is_regulated { why.regulation } else { Regulation::None },
            dropped,
        });
    }

    /// A packet that was not first in its leaf is dropped at `now`: it waited behind others of its
    /// own leaf only.
    pub(crate) fn dropped_behind(&mut self, now: Instant, packet: Leaving, reason: DropReason) {
        let Leaving { handle, leaf, arrived } = packet;
        self.sojourns.push(Sojourn {
            handle,
            leaf,
            arrived,
            first: now,
            line_free: now,
            released: now,
            at: now,
            lender: None,
            regulation: Regulation::None,
            dropped: Some(reason),
        });
    }

    /// Hands over what was explained since the last call.
    pub(crate) fn take(&mut self, each: &mut dyn FnMut(&Sojourn)) {
        self.sojourns.iter().for_each(each);
        self.sojourns.clear();
    }
}

const _: () = assert!(size_of::<Sojourn>() == 64);
