//! The fluid model of the link: generalised processor sharing [parekh93 §II], event by event.
//!
//! Every leaf that the fluid has not drained shares the line by its weight, so virtual time
//! advances at the line's rate over the sum of those weights. The exact instant at which a leaf is
//! drained is an event; between events virtual time does not advance, and only work accumulates,
//! exactly. The one division is done when a leaf begins to drain, to update virtual time.
//! Invariants: `weight` is the sum over the leaves in `busy`; the fluid's work never exceeds the
//! packets that the line was handed, nor lags far behind them, so the fluid follows a line that
//! deviates from its rate.

use crate::ids::LeafId;
use crate::order::heap::Heaps;
use crate::order::weights::{LENGTH_MAX, Weights, written};
use crate::sched::Tree;
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::Instant;
use alloc::vec::Vec;

/// The fluid's leaves and its clock.
pub(super) struct Fluid {
    leaves: Vec<Leaf>,
    /// The leaves that are not drained, by when their scheduled part will be.
    busy: Heaps<u64>,
    /// The sum of the weights of the leaves in `busy`.
    weight: u128,
    virtual_time: u64,
    time: Instant,
    /// Work done that virtual time does not show yet. Work is counted so that a unit of virtual
    /// time is 8 * 10^9 units of work for each unit of weight.
    saved: u128,
    /// Work that the line was handed and the fluid has not done.
    undone: u128,
    per_nano: u128,
    per_byte: u128,
}

/// The state of a leaf in the fluid.
struct Leaf {
    /// Virtual time per byte.
    inverse: u64,
    weight: u32,
    /// Bytes behind those that are scheduled to be drained.
    pending: u64,
}

impl Fluid {
    pub(super) fn new(tree: &Tree, weights: &Weights) -> Self {
        let leaf = |(&inverse, weight): (&u64, u64)| {
            let weight = weight as u32;
            Leaf { inverse, weight, pending: 0 }
        };
        let leaves: Vec<_> = weights.inverses.iter().zip(written(tree)).map(leaf).collect();
        let total: u128 = written(tree).map(u128::from).sum();
        // At most 2^16 a leaf, and 2^30 more only where few leaves have small weights.
        let scale = total << weights.shift;
        Self {
            busy: Heaps::new(&[leaves.len()], leaves.len()),
            leaves,
            weight: 0,
            virtual_time: 0,
            time: Instant::ZERO,
            saved: 0,
            undone: 0,
            per_nano: scale.saturating_mul(u128::from(tree.rate().bits_per_second())),
            per_byte: scale.saturating_mul(BIT_NANOS),
        }
    }

    /// Returns the virtual time per byte of `leaf`.
    #[inline]
    pub(super) fn inverse(&self, leaf: LeafId) -> u64 {
        self.leaves[leaf.index()].inverse
    }

    /// Lets the fluid run until `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        let nanos = u128::from(now.since(self.time).as_nanos());
        self.time = now;
        self.work(self.per_nano.saturating_mul(nanos));
    }

    /// Does the given work, or all that is left if that is less.
    fn work(&mut self, work: u128) {
        let work = work.min(self.undone);
        self.undone -= work;
        self.saved = self.saved.saturating_add(work);
        while let Some((due, leaf)) = self.busy.first(0) {
            let needed = self.work_for(due.saturating_sub(self.virtual_time));
            if self.saved < needed {
                return;
            }
            self.saved -= needed;
            self.virtual_time = self.virtual_time.max(due);
            self.run_dry(leaf, due);
        }
        (self.saved, self.undone) = (0, 0);
    }

    /// Schedules the next part of `leaf`, if there is one, after the last part was drained at
    /// `due`.
    fn run_dry(&mut self, leaf: u32, due: u64) {
        let state = &mut self.leaves[leaf as usize];
        let next = state.pending.min(LENGTH_MAX);
        state.pending -= next;
        if next > 0 {
            return self.busy.update(0, leaf, due + next * state.inverse);
        }
        debug_assert!(self.weight >= u128::from(state.weight), "each busy leaf is in the sum");
        self.weight -= u128::from(state.weight);
        self.busy.remove(0, leaf);
    }

    /// Adds `length` bytes to `leaf`. Returns the virtual time at which they start if the leaf was
    /// drained; else they start right behind the others.
    pub(super) fn arrived(&mut self, leaf: LeafId, length: u64) -> Option<u64> {
        if self.busy.contains(leaf.0) {
            self.leaves[leaf.index()].pending += length;
            return None;
        }
        Some(self.begin(leaf, length * self.inverse(leaf)))
    }

    /// Lets `leaf`, which is drained, drain for a further `span` of virtual time; returns when it
    /// begins.
    pub(super) fn begin(&mut self, leaf: LeafId, span: u64) -> u64 {
        let unit = self.work_for(1);
        if let Some(passed) = self.saved.checked_div(unit) {
            // This is less than the work until the first event, so it fits.
            self.virtual_time += passed as u64;
            self.saved -= passed * unit;
        }
        self.weight += u128::from(self.leaves[leaf.index()].weight);
        self.busy.insert(0, leaf.0, self.virtual_time + span);
        self.virtual_time
    }

    /// Records that the line was handed `length` bytes.
    pub(super) fn handed(&mut self, length: u64) {
        self.undone = self.undone.saturating_add(self.per_byte.saturating_mul(u128::from(length)));
        let excess = self.undone.saturating_sub(self.per_byte.saturating_mul(UNDONE_MAX));
        if excess > 0 {
            self.work(excess);
        }
    }

    /// Removes a packet of about `length` that will never be sent. The part that is already
    /// scheduled, at most a packet or two, stays.
    pub(super) fn dropped(&mut self, leaf: LeafId, length: u64) {
        let pending = &mut self.leaves[leaf.index()].pending;
        *pending = pending.saturating_sub(length);
    }

    /// Records that `leaf` is no longer backlogged and that its last packet was finished at
    /// `finish`: nothing behind that can be left in the fluid.
    pub(super) fn emptied(&mut self, leaf: LeafId, finish: u64) {
        // A drained leaf has nothing pending.
        let Some(due) = self.busy.key(0, leaf.0) else { return };
        let Leaf { inverse, pending, .. } = &mut self.leaves[leaf.index()];
        let rest = finish.saturating_sub(due);
        if pending.saturating_mul(*inverse) > rest {
            *pending = rest / *inverse;
        }
    }

    pub(super) fn virtual_time(&self) -> u64 {
        self.virtual_time
    }

    /// Returns virtual time with the work that it does not show yet. While no leaf is drained or
    /// begins to drain, that is all work.
    pub(super) fn reached(&self) -> u64 {
        let passed = self.saved.checked_div(self.work_for(1)).unwrap_or(0);
        self.virtual_time.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Takes over the work that `old` still had to do, in this fluid's units.
    pub(super) fn inherit(&mut self, now: Instant, old: &Fluid) {
        self.time = now;
        let bytes = old.undone / old.per_byte;
        self.undone = self.per_byte.saturating_mul(bytes);
    }

    /// Moves virtual time, and all values in it, back by `back`.
    pub(super) fn move_back(&mut self, back: u64) {
        assert!(back <= self.virtual_time, "virtual time stays above zero");
        self.virtual_time -= back;
        self.busy.change_keys(|due| due.saturating_sub(back));
    }

    /// Returns the work that moves virtual time by `span`.
    fn work_for(&self, span: u64) -> u128 {
        // Below 2^58 * 2^36 * 2^33 with a million leaves; more only saturates.
        (self.weight * BIT_NANOS).saturating_mul(u128::from(span))
    }
}

/// Bound: bytes that the line may be ahead of the fluid of `wfq`; beyond, the fluid follows the
/// line. A driver's buffer. So tags stay near virtual time.
const UNDONE_MAX: u128 = 1 << 20;
/// More than a leaf has in the fluid beside what waits in it: what the line is ahead of the fluid.
const PENDING_MAX: u64 = 1 << 24;
/// The ns that a byte takes at 1 bit/s.
const BIT_NANOS: u128 = 8_000_000_000;

state!(Leaf { pending; kept: inverse, weight });

/// The sum of weights follows from which leaves are not drained.
impl State for Fluid {
    fn save(&self, to: &mut Writer) {
        let Self {
            leaves,
            busy,
            weight: _,
            virtual_time,
            time,
            saved,
            undone,
            per_nano: _,
            per_byte: _,
        } = self;
        leaves.save(to);
        busy.save(to);
        virtual_time.save(to);
        time.save(to);
        saved.save(to);
        undone.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.leaves.load(from)?;
        self.busy.load(from)?;
        self.virtual_time.load(from)?;
        self.time.load(from)?;
        self.saved.load(from)?;
        self.undone.load(from)?;
        let weights = self.busy.items(0).map(|(_, leaf)| self.leaves[leaf as usize].weight);
        self.weight = weights.map(u128::from).sum();
        Ok(())
    }
}

impl Fluid {
    /// Whether this can be the fluid of leaves with so many `packets`, in which no tag is later
    /// than `latest`.
    pub(super) fn is_sound(&self, packets: &[u32], latest: u64) -> bool {
        let first = self.busy.first(0);
        let ahead = first.map(|(due, _)| self.work_for(due.saturating_sub(self.virtual_time)));
        let is_pending = |(leaf, packets): (&Leaf, &u32)| {
            leaf.pending <= LENGTH_MAX * u64::from(*packets) + PENDING_MAX
        };
        self.virtual_time <= latest
            && self.busy.items(0).all(|(due, _)| due <= latest)
            && ahead.map_or(self.saved == 0, |ahead| self.saved <= ahead)
            && self.undone <= self.per_byte.saturating_mul(UNDONE_MAX)
            && self.leaves.iter().zip(packets).all(is_pending)
    }
}
