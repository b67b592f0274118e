//! Tins, flows and hosts in one leaf: who gets what, and who goes first. The order packet by packet
//! is compared with the kernel's by `cargo xtask figures decisions`.

use crate::common;

use common::Random;
use std::collections::BTreeMap;
use weir_core::event::{Departure, DropReason, Poll, Verdict};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::packet::{FlowKey, Host};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::state::{Reader, Writer};
use weir_core::units::{Bytes, Instant, Rate};

const LEAF: LeafId = LeafId(0);
const BEST_EFFORT: u8 = 0;
const VOICE: u8 = 46 << 2;
const BULK: u8 = 8 << 2;

/// A link of 8 Mbit/s, so that a byte takes a microsecond, with one leaf.
fn plan(scheduler: &'static str, words: &[(&'static str, &'static str)]) -> LinkPlan {
    let class = ClassSpec { name: "a".to_owned(), parent: None, params: Params::new() };
    let rate = Rate::new(8_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1514), Params::new(), vec![class]).expect("a tree");
    let mut plan = LinkPlan::new(scheduler, tree);
    let mut params = Params::new();
    for &(name, text) in words {
        let value = match text {
            "true" => Value::Flag(true),
            text => text.parse().map_or(Value::Choice(text), Value::Quantity),
        };
        params.set(name, value);
    }
    plan.queues = vec![QueuePlan { dropper: "cake", params }];
    plan
}

/// Whom a packet is from and to, its connection, and its traffic class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Flow {
    from: u64,
    to: u64,
    port: u32,
    class: u8,
}

impl Flow {
    const fn new(from: u64, to: u64, port: u32, class: u8) -> Self {
        Self { from, to, port, class }
    }

    fn packet(self, handle: u32, length: u32) -> Packet {
        let flow = (self.from * 31 + self.to) as u32 * 65_537 + self.port;
        let host = Host::from_bits(u128::from(self.from) << 64 | u128::from(self.to));
        Packet { flow, host, traffic_class: self.class, ..Packet::new(Handle(handle), length) }
    }
}

/// Keeps `window` packets of each flow waiting until so many packets left; returns the bytes of
/// each.
fn busy(plan: &LinkPlan, flows: &[Flow], (window, packets): (usize, usize)) -> BTreeMap<Flow, u64> {
    let mut link = plan.build().expect("builds");
    let mut random = Random::new(5);
    let mut sent = BTreeMap::new();
    let mut offer = |link: &mut dyn AnyLink, now: Instant, at: u32| {
        let length =
            [1514, 64, 100 + random.between(0, 1400) as u32][random.between(0, 2) as usize];
        link.offer(now, LEAF, flows[at as usize].packet(at, length));
    };
    for at in (0..window).flat_map(|_| 0..flows.len() as u32) {
        offer(&mut *link, Instant::ZERO, at);
    }
    let (mut now, mut left) = (Instant::ZERO, 0);
    while left < packets {
        match link.poll(now) {
            Poll::Packet(departure) => {
                left += 1;
                *sent.entry(flows[departure.handle.0 as usize]).or_default() +=
                    departure.charged.get();
                offer(&mut *link, now, departure.handle.0);
            }
            Poll::At(later) => now = later,
            Poll::Idle => panic!("packets wait"),
        }
        let mut dropped = Vec::new();
        link.take_dropped(&mut |drop| dropped.push(drop.handle.0));
        dropped.into_iter().for_each(|at| offer(&mut *link, now, at));
    }
    assert!(link.account().leaves()[0].is_conserved());
    sent
}

/// No packet is late.
const PATIENT: [(&str, &str); 2] = [("target", "100000 s"), ("interval", "200000 s")];

fn patient(words: &[(&'static str, &'static str)]) -> LinkPlan {
    plan("fifo", &[words, &PATIENT].concat())
}

#[test]
fn a_host_with_many_flows_gets_no_more_than_one_with_one() {
    for word in ["triple-isolate", "dual-srchost"] {
        let plan = patient(&[("hash", word), ("tins", "besteffort")]);
        assert_ne!(plan.queues[0].flow_key(), FlowKey::Connection);
        for many in [1, 8, 32] {
            // With one host of a flow the port passes its source alone.
            let to = |port: u32| if word == "dual-srchost" { 0 } else { 100 + u64::from(port) };
            let mut flows: Vec<_> = (0..many).map(|at| Flow::new(1, to(at), at, 0)).collect();
            let other = Flow::new(2, to(99), 1, 0);
            flows.push(other);
            let sent = busy(&plan, &flows, (4, 60_000));
            let total: u64 = sent.values().sum();
            let own = sent[&other];
            assert!((own * 2).abs_diff(total) * 100 <= total * 2, "{word} {many}: {own} {total}");
        }
    }
}

#[test]
fn the_worked_example_of_its_section() {
    let mut link = patient(&[("hash", "flows"), ("tins", "besteffort")]).build().expect("builds");
    for handle in 0..6 {
        let flow = Flow::new(1, 2, handle / 3, BEST_EFFORT);
        link.offer(Instant::ZERO, LEAF, flow.packet(handle, 300));
    }
    let (mut order, mut at) = (Vec::new(), Instant::ZERO);
    while order.len() < 6 {
        match link.poll(at) {
            Poll::Packet(departure) => order.push(departure.handle.0 / 3 + 1),
            Poll::At(later) => at = later,
            Poll::Idle => panic!("packets wait"),
        }
    }
    assert_eq!(order, [1, 2, 1, 2, 1, 2]);
}

#[test]
fn flows_share_alike_without_hosts_and_all_in_one_queue_as_they_come() {
    let flows: Vec<_> = (0..8).map(|port| Flow::new(u64::from(port / 7), 9, port, 0)).collect();
    let sent = busy(&patient(&[("hash", "flows")]), &flows, (4, 40_000));
    let mean = sent.values().sum::<u64>() / 8;
    assert!(sent.values().all(|own| own.abs_diff(mean) * 50 < mean), "{sent:?}");
    let plan = patient(&[("hash", "flowblind")]);
    assert_eq!(plan.queues[0].flow_key(), FlowKey::Nothing);
}

/// Offers a packet of the class each so many microseconds for two seconds, beside a flow of best
/// effort that always waits; returns the longest wait in microseconds, and the bytes of best effort.
fn beside(plan: &LinkPlan, class: u8, (length, every): (u32, u64)) -> (u64, u64) {
    let mut link = plan.build().expect("builds");
    let (own, other) = (Flow::new(1, 2, 1, class), Flow::new(1, 2, 2, BEST_EFFORT));
    let (mut now, mut next, mut longest, mut bytes) = (0, 500, 0, 0);
    for _ in 0..4 {
        link.offer(Instant::ZERO, LEAF, other.packet(0, 1000));
    }
    while now < 2_000_000 {
        let at = Instant::from_nanos(now * 1000);
        if now >= next {
            link.offer(at, LEAF, own.packet(1, length));
            next += every;
        }
        match link.poll(at) {
            Poll::Packet(Departure { handle: Handle(1), arrived, .. }) => {
                longest = longest.max(at.since(arrived).as_nanos() / 1000);
            }
            Poll::Packet(departure) => {
                bytes += departure.charged.get();
                link.offer(at, LEAF, other.packet(0, 1000));
            }
            Poll::At(later) => now = next.min(later.as_nanos() / 1000).max(now),
            Poll::Idle => now = next,
        }
        link.take_dropped(&mut |_| {});
    }
    (longest, bytes)
}

#[test]
fn voice_within_its_part_waits_for_one_packet_and_beyond_it_starves_nobody() {
    let plan = patient(&[("hash", "flows")]);
    // A fifth of the line: it waits for the packet on the line.
    let (longest, bytes) = beside(&plan, VOICE, (200, 1000));
    assert!(longest <= 1000, "{longest} us");
    assert!(bytes.abs_diff(1_600_000) < 20_000, "{bytes}");
    // As much as the line: a quarter has priority.
    let (_, bytes) = beside(&plan, VOICE, (1000, 1000));
    assert!(bytes.abs_diff(1_500_000) < 60_000, "{bytes}");
    // Bulk has a sixteenth.
    let (_, bytes) = beside(&plan, BULK, (1000, 1000));
    assert!(bytes.abs_diff(1_875_000) < 60_000, "{bytes}");
    // Without tins all are alike.
    let plan = patient(&[("hash", "flows"), ("tins", "besteffort")]);
    let (_, bytes) = beside(&plan, VOICE, (1000, 1000));
    assert!(bytes.abs_diff(1_000_000) < 20_000, "{bytes}");
}

#[test]
fn tins_of_no_known_rate_share_by_weight() {
    let plan = patient(&[("unlimited", "true")]);
    let flows = [BEST_EFFORT, BULK, VOICE].map(|class| Flow::new(1, 2, u32::from(class), class));
    let sent = busy(&plan, &flows, (4, 40_000));
    let total: u64 = sent.values().sum();
    for (flow, weight) in flows.iter().zip([1024, 64, 256]) {
        let expected = total * weight / 1344;
        let own = sent[flow];
        assert!(own.abs_diff(expected) * 50 < expected, "{flow:?}: {own} not {expected}");
    }
}

#[test]
fn a_rate_is_known_or_it_is_unlimited() {
    let built = plan("fifo", &[("unlimited", "true"), ("rate", "1 Mbit/s")]).build();
    let error = built.err().expect("they contradict each other").to_string();
    assert!(error.contains("remove one of them"), "{error}");
}

#[test]
fn washed_packets_leave_without_a_dscp_but_with_their_ecn() {
    for (words, expected) in [(&[][..], None), (&[("wash", "true")], Some(0b10))] {
        let mut link = plan("fifo", words).build().expect("builds");
        link.offer(Instant::ZERO, LEAF, Flow::new(1, 2, 3, VOICE | 0b10).packet(7, 500));
        link.offer(Instant::ZERO, LEAF, Flow::new(1, 2, 4, 0b01).packet(8, 500));
        let mut marks = Vec::new();
        let mut at = Instant::ZERO;
        while marks.len() < 2 {
            match link.poll(at) {
                Poll::Packet(departure) => {
                    marks.push((departure.handle.0, departure.mark.written()))
                }
                Poll::At(later) => at = later,
                Poll::Idle => panic!("packets wait"),
            }
        }
        assert_eq!(marks, [(7, expected), (8, None)]);
    }
}

#[test]
fn the_longest_flow_of_all_tins_drops_when_memory_is_full() {
    // 1000 bytes take a buffer of 2048 and a descriptor of 256.
    let rows = [("memory", "23040 B"), ("hash", "flows")];
    for scheduler in ["fifo", "drr"] {
        let mut link = plan(scheduler, &rows).build().expect("builds");
        let flow = |port: u32| Flow::new(1, 2, port, if port == 1 { BULK } else { VOICE });
        let dropped = |link: &mut dyn AnyLink| {
            let mut rows = Vec::new();
            link.take_dropped(&mut |drop| rows.push((drop.handle.0, drop.reason)));
            rows
        };
        for handle in 0..9 {
            let verdict =
                link.offer(Instant::ZERO, LEAF, flow(1 + handle / 6).packet(handle, 1000));
            assert_eq!(verdict, Verdict::Queued);
        }
        assert!(dropped(&mut *link).is_empty());
        // DRR's first packet was chosen when it came, so it is in no flow's chain any more.
        let early = scheduler == "drr";
        let mut all = Vec::new();
        for handle in 9..14 {
            link.offer(Instant::ZERO, LEAF, flow(3).packet(handle, 1000));
            all.extend(dropped(&mut *link));
        }
        let expected: &[u32] = if early { &[1, 2, 9] } else { &[0, 1, 2, 9] };
        let handles: Vec<u32> = all.iter().map(|row| row.0).collect();
        assert_eq!(handles[..3], expected[..3], "{scheduler}: {all:?}");
        assert!(all.iter().all(|row| row.1 == DropReason::Longest));
    }
}

/// A random workload of tins and flows; returns what left and what was dropped.
fn run(plan: &LinkPlan, seed: u64, restart_each: u32) -> Vec<(u64, u32, bool)> {
    let mut link = plan.build().expect("builds");
    let mut random = Random::new(seed);
    let mut log = Vec::new();
    let mut micros = 0;
    for handle in 0..1500 {
        micros += random.wide(1, 2500);
        let now = Instant::from_nanos(micros * 1000);
        if random.between(0, 9) < 7 {
            let class = random.between(0, 255) as u8;
            let host = random.between(0, 5);
            let flow = Flow::new(host, 9 - host, random.between(0, 3) as u32, class);
            link.offer(now, LEAF, flow.packet(handle, random.wide(60, 1514) as u32));
        } else if let Poll::Packet(left) = link.poll(now) {
            log.push((micros, left.handle.0, left.mark.written().is_some()));
        }
        link.take_dropped(&mut |drop| log.push((micros, drop.handle.0, true)));
        if handle % restart_each == restart_each - 1 {
            let saved = |link: &dyn AnyLink| {
                let mut writer = Writer::new();
                link.save(&mut writer);
                writer.into_bytes()
            };
            let bytes = saved(&*link);
            link = plan.build().expect("builds");
            link.load(&mut Reader::new(&bytes)).expect("it is a checkpoint of this plan");
            assert!(saved(&*link) == bytes, "what is loaded, saved again, gives the same bytes");
        }
    }
    log
}

#[test]
fn a_run_goes_on_from_a_checkpoint_as_if_there_were_none() {
    for scheduler in ["fifo", "drr"] {
        for (seed, word) in TINS.into_iter().enumerate() {
            let rows = [
                ("tins", word),
                ("target", "1 ms"),
                ("interval", "20 ms"),
                ("limit", "60 packets"),
            ];
            let plan = plan(scheduler, &rows);
            let once = run(&plan, seed as u64, 10_000);
            assert_eq!(run(&plan, seed as u64, 97), once, "{scheduler} {word}");
            assert!(once.len() > 400, "{scheduler} {word}");
        }
    }
}

const TINS: [&str; 5] = ["diffserv3", "besteffort", "precedence", "diffserv4", "diffserv8"];
