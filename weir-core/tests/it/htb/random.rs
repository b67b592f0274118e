//! Random trees and workloads: the scheduler and the oracle agree to the bit, and no leaf exceeds
//! its buckets.

use crate::common::seeds;
use crate::htb::oracle::{Kernel, Oracle};
use crate::htb::world::{Leaves, Row, build, tree};
use weir_core::ids::LeafId;
use weir_core::parameter::{Params, Value};
use weir_core::random::Random;
use weir_core::sched::{Scheduler, Selection, Tree};
use weir_core::units::{Instant, Quantity};

struct Draws(Random);

impl Draws {
    fn new(seed: u64) -> Self {
        Self(Random::new(seed, 0))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.bits() % end
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// The packets and classes of a run.
struct Climate {
    rates: &'static [u64],
    lengths: &'static [u64],
    /// The longest pause between two arrivals, in ns.
    pauses: &'static [u64],
    classes_max: u64,
}

const USUAL: Climate = Climate {
    rates: &[64_000, 500_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000],
    lengths: &[64, 64, 512, 1000, 1500, 1514],
    pauses: &[1, 20_000, 300_000, 2_000_000],
    classes_max: 24,
};
const EXTREME: Climate = Climate {
    rates: &[1, 7, 8_000, 1_000_000, 999_999_937, 400_000_000_000],
    lengths: &[0, 1, 64, 1514, 9000, 65_535],
    pauses: &[0, 1, 1_000, 5_000_000, 70_000_000_000, 31_536_000_000_000_000],
    classes_max: 12,
};
const WIDE: Climate = Climate { classes_max: 200, ..USUAL };

fn random_tree(random: &mut Draws, climate: &Climate) -> Tree {
    let count = 1 + random.below(climate.classes_max);
    let mut depth: Vec<u32> = Vec::new();
    let mut extras = Vec::new();
    let mut places = Vec::new();
    let parents_among = 1 + random.below(count);
    for index in 0..count {
        let parent = random.below(index.min(parents_among) + 1);
        let parent = parent.checked_sub(1).filter(|&at| depth[at as usize] < 8);
        depth.push(parent.map_or(1, |parent| depth[parent as usize] + 1));
        let rate = random.one_of(climate.rates);
        let ceil = rate.max(random.one_of(climate.rates));
        places.push((parent.map(|parent| parent as u32), rate, ceil));
        let mut more = Vec::new();
        for (name, values) in [
            ("burst", [1u64, 1500, 15_000, 1 << 40]),
            ("cburst", [1, 1500, 18_000, 1 << 40]),
            ("quantum", [1, 600, 1514, 60_000]),
            ("prio", [0, 1, 3, 7]),
        ] {
            if random.below(2) == 0 {
                more.push((name, random.one_of(&values)));
            }
        }
        extras.push(more);
    }
    let rows: Vec<Row> = places
        .iter()
        .zip(&extras)
        .map(|(&(parent, rate, ceil), more)| ("x", parent, rate, ceil, &more[..]))
        .collect();
    tree(1_000_000_000, &rows)
}

/// The buckets that a leaf's departures must conform to, in units of 10^-9 bit.
struct Envelope {
    depth: i128,
    rate: i128,
    level: i128,
    at: u64,
}

impl Envelope {
    fn new(rate: u64, burst: u64) -> Self {
        let depth = i128::from(burst + 1514) * 8_000_000_000;
        Self { depth, rate: rate.into(), level: 0, at: 0 }
    }

    /// Returns whether bytes in every window so far are at most rate x window + burst + largest
    /// packet.
    fn holds(&mut self, now: u64, bytes: u64) -> bool {
        self.level -= i128::from(now - self.at) * self.rate;
        self.level = self.level.max(0) + i128::from(bytes) * 8_000_000_000;
        self.at = now;
        self.level <= self.depth
    }
}

/// Returns for each leaf the envelopes of its ceil and, for what it did not borrow, of its rate.
fn envelopes(tree: &Tree) -> Vec<(Envelope, Envelope)> {
    let envelope = |params: &weir_core::parameter::Params, rate: &str, burst: &str| {
        let rate = params.rate(rate).expect("rows have both").bits_per_second();
        let bytes = params.bytes(burst).map_or(rate / 2000 + 1600, |bytes| bytes.get());
        Envelope::new(rate, bytes)
    };
    tree.leaves()
        .map(|(_, class)| {
            (envelope(&class.params, "ceil", "cburst"), envelope(&class.params, "rate", "burst"))
        })
        .collect()
}

fn check(seed: u64, climate: &Climate, bounded: bool) -> usize {
    let mut random = Draws::new(seed);
    let tree = random_tree(&mut random, climate);
    let oracle = Oracle::new(&tree, None);
    compare((seed, random), climate, (&tree, build("htb", &tree), oracle), bounded)
}

/// As `check`, with the historic variant.
fn check_historic(seed: u64, climate: &Climate) -> usize {
    let mut random = Draws::new(seed);
    let tree = random_tree(&mut random, climate);
    let tick = random.one_of(&[100_000, 1_000_000, 10_000_000, 1_000_000_000]);
    let [hysteresis, rtab] = [0, 0].map(|_| random.below(2) == 0);
    let mut link = Params::new().with("hz", Quantity::Number(1_000_000_000 / tick));
    link.set("hysteresis", Value::Flag(hysteresis));
    link.set("rtab", Value::Choice(if rtab { "floor" } else { "exact" }));
    let classes = tree.classes().map(|(_, class)| class.clone()).collect();
    let tree = Tree::new(tree.rate(), tree.mtu(), link, classes).expect("it was a tree before");
    let oracle = Oracle::new(&tree, Some(Kernel { tick, hysteresis, rtab }));
    compare((seed, random), climate, (&tree, build("htb-2.6.5", &tree), oracle), false)
}

/// The tree, the scheduler and the oracle.
type Both<'a> = (&'a Tree, Box<dyn Scheduler + Send>, Oracle);

fn compare(source: (u64, Draws), climate: &Climate, both: Both, bounded: bool) -> usize {
    let ((seed, mut random), (tree, mut fast, mut slow)) = (source, both);
    let mut envelopes = envelopes(tree);
    let mut leaves = Leaves::new(tree.leaf_count());
    let (mut now, mut sent) = (Instant::ZERO, 0);
    for step in 0..300 {
        let pause = random.one_of(climate.pauses);
        let arrival = now.after(weir_core::units::Duration::from_nanos(random.below(pause + 1)));
        // At every instant that the scheduler named, until the next arrival.
        loop {
            let selection = fast.select(now);
            assert_eq!(selection, slow.select(now), "seed {seed} step {step} at {now:?}");
            assert_eq!(selection, fast.select(now), "seed {seed} step {step}: selected twice");
            match selection {
                Selection::Leaf(leaf) => {
                    let (bytes, next) = leaves.pop(leaf);
                    fast.charge(now, leaf, bytes, next);
                    slow.charge(now, leaf, bytes, next);
                    sent += 1;
                    let (ceil, rate) = &mut envelopes[leaf.index()];
                    let (nanos, length) = (now.as_nanos(), bytes.get());
                    assert!(!bounded || ceil.holds(nanos, length), "seed {seed}: above ceil");
                    let own = slow.level == 0;
                    assert!(!bounded || !own || rate.holds(nanos, length), "seed {seed}: rate");
                }
                Selection::At(at) => {
                    assert!(at > now, "seed {seed} step {step}: names a past instant");
                    if at > arrival {
                        break;
                    }
                    now = at;
                }
                Selection::Idle => {
                    assert!(leaves.0.iter().all(|queue| queue.is_empty()), "seed {seed}: idle");
                    break;
                }
            }
        }
        now = arrival;
        let leaf = LeafId(random.below(tree.leaf_count() as u64) as u32);
        if random.below(16) == 0 && leaves.head(leaf).is_some() {
            let (_, next) = leaves.pop(leaf);
            fast.head_changed(now, leaf, next);
            slow.head_changed(now, leaf, next);
        } else {
            for _ in 0..=random.below(3) {
                let head = leaves.push(leaf, random.one_of(climate.lengths));
                fast.enqueued(now, leaf, head);
                slow.enqueued(now, leaf, head);
            }
        }
    }
    sent
}

#[test]
fn it_agrees_with_the_oracle_and_stays_within_its_buckets() {
    let sent: usize = trials(800).map(|seed| check(seed, &USUAL, true)).sum();
    assert!(sent > 100_000, "only {sent} packets were sent: the workloads are too idle");
}

#[test]
fn it_agrees_with_the_oracle_in_wide_trees() {
    let sent: usize = trials(80).map(|seed| check(seed, &WIDE, true)).sum();
    assert!(sent > 10_000, "only {sent} packets were sent: the workloads are too idle");
}

#[test]
fn extreme_rates_lengths_and_pauses_neither_overflow_nor_stall() {
    let sent: usize = trials(400).map(|seed| check(seed, &EXTREME, false)).sum();
    assert!(sent > 40_000, "only {sent} packets were sent: the workloads are too idle");
}

#[test]
fn the_historic_variant_agrees_with_the_oracle() {
    let sent: usize = trials(400).map(|seed| check_historic(seed, &USUAL)).sum();
    assert!(sent > 40_000, "only {sent} packets were sent: the workloads are too idle");
    let sent: usize = trials(40).map(|seed| check_historic(seed, &WIDE)).sum();
    assert!(sent > 4_000, "only {sent} packets were sent: the workloads are too idle");
    // In a pause of a year it names an instant every second, so there are few such pauses.
    let patient = Climate { pauses: &[0, 1, 1_000, 5_000_000, 70_000_000_000], ..EXTREME };
    let sent: usize = trials(100).map(|seed| check_historic(seed, &patient)).sum();
    assert!(sent > 10_000, "only {sent} packets were sent: the workloads are too idle");
}

/// The seeds of workloads: so many on a change, with `WEIR_LAWS=5000` five times as many.
fn trials(count: u64) -> std::ops::Range<u64> {
    0..(count * seeds::laws() / 1000).max(count)
}
