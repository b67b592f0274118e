//! Rings of classes that take turns, and the credit of each for its turn.
//!
//! Invariant: a node is in at most one ring; the node in front has the turn.

use super::classes::General;
use super::comers::Comers;
use super::trail::Trail;
use crate::prefetch::Prefetch;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// Credit is counted in 2^-8 bytes, so that small quanta keep their proportions.
pub(super) const CREDIT_BITS: u32 = 8;

/// Nodes and the rings that they are in; both are named by their number.
pub(super) struct Rings {
    nodes: Vec<Node>,
    rings: Vec<Ends>,
    /// For each ring who is noted for it, if it is asked for rarely.
    comers: Vec<Comers>,
    general: General,
    /// The ring whose order of turns is remembered, if one is.
    followed: usize,
    trail: Trail,
}

/// Both ends of a ring, so that who comes last waits for no other's node to be read.
#[derive(Clone, Copy)]
struct Ends {
    /// Who has the turn, [`NONE`] if nobody is in the ring.
    front: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct Node {
    previous: u32,
    next: u32,
    credit: i32,
}

impl Rings {
    /// No class owes more than this for turns, or it would hold up the ring with rounds of refills.
    pub const LEAST: i32 = -(1 << (18 + CREDIT_BITS));

    /// So many nodes in no ring, and so many empty rings.
    pub fn new(general: General, nodes: usize, rings: usize) -> Self {
        let node = Node { previous: NONE, next: NONE, credit: 0 };
        let trail = Trail::NONE;
        Self {
            nodes: alloc::vec![node; nodes],
            rings: alloc::vec![Ends { front: NONE, last: NONE }; rings],
            comers: alloc::vec![Comers::NONE; rings],
            general,
            followed: usize::MAX,
            trail,
        }
    }

    /// From now on the order of turns in `ring`, which has at most so many nodes, is remembered for
    /// [`Rings::line_up`].
    pub fn follow(&mut self, ring: usize, nodes: usize) {
        self.followed = ring;
        self.trail = Trail::new(nodes);
    }

    /// The nodes whose turns come next in `ring`, as far as there is room; answers how many. A
    /// guess, after nodes were taken out that had not the turn; nothing unless it is followed.
    pub fn line_up(&self, ring: usize, nodes: &mut [u32]) -> usize {
        if ring != self.followed {
            return 0;
        }
        let mut count = 0;
        for node in self.trail.ahead().take(nodes.len().div_ceil(2)) {
            // Each is followed by one that was not written down.
            for node in [node, self.next(node)] {
                if let Some(place) = nodes.get_mut(count).filter(|_| node != NONE) {
                    *place = node;
                    count += 1;
                }
            }
        }
        count
    }

    /// Asks for the nodes that [`Rings::line_up`] has to follow when so many more have had their
    /// turn.
    pub fn ask_for_order(&self, turns: usize, prefetch: Prefetch) {
        for node in self.trail.ahead().skip(turns / 2).take(turns / 2) {
            prefetch.ask(&self.nodes[node as usize].next);
        }
    }

    /// The node that has the turn.
    #[inline]
    pub fn front(&self, ring: usize) -> Option<u32> {
        let front = self.rings[ring].front;
        (front != NONE).then_some(front)
    }

    /// The node after this one in its ring.
    #[inline]
    pub fn next(&self, node: u32) -> u32 {
        self.nodes[node as usize].next
    }

    /// Asks for what a ring needs for which a node is noted.
    #[inline]
    pub fn ask_for_comers(&self, ring: usize, prefetch: Prefetch) {
        prefetch.ask(&self.comers[ring]);
    }

    /// Notes that `node` comes last into `ring`, with `credit` for its first turn; `again` if its
    /// note is still there from an earlier time. Nothing but the node is touched.
    #[inline]
    pub fn note(&mut self, ring: usize, node: u32, credit: i32, again: bool) {
        let at = &mut self.nodes[node as usize];
        at.credit = at.credit.min(0) + credit;
        at.previous = self.comers[ring].come();
        if !again {
            at.next = self.comers[ring].put(node);
        }
    }

    /// How many come and go in `ring`, and who is noted for it.
    #[inline]
    pub fn comers(&mut self, ring: usize) -> &mut Comers {
        &mut self.comers[ring]
    }

    /// When `node`, which is noted, came last, and who was noted before it.
    #[inline]
    pub fn noted(&self, node: u32) -> (u32, u32) {
        let Node { previous, next, .. } = self.nodes[node as usize];
        (previous, next)
    }

    /// Gives the turn to `node`, which is in the ring.
    #[inline]
    pub fn turn_to(&mut self, ring: usize, node: u32) {
        if ring == self.followed {
            self.trail.go();
            self.trail.come(self.rings[ring].front);
        }
        self.rings[ring] = Ends { front: node, last: self.nodes[node as usize].previous };
    }

    /// Puts `node` last, with `credit` for its first turn; answers whether the ring was empty.
    #[inline]
    pub fn push(&mut self, ring: usize, node: u32, credit: i32) -> bool {
        let at = &mut self.nodes[node as usize];
        // A turn that was overdrawn stays so: leaving and coming back is no way out of a debt.
        at.credit = at.credit.min(0) + credit;
        self.link(ring, node)
    }

    /// The same with the credit that it has.
    #[inline]
    pub fn link(&mut self, ring: usize, node: u32) -> bool {
        if ring == self.followed {
            self.trail.come(node);
        }
        let (nodes, ends) = (self.nodes.as_mut_slice(), &mut self.rings[ring]);
        let at = &mut nodes[node as usize];
        let Ends { front, last } = *ends;
        if front == NONE {
            (at.previous, at.next) = (node, node);
            *ends = Ends { front: node, last: node };
            return true;
        }
        (at.previous, at.next) = (last, front);
        nodes[last as usize].next = node;
        nodes[front as usize].previous = node;
        ends.last = node;
        false
    }

    /// Takes `node` out; answers whether the ring is empty now.
    #[inline]
    pub fn remove(&mut self, ring: usize, node: u32) -> bool {
        if ring == self.followed {
            self.trail.go();
        }
        let (nodes, ends) = (self.nodes.as_mut_slice(), &mut self.rings[ring]);
        let Node { previous, next, .. } = nodes[node as usize];
        if next == node {
            *ends = Ends { front: NONE, last: NONE };
            return true;
        }
        nodes[previous as usize].next = next;
        nodes[next as usize].previous = previous;
        if ends.front == node {
            ends.front = next;
        }
        if ends.last == node {
            ends.last = previous;
        }
        false
    }

    /// The credit with which a turn covers a packet of `head`.
    #[inline]
    pub fn needed(&self, head: u32) -> i32 {
        match self.general {
            // [drr95 §3] A turn ends before the packet that it does not cover.
            General::Drr => units(head),
            // [algorithms §3.8] Ends after it. The balance stays negative; ALTQ forgave the rest.
            General::Wrr => 1,
            General::Prr => Self::LEAST,
        }
    }

    /// The credit of `node`.
    #[inline]
    pub fn credit(&self, node: u32) -> i32 {
        self.nodes[node as usize].credit
    }

    /// Asks for `node` and the one of the next number.
    #[inline]
    pub fn ask_for_pair(&self, node: u32, prefetch: Prefetch) {
        if let Some([first, second]) = self.nodes.get(node as usize..node as usize + 2) {
            // All that is between is in one line with either.
            prefetch.ask(&first.previous);
            prefetch.ask(&second.credit);
        }
    }

    /// The bytes that a credit covers, however they come in packets.
    #[inline]
    pub fn bytes(credit: i32) -> u32 {
        (credit.max(0) >> CREDIT_BITS) as u32
    }

    /// Takes over what `was`, a node of other rings, owes for turns; `node` is in no ring.
    pub fn take_debt(&mut self, node: u32, old: &Rings, was: u32) {
        self.nodes[node as usize].credit = old.nodes[was as usize].credit.min(0);
    }

    /// One more quantum for `node`, whose credit is short.
    #[inline]
    pub fn refill(&mut self, node: u32, quantum: i32) {
        let credit = &mut self.nodes[node as usize].credit;
        *credit = credit.saturating_add(quantum);
    }

    /// Turn after turn for `node`, alone in its ring, until its credit covers what is needed.
    #[inline]
    pub fn cover(&mut self, node: u32, quantum: i32, needed: i32) {
        let credit = &mut self.nodes[node as usize].credit;
        // Most often one is enough, and when is hard to foretell: no branch for it.
        let once = select_unpredictable(*credit < needed, quantum, 0);
        *credit = credit.saturating_add(once);
        while *credit < needed {
            *credit = credit.saturating_add(quantum);
        }
    }

    /// Whether turns are of one packet each.
    #[inline]
    pub fn are_of_one_packet(&self) -> bool {
        self.general == General::Prr
    }

    /// `node`, in `ring`, has sent one packet, whatever its credit.
    pub fn pass_on(&mut self, ring: usize, node: u32) {
        if self.rings[ring].front == node {
            self.turn_to(ring, self.next(node));
        }
    }

    /// What a packet takes from a turn.
    #[inline]
    pub fn price(&self, sent: u32) -> i32 {
        if self.are_of_one_packet() { 0 } else { units(sent) }
    }

    /// Takes so much from the turn of `node`.
    #[inline]
    pub fn pay(&mut self, node: u32, price: i32) {
        let credit = &mut self.nodes[node as usize].credit;
        *credit = (*credit - price).max(Self::LEAST);
    }
}

/// Credit for so many bytes.
#[inline]
fn units(bytes: u32) -> i32 {
    (bytes.min(LENGTH_MAX) << CREDIT_BITS) as i32
}

/// No node.
const NONE: u32 = u32::MAX;
/// In turns a longer packet counts as one of this length: some of them and a quantum, which is at
/// most some 2^22 bytes, fit into a credit.
const LENGTH_MAX: u32 = 1 << 21;
