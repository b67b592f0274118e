//! Random trees and workloads: the scheduler and the twin select the same leaves and instants.
//! The rates divide, so that slopes are exact on both sides.

use crate::common::seeds::seeds;
use crate::hfsc::oracle::{Choice, Oracle};
use crate::hfsc::world::{Credit, Curve, Leaves, Random, Row, hfsc, is_leaf, tree_with};
use weir_core::ids::{ClassId, LeafId};
use weir_core::sched::{Head, Scheduler, Selection, Tree};
use weir_core::units::{Bytes, Instant};

const LINE: u64 = 100_000_000;
const RATES: &[u64] = &[1_000_000, 2_000_000, 5_000_000, 10_000_000, 16_000_000, 40_000_000];
const LENGTHS: &[u64] = &[64, 64, 500, 1000, 1500, 1500];
/// The longest pause between two events, in ns.
const PAUSES: &[u64] = &[0, 1, 10_000, 300_000, 5_000_000];
/// Runs; a thousand times as many were tried by hand.
const SEEDS: u64 = 400;
const STEPS: u64 = 400;

/// The kinds of curves in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shapes {
    Linear,
    Any,
}

fn curve(random: &mut Random, shapes: Shapes) -> Curve {
    let m2 = random.one_of(RATES);
    let d = random.one_of(&[0, 0, 10_000_000, 20_000_000]);
    if d == 0 || shapes == Shapes::Linear {
        return (0, 0, m2);
    }
    (random.one_of(&[0, 1_000_000, 20_000_000, 40_000_000]), d, m2)
}

fn random_rows(random: &mut Random, shapes: Shapes, limits: bool) -> Vec<Row> {
    let count = 1 + random.below(12);
    let parents = 1 + random.below(count);
    let mut rows: Vec<Row> = Vec::new();
    let mut depth: Vec<u32> = Vec::new();
    for index in 0..count {
        let parent = random.below(index.min(parents) + 1).checked_sub(1).map(|at| at as usize);
        let parent = parent.filter(|&at| depth[at] < 4);
        depth.push(parent.map_or(1, |parent| depth[parent] + 1));
        rows.push(Row { parent, ..Row::default() });
    }
    for index in 0..rows.len() {
        let kind = if is_leaf(&rows, index) { random.below(6) } else { 0 };
        rows[index].ls = (kind < 5).then(|| curve(random, shapes));
        rows[index].rt = (kind > 2).then(|| curve(random, shapes));
        let limited = limits && kind < 5 && random.below(4) == 0;
        rows[index].ul = limited.then(|| curve(random, shapes));
    }
    rows
}

/// The scheduler and the twin, side by side.
struct Pair {
    tree: Tree,
    scheduler: Box<dyn Scheduler + Send>,
    twin: Oracle,
    leaves: Leaves,
    now: u64,
    trace: Vec<String>,
}

impl Pair {
    fn new(rows: &[Row], rule: Credit) -> Self {
        let tree = tree_with(LINE, rows, rule);
        let (scheduler, leaves) = (hfsc(&tree), Leaves::new(tree.leaf_count()));
        let (twin, trace) = (Oracle::new(LINE, rows, rule), Vec::new());
        Self { tree, scheduler, twin, leaves, now: 0, trace }
    }

    fn row(&self, leaf: LeafId) -> usize {
        self.tree.class_of(leaf).index()
    }

    fn at(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn arrive(&mut self, leaf: LeafId, length: u64) {
        self.trace.push(format!("{} arrives {} {length}", self.now, self.row(leaf)));
        self.leaves.0[leaf.index()].push_back(length);
        if self.leaves.0[leaf.index()].len() == 1 {
            let head = Head { length: Bytes::new(length), arrived: self.at() };
            self.scheduler.enqueued(self.at(), leaf, head);
            self.twin.enqueued(self.now, self.row(leaf), length);
        } else {
            self.scheduler.joined(self.at(), leaf, Bytes::new(length));
        }
    }

    fn drop_head(&mut self, leaf: LeafId) {
        if self.leaves.0[leaf.index()].is_empty() {
            return;
        }
        self.trace.push(format!("{} drops {}", self.now, self.row(leaf)));
        let (_, next) = self.leaves.pop(leaf);
        self.scheduler.head_changed(self.at(), leaf, next);
        self.twin.dropped(self.now, self.row(leaf), next.map(|head| head.length.get()));
    }

    /// Serves a packet in both; returns the wait if no class may send.
    fn serve(&mut self) -> Option<u64> {
        let expected = self.twin.select(self.now);
        let found = self.scheduler.select(self.at());
        let as_found = match expected {
            Choice::Class(row, _) => {
                let leaf = self.tree.leaf_of(ClassId(row as u32)).expect("a leaf is chosen");
                Selection::Leaf(leaf)
            }
            Choice::At(at) => Selection::At(Instant::from_nanos(at)),
            Choice::Idle => Selection::Idle,
        };
        self.trace.push(format!("{} {expected:?} {found:?}", self.now));
        assert_eq!(found, as_found, "at {} the twin says {expected:?}", self.now);
        match (expected, found) {
            (Choice::Class(row, chosen), Selection::Leaf(leaf)) => {
                let (length, next) = self.leaves.pop(leaf);
                self.scheduler.charge(self.at(), leaf, length, next);
                let next = next.map(|head| head.length.get());
                self.twin.sent(self.now, row, length.get(), chosen, next);
                // A line at its rate: 80 ns a byte.
                self.now += length.get() * 80;
                None
            }
            (Choice::At(at), _) => Some(at),
            _ => Some(self.now + 1_000_000),
        }
    }
}

fn run(seed: u64, shapes: Shapes, limits: bool) {
    let mut random = Random::new(seed);
    let rows = random_rows(&mut random, shapes, limits);
    let rule = random.one_of(&[Credit::Bounded, Credit::Bounded, Credit::Altq, Credit::Linux]);
    let mut pair = Pair::new(&rows, rule);
    let leaves = pair.leaves.0.len() as u64;
    let rush = random.one_of(&[2, 4, 6]);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..STEPS {
            let leaf = LeafId(random.below(leaves) as u32);
            match random.below(10) {
                step if step < rush => pair.arrive(leaf, random.one_of(LENGTHS)),
                9 => pair.drop_head(leaf),
                8 => {
                    let pause = random.one_of(PAUSES);
                    pair.now += random.below(pause + 1);
                }
                _ => {
                    if let Some(at) = pair.serve()
                        && random.below(2) == 0
                    {
                        pair.now = at;
                    }
                }
            }
        }
    }));
    if outcome.is_err() {
        let (from, rows) = (pair.trace.len().saturating_sub(30), rows.iter().enumerate());
        rows.for_each(|(index, row)| println!("{index}: {row:?}"));
        pair.trace[from..].iter().for_each(|line| println!("{line}"));
        panic!("the twin differs with seed {seed}, {shapes:?}, limits {limits}, credit {rule:?}");
    }
}

fn check(shapes: Shapes, limits: bool) {
    for seed in seeds(SEEDS) {
        run(seed, shapes, limits);
    }
}

#[test]
fn straight_curves_give_the_order_of_the_twin() {
    check(Shapes::Linear, false);
}

#[test]
fn bent_curves_give_the_order_of_the_twin() {
    check(Shapes::Any, false);
}

#[test]
fn straight_limits_give_the_order_of_the_twin() {
    check(Shapes::Linear, true);
}

#[test]
fn bent_limits_give_the_order_of_the_twin() {
    check(Shapes::Any, true);
}
