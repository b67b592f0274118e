//! Rates and shares through a link, in simulated time.

use crate::htb::world::{Row, tree};
use weir_core::event::{Departure, Poll};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::units::Instant;

const M: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Keeps the leaves of `backlogged` backlogged with packets of `length` until `end`; returns the
/// departures.
fn saturate(plan: &LinkPlan, backlogged: &[u32], length: u32, end: u64) -> Vec<Departure> {
    let mut link: Box<dyn AnyLink> = plan.build().expect("the plan suits htb");
    let packet = Packet::new(Handle(0), length);
    for leaf in backlogged.iter().flat_map(|&leaf| [leaf; 4]) {
        link.offer(Instant::ZERO, LeafId(leaf), packet);
    }
    let (mut now, mut departures) = (Instant::ZERO, Vec::new());
    while now < Instant::from_nanos(end) {
        match link.poll(now) {
            Poll::Packet(departure) => {
                departures.push(departure);
                link.offer(now, departure.leaf, packet);
            }
            Poll::At(at) => now = at,
            Poll::Idle => unreachable!("leaves are kept backlogged"),
        }
    }
    departures
}

/// Returns the rate between the first and the last departure, in bit/s.
fn rate(departures: &[Departure]) -> f64 {
    let (first, rest) = departures.split_first().expect("something left");
    let last = rest.last().expect("more than one left");
    let bits: u64 = rest.iter().map(|departure| departure.charged.get() * 8).sum();
    bits as f64 * SECOND as f64 / last.at.since(first.at).as_nanos() as f64
}

/// Checks that a class of `bits` under a line of `line` bit/s sends at its rate, within one part in
/// 10 000, measured from an eleventh of `time` on.
fn check_rate(line: u64, bits: u64, length: u32, time: u64) {
    // At the highest rates the default burst would last longer than the run.
    let burst: &[_] = if time < SECOND { &[("burst", 3000), ("cburst", 3000)] } else { &[] };
    let plan = LinkPlan::new("htb", tree(line, &[("a", None, bits, bits, burst)]));
    let departures = saturate(&plan, &[0], length, time);
    let start = departures.partition_point(|departure| departure.at.as_nanos() < time / 11);
    let real = rate(&departures[start..]);
    let error = real / bits as f64 - 1.0;
    println!("line {line}, rate {bits}, {length} B: {real:.1} bit/s, {:+.6} %", error * 100.0);
    assert!(error.abs() < 1e-4, "{bits} bit/s, {length} B: {real} bit/s");
}

#[test]
fn a_class_sends_at_its_rate_exactly() {
    for bits in [5 * M, 30 * M, 100 * M] {
        for length in [64, 512, 1500] {
            check_rate(1000 * M, bits, length, 11 * SECOND);
        }
    }
}

#[test]
fn a_class_as_fast_as_the_line_sends_at_its_rate_exactly() {
    check_rate(30 * M, 30 * M, 1500, 11 * SECOND);
    check_rate(400_000 * M, 400_000 * M, 64, SECOND / 1000);
    check_rate(800_000 * M, 399_999_999_937, 64, SECOND / 1000);
    check_rate(800_000 * M, 400_000 * M, 1500, SECOND / 100);
}

/// Leaves of the sharing tree, by number.
const A2: u32 = 0;
const B4: u32 = 1;
const B5: u32 = 2;
const B6: u32 = 3;

/// Root 30; 1:2 = 2; 1:3 = 28 with 14, 9 and 5; ceil 30; `unit` bit/s each; quanta in proportion.
fn sharing_plan(line: u64, unit: u64) -> LinkPlan {
    let quanta = [2, 14, 9, 5].map(|share| [("quantum", share * 1514)]);
    let row =
        |name, parent, share: u64, more| -> Row { (name, parent, share * unit, 30 * unit, more) };
    LinkPlan::new(
        "htb",
        tree(
            line,
            &[
                row("1:1", None, 30, &[]),
                row("1:2", Some(0), 2, &quanta[0]),
                row("1:3", Some(0), 28, &[]),
                row("1:4", Some(2), 14, &quanta[1]),
                row("1:5", Some(2), 9, &quanta[2]),
                row("1:6", Some(2), 5, &quanta[3]),
            ],
        ),
    )
}

/// Returns the rate of each leaf, in thousandths of a unit, from second 2 to second 22.
fn shares(line: u64, unit: u64, length: u32, backlogged: &[u32]) -> [u64; 4] {
    let departures = saturate(&sharing_plan(line, unit), backlogged, length, 22 * SECOND);
    let mut bits = [0u64; 4];
    for departure in departures.iter().filter(|departure| departure.at.as_nanos() >= 2 * SECOND) {
        bits[departure.leaf.index()] += departure.charged.get() * 8;
    }
    bits.map(|bits| (bits as f64 * 1000.0 / 20.0 / unit as f64).round() as u64)
}

/// Lines and units: the root as fast as the line, and the root much slower; 30 and 100 Mbit/s.
const LINES: [(u64, u64); 4] =
    [(30 * M, M), (1000 * M, M), (100 * M, 100 * M / 30), (1000 * M, 100 * M / 30)];

/// Checks that every leaf gets its row of `ideal`, in thousandths of a unit, within one part in a
/// thousand: an unused rate goes to siblings first, in proportion to quantum.
fn check_shares(backlogged: &[u32], ideal: [u64; 4]) {
    for (line, unit) in LINES {
        for length in [526, 1514] {
            let real = shares(line, unit, length, backlogged);
            println!("line {line}, unit {unit}, {length} B, {backlogged:?}: {real:?}");
            for (real, ideal) in real.into_iter().zip(ideal) {
                assert!(real.abs_diff(ideal) * 1000 <= ideal, "{real} instead of {ideal}");
            }
        }
    }
}

#[test]
fn backlogged_classes_get_their_rates() {
    check_shares(&[A2, B4, B5, B6], [2000, 14_000, 9000, 5000]);
}

#[test]
fn siblings_share_the_unused_rate_of_one() {
    check_shares(&[A2, B5, B6], [2000, 0, 18_000, 10_000]);
}

#[test]
fn a_single_sibling_takes_the_unused_rate_of_two() {
    check_shares(&[A2, B4], [2000, 28_000, 0, 0]);
}

#[test]
fn cousins_share_the_unused_rate_of_a_subtree() {
    check_shares(&[B4, B5, B6], [0, 15_000, 9643, 5357]);
}

#[test]
fn a_class_alone_takes_everything() {
    check_shares(&[B6], [0, 0, 0, 30_000]);
}
