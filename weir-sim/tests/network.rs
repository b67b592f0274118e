//! Networks: what travels over several links arrives when and as it should, and routers err as the
//! models of their drivers and processors say.

use std::io;
use std::path::Path;
use weir_core::units::Duration;
use weir_sim::network::{NetworkReport, TapReport};
use weir_sim::{Report, Scenario, read, run};

fn scenario(text: &str) -> Scenario {
    let file = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let outcome = read::parse(text.as_bytes(), "test.toml", &file);
    assert_eq!(outcome.findings, [], "{text}");
    outcome.plan.expect("nothing was found")
}

/// Runs it; every packet must be accounted for.
fn simulate(text: &str) -> Report {
    let report = run(&scenario(text), &mut |_| {}).expect("the scenario is sound");
    assert!(report.conservation.holds, "{report}");
    report
}

fn network(report: &Report) -> &NetworkReport {
    report.network.as_ref().expect("it was a network")
}

/// Two hosts with a line of `links` between them: rate, delay, and more keys for each.
fn line(links: &[(&str, &str, &str)]) -> String {
    let mut text = String::new();
    for node in 0..=links.len() {
        let router = (1..links.len()).contains(&node);
        text += &format!("[[node]]\nname = \"n{node}\"\nrouter = {router}\n");
    }
    for (place, (rate, delay, more)) in links.iter().enumerate() {
        text += &format!(
            "[[link]]\nname = \"l{place}\"\nends = [\"n{place}\", \"n{}\"]\nrate = \"{rate}\"\n\
             delay = \"{delay}\"\n{more}\n",
            place + 1
        );
    }
    text
}

const FLOW: &str = "[[source]]\nname = \"flow\"\nfrom = \"n0\"\nto = \"n3\"\nkind = \"cbr\"\n";

#[test]
fn the_delay_over_three_links_is_the_sum() {
    let links = line(&[
        ("8 Mbit/s", "3 ms", ""),
        ("4 Mbit/s", "5 ms", "framing = \"ethernet\""),
        ("2 Mbit/s", "7 ms", "framing = \"atm\""),
    ]);
    let report = simulate(&format!(
        "duration = \"1 s\"\n{links}{FLOW}size = \"1014 B\"\ninterval = \"100 ms\"\n"
    ));
    let flow = report.source("flow").expect("it is declared");
    // 1014 B at 1 B/us; 1038 B at 2 us each; 1000 B + 16 B are 22 cells of 53 B at 4 us a byte.
    let wire = 1014 + 2 * 1038 + 4 * 22 * 53;
    let delay = Duration::from_micros(wire + 3000 + 5000 + 7000);
    assert_eq!((flow.delay.max, flow.delay.mean), (delay, delay));
    assert_eq!((flow.sent.packets, flow.received.packets), (10, 10));
}

/// The goodput of one TCP connection with a window of 16 KiB over 10 Mbit/s and this delay there and
/// back, in bit/s.
fn tcp_goodput(delay: &str) -> u64 {
    let links = line(&[
        ("100 Mbit/s", "0 s", ""),
        ("10 Mbit/s", delay, "framing = \"ip\""),
        ("100 Mbit/s", "0 s", ""),
    ]);
    let report = simulate(&format!(
        "duration = \"21 s\"\nwarmup = \"1 s\"\n{links}[[source]]\nname = \"flow\"\nfrom = \"n0\"\n\
         to = \"n3\"\nkind = \"tcp\"\nwindow = \"16 KiB\"\ncongestion = \"none\"\n\
         ack_delay = \"0 s\"\n"
    ));
    report.source("flow").expect("it is declared").goodput_bps
}

#[test]
fn tcp_sends_a_window_per_round_trip_or_what_the_line_carries() {
    for delay in [10u64, 25, 47] {
        let window = 16_384.0 * 8.0 / (2.0 * delay as f64 / 1e3);
        let got = tcp_goodput(&format!("{delay} ms")) as f64;
        // On top of the delay there is what a segment takes on the wires, up to 1.4 ms.
        assert!(got <= window && got >= window * 0.88, "{delay} ms: {got} of {window}");
    }
    let (got, line) = (tcp_goodput("1 ms") as f64, 10e6 * 1460.0 / 1500.0);
    assert!((got / line - 1.0).abs() < 0.005, "{got} of {line}");
}

/// Two floods to a router with `[quadros]`'s set-up, at whose outlet queue 3 has this weight.
fn quadros(weight: u32, dropper: &str, complete: &str) -> Report {
    let queue = |weight| match dropper {
        "longest" => format!("{{ dropper = \"longest\", limit = \"64 KiB\", weight = {weight} }}"),
        _ => format!("{{ dropper = \"{dropper}\", limit = \"50 packets\" }}"),
    };
    simulate(&format!(
        "duration = \"25 s\"\nwarmup = \"5 s\"\n\
         [[node]]\nname = \"one\"\n[[node]]\nname = \"three\"\n[[node]]\nname = \"sink\"\n\
         [[node]]\nname = \"router\"\nrouter = true\n\
         [[link]]\nname = \"in1\"\nends = [\"one\", \"router\"]\nrate = \"1 Gbit/s\"\n\
         [[link]]\nname = \"in3\"\nends = [\"three\", \"router\"]\nrate = \"1 Gbit/s\"\n\
         [[link]]\nname = \"out\"\nends = [\"router\", \"sink\"]\n\
         driver = {{ model = \"fxp\", ring = 128, complete = \"{complete}\" }}\n\
         [link.policy.link]\nrate = \"100 Mbit/s\"\nscheduler = \"altq-wfq\"\n\
         overhead = {{ bytes = 38 }}\ncharge = \"frame\"\n\
         [link.policy.class.q1]\nweight = 100\nqueue = {}\ndefault = true\n\
         [link.policy.class.q3]\nweight = {weight}\nqueue = {}\nmatch = [{{ dport = \"3\" }}]\n\
         [[source]]\nname = \"f1\"\nkind = \"cbr\"\nfrom = \"one\"\nto = \"sink\"\ndport = 1\n\
         size = \"1478 B\"\nrate = \"97488880 bit/s\"\njitter = \"10 %\"\n\
         [[source]]\nname = \"f3\"\nkind = \"cbr\"\nfrom = \"three\"\nto = \"sink\"\ndport = 3\n\
         size = \"1478 B\"\nrate = \"97488880 bit/s\"\njitter = \"10 %\"\n",
        queue(100),
        queue(weight),
    ))
}

/// Packets a second that queue 1 and queue 3 send, and the part of the runs that find both full.
fn check_quadros(report: &Report, sent: [f64; 2], both: (f64, f64)) {
    let rate = |class| report.class(class).expect("a class").sent.packets as f64 / 20.0;
    let got = [rate("q1"), rate("q3")];
    for (got, wanted) in got.iter().zip(sent) {
        assert!((got / wanted - 1.0).abs() < 0.03, "{got} instead of {wanted}\n{report}");
    }
    let share = network(report).outlet("out", "router").expect("an outlet").contended_share();
    assert!((share - both.0).abs() < both.1, "{share} instead of {}", both.0);
}

#[test]
fn a_driver_that_completes_in_chains_takes_the_queues_from_the_scheduler() {
    // [algorithms §13.4] Weight of queue 3, packets a second of both.
    let rows = [
        (30, [4901.0, 3355.0]),
        (70, [4386.0, 3871.0]),
        (100, [4128.0, 4128.0]),
        (500, [3162.0, 5094.0]),
        (1000, [2969.0, 5287.0]),
    ];
    for (weight, sent) in rows {
        check_quadros(&quadros(weight, "longest", "chain"), sent, (0.202, 0.01));
    }
    // With an interrupt for each packet they share the line by their weights, as they should.
    let line = 100e6 / 8.0 / 1516.0;
    for dropper in ["longest", "tail"] {
        let fair = [line / 11.0, line * 10.0 / 11.0];
        check_quadros(&quadros(1000, dropper, "packet"), fair, (0.985, 0.02));
    }
}

fn tap<'a>(report: &'a Report, point: &str) -> &'a TapReport {
    let taps = &network(report).taps;
    taps.iter().find(|tap| tap.point == point).expect("a tap")
}

/// A flood and a few packets through a router with the driver of ATM cards.
fn en(software: &str, more: &str) -> Report {
    simulate(&format!(
        "duration = \"20 s\"\nwarmup = \"2 s\"\n\
         [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[node]]\nname = \"sink\"\n\
         [[node]]\nname = \"router\"\nrouter = true\n\
         [[link]]\nname = \"pvc1\"\nends = [\"a\", \"router\"]\nrate = \"3 Mbit/s\"\n\
         [[link]]\nname = \"pvc2\"\nends = [\"b\", \"router\"]\nrate = \"3 Mbit/s\"\n\
         [[link]]\nname = \"pvc3\"\nends = [\"router\", \"sink\"]\n\
         driver = {{ model = \"en\", software = \"{software}\", {more} }}\n\
         [link.policy.link]\nrate = \"2 Mbit/s\"\nscheduler = \"priq\"\noverhead = \"ip\"\n\
         [link.policy.class.small]\nqueue = {{ limit = \"30 packets\" }}\npriority = 1\n\
         default = true\n\
         [link.policy.class.big]\nqueue = {{ limit = \"30 packets\" }}\npriority = 2\n\
         match = [{{ dport = \"7\" }}]\n\
         [[tap]]\nlink = \"pvc3\"\npoint = \"software\"\n\
         [[source]]\nname = \"flood\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"sink\"\n\
         size = \"1514 B\"\nrate = \"3 Mbit/s\"\n\
         [[source]]\nname = \"few\"\nkind = \"poisson\"\nfrom = \"b\"\nto = \"sink\"\ndport = 7\n\
         size = \"1514 B\"\nrate = \"300 kbit/s\"\n"
    ))
}

/// The most packets of the flood that pass the tap between arrival and departure of one of the few
/// that finds no other of them waiting.
fn passed_by(report: &Report) -> usize {
    let rows = &tap(report, "software").rows;
    let few = tap(report, "software").class("big").expect("a class");
    let passed = rows.iter().enumerate().filter(|(_, row)| row.class == few).map(|(at, row)| {
        let mut before = rows[..at].iter().rev().take_while(|other| other.at > row.arrived);
        if before.clone().any(|other| other.class == few) { 0 } else { before.by_ref().count() }
    });
    passed.max().expect("some packets passed")
}

#[test]
fn no_more_packets_pass_than_the_list_in_software_holds() {
    // [algorithms §13.2] The list takes one more as long as it holds no more than its limit.
    for (software, limit) in [("2 KiB", 2048), ("6 KiB", 6144), ("20 KiB", 20_480)] {
        for drain in ["true", "false"] {
            let report = en(software, &format!("drain = {drain}, start_on_receive = {drain}"));
            let passed = passed_by(&report);
            assert_eq!(passed, limit / 1500 + 1, "{software} {drain}");
        }
    }
}

#[test]
fn one_seed_is_one_run_of_a_network() {
    let one = en("2 KiB", "drain = true");
    assert_eq!(one.to_json(), en("2 KiB", "drain = true").to_json());
    assert_eq!(tap(&one, "software"), tap(&en("2 KiB", "drain = true"), "software"));
}
