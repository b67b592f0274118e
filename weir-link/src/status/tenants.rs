//! Which class has each place of a lane, as readers of its status are told.
//!
//! Classes join and leave without new labels. So each class that takes a place gets a number, which
//! the loop copies beside the counts of the leaf, and this table says which class has the number.
//! Invariant: counts are told only under the name of the class that they were counted for; the loop
//! never looks here.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use weir_core::ids::LeafId;
use weir_policy::Policy;

use super::facts::Facts;

/// The classes at places.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    first: usize,
    rows: RwLock<Vec<Tenant>>,
    last: AtomicU32,
    /// The identity of the policy with these classes, if it is another than at first.
    identity: RwLock<Option<String>>,
}

/// A class at a place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenant {
    /// No other class had it since the policy came into force; 0 for no class.
    pub number: u32,
    /// The facts about the class.
    pub facts: Facts,
}

impl Tenants {
    /// The classes at places of a policy; `facts` returns those about a leaf.
    pub fn of(policy: &Policy, facts: impl Fn(LeafId) -> Facts) -> Self {
        let first = policy.first_place.index();
        let count = if policy.has_places() { policy.place_count() } else { 0 };
        let leaves = (first..first + count).map(|leaf| LeafId(leaf as u32));
        let rows: Vec<_> = leaves
            .map(|leaf| match policy.link.tree.is_vacant(leaf) {
                true => Tenant::default(),
                false => Tenant { number: 1, facts: facts(leaf) },
            })
            .collect();
        let identity = RwLock::new(None);
        Self { first, rows: RwLock::new(rows), last: AtomicU32::new(1), identity }
    }

    /// Returns the number of each place's class.
    pub fn numbers(&self) -> Vec<u32> {
        self.rows().iter().map(|tenant| tenant.number).collect()
    }

    /// Returns the leaf of the first place.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Returns a number that no class had.
    pub fn next_number(&self) -> u32 {
        self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// Returns the number of the class that has a place now.
    pub fn number_of(&self, leaf: LeafId) -> Option<u32> {
        let rows = self.rows();
        let row = rows.get(leaf.index().checked_sub(self.first)?)?;
        Some(row.number).filter(|number| *number != 0)
    }

    /// Returns how many places no class has.
    pub fn vacant(&self) -> usize {
        self.rows().iter().filter(|tenant| tenant.number == 0).count()
    }

    /// Returns the identity of the policy with these classes, if it is another than at first.
    pub fn identity(&self) -> Option<String> {
        self.identity.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says which policy is in force with these classes.
    pub fn set_identity(&self, identity: String) {
        *self.identity.write().unwrap_or_else(PoisonError::into_inner) = Some(identity);
    }

    /// Says which class a leaf belongs to from now on.
    pub fn set(&self, leaf: LeafId, tenant: Tenant) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = leaf.index().checked_sub(self.first).and_then(|at| rows.get_mut(at)) {
            *row = tenant;
        }
    }

    /// Returns the class for which `number` was counted at a leaf: `Ok(None)` for a leaf that is no
    /// place.
    ///
    /// # Errors
    /// When no class has the place, or another one than was counted.
    pub fn of_leaf(&self, leaf: LeafId, number: u32) -> Result<Option<Tenant>, Stranger> {
        let rows = self.rows();
        let Some(row) = leaf.index().checked_sub(self.first).and_then(|at| rows.get(at)) else {
            return Ok(None);
        };
        if number == 0 || row.number != number {
            return Err(Stranger);
        }
        Ok(Some(row.clone()))
    }

    /// Returns whether the class for which `number` was counted at a leaf has a name that `is_it`
    /// accepts; `None` for a leaf that is no place.
    pub fn has_name(
        &self,
        leaf: usize,
        number: u32,
        is_it: impl FnOnce(&str) -> bool,
    ) -> Option<bool> {
        let rows = self.rows();
        let row = rows.get(leaf.checked_sub(self.first)?)?;
        Some(number != 0 && row.number == number && is_it(&row.facts.name))
    }

    fn rows(&self) -> std::sync::RwLockReadGuard<'_, Vec<Tenant>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No class has the place, or another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger;
