//! Identities: small typed numbers, never a bare `usize`.

use core::num::NonZeroU16;

/// A leaf: a class that holds packets. Numbered from 0 in the order of declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LeafId(pub u32);

/// A class of the tree, leaf or interior. Numbered from 0 in the order of declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ClassId(pub u32);

/// Identifies a packet to the port that owns its bytes; the core only passes it on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Handle(pub u32);

/// A meter of a link's police. Numbered from 0 in the order of the plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MeterId(NonZeroU16);

impl MeterId {
    /// Bound: meters of a link; a policy with more is refused. With 0 for none, the id takes two
    /// bytes in a packet.
    pub const MAX: usize = u16::MAX as usize;

    /// The meter of this number; none from [`MeterId::MAX`] on.
    pub const fn from_index(index: usize) -> Option<Self> {
        if index >= Self::MAX {
            return None;
        }
        match NonZeroU16::new(index as u16 + 1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number as an index into a table of meters.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl LeafId {
    /// The number as an index into a table of leaves.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ClassId {
    /// The number as an index into a table of classes.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
