//! Classes numbered so that the number of a leaf is that of its class: the leaves by their numbers,
//! then the classes with children in the order of declaration.
//!
//! So no table is needed from leaves to classes, and the table from numbers back to classes holds
//! only the classes with children.

use crate::ids::ClassId;
use crate::tree::{Kin, Tree};
use alloc::vec::Vec;

/// The classes with children of a tree, and its number of leaves.
pub(crate) struct Families {
    list: Vec<ClassId>,
    leaves: u32,
}

impl Families {
    /// Numbers the classes of `tree`.
    pub(crate) fn new(tree: &Tree) -> Self {
        let has_children = |&id: &ClassId| tree.leaf_of(id).is_none();
        let count = tree.classes().len() - tree.leaf_count();
        let mut list = Vec::with_capacity(count);
        list.extend(tree.classes().map(|row| row.0).filter(has_children));
        Self { list, leaves: tree.leaf_count() as u32 }
    }

    /// Returns the number of classes with children.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns how many leaves there are, which is the number of the first class with children.
    #[inline]
    pub(crate) fn leaves(&self) -> usize {
        self.leaves as usize
    }

    /// Returns the number of the class that was declared as `id`.
    pub(crate) fn number(&self, id: ClassId) -> u32 {
        match self.list.binary_search(&id) {
            Ok(family) => self.leaves + family as u32,
            // `before` classes with children were declared before this leaf.
            Err(before) => id.0 - before as u32,
        }
    }

    /// Returns the id of a class with children; `None` for a leaf and for the link.
    pub(crate) fn declared(&self, class: usize) -> Option<ClassId> {
        self.list.get(class.checked_sub(self.leaves())?).copied()
    }

    /// Returns the classes that both trees have: their numbers here and in `old`.
    pub(crate) fn kin(&self, old: &Families, kin: &Kin) -> impl Iterator<Item = (u32, u32)> {
        let leaves = kin.leaves().map(|(new, was)| (new.0, was.0));
        leaves.chain(kin.others().map(|(new, was)| (self.number(new), old.number(was))))
    }

    /// Returns the ids of the classes in the order of their numbers.
    pub(crate) fn order(&self, tree: &Tree) -> impl Iterator<Item = ClassId> {
        let leaves = tree.leaves().map(|(leaf, _)| tree.class_of(leaf));
        leaves.chain(self.list.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::tree::ClassSpec;
    use crate::units::{Bytes, Rate};
    use alloc::string::ToString;

    #[test]
    fn leaves_come_first_and_numbers_map_back_to_ids() {
        let parents = [None, Some(0), Some(0), None, Some(2)];
        let class = |(index, parent): (usize, &Option<u32>)| ClassSpec {
            name: index.to_string(),
            parent: parent.map(ClassId),
            params: Params::new(),
        };
        let classes = parents.iter().enumerate().map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes);
        let tree = tree.expect("a tree");
        let families = Families::new(&tree);
        let order: Vec<_> = families.order(&tree).collect();
        assert_eq!(order, [1, 3, 4, 0, 2].map(ClassId));
        for (number, id) in order.into_iter().enumerate() {
            assert_eq!(families.number(id) as usize, number);
            assert_eq!(families.declared(number), (number >= 3).then_some(id));
        }
        assert_eq!((families.leaves(), families.len(), families.declared(5)), (3, 2, None));
    }
}
