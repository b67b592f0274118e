//! Rings of classes that take turns, and the credit of each for its turn.
//!
//! Invariant: a node is in at most one ring; the node in front has the turn.

use super::classes::General;
use crate::units::Bytes;
use alloc::vec::Vec;

/// Credit is counted in 2^-8 bytes, so that small quanta keep their proportions.
pub(super) const CREDIT_BITS: u32 = 8;

/// Nodes and the rings that they are in; both are named by their number.
pub(super) struct Rings {
    nodes: Vec<Node>,
    fronts: Vec<u32>,
    general: General,
}

#[derive(Clone, Copy)]
struct Node {
    class: u32,
    previous: u32,
    next: u32,
    credit: i64,
}

impl Rings {
    /// So many empty rings, and no node.
    pub fn new(general: General, rings: usize) -> Self {
        Self { nodes: Vec::new(), fronts: alloc::vec![NONE; rings], general }
    }

    /// So many new nodes of `class`, in no ring; answers the number of the first.
    pub fn add_nodes(&mut self, class: usize, count: usize) -> u32 {
        let first = self.nodes.len();
        let node = Node { class: class as u32, previous: NONE, next: NONE, credit: 0 };
        self.nodes.resize(first + count, node);
        first as u32
    }

    /// Gives back what nodes that were not added would have needed.
    pub fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
    }

    /// The node that has the turn.
    #[inline]
    pub fn front(&self, ring: usize) -> Option<u32> {
        let front = self.fronts[ring];
        (front != NONE).then_some(front)
    }

    /// The class of a node.
    #[inline]
    pub fn class(&self, node: u32) -> usize {
        self.nodes[node as usize].class as usize
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

    /// Puts `node` last, with `credit` for its first turn; answers whether the ring was empty.
    #[inline]
    pub fn push(&mut self, ring: usize, node: u32, credit: i64) -> bool {
        let (nodes, front) = (self.nodes.as_mut_slice(), &mut self.fronts[ring]);
        let at = &mut nodes[node as usize];
        // A turn that was overdrawn stays so: leaving and coming back is no way out of a debt.
        at.credit = at.credit.min(0) + credit;
        if *front == NONE {
            (at.previous, at.next) = (node, node);
            *front = node;
            return true;
        }
        let first = &mut nodes[*front as usize];
        let last = core::mem::replace(&mut first.previous, node);
        nodes[last as usize].next = node;
        let at = &mut nodes[node as usize];
        (at.previous, at.next) = (last, *front);
        false
    }

    /// Takes `node` out; answers whether the ring is empty now.
    #[inline]
    pub fn remove(&mut self, ring: usize, node: u32) -> bool {
        let (nodes, front) = (self.nodes.as_mut_slice(), &mut self.fronts[ring]);
        let Node { previous, next, .. } = nodes[node as usize];
        if next == node {
            *front = NONE;
            return true;
        }
        nodes[previous as usize].next = next;
        nodes[next as usize].previous = previous;
        if *front == node {
            *front = next;
        }
        false
    }

    /// Whether the turn of `node` covers a packet of `head`.
    #[inline]
    pub fn covers(&self, node: u32, head: Bytes) -> bool {
        let credit = self.nodes[node as usize].credit;
        match self.general {
            // [drr95 §3] A turn ends before the packet that it does not cover.
            General::Drr => units(head) <= credit,
            // [algorithms §3.8] Ends after it. The balance stays negative; ALTQ forgave the rest.
            General::Wrr => credit > 0,
            General::Prr => true,
        }
    }

    /// The credit of `node`.
    #[inline]
    pub fn credit(&self, node: u32) -> i64 {
        self.nodes[node as usize].credit
    }

    /// The bytes that a turn with `credit` covers, however they come in packets.
    #[inline]
    pub fn bytes(&self, credit: i64) -> Bytes {
        match self.general {
            General::Drr | General::Wrr => Bytes::new((credit.max(0) >> CREDIT_BITS) as u64),
            General::Prr => Bytes::ZERO,
        }
    }

    /// Takes over what `was`, a node of other rings, owes for turns; `node` is in no ring.
    pub fn take_debt(&mut self, node: u32, old: &Rings, was: u32) {
        self.nodes[node as usize].credit = old.nodes[was as usize].credit.min(0);
    }

    /// One more quantum for `node`.
    pub fn refill(&mut self, node: u32, quantum: i64) {
        self.nodes[node as usize].credit += quantum;
    }

    /// `node`, in `ring`, has sent.
    #[inline]
    pub fn pay(&mut self, ring: usize, node: u32, sent: Bytes) {
        if self.general == General::Prr {
            if self.fronts[ring] == node {
                self.fronts[ring] = self.next(node);
            }
            return;
        }
        let credit = &mut self.nodes[node as usize].credit;
        *credit = (*credit - units(sent)).max(-OVERDRAFT_MAX);
    }
}

/// Credit for so many bytes; held far below overflow.
fn units(bytes: Bytes) -> i64 {
    (bytes.get().min(LENGTH_MAX) << CREDIT_BITS) as i64
}

/// No node.
const NONE: u32 = u32::MAX;
/// No packet is longer.
const LENGTH_MAX: u64 = 1 << 32;
/// No class owes more than this for turns, or it would hold up the ring with rounds of refills.
const OVERDRAFT_MAX: i64 = 1 << (18 + CREDIT_BITS);
