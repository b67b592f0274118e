//! Enhanced transmission selection, as Linux's `ets` has it [linux sch_ets; ieee802.1q §8.6.8.3]
//! [algorithms §4.10].
//!
//! Leaves with a `priority` are strict: the larger number goes first, and all go before those that
//! have none, which share what is left by deficit round robin, each with its `quantum`. Both parts
//! are the schedulers of these names as they are: each knows only its own leaves. Invariant: a leaf
//! is known to the part that serves it, and to no other.

use super::drr::Drr;
use super::priq::Priq;
use super::{
    Changes, ClassSpec, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit,
    RefitError, Scheduler, Selection, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Strict priority above deficit round robin.
pub struct Ets {
    strict: Priq,
    shares: Drr,
    /// By leaf, whether it has a priority.
    is_strict: Vec<bool>,
}

impl Discipline for Ets {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "ets",
        summary: "Strict priorities first; the other leaves share what is left by deficit rounds.",
        parameters: &[
            Parameter {
                name: "priority",
                scope: Scope::Leaf,
                kind: Kind::Number(0, PRIORITY_MAX),
                default: Some("0"),
                summary: "Larger goes first, before all that share; 0 shares by `quantum`.",
            },
            Parameter {
                name: "quantum",
                scope: Scope::Leaf,
                kind: Kind::Size(QUANTUM_MIN, QUANTUM_MAX),
                default: Some("the largest packet"),
                summary: "Bytes that a leaf without a priority may send per round.",
            },
        ],
        sources: &["linux sch_ets", "ieee802.1q §8.6.8.3", "drr95 §3", "algorithms §4.10"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let is_strict = tree.leaves().map(|(_, class)| priority(class) > 0).collect();
        Ok(Self { strict: Priq::build(tree)?, shares: Drr::build(tree)?, is_strict })
    }
}

impl Scheduler for Ets {
    #[inline]
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        match self.is_strict[leaf.index()] {
            true => self.strict.enqueued(now, leaf, head),
            false => self.shares.enqueued(now, leaf, head),
        }
    }

    #[inline]
    fn select(&mut self, now: Instant) -> Selection {
        match self.strict.select(now) {
            Selection::Idle => self.shares.select(now),
            first => first,
        }
    }

    #[inline]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        match self.is_strict[leaf.index()] {
            true => self.strict.charge(now, leaf, sent, next),
            false => self.shares.charge(now, leaf, sent, next),
        }
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        match self.is_strict[leaf.index()] {
            true => self.strict.head_changed(now, leaf, head),
            false => self.shares.head_changed(now, leaf, head),
        }
    }
}

impl Explains for Ets {}

impl Changes for Ets {
    const REFITS: bool = true;

    fn inherit(&mut self, now: Instant, old: &Self, kin: &Kin) {
        self.shares.inherit(now, &old.shares, kin);
    }

    fn refit(
        &mut self,
        now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        // Bands count leaves that share among those of one priority, with another default.
        if tree.leaf(leaf).params.number("priority") != refit.before.number("priority") {
            return Err(RefitError::NeedsChange("its priority is another"));
        }
        match self.is_strict[leaf.index()] {
            true => self.strict.refit(now, tree, leaf, refit),
            false => self.shares.refit(now, tree, leaf, refit),
        }
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let part = |strict: bool| -> Vec<Option<Head>> {
            let rows = waiting.heads.iter().zip(&self.is_strict);
            rows.map(|(head, &is_strict)| head.filter(|_| is_strict == strict)).collect()
        };
        self.strict.agrees(&Waiting { heads: &part(true), ..*waiting })
            && self.shares.agrees(&Waiting { heads: &part(false), ..*waiting })
    }
}

fn priority(class: &ClassSpec) -> u64 {
    class.params.number("priority").unwrap_or(0)
}

/// As many strict bands as Linux has beside one that shares.
const PRIORITY_MAX: u64 = 15;
/// The least quantum: below it a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
const QUANTUM_MAX: u64 = 1 << 30;

state!(Ets { strict, shares; kept: is_strict });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::units::{Quantity, Rate};
    use alloc::collections::VecDeque;
    use alloc::string::{String, ToString};

    /// A band of the oracle: its priority or, if that is 0, its quantum.
    #[derive(Clone, Copy)]
    struct Band(u64, u64);

    fn ets(bands: &[Band]) -> Ets {
        let class = |&Band(priority, quantum): &Band| ClassSpec {
            name: priority.to_string(),
            parent: None,
            params: Params::new()
                .with("priority", Quantity::Number(priority))
                .with("quantum", Quantity::Bytes(Bytes::new(quantum))),
        };
        let classes = bands.iter().map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes).expect("a tree");
        Ets::build(&tree).expect("builds")
    }

    /// The plain version, as the qdisc's own text tells it: strict bands are tried in their order,
    /// then the first of a list of backlogged bands sends or goes to its end with a quantum more.
    struct Plain {
        bands: Vec<Band>,
        active: VecDeque<usize>,
        deficits: Vec<u64>,
    }

    impl Plain {
        fn joined(&mut self, leaf: usize) {
            let Band(priority, quantum) = self.bands[leaf];
            if priority == 0 {
                self.active.push_back(leaf);
                self.deficits[leaf] = quantum;
            }
        }

        fn send(&mut self, waiting: &[VecDeque<u64>]) -> Option<usize> {
            let strict = (0..waiting.len()).filter(|&leaf| self.bands[leaf].0 > 0);
            let busy = strict.filter(|&leaf| !waiting[leaf].is_empty());
            if let Some(leaf) = busy.max_by_key(|&leaf| self.bands[leaf].0) {
                return Some(leaf);
            }
            loop {
                let leaf = *self.active.front()?;
                let length = waiting[leaf][0];
                if length <= self.deficits[leaf] {
                    self.deficits[leaf] -= length;
                    if waiting[leaf].len() == 1 {
                        self.active.pop_front();
                    }
                    return Some(leaf);
                }
                self.deficits[leaf] += self.bands[leaf].1;
                self.active.rotate_left(1);
            }
        }
    }

    /// Both serve random arrivals in the same order; returns it.
    fn check(seed: u64, bands: &[Band], steps: u32) -> String {
        let mut ets = ets(bands);
        let mut plain = Plain {
            bands: bands.to_vec(),
            active: VecDeque::new(),
            deficits: alloc::vec![0; bands.len()],
        };
        let mut waiting = alloc::vec![VecDeque::new(); bands.len()];
        let mut random = Random::new(seed, 0);
        let mut order = String::new();
        let now = Instant::ZERO;
        let head = |length: &u64| Head { length: Bytes::new(*length), arrived: now };
        for _ in 0..steps {
            let leaf = random.below(bands.len() as u32) as usize;
            let length = 1 + u64::from(random.below(3000));
            if random.below(100) < 48 {
                if waiting[leaf].is_empty() {
                    ets.enqueued(now, LeafId(leaf as u32), head(&length));
                    plain.joined(leaf);
                }
                waiting[leaf].push_back(length);
                continue;
            }
            let expected = plain.send(&waiting);
            let Selection::Leaf(leaf) = ets.select(now) else {
                assert_eq!(expected, None, "seed {seed}");
                continue;
            };
            assert_eq!(Some(leaf.index()), expected, "seed {seed}");
            assert_eq!(ets.select(now), Selection::Leaf(leaf));
            let queue = &mut waiting[leaf.index()];
            let sent = queue.pop_front().expect("a selected leaf is backlogged");
            ets.charge(now, leaf, Bytes::new(sent), queue.front().map(head));
            order.push(char::from(b'a' + leaf.0 as u8));
        }
        order
    }

    #[test]
    fn the_order_is_that_of_strict_bands_and_a_list_of_shares() {
        for seed in 0..100 {
            check(seed, &[Band(2, 64), Band(1, 64), Band(0, 3000), Band(0, 1500)], 600);
            check(seed, &[Band(0, 64), Band(0, 100), Band(0, 64)], 300);
            check(seed, &[Band(15, 64), Band(7, 64)], 300);
            let order = check(seed, &[Band(0, 1000), Band(3, 64), Band(0, 500)], 600);
            assert!(order.contains('b') && order.contains('c'), "all had packets");
        }
    }

    #[test]
    fn a_packet_with_priority_goes_before_the_next_of_those_that_share() {
        let mut ets = ets(&[Band(0, 1500), Band(1, 64)]);
        let now = Instant::ZERO;
        let head = Head { length: Bytes::new(1000), arrived: now };
        ets.enqueued(now, LeafId(0), head);
        assert_eq!(ets.select(now), Selection::Leaf(LeafId(0)));
        ets.charge(now, LeafId(0), head.length, Some(head));
        ets.enqueued(now, LeafId(1), head);
        assert_eq!(ets.select(now), Selection::Leaf(LeafId(1)));
        ets.head_changed(now, LeafId(1), None);
        assert_eq!(ets.select(now), Selection::Leaf(LeafId(0)));
        ets.head_changed(now, LeafId(0), None);
        assert_eq!(ets.select(now), Selection::Idle);
    }
}
