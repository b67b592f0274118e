//! Golden traces: the order of service in the worked examples of the sources.
//!
//! A row gives the scheduler, the leaves with a parameter in bytes, the packets that all wait at
//! the start, and the order of leaves in which their packets leave.

use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Instant, Quantity, Rate};

/// `leaves` is `a:quantum=1500 b`, `packets` is `a:1000x6 b:700x4`.
fn check(scheduler: &str, leaves: &str, packets: &str, order: &str) {
    let classes: Vec<ClassSpec> = leaves.split(' ').map(class).collect();
    let rate = Rate::new(8_000_000).expect("not zero");
    let names: String = classes.iter().map(|class| class.name.as_str()).collect();
    let tree = Tree::new(rate, Bytes::new(1500), Params::new(), classes).expect("flat");
    let scheduler = weir_core::sched::find(scheduler).expect("registered").descriptor.keyword;
    let mut link = LinkPlan::new(scheduler, tree).build().expect("builds");
    for group in packets.split(' ') {
        let (name, rest) = group.split_once(':').expect("name:LENGTHxCOUNT");
        let (length, count) = rest.split_once('x').expect("LENGTHxCOUNT");
        let leaf = LeafId(names.find(name).expect("a leaf") as u32);
        for _ in 0..count.parse().expect("a count") {
            let length = length.parse().expect("a length");
            link.offer(Instant::ZERO, leaf, Packet::new(Handle(0), length));
        }
    }
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    while let Some(next) = link.advance(now, &mut out) {
        now = next;
    }
    let served: String = out.iter().map(|d| &names[d.leaf.index()..=d.leaf.index()]).collect();
    assert_eq!(served, order, "{scheduler} {leaves} {packets}");
}

fn class(text: &str) -> ClassSpec {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut params = Params::new();
    if let Some((_, value)) = rest.split_once("quantum=") {
        let bytes = Bytes::new(value.parse().expect("a number of bytes"));
        params.set("quantum", Value::Quantity(Quantity::Bytes(bytes)));
    }
    ClassSpec { name: name.to_owned(), parent: None, params }
}

#[test]
fn fifo_serves_in_order_of_arrival() {
    check("fifo", "a b", "a:100x2 b:1500x1 a:40x1", "aaba");
}

#[test]
fn drr_follows_the_worked_example() {
    // [algorithms §4.6]
    check("drr", "a:quantum=1500 b:quantum=500", "a:1000x6 b:700x4", "aaababaabb");
}

#[test]
fn drr_gives_equal_bytes_for_equal_quanta() {
    check("drr", "a b", "a:500x6 b:1500x2", "aaabaaab");
}

/// Nine leaves that are always backlogged, and one that holds only its newest packet and gets a new
/// one in the middle of every packet that the line sends.
fn check_newest_only(scheduler: &str) {
    let rate = Rate::new(8_000_000).expect("not zero");
    let rate_of_leaf = Quantity::Rate(Rate::new(800_000).expect("not zero"));
    let entry = weir_core::sched::find(scheduler).expect("registered");
    let takes_rate = entry.descriptor.parameters.iter().any(|row| row.name == "rate");
    let class = |index: u32| {
        let params = Params::new();
        let params = if takes_rate { params.with("rate", rate_of_leaf) } else { params };
        ClassSpec { name: index.to_string(), parent: None, params }
    };
    let tree = Tree::new(rate, Bytes::new(1000), Params::new(), (0..10).map(class).collect());
    let mut plan = LinkPlan::new(entry.descriptor.keyword, tree.expect("flat"));
    let limit = Params::new().with("limit", Quantity::Packets(1));
    plan.queues[0] = QueuePlan { dropper: "head", params: limit };
    let mut link = plan.build().expect("builds");
    let packet = Packet::new(Handle(0), 1000);
    let mut out = Vec::new();
    for half_ms in 0..400 {
        let now = Instant::from_nanos(half_ms * 500_000);
        link.advance(now, &mut out);
        for leaf in 1..10 {
            link.offer(now, LeafId(leaf), packet);
        }
        if half_ms % 2 == 1 {
            link.offer(now, LeafId(0), packet);
        }
    }
    let sent = link.account().leaf(LeafId(0)).sent.packets;
    // A turn may be of several packets; this leaf has one.
    assert!((10..=22).contains(&sent), "{scheduler}: {sent} of 200 packets, a tenth is its share");
}

#[test]
fn a_leaf_that_keeps_only_its_newest_packet_keeps_its_turn() {
    for scheduler in ["priq", "drr", "htb", "cbq", "prr", "wrr", "altq-wfq"] {
        check_newest_only(scheduler);
    }
}

#[test]
fn an_idle_leaf_earns_no_credit() {
    check("drr", "a b c", "a:1500x3 b:1500x3", "ababab");
}

#[test]
fn the_length_of_the_first_packet_counts_not_that_of_the_one_before() {
    // By hand: a sends 1500 and has no deficit left; with its next quantum it sends 100 and 100,
    // then 1300 do not cover 1500, so it waits for another round.
    check("drr", "a b", "a:1500x1 a:100x2 a:1500x1 b:1500x3", "abaabab");
}
