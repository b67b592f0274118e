//! Laws of a controller in front of a modem on hard days: random capacities, five seconds without
//! any, clocks that jump, a host that forges what it sends.

use crate::modem::{Bulk, Capacity, Model, Outcome, limits};
use std::rc::Rc;
use weir_autorate::Way;
use weir_core::random::Random;

const OURS: usize = 0;
/// Nothing passes for these milliseconds.
const GAP: std::ops::Range<u64> = 4_000..9_000;
/// How long the rate may take to return after a gap or a jump.
const RETURN_MS: u64 = 2_000;

/// The honest hosts beside one that forges.
const HOSTS: usize = 6;

fn runs() -> u64 {
    let given = std::env::var("WEIR_AUTORATE_TRACES").ok().and_then(|text| text.parse().ok());
    given.map_or(20, |all: u64| all.div_ceil(2))
}

fn model(seed: u64) -> Model {
    model_of(seed, 3)
}

/// So many hosts with a bulk flow each, in both ways.
fn model_of(seed: u64, hosts: usize) -> Model {
    let random = &mut Random::new(seed, 5);
    let mut model = Model::new(limits(1, 2, 20), OURS, [|_| 6_000_000; 2]);
    for host in 0..hosts {
        let way = if host == 0 { Way::ALL[(seed % 2) as usize] } else { Way::ALL[host % 2] };
        let trip_ms = 10 + u64::from(random.below(80));
        let (window, host) = (20 + random.below(100), host as u32);
        model = model.with(Bulk { way, window, trip_ms, stamps: true, host });
    }
    model
}

/// A capacity that changes every 100 ms to 1 s, until the gap; 6 Mbit/s behind it.
fn random_capacity(seed: u64) -> Capacity {
    let random = &mut Random::new(seed, 6);
    let mut steps = Vec::new();
    while steps.len() < GAP.start as usize {
        let bits = 300_000 + u64::from(random.below(12_000_000));
        steps.resize(steps.len() + 100 + random.below(900) as usize, bits);
    }
    Rc::new(move |ms| match ms {
        ms if GAP.contains(&ms) => 0,
        ms if ms < GAP.start => steps[ms as usize],
        _ => 6_000_000,
    })
}

/// Returns the rates of a way in kbit/s that were decided in these milliseconds of the run.
fn rates(outcome: &Outcome, way: Way, within: std::ops::Range<u64>) -> Vec<u64> {
    let own = outcome.steps.iter().filter(|step| step.way == way);
    let each = own.map(|step| step.to.bits_per_second() / 1000);
    let interval = weir_autorate::INTERVAL.as_nanos() / 1_000_000;
    let timed = each.enumerate().map(|(place, rate)| ((place as u64 + 1) * interval, rate));
    timed.filter(|(at, _)| within.contains(at)).map(|(_, rate)| rate).collect()
}

fn check_within(outcome: &Outcome, what: &str) {
    let limits = limits(1, 2, 20);
    assert!(outcome.steps.iter().all(|step| limits.holds(step.to)), "{what}");
}

#[test]
fn random_lines_keep_the_rate_within_and_a_gap_is_over_in_two_seconds() {
    for seed in 0..runs() {
        let outcome = model(seed).over(&random_capacity(seed)).run(0, 12_000);
        check_within(&outcome, &format!("seed {seed}"));
        for way in Way::ALL {
            let later = rates(&outcome, way, GAP.end + RETURN_MS..12_000);
            let most = later.iter().max().copied();
            assert!(most >= Some(2_000), "seed {seed}, {way:?}: {later:?} kbit/s after the gap");
        }
    }
}

#[test]
fn an_upload_that_stands_still_does_not_slow_the_download() {
    let steady: Capacity = Rc::new(|ms| if GAP.contains(&ms) { 0 } else { 6_000_000 });
    for hosts in 1..4 {
        let mut model = Model::new(limits(1, 2, 20), OURS, [|_| 6_000_000; 2]);
        for host in 0..hosts {
            let (way, window, trip_ms) = (Way::Up, 40, 20 + 10 * u64::from(host));
            model = model.with(Bulk { way, window, trip_ms, stamps: true, host });
        }
        let outcome = model.over(&steady).run(0, 12_000);
        let least = rates(&outcome, Way::Down, 1_000..12_000).into_iter().min();
        assert!(least >= Some(2_000), "{hosts} uploads: {least:?} kbit/s down");
    }
}

#[test]
fn a_clock_that_jumps_is_forgotten_in_two_seconds() {
    const HOUR: u64 = 3_600_000_000_000;
    let forth = |now: u64| if now < 4_000_000_000 { now } else { now + HOUR };
    let back = |now: u64| if now < 4_000_000_000 { now + HOUR } else { now + HOUR / 2 };
    for (name, clock) in [("forth", forth as fn(u64) -> u64), ("back", back)] {
        for seed in 0..runs().min(1_000) / 2 {
            let outcome = model(seed).stamped(clock).run(0, 8_000);
            check_within(&outcome, &format!("{name}, seed {seed}"));
            for way in Way::ALL {
                let before = rates(&outcome, way, 3_000..4_000).into_iter().max();
                let after = rates(&outcome, way, 4_000 + RETURN_MS..8_000).into_iter().max();
                let wanted = before.map(|before| before.min(6_000) / 2);
                let is_back = after >= wanted && wanted.is_some();
                assert!(is_back, "{name}, seed {seed}, {way:?}: {before:?}, {after:?} kbit/s");
            }
        }
    }
}

#[test]
fn a_host_that_forges_moves_the_rate_of_no_other() {
    let runs = runs().min(1_000) / 2;
    let mut sums = [[0; 2]; 2];
    for seed in 0..runs {
        let honest = model_of(seed, HOSTS).run(2_000, 8_000);
        let forged = model_of(seed, HOSTS).forged(seed).run(2_000, 8_000);
        check_within(&forged, &format!("seed {seed}"));
        for way in Way::ALL {
            for (run, [used, delay]) in [&honest, &forged].into_iter().zip(&mut sums) {
                (*used, *delay) = (*used + run.used(way), *delay + run.delay(way, 95));
            }
        }
    }
    // A run turns on single packets, so only their mean tells: percents used, and milliseconds.
    let [[used, delay], [used_forged, delay_forged]] =
        sums.map(|row| row.map(|sum| sum / runs / 2));
    assert!(used_forged + 3 >= used, "{used} % without, {used_forged} % with");
    assert!(delay_forged <= delay + 10, "{delay} ms without, {delay_forged} ms with");
}
