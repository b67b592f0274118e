//! FQ-CoDel's rounds over leaves: deficit round robin in which newcomers go first [rfc8290 §4.2;
//! linux] [algorithms §9.7].
//!
//! The classes are the flows. All have the same quantum. The dropper of each leaf, which the policy
//! chooses as for any scheduler, limits the flow's queue. The two lists are in
//! `order/rounds.rs`. Invariant: every backlogged leaf is listed there.

use super::{
    Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Scheduler, Selection,
    Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::rounds::{Rounds, Rules};
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Deficit round robin, newcomers first.
pub struct FqCodel {
    rounds: Rounds,
    /// Whether packets wait, by leaf.
    waits: Vec<bool>,
}

impl Discipline for FqCodel {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "fq-codel",
        summary: "Deficit round robin in which leaves that send little go first.",
        parameters: &[
            Parameter {
                name: "quantum",
                scope: Scope::Link,
                kind: Kind::Size(QUANTUM_MIN, QUANTUM_MAX),
                default: Some("the largest packet"),
                summary: "Bytes that a leaf may send per round; one that sends less goes first.",
            },
            Parameter {
                name: Rules::NAME,
                scope: Scope::Link,
                kind: Rules::KIND,
                default: Some(Rules::DEFAULT),
                summary: "Linux's order, or the letter of RFC 8290.",
            },
        ],
        sources: &["rfc8290 §4.2", "linux sch_fq_codel", "algorithms §9.7"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let quantum = tree.params().bytes("quantum").unwrap_or(tree.mtu()).get();
        let quantum = quantum.clamp(QUANTUM_MIN, QUANTUM_MAX) as u32;
        let leaves = tree.leaf_count();
        let rounds = Rounds::new(leaves, quantum, Rules::from_params(tree.params()));
        Ok(Self { rounds, waits: alloc::vec![false; leaves] })
    }
}

impl Scheduler for FqCodel {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.waits[leaf.index()] = true;
        self.rounds.join(leaf.0);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        let waits = &self.waits;
        match self.rounds.choose(|leaf| waits[leaf as usize]) {
            Some(leaf) => Selection::Leaf(LeafId(leaf)),
            None => Selection::Idle,
        }
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        debug_assert!(self.waits[leaf.index()], "a selected leaf is backlogged");
        self.rounds.charge(leaf.0, sent.get());
        self.waits[leaf.index()] = next.is_some();
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        self.waits[leaf.index()] = head.is_some();
    }

    #[inline]
    fn found_nothing(&mut self) {
        self.rounds.clear();
    }
}

impl Explains for FqCodel {}

impl Changes for FqCodel {
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        for (then, is_new) in old.rounds.iter() {
            if let Some(now) = kin.new_leaf(LeafId(then)) {
                self.rounds.resume(now.0, is_new, &old.rounds, then);
            }
        }
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let is_known = |leaf: usize, head: Option<Head>| {
            self.waits[leaf] == head.is_some()
                && (head.is_none() || self.rounds.contains(leaf as u32))
        };
        waiting.all(is_known)
    }
}

/// Below this a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
const QUANTUM_MAX: u64 = 1 << 30;

state!(FqCodel { rounds, waits });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::sched::ClassSpec;
    use crate::units::{Quantity, Rate};
    use alloc::string::ToString;

    fn scheduler(leaves: u32, quantum: u64) -> FqCodel {
        let class =
            |leaf: u32| ClassSpec { name: leaf.to_string(), parent: None, params: Params::new() };
        let params = Params::new().with("quantum", Quantity::Bytes(Bytes::new(quantum)));
        let classes = (0..leaves).map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1514), params, classes).expect("a tree");
        FqCodel::build(&tree).expect("builds")
    }

    /// Leaves that always hold packets of these lengths, and the sparse leaf 0: after every packet
    /// of theirs it gets one, if it has none, as long as it sent less than a quantum since each of
    /// the others was last served. Returns how many bytes others sent at most before one of its.
    fn longest_wait(lengths: &[u64], quantum: u64, sparse: u64) -> u64 {
        let now = Instant::ZERO;
        let head = |length: u64| Head { length: Bytes::new(length), arrived: now };
        let mut scheduler = scheduler(1 + lengths.len() as u32, quantum);
        for (leaf, &length) in (1..).zip(lengths) {
            scheduler.enqueued(now, LeafId(leaf), head(length));
        }
        let (mut waits, mut between, mut longest) = (false, 0, 0);
        let mut unserved = lengths.len();
        let mut served = alloc::vec![false; lengths.len()];
        for _ in 0..5000 {
            if !waits && unserved == 0 {
                scheduler.enqueued(now, LeafId(0), head(sparse));
                (waits, between, unserved) = (true, 0, lengths.len());
                served.fill(false);
            }
            let Selection::Leaf(leaf) = scheduler.select(now) else { panic!("all wait") };
            if leaf == LeafId(0) {
                scheduler.charge(now, leaf, Bytes::new(sparse), None);
                (waits, longest) = (false, longest.max(between));
                continue;
            }
            let other = leaf.index() - 1;
            let length = lengths[other];
            scheduler.charge(now, leaf, Bytes::new(length), Some(head(length)));
            between += length;
            unserved -= usize::from(!core::mem::replace(&mut served[other], true));
        }
        longest
    }

    #[test]
    fn a_leaf_that_sends_less_than_a_quantum_in_a_round_waits_for_one_round_at_most() {
        for (lengths, quantum) in
            [(&[1000, 1000][..], 1514), (&[1514; 5], 1514), (&[64, 9000, 700], 3000)]
        {
            let round: u64 = lengths.iter().map(|length| quantum + length).sum();
            let wait = longest_wait(lengths, quantum, quantum / 3);
            assert!(wait <= round, "{wait} bytes of others, {round} in a round");
        }
        // One that has sent nothing before waits for no other.
        let mut scheduler = scheduler(3, 1000);
        let head = Head { length: Bytes::new(1000), arrived: Instant::ZERO };
        for leaf in [1, 2] {
            scheduler.enqueued(Instant::ZERO, LeafId(leaf), head);
            let Selection::Leaf(leaf) = scheduler.select(Instant::ZERO) else { panic!("waits") };
            scheduler.charge(Instant::ZERO, leaf, Bytes::new(1000), Some(head));
        }
        scheduler.enqueued(Instant::ZERO, LeafId(0), head);
        assert_eq!(scheduler.select(Instant::ZERO), Selection::Leaf(LeafId(0)));
    }

    #[test]
    fn a_leaf_that_always_waits_gets_as_many_bytes_as_others() {
        let lengths = [100, 1514, 700, 1000];
        let now = Instant::ZERO;
        let head = |length: u64| Head { length: Bytes::new(length), arrived: now };
        let mut scheduler = scheduler(4, 1514);
        for (leaf, &length) in (0..).zip(&lengths) {
            scheduler.enqueued(now, LeafId(leaf), head(length));
        }
        let mut sent = [0; 4];
        for _ in 0..10_000 {
            let Selection::Leaf(leaf) = scheduler.select(now) else { panic!("all wait") };
            let length = lengths[leaf.index()];
            scheduler.charge(now, leaf, Bytes::new(length), Some(head(length)));
            sent[leaf.index()] += length;
            let (most, least) = (sent.iter().max(), sent.iter().min());
            let apart = most.zip(least).map_or(0, |(most, least)| most - least);
            assert!(apart <= 1514 + 2 * 1514, "{sent:?}");
        }
    }
}
