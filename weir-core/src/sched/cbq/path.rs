//! The way to the leaf whose turn it is: from the class in front of a row down, a node each.
//!
//! Packets of one turn follow the same way, so it is kept, and with it all that a packet of that
//! leaf is charged to. Invariant: unless it is empty, each node is in front of its ring, the first
//! of them in the lowest row that has any, and no class from the leaf up has changed its row since.

use super::meter::ShortTerms;
use super::ring::Rings;
use crate::tree::DEPTH_MAX;

/// The nodes on the way.
pub(super) struct Path {
    pub found: Found,
    /// The leaf whose packets `dues` are for, [`NONE`] if none is.
    owes: u32,
    /// The class from which on the dues above that of a leaf are, [`NONE`] if they are not known
    /// or somebody below has lent.
    above: u32,
    /// What a packet is charged to, from the leaf up.
    dues: [Due; DEPTH_MAX],
    due_count: usize,
    nodes: [u32; DEPTH_MAX],
    length: usize,
    /// The ring of the first.
    pub ring: usize,
    /// The priority of the leaf.
    pub rank: usize,
    /// Whether the first borrows from the link, which is not on the way, as its turn never ends.
    pub by_link: bool,
}

/// The leaf to which the way leads, once the turns on it cover a packet of it.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// The leaf.
    pub leaf: u32,
    /// What the turns on the way cover, but that of `alone`: less than any packet needs if no leaf
    /// was found.
    pub credit: i32,
    /// A node that is alone in its ring, so that its turns follow each other; or [`NONE`].
    pub alone: u32,
    /// What that gains with each.
    pub quantum: i32,
}

/// What a packet is charged to at one class.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// The class, whose meter counts it.
    pub class: u32,
    /// The node whose turn pays, [`NONE`] if none of the class does.
    pub node: u32,
    /// Whether the class conformed before.
    pub ready: bool,
    /// Of a class that did not: what it may send in a row.
    pub may_owe: u32,
    /// A copy, so that it lies near.
    pub terms: ShortTerms,
}

impl Due {
    /// A place for one.
    const NONE: Due =
        Due { class: 0, node: NONE, ready: false, may_owe: 0, terms: ShortTerms::NONE };
}

impl Path {
    /// No way is known.
    pub const EMPTY: Path = Path {
        found: Found { leaf: 0, credit: NOTHING, alone: NONE, quantum: 0 },
        owes: NONE,
        above: NONE,
        dues: [Due::NONE; DEPTH_MAX],
        due_count: 0,
        nodes: [0; DEPTH_MAX],
        length: 0,
        ring: 0,
        rank: 0,
        by_link: false,
    };

    /// Whether none is known.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Forgets the way, since a ring has changed.
    #[inline]
    pub const fn clear(&mut self) {
        self.cut(0);
        (self.owes, self.above) = (NONE, NONE);
    }

    /// Begins a way in `ring`.
    pub const fn begin(&mut self, ring: usize, rank: usize, by_link: bool) {
        (self.ring, self.rank, self.by_link) = (ring, rank, by_link);
    }

    /// Goes on to `node`. A tree is no deeper than there is room.
    #[inline]
    pub const fn push(&mut self, node: u32) {
        self.nodes[self.length] = node;
        self.length += 1;
    }

    /// Leads to `node`, a leaf's, instead of the last one, which was in the same ring.
    #[inline]
    pub fn turn_to(&mut self, node: u32) {
        *self.nodes[..self.length].last_mut().expect("a way leads to a leaf") = node;
        self.found.credit = NOTHING;
    }

    /// Whether the leaf was found to which it leads.
    #[inline]
    pub const fn is_found(&self) -> bool {
        self.found.credit != NOTHING
    }

    /// Leaves only what comes before the node at `depth`.
    #[inline]
    pub const fn cut(&mut self, depth: usize) {
        self.length = depth;
        self.found.credit = NOTHING;
    }

    /// All nodes, the leaf's last.
    #[inline]
    pub fn nodes(&self) -> &[u32] {
        &self.nodes[..self.length]
    }

    /// The leaf's node.
    #[inline]
    pub fn last(&self) -> u32 {
        *self.nodes().last().expect("a way leads to a leaf")
    }

    /// A packet of that leaf was taken from every turn on the way.
    #[inline]
    pub fn pay(&mut self, price: i32) {
        self.found.credit = (self.found.credit - price).max(Rings::LEAST);
    }

    /// Whether it is known what a packet of `leaf` is charged to.
    #[inline]
    pub const fn owes(&self, leaf: u32) -> bool {
        self.owes == leaf
    }

    /// What a packet is charged to of the leaf for which that is known, the leaf first.
    #[inline]
    pub fn dues(&self) -> (&Due, &[Due]) {
        let [first, others @ ..] = &self.dues;
        (first, &others[..self.due_count - 1])
    }

    /// The same in one row.
    #[inline]
    pub fn all_dues(&self) -> &[Due] {
        &self.dues[..self.due_count]
    }

    /// Names what a packet of a leaf with this parent, which lends to itself or not, is charged to
    /// at the leaf; answers whether what is above it is known. Else that has to be named anew.
    pub const fn set_due(&mut self, (leaf, parent, lends): (u32, u32, bool), due: Due) -> bool {
        (self.owes, self.dues[0]) = (leaf, due);
        let known = !lends && self.above == parent;
        if !known {
            self.above = if lends { NONE } else { parent };
            self.due_count = 1;
        }
        known
    }

    /// The next one, upwards.
    pub const fn push_due(&mut self, due: Due) {
        self.dues[self.due_count] = due;
        self.due_count += 1;
    }
}

/// No node, no leaf.
pub(super) const NONE: u32 = u32::MAX;
/// Less than the credit of any turn, and than any packet needs.
const NOTHING: i32 = Rings::LEAST - 1;
