//! What a run tells beside its report: bins, each packet's fate, and what memory it needs.

mod common;

use common::{cbr, run, scenario, tcp, udp};
use weir_core::event::DropReason;
use weir_core::packet::Headers;
use weir_core::units::{Bytes, Duration};
use weir_sim::memory::Need;
use weir_sim::scenario::Tcp;
use weir_sim::{Fate, Report, RunError, Scenario, Watch, frame, run_watched};

const LEAVES: [(&str, u64); 2] = [("a", 1000), ("b", 3000)];

/// Two floods of 8 Mbit/s each onto 8 Mbit/s.
fn flooded() -> Scenario {
    let mut scenario = scenario("drr", 8_000_000, &LEAVES, 20);
    scenario.sources =
        vec![udp("one", 0, cbr(1000, 8_000_000)), udp("two", 1, cbr(1000, 8_000_000))];
    scenario
}

fn binned(scenario: &Scenario, width: Duration) -> Report {
    let watch = Watch { bins: Some(width), ..Watch::default() };
    run_watched(scenario, watch, &mut |_| {}).expect("it is sound")
}

#[test]
fn bins_sum_to_what_each_class_sent() {
    let scenario = flooded();
    let report = binned(&scenario, Duration::from_millis(300));
    let bins = report.bins.clone().expect("they were asked for");
    for class in &bins.classes {
        // 10 s in bins of 0.3 s: the last is cut.
        assert_eq!(class.bytes.len(), 34);
        let sent = report.class(&class.name).expect("it has a row").sent;
        assert_eq!(class.bytes.iter().sum::<u64>(), sent.bytes);
        // A quarter and three quarters of 300 kB, to a quantum each.
        let share = if class.name == "a" { 75_000 } else { 225_000 };
        assert!(class.bytes[1..33].iter().all(|bytes| bytes.abs_diff(share) <= 4000), "{class:?}");
    }
    let csv = bins.to_csv();
    assert_eq!(csv.lines().count(), 1 + 2 * 34);
    assert!(csv.starts_with("start_s,class,bytes\n0,a,") && csv.contains("\n9.9,b,"), "{csv}");
    assert_eq!(Report { bins: None, ..report }, run(&scenario), "watching changes nothing");
}

#[test]
fn bins_that_are_too_many_or_have_no_width_are_refused() {
    for width in [Duration::ZERO, Duration::from_nanos(100)] {
        let scenario = flooded();
        let watch = Watch { bins: Some(width), ..Watch::default() };
        let error = run_watched(&scenario, watch, &mut |_| {});
        assert_eq!(error, Err(RunError::Bins(width)));
    }
}

#[test]
fn every_packet_is_told_once() {
    let mut scenario = flooded();
    scenario.sources.push(tcp("bulk", 0, Tcp::default()));
    let (mut sent, mut dropped, mut whole) = ([0u64; 2], 0u64, 0u64);
    let mut bytes = Vec::new();
    let mut tell = |fate: &Fate<'_>| {
        assert!(fate.at >= fate.arrived);
        match fate.dropped {
            None => sent[usize::from(fate.class == "b")] += 1,
            Some(reason) => {
                assert_eq!(reason, DropReason::Full);
                dropped += 1;
            }
        }
        frame::write(&fate.source.headers, fate.length, fate.packet, fate.marked, &mut bytes);
        let headers = Headers::parse_ethernet(&bytes);
        assert_eq!(headers.ports, fate.source.headers.ports);
        // TCP's packets are there to their last byte.
        whole += u64::from(fate.packet.is_some());
        assert_eq!(fate.packet.is_some(), fate.source.name == "bulk");
        assert!(fate.packet.is_none() || bytes.len() == fate.length as usize);
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    let report = run_watched(&scenario, watch, &mut |_| {}).expect("it is sound");
    let of = |name: &str| report.class(name).expect("it has a row").sent.packets;
    assert_eq!(sent, [of("a"), of("b")]);
    assert_eq!(dropped, report.conservation.dropped);
    assert!(whole > 0);
    assert_eq!(report, run(&scenario), "watching changes nothing");
}

/// The largest part of what the scenario needs, and how much it is.
fn check(scenario: &Scenario, part: &str, bytes: std::ops::Range<u64>) {
    let need = Need::of(scenario, None);
    let (name, largest) = need.parts[0];
    assert_eq!(name, part, "{need}");
    assert!(bytes.contains(&largest) && need.total() >= largest, "{need}");
}

#[test]
fn what_a_run_needs_is_known_before_it_starts() {
    check(&flooded(), "histograms", 50_000..100_000);
    let mut many = flooded();
    let window = Bytes::new(256 << 20);
    many.sources = (0..100)
        .map(|number| tcp(&format!("t{number}"), 0, Tcp { window, ..Tcp::default() }))
        .collect();
    check(&many, "TCP windows", 100 << 30..150 << 30);
    let deep = scenario("fifo", 8_000_000, &[("a", 0)], 60_000);
    check(&deep, "packets that wait", 60_000 * 160..60_000 * 160 + 1);
}
