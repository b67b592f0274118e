//! Flow queues, in one leaf and as leaves of a scheduler: against a plain version of Linux's and of
//! the RFC's, the RFC's properties, and CoDel for a single flow.

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
use weir_core::units::{Bytes, Duration, Instant, Rate};

const LEAF: LeafId = LeafId(0);

/// A link with one leaf and this queue.
fn plan(rate: u64, dropper: &'static str, rows: &[(&'static str, &str)]) -> LinkPlan {
    let mut plan = plan_of("fifo", rate, 1, Params::new());
    plan.queues = vec![QueuePlan { dropper, params: params(rows) }];
    plan
}

/// A link of this many leaves without parameters.
fn plan_of(scheduler: &'static str, rate: u64, leaves: usize, params: Params) -> LinkPlan {
    let class =
        |leaf: usize| ClassSpec { name: leaf.to_string(), parent: None, params: Params::new() };
    let rate = Rate::new(rate).expect("not zero");
    let classes = (0..leaves).map(class).collect();
    LinkPlan::new(scheduler, Tree::new(rate, Bytes::new(1514), params, classes).expect("a tree"))
}

fn params(rows: &[(&'static str, &str)]) -> Params {
    let mut params = Params::new();
    for &(name, text) in rows {
        let value = match text {
            "linux" => Value::Choice("linux"),
            "rfc8290" => Value::Choice("rfc8290"),
            "true" | "false" => Value::Flag(text == "true"),
            _ => Value::Quantity(text.parse().expect("rows hold words, flags and quantities")),
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

/// Slow, obvious flow queues: a standard queue for each, and lists as in Linux or the RFC.
struct Plain {
    /// Follow the letter of the RFC.
    letter: bool,
    /// The next packet is chosen as soon as the one before it leaves, not when the line is free.
    early: bool,
    /// The free line looks for a packet also when none waits.
    asks: bool,
    /// A packet that finds it empty goes first and costs its flow nothing.
    passes: bool,
    passed: Option<(u32, u64)>,
    free_at: u64,
    quantum: i64,
    limit: usize,
    flows: BTreeMap<u64, (VecDeque<(u32, u64)>, i64)>,
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    first: Option<(u64, (u32, u64))>,
}

impl Plain {
    fn new(letter: bool, quantum: u64, limit: u32) -> Self {
        Self {
            letter,
            early: true,
            asks: true,
            passes: false,
            passed: None,
            free_at: 0,
            quantum: quantum as i64,
            limit: limit as usize,
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            first: None,
        }
    }

    fn offer(&mut self, now: u64, flow: u64, (handle, length): (u32, u64)) -> Vec<u32> {
        if self.asks && self.packets() == 0 && self.free_at <= now {
            self.choose();
        }
        if self.passes && self.packets() == 0 {
            self.passed = Some((handle, length));
            return Vec::new();
        }
        let listed = self.new.contains(&flow) || self.old.contains(&flow);
        let state = self.flows.entry(flow).or_default();
        state.0.push_back((handle, length));
        if !listed {
            state.1 = self.quantum;
            self.new.push_back(flow);
        }
        if self.early && self.first.is_none() {
            self.choose();
        }
        if self.packets() > self.limit { self.shed() } else { Vec::new() }
    }

    fn packets(&self) -> usize {
        let behind: usize = self.flows.values().map(|flow| flow.0.len()).sum();
        behind + usize::from(self.first.is_some()) + usize::from(self.passed.is_some())
    }

    fn choose(&mut self) {
        self.first = None;
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let Some(&flow) = list.front() else { return };
            let state = self.flows.get_mut(&flow).expect("a listed flow had a packet");
            if state.1 <= 0 {
                state.1 += self.quantum;
                list.pop_front();
                self.old.push_back(flow);
            } else if let Some(packet) = state.0.pop_front() {
                self.first = Some((flow, packet));
                return;
            } else {
                list.pop_front();
                if is_new && (self.letter || !self.old.is_empty()) {
                    self.old.push_back(flow);
                }
            }
        }
    }

    /// A byte takes a microsecond.
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
        let (flow, (handle, length)) = self.first.take().expect("a packet waits");
        self.flows.get_mut(&flow).expect("its packet is the first").1 -= length as i64;
        self.free_at = now + length;
        if self.early && self.packets() > 0 {
            self.choose();
        }
        Some(handle)
    }

    /// Drops half of the longest flow, 64 packets at most, from its front.
    fn shed(&mut self) -> Vec<u32> {
        let mut longest = (0, 0);
        for &flow in self.new.iter().chain(&self.old) {
            let bytes = self.flows[&flow].0.iter().map(|packet| packet.1).sum();
            longest = if bytes > longest.1 { (flow, bytes) } else { longest };
        }
        let (mut gone, mut dropped) = (0, Vec::new());
        while dropped.is_empty() || gone < longest.1 / 2 && dropped.len() < 64 {
            let queue = &mut self.flows.get_mut(&longest.0).expect("it is longest").0;
            let (handle, length) = queue.pop_front().expect("less than half of it is gone");
            gone += length;
            dropped.push(handle);
        }
        dropped
    }
}

/// The order in which `sch_fq_codel` of Linux 6.1 sent, below HTB and below TBF, packets of which
/// each was a member of the flow that its class named. A line is the parent, quantum and limit,
/// then for each packet that was sent to the device FLOW:LENGTH, and for each that left its number.
const KERNEL: &str = include_str!("../kernel/fq_codel.txt");
/// Runs in which CoDel drops, with `@` and the nanoseconds of each event.
const KERNEL_DROPS: &str = include_str!("../kernel/fq_codel_drops.txt");

#[test]
fn a_leaf_of_flows_sends_in_the_order_of_a_kernel() {
    KERNEL.lines().for_each(|line| check_kernel(line, ("1000 s", "1000 s")));
    KERNEL_DROPS.lines().for_each(|line| check_kernel(line, ("50 ms", "1 s")));
}

fn check_kernel(line: &'static str, (target, interval): (&str, &str)) {
    let (setup, events) = line.split_once(" | ").expect("PARENT QUANTUM LIMIT | EVENTS");
    let [parent, quantum, limit] = setup.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{setup}")
    };
    // A kernel sends when its tokens let it; here every poll finds tokens.
    let fast = params(&[("rate", "400 Gbit/s")]);
    let (of_link, of_class) =
        if parent == "htb" { (Params::new(), fast) } else { (fast, Params::new()) };
    let class = ClassSpec { name: "a".to_string(), parent: None, params: of_class };
    let rate = Rate::new(400_000_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1514), of_link, vec![class]).expect("a tree");
    let mut plan = LinkPlan::new(parent, tree);
    let rows = params(&[
        ("flows", "65536"),
        ("quantum", quantum),
        ("limit", limit),
        ("target", target),
        ("interval", interval),
    ]);
    plan.queues = vec![QueuePlan { dropper: "fq-codel", params: rows }];
    let mut link = plan.build().expect("builds");
    let (mut now, mut offered) = (Instant::ZERO, 0);
    for event in events.split(' ') {
        let (event, at) = event.split_once('@').unwrap_or((event, ""));
        now = match at.parse() {
            Ok(nanos) => Instant::from_nanos(nanos),
            Err(_) => now.after(Duration::from_micros(10)),
        };
        if let Some((flow, length)) = event.split_once(':') {
            let [flow, length] = [flow, length].map(|text| text.parse().expect("a number"));
            link.offer(now, LEAF, packet(offered, length, flow));
            offered += 1;
            continue;
        }
        let sent = match link.poll(now) {
            Poll::Packet(departure) => departure.handle.0.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(sent, event, "{setup}, after {offered} packets");
    }
    assert_eq!(link.poll(now.after(Duration::from_secs(1))), Poll::Idle, "{setup}");
}

/// Offers packets of random flows to a link and to a plain version, with polls and pauses between;
/// `flow_of` gives the leaf of a flow and its number in the plain version.
fn compare(
    plan: &LinkPlan,
    mut plain: Plain,
    (seed, flows): (u64, u64),
    mut flow_of: impl FnMut(u32) -> (LeafId, u64),
) {
    let case = format!("{} letter {} seed {seed}", plan.scheduler, plain.letter);
    let mut random = Random::new(seed);
    let mut link = plan.build().expect("builds");
    let mut micros = 0;
    for handle in 0..600 {
        micros += random.wide(1, 9000);
        let now = Instant::from_nanos(micros * 1000);
        // Periods in which the leaf grows, and periods in which it shrinks.
        if random.between(0, 7) < if handle / 100 % 2 == 0 { 6 } else { 2 } {
            let flow = random.between(0, flows) as u32;
            let length = random.wide(1, 9000) as u32;
            let (leaf, number) = flow_of(flow);
            let verdict = link.offer(now, leaf, packet(handle, length, flow));
            let expected = plain.offer(micros, number, (handle, u64::from(length)));
            let real: Vec<u32> = dropped(&mut *link).iter().map(|drop| drop.0).collect();
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
    }
}

/// One leaf with flow queues. A byte takes a microsecond.
fn check(
    scheduler: &'static str,
    letter: bool,
    seed: u64,
    (queues, limit, flows): (u64, u32, u64),
) {
    let quantum = Random::new(seed).wide(64, 3000);
    let rows = [
        ("flows", queues.to_string()),
        ("limit", format!("{limit} packets")),
        ("quantum", format!("{quantum} B")),
        ("target", "1000000 s".to_string()),
        ("rules", if letter { "rfc8290" } else { "linux" }.to_string()),
    ];
    let rows = rows.each_ref().map(|(name, text)| (*name, text.as_str()));
    // Tokens hold nothing back.
    let fast = if scheduler == "tbf" { params(&[("rate", "400 Gbit/s")]) } else { Params::new() };
    let mut plan = plan_of(scheduler, 8_000_000, 1, fast);
    plan.queues = vec![QueuePlan { dropper: "fq-codel", params: params(&rows) }];
    plan.seed = seed;
    let mut hash =
        Queues::new(&plan.queues, &plan.tree, plan.packets_max, plan.seed).expect("builds");
    let early = ["tbf", "drr"].contains(&scheduler);
    let asks = ["tbf", "fifo", "priq"].contains(&scheduler);
    let passes = scheduler == "fifo" && !letter;
    let plain = Plain { early, asks, passes, ..Plain::new(letter, quantum, limit) };
    compare(&plan, plain, (seed, flows), |flow| {
        (
            LEAF,
            (u64::from(hash.label(LEAF, Label::new(0), (Host::NONE, flow)).flow()) * queues) >> 16,
        )
    });
}

#[test]
fn a_leaf_of_flows_agrees_with_a_plain_one() {
    let schedulers = ["fifo", "priq", "tbf", "drr"];
    let cases = schedulers.map(|one| [(one, false), (one, true)]).concat();
    for (seed, &(scheduler, letter)) in
        (0..40).flat_map(|seed| cases.iter().map(move |one| (seed, one)))
    {
        for sizes in [
            (1, 1000, 9),
            (4, 30, 20),
            (65_536, 1000, 5),
            (65_536, 150, 5),
            (1024, 10, 100),
            (1024, 1, 100),
        ] {
            check(scheduler, letter, seed, sizes);
        }
    }
}

#[test]
fn leaves_of_the_scheduler_agree_with_plain_flows() {
    for (seed, letter) in (0..150).flat_map(|seed| [(seed, false), (seed, true)]) {
        let quantum = Random::new(seed).wide(64, 3000);
        let size = format!("{quantum} B");
        let word = if letter { "rfc8290" } else { "linux" };
        let rows = params(&[("quantum", size.as_str()), ("rules", word)]);
        let leaves = 1 + seed % 9;
        let mut plan = plan_of("fq-codel", 8_000_000, leaves as usize, rows);
        let tail = QueuePlan { dropper: "tail", params: params(&[("limit", "1000 packets")]) };
        plan.queues = vec![tail; leaves as usize];
        let plain = Plain { early: false, ..Plain::new(letter, quantum, 100_000) };
        compare(&plan, plain, (seed, leaves - 1), |flow| (LeafId(flow), u64::from(flow)));
    }
}

#[test]
fn a_single_flow_is_treated_as_by_codel() {
    for (seed, ecn) in (0..40).flat_map(|seed| [(seed, "true"), (seed, "false")]) {
        let rows = [("target", "2 ms"), ("interval", "10 ms"), ("ecn", ecn), ("rules", "rfc8290")];
        let runs = [("fq-codel", 4), ("codel", 3)].map(|(dropper, known)| {
            let mut plan = plan(10_000_000, dropper, &rows[..known]);
            plan.packets_max = 500;
            let mut link = plan.build().expect("builds");
            let (mut random, mut now, mut out) = (Random::new(seed), Instant::ZERO, Vec::new());
            for handle in 0..800 {
                // Overload, with pauses in which it may empty.
                let gap = if random.one_in(50) { 200_000 } else { random.between(0, 1_800) };
                now = now.after(Duration::from_micros(gap));
                link.advance(now, &mut out);
                let traffic_class = random.between(0, 3) as u8;
                let length = random.between(60, 2500) as u32;
                link.offer(now, LEAF, Packet { traffic_class, ..packet(handle, length, 7) });
            }
            let dropped = dropped(&mut *link);
            assert!(ecn == "true" || dropped.len() > 10, "CoDel has work to do");
            (out, dropped)
        });
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

#[test]
fn drops_in_a_flow_follow_the_intervals_of_the_published_trace() {
    // 1000 bytes take 0.1 ms. 200 of them always wait, so 20 ms; after a drop one more arrives.
    let rules = [("rules", "rfc8290")];
    let mut link = plan(80_000_000, "fq-codel", &rules).build().expect("builds");
    let (mut now, mut handle, mut drops, mut out) = (Instant::ZERO, 0, Vec::new(), Vec::new());
    while now.as_nanos() < 560_000_000 {
        while link.backlog() < 200 {
            link.offer(now, LEAF, packet(handle, 1000, 3));
            handle += 1;
        }
        now = now.after(Duration::from_micros(100));
        link.advance(now, &mut out);
        link.take_dropped(&mut |drop| {
            assert_eq!(drop.reason, DropReason::Late);
            drops.push(drop.at.as_nanos() as f64 / 1e6);
        });
    }
    // [algorithms §9.6], from the first drop on.
    let expected = [0.0, 100.0, 170.7, 228.4, 278.4, 323.2, 364.0, 401.8];
    assert!(drops.len() >= expected.len(), "{drops:?}");
    for (drop, expected) in drops.iter().zip(expected) {
        assert!((drop - drops[0] - expected).abs() < 0.21, "{drops:?}");
    }
}

#[test]
fn the_longest_flow_loses_half_or_64_packets_from_its_front() {
    // Packets of flow 1 with 1000 bytes, of flow 2 with 100; packets of flow 1 that are dropped.
    let rows = [(150, 50, 64), (20, 80, 10), (21, 80, 10), (1, 0, 1), (30, 100, 15)];
    for (fat, thin, gone) in rows {
        let limit = format!("{} packets", fat + thin);
        let rows = [("limit", limit.as_str()), ("flows", "65536")];
        // Below `fifo` the first packet would pass the flows by.
        let mut plan = plan_of("priq", 8_000, 1, Params::new());
        plan.queues = vec![QueuePlan { dropper: "fq-codel", params: params(&rows) }];
        let mut link = plan.build().expect("builds");
        for handle in 0..fat + thin {
            let (length, flow) = if handle < fat { (1000, 1) } else { (100, 2) };
            let verdict = link.offer(Instant::ZERO, LEAF, packet(handle, length, flow));
            assert_eq!(verdict, Verdict::Queued);
        }
        let verdict = link.offer(Instant::ZERO, LEAF, packet(1_000_000, 100, 2));
        assert_eq!(verdict, Verdict::Queued);
        // Half of 21 000 bytes are gone with the eleventh.
        let gone = if fat == 21 { gone + 1 } else { gone };
        let expected: Vec<_> = (0..gone).map(|handle| (handle, DropReason::Longest)).collect();
        assert_eq!(dropped(&mut *link), expected, "{fat} and {thin}");
    }
    let mut link = plan(8_000, "fq-codel", &[("memory", "5 kB")]).build().expect("builds");
    for handle in 0..6 {
        link.offer(Instant::ZERO, LEAF, packet(handle, 1000, handle));
    }
    assert_eq!(link.backlog(), 5);
    let verdict = link.offer(Instant::ZERO, LEAF, packet(6, 9000, 9));
    assert_eq!(verdict, Verdict::Dropped(DropReason::Longest), "itself is the longest");
}

#[test]
fn a_sparse_flow_waits_for_the_packet_on_the_line_and_one_that_the_scheduler_has_seen() {
    // Eight flows always wait; 1500 bytes take 1.2 ms. One of 300 bytes each 50 ms.
    let schedulers = [("fifo", 1_200_000), ("priq", 1_200_000), ("drr", 2_400_000)];
    for (seed, (scheduler, longest)) in (0..5).flat_map(|seed| schedulers.map(|one| (seed, one))) {
        let mut plan = plan_of(scheduler, 10_000_000, 1, Params::new());
        let rows = params(&[("flows", "65536")]);
        plan.queues = vec![QueuePlan { dropper: "fq-codel", params: rows }];
        plan.seed = seed;
        let mut link = plan.build().expect("builds");
        let (mut out, mut handle) = (Vec::new(), 0);
        for step in 0..4000u64 {
            let now = Instant::from_nanos(step * 1_200_000 + 600_000);
            link.advance(now, &mut out);
            for flow in 0..8 {
                handle += 1;
                link.offer(now, LEAF, packet(handle, 1500, flow));
            }
            if step % 42 == 0 {
                link.offer(now, LEAF, packet(1_000_000, 300, 99));
            }
        }
        let sparse = out.iter().filter(|departure| departure.handle.0 == 1_000_000);
        // The first arrives together with those of all other flows, which are new too.
        let waits: Vec<_> =
            sparse.skip(1).map(|one| one.at.since(one.arrived).as_nanos()).collect();
        assert!(waits.len() >= 95, "none is dropped: {}", waits.len());
        let most = waits.iter().max();
        assert!(most > Some(&(longest - 1_200_000)), "{scheduler} {waits:?}");
        assert!(most <= Some(&longest), "{scheduler} {waits:?}");
    }
}

#[test]
fn other_seeds_make_other_flows_collide() {
    let pairs = |seed| {
        let mut plan = plan(8_000, "fq-codel", &[]);
        plan.seed = seed;
        let mut queues =
            Queues::new(&plan.queues, &plan.tree, plan.packets_max, plan.seed).expect("builds");
        let mut part = |flow| queues.label(LEAF, Label::new(0), (Host::NONE, flow)).flow() >> 6;
        let parts: Vec<u16> = (0..1000).map(&mut part).collect();
        let both = |one: usize, other: usize| parts[one] == parts[other];
        (0..1000)
            .flat_map(|one| (0..one).map(move |other| (one, other)))
            .filter(|&(one, other)| both(one, other))
            .collect::<Vec<_>>()
    };
    let (first, second) = (pairs(1), pairs(2));
    // Of 499 500 pairs one in 1024 shares a queue.
    for pairs in [&first, &second] {
        assert!((300..700).contains(&pairs.len()), "{}", pairs.len());
    }
    assert!(first.iter().filter(|pair| second.contains(pair)).count() < 20);
}

#[test]
fn a_change_of_an_idle_link_changes_no_later_turn() {
    for (seed, scheduler) in (0..40).flat_map(|seed| [(seed, "drr"), (seed, "priq")]) {
        let mut plan = plan_of(scheduler, 8_000_000, 1, Params::new());
        plan.queues = vec![QueuePlan { dropper: "fq-codel", params: Params::new() }];
        let mut links = [plan.build().expect("builds"), plan.build().expect("builds")];
        let (mut random, mut micros) = (Random::new(seed), 0);
        for handle in 0..400 {
            micros += random.wide(1, 2000);
            let now = Instant::from_nanos(micros * 1000);
            if links[1].backlog() == 0 {
                let change = Change { from: &plan, to: &plan, heir: LEAF };
                change.apply(&mut links[1], now).expect("builds");
            }
            if random.one_in(2) {
                let flow = random.between(0, 4) as u32;
                let one = packet(handle, random.wide(60, 1514) as u32, flow);
                links
                    .iter_mut()
                    .for_each(|link| assert_eq!(link.offer(now, LEAF, one), Verdict::Queued));
            } else {
                let [one, other] = &mut links;
                assert_eq!(one.poll(now), other.poll(now), "{scheduler} seed {seed}");
            }
        }
    }
}

#[test]
fn a_change_hands_packets_over_in_the_order_of_arrival() {
    let flows = plan(8_000, "fq-codel", &[]);
    let tail = plan(8_000, "tail", &[("limit", "1000 packets")]);
    let wide = plan(8_000, "fq-codel", &[("flows", "65536")]);
    let small = plan(8_000, "fq-codel", &[("limit", "30 packets")]);
    for (from, to) in [(&flows, &tail), (&flows, &wide), (&flows, &flows), (&flows, &small)] {
        let mut link = from.build().expect("builds");
        for handle in 0..40 {
            let now = Instant::from_nanos(u64::from(handle));
            link.offer(now, LEAF, packet(handle, 100 + handle, handle % 5));
        }
        let now = Instant::from_nanos(100);
        Change { from, to, heir: LEAF }.apply(&mut link, now).expect("builds");
        let refused: Vec<u32> = dropped(&mut *link).iter().map(|drop| drop.0).collect();
        assert!(refused.iter().copied().eq(40 - refused.len() as u32..40), "{refused:?}");
        assert_eq!(refused.len(), if to.queues[0] == small.queues[0] { 10 } else { 0 });
        let mut out = Vec::new();
        let mut next = Some(now);
        while let Some(instant) = next {
            next = link.advance(instant, &mut out);
        }
        let handles: Vec<u32> = out.iter().map(|departure| departure.handle.0).collect();
        let late = dropped(&mut *link).len();
        assert_eq!(handles.len() + refused.len() + late, 40);
        for flow in 0..5 {
            assert!(handles.iter().filter(|&handle| handle % 5 == flow).is_sorted());
        }
        assert_eq!(handles.is_sorted(), to.queues[0] == tail.queues[0], "{handles:?}");
    }
}
