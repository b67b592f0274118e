//! Deficit round robin [drr95 §3], refilled as Linux and dummynet do [algorithms §4.6].
//!
//! A leaf that becomes backlogged joins the end of the round with one quantum. The leaf in front
//! sends while its deficit covers its first packet; then it gains a quantum and goes to the end.
//! Invariant: `round` holds each backlogged leaf once, so the cost does not grow with the leaves.

use super::leaf_ring::LeafRing;
use super::{Cost, Descriptor, Discipline, Head, Promises, Scheduler, Selection, Tree};
use crate::ids::LeafId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Deficit round robin.
pub struct Drr {
    leaves: Vec<Turn>,
    round: LeafRing,
}

/// What the round knows of a leaf.
struct Turn {
    quantum: u64,
    deficit: u64,
    /// Charged length of the first packet, if one waits.
    head: u64,
    backlogged: bool,
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
        let mut leaves = Vec::with_capacity(tree.leaf_count());
        for (_, class) in tree.leaves() {
            let quantum = class.params.bytes("quantum").unwrap_or(tree.mtu()).get();
            leaves.push(Turn {
                quantum: quantum.clamp(QUANTUM_MIN, QUANTUM_MAX),
                deficit: 0,
                head: 0,
                backlogged: false,
            });
        }
        let round = LeafRing::with_capacity(leaves.len());
        Ok(Self { leaves, round })
    }
}

impl Scheduler for Drr {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, head: Head) {
        let turn = &mut self.leaves[leaf.index()];
        if !turn.backlogged {
            turn.backlogged = true;
            turn.head = head.length.get();
            turn.deficit = turn.quantum;
            self.round.push_back(leaf);
        }
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        // Ends: each turn adds at least QUANTUM_MIN to a deficit that must reach one packet.
        while let Some(leaf) = self.round.front() {
            let turn = &mut self.leaves[leaf.index()];
            if turn.head <= turn.deficit {
                return Selection::Leaf(leaf);
            }
            turn.deficit += turn.quantum;
            self.round.rotate();
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let turn = &mut self.leaves[leaf.index()];
        let Some(next) = next else {
            turn.empty();
            return self.round.pop_front();
        };
        turn.head = next.length.get();
        turn.deficit = turn.deficit.saturating_sub(sent.get());
    }

    #[inline]
    fn allowance(&self, _now: Instant, leaf: LeafId) -> Bytes {
        Bytes::new(self.leaves[leaf.index()].deficit)
    }

    #[inline]
    fn upcoming(&self, ahead: usize) -> Option<LeafId> {
        self.round.get(ahead)
    }

    #[inline]
    fn touch(&self, leaf: LeafId) {
        core::hint::black_box(self.leaves[leaf.index()].deficit);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let turn = &mut self.leaves[leaf.index()];
        match head {
            Some(head) => turn.head = head.length.get(),
            None => {
                turn.empty();
                self.round.remove(leaf);
            }
        }
    }
}

impl Turn {
    /// [drr95 §3] A leaf that empties loses its deficit, or idling would earn credit.
    fn empty(&mut self) {
        self.backlogged = false;
        self.deficit = 0;
    }
}

/// Below this a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
/// A round of a million leaves then still fits 64 bits with ease.
const QUANTUM_MAX: u64 = 1 << 32;
