//! The loans of leaves: packets sent at the account of classes above them, for schedulers that
//! lend.
//!
//! Invariant: a count never falls while the link runs; a packet counts once, at its lender, and a
//! packet that is sent at the account of its own class counts nowhere.

use super::Kin;
use crate::ids::LeafId;
use crate::state::state;
use crate::tree::{DEPTH_MAX, Tree};
use crate::units::Bytes;
use alloc::vec::Vec;

/// Charged bytes that a leaf borrowed, by the depth of the lender on the way from the link to the
/// leaf: the link itself has depth 0, a top class 1.
pub type Borrowed = [u64; DEPTH_MAX];

/// The bytes that each leaf borrowed. A borrowed packet writes one cache line; other packets write
/// none. A row that no loan has written takes no memory, since the system gives a page when it is
/// first written. A loan touches one line of memory, and no other packet any; what no class ever
/// borrowed takes no memory, as the system gives a page once it is written.
pub(super) struct Loans {
    bytes: Vec<u64>,
    /// The lenders of a leaf: as many as the deepest has.
    each: usize,
}

impl Loans {
    /// For the leaves of `tree`; none has borrowed.
    pub fn new(tree: &Tree) -> Self {
        let depth = |leaf| tree.path(tree.class_of(leaf)).count();
        let each = tree.leaves().map(|(leaf, _)| depth(leaf)).max().unwrap_or(1);
        Self { bytes: alloc::vec![0; each * tree.leaf_count()], each }
    }

    /// Counts a packet of `leaf` for which the class at `depth` above it lends.
    #[inline]
    pub fn count(&mut self, leaf: LeafId, depth: usize, sent: Bytes) {
        debug_assert!(depth < self.each, "the lender stands above the leaf");
        let bytes = &mut self.bytes[leaf.index() * self.each + depth];
        // As after a forged checkpoint, which must do no harm.
        *bytes = bytes.wrapping_add(sent.get());
    }

    /// Returns what a leaf borrowed.
    pub fn of(&self, leaf: LeafId) -> Borrowed {
        let mut borrowed = Borrowed::default();
        let own = &self.bytes[leaf.index() * self.each..][..self.each];
        borrowed[..self.each].copy_from_slice(own);
        borrowed
    }

    /// Takes over what the leaves that both trees have borrowed.
    pub fn inherit(&mut self, old: &Self, kin: &Kin) {
        let each = self.each.min(old.each);
        for (new, was) in kin.leaves() {
            let before = &old.bytes[was.index() * old.each..][..each];
            self.bytes[new.index() * self.each..][..each].copy_from_slice(before);
        }
    }
}

state!(Loans { bytes; kept: each });
