//! Tests of `cbq` inside the core: the fast engine beside the plain rule, and orders by hand.

use super::classes::{Classes, General};
use super::formal::Formal;
use super::scan::{Scan, Sharing};
use super::*;
use crate::ids::ClassId;
use crate::parameter::{Params, Value};
use crate::sched::ClassSpec;
use crate::units::{Duration, Quantity, Rate};
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Parent, rate in bit/s, whether it borrows, priority.
type Row = (Option<u32>, u64, bool, u64);

fn tree(link: u64, params: Params, rows: &[Row]) -> Tree {
    let spec = |(index, &(parent, rate, borrow, priority)): (usize, &Row)| {
        let rate = Rate::new(rate).expect("rows hold no zero");
        let mut params = Params::new().with("rate", Quantity::Rate(rate));
        params.set("borrow", Value::Flag(borrow));
        params = params.with("priority", Quantity::Number(priority));
        ClassSpec { name: index.to_string(), parent: parent.map(ClassId), params }
    };
    let specs = rows.iter().enumerate().map(spec).collect();
    let link = Rate::new(link).expect("not zero");
    Tree::new(link, Bytes::new(1500), params, specs).expect("a tree")
}

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn rate(&mut self) -> u64 {
        1 + (self.below(999) << self.below(30))
    }

    fn length(&mut self) -> Bytes {
        Bytes::new([0, 1, 64, 540, 1500, 9180, 65_535][self.below(7) as usize])
    }

    /// A tree whose rates need not add up: permission does not depend on that.
    fn rows(&mut self) -> Vec<Row> {
        let count = 1 + self.below(12);
        let mut rows: Vec<Row> = Vec::new();
        for index in 0..count {
            // Parents among the first three keep the tree shallow, whatever comes out.
            let parent = self.below(4);
            let parent = (parent < index.min(3)).then_some(parent as u32);
            rows.push((parent, self.rate(), self.below(4) > 0, self.below(3)));
        }
        rows
    }
}

/// The fast engine and the plain one under the same calls.
struct Pair {
    fast: Formal,
    plain: Scan,
    queues: Vec<VecDeque<Bytes>>,
    now: Instant,
}

impl Pair {
    fn new(tree: &Tree, general: General) -> Self {
        let classes = || Classes::build(tree).expect("every class has a rate");
        Self {
            fast: Formal::new(classes(), general, false),
            plain: Scan::new(classes(), Sharing::Formal, general, false),
            queues: alloc::vec![VecDeque::new(); tree.leaf_count()],
            now: Instant::ZERO,
        }
    }

    fn head(&self, leaf: LeafId) -> Option<Head> {
        let length = *self.queues[leaf.index()].front()?;
        Some(Head { length, arrived: self.now })
    }

    fn tell(&mut self, leaf: LeafId) {
        let head = self.head(leaf);
        self.fast.set_head(self.now, leaf, head);
        self.plain.set_head(leaf, head);
    }

    fn offer(&mut self, leaf: LeafId, length: Bytes) {
        self.queues[leaf.index()].push_back(length);
        self.tell(leaf);
    }

    /// Both engines' answers must agree; a leaf that is named sends.
    fn step(&mut self, seed: u64) -> Selection {
        let answer = self.fast.select(self.now);
        assert_eq!(answer, self.fast.select(self.now), "asked twice, seed {seed}");
        let plain = self.plain.select(self.now);
        match answer {
            Selection::Leaf(leaf) => {
                assert!(self.plain.permits(self.now, leaf), "{leaf:?} may not send, seed {seed}");
                let sent = self.queues[leaf.index()].pop_front().expect("backlogged");
                let next = self.head(leaf);
                self.fast.charge(self.now, leaf, sent, next);
                self.plain.charge(self.now, leaf, sent, next);
            }
            Selection::At(at) => {
                assert_eq!(plain, answer, "seed {seed}");
                assert!(at > self.now, "seed {seed}");
            }
            Selection::Idle => {
                assert_eq!(plain, answer, "seed {seed}");
                assert!(self.queues.iter().all(VecDeque::is_empty), "seed {seed}");
            }
        }
        answer
    }
}

fn check_against_the_plain_rule(seed: u64) {
    let mut dice = Dice(seed);
    let rows = dice.rows();
    let tree = tree(dice.rate(), Params::new(), &rows);
    let general = [General::Drr, General::Wrr, General::Prr][dice.below(3) as usize];
    let mut pair = Pair::new(&tree, general);
    for _ in 0..200 {
        let leaf = LeafId(dice.below(tree.leaf_count() as u64) as u32);
        match dice.below(10) {
            0..4 => pair.offer(leaf, dice.length()),
            4 => {
                pair.queues[leaf.index()].pop_front();
                pair.tell(leaf);
            }
            5 => {
                pair.now = pair.now.after(Duration::from_nanos(dice.below(1 << 33)));
            }
            _ => {
                if let Selection::At(at) = pair.step(seed) {
                    // Now and then the exact instant, so that the edge is met.
                    pair.now = if dice.below(2) == 0 { at } else { pair.now };
                }
            }
        }
    }
}

#[test]
fn the_fast_engine_chooses_what_the_plain_rule_permits() {
    for seed in 0..5_000 {
        check_against_the_plain_rule(seed);
    }
}

/// The leaves whose letters occur in `order` hold packets of 1000 bytes on a link of 8 Mbit/s, 1 ms
/// each: a letter a millisecond from `skip` on, `.` where nothing is sent.
fn check_order(params: Params, rows: &[Row], skip: u64, order: &str) {
    let tree = tree(8_000_000, params, rows);
    let mut cbq = Cbq::build(&tree).expect("builds");
    let head = Head { length: Bytes::new(1000), arrived: Instant::ZERO };
    let letter = |leaf: LeafId| char::from(b'a' + leaf.0 as u8);
    for (leaf, _) in tree.leaves().filter(|(leaf, _)| order.contains(letter(*leaf))) {
        cbq.enqueued(Instant::ZERO, leaf, head);
    }
    let mut real = String::new();
    for millis in 0..skip + order.len() as u64 {
        let now = Instant::from_nanos(millis * 1_000_000);
        let mut sent = '.';
        if let Selection::Leaf(leaf) = cbq.select(now) {
            cbq.charge(now, leaf, head.length, Some(head));
            sent = letter(leaf);
        }
        if millis >= skip {
            real.push(sent);
        }
    }
    assert_eq!(real, order, "{rows:?}");
}

fn general(word: &'static str) -> Params {
    let mut params = Params::new();
    params.set("general", Value::Choice(word));
    params
}

fn sharing(word: &'static str) -> Params {
    let mut params = Params::new();
    params.set("sharing", Value::Choice(word));
    params
}

fn efficient() -> Params {
    let mut params = Params::new();
    params.set("efficient", Value::Flag(true));
    params
}

const M: u64 = 1_000_000;

#[test]
fn turns_follow_the_general_scheduler() {
    let equal = [(None, 4 * M, true, 1), (None, 4 * M, true, 1)];
    check_order(general("prr"), &equal, 0, "abababab");
    // A quantum of one largest packet covers one packet, the next turn two, in DRR; WRR overdraws.
    check_order(general("drr"), &equal, 0, "?ab");
    check_order(general("wrr"), &equal, 0, "?ab");
}

#[test]
fn who_may_not_borrow_sends_its_burst_and_then_its_rate() {
    // 6000 bytes at 4 Mbit/s are 12 ms; each packet adds 2 ms and takes 1.
    let alone = [(None, 4 * M, false, 1), (None, 4 * M, false, 1)];
    check_order(Params::new(), &alone, 0, "aaaaaaaaaaaaa.a.a.a.a");
}

#[test]
fn siblings_use_an_excess_first() {
    let rows = [(None, 6 * M, true, 1), (Some(0), 3 * M, true, 1), (Some(0), 3 * M, true, 1), (None, 2 * M, true, 1)];
    check_order(Params::new(), &rows, 1000, "?aaacaaac");
}

#[test]
fn priority_takes_the_excess_but_not_the_rate_of_others() {
    let rows = [(None, 2 * M, true, 7), (None, M, true, 1), (None, M, true, 2)];
    check_order(Params::new(), &rows, 1000, "?aaaaaabcaaaaaabc");
}

#[test]
fn a_class_that_may_not_borrow_holds_back_those_below() {
    let rows = [(None, 4 * M, false, 1), (Some(0), 2 * M, true, 1), (Some(0), 2 * M, true, 1)];
    check_order(Params::new(), &rows, 1000, "a.a.a.a.");
    check_order(efficient(), &rows, 1000, "aaaaaaaa");
}

#[test]
fn the_rules_differ_in_who_gets_an_excess() {
    let rows = [(None, 6 * M, true, 1), (Some(0), 3 * M, true, 1), (Some(0), 3 * M, true, 1), (None, 2 * M, true, 1)];
    check_order(sharing("ancestor-only"), &rows, 1000, "?acacacac");
    check_order(sharing("top-level"), &rows, 1000, "?acacacac");
}
