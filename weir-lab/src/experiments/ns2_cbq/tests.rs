//! That every claim holds, that the registered scheduler on a real link agrees, and what files say.

use super::*;
use std::time::Duration;
use weir_core::ids::Handle;
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::units::{Instant, Quantity};

fn builtin(name: &str) -> Scenario {
    let (_, text) = FILES.iter().find(|row| row.0 == name).expect("a scenario of ours");
    scenario::parse(text.as_bytes(), name, name).expect("it reads")
}

#[test]
fn what_is_sent_is_what_ns2_sends() {
    let options = Options { duration: Duration::ZERO, only: None, file: None };
    let rows = run(&options, &mut |_| {}).expect("our own files read");
    let failing: Vec<_> = rows.iter().filter(|row| !row.holds).collect();
    assert!(failing.is_empty(), "{failing:#?}");
    let published = rows.iter().filter(|row| row.measured.ends_with("as ns-2")).count();
    assert_eq!(published, PUBLISHED.lines().filter(|line| !line.starts_with('#')).count());
}

#[test]
fn a_row_fails_when_a_packet_is_off() {
    let scenario = builtin("MIN1");
    let mut sent = network::run(&scenario).expect("it runs");
    let published = published();
    let row = published.iter().find(|row| row.test == "MIN1").expect("its first flow");
    assert!(row.compare(&scenario, &sent).holds);
    let lost = sent.iter().position(|sent| sent.flow == row.flow).expect("it sends");
    sent.remove(lost);
    assert!(!row.compare(&scenario, &sent).holds);
}

/// The seconds of each flow on a link whose clock has whole nanoseconds.
fn on_a_link(scenario: &Scenario) -> Vec<Vec<u64>> {
    let mut plan = LinkPlan::new("cbq-ref", scenario.tree.clone());
    plan.queues.fill(QueuePlan {
        dropper: "tail",
        params: {
            let mut params = Params::new();
            params.set("limit", Value::Quantity(Quantity::Packets(19)));
            params
        },
    });
    let mut arrivals = Vec::new();
    for (flow, source) in scenario.sources.iter().enumerate() {
        for on in source.switched.chunks(2) {
            let until = on.get(1).copied().unwrap_or(scenario.seconds as f64);
            let packets = ((until - on[0]) / source.interval).round() as u64;
            for packet in 0..packets {
                let sent = (on[0] * 1e9) as u64 + packet * (source.interval * 1e9) as u64;
                let way = 800 * u64::from(source.size) + 5_000_000;
                arrivals.push((Instant::from_nanos(sent + way), flow));
            }
        }
    }
    arrivals.sort();
    let mut link = plan.build().expect("it builds");
    let mut departures = Vec::new();
    for (now, flow) in arrivals {
        link.advance(now, &mut departures);
        let source = &scenario.sources[flow];
        link.offer(now, source.leaf, Packet::new(Handle(flow as u32), source.size));
    }
    let mut seconds = vec![vec![0; scenario.seconds]; scenario.sources.len()];
    for departure in departures {
        let second = departure.at.as_nanos() as usize / 1_000_000_000;
        if second < scenario.seconds {
            seconds[departure.handle.0 as usize][second] += 1;
        }
    }
    seconds
}

/// Times rounded up to nanoseconds break ties otherwise, and then packets move a little.
#[test]
fn a_link_in_nanoseconds_stays_within_a_hundredth_and_a_half() {
    let names = ["WRR", "PRR", "MIN1", "MIN3", "MIN4", "MIN6", "TwoAO", "TwoAO2", "TwoF", "TwoTL"];
    for name in names {
        let scenario = builtin(name);
        let sent = network::run(&scenario).expect("it runs");
        for (flow, on_link) in on_a_link(&scenario).into_iter().enumerate() {
            let exact = packets(&scenario, &sent, flow);
            let off = exact
                .iter()
                .zip(&on_link)
                .map(|(a, b)| share(&scenario, flow, a.abs_diff(*b) as f64));
            let worst = off.fold(0.0, f64::max);
            let whole = exact.iter().sum::<u64>().abs_diff(on_link.iter().sum());
            let whole = share(&scenario, flow, whole as f64);
            println!("{name} {flow} {worst} {whole}");
            assert!(worst <= 0.016, "{name} {flow}: {worst}");
            assert!(whole / scenario.seconds as f64 <= 0.002, "{name} {flow}: {whole}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let good = "seconds = 1\n[class.a]\nshare = \"50 %\"\n[[source]]\nclass = \"a\"\n\
                size = \"100 B\"\ninterval = \"1 ms\"\n";
    let with = |from: &str, to: &str| good.replace(from, to);
    let rows = [
        (good.to_owned(), ""),
        (with("seconds = 1", ""), "no `seconds`"),
        (with("50 %", "0 %"), "has 0 % of the link"),
        (with("50 %", "150 %"), "at most 100 %"),
        (with("share", "shere"), "no `share`"),
        (with("class = \"a\"", "class = \"b\""), "there is no class `b`"),
        (with("1 ms", "0 ms"), "no time passes"),
        (with("100 B", "70000 B"), "not in 1 B to 65535 B"),
        (format!("{good}on = [\"2 s\", \"1 s\"]\n"), "go back"),
        (format!("{good}[[change]]\nat = \"1 s\"\nshare = {{ b = \"1 %\" }}\n"), "no such class"),
        (format!("{good}[[claim]]\nflow = 2\nshare = \"1 %\"\nwithin = \"1 %\"\n"), "not in 1..=1"),
        (format!("{good}[[claim]]\nflow = 1\nwithin = \"1 %\"\n"), "one thing"),
    ];
    for (text, expected) in rows {
        match scenario::parse(text.as_bytes(), "x.toml", "x") {
            Ok(_) => assert_eq!(expected, "", "{text}"),
            Err(error) => assert!(!expected.is_empty() && error.contains(expected), "{error}"),
        }
    }
}
