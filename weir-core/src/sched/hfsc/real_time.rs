//! The real-time criterion: among the leaves that are eligible, the one with the earliest deadline
//! [algorithms §6.4-6.5].
//!
//! A leaf becomes eligible when its eligible curve reaches what the criterion served; its deadline
//! is when its deadline curve reaches the end of its first packet. Both are one runtime curve here,
//! read in two ways. Of equal deadlines that of the leaf declared first is served first, with
//! Linux's rules that of the leaf that was eligible first. Invariant: a backlogged leaf with a
//! real-time curve stands in one lane of `order`, others in none.

use super::curve::{CurveId, Curves, Rules, fine, round_up};
use super::params::ClassPlan;
use super::runtime::Runtime;
use crate::ids::LeafId;
use crate::order::heap::Heaps;
use crate::sched::Kin;
use crate::state::state;
use crate::units::Instant;
use alloc::vec::Vec;

/// The leaves with their deadline curves.
pub(super) struct RealTime {
    leaves: Vec<Leaf>,
    curves: Curves,
    /// The lanes [`WAITING`] and [`ELIGIBLE`].
    order: Heaps<Due>,
    /// How many eligible times were set.
    turns: u64,
}

/// An eligible time or a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Due {
    time: Instant,
    /// [linux] Of equal deadlines the earlier eligible time goes first, then the one set first; 0
    /// with exact rules.
    tie: u64,
}

struct Leaf {
    /// The number of its real-time curve, if it has one.
    curve: Option<CurveId>,
    /// How far the criterion has come on it.
    runtime: Runtime,
    deadline: Instant,
    /// The number of its eligible time among all that were set.
    turn: u64,
    /// Stands in the lane [`ELIGIBLE`].
    is_eligible: bool,
}

impl RealTime {
    /// Leaves with these curves, all idle.
    pub(super) fn new<'a>(rules: Rules, plans: impl Iterator<Item = &'a ClassPlan>) -> Self {
        let mut curves = Curves::new(rules);
        let leaf = |plan: &ClassPlan| Leaf {
            curve: plan.real_time.map(|spec| curves.add(spec)),
            runtime: Runtime::IDLE,
            deadline: Instant::ZERO,
            turn: 0,
            is_eligible: false,
        };
        let leaves: Vec<_> = plans.map(leaf).collect();
        let guaranteed = leaves.iter().filter(|leaf| leaf.curve.is_some()).count();
        let order = Heaps::new(&[guaranteed; 2], leaves.len());
        Self { leaves, curves, order, turns: 0 }
    }

    /// [algorithms §6.4] A leaf becomes backlogged, with a first packet of `length`. One that
    /// `resumes` was so before the tree was changed, and goes on where it was.
    pub(super) fn init_ed(&mut self, now: Instant, leaf: LeafId, length: u32, resumes: bool) {
        let this = &mut self.leaves[leaf.index()];
        let Some(curve) = this.curve.map(|curve| self.curves.at(curve)) else { return };
        if !resumes {
            curve.min_with(&mut this.runtime, fine(now));
        }
        this.deadline = round_up(curve.y2x(&this.runtime, length));
        let eligible = round_up(curve.eligible(&this.runtime));
        self.turns += 1;
        this.turn = self.turns;
        self.insert(now, leaf, eligible);
    }

    /// [algorithms §6.5] The criterion chose the leaf, which sent `bytes`; the length of its `next`
    /// packet, if it has one, makes the next deadline.
    pub(super) fn update_ed(&mut self, now: Instant, leaf: LeafId, bytes: u32, next: Option<u32>) {
        let this = &mut self.leaves[leaf.index()];
        let curve = self.curves.at(this.curve.expect("the criterion chose a leaf with a curve"));
        curve.serve(&mut this.runtime, bytes);
        let Some(length) = next else { return self.remove(leaf) };
        this.deadline = round_up(curve.y2x(&this.runtime, length));
        let eligible = round_up(curve.eligible(&this.runtime));
        self.turns += 1;
        this.turn = self.turns;
        if eligible <= now {
            self.order.update(ELIGIBLE, leaf.0, self.due(leaf));
        } else {
            self.remove(leaf);
            self.insert(now, leaf, eligible);
        }
    }

    /// The first packet of a backlogged leaf has gone, not by this criterion; the length of the
    /// `next` one makes another deadline.
    pub(super) fn update_d(&mut self, leaf: LeafId, next: Option<u32>) {
        let this = &mut self.leaves[leaf.index()];
        let Some(curve) = this.curve.map(|curve| self.curves.at(curve)) else { return };
        let Some(length) = next else { return self.remove(leaf) };
        this.deadline = round_up(curve.y2x(&this.runtime, length));
        if this.is_eligible {
            self.order.update(ELIGIBLE, leaf.0, self.due(leaf));
        }
    }

    /// The eligible leaf with the earliest deadline.
    #[inline]
    pub(super) fn first(&mut self, now: Instant) -> Option<LeafId> {
        let is_over = |row: &(Due, u32)| row.0.time <= now;
        while let Some((Due { time, .. }, leaf)) = self.order.first(WAITING).filter(is_over) {
            self.order.remove(WAITING, leaf);
            self.insert(now, LeafId(leaf), time);
        }
        self.order.first(ELIGIBLE).map(|(_, leaf)| LeafId(leaf))
    }

    /// When the next leaf becomes eligible, if none is.
    pub(super) fn next_eligible(&self) -> Option<Instant> {
        self.order.first(WAITING).map(|(due, _)| due.time)
    }

    /// When the leaf becomes or became eligible and its deadline, if it has a real-time curve.
    pub(super) fn times(&self, leaf: LeafId) -> Option<(Instant, Instant)> {
        let this = &self.leaves[leaf.index()];
        let eligible = |curve| round_up(self.curves.at(curve).eligible(&this.runtime));
        this.curve.map(|curve| (eligible(curve), this.deadline))
    }

    /// Returns whether `leaf` can have the curve of `plan`: there is room if it had one before.
    pub(super) fn fits(&self, leaf: LeafId, plan: &ClassPlan) -> bool {
        let has_curve = self.leaves[leaf.index()].curve.is_some();
        has_curve == plan.real_time.is_some() && self.curves.has_room(self.leaves.len())
    }

    /// Gives `leaf`, which is idle, the curve of `plan`; under another curve it starts anew.
    pub(super) fn refit(&mut self, leaf: LeafId, plan: &ClassPlan, is_new: bool) {
        let this = &mut self.leaves[leaf.index()];
        let curve = plan.real_time.map(|spec| self.curves.add(spec));
        if is_new || curve != this.curve {
            (this.curve, this.runtime) = (curve, Runtime::IDLE);
        }
    }

    /// Checks a loaded state: a leaf is in the order if it has a packet and a guarantee.
    pub(super) fn knows(&self, leaf: LeafId, waits: bool) -> bool {
        let guaranteed = self.leaves[leaf.index()].curve.is_some();
        self.order.contains(leaf.0) == (waits && guaranteed)
    }

    /// Whether each leaf is in the lane that it says.
    fn is_sound(&self) -> bool {
        let is_eligible = |leaf: u32| self.leaves[leaf as usize].is_eligible;
        self.order.items(WAITING).all(|(_, leaf)| !is_eligible(leaf))
            && self.order.items(ELIGIBLE).all(|(_, leaf)| is_eligible(leaf))
            && self.turns <= u64::MAX >> 1
    }

    #[inline]
    fn insert(&mut self, now: Instant, leaf: LeafId, eligible: Instant) {
        let this = &mut self.leaves[leaf.index()];
        this.is_eligible = eligible <= now;
        if this.is_eligible {
            self.order.insert(ELIGIBLE, leaf.0, self.due(leaf));
        } else {
            self.order.insert(WAITING, leaf.0, Due { time: eligible, tie: 0 });
        }
    }

    /// The key by which an eligible leaf is ordered.
    #[inline]
    fn due(&self, leaf: LeafId) -> Due {
        let this = &self.leaves[leaf.index()];
        let time = this.deadline;
        if self.curves.rules() == Rules::Exact {
            return Due { time, tie: 0 };
        }
        let eligible = self.times(leaf).map_or(Instant::ZERO, |times| times.0);
        let ticks = time.as_nanos().saturating_sub(eligible.as_nanos()) >> 6;
        let later = u32::MAX - u32::try_from(ticks).unwrap_or(u32::MAX);
        // The order of equals repeats itself after 2^32 of them, which harms nothing.
        Due { time, tie: u64::from(later) << 32 | u64::from(this.turn as u32) }
    }

    #[inline]
    fn remove(&mut self, leaf: LeafId) {
        let lane = if self.leaves[leaf.index()].is_eligible { ELIGIBLE } else { WAITING };
        self.order.remove(lane, leaf.0);
    }

    /// Takes over the runtime curves of leaves whose curve is the same in `old`; returns for each
    /// leaf whether it was backlogged there.
    pub(super) fn inherit(&mut self, old: &Self, kin: &Kin) -> Vec<bool> {
        let mut resumes = alloc::vec![false; self.leaves.len()];
        for (new, from) in kin.leaves() {
            let (this, that) = (&mut self.leaves[new.index()], &old.leaves[from.index()]);
            let (Some(curve), Some(other)) = (this.curve, that.curve) else { continue };
            if self.curves.at(curve) == old.curves.at(other) {
                this.runtime = that.runtime;
                resumes[new.index()] = old.order.contains(from.0);
            }
        }
        resumes
    }
}

/// The lane of backlogged leaves that are not eligible yet, by eligible time.
const WAITING: usize = 0;
/// The lane of eligible leaves, by deadline.
const ELIGIBLE: usize = 1;

state!(RealTime { leaves, order, turns; kept: curves; check: RealTime::is_sound });
state!(Leaf { runtime, deadline, turn, is_eligible; kept: curve });
state!(Due { time, tie });
