//! The link's change to another plan in the middle of a run, and what a report says of it.

use crate::network::plan::OutletId;
use serde::Serialize;
use std::fmt;
use weir_core::account::Account;
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::ids::LeafId;
use weir_core::link::LinkPlan;
use weir_core::sched::Tree;
use weir_core::units::{Duration, Instant, Rate};
use weir_trace::shown::{bits_per_second, seconds};

/// A change of the link to another plan.
#[derive(Clone, Debug)]
pub struct PlanChange {
    /// The instant of the change, from the start of the run.
    pub at: Instant,
    /// The name of the plan in the report: the policy's file.
    pub policy: String,
    /// The plan from then on.
    pub link: LinkPlan,
    /// Which leaf of the plan the packets of a source go to.
    pub classifier: Classifier,
    /// The leaf that takes packets of leaves that are gone.
    pub heir: LeafId,
    /// Which outlet of a network gets it; without a network, there is but one.
    pub outlet: OutletId,
    /// The rules' number of each interface, by the number that sources use; beyond the end both
    /// numbers are equal.
    pub interfaces: Vec<InterfaceId>,
}

impl PlanChange {
    /// Returns the rules' number of the interface that a source names.
    pub(crate) fn interface(&self, named: InterfaceId) -> InterfaceId {
        self.interfaces.get(usize::from(named.0)).copied().unwrap_or(named)
    }
}

/// A change that took place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChangeReport {
    /// When, from the start of the run.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    pub at: Duration,
    /// The name of the policy's file.
    pub policy: String,
    /// The scheduler's keyword from then on.
    pub scheduler: &'static str,
    /// The rate of the line from then on.
    #[serde(rename = "rate_bps", serialize_with = "bits_per_second")]
    pub rate: Rate,
    /// The names of leaves that only the new plan has.
    pub new: Vec<String>,
    /// The names of leaves that only the old plan had.
    pub gone: Vec<String>,
    /// The leaf that took the packets that waited in the removed ones.
    pub heir: String,
    /// The number of these packets, before any was lost.
    pub moved: u64,
    /// Packets lost to it, with the reason `reconfigured`.
    pub lost: u64,
}

impl ChangeReport {
    /// A change from `old`, which had counted `account`; nothing is lost yet.
    pub(crate) fn new(change: &PlanChange, old: &Tree, account: &Account) -> Self {
        let new = &change.link.tree;
        let (before, after) = (leaf_names(old), leaf_names(new));
        let is_gone = |name: &str| after.binary_search(&name).is_err();
        let is_new = |name: &str| before.binary_search(&name).is_err();
        let gone: Vec<_> = old.leaves().filter(|(_, class)| is_gone(&class.name)).collect();
        let moved = gone.iter().map(|&(leaf, _)| account.leaf(leaf).backlog.packets).sum();
        let came = new.leaves().filter(|(_, class)| is_new(&class.name));
        Self {
            at: change.at.since(Instant::ZERO),
            policy: change.policy.clone(),
            scheduler: change.link.scheduler,
            rate: new.rate(),
            new: came.map(|(_, class)| class.name.clone()).collect(),
            gone: gone.iter().map(|(_, class)| class.name.clone()).collect(),
            heir: new.class(new.class_of(change.heir)).name.clone(),
            moved,
            lost: 0,
        }
    }
}

fn leaf_names(tree: &Tree) -> Vec<&str> {
    let mut names: Vec<_> = tree.leaves().map(|(_, class)| class.name.as_str()).collect();
    names.sort_unstable();
    names
}

impl fmt::Display for ChangeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, policy, scheduler, rate, new, gone, heir, moved, lost } = self;
        write!(f, "change at {at} to {policy}: {scheduler} at {rate}")?;
        if !new.is_empty() {
            write!(f, "; new: {}", new.join(", "))?;
        }
        if !gone.is_empty() {
            write!(f, "; gone: {}, {moved} packets moved to {heir}", gone.join(", "))?;
        }
        write!(f, "; {lost} packets lost")
    }
}
