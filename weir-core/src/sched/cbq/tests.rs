//! Tests of `cbq` inside the core: the fast engine beside the plain rule, and orders by hand.

use super::classes::Classes;
use super::formal::Formal;
use super::ring::General;
use super::scan::{Scan, Sharing};
use super::*;
use crate::ids::ClassId;
use crate::parameter::{Params, Value};
use crate::random::Random;
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

/// Seeded draws of trees and packets.
struct Dice(Random);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Random::new(seed, 0))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.bits() % bound
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
    efficient: bool,
    queues: Vec<VecDeque<Bytes>>,
    now: Instant,
}

impl Pair {
    fn new(tree: &Tree, general: General, efficient: bool, now: Instant) -> Self {
        let classes = || Classes::build(tree).expect("every class has a rate");
        Self {
            fast: Formal::new(classes(), general, efficient),
            plain: Scan::new(classes(), Sharing::Formal, general, efficient),
            efficient,
            queues: alloc::vec![VecDeque::new(); tree.leaf_count()],
            now,
        }
    }

    fn head(&self, leaf: LeafId) -> Option<Head> {
        let length = *self.queues[leaf.index()].front()?;
        Some(Head { length, arrived: self.now })
    }

    fn update_head(&mut self, leaf: LeafId) {
        let head = self.head(leaf);
        self.fast.set_head(self.now, leaf, head);
        self.plain.set_head(leaf, head);
    }

    fn offer(&mut self, leaf: LeafId, length: Bytes) {
        self.queues[leaf.index()].push_back(length);
        self.update_head(leaf);
    }

    /// Returns whether the rule permits `leaf`, or permits no leaf and `efficient` lets this one
    /// send.
    fn may_send(&self, leaf: LeafId) -> bool {
        let mut leaves = (0..self.queues.len() as u32).map(LeafId);
        let waits = |leaf: LeafId| !self.queues[leaf.index()].is_empty();
        let none_permitted = !leaves.any(|leaf| waits(leaf) && self.plain.permits(self.now, leaf));
        let borrows = self.plain.classes.at(leaf.index()).borrows;
        self.plain.permits(self.now, leaf) || (self.efficient && none_permitted && borrows)
    }

    /// Both engines must agree on whether a leaf may send; a selected leaf sends.
    fn step(&mut self, seed: u64) -> Selection {
        let fast = self.fast.select(self.now);
        assert_eq!(fast, self.fast.select(self.now), "selected twice, seed {seed}");
        let plain = self.plain.select(self.now);
        match fast {
            Selection::Leaf(leaf) => {
                assert!(self.may_send(leaf), "{leaf:?} may not send, seed {seed}");
                assert!(matches!(plain, Selection::Leaf(_)), "seed {seed}");
                let sent = self.queues[leaf.index()].pop_front().expect("backlogged");
                let next = self.head(leaf);
                self.fast.charge(self.now, leaf, sent, next);
                self.plain.charge(self.now, leaf, sent, next);
            }
            Selection::At(at) => {
                assert_eq!(plain, fast, "seed {seed}");
                assert!(at > self.now, "seed {seed}");
            }
            Selection::Idle => {
                assert_eq!(plain, fast, "seed {seed}");
                assert!(self.queues.iter().all(VecDeque::is_empty), "seed {seed}");
            }
        }
        fast
    }
}

fn check_against_the_plain_rule(seed: u64) {
    let mut dice = Dice::new(seed);
    let rows = dice.rows();
    let tree = tree(dice.rate(), Params::new(), &rows);
    let general = [General::Drr, General::Wrr, General::Prr][dice.below(3) as usize];
    let epoch = [0, 1 << 60, u64::MAX - (1 << 36)][dice.below(3) as usize];
    let mut pair = Pair::new(&tree, general, dice.below(2) == 0, Instant::from_nanos(epoch));
    for _ in 0..200 {
        let leaf = LeafId(dice.below(tree.leaf_count() as u64) as u32);
        match dice.below(10) {
            0..4 => pair.offer(leaf, dice.length()),
            4 => {
                pair.queues[leaf.index()].pop_front();
                pair.update_head(leaf);
            }
            5 => pair.now = pair.now.after(Duration::from_nanos(dice.below(1 << 33))),
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

/// Returns the packets sent in each millisecond from `skip` on, `count` of them, while the leaves
/// called `busy` hold packets of 1000 bytes on a link of 8 Mbit/s, 1 ms each; `.` where none is
/// sent.
fn order(params: Params, rows: &[Row], skip: u64, count: u64, busy: &str) -> String {
    let tree = tree(8 * M, params, rows);
    let mut cbq = Cbq::build(&tree).expect("builds");
    let head = Head { length: Bytes::new(1000), arrived: Instant::ZERO };
    let letter = |leaf: LeafId| char::from(b'a' + leaf.0 as u8);
    for (leaf, _) in tree.leaves().filter(|(leaf, _)| busy.contains(letter(*leaf))) {
        cbq.offered(Instant::ZERO, leaf);
        cbq.enqueued(Instant::ZERO, leaf, head);
    }
    let mut order = String::new();
    for millis in 0..skip + count {
        let now = Instant::from_nanos(millis * 1_000_000);
        let mut sent = '.';
        if let Selection::Leaf(leaf) = cbq.select(now) {
            cbq.charge(now, leaf, head.length, Some(head));
            sent = letter(leaf);
        }
        if millis >= skip {
            order.push(sent);
        }
    }
    order
}

/// The leaves whose letters occur in `expected` are busy.
fn check_order(params: Params, rows: &[Row], skip: u64, expected: &str) {
    let real = order(params, rows, skip, expected.len() as u64, expected);
    assert_eq!(real, expected, "{rows:?}");
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
    check_order(general("drr"), &equal, 0, "abaabbabaabb");
    check_order(general("wrr"), &equal, 0, "aabbabaabbab");
}

#[test]
fn who_may_not_borrow_sends_its_burst_and_then_its_rate() {
    // 6000 bytes at 4 Mbit/s are 12 ms; each packet adds 2 ms and takes 1.
    let alone = [(None, 4 * M, false, 1), (None, 4 * M, false, 1)];
    check_order(Params::new(), &alone, 0, "aaaaaaaaaaaaa.a.a.a.a");
}

#[test]
fn siblings_use_an_excess_first() {
    let rows = [
        (None, 6 * M, true, 1),
        (Some(0), 3 * M, true, 1),
        (Some(0), 3 * M, true, 1),
        (None, 2 * M, true, 1),
    ];
    check_order(Params::new(), &rows, 1000, "aacaaaca");
}

#[test]
fn priority_takes_the_excess_but_not_the_rate_of_others() {
    let rows = [(None, 2 * M, true, 7), (None, M, true, 1), (None, M, true, 2)];
    check_order(Params::new(), &rows, 1000, "acabaaaaacabaaaa");
}

#[test]
fn a_class_that_may_not_borrow_holds_back_those_below() {
    let rows = [(None, 4 * M, false, 1), (Some(0), 2 * M, true, 1), (Some(0), 2 * M, true, 1)];
    check_order(Params::new(), &rows, 1000, "a.a.a.a.");
    check_order(efficient(), &rows, 1000, "aaaaaaaa");
}

#[test]
fn the_rules_differ_in_which_class_gets_an_excess() {
    // The sibling that is idle leaves 3 of 8; its brother `a` has 3, the stranger `c` has 2.
    let rows = [
        (None, 6 * M, true, 1),
        (Some(0), 3 * M, true, 1),
        (Some(0), 3 * M, true, 1),
        (None, 2 * M, true, 1),
    ];
    let strangers = ["formal", "top-level", "ancestor-only"].map(|word| {
        let order = order(sharing(word), &rows, 1000, 4000, "ac");
        order.chars().filter(|&letter| letter == 'c').count()
    });
    assert!(strangers[0].abs_diff(1000) <= 4, "formal gives `c` its 2 of 8: {strangers:?}");
    assert!(strangers[1].abs_diff(1000) <= 40, "top-level comes close to formal: {strangers:?}");
    assert!(strangers[2].abs_diff(1600) <= 4, "ancestor-only lends 2 of 5: {strangers:?}");
}

/// Returns which leaf `sharing` serves when `b`, which is underlimit, becomes backlogged in the
/// turn of `a`, which borrows.
fn served_after_arrival(sharing: Params) -> LeafId {
    let rows = [(None, M, true, 1), (None, 4 * M, true, 1)];
    let mut cbq = Cbq::build(&tree(8 * M, sharing, &rows)).expect("builds");
    let head = Head { length: Bytes::new(1000), arrived: Instant::ZERO };
    let (a, b) = (LeafId(0), LeafId(1));
    cbq.enqueued(Instant::ZERO, a, head);
    for _ in 0..20 {
        assert_eq!(cbq.select(Instant::ZERO), Selection::Leaf(a));
        cbq.charge(Instant::ZERO, a, head.length, Some(head));
    }
    cbq.offered(Instant::ZERO, b);
    cbq.enqueued(Instant::ZERO, b, head);
    match cbq.select(Instant::ZERO) {
        Selection::Leaf(leaf) => leaf,
        other => panic!("two leaves wait, but `select` returned {other:?}"),
    }
}

#[test]
fn an_underlimit_class_goes_before_a_borrower_except_where_ancestors_lend_to_all() {
    for (word, served) in [("formal", 1), ("top-level", 1), ("ancestor-only", 0)] {
        let mut params = general("prr");
        params.set("sharing", Value::Choice(word));
        assert_eq!(served_after_arrival(params), LeafId(served), "{word}");
    }
}

#[test]
fn a_class_without_rate_is_refused_by_name() {
    let spec = ClassSpec { name: "voice".to_string(), parent: None, params: Params::new() };
    let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), alloc::vec![spec]);
    let error = Cbq::build(&tree.expect("a tree")).err().expect("no rate, no class");
    assert_eq!(error.class, Some(ClassId(0)));
    assert!(error.message.contains("class voice has no rate"), "{error}");
}

const BACKLOG: Head = Head { length: Bytes::new(1000), arrived: Instant::ZERO };

/// Returns what the first leaf, always backlogged and alone, sends by `end` ms on a link that is
/// always free: a word for each packet, with the instant (ms), since when it might have been sent,
/// what held it back until then, and the lender.
fn whys(cbq: &mut Cbq, end: u64) -> String {
    let (mut now, mut words) = (Instant::ZERO, Vec::new());
    let millis = |at: Instant| at.as_nanos() / 1_000_000;
    while millis(now) <= end {
        match cbq.select(now) {
            Selection::Leaf(leaf) => {
                let why = cbq.why(now, leaf, Instant::ZERO);
                let lender = why.lender.map_or("-".to_string(), |class| class.0.to_string());
                let held = (millis(why.released), why.regulation.name());
                words.push(alloc::format!("{}:{}:{}:{lender}", millis(now), held.0, held.1));
                cbq.charge(now, leaf, BACKLOG.length, Some(BACKLOG));
            }
            Selection::At(at) => now = at,
            Selection::Idle => panic!("a packet waits"),
        }
    }
    words.join(" ")
}

#[test]
fn a_packet_that_waited_names_the_undertime_and_its_lender() {
    // A packet takes 2 ms at 4 Mbit/s; the burst of 6000 bytes and one packet more go at once.
    let alone = [(None, 4 * M, false, 1)];
    let of_its_own = "0:0:none:- 0:0:none:- 0:0:none:- 0:0:none:- 0:0:none:- 0:0:none:- \
                      0:0:none:- 2:2:undertime:- 4:4:undertime:-";
    // Its own rate would let it send every 8 ms, the parent lends every 2 ms.
    let below = [(None, 4 * M, false, 1), (Some(0), M, true, 1)];
    let lent = of_its_own.replace("undertime:-", "undertime:0");
    // A class that borrows from the link is never held back, and no class of the tree lends.
    let free = [(None, M, true, 1)];
    let rows: [(&[Row], u64, &str); 2] = [(&alone, 4, of_its_own), (&below, 4, &lent)];
    for (word, (rows, end, expected)) in
        ["formal", "top-level", "ancestor-only"].into_iter().flat_map(|w| rows.map(|row| (w, row)))
    {
        let mut cbq = Cbq::build(&tree(8 * M, sharing(word), rows)).expect("builds");
        cbq.enqueued(Instant::ZERO, LeafId(0), BACKLOG);
        assert_eq!(whys(&mut cbq, end), expected, "{word} {rows:?}");
    }
    let mut cbq = Cbq::build(&tree(8 * M, Params::new(), &free)).expect("builds");
    cbq.enqueued(Instant::ZERO, LeafId(0), BACKLOG);
    for _ in 0..20 {
        assert_eq!(cbq.select(Instant::ZERO), Selection::Leaf(LeafId(0)));
        assert_eq!(cbq.why(Instant::ZERO, LeafId(0), Instant::ZERO).lender, None);
        cbq.charge(Instant::ZERO, LeafId(0), BACKLOG.length, Some(BACKLOG));
    }
}

#[test]
fn a_change_of_the_policy_gives_no_second_burst() {
    let rows = [(None, 4 * M, false, 1)];
    let words = ["formal", "top-level", "ancestor-only"];
    for (before, after) in words.into_iter().flat_map(|old| words.map(|new| (old, new))) {
        let (was, is) = (tree(8 * M, sharing(before), &rows), tree(8 * M, sharing(after), &rows));
        let mut old = Cbq::build(&was).expect("builds");
        old.enqueued(Instant::ZERO, LeafId(0), BACKLOG);
        let mut sent = 0;
        // Seven may go at once: three before the change, four after it.
        for _ in 0..3 {
            assert_eq!(old.select(Instant::ZERO), Selection::Leaf(LeafId(0)));
            old.charge(Instant::ZERO, LeafId(0), BACKLOG.length, Some(BACKLOG));
            sent += 1;
        }
        let mut new = Cbq::build(&is).expect("builds");
        new.inherit(Instant::ZERO, &old, &Kin::by_name(&was, &is));
        new.enqueued(Instant::ZERO, LeafId(0), BACKLOG);
        while new.select(Instant::ZERO) == Selection::Leaf(LeafId(0)) {
            new.charge(Instant::ZERO, LeafId(0), BACKLOG.length, Some(BACKLOG));
            sent += 1;
        }
        assert_eq!(sent, 7, "{before} to {after}");
        assert_eq!(new.select(Instant::ZERO), Selection::At(Instant::from_nanos(2_000_000)));
    }
}

#[test]
fn a_debt_outlives_a_change_up_to_the_largest_debt_at_the_new_rate() {
    // The rate after the change in Mbit/s; when the next packet goes, in ms.
    for (rate, next) in [(4, 2), (8, 2), (1, 2), (1000, 1)] {
        let (was, is) = (
            tree(8 * M, Params::new(), &[(None, 4 * M, false, 1)]),
            tree(8 * M, Params::new(), &[(None, rate * M, false, 1)]),
        );
        let mut old = Cbq::build(&was).expect("builds");
        old.enqueued(Instant::ZERO, LeafId(0), BACKLOG);
        while let Selection::Leaf(leaf) = old.select(Instant::ZERO) {
            old.charge(Instant::ZERO, leaf, BACKLOG.length, Some(BACKLOG));
        }
        let mut new = Cbq::build(&is).expect("builds");
        new.inherit(Instant::ZERO, &old, &Kin::by_name(&was, &is));
        new.enqueued(Instant::ZERO, LeafId(0), BACKLOG);
        let Selection::At(at) = new.select(Instant::ZERO) else { panic!("{rate}: no debt") };
        assert_eq!(at.as_nanos().div_ceil(1_000_000), next, "{rate} Mbit/s");
    }
}
