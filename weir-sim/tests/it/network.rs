//! Networks: what travels over several links arrives when and as it should, and routers err as the
//! models of their drivers and processors say.

use crate::common;

use common::{line, run, written};
use weir_core::event::DropReason;
use weir_core::units::Duration;
use weir_sim::Report;
use weir_sim::network::{NetworkReport, TapReport};

/// Runs it; every packet must be accounted for.
fn simulate(text: &str) -> Report {
    run(&written(text))
}

fn network(report: &Report) -> &NetworkReport {
    report.network.as_ref().expect("it was a network")
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

#[test]
fn chance_loses_and_delays_packets_behind_the_wire_as_written() {
    let text = |extra: &str, seed: u64| {
        let links = line(&[
            ("100 Mbit/s", "1 ms", ""),
            ("100 Mbit/s", "5 ms", extra),
            ("100 Mbit/s", "1 ms", ""),
        ]);
        let flow = format!("{FLOW}size = \"500 B\"\ninterval = \"500 us\"\n");
        format!("seed = {seed}\nduration = \"10 s\"\n{links}{flow}")
    };
    let keys = "loss = \"10 %\"\njitter = \"4 ms\"";
    let report = simulate(&text(keys, 1));
    let flow = report.source("flow").expect("it is declared");
    // 20 000 packets: the standard deviation is 42.
    let lost = flow.lost.packets;
    assert!((1800..2200).contains(&lost), "{report}");
    assert_eq!(network(&report).outlets[2].lost, lost, "{report}");
    assert_eq!(network(&report).outlets[0].lost, 0, "{report}");
    assert!(format!("{report}").contains(&format!("; {lost} packets were lost behind the wire")));
    // 3 lines of 40 us each, and between 7 ms and 11 ms of delay.
    let [mean, max] = [flow.delay.mean, flow.delay.max].map(Duration::as_nanos);
    assert!((9_020_000..9_220_000).contains(&mean), "{mean}");
    assert!((11_000_000..=11_200_000).contains(&max), "{max}");
    // One seed is one run, another seed another.
    assert_eq!(simulate(&text(keys, 1)).to_json(), report.to_json());
    assert_ne!(simulate(&text(keys, 2)).source("flow").map(|flow| flow.lost.packets), Some(lost));
    let sound = simulate(&text("", 1));
    assert_eq!(sound.source("flow").map(|flow| flow.lost.packets), Some(0));
}

/// Of a datagram that its sender cuts nothing is goodput unless all of it arrives.
#[test]
fn a_datagram_in_pieces_counts_once_all_of_it_is_there() {
    let goodput = |loss: &str| {
        let links = line(&[
            ("1 Gbit/s", "0 s", ""),
            ("1 Gbit/s", "5 ms", &format!("loss = \"{loss}\"")),
            ("1 Gbit/s", "0 s", ""),
        ]);
        let report = simulate(&format!(
            "duration = \"10 s\"\n{links}[[source]]\nname = \"flow\"\nfrom = \"n0\"\nto = \"n3\"\n\
             kind = \"ttcp\"\ntransport = \"udp\"\nbuffers = 5000\nlength = \"8 KiB\"\n\
             rate = \"100 Mbit/s\"\n"
        ));
        report.source("flow").expect("it is declared").goodput_bps as f64 * 10.0 / 8.0 / 8192.0
    };
    assert_eq!(goodput("0 %"), 5000.0);
    for (loss, part) in [("5 %", 0.05), ("50 %", 0.5f64)] {
        let (found, expected) = (goodput(loss), 5000.0 * (1.0 - part).powi(6));
        assert!((found - found.round()).abs() < 0.001, "whole datagrams: {found}");
        assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{loss}: {found}, {expected}");
    }
}

/// A receiver of Linux's tells a sender of Linux's of reordering, which learns to wait.
#[test]
fn tcp_takes_reordering_for_reordering_and_loss_for_loss() {
    let with = |extra: &str| {
        let links = line(&[
            ("1 Gbit/s", "0 s", ""),
            ("20 Mbit/s", "20 ms", extra),
            ("1 Gbit/s", "0 s", ""),
        ]);
        let report = simulate(&format!(
            "duration = \"30 s\"\nwarmup = \"5 s\"\n{links}[[source]]\nname = \"flow\"\n\
             from = \"n0\"\nto = \"n3\"\nkind = \"tcp\"\nprofile = \"linux\"\n\
             congestion = \"reno\"\n"
        ));
        let flow = report.source("flow").expect("it is declared");
        let tcp = flow.tcp.as_ref().expect("it is TCP");
        (flow.goodput_bps as f64, tcp.retransmitted, flow.lost.packets)
    };
    let (full, _, _) = with("queue = \"200 packets\"");
    let (jittered, again, _) = with("queue = \"200 packets\"\njitter = \"1 ms\"");
    assert!(jittered > 0.9 * full && again < 300, "{jittered} of {full}, {again} again");
    let (lossy, again, lost) = with("queue = \"200 packets\"\nloss = \"1 %\"");
    // [mathis97] 1448 B in 40 ms and p = 1 %, the ways back lose too, which matters little.
    let formula = 1.22 * 1448.0 * 8.0 / 0.040 / 0.1;
    assert!((0.7..1.3).contains(&(lossy / formula)), "{lossy}, {formula}");
    assert!(again >= lost && again < lost + lost / 5 + 20, "{again} again of {lost} lost");
}

/// The goodput of one TCP connection with a window of 16 KiB over 10 Mbit/s and this delay there
/// and back, in bit/s.
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

/// Returns the rate of a flood of 3 Mbit/s in one of two classes of ALTQ's CBQ on 2 Mbit/s, in
/// kbit/s, behind the driver of ATM cards with an interrupt's worth of work a packet.
fn risso(class: &str, hz: u32, borrow: bool, buffers: (&str, &str)) -> f64 {
    let port = if class == "big" { 1 } else { 2 };
    let report = simulate(&format!(
        "duration = \"40 s\"\nwarmup = \"10 s\"\n\
         [[node]]\nname = \"a\"\n[[node]]\nname = \"sink\"\n[[node]]\nname = \"r\"\nrouter = true\n\
         [[link]]\nname = \"pvc1\"\nends = [\"a\", \"r\"]\nrate = \"3 Mbit/s\"\nframing = \"ip\"\n\
         [[link]]\nname = \"pvc3\"\nends = [\"r\", \"sink\"]\n\
         [link.driver]\nmodel = \"en\"\ndrain = false\nstart_on_receive = false\n\
         software = \"{}\"\nhardware = \"{}\"\n\
         [link.policy.link]\nrate = \"2 Mbit/s\"\nscheduler = \"cbq-altq\"\noverhead = \"ip\"\n\
         cbq-altq = {{ preset = \"altq1r\", hz = {hz}, watchdog = false, \
         one_packet_a_call = true }}\n\
         [link.policy.class.big]\nrate = \"1.5 Mbit/s\"\nborrow = {borrow}\ndefault = true\n\
         queue = {{ dropper = \"head\", limit = \"30 packets\" }}\n\
         [link.policy.class.small]\nrate = \"0.5 Mbit/s\"\nborrow = {borrow}\n\
         queue = {{ dropper = \"head\", limit = \"30 packets\" }}\nmatch = [{{ dport = \"2\" }}]\n\
         [[source]]\nname = \"flood\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"sink\"\n\
         size = \"1514 B\"\ninterval = \"4 ms\"\nstart = \"996 ms\"\ndport = {port}\n",
        buffers.0, buffers.1
    ));
    report.class(class).expect("a class").sent.bits_per_second as f64 / 1e3
}

#[test]
fn altqs_cbq_behind_a_list_in_software_gives_the_models_figures() {
    let (standard, reduced) = (("20 KiB", "32 KiB"), ("2 KiB", "16 KiB"));
    // [algorithms §3.14] The suspension ends with a tick, which costs the small class a little; a
    // class that borrows reaches the whole line with small buffers, whatever the tick.
    let rows = [
        ("big", 100, false, standard, 1500.0),
        ("small", 100, false, standard, 493.0),
        ("big", 500, false, standard, 1500.0),
        ("small", 500, false, standard, 496.0),
        ("big", 100, true, standard, 2000.0),
        ("small", 100, true, standard, 1745.0),
        ("small", 500, true, standard, 1928.0),
        ("big", 100, true, reduced, 2000.0),
        ("small", 100, true, reduced, 2000.0),
        ("small", 500, true, reduced, 2000.0),
    ];
    for (class, hz, borrow, buffers, wanted) in rows {
        let got = risso(class, hz, borrow, buffers);
        assert!((got / wanted - 1.0).abs() < 0.005, "{class} {hz} {borrow}: {got} of {wanted}");
    }
}

/// Returns the packets a second that a router forwards of those offered to it.
fn forwarded(offered: u64, cpu: &str) -> f64 {
    let report = simulate(&format!(
        "duration = \"3 s\"\nwarmup = \"1 s\"\n\
         [[node]]\nname = \"a\"\n[[node]]\nname = \"sink\"\n\
         [[node]]\nname = \"r\"\nrouter = true\ncpu = {{ {cpu} }}\n\
         [[link]]\nname = \"in\"\nends = [\"a\", \"r\"]\nrate = \"10 Gbit/s\"\n\
         [[link]]\nname = \"out\"\nends = [\"r\", \"sink\"]\nrate = \"10 Gbit/s\"\n\
         [[source]]\nname = \"flood\"\nkind = \"cbr\"\njitter = \"50 %\"\nfrom = \"a\"\nto = \"sink\"\n\
         size = \"100 B\"\nrate = \"{} bit/s\"\n",
        offered * 800
    ));
    report.source("flood").expect("it is declared").received.packets as f64 / 2.0
}

#[test]
fn a_router_forwards_less_the_more_interrupts_it_has() {
    // 100 B of frame are 86 B of IP, 3 cells: 30 + 3 * 2 + 86 * 0.05 + 1 class at 0.7 are 41 us.
    let cpu = "receive = \"10 us\", base = \"30 us\", per_cell = \"2 us\", per_byte = \"50 ns\", \
               per_class = \"700 ns\"";
    let (receive, forward) = (10e-6, 41e-6);
    for offered in [10_000u64, 15_000, 25_000, 40_000, 60_000, 80_000, 95_000] {
        let rate = offered as f64;
        // [algorithms §13.5] Up to saturation all, beyond it what interrupts leave.
        let wanted = rate.min((1.0 - rate * receive) / forward);
        let got = forwarded(offered, cpu);
        assert!((got - wanted).abs() < 0.01 * wanted + 50.0, "{offered}: {got} of {wanted}");
    }
    assert!(forwarded(120_000, cpu) < 10.0, "interrupts leave nothing");
}

/// Datagrams of 8 KiB through a link of 1500 bytes with a rule for their port; `also` is another
/// source that the link shares.
fn fragmented(fragments: &str, version: &str, mtus: (u32, u32)) -> Report {
    let addresses = match version {
        "6" => "src = \"2001:db8::1\"\ndst = \"2001:db8::2\"\n",
        _ => "",
    };
    simulate(&format!(
        "duration = \"10 s\"\n\
         [[node]]\nname = \"a\"\n[[node]]\nname = \"sink\"\n[[node]]\nname = \"r\"\nrouter = true\n\
         [[link]]\nname = \"in\"\nends = [\"a\", \"r\"]\nrate = \"50 Mbit/s\"\nmtu = \"{} B\"\n\
         [[link]]\nname = \"out\"\nends = [\"r\", \"sink\"]\nmtu = \"{} B\"\n\
         [link.policy.link]\nrate = \"50 Mbit/s\"\nscheduler = \"drr\"\n{fragments}\n\
         [link.policy.class.x]\nmatch = [{{ dport = \"7\" }}]\n\
         queue = {{ limit = \"100 packets\" }}\n[link.policy.class.rest]\ndefault = true\n\
         [[source]]\nname = \"flow\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"sink\"\n\
         payload = \"8192 B\"\ninterval = \"10 ms\"\ndport = 7\n{addresses}",
        mtus.0, mtus.1
    ))
}

#[test]
fn datagrams_too_long_for_a_link_go_in_pieces_that_the_classifier_sees() {
    // 8192 + 8 bytes of payload are 5 pieces of 1480 and one of 800.
    let broken = "fragments = \"altq-broken\"";
    for (fragments, version, mtus, in_x, pieces) in [
        (broken, "4", (9180, 1500), 1, 6),
        (broken, "4", (1500, 1500), 1, 6),
        ("fragments = \"altq-fixed\"", "4", (9180, 1500), 6, 6),
        ("", "4", (9180, 1500), 6, 6),
        // Cut twice: pieces of 4072 (509 times 8), 4072 and 56 bytes, which become 3, 3 and 1.
        ("", "4", (4096, 1500), 7, 7),
        // The sender cuts for the whole way: 8200 bytes in pieces of 1448.
        ("", "6", (9180, 1500), 6, 6),
        ("", "4", (9180, 9180), 1, 1),
    ] {
        let report = fragmented(fragments, version, mtus);
        let sent = |class| report.class(class).expect("a class").sent.packets;
        let flow = report.source("flow").expect("it is declared");
        let datagrams = flow.sent.packets;
        assert_eq!((datagrams, flow.received.packets), (1000, 1000), "{fragments} {mtus:?}");
        assert_eq!(sent("x"), in_x * datagrams, "{fragments} {mtus:?}");
        assert_eq!(sent("x") + sent("rest"), pieces * datagrams, "{fragments} {mtus:?}");
        assert_eq!(flow.goodput_bps, 8192 * 8 * 100);
    }
}

#[test]
fn tcp_over_a_small_link_arrives_in_pieces() {
    let links = line(&[
        ("10 Mbit/s", "1 ms", "mtu = \"9180 B\""),
        ("2 Mbit/s", "1 ms", "mtu = \"1500 B\""),
        ("10 Mbit/s", "1 ms", "mtu = \"9180 B\""),
    ]);
    let flow = FLOW.replace("cbr", "tcp");
    let rows = [("", 9180), ("mss = \"bsd\"\n", 8232), ("mtu = \"1500 B\"\nmss = \"bsd\"\n", 1500)];
    for (keys, length) in rows {
        let text = format!(
            "duration = \"5 s\"\n{links}{flow}window = \"32 KiB\"\nbytes = \"200 KB\"\n{keys}"
        );
        let report = simulate(&text);
        let flow = report.source("flow").expect("it is declared");
        assert_eq!(flow.goodput_bps, 200_000 * 8 / 5, "{keys}");
        assert_eq!(flow.tcp.expect("it is TCP").retransmitted, 0);
        let pieces = network(&report).outlet("l1", "n1").expect("an outlet");
        let datagrams = 200_000_u64.div_ceil(length - 40);
        let sent = pieces.class("all").expect("a class").sent.packets;
        // Opening and closing are a few packets more.
        let wanted = datagrams * (length - 20).div_ceil(1480);
        assert!(sent.abs_diff(wanted) <= wanted / 10 + 5, "{keys}: {sent}, not {wanted}");
    }
}

#[test]
fn a_change_names_the_link_that_it_changes() {
    let policy = |table: &str, rate: &str| {
        format!(
            "[{table}.link]\nrate = \"{rate}\"\nscheduler = \"fifo\"\n\
             [{table}.class.all]\ndefault = true\n"
        )
    };
    for driver in ["line", "en", "fxp"] {
        let links = line(&[
            ("10 Mbit/s", "1 ms", ""),
            ("10 Mbit/s", "1 ms", ""),
            ("10 Mbit/s", "1 ms", ""),
        ]);
        let links = links.replace(
            "name = \"l1\"\nends = [\"n1\", \"n2\"]\nrate = \"10 Mbit/s\"\n",
            &format!(
                "name = \"l1\"\nends = [\"n1\", \"n2\"]\ndriver = {{ model = \"{driver}\" }}\n"
            ),
        );
        // The policy's tables come last in the link's.
        let links = links.replace(
            "[[link]]\nname = \"l2\"",
            &format!("{}[[link]]\nname = \"l2\"", policy("link.policy", "10 Mbit/s")),
        );
        let changes = format!(
            "[[change]]\nat = \"5 s\"\nlink = \"l1\"\n{}",
            policy("change.policy", "2 Mbit/s")
        );
        let text = format!(
            "duration = \"10 s\"\n{links}{changes}{FLOW}size = \"1000 B\"\nrate = \"4 Mbit/s\"\n"
        );
        let report = simulate(&text);
        let flow = report.source("flow").expect("it is declared");
        let bits = flow.received.bytes as f64 * 8.0;
        // Of 4 Mbit/s for 5 s, then 2 Mbit/s for 5 s, and what is under way at the end.
        assert!((bits / 30e6 - 1.0).abs() < 0.03, "{driver}: {bits}");
        assert_eq!(report.changes.len(), 1);
    }
}

#[test]
fn routes_have_the_fewest_links_and_only_routers_forward() {
    let node = |name: &str, router| format!("[[node]]\nname = \"{name}\"\nrouter = {router}\n");
    let link = |name: &str, one: &str, other: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nends = [\"{one}\", \"{other}\"]\nrate = \"1 Mbit/s\"\n"
        )
    };
    // n0 to n3: over a host in two links, over x or y in three; x was declared first.
    let nodes =
        [("n0", false), ("n3", false), ("host", false), ("r", true), ("y", true), ("x", true)];
    let nodes: String = nodes.iter().map(|&(name, router)| node(name, router)).collect();
    let links = [
        ("a", "n0", "host"),
        ("b", "host", "n3"),
        ("c", "n0", "r"),
        ("d", "r", "x"),
        ("e", "r", "y"),
        ("f", "x", "n3"),
        ("g", "y", "n3"),
    ];
    let links: String = links.iter().map(|&(name, one, other)| link(name, one, other)).collect();
    let report = simulate(&format!(
        "duration = \"1 s\"\n{nodes}{links}{FLOW}size = \"100 B\"\ninterval = \"100 ms\"\n"
    ));
    let used = |outlet: &&weir_sim::network::OutletReport| outlet.classes[0].sent.packets > 0;
    let used = network(&report).outlets.iter().filter(used).map(|outlet| outlet.link.as_str());
    assert_eq!(used.collect::<Vec<_>>(), ["c", "d", "f"]);
}

/// A download of 20 Mbit/s whose acknowledgements go up a line of 128 kbit/s.
fn acknowledged(filter: &str) -> (u64, u64) {
    let report = simulate(&format!(
        "duration = \"10 s\"\nwarmup = \"2 s\"\n\
         [[node]]\nname = \"host\"\n[[node]]\nname = \"server\"\n\
         [[source]]\nname = \"download\"\nkind = \"tcp\"\nprofile = \"linux\"\nfrom = \"server\"\n\
         to = \"host\"\n\
         [[link]]\nname = \"line\"\nends = [\"host\", \"server\"]\ndelay = \"5 ms\"\n\
         back = {{ rate = \"20 Mbit/s\", delay = \"5 ms\", queue = \"100 packets\" }}\n\
         [link.policy.link]\nrate = \"128 kbit/s\"\nscheduler = \"fifo\"\n\
         [link.policy.class.all]\ndefault = true\n\
         queue = {{ dropper = \"cake\", ack_filter = \"{filter}\" }}\n"
    ));
    let outlet = network(&report).outlet("line", "host").expect("it has this end");
    let redundant = outlet.classes[0].dropped.by_reason[DropReason::Redundant as usize].packets;
    (report.source("download").expect("it is there").goodput_bps, redundant)
}

#[test]
fn a_download_gets_more_where_acknowledgements_are_filtered() {
    let (without, none) = acknowledged("none");
    let (with, dropped) = acknowledged("spare");
    let (most, more) = acknowledged("aggressive");
    assert_eq!(none, 0);
    assert!(dropped > 500 && more > 500, "{dropped}, {more}");
    assert!(with > without && most > without, "{without}, {with}, {most}");
}
