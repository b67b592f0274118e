//! Scenarios in few words, for tests.
#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../../weir-trace/tests/it/common/policies.rs"]
pub mod policies;

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use weir_core::classify::{Classifier, FragmentPolicy, Match, PortRange, Rule};
use weir_core::ids::LeafId;
use weir_core::link::LinkPlan;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::parameter::Params;
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Duration, Instant, Quantity, Rate, Share};
use weir_policy::{Finding, Severity};
use weir_sim::scenario::{Jitter, Period, Sizes, Source, Spacing, Tcp, Traffic};
use weir_sim::{Report, Scenario, read};

/// A rate in bit/s.
pub fn rate(bits_per_second: u64) -> Rate {
    Rate::new(bits_per_second).expect("tests name no zero rate")
}

/// A link of `rate` with a leaf for each `(name, quantum)`; port 1000 + n goes to leaf n, all else
/// to the first. Each leaf holds `limit` packets.
pub fn scenario(
    scheduler: &'static str,
    bits_per_second: u64,
    leaves: &[(&str, u64)],
    limit: u32,
) -> Scenario {
    let class = |&(name, quantum): &(&str, u64)| {
        let mut params = Params::new();
        if scheduler == "drr" {
            params = params.with("quantum", Quantity::Bytes(Bytes::new(quantum)));
        }
        ClassSpec { name: name.to_owned(), parent: None, params }
    };
    let classes = leaves.iter().map(class).collect();
    let tree = Tree::new(rate(bits_per_second), Bytes::new(1514), Params::new(), classes);
    let mut link = LinkPlan::new(scheduler, tree.expect("the leaves are a tree"));
    let params = Params::new().with("limit", Quantity::Packets(limit));
    link.queues.fill(QueuePlan { params, ..QueuePlan::default() });
    let rule = |leaf: u32| {
        let ports = vec![PortRange::single(1000 + leaf as u16)];
        let matches = Match { destination_ports: ports, ..Match::default() };
        Rule::new(matches, LeafId(leaf))
    };
    let rules = (0..leaves.len() as u32).map(rule).collect();
    Scenario {
        name: "test".to_owned(),
        link,
        classifier: Classifier::new(rules, LeafId(0), FragmentPolicy::EachAlone),
        delay: Duration::ZERO,
        duration: Duration::from_secs(10),
        warmup: Duration::ZERO,
        seed: 1,
        demands: Vec::new(),
        sources: Vec::new(),
        changes: Vec::new(),
        network: None,
        behind: None,
        jitter: Jitter::default(),
    }
}

/// The scenario that is written so.
pub fn written(text: &str) -> Scenario {
    let file = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let outcome = read::parse(text.as_bytes(), "test.toml", &file);
    // Warnings are of the papers' own settings.
    let is_error = |finding: &&Finding| finding.severity == Severity::Error;
    assert_eq!(outcome.findings.iter().find(is_error), None, "{text}");
    outcome.plan.expect("nothing was found")
}

/// Two hosts with a line of `links` between them: rate, delay, and more keys for each.
pub fn line(links: &[(&str, &str, &str)]) -> String {
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

/// A flow with these keys over 10 Mbit/s into this queue: behind one link, and in a network of two.
pub fn through(queue: &str, keys: &str) -> [Report; 2] {
    let times = "duration = \"20 s\"\nwarmup = \"5 s\"\n";
    let flow = format!("[[source]]\nname = \"x\"\n{keys}\n");
    let policy = |table: &str| {
        format!(
            "[{table}.link]\nrate = \"10 Mbit/s\"\nscheduler = \"fifo\"\n\
             [{table}.class.all]\ndefault = true\nqueue = {queue}\n"
        )
    };
    let alone =
        format!("{times}delay = \"10 ms\"\n{}{flow}return_delay = \"10 ms\"\n", policy("policy"));
    let mut links = line(&[("1 Gbit/s", "1 ms", ""), ("10 Mbit/s", "9 ms", "")]);
    links = links.replacen("rate = \"10 Mbit/s\"\n", "", 1);
    let network =
        format!("{times}{links}{}{flow}from = \"n0\"\nto = \"n2\"\n", policy("link.policy"));
    [alone, network].map(|text| run(&written(&text)))
}

/// Headers of a flow to leaf `leaf`.
pub fn headers(protocol: Protocol, leaf: u16) -> Headers {
    let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
    let ports = Ports { source: 5000, destination: 1000 + leaf };
    Headers::of_flow(Addresses::V4 { source, destination }, protocol, ports)
}

/// A UDP source to leaf `leaf`.
pub fn udp(name: &str, leaf: u16, traffic: Traffic) -> Source {
    Source::new(name, headers(Protocol::UDP, leaf), traffic)
}

/// A TCP source to leaf `leaf`.
pub fn tcp(name: &str, leaf: u16, tcp: Tcp) -> Source {
    Source::new(name, headers(Protocol::TCP, leaf), Traffic::Tcp(tcp))
}

/// Frames of `length` at `bits_per_second`, evenly.
pub fn cbr(length: u32, bits_per_second: u64) -> Traffic {
    let (sizes, spacing) = flow(length, bits_per_second);
    Traffic::Cbr { sizes, spacing, jitter: Share::default() }
}

/// Frames of `length` at `bits_per_second`, as a Poisson process.
pub fn poisson(length: u32, bits_per_second: u64) -> Traffic {
    let (sizes, spacing) = flow(length, bits_per_second);
    Traffic::Poisson { sizes, spacing }
}

/// Frames of `length` at `bits_per_second` while on.
pub fn on_off(length: u32, bits_per_second: u64, on: Period, off: Period) -> Traffic {
    let (sizes, spacing) = flow(length, bits_per_second);
    Traffic::OnOff { sizes, spacing, on, off }
}

fn flow(length: u32, bits_per_second: u64) -> (Sizes, Spacing) {
    (Sizes::fixed(length).expect("a frame's length"), Spacing::rate(rate(bits_per_second)))
}

/// Runs it; every packet must be accounted for.
pub fn run(scenario: &Scenario) -> Report {
    let report = weir_sim::run(scenario, &mut |_| {}).expect("the scenario is sound");
    assert!(report.conservation.holds, "{report}");
    report
}

/// An instant in ms.
pub fn millis(millis: u64) -> Instant {
    Instant::ZERO.after(Duration::from_millis(millis))
}
