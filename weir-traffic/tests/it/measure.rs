//! `measure` finds each packet of one capture in another, whatever a link changed.

use std::net::Ipv4Addr;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::units::Duration;
use weir_host::netlink::Mac;
use weir_policy::Policy;
use weir_sim::replay::InterfaceMap;
use weir_trace::capture::{CaptureLink, CaptureReader, CaptureRecord, CaptureWriter, Interface};
use weir_traffic::frame::FrameMaker;
use weir_traffic::measure::{MeasureOptions, MeasureReport, MeasuredClass, measure};

const POLICY: &str = "
    link = { rate = '1 Mbit/s', scheduler = 'fifo' }
    class.voice = { match = [{ dport = '5004' }] }
    class.rest = { default = true }
";

fn policy() -> Policy {
    let outcome = weir_policy::parse(POLICY, "test.toml");
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings))
}

/// A packet: when in microseconds, its port and its identification.
type Row = (u64, u16, u16);

fn capture(rows: &[Row], class: u8) -> Vec<u8> {
    capture_of(rows, class, CaptureLink::ETHERNET)
}

fn capture_of(rows: &[Row], class: u8, link_type: CaptureLink) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
    let interface = Interface { link_type, name: "eth0".to_owned(), snap_length: 0 };
    writer.describe(&[interface]).expect("memory takes all");
    let mut bytes = Vec::new();
    for &(micros, dport, id) in rows {
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        let addresses = Addresses::V4 { source: address(1), destination: address(2) };
        let ports = Ports { source: 7, destination: dport };
        let mut headers = Headers::of_flow(addresses, Protocol::UDP, ports);
        headers.traffic_class = Some(class);
        FrameMaker::new(&headers, Mac([1; 6]), Mac([class; 6])).write(125, id, &[], &mut bytes);
        let record = CaptureRecord {
            timestamp: 1_000_000_000_000 + micros * 1000,
            interface: 0,
            original_length: bytes.len() as u32,
            bytes: &bytes,
            comment: "",
        };
        writer.write(&record).expect("memory takes all");
    }
    writer.finish().expect("memory takes all")
}

fn compare(before: &[u8], behind: &[u8], options: &MeasureOptions) -> MeasureReport {
    let policy = policy();
    let map = InterfaceMap::new(&policy, &[]).expect("no interface is named");
    let mut before = CaptureReader::new(before).expect("a capture");
    let mut behind = CaptureReader::new(behind).expect("a capture");
    measure(&policy, &map, [&mut before, &mut behind], options)
}

/// Per class: name, in, out, lost, under way, longest delay in us.
fn check(before: &[Row], behind: &[Row], expected: &[(&str, [u64; 5])], unmatched: u64) {
    let options = MeasureOptions::default();
    let report = compare(&capture(before, 0), &capture(behind, 0xb8), &options);
    let found: Vec<_> = report
        .classes
        .iter()
        .map(|class| {
            let max = class.delay_max_us.round() as u64;
            let counts = [class.packets_in, class.packets_out, class.lost, class.under_way, max];
            (class.class.as_str(), counts)
        })
        .collect();
    assert_eq!((found, report.unmatched), (expected.to_vec(), unmatched), "{report:?}");
}

#[test]
fn packets_are_found_whatever_the_link_changed() {
    let (voice, rest) = (5004, 80);
    check(&[(0, voice, 1)], &[(10, voice, 1)], &[("voice", [1, 1, 0, 0, 10])], 0);
    // In another order, and one of them lost.
    check(
        &[(0, voice, 1), (1, rest, 2), (2, voice, 3), (3, rest, 4)],
        &[(10, voice, 1), (11, voice, 3), (500, rest, 4)],
        &[("voice", [2, 2, 0, 0, 10]), ("rest", [2, 1, 1, 0, 497])],
        0,
    );
    // Equal packets match in their order.
    check(
        &[(0, rest, 9), (100, rest, 9), (200, rest, 9)],
        &[(50, rest, 9), (170, rest, 9), (230, rest, 9)],
        &[("rest", [3, 3, 0, 0, 70])],
        0,
    );
    // What came after the last one left is under way, not lost.
    check(
        &[(0, rest, 1), (5, rest, 2), (100, rest, 3)],
        &[(50, rest, 1)],
        &[("rest", [3, 1, 1, 1, 50])],
        0,
    );
    // What was not seen before the link.
    check(&[(0, rest, 1)], &[(5, rest, 1), (6, rest, 2)], &[("rest", [1, 1, 0, 0, 5])], 1);
    check(&[(0, rest, 1)], &[], &[("rest", [1, 0, 1, 0, 0])], 0);
    check(&[], &[(0, rest, 1)], &[], 1);
    // After the longest delay a packet is lost, and its equal is taken for itself.
    let late = 11_000_000;
    check(
        &[(0, rest, 1), (late - 5, rest, 1)],
        &[(late, rest, 1)],
        &[("rest", [2, 1, 1, 0, 5])],
        0,
    );
}

#[test]
fn clocks_that_differ_are_noted_and_corrected() {
    let before = capture(&[(500, 80, 1), (600, 80, 2)], 0);
    let behind = capture(&[(400, 80, 1), (700, 80, 2)], 0);
    let report = compare(&before, &behind, &MeasureOptions::default());
    let class = &report.classes[0];
    assert_eq!((class.negative, class.delay_min_us), (1, -100.0), "{report:?}");
    let warning = &report.warnings()[0];
    assert!(warning.contains("--clock-offset") && !warning.contains("swapped"), "{warning}");
    let swapped = compare(
        &behind[..],
        &capture(&[(300, 80, 1), (600, 80, 2)], 0),
        &MeasureOptions::default(),
    );
    assert!(swapped.warnings()[0].contains("swapped"), "{:?}", swapped.warnings());
    let options = MeasureOptions { offset_ns: -150_000, ..MeasureOptions::default() };
    let report = compare(&before, &behind, &options);
    let class = &report.classes[0];
    assert_eq!((class.negative, class.delay_min_us, class.delay_max_us), (0, 50.0, 250.0));
    assert!(report.warnings().is_empty(), "{:?}", report.warnings());
}

#[test]
fn a_damaged_capture_is_measured_up_to_the_damage() {
    let before = capture(&[(0, 80, 1), (10, 80, 2)], 0);
    let behind = capture(&[(5, 80, 1), (15, 80, 2)], 0);
    let cut = &behind[..behind.len() - 20];
    let report = compare(&before, cut, &MeasureOptions::default());
    assert_eq!(report.classes[0].packets_out, 1, "{report:?}");
    assert_eq!(report.faults.len(), 1, "{report:?}");
    let other = capture(&[(5, 81, 1)], 0);
    let report = compare(&before, &other, &MeasureOptions::default());
    assert!(report.warnings()[0].contains("same traffic"), "{:?}", report.warnings());
}

#[test]
fn options_say_when_a_packet_is_lost_and_what_is_compared() {
    let before = capture(&[(0, 80, 1), (5, 80, 2)], 0);
    let behind = capture(&[(2000, 80, 1), (2100, 80, 2)], 0);
    let delay_max = Duration::from_millis(1);
    let options = MeasureOptions { delay_max, ..MeasureOptions::default() };
    let report = compare(&before, &behind, &options);
    assert_eq!((report.classes[0].lost, report.unmatched), (2, 2), "{report:?}");
    // Not even the identification: equal packets in their order.
    let other = capture(&[(2000, 80, 8), (2100, 80, 9)], 0);
    let options = MeasureOptions { compared: 4, ..MeasureOptions::default() };
    assert_eq!(compare(&before, &other, &options).classes[0].packets_out, 2);
}

#[test]
fn a_capture_without_packets_is_named() {
    let (some, none): (&[Row], &[Row]) = (&[(0, 80, 1), (10, 80, 2)], &[]);
    // before, behind, packets lost and under way, the warning
    let rows = [
        (some, none, [2, 0], "behind the link has no packet, so all before it count as lost"),
        (none, some, [0, 0], "before the link has no packet"),
        (none, none, [0, 0], "neither capture has a packet"),
    ];
    for (before, behind, expected, part) in rows {
        let options = MeasureOptions::default();
        let report = compare(&capture(before, 0), &capture(behind, 0), &options);
        let sum = |count: fn(&MeasuredClass) -> u64| report.classes.iter().map(count).sum::<u64>();
        let counts = [sum(|class| class.lost), sum(|class| class.under_way)];
        assert_eq!(counts, expected, "{report:?}");
        let warnings = report.warnings();
        assert!(report.is_empty() && warnings.len() == 1, "{warnings:?}");
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
}

#[test]
fn a_link_type_that_weir_does_not_read_is_the_cause() {
    let rows = [(0, 80, 1), (10, 80, 2)];
    let strange = capture_of(&rows, 0, CaptureLink(147));
    let report = compare(&strange, &capture(&rows, 0), &MeasureOptions::default());
    let warnings = report.warnings();
    let is_named = warnings[0].contains("before the link has frames of type");
    assert!(is_named && !warnings.iter().any(|text| text.contains("gso")), "{warnings:?}");
}
