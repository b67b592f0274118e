//! Sources that do not listen: exact numbers where there are some, theory where there is one.

use crate::common;

use common::{cbr, millis, on_off, poisson, run, scenario, udp};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::units::{Duration, Share};
use weir_sim::scenario::{Pareto, Period, Sizes, Spacing, Traffic};

#[test]
fn cbr_alone_gets_exact_numbers() {
    // 1000 bytes every millisecond on 16 Mbit/s: half a millisecond on the line, 3 ms of delay.
    let mut scenario = scenario("fifo", 16_000_000, &[("all", 0)], 100);
    scenario.delay = Duration::from_millis(3);
    scenario.sources = vec![udp("cbr", 0, cbr(1000, 8_000_000))];
    let report = run(&scenario);
    let class = report.class("all").expect("it is declared");
    assert_eq!((class.offered.packets, class.sent.packets), (10_000, 10_000));
    assert_eq!(class.sent.bits_per_second, 8_000_000);
    assert_eq!((class.delay.max, class.backlog.packets), (Duration::ZERO, 0));
    assert_eq!(report.link.utilisation, 0.5);
    let source = report.source("cbr").expect("it is declared");
    // The last three packets are still on their way at the end: sent at 9.997, 9.998, 9.999 s.
    assert_eq!((source.sent.packets, source.received.packets), (10_000, 9_997));
    let exact = Duration::from_micros(3500);
    let delay = source.delay;
    assert_eq!([delay.p50, delay.p99, delay.max, delay.mean], [exact; 4]);
    // 7 661 700.8 bit/s: the frame less Ethernet's, IP's and UDP's headers.
    assert_eq!(source.goodput_bps, ((1000 - 42) * 9_997 * 8 + 5) / 10);
}

#[test]
fn an_overloaded_line_sends_its_rate_and_drops_the_rest() {
    let mut scenario = scenario("fifo", 8_000_000, &[("all", 0)], 10);
    scenario.sources = vec![udp("cbr", 0, cbr(1000, 16_000_000))];
    let report = run(&scenario);
    let class = report.class("all").expect("it is declared");
    // One packet a millisecond: at 0, 1, … 10 000 ms, the last at the very end.
    assert_eq!((class.offered.packets, class.sent.packets), (20_000, 10_001));
    assert!(class.backlog.packets.abs_diff(10) <= 1, "{report}");
    assert_eq!(class.dropped.total.packets, 20_000 - 10_001 - class.backlog.packets);
    assert_eq!(report.link.utilisation, 1.0);
    assert!(class.delay.max <= Duration::from_millis(10), "{report}");
}

#[test]
fn who_understands_marks_is_marked_and_counted() {
    let mut scenario = scenario("fifo", 8_000_000, &[("all", 0)], 1000);
    let mut params = Params::new();
    params.set("ecn", Value::Flag(true));
    scenario.link.queues.fill(QueuePlan { dropper: "codel", params });
    scenario.sources = vec![udp("able", 0, cbr(1000, 8_000_000))];
    scenario.sources.push(udp("unable", 0, cbr(1000, 1_000_000)));
    scenario.sources[0].headers.traffic_class = Some(0b10);
    let report = run(&scenario);
    let class = report.class("all").expect("it is declared");
    let lost = |name| report.source(name).expect("it is declared").lost.packets;
    assert!(class.marked > 100 && lost("unable") > 0, "{report}");
    // What overflows at last hits both.
    assert_eq!(lost("able") + lost("unable"), class.dropped.total.packets);
}

#[test]
fn a_rate_that_is_not_a_whole_interval_is_exact() {
    // 7 Mbit/s in frames of 999 bytes: 1 141 714.28 ns apart. Ten seconds hold 8759 of them.
    let mut scenario = scenario("fifo", 1_000_000_000, &[("all", 0)], 100);
    scenario.sources = vec![udp("cbr", 0, cbr(999, 7_000_000))];
    let sent = run(&scenario).class("all").expect("it is declared").sent.packets;
    assert_eq!(sent, (7_000_000u64 * 10).div_ceil(999 * 8));
}

#[test]
fn the_warm_up_does_not_count() {
    let mut scenario = scenario("fifo", 8_000_000, &[("all", 0)], 100);
    scenario.sources = vec![udp("cbr", 0, cbr(1000, 4_000_000))];
    scenario.sources[0].stop = Some(millis(6000));
    scenario.warmup = Duration::from_secs(5);
    let report = run(&scenario);
    let class = report.class("all").expect("it is declared");
    assert_eq!((class.offered.packets, class.sent.packets), (500, 500));
    assert_eq!(class.sent.bits_per_second, 800_000);
    assert_eq!(report.conservation.offered, 3000);
    assert_eq!(report.source("cbr").expect("it is declared").delay.count, 500);
    assert_eq!(report.link.utilisation, 0.1);
}

#[test]
fn sources_start_and_stop_as_written() {
    let mut scenario = scenario("fifo", 80_000_000, &[("all", 0)], 100);
    scenario.sources = vec![udp("cbr", 0, cbr(1000, 8_000_000))];
    scenario.sources[0].start = millis(2000);
    scenario.sources[0].stop = Some(millis(2010));
    assert_eq!(run(&scenario).class("all").expect("it is declared").sent.packets, 10);
}

/// The mean wait of M/D/1 is service · load / (2 (1 − load)) [Pollaczek-Khinchine].
fn check_md1(percent: u64, tolerance: f64) {
    let mut scenario = scenario("fifo", 8_000_000, &[("all", 0)], 10_000);
    scenario.duration = Duration::from_secs(2000);
    scenario.warmup = Duration::from_secs(10);
    scenario.sources = vec![udp("poisson", 0, poisson(1000, 80_000 * percent))];
    let report = run(&scenario);
    let load = percent as f64 / 100.0;
    let wait = report.class("all").expect("it is declared").delay.mean.as_nanos() as f64;
    let theory = 1e6 * load / (2.0 * (1.0 - load));
    assert!((wait / theory - 1.0).abs() < tolerance, "load {load}: {wait} for {theory}\n{report}");
    assert!((report.link.utilisation / load - 1.0).abs() < 0.01, "{report}");
}

#[test]
fn poisson_arrivals_wait_as_queueing_theory_says() {
    check_md1(50, 0.01);
    check_md1(80, 0.03);
}

#[test]
fn on_off_sources_are_on_for_their_part_of_the_time() {
    let (on, off) = (Duration::from_millis(300), Duration::from_millis(700));
    let pareto = |mean| Period::Pareto(Pareto::new(mean, 2.5).expect("has a mean"));
    let rows = [
        ("constant", Period::Constant(on), Period::Constant(off), 0.005),
        ("exponential", Period::Exponential(on), Period::Exponential(off), 0.05),
        ("pareto", pareto(on), pareto(off), 0.05),
    ];
    for (name, on, off, tolerance) in rows {
        let mut scenario = scenario("fifo", 8_000_000, &[("all", 0)], 100);
        scenario.duration = Duration::from_secs(3000);
        scenario.sources = vec![udp(name, 0, on_off(1000, 4_000_000, on, off))];
        let report = run(&scenario);
        let sent = report.class("all").expect("it is declared").sent.bits_per_second as f64;
        assert!((sent / 1_200_000.0 - 1.0).abs() < tolerance, "{name}\n{report}");
    }
}

#[test]
fn jitter_moves_packets_but_keeps_the_rate() {
    let mut scenario = scenario("fifo", 1_000_000_000, &[("all", 0)], 100);
    scenario.duration = Duration::from_secs(100);
    let jitter = Share::from_ppb(500_000_000).expect("half");
    let sizes = Sizes::fixed(1000).expect("a length");
    let spacing = Spacing::interval(Duration::from_millis(1)).expect("not zero");
    scenario.sources = vec![udp("jittery", 0, Traffic::Cbr { sizes, spacing, jitter })];
    let sent = run(&scenario).class("all").expect("it is declared").sent.packets;
    // 100 000 distances with a standard deviation of 0.29 ms each: 91 packets; ten times that.
    assert!(sent != 100_000 && sent.abs_diff(100_000) < 910, "{sent}");
}

#[test]
fn drr_shares_a_flooded_link_by_quantum() {
    let leaves = [("gold", 3000), ("silver", 1500)];
    let mut scenario = scenario("drr", 9_000_000, &leaves, 50);
    scenario.warmup = Duration::from_secs(1);
    scenario.sources =
        vec![udp("one", 0, cbr(1500, 20_000_000)), udp("two", 1, cbr(300, 20_000_000))];
    let report = run(&scenario);
    let sent = |name| report.class(name).expect("it is declared").sent.bits_per_second as f64;
    assert!((sent("gold") / 6e6 - 1.0).abs() < 0.005, "{report}");
    assert!((sent("silver") / 3e6 - 1.0).abs() < 0.005, "{report}");
}
