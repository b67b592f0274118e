//! Alarms over counts that a test invents, and what they start.

use super::window::Window;
use super::*;
use std::sync::Arc;
use weir_core::account::Histogram;
use weir_core::ids::LeafId;
use weir_core::units::Duration;
use weir_policy::policy::{Comparison, Goal, Measure, Metric};

/// One second of a class: packets of 1000 bytes, each as late as `delay_ms`.
#[derive(Clone, Copy)]
struct Second {
    sent: u64,
    dropped: u64,
    delay_ms: u64,
    backlog: u64,
}

const CALM: Second = Second { sent: 100, dropped: 0, delay_ms: 1, backlog: 0 };
const SLOW: Second = Second { delay_ms: 50, backlog: 50_000, ..CALM };
const LOSSY: Second = Second { dropped: 25, ..CALM };
const STARVED: Second = Second { sent: 10, backlog: 90_000, ..CALM };
const IDLE: Second = Second { sent: 0, ..CALM };

/// Returns the counts at the end of each second.
fn counts(seconds: &[Second]) -> Vec<LeafMeasures> {
    let mut sum = LeafMeasures::default();
    let mut each = |second: &Second| {
        sum.offered += second.sent + second.dropped;
        sum.dropped += second.dropped;
        sum.sent_bytes += second.sent * 1000;
        (sum.backlog_max, sum.waits) = (second.backlog, second.backlog > 0);
        (0..second.sent).for_each(|_| sum.delays.record(Duration::from_millis(second.delay_ms)));
        sum.clone()
    };
    std::iter::once(LeafMeasures::default()).chain(seconds.iter().map(&mut each)).collect()
}

/// Watches `when` for 3 s over these seconds; checks the events: the second at which each is told,
/// the kind, and the value that was measured.
fn check(when: (Metric, Comparison, f64), seconds: &[Second], expected: &[&str]) {
    let (metric, comparison, goal) = when;
    let measure = Measure::Class(ClassId(1), metric);
    let promised = Promised { measure, comparison, goal: Goal::Value(goal) };
    let (gauge, leaves) = (Arc::default(), [vec![0], Vec::new()]);
    let condition = Condition { promised, gauge, leaves, before: None };
    let mut watched = Watched {
        name: "page".to_owned(),
        when: "`condition` in `upload`".to_owned(),
        class: "voice".to_owned(),
        condition,
        measured: Measured::default(),
        fault: Fault::new(Manner {
            kind: Kind::AlarmBegan,
            patience: Duration::from_secs(3),
            calm: Duration::from_secs(3),
            is_state: false,
        }),
    };
    let (reporter, mut log) = crate::events::log();
    let mut lines = Vec::new();
    for (second, counts) in counts(seconds).into_iter().enumerate() {
        let at = Instant::from_nanos((second as u64 + 100) * 1_000_000_000);
        if let Some(second) = watched.condition.add(at, vec![counts]) {
            watched.check(&second, &reporter);
        }
        log.take(|event| {
            let verb = if seconds.last().is_some_and(|last| last.sent == 0) { "was" } else { "is" };
            let says = |value: &str| event.detail.ends_with(&format!("it {verb} {value}"));
            let is_end = event.kind == Kind::AlarmEnded;
            assert!(
                !is_end || event.measured.as_ref().is_some_and(|it| says(&it.value)),
                "{event:?}"
            );
            let value = event.measured.map(|measured| measured.value).unwrap_or_default();
            // Delays are known as well as the buckets of a histogram tell.
            let value = if value.ends_with("ms") { "some ms" } else { &value };
            lines.push(format!("{second} {} {} {value}", event.kind.keyword(), event.class));
        });
    }
    assert_eq!(lines, expected, "{metric:?} {comparison:?} {goal}");
}

#[test]
fn an_alarm_begins_and_ends_once() {
    let p99 = (Metric::Delay(990), Comparison::Above, 0.010);
    let loss = (Metric::Loss, Comparison::AtLeast, 0.1);
    let rate = (Metric::Rate, Comparison::Below, 400e3);
    let backlog = (Metric::BacklogMax, Comparison::Above, 40e3);
    let began_slow = ["6 alarm-began voice some ms", "12 alarm-ended voice some ms"];
    let run = |trouble: Second, count: usize| {
        [vec![CALM; 3], vec![trouble; count], vec![CALM; 6]].concat()
    };
    check(p99, &run(SLOW, 6), &began_slow);
    check(p99, &run(SLOW, 2), &[]);
    // It is over only when it stays away; what was slow at the start counts no more.
    let again = [vec![SLOW; 4], vec![CALM; 2], vec![SLOW; 2], vec![CALM; 3]].concat();
    check(p99, &again, &["3 alarm-began voice some ms", "11 alarm-ended voice some ms"]);
    check(loss, &run(LOSSY, 4), &["6 alarm-began voice 20.000 %", "10 alarm-ended voice 0.000 %"]);
    let starved = ["6 alarm-began voice 0.080 Mbit/s", "10 alarm-ended voice 0.800 Mbit/s"];
    // One that has fallen silent ends with what was measured last.
    let silent = [vec![CALM; 3], vec![LOSSY; 4], vec![IDLE; 4]].concat();
    check(loss, &silent, &["6 alarm-began voice 20.000 %", "10 alarm-ended voice 20.000 %"]);
    check(rate, &run(STARVED, 4), &starved);
    // A class that has nothing to send is in no trouble.
    check(rate, &run(IDLE, 9), &[]);
    check(backlog, &run(SLOW, 4), &["6 alarm-began voice 50000 B", "10 alarm-ended voice 0 B"]);
    check((Metric::Drops, Comparison::Above, 20.0), &run(LOSSY, 2), &[]);
}

#[test]
fn a_class_is_the_sum_of_its_leaves() {
    let (one, two) = (counts(&[SLOW]), counts(&[LOSSY]));
    let leaves = [(&one[0], &one[1]), (&two[0], &two[1])];
    let window = Window::of(Duration::from_secs(2), leaves.into_iter());
    let rows = [
        (Metric::Rate, Some(800e3)),
        (Metric::Loss, Some(25.0 / 225.0)),
        (Metric::Drops, Some(25.0)),
        (Metric::BacklogMax, Some(50e3)),
        (Metric::DelayMean, Some(0.0255)),
    ];
    for (metric, wanted) in rows {
        assert_eq!(window.measure(metric), wanted, "{metric:?}");
    }
    assert!(window.waits);
    let nothing = Window::of(Duration::from_secs(1), [(&one[1], &one[1])].into_iter());
    assert_eq!([Metric::Delay(990), Metric::Loss].map(|metric| nothing.measure(metric)), [None; 2]);
}

#[test]
fn the_loop_leaves_its_counts_once_a_second_and_waits_for_no_reader() {
    let mut gauged = Gauged::default();
    let (gauge, places) = gauged.add(vec![(0, LeafId(3)), (1, LeafId(0)), (0, LeafId(3))]);
    assert_eq!(places, [0, 1, 0]);
    let at = |millis: u64| Instant::from_nanos((millis + 5000) * 1_000_000);
    let mut sample = |millis: u64, bytes: u64| {
        let counts = |lane: usize, leaf: LeafId| LeafMeasures {
            offered: lane as u64 * 100 + u64::from(leaf.0),
            delays: Histogram::new(),
            ..LeafMeasures::default()
        };
        gauged.sample(at(millis), |_, _| bytes, counts);
    };
    sample(0, 0);
    (1..=10).for_each(|step| sample(step * 100, if step == 5 { 700 } else { 10 }));
    let (left, counts) = gauge.newer(Some(at(0))).expect("a second has passed");
    let offered: Vec<_> = counts.iter().map(|count| count.offered).collect();
    assert_eq!((left, offered), (at(1000), vec![3, 100]));
    assert_eq!((counts[0].backlog_max, counts[0].waits), (700, true));
    assert!(gauge.newer(Some(left)).is_none(), "nothing is new");
}
