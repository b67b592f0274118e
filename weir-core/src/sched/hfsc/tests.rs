//! The worked examples of [algorithms §6.8], the order of equals, and what is refused.

use super::params::ClassPlan;
use super::runtime::Spec;
use super::*;
use crate::parameter::Params;
use crate::sched::ClassSpec;
use crate::units::{Duration, Quantity, Rate};
use alloc::string::{String, ToString};

/// Bytes per ms as a rate.
fn rate(bytes_per_ms: u64) -> Rate {
    Rate::new(bytes_per_ms * 8000).expect("rows hold no zero")
}

/// `V rt_m1=400 rt_d=10 rt_m2=100 ls_m2=100`: rates in bytes per ms, times in ms.
fn class(text: &str) -> ClassSpec {
    let mut words = text.split(' ');
    let name = words.next().expect("a name").to_string();
    let mut params = Params::new();
    let mut parent = None;
    for word in words {
        let (key, value) = word.split_once('=').expect("name=value");
        let value: u64 = value.parse().expect("a number");
        if key == "parent" {
            parent = Some(ClassId(value as u32));
            continue;
        }
        let row = PARAMETERS.iter().find(|row| row.name == key).expect("a parameter");
        let quantity = match row.name {
            "delay" | "rt_d" | "ls_d" | "ul_d" => Quantity::Duration(Duration::from_millis(value)),
            "packet" => Quantity::Bytes(Bytes::new(value)),
            _ => Quantity::Rate(rate(value)),
        };
        params = params.with(row.name, quantity);
    }
    ClassSpec { name, parent, params }
}

fn tree(rows: &[&str]) -> Tree {
    let classes = rows.iter().map(|row| class(row)).collect();
    Tree::new(rate(1000), Bytes::new(1000), Params::new(), classes).expect("rows are trees")
}

fn head(now: Instant) -> Head {
    Head { length: Bytes::new(1000), arrived: now }
}

/// Sends packets of 1000 bytes, 1 ms each, until none is left of those that each leaf has; returns
/// when each began, its leaf, and `!` if by the real-time criterion.
fn serve(hfsc: &mut Hfsc, tree: &Tree, mut left: Vec<u32>, mut now: Instant) -> String {
    let mut trace = String::new();
    while left.iter().sum::<u32>() > 0 {
        match hfsc.select(now) {
            Selection::Leaf(leaf) => {
                let mark = if hfsc.by_share { "" } else { "!" };
                let name = &tree.class(tree.class_of(leaf)).name;
                trace += &alloc::format!("{}{name}{mark} ", now.as_nanos() / 1_000_000);
                left[leaf.index()] -= 1;
                let next = (left[leaf.index()] > 0).then(|| head(now));
                hfsc.charge(now, leaf, Bytes::new(1000), next);
                now = now.after(Duration::from_millis(1));
            }
            Selection::At(instant) => now = instant,
            Selection::Idle => panic!("packets are left"),
        }
    }
    assert_eq!(hfsc.select(now), Selection::Idle);
    trace
}

fn check(rows: &[&str], left: &[u32], expected: &str) {
    let tree = tree(rows);
    let mut hfsc = Hfsc::build(&tree).expect("rows can be built");
    for leaf in 0..left.len() as u32 {
        hfsc.enqueued(Instant::ZERO, LeafId(leaf), head(Instant::ZERO));
    }
    let trace = serve(&mut hfsc, &tree, left.to_vec(), Instant::ZERO);
    assert_eq!(trace.trim_end(), expected, "{rows:?}");
}

#[test]
fn delay_goes_before_share_until_the_curve_bends() {
    check(
        &["V rt_m1=400 rt_d=10 rt_m2=100 ls_m2=100", "D ls_m2=300"],
        &[6, 14],
        "0V! 1D 2D 3V! 4D 5V! 6D 7D 8V! 9D 10V! 11D 12D 13D 14D 15D 16D 17D 18D 19V",
    );
}

#[test]
fn eligible_times_and_deadlines_are_those_of_the_worked_example() {
    let tree = tree(&["V rt_m1=400 rt_d=10 rt_m2=100 ls_m2=100", "D ls_m2=300"]);
    let mut hfsc = Hfsc::build(&tree).expect("rows can be built");
    hfsc.enqueued(Instant::ZERO, LeafId(0), head(Instant::ZERO));
    let (mut eligible, mut deadlines) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let (at, deadline) = hfsc.real_time.times(LeafId(0)).expect("V has a real-time curve");
        eligible.push(at.as_nanos() / 1000);
        deadlines.push(deadline.as_nanos() / 1000);
        assert_eq!(hfsc.select(at), Selection::Leaf(LeafId(0)));
        hfsc.charge(at, LeafId(0), Bytes::new(1000), Some(head(at)));
    }
    assert_eq!(eligible, [0, 2500, 5000, 7500, 10_000, 20_000, 30_000]);
    assert_eq!(deadlines, [2500, 5000, 7500, 10_000, 20_000, 30_000, 40_000]);
}

#[test]
fn an_upper_limit_holds_back_and_leaves_the_line_idle() {
    check(
        &["A ls_m2=500 ul_m2=250", "B ls_m2=500"],
        &[8, 6],
        "0A 1B 2B 3B 4A 5B 6B 7B 8A 12A 16A 20A 24A 28A",
    );
}

#[test]
fn a_limit_above_holds_all_below_it() {
    check(
        &["P ls_m2=500 ul_m2=500", "a parent=0 ls_m2=100", "b parent=0 ls_m2=100"],
        &[2, 2],
        "0a 2b 4a 6b",
    );
}

#[test]
fn a_delay_is_a_steep_start() {
    let row = |text| {
        let tree = tree(&[text]);
        let plan = ClassPlan::new(&tree, ClassId(0)).expect("rows can be built");
        assert_eq!(plan.real_time, plan.link_share, "both curves are the same");
        plan.real_time.expect("a rate is a promise")
    };
    let m1 = |bytes_per_ms| rate(bytes_per_ms).bits_per_second();
    let d = Duration::from_millis(5);
    assert_eq!(row("a rate=100 delay=5"), Spec { m1: m1(200), d, m2: rate(100) });
    assert_eq!(row("a rate=100 delay=5 packet=600"), Spec { m1: m1(120), d, m2: rate(100) });
    assert_eq!(row("a rate=100 delay=5 packet=100"), Spec::linear(rate(100)));
    assert_eq!(row("a rate=100"), Spec::linear(rate(100)));
}

#[test]
fn what_contradicts_itself_is_refused_with_the_cure() {
    let rows = [
        ("a", "rate", "write `rate`, `rt_m2` or `ls_m2`"),
        ("a rt_m1=5 rt_m2=5", "rt_m1", "write `rt_d`"),
        ("a rate=5 ls_m1=5", "ls_m1", "write `ls_d`"),
        ("a rt_d=5", "rt_m2", "write `rt_m2`"),
        ("a rate=5 ul_d=5 ul_m1=7", "ul_m2", "write `ul_m2`"),
        ("a delay=5 ls_m2=4", "delay", "no `rate`"),
        ("a rate=5 packet=5", "packet", "no `delay`"),
        ("a rt_m2=5 ul_m2=5", "ul_m2", "write `ls_m2`"),
    ];
    for (row, parameter, text) in rows {
        let error = Hfsc::build(&tree(&[row])).err().expect("refused");
        assert_eq!((error.class, error.parameter), (Some(ClassId(0)), Some(parameter)), "{row}");
        let message = error.message;
        assert!(message.starts_with("class a: ") && message.contains(text), "{message}");
    }
    for (row, parameter) in [("a ul_m2=5", "rate"), ("a rate=5 rt_m2=5", "rt_m2")] {
        let error = Hfsc::build(&tree(&[row, "b parent=0 rate=1"])).err().expect("refused");
        assert_eq!(error.parameter, Some(parameter), "{row}");
    }
}

/// Sends packets of 1000 bytes of leaves that never empty; returns the names of their classes.
fn greedy(rows: &[&str], order: &[u32], packets: usize) -> String {
    let tree = tree(rows);
    let mut hfsc = Hfsc::build(&tree).expect("rows can be built");
    for &leaf in order {
        hfsc.enqueued(Instant::ZERO, LeafId(leaf), head(Instant::ZERO));
    }
    let mut names = String::new();
    for ms in 0..packets as u64 {
        let now = Instant::ZERO.after(Duration::from_millis(ms));
        let Selection::Leaf(leaf) = hfsc.select(now) else { panic!("leaves never empty") };
        names += &tree.class(tree.class_of(leaf)).name;
        hfsc.charge(now, leaf, Bytes::new(1000), Some(head(now)));
    }
    names
}

#[test]
fn of_equal_virtual_times_the_one_set_first_goes_first() {
    let rows = ["a ls_m2=300", "b ls_m2=300", "c ls_m2=300"];
    assert_eq!(greedy(&rows, &[0, 1, 2], 7), "abcabca");
    assert_eq!(greedy(&rows, &[2, 0, 1], 7), "cabcabc");
    let rows = ["P ls_m2=300", "a parent=0 ls_m2=300", "Q ls_m2=300", "b parent=2 ls_m2=300"];
    assert_eq!(greedy(&rows, &[1, 0], 4), "baba");
    // After "aba" both are where a packet of b ends, and b was there first.
    assert_eq!(greedy(&["a ls_m2=600", "b ls_m2=300"], &[0, 1], 7), "ababaab");
}

#[test]
fn of_equal_deadlines_that_of_the_leaf_declared_first_goes_first() {
    let rows = ["a rt_m2=300", "b rt_m2=300", "c rt_m2=300"];
    assert_eq!(greedy(&rows, &[2, 0, 1], 3), "abc");
}

#[test]
fn virtual_times_are_lowered_before_they_end() {
    // A packet takes nearly 2^65 ns of virtual time, so that 2^14 of them come near the end.
    let mut a = class("a");
    a.params = Params::new().with("ls_m2", Quantity::Rate(Rate::MIN));
    let b = ClassSpec { name: "b".to_string(), ..a.clone() };
    let tree = Tree::new(rate(1000), Bytes::new(1000), Params::new(), alloc::vec![a, b]);
    let tree = tree.expect("two classes are a tree");
    let mut hfsc = Hfsc::build(&tree).expect("the tree can be built");
    let long = Head { length: Bytes::new(u64::from(u32::MAX)), arrived: Instant::ZERO };
    (0..2).for_each(|leaf| hfsc.enqueued(Instant::ZERO, LeafId(leaf), long));
    for turn in 0..100_000u32 {
        let now = Instant::from_nanos(turn.into());
        assert_eq!(hfsc.select(now), Selection::Leaf(LeafId(turn % 2)), "turn {turn}");
        hfsc.charge(now, LeafId(turn % 2), long.length, Some(long));
    }
}
