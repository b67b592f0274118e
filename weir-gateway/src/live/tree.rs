//! The classes of a direction as the page has them: each behind its parent, leaves in the order of
//! the policy.

use crate::json::{Class, Direction};
use std::collections::BTreeMap;
use weir_link::status::{ClassStatus, InnerStatus, LaneStatus, Status};

/// The directions that are shown, and where leaves are in them.
#[derive(Debug, Default, PartialEq)]
pub struct Tree {
    pub ways: Vec<Way>,
}

/// A direction with its classes.
#[derive(Debug, Default, PartialEq)]
pub struct Way {
    pub shown: Direction,
    /// The place of each leaf among the classes, by name.
    places: BTreeMap<String, usize>,
    /// The places of all classes that the status calls inner ones, in its order.
    inner: Vec<usize>,
}

impl Tree {
    /// That of a status.
    pub fn of(status: &Status) -> Self {
        Self { ways: status.lanes.iter().map(Way::of).collect() }
    }

    /// Returns whether the classes of a status are those of this tree, but for leaves of which
    /// there are too many.
    pub fn fits(&self, status: &Status) -> bool {
        let fits = |(way, lane): (&Way, &LaneStatus)| way.fits(lane);
        self.ways.len() == status.lanes.len() && self.ways.iter().zip(&status.lanes).all(fits)
    }

    /// Returns whether it has every leaf that a status tells of.
    pub fn has_all_of(&self, status: &Status) -> bool {
        let has_all = |(way, lane): (&Way, &LaneStatus)| {
            lane.classes.iter().all(|class| way.places.contains_key(&class.name))
        };
        self.ways.iter().zip(&status.lanes).all(has_all)
    }
}

impl Way {
    fn of(lane: &LaneStatus) -> Self {
        let mut way = Self::default();
        let mut places = vec![None; lane.inner.len()];
        for class in &lane.classes {
            let parent = class.parent.and_then(|at| way.place(at as usize, lane, &mut places));
            way.places.insert(class.name.clone(), way.shown.classes.len());
            way.shown.classes.push(of_leaf(class, parent));
        }
        let policy = &lane.policy;
        way.inner = places.iter().map(|place| place.unwrap_or(NOWHERE)).collect();
        way.shown = Direction {
            name: lane.name.clone(),
            from: lane.from.clone(),
            to: lane.to.clone(),
            rate_bps: policy.rate_bps,
            scheduler: policy.scheduler.clone(),
            policy: policy.identity.clone(),
            left_out: lane.left_out,
            classes: std::mem::take(&mut way.shown.classes),
        };
        way
    }

    /// Returns the place of an inner class, which gets one behind its parent if it has none yet.
    /// Parents come before their children in a status, so this ends.
    fn place(
        &mut self,
        at: usize,
        lane: &LaneStatus,
        places: &mut [Option<usize>],
    ) -> Option<usize> {
        let class = lane.inner.get(at)?;
        if places[at].is_none() {
            let above = class.parent.map(|parent| parent as usize).filter(|parent| *parent < at);
            let parent = above.and_then(|parent| self.place(parent, lane, places));
            places[at] = Some(self.shown.classes.len());
            self.shown.classes.push(of_inner(class, parent));
        }
        places[at]
    }

    fn fits(&self, lane: &LaneStatus) -> bool {
        let shown = &self.shown;
        let same_policy = shown.policy == lane.policy.identity && shown.name == lane.name;
        let is_part = lane.left_out > 0 || shown.left_out > 0;
        let is_known = |class: &ClassStatus| self.places.contains_key(&class.name);
        let same_leaves =
            self.places.len() == lane.classes.len() && lane.classes.iter().all(is_known);
        same_policy && (is_part || same_leaves)
    }

    /// Returns the place of a leaf; `None` if it is not shown.
    pub fn leaf(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Returns the places of the classes above one, the nearest first.
    pub fn above(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = |place: &usize| self.shown.classes[*place].parent;
        std::iter::successors(parent(&place), parent)
    }

    /// Returns the place of an inner class of a status of this direction.
    pub fn inner(&self, lane: &LaneStatus, at: u32) -> Option<usize> {
        let name = &lane.inner.get(at as usize)?.name;
        let is_it =
            |place: &usize| self.shown.classes.get(*place).is_some_and(|it| it.name == *name);
        // With leaves left out, the list may be another one than before.
        let known = self.inner.get(at as usize).copied().filter(is_it);
        known.or_else(|| self.inner.iter().copied().find(is_it))
    }
}

fn of_leaf(class: &ClassStatus, parent: Option<usize>) -> Class {
    Class {
        name: class.name.clone(),
        parent,
        leaf: true,
        share_bps: class.share_bps,
        ceiling_bps: class.ceiling_bps,
        parameters: class.parameters.clone(),
    }
}

fn of_inner(class: &InnerStatus, parent: Option<usize>) -> Class {
    Class {
        name: class.name.clone(),
        parent,
        leaf: false,
        share_bps: class.share_bps,
        ceiling_bps: class.ceiling_bps,
        parameters: class.parameters.clone(),
    }
}

/// The place of a class without leaves that are shown.
const NOWHERE: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_come_behind_their_parents_in_the_order_of_the_policy() {
        let inner = |name: &str, parent| InnerStatus {
            name: name.to_owned(),
            parent,
            ..InnerStatus::default()
        };
        let leaf = |name: &str, parent| ClassStatus {
            name: name.to_owned(),
            parent,
            ..ClassStatus::default()
        };
        let lane = LaneStatus {
            name: "up".to_owned(),
            inner: vec![inner("a", None), inner("b", Some(0)), inner("c", None)],
            classes: vec![leaf("x", Some(1)), leaf("y", None), leaf("z", Some(2))],
            ..LaneStatus::default()
        };
        let status = Status { lanes: vec![lane], ..Status::default() };
        let tree = Tree::of(&status);
        let way = &tree.ways[0];
        let rows: Vec<_> =
            way.shown.classes.iter().map(|class| (class.name.as_str(), class.parent)).collect();
        let wanted =
            [("a", None), ("b", Some(0)), ("x", Some(1)), ("y", None), ("c", None), ("z", Some(4))];
        assert_eq!(rows, wanted);
        assert_eq!(way.above(2).collect::<Vec<_>>(), [1, 0]);
        assert_eq!((way.leaf("z"), way.inner(&status.lanes[0], 2)), (Some(5), Some(4)));
        assert!(tree.fits(&status));
        let mut other = status.clone();
        other.lanes[0].classes.pop();
        assert!(!tree.fits(&other));
    }
}
