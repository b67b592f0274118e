//! Leaves that take turns: the one in front is served, then goes to the end.
//!
//! A leaf stands in the round at most once. One that drops empty in the middle is not searched for:
//! it keeps its place until its turn comes, and has it again if a packet arrives before. So every
//! operation costs the same however many leaves there are, and a leaf whose packets are dropped
//! again and again is not sent to the end each time. Invariant: `queue` holds each leaf whose
//! standing is not `Out` once, and no other.

use crate::ids::LeafId;
use crate::tree::Kin;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A round of leaves.
pub(crate) struct RoundRobin {
    queue: VecDeque<LeafId>,
    standings: Vec<Standing>,
}

/// How a leaf stands with the round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It is not in the round.
    Out,
    /// It is in the round and has a packet.
    Waiting,
    /// It is in the round without a packet, until its turn comes.
    Emptied,
}

impl RoundRobin {
    /// An empty round for `leaves` leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        let standings = alloc::vec![Standing::Out; leaves];
        Self { queue: VecDeque::with_capacity(leaves), standings }
    }

    /// The leaf in front.
    #[inline]
    pub(crate) fn front(&self) -> Option<LeafId> {
        self.queue.front().copied()
    }

    /// How `leaf` stands with the round.
    #[inline]
    pub(crate) fn standing(&self, leaf: LeafId) -> Standing {
        self.standings[leaf.index()]
    }

    /// `leaf` has a packet now: it goes to the end unless it still has a place.
    #[inline]
    pub(crate) fn join(&mut self, leaf: LeafId) {
        let standing = &mut self.standings[leaf.index()];
        if core::mem::replace(standing, Standing::Waiting) == Standing::Out {
            self.queue.push_back(leaf);
        }
    }

    /// `leaf`, which is in the round, has no packet any more; it keeps its place.
    #[inline]
    pub(crate) fn mark_empty(&mut self, leaf: LeafId) {
        self.standings[leaf.index()] = Standing::Emptied;
    }

    /// Drops took the last packet of `leaf`, which is in the round: in front it leaves at once,
    /// elsewhere it keeps its place.
    pub(crate) fn empty(&mut self, leaf: LeafId) {
        self.mark_empty(leaf);
        if self.front() == Some(leaf) {
            self.pop();
        }
    }

    /// The leaf in front goes to the end.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        if let Some(leaf) = self.queue.pop_front() {
            self.queue.push_back(leaf);
        }
    }

    /// The leaf in front leaves the round.
    #[inline]
    pub(crate) fn pop(&mut self) {
        if let Some(leaf) = self.queue.pop_front() {
            self.standings[leaf.index()] = Standing::Out;
        }
    }

    /// Puts the leaves that were in `old` at the end, in its order and without packets; `each` is
    /// told the new and the old name of each.
    pub(crate) fn inherit(
        &mut self,
        old: &RoundRobin,
        kin: &Kin,
        mut each: impl FnMut(LeafId, LeafId),
    ) {
        let mut new_of_old = alloc::vec![None; old.standings.len()];
        kin.leaves().for_each(|(new, before)| new_of_old[before.index()] = Some(new));
        for before in old.iter() {
            let Some(new) = new_of_old[before.index()] else { continue };
            self.join(new);
            self.mark_empty(new);
            each(new, before);
        }
    }

    /// All leaves of the round, from the front on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = LeafId> {
        self.queue.iter().copied()
    }

    /// The number of leaves in the round.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Beside a plain list of leaves with whether each has a packet.
    #[test]
    fn it_agrees_with_a_plain_list() {
        const LEAVES: u32 = 9;
        let mut round = RoundRobin::new(LEAVES as usize);
        let mut plain: Vec<(LeafId, bool)> = Vec::new();
        let mut random = Random::new(1, 0);
        for _ in 0..50_000 {
            let leaf = LeafId(random.below(LEAVES));
            let place = plain.iter().position(|row| row.0 == leaf);
            match (random.below(5), place) {
                (0 | 1, Some(place)) => {
                    round.join(leaf);
                    plain[place].1 = true;
                }
                (0 | 1, None) => {
                    round.join(leaf);
                    plain.push((leaf, true));
                }
                (2, Some(place)) => {
                    round.empty(leaf);
                    plain[place].1 = false;
                    plain.drain(..usize::from(place == 0));
                }
                (3, _) if !plain.is_empty() => {
                    round.rotate();
                    plain.rotate_left(1);
                }
                (4, _) if !plain.is_empty() => {
                    round.pop();
                    plain.remove(0);
                }
                _ => {}
            }
            assert!(round.iter().eq(plain.iter().map(|row| row.0)));
            assert_eq!((round.len(), round.front()), (plain.len(), round.iter().next()));
            for leaf in (0..LEAVES).map(LeafId) {
                let expected = match plain.iter().find(|row| row.0 == leaf) {
                    None => Standing::Out,
                    Some((_, true)) => Standing::Waiting,
                    Some((_, false)) => Standing::Emptied,
                };
                assert_eq!(round.standing(leaf), expected);
            }
        }
    }
}
