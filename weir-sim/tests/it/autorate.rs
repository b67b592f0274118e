//! Controllers of rates in a simulated network, in front of a modem and behind one.

use crate::common::written;
use std::path::Path;
use weir_sim::network::{AutorateReport, Control, OutletReport};
use weir_sim::scenario::Scenario;
use weir_sim::{Report, read, run};

/// A host, Weir and a server, with a modem of 12 Mbit/s that has 4 Mbit/s in each second half of
/// 10 s; `up` and `down` are the keys of its links. In each way there are a call and TCP.
fn scenario(up: &str, down: &str) -> Scenario {
    let bulk = |name: &str, from: &str, to: &str| {
        format!(
            "[[source]]\nname = \"bulk-{name}\"\nkind = \"tcp\"\nwindow = \"2 MB\"\n\
             timestamps = true\nfrom = \"{from}\"\nto = \"{to}\"\n"
        )
    };
    written(&text(up, down, &bulk))
}

/// The text of such a scenario, with what `bulk` writes beside each call.
fn text(up: &str, down: &str, bulk: &dyn Fn(&str, &str, &str) -> String) -> String {
    let policy = |table: &str| {
        format!(
            "[{table}.policy.link]\nrate = \"12 Mbit/s\"\nscheduler = \"drr\"\n\
             [{table}.policy.class.calls]\nmatch = [{{ dport = 5004 }}]\n\
             [{table}.policy.class.rest]\ndefault = true\nqueue = {{ limit = \"100 packets\" }}\n"
        )
    };
    let modem = "{ model = \"gilbert\", good = \"12 Mbit/s\", bad = \"4 Mbit/s\", \
                 good_for = \"5 s\", bad_for = \"5 s\" }";
    let call = |name: &str, from: &str, to: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nkind = \"cbr\"\ndport = 5004\npayload = \"160 B\"\n\
             interval = \"20 ms\"\nfrom = \"{from}\"\nto = \"{to}\"\n{}",
            bulk(name, from, to)
        )
    };
    format!(
        "duration = \"40 s\"\nwarmup = \"5 s\"\n\
         [[node]]\nname = \"host\"\n[[node]]\nname = \"weir\"\nrouter = true\n\
         [[node]]\nname = \"server\"\n\
         [[link]]\nname = \"lan\"\nends = [\"host\", \"weir\"]\nrate = \"1 Gbit/s\"\n\
         [link.back]\n{down}\n{}\
         [[link]]\nname = \"wan\"\nends = [\"weir\", \"server\"]\ndelay = \"10 ms\"\n\
         behind = {{ rate = {modem}, buffer = \"400 ms\" }}\n{up}\n{}\
         [link.back]\nrate = {modem}\nqueue = \"300 packets\"\ndelay = \"10 ms\"\n{}{}",
        policy("link.back"),
        policy("link"),
        call("up", "host", "server"),
        call("down", "server", "host"),
    )
}

const KEYS: &str = "autorate = { min = \"1 Mbit/s\", base = \"4 Mbit/s\", max = \"12 Mbit/s\" }";

fn outlet<'r>(report: &'r Report, link: &str, from: &str) -> &'r OutletReport {
    let network = report.network.as_ref().expect("a network");
    network.outlet(link, from).expect("it has this outlet")
}

fn autorate(outlet: &OutletReport) -> &AutorateReport {
    outlet.autorate.as_ref().expect("its rate is controlled")
}

/// The call's p95 at the bottleneck behind Weir, in ms.
fn late(report: &Report, from: &str, call: &str) -> u64 {
    let behind = outlet(report, "wan", from).behind.as_ref().expect("a modem");
    let source = behind.sources.iter().find(|row| row.name == call).expect("it came there");
    source.delay.p95.as_nanos() / 1_000_000
}

#[test]
fn a_controller_follows_the_modem_and_stays_within_its_limits() {
    let (fixed, own) = (scenario("", ""), scenario(KEYS, KEYS));
    let [fixed, own, again] =
        [&fixed, &own, &own].map(|scenario| run(scenario, &mut |_| {}).expect("it runs"));
    assert_eq!(own, again, "one seed is one run");
    assert!(own.conservation.holds && fixed.conservation.holds);
    for (link, from) in [("wan", "weir"), ("lan", "weir")] {
        let report = autorate(outlet(&own, link, from));
        assert_eq!(report.controller, "delay-target");
        assert!(report.changes > 10, "{link}: {}", report.changes);
        let within = |rate: &u64| (1_000_000..=12_000_000).contains(rate);
        assert!(report.rate_bps.iter().all(within), "{link}");
        // 40 s of intervals of 25 ms, of which the last ends with the run.
        let intervals: u64 = report.reasons.values().sum();
        assert!((1599..=1600).contains(&intervals), "{intervals}");
    }
    assert!(own.to_string().contains("rate by delay-target"));
    let (own, fixed) = (late(&own, "weir", "up"), late(&fixed, "weir", "up"));
    assert!(own < fixed / 2, "{own} ms instead of {fixed}");
}

#[test]
fn a_direction_alone_is_controlled_by_what_passes_both_ways() {
    let fixed = run(&scenario("", ""), &mut |_| {}).expect("it runs");
    for (up, down, from) in [(KEYS, "", "wan"), ("", KEYS, "lan")] {
        let report = run(&scenario(up, down), &mut |_| {}).expect("it runs");
        let blind = autorate(outlet(&report, from, "weir")).reasons.get("blind").copied();
        // Of 1600.
        assert!(blind.unwrap_or(0) < 40, "{from}: {blind:?} intervals were blind");
        let [own, fixed] = [&report, &fixed].map(|report| late(report, "weir", "up"));
        assert!(from == "lan" || own < fixed / 2, "{from}: {own} ms instead of {fixed}");
    }
}

/// Uploads and downloads by QUIC, which says nothing, behind a modem of 12 Mbit/s that has 4 Mbit/s
/// in each second half of 10 s; with these reflectors.
fn blind(probes: &str) -> Report {
    let keys = KEYS.replace(" }", &format!("{probes} }}"));
    let bulk = |name: &str, from: &str, to: &str| {
        format!(
            "[[source]]\nname = \"bulk-{name}\"\nkind = \"quic\"\nwindow = \"2 MB\"\n\
             from = \"{from}\"\nto = \"{to}\"\n"
        )
    };
    run(&written(&text(&keys, KEYS, &bulk)), &mut |_| {}).expect("it runs")
}

#[test]
fn reflectors_tell_where_nothing_does() {
    let rows = ["", ", probes = [\"20 ms\", \"25 ms\", \"40 ms\"]"];
    let [none, asked] = rows.map(|probes| {
        let report = blind(probes);
        assert!(report.conservation.holds, "{report}");
        let outlet = outlet(&report, "wan", "weir");
        let own = autorate(outlet).clone();
        let used = outlet.behind.as_ref().expect("a modem").used;
        let told = report.to_string();
        assert_eq!(told.contains(" echoes"), !probes.is_empty(), "{told}");
        (own, used, report)
    });
    assert_eq!(none.0.echoes, 0);
    // Of 1600 intervals, all but the first second.
    assert!(none.0.reasons.get("blind").is_some_and(|count| *count > 1500), "{:?}", none.0);
    // One every two intervals.
    assert!((700..=800).contains(&asked.0.echoes), "{}", asked.0.echoes);
    assert!(asked.0.reasons.get("blind").copied().unwrap_or(0) < 100, "{:?}", asked.0);
    let late = [&none.2, &asked.2].map(|report| late(report, "weir", "up"));
    println!("used {:.3} to {:.3}, the call's p95 {} to {} ms", none.1, asked.1, late[0], late[1]);
    assert!(asked.1 > none.1 + 0.1, "{} and {}", asked.1, none.1);
}

#[test]
fn one_that_knows_the_trace_keeps_the_modem_empty_and_in_use() {
    let mut scenario = scenario("", "");
    let network = scenario.network.as_mut().expect("a network");
    let wan = &mut network.links[1].outlets[0];
    let capacity = wan.behind.as_ref().expect("a modem").capacity.clone();
    let least = weir_core::units::Rate::new(100_000).expect("not zero");
    wan.control = Some(Box::new(Control::Follow(capacity, least)));
    let report = run(&scenario, &mut |_| {}).expect("it runs");
    let outlet = outlet(&report, "wan", "weir");
    assert_eq!(autorate(outlet).controller, "oracle");
    let behind = outlet.behind.as_ref().expect("a modem");
    // Acknowledgements wait for the download, which nothing shapes.
    assert!(behind.used > 0.6, "{}", behind.used);
    assert!(late(&report, "weir", "up") < 10, "{} ms", late(&report, "weir", "up"));
}

/// Checks that the keys `more` of a controller, and of its link behind them, have a finding.
fn check_finding(min: &str, target: &str, more: &str, wanted: &str) {
    let text = format!(
        "duration = \"1 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
         [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\nrate = \"5 Mbit/s\"\n\
         autorate = {{ min = \"{min}\", base = \"4 Mbit/s\", max = \"12 Mbit/s\", \
         target = \"{target}\"{more}\n"
    );
    // The policy's link has it.
    let has_policy = text.contains(".policy");
    let text = if has_policy { text.replacen("rate = \"5 Mbit/s\"\n", "", 1) } else { text };
    let none = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let outcome = read::parse(text.as_bytes(), "test.toml", &none);
    let found = outcome.findings.iter().any(|finding| finding.message.contains(wanted));
    assert!(found, "{wanted}: {:?}", outcome.findings);
}

#[test]
fn limits_that_contradict_each_other_are_a_finding() {
    let rows = [
        ("9 Mbit/s", "15 ms", "has 9 Mbit/s, 4 Mbit/s and 12 Mbit/s"),
        ("1 Mbit/s", "0 ms", "is below 1 ms"),
        ("1 Mbit/s", "15 ms", "this link has no `policy`"),
    ];
    for (min, target, wanted) in rows {
        check_finding(min, target, " }", wanted);
    }
}

#[test]
fn one_rule_sets_the_rate_of_a_link() {
    let policy = " }\n[link.policy.link]\nrate = \"5 Mbit/s\"\nscheduler = \"fifo\"\n\
                  follows_arrivals = true\n[link.policy.class.all]\ndefault = true";
    check_finding("1 Mbit/s", "15 ms", policy, "two rules would set one rate");
}

#[test]
fn reflectors_are_three_to_six_behind_a_modem() {
    let behind = "\nbehind = { rate = \"9 Mbit/s\" }";
    let times = |count: usize| format!(", probes = [{}] }}", ["\"9 ms\""].repeat(count).join(", "));
    for (count, behind, wanted) in [
        (3, "", "this way of the link has no `behind`"),
        (2, behind, "2 reflectors are not 3 to 6"),
        (7, behind, "7 reflectors are not 3 to 6"),
    ] {
        check_finding("1 Mbit/s", "15 ms", &(times(count) + behind), wanted);
    }
}
