//! Changes a running link from one plan to another while packets wait.
//!
//! A change has two parts. [`Change::prepare`] does all that is slow, on any thread, beside the
//! link that runs: it builds a link of the new plan, matches classes by name, and reads limits.
//! [`Prepared::apply`] hands the packets, the account, the line, and the state that scheduler and
//! droppers hold of classes that stay to the new link. It frees nothing: what is left of the old
//! link comes back as [`Remains`], which another thread may drop. Packets of a removed leaf go to
//! an heir, in the order of arrival. Invariant: a packet is lost only where the new limit of its
//! leaf, or of the link, has no room for it; then it is counted as dropped.

use super::arrivals::ArrivalRate;
use super::clock::SchedulerClock;
use super::explain::Explainer;
use super::line::Line;
use super::{AnyLink, Link, LinkPlan};
use crate::account::LeafAccount;
use crate::event::{DropReason, Dropped};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::police::Police;
use crate::queue::{AnyDropper, Dropper, PackedLimit, Place, QueueEntry, QueuePlan, Queues};
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

/// A change that is worked out, for a link that has the plan it starts from.
pub struct Prepared {
    fresh: Box<dyn AnyLink>,
    handover: Handover,
}

/// The parts of the former link that the new one does not use. Dropping it frees all its memory,
/// which takes long if it had many classes.
pub struct Remains {
    _estate: Estate,
    _handover: Handover,
}

/// The state that a link hands to its replacement.
pub struct Estate {
    scheduler: Box<dyn Any + Send>,
    queues: Queues,
    police: Option<Box<Police>>,
    line: Line,
    clock: SchedulerClock,
    now: Instant,
    dropped: Vec<Dropped>,
    retired: LeafAccount,
    explainer: Option<Box<Explainer>>,
    leaving: VecDeque<(Instant, LeafId, Bytes)>,
    arrivals: Option<Box<ArrivalRate>>,
}

/// The part of a change that follows from the two plans alone, and is computed before the change.
pub struct Handover {
    kin: Kin,
    heir: LeafId,
    /// The old leaves that the new plan does not have.
    gone: Vec<LeafId>,
    /// The leaves, new and old, whose dropper stays as it is, with its state.
    droppers: Vec<(LeafId, LeafId)>,
    /// The limit of each new leaf.
    limits: Vec<PackedLimit>,
    /// The meters that stay as they are, by number.
    meters: Vec<bool>,
    /// Whether flows have the numbers that they had.
    same_flows: bool,
    /// Whether both links have room for as many packets, so that queues can move as they are.
    same_room: bool,
    /// Room for the packets that wait.
    waiting: Vec<Waiting>,
}

/// A packet that waits while the link changes; or, if it moved with its whole queue, the first
/// packet of that queue.
#[derive(Clone, Copy)]
struct Waiting {
    /// Its leaf in the new plan.
    leaf: LeafId,
    whole: bool,
    entry: QueueEntry,
}

impl Change<'_> {
    /// Works the change out without touching a link.
    ///
    /// # Errors
    /// When the new plan does not build.
    pub fn prepare(self) -> Result<Prepared, BuildError> {
        let fresh = self.to.build()?;
        let handover = Handover::of(self)?;
        Ok(Prepared { fresh, handover })
    }

    /// Changes `link` at `now`: prepares and applies in one.
    ///
    /// # Errors
    /// When the new plan does not build; then `link` is unchanged.
    pub fn apply(self, link: &mut Box<dyn AnyLink>, now: Instant) -> Result<(), BuildError> {
        drop(self.prepare()?.apply(link, now));
        Ok(())
    }
}

impl Prepared {
    /// Changes `link` at `now`. The link must have the plan that the change was prepared from.
    ///
    /// # Panics
    /// When `now` is before an earlier call of the link.
    pub fn apply(self, link: &mut Box<dyn AnyLink>, now: Instant) -> Remains {
        let Prepared { fresh, mut handover } = self;
        let mut estate = core::mem::replace(link, fresh).retire();
        link.inherit(now, &mut estate, &mut handover);
        Remains { _estate: estate, _handover: handover }
    }
}

impl Handover {
    fn of(change: Change<'_>) -> Result<Self, BuildError> {
        let Change { from, to, heir } = change;
        let kin = Kin::by_name(&from.tree, &to.tree);
        let old_leaves = (0..from.tree.leaf_count() as u32).map(LeafId);
        Ok(Self {
            gone: old_leaves.filter(|&leaf| kin.new_leaf(leaf).is_none()).collect(),
            droppers: change.lasting_droppers(&kin)?,
            limits: limits(&to.queues),
            meters: from.meters.iter().zip(&to.meters).map(|(old, new)| old == new).collect(),
            same_flows: from.seed == to.seed,
            same_room: from.packets_max == to.packets_max,
            waiting: Vec::with_capacity(from.packets_max.min(WAITING_READY) as usize),
            kin,
            heir,
        })
    }
}

/// Packets for whose move a change has memory ready; it takes more when it is applied, if more
/// wait.
const WAITING_READY: u32 = 1 << 15;

impl Change<'_> {
    /// Returns the leaves, new and old, whose queue has the same plan on a link with the same MTU
    /// and, for droppers that depend on it, the same rate, and whose dropper has state.
    fn lasting_droppers(&self, kin: &Kin) -> Result<Vec<(LeafId, LeafId)>, BuildError> {
        let (from, to) = (&self.from, &self.to);
        let mut leaves = Vec::new();
        if from.tree.mtu() != to.tree.mtu() {
            return Ok(leaves);
        }
        let same_rate = from.tree.rate() == to.tree.rate();
        let (rate, mtu, seed) = (to.tree.rate(), to.tree.mtu(), to.seed);
        // Many leaves in a row have equal plans.
        let mut stateless = None;
        for (new, old) in kin.leaves() {
            let queue = &to.queues[new.index()];
            if stateless == Some(queue) || *queue != from.queues[old.index()] {
                continue;
            }
            let dropper = AnyDropper::build(queue, Place { leaf: new, rate, mtu, seed })?;
            if dropper.keeps_nothing() {
                stateless = Some(queue);
            } else if same_rate || dropper.outlives_rate() {
                leaves.push((new, old));
            }
        }
        Ok(leaves)
    }
}

impl<S: Discipline> Link<S> {
    pub(super) fn into_estate(self) -> Estate {
        Estate {
            scheduler: Box::new(self.scheduler),
            queues: self.queues,
            police: self.police,
            line: self.line,
            clock: self.clock,
            now: self.now,
            dropped: self.dropped,
            retired: self.retired,
            explainer: self.explainer,
            leaving: self.leaving,
            arrivals: self.arrivals,
        }
    }

    pub(super) fn take_over(&mut self, now: Instant, estate: &mut Estate, handover: &mut Handover) {
        assert!(now >= estate.now, "time never goes back");
        let leaves = estate.queues.leaf_count();
        assert_eq!(handover.kin.old_leaves(), leaves, "the change was prepared for this plan");
        assert_eq!(self.queues.packets(), 0, "a link is fresh when it takes over");
        let waited = estate.queues.packets() as usize;
        (self.now, self.due) = (now, now);
        self.line.forfeit_before(estate.line.finished());
        self.clock.follow(now, &estate.clock);
        if let (Some(arrivals), Some(old)) = (&mut self.arrivals, &mut estate.arrivals) {
            core::mem::swap(arrivals, old);
        }
        core::mem::swap(&mut self.dropped, &mut estate.dropped);
        let dropped = self.dropped.len();
        // Before their droppers are replaced, which may define the packets' order.
        let waiting = self.move_queues(&mut estate.queues, handover);
        let kin = &handover.kin;
        self.queues.inherit(&mut estate.queues, kin, &handover.droppers);
        if let (Some(police), Some(old)) = (&mut self.police, &mut estate.police) {
            police.inherit(old, &handover.meters);
        }
        self.retired = retired(&estate.queues, &handover.gone, estate.retired);
        if let Some(old) = estate.scheduler.downcast_ref::<S>() {
            self.scheduler.inherit(self.at(now), old, kin);
            // Packets still on the wire are charged to the leaves that stay.
            let stays = |&(finished, before, length): &(Instant, LeafId, Bytes)| {
                Some((finished, kin.new_leaf(before)?, length))
            };
            self.leaving.extend(estate.leaving.iter().filter_map(stays));
        }
        self.explainer = estate.explainer.take();
        if let Some(explainer) = &mut self.explainer {
            explainer.restart(self.queues.leaf_count(), now);
        }
        for row in &waiting {
            self.resume(now, row, handover.limits[row.leaf.index()]);
        }
        handover.waiting = waiting;
        while let Some(victim) = self.queues.victim() {
            self.drop_first(now, victim, DropReason::Reconfigured);
        }
        let kept = self.queues.packets() as usize;
        let lost = self.dropped.len() - dropped;
        assert_eq!(waited, kept + lost, "each packet waits on or is counted as dropped");
    }

    /// Moves the account of each leaf that stays, and with it the whole queue where the new limit
    /// lets all its packets stay and the scheduler need not be told of each. Returns the first
    /// packets of these queues and all packets of the others, in the order of arrival; packets of
    /// one leaf stay in their order.
    fn move_queues(&mut self, old: &mut Queues, handover: &mut Handover) -> Vec<Waiting> {
        let mut waiting = core::mem::take(&mut handover.waiting);
        let is_heir = handover.gone.iter().any(|&leaf| old.backlog(leaf).packets > 0);
        let heir = is_heir.then_some(handover.heir);
        let mut is_whole = true;
        for before in (0..old.leaf_count() as u32).map(LeafId) {
            let kin = handover.kin.new_leaf(before);
            if let Some(leaf) = kin {
                self.queues.take_account(leaf, old, before);
            }
            if old.backlog(before).packets == 0 {
                continue;
            }
            let leaf = kin.unwrap_or(handover.heir);
            assert!(leaf.index() < self.queues.leaf_count(), "the heir is a leaf of the new plan");
            let moves = !S::CALLS.per_packet && handover.same_room && heir != Some(leaf);
            let limit = handover.limits[leaf.index()];
            if moves && self.queues.take_queue(leaf, old, before, limit) {
                let entry = self.queues.first(leaf);
                waiting.push(Waiting { leaf, whole: true, entry });
                continue;
            }
            is_whole = false;
            // Numbers of flows are those of a dropper, which may not be that of the new leaf.
            let is_numbered = old.numbers_flows(before) || self.queues.numbers_flows(leaf);
            let keeps = !is_numbered || handover.droppers.contains(&(leaf, before));
            old.empty(before, |entry| {
                let label = if keeps { entry.label } else { entry.label.without_flow() };
                waiting.push(Waiting { leaf, whole: false, entry: QueueEntry { label, ..entry } });
            });
        }
        if handover.same_room {
            self.queues.take_slots(old);
        }
        waiting.sort_by_key(|row| row.entry.arrived);
        if !is_whole {
            forget_flows(&mut waiting, handover.limits.len(), handover.same_flows);
        }
        waiting
    }

    /// Notifies the scheduler of a queue that moved, or admits a packet that did not.
    fn resume(&mut self, now: Instant, row: &Waiting, limit: PackedLimit) {
        let Waiting { leaf, whole, entry } = *row;
        if whole {
            self.scheduler.offered(self.at(now), leaf);
            return self.queued(now, leaf, &entry, true);
        }
        // A limit that leaves share is enforced at the end.
        let limit = (!self.queues.shares(leaf)).then_some(limit);
        self.readmit(now, leaf, entry, limit);
    }

    /// Admits a packet that waited before the change.
    pub(super) fn readmit(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: QueueEntry,
        limit: Option<PackedLimit>,
    ) {
        let backlog = self.queues.backlog(leaf);
        let fits = limit.is_none_or(|limit| limit.limit().fits(entry.charged(), backlog));
        if self.queues.is_full() || !fits {
            self.refuse(now, leaf, &entry, DropReason::Reconfigured);
            return;
        }
        self.scheduler.offered(self.at(now), leaf);
        let was_empty = self.queues.push(leaf, &entry);
        self.appended(now, leaf, &entry, was_empty);
    }
}

/// Returns the limit of each queue.
fn limits(queues: &[QueuePlan]) -> Vec<PackedLimit> {
    // Many leaves in a row have equal plans.
    let mut last: Option<(&QueuePlan, PackedLimit)> = None;
    let limit = |queue| {
        let known = last.filter(|row| row.0 == queue);
        let (_, limit) = known.unwrap_or_else(|| (queue, PackedLimit::new(queue.limit())));
        last = Some((queue, limit));
        limit
    };
    queues.iter().map(limit).collect()
}

/// Packets of a leaf stay separated by flow only if the flow of each is known by the number that
/// later packets get. Otherwise they form one queue in front of all later packets, or a flow would
/// overtake itself.
fn forget_flows(waiting: &mut [Waiting], leaves: usize, same_flows: bool) {
    let mut forget = alloc::vec![!same_flows; leaves];
    for row in waiting.iter().filter(|row| !row.whole) {
        forget[row.leaf.index()] |= !row.entry.label.has_flow();
    }
    for row in waiting.iter_mut().filter(|row| forget[row.leaf.index()]) {
        row.entry.label = row.entry.label.without_flow();
    }
}

/// Returns what removed leaves sent and dropped, plus what was retired `before`.
fn retired(old: &Queues, gone: &[LeafId], before: LeafAccount) -> LeafAccount {
    gone.iter().fold(before, |sum, &leaf| sum.plus_past(&old.leaf_account(leaf)))
}
