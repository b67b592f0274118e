//! Worked examples. `weir lab run ns2` tests that all decisions are those of ns-2.

use super::*;
use crate::ids::{ClassId, Handle};
use crate::link::{LinkPlan, Packet};
use crate::parameter::{Params, Value};
use crate::random::Random;
use crate::sched::ClassSpec;
use crate::units::{Duration, Quantity, Rate, Share};
use alloc::borrow::ToOwned;
use alloc::vec::Vec;

const A: LeafId = LeafId(0);
const B: LeafId = LeafId(1);

/// Percent of the link, the parent, and whether it borrows.
type Row = (u64, Option<u32>, bool);

fn spec(index: usize, &(percent, parent, borrow): &Row) -> ClassSpec {
    let share = Share::from_ppb(percent * 10_000_000).expect("at most the whole");
    let mut params = Params::new().with("share", Quantity::Share(share));
    params = params.with("maxidle", Quantity::Duration(Duration::from_millis(10)));
    params.set("borrow", Value::Flag(borrow));
    ClassSpec { name: alloc::format!("c{index}"), parent: parent.map(ClassId), params }
}

/// Builds a link of 1000 bytes a second, on which a packet of 100 bytes takes a tenth of a second.
fn tree(rows: &[Row], words: &[(&'static str, &'static str)]) -> Tree {
    let mut link = Params::new();
    for &(name, word) in words {
        link.set(name, Value::Choice(word));
    }
    let rate = Rate::new(8000).expect("not zero");
    let classes = rows.iter().enumerate().map(|(index, row)| spec(index, row)).collect();
    Tree::new(rate, Bytes::new(1500), link, classes).expect("a tree")
}

/// Rules with `packets` waiting in every leaf since one second.
fn rules(tree: &Tree, packets: usize) -> Rules {
    let mut rules = Rules::build(tree).expect("it builds");
    for (leaf, _) in tree.leaves() {
        fill(&mut rules, leaf, packets);
    }
    rules
}

fn fill(rules: &mut Rules, leaf: LeafId, packets: usize) {
    rules.offered(1.0, leaf);
    rules.enqueued(1.0, leaf);
    (1..packets).for_each(|_| rules.joined(leaf));
}

fn close(measured: f64, expected: f64) {
    assert!((measured - expected).abs() < 1e-12, "{measured} instead of {expected}");
}

#[test]
fn a_class_is_overlimit_until_its_debt_is_repaid() {
    let mut rules = rules(&tree(&[(50, None, false)], &[]), 5);
    for now in [1.0, 1.1, 1.2] {
        assert_eq!(rules.select(now), Answer::Leaf(A, Some(ClassId(0))), "{now}");
        rules.charge(now, A, 100, true);
    }
    // The average: clamped to 0.01, then 0.003125, then -0.0033203125 s; 0.1 s at the class's own
    // rate after 1.3, and 15 times the average.
    close(rules.held_until(A), 1.3 + 0.1 + 15.0 * 0.003_320_312_5);
    // After it was held back once, it waits for the time of one packet only.
    let Answer::After(instant) = rules.select(1.3) else { panic!("it is overlimit") };
    close(instant, 1.4);
    // The comparison is strict.
    assert_eq!(rules.select(instant), Answer::After(instant));
    assert_eq!(rules.select(instant + 1e-9), Answer::Leaf(A, Some(ClassId(0))));
}

#[test]
fn what_is_sent_so_that_the_link_does_not_idle_is_not_counted() {
    let mut rules = rules(&tree(&[(50, None, true), (25, Some(0), true)], &[]), 99);
    let mut now = 1.0;
    while rules.select(now) != Answer::Leaf(A, None) {
        rules.charge(now, A, 100, true);
        now += 0.1;
        assert!(now < 2.0, "neither class is overlimit for long");
    }
    let held = rules.held_until(A);
    assert!(held > now, "no class may lend");
    for _ in 0..3 {
        rules.charge(now, A, 100, true);
        assert_eq!(rules.held_until(A), held);
        assert!(matches!(rules.select(now), Answer::Leaf(A, None)));
    }
}

#[test]
fn a_lender_is_named_and_the_formal_rule_waits_for_underlimit_classes() {
    // A class of 1 % that borrows, and one of 90 % that is owed its share as long as it waits.
    let rows = [(100, None, true), (1, Some(0), true), (90, Some(0), true)];
    let answers = |word: &'static str| {
        let mut rules = rules(&tree(&rows, &[("algorithm", word)]), 99);
        let mut now = 1.0;
        let mut lenders = Vec::new();
        for _ in 0..8 {
            let Answer::Leaf(leaf, lender) = rules.select(now) else { panic!("it waits") };
            lenders.push((leaf, lender));
            rules.charge(now, leaf, 100, true);
            now += 0.1;
        }
        lenders
    };
    let own = |leaf: LeafId| (leaf, Some(ClassId(leaf.0 + 1)));
    let borrowed = (A, Some(ClassId(0)));
    // Each sends in its turn; after its own packet the small one does so at the root's account.
    assert_eq!(answers("ancestor-only")[..4], [own(A), own(B), borrowed, own(B)]);
    assert_eq!(answers("formal")[..4], [own(A), own(B), own(B), own(B)]);
}

#[test]
fn new_shares_leave_the_estimators_alone() {
    let rows = |a, b| [(100, None, true), (a, Some(0), false), (b, Some(0), false)];
    let before = tree(&rows(20, 80), &[("general", "wrr")]);
    let after = tree(&rows(60, 40), &[("general", "wrr")]);
    let mut old = CbqRef::build(&before).expect("it builds");
    fill(old.rules(), A, 9);
    fill(old.rules(), B, 9);
    let mut now = 1.0;
    for _ in 0..50 {
        if let Answer::Leaf(leaf, _) = old.rules().select(now) {
            old.rules().charge(now, leaf, 100, true);
        }
        now += 0.1;
    }
    let mut new = CbqRef::build(&after).expect("it builds");
    new.inherit(Instant::ZERO, &old, &Kin::by_name(&before, &after));
    for leaf in [A, B] {
        assert!(old.rules().held_until(leaf) > 0.0);
        assert_eq!(new.rules().held_until(leaf), old.rules().held_until(leaf));
    }
    let fresh = CbqRef::build(&after).expect("it builds").rules().held_until(A);
    assert_eq!(fresh, 0.0, "without inheritance it would start anew");
}

#[test]
fn who_waits_for_itself_is_woken_unless_only_arrivals_wake() {
    let selections = ["exact", "arrivals-only"].map(|word| {
        let tree = tree(&[(50, None, false)], &[("wake", word)]);
        let mut cbq = CbqRef::build(&tree).expect("it builds");
        let at = Instant::from_nanos(1_000_000_000);
        let head = Head { length: Bytes::new(100), arrived: at };
        cbq.enqueued(at, A, head);
        let mut now = at;
        while let Selection::Leaf(leaf) = cbq.select(now) {
            cbq.charge(now, leaf, head.length, Some(head));
            now = now.after(Duration::from_millis(100));
        }
        let why = cbq.why(now, A, Instant::ZERO);
        assert_eq!((why.regulation, why.lender), (Regulation::Undertime, None));
        (cbq.select(now), why.released)
    });
    // At 1.4 s the class is still overlimit.
    let wakes = Instant::from_nanos(1_400_000_001);
    assert_eq!(selections[0], (Selection::At(wakes), wakes));
    assert_eq!(selections[1], (Selection::At(Instant::MAX), wakes));
}

#[test]
fn the_first_instant_after_is_exact_far_from_the_epoch_too() {
    for nanos in [0, 1, 1_000_000_007, 31_536_000_000_000_000, u64::MAX / 3] {
        let past = seconds(Instant::from_nanos(nanos));
        let after = first_after(past);
        assert!(seconds(after) > past);
        assert!(seconds(Instant::from_nanos(after.as_nanos() - 1)) <= past);
    }
    let mut random = Random::new(1, 0);
    for _ in 0..100_000 {
        let past = seconds(Instant::from_nanos(random.bits() >> random.below(64))) + 1e-10;
        assert_eq!(first_after(past), first_between(past, 0, u64::MAX), "{past}");
        let whole = seconds(Instant::from_nanos(random.bits() >> (8 + random.below(56))));
        for near in [whole, whole.next_up(), whole.next_down()] {
            assert_eq!(first_after(near), first_between(near, 0, u64::MAX), "{near}");
        }
    }
    assert_eq!(first_after(-1.0), Instant::ZERO);
    assert_eq!(first_after(f64::INFINITY), Instant::MAX);
}

/// [algorithms §2.10]: within 1 % over the long run, whatever the size of the packets.
#[test]
fn a_class_that_may_not_borrow_gets_its_share() {
    for (percent, size) in [(30, 1000), (30, 64), (7, 190), (90, 1500)] {
        let tree = tree(&[(100, None, false), (percent, Some(0), false)], &[]);
        let mut link = LinkPlan::new("cbq-ref", tree).build().expect("it builds");
        let packet = Packet::new(Handle(0), size);
        let end = Instant::from_nanos(10_000 * 1_000_000_000);
        let (mut now, mut bytes) = (Instant::ZERO, 0);
        let mut departures = Vec::new();
        (0..5).for_each(|_| _ = link.offer(now, A, packet));
        while now < end {
            let next = link.advance(now, &mut departures);
            for departure in departures.drain(..) {
                bytes += departure.charged.get();
                link.offer(now, A, packet);
            }
            now = next.expect("some always wait").min(end).max(now.after(Duration::from_nanos(1)));
        }
        let share = bytes as f64 / 10_000.0 / 1000.0;
        let expected = percent as f64 / 100.0;
        assert!((share / expected - 1.0).abs() < 0.01, "{percent} % of {size} B: {share}");
    }
}

#[test]
fn a_class_of_nothing_is_refused() {
    let tree = tree(&[(0, None, true)], &[]);
    let error = CbqRef::build(&tree).err().expect("it is refused");
    assert_eq!(error.class, Some(ClassId(0)));
    assert_eq!(error.message, "class c0 has 0 % of the link; write a share above 0 %".to_owned());
}
