//! Drops, with the state that caused them.

use crate::load::{Held, Load};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::event::{DropReason, Dropped};
use weir_core::ids::LeafId;
use weir_core::queue::Reading;
use weir_core::units::{Instant, Quantity};
use weir_policy::Policy;

/// The drops of a class for one reason.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DropGroup {
    /// The name of the class.
    pub class: String,
    /// The reason, as the core names it.
    pub reason: &'static str,
    /// The number of packets dropped.
    pub packets: u64,
    /// The first and the last, in seconds from the start of the load.
    pub between_s: (f64, f64),
    /// The fewest and the most packets that waited in the leaf after a drop.
    pub queued: (u64, u64),
    /// The number that the dropper's decisions rest on, and its least and its largest value after
    /// a drop.
    pub reading: Option<(&'static str, f64, f64)>,
    /// The limit of the leaf.
    pub limit: String,
    /// The dropper of the leaf, with the parameters that the policy writes.
    pub dropper: String,
    /// The meter that found the packets above its rate, with its parameters.
    pub meter: Option<String>,
}

pub(super) struct Drops<'a> {
    load: &'a Load,
    groups: BTreeMap<(String, DropReason), Group>,
}

struct Group {
    packets: u64,
    first: Instant,
    last: Instant,
    queued: (u64, u64),
    reading: Option<(Reading, Reading)>,
    limit: String,
    dropper: String,
    meter: Option<String>,
}

impl<'a> Drops<'a> {
    pub fn new(load: &'a Load) -> Self {
        Self { load, groups: BTreeMap::new() }
    }

    /// Adds a drop, after which its leaf is as `held` says.
    pub fn add(&mut self, stage: usize, dropped: &Dropped, held: Held) {
        let policy = &self.load.stages[stage].policy;
        let class = policy.leaf_name(dropped.leaf).to_owned();
        let load = self.load;
        let group = self.groups.entry((class, dropped.reason)).or_insert_with(|| {
            let queue = &policy.link.queues[dropped.leaf.index()];
            let is_metered = dropped.reason == DropReason::Policed;
            Group {
                packets: 0,
                first: dropped.at,
                last: dropped.at,
                queued: (held.packets, held.packets),
                reading: held.reading.map(|reading| (reading, reading)),
                limit: limit(policy, dropped.leaf),
                dropper: written(queue.dropper, queue.params.iter()),
                meter: is_metered.then(|| meter(load, policy, dropped)).flatten(),
            }
        });
        group.packets += 1;
        group.last = dropped.at;
        group.queued = (group.queued.0.min(held.packets), group.queued.1.max(held.packets));
        if let (Some((least, most)), Some(now)) = (&mut group.reading, held.reading) {
            least.thousandths = least.thousandths.min(now.thousandths);
            most.thousandths = most.thousandths.max(now.thousandths);
        }
    }

    pub fn finish(self) -> Vec<DropGroup> {
        let start = self.load.start;
        let seconds = |at: Instant| at.since(start.min(at)).as_nanos() as f64 / 1e9;
        let group = |((class, reason), group): ((String, DropReason), Group)| DropGroup {
            class,
            reason: reason.name(),
            packets: group.packets,
            between_s: (seconds(group.first), seconds(group.last)),
            queued: group.queued,
            reading: group.reading.map(|(least, most)| {
                let value = |reading: Reading| reading.thousandths as f64 / 1000.0;
                (least.what, value(least), value(most))
            }),
            limit: group.limit,
            dropper: group.dropper,
            meter: group.meter,
        };
        self.groups.into_iter().map(group).collect()
    }
}

fn limit(policy: &Policy, leaf: LeafId) -> String {
    use weir_core::queue::Limit;
    match policy.link.queues[leaf.index()].limit() {
        Limit::Packets(packets) => Quantity::Packets(packets).to_string(),
        Limit::Bytes(bytes) => bytes.to_string(),
    }
}

fn meter(load: &Load, policy: &Policy, dropped: &Dropped) -> Option<String> {
    let own = load.place(dropped.handle).and_then(|place| load.arrivals[place].packet.meter);
    let of_leaf = policy.link.leaf_meters.get(dropped.leaf.index()).copied().flatten();
    let plan = policy.link.meters.get(own.or(of_leaf)?.index())?;
    Some(written(plan.meter, plan.params.iter()))
}

/// Returns a keyword with the parameters that are written for it.
fn written<'p>(
    keyword: &str,
    params: impl Iterator<Item = &'p (&'static str, weir_core::parameter::Value)>,
) -> String {
    use weir_core::parameter::Value;
    let one = |(name, value): &(&'static str, Value)| match value {
        Value::Quantity(quantity) => format!("{name} {quantity}"),
        Value::Flag(flag) => format!("{name} {flag}"),
        Value::Choice(word) => format!("{name} {word}"),
    };
    let params: Vec<String> = params.map(one).collect();
    if params.is_empty() { keyword.to_owned() } else { format!("{keyword}: {}", params.join(", ")) }
}
