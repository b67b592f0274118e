//! The leaves that are eligible, by deadline: an instant, or a finish tag in virtual time.
//!
//! Deadlines mostly come in about the order in which they go, so a new one is looked for a place
//! among the last few of a sorted run; only who belongs further ahead goes to a heap. The earliest
//! is the first of the run or of the heap. A leaf whose deadline changes while others are before it
//! leaves its old entry behind; that is found out when it comes to be the first. Invariant: each
//! eligible leaf has an entry with its deadline, and there are more entries than such leaves only
//! if some have to be looked at.

use alloc::vec::Vec;

/// The run and the heap.
pub(crate) struct Deadlines {
    /// In order, from `start` on.
    run: Vec<Entry>,
    start: usize,
    heap: Vec<Entry>,
    /// Leaves that are eligible.
    eligible: usize,
}

/// A deadline and whose it is or was; of equal deadlines the first declared leaf goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    pub(crate) deadline: u64,
    pub(crate) leaf: u32,
}

impl Entry {
    /// Behind everybody else, and no leaf.
    pub(crate) const NOBODY: Entry = Entry { deadline: u64::MAX, leaf: u32::MAX };

    /// Whether it goes first.
    #[inline(always)]
    pub(crate) fn precedes(&self, other: &Entry) -> bool {
        self.rank() < other.rank()
    }

    /// Both as one number: compared without a jump.
    #[inline(always)]
    fn rank(&self) -> u128 {
        u128::from(self.deadline) << 64 | u128::from(self.leaf)
    }
}

impl Deadlines {
    pub(crate) const fn new() -> Self {
        Self { run: Vec::new(), start: 0, heap: Vec::new(), eligible: 0 }
    }

    /// The first entry; it may have to be looked at.
    #[inline]
    pub(crate) fn first(&self) -> Option<Entry> {
        let (run, heap) = (self.run.get(self.start), self.heap.first());
        match (run, heap) {
            (Some(run), Some(heap)) if heap.precedes(run) => Some(*heap),
            (run, heap) => run.or(heap).copied(),
        }
    }

    /// The first entry, or [`Entry::NOBODY`], if a look at the run is enough to know.
    #[inline(always)]
    pub(crate) fn plain_first(&self) -> Option<Entry> {
        let is_plain = self.run.len() - self.start == self.eligible && self.heap.is_empty();
        is_plain.then(|| self.run.get(self.start).copied().unwrap_or(Entry::NOBODY))
    }

    /// A guess: who is first when `ahead` others were.
    pub(crate) fn about(&self, ahead: usize) -> Option<Entry> {
        self.run.get(self.start + ahead).copied()
    }

    /// Whether all entries are true.
    #[inline]
    pub(crate) fn are_true(&self) -> bool {
        self.len() == self.eligible
    }

    #[inline]
    fn len(&self) -> usize {
        self.run.len() - self.start + self.heap.len()
    }

    /// A leaf becomes eligible.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.eligible += 1;
        self.add(entry);
    }

    #[inline]
    fn add(&mut self, entry: Entry) {
        if self.start == self.run.len() {
            self.run.clear();
            self.start = 0;
        } else if self.run.last().is_some_and(|last| entry.precedes(last)) {
            return self.add_ahead(entry);
        }
        self.append(entry);
    }

    /// The last of the run is not before `entry`.
    #[inline]
    fn append(&mut self, entry: Entry) {
        if self.run.len() == self.run.capacity() {
            self.make_room();
        }
        self.run.push(entry);
    }

    /// Drops what is before the start of the run, if that is much.
    #[inline(never)]
    fn make_room(&mut self) {
        if 2 * self.start >= self.run.len() {
            self.run.drain(..self.start);
            self.start = 0;
        }
        self.run.reserve(1);
    }

    /// Puts in an entry that is before the last of the run.
    #[inline(never)]
    fn add_ahead(&mut self, entry: Entry) {
        let lowest = self.start.max((self.run.len() - 1).saturating_sub(STEPS));
        if lowest > self.start && entry.precedes(&self.run[lowest]) {
            return self.push(entry);
        }
        self.append(entry);
        // Where the run begins may have changed with that, but not how many stand behind.
        let tail = self.run.len().saturating_sub(STEPS + 2).max(self.start);
        let tail = &mut self.run[tail..];
        let mut place = tail.len() - 1;
        while place > 0 && entry.precedes(&tail[place - 1]) {
            tail[place] = tail[place - 1];
            place -= 1;
        }
        tail[place] = entry;
    }

    /// The first leaf is not eligible any longer.
    #[inline]
    pub(crate) fn remove_first(&mut self) {
        self.eligible -= 1;
        self.drop_first();
    }

    /// Takes out the first entry.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        if self.heap.is_empty() {
            self.start += 1;
        } else {
            self.drop_any();
        }
    }

    #[inline(never)]
    fn drop_any(&mut self) {
        let is_later = |run: &Entry| self.heap[0].precedes(run);
        if self.run.get(self.start).is_none_or(is_later) {
            self.pop();
        } else {
            self.start += 1;
        }
    }

    /// The first leaf has another deadline.
    #[inline]
    pub(crate) fn change_first(&mut self, entry: Entry) {
        self.drop_first();
        self.add(entry);
    }

    /// Some leaf is not eligible any longer; `is_true` as in [`Deadlines::change`].
    pub(crate) fn forget(&mut self, is_true: impl Fn(&Entry) -> bool) {
        self.eligible -= 1;
        self.prune(is_true);
    }

    /// Some leaf has another deadline. If there are too many entries, only those that `is_true`
    /// names are kept, each once.
    pub(crate) fn change(&mut self, entry: Entry, is_true: impl Fn(&Entry) -> bool) {
        self.add(entry);
        self.prune(is_true);
    }

    /// Nobody is eligible any longer.
    pub(crate) fn clear(&mut self) {
        self.run.clear();
        self.heap.clear();
        (self.start, self.eligible) = (0, 0);
    }

    fn prune(&mut self, is_true: impl Fn(&Entry) -> bool) {
        if self.len() > 2 * self.eligible + SLACK {
            self.run.drain(..self.start);
            self.start = 0;
            self.run.append(&mut self.heap);
            self.run.retain(is_true);
            self.run.sort_unstable();
            self.run.dedup();
        }
    }

    /// Puts an entry into the heap.
    fn push(&mut self, entry: Entry) {
        let mut at = self.heap.len();
        self.heap.push(entry);
        while at > 0 {
            let above = (at - 1) / 2;
            if !entry.precedes(&self.heap[above]) {
                break;
            }
            self.heap.swap(at, above);
            at = above;
        }
    }

    /// Takes out the first of the heap.
    fn pop(&mut self) {
        let Some(last) = self.heap.pop() else { return };
        let mut at = 0;
        while let Some(children) = self.heap.get(2 * at + 1..) {
            let Some(left) = children.first() else { break };
            let is_right = children.get(1).is_some_and(|right| right.precedes(left));
            let below = 2 * at + 1 + usize::from(is_right);
            let least = self.heap[below];
            if !least.precedes(&last) {
                break;
            }
            self.heap[at] = least;
            at = below;
        }
        if let Some(place) = self.heap.get_mut(at) {
            *place = last;
        }
    }
}

/// So many of the last of the run are looked at.
const STEPS: usize = 32;
/// Entries that may be left behind beside as many as there are leaves.
const SLACK: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Beside a table of what is true; new deadlines are up to `spread` ahead of the last.
    fn check(seed: u64, spread: u32) {
        const LEAVES: u32 = 40;
        let mut random = Random::new(seed, 0);
        let mut deadlines = Deadlines::new();
        let mut table = [None; LEAVES as usize];
        for step in 0..4_000u64 {
            let leaf = random.below(LEAVES);
            let entry = Entry { deadline: step + u64::from(random.below(spread)), leaf };
            let this = &mut table[leaf as usize];
            let draw = random.below(10);
            match this {
                None if draw < 8 => {
                    *this = Some(entry.deadline);
                    deadlines.insert(entry);
                }
                Some(_) if draw == 8 => {
                    *this = None;
                    deadlines
                        .forget(|entry: &Entry| table[entry.leaf as usize] == Some(entry.deadline));
                }
                Some(deadline) if draw == 9 && *deadline != entry.deadline => {
                    *deadline = entry.deadline;
                    let is_true =
                        |entry: &Entry| table[entry.leaf as usize] == Some(entry.deadline);
                    deadlines.change(entry, is_true);
                }
                _ => {}
            }
            let rows = (0..LEAVES).filter_map(|leaf| Some((table[leaf as usize]?, leaf)));
            let expected = rows.min();
            while let Some(first) = deadlines.first() {
                if deadlines.are_true() || table[first.leaf as usize] == Some(first.deadline) {
                    break;
                }
                deadlines.drop_first();
            }
            let first = deadlines.first().map(|entry| (entry.deadline, entry.leaf));
            assert_eq!(first, expected, "{seed} {spread} {step}");
            let plain = deadlines.plain_first();
            let expected = expected.map_or(Entry::NOBODY.leaf, |row| row.1);
            assert!(plain.is_none_or(|entry| entry.leaf == expected));
            if random.below(2) == 0
                && let Some((_, leaf)) = first
            {
                deadlines.remove_first();
                table[leaf as usize] = None;
            }
        }
    }

    #[test]
    fn the_earliest_true_deadline_is_first() {
        for spread in [1, 3, 50, 10_000] {
            (0..10).for_each(|seed| check(seed, spread));
        }
    }

    #[test]
    fn what_is_left_behind_is_bounded() {
        let mut deadlines = Deadlines::new();
        deadlines.insert(Entry { deadline: 0, leaf: 0 });
        deadlines.insert(Entry { deadline: 0, leaf: 1 });
        for deadline in 1..10_000 {
            deadlines.forget(|entry: &Entry| entry.leaf == 0);
            deadlines.insert(Entry { deadline: deadline + 10_000, leaf: 1 });
            let last = |entry: &Entry| entry.leaf == 0 || entry.deadline == deadline;
            deadlines.change(Entry { deadline, leaf: 1 }, last);
        }
        assert!(deadlines.len() <= SLACK + 4, "{}", deadlines.len());
    }
}
