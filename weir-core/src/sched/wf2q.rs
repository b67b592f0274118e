//! Worst-case fair weighted fair queueing, plus [bennett97 §4] [algorithms §4.3].
//!
//! A leaf's first packet has a start tag `S` and a finish tag `F` = `S` + length / weight in
//! virtual time. Among leaves that are *eligible*, `S` <= `V`, the one with the smallest `F` sends,
//! of equals the one declared first; so nobody is ahead of the fluid by more than a packet. `V`
//! grows by each byte sent, and jumps to the smallest `S` when nobody would be eligible. Who is
//! early waits in a wheel until `V` reaches its `S`, then among the eligible by `F`, where few
//! stand at a time. Invariant: between calls a leaf that waits is `Eligible` exactly if its `S` <=
//! `V`; right after a choice somebody is eligible unless nothing waits.
//!
//! Where it departs from dummynet [algorithms §4.3]: that learns of flows as they come, and lets
//! `V` run at the pace of those that it remembers. Here all leaves are known, so `V` runs at the
//! pace of all weights, as in the original; no list of flows to forget is kept, and no packet costs
//! a division. When a packet comes and the line has sent all before it, `V` moves past all tags, so
//! that a new busy period starts with equals.
//!
//! Drops: a dropped packet costs its leaf nothing. The next one starts where it did.

use super::deadlines::{Deadlines, Entry};
use super::service::Weighted;
use super::weights::{Sending, WEIGHT, Weights, counted, written};
use super::wheel::{self, Wheel};
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
    /// Those whose start tag virtual time has not reached.
    early: Wheel,
    /// Those that may send, by their finish tags.
    eligible: Deadlines,
    virtual_time: u64,
    /// No tag of what was sent is later.
    latest: u64,
    /// Fractional bits of virtual time.
    shift: u32,
    /// Leaves in which a packet waits.
    waiting: u32,
    sending: Sending,
    /// Whose packet that is.
    sender: LeafId,
}

/// A leaf, in half a cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Leaf {
    /// The start tag while it waits, else the finish tag of what it sent last.
    start: u64,
    finish: u64,
    inverse: u64,
    /// Who is behind it in the wheel.
    next: u32,
    place: Place,
}

/// Where a leaf is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    Idle,
    Early,
    Eligible,
    /// What it had was dropped while it was early: it is still in the wheel.
    Left,
}

impl Leaf {
    #[inline]
    fn waits(&self) -> bool {
        matches!(self.place, Place::Early | Place::Eligible)
    }

    /// Puts the leaf, which is nowhere and has its start tag, where it belongs.
    #[inline(always)]
    fn file(
        &mut self,
        leaf: LeafId,
        head: Head,
        virtual_time: u64,
        (eligible, early): (&mut Deadlines, &mut Wheel),
    ) {
        self.finish = self.start + counted(head.length) * self.inverse;
        if self.start <= virtual_time {
            self.place = Place::Eligible;
            eligible.insert(Entry { deadline: self.finish, leaf: leaf.0 });
        } else {
            self.place = Place::Early;
            early.insert(self, leaf.0);
        }
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
        let leaf =
            |&inverse: &u64| Leaf { start: 0, finish: 0, inverse, next: 0, place: Place::Idle };
        Ok(Self {
            leaves: inverses.iter().map(leaf).collect(),
            early: Wheel::new(inverses.len(), shift + GRAIN_BITS),
            eligible: Deadlines::new(),
            virtual_time: 0,
            latest: 0,
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
            self.settle(self.virtual_time);
        }
        self.waiting += 1;
        let state = &mut self.leaves[leaf.index()];
        // While the line sends a packet of the leaf, the leaf is not idle: the next one starts
        // where that one finishes. What the line is still to send of another's, `V` counts already.
        if rest == 0 || self.sender != leaf {
            state.start = state.start.max(self.virtual_time.saturating_sub(rest));
        }
        if state.place == Place::Left {
            state.place = Place::Early;
            state.finish = state.start + counted(head.length) * state.inverse;
        } else {
            state.file(leaf, head, self.virtual_time, (&mut self.eligible, &mut self.early));
        }
    }

    #[inline(always)]
    fn select(&mut self, _now: Instant) -> Selection {
        match self.eligible.plain_first() {
            Some(leaf) => Selection::Leaf(LeafId(leaf)),
            None => self.select_any(),
        }
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
        self.eligible.remove_first();
        state.start += length * state.inverse;
        self.latest = self.latest.max(state.start);
        if let Some(next) = next {
            let orders = (&mut self.eligible, &mut self.early);
            state.file(leaf, next, self.virtual_time, orders);
        } else {
            state.place = Place::Idle;
            self.waiting -= 1;
        }
        self.settle(self.virtual_time);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let state = &mut self.leaves[leaf.index()];
        if !state.waits() {
            return;
        }
        let (before, was_eligible) = (state.finish, state.place == Place::Eligible);
        if let Some(head) = head {
            state.finish = state.start + counted(head.length) * state.inverse;
        } else {
            self.waiting -= 1;
            state.place = if was_eligible { Place::Idle } else { Place::Left };
        }
        let Leaf { finish, .. } = *state;
        let Self { leaves, eligible, .. } = self;
        let is_true = |entry: &Entry| is_true(leaves, entry);
        if was_eligible && head.is_none() {
            eligible.forget(is_true);
        } else if was_eligible && finish != before {
            eligible.change(Entry { deadline: finish, leaf: leaf.0 }, is_true);
        }
    }

    /// Those that are eligible, then those that become eligible next.
    #[inline]
    fn upcoming(&self, ahead: usize) -> Option<LeafId> {
        self.eligible.about(ahead).or_else(|| self.early.about(ahead)).map(LeafId)
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
            while let Some(entry) = self.eligible.first() {
                if self.eligible.are_true() || is_true(&self.leaves, &entry) {
                    return Selection::Leaf(LeafId(entry.leaf));
                }
                self.eligible.drop_first();
            }
            let first = self.early.least(&mut self.leaves).expect("who waits is in the wheel");
            self.settle(first);
            self.virtual_time = self.virtual_time.max(first);
        }
        Selection::Idle
    }

    /// Makes those eligible that start at `reached` or before.
    #[inline(always)]
    fn settle(&mut self, reached: u64) {
        let eligible = &mut self.eligible;
        self.early.take_until(&mut self.leaves, reached, |leaf, index| {
            if leaf.place == Place::Left {
                leaf.place = Place::Idle;
                return;
            }
            leaf.place = Place::Eligible;
            eligible.insert(Entry { deadline: leaf.finish, leaf: index });
        });
    }

    /// Moves all tags back by the same, so that none ever overflows.
    #[cold]
    fn renew(&mut self) {
        let back = self.virtual_time - RENEWAL / 2;
        self.virtual_time -= back;
        self.latest = self.latest.saturating_sub(back);
        self.eligible.clear();
        self.early.clear();
        for index in 0..self.leaves.len() {
            let leaf = &mut self.leaves[index];
            leaf.start = leaf.start.saturating_sub(back);
            leaf.finish = leaf.finish.saturating_sub(back);
            match leaf.place {
                Place::Eligible => {
                    self.eligible.insert(Entry { deadline: leaf.finish, leaf: index as u32 });
                }
                Place::Early => self.early.insert(leaf, index as u32),
                Place::Left | Place::Idle => leaf.place = Place::Idle,
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
    struct Plain;

    impl Twin<Wf2q> for Plain {
        // A byte takes a nanosecond.
        const LINE: u64 = 8_000_000_000;
        const DROPS: bool = true;

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
    fn wheel_and_run_choose_what_the_plain_rule_chooses() {
        twins::check_many::<Wf2q, Plain>(12);
        twins::check::<Wf2q, Plain>(1, &[1; 400]);
    }

    #[test]
    fn a_leaf_that_was_ahead_is_still_ahead_after_a_change_of_the_tree() {
        twins::check_change(|wf2q: &Wf2q, leaf| {
            (wf2q.leaves[leaf].start - wf2q.virtual_time) >> wf2q.shift
        });
    }
}
