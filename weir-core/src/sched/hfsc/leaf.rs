//! What is kept of a leaf, in half a cache line and a word, and the slopes that many share.
//!
//! A real-time curve of one slope is kept as the time at which it reaches what the criterion
//! served: whole nanoseconds, rounded up, and how much was added for that. So a packet costs one
//! multiplication of 64 bits, and when the leaf is eligible need not be worked out. Invariant: who
//! is marked eligible, filed or in step stands in the order that the mark names.

use super::curve::{FRACTION_BITS, Slope};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A leaf.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(super) struct Leaf {
    /// From when on it is eligible, in nanoseconds.
    pub(super) eligible: u64,
    /// In 40 bits, in 2^-40 ns: that instant less the time at which a real-time curve of one slope
    /// reaches what was served, taken from all ones. Above them, the marks.
    state: u64,
    /// Of the first packet.
    pub(super) length: u32,
    pub(super) own: Own,
}

/// What link sharing keeps of a class, with or without children.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Own {
    /// Where its virtual time is.
    pub(super) slot: u32,
    pub(super) family: u32,
    /// Below the unit of its virtual time, in 2^-32 of it.
    pub(super) fraction: u32,
    /// Its slopes.
    pub(super) kind: u32,
}

/// The slopes of a class: those of curves with one slope only count here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Kind {
    pub(super) guarantee: Slope,
    /// In units of the family's virtual time.
    pub(super) share: Slope,
}

/// The kinds that classes have, each once.
#[derive(Default)]
pub(super) struct Kinds {
    pub(super) table: Vec<Kind>,
    known: BTreeMap<Kind, u32>,
}

/// Something that is or is not so of a leaf: a bit above the 40.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark(u64);

impl Mark {
    /// Packets wait.
    pub(super) const BACKLOGGED: Mark = Mark(1 << 40);
    /// It is among those ordered by deadline.
    pub(super) const ELIGIBLE: Mark = Mark(1 << 41);
    /// It stands among those that wait to be eligible, rightly or not any longer.
    pub(super) const FILED: Mark = Mark(1 << 42);
    /// It has a real-time curve.
    pub(super) const GUARANTEED: Mark = Mark(1 << 43);
    /// That curve has two slopes.
    pub(super) const BENT: Mark = Mark(1 << 44);
    /// It has a link-share curve.
    pub(super) const SHARES: Mark = Mark(1 << 45);
    /// Its curves and those above have one slope, and no limit is on it or above.
    pub(super) const PLAIN: Mark = Mark(1 << 46);
    /// It became backlogged and eligible since somebody was last chosen.
    pub(super) const ENTERED: Mark = Mark(1 << 47);
    /// It stands among those who become eligible and are due in the same order.
    pub(super) const IN_STEP: Mark = Mark(1 << 48);
}

impl Leaf {
    /// An idle leaf.
    pub(super) const fn new(own: Own) -> Self {
        Self { eligible: 0, state: FRACTION, length: 0, own }
    }

    #[inline]
    pub(super) fn is(&self, mark: Mark) -> bool {
        self.state & mark.0 != 0
    }

    #[inline]
    pub(super) fn mark(&mut self, mark: Mark) {
        self.state |= mark.0;
    }

    #[inline]
    pub(super) fn clear(&mut self, mark: Mark) {
        self.state &= !mark.0;
    }

    /// Whether it waits to be eligible, or should.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.state & (Mark::BACKLOGGED.0 | ORDERED) == Mark::BACKLOGGED.0
    }

    /// Lowers a real-time curve of one slope to one begun at `now`.
    #[inline]
    pub(super) fn restart(&mut self, now: u64) {
        if self.eligible <= now {
            self.eligible = now;
            self.state |= FRACTION;
        }
    }

    /// The criterion served `bytes` of a leaf whose curve has one slope; it is in no order any
    /// longer.
    #[inline(always)]
    pub(super) fn advance(&mut self, slope: &Slope, bytes: u32) {
        let (eligible, fraction) = self.after(slope, bytes);
        self.eligible = eligible;
        self.state = self.state & !(FRACTION | ORDERED) | fraction;
    }

    /// When a curve of one slope reaches the first packet.
    #[inline(always)]
    pub(super) fn deadline(&self, slope: &Slope) -> u64 {
        self.after(slope, self.length).0
    }

    #[inline(always)]
    fn after(&self, slope: &Slope, bytes: u32) -> (u64, u64) {
        let fraction = self.state & FRACTION;
        if let Some(time) = slope.short_cost(bytes, fraction) {
            let whole = (time >> FRACTION_BITS) as u64;
            return (self.eligible.saturating_add(whole), time as u64 & FRACTION);
        }
        self.long_after(slope, bytes)
    }

    #[inline(never)]
    fn long_after(&self, slope: &Slope, bytes: u32) -> (u64, u64) {
        let fraction = self.state & FRACTION;
        let time = slope.cost(bytes) + u128::from(fraction);
        let whole = u64::try_from(time >> FRACTION_BITS).unwrap_or(u64::MAX);
        (self.eligible.saturating_add(whole), time as u64 & FRACTION)
    }

    /// How far the real-time curve of one slope has come, as that of `other`.
    pub(super) fn go_on_from(&mut self, other: &Leaf) {
        self.eligible = other.eligible;
        self.state = self.state & !FRACTION | other.state & FRACTION;
    }
}

impl Kinds {
    /// The number of a kind.
    pub(super) fn intern(&mut self, kind: Kind) -> u32 {
        let table = &mut self.table;
        *self.known.entry(kind).or_insert_with(|| {
            table.push(kind);
            table.len() as u32 - 1
        })
    }

    /// Nothing more comes.
    pub(super) fn finish(mut self) -> Vec<Kind> {
        self.table.shrink_to_fit();
        self.table
    }
}

const FRACTION: u64 = (1 << FRACTION_BITS) - 1;
/// The marks of who stands in an order in which leaves are chosen.
const ORDERED: u64 = Mark::ELIGIBLE.0 | Mark::IN_STEP.0;
const _: () = assert!(size_of::<Leaf>() == 36, "more leaves fit into the caches");
