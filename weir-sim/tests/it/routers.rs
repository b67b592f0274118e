//! Routers of a network to the instant: what a driver takes when, what a processor costs, what taps
//! record, and what marks, pieces and names of links mean at the next link.

use crate::common;

use common::{run, written};
use weir_core::units::Duration;
use weir_sim::Report;
use weir_sim::network::{NetworkReport, TapReport};

fn simulate(text: &str) -> Report {
    run(&written(text))
}

fn network(report: &Report) -> &NetworkReport {
    report.network.as_ref().expect("it was a network")
}

fn tap<'a>(report: &'a Report, point: &str) -> &'a TapReport {
    let taps = &network(report).taps;
    taps.iter().find(|tap| tap.point == point).expect("a tap")
}

/// Hosts `a` and `b`, a router `r` and hosts `sink` and `other`, with fast links but for `out`, from
/// the router to `sink`; `out` has these keys and tables.
fn around(node: &str, out: &str) -> String {
    let host = |name: &str| format!("[[node]]\nname = \"{name}\"\n");
    let link = |name: &str, ends: [&str; 2]| {
        format!("[[link]]\nname = \"{name}\"\nends = {ends:?}\nrate = \"10 Gbit/s\"\n")
    };
    let hosts = ["a", "b", "sink", "other"].map(host).concat();
    let links = [
        link("in1", ["a", "r"]),
        link("in2", ["b", "r"]),
        link("aside", ["r", "other"]),
        format!("[[link]]\nname = \"out\"\nends = [\"r\", \"sink\"]\n{out}\n"),
    ];
    format!("{hosts}[[node]]\nname = \"r\"\nrouter = true\n{node}\n{}", links.concat())
}

/// A source of `a` for `sink`: size, interval, first and last instant.
fn source(name: &str, size: u32, interval: &str, from: &str, to: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"sink\"\n\
         size = \"{size} B\"\ninterval = \"{interval}\"\nstart = \"{from}\"\nstop = \"{to}\"\n"
    )
}

fn taps(points: &[&str]) -> String {
    let tap = |point: &&str| format!("[[tap]]\nlink = \"out\"\npoint = \"{point}\"\n");
    points.iter().map(tap).collect()
}

/// The instants at which packets passed a tap, in tenths of a millisecond, rounded down.
fn instants(report: &Report, point: &str) -> Vec<u64> {
    tap(report, point).rows.iter().map(|row| row.at.as_nanos() / 100_000).collect()
}

const POINTS: [&str; 3] = ["discipline", "software", "wire"];

#[test]
fn a_driver_takes_packets_when_it_has_room() {
    // Packets of 1 000 B each millisecond, which take 8 ms each on the wire. The list in software
    // takes one more while it holds at most 2 000 B, the card holds 1 500 B: three wait in the list.
    let en = "\"en\", software = \"2000 B\", hardware = \"1500 B\"";
    let card = "\"en\", software = \"2000 B\", hardware = \"2000 B\"";
    let rows: [(&str, [&[u64]; 3]); 5] = [
        ("\"line\"", [&[0, 80, 160, 240], &[0, 80, 160, 240], &[80, 160, 240, 320]]),
        (en, [&[0, 10, 20, 30, 80, 160], &[0, 80, 160, 240], &[80, 160, 240, 320]]),
        // A card with room for two.
        (card, [&[0, 10, 20, 30, 40, 80], &[0, 10, 80, 160], &[80, 160, 240, 320]]),
        // A ring of two: with a chain both places become free together.
        (
            "\"fxp\", ring = 2, complete = \"chain\"",
            [&[0, 10, 160, 160, 320], &[0, 10, 160, 160], &[80, 160, 240, 320]],
        ),
        (
            "\"fxp\", ring = 2, complete = \"packet\"",
            [&[0, 10, 80, 160, 240], &[0, 10, 80, 160], &[80, 160, 240, 320]],
        ),
    ];
    for (driver, wanted) in rows {
        let out = format!("rate = \"1 Mbit/s\"\ndriver = {{ model = {driver} }}");
        let text = format!(
            "duration = \"1 s\"\n{}{}{}",
            around("", &out),
            taps(&POINTS),
            source("flow", 1000, "1 ms", "0 s", "1 s")
        );
        let report = simulate(&text);
        for (point, wanted) in POINTS.iter().zip(wanted) {
            let found = instants(&report, point);
            assert_eq!(&found[..wanted.len()], wanted, "{driver}, {point}");
        }
    }
}

#[test]
fn arrivals_completions_and_packets_received_start_the_driver_of_atm_cards() {
    // One packet of 1 000 B is on the wire for 8 ms, and eight of 100 B come each millisecond: one
    // fits the card, three the list. At 8.1 ms the router receives a packet for another link.
    let other = "[[source]]\nname = \"other\"\nkind = \"cbr\"\nfrom = \"b\"\nto = \"other\"\n\
                 size = \"100 B\"\ninterval = \"1 s\"\nstart = \"8100 us\"\n";
    let rows: [(&str, &[u64]); 4] = [
        // A start takes one packet: the others follow with the next packets sent.
        ("drain = false, start_on_receive = false", &[80, 88, 96, 104]),
        ("drain = false, start_on_receive = true", &[80, 81, 88, 96]),
        ("drain = true, start_on_receive = false", &[80, 80, 80, 80]),
        ("drain = true, start_on_receive = true", &[80, 80, 80, 80]),
    ];
    for (keys, late) in rows {
        let driver = format!("model = \"en\", software = \"250 B\", hardware = \"1100 B\", {keys}");
        let out = format!("rate = \"1 Mbit/s\"\ndriver = {{ {driver} }}");
        let text = format!(
            "duration = \"1 s\"\n{}{}{}{}{other}",
            around("", &out),
            taps(&["discipline"]),
            source("big", 1000, "1 s", "0 s", "1 ms"),
            source("small", 100, "1 ms", "500 us", "8400 us"),
        );
        let found = instants(&simulate(&text), "discipline");
        assert_eq!(found, [&[0, 5, 15, 25, 35], late].concat(), "{keys}");
    }
}

/// The instants at which a bucket of one packet, 20 ms at its rate, lets packets pass that come each
/// millisecond from 0.3 ms until `last`.
fn check_waits(keys: &str, last: &str, wanted: &[u64]) {
    let (tick, queue) = keys.split_once('|').unwrap_or((keys, ""));
    let policy = "[link.policy.link]\nrate = \"10 Mbit/s\"\nscheduler = \"tbf\"\n\
                  [link.policy.link.tbf]\nrate = \"400 kbit/s\"\nburst = \"1000 B\"\n\
                  [link.policy.class.all]\ndefault = true\n";
    let text = format!(
        "duration = \"1 s\"\n{}{}{}",
        around("", &format!("{tick}\n{policy}{queue}\n")),
        taps(&["discipline"]),
        source("flow", 1000, "1 ms", "300 us", last)
    );
    let found = instants(&simulate(&text), "discipline");
    assert_eq!(&found[..wanted.len()], wanted, "{keys}, until {last}");
}

#[test]
fn waits_of_the_scheduler_end_with_a_tick() {
    check_waits("", "5 ms", &[3, 203, 403, 603, 803]);
    check_waits("tick = \"1000 Hz\"", "5 ms", &[3, 210, 410, 610, 810]);
    // Credit beyond the bucket is lost until the tick.
    check_waits("tick = \"100 Hz\"", "5 ms", &[3, 300, 500, 700, 900]);
    check_waits("tick = \"20 Hz\"", "5 ms", &[3, 500, 1000, 1500, 2000]);
    // An arrival starts the driver earlier than the tick, unless the queue is full and drops it.
    check_waits("tick = \"100 Hz\"", "50 ms", &[3, 203, 403, 700, 900]);
    let full = "tick = \"100 Hz\"|queue = { limit = \"3 packets\" }";
    check_waits(full, "50 ms", &[3, 300, 500, 700]);
}

/// The delays of the packets of one source over a router with this processor, in us beyond what
/// they take without one; how many it forwarded and dropped.
fn processed(cpu: &str, size: u32, classes: usize, last: &str) -> (u64, u64, [u64; 2]) {
    let class = |index: usize| format!("[link.policy.class.c{index}]\n");
    let classes: String = (1..classes).map(class).collect();
    let policy = format!(
        "[link.policy.link]\nrate = \"10 Gbit/s\"\nscheduler = \"drr\"\n\
         [link.policy.class.c0]\ndefault = true\n{classes}"
    );
    let run = |node: &str| {
        let flow = source("flow", size, "1 ms", "0 s", last);
        simulate(&format!("duration = \"1 s\"\n{}{flow}", around(node, &policy)))
    };
    let (without, with) = (run(""), run(&format!("cpu = {{ {cpu} }}\n")));
    let delay = |report: &Report| report.source("flow").expect("it is declared").delay;
    let beyond = |of: Duration| of.as_nanos() - delay(&without).max.as_nanos();
    let processor = &network(&with).processors[0];
    assert_eq!(processor.node, "r");
    let (mean, max) = (delay(&with).mean, delay(&with).max);
    (beyond(mean) / 1000, beyond(max) / 1000, [processor.forwarded, processor.dropped])
}

#[test]
fn a_processor_costs_what_its_keys_say() {
    // One packet: 1 000 B are an IP packet of 986 B, in 21 cells of 48 B with 16 B of its own.
    let rows = [
        ("receive = \"10 us\"", 1, 10),
        ("base = \"30 us\"", 1, 30),
        ("per_byte = \"1 us\"", 1, 986),
        ("per_cell = \"3 us\"", 1, 63),
        ("per_class = \"5 us\"", 1, 5),
        ("per_class = \"5 us\"", 4, 20),
        ("receive = \"10 us\", base = \"30 us\", per_class = \"5 us\"", 2, 50),
    ];
    for (cpu, classes, wanted) in rows {
        let found = processed(cpu, 1000, classes, "100 us");
        assert_eq!(found, (wanted, wanted, [1, 0]), "{cpu}, {classes} classes");
    }
}

#[test]
fn packets_wait_for_a_processor_and_interrupts_delay_what_it_does() {
    let rows = [
        // One each millisecond, each of which takes 10 ms: the input queue holds so many.
        ("base = \"10 ms\", queue = \"2 packets\"", "2500 us", (19_000, 28_000, [3, 0])),
        ("base = \"10 ms\", queue = \"2 packets\"", "9500 us", (19_000, 28_000, [3, 7])),
        // At 10 ms the first is done and the second begins, before the eleventh takes its place.
        ("base = \"10 ms\", queue = \"2 packets\"", "10500 us", (21_750, 30_000, [4, 7])),
        ("base = \"10 ms\", queue = \"1 packet\"", "9500 us", (14_500, 19_000, [2, 8])),
        // Each packet that comes in costs 2 ms at once: the first waits for two interrupts.
        ("base = \"10 ms\", receive = \"2 ms\"", "500 us", (12_000, 12_000, [1, 0])),
        ("base = \"10 ms\", receive = \"2 ms\"", "1500 us", (18_500, 23_000, [2, 0])),
    ];
    for (cpu, last, wanted) in rows {
        assert_eq!(processed(cpu, 1000, 1, last), wanted, "{cpu}, until {last}");
    }
}

#[test]
fn a_tap_records_runs_from_the_warm_up_on() {
    // Two of x, then one of y, again and again; 250 us each on the wire.
    let policy = "[link.policy.link]\nrate = \"32 Mbit/s\"\nscheduler = \"fifo\"\n\
                  [link.policy.class.x]\ndefault = true\n\
                  [link.policy.class.y]\nmatch = [{ dport = \"7\" }]\n";
    let y = source("y", 1000, "3 ms", "2 ms", "1 s").replace("to =", "dport = 7\nto =");
    let text = |keys: &str| {
        format!(
            "duration = \"30 ms\"\nwarmup = \"15 ms\"\n{}[[tap]]\nlink = \"out\"\n{keys}\n{}{}{y}",
            around("", policy),
            source("x0", 1000, "3 ms", "0 s", "1 s"),
            source("x1", 1000, "3 ms", "1 ms", "1 s"),
        )
    };
    for (keys, rows) in [("point = \"wire\"", 15), ("point = \"discipline\"\nrows = 7", 7)] {
        let report = simulate(&text(keys));
        let tap = &network(&report).taps[0];
        assert_eq!((tap.link.as_str(), tap.from.as_str()), ("out", "r"));
        assert_eq!((tap.packets, tap.rows.len()), (15, rows), "{keys}");
        assert!(tap.rows[0].at.as_nanos() >= 15_000_000, "from the warm-up on");
        let runs: Vec<_> = tap.runs().take(3).collect();
        assert_eq!(runs, [("x", 2), ("y", 1), ("x", 2)], "{keys}");
        let found: Vec<_> =
            tap.classes.iter().map(|class| (class.packets, class.runs, class.longest)).collect();
        let of_x = if rows == 7 { (5, 3, 2) } else { (10, 5, 2) };
        assert_eq!(found, [of_x, (15.min(rows as u64) - of_x.0, rows as u64 / 3, 1)], "{keys}");
    }
    // The other end sees nothing of one direction.
    let report = simulate(&text("point = \"wire\"\nfrom = \"sink\""));
    assert_eq!(network(&report).taps[0].packets, 0);
}

#[test]
fn queues_are_measured_in_the_policy_and_not_behind_it() {
    // Two packets at once each 10 ms, 4 ms each on the wire: one waits for 4 of 10 ms, or is in
    // the list of the driver.
    let fast = "rate = \"2 Mbit/s\"\n";
    for (driver, mean, max, empty) in
        [("line", 0.4, 1, 0.6), ("en", 0.0, 0, 1.0), ("fxp", 0.0, 0, 1.0)]
    {
        let out = format!("{fast}driver = {{ model = \"{driver}\" }}");
        let text = format!(
            "duration = \"3 s\"\nwarmup = \"1 s\"\n{}{}{}",
            around("", &out),
            source("one", 1000, "10 ms", "0 s", "3 s"),
            source("two", 1000, "10 ms", "0 s", "3 s").replace("from = \"a\"", "from = \"b\""),
        );
        let report = simulate(&text);
        let outlet = network(&report).outlet("out", "r").expect("an outlet");
        let queue = outlet.queue("all").expect("a queue");
        assert!((queue.mean - mean).abs() < 1e-3, "{driver}: {queue:?}");
        assert!((queue.empty - empty).abs() < 1e-3, "{driver}: {queue:?}");
        assert_eq!(queue.max, max, "{driver}");
        assert!((outlet.utilisation - 0.8).abs() < 1e-3, "{driver}: {}", outlet.utilisation);
    }
}

#[test]
fn a_mark_of_one_link_counts_at_the_next() {
    let policy = |table: &str, matches: &str| {
        format!(
            "[{table}.link]\nrate = \"10 Mbit/s\"\nscheduler = \"drr\"\n\
             [{table}.class.x]\nmatch = [{matches}]\n[{table}.class.rest]\ndefault = true\n"
        )
    };
    let police = |action: &str| {
        let all = "rate = \"1 kbit/s\", depth = \"1 B\"";
        format!("{{ dport = \"7\", police = {{ {all}, in = \"{action}\", out = \"{action}\" }} }}")
    };
    let set = "{ dport = \"7\", set_dscp = \"ef\" }".to_owned();
    let rows = [
        (police("mark ef"), "{ dscp = \"ef\" }", 10),
        (police("pass"), "{ dscp = \"ef\" }", 0),
        (set.clone(), "{ dscp = \"ef\" }", 10),
        (set, "{ dscp = \"cs0\" }", 0),
    ];
    for (rule, matches, wanted) in rows {
        let first = policy("link.policy", &rule);
        let text = around("", &policy("link.policy", matches))
            .replace("name = \"in1\"", "name = \"in1\"\n@")
            .replace(
                "@\nends = [\"a\", \"r\"]\nrate = \"10 Gbit/s\"\n",
                &format!("ends = [\"a\", \"r\"]\n{first}"),
            );
        let flow = source("flow", 1000, "10 ms", "0 s", "95 ms").replace("to =", "dport = 7\nto =");
        let report = simulate(&format!("duration = \"1 s\"\n{text}{flow}"));
        let sent = |link: &str, from: &str| {
            let outlet = network(&report).outlet(link, from).expect("an outlet");
            outlet.class("x").expect("a class").sent.packets
        };
        assert_eq!((sent("in1", "a"), sent("out", "r")), (10, wanted), "{rule}");
    }
}

#[test]
fn rules_know_the_link_by_which_packets_come_also_after_a_change() {
    let policy = |table: &str, order: [&str; 2]| {
        let class = |link: &str| {
            format!("[{table}.class.of-{link}]\nmatch = [{{ interface = \"{link}\" }}]\n")
        };
        format!(
            "[{table}.link]\nrate = \"10 Mbit/s\"\nscheduler = \"drr\"\n{}\
             [{table}.class.rest]\ndefault = true\n",
            order.map(class).concat()
        )
    };
    let change = format!(
        "[[change]]\nat = \"500 ms\"\nlink = \"out\"\n{}",
        policy("change.policy", ["in2", "in1"])
    );
    for (change, counted) in [("", 1000), (change.as_str(), 1000)] {
        let text = format!(
            "duration = \"1 s\"\n{}{change}{}{}",
            around("", &policy("link.policy", ["in1", "in2"])),
            source("one", 100, "1 ms", "0 s", "1 s"),
            source("two", 100, "2 ms", "0 s", "1 s").replace("from = \"a\"", "from = \"b\""),
        );
        let report = simulate(&text);
        let sent = |class: &str| report.class(class).expect("a class").sent.packets;
        assert_eq!([sent("of-in1"), sent("of-in2"), sent("rest")], [counted, counted / 2, 0]);
    }
}

#[test]
fn datagrams_that_lose_a_piece_are_given_up_after_30_s_or_beyond_4096() {
    // Six pieces come at once, and the queue has room for two behind the one on the wire.
    let rows = [
        // When the last piece comes at 39 s, the first ones of 0 to 9 s are older than 30 s.
        ("1 s", "40 s", (40, 3 * 40), 10),
        ("1 ms", "5 s", (5000, 3 * 5000), 5000 - 4096),
    ];
    for (interval, duration, (datagrams, lost), given_up) in rows {
        let out = "rate = \"100 Mbit/s\"\nqueue = \"2 packets\"";
        let text = format!(
            "duration = \"{duration}\"\n{}{}",
            around("", out)
                .replace("rate = \"10 Gbit/s\"", "rate = \"10 Gbit/s\"\nmtu = \"9180 B\""),
            source("flow", 0, interval, "0 s", duration)
                .replace("size = \"0 B\"", "payload = \"8192 B\""),
        );
        let report = simulate(&text);
        let flow = report.source("flow").expect("it is declared");
        assert_eq!((flow.sent.packets, flow.received.packets), (datagrams, 0), "{interval}");
        assert_eq!(flow.lost.packets, lost, "{interval}");
        assert_eq!(network(&report).incomplete, given_up, "{interval}");
    }
}
