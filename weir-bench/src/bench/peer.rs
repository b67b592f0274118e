//! Schedulers beside DPDK's `rte_sched`, in one run on one core: the ratio of the costs.
//!
//! The peer's program is `bench/rte_sched/rte_sched.c`, which `bench/peers` builds. Both run a
//! closed loop: as many packets a queue, batches of 32, random leaves, the same mixed lengths. In
//! each round the peer runs once and every scheduler after it, so that all run at about the same
//! time; ratios are taken within a round, and are reported without a goal.

use crate::bench::road::{Lengths, Road, group_of};
use crate::bench::{entries, median};
use serde::Serialize;
use std::path::Path;
use std::process::Command;

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The number of leaves.
    pub leaves: usize,
    /// ns per packet, the median of the rounds.
    pub nanos: f64,
    /// ns per packet of the peer.
    pub peer_nanos: f64,
    /// One to the other, the median of the rounds.
    pub ratio: f64,
}

/// Runs `program` beside the schedulers, or those named `only`, at `leaves`, in `rounds` rounds.
///
/// # Errors
/// When the peer's program cannot be run or prints something else than expected.
pub fn measure(
    program: &Path,
    only: &[String],
    leaves: &[usize],
    rounds: usize,
    mut progress: impl FnMut(&Row),
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for set_up in SET_UPS.iter().filter(|set_up| leaves.contains(&set_up.leaves)) {
        for row in beside(program, only, set_up, rounds)? {
            progress(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The numbers of leaves for which the peer has a set-up.
pub fn leaves() -> Vec<usize> {
    SET_UPS.iter().map(|set_up| set_up.leaves).collect()
}

/// The number of rows that [`measure`] makes.
pub fn rows(only: &[String], leaves: &[usize]) -> usize {
    let set_ups = SET_UPS.iter().filter(|set_up| leaves.contains(&set_up.leaves)).count();
    set_ups * if only.is_empty() { SUBJECTS.len() } else { only.len() }
}

fn beside(
    program: &Path,
    only: &[String],
    set_up: &SetUp,
    rounds: usize,
) -> Result<Vec<Row>, String> {
    let mut subjects = Vec::new();
    for entry in
        if only.is_empty() { entries(&SUBJECTS.map(str::to_owned))? } else { entries(only)? }
    {
        let group = group_of(set_up.leaves);
        let mut road = Road::new(entry, set_up.leaves, group, set_up.population(), Lengths::Mixed);
        road.run(set_up.packets() / 2);
        subjects.push((entry.descriptor.keyword, road, Vec::new(), Vec::new()));
    }
    let mut peer_nanos = Vec::new();
    for _ in 0..rounds {
        let theirs = peer(program, set_up)?;
        peer_nanos.push(theirs);
        for (_, subject, nanos, ratios) in &mut subjects {
            let mine = subject.run(set_up.packets());
            nanos.push(mine);
            ratios.push(mine / theirs);
        }
    }
    let peer_nanos = median(&mut peer_nanos);
    let row = |(scheduler, _, mut nanos, mut ratios): (_, Road, Vec<f64>, Vec<f64>)| Row {
        scheduler,
        leaves: set_up.leaves,
        nanos: median(&mut nanos),
        peer_nanos,
        ratio: median(&mut ratios),
    };
    Ok(subjects.into_iter().map(row).collect())
}

/// ns per packet of the peer, one run.
fn peer(program: &Path, set_up: &SetUp) -> Result<f64, String> {
    let output = Command::new(program).args(set_up.peer.split(' ')).output().map_err(|error| {
        format!("cannot run {}: {error}; bench/peers builds it", program.display())
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = text.split_once(" sum ").and_then(|(_, rest)| rest.split_once(" ns/pkt"));
    sum.and_then(|(nanos, _)| nanos.parse().ok()).ok_or_else(|| {
        let trouble = String::from_utf8_lossy(&output.stderr);
        format!("{} with `{}` gave no figure: {text}{trouble}", program.display(), set_up.peer)
    })
}

/// One size of the comparison.
struct SetUp {
    leaves: usize,
    /// The peer's arguments: subports, pipes, queues a pipe, packets a queue, rounds, rate of a
    /// pipe, size of a queue.
    peer: &'static str,
}

impl SetUp {
    /// Packets that circulate: as many as in the peer.
    fn population(&self) -> usize {
        let each = match self.leaves {
            ..16 => 16,
            16..500_000 => 4,
            _ => 1,
        };
        (self.leaves * each).max(128)
    }

    const fn packets(&self) -> u64 {
        if self.leaves > SMALL_MAX { 3_200_000 } else { 1_600_000 }
    }
}

/// The trees of leaves that both programs run.
const SET_UPS: &[SetUp] = &[
    SetUp { leaves: 8, peer: "1 8 1 16 100000 free 256" },
    SetUp { leaves: 104, peer: "1 8 13 4 100000 free 64" },
    SetUp { leaves: 1_024, peer: "1 1024 1 4 100000 fair 64" },
    SetUp { leaves: 53_248, peer: "1 4096 13 4 100000 fair 64" },
    SetUp { leaves: 1_048_576, peer: "16 4096 16 1 100000 fair 16" },
];
const SMALL_MAX: usize = 1_024;

/// The schedulers that are measured unless others are named.
const SUBJECTS: [&str; 10] =
    ["fifo", "priq", "wrr", "drr", "qfq", "wf2q+", "altq-wfq", "htb", "cbq", "hfsc"];
