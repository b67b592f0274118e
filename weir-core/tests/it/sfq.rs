//! Flow queues in a ring, against a plain version of Linux's rules, and what they promise.

use crate::common;

use common::Random;
use std::collections::{BTreeMap, VecDeque};
use weir_core::change::Change;
use weir_core::event::{DropReason, Poll, Verdict};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::packet::Host;
use weir_core::parameter::{Params, Value};
use weir_core::queue::{Label, QueuePlan, Queues};
use weir_core::sched::{ClassSpec, Tree};
use weir_core::state::{Reader, Writer};
use weir_core::units::{Bytes, Instant, Rate};

const LEAF: LeafId = LeafId(0);

/// A link of 8 Mbit/s, where a byte takes a microsecond, with one leaf and this queue.
fn plan(scheduler: &'static str, rows: &[(&'static str, String)]) -> LinkPlan {
    let of_link =
        if scheduler == "tbf" { vec![("rate", "400 Gbit/s".to_string())] } else { vec![] };
    let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
    let rate = Rate::new(8_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1514), params(&of_link), vec![class]).expect("a tree");
    let mut plan = LinkPlan::new(scheduler, tree);
    plan.queues = vec![QueuePlan { dropper: "sfq", params: params(rows) }];
    plan
}

fn params(rows: &[(&'static str, String)]) -> Params {
    let mut params = Params::new();
    for (name, text) in rows {
        let value = match text.as_str() {
            "true" | "false" => Value::Flag(text == "true"),
            _ => Value::Quantity(text.parse().expect("rows hold flags and quantities")),
        };
        params.set(name, value);
    }
    params
}

fn packet(handle: u32, length: u32, flow: u32) -> Packet {
    Packet { flow, ..Packet::new(Handle(handle), length) }
}

fn dropped(link: &mut dyn AnyLink) -> Vec<(u32, DropReason)> {
    let mut dropped = Vec::new();
    link.take_dropped(&mut |drop| dropped.push((drop.handle.0, drop.reason)));
    dropped
}

/// Linux's queue, slow and obvious.
#[derive(Default)]
struct Plain {
    limit: usize,
    depth: usize,
    most_flows: usize,
    unit: i64,
    quantum: i64,
    from_head: bool,
    /// The scheduler takes the next packet out as soon as the one before it left.
    early: bool,
    /// A packet that finds it empty goes first and costs its flow nothing.
    passes: bool,
    passed: Option<(u32, u64)>,
    free_at: u64,
    /// The flows with packets, the one in front first.
    ring: VecDeque<Flow>,
    changes: u64,
    first: Option<(u32, u64)>,
}

/// Number, allotment, packets, and when the number of its packets changed last.
type Flow = (u64, i64, VecDeque<(u32, u64)>, u64);

impl Plain {
    fn units(&self, length: i64) -> i64 {
        (length + self.unit - 1) / self.unit
    }

    fn packets(&self) -> usize {
        let waiting: usize = self.ring.iter().map(|flow| flow.2.len()).sum();
        waiting + usize::from(self.first.is_some()) + usize::from(self.passed.is_some())
    }

    /// Returns the handle of the packet that is dropped.
    fn offer(&mut self, number: u64, packet: (u32, u64)) -> Option<u32> {
        if self.passes && self.packets() == 0 {
            self.passed = Some(packet);
            return None;
        }
        self.changes += 1;
        let quantum = self.units(self.quantum);
        let (from_head, depth, changes) = (self.from_head, self.depth, self.changes);
        let full = self.ring.len() >= self.most_flows;
        match self.ring.iter_mut().find(|flow| flow.0 == number) {
            None if full => return Some(packet.0),
            None => self.ring.push_back((number, quantum, VecDeque::from([packet]), changes)),
            Some(flow) if flow.2.len() >= depth => {
                if !from_head {
                    return Some(packet.0);
                }
                flow.2.push_back(packet);
                return flow.2.pop_front().map(|first| first.0);
            }
            Some(flow) => {
                flow.2.push_back(packet);
                flow.3 = changes;
            }
        }
        if self.early && self.first.is_none() {
            self.choose();
        }
        if self.packets() > self.limit { self.shed() } else { None }
    }

    /// Drops from the longest flow; of equals from the one that came to its length last, and from
    /// the one in front if each has one packet.
    fn shed(&mut self) -> Option<u32> {
        self.changes += 1;
        let longest = self.ring.iter().map(|flow| flow.2.len()).max()?;
        if longest == 1 {
            return self.ring.pop_front()?.2.pop_front().map(|packet| packet.0);
        }
        let equals = self.ring.iter_mut().filter(|flow| flow.2.len() == longest);
        let flow = equals.max_by_key(|flow| flow.3)?;
        flow.3 = self.changes;
        let packet = if self.from_head { flow.2.pop_front() } else { flow.2.pop_back() };
        packet.map(|packet| packet.0)
    }

    fn choose(&mut self) {
        self.changes += 1;
        let quantum = self.units(self.quantum);
        while let Some(mut flow) = self.ring.pop_front() {
            if flow.1 <= 0 {
                flow.1 += quantum;
                self.ring.push_back(flow);
                continue;
            }
            self.first = flow.2.pop_front();
            if !flow.2.is_empty() {
                flow.1 -= self.units(self.first.expect("a flow of the ring waits").1 as i64);
                flow.3 = self.changes;
                self.ring.push_front(flow);
            }
            return;
        }
    }

    fn poll(&mut self, now: u64) -> Option<u32> {
        if self.free_at > now || self.packets() == 0 {
            return None;
        }
        if let Some((handle, length)) = self.passed.take() {
            self.free_at = now + length;
            return Some(handle);
        }
        if !self.early {
            self.choose();
        }
        let (handle, length) = self.first.take().expect("a packet waits");
        self.free_at = now + length;
        if self.early {
            self.choose();
        }
        Some(handle)
    }
}

/// Offers packets of random flows to a link and to the plain version, with polls between; each step
/// goes on from a checkpoint now and then.
fn check(scheduler: &'static str, seed: u64) {
    let mut random = Random::new(seed);
    let (limit, depth) = (random.wide(1, 40), random.wide(1, 12));
    let (flows, divisor) = (random.wide(1, 9), [1, 3, 64, 65_536][random.between(0, 3) as usize]);
    let (quantum, unit) = (random.wide(64, 4000), [1, 8][random.between(0, 1) as usize]);
    let from_head = random.one_in(2);
    let rows = [
        ("limit", format!("{limit} packets")),
        ("depth", depth.to_string()),
        ("flows", flows.to_string()),
        ("divisor", divisor.to_string()),
        ("quantum", format!("{quantum} B")),
        ("unit", format!("{unit} B")),
        ("headdrop", from_head.to_string()),
    ];
    let mut plan = plan(scheduler, &rows);
    plan.seed = seed;
    let mut hash =
        Queues::new(&plan.queues, &plan.tree, plan.packets_max, plan.seed).expect("builds");
    let mut plain = Plain {
        limit: limit as usize,
        depth: depth as usize,
        most_flows: flows.min(divisor) as usize,
        unit: unit as i64,
        quantum: quantum as i64,
        from_head,
        early: ["tbf", "drr"].contains(&scheduler),
        passes: scheduler == "fifo",
        ..Plain::default()
    };
    let case = format!("{scheduler} seed {seed}");
    let mut link = plan.build().expect("builds");
    let (mut micros, mut drops) = (0, 0);
    for handle in 0..800 {
        micros += random.wide(1, 3000);
        let now = Instant::from_nanos(micros * 1000);
        // Periods in which the leaf grows, and periods in which it shrinks.
        if random.between(0, 7) < if handle / 100 % 2 == 0 { 6 } else { 2 } {
            let (flow, length) = (random.between(0, 11) as u32, random.wide(1, 3000) as u32);
            let number = (u64::from(hash.label(LEAF, Label::new(0), (Host::NONE, flow)).flow())
                * divisor)
                >> 16;
            let verdict = link.offer(now, LEAF, packet(handle, length, flow));
            let expected = plain.offer(number, (handle, u64::from(length)));
            let real = dropped(&mut *link);
            let wanted: Vec<_> =
                expected.map(|one| (one, DropReason::Longest)).into_iter().collect();
            assert_eq!(real, wanted, "{case}");
            drops += real.len();
            let itself = expected == Some(handle);
            assert_eq!(verdict == Verdict::Dropped(DropReason::Longest), itself, "{case}");
        } else {
            let sent = match link.poll(now) {
                Poll::Packet(departure) => Some(departure.handle.0),
                _ => None,
            };
            assert_eq!(sent, plain.poll(micros), "{case}");
        }
        assert_eq!(link.backlog() as usize, plain.packets(), "{case}");
        assert!(link.account().leaves()[0].is_conserved());
        if random.one_in(50) {
            link = continued(&plan, &*link);
        }
    }
    assert!(drops > 0, "{case}: the limits are reached");
}

/// Returns a link that goes on from the checkpoint of another, which it repeats to the bit.
fn continued(plan: &LinkPlan, link: &dyn AnyLink) -> Box<dyn AnyLink> {
    let bytes = |link: &dyn AnyLink| {
        let mut to = Writer::new();
        link.save(&mut to);
        to.into_bytes()
    };
    let saved = bytes(link);
    let mut next = plan.build().expect("builds");
    next.load(&mut Reader::new(&saved)).expect("it is a checkpoint of this plan");
    assert_eq!(bytes(&*next), saved);
    next
}

#[test]
fn a_ring_of_flows_agrees_with_a_plain_one() {
    for scheduler in ["fifo", "priq", "tbf", "drr"] {
        (0..40).for_each(|seed| check(scheduler, seed));
    }
}

#[test]
fn a_flow_that_overdraws_has_less_in_its_next_turn() {
    let rows = [("divisor", "65536".to_string()), ("quantum", "1000 B".to_string())];
    let mut link = plan("priq", &rows).build().expect("builds");
    for handle in 0..16 {
        let length = [600, 1000][handle as usize % 2];
        link.offer(Instant::ZERO, LEAF, packet(handle, length, handle % 2));
    }
    let mut out = Vec::new();
    link.advance(Instant::from_nanos(7_000_000), &mut out);
    let order: String = out.iter().map(|one| ["a", "b"][one.handle.0 as usize % 2]).collect();
    assert!(order.starts_with("aabaabab"), "{order}");
}

#[test]
fn turns_are_shared_by_bytes_whatever_the_lengths_are() {
    let mut link = plan("fifo", &[("divisor", "65536".to_string())]).build().expect("builds");
    let mut out = Vec::new();
    for step in 0..20_000u32 {
        let now = Instant::from_nanos(u64::from(step) * 1_500_000);
        link.advance(now, &mut out);
        for (flow, length) in [(0, 1500), (1, 300), (2, 700)] {
            for _ in 0..6 {
                link.offer(now, LEAF, packet(flow, length, flow));
            }
        }
        drop(dropped(&mut *link));
    }
    let mut bytes = BTreeMap::new();
    for departure in &out {
        *bytes.entry(departure.handle.0).or_insert(0.0) += departure.charged.get() as f64;
    }
    let sum: f64 = bytes.values().sum();
    assert!(bytes.values().all(|part| (part / sum - 1.0 / 3.0).abs() < 0.01), "{bytes:?}");
}

#[test]
fn a_change_keeps_the_order_of_each_flow_and_may_leave_more_than_the_new_depth() {
    let of = |rows: &[(&'static str, &str)]| {
        let rows: Vec<_> = rows.iter().map(|&(name, text)| (name, text.to_string())).collect();
        plan("fifo", &rows)
    };
    let wide = of(&[("divisor", "65536")]);
    let (shallow, narrow) = (of(&[("depth", "2")]), of(&[("flows", "1"), ("limit", "20 packets")]));
    for to in [&wide, &shallow, &narrow] {
        let mut link = wide.build().expect("builds");
        for handle in 0..40 {
            let now = Instant::from_nanos(u64::from(handle));
            link.offer(now, LEAF, packet(handle, 100 + handle, handle % 5));
        }
        let now = Instant::from_nanos(100);
        Change { from: &wide, to, heir: LEAF }.apply(&mut link, now).expect("builds");
        let refused = dropped(&mut *link).len();
        link.offer(now, LEAF, packet(40, 100, 0));
        let late = dropped(&mut *link).len();
        let mut out = Vec::new();
        let mut next = Some(now);
        while let Some(instant) = next {
            next = link.advance(instant, &mut out);
        }
        let handles: Vec<u32> = out.iter().map(|departure| departure.handle.0).collect();
        assert_eq!(handles.len() + refused + late, 41);
        for flow in 0..5 {
            assert!(handles.iter().filter(|&handle| handle % 5 == flow).is_sorted());
        }
    }
}
