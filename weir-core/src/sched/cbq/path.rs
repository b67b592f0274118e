//! The way to the leaf whose turn it is: from the class in front of a row down, a node each.
//!
//! Packets of one turn follow the same way, so it is kept. Invariant: unless it is empty, each node
//! is in front of its ring, and the first of them in the lowest row that has any.

use crate::sched::tree::DEPTH_MAX;

/// The nodes on the way.
pub(super) struct Path {
    nodes: [u32; DEPTH_MAX],
    length: usize,
    /// The ring of the first.
    pub ring: usize,
    /// The priority of the leaf.
    pub rank: usize,
    /// Whether the first borrows from the link, which is not on the way, as its turn never ends.
    pub by_link: bool,
}

impl Path {
    /// No way is known.
    pub const EMPTY: Path =
        Path { nodes: [0; DEPTH_MAX], length: 0, ring: 0, rank: 0, by_link: false };

    /// Whether none is known.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Forgets the way, since a ring has changed.
    #[inline]
    pub const fn clear(&mut self) {
        self.length = 0;
    }

    /// Begins a way in `ring`.
    pub const fn begin(&mut self, ring: usize, rank: usize, by_link: bool) {
        (self.ring, self.rank, self.by_link) = (ring, rank, by_link);
    }

    /// Goes on to `node`. A tree is no deeper than there is room.
    pub const fn push(&mut self, node: u32) {
        self.nodes[self.length] = node;
        self.length += 1;
    }

    /// Leaves only what comes before the node at `depth`.
    pub const fn cut(&mut self, depth: usize) {
        self.length = depth;
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
}
