//! One seed is one run, to the byte.

mod common;

use common::{cbr, on_off, poisson, run, scenario, tcp, udp};
use weir_core::units::{Bytes, Duration};
use weir_sim::Scenario;
use weir_sim::scenario::{Congestion, Period, Tcp, Transfer};

fn mix() -> Scenario {
    let second = Period::Exponential(Duration::from_secs(1));
    let transfer = Transfer { bytes: Bytes::new(50_000), think: Some(second) };
    let return_delay = Duration::from_millis(5);
    let web = Tcp { transfer: Some(transfer), return_delay, ..Tcp::default() };
    let bulk = Tcp { congestion: Congestion::Reno, return_delay, ..Tcp::default() };
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
fn progress_is_told_from_beginning_to_end_and_changes_nothing() {
    let scenario = mix();
    let mut told = Vec::new();
    let report = weir_sim::run(&scenario, &mut |at| told.push(at)).expect("it is sound");
    assert_eq!(report, run(&scenario));
    assert_eq!((told.first(), told.last()), (Some(&Duration::ZERO), Some(&scenario.duration)));
    assert!(told.is_sorted() && told.len() >= 100, "{}", told.len());
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
