//! Packet round robin: the leaves that wait take turns, a packet each [algorithms §4.7].
//!
//! Invariant: `round` holds each backlogged leaf once; nothing else is known of a leaf, so its
//! state is one byte.

use crate::order::leaf_ring::{LeafRing, Standing};
use super::service::Rounds;
use super::{
    Cost, Descriptor, Discipline, Head, Kin, Promises, Scheduler, Selection, Service, Tree,
};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::prefetch::Prefetch;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Packet round robin.
pub struct Prr {
    leaves: Vec<Standing>,
    round: LeafRing,
}

impl Discipline for Prr {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "prr",
        summary: "Packet round robin: leaves take turns, a packet each, whatever its length.",
        parameters: &[],
        sources: &["risso99 §2", "algorithms §4.7"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let leaves = alloc::vec![Standing::Out; tree.leaf_count()];
        Ok(Self { round: LeafRing::with_capacity(leaves.len()), leaves })
    }

    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        let leaves = &mut self.leaves;
        self.round.inherit(&old.round, kin, |_, now| leaves[now.index()] = Standing::Emptied);
    }

    fn service(tree: &Tree) -> Service {
        let gains = alloc::vec![1; tree.leaf_count()];
        Service::Rounds(Rounds { gains, in_packets: true, overdraws: false, forgets: true })
    }
}

impl Scheduler for Prr {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.round.join(leaf, &mut self.leaves[leaf.index()]);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        while let Some(leaf) = self.round.front() {
            let standing = &mut self.leaves[leaf.index()];
            if *standing == Standing::Waiting {
                return Selection::Leaf(leaf);
            }
            *standing = Standing::Out;
            self.round.pop_front();
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, _sent: Bytes, next: Option<Head>) {
        if next.is_some() {
            return self.round.rotate();
        }
        self.leaves[leaf.index()] = Standing::Out;
        self.round.pop_front();
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if head.is_none() {
            self.round.empty(leaf, &mut self.leaves[leaf.index()]);
        }
    }

    #[inline]
    fn upcoming(&self, ahead: usize) -> Option<LeafId> {
        self.round.get(ahead)
    }

    #[inline]
    fn touch(&self, leaf: LeafId, prefetch: Prefetch) {
        prefetch.ask(&self.leaves[leaf.index()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::sched::ClassSpec;
    use crate::units::Rate;
    use alloc::string::{String, ToString};

    /// `events` are arrivals `abc`, departures `.` and drops of everything in a leaf `ABC`.
    fn check(leaves: usize, events: &str, order: &str) {
        let class = |index: usize| ClassSpec {
            name: index.to_string(),
            parent: None,
            params: Params::new(),
        };
        let classes = (0..leaves).map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes).expect("a tree");
        let mut prr = Prr::build(&tree).expect("builds");
        let now = Instant::ZERO;
        let head = Head { length: Bytes::new(100), arrived: now };
        let mut waiting = alloc::vec![0; leaves];
        let mut sent = String::new();
        for event in events.chars() {
            if event == '.' {
                let Selection::Leaf(leaf) = prr.select(now) else { panic!("somebody waits") };
                waiting[leaf.index()] -= 1;
                let next = (waiting[leaf.index()] > 0).then_some(head);
                prr.charge(now, leaf, head.length, next);
                sent.push(char::from(b'a' + leaf.0 as u8));
                continue;
            }
            let leaf = LeafId(u32::from(event.to_ascii_lowercase()) - u32::from('a'));
            if event.is_ascii_uppercase() {
                waiting[leaf.index()] = 0;
                prr.head_changed(now, leaf, None);
                continue;
            }
            waiting[leaf.index()] += 1;
            if waiting[leaf.index()] == 1 {
                prr.enqueued(now, leaf, head);
            }
        }
        assert_eq!(sent, order, "{events}");
        assert_eq!(prr.select(now) == Selection::Idle, waiting.iter().all(|&left| left == 0));
    }

    #[test]
    fn leaves_take_turns_a_packet_each() {
        // [algorithms §7]
        check(3, "aaabbbccc.........", "abcabcabc");
        check(2, "aab...", "aba");
    }

    #[test]
    fn who_drops_empty_keeps_its_place_until_its_turn() {
        check(3, "aabbcB...", "aca");
        check(3, "aabbcBb....", "abca");
        check(3, "aabcB..b..", "acab");
        check(2, "aAb.", "b");
        check(2, "aA", "");
    }
}
