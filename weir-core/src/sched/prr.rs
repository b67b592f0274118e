//! Packet round robin: backlogged leaves take turns of one packet [algorithms §4.7].
//!
//! Invariant: `round` holds each backlogged leaf once; a leaf has no other state.

use super::service::Rounds;
use super::{
    Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit, RefitError,
    Scheduler, Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::round_robin::{RoundRobin, Standing};
use crate::parameter::BuildError;
use crate::state::state;
use crate::units::{Bytes, Instant};

/// Packet round robin: a packet a visit, of any length.
pub struct Prr {
    round: RoundRobin,
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
        Ok(Self { round: RoundRobin::new(tree.leaf_count()) })
    }
}

impl Scheduler for Prr {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.round.join(leaf);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        while let Some(leaf) = self.round.front() {
            if self.round.standing(leaf) == Standing::Waiting {
                return Selection::Leaf(leaf);
            }
            self.round.pop();
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, _sent: Bytes, next: Option<Head>) {
        debug_assert_eq!(self.round.front(), Some(leaf), "the leaf whose turn it is sends");
        match next {
            Some(_) => self.round.rotate(),
            None => self.round.pop(),
        }
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if head.is_none() {
            self.round.empty(leaf);
        }
    }
}

impl Explains for Prr {
    fn service(tree: &Tree) -> Service {
        let gains = alloc::vec![1; tree.leaf_count()];
        Service::Rounds(Rounds { gains, in_packets: true, overdraws: false, forgets: true })
    }
}

impl Changes for Prr {
    const REFITS: bool = true;

    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        self.round.inherit(&old.round, kin, |_, _| {});
    }

    fn refit(
        &mut self,
        _now: Instant,
        _tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        if refit.is_new {
            self.round.leave(leaf);
        }
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.round.agrees(waiting.heads)
    }
}

state!(Prr { round });

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
                let Selection::Leaf(leaf) = prr.select(now) else { panic!("a leaf waits") };
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
    fn a_leaf_that_drops_empty_keeps_its_place_until_its_turn() {
        check(3, "aabbcB...", "aca");
        check(3, "aabbcBb....", "abca");
        check(3, "aabcB..b..", "acab");
        check(2, "aAb.", "b");
        check(2, "aA", "");
    }
}
