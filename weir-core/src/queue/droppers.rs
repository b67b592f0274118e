//! The droppers of all leaves.

use super::{AnyDropper, Dropper, Place, QueuePlan};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::state::{Reader, State, StateError, Writer};
use crate::tree::Tree;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The droppers of all leaves; leaves with equal plans share one that has no state.
pub(super) struct Droppers {
    list: Vec<AnyDropper>,
    /// By leaf, the index of its dropper; empty where all have the first.
    places: Vec<u32>,
    /// The index of the dropper of each leaf that got one of its own later, or was a place.
    later: BTreeMap<LeafId, u32>,
}

impl Droppers {
    /// Builds a dropper for each queue of `plans`, one a leaf.
    pub(super) fn new(plans: &[QueuePlan], tree: &Tree, seed: u64) -> Result<Self, BuildError> {
        let (rate, mtu) = (tree.rate(), tree.mtu());
        let (mut list, mut places) = (Vec::new(), Vec::new());
        let mut alike: Option<(&QueuePlan, u32)> = None;
        let mut later = BTreeMap::new();
        for (index, queue) in plans.iter().enumerate() {
            // The class that takes a place gets another dropper, for which there is room then.
            let is_place = tree.is_vacant(LeafId(index as u32));
            if is_place {
                later.insert(LeafId(index as u32), list.len() as u32);
            } else if let Some((_, place)) = alike.filter(|&(before, _)| before == queue) {
                places.push(place);
                continue;
            }
            let place = list.len() as u32;
            let dropper =
                AnyDropper::build(queue, Place { leaf: LeafId(index as u32), rate, mtu, seed })?;
            if dropper.keeps_nothing() && !is_place {
                alike = Some((queue, place));
            }
            list.push(dropper);
            places.push(place);
        }
        if list.len() == 1 {
            places.clear();
        }
        list.shrink_to_fit();
        places.shrink_to_fit();
        Ok(Self { list, places, later })
    }

    /// Gives `leaf` of so many `leaves` another dropper; the one before may serve others, too.
    /// Returns it if it served only this leaf. Allocates nothing for a leaf that was a place.
    pub(super) fn replace(
        &mut self,
        leaf: LeafId,
        leaves: usize,
        dropper: AnyDropper,
    ) -> Option<AnyDropper> {
        if self.places.is_empty() {
            self.places.resize(leaves, 0);
        }
        let place = *self.later.entry(leaf).or_insert(self.list.len() as u32);
        self.places[leaf.index()] = place;
        match self.list.get_mut(place as usize) {
            Some(own) => Some(core::mem::replace(own, dropper)),
            None => {
                self.list.push(dropper);
                None
            }
        }
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut AnyDropper> {
        self.list.iter_mut()
    }

    /// Returns the indices of the droppers with state, of which each serves one leaf.
    fn own(&self) -> impl Iterator<Item = usize> {
        let only = self.places.is_empty().then_some(&0);
        let places = only.into_iter().chain(&self.places).map(|&place| place as usize);
        places.filter(|&place| !self.list[place].keeps_nothing())
    }

    #[inline]
    fn place(&self, leaf: LeafId) -> usize {
        self.places.get(leaf.index()).map_or(0, |&place| place as usize)
    }

    #[inline]
    pub(super) fn of(&self, leaf: LeafId) -> &AnyDropper {
        &self.list[self.place(leaf)]
    }

    #[inline]
    pub(super) fn of_mut(&mut self, leaf: LeafId) -> &mut AnyDropper {
        let place = self.place(leaf);
        &mut self.list[place]
    }
}

/// By leaf, since a leaf that was refitted has its dropper elsewhere than one that was built so.
impl State for Droppers {
    fn save(&self, to: &mut Writer) {
        self.own().for_each(|place| self.list[place].save(to));
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let own: Vec<_> = self.own().collect();
        own.into_iter().try_for_each(|place| self.list[place].load(from))
    }
}
