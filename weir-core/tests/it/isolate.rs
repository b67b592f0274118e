//! Hosts and their flows in one leaf: against a plain version, their shares, how long a sparse flow
//! waits, and what a change of the link leaves.

use crate::common;

use common::Random;
use std::collections::{BTreeMap, VecDeque};
use weir_core::change::Change;
use weir_core::event::{DropReason, Poll, Verdict};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::packet::Host;
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::state::{Reader, Writer};
use weir_core::units::{Bytes, Instant, Quantity, Rate};

const LEAF: LeafId = LeafId(0);

/// A link with one leaf that isolates.
fn plan(scheduler: &'static str, rate: u64, rows: &[(&'static str, &str)]) -> LinkPlan {
    let class = ClassSpec { name: "a".to_owned(), parent: None, params: Params::new() };
    let rate = Rate::new(rate).expect("not zero");
    // Tokens hold nothing back.
    let fast = Quantity::Rate(Rate::new(400_000_000_000).expect("not zero"));
    let of_link = match scheduler {
        "tbf" => Params::new().with("rate", fast),
        _ => Params::new(),
    };
    let tree = Tree::new(rate, Bytes::new(1514), of_link, vec![class]).expect("a tree");
    let mut plan = LinkPlan::new(scheduler, tree);
    let mut params = Params::new();
    params.set("isolate", Value::Choice("flows within srcaddr"));
    for &(name, text) in rows {
        params.set(name, Value::Quantity(text.parse().expect("rows hold quantities")));
    }
    plan.queues = vec![QueuePlan { dropper: "isolate", params }];
    plan
}

fn packet(handle: u32, length: u32, (host, flow): (u32, u32)) -> Packet {
    Packet { flow, host: of(host), ..Packet::new(Handle(handle), length) }
}

fn of(host: u32) -> Host {
    Host::from_bits(u128::from(host) + 1)
}

/// A turn of a plain list: hosts, or the flows of one.
#[derive(Default)]
struct Turns {
    deficits: BTreeMap<u32, i64>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

impl Turns {
    fn listed(&self, member: u32) -> bool {
        self.new.contains(&member) || self.old.contains(&member)
    }

    fn join(&mut self, member: u32, quantum: i64) {
        if !self.listed(member) {
            self.deficits.insert(member, quantum);
            self.new.push_back(member);
        }
    }

    /// Returns the member whose turn it is; those that are found empty go to `empty`.
    fn choose(
        &mut self,
        quantum: i64,
        waits: impl Fn(u32) -> bool,
        mut empty: impl FnMut(u32),
    ) -> Option<u32> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let member = *list.front()?;
            let deficit = self.deficits.get_mut(&member).expect("a listed member has a deficit");
            if *deficit <= 0 {
                *deficit += quantum;
                list.pop_front();
                self.old.push_back(member);
            } else if waits(member) {
                return Some(member);
            } else {
                empty(member);
                list.pop_front();
                if is_new {
                    self.old.push_back(member);
                }
            }
        }
    }
}

/// Slow, obvious turns of hosts and flows.
struct Plain {
    /// As in the tests of flow queues.
    early: bool,
    asks: bool,
    free_at: u64,
    quantum: i64,
    limit: usize,
    hosts: Turns,
    flows: BTreeMap<u32, Turns>,
    queues: BTreeMap<(u32, u32), VecDeque<(u32, u64)>>,
    ahead: VecDeque<(u32, u32)>,
    before: BTreeMap<u32, VecDeque<u32>>,
    first: Option<((u32, u32), (u32, u64))>,
}

impl Plain {
    fn waiting(&self, host: u32) -> u64 {
        let own = self.queues.iter().filter(|row| row.0.0 == host);
        own.flat_map(|row| row.1).map(|packet| packet.1).sum()
    }

    fn packets(&self) -> usize {
        let behind: usize = self.queues.values().map(VecDeque::len).sum();
        behind + usize::from(self.first.is_some())
    }

    fn offer(&mut self, now: u64, of: (u32, u32), packet: (u32, u64)) -> Vec<u32> {
        if self.asks && self.packets() == 0 && self.free_at <= now {
            self.hosts = Turns::default();
            self.flows.clear();
            self.ahead.clear();
            self.before.clear();
        }
        let is_first = self.first.is_some_and(|first| first.0 == of);
        let began = !is_first && self.queues.get(&of).is_none_or(VecDeque::is_empty);
        let flows = self.flows.entry(of.0).or_default();
        let has_credit = !flows.listed(of.1) || flows.deficits[&of.1] >= packet.1 as i64;
        if began && has_credit && self.hosts.listed(of.0) && !self.ahead.contains(&of) {
            self.ahead.push_back(of);
        }
        flows.join(of.1, self.quantum);
        self.hosts.join(of.0, self.quantum);
        self.queues.entry(of).or_default().push_back(packet);
        if self.early && self.first.is_none() {
            self.choose();
        }
        if self.packets() > self.limit { self.shed() } else { Vec::new() }
    }

    fn choose(&mut self) {
        while let Some(of) = self.ahead.pop_front() {
            let owes = self.hosts.deficits[&of.0] <= -self.quantum;
            let Some(queue) = self.queues.get_mut(&of).filter(|queue| !queue.is_empty()) else {
                continue;
            };
            if !owes {
                self.first = queue.pop_front().map(|packet| (of, packet));
                return;
            }
            let before = self.before.entry(of.0).or_default();
            if !before.contains(&of.1) {
                before.push_back(of.1);
            }
        }
        let Self { hosts, flows, queues, quantum, before, .. } = self;
        let waits = |of: (u32, u32)| queues.get(&of).is_some_and(|queue| !queue.is_empty());
        let any = |host: u32| queues.iter().any(|row| row.0.0 == host && !row.1.is_empty());
        let empty = |host: u32| {
            flows.insert(host, Turns::default());
            before.remove(&host);
        };
        let Some(host) = hosts.choose(*quantum, any, empty) else { return };
        let own = flows.get_mut(&host).expect("a host with packets has flows");
        let before = before.entry(host).or_default();
        let mut flow = None;
        while let (None, Some(&next)) = (flow, before.front()) {
            before.pop_front();
            flow = Some(next).filter(|&next| waits((host, next)) && own.deficits[&next] > 0);
        }
        let flow = flow.or_else(|| own.choose(*quantum, |flow| waits((host, flow)), |_| ()));
        let of = (host, flow.expect("a flow of the host waits"));
        let packet = self.queues.get_mut(&of).and_then(VecDeque::pop_front);
        self.first = packet.map(|packet| (of, packet));
    }

    /// A byte takes a microsecond.
    fn poll(&mut self, now: u64) -> Option<u32> {
        if self.free_at > now || self.packets() == 0 {
            return None;
        }
        if !self.early {
            self.choose();
        }
        let ((host, flow), (handle, length)) = self.first.take().expect("a packet waits");
        let charge = |turns: &mut Turns, member: u32| {
            *turns.deficits.get_mut(&member).expect("it had a turn") -= length as i64;
        };
        charge(&mut self.hosts, host);
        charge(self.flows.get_mut(&host).expect("it had a turn"), flow);
        self.free_at = now + length;
        if self.early && self.packets() > 0 {
            self.choose();
        }
        Some(handle)
    }

    /// Drops half of the longest flow of the host that holds most, 64 packets at most, from its
    /// front.
    fn shed(&mut self) -> Vec<u32> {
        // Of equals, the first.
        let most = |members: &Turns, bytes: &dyn Fn(u32) -> u64| {
            let mut longest = (0, 0);
            for &member in members.new.iter().chain(&members.old) {
                let own = bytes(member);
                longest = if own > longest.1 { (member, own) } else { longest };
            }
            longest
        };
        let host = most(&self.hosts, &|host| self.waiting(host)).0;
        let of_flow = |flow: u32| {
            self.queues.get(&(host, flow)).into_iter().flatten().map(|packet| packet.1).sum()
        };
        let (flow, bytes) = most(&self.flows[&host], &of_flow);
        let (mut gone, mut dropped) = (0, Vec::new());
        while dropped.is_empty() || gone < bytes / 2 && dropped.len() < 64 {
            let queue = self.queues.get_mut(&(host, flow)).expect("it is longest");
            let (handle, length) = queue.pop_front().expect("less than half of it is gone");
            gone += length;
            dropped.push(handle);
        }
        dropped
    }
}

fn check(scheduler: &'static str, seed: u64, (hosts, flows, limit): (u64, u64, u32)) {
    let case = format!("{scheduler} seed {seed} hosts {hosts}");
    let mut random = Random::new(seed);
    let quantum = random.wide(64, 3000);
    let (size, most) = (format!("{quantum} B"), format!("{limit} packets"));
    let rows = [("quantum", size.as_str()), ("limit", &most), ("target", "1000000 s")];
    let plan = plan(scheduler, 8_000_000, &rows);
    let mut link = plan.build().expect("builds");
    let mut plain = Plain {
        early: ["tbf", "drr"].contains(&scheduler),
        asks: ["tbf", "fifo", "priq"].contains(&scheduler),
        free_at: 0,
        quantum: quantum as i64,
        limit: limit as usize,
        hosts: Turns::default(),
        flows: BTreeMap::new(),
        queues: BTreeMap::new(),
        ahead: VecDeque::new(),
        before: BTreeMap::new(),
        first: None,
    };
    let mut micros = 0;
    for handle in 0..600 {
        micros += random.wide(1, 9000);
        let now = Instant::from_nanos(micros * 1000);
        if random.between(0, 7) < if handle / 100 % 2 == 0 { 6 } else { 2 } {
            let of = (random.between(0, hosts) as u32, random.between(0, flows) as u32);
            let length = random.wide(1, 9000) as u32;
            let verdict = link.offer(now, LEAF, packet(handle, length, of));
            let expected = plain.offer(micros, of, (handle, u64::from(length)));
            let mut real = Vec::new();
            link.take_dropped(&mut |drop| real.push(drop.handle.0));
            assert_eq!(real, expected, "{case}");
            let itself = expected.contains(&handle);
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
        if handle % 200 == 150 {
            link = restored(&plan, &*link);
        }
    }
    let hosts = link.hosts(LEAF, usize::MAX).expect("hosts take turns");
    let account = link.leaf_account(LEAF);
    let sum = |of: fn(&weir_core::queue::HostAccount) -> u64| -> u64 {
        hosts.hosts.iter().chain([&hosts.others]).map(of).sum()
    };
    assert_eq!(sum(|host| host.sent.bytes), account.sent.bytes, "{case}");
    assert_eq!(sum(|host| host.dropped.packets), account.dropped_total().packets, "{case}");
    assert_eq!(sum(|host| host.backlog.bytes), account.backlog.bytes, "{case}");
}

/// Returns a link that continues from a checkpoint of `link`.
fn restored(plan: &LinkPlan, link: &dyn AnyLink) -> Box<dyn AnyLink> {
    let saved = |link: &dyn AnyLink| {
        let mut writer = Writer::new();
        link.save(&mut writer);
        writer.into_bytes()
    };
    let bytes = saved(link);
    let mut other = plan.build().expect("builds");
    other.load(&mut Reader::new(&bytes)).expect("it is a checkpoint of this plan");
    assert!(saved(&*other) == bytes, "what is loaded, saved again, gives the same bytes");
    other
}

#[test]
fn hosts_and_their_flows_agree_with_plain_ones() {
    for seed in 0..60 {
        for scheduler in ["fifo", "priq", "tbf", "drr"] {
            for sizes in
                [(0, 8, 1000), (3, 0, 1000), (3, 3, 30), (9, 5, 150), (40, 2, 10), (2, 2, 1)]
            {
                check(scheduler, seed, sizes);
            }
        }
    }
}

/// Keeps two packets of each flow waiting until so many packets left; returns the bytes of each.
fn busy(flows: &[(u32, u32)], packets: usize) -> BTreeMap<(u32, u32), u64> {
    let plan = plan("fifo", 1_000_000_000, &[("target", "1000000 s"), ("limit", "30000 packets")]);
    let mut link = plan.build().expect("builds");
    let mut random = Random::new(5);
    let mut sent = BTreeMap::new();
    let mut offer = |link: &mut dyn AnyLink, now: Instant, at: u32| {
        // Full packets, small ones, and those between.
        let length =
            [1514, 64, 100 + random.between(0, 1400) as u32][random.between(0, 2) as usize];
        let verdict = link.offer(now, LEAF, packet(at, length, flows[at as usize]));
        assert_eq!(verdict, Verdict::Queued);
    };
    for at in (0..flows.len() as u32).chain(0..flows.len() as u32) {
        offer(&mut *link, Instant::ZERO, at);
    }
    let mut now = Instant::ZERO;
    for _ in 0..packets {
        match link.poll(now) {
            Poll::Packet(departure) => {
                *sent.entry(flows[departure.handle.0 as usize]).or_default() +=
                    departure.charged.get();
                offer(&mut *link, now, departure.handle.0);
            }
            Poll::At(later) => now = later,
            Poll::Idle => panic!("packets wait"),
        }
    }
    let hosts = link.hosts(LEAF, 3).expect("hosts take turns");
    assert_eq!((hosts.hosts.len(), hosts.crowded), (3, 0), "no host or flow shares a queue");
    sent
}

/// Checks that all are within so many thousandths of their mean.
fn check_even(bytes: &[u64], thousandths: u64, what: &str) {
    let mean = bytes.iter().sum::<u64>() / bytes.len() as u64;
    for &own in bytes {
        assert!(own.abs_diff(mean) * 1000 <= mean * thousandths, "{what}: {own}, mean {mean}");
    }
}

#[test]
fn a_thousand_hosts_and_the_flows_of_each_get_equal_parts() {
    let flows: Vec<_> =
        (0..1000).flat_map(|host| (0..=host % 4).map(move |at| (host, at))).collect();
    let sent = busy(&flows, 1_600_000);
    let mut hosts = BTreeMap::<u32, Vec<u64>>::new();
    for ((host, _), bytes) in sent {
        hosts.entry(host).or_default().push(bytes);
    }
    let sums: Vec<u64> = hosts.values().map(|flows| flows.iter().sum()).collect();
    assert_eq!(sums.len(), 1000);
    check_even(&sums, 20, "hosts");
    hosts.values().for_each(|flows| check_even(flows, 20, "flows of a host"));
}

/// Ten busy hosts, one of which has so many flows, each with a window of so many packets, and a sparse
/// one; returns the longest wait of a sparse packet in nanoseconds, and the parts of that host and
/// of another one.
fn sparse(own_flows: u32, window: u32) -> (u64, u64, u64) {
    let plan = plan("fifo", 8_000_000, &[("target", "1000000 s")]);
    let mut link = plan.build().expect("builds");
    let flows: Vec<_> =
        (0..10).map(|host| (host, 0)).chain((1..own_flows).map(|f| (0, f))).collect();
    for at in (0..window).flat_map(|_| 0..flows.len() as u32) {
        link.offer(Instant::ZERO, LEAF, packet(at, 1000, flows[at as usize]));
    }
    let (mut now, mut next, mut longest) = (Instant::ZERO, 0u64, 0);
    let (mut own, mut other) = (0, 0);
    while now < Instant::from_nanos(20_000_000_000) {
        if now.as_nanos() >= next {
            link.offer(now, LEAF, packet(u32::MAX, 100, (0, 99)));
            next += 33_000_000;
        }
        match link.poll(now) {
            Poll::Packet(left) if left.handle == Handle(u32::MAX) => {
                // In the beginning all flows are new, and the host soon owes a quantum.
                if left.arrived > Instant::from_nanos(2_000_000_000) {
                    longest = longest.max(left.at.since(left.arrived).as_nanos());
                }
                own += 100;
            }
            Poll::Packet(left) => {
                let of = flows[left.handle.0 as usize];
                own += if of.0 == 0 { 1000 } else { 0 };
                other += if of.0 == 1 { 1000 } else { 0 };
                link.offer(now, LEAF, packet(left.handle.0, 1000, of));
            }
            Poll::At(later) => now = later.min(Instant::from_nanos(next)).max(now),
            Poll::Idle => panic!("packets wait"),
        }
    }
    (longest, own, other)
}

#[test]
fn a_sparse_flow_goes_ahead_of_its_host_s_turn_and_the_host_gets_no_more() {
    for (flows, window) in [(1, 2), (2, 2), (4, 2), (16, 2), (16, 1), (4, 1)] {
        let (longest, own, other) = sparse(flows, window);
        // A packet takes a millisecond, a round of all hosts fifteen, and one of its flows up to
        // 0.24 s: some packets of others go first where the host owes nearly a quantum.
        let case = format!("{flows} flows of {window}");
        assert!(longest <= 4_000_000, "{case}: {longest} ns");
        assert!(own.abs_diff(other) <= 6_000, "{case}: {own} and {other} bytes");
    }
}

/// [algorithms §9.10]
#[test]
fn a_worked_example() {
    let plan = plan("fifo", 8_000_000, &[("target", "1000000 s"), ("quantum", "1000 B")]);
    let mut link = plan.build().expect("builds");
    for (host, flow) in [(1, 1), (1, 2), (2, 3)].repeat(3) {
        link.offer(Instant::ZERO, LEAF, packet(flow, 1000, (host, flow)));
    }
    let mut out = Vec::new();
    link.advance(Instant::MAX, &mut out);
    let order: Vec<_> = out.iter().map(|left| left.handle.0).collect();
    assert_eq!(order, [2, 3, 1, 3, 1, 3, 2, 1, 2]);
}

#[test]
fn a_flood_of_new_flows_gains_nothing() {
    let plan = plan("fifo", 8_000_000, &[("target", "1000000 s")]);
    let mut link = plan.build().expect("builds");
    let mut sent = [0u64; 3];
    let (mut now, mut flow) = (Instant::ZERO, 0);
    for at in 0..3 {
        for _ in 0..3 {
            link.offer(now, LEAF, packet(at, 1000, (at, at)));
        }
    }
    for _ in 0..9_000 {
        match link.poll(now) {
            Poll::Packet(left) => {
                let host = left.handle.0;
                sent[host as usize] += 1000;
                flow += 1;
                let of = if host == 0 { (0, flow) } else { (host, 0) };
                link.offer(now, LEAF, packet(host, 1000, of));
            }
            Poll::At(later) => now = later,
            Poll::Idle => panic!("packets wait"),
        }
    }
    check_even(&sent, 5, "hosts");
}

#[test]
fn a_change_of_the_rate_keeps_hosts_and_flows_apart() {
    for (rows, apart) in [(vec![], true), (vec![("limit", "5000 packets")], false)] {
        let from = plan("fifo", 8_000_000, &[]);
        let to = plan("fifo", 4_000_000, &rows);
        let mut link = from.build().expect("builds");
        for handle in 0..50 {
            link.offer(Instant::ZERO, LEAF, packet(handle, 1000, (1, handle)));
        }
        link.offer(Instant::ZERO, LEAF, packet(99, 1000, (2, 0)));
        Change { from: &from, to: &to, heir: LEAF }.apply(&mut link, Instant::ZERO).expect("fits");
        // After another dropper, all that waited is one queue in order of arrival. A host of new
        // flows owes up to a quantum and a packet.
        let mut out = Vec::new();
        link.advance(Instant::from_nanos(1_000_000_000), &mut out);
        let place = out.iter().position(|left| left.handle == Handle(99));
        assert_eq!(place.is_some_and(|place| place < 6), apart, "{place:?}");
        assert_eq!(out.len(), 51);
    }
}
