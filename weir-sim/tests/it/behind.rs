//! The bottleneck behind a link: a shaper in front of it is right, or wrong.

use crate::common::written;
use std::io;
use std::path::Path;
use weir_core::units::Duration;
use weir_sim::behind::BehindReport;
use weir_sim::scenario::Scenario;
use weir_sim::{Report, read, run};

/// A call and a flood over a shaper of this rate, with `behind` after it.
fn one_link(rate: &str, behind: &str) -> String {
    format!(
        "duration = \"20 s\"\nwarmup = \"5 s\"\ndelay = \"10 ms\"\n\
         [policy.link]\nrate = \"{rate}\"\nscheduler = \"drr\"\n\
         [policy.class.calls]\nmatch = [{{ dport = 5004 }}]\n\
         [policy.class.rest]\ndefault = true\n\
         [behind]\n{behind}\n\
         [[source]]\nname = \"call\"\nkind = \"cbr\"\ndport = 5004\npayload = \"160 B\"\n\
         interval = \"20 ms\"\n\
         [[source]]\nname = \"bulk\"\nkind = \"tcp\"\nwindow = \"4 MB\"\nreturn_delay = \"10 ms\"\n"
    )
}

fn simulated(text: &str) -> Report {
    run(&written(text), &mut |_| {}).expect("it runs")
}

fn behind(report: &Report) -> &BehindReport {
    report.behind.as_ref().expect("it has a bottleneck")
}

fn delay(report: &Report, source: &str) -> Duration {
    let rows = &behind(report).sources;
    rows.iter().find(|row| row.name == source).expect("it came there").delay.p95
}

#[test]
fn a_shaper_below_the_bottleneck_keeps_its_queue_and_one_above_loses_it() {
    let modem = "rate = \"10 Mbit/s\"\nbuffer = \"500 ms\"";
    let (low, high) =
        (simulated(&one_link("9 Mbit/s", modem)), simulated(&one_link("20 Mbit/s", modem)));
    assert!(delay(&low, "call") < Duration::from_millis(4), "{:?}", delay(&low, "call"));
    assert!(delay(&high, "call") > Duration::from_millis(100), "{:?}", delay(&high, "call"));
    let [low, high] = [&low, &high].map(|report| behind(report).used);
    assert!((0.85..0.92).contains(&low), "{low}");
    assert!(high > 0.95, "{high}");
}

#[test]
fn a_constant_trace_is_a_constant_rate_and_a_fast_one_nothing() {
    let constant = one_link("5 Mbit/s", "rate = \"7 Mbit/s\"");
    let model = "rate = { model = \"markov\", rates = [\"7 Mbit/s\"] }";
    let (one, other) = (simulated(&constant), simulated(&one_link("5 Mbit/s", model)));
    assert_eq!(one, other);
    let plain =
        one_link("5 Mbit/s", "rate = \"7 Mbit/s\"").replace("[behind]\nrate = \"7 Mbit/s\"\n", "");
    let fast = simulated(&one_link("5 Mbit/s", "rate = \"9000 Gbit/s\""));
    let plain = simulated(&plain);
    let sent = |report: &Report| report.classes.iter().map(|class| class.sent).collect::<Vec<_>>();
    assert_eq!(sent(&plain), sent(&fast));
    assert!(plain.behind.is_none());
}

#[test]
fn what_came_is_sent_dropped_or_waits() {
    let model = "rate = { model = \"gilbert\", good = \"20 Mbit/s\", bad = \"1 bit/s\", seed = 3 }\n\
                 buffer = \"60 packets\"";
    let report = simulated(&one_link("15 Mbit/s", model));
    let behind = behind(&report);
    assert!(report.conservation.holds);
    assert!(behind.dropped > 0 && behind.backlog_max <= 60 * 1514);
    assert_eq!(behind.packets, behind.delay.count + behind.dropped);
    let lost: u64 = report.sources.iter().map(|source| source.lost.packets).sum();
    assert!(lost >= behind.dropped);
    let sum = |rows: &[u64]| rows.iter().sum::<u64>();
    let over = &behind.over_time;
    assert!(sum(&over.used_bytes) <= sum(&over.capacity_bytes));
    assert!(report.to_string().contains("behind the link:"));
}

/// A scenario of a network whose `wan` is a trace from a file.
fn network(file: &'static [u8]) -> Scenario {
    let text = "duration = \"10 s\"\n\
         [[node]]\nname = \"host\"\n[[node]]\nname = \"weir\"\nrouter = true\n\
         [[node]]\nname = \"server\"\n\
         [[link]]\nname = \"lan\"\nends = [\"host\", \"weir\"]\nrate = \"1 Gbit/s\"\n\
         [[link]]\nname = \"wan\"\nends = [\"weir\", \"server\"]\ndelay = \"10 ms\"\n\
         policy = \"up.toml\"\nbehind = { rate = { trace = \"lte.csv\", start = \"1 s\" } }\n\
         back = { rate = { trace = \"lte.csv\" }, queue = \"100 packets\" }\n\
         [[source]]\nname = \"up\"\nkind = \"tcp\"\nfrom = \"host\"\nto = \"server\"\n\
         [[source]]\nname = \"down\"\nkind = \"tcp\"\nfrom = \"server\"\nto = \"host\"\n";
    let policy =
        b"[link]\nrate = \"5 Mbit/s\"\nscheduler = \"fifo\"\n[class.all]\ndefault = true\n";
    let files = move |path: &Path| match path.to_str() {
        Some("up.toml") => Ok(policy.to_vec()),
        Some("lte.csv") => Ok(file.to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let outcome = read::parse(text.as_bytes(), "test.toml", &files);
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings))
}

#[test]
fn links_of_a_network_vary_too() {
    let scenario = network(b"ms,kbit_s\n0,8000\n1000,2000\n");
    let report = run(&scenario, &mut |_| {}).expect("it runs");
    let network = report.network.as_ref().expect("it is one");
    assert!(report.conservation.holds);
    for from in ["weir", "server"] {
        let behind = network.outlet("wan", from).and_then(|outlet| outlet.behind.as_ref());
        let behind = behind.expect("both ways vary");
        assert_eq!(behind.capacity_bps, 5_000_000, "{from}");
        assert!(behind.used > 0.3, "{from}: {}", behind.used);
    }
    assert_eq!(report, run(&scenario, &mut |_| {}).expect("it runs"), "one seed is one run");
}

#[test]
fn what_is_no_capacity_is_a_finding() {
    let check = |behind: &str, code: &str| {
        let text = one_link("5 Mbit/s", behind);
        let file = |path: &Path| match path.to_str() {
            Some("bad.csv") => Ok(b"1\n2\nx\n".to_vec()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let outcome = read::parse(text.as_bytes(), "test.toml", &file);
        let codes: Vec<_> = outcome.findings.iter().map(|finding| finding.code).collect();
        assert!(codes.contains(&code), "{behind}: {codes:?}");
    };
    check("rate = { trace = \"bad.csv\" }", "W346");
    check("rate = { trace = \"bad.csv\", model = \"gilbert\" }", "W305");
    check("rate = { loop = false }", "W306");
    check("rate = \"20 Tbit/s\"", "W015");
    check("rate = \"2 Mbit/s\"\nbuffer = \"0 B\"", "W015");
}
