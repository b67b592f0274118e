//! Compares QFQ with a plain twin that examines every leaf for each choice.

use super::*;
use crate::sched::twins::{self, Twin, head, tree};

/// The rules of the header, leaf by leaf; packets no longer than the MTU, no drops.
struct Plain {
    leaves: Vec<PlainLeaf>,
    virtual_time: u64,
    shift: u32,
    arrivals: u64,
}

struct PlainLeaf {
    tag: u64,
    inverse: u64,
    slot: u32,
    waits: bool,
    /// The leaf that came into the slot earlier goes first.
    turn: u64,
}

impl PlainLeaf {
    fn round(&self, tag: u64) -> u64 {
        tag >> self.slot << self.slot
    }
}

impl Plain {
    fn of(tree: &Tree) -> Self {
        let Weights { inverses, shift } = Weights::of(tree);
        let leaf = |&inverse: &u64| {
            let slot = shift_of(inverse * tree.mtu().get());
            PlainLeaf { tag: 0, inverse, slot, waits: false, turn: 0 }
        };
        let leaves = inverses.iter().map(leaf).collect();
        Self { leaves, virtual_time: 0, shift, arrivals: 0 }
    }

    /// The start of the group with this slot, if a leaf waits in it.
    fn start(&self, slot: u32) -> Option<u64> {
        let members = self.leaves.iter().filter(|leaf| leaf.waits && leaf.slot == slot);
        members.map(|leaf| leaf.round(leaf.tag)).min()
    }

    /// When the group is finished, if it is eligible.
    fn finish(&self, slot: u32) -> Option<u64> {
        let start = self.start(slot)?;
        (start <= self.virtual_time).then(|| start + (2 << slot))
    }

    fn is_blocked(&self, slot: u32, finish: u64) -> bool {
        (slot + 1..64).any(|longer| self.finish(longer).is_some_and(|other| other < finish))
    }

    /// The shortest slot whose group may send.
    fn ready(&self, from: u32) -> Option<u32> {
        let may = |&slot: &u32| self.finish(slot).is_some_and(|end| !self.is_blocked(slot, end));
        (from..64).find(may)
    }

    fn put(&mut self, index: usize, tag: u64) {
        self.arrivals += 1;
        let leaf = &mut self.leaves[index];
        (leaf.tag, leaf.waits, leaf.turn) = (tag, true, self.arrivals);
    }

    fn jump(&mut self) {
        if self.ready(0).is_none() {
            let starts = (0..64).filter_map(|slot| self.start(slot));
            self.virtual_time = starts.min().unwrap_or(0).max(self.virtual_time);
        }
    }
}

impl Twin<Qfq> for Plain {
    // It is never idle.
    const LINE: u64 = 1;
    const DROPS: bool = false;

    fn new(tree: &Tree) -> Self {
        Self::of(tree)
    }

    fn enqueued(&mut self, index: usize) {
        let leaf = &self.leaves[index];
        let limit = leaf.round(self.virtual_time) + (1 << leaf.slot);
        let finish = leaf.round(leaf.tag);
        let start = if leaf.tag > self.virtual_time && finish <= limit {
            leaf.tag
        } else {
            let longer = self.ready(leaf.slot).and_then(|slot| self.finish(slot));
            match longer.filter(|&end| finish > end) {
                Some(end) => end.min(limit),
                None => self.virtual_time,
            }
        };
        self.put(index, start);
        self.jump();
    }

    fn choice(&self, qfq: &Qfq) -> Option<usize> {
        assert_eq!(qfq.virtual_time, self.virtual_time);
        let slot = self.ready(0)?;
        let members = (0..self.leaves.len()).filter(|&index| {
            let leaf = &self.leaves[index];
            leaf.waits && leaf.slot == slot
        });
        members.min_by_key(|&index| {
            let leaf = &self.leaves[index];
            (leaf.round(leaf.tag), leaf.turn)
        })
    }

    fn charged(&mut self, index: usize, length: u64, waits: bool) {
        self.virtual_time += length << self.shift;
        let leaf = &mut self.leaves[index];
        let tag = leaf.tag + length * leaf.inverse;
        if waits && leaf.round(tag) == leaf.round(leaf.tag) {
            leaf.tag = tag;
        } else {
            leaf.waits = false;
            leaf.tag = tag;
            if waits {
                self.put(index, tag);
            }
        }
        self.jump();
    }
}

#[test]
fn bitmaps_choose_what_the_plain_rules_choose() {
    twins::check_many::<Qfq, Plain>(12);
}

#[test]
fn a_longer_packet_than_ever_widens_the_slots_and_no_leaf_starves() {
    let mut qfq = Qfq::build(&tree(1, &[1, 2, 40])).expect("any weights will do");
    let now = Instant::ZERO;
    (0..3).for_each(|leaf| qfq.enqueued(now, LeafId(leaf), head(60_000)));
    let mut sent = [0u64; 3];
    for _ in 0..43_000 {
        let Selection::Leaf(leaf) = qfq.select(now) else { panic!("all wait") };
        sent[leaf.index()] += 60_000;
        qfq.charge(now, leaf, Bytes::new(60_000), Some(head(60_000)));
    }
    assert_eq!(qfq.length_max, 65_536);
    for (sent, weight) in sent.into_iter().zip([1, 2, 40]) {
        assert!(sent.abs_diff(weight * 60_000_000) <= 300_000, "{sent} bytes of weight {weight}");
    }
}

#[test]
fn a_leaf_that_was_ahead_is_still_ahead_after_a_change_of_the_tree() {
    twins::check_change(|qfq: &Qfq, leaf| (qfq.leaves[leaf].tag - qfq.virtual_time) >> qfq.shift);
}
