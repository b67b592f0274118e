//! Class-based queueing as ALTQ has it, fault by fault, in ALTQ's integers [algorithms §3].
//!
//! Kenjiro Cho's ALTQ carried the CBQ of Floyd and Jacobson `[floyd95]` in a form that Risso and
//! Gevros measured and mended `[risso99 §6]`. An average idle time says whether a class is
//! overlimit; an overlimit class borrows, within a cutoff that moves with the traffic, or sleeps
//! until a tick of the kernel's timer. Five presets are states of ALTQ, and each point in which
//! they differ has a switch of its own, so that a fault can be had alone. `cbq` is the sound form.
//!
//! A poll of the link takes the place of a call of the driver's start routine in ALTQ. The driver
//! is called after an arrival for which no other packet was dropped, when a packet has left the
//! wire, and at the instant that the last selection named. Between these calls `select` returns the
//! last selection again.
//!
//! Differences from ALTQ: only leaves hold packets; queues and their limits are the leaf's dropper;
//! there is no control class; rates may add up to more than the parent's; `ns` per byte is at least
//! 1, so that rates above 8 Gbit/s count as 8 Gbit/s; numbers that would wrap in 32 bits saturate.
//! A single class at the top of the policy is the root, and its rate is the bandwidth that ALTQ is
//! configured with, whatever the line's rate; without one, a root of the whole link is added.
//!
//! Invariant: a leaf has a head exactly while its priority's circle counts it as backlogged.

mod class;
mod clock;
mod params;
mod rounds;
mod sharing;
mod spec;
#[cfg(test)]
mod tests;

use super::loans::Loans;
use super::{
    Borrowed, Calls, Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises,
    Scheduler, Selection, Tree, Waiting, Why,
};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use class::Class;
use clock::Stamp;
use params::{PARAMETERS, Switches};
use rounds::{Choice, Rounds};
use sharing::{CUTOFF_OPEN, Sharing};

/// ALTQ's class-based queueing.
pub struct CbqAltq {
    sharing: Sharing,
    rounds: Rounds,
    /// The number of backlogged leaves.
    backlogged: u32,
    outcome: Outcome,
    arrival: Arrival,
    /// The instant of the last calls of the driver, and how many of them are pending.
    calls: (Instant, u32),
    /// The packets that have not left the wire, under `update_at = "tx-complete"`.
    downstream: VecDeque<Sent>,
    /// The number of classes from each up to its top class, both counted; 0 for a root of the link.
    depths: Vec<u8>,
    loans: Loans,
}

/// A packet that the estimators have yet to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sent {
    class: usize,
    length: i64,
    lender: Option<u32>,
}

/// The last selection, as long as it is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Something has happened since; the driver must be started.
    None,
    /// No class may send before that instant.
    At(Instant),
    /// That class sends at that instant; `first` would have had to borrow.
    Leaf { at: Instant, leaf: LeafId, choice: Choice, first: Option<usize> },
}

/// An offer that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    None,
    Offered,
    /// Another packet was dropped to make room: such an arrival does not start the driver.
    MadeRoom,
}

impl Discipline for CbqAltq {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "cbq-altq",
        summary: "ALTQ's class-based queueing, faults and all: average idle times, kernel ticks.",
        parameters: PARAMETERS,
        sources: &["altq", "risso99 §6", "algorithms §3"],
        promises: Promises {
            work_conserving: false,
            hierarchical: true,
            exact_wake: true,
            cost: Cost::Linear,
        },
    };

    const CALLS: Calls = Calls { completions: true, per_packet: true, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let switches = Switches::new(tree.params());
        let mut sharing = Sharing::build(tree, switches)?;
        let rounds = Rounds::build(tree, &mut sharing.classes, &switches);
        let mut depths = alloc::vec![0; sharing.classes.list.len()];
        for (id, _) in tree.classes() {
            depths[sharing.classes.number(id)] = tree.path(id).count() as u8;
        }
        Ok(Self {
            sharing,
            rounds,
            backlogged: 0,
            outcome: Outcome::None,
            arrival: Arrival::None,
            calls: (Instant::ZERO, 0),
            downstream: VecDeque::new(),
            depths,
            loans: Loans::new(tree),
        })
    }
}

impl Scheduler for CbqAltq {
    fn offered(&mut self, now: Instant, leaf: LeafId) {
        self.fire_timers(now);
        self.sharing.arrive(Stamp::at(now), leaf);
        self.arrival = Arrival::Offered;
    }

    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head) {
        self.arrived(now);
        self.set_head(leaf, Some(head));
        self.class_of(leaf).backlog = 1;
    }

    fn joined(&mut self, now: Instant, leaf: LeafId, _length: Bytes) {
        self.arrived(now);
        let class = self.class_of(leaf);
        class.backlog = class.backlog.saturating_add(1);
    }

    fn select(&mut self, now: Instant) -> Selection {
        self.arrival = Arrival::None;
        if self.backlogged == 0 {
            return Selection::Idle;
        }
        match self.outcome {
            // A pending call searches again: a class that the call before it suspended may be
            // resumed by then [algorithms §3.10-3.11].
            Outcome::At(instant) if now < instant && !self.is_owed(now) => {
                return Selection::At(instant);
            }
            Outcome::Leaf { at, leaf, .. } if at == now => return Selection::Leaf(leaf),
            _ => {}
        }
        self.outcome = self.attempt(now);
        // Without its third or fourth rule an attempt leaves another cutoff than it found, so the
        // calls that are pending are all made now; each consumes one.
        while self.sharing.switches.rule_left_out >= 3
            && matches!(self.outcome, Outcome::At(_))
            && self.is_owed(now)
        {
            self.outcome = self.attempt(now);
        }
        match self.outcome {
            Outcome::Leaf { leaf, .. } => Selection::Leaf(leaf),
            Outcome::At(instant) => Selection::At(instant),
            Outcome::None => unreachable!("an attempt returns a leaf or an instant"),
        }
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let outcome = core::mem::replace(&mut self.outcome, Outcome::None);
        let Outcome::Leaf { leaf: selected, choice, first, .. } = outcome else {
            panic!("a leaf sends after it was selected");
        };
        assert_eq!(selected, leaf, "the leaf that was selected sends");
        let (now, class) = (Stamp::at(now), choice.class);
        let length = length(sent);
        let (state, plan) = self.sharing.classes.at_with_plan(class);
        self.rounds.pay(plan.place.priority, (class, state), length, first == Some(class));
        self.remove_one(leaf, next);
        if let Some(lender) = choice.permission.lender {
            let depth = usize::from(self.depths[lender as usize]);
            self.loans.count(leaf, depth, sent);
        }
        let sent = Sent { class, length, lender: choice.permission.lender };
        if !self.sharing.switches.at_completion {
            return self.account(now, sent);
        }
        self.downstream.push_back(sent);
        if self.downstream.len() > DOWNSTREAM_MAX {
            self.account_oldest(now);
        }
    }

    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>) {
        if self.arrival == Arrival::None {
            self.outcome = Outcome::None;
        } else {
            self.arrival = Arrival::MadeRoom;
        }
        self.fire_timers(now);
        self.remove_one(leaf, head);
    }

    fn completed(&mut self, now: Instant, _leaf: LeafId, _length: Bytes) {
        self.fire_timers(now);
        self.call(now, 1);
        self.outcome = Outcome::None;
        self.account_oldest(Stamp::at(now));
    }
}

impl Explains for CbqAltq {
    fn why(&self, now: Instant, leaf: LeafId, _from: Instant) -> Why {
        let class = self.sharing.classes.of_leaf(leaf);
        let lender = match self.outcome {
            Outcome::Leaf { leaf: selected, choice, .. } if selected == leaf => {
                choice.permission.lender
            }
            _ => None,
        };
        self.sharing.why(Stamp::at(now), class, lender)
    }

    fn borrowed(&self, leaf: LeafId) -> Borrowed {
        self.loans.of(leaf)
    }
}

impl Changes for CbqAltq {
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        let numbers = |sharing: &Sharing, class| sharing.classes.number(class);
        let pair = |(new, was)| (numbers(&self.sharing, new), numbers(&old.sharing, was));
        let pairs: Vec<_> = kin.classes().map(pair).collect();
        self.sharing.inherit(&old.sharing, pairs.into_iter());
        self.loans.inherit(&old.loans, kin);
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let head = |head: Option<Head>| head.map(|head| length(head.length));
        let is_known = |leaf: usize, first: Option<Head>| {
            self.sharing.classes.list[leaf].head() == head(first)
        };
        let rest = waiting.heads.len()..self.sharing.classes.list.len();
        let rest = rest.map(|class| &self.sharing.classes.list[class]);
        self.backlogged as usize == waiting.leaves()
            && waiting.all(is_known)
            && rest.into_iter().all(|class| class.head().is_none())
            && self.rounds.agrees(&self.sharing.classes)
            && self.sharing.is_sound()
    }
}

impl CbqAltq {
    /// Records that a packet was accepted: the driver is started, unless another packet was dropped
    /// to make room.
    fn arrived(&mut self, now: Instant) {
        self.fire_timers(now);
        if self.arrival != Arrival::MadeRoom {
            self.call(now, 1);
            self.outcome = Outcome::None;
        }
        self.arrival = Arrival::None;
    }

    /// Wakes the classes whose timers are due; each timer calls the driver at that instant.
    fn fire_timers(&mut self, now: Instant) {
        let woken = self.sharing.fire_timers(now);
        self.call(now, woken);
    }

    /// Adds `count` pending calls of the driver at `now`; those of earlier instants have expired.
    fn call(&mut self, now: Instant, count: u32) {
        let (at, before) = self.calls;
        let before = if at == now { before } else { 0 };
        self.calls = (now, before.saturating_add(count));
    }

    /// Returns whether each call counts and one at `now` is pending.
    fn is_owed(&self, now: Instant) -> bool {
        let (at, count) = self.calls;
        self.sharing.switches.one_packet_a_call && at == now && count > 0
    }

    /// Returns whether the driver is called at `now`, and consumes that call. The link may call
    /// `select` at other instants, too, because an earlier selection named them.
    fn is_called(&mut self, now: Instant) -> bool {
        if !self.sharing.switches.one_packet_a_call {
            return true;
        }
        let called = self.is_owed(now);
        self.calls.1 -= u32::from(called);
        // The last selection is still valid: nothing was sent since, and it named this instant.
        called || matches!(self.outcome, Outcome::At(_)) || self.sharing.is_watched(Stamp::at(now))
    }

    /// Starts the driver, if it is called at `now`.
    fn attempt(&mut self, now: Instant) -> Outcome {
        self.fire_timers(now);
        if self.is_called(now) {
            self.start(now)
        } else {
            Outcome::At(self.sharing.called_next(Stamp::at(now)))
        }
    }

    /// [algorithms §3.9] Updates the estimators and the cutoff after a packet.
    fn account(&mut self, now: Stamp, Sent { class, length, lender }: Sent) {
        self.sharing.update(now, class, length);
        if let Some(lender) = lender {
            self.sharing.depart(now, class, lender, &self.rounds.circles);
        }
    }

    fn account_oldest(&mut self, now: Stamp) {
        if let Some(sent) = self.downstream.pop_front() {
            self.account(now, sent);
        }
    }

    /// [algorithms §3.7] Makes one call of the driver's start routine; returns a leaf, or when to
    /// call again.
    fn start(&mut self, now: Instant) -> Outcome {
        let (stamp, mut first) = (Stamp::at(now), None);
        let top = self.sharing.classes.place(self.sharing.classes.root as u32).depth;
        loop {
            if let Some(choice) = self.rounds.choose(&mut self.sharing, stamp, &mut first) {
                return self.chosen(now, choice, first);
            }
            // The third rule: no class may send below the cutoff, so it rises, and all classes are
            // tried again.
            let has_third = self.sharing.switches.rule_left_out != 3;
            if first.is_none() || self.sharing.cutoff >= top || !has_third {
                break;
            }
            self.sharing.cutoff += 1;
        }
        if self.sharing.switches.rule_left_out != 4 {
            self.sharing.cutoff = CUTOFF_OPEN;
        }
        if self.sharing.switches.efficient
            && let Some(class) = first
        {
            let permission = self.sharing.lend_anyway(class);
            return self.chosen(now, Choice { class, permission }, first);
        }
        Outcome::At(self.sharing.called_next(stamp))
    }

    fn chosen(&self, at: Instant, choice: Choice, first: Option<usize>) -> Outcome {
        let leaf = self.sharing.classes.leaf(choice.class);
        Outcome::Leaf { at, leaf: leaf.expect("only leaves have heads"), choice, first }
    }

    fn class_of(&mut self, leaf: LeafId) -> &mut Class {
        let class = self.sharing.classes.of_leaf(leaf);
        &mut self.sharing.classes.list[class]
    }

    /// Records that a packet left `leaf`; `head` is first now.
    fn remove_one(&mut self, leaf: LeafId, head: Option<Head>) {
        // While room is made for an arriving packet, it may be the head before it is counted.
        let least = u32::from(self.arrival == Arrival::None);
        let class = self.class_of(leaf);
        let left = class.backlog.saturating_sub(1).max(least);
        class.backlog = if head.is_some() { left } else { 0 };
        self.set_head(leaf, head);
    }

    fn set_head(&mut self, leaf: LeafId, head: Option<Head>) {
        let index = self.sharing.classes.of_leaf(leaf);
        let (class, plan) = self.sharing.classes.at_with_plan(index);
        let (had, priority) = (class.head().is_some(), plan.place.priority);
        class.set_head(head.map(|head| length(head.length)));
        match (had, head.is_some()) {
            (false, true) => {
                self.rounds.join(priority, index);
                self.backlogged += 1;
            }
            (true, false) => {
                self.rounds.leave(priority, index, class);
                self.backlogged -= 1;
            }
            _ => {}
        }
    }

    /// Whether the packets on the wire are those of classes that there are.
    fn is_sound(&self) -> bool {
        let count = self.sharing.classes.list.len();
        let is_sound = |sent: &Sent| {
            let lender = sent.lender.is_none_or(|lender| (lender as usize) < count);
            sent.class < count && (0..=LENGTH_MAX as i64).contains(&sent.length) && lender
        };
        self.downstream.len() <= DOWNSTREAM_MAX && self.downstream.iter().all(is_sound)
    }
}

/// Bound: packets downstream that the estimators have not counted; with one more, the oldest counts
/// as sent. As in CBQ's first form [algorithms §3.9].
const DOWNSTREAM_MAX: usize = 16;

/// Returns the length that the estimator uses.
fn length(bytes: Bytes) -> i64 {
    bytes.get().min(LENGTH_MAX) as i64
}

/// Longer packets count as this length, so that products stay well below overflow.
const LENGTH_MAX: u64 = 1 << 24;

state!(CbqAltq {
    sharing, rounds, backlogged, outcome, arrival, calls, downstream, loans;
    kept: depths;
    check: CbqAltq::is_sound
});
state!(Sent { class, length, lender });
state!(
    enum Arrival {
        None,
        Offered,
        MadeRoom,
    }
);

/// A leaf is no outcome between two calls: it sends, or its packet is dropped.
impl State for Outcome {
    fn save(&self, to: &mut Writer) {
        let at = match *self {
            Outcome::None | Outcome::Leaf { .. } => None,
            Outcome::At(instant) => Some(instant),
        };
        at.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let mut at: Option<Instant> = None;
        at.load(from)?;
        *self = at.map_or(Outcome::None, Outcome::At);
        Ok(())
    }
}
