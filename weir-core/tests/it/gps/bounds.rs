//! Proven bounds, each checked for every packet of random workloads.

use crate::gps::fluid::{SLACK, finishes};
use crate::gps::workload::{HORIZON, MTU, NANOS_PER_BYTE, Workload, random, saturated};
use weir_core::event::Departure;

const SEEDS: u64 = 100;
/// The error of bounds in bytes: weights are rounded in their 24th bit.
const SLACK_BYTES: f64 = 0.1;

/// Returns the largest time by which a packet finishes later than in the fluid, in ns.
fn lateness(workload: &Workload, sent: &[Departure]) -> f64 {
    let fluid = finishes(workload);
    let late = |departure: &Departure| {
        departure.finished.as_nanos() as f64 - fluid[departure.handle.0 as usize]
    };
    sent.iter().map(late).fold(f64::MIN, f64::max)
}

#[test]
fn wfq_finishes_no_packet_later_than_the_fluid_by_more_than_one_packet() {
    let mut others = [0; 2];
    for seed in 0..SEEDS {
        let workload = random(seed);
        let leaves = 0..workload.weights.len();
        let longest = leaves.map(|leaf| workload.length_max(leaf)).fold(0.0, f64::max);
        let bound = longest * NANOS_PER_BYTE as f64 + SLACK;
        let late = lateness(&workload, &workload.run("wfq"));
        assert!(late <= bound, "seed {seed}: {late} ns late, {bound} allowed");
        for (count, other) in others.iter_mut().zip(["fifo", "drr"]) {
            *count += u64::from(lateness(&workload, &workload.run(other)) > bound);
        }
    }
    // Otherwise these workloads would prove nothing.
    assert!(others.iter().all(|&count| count > SEEDS / 2), "{others:?} break the bound");
}

/// Returns how far `leaf` falls behind its part of the line, at most, in any interval in which it
/// is backlogged, in bytes [bennett97 §3]: in each such interval it gets its part less the
/// worst-case fair index.
fn behind(workload: &Workload, sent: &[Departure], leaf: usize) -> f64 {
    let mine = sent.iter().filter(|departure| departure.leaf.index() == leaf);
    let mut arrivals = workload.arrivals.iter().filter(|arrival| arrival.leaf == leaf);
    // The leaf's part of the line up to an instant. Its service is counted as packets end.
    let due = |nanos: u64| workload.part(leaf) * nanos as f64 / NANOS_PER_BYTE as f64;
    let (mut got, mut least, mut worst) = (0.0, f64::INFINITY, 0f64);
    let mut end = 0;
    for departure in mine {
        let arrival = arrivals.next().expect("a packet that leaves has arrived");
        // It becomes backlogged anew, unless it arrived while the one before it waited.
        if arrival.at > end || least == f64::INFINITY {
            least = due(arrival.at) - got;
        }
        got += departure.charged.get() as f64;
        end = departure.finished.as_nanos();
        worst = worst.max(due(end) - got - least);
        least = least.min(due(end) - got);
    }
    worst
}

/// Asserts that every leaf stays within its worst-case fair index, `index(workload, leaf)`, with
/// `scheduler`, and that FIFO breaks it in most workloads.
fn check_fair_index(scheduler: &str, index: impl Fn(&Workload, usize) -> f64) {
    let mut broken = 0;
    for seed in 0..2 * SEEDS {
        let workload = if seed % 2 == 0 { random(seed) } else { saturated(seed) };
        let (sent, fifo) = (workload.run(scheduler), workload.run("fifo"));
        let mut breaks = false;
        for leaf in 0..workload.weights.len() {
            let bound = index(&workload, leaf) + SLACK_BYTES;
            let behind_by = behind(&workload, &sent, leaf);
            assert!(
                behind_by <= bound,
                "{scheduler}, seed {seed}: leaf {leaf} of {:?} is {behind_by} bytes behind, \
                 {bound} allowed",
                workload.weights
            );
            breaks |= behind(&workload, &fifo, leaf) > bound;
        }
        broken += u64::from(breaks);
    }
    assert!(broken > SEEDS / 2, "only {broken} of these workloads show anything");
}

fn longest(workload: &Workload) -> f64 {
    (0..workload.weights.len()).map(|leaf| workload.length_max(leaf)).fold(0.0, f64::max)
}

#[test]
fn wf2q_stays_within_the_worst_case_fair_index() {
    check_fair_index("wf2q+", |workload, leaf| {
        let own = workload.length_max(leaf);
        own + (longest(workload) - own) * workload.part(leaf)
    });
}

/// Returns a slot of a leaf, in bytes of the line.
fn slot(workload: &Workload, leaf: usize) -> f64 {
    let span = f64::from(MTU) / workload.part(leaf);
    2f64.powf((span - 1e-9).log2().ceil())
}

#[test]
fn qfq_stays_within_its_worst_case_fair_index() {
    // [qfq13 §V]
    check_fair_index("qfq", |workload, leaf| {
        workload.part(leaf) * (3.0 * slot(workload, leaf) + 2.0 * longest(workload))
    });
}

/// In a link in which all leaves are always backlogged: calls `each(leaf, ahead, behind)` with the
/// bytes by which each packet's end, in order, finds its leaf ahead of the fluid, and its start
/// behind it.
fn beside_the_fluid(workload: &Workload, scheduler: &str, mut each: impl FnMut(usize, f64, f64)) {
    let mut got = vec![0.0; workload.weights.len()];
    let mut all = 0.0;
    for departure in workload.run(scheduler) {
        let leaf = departure.leaf.index();
        let length = departure.charged.get() as f64;
        let behind = workload.part(leaf) * all - got[leaf];
        all += length;
        got[leaf] += length;
        if all > HORIZON as f64 {
            return;
        }
        each(leaf, got[leaf] - workload.part(leaf) * all, behind);
    }
}

#[test]
fn wf2q_is_never_ahead_of_the_fluid_nor_behind_by_more_than_a_packet() {
    for seed in 0..SEEDS {
        let workload = saturated(seed);
        let longest = longest(&workload);
        beside_the_fluid(&workload, "wf2q+", |leaf, ahead, behind| {
            let own = workload.length_max(leaf);
            let bound = own * (1.0 - workload.part(leaf)) + SLACK_BYTES;
            assert!(ahead <= bound, "seed {seed}: {ahead} ahead, {bound} allowed");
            assert!(behind <= longest + SLACK_BYTES, "seed {seed}: {behind} behind");
        });
    }
}

#[test]
fn qfq_stays_within_four_slots_of_the_fluid() {
    for seed in 0..SEEDS {
        let workload = saturated(seed);
        beside_the_fluid(&workload, "qfq", |leaf, ahead, behind| {
            // [algorithms §4.8]
            let bound = 4.0 * slot(&workload, leaf) * workload.part(leaf) + SLACK_BYTES;
            assert!(ahead <= bound && behind <= bound, "seed {seed}: {ahead} {behind} {bound}");
        });
    }
}

#[test]
fn round_robins_stay_within_a_round_of_the_fluid() {
    for (scheduler, seed) in
        ["drr", "sfq"].iter().flat_map(|name| (0..SEEDS).map(move |n| (name, n)))
    {
        let workload = saturated(seed);
        let smallest = *workload.weights.iter().min().expect("a leaf") as f64;
        let round = workload.weights.iter().sum::<u64>() as f64 / smallest * f64::from(MTU);
        beside_the_fluid(&workload, scheduler, |leaf, ahead, behind| {
            // A turn of its own, and one longest packet of every leaf.
            let leaves = workload.weights.len() as f64;
            let bound = workload.part(leaf) * round + (1.0 + leaves) * f64::from(MTU);
            assert!(
                ahead <= bound && behind <= bound,
                "{scheduler}, seed {seed}: {ahead} {behind}"
            );
        });
    }
}

#[test]
fn qfq_and_wf2q_send_a_standing_backlog_within_their_slots() {
    for seed in 0..SEEDS {
        let workload = saturated(seed);
        let mut services = Vec::new();
        for scheduler in ["qfq", "wf2q+"] {
            let mut got = vec![0f64; workload.weights.len()];
            beside_the_fluid(&workload, scheduler, |leaf, ahead, _| got[leaf] = ahead);
            services.push(got);
        }
        for (leaf, (one, other)) in services[0].iter().zip(&services[1]).enumerate() {
            let apart = (one - other).abs();
            let bound = 4.0 * slot(&workload, leaf) * workload.part(leaf) + f64::from(MTU);
            assert!(apart <= bound, "seed {seed}: {apart} bytes apart, {bound} allowed");
        }
    }
}
