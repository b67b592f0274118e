//! Upper limits: from when on a class may be served by link sharing [algorithms §6.4-6.5].
//!
//! Only classes with an upper limit of their own or somewhere below them are here, so others pay
//! nothing for it. A class *fits* from the later of two times on: when its own curve reaches what
//! it was served, and when the first of its active children fits. Invariant: an active class that
//! does not fit yet waits in the lane of its family.

use super::curve::{Curves, Position, fine, round_up};
use crate::order::tournament::{Lane, Order};
use crate::units::{Duration, Instant};
use alloc::vec::Vec;

/// The classes under upper limits, numbered from 0, families one after the other.
#[derive(Clone)]
pub(super) struct Limits {
    table: Vec<Limit>,
    order: Order,
    lanes: Vec<Lane>,
}

/// One class.
#[derive(Clone)]
pub(super) struct Limit {
    /// Its curve, [`NONE`] if only something below it has one.
    pub(super) curve: u32,
    /// Its place in the link-sharing tree.
    pub(super) slot: u32,
    /// The lane of its family.
    pub(super) lane: u32,
    /// What it may be late without losing it: a largest packet at its own limit.
    pub(super) slack: Duration,
    position: Position,
    /// From when on it fits as far as its own curve goes.
    own: Instant,
    /// From when on it fits.
    fit: Instant,
    active: bool,
}

impl Limit {
    pub(super) fn new(curve: u32, slot: u32, lane: u32, slack: Duration) -> Self {
        let (own, fit) = (Instant::ZERO, Instant::ZERO);
        Self { curve, slot, lane, slack, position: Position::IDLE, own, fit, active: false }
    }
}

impl Limits {
    /// Classes, none active; `sizes` counts those of each family that has any.
    pub(super) fn new(table: Vec<Limit>, sizes: &[usize]) -> Self {
        let (order, lanes) = Order::new(sizes);
        Self { table, order, lanes }
    }

    /// The class becomes active: its curve begins anew where that is lower.
    pub(super) fn restart(&mut self, curves: &Curves, index: u32, now: Instant) {
        let this = &mut self.table[index as usize];
        if this.curve != NONE {
            let curve = curves.at(this.curve);
            curve.restart(&mut this.position, fine(now));
            this.own = round_up(curve.reached(&this.position));
        }
    }

    /// The class, or one below it, sent `bytes`. An active one that could have been served earlier
    /// than its slack ago first loses what it did not use [algorithms §6.5].
    pub(super) fn advance(&mut self, curves: &Curves, index: u32, now: Instant, bytes: u32) {
        let this = &mut self.table[index as usize];
        if this.curve == NONE {
            return;
        }
        let curve = curves.at(this.curve);
        if this.active && this.own.after(this.slack) < now {
            this.position.delay(fine(now) - curve.reached(&this.position));
        }
        curve.advance(&mut this.position, bytes);
        this.own = round_up(curve.reached(&this.position));
    }

    /// Whether an active class, below which somebody fits from `below` on, fits now; if not, it
    /// waits.
    #[inline]
    pub(super) fn place(&mut self, index: u32, now: Instant, below: Instant) -> bool {
        let this = &mut self.table[index as usize];
        this.active = true;
        this.fit = this.own.max(below);
        let fits = this.fit <= now;
        let lane = &mut self.lanes[this.lane as usize];
        if fits {
            self.order.end_wait(lane, index);
        } else {
            self.order.wait(lane, index, this.fit);
        }
        fits
    }

    /// The class is not active any longer.
    pub(super) fn leave(&mut self, index: u32) {
        let this = &mut self.table[index as usize];
        this.active = false;
        self.order.end_wait(&mut self.lanes[this.lane as usize], index);
    }

    /// Takes out of the lane a class that waits there and fits now; answers its slot.
    pub(super) fn pop_due(&mut self, lane: u32, now: Instant) -> Option<u32> {
        let index = self.order.lowest(&self.lanes[lane as usize])?;
        let Limit { fit, slot, .. } = self.table[index as usize];
        if fit > now {
            return None;
        }
        self.order.end_wait(&mut self.lanes[lane as usize], index);
        Some(slot)
    }

    /// When the first of those that wait in the lane fits.
    pub(super) fn earliest(&self, lane: u32) -> Option<Instant> {
        let index = self.order.lowest(&self.lanes[lane as usize])?;
        Some(self.table[index as usize].fit)
    }

    /// From when on the class fits by its own curve.
    pub(super) fn own(&self, index: u32) -> Instant {
        self.table[index as usize].own
    }

    /// Goes on where class `from` of `old` was, if its curve is the same; answers whether it is.
    pub(super) fn inherit(&mut self, curves: &Curves, index: u32, old: (&Limits, &Curves, u32)) {
        let (old, old_curves, from) = old;
        let (this, that) = (&mut self.table[index as usize], &old.table[from as usize]);
        let known = this.curve != NONE && that.curve != NONE;
        if known && curves.at(this.curve) == old_curves.at(that.curve) {
            (this.position, this.own) = (that.position, that.own);
        }
    }
}

/// No curve.
pub(super) const NONE: u32 = u32::MAX;
