//! A controller in front of a modem: it uses what the modem can carry, and keeps its queue short.

use crate::modem::{Bulk, Model, Outcome, limits, mbit};
use weir_autorate::{Reason, Way};

const OURS: usize = 0;

fn bulk(way: Way, host: u32) -> Bulk {
    Bulk { way, window: 400, trip_ms: 40, stamps: true, host }
}

fn run(controller: usize, way: Way, capacity: fn(u64) -> u64, stamps: bool) -> Outcome {
    let mut model = Model::new(limits(2, 10, 100), controller, [capacity; 2]);
    for host in 0..4 {
        model = model.with(Bulk { stamps, trip_ms: 30 + 10 * u64::from(host), ..bulk(way, host) });
    }
    model.run(3_000, 23_000)
}

/// The least share used in percent, and the largest p95 of the delay in milliseconds.
fn check(name: &str, way: Way, capacity: fn(u64) -> u64, (used, delay): (u64, u64)) {
    // Without timestamps nothing tells of a download: what goes up are acknowledgements.
    let kinds: &[bool] = if way == Way::Up { &[true, false] } else { &[true] };
    for &stamps in kinds {
        let ours = run(OURS, way, capacity, stamps);
        let peer = run(1, way, capacity, stamps);
        let row = |outcome: &Outcome| {
            let [half, most] = [50, 95].map(|percent| outcome.delay(way, percent));
            format!("{} % p50 {half} p95 {most} ms", outcome.used(way))
        };
        let (ours_row, peer_row) = (row(&ours), row(&peer));
        println!("{name} {way:?} stamps {stamps}: {ours_row}; cake-autorate {peer_row}");
        assert!(ours.used(way) >= used, "{name} {way:?} {stamps}: {ours_row}");
        assert!(ours.delay(way, 95) <= delay, "{name} {way:?} {stamps}: {ours_row}");
        let is_better = ours.delay(way, 95) < peer.delay(way, 95);
        assert!(is_better, "{name} {way:?} {stamps}: {ours_row}, {peer_row}");
    }
}

#[test]
fn a_steady_modem_is_used_and_its_queue_short() {
    check("steady", Way::Up, |_| 40_000_000, (95, 50));
    check("steady", Way::Down, |_| 40_000_000, (95, 60));
}

#[test]
fn steps_of_the_capacity_are_followed() {
    let steps = |ms: u64| if (ms / 5_000).is_multiple_of(2) { 40_000_000 } else { 15_000_000 };
    check("steps", Way::Up, steps, (90, 100));
    check("steps", Way::Down, steps, (90, 100));
}

#[test]
fn a_capacity_that_wanders_is_followed() {
    // Each half second one of 16 rates of 10 to 40 Mbit/s, next to the last one.
    let wander = |ms: u64| {
        let place = ms / 500;
        let walk = (place + place % 3) % 30;
        10_000_000 + if walk < 15 { walk } else { 30 - walk } * 2_000_000
    };
    check("wander", Way::Up, wander, (90, 100));
    check("wander", Way::Down, wander, (95, 380));
}

#[test]
fn five_seconds_without_capacity_leave_no_trace_after_two_more() {
    let gap = |ms: u64| if (8_000..13_000).contains(&ms) { 0 } else { 30_000_000 };
    for way in Way::ALL {
        let outcome = run(OURS, way, gap, true);
        let later: Vec<_> = outcome
            .steps
            .iter()
            .filter(|step| step.way == way && step.measure.at.as_nanos() > 16_000_000_000)
            .collect();
        let low = later.iter().map(|step| step.to.bits_per_second()).min();
        assert!(low.is_some_and(|low| low > 12_000_000), "{way:?}: {low:?}");
    }
}

#[test]
fn a_longer_path_is_not_taken_for_a_queue() {
    let outcome = run(OURS, Way::Up, |_| 40_000_000, true);
    let paths = outcome.steps.iter().filter(|step| step.reason == Reason::Path).count();
    assert_eq!(paths, 0, "a modem's queue is none");
}

#[test]
fn a_download_that_tells_nothing_gets_the_base() {
    let outcome = run(OURS, Way::Down, |_| 40_000_000, false);
    let last = outcome.steps.iter().rfind(|step| step.way == Way::Down).expect("there were steps");
    assert_eq!((last.to, last.reason), (mbit(10), Reason::Blind));
}
