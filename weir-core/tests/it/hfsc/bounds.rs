//! Tests against the curves themselves: deadlines are met, limits are not exceeded, and siblings'
//! virtual times stay together [algorithms §6.7].

use crate::hfsc::world::{Curve, LENGTH_MAX, Leaves, Random, Row, credit, hfsc, is_leaf, tree};
use weir_core::ids::LeafId;
use weir_core::sched::{Head, Scheduler, Selection, Tree};
use weir_core::units::{Bytes, Instant};

const SEEDS: u64 = 300;
const PACKETS: u64 = 2_000;

/// A packet that was sent.
struct Sent {
    leaf: usize,
    start: u64,
    finish: u64,
    length: u64,
}

/// A line of `line` bit/s around the scheduler; arrivals are generated whenever the line is free.
struct Line {
    scheduler: Box<dyn Scheduler + Send>,
    leaves: Leaves,
    now: u64,
    line: u64,
}

impl Line {
    fn new(tree: &Tree) -> Self {
        let leaves = Leaves::new(tree.leaf_count());
        Self { scheduler: hfsc(tree), leaves, now: 0, line: tree.rate().bits_per_second() }
    }

    fn arrive(&mut self, leaf: usize, length: u64) {
        let (at, id) = (Instant::from_nanos(self.now), LeafId(leaf as u32));
        self.leaves.0[leaf].push_back(length);
        if self.leaves.0[leaf].len() == 1 {
            let head = Head { length: Bytes::new(length), arrived: at };
            self.scheduler.enqueued(at, id, head);
        }
    }

    /// Sends a packet, or goes on to when one may be sent but not beyond `until`.
    fn step(&mut self, until: u64) -> Option<Sent> {
        match self.scheduler.select(Instant::from_nanos(self.now)) {
            Selection::Leaf(leaf) => {
                let (length, next) = self.leaves.pop(leaf);
                self.scheduler.charge(Instant::from_nanos(self.now), leaf, length, next);
                let start = self.now;
                self.now += (length.get() * 8_000_000_000).div_ceil(self.line);
                let (leaf, length) = (leaf.index(), length.get());
                return Some(Sent { leaf, start, finish: self.now, length });
            }
            Selection::At(at) => self.now = at.as_nanos().min(until.max(self.now + 1)),
            Selection::Idle => self.now = until.max(self.now),
        }
        None
    }
}

/// Bytes that a curve gives in `nanos`, rounded down.
fn bytes(curve: Curve, nanos: u64) -> u64 {
    let (m1, d, m2) = curve;
    let bits = u128::from(m1) * u128::from(nanos.min(d))
        + u128::from(m2) * u128::from(nanos.saturating_sub(d));
    (bits / 8_000_000_000) as u64
}

/// The guaranteed service of a leaf: of every time at which it became backlogged, the bytes served
/// until then and by the curve since, the least.
struct Guarantee {
    curve: Curve,
    begun: Vec<(u64, u64)>,
    served: u64,
}

impl Guarantee {
    fn at(&self, now: u64) -> u64 {
        let since = |&(at, served): &(u64, u64)| served + bytes(self.curve, now - at);
        self.begun.iter().map(since).min().unwrap_or(0)
    }
}

/// Leaves that may be guaranteed their curves on a line of `line` bit/s, and two without.
fn admissible(random: &mut Random, line: u64) -> Vec<Row> {
    let mut left = line;
    let mut rows = Vec::new();
    for _ in 0..2 + random.below(5) {
        let steep = 1 + random.below(left.min(line / 2));
        let flat = 1 + random.below(steep);
        let d = 1_000_000 * (1 + random.below(30));
        let curve = random.one_of(&[(steep, d, flat), (0, 0, steep), (0, d, steep)]);
        left -= steep;
        // Curves that bend upwards too count with their last slope only.
        let ls = (random.below(3) > 0).then(|| (0, 0, 1 + random.below(line)));
        rows.push(Row { rt: Some(curve), ls, ..Row::default() });
        if left < 10 {
            break;
        }
    }
    rows.push(Row { ls: Some((0, 0, line)), ..Row::default() });
    rows.push(Row { ls: Some((0, 0, 1 + random.below(line))), ..Row::default() });
    rows
}

#[test]
fn admissible_real_time_curves_are_met_but_for_a_packet() {
    for seed in 1..=SEEDS {
        let mut random = Random::new(seed);
        let line = random.one_of(&[1_000_000, 10_000_000, 155_000_000, 10_000_000_000]);
        let rows = admissible(&mut random, line);
        let mut run = Line::new(&tree(line, &rows));
        let mut guarantees: Vec<Guarantee> = rows
            .iter()
            .map(|row| Guarantee { curve: row.rt.unwrap_or((0, 0, 0)), begun: vec![], served: 0 })
            .collect();
        let packet_time = LENGTH_MAX * 8_000_000_000 / line + 2;
        let mut since = vec![u64::MAX; rows.len()];
        for _ in 0..PACKETS {
            for _ in 0..random.below(3) {
                let leaf = random.below(rows.len() as u64) as usize;
                for _ in 0..1 + random.below(8) {
                    if run.leaves.0[leaf].is_empty() {
                        let Guarantee { begun, served, .. } = &mut guarantees[leaf];
                        begun.push((run.now, *served));
                        since[leaf] = run.now;
                    }
                    run.arrive(leaf, random.one_of(&[64, 600, LENGTH_MAX]));
                }
            }
            let until = run.now + random.below(20 * packet_time);
            let Some(sent) = run.step(until) else { continue };
            guarantees[sent.leaf].served += sent.length;
            for (leaf, guarantee) in guarantees.iter().enumerate() {
                if run.leaves.0[leaf].is_empty() {
                    continue;
                }
                // What the curve gave a packet time ago is served, but for a part of a packet.
                let due = sent.finish.saturating_sub(packet_time).max(since[leaf]);
                let missing = guarantee.at(due).saturating_sub(guarantee.served);
                assert!(missing < LENGTH_MAX, "seed {seed} leaf {leaf}: {missing} B too late");
            }
        }
    }
}

#[test]
fn an_upper_limit_is_kept_in_every_window() {
    for seed in 1..=SEEDS {
        let mut random = Random::new(seed);
        let line = random.one_of(&[1_000_000, 100_000_000, 10_000_000_000]);
        let mut rows = Vec::new();
        for index in 0..2 + random.below(6) as usize {
            let parent = random.below(index as u64 + 1).checked_sub(1).map(|at| at as usize);
            let m2 = 1 + random.below(line);
            let d = 1_000_000 * random.below(20);
            let steep = (m2 + random.below(line), d, m2);
            let ul = random.one_of(&[None, Some((0, 0, m2)), Some(steep)]);
            let ls = Some((0, 0, 1 + random.below(line)));
            rows.push(Row { parent, ls, ul, rt: None });
        }
        let mut run = Line::new(&tree(line, &rows));
        let leaves: Vec<usize> = (0..rows.len()).filter(|&at| is_leaf(&rows, at)).collect();
        let mut sent: Vec<Vec<(u64, u64)>> = vec![Vec::new(); rows.len()];
        let busy = random.below(3);
        for _ in 0..PACKETS / 4 {
            for leaf in 0..leaves.len() {
                let room = if busy == 0 { 4 } else { random.below(3) as usize };
                for _ in run.leaves.0[leaf].len()..room {
                    run.arrive(leaf, random.one_of(&[64, 600, LENGTH_MAX]));
                }
            }
            let Some(packet) = run.step(run.now + 10_000_000) else { continue };
            let mut at = Some(leaves[packet.leaf]);
            while let Some(class) = at {
                sent[class].push((packet.start, packet.length));
                at = rows[class].parent;
            }
        }
        for (class, sent) in sent.iter().enumerate() {
            let Some(ul) = rows[class].ul else { continue };
            // It may be late by its credit, and a packet may be begun.
            let late = credit(line, &rows, class) + 1;
            within(ul, sent, late, &format!("seed {seed} class {class}"));
        }
    }
}

/// Asserts that in every window the bytes are at most those of the curve in a time longer by `late`
/// and one largest packet [algorithms §6.7].
fn within(curve: Curve, sent: &[(u64, u64)], late: u64, name: &str) {
    for from in 0..sent.len() {
        let mut sum = 0;
        for &(at, length) in &sent[from..] {
            sum += length;
            let time = at - sent[from].0;
            let bound = bytes(curve, time + late) + LENGTH_MAX + 1;
            assert!(sum <= bound, "{name}: {sum} B in {time} ns, {bound} allowed");
        }
    }
}

#[test]
fn siblings_that_wait_stay_within_two_packets_of_each_other() {
    for seed in 1..=SEEDS {
        let mut random = Random::new(seed);
        let line = 1_000_000_000;
        let slopes: Vec<u64> = (0..2 + random.below(20)).map(|_| 1 + random.below(line)).collect();
        let row = |&slope: &u64| Row { ls: Some((0, 0, slope)), ..Row::default() };
        let rows: Vec<Row> = slopes.iter().map(row).collect();
        let mut run = Line::new(&tree(line, &rows));
        let mut served = vec![0u64; rows.len()];
        for _ in 0..PACKETS {
            for leaf in 0..rows.len() {
                if run.leaves.0[leaf].len() < 2 {
                    run.arrive(leaf, random.one_of(&[64, 600, LENGTH_MAX]));
                }
            }
            let sent = run.step(u64::MAX).expect("no class is held back");
            served[sent.leaf] += sent.length;
            // The leaf served last had the smallest virtual time, and is ahead by one packet at
            // most.
            for (leaf, &slope) in slopes.iter().enumerate() {
                let lead = served[sent.leaf] as f64 / slopes[sent.leaf] as f64
                    - served[leaf] as f64 / slope as f64;
                let bound = (sent.length + 1) as f64 / slopes[sent.leaf] as f64;
                let bound = bound + 1.0 / slopes.iter().copied().max().unwrap_or(1) as f64;
                assert!(lead <= bound, "seed {seed}: {lead} ahead of {leaf}, {bound} allowed");
            }
        }
    }
}
