//! TCP through the link: it fills it, obeys its window, shares, and survives a flood.

use crate::common;

use common::{cbr, run, scenario, tcp, udp};
use weir_core::units::{Bytes, Duration};
use weir_sim::Report;
use weir_sim::scenario::{Congestion, Mtu, Period, Tcp, Transfer};

const MSS: u64 = 1460;

fn bulk(congestion: Congestion, segments: u64) -> Tcp {
    let tcp = Tcp { return_delay: Duration::from_millis(10), ..Tcp::default() };
    tcp.with_congestion(congestion).with_window(Bytes::new(segments * MSS))
}

#[test]
fn tcp_alone_fills_the_link() {
    for congestion in [Congestion::None, Congestion::Reno, Congestion::Cubic] {
        // 20 ms of 10 Mbit/s are 17 frames; the window is larger, the queue holds the rest.
        let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], 100);
        scenario.delay = Duration::from_millis(10);
        scenario.warmup = Duration::from_secs(1);
        scenario.sources = vec![tcp("bulk", 0, bulk(congestion, 44))];
        let report = run(&scenario);
        let source = report.source("bulk").expect("it is declared");
        assert!(report.link.utilisation > 0.999, "{congestion:?}\n{report}");
        // Of each frame of 1514 bytes 1460 are payload.
        let ideal = 1e7 * 1460.0 / 1514.0;
        assert!(
            (source.goodput_bps as f64 / ideal - 1.0).abs() < 0.002,
            "{congestion:?}\n{report}"
        );
        let tcp = source.tcp.expect("it is TCP");
        assert_eq!((tcp.retransmitted, source.lost.packets), (0, 0), "{report}");
    }
}

#[test]
fn tcp_fills_the_link_in_spite_of_loss() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], 60);
        scenario.delay = Duration::from_millis(10);
        scenario.duration = Duration::from_secs(60);
        scenario.warmup = Duration::from_secs(10);
        scenario.sources = vec![tcp("bulk", 0, bulk(congestion, 400))];
        let report = run(&scenario);
        let source = report.source("bulk").expect("it is declared");
        assert!(report.link.utilisation > 0.95, "{congestion:?}\n{report}");
        let tcp = source.tcp.expect("it is TCP");
        assert!(tcp.retransmitted > 0 && source.lost.packets > 0, "{report}");
    }
}

const UNDER_RED: &str = r#"
duration = "10 s"
warmup = "5 s"
[policy.link]
rate = "10 Mbit/s"
scheduler = "cbq-altq"
overhead = "ip"
cbq-altq = { preset = "altq1", watchdog = false, hz = 500 }
[policy.class]
a = { rate = "5 Mbit/s", borrow = true, match = [{ dport = 5001 }], queue = { dropper = "red-altq", limit = "60 packets" } }
b = { rate = "3 Mbit/s", borrow = true, match = [{ dport = 5002 }], queue = { dropper = "red-altq", limit = "60 packets" } }
c = { rate = "2 Mbit/s", borrow = true, default = true, queue = { dropper = "red-altq", limit = "60 packets" } }
[[source]]
name = "fa"
kind = "tcp"
dport = 5001
window = "3 MB"
[[source]]
name = "fb"
kind = "tcp"
dport = 5002
window = "3 MB"
[[source]]
name = "fc"
kind = "tcp"
dport = 5003
window = "3 MB"
"#;

/// RED drops many segments of the first flights, also of those that are sent again.
#[test]
fn tcp_goes_on_under_red() {
    for seed in 1..=24 {
        let mut scenario = common::written(UNDER_RED);
        scenario.seed = seed;
        let report = run(&scenario);
        for name in ["fa", "fb", "fc"] {
            let source = report.source(name).expect("it is declared");
            assert!(source.goodput_bps > 1_000_000, "seed {seed}, {name}\n{report}");
        }
    }
}

fn over_tcp(queue: &str, keys: &str) -> [Report; 2] {
    common::through(queue, &format!("kind = \"tcp\"\n{keys}"))
}

/// Marks of the queue reach the receiver, and come back: nothing is lost.
#[test]
fn marks_reach_the_sender_in_place_of_losses() {
    for keys in [
        "ecn = \"classic\"",
        "ecn = \"classic\"\ncongestion = \"reno\"",
        "ecn = \"accurate\"",
        "ecn = \"accurate\"\ntimestamps = true",
        "ecn = \"classic\"\ncongestion = \"dctcp\"",
        "congestion = \"dctcp\"",
        "congestion = \"prague\"",
    ] {
        for report in over_tcp(CODEL, &format!("window = \"1 MB\"\n{keys}")) {
            let source = report.source("x").expect("it is declared");
            let marked: u64 = report.classes.iter().map(|class| class.marked).sum();
            assert!(marked > 20, "{keys}\n{report}");
            assert_eq!(source.lost.packets, 0, "{keys}\n{report}");
            assert!(source.goodput_bps > 8_500_000, "{keys}\n{report}");
        }
    }
    for keys in ["", "ecn = \"off\"", "profile = \"linux\""] {
        for report in over_tcp(CODEL, &format!("window = \"1 MB\"\n{keys}")) {
            let marked: u64 = report.classes.iter().map(|class| class.marked).sum();
            assert_eq!(marked, 0, "{keys}\n{report}");
            assert!(report.source("x").expect("it is declared").lost.packets > 10, "{report}");
        }
    }
}

#[test]
fn every_controller_and_profile_fills_the_link() {
    for keys in [
        "congestion = \"bbr\"\nwindow = \"1 MB\"",
        "congestion = \"reno\"\npacing = true\nwindow = \"1 MB\"",
        "profile = \"linux\"",
        "profile = \"linux\"\necn = \"accurate\"",
        "profile = \"rfc\"",
        "profile = \"bsd-1998\"\nwindow = \"48 KiB\"",
        "profile = \"tahoe-1988\"\nwindow = \"48 KiB\"",
        "window = \"64 KiB\"\nwindow_max = \"1 MB\"\nhystart = false\nnagle = false",
        "idle_restart = false\nslow_start = \"acks\"\nsack = false\nrto_min = \"500 ms\"",
    ] {
        for report in over_tcp("{ limit = \"40 packets\" }", keys) {
            let carried = report.source("x").expect("it is declared").goodput_bps;
            assert!(carried > 8_000_000, "{keys}\n{report}");
        }
    }
}

const CODEL: &str = "{ dropper = \"codel\", limit = \"400 packets\", ecn = true }";

#[test]
fn a_small_window_limits_tcp_to_a_window_each_round_trip() {
    for (segments, millis) in [(8, 20), (16, 40), (30, 100)] {
        let mut scenario = scenario("fifo", 100_000_000, &[("all", 0)], 100);
        scenario.delay = Duration::from_millis(millis);
        scenario.warmup = Duration::from_secs(2);
        let return_delay = Duration::from_millis(millis);
        scenario.sources =
            vec![tcp("bulk", 0, Tcp { return_delay, ..bulk(Congestion::Cubic, segments) })];
        let report = run(&scenario);
        // An acknowledgement comes for every second frame, each 121 µs on the line.
        let round_trip = 2.0 * millis as f64 / 1e3 + 2.0 * 1514.0 * 8.0 / 1e8;
        let ideal = (segments * MSS * 8) as f64 / round_trip;
        let found = report.source("bulk").expect("it is declared").goodput_bps as f64;
        assert!((found / ideal - 1.0).abs() < 0.03, "{segments} segments: {found} of {ideal}");
    }
}

#[test]
fn two_equal_flows_share() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], 50);
        scenario.delay = Duration::from_millis(10);
        scenario.duration = Duration::from_secs(300);
        scenario.warmup = Duration::from_secs(20);
        let flow = || bulk(congestion, 200);
        scenario.sources = vec![tcp("one", 0, flow()), tcp("two", 0, flow())];
        let report = run(&scenario);
        let goodput = |name| report.source(name).expect("it is declared").goodput_bps as f64;
        let share = goodput("one") / (goodput("one") + goodput("two"));
        assert!((0.4..0.6).contains(&share), "{congestion:?}: {share}\n{report}");
        assert!(report.link.utilisation > 0.95, "{congestion:?}\n{report}");
    }
}

#[test]
fn a_class_with_its_own_turn_shields_tcp_from_a_flood() {
    let mut scenario = scenario("drr", 10_000_000, &[("tcp", 1514), ("flood", 1514)], 60);
    scenario.delay = Duration::from_millis(10);
    scenario.duration = Duration::from_secs(30);
    scenario.warmup = Duration::from_secs(5);
    scenario.sources =
        vec![tcp("bulk", 0, bulk(Congestion::Cubic, 44)), udp("flood", 1, cbr(1514, 30_000_000))];
    let report = run(&scenario);
    let goodput = report.source("bulk").expect("it is declared").goodput_bps as f64;
    assert!((goodput / (5e6 * 1460.0 / 1514.0) - 1.0).abs() < 0.01, "{report}");
    // In one queue with it, the same flow starves.
    scenario.sources[1].headers = common::headers(weir_core::packet::Protocol::UDP, 0);
    let starved = run(&scenario).source("bulk").expect("it is declared").goodput_bps as f64;
    assert!(starved < goodput / 5.0, "{starved}");
}

#[test]
fn short_transfers_follow_one_another() {
    let think = Duration::from_millis(100);
    let transfer = Transfer { bytes: Bytes::new(100_000), think: Some(Period::Constant(think)) };
    let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], 100);
    scenario.delay = Duration::from_millis(10);
    scenario.sources =
        vec![tcp("web", 0, Tcp { transfer: Some(transfer), ..bulk(Congestion::Reno, 44) })];
    let report = run(&scenario);
    let source = report.source("web").expect("it is declared");
    let transfers = source.tcp.expect("it is TCP").transfers;
    // All alike: nothing else is on the line.
    let took = transfers.max.as_nanos();
    assert!(transfers.mean.as_nanos() + 1000 > took, "{report}");
    // 100 KB need 83 ms on the line and at least two round trips of 20 ms.
    assert!((120_000_000..250_000_000).contains(&took), "{report}");
    let turns = 10_000_000_000 / (took + think.as_nanos());
    assert!(transfers.count.abs_diff(turns) <= 1, "{report}");
    let bytes = source.goodput_bps * 10 / 8;
    assert!(bytes >= transfers.count * 100_000 && bytes <= (transfers.count + 1) * 100_000);
}

#[test]
fn one_transfer_ends_and_leaves_the_line_idle() {
    let transfer = Transfer { bytes: Bytes::new(1_000_000), think: None };
    let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], 100);
    scenario.sources =
        vec![tcp("once", 0, Tcp { transfer: Some(transfer), ..bulk(Congestion::Reno, 44) })];
    let report = run(&scenario);
    let source = report.source("once").expect("it is declared");
    assert_eq!(source.goodput_bps, 800_000);
    assert_eq!(source.tcp.expect("it is TCP").transfers.count, 1);
    assert_eq!(report.class("all").expect("it is declared").backlog.packets, 0);
}

#[test]
fn frames_are_as_long_as_the_mtu_says_over_both_families() {
    let [four, six] = [(40u64, false), (60, true)].map(|(headers, six)| {
        let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], 100);
        scenario.warmup = Duration::from_secs(1);
        let mtu = Mtu::new(1280).expect("enough for IPv6");
        let mut plan = bulk(Congestion::Reno, 44);
        plan.config.mtu = mtu.get();
        let mut source = tcp("bulk", 0, plan);
        if six {
            let [source_address, destination] =
                [1, 2].map(|last| std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
            source.headers.addresses =
                weir_core::packet::Addresses::V6 { source: source_address, destination };
        }
        scenario.sources = vec![source];
        let report = run(&scenario);
        let goodput = report.source("bulk").expect("it is declared").goodput_bps as f64;
        let ideal = 1e7 * (1280 - headers) as f64 / 1294.0;
        assert!((goodput / ideal - 1.0).abs() < 0.002, "{report}");
        goodput
    });
    assert!(four > six);
}

#[test]
fn a_stopped_source_begins_nothing_more() {
    let think = Some(Period::Constant(Duration::from_millis(100)));
    let web = Transfer { bytes: Bytes::new(100_000), think };
    for transfer in [None, Some(web)] {
        let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], 100);
        scenario.delay = Duration::from_millis(10);
        // The sender's buffer of two windows and a transfer that has begun are sent to their end.
        scenario.warmup = Duration::from_secs(3);
        scenario.sources = vec![tcp("x", 0, Tcp { transfer, ..bulk(Congestion::Reno, 44) })];
        assert!(run(&scenario).sources[0].sent.packets > 1000, "{transfer:?}");
        scenario.sources[0].stop = Some(common::millis(2000));
        assert_eq!(run(&scenario).sources[0].sent.packets, 0, "{transfer:?}");
        scenario.warmup = Duration::ZERO;
        scenario.sources[0].start = common::millis(2000);
        assert_eq!(run(&scenario).sources[0].sent.packets, 0, "{transfer:?}");
    }
}
