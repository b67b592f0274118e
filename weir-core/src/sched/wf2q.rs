//! Worst-case fair weighted fair queueing, plus [bennett97 §4] [algorithms §4.3].
//!
//! A leaf's first packet has a start tag `S` and a finish tag `F` = `S` + length / weight in
//! virtual time. Among leaves that are *eligible*, `S` <= `V`, the one with the smallest `F` sends,
//! of equals the one declared first; so nobody is ahead of the fluid by more than a packet. `V`
//! grows by each byte sent, and jumps to the smallest `S` when nobody would be eligible. Who is
//! early waits in a wheel until `V` reaches its `S`, then among the eligible by `F`, where few
//! stand at a time. But most leaves are in step with those before them, by `S` and by `F`: they
//! stand in one queue for both, and virtual time passes them without touching them. A leaf that has
//! sent all keeps a place there, for one that has a packet again soon starts where it would have
//! started anyhow; so the wheel is for those whose packets or weights differ. Invariant: between
//! calls a leaf that waits is `InStep`, or else `Eligible` exactly if its `S` <= `V`; right after a
//! choice somebody is eligible unless nothing waits.
//!
//! Where it departs from dummynet [algorithms §4.3]: that learns of flows as they come, and lets
//! `V` run at the pace of those that it remembers. Here all leaves are known, so `V` runs at the
//! pace of all weights, as in the original; no list of flows to forget is kept, and no packet costs
//! a division. When a packet comes and the line has sent all before it, `V` moves past all tags, so
//! that a new busy period starts with equals.
//!
//! Drops: a dropped packet costs its leaf nothing. The next one starts where it did.

use crate::order::deadlines::{Deadlines, Entry};
use crate::order::in_step::{self, InStep, Step};
use super::service::Weighted;
use crate::order::weights::{Sending, WEIGHT, Weights, counted, written};
use crate::order::wheel::{self, Wheel};
use super::{
    Cost, Descriptor, Discipline, Head, Kin, Promises, Scheduler, Selection, Service, Tree,
};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::prefetch::Prefetch;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Worst-case fair weighted fair queueing.
pub struct Wf2q {
    leaves: Vec<Leaf>,
    orders: Orders,
    /// Whether the leaf that was selected last is in step.
    chosen_in_step: bool,
    virtual_time: u64,
    /// No tag of what was sent is later.
    latest: u64,
    /// The length of the packet after which a leaf was empty last.
    last_length: u64,
    /// Fractional bits of virtual time.
    shift: u32,
    /// Leaves in which a packet waits.
    waiting: u32,
    sending: Sending,
    /// Whose packet that is.
    sender: LeafId,
}

/// Where leaves wait.
struct Orders {
    /// Those that come in the same order by start and finish tags.
    steps: InStep,
    /// Of the others, those whose start tag virtual time has not reached.
    early: Wheel,
    /// Those that may send, by their finish tags.
    eligible: Deadlines,
}

/// A leaf, in half a cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Leaf {
    /// The start tag while it waits, else the finish tag of what it sent last.
    start: u64,
    finish: u64,
    inverse: u64,
    /// Who is behind it in the wheel, or the lower part of its number among those in step.
    next: u32,
    /// The upper part, while a place is kept for it.
    next_high: u16,
    place: Place,
}

/// Where a leaf is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    Idle,
    /// Nothing waits in it, but its place among those in step is kept while it is not passed.
    Kept,
    InStep,
    Early,
    Eligible,
    /// What it had was dropped while it was early: it is still in the wheel.
    Left,
}

impl Leaf {
    const EMPTY: Leaf =
        Leaf { start: 0, finish: 0, inverse: 0, next: 0, next_high: 0, place: Place::Idle };

    #[inline]
    fn waits(&self) -> bool {
        matches!(self.place, Place::InStep | Place::Early | Place::Eligible)
    }

    #[inline]
    fn number(&self) -> u64 {
        u64::from(self.next_high) << u32::BITS | u64::from(self.next)
    }

    #[inline]
    fn set_number(&mut self, number: u64) {
        (self.next, self.next_high) = (number as u32, (number >> u32::BITS) as u16);
    }
}

impl Orders {
    /// Puts a leaf, which is nowhere and has its tags, where it belongs.
    #[inline(always)]
    fn file(&mut self, this: &mut Leaf, leaf: u32, virtual_time: u64) {
        let step = Step { start: this.start, finish: this.finish, leaf };
        if let Some(number) = self.steps.append(step) {
            (this.place, this.next) = (Place::InStep, number as u32);
        } else {
            self.file_apart(this, leaf, virtual_time);
        }
    }

    /// The same for one that is not in step.
    #[inline(never)]
    fn file_apart(&mut self, this: &mut Leaf, leaf: u32, virtual_time: u64) {
        if this.start <= virtual_time {
            this.place = Place::Eligible;
            self.eligible.insert(Entry { deadline: this.finish, leaf });
        } else {
            this.place = Place::Early;
            self.early.insert(this, leaf);
        }
    }

    /// The leaf has nothing to send: keeps the place where its next packet would stand if that is
    /// as long as the last.
    #[inline(always)]
    fn keep(&mut self, this: &mut Leaf, leaf: u32) {
        let step = Step { start: this.start, finish: this.finish, leaf };
        if let Some(number) = self.steps.keep(step) {
            this.place = Place::Kept;
            this.set_number(number);
        }
    }

    /// Makes those eligible that start at `reached` or before.
    #[inline(always)]
    fn settle(&mut self, leaves: &mut [Leaf], reached: u64) {
        let eligible = &mut self.eligible;
        self.early.take_until(leaves, reached, |leaf, index| {
            if leaf.place == Place::Left {
                leaf.place = Place::Idle;
                return;
            }
            leaf.place = Place::Eligible;
            eligible.insert(Entry { deadline: leaf.finish, leaf: index });
        });
    }
}

impl wheel::Member for Leaf {
    #[inline]
    fn tag(&self) -> u64 {
        self.start
    }

    #[inline]
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Discipline for Wf2q {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "wf2q+",
        summary: "Worst-case fair queueing: bytes by weight, no leaf ahead of the fluid by more \
                  than a packet.",
        parameters: &[WEIGHT],
        sources: &["bennett97 §4", "algorithms §4.3"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Logarithmic,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let Weights { inverses, shift } = Weights::of(tree);
        let leaf = |&inverse: &u64| Leaf { inverse, ..Leaf::EMPTY };
        Ok(Self {
            leaves: inverses.iter().map(leaf).collect(),
            orders: Orders {
                steps: InStep::new(inverses.len()),
                early: Wheel::new(inverses.len(), shift + GRAIN_BITS),
                eligible: Deadlines::new(),
            },
            chosen_in_step: false,
            virtual_time: 0,
            latest: 0,
            last_length: 0,
            shift,
            waiting: 0,
            sending: Sending::new(tree, shift),
            sender: LeafId(0),
        })
    }

    /// A leaf that was ahead of virtual time stays ahead by as many bytes of the line, but no more
    /// than a largest packet of its own; what one lagged behind, at most a packet, is forgotten.
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        for (new, before) in kin.leaves() {
            let ahead = old.leaves[before.index()].start.saturating_sub(old.virtual_time);
            let ahead = u128::from(ahead) << self.shift >> old.shift;
            let leaf = &mut self.leaves[new.index()];
            let packet = leaf.inverse * u64::from(u16::MAX);
            leaf.start = self.virtual_time + ahead.min(u128::from(packet)) as u64;
            self.latest = self.latest.max(leaf.start);
        }
    }

    /// [bennett97 §4] No leaf is ahead of the fluid, or behind it, by more than a packet.
    fn service(tree: &Tree) -> Service {
        let packet = tree.mtu();
        let row = |weight| Weighted { weight, ahead: packet, late: packet };
        Service::Fluid(written(tree).map(row).collect())
    }
}

impl Scheduler for Wf2q {
    #[inline]
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        if self.leaves[leaf.index()].waits() {
            return;
        }
        let rest = self.sending.rest(now);
        if rest == 0 && self.waiting == 0 {
            self.virtual_time = self.virtual_time.max(self.latest);
            self.orders.settle(&mut self.leaves, self.virtual_time);
        }
        self.waiting += 1;
        let state = &mut self.leaves[leaf.index()];
        // While the line sends a packet of the leaf, the leaf is not idle: the next one starts
        // where that one finishes. What the line is still to send of another's, `V` counts already.
        let mut start = state.start;
        if rest == 0 || self.sender != leaf {
            start = start.max(self.virtual_time.saturating_sub(rest));
        }
        let finish = start + counted(head.length) * state.inverse;
        let is_as_kept = (start, finish) == (state.start, state.finish);
        (state.start, state.finish) = (start, finish);
        let is_kept = state.place == Place::Kept && is_as_kept;
        if is_kept && self.orders.steps.revive(state.number()) {
            state.place = Place::InStep;
        } else if state.place == Place::Left {
            state.place = Place::Early;
        } else {
            self.orders.file(state, leaf.0, self.virtual_time);
        }
    }

    #[inline(always)]
    fn select(&mut self, _now: Instant) -> Selection {
        let Some(eligible) = self.orders.eligible.plain_first() else { return self.select_any() };
        let step = self.orders.steps.first();
        if eligible == Entry::NOBODY {
            // Nobody starts before the first in step, if anybody is.
            if step.start >= self.orders.early.due() {
                return self.select_any();
            }
            self.virtual_time = self.virtual_time.max(step.start);
        }
        let is_next = step.start <= self.virtual_time && step.entry().precedes(&eligible);
        self.chosen_in_step = is_next;
        Selection::Leaf(LeafId(if is_next { step.leaf } else { eligible.leaf }))
    }

    #[inline(always)]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        if self.virtual_time >= RENEWAL {
            self.renew();
        }
        let length = counted(sent);
        self.sending.begin(now, length << self.shift);
        self.sender = leaf;
        self.virtual_time += length << self.shift;
        let state = &mut self.leaves[leaf.index()];
        if self.chosen_in_step {
            self.orders.steps.remove_first();
        } else {
            self.orders.eligible.remove_first();
        }
        state.start += length * state.inverse;
        self.latest = self.latest.max(state.start);
        if let Some(next) = next {
            state.finish = state.start + counted(next.length) * state.inverse;
            self.orders.file(state, leaf.0, self.virtual_time);
        } else {
            state.place = Place::Idle;
            // Where lengths differ a place is of no use, and in the way.
            if core::mem::replace(&mut self.last_length, length) == length {
                state.finish = state.start + length * state.inverse;
                self.orders.keep(state, leaf.0);
            }
            self.waiting -= 1;
        }
        self.orders.settle(&mut self.leaves, self.virtual_time);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        if !state.waits() {
            return;
        }
        let (before, place) = (state.finish, state.place);
        if let Some(head) = head {
            state.finish = state.start + counted(head.length) * state.inverse;
        } else {
            self.waiting -= 1;
            state.place = if place == Place::Early { Place::Left } else { Place::Idle };
        }
        let Leaf { finish, next, .. } = *state;
        if head.is_some() && finish == before {
            return;
        }
        match place {
            Place::InStep => {
                self.orders.steps.remove(next);
                if head.is_some() {
                    self.orders.file(state, leaf.0, self.virtual_time);
                }
            }
            Place::Eligible => {
                let Self { leaves, orders, .. } = self;
                let is_true = |entry: &Entry| is_true(leaves, entry);
                let entry = Entry { deadline: finish, leaf: leaf.0 };
                match head {
                    Some(_) => orders.eligible.change(entry, is_true),
                    None => orders.eligible.forget(is_true),
                }
            }
            Place::Early | Place::Left | Place::Kept | Place::Idle => {}
        }
    }

    /// Those that are eligible or in step, by their finish tags.
    fn line_up(&self, leaves: &mut [LeafId]) -> usize {
        in_step::line_up(&self.orders.steps, &self.orders.eligible, leaves)
    }

    #[inline]
    fn touch(&self, leaf: LeafId, prefetch: Prefetch) {
        prefetch.ask(&self.leaves[leaf.index()].finish);
    }
}

impl Wf2q {
    /// The same where a look is not enough. If nobody is eligible virtual time goes on to the first
    /// start: not before a choice is due, or who comes until then would start late.
    #[inline(never)]
    fn select_any(&mut self) -> Selection {
        while self.waiting > 0 {
            let Orders { steps, early, eligible } = &mut self.orders;
            let step = steps.first();
            let is_eligible = step.start <= self.virtual_time;
            while let Some(entry) = eligible.first() {
                if eligible.are_true() || is_true(&self.leaves, &entry) {
                    self.chosen_in_step = is_eligible && step.entry().precedes(&entry);
                    let next = if self.chosen_in_step { step.leaf } else { entry.leaf };
                    return Selection::Leaf(LeafId(next));
                }
                eligible.drop_first();
            }
            if is_eligible {
                self.chosen_in_step = true;
                return Selection::Leaf(LeafId(step.leaf));
            }
            let first = early.least(&mut self.leaves).unwrap_or(u64::MAX).min(step.start);
            self.orders.settle(&mut self.leaves, first);
            self.virtual_time = self.virtual_time.max(first);
        }
        Selection::Idle
    }

    /// Moves all tags back by the same, so that none ever overflows.
    #[cold]
    fn renew(&mut self) {
        let back = self.virtual_time - RENEWAL / 2;
        self.virtual_time -= back;
        self.latest = self.latest.saturating_sub(back);
        let Orders { steps, early, eligible } = &mut self.orders;
        steps.clear();
        early.clear();
        eligible.clear();
        self.chosen_in_step = false;
        for (leaf, index) in self.leaves.iter_mut().zip(0..) {
            leaf.start = leaf.start.saturating_sub(back);
            leaf.finish = leaf.finish.saturating_sub(back);
            if leaf.waits() {
                self.orders.file_apart(leaf, index, self.virtual_time);
            } else {
                leaf.place = Place::Idle;
            }
        }
    }
}

/// Whether the leaf is eligible, with that finish tag.
fn is_true(leaves: &[Leaf], entry: &Entry) -> bool {
    let leaf = &leaves[entry.leaf as usize];
    leaf.place == Place::Eligible && leaf.finish == entry.deadline
}

/// At this tags are moved back; none is more than 2^60 later.
const RENEWAL: u64 = 1 << 61;
/// Starts are told apart by 64 bytes of the line, or 128, without asking each leaf.
const GRAIN_BITS: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::twins::{self, Twin};

    /// The rule of the header, found by asking all leaves.
    struct Plain<const LONGEST: u64>;

    impl<const LONGEST: u64> Twin<Wf2q> for Plain<LONGEST> {
        // A byte takes a nanosecond.
        const LINE: u64 = 8_000_000_000;
        const DROPS: bool = true;
        const LONGEST: u64 = LONGEST;

        fn new(_tree: &Tree) -> Self {
            Self
        }

        fn choice(&self, wf2q: &Wf2q) -> Option<usize> {
            let waits = |&leaf: &usize| wf2q.leaves[leaf].waits();
            let waiting: Vec<_> = (0..wf2q.leaves.len()).filter(waits).collect();
            let first = waiting.iter().map(|&leaf| wf2q.leaves[leaf].start).min()?;
            let reached = wf2q.virtual_time.max(first);
            let eligible = waiting.into_iter().filter(|&leaf| wf2q.leaves[leaf].start <= reached);
            eligible.min_by_key(|&leaf| (wf2q.leaves[leaf].finish, leaf))
        }
    }

    #[test]
    fn each_order_chooses_what_the_plain_rule_chooses() {
        twins::check_many::<Wf2q, Plain<{ twins::MTU }>>(12);
        twins::check::<Wf2q, Plain<{ twins::MTU }>>(1, &[1; 400]);
    }

    #[test]
    fn those_in_step_are_chosen_as_the_plain_rule_chooses() {
        twins::check_many::<Wf2q, Plain<1>>(12);
        for leaves in [1, 2, 8, 100, 400] {
            (0..4).for_each(|seed| twins::check::<Wf2q, Plain<1>>(seed, &alloc::vec![1; leaves]));
            (0..4).for_each(|seed| twins::check::<Wf2q, Plain<2>>(seed, &alloc::vec![1; leaves]));
        }
    }

    /// A leaf whose `first` packet was sent while another waits has a second one, and is then here.
    fn check_place(first: u64, second: u64, place: Place) {
        let mut wf2q = Wf2q::build(&twins::tree(8_000_000_000, &[1; 8])).expect("any weights");
        let now = Instant::ZERO;
        for leaf in 0..8 {
            wf2q.enqueued(now, LeafId(leaf), twins::head(first));
        }
        for leaf in 0..3 {
            // The first goes on and stands at the end, so that the others may stand behind it.
            let next = (leaf == 0).then(|| twins::head(first));
            assert_eq!(wf2q.select(now), Selection::Leaf(LeafId(leaf)));
            wf2q.charge(now, LeafId(leaf), Bytes::new(first), next);
        }
        wf2q.enqueued(now, LeafId(2), twins::head(second));
        assert_eq!(wf2q.leaves[2].place, place, "{first} {second}");
    }

    #[test]
    fn a_leaf_that_was_empty_takes_the_place_that_it_kept() {
        check_place(100, 100, Place::InStep);
        check_place(100, 40, Place::Early);
        // Behind all others: the place is not needed.
        check_place(100, 140, Place::InStep);
    }

    #[test]
    fn a_leaf_that_was_ahead_is_still_ahead_after_a_change_of_the_tree() {
        twins::check_change(|wf2q: &Wf2q, leaf| {
            (wf2q.leaves[leaf].start - wf2q.virtual_time) >> wf2q.shift
        });
    }
}
