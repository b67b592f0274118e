//! ALTQ's "WFQ": no fair queueing with virtual times, but a weighted ring [algorithms §4.1].
//!
//! The first leaf sends while its quota is above zero, and may overdraw it by its last packet; then
//! the next one gains 512 bytes at weight 100. A leaf that joins is last, with a quota of zero. One
//! that empties stays, with its quota or its debt, until it is visited with a quota above zero
//! `[altq]`. ALTQ's high-water mark is a dropper here, `queue/longest.rs`, and its hash functions
//! are in `classify/hash.rs`.
//! Invariant: a leaf with a packet is in the ring; in the ring only the first has a quota above 0.

use super::{
    Changes, ClassSpec, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Waiting,
};
use super::{Scheduler, Selection, Tree};
use crate::ids::LeafId;
use crate::order::round_robin::{RoundRobin, Standing};
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// The leaves and the ring in which they take turns.
pub struct AltqWfq {
    leaves: Vec<Turn>,
    ring: RoundRobin,
    /// The number of leaves with a packet: the ring may hold others.
    backlogged: u32,
}

/// The turn of a leaf, in bytes.
struct Turn {
    /// The gain at each visit.
    gain: i32,
    /// Bytes that it may send; negative when its last packet overdrew it.
    quota: i32,
}

impl Discipline for AltqWfq {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "altq-wfq",
        summary: "ALTQ's WFQ: a ring in which each leaf gains 512 bytes a visit at weight 100.",
        parameters: &[Parameter {
            name: "weight",
            scope: Scope::Leaf,
            kind: Kind::Number(1, WEIGHT_MAX),
            default: Some("100"),
            summary: "Bytes per visit in hundredths of 512; ALTQ took 0 as well, and hung.",
        }],
        sources: &["quadros §3", "altq altq_wfq", "algorithms §4.1"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let turn = |class: &ClassSpec| {
            let weight = class.params.number("weight").unwrap_or(WEIGHT_DEFAULT);
            let gain = (GAIN * weight.clamp(1, WEIGHT_MAX) / WEIGHT_DEFAULT) as i32;
            Turn { gain, quota: 0 }
        };
        let leaves: Vec<_> = tree.leaves().map(|(_, class)| turn(class)).collect();
        Ok(Self { ring: RoundRobin::new(leaves.len()), leaves, backlogged: 0 })
    }
}

impl Scheduler for AltqWfq {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.backlogged += 1;
        if self.ring.standing(leaf) == Standing::Out {
            let turn = &mut self.leaves[leaf.index()];
            // The first leaf of an empty ring begins its turn at once.
            turn.quota = if self.ring.len() == 0 { turn.quota + turn.gain } else { 0 };
        }
        self.ring.join(leaf);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        // With no packet at all the ring stays as it is, so it is never empty after the first one.
        if self.backlogged == 0 {
            return Selection::Idle;
        }
        let mut passed = 0;
        loop {
            let leaf = self.ring.front().expect("a leaf with a packet is in the ring");
            let turn = &mut self.leaves[leaf.index()];
            if turn.quota <= 0 {
                self.ring.rotate();
                passed += 1;
            } else if self.ring.standing(leaf) == Standing::Waiting {
                return Selection::Leaf(leaf);
            } else {
                self.ring.pop();
            }
            if passed >= self.ring.len() {
                self.skip_rounds();
                passed = 0;
            }
            self.visit();
        }
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let turn = &mut self.leaves[leaf.index()];
        turn.quota -= sent.get().min(LENGTH_MAX) as i32;
        self.settle(leaf, next);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        self.settle(leaf, head);
    }
}

impl Explains for AltqWfq {}

impl Changes for AltqWfq {
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        self.ring.inherit(&old.ring, kin, |new, before| {
            let turn = &mut self.leaves[new.index()];
            turn.quota = old.leaves[before.index()].quota.min(turn.gain);
        });
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.backlogged as usize == waiting.leaves() && self.ring.agrees(waiting.heads)
    }
}

impl AltqWfq {
    /// The place and the quota of a leaf that empties remain.
    #[inline]
    fn settle(&mut self, leaf: LeafId, next: Option<Head>) {
        if next.is_none() {
            self.ring.mark_empty(leaf);
            self.backlogged -= 1;
        }
    }

    /// Passes the turn to the leaf that is first now.
    #[inline]
    fn visit(&mut self) {
        let leaf = self.ring.front().expect("a leaf with a packet is left in the ring");
        let turn = &mut self.leaves[leaf.index()];
        turn.quota += turn.gain;
    }

    /// Gives all leaves the gains of all further rounds after which no quota is above zero, at
    /// once: so a choice ends after three rounds, however small the weights are.
    #[cold]
    fn skip_rounds(&mut self) {
        let rounds = |leaf: LeafId| {
            let turn = &self.leaves[leaf.index()];
            turn.quota.min(0).unsigned_abs() / turn.gain.unsigned_abs()
        };
        let rounds = self.ring.iter().map(rounds).min().unwrap_or(0);
        for leaf in self.ring.iter() {
            let turn = &mut self.leaves[leaf.index()];
            // Reaches zero at most.
            turn.quota += rounds as i32 * turn.gain;
        }
    }
}

/// Bytes of a visit at the default weight.
const GAIN: u64 = 512;
const WEIGHT_DEFAULT: u64 = 100;
/// The largest gain, longer than any sensible turn; at weight 1 a gain is 5 bytes.
const WEIGHT_MAX: u64 = 65_535;
/// Longer packets count as this much, so that a quota never overflows.
const LENGTH_MAX: u64 = 1 << 30;

state!(AltqWfq { leaves, ring, backlogged });
state!(Turn { quota; kept: gain; check: |turn: &Self| turn.quota.unsigned_abs() <= 1 << 30 });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::units::{Quantity, Rate};
    use alloc::collections::VecDeque;
    use alloc::string::ToString;

    fn build(weights: &[u64]) -> AltqWfq {
        let class = |&weight: &u64| ClassSpec {
            name: weight.to_string(),
            parent: None,
            params: Params::new().with("weight", Quantity::Number(weight)),
        };
        let classes = weights.iter().map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes);
        AltqWfq::build(&tree.expect("a tree")).expect("builds")
    }

    /// The ring in its plain form, one visit after the other.
    struct Plain {
        gains: Vec<i64>,
        quotas: Vec<i64>,
        ring: VecDeque<usize>,
        queues: Vec<VecDeque<u64>>,
    }

    impl Plain {
        fn new(weights: &[u64]) -> Self {
            let gain = |&weight: &u64| (512 * weight / 100) as i64;
            Self {
                gains: weights.iter().map(gain).collect(),
                quotas: alloc::vec![0; weights.len()],
                ring: VecDeque::new(),
                queues: alloc::vec![VecDeque::new(); weights.len()],
            }
        }

        fn enqueue(&mut self, leaf: usize, length: u64) {
            self.queues[leaf].push_back(length);
            if self.ring.contains(&leaf) {
                return;
            }
            if self.ring.is_empty() {
                self.quotas[leaf] += self.gains[leaf];
            } else {
                self.quotas[leaf] = 0;
            }
            self.ring.push_back(leaf);
        }

        fn dequeue(&mut self) -> Option<usize> {
            if self.queues.iter().all(VecDeque::is_empty) {
                return None;
            }
            loop {
                let leaf = self.ring[0];
                if self.quotas[leaf] <= 0 {
                    self.ring.rotate_left(1);
                } else if let Some(length) = self.queues[leaf].pop_front() {
                    self.quotas[leaf] -= length as i64;
                    return Some(leaf);
                } else {
                    self.ring.pop_front();
                }
                let front = self.ring[0];
                self.quotas[front] += self.gains[front];
            }
        }
    }

    /// The fast ring beside the plain one; both receive the same calls.
    struct Pair(AltqWfq, Plain);

    const NOW: Instant = Instant::ZERO;

    impl Pair {
        fn head(&self, leaf: usize) -> Option<Head> {
            let length = *self.1.queues[leaf].front()?;
            Some(Head { length: Bytes::new(length), arrived: NOW })
        }

        fn enqueue(&mut self, leaf: usize, length: u64) {
            let was_empty = self.1.queues[leaf].is_empty();
            self.1.enqueue(leaf, length);
            if let Some(head) = self.head(leaf).filter(|_| was_empty) {
                self.0.enqueued(NOW, LeafId(leaf as u32), head);
            }
        }

        fn drop_first(&mut self, leaf: usize) {
            if self.1.queues[leaf].pop_front().is_some() {
                self.0.head_changed(NOW, LeafId(leaf as u32), self.head(leaf));
            }
        }

        /// Returns the leaf that sends, after checking that both agree.
        fn dequeue(&mut self) -> Option<usize> {
            let selection = self.0.select(NOW);
            assert_eq!(selection, self.0.select(NOW), "selected again");
            let heads: Vec<_> = self.1.queues.iter().map(|queue| queue.front().copied()).collect();
            let leaf = self.1.dequeue();
            let id = leaf.map(|leaf| LeafId(leaf as u32));
            assert_eq!(selection, id.map_or(Selection::Idle, Selection::Leaf));
            let leaf = leaf?;
            self.0.charge(NOW, id?, Bytes::new(heads[leaf]?), self.head(leaf));
            Some(leaf)
        }
    }

    #[test]
    fn the_ring_follows_the_worked_example() {
        // [algorithms §4.1] Queues 1 and 3 of the example are 0 and 1 here.
        let mut pair = Pair(build(&[100, 200]), Plain::new(&[100, 200]));
        for _ in 0..8 {
            pair.enqueue(0, 1500);
            pair.enqueue(1, 1500);
        }
        let order: Vec<_> = core::iter::from_fn(|| pair.dequeue()).collect();
        assert_eq!(order, [0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn packets_are_shared_by_weight_while_all_wait() {
        // [algorithms §4.1] Per cent of the packets of a leaf of weight 100.
        for (weight, ratio) in [(30, 30), (70, 70), (100, 100), (500, 499), (1000, 999)] {
            let mut pair = Pair(build(&[100, weight]), Plain::new(&[100, weight]));
            let mut sent = [0i64; 2];
            for leaf in [0, 1] {
                pair.enqueue(leaf, 1500);
            }
            for _ in 0..20_000 {
                // The next packet comes before the one in service has gone.
                pair.enqueue(0, 1500);
                pair.enqueue(1, 1500);
                sent[pair.dequeue().expect("both wait")] += 1;
            }
            let measured = sent[1] * 100 / sent[0];
            assert!((measured - ratio).abs() <= 1, "{weight}: {measured} for {ratio}");
        }
    }

    #[test]
    fn it_agrees_with_the_plain_ring() {
        let rows: [&[u64]; 4] = [&[100], &[100, 200], &[1, 30, 100], &[1, 1, 1, 7, 1000, 65_535]];
        for (row, weights) in rows.into_iter().enumerate() {
            for seed in 0..100 {
                let mut random = Random::new(seed, row as u64);
                let mut pair = Pair(build(weights), Plain::new(weights));
                for _ in 0..300 {
                    let leaf = random.below(weights.len() as u32) as usize;
                    match random.below(16) {
                        0..=6 => pair.enqueue(leaf, u64::from(random.below(65_536))),
                        7 => pair.drop_first(leaf),
                        _ => drop(pair.dequeue()),
                    }
                }
                while pair.dequeue().is_some() {}
            }
        }
    }
}
