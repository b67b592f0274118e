//! FQ-PIE in one leaf, as Linux has it: flows take turns, new flows first, and PIE limits the delay
//! of each [linux sch_fq_pie, sch_pie; rfc8033; rfc8290 §4] [algorithms §9.13].
//!
//! `flows.rs` has the flows and their turns, which are those of FQ-CoDel. A packet is dropped or
//! marked when it arrives, by the probability of its flow; one that finds the leaf full is dropped,
//! whatever flow is longest. PIE is Linux's here, in its ticks of 64 ns and its fixed point: the
//! probability rests while a flow holds packets but none has left since the last step, a burst is
//! counted down by what leaves, and the gains are powers of two of one another.
//!
//! There is no timer: due steps of all flows are taken when a packet arrives or leaves. Invariant:
//! a flow that never held a packet is as one that was idle for long, so that it needs no state.

use super::flows::{FlowQueues, Order, Room};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Reading, Release, limit, refused, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::order::rounds::Rules;
use crate::packet::FlowKey;
use crate::parameter::{BuildError, Kind, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Flow queueing with PIE.
pub struct FqPie(Box<State>);

struct State {
    flows: FlowQueues,
    limit: Limit,
    law: Law,
    ecn: bool,
    /// The probability up to which packets are marked, in per cent.
    ecn_max: u64,
    /// By the flow's number; as long as the highest number in use.
    controls: Vec<Control>,
    /// When the next step is due; absent before the first packet.
    next: Option<Instant>,
    random: Random,
}

/// The control law.
struct Law {
    /// In ticks.
    target: u64,
    /// In nanoseconds.
    update: u64,
    /// In sixteenths per second.
    alpha: u64,
    beta: u64,
    by_length: bool,
    mtu: u64,
}

/// PIE of one flow; times in ticks of 64 ns.
#[derive(Clone, Copy)]
struct Control {
    delay: u64,
    delay_before: u64,
    /// The rest of the burst that may pass.
    burst: u64,
    /// When a packet left last.
    left_at: Option<Instant>,
    /// In units of 1/[`ONE`].
    probability: u64,
    /// Probabilities summed since the last drop.
    sum: u64,
}

impl DropperDiscipline for FqPie {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "fq-pie",
        summary: "Flows of the leaf take turns; PIE limits the delay of each.",
        parameters: &[
            limit("10240 packets"),
            row(
                "flows",
                Kind::Number(1, QUEUES_MAX),
                "1024",
                "Queues for flows: flows with the same hash share one.",
            ),
            row(
                "quantum",
                Kind::Size(QUANTUM_MIN, QUANTUM_MAX),
                "1514 B",
                "Bytes that a flow may send per round.",
            ),
            row("target", TIME, "15 ms", "The target delay."),
            row("update", TIME, "15 ms", "The time between two steps of the probabilities."),
            row("alpha", Kind::Number(0, 32), "2", "Weight of the distance, in 1/16 s."),
            row("beta", Kind::Number(0, 32), "20", "Weight of the change, in 1/16 s."),
            row("bytes", Kind::Flag, "false", "Whether long packets are dropped more often."),
            row(
                "hash",
                Kind::Choice(FlowKey::WORDS),
                "flow",
                "What a flow is: a connection (`flow`), or all packets from one address, to one, \
                 or between two.",
            ),
            ECN,
            row(
                "ecn_max",
                Kind::Number(0, 100),
                "10",
                "The probability in per cent above which packets are dropped that could be marked.",
            ),
        ],
        sources: &["linux sch_fq_pie", "rfc8033", "rfc8290 §4", "algorithms §9.13"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let number = |name, default| params.number(name).unwrap_or(default);
        let time = |name| params.duration(name).unwrap_or(Duration::from_millis(15)).as_nanos();
        let quantum = params.bytes("quantum").map_or(QUANTUM_DEFAULT, Bytes::get);
        let limit = Limit::from_params(params, &Self::DESCRIPTOR);
        let update = time("update");
        if update < UPDATE_MIN {
            let message = alloc::format!(
                "a step each {update} ns is more often than each millisecond; write at least \
                 `1 ms`"
            );
            return refused("update", message);
        }
        let quantum = quantum.clamp(QUANTUM_MIN, QUANTUM_MAX) as u32;
        let room = Room {
            queues: number("flows", QUEUES_DEFAULT).clamp(1, QUEUES_MAX) as u32,
            order: Order::Rounds(Rules::Linux, quantum),
            limit,
            memory: Bytes::new(u64::MAX),
            passes: false,
        };
        let law = Law {
            target: time("target") >> TICK,
            update,
            alpha: number("alpha", 2),
            beta: number("beta", 20),
            by_length: params.flag("bytes") == Some(true),
            mtu: place.mtu.get().max(1),
        };
        Ok(Self(Box::new(State {
            flows: FlowQueues::new(room),
            limit,
            law,
            ecn: params.flag("ecn") == Some(true),
            ecn_max: number("ecn_max", 10),
            controls: Vec::new(),
            next: None,
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for FqPie {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        state.catch_up(now);
        let (flow, of_flow) = state.flows.arriving(arriving.flow);
        let control = control(&mut state.controls, flow);
        if !state.limit.fits(arriving.length, backlog) {
            control.sum = 0;
            return Admission::Refuse(DropReason::Full);
        }
        if !control.draws(&state.law, arriving.length, of_flow, &mut state.random) {
            return Admission::Accept;
        }
        let is_low = control.probability <= ONE / 100 * state.ecn_max;
        if state.ecn && arriving.is_markable() && is_low {
            return Admission::Mark;
        }
        control.sum = 0;
        Admission::Refuse(DropReason::Early)
    }

    fn release(&mut self, now: Instant, first: Candidate, _backlog: Count) -> Release {
        let state = &mut *self.0;
        state.catch_up(now);
        let (flow, of_flow, _) = state.flows.first();
        let is_last = of_flow.packets <= 1;
        control(&mut state.controls, flow).left(now, first.arrived, is_last);
        Release::Send
    }

    fn flows(&self) -> Option<&FlowQueues> {
        Some(&self.0.flows)
    }

    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        Some(&mut self.0.flows)
    }

    fn reading(&self) -> Option<Reading> {
        let most = self.0.controls.iter().map(|control| control.probability).max()?;
        let thousandths = (u128::from(most) * 1000 / u128::from(ONE)) as u64;
        Some(Reading { what: "largest probability", thousandths })
    }
}

/// Returns the control of a flow.
fn control(controls: &mut Vec<Control>, flow: u32) -> &mut Control {
    if controls.len() <= flow as usize {
        controls.resize(flow as usize + 1, Control::default());
    }
    &mut controls[flow as usize]
}

impl State {
    /// Takes the steps that are due, of all flows.
    fn catch_up(&mut self, now: Instant) {
        let update = Duration::from_nanos(self.law.update);
        let Some(mut next) = self.next else {
            self.next = Some(now.after(update));
            return;
        };
        for _ in 0..STEPS_MAX {
            if now < next {
                break;
            }
            for (flow, control) in self.controls.iter_mut().enumerate() {
                control.step(&self.law, self.flows.backlog(flow as u32).bytes);
            }
            next = next.after(update);
        }
        if next <= now {
            let missed = now.since(next).as_nanos() / self.law.update + 1;
            next = next.after(Duration::from_nanos(missed.saturating_mul(self.law.update)));
        }
        self.next = Some(next);
    }
}

impl Control {
    /// Returns whether the arriving packet is to be dropped or marked.
    fn draws(&mut self, law: &Law, length: Bytes, of_flow: Count, random: &mut Random) -> bool {
        let calm = self.delay < law.target / 2 && self.probability < ONE / 5;
        if self.burst > 0 || calm || of_flow.bytes < 2 * law.mtu {
            return false;
        }
        let probability = match law.by_length && length.get() <= law.mtu {
            true => length.get().saturating_mul(self.probability / law.mtu),
            false => self.probability,
        };
        self.sum = if probability == 0 { 0 } else { self.sum.saturating_add(probability) };
        if self.sum < ONE / 100 * 85 {
            return false;
        }
        if self.sum >= ONE / 2 * 17 {
            return true;
        }
        let drawn = random.bits() >> 8 < probability;
        if drawn {
            self.sum = 0;
        }
        drawn
    }

    /// Measures the delay of a packet that leaves, the last one of its flow or not.
    fn left(&mut self, now: Instant, arrived: Instant, is_last: bool) {
        self.delay = if is_last { 0 } else { ticks(now).saturating_sub(ticks(arrived)) };
        let since = self.left_at.replace(now);
        let passed = since.map_or(0, |since| ticks(now).saturating_sub(ticks(since)));
        self.burst = self.burst.saturating_sub(passed);
    }

    /// Moves the probability, while so many bytes wait.
    fn step(&mut self, law: &Law, backlog: u64) {
        let (delay, before) = (self.delay, self.delay_before);
        let mut is_updated = delay != 0 || backlog == 0;
        let part = |gain: u64| (gain * (ONE / TICKS_PER_SECOND)) >> 4;
        let (mut alpha, mut beta) = (part(law.alpha), part(law.beta));
        if self.probability < ONE / 10 {
            (alpha, beta) = (alpha >> 1, beta >> 1);
            let mut power = 100;
            while self.probability < ONE / power && power <= 1_000_000 {
                (alpha, beta) = (alpha >> 2, beta >> 2);
                power *= 10;
            }
        }
        let mut delta = i128::from(alpha) * (i128::from(delay) - i128::from(law.target))
            + i128::from(beta) * (i128::from(delay) - i128::from(before));
        if delta > i128::from(ONE / 50) && self.probability >= ONE / 10 {
            delta = i128::from(ONE / 100 * 2);
        }
        if delay > DELAY_HIGH {
            delta += i128::from(ONE / 50);
        }
        let moved = i128::from(self.probability) + delta;
        // Linux lets it grow beyond certainty, as far as its 64 bits reach.
        let overflows = moved > i128::from(u64::MAX);
        self.probability = if overflows { ONE } else { moved.max(0) as u64 };
        is_updated &= !overflows;
        if delay == 0 && before == 0 && is_updated {
            self.probability -= self.probability / 64;
        }
        let half = law.target / 2;
        if delay < half && before < half && self.probability == 0 {
            *self = Self { delay, ..Self::default() };
        }
        self.delay_before = delay;
    }
}

impl Default for Control {
    /// That of a flow that was idle for long.
    fn default() -> Self {
        let (delay, delay_before, left_at, probability, sum) = Default::default();
        Self { delay, delay_before, burst: BURST, left_at, probability, sum }
    }
}

fn ticks(at: Instant) -> u64 {
    at.as_nanos() >> TICK
}

const TIME: Kind = Kind::Quantity(Dimension::Duration);
/// The logarithm of a tick in nanoseconds.
const TICK: u32 = 6;
const TICKS_PER_SECOND: u64 = 15_625_000;
/// Probability 1 in fixed point.
const ONE: u64 = u64::MAX >> 8;
/// How long no packet is dropped after a quiet time: 150 ms.
const BURST: u64 = 150_000_000 >> TICK;
/// A delay above it, a quarter of a second, raises the probability further.
const DELAY_HIGH: u64 = 250_000_000 >> TICK;
/// Steps are at least a millisecond apart.
const UPDATE_MIN: u64 = 1_000_000;
/// Bound: steps of the probabilities of FQ-PIE in a row without a packet, 15 s of the default ones;
/// later ones are skipped.
const STEPS_MAX: u32 = 1000;
const QUEUES_DEFAULT: u64 = 1024;
/// Bound: queues for flows of FQ-PIE, as many as hash values; a policy with more is refused.
const QUEUES_MAX: u64 = 1 << 16;
/// An Ethernet frame of the usual MTU.
const QUANTUM_DEFAULT: u64 = 1514;
/// With less, a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
const QUANTUM_MAX: u64 = 1 << 30;

state!(FqPie(state));
// The store writes the flows, with their packets.
state!(State { next, random; rows: controls; kept: flows, limit, law, ecn, ecn_max });
state!(Control { delay, delay_before, burst, left_at, probability, sum });

#[cfg(test)]
mod tests {
    use super::super::trial::params;
    use super::*;
    use crate::ids::LeafId;
    use crate::units::Rate;

    fn built(numbers: &[(&'static str, &str)], flags: &[(&'static str, bool)]) -> FqPie {
        let rate = Rate::new(10_000_000).expect("not zero");
        let place = Place { leaf: LeafId(0), rate, mtu: Bytes::new(1514), seed: 1 };
        FqPie::build(&params(numbers, flags), place).expect("the parameters are valid")
    }

    const MILLI: u64 = 1_000_000 >> TICK;

    #[test]
    fn a_step_is_that_of_the_kernel() {
        let law = &built(&[], &[]).0.law;
        // probability, delay now and before in ms, change in parts of certainty
        let rows = [
            (0.5, 30, 20, 0.014375),
            (0.1, 1030, 20, 0.04),
            (0.05, 30, 20, 0.014375 / 2.0),
            (0.005, 30, 20, 0.014375 / 8.0),
            (0.0000005, 30, 20, 0.014375 / 2048.0),
            (0.5, 0, 30, -0.039375),
        ];
        for (probability, delay, before, expected) in rows {
            let was = (probability * ONE as f64) as u64 + 64;
            let mut control = Control {
                delay: delay * MILLI,
                delay_before: before * MILLI,
                probability: was,
                ..Control::default()
            };
            control.step(law, 10_000);
            let change = (control.probability as f64 - was as f64) / ONE as f64;
            assert!((change - expected).abs() < 1e-6, "{probability} {delay}: {change}");
        }
    }

    #[test]
    fn a_flow_that_is_idle_forgets_and_may_burst_again() {
        let law = &built(&[], &[]).0.law;
        let mut control = Control { probability: ONE / 2, burst: 0, sum: 5, ..Control::default() };
        (0..2_000).for_each(|_| control.step(law, 0));
        assert_eq!((control.probability, control.burst, control.sum), (0, BURST, 0));
        // While packets wait that none leaves, it does not decay by its own.
        let mut waits = Control { probability: ONE / 2, ..Control::default() };
        waits.step(law, 10_000);
        assert!(waits.probability > ONE / 2 - ONE / 400);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let law = &built(&[("target", "500 h"), ("alpha", "32"), ("beta", "32")], &[]).0.law;
        for (delay, delay_before) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            for probability in [0, ONE, u64::MAX] {
                Control { delay, delay_before, probability, ..Control::default() }.step(law, 1);
            }
        }
        let mut pie = built(&[("update", "1 ms")], &[]);
        pie.0.catch_up(Instant::ZERO);
        pie.0.catch_up(Instant::MAX);
    }

    #[test]
    fn a_leaf_that_is_full_refuses_what_arrives() {
        let mut pie = built(&[("limit", "5 packets")], &[]);
        let packet = Candidate {
            length: Bytes::new(1000),
            arrived: Instant::ZERO,
            traffic_class: 0,
            flow: 9,
        };
        let full = Count { packets: 5, bytes: 5000 };
        let refused = Admission::Refuse(DropReason::Full);
        assert_eq!(pie.admit(Instant::ZERO, packet, full), refused);
        assert_eq!(pie.admit(Instant::ZERO, packet, Count::default()), Admission::Accept);
    }
}
