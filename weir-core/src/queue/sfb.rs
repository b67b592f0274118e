//! Stochastic fair BLUE, as Linux has it: bins by hash with a probability each, and a packet is
//! marked or dropped by the smallest of its own [feng01; linux sch_sfb] [algorithms §9.14].
//!
//! A packet's flow leads to a bin on each of eight levels of sixteen. A bin counts its waiting
//! packets; if a packet arrives and finds `target` there, the bin's probability rises, and it falls
//! if it finds none. A flow that does not yield fills all its bins, and others share at most some
//! of them, so that the smallest probability of their bins stays low. A flow all of whose bins are
//! at certainty is *inelastic*: its packets pass at `penalty_rate` only. Every `rehash` a second
//! set of bins with another hash takes over, which inelastic flows fill for `warmup` before.
//!
//! Flows are the same if their hashes of 16 bits are. Probabilities are in 2^-16. Invariant: bins
//! count the packets in `waiting`, which are those of the leaf but for packets that a change
//! brought; these leave first.

use super::lateness::ECN_ON;
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, Place, Reading,
    Release, limit, refused, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Dimension, Duration, Instant, Quantity, Share};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// The bins and what fills them, boxed to keep droppers small.
pub struct Sfb(Box<State>);

struct State {
    limit: Limit,
    plan: Plan,
    sets: [Set; 2],
    /// The set in force.
    current: u8,
    /// Whether inelastic flows fill the other set.
    warms: bool,
    /// When the set came into force; absent before the first packet.
    since: Option<Instant>,
    /// Packets of inelastic flows that may pass, and when they were given.
    tokens: u32,
    given_at: Instant,
    waiting: VecDeque<Hashes>,
    random: Random,
}

struct Plan {
    /// The most packets in all bins of a flow.
    most: u16,
    target: u16,
    increment: u16,
    decrement: u16,
    /// Packets a second, and at once.
    penalty_rate: u64,
    penalty_burst: u32,
    rehash: Duration,
    warmup: Duration,
    ecn: bool,
}

/// Bins by level, with the seed of their hash.
struct Set {
    seed: u64,
    bins: [Bin; LEVELS * BINS],
}

#[derive(Clone, Copy, Default)]
struct Bin {
    packets: u16,
    probability: u16,
}

/// The hashes of a waiting packet in both sets, 0 in one that does not count it.
#[derive(Clone, Copy, Default)]
struct Hashes([u32; 2]);

impl DropperDiscipline for Sfb {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "sfb",
        summary: "Drops or marks by bins of flows; flows that do not yield get a small rate.",
        parameters: &[
            limit("1000 packets"),
            row("max", Kind::Number(1, PACKETS_MAX), "25", "The most packets of a flow."),
            row(
                "target",
                Kind::Number(1, PACKETS_MAX),
                "20",
                "Packets in a bin from which on its probability rises.",
            ),
            row("increment", SHARE, "0.05 %", "By how much a probability rises."),
            row("decrement", SHARE, "0.005 %", "By how much it falls when a bin is empty."),
            row(
                "penalty_rate",
                Kind::Number(0, 1_000_000),
                "10",
                "Packets in a second of flows that do not yield.",
            ),
            row("penalty_burst", Kind::Number(0, 1_000_000), "20", "Such packets at once."),
            row("rehash", TIME, "10 min", "The time after which another hash is taken."),
            row("warmup", TIME, "1 min", "How long before that the next bins are filled."),
            ECN_ON,
        ],
        sources: &["feng01", "linux sch_sfb", "algorithms §9.14"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let number = |name, default| params.number(name).unwrap_or(default);
        let packets = |name, default| number(name, default).min(PACKETS_MAX) as u16;
        let seconds = |name, default| params.duration(name).unwrap_or(Duration::from_secs(default));
        let (most, target) = (params.number("max"), params.number("target"));
        if let Some((most, target)) = most.zip(target).filter(|(most, target)| target > most) {
            let message = alloc::format!(
                "no bin has {target} packets where a flow has {most} at most; write a `target` \
                 below `max`"
            );
            return refused("target", message);
        }
        let part = |name, default: u16| match params.quantity(name) {
            Some(Quantity::Share(share)) => part_of(share),
            _ => default,
        };
        let plan = Plan {
            most: packets("max", 25),
            target: packets("target", 20),
            increment: part("increment", INCREMENT),
            decrement: part("decrement", DECREMENT),
            penalty_rate: number("penalty_rate", 10),
            penalty_burst: number("penalty_burst", 20) as u32,
            rehash: seconds("rehash", 600),
            warmup: seconds("warmup", 60),
            ecn: params.flag("ecn") != Some(false),
        };
        let mut random = Random::new(place.seed, u64::from(place.leaf.0));
        Ok(Self(Box::new(State {
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            tokens: plan.penalty_burst,
            plan,
            sets: [Set::new(random.bits()), Set::new(random.bits())],
            current: 0,
            warms: false,
            since: None,
            given_at: Instant::ZERO,
            waiting: VecDeque::new(),
            random,
        })))
    }
}

impl Dropper for Sfb {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        state.forget_refused(backlog);
        if !state.limit.fits(arriving.length, backlog) {
            return Admission::Refuse(DropReason::Full);
        }
        state.change_sets(now);
        let mut hashes = Hashes::default();
        let (smallest, fewest) = state.look(state.current, arriving.flow, &mut hashes);
        if fewest >= state.plan.most {
            return Admission::Refuse(DropReason::Longest);
        }
        if smallest == CERTAIN {
            if state.warms {
                state.look(state.current ^ 1, arriving.flow, &mut hashes);
            }
            if !state.takes_token(now) {
                return Admission::Refuse(DropReason::Longest);
            }
            return state.queue(hashes, Admission::Accept);
        }
        let draw = (state.random.bits() >> 48) as u16;
        if draw >= smallest {
            return state.queue(hashes, Admission::Accept);
        }
        // With so many marks the flow does not yield, or all are badly congested.
        let dropped = 2 * u32::from(smallest.saturating_sub(CERTAIN / 2));
        let is_marked = state.plan.ecn && arriving.is_markable() && u32::from(draw) >= dropped;
        match is_marked {
            true => state.queue(hashes, Admission::Mark),
            false => Admission::Refuse(DropReason::Early),
        }
    }

    fn release(&mut self, _now: Instant, _first: Candidate, backlog: Count) -> Release {
        let state = &mut *self.0;
        state.forget_refused(backlog);
        if state.waiting.len() as u64 == backlog.packets
            && let Some(hashes) = state.waiting.pop_front()
        {
            state.count(hashes, |packets| packets.saturating_sub(1));
        }
        Release::Send
    }

    fn reading(&self) -> Option<Reading> {
        let bins = &self.0.sets[usize::from(self.0.current)].bins;
        let most = bins.iter().map(|bin| bin.probability).max().unwrap_or(0);
        let thousandths = u64::from(most) * 1000 / u64::from(CERTAIN);
        Some(Reading { what: "largest probability", thousandths })
    }
}

impl State {
    /// Forgets packets that were accepted here and found no room in the store.
    fn forget_refused(&mut self, backlog: Count) {
        while self.waiting.len() as u64 > backlog.packets {
            let Some(hashes) = self.waiting.pop_back() else { break };
            self.count(hashes, |packets| packets.saturating_sub(1));
        }
    }

    /// Lets the other set take over, or be filled, when it is time.
    fn change_sets(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let Plan { rehash, warmup, .. } = self.plan;
        if rehash == Duration::ZERO {
            return;
        }
        if now.since(since) > rehash {
            self.sets[usize::from(self.current)].seed = self.random.bits();
            self.current ^= 1;
            (self.warms, self.since) = (false, Some(now));
        } else if warmup > Duration::ZERO && now.since(since).plus(warmup) > rehash {
            self.warms = true;
        }
    }

    /// Moves the probabilities of the bins of `flow` in a set; returns the smallest of them, and
    /// the fewest packets in one.
    fn look(&mut self, set: u8, flow: u16, hashes: &mut Hashes) -> (u16, u16) {
        let Plan { target, increment, decrement, .. } = self.plan;
        let set_index = usize::from(set & 1);
        let set = &mut self.sets[set_index];
        let hash = set.hash(flow);
        hashes.0[set_index] = hash;
        let (mut smallest, mut fewest) = (CERTAIN, u16::MAX);
        for place in places(hash) {
            let bin = &mut set.bins[place];
            if bin.packets == 0 {
                bin.probability = bin.probability.saturating_sub(decrement);
            } else if bin.packets >= target {
                bin.probability = bin.probability.saturating_add(increment);
            }
            smallest = smallest.min(bin.probability);
            fewest = fewest.min(bin.packets);
        }
        (smallest, fewest)
    }

    /// Returns whether one more packet of an inelastic flow may pass.
    fn takes_token(&mut self, now: Instant) -> bool {
        let Plan { penalty_rate, penalty_burst, .. } = self.plan;
        if penalty_rate == 0 || penalty_burst == 0 {
            return false;
        }
        if self.tokens == 0 {
            let age = now.since(self.given_at).as_nanos().min(10 * SECOND);
            let earned = age * penalty_rate / SECOND;
            self.tokens = earned.min(u64::from(penalty_burst)) as u32;
            self.given_at = now;
        }
        let is_there = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        is_there
    }

    /// Counts a packet that is accepted.
    fn queue(&mut self, hashes: Hashes, admission: Admission) -> Admission {
        self.waiting.push_back(hashes);
        self.count(hashes, |packets| packets.saturating_add(1));
        admission
    }

    fn count(&mut self, hashes: Hashes, change: impl Fn(u16) -> u16) {
        for (set, hash) in self.sets.iter_mut().zip(hashes.0).filter(|row| row.1 != 0) {
            for place in places(hash) {
                set.bins[place].packets = change(set.bins[place].packets);
            }
        }
    }
}

impl Set {
    fn new(seed: u64) -> Self {
        Self { seed, bins: [Bin::default(); LEVELS * BINS] }
    }

    /// Returns the hash of a flow, never 0.
    fn hash(&self, flow: u16) -> u32 {
        ((Random::new(self.seed, u64::from(flow)).bits() >> 32) as u32).max(1)
    }
}

/// Returns the bin on each level to which a hash leads.
fn places(hash: u32) -> impl Iterator<Item = usize> {
    (0..LEVELS).map(move |level| level * BINS + (hash >> (4 * level)) as usize % BINS)
}

/// Returns a share in 2^-16, rounded.
fn part_of(share: Share) -> u16 {
    let whole = u64::from(Share::WHOLE.ppb());
    let part = u64::from(share.ppb()) * u64::from(CERTAIN) + whole / 2;
    u16::try_from(part / whole).unwrap_or(CERTAIN)
}

const SHARE: Kind = Kind::Quantity(Dimension::Share);
const TIME: Kind = Kind::Quantity(Dimension::Duration);
const LEVELS: usize = 8;
const BINS: usize = 16;
/// Probability 1, nearly.
const CERTAIN: u16 = u16::MAX;
/// The defaults of `tc`.
const INCREMENT: u16 = 33;
const DECREMENT: u16 = 3;
/// Bins count in 16 bits.
const PACKETS_MAX: u64 = 65_535;
const SECOND: u64 = 1_000_000_000;

state!(Sfb(state));
state!(State {
    sets, current, warms, since, tokens, given_at, waiting, random;
    kept: limit, plan;
    check: |state: &Self| state.current <= 1
});
state!(Set { seed, bins });
state!(Bin { packets, probability });
state!(Hashes(hashes));

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;

    /// Offers a flood of flow 1 and a trickle of flows 2 to 9, which waits for room; returns the
    /// accepted and dropped packets of both.
    fn flooded(flags: &[(&'static str, bool)], traffic_class: u8) -> ([u32; 4], Trial<Sfb>) {
        let numbers = [("increment", "1 %"), ("decrement", "0.1 %")];
        let mut trial = Trial::<Sfb>::new(&params(&numbers, flags));
        let mut counts = [0; 4];
        for step in 0..60_000u32 {
            trial.pause(400);
            trial.flow = if step % 9 == 0 { 2 + (step / 9 % 8) as u16 } else { 1 };
            let is_flood = trial.flow == 1;
            let accepted = trial.offer(1000, traffic_class);
            counts[usize::from(!is_flood) * 2 + usize::from(!accepted)] += 1;
            if step % 2 == 0 {
                trial.serve();
            }
        }
        (counts, trial)
    }

    #[test]
    fn a_flow_that_does_not_yield_is_held_and_others_pass() {
        let (counts, trial) = flooded(&[], 0);
        let [passed, dropped, others, lost] = counts;
        assert!(dropped > passed, "{counts:?}");
        assert!(lost * 20 < others, "{counts:?}");
        assert!(trial.dropped.iter().any(|row| row.1 == DropReason::Longest));
    }

    #[test]
    fn packets_are_marked_while_the_probability_is_low() {
        let (_, marks) = flooded(&[], 0b10);
        let (_, none) = flooded(&[("ecn", false)], 0b10);
        assert!(marks.marked > 0 && none.marked == 0);
    }

    #[test]
    fn bins_are_empty_when_the_leaf_is() {
        let (_, mut trial) = flooded(&[], 0);
        while trial.serve().is_some() {}
        let state = &trial.dropper.0;
        assert!(state.waiting.is_empty());
        assert!(state.sets.iter().flat_map(|set| &set.bins).all(|bin| bin.packets == 0));
    }

    #[test]
    fn another_hash_takes_over_after_its_time() {
        let numbers = [("rehash", "2 s"), ("warmup", "1 s")];
        let mut trial = Trial::<Sfb>::new(&params(&numbers, &[]));
        trial.offer(1000, 0);
        trial.pause(1_500_000);
        trial.offer(1000, 0);
        assert!(trial.dropper.0.warms && trial.dropper.0.current == 0);
        trial.pause(600_000);
        trial.offer(1000, 0);
        assert!(!trial.dropper.0.warms && trial.dropper.0.current == 1);
        while trial.serve().is_some() {}
        let state = &trial.dropper.0;
        assert!(state.sets.iter().flat_map(|set| &set.bins).all(|bin| bin.packets == 0));
    }

    #[test]
    fn tokens_are_those_of_passed_time() {
        let mut trial = Trial::<Sfb>::new(&params(&[("penalty_burst", "3")], &[]));
        let state = &mut *trial.dropper.0;
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let takes: alloc::vec::Vec<_> =
            [0, 0, 0, 0, 50, 150, 150, 10_000].map(|ms| state.takes_token(at(ms))).into();
        assert_eq!(takes, [true, true, true, false, false, true, false, true]);
    }
}
