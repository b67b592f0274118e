//! Tests that every claim holds, that the registered scheduler on a real link agrees, and what
//! files say.

use super::*;
use crate::claims::{self, Eras, Judged, NEVER, PaperSet, Request, Verdict};
use weir_core::ids::Handle;
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::units::Quantity;

fn builtin(id: &str) -> Scenario {
    let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
    let sheets = set.select(id);
    let run = Run { sheet: sheets[0], era: Era::Historic, seed: 1, fifo: false };
    let text = run.text("scenario.toml").expect("it has one");
    scenario::parse(text.as_bytes(), id, id).expect("it reads")
}

/// Returns the verdicts of an experiment, historic and sound.
fn verdicts(name: &str) -> Vec<(String, Verdict)> {
    let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
    let request = Request { eras: Eras::Both, only: None, seed: 1, threads: 2, stop: &NEVER };
    let outcomes = crate::experiments::run(&set.select(name), &request, &|_, _, _| {});
    let rows = outcomes.iter().flat_map(|outcome| {
        let name = |claim: &Judged| format!("{} {} {}", outcome.id, claim.id, claim.measured);
        outcome.claims.iter().map(move |claim| (name(claim), claim.verdict))
    });
    rows.collect()
}

#[test]
fn departures_equal_those_of_ns2() {
    let rows = verdicts("ns2");
    let failing: Vec<_> = rows.iter().filter(|row| row.1 == Verdict::Fails).collect();
    assert!(failing.is_empty(), "{failing:#?}");
    let published = rows.iter().filter(|row| row.0.contains("flow-"));
    assert_eq!(published.filter(|row| row.1 == Verdict::Holds).count(), PUBLISHED);
}

#[test]
fn a_claim_fails_with_one_packet_more_or_less() {
    let scenario = builtin("N-MIN1");
    let mut sent = network::run(&scenario).expect("it runs");
    let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
    let sheet = set.select("N-MIN1")[0];
    let verdict = |sent: &[Sent]| {
        let measured = figures(&scenario, sent);
        claims::judge(sheet, Era::Historic, Ok(&measured))[0].verdict
    };
    assert_eq!(verdict(&sent), Verdict::Holds);
    let lost = sent.iter().position(|sent| sent.flow == 0).expect("it sends");
    sent.remove(lost);
    assert_eq!(verdict(&sent), Verdict::Fails);
}

/// Returns the packets per second of each flow on a link whose clock has whole nanoseconds.
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
    let mut link = plan.build().expect("it builds");
    let mut departures = Vec::new();
    for (now, flow) in sound::arrivals(scenario) {
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

/// Times rounded up to nanoseconds break ties differently, and then packets move a little.
#[test]
fn a_link_in_nanoseconds_stays_within_a_hundredth_and_a_half() {
    let names = ["WRR", "MIN4", "TwoAO"];
    for name in names {
        let scenario = builtin(&format!("N-{name}"));
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
fn errors_of_a_file_are_reported() {
    let good = "seconds = 1\n[class.a]\nshare = \"50 %\"\n[[source]]\nclass = \"a\"\n\
                size = \"100 B\"\ninterval = \"1 ms\"\n";
    let with = |from: &str, to: &str| good.replace(from, to);
    let rows = [
        (good.to_owned(), ""),
        (with("seconds = 1", ""), "no `seconds`"),
        (with("50 %", "0 %"), "has 0 % of the link"),
        (with("50 %", "150 %"), "at most 100 %"),
        (with("share", "shere"), "did you mean `share`"),
        (with("class = \"a\"", "class = \"b\""), "there is no class `b`"),
        (with("1 ms", "0 ms"), "no time passes"),
        (with("100 B", "70000 B"), "not in 1 B to 65535 B"),
        (format!("{good}on = [\"2 s\", \"1 s\"]\n"), "go back"),
        (format!("{good}[[change]]\nat = \"1 s\"\nshare = {{ b = \"1 %\" }}\n"), "no such class"),
        (format!("{good}[[claim]]\nflow = 2\nshare = \"1 %\"\nwithin = \"1 %\"\n"), "not in 1..=1"),
        (format!("{good}[[claim]]\nflow = 1\nwithin = \"1 %\"\n"), "one quantity"),
    ];
    for (text, expected) in rows {
        match scenario::parse(text.as_bytes(), "x.toml", "x") {
            Ok(_) => assert_eq!(expected, "", "{text}"),
            Err(error) => assert!(!expected.is_empty() && error.contains(expected), "{error}"),
        }
    }
}

/// Rows of ns-2's output in Weir's documents.
const PUBLISHED: usize = 29;
