//! Compares schedulers with weights with a plain twin that examines every leaf for each choice.

use super::{ClassSpec, Discipline, Head, Kin, Selection, Tree};
use crate::ids::LeafId;
use crate::parameter::Params;
use crate::random::Random;
use crate::units::{Bytes, Duration, Instant, Quantity, Rate};
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;

/// An oracle that a scheduler is compared with: a model of its own, or the rule applied to its
/// state.
pub(super) trait Twin<S> {
    /// bit/s of the line.
    const LINE: u64;
    /// Whether packets are dropped, too.
    const DROPS: bool;
    /// Packets are up to so long.
    const LONGEST: u64 = MTU;

    fn new(tree: &Tree) -> Self;

    /// The leaf that is to be chosen; `None` if none waits.
    fn choice(&self, scheduler: &S) -> Option<usize>;

    /// `leaf` was empty and has a packet now.
    fn enqueued(&mut self, _leaf: usize) {}

    /// `leaf` sent a packet of `length`; whether another waits.
    fn charged(&mut self, _leaf: usize, _length: u64, _waits: bool) {}
}

/// Leaves of these weights under one line.
pub(super) fn tree(line: u64, weights: &[u64]) -> Tree {
    let class = |(index, &weight): (usize, &u64)| ClassSpec {
        name: index.to_string(),
        parent: None,
        params: Params::new().with("weight", Quantity::Number(weight)),
    };
    let classes = weights.iter().enumerate().map(class).collect();
    let rate = Rate::new(line).expect("not zero");
    Tree::new(rate, Bytes::new(MTU), Params::new(), classes).expect("flat")
}

pub(super) fn head(length: u64) -> Head {
    Head { length: Bytes::new(length), arrived: Instant::ZERO }
}

/// Both serve random arrivals in the same order.
pub(super) fn check<S: Discipline, T: Twin<S>>(seed: u64, weights: &[u64]) {
    let tree = tree(T::LINE, weights);
    let mut scheduler = S::build(&tree).expect("any weights will do");
    let mut twin = T::new(&tree);
    let mut waiting: Vec<VecDeque<u64>> = alloc::vec![VecDeque::new(); weights.len()];
    let mut random = Random::new(seed, 0);
    let mut now = Instant::ZERO;
    for step in 0..3_000u32 {
        let leaf = random.below(weights.len() as u32) as usize;
        // Long stretches in which it fills, and such in which it empties.
        let fills = if step / 300 % 2 == 0 { 5 } else { 3 };
        match random.below(9) {
            draw if draw < fills => {
                let length = 1 + u64::from(random.below(T::LONGEST as u32));
                if waiting[leaf].is_empty() {
                    scheduler.enqueued(now, LeafId(leaf as u32), head(length));
                    twin.enqueued(leaf);
                }
                waiting[leaf].push_back(length);
            }
            8 if T::DROPS && waiting[leaf].pop_front().is_some() => {
                let next = waiting[leaf].front().copied().map(head);
                scheduler.head_changed(now, LeafId(leaf as u32), next);
            }
            _ => {
                let expected = twin.choice(&scheduler);
                let selection = scheduler.select(now);
                let chosen = expected.map(|leaf| Selection::Leaf(LeafId(leaf as u32)));
                let chosen = chosen.unwrap_or(Selection::Idle);
                assert_eq!(selection, chosen, "{seed} {step} {weights:?}");
                let Some(leaf) = expected else { continue };
                let length = waiting[leaf].pop_front().expect("it is backlogged");
                let next = waiting[leaf].front().copied();
                scheduler.charge(now, LeafId(leaf as u32), Bytes::new(length), next.map(head));
                twin.charged(leaf, length, next.is_some());
                // Now and then the line has some of it left, or was idle for a while.
                let rate = Rate::new(T::LINE).expect("not zero");
                let time = rate.transmit_time(Bytes::new(length)).as_nanos();
                if T::DROPS {
                    now = now.after(Duration::from_nanos(time * u64::from(random.below(4)) / 2));
                }
            }
        }
    }
}

/// Checks trees of up to `leaves` leaves, with weights in ranges of all widths.
pub(super) fn check_many<S: Discipline, T: Twin<S>>(leaves: u32) {
    for seed in 0..60 {
        let mut random = Random::new(seed, 1);
        let most = [1, 3, 100, 65_535][seed as usize % 4];
        let count = 1 + random.below(leaves);
        let weights: Vec<_> = (0..count).map(|_| 1 + u64::from(random.below(most))).collect();
        check::<S, T>(seed, &weights);
    }
}

/// Checks that a leaf that sent is as far ahead when a leaf has come to the tree; `ahead` returns
/// by how many bytes of the line.
pub(super) fn check_change<S: Discipline>(ahead: impl Fn(&S, usize) -> u64) {
    let line = 8_000_000_000;
    let (before, now) = (tree(line, &[1, 1]), Instant::ZERO);
    let mut old = S::build(&before).expect("any weights will do");
    old.enqueued(now, LeafId(0), head(1500));
    let Selection::Leaf(leaf) = old.select(now) else { panic!("one waits") };
    old.charge(now, leaf, Bytes::new(1500), None);
    let after = tree(line, &[1, 1, 1]);
    let mut new = S::build(&after).expect("any weights will do");
    new.inherit(now, &old, &Kin::by_name(&before, &after));
    assert_eq!(ahead(&old, 0), 1500);
    assert_eq!([0, 1, 2].map(|leaf| ahead(&new, leaf)), [1500, 0, 0]);
}

pub(super) const MTU: u64 = 1500;
