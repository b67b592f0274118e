//! The row that each class counts in: one a name, over all changes of a link's plan.

use std::collections::BTreeMap;
use weir_core::ids::{ClassId, LeafId};
use weir_core::tree::Tree;

/// See the module. A place of a policy that no class has taken has no name and no row.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// In the order in which classes were first declared.
    names: Vec<String>,
    places: BTreeMap<String, usize>,
    /// Of each class of the plan in force.
    classes: Vec<Option<usize>>,
    /// Of each leaf of the plan in force: the rows of its class and of those above.
    paths: Vec<Vec<usize>>,
}

impl Rows {
    /// Changes to the classes of this tree; returns the names of the rows that are new.
    pub fn enter(&mut self, tree: &Tree) -> &[String] {
        let known = self.names.len();
        let classes = tree.classes().map(|(_, class)| self.row(&class.name)).collect();
        self.classes = classes;
        let path = |leaf| {
            let above = tree.path(tree.class_of(leaf));
            above.filter_map(|class| self.classes[class.index()]).collect()
        };
        self.paths = tree.leaves().map(|(leaf, _)| path(leaf)).collect();
        &self.names[known..]
    }

    fn row(&mut self, name: &str) -> Option<usize> {
        if name.is_empty() {
            return None;
        }
        if let Some(&place) = self.places.get(name) {
            return Some(place);
        }
        self.places.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        Some(self.names.len() - 1)
    }

    /// Returns the row of a class of the plan in force.
    pub fn of_class(&self, class: ClassId) -> Option<usize> {
        self.classes[class.index()]
    }

    /// Returns the rows of a leaf's class and of those above, the leaf's first.
    #[inline]
    pub fn of_leaf(&self, leaf: LeafId) -> &[usize] {
        &self.paths[leaf.index()]
    }
}
