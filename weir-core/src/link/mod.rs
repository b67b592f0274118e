//! The link joins leaves, scheduler and account, and keeps the pace of the line.
//!
//! Time is an argument and never goes back. [`AnyLink::serve`] offers a series of packets, each at
//! its own instant, and hands out the departures between and after them at the instants at which
//! the line itself would have taken them. So a decision depends on the policy and the arrivals,
//! never on when the caller woke. Invariant: per leaf, offered = sent + dropped + backlog.

mod arrivals;
pub mod change;
mod checkpoint;
mod clock;
pub mod explain;
mod framing;
pub mod graft;
mod line;
mod offer;
mod pending;
mod plan;
mod poll;
mod serve;
#[cfg(test)]
mod tests;

pub use crate::packet::{Arrival, Packet};
pub use change::{Change, Estate, Handover, Prepared, Remains};
pub use explain::Sojourn;
pub use framing::{Coding, Framing};
pub use graft::{Graft, Grafted, PreparedGraft, Spare};
pub use pending::Pending;
pub use plan::{Charge, LinkPlan, PACKETS_MAX_DEFAULT};

use crate::account::{Account, LeafAccount};
use crate::event::{Departure, DropReason, Dropped, Poll, Verdict};
use crate::ids::{Handle, LeafId};
use crate::packet::{Headers, Segment};
use crate::parameter::BuildError;
use crate::police::Police;
use crate::queue::{HostAccounts, Queues, Reading};
use crate::sched::{Borrowed, Discipline, RefitError, Regulation};
use crate::state::{Reader, StateError, Writer};
use crate::units::{Bytes, Instant, Rate};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use arrivals::ArrivalRate;
use clock::SchedulerClock;
use explain::Explainer;
use line::Line;

/// A link around any scheduler: one dynamic call for a series of packets; everything below is
/// monomorphic.
pub trait AnyLink: Send {
    /// Offers packets in the order of their instants, hands out what leaves before each, and after
    /// the last what leaves up to `until`, or up to the link's own time if that is later. Appends
    /// departures to `out`. Returns when to call again if nothing is offered before; `None` if
    /// nothing waits.
    ///
    /// # Panics
    /// When an instant is before that of an earlier call.
    fn serve(
        &mut self,
        arrivals: &[Arrival],
        until: Instant,
        out: &mut Vec<Departure>,
    ) -> Option<Instant>;

    /// Hands out what leaves up to `until`: [`AnyLink::serve`] without arrivals.
    fn advance(&mut self, until: Instant, out: &mut Vec<Departure>) -> Option<Instant> {
        self.serve(&[], until, out)
    }

    /// Makes the memory ready that so many waiting packets take, for callers that must not wait for
    /// it when packets come.
    fn reserve(&mut self, packets: u32);

    /// Offers one packet, for callers that need its verdict.
    fn offer(&mut self, now: Instant, leaf: LeafId, packet: Packet) -> Verdict;

    /// Returns the packet that leaves at `now`, or when to poll again, for drivers that fetch one
    /// packet at a time.
    fn poll(&mut self, now: Instant) -> Poll;

    /// Hands over the packets dropped since the last call.
    fn take_dropped(&mut self, each: &mut dyn FnMut(Dropped));

    /// Gives up what the line could have sent before `instant`: after a stall, the line starts anew
    /// instead of sending the whole lag at once.
    fn forfeit_before(&mut self, instant: Instant);

    /// Sends at `rate` from `now` on; whoever lets what was due before leave first serves up to
    /// `now` first. Costs the same whatever the number of classes and packets, loses none, and
    /// keeps the state of scheduler and droppers. All rates, ceilings and curves of the plan scale
    /// by `rate` over the rate of the plan: shares stay as they are, bursts keep their bytes, and
    /// what takes a class some time at the rate of the plan takes it as much longer as the link is
    /// slower. Droppers, limits and police stay as planned. A packet that the line was handed
    /// before keeps the instant at which it is sent. A [`Change`] of the plan sets the rate of the
    /// new plan.
    ///
    /// # Panics
    /// When `now` is before that of an earlier call.
    fn set_rate(&mut self, now: Instant, rate: Rate);

    /// Returns the rate at which it sends: that of its plan, or the last that was set.
    fn rate(&self) -> Rate;

    /// Drops the first packets of each leaf that arrived before the instant that `oldest` returns
    /// for it: after a stall, new packets do not wait behind those that are of no use any more.
    /// Leaves with flow queues keep theirs: CoDel drops there what waited too long.
    fn drop_older(&mut self, oldest: &dyn Fn(LeafId) -> Instant);

    /// Begins to explain why packets wait, or ends it. Packets that wait already count from `now`.
    fn explain(&mut self, now: Instant, on: bool);

    /// Hands over the sojourns of the packets that left or were dropped since the last call; none
    /// unless [`AnyLink::explain`] is on.
    fn take_sojourns(&mut self, all: &mut dyn FnMut(&[Sojourn]));

    /// Returns the account up to now.
    fn account(&self) -> Account;

    /// Returns the account of one leaf up to now, for callers that may not read all leaves at once.
    fn leaf_account(&self, leaf: LeafId) -> LeafAccount;

    /// Returns what leaves that changes removed had sent and dropped.
    fn retired(&self) -> LeafAccount;

    /// Returns what a leaf has borrowed so far, by the depth of the lender.
    fn borrowed(&self, leaf: LeafId) -> Borrowed;

    /// Returns which limit, its own or an ancestor's, holds back the first packet of `leaf` at
    /// `now`; none if no packet waits there.
    fn held_by(&self, now: Instant, leaf: LeafId) -> Regulation;

    /// Returns the number that the decisions of a leaf's dropper rest on, for people.
    fn reading(&self, leaf: LeafId) -> Option<Reading>;

    /// Returns the accounts of the hosts of `leaf` that sent most bytes, at most so many; `None`
    /// where hosts do not take turns.
    fn hosts(&self, leaf: LeafId, most: usize) -> Option<HostAccounts>;

    /// Returns whether `leaf` looks into the segments of the packets that wait in it: then
    /// [`AnyLink::note`] is called for each of its packets before that is offered.
    fn reads_segments(&self, leaf: LeafId) -> bool;

    /// Records the segment of the packet that is offered next with this handle, to a leaf that
    /// reads them; `None` for a packet that is not TCP.
    fn note(&mut self, handle: Handle, segment: Option<Segment>);

    /// As [`AnyLink::note`], of a packet whose frame has these headers, if its leaf reads segments.
    fn note_frame(&mut self, arrival: &Arrival, frame: &[u8], headers: &Headers) {
        if !self.reads_segments(arrival.leaf) {
            return;
        }
        // Linux does not look into a super-packet, whether it cuts it or not.
        let is_one = arrival.packet.train == 0;
        let segment = is_one.then(|| Segment::of_frame(frame, headers)).flatten();
        self.note(arrival.packet.handle, segment);
    }

    /// Returns the number of packets that wait.
    fn backlog(&self) -> u32;

    /// Follows the plan of one leaf, which was replaced in `plan`: see [`Graft::apply`].
    ///
    /// # Errors
    /// When it takes a whole change, or the values contradict each other; then the link is as it
    /// was, but the leaf may have lost its turn.
    fn refit_leaf(
        &mut self,
        now: Instant,
        plan: &LinkPlan,
        grafted: Grafted<'_>,
        spare: &mut Spare,
    ) -> Result<(), RefitError>;

    /// Lets the packets of a leaf, which `plan` has no more, wait behind those of its heir, and its
    /// account count as that of a removed leaf: see [`Graft::apply`].
    ///
    /// # Errors
    /// When it takes a whole change; then the link is as it was.
    fn remove_leaf(
        &mut self,
        now: Instant,
        plan: &LinkPlan,
        grafted: (Grafted<'_>, LeafId),
        spare: &mut Spare,
    ) -> Result<(), RefitError>;

    /// Writes a checkpoint: everything that decides what happens next, the packets that wait, and
    /// the accounts. Between the same calls two checkpoints are equal.
    fn save(&self, to: &mut Writer);

    /// Continues from a checkpoint of a link with the same plan: from now on this link decides as
    /// that one did, to the bit. Called right after it was built; after an error it must not be
    /// used. Handles are those of the packets that waited then.
    ///
    /// # Errors
    /// When the bytes are damaged, of another plan, or cannot be the state of such a link.
    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError>;

    /// Hands all state to the link that replaces this one: see [`Prepared::apply`].
    fn retire(self: Box<Self>) -> Estate;

    /// Takes over the state of another link, right after this one was built: see
    /// [`Prepared::apply`].
    fn inherit(&mut self, now: Instant, estate: &mut Estate, handover: &mut Handover);
}

/// A link around one scheduler.
pub struct Link<S> {
    scheduler: S,
    queues: Queues,
    /// Absent where nothing is policed.
    police: Option<Box<Police>>,
    dropped: Vec<Dropped>,
    framing: Framing,
    charge: Charge,
    line: Line,
    clock: SchedulerClock,
    now: Instant,
    /// No packet leaves before this instant.
    due: Instant,
    explainer: Option<Box<Explainer>>,
    /// The sum of the accounts of the leaves that changes removed.
    retired: LeafAccount,
    /// When each packet that was handed out has left the wire; only for a scheduler with
    /// [`Calls::completions`](crate::sched::Calls::completions).
    leaving: VecDeque<(Instant, LeafId, Bytes)>,
    /// The rate at which packets arrive; only for a plan that follows it.
    arrivals: Option<Box<ArrivalRate>>,
    /// The leaf whose dropper has decided already that its first packet is sent.
    looked_at: Option<LeafId>,
    /// [`LinkPlan::fingerprint`] of its plan, for checkpoints.
    plan: u64,
}

impl<S: Discipline> Link<S> {
    /// A link of `plan` around `scheduler`.
    ///
    /// # Errors
    /// When a dropper refuses its parameters.
    pub fn new(plan: &LinkPlan, scheduler: S) -> Result<Self, BuildError> {
        assert_eq!(plan.queues.len(), plan.tree.leaf_count(), "every leaf has a queue");
        let police = match plan.meters.as_slice() {
            [] => None,
            meters => Some(Box::new(Police::new(meters, &plan.leaf_meters, plan.seed)?)),
        };
        let mut queues = Queues::new(&plan.queues, &plan.tree, plan.packets_max, plan.seed)?;
        if !S::CALLS.peeks {
            queues.choose_late();
        }
        Ok(Self {
            scheduler,
            queues,
            police,
            dropped: Vec::new(),
            framing: plan.framing,
            charge: plan.charge,
            line: Line::new(plan.tree.rate(), plan.buffer),
            clock: SchedulerClock::new(plan.tree.rate()),
            now: Instant::ZERO,
            due: Instant::ZERO,
            explainer: None,
            retired: LeafAccount::default(),
            leaving: VecDeque::new(),
            arrivals: plan.follows_arrivals.then(|| Box::new(ArrivalRate::new(plan.tree.rate()))),
            looked_at: None,
            plan: plan.fingerprint(),
        })
    }

    /// Advances time to `now`.
    #[inline(always)]
    fn step_to(&mut self, now: Instant) {
        assert!(now >= self.now, "time never goes back");
        if S::CALLS.completions {
            self.complete(now);
        }
        self.now = now;
    }

    /// Advances time to `now` without serving what was due before it; that leaves at `now`.
    fn skip_to(&mut self, now: Instant) {
        self.step_to(now);
        self.due = self.due.max(now);
    }

    /// Sends at `rate` from `now` on.
    fn change_rate(&mut self, now: Instant, rate: Rate) {
        if rate == self.clock.rate() {
            return;
        }
        self.skip_to(now);
        self.clock.set_rate(now, rate);
        self.line.set_rate(rate);
        // A packet may leave earlier now than it was due.
        self.due = now;
    }

    /// Returns what the scheduler's clock shows at `now`.
    #[inline(always)]
    fn at(&self, now: Instant) -> Instant {
        if S::CALLS.compares_ages { now } else { self.clock.at(now) }
    }

    /// Returns when the scheduler's clock shows `instant`.
    #[inline(always)]
    fn instant(&self, instant: Instant) -> Instant {
        if S::CALLS.compares_ages { instant } else { self.clock.instant(instant) }
    }

    /// Notifies the scheduler of each packet that has left the wire by `now`, at its own instant.
    fn complete(&mut self, now: Instant) {
        while let Some(&(finished, leaf, length)) = self.leaving.front() {
            if finished > now {
                return;
            }
            self.leaving.pop_front();
            self.scheduler.completed(self.at(finished), leaf, length);
        }
    }
}

impl<S: Discipline> AnyLink for Link<S> {
    fn serve(
        &mut self,
        arrivals: &[Arrival],
        until: Instant,
        out: &mut Vec<Departure>,
    ) -> Option<Instant> {
        self.serve_all(arrivals, until, out)
    }

    fn reserve(&mut self, packets: u32) {
        self.queues.reserve(packets);
    }

    fn offer(&mut self, now: Instant, leaf: LeafId, packet: Packet) -> Verdict {
        self.step_to(now);
        self.accept(now, leaf, packet)
    }

    fn poll(&mut self, now: Instant) -> Poll {
        self.step_to(now);
        self.next(now)
    }

    fn take_dropped(&mut self, each: &mut dyn FnMut(Dropped)) {
        self.dropped.drain(..).for_each(each);
    }

    fn forfeit_before(&mut self, instant: Instant) {
        self.skip_to(self.now.max(instant));
        self.line.forfeit_before(instant);
    }

    fn set_rate(&mut self, now: Instant, rate: Rate) {
        assert!(now >= self.now, "time never goes back");
        self.change_rate(now, rate);
    }

    fn rate(&self) -> Rate {
        self.clock.rate()
    }

    fn drop_older(&mut self, oldest: &dyn Fn(LeafId) -> Instant) {
        let now = self.now;
        for leaf in (0..self.queues.leaf_count() as u32).map(LeafId) {
            let oldest = oldest(leaf);
            let in_order = !self.queues.has_flows(leaf);
            while in_order && self.queues.head(leaf).is_some_and(|head| head.arrived < oldest) {
                self.drop_first(now, leaf, DropReason::Stale);
            }
        }
        // Another packet may be the next to leave, and earlier.
        self.due = now;
    }

    fn explain(&mut self, now: Instant, on: bool) {
        self.skip_to(now);
        let leaves = self.queues.leaf_count();
        self.explainer = on.then(|| Box::new(Explainer::new(leaves, now)));
    }

    fn take_sojourns(&mut self, all: &mut dyn FnMut(&[Sojourn])) {
        if let Some(explainer) = &mut self.explainer {
            explainer.take(all);
        }
    }

    fn account(&self) -> Account {
        self.queues.account().with_retired(self.retired)
    }

    fn leaf_account(&self, leaf: LeafId) -> LeafAccount {
        self.queues.leaf_account(leaf)
    }

    fn retired(&self) -> LeafAccount {
        self.retired
    }

    fn borrowed(&self, leaf: LeafId) -> Borrowed {
        self.scheduler.borrowed(leaf)
    }

    fn held_by(&self, now: Instant, leaf: LeafId) -> Regulation {
        if self.queues.head(leaf).is_none() {
            return Regulation::None;
        }
        let at = self.at(now);
        let why = self.scheduler.why(at, leaf, at);
        if why.released > at { why.regulation } else { Regulation::None }
    }

    fn reading(&self, leaf: LeafId) -> Option<Reading> {
        self.queues.reading(leaf)
    }

    fn hosts(&self, leaf: LeafId, most: usize) -> Option<HostAccounts> {
        self.queues.hosts(leaf, most)
    }

    fn reads_segments(&self, leaf: LeafId) -> bool {
        self.queues.reads_segments(leaf)
    }

    fn note(&mut self, handle: Handle, segment: Option<Segment>) {
        self.queues.note(handle, segment);
    }

    fn backlog(&self) -> u32 {
        self.queues.packets()
    }

    fn refit_leaf(
        &mut self,
        now: Instant,
        plan: &LinkPlan,
        grafted: Grafted<'_>,
        spare: &mut Spare,
    ) -> Result<(), RefitError> {
        self.looked_at = None;
        self.refit_at(now, plan, grafted, spare)
    }

    fn remove_leaf(
        &mut self,
        now: Instant,
        plan: &LinkPlan,
        grafted: (Grafted<'_>, LeafId),
        spare: &mut Spare,
    ) -> Result<(), RefitError> {
        self.looked_at = None;
        self.remove_at(now, plan, grafted, spare)
    }

    fn save(&self, to: &mut Writer) {
        self.save_all(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.load_all(from)
    }

    fn retire(self: Box<Self>) -> Estate {
        self.into_estate()
    }

    fn inherit(&mut self, now: Instant, estate: &mut Estate, handover: &mut Handover) {
        self.take_over(now, estate, handover);
    }
}
