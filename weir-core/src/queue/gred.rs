//! Generalised RED, as Linux has it: up to eight virtual queues in one, each with thresholds of its
//! own [linux sch_gred; red93 §4] [algorithms §9.21].
//!
//! Packets leave in the order in which they came. The traffic class of a packet leads to its
//! virtual queue, which counts the bytes that wait there, and drops or marks by the average, as
//! `red_linux.rs` has it. With `grio` priorities couple the queues: each adds the averages of all
//! queues with a better priority to its own, so that packets out of profile are dropped first; and
//! if two have the same priority, all have one average, that of the whole leaf.
//!
//! In Linux a mark within the machine (`tc_index`) chooses the queue, which no other machine sees.
//!
//! Invariant: `waiting` lists the packets of the leaf in their order, but for packets that a change
//! brought, which leave first; a queue's bytes are those of its packets in the list.

use super::red_linux::{Action, Average, Decay, Plan};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Reading, Release, limit, refused, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Kind, Parameter, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant, Quantity, Share};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// The virtual queues, boxed to keep droppers small.
pub struct Gred(Box<State>);

struct State {
    limit: Limit,
    picks: Picks,
    /// The queue of packets whose own there is not.
    usual: usize,
    mode: Mode,
    ecn: bool,
    /// Whether above `max` packets are dropped that could be marked.
    hard: bool,
    queues: [Queue; QUEUES],
    /// The average of the leaf, if all queues have one.
    shared: Average,
    waiting: VecDeque<Waiting>,
    random: Random,
}

/// A virtual queue.
struct Queue {
    /// Its thresholds; absent if it is not in use.
    plan: Option<Plan>,
    /// The most bytes that wait in it.
    most: u64,
    priority: u64,
    average: Average,
    bytes: u64,
}

/// A packet that waits.
#[derive(Clone, Copy, Default)]
struct Waiting {
    /// The number of its queue; [`QUEUES`] if it has none.
    queue: u32,
    bytes: u32,
}

/// The field that leads to a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Picks {
    /// The upper three bits of the DSCP.
    Precedence,
    /// The drop precedence of assured forwarding, 1 to 3, and 0 for other packets.
    Drop,
}

/// How the queues depend on each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Alone,
    /// Each counts those of better priority.
    Sums,
    /// All have one average.
    Shared,
}

impl DropperDiscipline for Gred {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "gred",
        summary: "RED with up to eight virtual queues in one, chosen by the traffic class.",
        parameters: PARAMETERS,
        sources: &["linux sch_gred", "red93", "algorithms §9.21"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let usual = place.rate.transmit_time(Bytes::new(PACKET));
        let packet_time = params.duration("pkttime").unwrap_or(usual);
        let mut queues = [const { Queue::UNUSED }; QUEUES];
        let is_written = NAMES.iter().any(|names| params.bytes(names.max).is_some());
        for (number, queue) in queues.iter_mut().enumerate() {
            let max = match (params.bytes(NAMES[number].max), is_written) {
                (Some(max), _) => max.get(),
                (None, false) => DEFAULTS[number],
                (None, true) => 0,
            };
            if max > 0 {
                *queue = Queue::new(params, number, max, packet_time)?;
            }
        }
        let number = params.number("default").unwrap_or(1).min(QUEUES as u64 - 1) as usize;
        Ok(Self(Box::new(State {
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            picks: match params.choice("by") {
                Some("precedence") => Picks::Precedence,
                _ => Picks::Drop,
            },
            usual: if queues[number].plan.is_some() { number } else { QUEUES },
            mode: Mode::of(params.flag("grio") == Some(true), &queues),
            ecn: params.flag("ecn") == Some(true),
            hard: params.flag("harddrop") == Some(true),
            queues,
            shared: Average::EMPTY,
            waiting: VecDeque::new(),
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for Gred {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        state.forget_refused(backlog);
        let number = state.number(arriving.traffic_class);
        if number == QUEUES {
            return state.queue(arriving, number, backlog, Admission::Accept);
        }
        let others = match state.mode {
            Mode::Sums => state.better(number),
            Mode::Alone | Mode::Shared => 0,
        };
        let queue = &mut state.queues[number];
        let Some(plan) = &queue.plan else { return Admission::Refuse(DropReason::Full) };
        let own = match state.mode {
            Mode::Shared => backlog.bytes,
            Mode::Alone | Mode::Sums => queue.bytes,
        };
        if state.mode == Mode::Shared {
            queue.average.follow(&state.shared);
        }
        queue.average.arrived(plan, now, own);
        if state.mode == Mode::Shared {
            state.shared.follow(&queue.average);
        }
        let action = queue.average.act(plan, &mut state.random, others);
        let fits = Bytes::new(own).plus(arriving.length) <= Bytes::new(queue.most);
        let marks = state.ecn && arriving.is_markable();
        let admission = match action {
            Action::Pass => Admission::Accept,
            Action::Early if marks => Admission::Mark,
            Action::Forced if marks && !state.hard => Admission::Mark,
            Action::Early | Action::Forced => return Admission::Refuse(DropReason::Early),
        };
        if !fits {
            return Admission::Refuse(DropReason::Full);
        }
        state.queue(arriving, number, backlog, admission)
    }

    fn release(&mut self, now: Instant, _first: Candidate, backlog: Count) -> Release {
        let state = &mut *self.0;
        state.forget_refused(backlog);
        if state.waiting.len() as u64 == backlog.packets
            && let Some(left) = state.waiting.pop_front()
        {
            state.left(left);
            // Linux's queues are idle as soon as their last packet leaves.
            if let Some(queue) = state.queues.get_mut(left.queue as usize)
                && queue.bytes == 0
            {
                queue.average.idle(now);
            }
        }
        if backlog.packets <= 1 {
            state.shared.idle(now);
        }
        Release::Send
    }

    fn reading(&self) -> Option<Reading> {
        let averages = self.0.queues.iter().filter_map(Queue::thousandths);
        Some(Reading { what: "largest average in bytes", thousandths: averages.max()? })
    }
}

impl State {
    /// Returns the number of the queue for a traffic class; [`QUEUES`] if there is none.
    fn number(&self, traffic_class: u8) -> usize {
        let number = usize::from(match self.picks {
            Picks::Precedence => traffic_class >> 5,
            // [rfc2597 §6] Bits 3 and 4 of the DS byte, of classes 1 to 4.
            Picks::Drop if (1..=4).contains(&(traffic_class >> 5)) => traffic_class >> 3 & 0b11,
            Picks::Drop => 0,
        });
        if self.queues[number].plan.is_some() { number } else { self.usual }
    }

    /// Returns the sum of the averages of queues with a better priority, but for idle ones.
    fn better(&self, number: usize) -> u64 {
        let priority = self.queues[number].priority;
        let better = self.queues.iter().filter(|queue| queue.plan.is_some());
        better
            .filter(|queue| queue.priority < priority && !queue.average.is_idle())
            .map(|queue| queue.average.scaled())
            .fold(0, u64::saturating_add)
    }

    /// Counts a packet that waits from now on, if the leaf has room.
    fn queue(
        &mut self,
        arriving: Candidate,
        number: usize,
        backlog: Count,
        admission: Admission,
    ) -> Admission {
        if !self.limit.fits(arriving.length, backlog) {
            return Admission::Refuse(DropReason::Full);
        }
        let bytes = arriving.length.get().min(u64::from(u32::MAX)) as u32;
        self.waiting.push_back(Waiting { queue: number as u32, bytes });
        if let Some(queue) = self.queues.get_mut(number) {
            queue.bytes += u64::from(bytes);
        }
        admission
    }

    fn left(&mut self, packet: Waiting) {
        if let Some(queue) = self.queues.get_mut(packet.queue as usize) {
            queue.bytes = queue.bytes.saturating_sub(u64::from(packet.bytes));
        }
    }

    /// Forgets packets that were accepted here and found no room in the store.
    fn forget_refused(&mut self, backlog: Count) {
        while self.waiting.len() as u64 > backlog.packets {
            let Some(packet) = self.waiting.pop_back() else { break };
            self.left(packet);
        }
    }
}

impl Queue {
    const UNUSED: Queue =
        Queue { plan: None, most: 0, priority: 0, average: Average::EMPTY, bytes: 0 };

    fn new(
        params: &Params,
        number: usize,
        max: u64,
        packet_time: Duration,
    ) -> Result<Self, BuildError> {
        let names = &NAMES[number];
        let min = params.bytes(names.min).map_or(max / 3, Bytes::get);
        if min == 0 || min >= max {
            let message =
                alloc::format!("thresholds of {min} and {max} bytes; raise `{}`", names.max);
            return refused(names.max, message);
        }
        let pmax = match params.quantity(names.pmax) {
            Some(Quantity::Share(share)) => share,
            _ => Share::from_ppb(PMAX).expect("2 % is a share"),
        };
        let weight = params.number(names.weight).unwrap_or(WEIGHT).clamp(1, WEIGHT_MAX);
        let weight_log = weight.ilog2();
        let halves = halves(packet_time, weight_log);
        Ok(Self {
            plan: Some(Plan::new(min..max, pmax, Decay { weight_log, halves })),
            most: params.bytes(names.limit).map_or(4 * max, Bytes::get),
            priority: params.number(names.prio).unwrap_or(number as u64),
            ..Self::UNUSED
        })
    }

    fn thousandths(&self) -> Option<u64> {
        Some(self.average.thousandths(self.plan.as_ref()?))
    }
}

impl Mode {
    fn of(grio: bool, queues: &[Queue; QUEUES]) -> Self {
        let used = || queues.iter().filter(|queue| queue.plan.is_some());
        let alike = |one: &Queue| used().filter(|queue| queue.priority == one.priority).count() > 1;
        match grio {
            false => Mode::Alone,
            true if used().any(alike) => Mode::Shared,
            true => Mode::Sums,
        }
    }
}

/// Returns the pause in which an average of this weight halves, in nanoseconds: that in which so
/// many packets could have left, -1/ln(1 - 1/2^`log`) of them, to three terms.
fn halves(packet_time: Duration, log: u32) -> u64 {
    let weight = 1u128 << log;
    let packets = 12 * weight * weight - 6 * weight - 1;
    let nanos = u128::from(packet_time.as_nanos()) * packets / (12 * weight);
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// The parameters of a virtual queue.
struct Names {
    min: &'static str,
    max: &'static str,
    limit: &'static str,
    pmax: &'static str,
    weight: &'static str,
    prio: &'static str,
}

macro_rules! virtual_queues {
    ($($number:literal)*) => {
        const NAMES: [Names; QUEUES] = [$(Names {
            min: concat!("min_", $number),
            max: concat!("max_", $number),
            limit: concat!("limit_", $number),
            pmax: concat!("pmax_", $number),
            weight: concat!("weight_", $number),
            prio: concat!("prio_", $number),
        },)*];

        const PARAMETERS: &[Parameter] = &[
            limit("1000 packets"),
            row("by", BY, "drop", "What leads to a queue: AF's drop precedence or the precedence."),
            row("default", Kind::Number(0, 7), "1", "The queue of packets whose own there is not."),
            row("grio", Kind::Flag, "false", "Whether queues count those of better priority."),
            row(
                "pkttime",
                Kind::Quantity(Dimension::Duration),
                "that of 1000 B at the line's rate",
                "The time of a packet, by which averages decay in a pause.",
            ),
            row("harddrop", Kind::Flag, "false", "Whether above `max` packets are never marked."),
            ECN,
            $(row(
                concat!("max_", $number),
                SIZE,
                "none; 90, 60 and 30 KB of 1 to 3 if none is written",
                concat!("The average of queue ", $number, " from which on all are dropped."),
            ),
            row(
                concat!("min_", $number),
                SIZE,
                concat!("a third of `max_", $number, "`"),
                "The average below which none is dropped.",
            ),
            row(
                concat!("limit_", $number),
                SIZE,
                concat!("four times `max_", $number, "`"),
                "The most bytes that wait in it.",
            ),
            row(
                concat!("pmax_", $number),
                Kind::Quantity(Dimension::Share),
                "2 %",
                "The probability of a drop just below its `max`.",
            ),
            row(
                concat!("weight_", $number),
                Kind::Number(1, WEIGHT_MAX),
                "64",
                "Arrivals over which its average is taken; rounded down to a power of two.",
            ),
            row(
                concat!("prio_", $number),
                Kind::Number(0, 255),
                $number,
                "Its priority, 0 the best.",
            ),)*
        ];
    };
}

virtual_queues!("0" "1" "2" "3" "4" "5" "6" "7");

const QUEUES: usize = 8;
/// The upper thresholds if none is written.
const DEFAULTS: [u64; QUEUES] = [0, 90_000, 60_000, 30_000, 0, 0, 0, 0];
const BY: Kind = Kind::Choice(&["drop", "precedence"]);
/// Thresholds are shifted by the logarithm of the weight, and still fit.
const SIZE: Kind = Kind::Size(1, 1 << 30);
const WEIGHT: u64 = 64;
const WEIGHT_MAX: u64 = 1 << 20;
/// 2 % in parts per billion.
const PMAX: u64 = 20_000_000;
/// The length of the packet whose time on the line is the unit of pauses.
const PACKET: u64 = 1000;

state!(Gred(state));
state!(State {
    queues, shared, waiting, random;
    kept: limit, picks, usual, mode, ecn, hard;
    check: State::is_sound
});
state!(Queue { average, bytes; kept: plan, most, priority });
state!(Waiting { queue, bytes; check: |packet: &Self| packet.queue <= QUEUES as u32 });

impl State {
    /// Whether each queue holds the bytes of its packets.
    fn is_sound(&self) -> bool {
        let mut bytes = [0; QUEUES];
        for packet in &self.waiting {
            if let Some(sum) = bytes.get_mut(packet.queue as usize) {
                *sum += u64::from(packet.bytes);
            }
        }
        self.queues.iter().map(|queue| queue.bytes).eq(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;

    const AF11: u8 = 0x28;
    const AF12: u8 = 0x30;
    const AF13: u8 = 0x38;

    #[test]
    fn the_traffic_class_leads_to_a_queue() {
        let drop = Trial::<Gred>::new(&params(&[], &[]));
        // DS byte, queue; 1 is the one of packets that have none.
        for (byte, number) in [(AF11, 1), (AF12, 2), (AF13, 3), (0, 1), (0xb8, 1), (0x98, 3)] {
            assert_eq!(drop.dropper.0.number(byte), number, "{byte:#x}");
        }
        let mut numbers = params(&[("max_5", "9 KB"), ("max_0", "9 KB"), ("default", "3")], &[]);
        numbers.set("by", crate::parameter::Value::Choice("precedence"));
        let precedence = Trial::<Gred>::new(&numbers);
        for (byte, number) in [(0, 0), (0xb8, 5), (AF11, QUEUES)] {
            assert_eq!(precedence.dropper.0.number(byte), number, "{byte:#x}");
        }
    }

    /// Offers the classes in turn to a leaf that holds `waiting` packets of 1000 B; returns the
    /// drops of each.
    fn drops(plan: &Params, classes: &[u8], waiting: usize) -> alloc::vec::Vec<usize> {
        let mut trial = Trial::<Gred>::new(plan);
        let mut drops = alloc::vec![0; classes.len()];
        for step in 0..40_000 {
            trial.pause(800);
            let index = step % classes.len();
            drops[index] += usize::from(!trial.offer(1000, classes[index]));
            while trial.waiting.len() > waiting {
                trial.serve();
            }
            assert!(trial.dropper.0.is_sound());
            assert_eq!(trial.dropper.0.waiting.len(), trial.waiting.len());
        }
        drops
    }

    const SMALL: [(&str, &str); 3] = [("max_1", "60 KB"), ("max_2", "60 KB"), ("max_3", "60 KB")];

    #[test]
    fn queues_that_stand_alone_count_their_own_bytes() {
        let all = drops(&params(&SMALL, &[]), &[AF11, AF12, AF13], 45);
        // Fifteen packets of each wait, and each may have twenty.
        assert_eq!(all, [0, 0, 0]);
        assert!(drops(&params(&SMALL, &[]), &[AF11], 45)[0] > 200);
    }

    #[test]
    fn a_queue_counts_those_of_better_priority() {
        let all = drops(&params(&SMALL, &[("grio", true)]), &[AF11, AF12, AF13], 45);
        assert!(all[0] == 0 && all[1] > 100 && all[2] > all[1], "{all:?}");
    }

    #[test]
    fn queues_of_one_priority_share_an_average() {
        let numbers = [SMALL[0], SMALL[1], SMALL[2], ("prio_2", "1")];
        let plan = params(&numbers, &[("grio", true)]);
        let all = drops(&plan, &[AF11, AF12, AF13], 45);
        assert!(all.iter().all(|&drops| drops > 100), "{all:?}");
        assert_eq!(drops(&plan, &[AF11, AF12, AF13], 19), [0, 0, 0]);
    }

    #[test]
    fn above_the_threshold_packets_are_marked_or_dropped() {
        for hard in [false, true] {
            let flags = [("ecn", true), ("harddrop", hard)];
            let numbers = [("max_1", "4 KB"), ("weight_1", "1"), ("limit_1", "9 KB")];
            let mut trial = Trial::<Gred>::new(&params(&numbers, &flags));
            (0..20).for_each(|_| {
                trial.offer(1000, AF11 | 0b10);
            });
            assert_eq!(trial.waiting.len(), if hard { 4 } else { 9 });
            assert_eq!(trial.marked > 0, !hard);
        }
    }

    #[test]
    fn a_packet_that_found_no_room_is_not_counted() {
        let mut trial = Trial::<Gred>::new(&params(&[], &[]));
        trial.offer(1000, AF11);
        trial.offer(700, AF13);
        trial.waiting.pop();
        trial.offer(1000, AF12);
        let bytes = trial.dropper.0.queues.each_ref().map(|queue| queue.bytes);
        assert_eq!(bytes[..4], [0, 1000, 1000, 0]);
    }

    #[test]
    fn thresholds_out_of_order_are_refused() {
        let refusal = Trial::<Gred>::refusal(&params(&[("min_2", "9 KB"), ("max_2", "9 KB")], &[]));
        assert!(refusal.contains("raise `max_2`"), "{refusal}");
    }

    #[test]
    fn a_pause_halves_by_packets() {
        // weight, packets whose time halves the average
        for (log, expected) in [(2, 3.4761), (3, 7.4889), (6, 63.4987), (20, 1_048_575.5)] {
            let packets = halves(Duration::from_micros(1000), log) as f64 / 1e6;
            assert!((packets / expected - 1.0).abs() < 0.001, "{log}: {packets}");
        }
    }
}
