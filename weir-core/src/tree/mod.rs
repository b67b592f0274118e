//! The tree of classes that a scheduler is built from.
//!
//! Invariant: parents exist, there is no loop, and a class without children is a leaf; leaves are
//! numbered in the order of declaration.

mod kin;
mod place;

pub use kin::Kin;

use crate::ids::{ClassId, LeafId};
use crate::parameter::Params;
use crate::units::{Bytes, Rate};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use place::Vacant;

/// Bound: levels from a leaf to its root, both counted; a deeper tree is refused. More would slow
/// every packet.
pub const DEPTH_MAX: usize = 8;

/// A class as declared.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClassSpec {
    /// The name, which reports show unchanged; empty for a place that no class has (`place.rs`).
    pub name: String,
    /// The parent, `None` for a class directly under the link.
    pub parent: Option<ClassId>,
    /// The scheduler's parameters of this class.
    pub params: Params,
}

/// Classes, their parameters and the link that they share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    rate: Rate,
    mtu: Bytes,
    params: Params,
    classes: Vec<ClassSpec>,
    leaf_of_class: Vec<Option<LeafId>>,
    class_of_leaf: Vec<ClassId>,
    vacant: Vacant,
}

/// Why classes do not form a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeError {
    /// There is no class.
    Empty,
    /// The parent of this class is not declared.
    UnknownParent(ClassId),
    /// This class is its own ancestor.
    Loop(ClassId),
    /// This class is deeper than [`DEPTH_MAX`].
    TooDeep(ClassId),
}

impl Tree {
    /// Builds the tree of `classes` for a link of `rate` whose largest packet is charged `mtu`.
    pub fn new(
        rate: Rate,
        mtu: Bytes,
        params: Params,
        classes: Vec<ClassSpec>,
    ) -> Result<Self, TreeError> {
        if classes.is_empty() {
            return Err(TreeError::Empty);
        }
        let mut has_child = alloc::vec![false; classes.len()];
        for (index, class) in classes.iter().enumerate() {
            check_ancestors(&classes, ClassId(index as u32))?;
            if let Some(parent) = class.parent {
                has_child[parent.index()] = true;
            }
        }
        let mut leaf_of_class = Vec::with_capacity(classes.len());
        let mut class_of_leaf = Vec::new();
        for (index, interior) in has_child.iter().enumerate() {
            leaf_of_class.push((!interior).then_some(LeafId(class_of_leaf.len() as u32)));
            if !interior {
                class_of_leaf.push(ClassId(index as u32));
            }
        }
        let vacant = Vacant::new();
        let mut tree = Self { rate, mtu, params, classes, leaf_of_class, class_of_leaf, vacant };
        tree.count_places();
        Ok(tree)
    }

    /// Returns the rate of the link.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the charged length of the largest packet.
    pub const fn mtu(&self) -> Bytes {
        self.mtu
    }

    /// Returns the scheduler's parameters of the link.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the classes in the order of declaration.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = (ClassId, &ClassSpec)> + Clone {
        self.classes.iter().enumerate().map(|(index, class)| (ClassId(index as u32), class))
    }

    /// Returns one class; panics for an id of another tree.
    pub fn class(&self, class: ClassId) -> &ClassSpec {
        &self.classes[class.index()]
    }

    /// Returns the leaves in the order of declaration, each with its class.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = (LeafId, &ClassSpec)> + Clone {
        let row = |(leaf, &class): (usize, &ClassId)| (LeafId(leaf as u32), self.class(class));
        self.class_of_leaf.iter().enumerate().map(row)
    }

    /// Returns the number of leaves.
    pub fn leaf_count(&self) -> usize {
        self.class_of_leaf.len()
    }

    /// Returns the leaf of this class, `None` for an interior class.
    pub fn leaf_of(&self, class: ClassId) -> Option<LeafId> {
        self.leaf_of_class[class.index()]
    }

    /// Returns the class of this leaf.
    pub fn class_of(&self, leaf: LeafId) -> ClassId {
        self.class_of_leaf[leaf.index()]
    }

    /// Returns the classes from `class` (included) up to the top.
    pub fn path(&self, class: ClassId) -> impl Iterator<Item = ClassId> {
        core::iter::successors(Some(class), |&at| self.class(at).parent)
    }
}

/// Walks from `class` to the top; the walk is bounded, so it ends in a loop too.
fn check_ancestors(classes: &[ClassSpec], class: ClassId) -> Result<(), TreeError> {
    let mut at = class;
    for _ in 0..DEPTH_MAX {
        let Some(parent) = classes[at.index()].parent else { return Ok(()) };
        if parent.index() >= classes.len() {
            return Err(TreeError::UnknownParent(at));
        }
        if parent == class {
            return Err(TreeError::Loop(class));
        }
        at = parent;
    }
    Err(TreeError::TooDeep(class))
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::Empty => f.write_str("a link needs at least one class; declare one"),
            TreeError::UnknownParent(_) => f.write_str("the parent is not declared; declare it"),
            TreeError::Loop(_) => f.write_str("the class is its own ancestor; break the loop"),
            TreeError::TooDeep(_) => {
                write!(f, "the class is deeper than {DEPTH_MAX} levels; flatten the tree")
            }
        }
    }
}

impl core::error::Error for TreeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn tree(parents: &[Option<u32>]) -> Result<Tree, TreeError> {
        let class = |(index, parent): (usize, &Option<u32>)| ClassSpec {
            name: index.to_string(),
            parent: parent.map(ClassId),
            params: Params::new(),
        };
        let classes = parents.iter().enumerate().map(class).collect();
        Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes)
    }

    #[test]
    fn leaves_are_the_classes_without_children_in_order() {
        let tree = tree(&[None, Some(0), Some(0), None]).expect("a tree");
        let leaves: Vec<_> = tree.leaves().map(|(_, class)| class.name.as_str()).collect();
        assert_eq!(leaves, ["1", "2", "3"]);
        assert_eq!(tree.leaf_of(ClassId(0)), None);
        assert_eq!(tree.path(ClassId(2)).collect::<Vec<_>>(), [ClassId(2), ClassId(0)]);
    }

    #[test]
    fn classes_that_do_not_form_a_tree_are_refused() {
        let chain: Vec<_> = (0..9).map(|i: u32| i.checked_sub(1)).collect();
        let rows: [(&[Option<u32>], TreeError); 5] = [
            (&[], TreeError::Empty),
            (&[Some(7)], TreeError::UnknownParent(ClassId(0))),
            (&[Some(0)], TreeError::Loop(ClassId(0))),
            (&[Some(1), Some(0)], TreeError::Loop(ClassId(0))),
            (&chain, TreeError::TooDeep(ClassId(8))),
        ];
        for (parents, error) in rows {
            assert_eq!(tree(parents), Err(error));
        }
    }
}
