//! Reserved places: leaves that no class has yet, so that one can join a running link.
//!
//! A place is a leaf without a name, under the parent for which it is reserved, with parameters
//! that let the tree build. To a scheduler it is a leaf in which no packet ever waits, so all its
//! tables have room for the class that will take the place. A class that leaves the link leaves its
//! place, with its parameters. Invariant: `vacant` holds exactly the leaves without a name.

use super::{ClassSpec, Tree};
use crate::ids::{ClassId, LeafId};
use crate::parameter::Params;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

/// The places by parent; `None` is the link.
pub(super) type Vacant = BTreeMap<Option<ClassId>, BTreeSet<LeafId>>;

impl Tree {
    /// Reserves `count` places for leaves under `parent`, with these parameters. Returns false, and
    /// reserves none, if that is a leaf, which would no longer be one.
    #[must_use]
    pub fn reserve(&mut self, parent: Option<ClassId>, count: usize, params: &Params) -> bool {
        if parent.is_some_and(|parent| self.leaf_of(parent).is_some()) {
            return false;
        }
        for _ in 0..count {
            let class = ClassId(self.classes.len() as u32);
            let leaf = LeafId(self.class_of_leaf.len() as u32);
            let (name, params) = (String::new(), params.clone());
            self.classes.push(ClassSpec { name, parent, params });
            self.leaf_of_class.push(Some(leaf));
            self.class_of_leaf.push(class);
            self.vacant.entry(parent).or_default().insert(leaf);
        }
        true
    }

    /// Returns the class of a leaf, as declared.
    pub fn leaf(&self, leaf: LeafId) -> &ClassSpec {
        self.class(self.class_of(leaf))
    }

    /// Returns whether `leaf` is a place that no class has.
    pub fn is_vacant(&self, leaf: LeafId) -> bool {
        self.leaf(leaf).name.is_empty()
    }

    /// Returns a place under `parent` that no class has.
    pub fn vacancy(&self, parent: Option<ClassId>) -> Option<LeafId> {
        self.vacant.get(&parent)?.first().copied()
    }

    /// Returns the places under `parent` that no class has, in order.
    pub fn vacancies(&self, parent: Option<ClassId>) -> impl Iterator<Item = LeafId> {
        self.vacant.get(&parent).into_iter().flatten().copied()
    }

    /// Gives `leaf` this name, none for a place, and these parameters; returns what it had.
    pub(crate) fn replace(&mut self, leaf: LeafId, name: String, params: Params) -> ClassSpec {
        let class = &mut self.classes[self.class_of_leaf[leaf.index()].index()];
        let fresh = ClassSpec { name, parent: class.parent, params };
        let (is_vacant, parent) = (fresh.name.is_empty(), class.parent);
        let before = core::mem::replace(class, fresh);
        if is_vacant {
            self.vacant.entry(parent).or_default().insert(leaf);
        } else if let Some(places) = self.vacant.get_mut(&parent) {
            places.remove(&leaf);
            if places.is_empty() {
                self.vacant.remove(&parent);
            }
        }
        before
    }

    /// The places among the leaves of a tree that is built.
    pub(super) fn count_places(&mut self) {
        for leaf in (0..self.class_of_leaf.len() as u32).map(LeafId) {
            if self.is_vacant(leaf) {
                self.vacant.entry(self.leaf(leaf).parent).or_default().insert(leaf);
            }
        }
    }
}
