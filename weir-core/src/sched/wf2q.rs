//! Worst-case fair weighted fair queueing, plus [bennett97 §4] [algorithms §4.3].
//!
//! A leaf's first packet has a start tag `S` and a finish tag `F` = `S` + length / weight in
//! virtual time. Among leaves that are *eligible*, `S` <= `V`, the one with the smallest `F` sends,
//! of equals the one declared first; so nobody is ahead of the fluid by more than a packet. `V`
//! grows by each byte sent, and jumps to the smallest `S` when nobody would be eligible. Invariant:
//! a leaf that waits is in the lane `eligible`, by `F`, or in `early`, by `S`; right
//! after a choice `eligible` is empty only if nothing waits.
//!
//! Where it departs from dummynet [algorithms §4.3]: that learns of flows as they come, and lets
//! `V` run at the pace of those that it remembers. Here all leaves are known, so `V` runs at the
//! pace of all weights, as in the original; no list of flows to forget is kept, and no packet costs
//! a division. When a packet comes and the line has sent all before it, `V` moves past all tags, so
//! that a new busy period starts with equals.
//!
//! Drops: a dropped packet costs its leaf nothing. The next one starts where it did.

use super::service::Weighted;
use super::tournament::{KEY_MAX, Lane, Order};
use super::weights::{Sending, WEIGHT, Weights, counted, written};
use super::{
    Cost, Descriptor, Discipline, Head, Kin, Promises, Scheduler, Selection, Service, Tree,
};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Worst-case fair weighted fair queueing.
pub struct Wf2q {
    leaves: Vec<Leaf>,
    /// Every leaf twice: first in the lane of those that are early, with its start tag, then in
    /// that of those that are eligible, with its finish tag.
    order: Order,
    early: Lane,
    eligible: Lane,
    virtual_time: u64,
    /// No tag of what was sent is later.
    latest: u64,
    /// Fractional bits of virtual time.
    shift: u32,
    sending: Sending,
    /// Whose packet that is.
    sender: LeafId,
}

/// A leaf, in half a cache line.
#[derive(Clone, Copy)]
struct Leaf {
    /// The start tag while it waits, else the finish tag of what it sent last.
    start: u64,
    finish: u64,
    inverse: u64,
    place: Place,
}

/// Where a leaf is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Idle,
    Early,
    Eligible,
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
        let leaf = |&inverse: &u64| Leaf { start: 0, finish: 0, inverse, place: Place::Idle };
        let (order, lanes) = Order::new(&[inverses.len(); 2]);
        Ok(Self {
            leaves: inverses.iter().map(leaf).collect(),
            order,
            early: lanes[0],
            eligible: lanes[1],
            virtual_time: 0,
            latest: 0,
            shift,
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
        if self.leaves[leaf.index()].place != Place::Idle {
            return;
        }
        let rest = self.sending.rest(now);
        if rest == 0 && self.is_idle() {
            self.virtual_time = self.virtual_time.max(self.latest);
        }
        let state = &mut self.leaves[leaf.index()];
        // While the line sends a packet of the leaf, the leaf is not idle: the next one starts
        // where that one finishes. What the line is still to send of another's, `V` counts already.
        if rest == 0 || self.sender != leaf {
            state.start = state.start.max(self.virtual_time.saturating_sub(rest));
        }
        self.place(leaf, head);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        if Order::is_empty(&self.eligible) {
            self.jump();
        }
        let first = self.order.lowest(&self.eligible);
        first.map_or(Selection::Idle, |item| {
            Selection::Leaf(LeafId(item - self.leaves.len() as u32))
        })
    }

    #[inline]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let length = counted(sent);
        let state = &mut self.leaves[leaf.index()];
        state.start += length * state.inverse;
        self.latest = self.latest.max(state.start);
        self.virtual_time += length << self.shift;
        self.sending.begin(now, length << self.shift);
        self.sender = leaf;
        if self.virtual_time >= RENEWAL {
            self.renew();
        }
        match next {
            Some(next) => self.place(leaf, next),
            None => self.remove(leaf),
        }
        self.settle();
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if self.leaves[leaf.index()].place == Place::Idle {
            return;
        }
        match head {
            Some(head) => self.place(leaf, head),
            None => self.remove(leaf),
        }
    }

    /// Those that become eligible next: many of them are sent soon after, so both need them.
    #[inline]
    fn upcoming(&self, ahead: usize) -> Option<LeafId> {
        self.order.about(&self.early, ahead).map(LeafId)
    }

    #[inline]
    fn touch(&self, leaf: LeafId) {
        core::hint::black_box(self.leaves[leaf.index()].finish);
    }
}

impl Wf2q {
    /// Puts a leaf with its start tag where it belongs.
    #[inline]
    fn place(&mut self, leaf: LeafId, head: Head) {
        let (item, other) = self.items(leaf);
        let state = &mut self.leaves[leaf.index()];
        state.finish = state.start + counted(head.length) * state.inverse;
        let before = state.place;
        if state.start <= self.virtual_time {
            state.place = Place::Eligible;
            self.order.set(&mut self.eligible, other, state.finish);
            if before == Place::Early {
                self.order.take_out(&mut self.early, item);
            }
        } else {
            state.place = Place::Early;
            self.order.set(&mut self.early, item, state.start);
            if before == Place::Eligible {
                self.order.take_out(&mut self.eligible, other);
            }
        }
    }

    #[inline]
    fn remove(&mut self, leaf: LeafId) {
        let (item, other) = self.items(leaf);
        match core::mem::replace(&mut self.leaves[leaf.index()].place, Place::Idle) {
            Place::Idle => {}
            Place::Early => self.order.take_out(&mut self.early, item),
            Place::Eligible => self.order.take_out(&mut self.eligible, other),
        }
    }

    /// Nobody is eligible: virtual time goes on to the first start. Not before a choice is due, or
    /// who comes until then would start late.
    fn jump(&mut self) {
        if let Some(first) = self.order.lowest(&self.early) {
            self.virtual_time = self.virtual_time.max(self.leaves[first as usize].start);
            self.settle();
        }
    }

    /// Makes those eligible that virtual time has reached.
    #[inline]
    fn settle(&mut self) {
        while let Some(first) = self.order.lowest_until(&self.early, self.virtual_time) {
            self.order.take_out(&mut self.early, first);
            let other = first + self.leaves.len() as u32;
            let leaf = &mut self.leaves[first as usize];
            leaf.place = Place::Eligible;
            self.order.set(&mut self.eligible, other, leaf.finish);
        }
    }

    /// Moves all tags back by the same, so that none ever overflows.
    #[cold]
    fn renew(&mut self) {
        let back = self.virtual_time - RENEWAL / 2;
        self.virtual_time -= back;
        self.latest = self.latest.saturating_sub(back);
        for index in 0..self.leaves.len() {
            let (item, other) = self.items(LeafId(index as u32));
            let leaf = &mut self.leaves[index];
            leaf.start = leaf.start.saturating_sub(back);
            leaf.finish = leaf.finish.saturating_sub(back);
            match leaf.place {
                Place::Idle => {}
                Place::Early => self.order.set(&mut self.early, item, leaf.start),
                Place::Eligible => self.order.set(&mut self.eligible, other, leaf.finish),
            }
        }
    }

    /// Its place in both lanes.
    #[inline]
    fn items(&self, leaf: LeafId) -> (u32, u32) {
        (leaf.0, leaf.0 + self.leaves.len() as u32)
    }

    #[inline]
    fn is_idle(&self) -> bool {
        Order::is_empty(&self.eligible) && Order::is_empty(&self.early)
    }
}

/// At this tags are moved back; none is more than 2^60 later.
const RENEWAL: u64 = 1 << 61;
const _: () = assert!(RENEWAL + (1 << 60) < KEY_MAX, "every tag is a key");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::sched::ClassSpec;
    use crate::units::{Duration, Quantity, Rate};
    use alloc::collections::VecDeque;
    use alloc::string::ToString;

    fn tree(weights: &[u64]) -> Tree {
        let class = |(index, &weight): (usize, &u64)| ClassSpec {
            name: index.to_string(),
            parent: None,
            params: Params::new().with("weight", Quantity::Number(weight)),
        };
        let classes = weights.iter().enumerate().map(class).collect();
        // A byte takes a nanosecond.
        let rate = Rate::new(8_000_000_000).expect("not zero");
        Tree::new(rate, Bytes::new(1500), Params::new(), classes).expect("flat")
    }

    fn head(length: u64) -> Head {
        Head { length: Bytes::new(length), arrived: Instant::ZERO }
    }

    /// The leaf that the rule of the header names, found by asking all.
    fn plain_choice(wf2q: &Wf2q) -> Option<usize> {
        let waits = |&leaf: &usize| wf2q.leaves[leaf].place != Place::Idle;
        let waiting: Vec<_> = (0..wf2q.leaves.len()).filter(waits).collect();
        let first = waiting.iter().map(|&leaf| wf2q.leaves[leaf].start).min()?;
        let reached = wf2q.virtual_time.max(first);
        let eligible = waiting.into_iter().filter(|&leaf| wf2q.leaves[leaf].start <= reached);
        eligible.min_by_key(|&leaf| (wf2q.leaves[leaf].finish, leaf))
    }

    fn check(seed: u64, weights: &[u64]) {
        let mut wf2q = Wf2q::build(&tree(weights)).expect("any weights will do");
        let mut waiting = alloc::vec![VecDeque::new(); weights.len()];
        let mut random = Random::new(seed, 0);
        let mut now = Instant::ZERO;
        for step in 0..3_000u32 {
            let leaf = random.below(weights.len() as u32) as usize;
            let id = LeafId(leaf as u32);
            let fills = if step / 300 % 2 == 0 { 5 } else { 3 };
            match random.below(9) {
                draw if draw < fills => {
                    let length = 1 + u64::from(random.below(1500));
                    if waiting[leaf].is_empty() {
                        wf2q.enqueued(now, id, head(length));
                    }
                    waiting[leaf].push_back(length);
                }
                8 if waiting[leaf].pop_front().is_some() => {
                    wf2q.head_changed(now, id, waiting[leaf].front().copied().map(head));
                }
                _ => {
                    let expected = plain_choice(&wf2q);
                    let selection = wf2q.select(now);
                    let Selection::Leaf(chosen) = selection else {
                        assert_eq!((selection, expected), (Selection::Idle, None));
                        continue;
                    };
                    assert_eq!(Some(chosen.index()), expected, "{seed} {step} {weights:?}");
                    let length = waiting[chosen.index()].pop_front().expect("it is backlogged");
                    let next = waiting[chosen.index()].front().copied().map(head);
                    wf2q.charge(now, chosen, Bytes::new(length), next);
                    // Now and then the line has some of it left, or was idle for a while.
                    let wait = length * u64::from(random.below(4)) / 2;
                    now = now.after(Duration::from_nanos(wait));
                }
            }
        }
    }

    #[test]
    fn lanes_choose_what_the_plain_rule_chooses() {
        for seed in 0..60 {
            let mut random = Random::new(seed, 1);
            let most = [1, 3, 100, 65_535][seed as usize % 4];
            let count = 1 + random.below(12);
            let weights: Vec<_> = (0..count).map(|_| 1 + u64::from(random.below(most))).collect();
            check(seed, &weights);
        }
    }

    #[test]
    fn a_leaf_that_was_ahead_is_still_ahead_after_a_change_of_the_tree() {
        let before = tree(&[1, 1]);
        let mut old = Wf2q::build(&before).expect("any weights will do");
        let now = Instant::ZERO;
        old.enqueued(now, LeafId(0), head(1500));
        let Selection::Leaf(leaf) = old.select(now) else { panic!("one waits") };
        old.charge(now, leaf, Bytes::new(1500), None);
        let after = tree(&[1, 1, 1]);
        let mut new = Wf2q::build(&after).expect("any weights will do");
        new.inherit(now, &old, &Kin::by_name(&before, &after));
        let ahead = |leaf: usize| (new.leaves[leaf].start - new.virtual_time) >> new.shift;
        assert_eq!([0, 1, 2].map(ahead), [1500, 0, 0]);
    }
}
