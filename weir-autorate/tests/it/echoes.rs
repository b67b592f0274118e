//! Reflectors that are asked where nothing passes that tells: dead ones, and ones that lie.

use crate::modem::{Bulk, Model, Outcome, Reflector, limits, mbit};
use Reflector::{DeadFrom, Honest, Lies};
use weir_autorate::{Reason, Way};

const OURS: usize = 0;
const HONEST: [Reflector; 3] = [Honest(20), Honest(25), Honest(40)];

/// A modem of 6 Mbit/s, 3 for four seconds, and 6 again, for 16 seconds.
fn dips(ms: u64) -> u64 {
    if (6_000..10_000).contains(&ms) { 3_000_000 } else { 6_000_000 }
}

/// Four hosts whose bulk flows in this way say nothing, beside these reflectors.
fn run(way: Way, reflectors: &[Reflector]) -> Outcome {
    let limits = limits(1, 2, 20);
    let model = Model::new(limits, OURS, [dips; 2]).mute(limits, reflectors);
    let bulk = |host| Bulk { way, window: 200, trip_ms: 40, stamps: true, host };
    let outcome = (0..4).map(bulk).fold(model, Model::with).run(2_000, 16_000);
    let within = outcome.steps.iter().all(|step| limits.holds(step.to));
    assert!(within, "{way:?} {reflectors:?}");
    outcome
}

/// The percentage used, and the 95th percentile of the delay in ms.
fn figures(way: Way, reflectors: &[Reflector]) -> (u64, u64) {
    let outcome = run(way, reflectors);
    (outcome.used(way), outcome.delay(way, 95))
}

#[test]
fn reflectors_tell_where_nothing_does() {
    for way in Way::ALL {
        let blind = run(way, &[]);
        let last = blind.steps.iter().rfind(|step| step.way == way).expect("there were steps");
        assert_eq!((last.to, last.reason, blind.echoes), (mbit(2), Reason::Blind, 0), "{way:?}");
        let (used, delay) = figures(way, &HONEST);
        println!("{way:?}: {used} % used, p95 {delay} ms; blind {} %", blind.used(way));
        assert!(used >= 80 && delay <= 350, "{way:?}: {used} % used, p95 {delay} ms");
    }
}

#[test]
fn dead_reflectors_leave_the_base() {
    for way in Way::ALL {
        for reflectors in [[DeadFrom(0); 3], [DeadFrom(8_000); 3]] {
            let outcome = run(way, &reflectors);
            let later = outcome
                .steps
                .iter()
                .filter(|step| step.way == way && step.measure.at.as_nanos() >= 10_025_000_000);
            let mut later = later.peekable();
            assert!(later.peek().is_some());
            for step in later {
                assert_eq!((step.to, step.reason), (mbit(2), Reason::Blind), "{reflectors:?}");
            }
            assert!(outcome.echoes > 0, "it goes on to ask");
        }
    }
}

#[test]
fn a_reflector_that_lies_or_dies_does_not_move_the_rate() {
    for way in Way::ALL {
        let honest = figures(way, &HONEST);
        for odd in [Lies(0), Lies(500), Lies(2_000), DeadFrom(0), DeadFrom(8_000)] {
            let mut reflectors = HONEST.to_vec();
            reflectors.insert(1, odd);
            let found = figures(way, &reflectors);
            println!("{way:?}, {odd:?}: {found:?} beside {honest:?}");
            // Percents used, and milliseconds.
            assert!(found.0 + 6 >= honest.0, "{way:?}, {odd:?}: {found:?} beside {honest:?}");
            assert!(found.1 <= 350, "{way:?}, {odd:?}: {found:?} beside {honest:?}");
        }
    }
}
