//! The general scheduler: rings of classes that take turns, and the credit of each for its turn.
//!
//! Invariant: a node is in at most one ring; the node in front has the turn.

use alloc::vec::Vec;

/// How permitted classes of one priority take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum General {
    /// Deficit round robin: a turn ends before the packet that it does not cover [drr95 §3].
    Drr,
    /// Weighted round robin by bytes: a turn ends after that packet, and the next turn is shorter
    /// by what was overdrawn; ALTQ forgave it [algorithms §3.8].
    Wrr,
    /// Packet round robin: one packet each.
    Prr,
}

/// Nodes and the rings that they are in; both are named by their number.
pub(super) struct Rings {
    nodes: Vec<Node>,
    /// The node in front of each ring, [`NONE`] of an empty one.
    fronts: Vec<u32>,
    general: General,
}

#[derive(Clone, Copy)]
struct Node {
    previous: u32,
    next: u32,
    credit: i32,
}

impl Rings {
    /// Nodes in no ring, and empty rings.
    pub fn new(general: General, nodes: usize, rings: usize) -> Self {
        let node = Node { previous: NONE, next: NONE, credit: 0 };
        let (nodes, fronts) = (alloc::vec![node; nodes], alloc::vec![NONE; rings]);
        Self { nodes, fronts, general }
    }

    /// The node that has the turn.
    #[inline]
    pub fn front(&self, ring: usize) -> Option<u32> {
        let front = self.fronts[ring];
        (front != NONE).then_some(front)
    }

    /// The node after this one in its ring.
    #[inline]
    pub fn next(&self, node: u32) -> u32 {
        self.nodes[node as usize].next
    }

    /// Gives the turn to `node`, which is in the ring.
    #[inline]
    pub fn turn_to(&mut self, ring: usize, node: u32) {
        self.fronts[ring] = node;
    }

    /// Puts `node` last, with `credit` for its first turn; returns whether the ring was empty.
    pub fn push(&mut self, ring: usize, node: u32, credit: i32) -> bool {
        let at = &mut self.nodes[node as usize];
        // A turn that was overdrawn stays so: leaving and coming back is no way out of a debt.
        at.credit = at.credit.min(0) + credit;
        let front = self.fronts[ring];
        if front == NONE {
            (at.previous, at.next) = (node, node);
            self.fronts[ring] = node;
            return true;
        }
        let last = core::mem::replace(&mut self.nodes[front as usize].previous, node);
        self.nodes[last as usize].next = node;
        let at = &mut self.nodes[node as usize];
        (at.previous, at.next) = (last, front);
        false
    }

    /// Takes `node` out; returns whether the ring is empty now.
    pub fn remove(&mut self, ring: usize, node: u32) -> bool {
        let Node { previous, next, .. } = self.nodes[node as usize];
        if next == node {
            self.fronts[ring] = NONE;
            return true;
        }
        self.nodes[previous as usize].next = next;
        self.nodes[next as usize].previous = previous;
        if self.fronts[ring] == node {
            self.fronts[ring] = next;
        }
        false
    }

    /// Whether the turn of `node` covers a packet of `length`.
    #[inline]
    pub fn covers(&self, node: u32, length: u32) -> bool {
        let credit = self.nodes[node as usize].credit;
        match self.general {
            General::Drr => credit >= units(length),
            General::Wrr => credit > 0,
            General::Prr => true,
        }
    }

    /// Adds a quantum to the credit of `node`, whose turn does not cover its packet.
    #[inline]
    pub fn refill(&mut self, node: u32, quantum: i32) {
        let credit = &mut self.nodes[node as usize].credit;
        *credit = credit.saturating_add(quantum);
    }

    /// `node`, whose turn it is in `ring`, sent a packet of `length`.
    #[inline]
    pub fn pay(&mut self, ring: usize, node: u32, length: u32) {
        if self.general == General::Prr {
            if self.fronts[ring] == node {
                self.fronts[ring] = self.next(node);
            }
            return;
        }
        let credit = &mut self.nodes[node as usize].credit;
        *credit = (*credit - units(length)).max(CREDIT_MIN);
    }

    /// Takes over what `was`, a node of `old` rings, owes for turns; `node` is in no ring yet.
    pub fn inherit(&mut self, node: u32, old: &Rings, was: u32) {
        self.nodes[node as usize].credit = old.nodes[was as usize].credit.min(0);
    }
}

/// Credit for so many bytes.
#[inline]
fn units(bytes: u32) -> i32 {
    (bytes.min(LENGTH_MAX) << CREDIT_BITS) as i32
}

/// Credit is counted in 2^-8 bytes, so that small quanta keep their proportions.
pub(super) const CREDIT_BITS: u32 = 8;
/// No class owes more than this for turns, or it would hold up the ring with rounds of refills.
const CREDIT_MIN: i32 = -(1 << (18 + CREDIT_BITS));
/// In turns a longer packet counts as one of this length: some of them and a quantum, which is at
/// most some 2^22 bytes, fit into a credit.
const LENGTH_MAX: u32 = 1 << 21;
/// No node.
const NONE: u32 = u32::MAX;
