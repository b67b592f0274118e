//! The reports of a run beside its main one: bins, each packet's fate, and the memory it needs.

use crate::common;

use common::{cbr, line, millis, run, scenario, tcp, udp, written};
use std::collections::BTreeMap;
use weir_core::event::DropReason;
use weir_core::packet::Headers;
use weir_core::units::{Bytes, Duration};
use weir_sim::memory::{Beside, Need};
use weir_sim::network::plan::OutletId;
use weir_sim::scenario::Tcp;
use weir_sim::{Content, Fate, Report, RunError, Scenario, Watch, frame, run_watched};

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
    let bins = report.bins.clone().expect("they were requested");
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
fn every_packet_is_reported_once() {
    let mut scenario = flooded();
    scenario.sources.push(tcp("bulk", 0, Tcp::default()));
    let (mut sent, mut dropped, mut segments) = ([0u64; 2], 0u64, 0u64);
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
        frame::write(&fate.source.headers, fate.length, fate.content, fate.marked, &mut bytes);
        let headers = Headers::parse_ethernet(&bytes);
        assert_eq!(headers.ports, fate.source.headers.ports);
        // TCP's packets are there to the end of their headers.
        let segment = match fate.content {
            Content::Segment(segment) => Some(segment),
            _ => None,
        };
        segments += u64::from(segment.is_some());
        assert_eq!(segment.is_some(), fate.source.name == "bulk");
        let data = segment.map_or(fate.length - 42, |segment| segment.length);
        assert_eq!(bytes.len() as u32 + data, fate.length);
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    let report = run_watched(&scenario, watch, &mut |_| {}).expect("it is sound");
    let of = |name: &str| report.class(name).expect("it has a row").sent.packets;
    assert_eq!(sent, [of("a"), of("b")]);
    assert_eq!(dropped, report.conservation.dropped);
    assert!(segments > 0);
    assert_eq!(report, run(&scenario), "watching changes nothing");
}

/// The largest part of what the scenario needs, and how much it is.
fn check(scenario: &Scenario, part: &str, bytes: std::ops::Range<u64>) {
    let need = Need::of(scenario, Beside::default());
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
        .map(|number| tcp(&format!("t{number}"), 0, Tcp::default().with_window(window)))
        .collect();
    check(&many, "windows", 8 << 30..10 << 30);
    let deep = scenario("fifo", 8_000_000, &[("a", 0)], 60_000);
    check(&deep, "packets that wait", 60_000 * 160..60_000 * 160 + 1);
}

/// Two links, the second narrow and under DRR, half a second in with another rate; a TCP and a
/// flood of datagrams that the second link cuts.
fn two_links() -> Scenario {
    let policy = |rate: u32, table: &str| {
        format!(
            "[{table}.link]\nrate = \"{rate} Mbit/s\"\nscheduler = \"drr\"\n\
             [{table}.class.web]\nmatch = [{{ proto = \"tcp\" }}]\n\
             [{table}.class.rest]\ndefault = true\n"
        )
    };
    let links = line(&[("10 Mbit/s", "1 ms", "")]).replace("router = false", "router = true");
    let change = policy(6, "change.policy");
    written(&format!(
        "duration = \"2 s\"\n{links}[[node]]\nname = \"end\"\n\
         [[link]]\nname = \"narrow\"\nends = [\"n1\", \"end\"]\nmtu = \"576 B\"\n{}\
         [[change]]\nat = \"500 ms\"\nlink = \"narrow\"\n{change}\
         [[source]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"n0\"\nto = \"end\"\ndport = 80\n\
         [[source]]\nname = \"flood\"\nkind = \"cbr\"\nfrom = \"n0\"\nto = \"end\"\n\
         size = \"1400 B\"\nrate = \"5 Mbit/s\"\n",
        policy(4, "link.policy")
    ))
}

#[test]
fn each_outlet_of_a_network_has_bins() {
    let scenario = two_links();
    let report = binned(&scenario, Duration::from_millis(100));
    let network = report.network.clone().expect("it is one");
    for outlet in &network.outlets {
        let bins = outlet.bins.as_ref().expect("they were requested");
        assert_eq!(bins.classes.len(), outlet.classes.len());
        for (class, own) in bins.classes.iter().zip(&outlet.classes) {
            let sent = class.bytes.iter().sum::<u64>();
            assert_eq!((&class.name, sent), (&own.name, own.sent.bytes), "{}", outlet.link);
        }
    }
    // The line is full but for its first moments, before and after it becomes wider.
    let narrow = network.outlet("narrow", "n1").and_then(|outlet| outlet.bins.clone());
    let narrow = narrow.expect("it has bins");
    assert_eq!(report.bins.as_ref(), Some(&narrow), "it is the main one");
    let sum = |bin: usize| narrow.classes.iter().map(|class| class.bytes[bin]).sum::<u64>();
    assert!((sum(3).abs_diff(50_000), sum(15).abs_diff(75_000)) < (600, 600), "{narrow:?}");
    let csv = report.bins_csv().expect("there are bins");
    assert_eq!(csv.lines().count(), 1 + 20 * (1 + 1 + 2 + 1));
    assert!(csv.starts_with("start_s,link,from,class,bytes\n0,l0,n0,all,"), "{csv}");
    assert!(csv.contains("\n1.9,narrow,n1,rest,"), "{csv}");
    let mut unwatched = Report { bins: None, ..report };
    for outlet in &mut unwatched.network.as_mut().expect("it is one").outlets {
        outlet.bins = None;
    }
    assert_eq!(unwatched, run(&scenario), "watching changes nothing");
}

#[test]
fn every_packet_is_reported_at_each_outlet_of_a_network() {
    let scenario = two_links();
    let mut counts: BTreeMap<(OutletId, String, bool), u64> = BTreeMap::new();
    let (mut last, mut back, mut pieces) = (millis(0), 0u64, 0u64);
    let mut bytes = Vec::new();
    let mut tell = |fate: &Fate<'_>| {
        assert!(fate.at >= fate.arrived && fate.at >= last, "in the order of time");
        last = fate.at;
        let class = (fate.outlet, fate.class.to_owned(), fate.dropped.is_some());
        *counts.entry(class).or_default() += 1;
        frame::write(fate.headers, fate.length, fate.content, fate.marked, &mut bytes);
        let headers = Headers::parse_ethernet(&bytes);
        assert_eq!(headers.addresses, fate.headers.addresses);
        assert!(bytes.len() <= fate.length as usize);
        // Acknowledgements have the headers of their own way.
        let own = headers.addresses == fate.source.headers.addresses;
        back += u64::from(!own);
        pieces += u64::from(fate.headers.fragment != weir_core::packet::Fragment::None);
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    let report = run_watched(&scenario, watch, &mut |_| {}).expect("it is sound");
    let network = report.network.as_ref().expect("it is one");
    for (place, outlet) in (0..).zip(&network.outlets) {
        for class in &outlet.classes {
            let told = |dropped| {
                counts.get(&(OutletId(place), class.name.clone(), dropped)).copied().unwrap_or(0)
            };
            let counted = (class.sent.packets, class.dropped.total.packets);
            assert_eq!((told(false), told(true)), counted, "{} {}", outlet.link, class.name);
        }
    }
    assert!(back > 100 && pieces > 100, "{back} {pieces}");
    assert_eq!(report, run(&scenario), "watching changes nothing");
}

#[test]
fn what_a_network_needs_is_known_before_it_starts() {
    let flow = "[[source]]\nname = \"flow\"\nkind = \"cbr\"\nfrom = \"n0\"\nto = \"n1\"\n\
        size = \"1000 B\"\nrate = \"8 Gbit/s\"\n";
    let network = |links: &[(&str, &str, &str)], more: &str| {
        written(&format!("duration = \"1 s\"\n{}{flow}{more}", line(links)))
    };
    let tap = "[[tap]]\nlink = \"l0\"\nrows = 4194304\n";
    check(&network(&[("1 Mbit/s", "0 s", "")], tap), "taps", 1 << 27..1 << 29);
    // A million packets a second: as many as are sent within the second that is simulated.
    let long = network(&[("10 Gbit/s", "60 s", "")], "");
    check(&long, "packets under way", 1_000_000 * 150..2_200_000 * 170);
    let deep = [("1 Mbit/s", "0 s", "queue = \"1000000 packets\"")];
    check(&network(&deep, ""), "packets that wait", 160_000_000..340_000_000);
    // The packets that are really on the wires are within the estimate.
    let short = network(&[("10 Gbit/s", "100 ms", "")], "");
    let need = Need::of(&short, Beside::default());
    let estimated = need.parts.iter().find(|part| part.0 == "packets under way").expect("a part").1;
    let held = run(&short).conservation.backlog;
    assert!((held * 160..held * 160 * 3).contains(&estimated), "{held}: {need}");
}
