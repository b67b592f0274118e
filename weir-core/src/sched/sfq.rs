//! Stochastic fairness queueing's round robin `[mckenney90]`, with the allotment of Linux
//! [algorithms §4.5].
//!
//! Backlogged leaves form a ring. The first leaf sends while its allotment is above zero, and its
//! last packet may overdraw it; then the leaf gains a quantum and goes to the end. So, unlike with
//! deficits, a leaf's packet never waits for a quantum that covers it, and a turn lacks what the
//! one before it overdrew. A leaf whose last packet is dropped stays in the round until its turn.
//! Invariant: `round` holds each backlogged leaf once, and no allotment is above its quantum.
//!
//! Here each leaf is a queue of the ring. The other half of the algorithm, hashing the flows of one
//! class into many queues, needs a packet's flow, which schedulers do not see: it belongs to the
//! leaf's queue and is not in this file.

use super::service::Rounds;
use super::{
    Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit, RefitError,
    Scheduler, Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::round_robin::{RoundRobin, Standing};
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// A round robin with allotments.
pub struct Sfq {
    leaves: Vec<Turn>,
    round: RoundRobin,
}

/// The turn of a leaf, in bytes.
struct Turn {
    quantum: i64,
    allotment: i64,
}

impl Discipline for Sfq {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "sfq",
        summary: "Round robin by allotment: a leaf sends until its quantum is used up.",
        parameters: &[Parameter {
            name: "quantum",
            scope: Scope::Leaf,
            kind: Kind::Size(QUANTUM_MIN as u64, QUANTUM_MAX as u64),
            default: Some("the largest packet"),
            summary: "Bytes that the leaf may send per round; a turn ends after the packet that \
                      uses them up.",
        }],
        sources: &["mckenney90", "algorithms §4.5"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let turn = |class: &super::ClassSpec| {
            let quantum = quantum(tree, class);
            Turn { quantum, allotment: quantum }
        };
        let leaves: Vec<_> = tree.leaves().map(|(_, class)| turn(class)).collect();
        let round = RoundRobin::new(leaves.len());
        Ok(Self { leaves, round })
    }
}

fn quantum(tree: &Tree, class: &super::ClassSpec) -> i64 {
    let quantum = class.params.bytes("quantum").unwrap_or(tree.mtu()).get();
    quantum.clamp(QUANTUM_MIN as u64, QUANTUM_MAX as u64) as i64
}

impl Scheduler for Sfq {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        if self.round.standing(leaf) == Standing::Out {
            let turn = &mut self.leaves[leaf.index()];
            turn.allotment = turn.quantum;
        }
        self.round.join(leaf);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        let mut passed = 0;
        while let Some(leaf) = self.round.front() {
            if self.round.standing(leaf) == Standing::Emptied {
                self.round.pop();
                continue;
            }
            let turn = &mut self.leaves[leaf.index()];
            if turn.allotment > 0 {
                return Selection::Leaf(leaf);
            }
            turn.allotment += turn.quantum;
            self.round.rotate();
            passed += 1;
            if passed > self.leaves.len() {
                self.skip_rounds();
                passed = 0;
            }
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        debug_assert_eq!(self.round.front(), Some(leaf), "the leaf whose turn it is sends");
        if next.is_none() {
            return self.round.pop();
        }
        let turn = &mut self.leaves[leaf.index()];
        turn.allotment -= sent.get().clamp(1, QUANTUM_MAX as u64) as i64;
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if head.is_none() {
            self.round.mark_empty(leaf);
        }
    }
}

impl Explains for Sfq {
    fn service(tree: &Tree) -> Service {
        let gains = tree.leaves().map(|(_, class)| quantum(tree, class) as u64).collect();
        Service::Rounds(Rounds { gains, in_packets: false, overdraws: true, forgets: true })
    }
}

impl Changes for Sfq {
    const REFITS: bool = true;

    /// Backlogged leaves keep their order: the first one is first again, with what
    /// is left of its allotment, up to its new quantum.
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        self.round.inherit(&old.round, kin, |new, before| {
            let turn = &mut self.leaves[new.index()];
            turn.allotment = old.leaves[before.index()].allotment.min(turn.quantum);
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
        turn.allotment = turn.allotment.min(turn.quantum);
        if refit.is_new {
            turn.allotment = turn.quantum;
            self.round.leave(leaf);
        }
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.round.agrees(waiting.heads)
    }
}

impl Sfq {
    /// Gives all leaves that wait the quanta of all further rounds in which none could send, at
    /// once: so a choice ends after three rounds, however small the quanta are.
    #[cold]
    fn skip_rounds(&mut self) {
        let waits = |&leaf: &LeafId| self.round.standing(leaf) == Standing::Waiting;
        let rounds = |leaf: LeafId| {
            let turn = &self.leaves[leaf.index()];
            (-turn.allotment).max(0) / turn.quantum
        };
        let rounds = self.round.iter().filter(waits).map(rounds).min().unwrap_or(0);
        for leaf in self.round.iter().filter(waits) {
            let turn = &mut self.leaves[leaf.index()];
            turn.allotment += rounds * turn.quantum;
        }
    }
}

/// The least quantum: with less, a turn would be one packet, whatever its length.
const QUANTUM_MIN: i64 = 64;
/// The largest quantum: a round of a million leaves then still fits 64 bits.
const QUANTUM_MAX: i64 = 1 << 32;

state!(Sfq { leaves, round });
state!(Turn {
    allotment;
    kept: quantum;
    check: |turn: &Self| (-2 * QUANTUM_MAX..=2 * QUANTUM_MAX).contains(&turn.allotment)
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::sched::ClassSpec;
    use crate::units::{Quantity, Rate};
    use alloc::string::{String, ToString};

    fn sfq(quanta: &[u64]) -> (Sfq, Tree) {
        let class = |(index, &quantum): (usize, &u64)| ClassSpec {
            name: index.to_string(),
            parent: None,
            params: Params::new().with("quantum", Quantity::Bytes(Bytes::new(quantum))),
        };
        let classes = quanta.iter().enumerate().map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes).expect("flat");
        (Sfq::build(&tree).expect("any quanta are good"), tree)
    }

    const HEAD: Head = Head { length: Bytes::new(1000), arrived: Instant::ZERO };

    /// Sends `count` packets of 1000 bytes from leaves that always wait; returns which sent.
    fn serve(sfq: &mut Sfq, count: usize) -> String {
        let mut order = String::new();
        for _ in 0..count {
            let Selection::Leaf(leaf) = sfq.select(Instant::ZERO) else { break };
            order.push((b'a' + leaf.0 as u8) as char);
            sfq.charge(Instant::ZERO, leaf, HEAD.length, Some(HEAD));
        }
        order
    }

    fn all_wait(sfq: &mut Sfq) {
        for leaf in 0..sfq.leaves.len() as u32 {
            sfq.enqueued(Instant::ZERO, LeafId(leaf), HEAD);
        }
    }

    #[test]
    fn a_turn_ends_after_the_packet_that_uses_the_quantum_up() {
        let rows = [
            (&[1000, 1000][..], "abababab"),
            // By hand: b overdraws 500 and has 1000 in its next turn, so 2, 1, 2, 1.
            (&[1000, 1500], "abbababbab"),
            (&[500, 1000], "abbabbabb"),
            (&[64, 64], "abababab"),
        ];
        for (quanta, order) in rows {
            let mut sfq = sfq(quanta).0;
            all_wait(&mut sfq);
            assert_eq!(serve(&mut sfq, order.len()), order, "{quanta:?}");
        }
    }

    #[test]
    fn a_leaf_emptied_by_drops_keeps_its_turn_if_it_waits_again_before() {
        let mut sfq = sfq(&[1000; 3]).0;
        all_wait(&mut sfq);
        sfq.head_changed(Instant::ZERO, LeafId(0), None);
        sfq.head_changed(Instant::ZERO, LeafId(1), None);
        sfq.enqueued(Instant::ZERO, LeafId(1), HEAD);
        assert_eq!(serve(&mut sfq, 4), "bcbc");
    }

    #[test]
    fn the_round_goes_on_where_it_was_after_a_change_of_the_tree() {
        let (mut old, tree) = sfq(&[2000, 2000, 2000]);
        all_wait(&mut old);
        assert_eq!(serve(&mut old, 3), "aab");
        let (mut new, changed) = sfq(&[2000, 2000, 2000, 2000]);
        new.inherit(Instant::ZERO, &old, &Kin::by_name(&tree, &changed));
        all_wait(&mut new);
        assert_eq!(serve(&mut new, 7), "bccaadd");
    }
}
