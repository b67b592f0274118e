//! Deficit round robin [drr95 §3], refilled as Linux and dummynet do [algorithms §4.6].
//!
//! A leaf that becomes backlogged joins the end of the round with one quantum. The first leaf
//! sends while its deficit covers its first packet; then it gains a quantum and goes to the end.
//! The original gives the quantum when a visit begins, and none to a leaf that joins. The order is
//! the same, packet for packet: either way a leaf has one quantum more at each visit. A test
//! compares them.
//! Invariant: `round` holds each backlogged leaf once, so the cost does not grow with the leaves.

use super::service::Rounds;
use super::{
    Changes, ClassSpec, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit,
    RefitError, Scheduler, Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::round_robin::{RoundRobin, Standing};
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Deficit round robin.
pub struct Drr {
    leaves: Vec<Turn>,
    round: RoundRobin,
}

/// The turn of a leaf; all in bytes.
struct Turn {
    quantum: u32,
    deficit: u32,
    /// Charged length of the first packet; [`NOTHING`] while none waits.
    head: u32,
}

impl Discipline for Drr {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "drr",
        summary: "Deficit round robin: bytes in proportion to quanta, at constant cost.",
        parameters: &[Parameter {
            name: "quantum",
            scope: Scope::Leaf,
            kind: Kind::Size(QUANTUM_MIN, QUANTUM_MAX),
            default: Some("the largest packet"),
            summary: "Bytes that the leaf may send per round; at least its largest packet.",
        }],
        sources: &["drr95 §3", "algorithms §4.6"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let turn = |class: &ClassSpec| {
            let quantum = quantum(tree, class);
            Turn { quantum, deficit: 0, head: NOTHING }
        };
        let leaves: Vec<_> = tree.leaves().map(|(_, class)| turn(class)).collect();
        let round = RoundRobin::new(leaves.len());
        Ok(Self { leaves, round })
    }
}

impl Scheduler for Drr {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, head: Head) {
        let turn = &mut self.leaves[leaf.index()];
        turn.head = length_of(head);
        // The deficit exceeds the quantum only right after a reconfiguration.
        turn.deficit = turn.deficit.max(turn.quantum);
        self.round.join(leaf);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        let mut passed = 0;
        while let Some(leaf) = self.round.front() {
            let turn = &mut self.leaves[leaf.index()];
            if turn.head <= turn.deficit {
                return Selection::Leaf(leaf);
            }
            if self.round.standing(leaf) == Standing::Emptied {
                turn.deficit = 0;
                self.round.pop();
                continue;
            }
            turn.deficit = turn.deficit.saturating_add(turn.quantum);
            self.round.rotate();
            passed += 1;
            if passed >= self.round.len() {
                self.skip_rounds();
                passed = 0;
            }
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        debug_assert_eq!(self.round.front(), Some(leaf), "the leaf whose turn it is sends");
        let turn = &mut self.leaves[leaf.index()];
        let Some(next) = next else {
            turn.empty();
            return self.round.pop();
        };
        turn.head = length_of(next);
        turn.deficit = u64::from(turn.deficit).saturating_sub(sent.get()) as u32;
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let turn = &mut self.leaves[leaf.index()];
        match head {
            Some(head) => turn.head = length_of(head),
            None => {
                turn.empty();
                self.round.empty(leaf);
            }
        }
    }
}

impl Explains for Drr {
    fn service(tree: &Tree) -> Service {
        let gain = |class: &ClassSpec| u64::from(quantum(tree, class));
        let gains = tree.leaves().map(|(_, class)| gain(class)).collect();
        Service::Rounds(Rounds { gains, in_packets: false, overdraws: false, forgets: true })
    }
}

impl Changes for Drr {
    const REFITS: bool = true;

    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        self.round.inherit(&old.round, kin, |new, before| {
            let turn = &mut self.leaves[new.index()];
            turn.deficit = old.leaves[before.index()].deficit.min(2 * turn.quantum);
        });
    }

    fn refit(
        &mut self,
        _now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        let turn = &mut self.leaves[leaf.index()];
        turn.quantum = quantum(tree, tree.leaf(leaf));
        turn.deficit = turn.deficit.min(2 * turn.quantum);
        if refit.is_new {
            turn.empty();
            self.round.leave(leaf);
        }
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let knows = |leaf: usize, head: Option<Head>| {
            let turn = &self.leaves[leaf];
            turn.head == head.map_or(NOTHING, length_of)
        };
        waiting.all(knows) && self.round.agrees(waiting.heads)
    }
}

impl Drr {
    /// Gives all leaves the quanta of all further rounds in which none could send, at once: so a
    /// choice ends after three rounds, however small the quanta are.
    #[cold]
    fn skip_rounds(&mut self) {
        let missing = |turn: &Turn| turn.head.saturating_sub(turn.deficit).saturating_sub(1);
        let rounds = |leaf: LeafId| {
            let turn = &self.leaves[leaf.index()];
            missing(turn) / turn.quantum
        };
        let rounds = self.round.iter().map(rounds).min().unwrap_or(0);
        for leaf in self.round.iter() {
            let turn = &mut self.leaves[leaf.index()];
            turn.deficit = turn.deficit.saturating_add(rounds.saturating_mul(turn.quantum));
        }
    }
}

impl Turn {
    /// [drr95 §3] A leaf that empties loses its deficit, or idling would earn credit.
    fn empty(&mut self) {
        self.deficit = 0;
        self.head = NOTHING;
    }
}

fn quantum(tree: &Tree, class: &ClassSpec) -> u32 {
    let quantum = class.params.bytes("quantum").unwrap_or(tree.mtu()).get();
    quantum.clamp(QUANTUM_MIN, QUANTUM_MAX) as u32
}

/// The charged length of a first packet.
fn length_of(head: Head) -> u32 {
    u32::try_from(head.length.get()).unwrap_or(u32::MAX)
}

/// No deficit covers the first packet of a leaf that has none.
const NOTHING: u32 = u32::MAX;
/// The least quantum: below it a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
/// A quantum and what is left of the one before still fit a deficit.
const QUANTUM_MAX: u64 = 1 << 30;

state!(Drr { leaves, round });
state!(Turn { deficit, head; kept: quantum });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::units::{Quantity, Rate};
    use alloc::collections::VecDeque;
    use alloc::string::ToString;

    /// The original, as its paper has it: a visit begins with a quantum, and a leaf
    /// that joins has none.
    struct Original {
        quanta: Vec<u64>,
        deficits: Vec<u64>,
        active: VecDeque<usize>,
        /// The leaf in front is being visited: it has its quantum.
        visiting: bool,
    }

    impl Original {
        fn select(&mut self, waiting: &[VecDeque<u64>]) -> Option<usize> {
            loop {
                let leaf = *self.active.front()?;
                if !core::mem::replace(&mut self.visiting, true) {
                    self.deficits[leaf] += self.quanta[leaf];
                }
                let Some(&head) = waiting[leaf].front() else {
                    self.leave(leaf);
                    continue;
                };
                if head <= self.deficits[leaf] {
                    return Some(leaf);
                }
                self.active.rotate_left(1);
                self.visiting = false;
            }
        }

        fn leave(&mut self, leaf: usize) {
            self.deficits[leaf] = 0;
            self.active.pop_front();
            self.visiting = false;
        }

        fn sent(&mut self, leaf: usize, length: u64, empty: bool) {
            self.deficits[leaf] -= length;
            if empty {
                self.leave(leaf);
            }
        }

        /// A drop took the last packet.
        fn emptied(&mut self, leaf: usize) {
            self.deficits[leaf] = 0;
            if self.active.front() == Some(&leaf) {
                self.leave(leaf);
            }
        }
    }

    /// Both serve `steps` random arrivals, departures and drops in the same order.
    fn check(seed: u64, quanta: &[u64], steps: u32) {
        let class = |&quantum: &u64| ClassSpec {
            name: quantum.to_string(),
            parent: None,
            params: Params::new().with("quantum", Quantity::Bytes(Bytes::new(quantum))),
        };
        let tree = Tree::new(
            Rate::MIN,
            Bytes::new(1500),
            Params::new(),
            quanta.iter().map(class).collect(),
        );
        let mut drr = Drr::build(&tree.expect("a tree")).expect("builds");
        let (deficits, active) = (alloc::vec![0; quanta.len()], VecDeque::new());
        let quanta = quanta.to_vec();
        let mut original = Original { quanta, deficits, active, visiting: false };
        let mut waiting = alloc::vec![VecDeque::new(); original.quanta.len()];
        let mut random = Random::new(seed, 0);
        let now = Instant::ZERO;
        let head = |length: &u64| Head { length: Bytes::new(*length), arrived: now };
        for _ in 0..steps {
            let draw = random.bits();
            let leaf = draw as usize % waiting.len();
            let id = LeafId(leaf as u32);
            let length = 1 + (draw >> 16) % 3000;
            match draw >> 60 {
                0..=6 => {
                    if waiting[leaf].is_empty() {
                        drr.enqueued(now, id, head(&length));
                        if !original.active.contains(&leaf) {
                            original.active.push_back(leaf);
                        }
                    }
                    waiting[leaf].push_back(length);
                }
                7 if !waiting[leaf].is_empty() => {
                    waiting[leaf].pop_front();
                    drr.head_changed(now, id, waiting[leaf].front().map(head));
                    if waiting[leaf].is_empty() {
                        original.emptied(leaf);
                    }
                }
                _ => {
                    let Selection::Leaf(id) = drr.select(now) else {
                        assert_eq!(original.select(&waiting), None);
                        continue;
                    };
                    assert_eq!(original.select(&waiting), Some(id.index()), "seed {seed}");
                    let queue = &mut waiting[id.index()];
                    let length = queue.pop_front().expect("a selected leaf is backlogged");
                    drr.charge(now, id, Bytes::new(length), queue.front().map(head));
                    original.sent(id.index(), length, queue.is_empty());
                }
            }
        }
    }

    #[test]
    fn the_original_refill_gives_the_same_order() {
        for seed in 0..200 {
            check(seed, &[1500, 500], 400);
            check(seed, &[64, 64, 100], 400);
            check(seed, &[3000, 3000, 64, 800, 1500], 400);
        }
    }
}
