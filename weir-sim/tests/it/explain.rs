//! Why packets waited: numbers that can be computed by hand, and parts that sum to the whole.

use crate::common;

use common::{cbr, millis, scenario, udp};
use weir_core::units::{Duration, Instant};
use weir_sim::{Report, read};
use weir_trace::explain::{ExplainReport, Parts};
use weir_trace::load::Stage;
use weir_trace::remedy::{Condition, Origin, Tally};

fn explained(scenario: &weir_sim::Scenario, slowest: usize) -> (Report, ExplainReport) {
    let report = weir_sim::run_explained(scenario, slowest, &mut |_| {}).expect("it is sound");
    let explain = report.explain.clone().expect("was requested");
    (report, explain)
}

fn policy(text: &str) -> weir_sim::Scenario {
    let no_file = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let outcome = weir_sim::read::parse(text.as_bytes(), "s.toml", &no_file);
    assert_eq!(outcome.findings, []);
    outcome.plan.expect("nothing was found")
}

#[test]
fn a_wait_divides_into_its_reasons() {
    // A packet takes a millisecond. `a` has one at 0, 1 and 2 us, `b` one at 0: the first leaves at
    // once, then `b`; the second of `a` waits for the line and for `b`, the third for the second.
    let mut scenario = scenario("priq", 8_000_000, &[("a", 0), ("b", 0)], 10);
    scenario.duration = Duration::from_millis(100);
    let mut a = udp("a", 0, cbr(1000, 8_000_000_000));
    (a.start, a.stop) = (millis(0), Some(millis(0).after(Duration::from_nanos(2001))));
    let mut b = udp("b", 1, cbr(1000, 8_000_000));
    b.stop = Some(millis(1));
    scenario.sources = vec![a, b];
    let (report, explain) = explained(&scenario, 5);
    let micros = |part: Duration| part.as_nanos() / 1000;
    let rows: Vec<_> = explain
        .slowest
        .iter()
        .map(|packet| {
            let Parts { own_leaf, line_busy, others, .. } = packet.parts;
            let class = packet.class.as_str();
            (class, micros(packet.total), micros(own_leaf), micros(line_busy), micros(others))
        })
        .collect();
    let expected = [
        ("a", 2998, 2998, 0, 0),
        ("a", 1999, 0, 999, 1000),
        ("b", 1000, 0, 1000, 0),
        ("a", 0, 0, 0, 0),
    ];
    assert_eq!(rows, expected, "{report}");
    let b = explain.class("b").expect("is declared");
    assert_eq!((b.packets, b.total.max, b.parts.line_busy.share), (1, b.total.mean, 1.0));
}

const LENDING: &str = "
    duration = '2 s'
    warmup = '500 ms'
    policy.link = { rate = '8 Mbit/s', scheduler = 'htb' }
    policy.class.line = { rate = '8 Mbit/s' }
    policy.class.poor = { parent = 'line', rate = '1 Mbit/s', ceil = '4 Mbit/s', default = true }
    policy.class.rich = { parent = 'line', rate = '7 Mbit/s', match = [{ dport = 7 }] }
    source = [
        { name = 'flood', kind = 'cbr', size = '1000 B', rate = '9 Mbit/s' },
        { name = 'calm', kind = 'cbr', size = '1000 B', rate = '1 Mbit/s', dport = 7 },
    ]";

#[test]
fn lenders_and_limits_have_names_and_interior_classes_are_sums() {
    let (report, explain) = explained(&policy(LENDING), 3);
    let [line, poor, rich] = ["line", "poor", "rich"].map(|name| explain.class(name).expect("is"));
    // A quarter is at its own account, the rest is lent.
    let lent = poor.lenders.get("line").copied().unwrap_or(0);
    let sent = report.class("poor").expect("is").sent.packets;
    assert!(lent * 100 / sent >= 70 && lent * 100 / sent <= 80, "{report}");
    assert_eq!((rich.lenders.len(), line.lenders.get("line")), (0, Some(&lent)));
    assert!(poor.parts.ceiling.share > 0.0 && poor.parts.undertime.share == 0.0, "{report}");
    assert_eq!(line.packets, poor.packets + rich.packets);
    for class in [line, poor, rich] {
        let sum: f64 = class.parts.named().iter().map(|part| part.1.share).sum();
        let whole = f64::from(u8::from(class.total.max > Duration::ZERO));
        assert!((sum - whole).abs() < 1e-9, "{}: {sum}", class.name);
        let row = report.class(&class.name).expect("is declared");
        assert_eq!(class.packets, row.sent.packets + row.dropped.total.packets);
    }
    // The slowest are those that waited the whole queue and were sent.
    assert!(explain.slowest.iter().all(|packet| packet.class == "poor"), "{report}");
    assert_eq!(explained(&policy(LENDING), 0).1.slowest, []);
    assert_eq!(explained(&policy(LENDING), 0).1.classes, explain.classes);
}

#[test]
fn explaining_changes_no_number() {
    let scenario = policy(LENDING);
    let plain = common::run(&scenario);
    let (mut report, _) = explained(&scenario, 5);
    report.explain = None;
    assert_eq!(report, plain);
}

/// A policy of two equal classes.
fn halves(weights: [u32; 2]) -> String {
    let [one, other] = weights;
    format!(
        "[link]\nrate = '10 Mbit/s'\nscheduler = 'wf2q+'\n[class.burst]\nweight = {one}\n\
         queue = {{ limit = '200 packets' }}\nmatch = [{{ dport = 1 }}]\n\
         [class.flood]\nweight = {other}\ndefault = true\n"
    )
}

/// Returns whether a replay of this traffic by `played` keeps the rate that `text` guarantees the
/// class `burst`; `None` if none is due.
fn keeps_its_rate(text: &str, played: &str, burst: &str) -> Option<bool> {
    let stage = |text: &str| Stage::new(Instant::ZERO, "p.toml", text).expect("a policy");
    let source = |name: &str, keys: &str| {
        format!("[[source]]\nname = '{name}'\nkind = 'cbr'\nsize = '1000 B'\n{keys}\n")
    };
    let sources = source("flood", "rate = '20 Mbit/s'") + &source("burst", burst);
    let scenario = format!("policy = 'p.toml'\nduration = '2 s'\n{sources}");
    let none = &weir_policy::file::none;
    let own = stage(text);
    let read = read::parse_with(scenario.as_bytes(), "s.toml", none, &own.policy);
    let load = weir_sim::load::of_scenario(&read.plan.expect("it has no errors"), text);
    let load = load.expect("its packets can be replayed");
    let seen = |plan| Tally::of(&load, &[plan], false).expect("it builds");
    let conditions = Condition::of_policy(&load, &seen(own.policy.link.clone()));
    let tally = seen(stage(played).policy.link);
    let rates = conditions.iter().filter(|one| one.origin == Origin::Rate);
    let judged = rates.map(|one| one.judge(&tally));
    judged.filter(|row| row.that.starts_with("burst.")).find_map(|row| row.kept)
}

#[test]
fn a_rate_is_judged_while_packets_are_there() {
    let policy = halves([1, 1]);
    let short = policy.replace("200 packets", "20 packets");
    let whole = "dport = 1\nrate = '20 Mbit/s'";
    let rows = [
        // A tenth of a second at the end, of which half can leave until then.
        (policy.as_str(), policy.as_str(), "dport = 1\nrate = '20 Mbit/s'\nstart = '1.9 s'", true),
        // A burst of which the queue drops most.
        (&short, &short, "dport = 1\nrate = '1 Gbit/s'\nstart = '1 s'\nstop = '1.01 s'", true),
        (&policy, &policy, whole, true),
        // A scheduler that gives it a tenth.
        (&policy, &halves([1, 9]), whole, false),
    ];
    for (text, played, burst, kept) in rows {
        assert_eq!(keeps_its_rate(text, played, burst), Some(kept), "{burst}");
    }
}
