//! The real-time criterion: among the leaves that are eligible, the one with the earliest deadline
//! [algorithms §6.5].
//!
//! Most leaves become eligible in the order of their deadlines, and stand in one queue for both.
//! Another that waits to be eligible costs nothing until it is: its deadline is worked out then.
//! Invariant: a backlogged leaf with a real-time curve stands either in step, or among those that
//! wait, or in the order of deadlines.

use super::curve::{Progress, Slope, fine, length, round_up};
use super::leaf::{Leaf, Mark};
use super::share::{Child, LinkShare};
use super::wheel::Wheel;
use crate::ids::LeafId;
use crate::prefetch::Prefetch;
use crate::sched::Head;
use crate::order::deadlines::{Deadlines, Entry};
use crate::order::in_step::{self, InStep, Step};
use crate::units::Instant;
use alloc::vec::Vec;

/// Who is eligible, and who will be.
pub(super) struct RealTime {
    steps: InStep,
    /// Whether the leaf that was chosen last is in step.
    chosen_in_step: bool,
    waiting: Wheel,
    deadlines: Deadlines,
    /// Who became backlogged and eligible since somebody was last chosen: their deadlines are
    /// mostly later than those of others who are eligible by then.
    entered: Vec<u32>,
    /// The length of the packet with which a leaf was last emptied.
    last_length: u32,
    /// The curves of two slopes.
    bends: Vec<Progress>,
}

impl RealTime {
    /// Nobody is backlogged.
    pub(super) fn new(leaves: usize, bends: Vec<Progress>) -> Self {
        let (waiting, deadlines) = (Wheel::new(leaves), Deadlines::new());
        let steps = InStep::new(leaves);
        Self {
            steps,
            chosen_in_step: false,
            waiting,
            deadlines,
            entered: Vec::new(),
            last_length: 0,
            bends,
        }
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
        if self.steps.is_last(this.eligible) && self.enter_in_step(share, leaf) {
            return;
        }
        let this = &mut share.leaves[leaf as usize];
        if this.eligible > now.as_nanos() {
            if !self.return_to_step(share, leaf) {
                self.wait(&mut share.leaves[leaf as usize], leaf);
            }
            return;
        }
        if !this.is(Mark::ENTERED) {
            this.mark(Mark::ENTERED);
            self.entered.push(leaf);
        }
        self.waiting.hurry(now.as_nanos());
    }

    /// Lets a leaf take the place that was kept for it, if there is one.
    #[inline]
    fn return_to_step(&mut self, share: &mut LinkShare, leaf: u32) -> bool {
        let this = &share.leaves[leaf as usize];
        if this.is(Mark::FILED) {
            return false;
        }
        let (start, finish) = (this.eligible, self.deadline(share, leaf));
        let number = self.waiting.number(leaf);
        let returned = self.steps.revive_step(number, Step { start, finish, leaf });
        if returned {
            share.leaves[leaf as usize].mark(Mark::IN_STEP);
        }
        returned
    }

    /// Appends a leaf that starts after all in step, if it belongs there.
    #[inline(never)]
    fn enter_in_step(&mut self, share: &mut LinkShare, leaf: u32) -> bool {
        let deadline = self.deadline(share, leaf);
        self.append(&mut share.leaves[leaf as usize], leaf, deadline)
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

    /// Appends a leaf, which is nowhere or filed, to those in step; answers whether it belongs
    /// there.
    #[inline(always)]
    fn append(&mut self, this: &mut Leaf, leaf: u32, deadline: u64) -> bool {
        if this.is(Mark::FILED) {
            return false;
        }
        let step = Step { start: this.eligible, finish: deadline, leaf };
        let Some(number) = self.steps.append(step) else { return false };
        this.mark(Mark::IN_STEP);
        self.waiting.set_number(leaf, number as u32);
        true
    }

    /// By when the first packet of a leaf is to be finished.
    #[inline]
    pub(super) fn deadline(&self, share: &LinkShare, leaf: u32) -> u64 {
        deadline(&self.bends, share, leaf)
    }

    /// What [`RealTime::first`] answers, if that is known without much ado.
    #[inline(always)]
    pub(super) fn plain_first(&mut self, now: Instant) -> Option<Option<u32>> {
        if self.waiting.next() <= now.as_nanos() {
            return None;
        }
        let eligible = self.deadlines.plain_first()?;
        let first = self.choose(now, eligible);
        Some((first != Entry::NOBODY).then_some(first.leaf))
    }

    /// The first of those in step, if it is eligible and goes before `other`; else that.
    #[inline(always)]
    fn choose(&mut self, now: Instant, other: Entry) -> Entry {
        let step = self.steps.first();
        self.chosen_in_step = step.start <= now.as_nanos() && step.entry().precedes(&other);
        if self.chosen_in_step { step.entry() } else { other }
    }

    /// Asks for what is kept of a leaf here.
    #[inline(always)]
    pub(super) fn touch(&self, leaf: u32, prefetch: Prefetch) {
        self.waiting.touch(leaf, prefetch);
    }

    /// Asks for the place in step of a leaf that was asked for before.
    #[inline(always)]
    pub(super) fn touch_place(&self, leaf: u32, prefetch: Prefetch) {
        self.steps.touch(self.waiting.number(leaf), prefetch);
    }

    /// A guess: whose turn it is next, one after the other.
    pub(super) fn line_up(&self, leaves: &mut [LeafId]) -> usize {
        in_step::line_up(&self.steps, &self.deadlines, leaves)
    }

    /// The leaf with the earliest deadline among those that are eligible now.
    #[inline]
    pub(super) fn first(&mut self, share: &mut LinkShare, now: Instant) -> Option<u32> {
        if self.waiting.next() <= now.as_nanos() {
            self.admit_due(share, now);
        }
        while let Some(entry) = self.deadlines.first() {
            if self.deadlines.are_true() || is_true(&self.bends, share, &entry) {
                return Some(self.choose(now, entry).leaf);
            }
            self.deadlines.drop_first();
        }
        let first = self.choose(now, Entry::NOBODY);
        (first != Entry::NOBODY).then_some(first.leaf)
    }

    /// Orders those who are eligible now by deadline.
    #[inline(never)]
    fn admit_due(&mut self, share: &mut LinkShare, now: Instant) {
        let Self { waiting, deadlines, entered, bends, .. } = self;
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
        let waiting = (!self.waiting.is_empty()).then(|| self.waiting.next());
        let step = self.steps.first_start();
        waiting.into_iter().chain(step).min().map(Instant::from_nanos)
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
            this.clear(Mark::ELIGIBLE);
            this.clear(Mark::IN_STEP);
            self.advance_bent(share, leaf, bytes);
        } else {
            this.advance(&share.kinds[this.own.kind as usize].guarantee, bytes);
        }
        self.remove_first();
        if let Some(next) = next {
            // The length of the next packet counts, not that of the last.
            share.leaves[leaf as usize].length = length(next.length);
            self.file(share, leaf, now);
        }
    }

    /// The same for a leaf whose curve has one slope.
    #[inline(always)]
    pub(super) fn served_plain(
        &mut self,
        (this, leaf): (&mut Leaf, u32),
        slope: &Slope,
        now: Instant,
        (bytes, next): (u32, Option<Head>),
    ) {
        this.advance(slope, bytes);
        self.remove_first();
        if let Some(next) = next {
            this.length = length(next.length);
            let deadline = this.deadline(slope);
            if !self.append(this, leaf, deadline) {
                self.file_apart(this, now, Entry { deadline, leaf });
            }
        } else if core::mem::replace(&mut self.last_length, bytes) == bytes {
            // Where lengths differ a place is of no use, and in the way.
            self.keep(this, slope, leaf);
        }
    }

    /// Keeps a place for a leaf with nothing to send, for a packet as long as the last.
    #[inline(always)]
    fn keep(&mut self, this: &Leaf, slope: &Slope, leaf: u32) {
        if this.is(Mark::FILED) {
            return;
        }
        let step = Step { start: this.eligible, finish: this.deadline(slope), leaf };
        if let Some(number) = self.steps.keep(step) {
            self.waiting.set_number(leaf, number as u32);
        }
    }

    /// The leaf chosen last is in its order no longer.
    #[inline(always)]
    fn remove_first(&mut self) {
        if self.chosen_in_step {
            self.steps.remove_first();
        } else {
            self.deadlines.remove_first();
        }
    }

    /// Puts a backlogged leaf that is nowhere where it belongs.
    fn file(&mut self, share: &mut LinkShare, leaf: u32, now: Instant) {
        let deadline = self.deadline(share, leaf);
        let this = &mut share.leaves[leaf as usize];
        if !self.append(this, leaf, deadline) {
            self.file_apart(this, now, Entry { deadline, leaf });
        }
    }

    /// The same for one that is not in step.
    #[inline(never)]
    fn file_apart(&mut self, this: &mut Leaf, now: Instant, entry: Entry) {
        if this.eligible > now.as_nanos() {
            self.wait(this, entry.leaf);
        } else {
            this.mark(Mark::ELIGIBLE);
            self.deadlines.insert(entry);
        }
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
    pub(super) fn head(
        &mut self,
        share: &mut LinkShare,
        now: Instant,
        leaf: u32,
        next: Option<Head>,
    ) {
        let this = &mut share.leaves[leaf as usize];
        if this.is(Mark::ELIGIBLE) {
            return self.change(share, leaf, next);
        }
        let before = this.length;
        if let Some(next) = next {
            this.length = length(next.length);
        }
        if this.is(Mark::IN_STEP) {
            let number = self.waiting.number(leaf);
            if next.is_none() {
                this.clear(Mark::IN_STEP);
                self.steps.let_go(number);
            } else if this.length != before {
                this.clear(Mark::IN_STEP);
                self.steps.remove(number);
                self.file(share, leaf, now);
            }
        } else if next.is_none() {
            self.waiting.forget(this.eligible);
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
    this.deadline(&share.kinds[this.own.kind as usize].guarantee)
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
