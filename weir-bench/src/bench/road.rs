//! A closed loop over the calls that the product makes: batches of stamped arrivals through
//! `serve`.
//!
//! A link at 400 Gbit/s is backlogged with a fixed population of packets. What left arrives again,
//! in batches of up to 32: each packet at a random leaf, with a random length, at the instant at
//! which the line has sent the bytes before it. So the line is never idle, and as many bytes arrive
//! as leave. One call of `serve` takes a batch and returns what leaves until the last of it has
//! arrived; that call alone is timed. It is the call that `weir up`, `weir sim` and `weir replay`
//! make.

use quanta::Clock;
use std::collections::VecDeque;
use std::hint::black_box;
use weir_core::event::Departure;
use weir_core::ids::{ClassId, Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::packet::Host;
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::queue::QueuePlan;
use weir_core::random::Random;
use weir_core::sched::{ClassSpec, Descriptor, Entry, Tree};
use weir_core::units::{Bytes, Dimension, Instant, Quantity, Rate, Share};

/// The lengths of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lengths {
    /// Of twelve packets seven have 64 bytes, four 594 and one 1 514, as on an Internet link.
    Mixed,
    /// All have this many bytes.
    Constant(u32),
}

impl Lengths {
    fn draw(self, random: &mut Random) -> u32 {
        match self {
            Self::Constant(bytes) => bytes,
            Self::Mixed => match random.below(12) {
                0..=6 => 64,
                7..=10 => 594,
                _ => 1_514,
            },
        }
    }
}

/// A backlogged link and the packets that circulate through it.
pub(crate) struct Road {
    pub(crate) link: Box<dyn AnyLink>,
    /// The processor's counter, which the peer's program reads too.
    clock: Clock,
    rate: Rate,
    lengths: Lengths,
    leaves: u32,
    random: Random,
    /// Bytes that have arrived since `start`.
    arrived: u64,
    /// When the first of them arrived.
    start: Instant,
    /// Packets that have left and not arrived again.
    waiting: VecDeque<Handle>,
    arrivals: Vec<Arrival>,
    until: Instant,
    departures: Vec<Departure>,
    /// When to call again if nothing arrives.
    due: Instant,
    explains: bool,
    /// The flows of packets, of as many hosts as a quarter of them; 0 where all are alike.
    flows: u32,
}

impl Road {
    /// A link with `leaves` leaves, in groups of `group` where the scheduler is hierarchical and
    /// `group` is not 0, else directly under the root; `population` packets wait in it.
    pub(crate) fn new(
        entry: &Entry,
        leaves: usize,
        group: usize,
        population: usize,
        lengths: Lengths,
    ) -> Self {
        let plan = plan(entry.descriptor, leaves, group, population);
        Self::through(&plan, leaves, 0, population, lengths)
    }

    /// As [`Road::new`], through a link of `plan`, with packets of so many flows.
    pub(crate) fn through(
        plan: &LinkPlan,
        leaves: usize,
        flows: u32,
        population: usize,
        lengths: Lengths,
    ) -> Self {
        let link = plan.build();
        let mut this = Self {
            link: link.unwrap_or_else(|error| panic!("{}: {error}", plan.scheduler)),
            clock: Clock::new(),
            rate: Rate::new(LINK_RATE).expect("not zero"),
            lengths,
            leaves: leaves as u32,
            random: Random::new(SEED, 0),
            arrived: 0,
            start: Instant::ZERO,
            waiting: VecDeque::with_capacity(population),
            arrivals: Vec::with_capacity(BATCH),
            until: Instant::ZERO,
            departures: Vec::with_capacity(population),
            due: Instant::ZERO,
            explains: false,
            flows,
        };
        for handle in 0..population as u32 {
            let (leaf, packet) = this.draw(Handle(handle));
            this.link.offer(Instant::ZERO, leaf, packet);
        }
        this
    }

    /// Returns the ns per packet over `packets` packets, without the time of the loop itself.
    pub(crate) fn run(&mut self, packets: u64) -> f64 {
        let (mut done, mut ticks) = (0u64, 0);
        while done < packets {
            self.next_batch();
            let start = self.clock.raw();
            self.serve();
            ticks += self.clock.raw().saturating_sub(start);
            done += self.departures.len() as u64;
            let waiting = &mut self.waiting;
            waiting.extend(self.departures.iter().map(|departure| departure.handle));
            self.link.take_dropped(&mut |dropped| waiting.push_back(dropped.handle));
        }
        self.clock.delta_as_nanos(0, ticks) as f64 / done as f64
    }

    /// Turns explanation on: the link explains why packets wait, and the sojourns are taken out.
    pub(crate) fn explain(&mut self) {
        self.link.explain(self.until, true);
        self.explains = true;
    }

    /// A function of its own for callgrind to count in: see `MEASURED`.
    #[inline(never)]
    fn serve(&mut self) {
        let due = self.link.serve(&self.arrivals, self.until, &mut self.departures);
        // Work after the call, or it would become a tail call, which is not counted.
        self.due = due.unwrap_or(self.until);
        if self.explains {
            self.link.take_sojourns(&mut |sojourns| {
                black_box(
                    sojourns.iter().map(|sojourn| sojourn.own_leaf().as_nanos()).sum::<u64>(),
                );
            });
        }
    }

    /// Lets packets that left arrive again, each when the line has sent the bytes before it.
    fn next_batch(&mut self) {
        self.departures.clear();
        self.arrivals.clear();
        for _ in 0..self.waiting.len().min(BATCH) {
            let handle = self.waiting.pop_front().expect("as many wait");
            let (leaf, packet) = self.draw(handle);
            self.arrivals.push(Arrival { at: self.sent_at(), leaf, packet });
            self.arrived += u64::from(packet.length);
        }
        if self.arrivals.is_empty() {
            // The scheduler holds every packet back until an instant that it named.
            (self.start, self.arrived) = (self.due.max(self.until), 0);
        }
        self.until = self.sent_at();
    }

    /// When the line has sent every byte that has arrived.
    fn sent_at(&self) -> Instant {
        self.start.after(self.rate.transmit_time(Bytes::new(self.arrived)))
    }

    fn draw(&mut self, handle: Handle) -> (LeafId, Packet) {
        let leaf = LeafId(self.random.below(self.leaves));
        let packet = Packet::new(handle, self.lengths.draw(&mut self.random));
        if self.flows == 0 {
            return (leaf, packet);
        }
        let flow = self.random.below(self.flows);
        let host = Host::from_bits(u128::from(flow / 4) << 64 | u128::from(flow % 7));
        (leaf, Packet { flow: flow.wrapping_mul(0x9e37_79b9), host, ..packet })
    }
}

/// A link of that rate whose classes may borrow where they can; its limits let `population` packets
/// wait.
pub(crate) fn plan(
    descriptor: &'static Descriptor,
    leaves: usize,
    group: usize,
    population: usize,
) -> LinkPlan {
    plan_at(LINK_RATE, descriptor, leaves, group, population)
}

/// Such a link with a rate of `bits` bit/s.
pub(crate) fn plan_at(
    bits: u64,
    descriptor: &'static Descriptor,
    leaves: usize,
    group: usize,
    population: usize,
) -> LinkPlan {
    let rate = Rate::new(bits).expect("not zero");
    let part = |of: usize| Rate::new((bits / of as u64).max(1)).expect("at least 1");
    let class = |name, parent, rate: Rate| class(name, parent, descriptor, (rate, bits));
    let mut classes = Vec::with_capacity(leaves + 1);
    let mut parent = descriptor.promises.hierarchical.then_some(ClassId(0));
    if parent.is_some() {
        classes.push(class("root".to_owned(), None, rate));
    }
    for leaf in 0..leaves {
        if group > 0 && parent.is_some() && leaf.is_multiple_of(group) {
            let name = format!("group{}", leaf / group);
            parent = Some(ClassId(classes.len() as u32));
            classes.push(class(name, Some(ClassId(0)), part(leaves.div_ceil(group))));
        }
        classes.push(class(format!("leaf{leaf}"), parent, part(leaves)));
    }
    let tree = Tree::new(rate, Bytes::new(MTU), Params::new(), classes);
    let mut plan = LinkPlan::new(descriptor.keyword, tree.expect("two levels under a root"));
    plan.packets_max = population as u32;
    let mut params = Params::new();
    params.set("limit", Value::Quantity(Quantity::Packets(population as u32)));
    plan.queues.fill(QueuePlan { params, ..QueuePlan::default() });
    plan
}

/// A class of `rate` on a link of `bits` bit/s.
fn class(
    name: String,
    parent: Option<ClassId>,
    descriptor: &Descriptor,
    (rate, bits): (Rate, u64),
) -> ClassSpec {
    let link = Rate::new(bits).expect("not zero");
    let mut params = Params::new();
    let is_rate =
        |row: &&Parameter| row.kind == Kind::Quantity(Dimension::Rate) && row.scope == Scope::Class;
    for row in descriptor.parameters.iter().filter(is_rate) {
        // A rate that would be `rate` if it were not written is a ceiling; others stay unwritten.
        let value = match row.default {
            None => rate,
            Some(_) if row.name == "rate" => rate,
            Some("rate") => link,
            Some(_) => continue,
        };
        params.set(row.name, Value::Quantity(Quantity::Rate(value)));
    }
    let is_share = |row: &&Parameter| row.kind == Kind::Quantity(Dimension::Share);
    for row in descriptor.parameters.iter().filter(is_share) {
        let billionths = u128::from(rate.bits_per_second()) * 1_000_000_000;
        let part = (billionths / u128::from(bits)) as u64;
        let share = Share::from_ppb(part.max(1)).unwrap_or(Share::WHOLE);
        params.set(row.name, Value::Quantity(Quantity::Share(share)));
    }
    ClassSpec { name, parent, params }
}

/// Leaves in a group of the three-level tree, as in the peer's pipes.
pub(crate) const fn group_of(leaves: usize) -> usize {
    if leaves < 16 {
        4
    } else if leaves.is_multiple_of(13) {
        13
    } else {
        16
    }
}

/// Packets that circulate: two a leaf, so that leaves fall idle and become active all the time.
pub(crate) fn population(leaves: usize) -> usize {
    (2 * leaves).clamp(POPULATION_MIN, POPULATION_MAX)
}

/// bit/s: faster than any machine forwards, and so the line's pace costs what it costs live.
pub(crate) const LINK_RATE: u64 = 400_000_000_000;
/// The largest packet that the link is meant for, as on Ethernet: a turn in a round robin.
const MTU: u64 = 1_514;
/// Packets that arrive in one call at most.
pub(crate) const BATCH: usize = 32;
const POPULATION_MIN: usize = 8 * BATCH;
const POPULATION_MAX: usize = 1 << 17;
const SEED: u64 = 0x77_6569_7232;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::sched::SCHEDULERS;

    #[test]
    fn no_packet_is_lost_and_the_line_is_never_idle() {
        for entry in SCHEDULERS {
            for lengths in [Lengths::Mixed, Lengths::Constant(64)] {
                let mut road = Road::new(entry, 10, 4, population(10), lengths);
                road.run(10_000);
                let keyword = entry.descriptor.keyword;
                let account = road.link.account();
                let waiting: u64 = account.leaves().iter().map(|leaf| leaf.backlog.packets).sum();
                let all = waiting as usize + road.waiting.len();
                assert_eq!(all, population(10), "{keyword} {lengths:?}");
                if entry.descriptor.promises.work_conserving {
                    assert!(waiting as usize > population(10) / 4, "{keyword} {waiting}");
                }
            }
        }
    }
}
