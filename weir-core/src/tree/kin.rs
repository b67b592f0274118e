//! Kin: the classes that two trees share by name.

use super::Tree;
use crate::ids::{ClassId, LeafId};
use alloc::vec::Vec;

/// The old class of each class of a new tree, where there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kin {
    classes: Vec<Option<ClassId>>,
    leaves: Vec<Option<LeafId>>,
    /// The new leaf of each old one.
    new_leaves: Vec<Option<LeafId>>,
    /// The classes that both have, new and old, that are not leaves in both.
    others: Vec<(ClassId, ClassId)>,
}

impl Kin {
    /// Matches classes by name; a leaf is kin to a leaf only, and a place without a class to none.
    pub fn by_name(old: &Tree, new: &Tree) -> Self {
        let mut names: Vec<_> =
            old.classes().map(|(id, class)| (class.name.as_str(), id)).collect();
        names.sort_unstable();
        let find = |name: &str| {
            if name.is_empty() {
                return None;
            }
            let place = names.binary_search_by_key(&name, |row| row.0).ok()?;
            Some(names[place].1)
        };
        let leaf = |name: &str| find(name).and_then(|class| old.leaf_of(class));
        let leaves: Vec<_> = new.leaves().map(|(_, class)| leaf(&class.name)).collect();
        let mut new_leaves = alloc::vec![None; old.leaf_count()];
        for (new, old) in leaves.iter().enumerate() {
            if let Some(old) = old {
                new_leaves[old.index()] = Some(LeafId(new as u32));
            }
        }
        let classes: Vec<_> = new.classes().map(|(_, class)| find(&class.name)).collect();
        let is_leaf = |(id, was)| new.leaf_of(id).is_some() && old.leaf_of(was).is_some();
        let rows = (0..).map(ClassId).zip(&classes);
        let others = rows.filter_map(|(id, was)| Some((id, (*was)?))).filter(|&row| !is_leaf(row));
        let others = others.collect();
        Self { classes, leaves, new_leaves, others }
    }

    /// Returns the old class of this new one.
    pub fn class(&self, new: ClassId) -> Option<ClassId> {
        self.classes[new.index()]
    }

    /// Returns the old leaf of this new one.
    pub fn leaf(&self, new: LeafId) -> Option<LeafId> {
        self.leaves[new.index()]
    }

    /// Returns the new leaf of this old one.
    pub fn new_leaf(&self, old: LeafId) -> Option<LeafId> {
        self.new_leaves[old.index()]
    }

    /// Returns the number of leaves of the old tree.
    pub const fn old_leaves(&self) -> usize {
        self.new_leaves.len()
    }

    /// Returns every new leaf that has an old one, with it.
    pub fn leaves(&self) -> impl Iterator<Item = (LeafId, LeafId)> {
        let row = |(new, &old): (usize, &Option<LeafId>)| Some((LeafId(new as u32), old?));
        self.leaves.iter().enumerate().filter_map(row)
    }

    /// Returns every new class that has an old one, with it, unless both are leaves.
    pub fn others(&self) -> impl Iterator<Item = (ClassId, ClassId)> {
        self.others.iter().copied()
    }

    /// Returns every new class that has an old one, with it.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, ClassId)> {
        let row = |(new, &old): (usize, &Option<ClassId>)| Some((ClassId(new as u32), old?));
        self.classes.iter().enumerate().filter_map(row)
    }
}
