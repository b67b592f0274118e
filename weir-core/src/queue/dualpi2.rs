//! DualPI2: a low-latency and a classic queue in one leaf, with one control law [rfc9332 appendix
//! A; linux sch_dualpi2] [algorithms §9.15].
//!
//! Packets with ECT(1) or CE go to the low-latency queue, all others to the classic one; `pair.rs`
//! has their turns. Every `update` the base probability *p* moves by `alpha` times the distance of
//! the longer of both queues' delays from `target` and `beta` times its change. A classic packet is
//! dropped, or marked if it can be, with the probability *p*²; a packet of the other queue is
//! marked with `coupling` times *p*, so that senders that answer each mark get as much as those
//! that answer drops by a square root. The low-latency queue has a threshold of its own beside
//! that: from a delay of `step` on the probability rises over `ramp` to certainty; without a ramp,
//! every packet above the step is marked. It counts while `step_floor` packets wait behind the one
//! that leaves, so that a slow line does not mark packets that wait for none. When `coupling` times
//! *p* reaches certainty both queues drop with *p*².
//!
//! `rules` says where the two sources differ: see [`Rules`]. There is no timer: due steps are taken
//! when a packet arrives or leaves, each with the delays at its own instant.
//!
//! Probabilities are in 2^-56. Invariant: a packet that cannot be marked is never marked, and with
//! `overload = "mark"` none of the low-latency queue is dropped but for want of room.

use super::flows::{FlowQueues, Order, Room};
use super::pair::{LOW, PairPlan};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN_MASK, Limit, Place,
    Reading, Release, limit, refused, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant};
use alloc::boxed::Box;

/// Two coupled queues.
pub struct DualPi2(Box<State>);

struct State {
    flows: FlowQueues,
    limit: Limit,
    law: Law,
    probability: u64,
    delay_before: u64,
    /// By queue, what is left of likelihoods since the last mark or drop.
    sums: [u64; 2],
    /// When the next step is due; absent before the first packet.
    next: Option<Instant>,
    random: Random,
}

/// The parameters; times in nanoseconds.
struct Law {
    rules: Rules,
    target: u64,
    update: u64,
    /// In 1/256 Hz.
    alpha: u64,
    beta: u64,
    coupling: u64,
    step: u64,
    ramp: u64,
    /// Packets of the low-latency queue above which it marks, in place of `step`.
    step_packets: Option<u64>,
    /// Packets that must wait behind one for its own delay to mark it.
    step_floor: u64,
    /// While fewer bytes wait, only the step marks.
    floor: u64,
    drops_on_overload: bool,
    /// Whether the base probability hits packets when they arrive.
    early: bool,
    plan: PairPlan,
}

/// Where Linux and the appendix of RFC 9332 differ: the appendix adds likelihoods up until they
/// make a mark, computes without loss, and lets each packet decide; Linux draws at random, with
/// gains and probabilities in 32 bits, and drops or marks nothing by the base probability while
/// fewer than two largest packets wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    Rfc9332,
    Linux,
}

impl DropperDiscipline for DualPi2 {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "dualpi2",
        summary: "A low-latency queue for L4S beside a classic one, with coupled marks and drops.",
        parameters: &[
            limit("10000 packets"),
            row("target", TIME, "15 ms", "The target delay of the classic queue."),
            row("update", TIME, "16 ms", "The time between two steps of the probability."),
            row("alpha", GAIN, "41", "Weight of the distance, in 1/256 Hz."),
            row("beta", GAIN, "819", "Weight of the change, in 1/256 Hz."),
            row("coupling", Kind::Number(1, 255), "2", "Marks of the one for the other's root."),
            row("step", TIME, "1 ms", "The delay of the low-latency queue above which it marks."),
            row("ramp", TIME, "0 ns", "The delay beyond `step` at which it marks all."),
            row(
                "step_packets",
                Kind::Number(0, PACKETS_MAX),
                "none",
                "In place of `step` and `ramp`: it marks while more packets wait in it.",
            ),
            row(
                "step_floor",
                Kind::Number(0, PACKETS_MAX),
                "2, or 0 with `rules = \"linux\"`",
                "Packets that must wait behind one for its own delay to mark it.",
            ),
            row(
                "protection",
                Kind::Number(0, 100),
                "10",
                "The part of the line that the classic queue has at least, in per cent.",
            ),
            row(
                "identifier",
                Kind::Choice(&["ect1", "ect"]),
                "ect1",
                "Which senders get the low-latency queue: those of L4S, or all that know ECN.",
            ),
            row("nqb", Kind::Flag, "false", "Whether packets of DSCP 45 go there, too, unmarked."),
            row(
                "overload",
                Kind::Choice(&["drop", "mark"]),
                "drop",
                "What happens to the low-latency queue when marks do not suffice.",
            ),
            row(
                "early",
                Kind::Flag,
                "false",
                "Whether packets are hit when they arrive; the step hits those that leave.",
            ),
            row(
                "rules",
                Kind::Choice(&["rfc9332", "linux"]),
                "rfc9332",
                "The appendix of RFC 9332, or Linux's draws and arithmetic.",
            ),
        ],
        sources: &["rfc9332 appendix A", "linux sch_dualpi2", "algorithms §9.15"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let law = Law::from_params(params, place);
        if law.update < UPDATE_MIN {
            let message = alloc::format!(
                "a step each {} ns is more often than each millisecond; write at least `1 ms`",
                law.update
            );
            return refused("update", message);
        }
        let other = ["step", "ramp"].into_iter().find(|name| params.duration(name).is_some());
        if let Some(other) = other.filter(|_| law.step_packets.is_some()) {
            let message = "`step_packets` stands in place of `step` and `ramp`; remove one of them";
            return refused(other, message.into());
        }
        let limit = Limit::from_params(params, &Self::DESCRIPTOR);
        let (order, memory) = (Order::Pair(law.plan), Bytes::new(u64::MAX));
        let room = Room { queues: 2, order, limit, memory, passes: false };
        Ok(Self(Box::new(State {
            flows: FlowQueues::new(room),
            limit,
            law,
            probability: 0,
            delay_before: 0,
            sums: [0; 2],
            next: None,
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for DualPi2 {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        state.catch_up(now);
        if !state.limit.fits(arriving.length, backlog) {
            return Admission::Refuse(DropReason::Full);
        }
        if !state.law.early || backlog.bytes < state.law.floor {
            return Admission::Accept;
        }
        let release = match state.law.plan.number(arriving.traffic_class) {
            LOW => state.low(arriving, 0, true),
            _ => state.classic(arriving),
        };
        match release {
            Release::Send => Admission::Accept,
            Release::Mark => Admission::Mark,
            Release::Drop(reason) => Admission::Refuse(reason),
        }
    }

    fn release(&mut self, now: Instant, first: Candidate, backlog: Count) -> Release {
        let state = &mut *self.0;
        state.catch_up(now);
        let (queue, ..) = state.flows.first();
        // Linux counts what waits without the packet that leaves.
        let waiting = backlog.bytes.saturating_sub(first.length.get());
        let coupled = !state.law.early && waiting >= state.law.floor;
        if queue != LOW {
            return if coupled { state.classic(first) } else { Release::Send };
        }
        let delay = now.since(first.arrived).as_nanos();
        let behind = state.flows.backlog(LOW).packets.saturating_sub(1);
        let own = state.law.own(delay, behind);
        state.low(first, own, coupled)
    }

    fn flows(&self) -> Option<&FlowQueues> {
        Some(&self.0.flows)
    }

    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        Some(&mut self.0.flows)
    }

    fn reading(&self) -> Option<Reading> {
        let thousandths = (u128::from(self.0.probability) * 1000 / u128::from(ONE)) as u64;
        Some(Reading { what: "base probability", thousandths })
    }
}

impl State {
    /// Decides about a packet of the classic queue.
    fn classic(&mut self, first: Candidate) -> Release {
        if !self.draws_square(CLASSIC_SUM) {
            return Release::Send;
        }
        if self.is_overloaded() || !first.is_markable() {
            return Release::Drop(DropReason::Early);
        }
        let is_marked = first.traffic_class & ECN_MASK == ECN_MASK;
        if is_marked { Release::Send } else { Release::Mark }
    }

    /// Decides about a packet of the low-latency queue, which marks with the probability `own` by
    /// itself; `coupled` says whether the base probability counts.
    fn low(&mut self, packet: Candidate, own: u64, coupled: bool) -> Release {
        // Non-queue-building packets are neither marked nor dropped.
        if !packet.is_markable() {
            return Release::Send;
        }
        let is_overloaded = coupled && self.is_overloaded();
        if is_overloaded && self.law.drops_on_overload && self.draws_square(LOW_SUM) {
            return Release::Drop(DropReason::Early);
        }
        let coupling = if coupled { self.probability * self.law.coupling } else { 0 };
        let is_hit = match self.law.rules {
            Rules::Rfc9332 if is_overloaded => self.adds(LOW_SUM, ONE),
            Rules::Rfc9332 => self.adds(LOW_SUM, own.max(coupling)),
            Rules::Linux => {
                let is_drawn = is_overloaded || coupled && self.random.bits() >> 8 <= coupling;
                is_drawn || own > 0 && (own >= ONE || self.random.bits() >> 8 < own)
            }
        };
        let is_marked = packet.traffic_class & ECN_MASK == ECN_MASK;
        if is_hit && !is_marked { Release::Mark } else { Release::Send }
    }

    /// Returns whether marks of the low-latency queue do not suffice.
    fn is_overloaded(&self) -> bool {
        let coupled = self.probability * self.law.coupling;
        match self.law.rules {
            Rules::Rfc9332 => coupled >= ONE,
            Rules::Linux => coupled > ONE,
        }
    }

    /// Returns whether a packet is hit by the square of the base probability.
    fn draws_square(&mut self, sum: usize) -> bool {
        match self.law.rules {
            Rules::Rfc9332 => {
                let square = (u128::from(self.probability) * u128::from(self.probability)) >> 56;
                self.adds(sum, square as u64)
            }
            Rules::Linux => {
                let probability = self.probability;
                self.random.bits() >> 8 <= probability && self.random.bits() >> 8 <= probability
            }
        }
    }

    /// Adds a likelihood to a sum; returns whether that is more than certainty now, which is taken
    /// from it then.
    fn adds(&mut self, sum: usize, likelihood: u64) -> bool {
        let sum = &mut self.sums[sum];
        *sum += likelihood.min(ONE);
        let is_above = *sum > ONE;
        if is_above {
            *sum -= ONE;
        }
        is_above
    }

    /// Takes the steps that are due.
    #[inline]
    fn catch_up(&mut self, now: Instant) {
        if self.next.is_none_or(|next| now >= next) {
            self.take_steps(now);
        }
    }

    #[cold]
    fn take_steps(&mut self, now: Instant) {
        let update = Duration::from_nanos(self.law.update);
        let Some(mut next) = self.next else {
            self.next = Some(now.after(update));
            return;
        };
        let waits = self.flows.pair_waits();
        for _ in 0..STEPS_MAX {
            let delay = waits.iter().flatten().map(|&since| next.since(since).as_nanos()).max();
            self.step(delay.unwrap_or(0));
            next = next.after(update);
            if next > now || next == Instant::MAX {
                break;
            }
        }
        if next <= now {
            let missed = now.since(next).as_nanos() / self.law.update + 1;
            next = next.after(Duration::from_nanos(missed.saturating_mul(self.law.update)));
        }
        self.next = Some(next);
    }

    /// Moves the base probability while the longer queue's delay is `delay`.
    fn step(&mut self, delay: u64) {
        let law = &self.law;
        let delay = delay.min(DELAY_MAX);
        let above = i128::from(delay) - i128::from(law.target);
        let change = i128::from(delay) - i128::from(self.delay_before);
        self.delay_before = delay;
        let moved = match law.rules {
            Rules::Rfc9332 => {
                let gained = i128::from(law.alpha) * above + i128::from(law.beta) * change;
                ((gained << 40) / SECOND) << 8
            }
            Rules::Linux => {
                let gained = law.scaled(law.alpha) * above + law.scaled(law.beta) * change;
                (gained / 64) << 24
            }
        };
        let most = if law.drops_on_overload { ONE } else { ONE / law.coupling };
        let probability = (i128::from(self.probability) + moved).clamp(0, i128::from(most));
        self.probability = probability as u64;
    }
}

impl Law {
    fn from_params(params: &Params, place: Place) -> Self {
        let number = |name, default| params.number(name).unwrap_or(default);
        let time = |name, default| params.duration(name).map_or(default, Duration::as_nanos);
        let rules = match params.choice("rules") {
            Some("linux") => Rules::Linux,
            _ => Rules::Rfc9332,
        };
        let (floor, step_floor) = match rules {
            Rules::Rfc9332 => (0, 2),
            Rules::Linux => (2 * place.mtu.get(), 0),
        };
        let plan = PairPlan {
            mask: if params.choice("identifier") == Some("ect") { ECN_MASK } else { ECT_1 },
            nqb: params.flag("nqb") == Some(true),
            protection: number("protection", 10).min(100) as u32,
            mtu: place.mtu.get().min(u64::from(u32::MAX)) as u32,
        };
        Self {
            rules,
            target: time("target", 15 * MILLI).min(DELAY_MAX),
            update: time("update", 16 * MILLI),
            alpha: number("alpha", 41),
            beta: number("beta", 819),
            coupling: number("coupling", 2).clamp(1, 255),
            step: time("step", MILLI),
            ramp: time("ramp", 0),
            step_packets: params.number("step_packets"),
            step_floor: number("step_floor", step_floor),
            floor,
            drops_on_overload: params.choice("overload") != Some("mark"),
            early: params.flag("early") == Some(true),
            plan,
        }
    }

    /// Returns the probability that the low-latency queue has by its own delay, while so many
    /// packets wait in it behind the one that leaves.
    fn own(&self, delay: u64, behind: u64) -> u64 {
        if behind < self.step_floor {
            return 0;
        }
        if let Some(most) = self.step_packets {
            return if behind > most { ONE } else { 0 };
        }
        let Some(beyond) = delay.checked_sub(self.step).filter(|beyond| *beyond > 0) else {
            return 0;
        };
        if beyond >= self.ramp {
            return ONE;
        }
        (u128::from(beyond) * u128::from(ONE) / u128::from(self.ramp)) as u64
    }

    /// Returns a gain in Linux's fixed point: in 2^-32 a 64 ns.
    fn scaled(&self, gain: u64) -> i128 {
        i128::from((gain * u64::from(u32::MAX)) >> 2) / SECOND
    }
}

const TIME: Kind = Kind::Quantity(Dimension::Duration);
const GAIN: Kind = Kind::Number(0, (1 << 23) - 1);
const MILLI: u64 = 1_000_000;
const SECOND: i128 = 1_000_000_000;
/// Longer delays count as this one, 13 days, which leaves 40 bits for fractions beside the gains.
const DELAY_MAX: u64 = 1 << 50;
/// Probability 1 in fixed point; 255 of it fit 64 bits.
const ONE: u64 = 1 << 56;
/// Most packets that a parameter counts.
const PACKETS_MAX: u64 = 1 << 24;
/// The ECN field of L4S, and a bit of it in CE.
const ECT_1: u8 = 1;
/// Places in the sums.
const LOW_SUM: usize = 0;
const CLASSIC_SUM: usize = 1;
/// Steps are at least a millisecond apart.
const UPDATE_MIN: u64 = MILLI;
/// Bound: steps of DualPI2's probability in a row without a packet, 16 s of the default ones; later
/// ones are skipped.
const STEPS_MAX: u32 = 1000;

state!(DualPi2(state));
// The store writes the flows, with their packets.
state!(State {
    probability, delay_before, sums, next, random;
    kept: flows, limit, law;
    check: |state: &Self| state.probability <= ONE && state.sums.iter().all(|sum| *sum <= ONE)
});

#[cfg(test)]
mod tests {
    use super::super::trial::params;
    use super::*;
    use crate::ids::LeafId;
    use crate::parameter::Value;
    use crate::units::Rate;

    fn built(words: &[(&'static str, &'static str)], numbers: &[(&'static str, &str)]) -> DualPi2 {
        built_of(words, params(numbers, &[]))
    }

    fn built_of(words: &[(&'static str, &'static str)], mut params: Params) -> DualPi2 {
        let rate = Rate::new(10_000_000).expect("not zero");
        let place = Place { leaf: LeafId(0), rate, mtu: Bytes::new(1514), seed: 1 };
        words.iter().for_each(|(name, word)| params.set(name, Value::Choice(word)));
        DualPi2::build(&params, place).expect("the parameters are valid")
    }

    fn candidate(traffic_class: u8) -> Candidate {
        Candidate { length: Bytes::new(1000), arrived: Instant::ZERO, traffic_class, flow: 1 }
    }

    /// Decides about a packet of the low-latency queue that waited so long, with so many behind it.
    fn low(dual: &mut DualPi2, delay: u64, behind: u64) -> Release {
        let own = dual.0.law.own(delay, behind);
        dual.0.low(candidate(ECT_1), own, true)
    }

    #[test]
    fn a_step_is_alpha_times_the_distance_and_beta_times_the_change() {
        for (rules, exact) in [("rfc9332", 1e-12), ("linux", 1e-3)] {
            // delay and delay before in ms, change of the probability
            let rows = [
                (15, 15, 0.0),
                (25, 15, 0.01 * (41.0 + 819.0) / 256.0),
                (15, 25, -0.01 * 819.0 / 256.0),
                (115, 115, 0.1 * 41.0 / 256.0),
            ];
            for (delay, before, expected) in rows {
                let mut dual = built(&[("rules", rules)], &[]);
                dual.0.probability = ONE / 2;
                dual.0.delay_before = before * MILLI;
                dual.0.step(delay * MILLI);
                let change = dual.0.probability as f64 / ONE as f64 - 0.5;
                assert!((change - expected).abs() < exact * 0.1, "{rules} {delay}: {change}");
            }
        }
    }

    #[test]
    fn the_classic_queue_is_hit_by_the_square() {
        for rules in ["rfc9332", "linux"] {
            let mut dual = built(&[("rules", rules)], &[]);
            dual.0.probability = ONE / 10;
            let hits = (0..100_000).filter(|_| dual.0.draws_square(CLASSIC_SUM)).count();
            assert!((900..1100).contains(&hits), "{rules}: {hits}");
            let marks = (0..10_000).filter(|_| low(&mut dual, 0, 9) == Release::Mark).count();
            assert!((1900..2100).contains(&marks), "{rules}: {marks}");
            // A packet that cannot be marked is dropped, another one is marked.
            let mut releases = [0; 3];
            for step in 0..100_000u32 {
                match dual.0.classic(candidate(if step % 3 == 0 { 0 } else { 0b10 })) {
                    Release::Send => releases[0] += 1,
                    Release::Mark => releases[1] += 1,
                    Release::Drop(_) => releases[2] += 1,
                }
            }
            assert!(releases[1] > 200 && releases[2] > 200, "{rules}: {releases:?}");
        }
    }

    #[test]
    fn the_step_marks_all_and_the_ramp_some() {
        for rules in ["rfc9332", "linux"] {
            let mut step = built(&[("rules", rules)], &[]);
            assert_eq!(low(&mut step, MILLI, 9), Release::Send);
            // The first likelihood of 1 is not more than 1.
            low(&mut step, MILLI + 1, 9);
            assert_eq!(low(&mut step, MILLI + 1, 9), Release::Mark, "{rules}");
            let mut ramp = built(&[("rules", rules)], &[("step", "800 us"), ("ramp", "400 us")]);
            let mut marks = |micros: u64| {
                let is_marked = |_: &u32| low(&mut ramp, micros * 1000, 9) == Release::Mark;
                (0..10_000).filter(is_marked).count()
            };
            assert!((2400..2600).contains(&marks(900)), "{rules}");
            assert!(marks(1200) >= 9_999 && marks(800) == 0, "{rules}");
        }
    }

    #[test]
    fn overload_drops_from_both_or_marks_the_one() {
        for rules in ["rfc9332", "linux"] {
            let mut dual = built(&[("rules", rules)], &[]);
            dual.0.probability = ONE / 10 * 7;
            let drop = Release::Drop(DropReason::Early);
            let drops = (0..10_000).filter(|_| low(&mut dual, 0, 9) == drop).count();
            assert!((4700..5100).contains(&drops), "{rules}: {drops}");
            assert_eq!(
                (0..10).filter(|_| dual.0.classic(candidate(0b10)) == Release::Mark).count(),
                0
            );
            let mut marks = built(&[("rules", rules), ("overload", "mark")], &[]);
            (0..1_000).for_each(|_| marks.0.step(500 * MILLI));
            assert_eq!(marks.0.probability, ONE / 2, "{rules}");
            assert!((0..100).all(|_| low(&mut marks, 0, 9) != drop), "{rules}");
        }
    }

    #[test]
    fn the_step_counts_while_packets_wait_behind() {
        // rules, parameters, packets behind, whether a packet that waited 5 ms is marked
        type Numbers = &'static [(&'static str, &'static str)];
        let rows: [(&str, Numbers, u64, bool); 7] = [
            ("rfc9332", &[], 1, false),
            ("rfc9332", &[], 2, true),
            ("rfc9332", &[("step_floor", "0")], 0, true),
            ("linux", &[], 0, true),
            ("linux", &[("step_floor", "3")], 2, false),
            ("linux", &[("step_packets", "5")], 5, false),
            ("linux", &[("step_packets", "5")], 6, true),
        ];
        for (rules, numbers, behind, expected) in rows {
            let dual = built(&[("rules", rules)], numbers);
            assert_eq!(dual.0.law.own(5 * MILLI, behind) == ONE, expected, "{numbers:?} {behind}");
        }
    }

    #[test]
    fn packets_are_hit_when_they_arrive_where_the_policy_says_so() {
        for rules in ["rfc9332", "linux"] {
            let params = params(&[], &[("early", true)]);
            let mut dual = built_of(&[("rules", rules)], params);
            dual.0.probability = ONE / 5;
            let full = Count { packets: 10, bytes: 10_000 };
            let mut hits = |traffic_class: u8, hit: Admission| {
                let now = Instant::ZERO;
                let admitted = |_: &u32| dual.admit(now, candidate(traffic_class), full) == hit;
                (0..10_000).filter(admitted).count()
            };
            assert!((3800..4200).contains(&hits(ECT_1, Admission::Mark)), "{rules}");
            assert!((300..500).contains(&hits(0, Admission::Refuse(DropReason::Early))), "{rules}");
        }
    }

    #[test]
    fn what_cannot_be_marked_in_the_low_latency_queue_passes() {
        let mut dual = built(&[], &[]);
        dual.0.probability = ONE / 2;
        assert_eq!(dual.admit(Instant::ZERO, candidate(0), Count::default()), Admission::Accept);
        let full = Count { packets: 10_000, bytes: 10_000_000 };
        let refused = Admission::Refuse(DropReason::Full);
        assert_eq!(dual.admit(Instant::ZERO, candidate(0), full), refused);
    }

    #[test]
    fn extremes_do_not_overflow() {
        for rules in ["rfc9332", "linux"] {
            let gains = [("alpha", "8388607"), ("beta", "8388607"), ("coupling", "255")];
            let mut dual = built(&[("rules", rules)], &gains);
            for delay in [u64::MAX, 0, u64::MAX, u64::MAX] {
                dual.0.step(delay);
                low(&mut dual, u64::MAX, u64::MAX);
                assert!(dual.0.probability <= ONE);
            }
            dual.0.catch_up(Instant::ZERO);
            dual.0.catch_up(Instant::MAX);
        }
    }
}
