//! The fluid beside the packets: generalised processor sharing [parekh93 §II], event by event.
//!
//! Every leaf that the fluid has not drained shares the line by its weight, so virtual time runs at
//! the line's rate over the sum of those weights. The exact instant at which a leaf runs dry is an
//! event; between events virtual time is not moved, only work is saved up, without a fraction lost.
//! The one division is done when a leaf begins to drain, to bring virtual time up to date.
//! Invariants: `weight` is the sum over the leaves in `busy`; the fluid never does more work than
//! the line was handed packets for, nor much less, so a line that does not keep its rate takes the
//! fluid along.

use crate::order::tournament::{Lane, Order};
use crate::order::weights::{LENGTH_MAX, Weights, written};
use crate::ids::LeafId;
use crate::sched::Tree;
use crate::units::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The fluid's leaves and its clock.
pub(super) struct Fluid {
    /// Of each leaf the bytes behind what is scheduled to be drained.
    pending: Vec<u64>,
    /// Of each leaf, which part of the line it has.
    part_of: Vec<u32>,
    parts: Vec<Part>,
    /// The leaves that are not dry, by when what is scheduled of them will be drained.
    busy: (Order, Lane),
    /// Of the leaves in `busy`.
    weight: u128,
    virtual_time: u64,
    time: Instant,
    /// Work done that virtual time does not show yet. Work is counted so that a unit of virtual
    /// time is 8 * 10^9 units of work for each unit of weight.
    saved: u128,
    /// Work that the line was handed and the fluid has not done.
    owed: u128,
    per_nano: u128,
    per_byte: u128,
}

/// What leaves of one weight share.
#[derive(Clone, Copy)]
struct Part {
    /// Virtual time per byte.
    inverse: u64,
    weight: u32,
}

impl Fluid {
    pub(super) fn new(tree: &Tree, weights: &Weights) -> Self {
        let (mut parts, mut alike) = (Vec::new(), BTreeMap::new());
        let mut part = |(&inverse, weight): (&u64, u64)| {
            let which = *alike.entry(weight).or_insert(parts.len() as u32);
            if which as usize == parts.len() {
                parts.push(Part { inverse, weight: weight as u32 });
            }
            which
        };
        let part_of: Vec<_> = weights.inverses.iter().zip(written(tree)).map(&mut part).collect();
        parts.shrink_to_fit();
        let total: u128 = written(tree).map(u128::from).sum();
        // At most 2^16 a leaf, and 2^30 more only where few leaves have small weights.
        let scale = total << weights.shift;
        Self {
            pending: alloc::vec![0; part_of.len()],
            busy: super::order(part_of.len()),
            part_of,
            parts,
            weight: 0,
            virtual_time: 0,
            time: Instant::ZERO,
            saved: 0,
            owed: 0,
            per_nano: scale.saturating_mul(u128::from(tree.rate().bits_per_second())),
            per_byte: scale.saturating_mul(BIT_NANOS),
        }
    }

    /// Virtual time per byte of `leaf`.
    #[inline]
    pub(super) fn inverse(&self, leaf: LeafId) -> u64 {
        self.part(leaf.0).inverse
    }

    #[inline]
    fn part(&self, leaf: u32) -> Part {
        self.parts[self.part_of[leaf as usize] as usize]
    }

    /// What is scheduled of `leaf` will be drained at `due`.
    #[inline]
    fn schedule(&mut self, leaf: u32, due: u64) {
        let (order, lane) = &mut self.busy;
        order.set(lane, leaf, due);
    }

    /// Lets the fluid run until `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        let nanos = u128::from(now.since(self.time).as_nanos());
        self.time = now;
        self.work(self.per_nano.saturating_mul(nanos));
    }

    /// Does so much work, or as much as is owed.
    fn work(&mut self, work: u128) {
        let work = work.min(self.owed);
        self.owed -= work;
        self.saved = self.saved.saturating_add(work);
        while let Some(leaf) = self.busy.0.lowest(&self.busy.1) {
            let due = self.busy.0.key(leaf);
            let needed = self.work_for(due.saturating_sub(self.virtual_time));
            if self.saved < needed {
                return;
            }
            self.saved -= needed;
            self.virtual_time = self.virtual_time.max(due);
            self.run_dry(leaf, due);
        }
        (self.saved, self.owed) = (0, 0);
    }

    /// What had been scheduled of `leaf` is drained at `due`: the next of it follows, if there is
    /// more.
    fn run_dry(&mut self, leaf: u32, due: u64) {
        let Part { inverse, weight } = self.part(leaf);
        let pending = &mut self.pending[leaf as usize];
        let next = (*pending).min(LENGTH_MAX);
        *pending -= next;
        if next > 0 {
            return self.schedule(leaf, due + next * inverse);
        }
        self.weight -= u128::from(weight);
        let (order, lane) = &mut self.busy;
        order.leave(lane, leaf, 0);
    }

    /// `length` bytes come to `leaf`. If it was dry they start at the virtual time that is
    /// answered, else right behind the others.
    pub(super) fn arrived(&mut self, leaf: LeafId, length: u64) -> Option<u64> {
        if self.busy.0.takes_part(leaf.0) {
            self.pending[leaf.index()] += length;
            return None;
        }
        Some(self.begin(leaf, length * self.inverse(leaf)))
    }

    /// Lets `leaf`, which is dry, drain for `span` of virtual time; answers when it begins.
    pub(super) fn begin(&mut self, leaf: LeafId, span: u64) -> u64 {
        let unit = self.work_for(1);
        if let Some(passed) = self.saved.checked_div(unit) {
            // Less than what is needed for the first event, so this fits.
            self.virtual_time += passed as u64;
            self.saved -= passed * unit;
        }
        self.weight += u128::from(self.part(leaf.0).weight);
        self.schedule(leaf.0, self.virtual_time + span);
        self.virtual_time
    }

    /// The line was handed `length` bytes.
    pub(super) fn handed(&mut self, length: u64) {
        self.owed = self.owed.saturating_add(self.per_byte.saturating_mul(u128::from(length)));
        let excess = self.owed.saturating_sub(self.per_byte.saturating_mul(OWED_MAX));
        if excess > 0 {
            self.work(excess);
        }
    }

    /// A packet of about `length` will never be sent. What is already scheduled, of at most a
    /// packet or two, stays.
    pub(super) fn dropped(&mut self, leaf: LeafId, length: u64) {
        let pending = &mut self.pending[leaf.index()];
        *pending = pending.saturating_sub(length);
    }

    /// Nothing of `leaf` waits for the line any more, and what it sent was finished at `finish`:
    /// nothing behind that can be left in the fluid.
    pub(super) fn emptied(&mut self, leaf: LeafId, finish: u64) {
        let inverse = self.inverse(leaf);
        let pending = &mut self.pending[leaf.index()];
        // Where something is pending the leaf is busy.
        let rest = finish.saturating_sub(self.busy.0.key(leaf.0));
        if pending.saturating_mul(inverse) > rest {
            *pending = rest / inverse;
        }
    }

    pub(super) fn virtual_time(&self) -> u64 {
        self.virtual_time
    }

    /// Takes over the work that `old` still had to do, in the measure of this one.
    pub(super) fn inherit(&mut self, now: Instant, old: &Fluid) {
        self.time = now;
        let bytes = old.owed / old.per_byte;
        self.owed = self.per_byte.saturating_mul(bytes);
    }

    /// Moves virtual time, and all that is measured in it, `back`.
    pub(super) fn move_back(&mut self, back: u64) {
        self.virtual_time -= back;
        super::move_back(&mut self.busy, back);
    }

    /// The work that moves virtual time by `span`.
    fn work_for(&self, span: u64) -> u128 {
        // Below 2^58 * 2^36 * 2^33 with a million leaves; more only saturates.
        (self.weight * BIT_NANOS).saturating_mul(u128::from(span))
    }
}

/// Bytes that the line may be ahead of the fluid: a driver's buffer. A line that is faster than its
/// rate takes the fluid along from here on, so tags stay near virtual time.
const OWED_MAX: u128 = 1 << 20;
/// A byte at 1 bit/s takes so many ns.
const BIT_NANOS: u128 = 8_000_000_000;
