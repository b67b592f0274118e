//! Generalised processor sharing, step by step: between two events every leaf that has bytes left
//! drains at its weight over the sum of the weights that drain [parekh93 §II].
//!
//! Times are ns, and a byte takes `NANOS_PER_BYTE` of the whole line. With the workloads of these
//! tests 53 bits leave errors much smaller than a nanosecond; `SLACK` allows for them.

use crate::gps::workload::{NANOS_PER_BYTE, Workload};
use std::collections::VecDeque;

/// Returns when the fluid finishes each packet of the workload, in the order of arrivals.
pub fn finishes(workload: &Workload) -> Vec<f64> {
    let mut finishes = vec![0.0; workload.arrivals.len()];
    let mut leaves: Vec<VecDeque<(usize, f64)>> = vec![VecDeque::new(); workload.weights.len()];
    let (mut now, mut next) = (0.0, 0);
    loop {
        let arrival = workload.arrivals.get(next).map(|arrival| arrival.at as f64);
        let busy = |leaf: &usize| !leaves[*leaf].is_empty();
        let weight: f64 =
            (0..leaves.len()).filter(busy).map(|leaf| workload.weights[leaf] as f64).sum();
        let pace = |leaf: usize| weight / workload.weights[leaf] as f64 * NANOS_PER_BYTE as f64;
        let end = |leaf: usize| now + leaves[leaf][0].1 * pace(leaf);
        let first = (0..leaves.len()).filter(busy).min_by(|&a, &b| end(a).total_cmp(&end(b)));
        let until = match (first.map(end), arrival) {
            (None, None) => return finishes,
            (end, arrival) => end.unwrap_or(f64::INFINITY).min(arrival.unwrap_or(f64::INFINITY)),
        };
        let paces: Vec<f64> = (0..leaves.len()).map(pace).collect();
        for (leaf, pace) in leaves.iter_mut().zip(paces) {
            if let Some(head) = leaf.front_mut() {
                head.1 -= (until - now) / pace;
            }
        }
        now = until;
        if arrival == Some(until) {
            let arrival = &workload.arrivals[next];
            leaves[arrival.leaf].push_back((next, f64::from(arrival.length)));
            next += 1;
        } else if let Some(leaf) = first {
            let (packet, _) = leaves[leaf].pop_front().expect("a busy leaf has a packet");
            finishes[packet] = now;
        }
    }
}

/// The error of bounds, in ns.
pub const SLACK: f64 = 2.0;
