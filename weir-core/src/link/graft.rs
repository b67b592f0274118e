//! Adds, retunes or removes one leaf of a running link, without a rebuild of the rest.
//!
//! A leaf that is added takes a place that its plan reserved ([`LinkPlan::reserve`]), so no table
//! grows and no other leaf has another number; a leaf that is removed leaves its place. The plan
//! follows, so that a link built from it, or changed from it, is the link that runs. What only a
//! [`Change`](super::Change) can do is refused with [`RefitError::NeedsChange`]. For a link that
//! another thread runs, [`Graft::rehearse`] does to the plan and to a link like it what
//! [`PreparedGraft::apply`] then does to the one that runs. Invariant: no other leaf is touched,
//! but the heir of a removed one; a packet is lost only where a limit has no room for it.

use super::{AnyLink, Link, LinkPlan};
use crate::ids::{ClassId, LeafId};
use crate::parameter::Params;
use crate::queue::{AnyDropper, Dropper, FlowQueues, PackedLimit, Place, QueueEntry, QueuePlan};
use crate::sched::{Discipline, Refit, RefitError};
use crate::units::Instant;
use alloc::string::String;
use alloc::vec::Vec;

/// A change of one leaf.
#[derive(Clone, Debug)]
pub enum Graft {
    /// A class takes a place that is reserved under a parent, `None` for the link.
    Add {
        /// The parent, which has children already.
        parent: Option<ClassId>,
        /// The name of the class, which no other has.
        name: String,
        /// The scheduler's parameters of the class.
        params: Params,
        /// The limit and the dropper of its leaf.
        queue: QueuePlan,
    },
    /// A class takes this place.
    Take {
        /// The place, which no class has.
        leaf: LeafId,
        /// The name of the class, which no other has.
        name: String,
        /// The scheduler's parameters of the class.
        params: Params,
        /// The limit and the dropper of its leaf.
        queue: QueuePlan,
    },
    /// A place that a class left gets the parameters and the queue with which places are built.
    Reset {
        /// The place, which no class has.
        leaf: LeafId,
        /// The scheduler's parameters with which places are built.
        params: Params,
        /// The queue with which places are built.
        queue: QueuePlan,
    },
    /// A leaf gets other parameters and another queue.
    Retune {
        /// The leaf of a class.
        leaf: LeafId,
        /// The scheduler's parameters of its class.
        params: Params,
        /// Its new limit and dropper.
        queue: QueuePlan,
    },
    /// A class leaves its place.
    Remove {
        /// The leaf of the class that leaves.
        leaf: LeafId,
        /// The leaf that takes the packets that wait, behind its own.
        heir: LeafId,
    },
}

/// A leaf whose plan was replaced, and what it had before.
#[derive(Clone, Copy, Debug)]
pub struct Grafted<'a> {
    /// The leaf of the new plan.
    pub leaf: LeafId,
    /// The scheduler's parameters that it had.
    pub params: &'a Params,
    /// The queue that it had.
    pub queue: &'a QueuePlan,
    /// Whether another class takes the place.
    pub is_new: bool,
    /// The difference that the graft makes to the plan's fingerprint, modulo 2^64.
    pub fingerprint: u64,
}

/// Memory that a link takes and gives back when one of its leaves is grafted, so that it need not
/// allocate or free.
#[derive(Default)]
pub struct Spare {
    /// The dropper of the leaf, built beforehand; after that the one that it had.
    dropper: Option<AnyDropper>,
    /// Room for the packets that wait.
    waiting: Vec<QueueEntry>,
}

/// A graft that was made to a plan, for a link that has the plan before it.
pub struct PreparedGraft {
    leaf: LeafId,
    params: Params,
    queue: QueuePlan,
    is_new: bool,
    fingerprint: u64,
    /// Of a leaf that is removed.
    heir: Option<LeafId>,
    spare: Spare,
}

impl PreparedGraft {
    /// Returns the leaf that the graft adds, changes or removes.
    pub fn leaf(&self) -> LeafId {
        self.leaf
    }

    /// Does it to `link` at `now`; `plan` has it, and may have later ones of other leaves.
    /// Afterwards it holds what was replaced.
    ///
    /// # Errors
    /// When it takes a whole change. A link like that of the rehearsal does not refuse it, unless
    /// packets wait in a leaf that is removed, or in its heir, and one of them shares its limit.
    pub fn apply(
        &mut self,
        plan: &LinkPlan,
        link: &mut dyn AnyLink,
        now: Instant,
    ) -> Result<(), RefitError> {
        let Self { leaf, ref params, ref queue, is_new, fingerprint, heir, ref mut spare } = *self;
        let grafted = Grafted { leaf, params, queue, is_new, fingerprint };
        match heir {
            Some(heir) => link.remove_leaf(now, plan, (grafted, heir), spare),
            None => link.refit_leaf(now, plan, grafted, spare),
        }
    }
}

impl Graft {
    /// Does it to `plan`, and to `twin`, a link of that plan in which no packet waits; returns what
    /// does the same to the link that runs. Up to `waiting_max` packets that wait then move without
    /// an allocation.
    ///
    /// # Errors
    /// As [`Graft::apply`].
    pub fn rehearse(
        self,
        plan: &mut LinkPlan,
        twin: &mut dyn AnyLink,
        waiting_max: usize,
    ) -> Result<PreparedGraft, RefitError> {
        let heir = match &self {
            Graft::Remove { heir, .. } => Some(*heir),
            _ => None,
        };
        let leaf = match &self {
            Graft::Add { parent, .. } => plan.tree.vacancy(*parent).ok_or(NO_PLACE)?,
            Graft::Take { leaf, .. } | Graft::Reset { leaf, .. } => *leaf,
            Graft::Retune { leaf, .. } | Graft::Remove { leaf, .. } => *leaf,
        };
        if leaf.index() >= plan.tree.leaf_count() {
            return Err(RefitError::NeedsChange("there is no such leaf"));
        }
        let is_new = plan.tree.is_vacant(leaf);
        let before = (plan.tree.leaf(leaf).params.clone(), plan.queues[leaf.index()].clone());
        let fingerprint = plan.leaf_fingerprint(leaf);
        self.apply(plan, twin, Instant::ZERO)?;
        let fingerprint = plan.leaf_fingerprint(leaf).wrapping_sub(fingerprint);
        let place = Place { leaf, rate: plan.tree.rate(), mtu: plan.tree.mtu(), seed: plan.seed };
        let dropper = AnyDropper::build(&plan.queues[leaf.index()], place)?;
        let spare = Spare { dropper: Some(dropper), waiting: Vec::with_capacity(waiting_max) };
        let (params, queue) = before;
        Ok(PreparedGraft { leaf, params, queue, is_new, fingerprint, heir, spare })
    }

    /// Does it to `link`, which was built from `plan` or changed to it, at `now`, and to the plan.
    /// Returns the leaf. The link must have been served up to now.
    ///
    /// # Errors
    /// When it takes a whole change, or the values contradict each other; then nothing is changed.
    pub fn apply(
        self,
        plan: &mut LinkPlan,
        link: &mut dyn AnyLink,
        now: Instant,
    ) -> Result<LeafId, RefitError> {
        match self {
            Graft::Add { parent, name, params, queue } => {
                let free = plan.tree.vacancy(parent).filter(|_| !name.is_empty());
                let leaf = free.ok_or(NO_PLACE)?;
                refit(plan, link, now, LeafPlan { leaf, name, params, queue })?;
                Ok(leaf)
            }
            Graft::Take { leaf, name, params, queue } => {
                vacant(plan, leaf).filter(|_| !name.is_empty()).ok_or(NO_PLACE)?;
                refit(plan, link, now, LeafPlan { leaf, name, params, queue })?;
                Ok(leaf)
            }
            Graft::Reset { leaf, params, queue } => {
                vacant(plan, leaf).ok_or(NO_PLACE)?;
                refit(plan, link, now, LeafPlan { leaf, name: String::new(), params, queue })?;
                Ok(leaf)
            }
            Graft::Retune { leaf, params, queue } => {
                let name = named(plan, leaf)?;
                refit(plan, link, now, LeafPlan { leaf, name, params, queue })?;
                Ok(leaf)
            }
            Graft::Remove { leaf, heir } => {
                let name = named(plan, leaf)?;
                named(plan, heir)?;
                let before = plan.leaf_fingerprint(leaf);
                let params = plan.tree.leaf(leaf).params.clone();
                let class = plan.tree.replace(leaf, String::new(), params);
                let fingerprint = plan.leaf_fingerprint(leaf).wrapping_sub(before);
                let queue = &plan.queues[leaf.index()];
                let (params, is_new) = (&class.params, false);
                let grafted = Grafted { leaf, params, queue, is_new, fingerprint };
                link.remove_leaf(now, plan, (grafted, heir), &mut Spare::default()).inspect_err(
                    |_| {
                        plan.tree.replace(leaf, name, class.params);
                    },
                )?;
                Ok(leaf)
            }
        }
    }
}

struct LeafPlan {
    leaf: LeafId,
    /// Empty for a place.
    name: String,
    params: Params,
    queue: QueuePlan,
}

/// Gives a leaf another plan, in `plan` and in `link`, or in neither.
fn refit(
    plan: &mut LinkPlan,
    link: &mut dyn AnyLink,
    now: Instant,
    LeafPlan { leaf, name, params, queue }: LeafPlan,
) -> Result<(), RefitError> {
    let before = plan.leaf_fingerprint(leaf);
    let class = plan.tree.replace(leaf, name, params);
    let queue = core::mem::replace(&mut plan.queues[leaf.index()], queue);
    let is_new = class.name.is_empty();
    let fingerprint = plan.leaf_fingerprint(leaf).wrapping_sub(before);
    let grafted = Grafted { leaf, params: &class.params, queue: &queue, is_new, fingerprint };
    link.refit_leaf(now, plan, grafted, &mut Spare::default()).inspect_err(|_| {
        plan.tree.replace(leaf, class.name, class.params);
        plan.queues[leaf.index()] = queue;
    })
}

/// Returns `leaf` if it is a place.
fn vacant(plan: &LinkPlan, leaf: LeafId) -> Option<LeafId> {
    let is_known = leaf.index() < plan.tree.leaf_count();
    (is_known && plan.tree.is_vacant(leaf)).then_some(leaf)
}

/// Returns the name of a leaf that is not just a place.
fn named(plan: &LinkPlan, leaf: LeafId) -> Result<String, RefitError> {
    let is_known = leaf.index() < plan.tree.leaf_count();
    let name = if is_known { &plan.tree.leaf(leaf).name } else { "" };
    if name.is_empty() {
        return Err(RefitError::NeedsChange("there is no such leaf"));
    }
    Ok(name.into())
}

impl LinkPlan {
    /// Reserves `count` places for leaves under `parent`, with these parameters and this queue, so
    /// that as many can be added by [`Graft::Add`]. Returns false, and reserves none, if the parent
    /// is a leaf.
    #[must_use]
    pub fn reserve(
        &mut self,
        parent: Option<ClassId>,
        count: usize,
        params: &Params,
        queue: &QueuePlan,
    ) -> bool {
        let reserved = self.tree.reserve(parent, count, params);
        self.queues.resize(self.tree.leaf_count(), queue.clone());
        reserved
    }
}

impl LinkPlan {
    /// Gives a leaf another name, none for a place, other parameters and another queue, as a graft
    /// of a link of this plan did.
    pub fn replace_leaf(&mut self, leaf: LeafId, name: String, params: Params, queue: QueuePlan) {
        self.tree.replace(leaf, name, params);
        self.queues[leaf.index()] = queue;
    }
}

impl<S: Discipline> Link<S> {
    /// See [`AnyLink::refit_leaf`].
    pub(super) fn refit_at(
        &mut self,
        now: Instant,
        plan: &LinkPlan,
        grafted: Grafted<'_>,
        spare: &mut Spare,
    ) -> Result<(), RefitError> {
        self.check_graft(now)?;
        let Grafted { leaf, params: before, queue, is_new, fingerprint } = grafted;
        let to = &plan.queues[leaf.index()];
        let (rate, mtu, seed) = (plan.tree.rate(), plan.tree.mtu(), plan.seed);
        let place = Place { leaf, rate, mtu, seed };
        let ready = spare.dropper.take();
        let dropper = self.queues.refitted_dropper(place, (queue, to), is_new, ready)?;
        let is_tuned = is_new || *before != plan.tree.leaf(leaf).params;
        let refit = Refit { before, is_new };
        // A leaf that the scheduler need not know anew stays in its turn, and one in which packets
        // wait leaves it for as long as it is refitted.
        if let Some(dropper) = &dropper {
            self.take_out(now, leaf, &mut spare.waiting);
            let numbers = dropper.flows().is_some_and(FlowQueues::numbers_flows);
            if numbers || self.queues.numbers_flows(leaf) {
                let waiting = spare.waiting.iter_mut();
                waiting.for_each(|entry| entry.label = entry.label.without_flow());
            }
        }
        let head = self.queues.head(leaf).filter(|_| is_tuned);
        if head.is_some() {
            self.leave(now, leaf);
        }
        let done = if is_tuned {
            self.scheduler.refit(self.at(now), &plan.tree, leaf, refit)
        } else {
            Ok(())
        };
        if let (Ok(()), Some(dropper)) = (&done, dropper) {
            spare.dropper = self.queues.set_dropper(leaf, dropper);
        }
        if head.is_some() {
            self.rejoin(now, leaf);
        }
        // What waited before waits again if nothing is changed.
        let limit = done.is_ok().then(|| PackedLimit::new(to.limit()));
        self.put_back(now, leaf, &mut spare.waiting, limit);
        self.due = now;
        done.map(|()| self.plan = self.plan.wrapping_add(fingerprint))
    }

    /// See [`AnyLink::remove_leaf`].
    pub(super) fn remove_at(
        &mut self,
        now: Instant,
        plan: &LinkPlan,
        (grafted, heir): (Grafted<'_>, LeafId),
        spare: &mut Spare,
    ) -> Result<(), RefitError> {
        self.check_graft(now)?;
        let leaf = grafted.leaf;
        let is_empty = self.queues.backlog(leaf).packets == 0;
        let is_shared = self.queues.shares(leaf) || self.queues.shares(heir);
        if heir == leaf || !is_empty && is_shared {
            return Err(RefitError::NeedsChange(
                "its packets cannot wait behind those of its heir",
            ));
        }
        let waiting = &mut spare.waiting;
        if !is_empty && self.queues.has_flows(heir) {
            // All form one queue then, or a flow would overtake its packets.
            self.take_out(now, heir, waiting);
        }
        self.take_out(now, leaf, waiting);
        waiting.iter_mut().for_each(|entry| entry.label = entry.label.without_flow());
        let limit = PackedLimit::new(plan.queues[heir.index()].limit());
        self.put_back(now, heir, waiting, Some(limit));
        self.retired = self.retired.plus_past(&self.queues.retire(leaf));
        self.plan = self.plan.wrapping_add(grafted.fingerprint);
        self.due = now;
        Ok(())
    }

    fn check_graft(&mut self, now: Instant) -> Result<(), RefitError> {
        if !S::REFITS {
            return Err(RefitError::NeedsChange("the scheduler builds its classes together"));
        }
        // Also where the graft is refused then, no call is due before now.
        self.skip_to(now);
        Ok(())
    }

    /// Takes all packets out of `leaf`, behind those in `waiting`.
    fn take_out(&mut self, now: Instant, leaf: LeafId, waiting: &mut Vec<QueueEntry>) {
        if self.queues.backlog(leaf).packets == 0 {
            return;
        }
        if !self.queues.is_held(leaf) {
            self.leave(now, leaf);
        }
        let taken = waiting.len() + self.queues.backlog(leaf).packets as usize;
        self.queues.empty(leaf, |entry| waiting.push(entry));
        assert_eq!(waiting.len(), taken, "all packets of the leaf are taken out");
        self.queues.forget_flows(leaf);
        // A flow would overtake its packets of which the flow is not known.
        if waiting.iter().any(|entry: &QueueEntry| !entry.label.has_flow()) {
            waiting.iter_mut().for_each(|entry| entry.label = entry.label.without_flow());
        }
    }

    /// Notifies the scheduler that no packet waits in `leaf`, in which some do.
    pub(super) fn leave(&mut self, now: Instant, leaf: LeafId) {
        if S::CALLS.per_packet {
            for _ in 1..self.queues.backlog(leaf).packets {
                self.scheduler.head_changed(self.at(now), leaf, self.queues.head(leaf));
            }
        }
        self.scheduler.head_changed(self.at(now), leaf, None);
    }

    /// Notifies the scheduler again of the packets of `leaf`.
    pub(super) fn rejoin(&mut self, now: Instant, leaf: LeafId) {
        let Some(head) = self.queues.head(leaf) else { return };
        self.scheduler.enqueued(self.at(now), leaf, head);
        if S::CALLS.per_packet {
            let behind = self.queues.backlog(leaf).packets - 1;
            (0..behind).for_each(|_| self.scheduler.joined(self.at(now), leaf, head.length));
        }
    }

    /// Appends packets that were taken out to `leaf`, as far as a limit lets them.
    fn put_back(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entries: &mut Vec<QueueEntry>,
        limit: Option<PackedLimit>,
    ) {
        let waited = entries.len() + self.queues.packets() as usize;
        let dropped = self.dropped.len();
        for entry in entries.drain(..) {
            self.readmit(now, leaf, entry, limit);
        }
        let (kept, lost) = (self.queues.packets() as usize, self.dropped.len() - dropped);
        assert_eq!(waited, kept + lost, "each packet waits on or is counted as dropped");
    }
}

const NO_PLACE: RefitError = RefitError::NeedsChange("no place is reserved under its parent");
