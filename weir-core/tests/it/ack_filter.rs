//! CAKE's acknowledgement filter beside rules that were written anew: `tests/oracle/ack_filter.py`
//! printed the runs.

use weir_core::event::{DropReason, Poll};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::packet::Segment;
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::state::{Reader, Writer};
use weir_core::units::{Bytes, Instant, Rate};

const RUNS: &str = include_str!("../oracle/ack_filter.txt");
const LEAF: LeafId = LeafId(0);

#[test]
fn a_leaf_drops_the_acknowledgements_that_the_rules_of_linux_name() {
    for scheduler in ["fifo", "drr"] {
        let dropped: u32 = RUNS.lines().map(|run| check(scheduler, run, u32::MAX)).sum();
        // A packet that DRR has seen first does not go any more.
        assert!(dropped > 200, "{scheduler}: {dropped}");
    }
}

#[test]
fn a_run_goes_on_from_a_checkpoint() {
    for run in RUNS.lines() {
        check("fifo", run, 7);
    }
}

fn plan(scheduler: &'static str, filter: &'static str) -> LinkPlan {
    let class = ClassSpec { name: "a".to_owned(), parent: None, params: Params::new() };
    let rate = Rate::new(400_000_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1514), Params::new(), vec![class]).expect("a tree");
    let mut params = Params::new();
    for (name, word) in [("tins", "besteffort"), ("hash", "flowblind"), ("ack_filter", filter)] {
        params.set(name, Value::Choice(word));
    }
    let mut plan = LinkPlan::new(scheduler, tree);
    plan.queues = vec![QueuePlan { dropper: "cake", params }];
    plan
}

/// Compares a run, with another link from a checkpoint after each so many events; returns how many
/// were dropped.
fn check(scheduler: &'static str, run: &str, restart_each: u32) -> u32 {
    let (mode, events) = run.split_once(" | ").expect("MODE | EVENTS");
    let mode = if mode == "spare" { "spare" } else { "aggressive" };
    let plan = plan(scheduler, mode);
    let mut link = plan.build().expect("builds");
    let (mut offered, mut sum) = (0, 0);
    for (place, event) in (0..).zip(events.split(' ')) {
        // The line is free at each event, and no packet ever waits for long.
        let now = Instant::from_nanos(place * 1000);
        if let Some(number) = event.strip_prefix('>') {
            let Poll::Packet(left) = link.poll(now) else { panic!("{event}: packets wait") };
            assert!(
                scheduler != "fifo" || left.handle.0.to_string() == number,
                "{event}: {left:?}"
            );
            continue;
        }
        let (packet, redundant) = event.split_once('=').unwrap_or((event, ""));
        offer(&mut *link, now, offered, &bytes(packet));
        offered += 1;
        let mut dropped = String::new();
        link.take_dropped(&mut |drop| {
            assert_eq!(drop.reason, DropReason::Redundant);
            dropped = drop.handle.0.to_string();
            sum += 1;
        });
        assert!(scheduler != "fifo" || dropped == redundant, "{mode}, {event}: {dropped}");
        if place as u32 % restart_each == restart_each - 1 {
            let mut writer = Writer::new();
            link.save(&mut writer);
            link = plan.build().expect("builds");
            link.load(&mut Reader::new(&writer.into_bytes())).expect("it is of this plan");
        }
    }
    assert!(link.account().leaves()[0].is_conserved());
    sum
}

fn offer(link: &mut dyn AnyLink, now: Instant, handle: u32, packet: &[u8]) {
    assert!(link.reads_segments(LEAF));
    link.note(Handle(handle), Segment::read(packet));
    link.offer(now, LEAF, Packet::new(Handle(handle), packet.len() as u32));
}

/// Makes an IP packet of `WAY:FLAGS:ACK:PAYLOAD:OPTIONS`.
fn bytes(text: &str) -> Vec<u8> {
    let [way, flags, ack, payload, options] = text.split(':').collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    let number = |text: &str| u32::from_str_radix(text, 16).expect("a number");
    let options: Vec<u8> =
        (0..options.len() / 2).map(|at| number(&options[2 * at..2 * at + 2]) as u8).collect();
    let payload: u16 = payload.parse().expect("a number");
    let (header, way) = (20 + options.len(), way.parse::<u8>().expect("a digit"));
    let port = u16::from(way);
    let mut tcp = [port.to_be_bytes(), 443u16.to_be_bytes()].concat();
    tcp.extend([0; 4]);
    tcp.extend(number(ack).to_be_bytes());
    tcp.extend(((header as u16) << 10 | number(flags) as u16).to_be_bytes());
    tcp.extend([0; 6]);
    tcp.extend(options);
    let carried = header as u16 + payload;
    let mut packet = match way {
        2 => ipv6(carried),
        3 => [ipv4(carried + 40, 41), ipv6(carried)].concat(),
        4 => ipv4(carried, 17),
        _ => ipv4(carried, 6),
    };
    packet.extend(tcp);
    packet.resize(packet.len() + usize::from(payload), 0);
    packet
}

fn ipv4(carried: u16, protocol: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(20 + carried).to_be_bytes());
    header[9] = protocol;
    header[15] = 1;
    header[19] = 2;
    header
}

fn ipv6(carried: u16) -> Vec<u8> {
    let mut header = vec![0; 40];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&carried.to_be_bytes());
    header[6] = 6;
    header[23] = 1;
    header[39] = 2;
    header
}

#[test]
fn segments_that_are_no_whole_header_are_none() {
    let whole = bytes("0:10:1:0:0101080a0000000500000002");
    assert!(Segment::read(&whole).is_some_and(|segment| segment.acknowledges()));
    for length in 0..whole.len() {
        assert_eq!(Segment::read(&whole[..length]), None, "{length}");
    }
    let mut fragment = whole.clone();
    fragment[7] = 9;
    assert_eq!(Segment::read(&fragment), None);
    assert_eq!(Segment::read(&bytes("4:10:1:0:")), None);
}
