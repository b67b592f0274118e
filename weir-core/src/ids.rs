//! Identities: small typed numbers, never a bare `usize`.

/// A leaf: a class that holds packets. Numbered from 0 in the order of declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LeafId(pub u32);

/// A class of the tree, leaf or interior. Numbered from 0 in the order of declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u32);

/// Whoever owns the bytes of a packet knows them by this; the core only passes it on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Handle(pub u32);

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
