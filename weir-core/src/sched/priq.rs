//! Strict priority, as ALTQ numbers it: the larger number first [algorithms §7].
//!
//! Leaves of one priority take turns, a packet each, in the order of declaration. As in Linux's
//! PRIO `[linux]`, an empty leaf is asked for a packet whenever one of lower priority sends, or
//! none at all: then its flow queues forget their turns. Invariant: `busy` has a bit for each
//! priority at which a leaf waits, so the cost does not grow with the leaves.

use super::{
    Calls, Changes, ClassSpec, Cost, Descriptor, Discipline, Explains, Head, Promises, Refit,
    RefitError, Scheduler, Selection, Service, Tree, Waiting,
};
use crate::ids::LeafId;
use crate::order::id_set::IdSet;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;

/// Strict priority: a band sends only while all above it are empty.
pub struct Priq {
    /// One band a priority.
    bands: [Band; PRIORITIES],
    places: Vec<Place>,
    /// A bit for each priority at which a leaf waits.
    busy: u16,
    /// How many packets were sent, and how often none was found.
    turns: u64,
    /// By priority, the turn in which it sent last.
    sent: [u64; PRIORITIES],
    /// The last turn in which no packet was found.
    nothing: u64,
    /// By leaf, the turn in which it became empty.
    emptied: Vec<u64>,
}

/// The leaves of one priority.
struct Band {
    leaves: Vec<LeafId>,
    /// The ranks, in `leaves`, of the backlogged leaves.
    waiting: IdSet,
    /// The rank whose turn it is, if its leaf is backlogged; else the turn is the next rank's.
    turn: u32,
}

/// Where a leaf is.
#[derive(Clone, Copy)]
struct Place {
    priority: u8,
    /// Its rank in its band.
    rank: u32,
}

impl Discipline for Priq {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "priq",
        summary: "Strict priority: a leaf sends only when none of higher priority waits.",
        parameters: &[Parameter {
            name: "priority",
            scope: Scope::Leaf,
            kind: Kind::Number(0, PRIORITIES as u64 - 1),
            default: Some("1"),
            summary: "Larger goes first; leaves of one priority take turns, a packet each.",
        }],
        sources: &["nieminen §2", "linux sch_prio", "algorithms §7"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    const CALLS: Calls = Calls { peeks: false, polls_empty_leaves: true, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let mut leaves: [Vec<LeafId>; PRIORITIES] = Default::default();
        let mut places = Vec::with_capacity(tree.leaf_count());
        for (leaf, class) in tree.leaves() {
            let number = class.params.number("priority").unwrap_or(PRIORITY_DEFAULT);
            let priority = number.min(PRIORITIES as u64 - 1) as u8;
            let band = &mut leaves[usize::from(priority)];
            places.push(Place { priority, rank: band.len() as u32 });
            band.push(leaf);
        }
        let band = |leaves: Vec<_>| Band { waiting: IdSet::new(leaves.len()), leaves, turn: 0 };
        let emptied = alloc::vec![0; places.len()];
        let (turns, sent, nothing) = (0, [0; PRIORITIES], 0);
        Ok(Self { bands: leaves.map(band), places, busy: 0, turns, sent, nothing, emptied })
    }
}

impl Scheduler for Priq {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        let Place { priority, rank } = self.places[leaf.index()];
        self.bands[usize::from(priority)].waiting.insert(rank);
        self.busy |= 1 << priority;
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        let Some(priority) = self.busy.checked_ilog2() else { return Selection::Idle };
        Selection::Leaf(self.bands[priority as usize].front())
    }

    #[inline]
    fn charge(&mut self, now: Instant, leaf: LeafId, _sent: Bytes, next: Option<Head>) {
        let Place { priority, rank } = self.places[leaf.index()];
        let band = &mut self.bands[usize::from(priority)];
        debug_assert!(band.waiting.contains(rank), "a selected leaf is backlogged");
        band.turn = rank + 1;
        self.turns += 1;
        self.sent[usize::from(priority)] = self.turns;
        self.head_changed(now, leaf, next);
    }

    #[inline]
    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if head.is_some() {
            return;
        }
        let Place { priority, rank } = self.places[leaf.index()];
        let band = &mut self.bands[usize::from(priority)];
        band.waiting.remove(rank);
        self.emptied[leaf.index()] = self.turns;
        if band.waiting.is_empty() {
            self.busy &= !(1 << priority);
        }
    }

    #[inline]
    fn found_nothing(&mut self) {
        self.turns += 1;
        self.nothing = self.turns;
    }

    fn asked_in_vain(&self, leaf: LeafId) -> bool {
        let below = usize::from(self.places[leaf.index()].priority);
        let last = self.sent[..below].iter().fold(self.nothing, |last, &turn| last.max(turn));
        last > self.emptied[leaf.index()]
    }
}

impl Explains for Priq {
    fn service(tree: &Tree) -> Service {
        let priority =
            |class: &ClassSpec| class.params.number("priority").unwrap_or(PRIORITY_DEFAULT);
        let rank = |class| (PRIORITIES as u64 - 1).saturating_sub(priority(class)) as u32;
        Service::Ranks(tree.leaves().map(|(_, class)| rank(class)).collect())
    }
}

impl Changes for Priq {
    const REFITS: bool = true;

    fn refit(
        &mut self,
        _now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        let before = refit.before.number("priority").unwrap_or(PRIORITY_DEFAULT);
        let priority = tree.leaf(leaf).params.number("priority").unwrap_or(PRIORITY_DEFAULT);
        if priority != before {
            return Err(RefitError::NeedsChange("its priority is another"));
        }
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let is_known = |leaf: usize, head: Option<Head>| {
            let Place { priority, rank } = self.places[leaf];
            self.bands[usize::from(priority)].waiting.contains(rank) == head.is_some()
        };
        let is_busy = |(priority, band): (usize, &Band)| {
            (self.busy >> priority & 1 == 1) != band.waiting.is_empty()
        };
        let known: usize = self.bands.iter().map(|band| band.waiting.iter().count()).sum();
        waiting.all(is_known)
            && known == waiting.leaves()
            && self.turns <= u64::MAX >> 1
            && self.bands.iter().enumerate().all(is_busy)
    }
}

impl Band {
    /// Returns the leaf whose turn it is: the first backlogged one from the turn on, or from the
    /// start.
    #[inline]
    fn front(&self) -> LeafId {
        let rank = self.waiting.next(self.turn).or_else(|| self.waiting.next(0));
        self.leaves[rank.expect("a leaf of a busy band waits") as usize]
    }
}

/// The number of priorities, as in ALTQ.
const PRIORITIES: usize = 16;
const PRIORITY_DEFAULT: u64 = 1;

state!(Priq { bands, busy, turns, sent, nothing, emptied; kept: places });
state!(Band { waiting, turn; kept: leaves });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::sched::ClassSpec;
    use crate::units::{Quantity, Rate};
    use alloc::collections::BTreeSet;
    use alloc::string::{String, ToString};

    /// `priorities` of leaves a, b, ...; `backlog` packets each; `late` arrive after two were sent.
    fn check(priorities: &[u64], backlog: &str, late: &str, order: &str) {
        let class = |&priority: &u64| ClassSpec {
            name: priority.to_string(),
            parent: None,
            params: Params::new().with("priority", Quantity::Number(priority)),
        };
        let classes = priorities.iter().map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes).expect("a tree");
        let mut priq = Priq::build(&tree).expect("builds");
        let head = Head { length: Bytes::new(100), arrived: Instant::ZERO };
        let mut waiting = alloc::vec![0; priorities.len()];
        let mut sent = String::new();
        let mut arrivals = backlog;
        loop {
            for letter in arrivals.bytes().map(|byte| usize::from(byte - b'a')) {
                waiting[letter] += 1;
                priq.enqueued(Instant::ZERO, LeafId(letter as u32), head);
            }
            let Selection::Leaf(leaf) = priq.select(Instant::ZERO) else { break };
            assert_eq!(priq.select(Instant::ZERO), Selection::Leaf(leaf));
            waiting[leaf.index()] -= 1;
            let next = (waiting[leaf.index()] > 0).then_some(head);
            priq.charge(Instant::ZERO, leaf, head.length, next);
            sent.push(char::from(b'a' + leaf.0 as u8));
            arrivals = if sent.len() == 2 { late } else { "" };
        }
        assert_eq!(sent, order);
        assert_eq!(priq.select(Instant::ZERO), Selection::Idle);
    }

    #[test]
    fn the_larger_number_goes_first() {
        check(&[7, 2], "baa", "", "aab");
        check(&[0, 15, 3], "aabbcc", "", "bbccaa");
    }

    #[test]
    fn a_higher_leaf_that_wakes_goes_next() {
        check(&[7, 2], "bbbb", "aa", "bbaabb");
    }

    #[test]
    fn equals_take_turns_a_packet_each() {
        check(&[4, 4, 4], "aaabbbccc", "", "abcabcabc");
        check(&[4, 4, 4], "aaac", "b", "acaba");
    }

    #[test]
    fn a_leaf_emptied_by_drops_is_not_selected() {
        let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
        let tree =
            Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), [class.clone(), class].into());
        let mut priq = Priq::build(&tree.expect("a tree")).expect("builds");
        let head = Head { length: Bytes::new(100), arrived: Instant::ZERO };
        priq.enqueued(Instant::ZERO, LeafId(0), head);
        priq.enqueued(Instant::ZERO, LeafId(1), head);
        priq.head_changed(Instant::ZERO, LeafId(0), None);
        assert_eq!(priq.select(Instant::ZERO), Selection::Leaf(LeafId(1)));
        priq.head_changed(Instant::ZERO, LeafId(1), None);
        assert_eq!(priq.select(Instant::ZERO), Selection::Idle);
    }

    /// The plain version: the next of an ordered set after the leaf that was served, or its first.
    #[test]
    fn turns_agree_with_an_ordered_set() {
        let class = |index: usize| ClassSpec {
            name: index.to_string(),
            parent: None,
            params: Params::new().with("priority", Quantity::Number(index as u64 % 2)),
        };
        let classes = (0..400).map(class).collect();
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), Params::new(), classes).expect("a tree");
        let mut priq = Priq::build(&tree).expect("builds");
        let head = Head { length: Bytes::new(100), arrived: Instant::ZERO };
        let mut plain = [BTreeSet::new(), BTreeSet::new()];
        let mut after = [0; 2];
        let mut random = Random::new(7, 0);
        for step in 0..100_000u32 {
            // Long times with few that wait, and with many.
            let arrivals = 30 + step / 5_000 % 2 * 40;
            let leaf = LeafId(random.below(400));
            let wait = &mut plain[leaf.index() % 2];
            if random.below(100) < arrivals {
                if wait.insert(leaf.0) {
                    priq.enqueued(Instant::ZERO, leaf, head);
                }
            } else if random.below(20) == 0 {
                if wait.remove(&leaf.0) {
                    priq.head_changed(Instant::ZERO, leaf, None);
                }
            } else if let Some(band) = plain.iter().rposition(|wait| !wait.is_empty()) {
                let wait = &mut plain[band];
                let next = wait.range(after[band]..).next().or_else(|| wait.first());
                let next = *next.expect("it is not empty");
                assert_eq!(priq.select(Instant::ZERO), Selection::Leaf(LeafId(next)));
                let is_empty = random.below(2) == 0;
                priq.charge(Instant::ZERO, LeafId(next), head.length, (!is_empty).then_some(head));
                after[band] = next + 1;
                if is_empty {
                    wait.remove(&next);
                }
            } else {
                assert_eq!(priq.select(Instant::ZERO), Selection::Idle);
            }
        }
    }
}
