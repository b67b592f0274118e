//! Hierarchical fair service curves `[stoica97]` [algorithms §6], delay and rate apart.
//!
//! A leaf with a *real-time* curve gets what the curve promises whatever others do: of the leaves
//! that are eligible, the one with the earliest deadline goes first. What is left is shared down
//! the tree by *link-share* curves: of siblings, the one with the smallest virtual time. An *upper
//! limit* says how much a class may be given in this way. Each curve may begin with another slope
//! than it goes on with.
//!
//! The paper's functions and ALTQ's stand under their names: `init_ed`, `update_ed` and `update_d`
//! in `real_time.rs`; `init_vf`, `update_vf`, `init_v`, `update_v` and `update_f` in
//! `link_share.rs`; a runtime curve with `min_with` and `y2x` in `curve.rs`. Differences:
//!
//! - Times are exact, so there is no tick. A class that sends less than its upper limit keeps a
//!   credit that is bounded (`upper_limit.rs`); `limit_credit` names Linux's rule and ALTQ's.
//! - What holds a class back, or makes it catch up, stays when it idles; ALTQ forgets both, and so
//!   lets a class that empties between packets pass its limit once.
//! - A class that becomes idle is charged its last packet first. ALTQ does that when it returns.
//! - A class that comes back gets the mean of the smallest and the largest virtual time as soon as
//!   link sharing has chosen a sibling in this period, as in Linux; ALTQ waits for a second choice.
//! - Of equal virtual times the one that was set first is the smaller one, as in Linux. Of equal
//!   deadlines that of the leaf declared first; ALTQ and Linux take the leaf eligible first.
//!
//! With `rules = "linux"` curves are computed as there (`ticks.rs`), equal deadlines go as there,
//! and what made a class catch up is forgotten when it idles. `weir import tc` writes that.
//!
//! Invariant: a backlogged leaf waits to be eligible, or is eligible, or is active in link sharing,
//! or both; after a packet every class above its leaf is charged, whichever criterion chose.

mod curve;
mod link_share;
mod params;
mod real_time;
mod runtime;
#[cfg(test)]
mod tests;
mod ticks;
mod upper_limit;

use super::{
    Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit, RefitError,
    Regulation, Scheduler, Selection, Service, Tree, Waiting, Why,
};
use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::state::{Reader, State, StateError, Writer};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;
use curve::{Rules, length};
use link_share::{LinkShare, Served};
use params::{ClassPlan, PARAMETERS};
use real_time::RealTime;

/// Hierarchical fair service curves.
pub struct Hfsc {
    real_time: RealTime,
    share: LinkShare,
    /// The class of each leaf.
    classes: Vec<ClassId>,
    /// How many leaves are backlogged.
    backlogged: usize,
    /// Whether link sharing chose the leaf that was selected last.
    by_share: bool,
    /// Set between a change of the tree and the first later instant.
    resuming: Option<Resuming>,
}

/// The leaves that were backlogged and the classes that were active when the tree was changed; they
/// resume when the new tree is notified of their packets, at that instant.
struct Resuming {
    at: Instant,
    leaves: Vec<bool>,
    classes: Vec<bool>,
}

impl Discipline for Hfsc {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "hfsc",
        summary: "Hierarchical fair service curves: delay apart from rate, shares and limits.",
        parameters: PARAMETERS,
        sources: &["stoica97", "algorithms §6"],
        promises: Promises {
            work_conserving: false,
            hierarchical: true,
            exact_wake: true,
            cost: Cost::Logarithmic,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let plan = |(class, _)| ClassPlan::new(tree, class);
        let plans = tree.classes().map(plan).collect::<Result<Vec<_>, _>>()?;
        let classes: Vec<_> = tree.leaves().map(|(leaf, _)| tree.class_of(leaf)).collect();
        Ok(Self {
            real_time: RealTime::new(
                Rules::from_params(tree.params()),
                classes.iter().map(|class| &plans[class.index()]),
            ),
            share: LinkShare::new(tree, &plans),
            classes,
            backlogged: 0,
            by_share: false,
            resuming: None,
        })
    }
}

impl Scheduler for Hfsc {
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        self.resuming.take_if(|resuming| resuming.at < now);
        let resuming = self.resuming.as_ref();
        let resumes = resuming.is_some_and(|resuming| resuming.leaves[leaf.index()]);
        let classes = resuming.map(|resuming| &resuming.classes[..]);
        self.backlogged += 1;
        self.real_time.init_ed(now, leaf, length(head.length), resumes);
        self.share.init_vf(now, self.classes[leaf.index()], classes);
    }

    fn select(&mut self, now: Instant) -> Selection {
        if self.backlogged == 0 {
            return Selection::Idle;
        }
        if let Some(leaf) = self.real_time.first(now) {
            self.by_share = false;
            return Selection::Leaf(leaf);
        }
        if let Some(leaf) = self.share.first(now) {
            self.by_share = true;
            return Selection::Leaf(leaf);
        }
        // [algorithms §6.6]
        let times = [self.real_time.next_eligible(), self.share.next_fit()];
        let earliest = times.into_iter().flatten().min();
        Selection::At(earliest.expect("a backlogged leaf waits to be eligible or to fit"))
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let (bytes, next) = (length(sent), next.map(|head| length(head.length)));
        let served = Served { bytes, by_share: self.by_share, empties: next.is_none() };
        debug_assert!(self.backlogged > 0, "a selected leaf is backlogged");
        self.backlogged -= usize::from(served.empties);
        // [algorithms §6.5] Link sharing is charged whichever criterion chose, real time only for
        // its own.
        self.share.update_vf(now, self.classes[leaf.index()], served);
        if self.by_share {
            self.real_time.update_d(leaf, next);
        } else {
            self.real_time.update_ed(now, leaf, bytes, next);
        }
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        if head.is_none() {
            self.backlogged -= 1;
            let served = Served { bytes: 0, by_share: false, empties: true };
            self.share.update_vf(now, self.classes[leaf.index()], served);
        }
        self.real_time.update_d(leaf, head.map(|head| length(head.length)));
    }
}

impl Explains for Hfsc {
    fn why(&self, _now: Instant, leaf: LeafId, _from: Instant) -> Why {
        let by_share = self.share.fits_from(self.classes[leaf.index()]);
        let by_deadline = self.real_time.times(leaf).map(|times| (times.0, 0));
        let earliest = by_share.into_iter().chain(by_deadline).min_by_key(|row| row.0);
        let (released, level) = earliest.unwrap_or((Instant::ZERO, 0));
        if released == Instant::ZERO {
            return Why::FREE;
        }
        Why { released, regulation: Regulation::UpperLimit, level, lender: None }
    }

    fn service(tree: &Tree) -> Service {
        let curve = |leaf| ClassPlan::new(tree, tree.class_of(leaf)).ok()?.guarantee();
        Service::Curves(tree.leaves().map(|(leaf, _)| curve(leaf)).collect())
    }
}

impl Changes for Hfsc {
    const REFITS: bool = true;

    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        let leaves = self.real_time.inherit(&old.real_time, kin);
        let classes = self.share.inherit(&old.share, kin);
        self.resuming = Some(Resuming { at: now, leaves, classes });
    }

    fn refit(
        &mut self,
        _now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        let class = tree.class_of(leaf);
        let plan = ClassPlan::new(tree, class)?;
        if !self.real_time.fits(leaf, &plan) || !self.share.fits(class, &plan) {
            return Err(RefitError::NeedsChange("its curves are of other kinds than before"));
        }
        self.real_time.refit(leaf, &plan, refit.is_new);
        self.share.refit(tree, class, &plan, refit);
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let is_known = |leaf: usize, head: Option<Head>| {
            let real_time = self.real_time.knows(LeafId(leaf as u32), head.is_some());
            real_time && self.share.knows_leaf(self.classes[leaf], head.is_some())
        };
        self.backlogged == waiting.leaves()
            && waiting.all(is_known)
            && self.share.is_sound(waiting.now)
    }
}

impl State for Hfsc {
    fn save(&self, to: &mut Writer) {
        // The next choice sets `by_share`.
        let Self { real_time, share, classes: _, backlogged, by_share: _, resuming } = self;
        real_time.save(to);
        share.save(to);
        backlogged.save(to);
        resuming.is_some().save(to);
        if let Some(Resuming { at, leaves, classes }) = resuming {
            at.save(to);
            leaves.save(to);
            classes.save(to);
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.real_time.load(from)?;
        self.share.load(from)?;
        self.backlogged.load(from)?;
        let mut resumes = false;
        resumes.load(from)?;
        if resumes {
            let leaves = alloc::vec![false; self.classes.len()];
            let classes = alloc::vec![false; self.share.class_count()];
            let mut resuming = Resuming { at: Instant::ZERO, leaves, classes };
            resuming.at.load(from)?;
            resuming.leaves.load(from)?;
            resuming.classes.load(from)?;
            self.resuming = Some(resuming);
        }
        Ok(())
    }
}
