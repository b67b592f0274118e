//! A round robin of leaves: the first one is served, then goes to the end.
//!
//! A leaf is in the round at most once. A leaf in the middle that drops empty is not removed: its
//! place remains until its turn comes, and is valid again if a packet arrives before. So every
//! operation takes constant time, and a leaf whose packets are dropped repeatedly is not sent to
//! the end each time. Invariant: `queue` holds each leaf whose standing is not `Out` once, and no
//! other.

use crate::ids::LeafId;
use crate::state::{Reader, State, StateError, Writer};
use crate::tree::Kin;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A round of leaves.
pub(crate) struct RoundRobin {
    queue: VecDeque<LeafId>,
    standings: Vec<Standing>,
}

/// Whether a leaf is in the round.
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
    /// Returns an empty round for `leaves` leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        let standings = alloc::vec![Standing::Out; leaves];
        Self { queue: VecDeque::with_capacity(leaves), standings }
    }

    /// Returns the first leaf.
    #[inline]
    pub(crate) fn front(&self) -> Option<LeafId> {
        self.queue.front().copied()
    }

    /// Returns whether `leaf` is in the round.
    #[inline]
    pub(crate) fn standing(&self, leaf: LeafId) -> Standing {
        self.standings[leaf.index()]
    }

    /// Records that `leaf` has a packet now: it goes to the end unless it still has a place.
    #[inline]
    pub(crate) fn join(&mut self, leaf: LeafId) {
        let standing = &mut self.standings[leaf.index()];
        if core::mem::replace(standing, Standing::Waiting) == Standing::Out {
            self.queue.push_back(leaf);
        }
    }

    /// Records that `leaf`, which is in the round, has no packet any more; its place remains.
    #[inline]
    pub(crate) fn mark_empty(&mut self, leaf: LeafId) {
        let standing = &mut self.standings[leaf.index()];
        debug_assert!(*standing != Standing::Out, "only a leaf of the round keeps its place");
        *standing = Standing::Emptied;
    }

    /// Records that drops took the last packet of `leaf`, which is in the round: the first leaf is
    /// removed at once, elsewhere the place remains.
    pub(crate) fn empty(&mut self, leaf: LeafId) {
        self.mark_empty(leaf);
        if self.front() == Some(leaf) {
            self.pop();
        }
    }

    /// Whether packets wait in the leaves that this says, as `heads` tell.
    pub(crate) fn agrees<H>(&self, heads: &[Option<H>]) -> bool {
        let waits = |standing: &Standing| *standing == Standing::Waiting;
        self.standings.iter().map(waits).eq(heads.iter().map(Option::is_some))
    }

    /// Moves the first leaf to the end.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        if let Some(leaf) = self.queue.pop_front() {
            self.queue.push_back(leaf);
        }
    }

    /// Removes the first leaf.
    #[inline]
    pub(crate) fn pop(&mut self) {
        if let Some(leaf) = self.queue.pop_front() {
            self.standings[leaf.index()] = Standing::Out;
        }
    }

    /// Removes `leaf` wherever it is. Costs the length of the round, unless the leaf is out of it.
    pub(crate) fn leave(&mut self, leaf: LeafId) {
        let standing = &mut self.standings[leaf.index()];
        if core::mem::replace(standing, Standing::Out) != Standing::Out {
            self.queue.retain(|&other| other != leaf);
        }
    }

    /// Appends the leaves that were in `old`, in its order and without packets; calls `each` with
    /// the new and the old id of each.
    pub(crate) fn inherit(
        &mut self,
        old: &RoundRobin,
        kin: &Kin,
        mut each: impl FnMut(LeafId, LeafId),
    ) {
        for before in old.iter() {
            let Some(new) = kin.new_leaf(before) else { continue };
            self.join(new);
            self.mark_empty(new);
            each(new, before);
        }
    }

    /// Returns all leaves of the round, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = LeafId> {
        self.queue.iter().copied()
    }

    /// Returns the number of leaves in the round.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// The leaves in their order, each with whether a packet waits in it.
impl State for RoundRobin {
    fn save(&self, to: &mut Writer) {
        let Self { queue, standings } = self;
        to.number(queue.len() as u64);
        for leaf in queue {
            leaf.save(to);
            (standings[leaf.index()] == Standing::Waiting).save(to);
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.queue.clear();
        self.standings.fill(Standing::Out);
        for _ in 0..from.count(self.standings.len(), "round")? {
            let leaf = LeafId(from.index(self.standings.len(), "leaf of a round")? as u32);
            let mut waits = false;
            waits.load(from)?;
            if self.standing(leaf) != Standing::Out {
                return Err(StateError::Invalid("leaf twice in a round"));
            }
            self.join(leaf);
            if !waits {
                self.mark_empty(leaf);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Compares with a plain list of leaves and whether each has a packet.
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
