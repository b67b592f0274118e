//! A link that changes in the middle of a run: shares follow the new policy, nothing is forgotten.

use crate::common;

use common::{cbr, millis, poisson, run, scenario, tcp, udp};
use weir_core::event::DropReason;
use weir_core::ids::LeafId;
use weir_core::units::Duration;
use weir_sim::change::PlanChange;
use weir_sim::scenario::Tcp;
use weir_sim::{Report, Scenario};

/// A change at `at` ms to the link and rules of `to`, whose first leaf takes what is left over.
fn change(at: u64, policy: &str, to: &Scenario) -> PlanChange {
    PlanChange {
        outlet: weir_sim::network::plan::OutletId(0),
        at: millis(at),
        policy: policy.to_owned(),
        link: to.link.clone(),
        classifier: to.classifier.clone(),
        heir: LeafId(0),
        interfaces: Vec::new(),
    }
}

fn sent(report: &Report, name: &str) -> u64 {
    report.class(name).map_or(0, |class| class.sent.bytes)
}

/// Runs `scenario` from `from` to `until`, in ms.
fn part(scenario: &Scenario, from: u64, until: u64) -> Report {
    let mut scenario = scenario.clone();
    scenario.warmup = Duration::from_millis(from);
    scenario.duration = Duration::from_millis(until);
    scenario.changes.retain(|change| change.at < millis(until));
    run(&scenario)
}

/// Two flooded leaves, from a plan (bit/s, quanta) to another at 4 s: each leaf is within a turn
/// and a packet of its fluid share on either side of that instant.
fn check_shares(before: (u64, [u64; 2]), after: (u64, [u64; 2])) {
    let plan = |(rate, quanta): (u64, [u64; 2])| {
        scenario("drr", rate, &[("a", quanta[0]), ("b", quanta[1])], 50)
    };
    let mut scenario = plan(before);
    scenario.sources = vec![udp("a", 0, cbr(1000, 30_000_000)), udp("b", 1, cbr(1000, 30_000_000))];
    scenario.changes = vec![change(4000, "after", &plan(after))];
    for (from, until, (rate, quanta)) in [(1000, 4000, before), (4000, 8000, after)] {
        let report = part(&scenario, from, until);
        let all = rate * (until - from) / 8000;
        for (name, quantum) in [("a", quanta[0]), ("b", quanta[1])] {
            let fluid = all * quantum / (quanta[0] + quanta[1]);
            let turn = quanta[0] + quanta[1] + 2000;
            let real = sent(&report, name);
            assert!(real.abs_diff(fluid) <= turn, "{name}: {real} for {fluid}\n{report}");
        }
    }
}

#[test]
fn shares_move_as_the_new_plan_says() {
    check_shares((8_000_000, [1000, 3000]), (8_000_000, [3000, 1000]));
    check_shares((8_000_000, [1000, 3000]), (20_000_000, [1000, 1000]));
    check_shares((20_000_000, [2000, 2000]), (1_000_000, [9000, 1000]));
}

/// Three plans in turn under CBR, Poisson and TCP: leaves come, go, shrink and change places.
fn restless() -> Scenario {
    let plans = [
        scenario("drr", 8_000_000, &[("web", 1500), ("games", 1500), ("bulk", 3000)], 40),
        scenario("fifo", 3_000_000, &[("bulk", 0), ("web", 0)], 5),
        scenario("priq", 12_000_000, &[("late", 0), ("bulk", 0), ("games", 0), ("web", 0)], 60),
    ];
    let mut scenario = plans[0].clone();
    scenario.delay = Duration::from_millis(2);
    scenario.sources = vec![
        udp("cbr", 0, cbr(700, 3_000_000)),
        udp("poisson", 1, poisson(300, 4_000_000)),
        udp("flood", 2, cbr(1200, 9_000_000)),
        tcp("tcp", 1, Tcp::default()),
    ];
    scenario.changes = (1..60)
        .map(|number| {
            change(number * 150, ["x", "y", "z"][number as usize % 3], &plans[number as usize % 3])
        })
        .collect();
    scenario
}

#[test]
fn every_packet_is_accounted_for_across_changes() {
    for warmup in [0, 150, 3333] {
        let mut scenario = restless();
        scenario.warmup = Duration::from_millis(warmup);
        let report = run(&scenario);
        assert_eq!(report.changes.len(), 59);
        let names: Vec<_> = report.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        let moved: u64 = report.changes.iter().map(|change| change.moved).sum();
        let lost: u64 = report.changes.iter().map(|change| change.lost).sum();
        assert!(moved > 0 && lost > 0, "{report}");
        let classes = |of: fn(&weir_sim::report::ClassReport) -> u64| -> u64 {
            report.classes.iter().map(of).sum()
        };
        let sources = |of: fn(&weir_sim::report::SourceReport) -> u64| -> u64 {
            report.sources.iter().map(of).sum()
        };
        assert_eq!(classes(|class| class.offered.packets), sources(|source| source.sent.packets));
        let dropped = classes(|class| class.dropped.total.packets);
        assert_eq!(dropped, sources(|source| source.lost.packets));
        assert_eq!(classes(|class| class.backlog.packets), report.conservation.backlog);
        if warmup == 0 {
            let reason = DropReason::Reconfigured as usize;
            let reconfigured: u64 =
                report.classes.iter().map(|class| class.dropped.by_reason[reason].packets).sum();
            assert_eq!(reconfigured, lost);
            assert_eq!(classes(|class| class.sent.packets), report.conservation.sent);
            assert_eq!(dropped, report.conservation.dropped);
        }
        assert_eq!(report.to_json(), run(&scenario).to_json());
    }
}

#[test]
fn running_ahead_meets_changes_as_each_packet_for_itself_does() {
    // A run that records peaks handles each packet as an event of its own, the plain way.
    for tiny in [30, 100] {
        let mut scenario = restless();
        scenario.warmup = Duration::from_millis(1111);
        scenario.sources[3] = udp("tiny", 1, cbr(tiny, 100_000));
        let (plain, _) = weir_sim::run_noting_peaks(&scenario, &mut |_| {}).expect("it is sound");
        assert_eq!(run(&scenario).to_json(), plain.to_json(), "{tiny} B");
    }
}

#[test]
fn a_change_to_the_same_plan_changes_nothing() {
    // A scheduler without state: a round would begin anew.
    let leaves = [("web", 0), ("games", 0), ("bulk", 0)];
    let plan = scenario("fifo", 8_000_000, &leaves, 40);
    let mut scenario = Scenario { link: plan.link, ..restless() };
    scenario.changes.clear();
    let quiet = run(&scenario);
    scenario.changes = vec![change(5000, "same", &scenario)];
    let report = run(&scenario);
    assert_eq!((report.changes[0].lost, report.changes[0].moved), (0, 0));
    assert_eq!(report.conservation.offered, quiet.conservation.offered);
    assert_eq!((&report.classes, &report.sources), (&quiet.classes, &quiet.sources));
}

#[test]
fn explanations_go_on_across_changes() {
    let report = weir_sim::run_explained(&restless(), 7, &mut |_| {}).expect("it is sound");
    assert_eq!(report.classes, run(&restless()).classes, "explaining changes nothing");
    let explain = report.explain.as_ref().expect("was requested");
    for class in &report.classes {
        let explained = explain.class(&class.name).expect("each class is explained");
        let ended = class.sent.packets + class.dropped.total.packets;
        assert_eq!(explained.packets, ended, "{}\n{report}", class.name);
    }
    assert_eq!(explain.slowest.len(), 7);
    assert!(explain.slowest.is_sorted_by(|one, other| one.total >= other.total));
}
