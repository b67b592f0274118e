//! The worked example of [algorithms §4.2]: eleven packets of one leaf with half of the line, one
//! each of ten others with a twentieth, all there at once.

use crate::gps::workload::{Arrival, Workload};

fn check(scheduler: &str, order: &[usize]) {
    let weights = [vec![10], vec![1; 10]].concat();
    let at_once = |leaf| Arrival { at: 0, leaf, length: 1000 };
    let arrivals = (0..11).map(|_| 0).chain(1..11).map(at_once).collect();
    let sent = Workload { weights, arrivals }.run(scheduler);
    let sent: Vec<_> = sent.iter().map(|departure| departure.leaf.index() + 1).collect();
    assert_eq!(sent, order, "{scheduler}");
}

#[test]
fn wfq_runs_ahead_of_the_fluid_and_wf2q_does_not() {
    check("wfq", &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1]);
    let alternating: Vec<_> = (2..=11).flat_map(|other| [1, other]).chain([1]).collect();
    check("wf2q+", &alternating);
}
