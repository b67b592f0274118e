//! QUIC through the link: it fills it, repairs losses, hears marks, shares, and is the same twice.

use crate::common;

use common::{headers, line, run, scenario, tcp, through, written};
use weir_core::packet::Protocol;
use weir_core::units::{Bytes, Duration};
use weir_sim::scenario::{
    Congestion, InitialWindow, Mtu, Period, Quic, QuicCongestion, Source, Tcp, Traffic, Transfer,
};
use weir_sim::{Content, Fate, Scenario, Watch, run_watched};

fn bulk() -> Quic {
    Quic { return_delay: Duration::from_millis(10), ..Quic::default() }
}

fn quic(name: &str, leaf: u16, plan: Quic) -> Source {
    Source::new(name, headers(Protocol::UDP, leaf), Traffic::Quic(plan))
}

/// These sources over 10 Mbit/s with a round trip of 20 ms, before a queue of `limit` packets.
fn over_a_link(limit: u32, sources: Vec<Source>) -> Scenario {
    let mut scenario = scenario("fifo", 10_000_000, &[("all", 0)], limit);
    scenario.delay = Duration::from_millis(10);
    scenario.sources = sources;
    scenario
}

#[test]
fn quic_alone_fills_the_link() {
    for congestion in [QuicCongestion::Cubic, QuicCongestion::Reno] {
        let plan = Quic { congestion, window: Bytes::new(100_000), ..bulk() };
        let mut scenario = over_a_link(100, vec![quic("bulk", 0, plan)]);
        scenario.warmup = Duration::from_secs(1);
        let report = run(&scenario);
        let source = report.source("bulk").expect("it is declared");
        assert!(report.link.utilisation > 0.999, "{congestion:?}\n{report}");
        // Of each frame of 1514 bytes, 42 are headers of Ethernet, IP and UDP, 16 a tag, 9 the
        // identifier and the flags, and up to 16 numbers and the header of the stream's data.
        let ideal = 1e7 * (1514.0 - 67.0) / 1514.0;
        let part = source.goodput_bps as f64 / ideal;
        assert!((1431.0 / 1447.0..1.0).contains(&part), "{congestion:?}\n{report}");
        let quic = source.quic.expect("it is QUIC");
        assert_eq!((quic.lost, source.lost.packets), (0, 0), "{report}");
        assert!(quic.rtts.p50 > Duration::from_millis(20), "{report}");
    }
}

/// The receiver checks each byte against what was sent, so a whole transfer is every byte once and
/// in order.
#[test]
fn losses_are_repaired() {
    for congestion in [QuicCongestion::Cubic, QuicCongestion::Reno] {
        let transfer = Some(Transfer { bytes: Bytes::new(4_000_000), think: None });
        let plan = Quic { congestion, transfer, ..bulk() };
        let report = run(&over_a_link(20, vec![quic("bulk", 0, plan)]));
        let source = report.source("bulk").expect("it is declared");
        let quic = source.quic.expect("it is QUIC");
        assert!(source.lost.packets > 0 && quic.congestion_events > 0, "{report}");
        assert!(quic.lost >= source.lost.packets, "{report}");
        assert_eq!(quic.transfers.count, 1, "{report}");
        assert_eq!(source.goodput_bps, 4_000_000 * 8 / 10, "{report}");
    }
}

/// Every packet that left or was dropped: when, how long it was, and its bytes.
fn packets(scenario: &Scenario) -> Vec<(u64, u32, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut tell = |fate: &Fate<'_>| {
        let bytes = match fate.content {
            Content::Quic { bytes, .. } => bytes.clone(),
            _ => Vec::new(),
        };
        rows.push((fate.at.as_nanos(), fate.length, bytes));
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    run_watched(scenario, watch, &mut |_| {}).expect("it is sound");
    rows
}

#[test]
fn one_seed_is_one_run_to_the_bit() {
    let think = Some(Period::Exponential(Duration::from_millis(100)));
    let pages = Some(Transfer { bytes: Bytes::new(50_000), think });
    let sources = vec![
        quic("bulk", 0, bulk()),
        quic("pages", 0, Quic { transfer: pages, ecn: true, ..bulk() }),
    ];
    let mut scenario = over_a_link(30, sources);
    let (first, second) = (packets(&scenario), packets(&scenario));
    assert!(first.len() > 5000 && first.iter().all(|row| !row.2.is_empty()), "{}", first.len());
    // A difference would be too long to print.
    assert!(first == second);
    scenario.seed += 1;
    let lengths = |rows: &[(u64, u32, Vec<u8>)]| -> Vec<_> {
        rows.iter().map(|row| (row.0, row.1)).collect()
    };
    assert!(lengths(&first) != lengths(&packets(&scenario)));
}

/// The goodput of CUBIC over TCP and over QUIC, each alone or both together, with the same window.
fn beside(together: bool) -> [f64; 2] {
    let window = Bytes::new(400_000);
    let return_delay = Duration::from_millis(10);
    let plan = Tcp { return_delay, ..Tcp::default() }.with_window(window);
    let plan = plan.with_congestion(Congestion::Cubic);
    let sources = [tcp("tcp", 0, plan), quic("quic", 0, Quic { window, ..bulk() })];
    let goodput = |sources: Vec<Source>| {
        let mut scenario = over_a_link(60, sources);
        scenario.duration = Duration::from_secs(120);
        scenario.warmup = Duration::from_secs(20);
        let report = run(&scenario);
        report.sources.iter().map(|source| source.goodput_bps as f64).collect::<Vec<_>>()
    };
    let all = if together {
        goodput(sources.to_vec())
    } else {
        sources.iter().flat_map(|source| goodput(vec![source.clone()])).collect()
    };
    [all[0], all[1]]
}

#[test]
fn cubic_gets_as_much_over_quic_as_over_tcp() {
    let [tcp, quic] = beside(false);
    assert!((quic / tcp - 1.0).abs() < 0.05, "{tcp} over TCP, {quic} over QUIC");
}

#[test]
fn cubic_over_quic_shares_with_cubic_over_tcp() {
    let [tcp, quic] = beside(true);
    assert!((0.5..2.0).contains(&(quic / tcp)), "{tcp} over TCP, {quic} over QUIC");
}

const CODEL: &str = "{ dropper = \"codel\", ecn = true }";

#[test]
fn marks_reach_the_sender_in_place_of_losses() {
    for congestion in ["cubic", "reno"] {
        let keys = format!("kind = \"quic\"\necn = \"classic\"\ncongestion = \"{congestion}\"");
        for report in through(CODEL, &keys) {
            let source = report.source("x").expect("it is declared");
            let quic = source.quic.expect("it is QUIC");
            assert!(quic.marks > 0 && quic.congestion_events > 0, "{congestion}\n{report}");
            assert_eq!((quic.lost, source.lost.packets), (0, 0), "{congestion}\n{report}");
            assert!(source.goodput_bps > 8_500_000, "{congestion}\n{report}");
        }
    }
    for report in through(CODEL, "kind = \"quic\"") {
        let source = report.source("x").expect("it is declared");
        assert_eq!(source.quic.map(|quic| quic.marks), Some(0), "{report}");
        assert!(source.lost.packets > 0, "{report}");
    }
}

#[test]
fn models_of_applications_ride_on_quic() {
    for (keys, least) in [
        ("kind = \"web\"\npage_pause = \"100 ms\"\ntransport = \"quic\"", 50),
        ("kind = \"ftp\"\npause = \"100 ms\"\ntransport = \"quic\"", 30),
    ] {
        for report in through("{ limit = \"50 packets\" }", keys) {
            let source = report.source("x").expect("it is declared");
            let quic = source.quic.expect("it is QUIC");
            assert!(source.tcp.is_none() && quic.transfers.count >= least, "{report}");
        }
    }
}

/// The milliseconds that a transfer takes with this plan.
fn took(bytes: u64, plan: Quic) -> u64 {
    let transfer = Some(Transfer { bytes: Bytes::new(bytes), think: None });
    let report = run(&over_a_link(1000, vec![quic("one", 0, Quic { transfer, ..plan })]));
    let quic = report.source("one").and_then(|source| source.quic).expect("it is QUIC");
    assert_eq!(quic.transfers.count, 1, "{report}");
    quic.transfers.max.as_nanos() / 1_000_000
}

#[test]
fn keys_change_what_they_say() {
    // A round trip for the handshake and half of one for the data, and what the line takes.
    let plain = took(10_000, bulk());
    assert!((30..50).contains(&plain), "{plain}");
    let first = |packets| Quic { initial_window: InitialWindow::Segments(packets), ..bulk() };
    assert!(took(60_000, first(2)) > took(60_000, first(50)) + 40);
    let window = |bytes| Quic { window: Bytes::new(bytes), ..bulk() };
    // A window of 10 kB each round trip of 20 ms is 4 Mbit/s.
    assert!(took(1_000_000, window(10_000)) > 2 * took(1_000_000, window(1_000_000)));
}

/// The packets that come back to the sender of a transfer without losses.
fn acknowledgements(ack_delay: Option<Duration>) -> u64 {
    let keys = match ack_delay {
        Some(delay) => format!("ack_delay = \"{} ms\"", delay.as_nanos() / 1_000_000),
        None => String::new(),
    };
    let links = line(&[("10 Mbit/s", "10 ms", "")]);
    let text = format!(
        "duration = \"5 s\"\n{links}[[source]]\nname = \"x\"\nkind = \"quic\"\nbytes = \"1 MB\"\n\
         from = \"n0\"\nto = \"n1\"\n{keys}\n"
    );
    let report = run(&written(&text));
    let network = report.network.as_ref().expect("it is a network");
    network.outlet("l0", "n1").and_then(|it| it.class("all")).expect("a class").sent.packets
}

#[test]
fn a_receiver_acknowledges_as_the_sender_asks() {
    let [each, second] = [Some(Duration::ZERO), None].map(acknowledgements);
    assert!(each > second * 3 / 2, "{each}, {second}");
}

#[test]
fn no_datagram_is_longer_than_the_mtu() {
    let mtu = Mtu::new(1300).expect("it is an MTU");
    let scenario = over_a_link(100, vec![quic("bulk", 0, Quic { mtu, ..bulk() })]);
    let longest = packets(&scenario).iter().map(|row| row.1).max();
    assert_eq!(longest, Some(1314));
}

/// All that a sender sends at first is lost, before a queue that TCP's slow start keeps full.
#[test]
fn the_longest_packets_and_the_smallest_window_carry_a_transfer() {
    let mtu = Mtu::new(65_535).expect("it is in range");
    for plan in [Quic { mtu, ..bulk() }, Quic { window: Bytes::new(8), ..bulk() }] {
        let transfer = Some(Transfer { bytes: Bytes::new(200), think: None });
        let report = run(&over_a_link(100, vec![quic("bulk", 0, Quic { transfer, ..plan })]));
        let quic = report.source("bulk").and_then(|source| source.quic);
        assert!(quic.is_some_and(|quic| quic.packets < 1000), "{report}");
        assert_eq!(report.source("bulk").map(|source| source.lost.packets), Some(0), "{report}");
    }
}

#[test]
fn a_connection_whose_handshake_is_lost_goes_on() {
    let mut plan = Tcp { return_delay: Duration::from_millis(10), ..Tcp::default() };
    plan = plan.with_congestion(Congestion::Reno).with_window(Bytes::new(4_000_000));
    let late = Source { start: common::millis(100), ..quic("quic", 0, bulk()) };
    let mut scenario = over_a_link(60, vec![tcp("tcp", 0, plan), late]);
    scenario.duration = Duration::from_secs(60);
    scenario.warmup = Duration::from_secs(20);
    let report = run(&scenario);
    let source = report.source("quic").expect("it is declared");
    assert!(source.goodput_bps > 1_000_000, "{report}");
}
