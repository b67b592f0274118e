//! A class that gets less than its upper limit allows loses nothing by it [algorithms §6.5].

use crate::hfsc::world::{Credit, Leaves, Random, Row, hfsc, tree_with};
use weir_core::ids::LeafId;
use weir_core::sched::{Head, Selection};
use weir_core::units::{Bytes, Instant};

const M: u64 = 1_000_000;
const PACKETS: u64 = 60_000;

/// The part of the bytes that leaf 0 gets while all leaves are greedy, in percent, after a while.
fn first_part(line: u64, rows: &[Row], lengths: &[u64], rule: Credit) -> f64 {
    let tree = tree_with(line, rows, rule);
    let (mut scheduler, mut leaves) = (hfsc(&tree), Leaves::new(tree.leaf_count()));
    let (mut random, mut now, mut sent) = (Random::new(1), 0u64, [0; 2]);
    for (leaf, queue) in leaves.0.iter_mut().enumerate() {
        queue.extend([random.one_of(lengths), random.one_of(lengths)]);
        let head = Head { length: Bytes::new(queue[0]), arrived: Instant::ZERO };
        scheduler.enqueued(Instant::ZERO, LeafId(leaf as u32), head);
    }
    for packet in 0..PACKETS {
        let leaf = loop {
            match scheduler.select(Instant::from_nanos(now)) {
                Selection::Leaf(leaf) => break leaf,
                Selection::At(at) => now = at.as_nanos(),
                Selection::Idle => panic!("all leaves wait"),
            }
        };
        leaves.0[leaf.index()].push_back(random.one_of(lengths));
        let (length, next) = leaves.pop(leaf);
        scheduler.charge(Instant::from_nanos(now), leaf, length, next);
        now += (length.get() * 8_000_000_000).div_ceil(line);
        if packet > PACKETS / 10 {
            sent[usize::from(leaf.index() != 0)] += length.get();
        }
    }
    sent[0] as f64 * 100.0 / (sent[0] + sent[1]) as f64
}

fn share(parent: Option<usize>, ls: u64) -> Row {
    Row { parent, ls: Some((0, 0, ls)), ..Row::default() }
}

fn limited(parent: Option<usize>, ls: u64, ul: u64) -> Row {
    Row { ul: Some((0, 0, ul)), ..share(parent, ls) }
}

fn check(name: &str, line: u64, rows: &[Row], expected: f64) {
    let part = |rule| first_part(line, rows, &[64, 1500], rule);
    let (bounded, linux, altq) = (part(Credit::Bounded), part(Credit::Linux), part(Credit::Altq));
    println!("{name}: bounded {bounded:.2}, linux {linux:.2}, altq {altq:.2} of {expected:.2} %");
    assert!((bounded - expected).abs() < 0.3, "{name}: {bounded} % with bounded credit");
    assert!((linux - expected).abs() < 0.3, "{name}: {linux} % with Linux's rule");
    assert!(expected - altq > 1.0, "{name}: {altq} % with ALTQ's rule, which loses turns");
}

#[test]
fn a_limit_above_the_share_of_a_class_costs_it_nothing() {
    let inner = [limited(None, 20 * M, 25 * M), share(Some(0), 10 * M), share(None, 10 * M)];
    check("a class with a child", 30 * M, &inner, 66.67);
    check("a leaf", 30 * M, &[limited(None, 20 * M, 25 * M), share(None, 10 * M)], 66.67);
    // While each of the others sends a packet it waits long, and makes up for it.
    let mut many = vec![limited(None, 90 * M, 92 * M)];
    many.extend([share(None, M / 10); 100]);
    check("a large leaf beside many", 100 * M, &many, 90.0);
}

#[test]
fn a_limit_below_the_share_of_a_class_holds() {
    let rows = [limited(None, 20 * M, 15 * M), share(None, 10 * M)];
    for rule in [Credit::Bounded, Credit::Linux, Credit::Altq] {
        let part = first_part(30 * M, &rows, &[64, 1500], rule);
        assert!((part - 50.0).abs() < 0.3, "{part} % with {rule:?}");
    }
}
