//! A limit that several leaves share, and which of them is longest by weight.
//!
//! The ranking is a heap of members, the longest on top. A departure does not update it: a member's
//! place can only be too high, and is corrected when the member reaches the top. So a departure
//! costs nothing, an arrival that only replaces departures next to nothing, and finding the longest
//! a logarithm. Invariant: a backlogged member is in the heap, at its true rank or above, and above
//! all members that rank below its stored rank.

use crate::ids::{ClassId, LeafId};
use crate::parameter::BuildError;
use crate::state::{Reader, State, StateError, Writer, load_rows, save_rows, state};
use crate::units::Bytes;
use alloc::vec::Vec;

/// A leaf's part in a limit that it shares with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The most that all members hold together; the same for all.
    pub limit: Bytes,
    /// The leaf's part of it, relative to others; at least 1.
    pub weight: u32,
}

/// The limit, and what each leaf holds.
pub(super) struct Shared {
    limit: u64,
    total: u64,
    /// One entry a leaf, in their order.
    members: Vec<Member>,
    heap: Vec<Rank>,
    /// How many times a member became backlogged.
    began: u64,
}

#[derive(Clone, Copy)]
struct Member {
    bytes: u64,
    /// 0 for a leaf that is not a member.
    weight: u32,
    /// Its index in the heap, or [`NOWHERE`].
    place: u32,
    /// The count of such events when it became backlogged.
    since: u64,
}

/// A rank in the heap: the longer first; of equals, the one backlogged for longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Rank {
    length: u64,
    since: u64,
    leaf: LeafId,
}

impl Shared {
    /// Builds the limit that the members among `leaves` share; `None` without members. A leaf is
    /// given with its class and name.
    ///
    /// # Errors
    /// When members state different limits.
    pub fn new<'n>(
        leaves: impl Iterator<Item = (ClassId, &'n str, Option<Membership>)>,
    ) -> Result<Option<Self>, BuildError> {
        let mut first: Option<(&str, Bytes)> = None;
        let mut members = Vec::new();
        for (class, name, membership) in leaves {
            let weight = membership.map_or(0, |member| member.weight.max(1));
            members.push(Member { bytes: 0, weight, place: NOWHERE, since: 0 });
            let Some(Membership { limit, .. }) = membership else { continue };
            let agreed = *first.get_or_insert((name, limit));
            if limit != agreed.1 {
                return Err(different_limits(class, (name, limit), agreed));
            }
        }
        let Some((_, limit)) = first else { return Ok(None) };
        Ok(Some(Self { limit: limit.get(), total: 0, members, heap: Vec::new(), began: 0 }))
    }

    /// Counts a packet of `bytes` that waits in `leaf` now.
    pub fn arrived(&mut self, leaf: LeafId, bytes: Bytes) {
        let member = &mut self.members[leaf.index()];
        if member.weight == 0 {
            return;
        }
        debug_assert!(self.total >= member.bytes, "the total counts what each leaf holds");
        self.total += bytes.get();
        if member.bytes == 0 {
            self.began += 1;
            member.since = self.began;
        }
        member.bytes += bytes.get();
        let rank = member.rank(leaf);
        if member.place == NOWHERE {
            member.place = self.heap.len() as u32;
            self.heap.push(rank);
        }
        let place = member.place as usize;
        if rank.is_before(&self.heap[place]) {
            self.heap[place] = rank;
        }
        self.rise(place);
    }

    /// Counts a packet of `bytes` that left `leaf`.
    #[inline]
    pub fn left(&mut self, leaf: LeafId, bytes: Bytes) {
        let member = &mut self.members[leaf.index()];
        if member.weight > 0 {
            assert!(member.bytes >= bytes.get(), "no more leaves a leaf than waits in it");
            member.bytes -= bytes.get();
            self.total -= bytes.get();
        }
    }

    /// Returns the leaf that must drop its first packet: the longest, if all hold more than the
    /// limit.
    pub fn victim(&mut self) -> Option<LeafId> {
        if self.total <= self.limit {
            return None;
        }
        loop {
            let top = self.heap.first().expect("a backlogged member is in the heap");
            let leaf = top.leaf;
            let rank = self.members[leaf.index()].rank(leaf);
            debug_assert!(!rank.is_before(top), "a rank in the heap is the member's or above it");
            if rank == *top {
                return Some(leaf);
            }
            self.heap[0] = rank;
            self.sink();
        }
    }

    /// Moves the rank at `place` up to its place.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.heap[place].is_before(&self.heap[(place - 1) / 2]) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    /// Moves the rank on top down to its place.
    fn sink(&mut self) {
        let mut place = 0;
        loop {
            let mut first = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.heap[child].is_before(&self.heap[first]) {
                    first = child;
                }
            }
            if first == place {
                return;
            }
            self.swap(place, first);
            place = first;
        }
    }

    /// Whether the heap is in order and holds each backlogged member, at its rank or above, and
    /// each holds what waits in its leaf: `backlog` by leaf.
    pub fn agrees(&self, mut backlog: impl Iterator<Item = u64>) -> bool {
        let after_parent = |at: usize| !self.heap[at].is_before(&self.heap[(at - 1) / 2]);
        let in_order = (1..self.heap.len()).all(after_parent);
        let member = |(index, member): (usize, &Member)| {
            let holds = backlog.next().is_some_and(|bytes| member.bytes == bytes);
            let is_placed = match self.heap.get(member.place as usize) {
                Some(rank) => {
                    let true_rank = member.rank(LeafId(index as u32));
                    rank.leaf == true_rank.leaf && !true_rank.is_before(rank)
                }
                None => member.bytes == 0,
            };
            let is_sound = holds && is_placed && member.since <= self.began;
            if member.weight == 0 { (member.bytes, member.since) == (0, 0) } else { is_sound }
        };
        in_order && self.members.iter().enumerate().all(member)
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.members[self.heap[place].leaf.index()].place = place as u32;
        }
    }
}

impl Member {
    /// [algorithms §4.1] A length is divided by the weight, in hundredths, rounded down.
    fn rank(&self, leaf: LeafId) -> Rank {
        let length = self.bytes.saturating_mul(100) / u64::from(self.weight);
        // With a large weight a short queue has length 0, as an empty one does, which is never
        // longest.
        let since = if self.bytes == 0 { u64::MAX } else { self.since };
        Rank { length, since, leaf }
    }
}

impl Rank {
    /// Returns whether it ranks before `other`.
    fn is_before(&self, other: &Rank) -> bool {
        (self.length, other.since) > (other.length, self.since)
    }
}

fn different_limits(class: ClassId, this: (&str, Bytes), other: (&str, Bytes)) -> BuildError {
    let message = alloc::format!(
        "leaf `{}` says `limit` = {} B for the limit that it shares with leaf `{}`, which says \
         {} B; write the same for both",
        this.0,
        this.1.get(),
        other.0,
        other.1.get(),
    );
    BuildError::in_class(class, "limit", message)
}

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

state!(Rank { length, since, leaf });
state!(Member { bytes, since; kept: weight, place });

/// Saves the members and the heap; the total and the places follow from them.
impl State for Shared {
    fn save(&self, to: &mut Writer) {
        let Self { limit: _, total: _, members, heap, began } = self;
        members.save(to);
        save_rows(heap, to);
        began.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.members.load(from)?;
        load_rows(&mut self.heap, from, self.members.len())?;
        self.began.load(from)?;
        self.members.iter_mut().for_each(|member| member.place = NOWHERE);
        for (place, rank) in self.heap.iter().enumerate() {
            let member = self.members.get_mut(rank.leaf.index());
            let member = member.filter(|member| member.weight > 0 && member.place == NOWHERE);
            member.ok_or(StateError::Invalid("heap of a shared limit"))?.place = place as u32;
        }
        let held = self.members.iter().try_fold(0u64, |sum, row| sum.checked_add(row.bytes));
        self.total = held.ok_or(StateError::Invalid("bytes in a shared limit"))?;
        let is_sound = self.began <= u64::MAX >> 1;
        if is_sound { Ok(()) } else { Err(StateError::Invalid("shared limit")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Builds leaves `0`, `1`, ... with these limits and weights, if they share one.
    fn shared(rows: &[Option<(u64, u32)>]) -> Result<Option<Shared>, BuildError> {
        let names = ["0", "1", "2", "3"].into_iter().cycle();
        let classes = (0..).map(ClassId);
        let members = rows
            .iter()
            .map(|row| row.map(|(limit, weight)| Membership { limit: Bytes::new(limit), weight }));
        Shared::new(classes.zip(names).zip(members).map(|((class, name), row)| (class, name, row)))
    }

    /// The oracle: scans all members in the order in which they became backlogged.
    struct Scan {
        limit: u64,
        weights: Vec<u32>,
        queues: Vec<Vec<u64>>,
        order: Vec<usize>,
    }

    impl Scan {
        fn victim(&self) -> Option<LeafId> {
            if self.order.iter().flat_map(|&leaf| &self.queues[leaf]).sum::<u64>() <= self.limit {
                return None;
            }
            let mut longest: (Option<LeafId>, u64) = (None, 0);
            for &leaf in &self.order {
                let bytes: u64 = self.queues[leaf].iter().sum();
                let length = bytes * 100 / u64::from(self.weights[leaf]);
                if longest.0.is_none() || length > longest.1 {
                    longest = (Some(LeafId(leaf as u32)), length);
                }
            }
            longest.0
        }

        fn arrived(&mut self, leaf: usize, bytes: u64) {
            if self.weights[leaf] == 0 {
                return;
            }
            if self.queues[leaf].is_empty() {
                self.order.push(leaf);
            }
            self.queues[leaf].push(bytes);
        }

        fn leave(&mut self, leaf: usize) -> Option<u64> {
            if self.queues[leaf].is_empty() {
                return None;
            }
            let bytes = self.queues[leaf].remove(0);
            if self.queues[leaf].is_empty() {
                self.order.retain(|&other| other != leaf);
            }
            Some(bytes)
        }
    }

    fn check(seed: u64, limit: u64, weights: &[u32], longest: u32) {
        let member = |&weight: &u32| (weight > 0).then_some((limit, weight));
        let members: Vec<_> = weights.iter().map(member).collect();
        let mut shared = shared(&members).expect("agreed").expect("members");
        let mut scan = Scan {
            limit,
            weights: weights.to_vec(),
            queues: alloc::vec![Vec::new(); weights.len()],
            order: Vec::new(),
        };
        let mut random = Random::new(seed, 0);
        for _ in 0..600 {
            let leaf = random.below(weights.len() as u32) as usize;
            let id = LeafId(leaf as u32);
            if random.below(3) > 0 {
                let bytes = u64::from(1 + random.below(longest));
                shared.arrived(id, Bytes::new(bytes));
                scan.arrived(leaf, bytes);
            } else if let Some(bytes) = scan.leave(leaf) {
                shared.left(id, Bytes::new(bytes));
            }
            loop {
                let victim = shared.victim();
                assert_eq!(victim, scan.victim(), "seed {seed}, {weights:?}");
                let Some(victim) = victim else { break };
                let bytes = scan.leave(victim.index()).expect("the longest is backlogged");
                shared.left(victim, Bytes::new(bytes));
            }
        }
    }

    #[test]
    fn it_agrees_with_a_scan_of_all_members() {
        for seed in 0..200 {
            check(seed, 20_000, &[100], 1500);
            check(seed, 20_000, &[100, 0, 100, 100, 100], 1500);
            // Many ties; then lengths that are all 0.
            check(seed, 40, &[100; 17], 1);
            check(seed, 40, &[65_535; 5], 2);
            check(seed, 20_000, &[1, 30, 100, 100, 500, 1000, 3, 65_535], 3000);
        }
    }

    #[test]
    fn members_with_different_limits_are_refused_by_name() {
        let rows = [None, Some((65_536, 100)), Some((65_536, 30)), Some((40_000, 100))];
        let error = shared(&rows).err().expect("refused");
        assert_eq!(error.class, Some(ClassId(3)));
        assert_eq!(
            error.message,
            "leaf `3` says `limit` = 40000 B for the limit that it shares with leaf `1`, which \
             says 65536 B; write the same for both"
        );
        assert!(shared(&[None, None]).expect("no conflict").is_none());
    }
}
