//! Golden traces: the order of service in the worked examples of the sources.
//!
//! A row gives the scheduler, the leaves with a parameter in bytes, the packets that all wait at
//! the start, and the leaves in the order in which their packets leave.

use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
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
            link.offer(Instant::ZERO, leaf, Packet { handle: Handle(0), length });
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

#[test]
fn an_idle_leaf_earns_no_credit() {
    check("drr", "a b c", "a:1500x3 b:1500x3", "ababab");
}
