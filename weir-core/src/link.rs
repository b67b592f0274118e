//! The link: leaves, scheduler and account joined, and the pace of the line.
//!
//! Time is passed in and never goes back. A caller that comes late asks for the instants it slept
//! through ([`AnyLink::advance`]), so a decision depends on the policy and the arrivals, never on
//! the timer. Invariant: per leaf, offered = sent + dropped + backlog.

use crate::account::{Account, LeafAccount};
use crate::ahead::Ahead;
use crate::change::{Change, Estate};
use crate::event::{Departure, DropReason, Dropped, Poll, Verdict};
use crate::explain::{Explainer, Sojourn};
use crate::ids::{Handle, LeafId, MeterId};
use crate::line::Line;
use crate::parameter::BuildError;
use crate::police::{Judgement, MeterPlan, Metered, Police};
use crate::prefetch::Prefetch;
use crate::queue::{Admission, Label, QueueEntry, QueuePlan, Queues, Release, Surplus};
use crate::sched::{Discipline, Head, Scheduler, Selection, Tree, Why};
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How the length on the wire follows from the length of a frame without its check sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Bytes added to every frame, negative where the line carries less than the frame.
    pub added: i32,
    /// No frame is shorter on the wire than this, after the addition.
    pub minimum: u32,
    /// Bytes that count for each cell with 48 bytes of payload, where the line sends whole cells
    /// (ATM); 0 where it does not.
    pub cell: u32,
}

/// Which length schedulers charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Charge {
    /// The length on the wire.
    #[default]
    Wire,
    /// The length of the frame.
    Frame,
}

/// Everything that a link is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkPlan {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The classes; holds the rate of the line.
    pub tree: Tree,
    /// The queue of each leaf, in the order of leaves.
    pub queues: Vec<QueuePlan>,
    /// How the length on the wire follows from a frame.
    pub framing: Framing,
    /// Which length schedulers charge.
    pub charge: Charge,
    /// Bytes that may be handed out before the line has sent what was handed out earlier: the
    /// buffer of a driver. With 0 the next packet is chosen when the line falls idle.
    pub buffer: Bytes,
    /// The most packets that wait in all leaves together.
    pub packets_max: u32,
    /// The meters that police packets before their queue.
    pub meters: Vec<MeterPlan>,
    /// The meter of each leaf, if it has one; leaves beyond the end have none.
    pub leaf_meters: Vec<Option<MeterId>>,
    /// What droppers and hashes draw their random numbers from.
    pub seed: u64,
}

/// A packet as offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Which packet.
    pub handle: Handle,
    /// The length of the frame, without its check sequence.
    pub length: u32,
    /// A number that is the same for all packets of a flow and usually another for other flows, for
    /// queues that keep flows apart.
    pub flow: u32,
    /// DSCP and ECN; 0 where the packet has none.
    pub traffic_class: u8,
    /// The meter of the rule that it met; without one that of its leaf counts.
    pub meter: Option<MeterId>,
}

impl Packet {
    /// A packet without a flow or a traffic class of its own.
    pub const fn new(handle: Handle, length: u32) -> Self {
        Self { handle, length, flow: 0, traffic_class: 0, meter: None }
    }
}

/// A packet and when and where it is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// To which leaf.
    pub leaf: LeafId,
    /// What.
    pub packet: Packet,
}

/// A link around any scheduler: one dynamic call, then everything is monomorphic.
pub trait AnyLink: Send {
    /// What a link leaves to the one that takes its place: see [`Change::apply`].
    fn retire(self: Box<Self>) -> Estate;

    /// Takes over what another link left, right after it was built.
    fn inherit(&mut self, now: Instant, estate: Estate, change: Change<'_>);

    /// Offers a packet to a leaf.
    fn offer(&mut self, now: Instant, leaf: LeafId, packet: Packet) -> Verdict;

    /// The packet that leaves at `now`, or when to ask again.
    fn poll(&mut self, now: Instant) -> Poll;

    /// Polls at every instant after the last call, up to `until`, at which the link itself would
    /// have: departures go to `out`. Answers when to come again, `None` if nothing waits.
    fn advance(&mut self, until: Instant, out: &mut Vec<Departure>) -> Option<Instant>;

    /// Offers packets one after the other, each at its instant, and before each advances to it if
    /// the link wants to be asked by then: first at `due`, as [`AnyLink::advance`] answered, at
    /// once after an offer. One dynamic call for all; answers when to come again.
    fn serve(
        &mut self,
        due: Option<Instant>,
        arrivals: &[Arrival],
        out: &mut Vec<Departure>,
    ) -> Option<Instant>;

    /// Offers a burst: one dynamic call for all.
    fn offer_burst(&mut self, now: Instant, packets: &[(LeafId, Packet)]);

    /// Polls at `now` until `out` is full or nothing more leaves; answers how many packets left.
    fn poll_burst(&mut self, now: Instant, out: &mut [Departure]) -> usize;

    /// Lends the link the processor's prefetch; a link that takes its place has it too.
    fn lend(&mut self, prefetch: Prefetch);

    /// The packets dropped since this was last called.
    fn take_dropped(&mut self, each: &mut dyn FnMut(Dropped));

    /// Gives up what the line could have sent before `instant`: after a stall, the line starts anew
    /// instead of sending the whole lag at once.
    fn forfeit_before(&mut self, instant: Instant);

    /// Begins to explain why packets wait, or ends it. Packets that wait already count from `now`.
    fn explain(&mut self, now: Instant, on: bool);

    /// The sojourns of the packets that left or were dropped since this was last called; nothing
    /// unless they are explained.
    fn take_sojourns(&mut self, all: &mut dyn FnMut(&[Sojourn]));

    /// What was counted until now.
    fn account(&self) -> Account;

    /// Packets that wait.
    fn backlog(&self) -> u32;
}

/// A link around one scheduler.
pub struct Link<S> {
    pub(crate) scheduler: S,
    pub(crate) queues: Queues,
    /// Absent where nobody is policed.
    pub(crate) police: Option<Box<Police>>,
    pub(crate) dropped: Vec<Dropped>,
    framing: Framing,
    /// Whether every length is that of the frame.
    pub(crate) is_plain: bool,
    /// Whether schedulers are charged the length of the frame, not that on the wire.
    charges_frames: bool,
    pub(crate) line: Line,
    pub(crate) now: Instant,
    pub(crate) explainer: Option<Box<Explainer>>,
    /// What leaves that a change took away had sent and dropped.
    pub(crate) retired: LeafAccount,
    /// When each packet that was handed out has left the wire; only for a scheduler that is told.
    pub(crate) leaving: VecDeque<(Instant, LeafId, Bytes)>,
    pub(crate) ahead: Ahead,
}

impl LinkPlan {
    /// A plan with the defaults: frames as they are, no buffer, 100 packets a leaf.
    pub fn new(scheduler: &'static str, tree: Tree) -> Self {
        let queues = alloc::vec![QueuePlan::default(); tree.leaf_count()];
        Self {
            scheduler,
            tree,
            queues,
            framing: Framing::FRAME,
            charge: Charge::Wire,
            buffer: Bytes::ZERO,
            packets_max: PACKETS_MAX_DEFAULT,
            meters: Vec::new(),
            leaf_meters: Vec::new(),
            seed: 0,
        }
    }

    /// Builds the link.
    ///
    /// # Errors
    /// When the scheduler is not registered, or it or a dropper refuses the plan.
    pub fn build(&self) -> Result<Box<dyn AnyLink>, BuildError> {
        let Some(entry) = crate::sched::find(self.scheduler) else {
            let message = alloc::format!("no scheduler is called `{}`", self.scheduler);
            return Err(BuildError::in_link("scheduler", message));
        };
        (entry.link)(self)
    }
}

impl Framing {
    /// The frame as it is, as the kernel's own schedulers count.
    pub const FRAME: Framing = Framing { added: 0, minimum: 0, cell: 0 };
    /// Ethernet: check sequence 4, preamble 8, gap 12; 64-byte minimum [algorithms §13.1].
    pub const ETHERNET: Framing = Framing { added: 24, minimum: 84, cell: 0 };
    /// Only the IP packet: the 14 bytes of the Ethernet header go.
    pub const IP: Framing = Framing { added: -14, minimum: 0, cell: 0 };
    /// ATM, AAL5 with LLC/SNAP: IP + 8 + 8 in cells [algorithms §13.1].
    pub const ATM: Framing = Framing { added: 2, minimum: 0, cell: 53 };
    /// The same where the rate counts what cells carry: 48 bytes each.
    pub const AAL5: Framing = Framing { added: 2, minimum: 0, cell: 48 };

    /// The length on the wire of a frame of `length`, at least 1.
    #[inline(always)]
    pub const fn wire_length(self, length: u32) -> u32 {
        let bytes = length as i64 + self.added as i64;
        let minimum = if self.minimum == 0 { 1 } else { self.minimum as i64 };
        let bytes = if bytes < minimum { minimum } else { bytes };
        let bytes = if bytes > LENGTH_MAX { LENGTH_MAX as u32 } else { bytes as u32 };
        if self.cell > 0 { bytes.div_ceil(48) * self.cell } else { bytes }
    }
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
        Ok(Self {
            scheduler,
            queues: Queues::new(plan)?,
            police,
            dropped: Vec::new(),
            framing: plan.framing,
            is_plain: plan.framing == Framing::FRAME,
            charges_frames: plan.charge == Charge::Frame,
            line: Line::new(plan.tree.rate(), plan.buffer),
            now: Instant::ZERO,
            explainer: None,
            retired: LeafAccount::default(),
            leaving: VecDeque::new(),
            ahead: Ahead::default(),
        })
    }

    /// The length on the wire and the one that schedulers charge.
    #[inline(never)]
    fn lengths(&self, length: u32) -> (u32, u32) {
        let wire = self.framing.wire_length(length);
        (wire, if self.charges_frames { length.max(1) } else { wire })
    }

    /// `PLAIN` where every length is known to be that of the frame.
    #[inline(always)]
    fn entry<const PLAIN: bool>(&self, now: Instant, packet: Packet) -> QueueEntry {
        let (mut wire, mut charged) = (packet.length.max(1), packet.length.max(1));
        if !PLAIN && !self.is_plain {
            (wire, charged) = self.lengths(packet.length);
        }
        QueueEntry {
            handle: packet.handle,
            charged,
            wire,
            arrived: now,
            label: Label::new(packet.traffic_class),
        }
    }

    /// Drops a packet of `leaf` to make room for one that will be first if nobody else is.
    fn evict(&mut self, now: Instant, leaf: LeafId, at: (u32, DropReason), arriving: Head) {
        let why = self.why(now, leaf);
        let (entry, first) = self.queues.evict(leaf, at.0, at.1);
        self.report_drop(now, leaf, &entry, at.1);
        if let (Some(explainer), Some(why)) = (&mut self.explainer, why) {
            if at.0 > 0 {
                explainer.dropped_behind(now, entry.leaving(leaf), at.1);
            } else {
                explainer.dropped(now, entry.leaving(leaf), why, at.1);
                explainer.first(now, leaf, self.line.ready_at());
            }
        }
        // A leaf that was emptied for what arrives keeps its turn: told that nothing waits, a round
        // would put it at the end with every arrival, and it would starve.
        self.scheduler.head_changed(now, leaf, Some(first.unwrap_or(arriving)));
    }

    /// Drops the first packet of `leaf`, whose turn has come.
    pub(crate) fn drop_first(&mut self, now: Instant, leaf: LeafId, reason: DropReason) {
        if self.explainer.is_some() {
            self.explain_drop(now, leaf, reason);
        }
        let (entry, next) = self.queues.evict(leaf, 0, reason);
        self.queues.check_emptied(now, leaf);
        self.report_drop(now, leaf, &entry, reason);
        self.scheduler.head_changed(now, leaf, next);
    }

    #[inline]
    fn report_drop(&mut self, now: Instant, leaf: LeafId, entry: &QueueEntry, reason: DropReason) {
        let (handle, arrived) = (entry.handle, entry.arrived);
        self.dropped.push(Dropped { handle, leaf, reason, at: now, arrived });
    }

    /// Whether the police let the packet of `entry` pass, marked or not.
    fn passes_police(
        &mut self,
        now: Instant,
        leaf: LeafId,
        own: Option<MeterId>,
        entry: &mut QueueEntry,
    ) -> bool {
        let Some(police) = &mut self.police else { return true };
        let length = entry.charged();
        match police.judge(
            now,
            leaf,
            own,
            Metered { length, traffic_class: entry.label.traffic_class() },
        ) {
            Judgement::Pass => {}
            Judgement::Mark(traffic_class) => {
                entry.label.rewrite(traffic_class);
            }
            Judgement::Drop => return false,
        }
        true
    }

    /// Why the first packet of `leaf` waited until now, if that is explained.
    #[inline]
    fn why(&self, now: Instant, leaf: LeafId) -> Option<Why> {
        let from = self.explainer.as_ref()?.line_free(leaf);
        Some(why(&self.scheduler, now, leaf, from))
    }

    /// The first packet of `leaf` is dropped: says why it waited until now.
    #[cold]
    fn explain_drop(&mut self, now: Instant, leaf: LeafId, reason: DropReason) {
        let (first, why) = (self.queues.first(leaf), self.why(now, leaf));
        let Some((explainer, why)) = self.explainer.as_mut().zip(why) else { return };
        explainer.dropped(now, first.leaving(leaf), why, reason);
        explainer.first(now, leaf, self.line.ready_at());
    }

    /// Does not let a packet in.
    #[inline]
    pub(crate) fn refuse(
        &mut self,
        now: Instant,
        leaf: LeafId,
        entry: &QueueEntry,
        reason: DropReason,
    ) -> Verdict {
        if let Some(explainer) = &mut self.explainer {
            explainer.dropped_behind(now, entry.leaving(leaf), reason);
        }
        self.queues.refuse(leaf, entry.charged(), reason);
        self.report_drop(now, leaf, entry, reason);
        Verdict::Dropped(reason)
    }

    pub(crate) fn step_to(&mut self, now: Instant) {
        assert!(now >= self.now, "time never goes back");
        if S::COMPLETIONS {
            self.complete(now);
        }
        self.now = now;
    }

    /// Tells the scheduler what has left the wire by `now`, each at its own instant.
    fn complete(&mut self, now: Instant) {
        while let Some(&(finished, leaf, length)) = self.leaving.front() {
            if finished > now {
                return;
            }
            self.leaving.pop_front();
            self.scheduler.completed(finished, leaf, length);
        }
    }

    /// One poll at `now`, to which `horizon` of the line belongs.
    #[inline(always)]
    fn next(&mut self, now: Instant, horizon: Instant) -> Poll {
        if self.explainer.is_some() {
            return self.next_explained(now, horizon);
        }
        self.next_of::<false>(now, horizon)
    }

    // Out of line, so that a poll keeps nothing for it where nobody asks.
    #[inline(never)]
    pub(crate) fn next_explained(&mut self, now: Instant, horizon: Instant) -> Poll {
        self.next_of::<true>(now, horizon)
    }

    #[inline(always)]
    fn next_of<const EXPLAINED: bool>(&mut self, now: Instant, horizon: Instant) -> Poll {
        if self.queues.packets() == 0 {
            return Poll::Idle;
        }
        if !self.line.has_room(horizon) {
            // Equal at the end of time, where instants are held: then nothing waits any longer.
            let ready_at = self.line.ready_at();
            if ready_at > now {
                return Poll::At(ready_at);
            }
        }
        // Ends: each further round drops a packet.
        while self.queues.packets() > 0 {
            match self.scheduler.select(now) {
                Selection::Leaf(leaf) => {
                    if let Some(taken) = self.queues.send_unasked(leaf) {
                        return Poll::Packet(self.depart::<EXPLAINED>(now, leaf, taken));
                    }
                    if let Some(departure) = self.release::<EXPLAINED>(now, leaf) {
                        return Poll::Packet(departure);
                    }
                }
                Selection::At(instant) => return Poll::At(self.wait_until(now, instant)),
                Selection::Idle => panic!("packets wait, but the scheduler knows of none"),
            }
        }
        Poll::Idle
    }

    /// When to ask again, since the scheduler asked `now` for `instant`.
    #[inline]
    pub(crate) fn wait_until(&self, now: Instant, instant: Instant) -> Instant {
        // At the end of time there is no later: what is not sent by then never is.
        let is_later = instant > now || now == Instant::MAX;
        assert!(is_later, "a scheduler asks to be asked again later, not now");
        // Only a scheduler that is told of what has left is also asked then.
        let left = self.leaving.front().filter(|_| S::COMPLETIONS);
        left.map_or(instant, |row| instant.min(row.0))
    }

    /// See [`AnyLink::advance`].
    #[inline(always)]
    pub(crate) fn advance_to(
        &mut self,
        until: Instant,
        out: &mut Vec<Departure>,
    ) -> Option<Instant> {
        let mut at = self.now;
        loop {
            self.step_to(at);
            match self.next(at, self.line.horizon(at)) {
                Poll::Packet(departure) => out.push(departure),
                Poll::At(instant) if instant <= until && instant > at => at = instant,
                Poll::At(instant) => return Some(instant),
                Poll::Idle => return None,
            }
        }
    }

    /// Asks the dropper of `leaf`, whose turn has come; hands out its first packet or drops it.
    pub(crate) fn release<const EXPLAINED: bool>(
        &mut self,
        now: Instant,
        leaf: LeafId,
    ) -> Option<Departure> {
        match self.queues.release(now, leaf) {
            Release::Send => {}
            Release::Mark => self.queues.mark_first(leaf),
            Release::Drop(reason) => {
                self.drop_first(now, leaf, reason);
                return None;
            }
        }
        let taken = self.queues.send(leaf);
        let departure = self.depart::<EXPLAINED>(now, leaf, taken);
        self.queues.check_emptied(now, leaf);
        Some(departure)
    }

    /// Hands out the packet that was taken from `leaf`, which the scheduler selected.
    #[inline(always)]
    pub(crate) fn depart<const EXPLAINED: bool>(
        &mut self,
        now: Instant,
        leaf: LeafId,
        taken: (QueueEntry, Option<Head>),
    ) -> Departure {
        let (entry, next) = taken;
        // Noted before the charge, so that little has to be kept through that.
        let follower = match &mut self.explainer {
            Some(explainer) if EXPLAINED => {
                let waiting = explainer.waiting(leaf);
                let why = why(&self.scheduler, now, leaf, waiting.line_free());
                Some(waiting.sent(now, entry.leaving(leaf), why))
            }
            _ => None,
        };
        self.scheduler.charge(now, leaf, entry.charged(), next);
        self.line.begin(now);
        let departure = entry.departure(now, leaf, &mut self.line);
        if S::COMPLETIONS {
            self.leaving.push_back((departure.finished, leaf, entry.charged()));
        }
        if let Some(follower) = follower {
            follower.follow(now, self.line.ready_at());
        }
        departure
    }

    /// One offer at `now`; `PLAIN` where nobody is policed and lengths are those of frames,
    /// `RESERVED` where the store keeps room for it.
    #[inline(always)]
    pub(crate) fn accept<const PLAIN: bool, const RESERVED: bool>(
        &mut self,
        now: Instant,
        leaf: LeafId,
        packet: Packet,
    ) -> Verdict {
        if !PLAIN && self.police.is_some() {
            return self.accept_policed(now, leaf, packet);
        }
        let entry = self.entry::<PLAIN>(now, packet);
        self.scheduler.offered(now, leaf);
        match self.queues.push_unasked::<RESERVED>(leaf, entry) {
            Some(true) => self.begin(now, leaf, &entry),
            Some(false) => self.scheduler.joined(now, leaf, entry.charged()),
            None => {
                if RESERVED {
                    self.queues.give_back(1);
                }
                if self.queues.refuses(leaf) {
                    return self.refuse_unasked(now, leaf, entry.handle, entry.charged);
                }
                return self.ask(now, leaf, packet);
            }
        }
        Verdict::Queued
    }

    /// `leaf`, which was empty, accepted a packet.
    #[inline(always)]
    fn begin(&mut self, now: Instant, leaf: LeafId, entry: &QueueEntry) {
        self.scheduler.enqueued(now, leaf, entry.head());
        if let Some(explainer) = &mut self.explainer {
            explainer.first(now, leaf, self.line.ready_at());
        }
    }

    /// Refuses a packet for which `leaf` is too full. Not told the entry, which would then go
    /// through memory where it is accepted.
    #[inline(never)]
    fn refuse_unasked(
        &mut self,
        now: Instant,
        leaf: LeafId,
        handle: Handle,
        charged: u32,
    ) -> Verdict {
        let (label, reason) = (Label::new(0), DropReason::Full);
        let entry = QueueEntry { handle, charged, wire: charged, label, arrived: now };
        if self.explainer.is_some() {
            return self.refuse(now, leaf, &entry, reason);
        }
        self.queues.refuse(leaf, entry.charged(), reason);
        self.report_drop(now, leaf, &entry, reason);
        Verdict::Dropped(reason)
    }

    /// Asks the dropper of `leaf` about a packet, and does what it says.
    #[inline(never)]
    fn ask(&mut self, now: Instant, leaf: LeafId, packet: Packet) -> Verdict {
        let mut entry = self.entry::<false>(now, packet);
        entry.label.assign(self.queues.flow(packet.flow));
        self.ask_about(now, leaf, entry)
    }

    /// The same, if the police let the packet pass.
    #[inline(never)]
    fn accept_policed(&mut self, now: Instant, leaf: LeafId, packet: Packet) -> Verdict {
        let mut entry = self.entry::<false>(now, packet);
        entry.label.assign(self.queues.flow(packet.flow));
        if !self.passes_police(now, leaf, packet.meter, &mut entry) {
            return self.refuse(now, leaf, &entry, DropReason::Policed);
        }
        self.scheduler.offered(now, leaf);
        self.ask_about(now, leaf, entry)
    }

    #[inline(always)]
    fn ask_about(&mut self, now: Instant, leaf: LeafId, mut entry: QueueEntry) -> Verdict {
        let mut evicted = false;
        loop {
            match self.queues.admit(now, leaf, &entry) {
                Admission::Accept => break,
                Admission::Mark => {
                    entry.mark_congestion();
                    break;
                }
                Admission::Evict(position, reason) => {
                    self.evict(now, leaf, (position, reason), entry.head());
                }
                Admission::Refuse(reason) => {
                    // The scheduler was told to expect it.
                    assert!(!evicted, "a dropper that made room for a packet lets it in");
                    return self.refuse(now, leaf, &entry, reason);
                }
            }
            evicted = true;
        }
        if self.queues.is_full() {
            return self.refuse(now, leaf, &entry, DropReason::Store);
        }
        if self.queues.push(leaf, entry) && !evicted {
            self.begin(now, leaf, &entry);
        } else {
            self.scheduler.joined(now, leaf, entry.charged());
        }
        if let Some(surplus) = self.queues.surplus(leaf) {
            return self.shed(now, leaf, entry.handle, surplus);
        }
        match self.queues.victim() {
            None => Verdict::Queued,
            Some(victim) => self.drop_victims(now, leaf, victim),
        }
    }

    /// Drops from `victim`, then from whoever else has to, since a packet that `leaf` accepted made
    /// leaves exceed the limit that they share.
    fn drop_victims(&mut self, now: Instant, leaf: LeafId, victim: LeafId) -> Verdict {
        let mut next = Some(victim);
        while let Some(victim) = next {
            self.drop_first(now, victim, DropReason::Longest);
            next = self.queues.victim();
        }
        // The last in line goes only if all before it went.
        match self.queues.head(leaf) {
            Some(_) => Verdict::Queued,
            None => Verdict::Dropped(DropReason::Longest),
        }
    }

    /// Drops from the flows of `leaf`, which hold too much since it accepted the packet `arrived`.
    fn shed(&mut self, now: Instant, leaf: LeafId, arrived: Handle, surplus: Surplus) -> Verdict {
        let reason = DropReason::Longest;
        let mut verdict = Verdict::Queued;
        let mut next = Some(surplus);
        while let Some(surplus) = next {
            match surplus {
                Surplus::First => self.drop_first(now, leaf, reason),
                Surplus::Behind(flow) => self.drop_from_flow(now, leaf, flow, reason),
            }
            if self.dropped.last().is_some_and(|last| last.handle == arrived) {
                verdict = Verdict::Dropped(reason);
            }
            next = self.queues.surplus(leaf);
        }
        verdict
    }

    /// Drops the first packet of a flow of `leaf`, which is not the leaf's first.
    fn drop_from_flow(&mut self, now: Instant, leaf: LeafId, flow: u32, reason: DropReason) {
        let entry = self.queues.evict_from_flow(leaf, flow, reason);
        self.report_drop(now, leaf, &entry, reason);
        if let Some(explainer) = &mut self.explainer {
            explainer.dropped_behind(now, entry.leaving(leaf), reason);
        }
        self.scheduler.head_changed(now, leaf, self.queues.head(leaf));
    }
}

/// Why the first packet of `leaf` waited since `from`.
#[inline(always)]
fn why(scheduler: &impl Scheduler, now: Instant, leaf: LeafId, from: Instant) -> Why {
    let why = scheduler.why(now, leaf, from);
    debug_assert!(
        why.agrees_from(from, scheduler.why(now, leaf, Instant::ZERO)),
        "what is left out ended before {from:?}: {why:?}"
    );
    why
}

impl<S: Discipline> AnyLink for Link<S> {
    fn retire(self: Box<Self>) -> Estate {
        self.into_estate()
    }

    fn inherit(&mut self, now: Instant, estate: Estate, change: Change<'_>) {
        self.take_over(now, estate, change);
    }

    fn offer(&mut self, now: Instant, leaf: LeafId, packet: Packet) -> Verdict {
        self.step_to(now);
        self.accept::<false, false>(now, leaf, packet)
    }

    fn poll(&mut self, now: Instant) -> Poll {
        self.step_to(now);
        let horizon = self.line.horizon(now);
        // Both kinds in one function: a call of its own would cost what is explained more.
        if self.explainer.is_some() {
            self.next_of::<true>(now, horizon)
        } else {
            self.next_of::<false>(now, horizon)
        }
    }

    fn advance(&mut self, until: Instant, out: &mut Vec<Departure>) -> Option<Instant> {
        self.advance_to(until, out)
    }

    fn serve(
        &mut self,
        due: Option<Instant>,
        arrivals: &[Arrival],
        out: &mut Vec<Departure>,
    ) -> Option<Instant> {
        match (self.explainer.is_some(), self.is_plain && self.police.is_none()) {
            (false, true) => self.serve_all::<true, false>(due, arrivals, out),
            (false, false) => self.serve_all::<false, false>(due, arrivals, out),
            (true, _) => self.serve_all::<false, true>(due, arrivals, out),
        }
    }

    fn offer_burst(&mut self, now: Instant, packets: &[(LeafId, Packet)]) {
        self.accept_burst(now, packets);
    }

    fn poll_burst(&mut self, now: Instant, out: &mut [Departure]) -> usize {
        self.hand_out_burst(now, out)
    }

    fn lend(&mut self, prefetch: Prefetch) {
        self.ahead.prefetch = prefetch;
    }

    fn take_dropped(&mut self, each: &mut dyn FnMut(Dropped)) {
        self.dropped.drain(..).for_each(each);
    }

    fn forfeit_before(&mut self, instant: Instant) {
        self.step_to(self.now.max(instant));
        self.line.forfeit_before(instant);
    }

    fn explain(&mut self, now: Instant, on: bool) {
        self.step_to(now);
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

    fn backlog(&self) -> u32 {
        self.queues.packets()
    }
}

/// A longer frame counts as one of this length; in cells it still fits 32 bits.
const LENGTH_MAX: i64 = 1 << 31;

/// Packets that wait in a link without a bound of its own: 2 MiB of entries.
pub const PACKETS_MAX_DEFAULT: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::sched::{ClassSpec, Cost, Descriptor, Promises};
    use crate::units::Rate;
    use alloc::string::ToString;

    fn link(rate: u64, leaves: usize) -> Box<dyn AnyLink> {
        let class = |index: usize| ClassSpec {
            name: index.to_string(),
            parent: None,
            params: Params::new(),
        };
        let rate = Rate::new(rate).expect("not zero");
        let classes = (0..leaves).map(class).collect();
        let tree = Tree::new(rate, Bytes::new(1514), Params::new(), classes).expect("a tree");
        LinkPlan::new("fifo", tree).build().expect("builds")
    }

    fn packet(handle: u32, length: u32) -> Packet {
        Packet::new(Handle(handle), length)
    }

    #[test]
    fn the_line_sends_back_to_back_and_never_early() {
        let mut link = link(24_000_000_000, 1);
        for handle in 0..30 {
            link.offer(Instant::ZERO, LeafId(0), packet(handle, 1));
        }
        let mut out = Vec::new();
        assert_eq!(link.advance(Instant::from_nanos(5), &mut out), Some(Instant::from_nanos(6)));
        // A third of a nanosecond each: three start per nanosecond, none before its turn.
        let starts: Vec<_> = out.iter().map(|departure| departure.at.as_nanos()).collect();
        assert_eq!(starts, [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]);
    }

    #[test]
    fn coming_late_changes_no_decision() {
        let rows: [&[u64]; 3] =
            [&[9_000_000], &[1, 2, 700_000, 9_000_000], &[5_000_000, 9_000_000]];
        let mut runs = rows.map(|wakes| {
            let mut link = link(10_000_000, 2);
            for handle in 0..6 {
                link.offer(Instant::ZERO, LeafId(handle % 2), packet(handle, 1000));
            }
            let mut out = Vec::new();
            for &wake in wakes {
                link.advance(Instant::from_nanos(wake), &mut out);
            }
            out
        });
        runs.rotate_left(1);
        assert_eq!(runs[0].len(), 6);
        assert_eq!(runs[0], runs[1]);
        assert_eq!(runs[1], runs[2]);
    }

    #[test]
    fn wire_lengths_follow_the_framing() {
        let rows = [
            (Framing::FRAME, 60, 60),
            (Framing::FRAME, 0, 1),
            (Framing::ETHERNET, 42, 84),
            (Framing::ETHERNET, 1514, 1538),
            (Framing::IP, 1514, 1500),
            (Framing::ATM, 54, 106),
            (Framing::ATM, 1514, 1696),
        ];
        for (framing, length, wire) in rows {
            assert_eq!(framing.wire_length(length), wire, "{framing:?} {length}");
        }
    }

    #[test]
    fn the_buffer_lets_packets_out_ahead_of_the_line() {
        let mut plan = LinkPlan::new("fifo", {
            let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
            let rate = Rate::new(8_000_000).expect("not zero");
            Tree::new(rate, Bytes::new(1000), Params::new(), alloc::vec![class]).expect("a tree")
        });
        plan.buffer = Bytes::new(2000);
        let mut link = plan.build().expect("builds");
        for handle in 0..4 {
            link.offer(Instant::ZERO, LeafId(0), packet(handle, 1000));
        }
        let mut out = Vec::new();
        link.advance(Instant::from_nanos(3_000_000), &mut out);
        let rows: Vec<_> =
            out.iter().map(|d| (d.at.as_nanos() / 1000, d.finished.as_nanos() / 1000)).collect();
        assert_eq!(rows, [(0, 1000), (0, 2000), (0, 3000), (1000, 4000)]);
    }

    /// Serves one leaf, wants to be asked every 10 µs, and keeps what it is told of completions.
    struct Told {
        waits: u32,
        told: Vec<(u64, u64)>,
    }

    impl Discipline for Told {
        const DESCRIPTOR: Descriptor = Descriptor {
            keyword: "told",
            summary: "Serves when the wire is empty.",
            parameters: &[],
            sources: &[],
            promises: Promises {
                work_conserving: false,
                hierarchical: false,
                exact_wake: false,
                cost: Cost::Constant,
            },
        };
        const COMPLETIONS: bool = true;

        fn build(_tree: &Tree) -> Result<Self, BuildError> {
            Ok(Self { waits: 0, told: Vec::new() })
        }
    }

    impl Scheduler for Told {
        fn enqueued(&mut self, _now: Instant, _leaf: LeafId, _head: Head) {
            self.waits = 1;
        }

        fn joined(&mut self, _now: Instant, _leaf: LeafId, _length: Bytes) {
            self.waits += 1;
        }

        fn select(&mut self, now: Instant) -> Selection {
            match (self.waits, now.as_nanos() % 10_000) {
                (0, _) => Selection::Idle,
                (_, 0) => Selection::Leaf(LeafId(0)),
                (_, part) => Selection::At(Instant::from_nanos(now.as_nanos() + 10_000 - part)),
            }
        }

        fn charge(&mut self, _now: Instant, _leaf: LeafId, _sent: Bytes, _next: Option<Head>) {
            self.waits -= 1;
        }

        fn head_changed(&mut self, _now: Instant, _leaf: LeafId, _head: Option<Head>) {
            self.waits -= 1;
        }

        fn completed(&mut self, now: Instant, _leaf: LeafId, length: Bytes) {
            self.told.push((now.as_nanos(), length.get()));
        }
    }

    #[test]
    fn who_wants_to_know_is_told_of_each_completion_at_its_instant_and_asked_then() {
        let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
        let rate = Rate::new(8_000_000_000).expect("not zero");
        let tree = Tree::new(rate, Bytes::new(1000), Params::new(), alloc::vec![class]);
        let mut plan = LinkPlan::new("fifo", tree.expect("a tree"));
        plan.buffer = Bytes::new(2000);
        let mut link = Link::new(&plan, Told { waits: 0, told: Vec::new() }).expect("builds");
        for handle in 0..4 {
            link.offer(Instant::ZERO, LeafId(0), packet(handle, 1000 + handle));
        }
        let mut out = Vec::new();
        // At 1 ns the buffer has room for a third, but by then nobody may send until 10 us.
        let next = link.advance(Instant::from_nanos(500), &mut out);
        assert_eq!((out.len(), next), (2, Some(Instant::from_nanos(1000))));
        let next = link.advance(Instant::from_nanos(1000), &mut out);
        assert_eq!(next, Some(Instant::from_nanos(2001)), "asked when a packet has left");
        assert_eq!(link.scheduler.told, [(1000, 1000)]);
        link.advance(Instant::from_nanos(30_000), &mut out);
        link.poll(Instant::from_nanos(90_000));
        assert_eq!(
            link.scheduler.told,
            [(1000, 1000), (2001, 1001), (11_002, 1002), (12_005, 1003)]
        );
    }
}
