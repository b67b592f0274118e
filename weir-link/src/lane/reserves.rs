//! The frames that a lane may hold: a reserve for each leaf, and the rest for the first that comes.
//!
//! So no leaf can take the frames that another one needs to be classified and queued.
//! Invariant: `held` is the sum over the leaves, and what they hold beyond their reserves is
//! shared.

use weir_core::ids::LeafId;

use crate::status::Found;

pub(super) struct Reserves {
    /// For each leaf, the frames that it holds. The last row is for removed leaves: it counts as if
    /// its reserve were taken, so that it has none.
    leaves: Vec<u32>,
    reserve: u32,
    /// Frames held beyond the reserves.
    shared: u32,
    shared_max: u32,
    /// All frames that the lane holds.
    held: u32,
    /// The leaves that hold a frame.
    busy: u32,
    found: Found,
}

impl Reserves {
    pub fn new(frames_max: u32, leaves: usize) -> Self {
        let reserve = frames_max / 2 / leaves.max(1) as u32;
        let shared_max = frames_max - reserve * leaves as u32;
        let mut held = vec![0; leaves + 1];
        held[leaves] = reserve;
        let found = Found::default();
        Self { leaves: held, reserve, shared: 0, shared_max, held: 0, busy: 0, found }
    }

    /// Returns all frames held.
    pub fn held(&self) -> usize {
        self.held as usize
    }

    /// Returns the frames that a leaf holds.
    pub fn held_by(&self, leaf: LeafId) -> u32 {
        self.leaves[leaf.index()]
    }

    /// Returns the row of removed leaves.
    pub fn removed(&self) -> usize {
        self.leaves.len() - 1
    }

    /// Returns how many leaves held frames, whenever that was counted.
    pub fn found(&self) -> Found {
        self.found
    }

    /// Takes room for a frame of `leaf`; returns whether there was any.
    ///
    /// # Panics
    /// If there is no such leaf.
    pub fn take(&mut self, leaf: LeafId) -> bool {
        assert!(leaf.index() < self.removed(), "the classifier names a leaf of the policy");
        let held = &mut self.leaves[leaf.index()];
        if *held >= self.reserve {
            if self.shared >= self.shared_max {
                return false;
            }
            self.shared += 1;
        }
        if *held == 0 {
            self.found.none += u64::from(self.busy == 0);
            self.busy += 1;
        }
        *held += 1;
        self.held += 1;
        true
    }

    /// Takes room for so many frames of `leaf`, which are one packet: for all, or for none.
    pub fn take_all(&mut self, leaf: LeafId, frames: u32) -> bool {
        let taken = (0..frames).take_while(|_| self.take(leaf)).count() as u32;
        if taken < frames {
            (0..taken).for_each(|_| self.give_back(leaf));
        }
        taken == frames
    }

    /// Gives back the room of a frame of `leaf`.
    ///
    /// # Panics
    /// If it holds none.
    pub fn give_back(&mut self, leaf: LeafId) {
        let held = &mut self.leaves[leaf.index()];
        assert!(*held > 0, "a leaf gives back what it took");
        *held -= 1;
        self.held -= 1;
        self.shared -= u32::from(*held >= self.reserve);
        self.busy -= u32::from(*held == 0);
    }

    /// Adds frames that `row` holds from now on, even if that is more than there is room for.
    pub fn adopt(&mut self, row: usize, frames: u32) {
        let beyond = |held: u32| held.saturating_sub(self.reserve);
        let held = self.leaves[row];
        self.shared += beyond(held + frames) - beyond(held);
        self.busy += u32::from(held == 0 && frames > 0);
        self.held += frames;
        self.leaves[row] += frames;
    }

    /// Gives all frames of a leaf to another one.
    pub fn hand_over(&mut self, leaf: LeafId, heir: LeafId) {
        let held = self.held_by(leaf);
        (0..held).for_each(|_| self.give_back(leaf));
        self.adopt(heir.index(), held);
    }

    /// Counts, for a frame that leaves, whether other leaves hold frames too.
    pub fn count_found(&mut self) {
        assert!(self.busy > 0, "a frame that leaves was held");
        let is_alone = u64::from(self.busy <= 1);
        self.found.one += is_alone;
        self.found.more += 1 - is_alone;
    }

    /// Goes on with what `before` counted.
    pub fn go_on_from(&mut self, before: &Self) {
        self.found = before.found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leaf_keeps_its_reserve_whatever_the_others_hold() {
        let mut reserves = Reserves::new(16, 2);
        let (bulk, voice) = (LeafId(0), LeafId(1));
        let taken = (0..100).filter(|_| reserves.take(bulk)).count();
        assert_eq!(taken, 12, "its reserve of 4 and the shared 8");
        assert_eq!((0..100).filter(|_| reserves.take(voice)).count(), 4);
        reserves.give_back(bulk);
        assert!(reserves.take(voice) && !reserves.take(bulk));
        (0..11).for_each(|_| reserves.give_back(bulk));
        (0..5).for_each(|_| reserves.give_back(voice));
        assert_eq!((reserves.shared, reserves.leaves.as_slice()), (0, [0, 0, 4].as_slice()));
        assert_eq!(reserves.held(), 0);
    }

    #[test]
    fn it_is_counted_whether_one_leaf_holds_frames_or_several() {
        // `a` and `b` take a frame, `A` and `B` send one.
        let rows = [("", [0, 0, 0]), ("aA", [1, 1, 0]), ("aAbB", [2, 2, 0]), ("abAB", [1, 1, 1])];
        for (calls, [none, one, more]) in rows.into_iter().chain([("aabABA", [1, 1, 2])]) {
            let mut reserves = Reserves::new(16, 2);
            for call in calls.chars() {
                let leaf = LeafId(u32::from(call.eq_ignore_ascii_case(&'b')));
                if call.is_lowercase() {
                    assert!(reserves.take(leaf));
                } else {
                    reserves.count_found();
                    reserves.give_back(leaf);
                }
            }
            assert_eq!(reserves.found, Found { none, one, more }, "{calls}");
            assert_eq!(reserves.busy, 0);
        }
    }

    /// 16 frames for two leaves: a reserve of 4 each and 8 shared.
    #[test]
    fn frames_that_change_their_leaf_are_held_once() {
        // What `a` holds, what `b` holds, and afterwards: what `b` holds and what is shared.
        let rows = [(0, 0, 0, 0), (3, 0, 3, 0), (3, 3, 6, 2), (12, 4, 16, 12), (0, 6, 6, 2)];
        for (a, b, held, shared) in rows {
            let mut reserves = Reserves::new(16, 2);
            let [from, heir] = [LeafId(0), LeafId(1)];
            (0..a).for_each(|_| assert!(reserves.take(from)));
            (0..b).for_each(|_| assert!(reserves.take(heir)));
            reserves.hand_over(from, heir);
            assert_eq!([reserves.held_by(from), reserves.held_by(heir)], [0, held], "{a} {b}");
            assert_eq!((reserves.held(), reserves.shared), (held as usize, shared), "{a} {b}");
            // A removed leaf has no reserve.
            reserves.adopt(reserves.removed(), 2);
            assert_eq!((reserves.held(), reserves.shared), (held as usize + 2, shared + 2));
        }
    }

    #[test]
    #[should_panic(expected = "a leaf gives back what it took")]
    fn a_leaf_gives_back_no_more_than_it_took() {
        let mut reserves = Reserves::new(16, 2);
        assert!(reserves.take(LeafId(0)));
        reserves.give_back(LeafId(1));
    }
}
