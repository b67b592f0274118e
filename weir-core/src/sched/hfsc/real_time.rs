//! The real-time criterion: among the leaves that are eligible, the one with the earliest deadline
//! [algorithms §6.5].
//!
//! A leaf that waits to be eligible costs nothing until it is: its deadline is worked out then.
//! Invariant: a backlogged leaf with a real-time curve stands either among those that wait, or in
//! the order of deadlines.

use super::curve::{Progress, Slope, fine, length, round_up};
use super::leaf::{Leaf, Mark};
use super::share::{Child, LinkShare};
use super::wheel::Wheel;
use crate::sched::Head;
use crate::sched::deadlines::{Deadlines, Entry};
use crate::units::Instant;
use alloc::vec::Vec;

/// Who is eligible, and who will be.
pub(super) struct RealTime {
    waiting: Wheel,
    deadlines: Deadlines,
    /// Who became backlogged and eligible since somebody was last chosen: their deadlines are
    /// mostly later than those of others who are eligible by then.
    entered: Vec<u32>,
    /// The curves of two slopes.
    bends: Vec<Progress>,
}

impl RealTime {
    /// Nobody is backlogged.
    pub(super) fn new(leaves: usize, bends: Vec<Progress>) -> Self {
        let (waiting, deadlines) = (Wheel::new(leaves), Deadlines::new());
        Self { waiting, deadlines, entered: Vec::new(), bends }
    }

    /// [algorithms §6.4] A leaf becomes backlogged. One that was so when the tree was changed goes
    /// on where it was, until a packet leaves.
    #[inline]
    pub(super) fn enter(&mut self, share: &mut LinkShare, leaf: u32, at: (Instant, Head)) {
        let (now, head) = at;
        let resumes = share.resumes(Child::leaf(leaf)).guarantee;
        if share.leaves[leaf as usize].is(Mark::BENT) {
            self.enter_bent(share, leaf, (now, resumes));
        } else if !resumes {
            share.leaves[leaf as usize].restart(now.as_nanos());
        }
        let this = &mut share.leaves[leaf as usize];
        this.length = length(head.length);
        if this.eligible > now.as_nanos() {
            return self.wait(this, leaf);
        }
        if !this.is(Mark::ENTERED) {
            this.mark(Mark::ENTERED);
            self.entered.push(leaf);
        }
        self.waiting.hurry(now.as_nanos());
    }

    #[inline(never)]
    fn enter_bent(&mut self, share: &mut LinkShare, leaf: u32, (now, resumes): (Instant, bool)) {
        let bend = &mut self.bends[share.rare(Child::leaf(leaf)).guarantee as usize];
        let curve = share.curves.at(bend.curve);
        if !resumes {
            curve.restart(&mut bend.position, fine(now));
        }
        let eligible = round_up(curve.eligible(&bend.position));
        share.leaves[leaf as usize].eligible = eligible.as_nanos();
    }

    /// Lets a backlogged leaf wait until it is eligible.
    #[inline]
    fn wait(&mut self, this: &mut Leaf, leaf: u32) {
        if !this.is(Mark::FILED) {
            this.mark(Mark::FILED);
            self.waiting.insert(this.eligible, leaf);
        }
    }

    /// By when the first packet of a leaf is to be finished.
    pub(super) fn deadline(&self, share: &LinkShare, leaf: u32) -> u64 {
        deadline(&self.bends, share, leaf)
    }

    /// The leaf with the earliest deadline among those that are eligible now, if that is known
    /// without much ado.
    #[inline(always)]
    pub(super) fn plain_first(&self, now: Instant) -> Option<u32> {
        if self.waiting.next() <= now.as_nanos() {
            return None;
        }
        self.deadlines.plain_first().filter(|&entry| entry != Entry::NOBODY).map(|entry| entry.leaf)
    }

    /// A guess: whose turn it is after that of `ahead` others.
    pub(super) fn about(&self, ahead: usize) -> Option<u32> {
        self.deadlines.about(ahead).map(|entry| entry.leaf)
    }

    /// The leaf with the earliest deadline among those that are eligible now.
    #[inline]
    pub(super) fn first(&mut self, share: &mut LinkShare, now: Instant) -> Option<u32> {
        if self.waiting.next() <= now.as_nanos() {
            self.admit_due(share, now);
        }
        while let Some(entry) = self.deadlines.first() {
            if self.deadlines.are_true() || is_true(&self.bends, share, &entry) {
                return Some(entry.leaf);
            }
            self.deadlines.drop_first();
        }
        None
    }

    /// Orders those who are eligible now by deadline.
    #[inline(never)]
    fn admit_due(&mut self, share: &mut LinkShare, now: Instant) {
        let Self { waiting, deadlines, entered, bends } = self;
        waiting.advance(now.as_nanos(), |leaf| {
            let this = &mut share.leaves[leaf as usize];
            if this.waits() {
                if this.eligible > now.as_nanos() {
                    return Some(this.eligible);
                }
                this.mark(Mark::ELIGIBLE);
                this.clear(Mark::FILED);
                deadlines.insert(Entry { deadline: deadline(bends, share, leaf), leaf });
            } else {
                this.clear(Mark::FILED);
            }
            None
        });
        for leaf in entered.drain(..) {
            let this = &mut share.leaves[leaf as usize];
            this.clear(Mark::ENTERED);
            if this.waits() {
                this.mark(Mark::ELIGIBLE);
                deadlines.insert(Entry { deadline: deadline(bends, share, leaf), leaf });
            }
        }
    }

    /// When the next leaf becomes eligible, if none is.
    pub(super) fn wake(&mut self, share: &mut LinkShare) -> Option<Instant> {
        while !self.waiting.is_empty() && !self.waiting.is_exact() {
            let slot = self.waiting.first();
            let mut first = u64::MAX;
            self.waiting.sift(|leaf| {
                let this = &mut share.leaves[leaf as usize];
                if this.waits() {
                    first = first.min(this.eligible);
                    return Some(this.eligible);
                }
                this.clear(Mark::FILED);
                None
            });
            if !self.waiting.is_empty() && self.waiting.first() == slot {
                self.waiting.set_next(first);
            }
        }
        (!self.waiting.is_empty()).then(|| Instant::from_nanos(self.waiting.next()))
    }

    /// [algorithms §6.5] A leaf that this criterion chose sent `bytes`; `next` waits there now.
    pub(super) fn served(
        &mut self,
        share: &mut LinkShare,
        now: Instant,
        leaf: u32,
        (bytes, next): (u32, Option<Head>),
    ) {
        let this = &mut share.leaves[leaf as usize];
        if this.is(Mark::BENT) {
            self.advance_bent(share, leaf, bytes);
        } else {
            let slope = share.kinds[this.own.kind as usize].guarantee;
            this.advance(slope, bytes);
        }
        let this = &mut share.leaves[leaf as usize];
        if self.goes_on(this, leaf, now, next) {
            let deadline = self.deadline(share, leaf);
            self.deadlines.insert(Entry { deadline, leaf });
        }
    }

    /// The same for a leaf whose curve has one slope.
    #[inline(always)]
    pub(super) fn served_plain(
        &mut self,
        (this, leaf): (&mut Leaf, u32),
        slope: Slope,
        now: Instant,
        (bytes, next): (u32, Option<Head>),
    ) {
        this.advance(slope, bytes);
        if self.goes_on(this, leaf, now, next) {
            self.deadlines.insert(Entry { deadline: this.deadline(slope), leaf });
        }
    }

    /// The first leaf was served: answers whether it is eligible with its next packet at once.
    #[inline(always)]
    fn goes_on(&mut self, this: &mut Leaf, leaf: u32, now: Instant, next: Option<Head>) -> bool {
        self.deadlines.remove_first();
        let Some(next) = next else {
            this.clear(Mark::ELIGIBLE);
            return false;
        };
        // The length of the next packet counts, not that of the last.
        this.length = length(next.length);
        if this.eligible <= now.as_nanos() {
            return true;
        }
        this.clear(Mark::ELIGIBLE);
        self.wait(this, leaf);
        false
    }

    #[inline(never)]
    fn advance_bent(&mut self, share: &mut LinkShare, leaf: u32, bytes: u32) {
        let bend = &mut self.bends[share.rare(Child::leaf(leaf)).guarantee as usize];
        let curve = share.curves.at(bend.curve);
        curve.advance(&mut bend.position, bytes);
        let eligible = round_up(curve.eligible(&bend.position));
        share.leaves[leaf as usize].eligible = eligible.as_nanos();
    }

    /// The first packet of a leaf changed, and the criterion had no part in it.
    #[inline]
    pub(super) fn head(&mut self, share: &mut LinkShare, leaf: u32, next: Option<Head>) {
        let this = &mut share.leaves[leaf as usize];
        if this.is(Mark::ELIGIBLE) {
            return self.change(share, leaf, next);
        }
        match next {
            Some(next) => this.length = length(next.length),
            None => self.waiting.forget(this.eligible),
        }
    }

    /// The same of one that is eligible.
    #[inline(never)]
    fn change(&mut self, share: &mut LinkShare, leaf: u32, next: Option<Head>) {
        let first = self.deadlines.first().is_some_and(|entry| entry.leaf == leaf);
        let is_first = first && self.deadlines.are_true();
        let before = self.deadline(share, leaf);
        let this = &mut share.leaves[leaf as usize];
        let Some(next) = next else {
            this.clear(Mark::ELIGIBLE);
            if is_first {
                self.deadlines.remove_first();
            } else {
                self.deadlines.forget(|entry| is_true(&self.bends, share, entry));
            }
            return;
        };
        this.length = length(next.length);
        let entry = Entry { deadline: self.deadline(share, leaf), leaf };
        if is_first {
            self.deadlines.change_first(entry);
        } else if entry.deadline != before {
            self.deadlines.change(entry, |entry| is_true(&self.bends, share, entry));
        }
    }

    /// What was guaranteed to leaf `from` of `old` goes on here, if the curve is the same.
    pub(super) fn inherit(
        &mut self,
        share: &mut LinkShare,
        new: u32,
        old: (&RealTime, &LinkShare, u32),
    ) {
        let (old, old_share, from) = old;
        let (this, that) = (&share.leaves[new as usize], &old_share.leaves[from as usize]);
        if !this.is(Mark::GUARANTEED) || !that.is(Mark::GUARANTEED) {
            return;
        }
        if this.is(Mark::BENT) != that.is(Mark::BENT) {
            return;
        }
        if this.is(Mark::BENT) {
            let bend = &mut self.bends[share.rare(Child::leaf(new)).guarantee as usize];
            let other = &old.bends[old_share.rare(Child::leaf(from)).guarantee as usize];
            if share.curves.at(bend.curve) != old_share.curves.at(other.curve) {
                return;
            }
            bend.position = other.position;
        } else if share.kinds[this.own.kind as usize].guarantee
            != old_share.kinds[that.own.kind as usize].guarantee
        {
            return;
        }
        let place = share.place(Child::leaf(new));
        share.resumes[place].guarantee = that.is(Mark::BACKLOGGED);
        share.leaves[new as usize].go_on_from(that);
    }
}

#[inline]
fn deadline(bends: &[Progress], share: &LinkShare, leaf: u32) -> u64 {
    let this = &share.leaves[leaf as usize];
    if this.is(Mark::BENT) {
        return deadline_bent(bends, share, leaf);
    }
    this.deadline(share.kinds[this.own.kind as usize].guarantee)
}

#[inline(never)]
fn deadline_bent(bends: &[Progress], share: &LinkShare, leaf: u32) -> u64 {
    let bend = &bends[share.rare(Child::leaf(leaf)).guarantee as usize];
    let length = share.leaves[leaf as usize].length;
    round_up(share.curves.at(bend.curve).reaches(&bend.position, length)).as_nanos()
}

/// Whether the leaf is eligible, with that deadline.
fn is_true(bends: &[Progress], share: &LinkShare, entry: &Entry) -> bool {
    let is_eligible = share.leaves[entry.leaf as usize].is(Mark::ELIGIBLE);
    is_eligible && deadline(bends, share, entry.leaf) == entry.deadline
}
