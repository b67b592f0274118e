//! Random arrivals, and the departures of a link.

use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Scope};
use weir_core::queue::QueuePlan;
use weir_core::random::Random;
use weir_core::sched::{ClassSpec, Tree, find};
use weir_core::units::{Bytes, Instant, Quantity, Rate};

/// The packets offered to a link.
pub struct Workload {
    pub weights: Vec<u64>,
    pub arrivals: Vec<Arrival>,
}

pub struct Arrival {
    pub at: u64,
    pub leaf: usize,
    pub length: u32,
}

/// Draws weights in ranges of all widths, lengths for each leaf, bursts and pauses, so that leaves
/// become empty and backlogged again.
pub fn random(seed: u64) -> Workload {
    let mut random = Random::new(seed, 0);
    let leaves = 2 + random.below(9) as usize;
    let weight_max = [1, 4, 100, 65_535][random.below(4) as usize];
    let weights: Vec<_> = (0..leaves).map(|_| 1 + u64::from(random.below(weight_max))).collect();
    let lengths: Vec<_> =
        (0..leaves).map(|_| [40, 64, 500, MTU][random.below(4) as usize]).collect();
    let load = 1 + random.below(4);
    let mut arrivals = Vec::new();
    let mut at = 0;
    for _ in 0..400 {
        let leaf = random.below(leaves as u32) as usize;
        for _ in 0..1 + random.below(6) {
            let length = if random.below(3) == 0 { MTU } else { lengths[leaf] };
            let length = 1 + random.below(length.min(lengths[leaf]));
            at += if random.below(4) == 0 {
                0
            } else {
                u64::from(random.below(500 * 100)) / u64::from(load)
            };
            arrivals.push(Arrival { at, leaf, length });
        }
    }
    Workload { weights, arrivals }
}

/// Every leaf is backlogged from the start to the end: at 0 it gets more than the horizon can send.
pub fn saturated(seed: u64) -> Workload {
    let mut random = Random::new(seed, 1);
    let leaves = 2 + random.below(7) as usize;
    let weight_max = [1, 4, 20, 50][random.below(4) as usize];
    let weights: Vec<_> = (0..leaves).map(|_| 1 + u64::from(random.below(weight_max))).collect();
    let total: u64 = weights.iter().sum();
    let mut arrivals = Vec::new();
    for (leaf, weight) in weights.iter().enumerate() {
        let length_max = [40, 500, MTU][random.below(3) as usize];
        let mut bytes = 0;
        while bytes < HORIZON * weight / total + 20 * u64::from(MTU) {
            let length = 1 + random.below(length_max);
            bytes += u64::from(length);
            arrivals.push(Arrival { at: 0, leaf, length });
        }
    }
    Workload { weights, arrivals }
}

impl Workload {
    /// Returns the longest packet of a leaf.
    pub fn length_max(&self, leaf: usize) -> f64 {
        let lengths = self.arrivals.iter().filter(|arrival| arrival.leaf == leaf);
        f64::from(lengths.map(|arrival| arrival.length).max().unwrap_or(0))
    }

    /// Returns the guaranteed part of the line of a leaf.
    pub fn part(&self, leaf: usize) -> f64 {
        self.weights[leaf] as f64 / self.weights.iter().sum::<u64>() as f64
    }

    /// Returns what a link with this scheduler sends, in order; a handle is the number of the
    /// arrival.
    pub fn run(&self, scheduler: &str) -> Vec<Departure> {
        let mut plan = LinkPlan::new(keyword(scheduler), tree(scheduler, &self.weights));
        let limit = Params::new().with("limit", Quantity::Packets(u32::MAX));
        plan.queues.fill(QueuePlan { params: limit, ..QueuePlan::default() });
        let mut link = plan.build().expect("any weights will do");
        let mut out = Vec::new();
        let mut last = 0;
        for (number, arrival) in self.arrivals.iter().enumerate() {
            let now = Instant::from_nanos(arrival.at);
            // Arrivals at one instant are all queued before any packet is sent.
            if std::mem::replace(&mut last, arrival.at) < arrival.at {
                link.advance(now, &mut out);
            }
            let packet = Packet::new(Handle(number as u32), arrival.length);
            link.offer(now, LeafId(arrival.leaf as u32), packet);
        }
        let mut now = Instant::from_nanos(last);
        while let Some(next) = link.advance(now, &mut out) {
            now = next;
        }
        assert_eq!(out.len(), self.arrivals.len(), "nothing is lost");
        out
    }
}

/// Returns the registry's own static keyword of a scheduler.
pub fn keyword(scheduler: &str) -> &'static str {
    find(scheduler).expect("registered").descriptor.keyword
}

/// A flat tree of leaves with these weights; for a scheduler of quanta, quanta in proportion.
pub fn tree(scheduler: &str, weights: &[u64]) -> Tree {
    let table = find(scheduler).expect("registered").descriptor.parameters;
    let takes = |name| table.iter().any(|row| row.name == name && row.scope == Scope::Leaf);
    let smallest = weights.iter().min().expect("a leaf");
    let class = |(index, &weight): (usize, &u64)| {
        let params = if takes("weight") {
            Params::new().with("weight", Quantity::Number(weight))
        } else if takes("quantum") {
            let quantum = Bytes::new(u64::from(MTU) * weight / smallest);
            Params::new().with("quantum", Quantity::Bytes(quantum))
        } else {
            Params::new()
        };
        ClassSpec { name: index.to_string(), parent: None, params }
    };
    let classes = weights.iter().enumerate().map(class).collect();
    let rate = Rate::new(8_000_000_000 / NANOS_PER_BYTE).expect("not zero");
    Tree::new(rate, Bytes::new(u64::from(MTU)), Params::new(), classes).expect("flat")
}

/// A line of 80 Mbit/s: every packet takes whole nanoseconds.
pub const NANOS_PER_BYTE: u64 = 100;
/// The longest packet.
pub const MTU: u32 = 1500;
/// Bytes of the line during which every leaf of [`saturated`] is backlogged.
pub const HORIZON: u64 = 100_000;
