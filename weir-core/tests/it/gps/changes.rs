//! Drops, changes of the tree, and years of service: cases that random workloads do not reach.

use crate::gps::workload::{NANOS_PER_BYTE, keyword, tree};
use weir_core::ids::LeafId;
use weir_core::random::Random;
use weir_core::sched::{Head, Scheduler, Selection, find};
use weir_core::units::{Bytes, Duration, Instant};

const FAIR: [&str; 4] = ["wfq", "wf2q+", "qfq", "sfq"];

fn head(length: u64) -> Head {
    Head { length: Bytes::new(length), arrived: Instant::ZERO }
}

/// A scheduler in which every leaf is always backlogged, and a line at its rate.
struct Saturated {
    scheduler: Box<dyn Scheduler + Send>,
    now: Instant,
    /// The length of every packet.
    length: u64,
    sent: Vec<u64>,
}

impl Saturated {
    fn new(scheduler: &str, weights: &[u64], length: u64) -> Self {
        let entry = find(keyword(scheduler)).expect("registered");
        let mut scheduler = (entry.build)(&tree(scheduler, weights)).expect("any weights");
        for leaf in 0..weights.len() as u32 {
            scheduler.enqueued(Instant::ZERO, LeafId(leaf), head(length));
        }
        Self { scheduler, now: Instant::ZERO, length, sent: vec![0; weights.len()] }
    }

    /// Sends a packet and replaces it with another.
    fn send(&mut self) -> LeafId {
        let Selection::Leaf(leaf) = self.scheduler.select(self.now) else {
            panic!("leaves are backlogged and none may send")
        };
        let length = Bytes::new(self.length);
        self.scheduler.joined(self.now, leaf, length);
        self.scheduler.charge(self.now, leaf, length, Some(head(self.length)));
        self.sent[leaf.index()] += self.length;
        self.now = self.now.after(Duration::from_nanos(self.length * NANOS_PER_BYTE));
        leaf
    }
}

#[test]
fn shares_hold_after_years_of_service() {
    // Tags pass 2^64 several times: a single leaf's byte is 2^30 of virtual time.
    for scheduler in FAIR {
        for weights in [&[1u64, 2][..], &[1, 65_535], &[7]] {
            let mut run = Saturated::new(scheduler, weights, 65_535);
            let total: u64 = weights.iter().sum();
            for _ in 0..300_000 {
                run.send();
            }
            let all: u64 = run.sent.iter().sum();
            for (sent, weight) in run.sent.iter().zip(weights) {
                let fair = all as f64 * *weight as f64 / total as f64;
                let off = (*sent as f64 - fair).abs();
                // One part in 2^23 for rounding, and a few of the longest packets.
                let bound = all as f64 / f64::from(1 << 23) + 70.0 * 65_535.0;
                assert!(off <= bound, "{scheduler} {weights:?}: {off} bytes off");
            }
        }
    }
}

#[test]
fn dropped_packets_cost_their_leaf_nothing() {
    for scheduler in FAIR {
        let mut run = Saturated::new(scheduler, &[1, 1, 1], 1000);
        let mut random = Random::new(1, 0);
        for _ in 0..30_000 {
            let leaf = run.send();
            // The first leaf loses packets all the time, and is sometimes empty for a moment.
            match random.below(4) {
                0 => run.scheduler.head_changed(run.now, LeafId(0), Some(head(1000))),
                1 if leaf == LeafId(0) => {
                    run.scheduler.head_changed(run.now, LeafId(0), None);
                    run.scheduler.enqueued(run.now, LeafId(0), head(1000));
                }
                _ => {}
            }
        }
        for sent in &run.sent {
            let off = sent.abs_diff(10_000_000);
            assert!(off <= 100_000, "{scheduler}: {:?}", run.sent);
        }
    }
}
