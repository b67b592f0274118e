//! The fluid beside the packets: generalised processor sharing [parekh93 §II], event by event.
//!
//! Every leaf that the fluid has not drained shares the line by its weight, so virtual time runs at
//! the line's rate over the sum of those weights. The exact instant at which a leaf runs dry is an
//! event; between events virtual time is not moved, only work is saved up, without a fraction lost.
//! The one division is done when a leaf begins to drain, to bring virtual time up to date.
//! Invariants: `weight` is the sum over the leaves in `busy`; the fluid never does more work than
//! the line was handed packets for, nor much less, so a line that does not keep its rate takes the
//! fluid along.

use super::super::calendar::{Calendar, Links, Member};
use super::super::weights::{LENGTH_MAX, Weights, written};
use crate::ids::LeafId;
use crate::sched::Tree;
use crate::units::Instant;
use alloc::vec::Vec;

/// The fluid's leaves and its clock.
pub(super) struct Fluid {
    leaves: Vec<Drain>,
    busy: Calendar<0>,
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

/// A leaf of the fluid.
struct Drain {
    /// When what is not `pending` will be drained.
    due: u64,
    /// Bytes behind that.
    pending: u64,
    inverse: u64,
    weight: u32,
    links: Links,
}

impl Fluid {
    pub(super) fn new(tree: &Tree, weights: &Weights) -> Self {
        let drain = |(inverse, weight): (&u64, u64)| Drain {
            due: 0,
            pending: 0,
            inverse: *inverse,
            weight: weight as u32,
            links: Links::NOWHERE,
        };
        let total: u128 = written(tree).map(u128::from).sum();
        let leaves: Vec<_> = weights.inverses.iter().zip(written(tree)).map(drain).collect();
        let longest =
            weights.inverses.iter().max().copied().unwrap_or(1) * tree.mtu().get().min(LENGTH_MAX);
        // At most 2^16 a leaf, and 2^30 more only where few leaves have small weights.
        let scale = total << weights.shift;
        Self {
            busy: Calendar::new(leaves.len(), 2 * longest),
            leaves,
            weight: 0,
            virtual_time: 0,
            time: Instant::ZERO,
            saved: 0,
            owed: 0,
            per_nano: scale.saturating_mul(u128::from(tree.rate().bits_per_second())),
            per_byte: scale.saturating_mul(BIT_NANOS),
        }
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
        while let Some(leaf) = self.busy.first(&self.leaves) {
            let due = self.leaves[leaf.index()].due;
            let needed = self.work_for(due.saturating_sub(self.virtual_time));
            if self.saved < needed {
                return;
            }
            self.saved -= needed;
            self.virtual_time = self.virtual_time.max(due);
            self.run_dry(leaf);
        }
        (self.saved, self.owed) = (0, 0);
    }

    /// What had been scheduled of `leaf` is drained: the next of it follows, if there is more.
    fn run_dry(&mut self, leaf: LeafId) {
        self.busy.remove(&mut self.leaves, leaf);
        let drain = &mut self.leaves[leaf.index()];
        let next = drain.pending.min(LENGTH_MAX);
        if next == 0 {
            self.weight -= u128::from(drain.weight);
            return;
        }
        drain.pending -= next;
        drain.due += next * drain.inverse;
        self.busy.insert(&mut self.leaves, leaf);
    }

    /// `length` bytes come to `leaf`. If it was dry they start at the virtual time that is
    /// answered, else right behind the others.
    pub(super) fn arrived(&mut self, leaf: LeafId, length: u64) -> Option<u64> {
        let drain = &mut self.leaves[leaf.index()];
        if !drain.links.are_nowhere() {
            drain.pending += length;
            return None;
        }
        let span = length * drain.inverse;
        Some(self.begin(leaf, span))
    }

    /// Lets `leaf`, which is dry, drain for `span` of virtual time; answers when it begins.
    pub(super) fn begin(&mut self, leaf: LeafId, span: u64) -> u64 {
        let unit = self.work_for(1);
        if let Some(passed) = self.saved.checked_div(unit) {
            // Less than what is needed for the first event, so this fits.
            self.virtual_time += passed as u64;
            self.saved -= passed * unit;
        }
        let drain = &mut self.leaves[leaf.index()];
        drain.due = self.virtual_time + span;
        self.weight += u128::from(drain.weight);
        self.busy.insert(&mut self.leaves, leaf);
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
        let drain = &mut self.leaves[leaf.index()];
        drain.pending = drain.pending.saturating_sub(length);
    }

    /// Nothing of `leaf` waits for the line any more, and what it sent was finished at `finish`:
    /// nothing behind that can be left in the fluid.
    pub(super) fn emptied(&mut self, leaf: LeafId, finish: u64) {
        let drain = &mut self.leaves[leaf.index()];
        let rest = finish.saturating_sub(drain.due);
        if drain.pending.saturating_mul(drain.inverse) > rest {
            drain.pending = rest / drain.inverse;
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
        let mut busy = Vec::new();
        while let Some(leaf) = self.busy.first(&self.leaves) {
            self.busy.remove(&mut self.leaves, leaf);
            busy.push(leaf);
        }
        self.virtual_time -= back;
        self.leaves.iter_mut().for_each(|drain| drain.due = drain.due.saturating_sub(back));
        busy.into_iter().for_each(|leaf| self.busy.insert(&mut self.leaves, leaf));
    }

    /// The work that moves virtual time by `span`.
    fn work_for(&self, span: u64) -> u128 {
        // Below 2^58 * 2^36 * 2^33 with a million leaves; more only saturates.
        (self.weight * BIT_NANOS).saturating_mul(u128::from(span))
    }
}

impl Member<0> for Drain {
    fn tag(&self) -> u64 {
        self.due
    }

    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Bytes that the line may be ahead of the fluid: a driver's buffer. A line that is faster than its
/// rate takes the fluid along from here on, so tags stay near virtual time.
const OWED_MAX: u128 = 1 << 20;
/// A byte at 1 bit/s takes so many ns.
const BIT_NANOS: u128 = 8_000_000_000;
