//! The real-time criterion: among the leaves that are eligible, the one with the earliest deadline
//! [algorithms §6.5]. Only leaves with a real-time curve are here.
//!
//! Invariant: a backlogged leaf stands either in the lane of those that wait to be eligible, or in
//! that of those that are, which is ordered by deadlines.

use super::curve::{Curves, Position, Spec, fine, length, round_up};
use crate::ids::LeafId;
use crate::sched::Head;
use crate::sched::tournament::{Lane, Order};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// The leaves with real-time curves, numbered from 0.
pub(super) struct RealTime {
    leaves: Vec<Guarantee>,
    order: Order,
    waiting: Lane,
    eligible: Lane,
}

/// What a leaf was guaranteed and got. Deadlines and eligible times are rounded up.
struct Guarantee {
    leaf: LeafId,
    curve: u32,
    position: Position,
    eligible: Instant,
    deadline: Instant,
    /// Whether it was backlogged when the tree was changed.
    resumes: bool,
}

impl RealTime {
    /// The leaves with their curves, all idle.
    pub(super) fn new(curves: &mut Curves, leaves: &[(LeafId, Spec)]) -> Self {
        let guarantee = |&(leaf, spec): &(LeafId, Spec)| Guarantee {
            leaf,
            curve: curves.intern(spec, 0),
            position: Position::IDLE,
            eligible: Instant::ZERO,
            deadline: Instant::ZERO,
            resumes: false,
        };
        let leaves: Vec<_> = leaves.iter().map(guarantee).collect();
        // The same leaves twice: who is in one lane is out of the other.
        let (order, lanes) = Order::new(&[leaves.len(); 2]);
        Self { leaves, order, waiting: lanes[0], eligible: lanes[1] }
    }

    /// [algorithms §6.4] A leaf becomes backlogged. One that was so when the tree was changed
    /// goes on where it was, while classes may `resume`.
    pub(super) fn enter(&mut self, curves: &Curves, index: u32, at: (Instant, Head), resume: bool) {
        let (now, head) = at;
        let this = &mut self.leaves[index as usize];
        let curve = curves.at(this.curve);
        if !(resume && this.resumes) {
            curve.restart(&mut this.position, fine(now));
        }
        this.eligible = round_up(curve.eligible(&this.position));
        this.deadline = round_up(curve.reaches(&this.position, length(head.length)));
        self.file(index, now);
    }

    /// The leaf with the earliest deadline among those that are eligible now.
    #[inline]
    pub(super) fn first(&mut self, now: Instant) -> Option<LeafId> {
        // What is held at the largest key may not be due yet.
        while let Some(index) = self.order.lowest_until(&self.waiting, now.as_nanos()) {
            if self.leaves[index as usize].eligible > now {
                break;
            }
            self.file(index, now);
        }
        let index = self.order.lowest(&self.eligible)? - self.leaves.len() as u32;
        Some(self.leaves[index as usize].leaf)
    }

    /// When the next leaf becomes eligible, if none is.
    pub(super) fn wake(&self) -> Option<Instant> {
        Some(self.leaves[self.order.lowest(&self.waiting)? as usize].eligible)
    }

    /// When the first packet of a backlogged leaf becomes, or became, eligible.
    pub(super) fn eligible(&self, index: u32) -> Instant {
        self.leaves[index as usize].eligible
    }

    /// By when it is to be finished.
    #[cfg(test)]
    pub(super) fn deadline(&self, index: u32) -> Instant {
        self.leaves[index as usize].deadline
    }

    /// [algorithms §6.5] A leaf sent a packet; `served` are its bytes if this criterion chose it,
    /// otherwise none. `next` waits there now.
    #[inline]
    pub(super) fn sent(
        &mut self,
        now: Instant,
        curves: &Curves,
        index: u32,
        (served, next): (Bytes, Option<Head>),
    ) {
        let this = &mut self.leaves[index as usize];
        let curve = curves.at(this.curve);
        if served > Bytes::ZERO {
            curve.advance(&mut this.position, length(served));
        }
        let Some(next) = next else {
            return self.remove(index);
        };
        if served > Bytes::ZERO {
            this.eligible = round_up(curve.eligible(&this.position));
        }
        // The length of the next packet counts, not that of the last.
        this.deadline = round_up(curve.reaches(&this.position, length(next.length)));
        self.file(index, now);
    }

    /// What was guaranteed to leaf `from` of `old` goes on here, if the curve is the same.
    pub(super) fn inherit(&mut self, curves: &Curves, index: u32, old: (&RealTime, &Curves, u32)) {
        let (old, old_curves, from) = old;
        let (this, that) = (&mut self.leaves[index as usize], &old.leaves[from as usize]);
        if curves.at(this.curve) == old_curves.at(that.curve) {
            this.position = that.position;
            this.resumes = old.takes_part(from);
        }
    }

    fn takes_part(&self, index: u32) -> bool {
        let eligible = index + self.leaves.len() as u32;
        self.order.takes_part(index) || self.order.takes_part(eligible)
    }

    /// Puts a leaf into the lane where it belongs.
    #[inline]
    fn file(&mut self, index: u32, now: Instant) {
        let Guarantee { eligible, deadline, .. } = self.leaves[index as usize];
        let other = index + self.leaves.len() as u32;
        if eligible <= now {
            self.order.end_wait(&mut self.waiting, index);
            self.order.wait(&mut self.eligible, other, deadline);
        } else {
            self.order.end_wait(&mut self.eligible, other);
            self.order.wait(&mut self.waiting, index, eligible);
        }
    }

    fn remove(&mut self, index: u32) {
        self.order.end_wait(&mut self.waiting, index);
        self.order.end_wait(&mut self.eligible, index + self.leaves.len() as u32);
    }
}

/// What a leaf takes, its places aside.
#[cfg(test)]
pub(super) const GUARANTEE_BYTES: usize = size_of::<Guarantee>();
