//! One seed is one run, to the byte.

use crate::common;

use common::{cbr, on_off, poisson, run, scenario, tcp, udp};
use weir_core::ids::MeterId;
use weir_core::parameter::Params;
use weir_core::police::{Action, MeterPlan};
use weir_core::units::{Bytes, Duration, Quantity};
use weir_sim::Scenario;
use weir_sim::scenario::{Congestion, Period, Tcp, Transfer};

fn mix() -> Scenario {
    let second = Period::Exponential(Duration::from_secs(1));
    let transfer = Transfer { bytes: Bytes::new(50_000), think: Some(second) };
    let return_delay = Duration::from_millis(5);
    let web = Tcp { transfer: Some(transfer), return_delay, ..Tcp::default() };
    let bulk = Tcp { return_delay, ..Tcp::default() }.with_congestion(Congestion::Reno);
    let leaves = [("udp", 1500), ("web", 1500), ("bulk", 1500)];
    let mut scenario = scenario("drr", 5_000_000, &leaves, 30);
    scenario.delay = Duration::from_millis(5);
    scenario.sources = vec![
        udp("cbr", 0, cbr(200, 100_000)),
        udp("poisson", 0, poisson(900, 1_500_000)),
        udp("bursts", 0, on_off(1200, 3_000_000, second, second)),
        tcp("web", 1, web),
        tcp("bulk", 2, bulk),
    ];
    scenario
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let mut scenario = mix();
    let first = run(&scenario);
    let second = run(&scenario);
    assert_eq!(first.to_json(), second.to_json());
    assert_eq!(first.to_string(), second.to_string());
    scenario.seed += 1;
    let other = run(&scenario);
    assert_ne!(first.sources, other.sources);
}

#[test]
fn another_source_changes_nothing_for_those_that_were_there() {
    let mut scenario = mix();
    let sent = |scenario: &Scenario| run(scenario).source("poisson").map(|source| source.sent);
    let before = sent(&scenario);
    scenario.sources.insert(0, udp("another", 0, poisson(100, 1_000_000)));
    assert_eq!(sent(&scenario), before);
}

#[test]
fn progress_is_reported_from_beginning_to_end_and_changes_nothing() {
    let scenario = mix();
    let mut told = Vec::new();
    let report = weir_sim::run(&scenario, &mut |at| told.push(at)).expect("it is sound");
    assert_eq!(report, run(&scenario));
    assert_eq!((told.first(), told.last()), (Some(&Duration::ZERO), Some(&scenario.duration)));
    assert!(told.is_sorted() && told.len() >= 100, "{}", told.len());
}

#[test]
fn running_ahead_gives_what_each_packet_for_itself_gives() {
    // A run that records peaks handles each packet as an event of its own, the plain way.
    let second = Period::Exponential(Duration::from_secs(1));
    for scheduler in ["drr", "fifo", "priq", "wf2q+"] {
        for (rate, delay, warmup) in [(5_000_000, 0, 0), (3_000_000, 5, 7), (400_000_000, 20, 3)] {
            let leaves = [("a", 1500), ("b", 300), ("c", 700)];
            let mut scenario = scenario(scheduler, rate, &leaves, 10);
            scenario.delay = Duration::from_millis(delay);
            scenario.warmup = Duration::from_millis(warmup * 100);
            // Many of one rhythm send at one instant.
            let mut sources: Vec<_> =
                (0..20).map(|n| udp(&format!("even {n}"), n % 3, cbr(200, 100_000))).collect();
            sources.push(udp("poisson", 1, poisson(900, 1_500_000)));
            sources.push(udp("bursts", 2, on_off(1200, 3_000_000, second, second)));
            sources[7].stop = Some(common::millis(4_000));
            sources[8].start = common::millis(3_999);
            scenario.sources = sources;
            let (plain, _) =
                weir_sim::run_noting_peaks(&scenario, &mut |_| {}).expect("it is sound");
            let ahead = run(&scenario);
            assert!(ahead.conservation.holds);
            assert_eq!(ahead.to_json(), plain.to_json(), "{scheduler} {rate}");
        }
    }
}

#[test]
fn small_steps_give_what_large_steps_give() {
    // A TCP source, even one that never opens, makes the run advance the link in small steps.
    for delay in [0, 1, 20] {
        let mut scenario = mix();
        scenario.delay = Duration::from_millis(delay);
        scenario.sources.truncate(3);
        let large = run(&scenario);
        let mut never = tcp("never", 2, Tcp::default());
        never.start = common::millis(10_000);
        scenario.sources.push(never);
        let small = run(&scenario);
        assert_eq!(large.sources[..], small.sources[..3], "delay {delay} ms");
        assert_eq!(large.classes, small.classes, "delay {delay} ms");
    }
}

/// Runs `scenario` with three seeds; the classes of no two reports are equal, and each is repeated
/// by its seed.
fn check_seeds_differ(name: &str, scenario: &mut Scenario) {
    let classes = [1, 2, 3].map(|seed| {
        scenario.seed = seed;
        let classes = run(scenario).classes;
        assert_eq!(run(scenario).classes, classes, "{name}, seed {seed}");
        classes
    });
    assert!(classes[0] != classes[1] && classes[1] != classes[2], "{name}: {classes:#?}");
}

/// A source that draws nothing, at twice the link's rate.
fn constant_overload() -> Scenario {
    let mut scenario = scenario("fifo", 1_000_000, &[("all", 1500)], 100);
    scenario.sources = vec![udp("constant", 0, cbr(1000, 2_000_000))];
    scenario
}

#[test]
fn what_a_dropper_or_a_meter_draws_comes_from_the_seed_of_the_run() {
    for dropper in ["red", "red-altq", "rio", "blue", "pie"] {
        let mut scenario = constant_overload();
        scenario.link.queues[0].dropper = dropper;
        check_seeds_differ(dropper, &mut scenario);
    }
    let mut scenario = constant_overload();
    let rate = Quantity::Rate(common::rate(500_000));
    let params = Params::new().with("rate", rate).with("peak_rate", rate);
    let drop_red = vec![("red", Action::Drop)];
    scenario.link.meters = vec![MeterPlan { meter: "tswtcm", params, actions: drop_red }];
    scenario.link.leaf_meters = vec![Some(MeterId::from_index(0).expect("the first"))];
    check_seeds_differ("tswtcm", &mut scenario);
}
