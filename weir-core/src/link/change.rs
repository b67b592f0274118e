//! Changes a running link from one plan to another while packets wait.
//!
//! A link of the new plan is built beside the old one; once that succeeds, it takes over the
//! packets, the account, the line, and the state that scheduler and droppers hold of classes that
//! stay. Classes are matched by name. Packets of a removed leaf go to an heir, in the order of
//! arrival. Invariant: a packet is lost only where the new limit of its leaf, or of the link, has
//! no room for it; then it is counted as dropped.

use super::explain::Explainer;
use super::line::Line;
use super::{AnyLink, Link, LinkPlan};
use crate::account::LeafAccount;
use crate::event::{DropReason, Dropped};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::police::Police;
use crate::queue::{Limit, QueueEntry, Queues};
use crate::sched::{Discipline, Kin};
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::any::Any;

/// A change from one plan to another.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The plan that the link was built from, or last changed to.
    pub from: &'a LinkPlan,
    /// The plan that the link changes to.
    pub to: &'a LinkPlan,
    /// The leaf of the new plan that takes the packets of removed leaves.
    pub heir: LeafId,
}

/// The state that a link hands to its replacement.
pub struct Estate {
    scheduler: Box<dyn Any>,
    queues: Queues,
    police: Option<Box<Police>>,
    line: Line,
    now: Instant,
    dropped: Vec<Dropped>,
    retired: LeafAccount,
    explainer: Option<Box<Explainer>>,
    leaving: VecDeque<(Instant, LeafId, Bytes)>,
}

impl Change<'_> {
    /// Changes `link` at `now`.
    ///
    /// # Errors
    /// When the new plan does not build; then `link` is unchanged.
    pub fn apply(self, link: &mut Box<dyn AnyLink>, now: Instant) -> Result<(), BuildError> {
        let fresh = self.to.build()?;
        let old = core::mem::replace(link, fresh);
        link.inherit(now, old.retire(), self);
        Ok(())
    }
}

impl Change<'_> {
    /// Returns whether the queue of leaf `new` has the same plan as that of `old`, on a link with
    /// the same limits.
    fn keeps_queue(&self, new: LeafId, old: LeafId) -> bool {
        let (from, to) = (&self.from, &self.to);
        let same_link = from.tree.rate() == to.tree.rate() && from.tree.mtu() == to.tree.mtu();
        same_link && from.queues[old.index()] == to.queues[new.index()]
    }
}

impl<S: Discipline> Link<S> {
    pub(super) fn into_estate(self) -> Estate {
        Estate {
            scheduler: Box::new(self.scheduler),
            queues: self.queues,
            police: self.police,
            line: self.line,
            now: self.now,
            dropped: self.dropped,
            retired: self.retired,
            explainer: self.explainer,
            leaving: self.leaving,
        }
    }

    pub(super) fn take_over(&mut self, now: Instant, mut estate: Estate, change: Change<'_>) {
        assert!(now >= estate.now, "time never goes back");
        (self.now, self.due) = (now, now);
        self.line.forfeit_before(estate.line.finished());
        self.dropped = estate.dropped;
        let kin = Kin::by_name(&change.from.tree, &change.to.tree);
        // Before their droppers are replaced, which may define the packets' order.
        let mut waiting = waiting(&estate.queues, &kin, change.heir);
        let same_flows = change.from.seed == change.to.seed;
        forget_flows(&mut waiting, self.queues.leaf_count(), same_flows);
        self.queues.inherit(&mut estate.queues, &kin, |new, old| change.keeps_queue(new, old));
        if let (Some(police), Some(old)) = (&mut self.police, estate.police) {
            police.inherit(*old, &change.from.meters, &change.to.meters);
        }
        self.retired = retired(&estate.queues, &kin, estate.retired);
        if let Some(old) = estate.scheduler.downcast_ref::<S>() {
            self.scheduler.inherit(now, old, &kin);
            // Packets still on the wire are charged to the leaves that stay.
            let stays = |(finished, before, length)| {
                let (new, _) = kin.leaves().find(|&(_, old)| old == before)?;
                Some((finished, new, length))
            };
            self.leaving = estate.leaving.into_iter().filter_map(stays).collect();
        }
        let leaves = self.queues.leaf_count();
        self.explainer = estate.explainer.map(|explainer| Box::new(explainer.changed(leaves, now)));
        for (leaf, entry) in waiting {
            // A limit that leaves share is enforced below.
            let queue = &change.to.queues[leaf.index()];
            let limit = (!self.queues.shares(leaf)).then(|| queue.limit());
            self.readmit(now, leaf, entry, limit);
        }
        while let Some(victim) = self.queues.victim() {
            self.drop_first(now, victim, DropReason::Reconfigured);
        }
    }

    /// Admits a packet that waited before the change.
    fn readmit(&mut self, now: Instant, leaf: LeafId, entry: QueueEntry, limit: Option<Limit>) {
        let backlog = self.queues.backlog(leaf);
        let fits = limit.is_none_or(|limit| limit.fits(entry.charged(), backlog));
        if self.queues.is_full() || !fits {
            self.refuse(now, leaf, &entry, DropReason::Reconfigured);
            return;
        }
        self.scheduler.offered(now, leaf);
        let was_empty = self.queues.push(leaf, &entry);
        self.queued(now, leaf, &entry, was_empty);
    }
}

/// Returns every waiting packet with its leaf in the new plan, in the order of arrival. Packets of
/// one leaf stay in their order.
fn waiting(old: &Queues, kin: &Kin, heir: LeafId) -> Vec<(LeafId, QueueEntry)> {
    let mut destinations = alloc::vec![heir; old.leaf_count()];
    for (new, before) in kin.leaves() {
        destinations[before.index()] = new;
    }
    let mut packets = Vec::with_capacity(old.packets() as usize);
    for (index, destination) in destinations.into_iter().enumerate() {
        let leaf = LeafId(index as u32);
        packets.extend(old.waiting(leaf).into_iter().map(|entry| (destination, entry)));
    }
    packets.sort_by_key(|(_, entry)| entry.arrived);
    packets
}

/// Packets of a leaf stay separated by flow only if the flow of each is known by the number that
/// later packets get. Otherwise they form one queue in front of all later packets, or a flow would
/// overtake itself.
fn forget_flows(waiting: &mut [(LeafId, QueueEntry)], leaves: usize, same_flows: bool) {
    let mut forget = alloc::vec![!same_flows; leaves];
    for (leaf, entry) in &*waiting {
        forget[leaf.index()] |= !entry.label.has_flow();
    }
    for (_, entry) in waiting.iter_mut().filter(|row| forget[row.0.index()]) {
        entry.label = entry.label.without_flow();
    }
}

/// Returns what removed leaves sent and dropped, plus what was retired `before`.
fn retired(old: &Queues, kin: &Kin, before: LeafAccount) -> LeafAccount {
    let mut stays = alloc::vec![false; old.leaf_count()];
    kin.leaves().for_each(|(_, leaf)| stays[leaf.index()] = true);
    let account = old.account();
    let gone = account.leaves().iter().zip(stays).filter(|(_, stays)| !stays);
    gone.fold(before, |sum, (leaf, _)| sum.plus_past(leaf))
}
