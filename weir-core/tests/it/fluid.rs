//! Shares of `cbq` and `hfsc` beside the fluid ideal in which siblings share an excess first.

use crate::common::seeds;
use crate::sharing;

use sharing::saturated::Saturated;
use sharing::{Class, class, fluid, is_leaf, plan};
use weir_core::parameter::{Params, Value};
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};

/// Packets per busy leaf that wait at any time.
const DEPTH: usize = 4;
/// Packets of the class with the fewest packets in a measurement.
const PACKETS: f64 = 2_000.0;
/// Random trees that are tried on a change; `WEIR_LAWS=5000` tries five times as many. They are always
/// the same: how near they come is judged over all.
const TREES: u64 = 12;

fn trees() -> std::ops::RangeInclusive<u64> {
    1..=TREES * seeds::laws() / 1000
}

/// The largest deviation of a leaf from its fluid share, in parts per million of that share.
///
/// Measured for as long as the class with the fewest packets takes to send [`PACKETS`] of 1 500
/// bytes or more, after a warm-up of equal length; one packet more or less is then 500 ppm.
fn deviation(link: u64, classes: &[Class]) -> f64 {
    deviation_under("cbq", Params::new(), link, classes)
}

/// As [`deviation`], with parameters of the link, under any scheduler.
fn deviation_under(keyword: &'static str, params: Params, link: u64, classes: &[Class]) -> f64 {
    let mut run = Saturated::new(&plan(keyword, link, params, classes), classes, DEPTH);
    let ideal = fluid::shares(link, classes);
    let leaves: Vec<_> = (0..classes.len()).filter(|&index| is_leaf(classes, index)).collect();
    let time =
        |&index: &usize| PACKETS * f64::from(classes[index].packet.max(1500)) * 8e9 / ideal[index];
    let busy = leaves.iter().filter(|&&index| classes[index].packet > 0);
    let nanos = busy.map(time).fold(0.0, f64::max);
    let start = Instant::ZERO.after(Duration::from_nanos(nanos as u64));
    run.sent(start);
    let sent = run.sent(start.after(Duration::from_nanos(nanos as u64)));
    let mut worst = 0f64;
    for (sent, index) in sent.into_iter().zip(leaves) {
        let expected = ideal[index] * nanos / 8e9;
        if expected == 0.0 {
            assert_eq!(sent, 0, "an idle class sends nothing");
            continue;
        }
        let error = (sent as f64 - expected) / expected * 1e6;
        worst = worst.max(error.abs());
    }
    worst
}

/// The tree of the kernel's HTB set-up, leaves 1:2, 1:4, 1:5, 1:6, scaled to `link`.
fn three_levels(link: u64, lengths: [u32; 4]) -> Vec<Class> {
    let part = |of: u64| link / 30 * of;
    vec![
        class(None, part(2)).of(lengths[0]),
        class(None, part(28)),
        class(Some(1), part(14)).of(lengths[1]),
        class(Some(1), part(9)).of(lengths[2]),
        class(Some(1), part(5)).of(lengths[3]),
    ]
}

/// Asserts that every leaf is within `ppm` parts per million of its fluid share.
fn check(name: &str, link: u64, classes: &[Class], ppm: f64) {
    let worst = deviation(link, classes);
    println!("{name}: {worst:.0} ppm");
    assert!(worst < ppm, "{name}: {worst:.0} ppm off the fluid ideal, {ppm:.0} allowed");
}

#[test]
fn three_levels_share_as_the_fluid_for_every_set_of_idle_leaves() {
    let mut worst = 0f64;
    let links = [5_000_000, 1_000_000_000, 30_000_000, 100_000_000];
    let count = if seeds::laws() > 1000 { links.len() } else { 2 };
    for link in links.into_iter().take(count) {
        for length in [64, 512, 1500] {
            for busy in 1u32..16 {
                let of = |leaf: u32| if busy >> leaf & 1 == 1 { length } else { 0 };
                let classes = three_levels(link, [of(0), of(1), of(2), of(3)]);
                let ppm = deviation(link, &classes);
                assert!(ppm < 5_000.0, "{link} bit/s, {length} bytes, {busy:04b}: {ppm:.0} ppm");
                worst = worst.max(ppm);
            }
        }
    }
    println!("three levels: worst {worst:.0} ppm");
}

#[test]
fn packet_lengths_may_differ_between_classes() {
    for lengths in [[64, 1500, 64, 1500], [1500, 64, 1500, 512], [9180, 1500, 540, 64]] {
        check("mixed lengths", 30_000_000, &three_levels(30_000_000, lengths), 5_000.0);
    }
}

#[test]
fn weighted_round_robin_shares_as_exactly() {
    let mut params = Params::new();
    params.set("general", Value::Choice("wrr"));
    for lengths in [[1500, 1500, 0, 1500], [64, 1500, 512, 0], [1500; 4]] {
        let classes = three_levels(100_000_000, lengths);
        let ppm = deviation_under("cbq", params.clone(), 100_000_000, &classes);
        println!("wrr {lengths:?}: {ppm:.0} ppm");
        assert!(ppm < 5_000.0, "{lengths:?}: {ppm:.0} ppm off the fluid ideal");
    }
}

#[test]
fn a_class_alone_gets_its_share_at_every_packet_length() {
    for (link, rate) in [(2_000_000, 500_000), (10_000_000, 3_000_000), (1_000_000_000, 7_777_777)]
    {
        for length in [64, 540, 1500, 9180] {
            let classes = [class(None, rate).alone().of(length), class(None, rate).idle()];
            check(&format!("alone, {length} bytes"), link, &classes, 5_000.0);
        }
    }
}

#[test]
fn an_excess_is_divided_between_subtrees_by_their_rates() {
    const M: u64 = 1_000_000;
    let two_subtrees = [
        class(None, 10 * M),
        class(Some(0), 2 * M),
        class(Some(0), 8 * M),
        class(None, 20 * M),
        class(Some(3), 5 * M).of(512),
        class(Some(3), 10 * M).idle(),
        class(None, 70 * M).idle(),
    ];
    check("two subtrees", 100 * M, &two_subtrees, 5_000.0);
    let deep = [
        class(None, 60 * M),
        class(Some(0), 40 * M),
        class(Some(1), 30 * M),
        class(Some(2), 20 * M).of(200),
        class(Some(2), 5 * M),
        class(Some(1), 5 * M).idle(),
        class(Some(0), 10 * M).of(700),
        class(None, 15 * M),
    ];
    check("six levels", 100 * M, &deep, 5_000.0);
}

#[test]
fn a_class_that_may_not_borrow_leaves_its_part_of_an_excess_to_the_others() {
    const M: u64 = 1_000_000;
    let leaf = [class(None, 10 * M).alone().of(64), class(None, 5 * M), class(None, 15 * M)];
    check("leaf that may not borrow", 100 * M, &leaf, 5_000.0);
    let subtree = [
        class(None, 40 * M).alone(),
        class(Some(0), 10 * M),
        class(Some(0), 20 * M).of(300),
        class(Some(0), 10 * M).idle(),
        class(None, 10 * M),
    ];
    check("subtree that may not borrow", 100 * M, &subtree, 5_000.0);
    let none = [class(None, 30 * M).alone().of(540), class(None, 50 * M).alone()];
    check("no class may borrow", 100 * M, &none, 5_000.0);
}

#[test]
fn a_tiny_class_beside_a_giant_keeps_its_proportion() {
    let classes =
        [class(None, 1_000_000).of(200), class(None, 1_000_000_000), class(None, 1).idle()];
    check("1 : 1000", 2_000_000_000, &classes, 20_000.0);
}

/// Draws a tree with children that fill their parents, so that the fluid ideal is what the rule
/// promises.
fn random_tree(seed: u64) -> (u64, Vec<Class>) {
    let mut random = Random::new(seed, 0);
    let mut dice = |bound: u64| random.bits() % bound;
    let link = 1_000_000 * (1 + dice(1000));
    let mut classes = Vec::new();
    let mut open = vec![(None, link)];
    while let Some((parent, whole)) = open.pop() {
        let parts: Vec<_> = (0..1 + dice(4)).map(|_| 1 + dice(20)).collect();
        let sum: u64 = parts.iter().sum();
        for part in parts {
            let length = [0, 64, 300, 512, 1500, 1500][dice(6) as usize];
            let mut new = class(parent, whole * part / sum).of(length);
            new.borrow = dice(5) > 0;
            classes.push(new);
            if classes.len() < 8 && dice(3) == 0 {
                open.push((Some(classes.len() - 1), new.rate));
            }
        }
    }
    (link, classes)
}

#[test]
fn random_trees_share_as_the_fluid() {
    let mut worst = (0f64, 0);
    for seed in trees() {
        let (link, classes) = random_tree(seed);
        let ppm = deviation(link, &classes);
        if ppm > worst.0 {
            worst = (ppm, seed);
        }
    }
    println!("random trees: worst {:.0} ppm, seed {}", worst.0, worst.1);
    assert!(worst.0 < 5_000.0, "{:.0} ppm off the fluid ideal, seed {}", worst.0, worst.1);
}

#[test]
fn priority_moves_the_excess_and_not_the_rates() {
    const M: u64 = 1_000_000;
    let classes = [
        class(None, 10 * M).priority(7).of(512),
        class(None, 20 * M).priority(1),
        class(None, 30 * M).priority(3).of(64),
    ];
    let mut run = Saturated::new(&plan("cbq", 100 * M, Params::new(), &classes), &classes, DEPTH);
    run.sent(Instant::from_nanos(1_000_000_000));
    let sent = run.sent(Instant::from_nanos(2_000_000_000));
    for (sent, share) in sent.iter().zip([50.0e6, 20.0e6, 30.0e6]) {
        let error = (*sent as f64 * 8.0 / share - 1.0).abs();
        println!("priority: {:.0} ppm", error * 1e6);
        assert!(error < 0.005, "{sent} bytes in a second instead of {share} bit/s");
    }
}

#[test]
fn bursts_of_a_class_that_may_not_borrow_stay_in_their_bound() {
    const M: u64 = 1_000_000;
    let classes = [class(None, 10 * M).alone(), class(None, 20 * M).of(512), class(None, 70 * M)];
    let mut run = Saturated::new(&plan("cbq", 100 * M, Params::new(), &classes), &classes, DEPTH);
    let mut departures = Vec::new();
    // Ten bursts after pauses.
    for round in 0..10u64 {
        run.set_length(0, if round % 2 == 0 { 1500 } else { 0 }, DEPTH);
        run.run(Instant::from_nanos((round + 1) * 40_000_000), |departure| {
            if departure.leaf.index() == 0 {
                departures.push((departure.at.as_nanos(), departure.charged.get()));
            }
        });
    }
    assert!(departures.len() > 100, "the class sends");
    for first in 0..departures.len() {
        let mut bytes = 0;
        for &(at, length) in &departures[first..] {
            bytes += length;
            let time = at - departures[first].0;
            let bound = 10 * M * time / 8_000_000_000 + 4 * 1514 + 1500 + 1;
            assert!(bytes <= bound, "{bytes} bytes in {time} ns, {bound} allowed");
        }
    }
}

#[test]
fn service_curves_share_as_the_fluid_at_every_rate() {
    let mut worst = 0f64;
    let links = [1_000u64, 30_000, 5_000_000, 1_000_000_000, 100_000_000_000];
    for (link, lengths) in links.into_iter().flat_map(|link| {
        [[1500; 4], [64; 4], [64, 1500, 512, 9180], [0, 1500, 64, 0]].map(|row| (link, row))
    }) {
        let ppm = deviation_under("hfsc", Params::new(), link, &three_levels(link, lengths));
        assert!(ppm < 5_000.0, "{link} bit/s, {lengths:?}: {ppm:.0} ppm");
        worst = worst.max(ppm);
    }
    println!("hfsc, three levels: worst {worst:.0} ppm");
}

#[test]
fn service_curves_share_random_trees_as_the_fluid() {
    let mut worst = (0f64, 0);
    for seed in trees() {
        let (link, classes) = random_tree(seed);
        let ppm = deviation_under("hfsc", Params::new(), link, &classes);
        worst = if ppm > worst.0 { (ppm, seed) } else { worst };
    }
    println!("hfsc, random trees: worst {:.0} ppm, seed {}", worst.0, worst.1);
    assert!(worst.0 < 5_000.0, "{:.0} ppm off the fluid ideal, seed {}", worst.0, worst.1);
}
