//! A changed tree goes on where the old one was: two links beside each other, one of which is
//! built anew in the middle, send the same.

use crate::hfsc::world::{Leaves, Random, Row, tree};
use weir_core::ids::LeafId;
use weir_core::sched::hfsc::Hfsc;
use weir_core::sched::{Changes, Discipline, Head, Kin, Scheduler, Selection, Tree};
use weir_core::units::{Bytes, Instant};

const LINE: u64 = 100_000_000;

fn rows(random: &mut Random) -> Vec<Row> {
    const M: u64 = 1_000_000;
    let curve = |random: &mut Random| (0, 0, M * (1 + random.below(30)));
    let mut rows =
        vec![Row { ls: Some((0, 0, 40 * M)), ul: Some((0, 0, 70 * M)), ..Row::default() }];
    for index in 0..6 {
        let parent = (index % 2 == 0).then_some(0);
        let ls = Some(curve(random));
        let rt = (index % 3 == 0).then_some((40 * M, 5_000_000, 5 * M));
        rows.push(Row { parent, ls, rt, ul: None });
    }
    rows
}

fn send(scheduler: &mut Hfsc, leaves: &mut Leaves, now: &mut u64) -> Option<usize> {
    loop {
        match scheduler.select(Instant::from_nanos(*now)) {
            Selection::Leaf(leaf) => {
                let (length, next) = leaves.pop(leaf);
                scheduler.charge(Instant::from_nanos(*now), leaf, length, next);
                *now += length.get() * 80;
                return Some(leaf.index());
            }
            Selection::At(at) => *now = at.as_nanos(),
            Selection::Idle => return None,
        }
    }
}

/// The scheduler built anew for `to`, told what waits.
fn rebuilt(old: &Hfsc, (from, to): (&Tree, &Tree), leaves: &Leaves, now: u64) -> Hfsc {
    let mut new = Hfsc::build(to).expect("the tree suits hfsc");
    let now = Instant::from_nanos(now);
    new.inherit(now, old, &Kin::by_name(from, to));
    for (leaf, packets) in leaves.0.iter().enumerate() {
        for (index, &length) in packets.iter().enumerate() {
            let (id, length) = (LeafId(leaf as u32), Bytes::new(length));
            if index == 0 {
                new.enqueued(now, id, Head { length, arrived: now });
            } else {
                new.joined(now, id, length);
            }
        }
    }
    new
}

#[test]
fn the_same_tree_built_anew_sends_in_the_same_order() {
    for seed in 1..=200 {
        let mut random = Random::new(seed);
        let tree = tree(LINE, &rows(&mut random));
        let mut scheduler = Hfsc::build(&tree).expect("the tree suits hfsc");
        let mut leaves = Leaves::new(tree.leaf_count());
        let mut now = 0;
        for (leaf, queue) in leaves.0.iter_mut().enumerate().filter(|row| row.0 != 3) {
            queue.extend((0..300).map(|_| random.one_of(&[64u64, 700, 1500])));
            let length = Bytes::new(queue[0]);
            let head = Head { length, arrived: Instant::ZERO };
            scheduler.enqueued(Instant::ZERO, LeafId(leaf as u32), head);
        }
        for _ in 0..100 + random.below(100) {
            send(&mut scheduler, &mut leaves, &mut now);
        }
        let mut anew = rebuilt(&scheduler, (&tree, &tree), &leaves, now);
        let (mut copy, mut then) = (leaves.clone(), now);
        for step in 0..400 {
            let (one, other) = (
                send(&mut scheduler, &mut leaves, &mut now),
                send(&mut anew, &mut copy, &mut then),
            );
            assert_eq!((one, now), (other, then), "seed {seed}, {step} packets after the change");
        }
    }
}

#[test]
fn a_class_whose_curve_changes_starts_anew_and_starves_nobody() {
    let mut random = Random::new(7);
    let old_rows = rows(&mut random);
    let mut new_rows = old_rows.clone();
    new_rows[2].ls = Some((0, 0, 77_000_000));
    new_rows[0].ul = Some((0, 0, 50_000_000));
    let (from, to) = (tree(LINE, &old_rows), tree(LINE, &new_rows));
    let mut scheduler = Hfsc::build(&from).expect("the tree suits hfsc");
    let mut leaves = Leaves::new(from.leaf_count());
    let mut now = 0;
    for leaf in 0..leaves.0.len() {
        leaves.0[leaf].extend([1000; 500]);
        let head = Head { length: Bytes::new(1000), arrived: Instant::ZERO };
        scheduler.enqueued(Instant::ZERO, LeafId(leaf as u32), head);
    }
    for _ in 0..1000 {
        send(&mut scheduler, &mut leaves, &mut now);
    }
    let mut scheduler = rebuilt(&scheduler, (&from, &to), &leaves, now);
    let mut sent = vec![0; leaves.0.len()];
    for _ in 0..300 {
        sent[send(&mut scheduler, &mut leaves, &mut now).expect("packets wait")] += 1;
    }
    let waits = |leaf: usize| !leaves.0[leaf].is_empty();
    assert!((0..sent.len()).all(|leaf| sent[leaf] > 3 || !waits(leaf)), "{sent:?}");
}
