//! Those whose start and finish come in the same order, in one queue for both.
//!
//! A leaf may be chosen from its *start* on, and of those that may be, the one with the earliest
//! *finish* is. Where packets and parts of the line are alike, who starts first also finishes
//! first. So who comes behind the last by both is appended here: then those that may be chosen are
//! the first few, and the first of them is the choice, and nobody has to be moved when its start
//! comes. Who would come further ahead stands elsewhere. Who is taken out of the middle leaves a
//! *gap* behind. Invariant: from the first to the last neither start nor finish goes back, of equal
//! finishes the leaf declared first comes first; the first and the last are no gaps.

use super::deadlines::{Deadlines, Entry};
use crate::ids::LeafId;
use alloc::vec::Vec;

/// The queue.
pub(crate) struct InStep {
    /// A power of two of places; number `n` is at `n` modulo their count.
    ring: Vec<Step>,
    /// The number of the first.
    first: u32,
    /// That of who comes next.
    end: u32,
    gaps: u32,
}

/// A leaf, from when on it may be chosen, and by what it is then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) start: u64,
    pub(crate) finish: u64,
    pub(crate) leaf: u32,
}

impl Step {
    /// Behind everybody else, and no leaf.
    const NOBODY: Step = Step { start: u64::MAX, finish: u64::MAX, leaf: Entry::NOBODY.leaf };

    /// As one of those that may be chosen.
    #[inline(always)]
    pub(crate) fn entry(&self) -> Entry {
        Entry { deadline: self.finish, leaf: self.leaf }
    }
}

impl InStep {
    pub(crate) const fn new() -> Self {
        Self { ring: Vec::new(), first: 0, end: 0, gaps: 0 }
    }

    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        number as usize & self.ring.len().wrapping_sub(1)
    }

    #[inline(always)]
    fn len(&self) -> u32 {
        self.end.wrapping_sub(self.first)
    }

    /// The first; [`Step::NOBODY`] if there is none.
    #[inline(always)]
    pub(crate) fn first(&self) -> Step {
        if self.first == self.end { Step::NOBODY } else { self.ring[self.place(self.first)] }
    }

    /// A guess: who is first when `ahead` others were.
    pub(crate) fn about(&self, ahead: usize) -> Option<Step> {
        let is_in = ahead < self.len() as usize;
        is_in.then(|| self.ring[self.place(self.first.wrapping_add(ahead as u32))])
    }

    /// Whether nobody starts after `start`.
    #[inline(always)]
    pub(crate) fn is_last(&self, start: u64) -> bool {
        let last = || self.ring[self.place(self.end.wrapping_sub(1))];
        self.first == self.end || start >= last().start
    }

    /// Appends a leaf that belongs behind the last; answers its number, or `None` if it does not.
    #[inline(always)]
    pub(crate) fn append(&mut self, step: Step) -> Option<u32> {
        if self.first != self.end {
            let last = &self.ring[self.place(self.end.wrapping_sub(1))];
            if step.start < last.start || step.entry().precedes(&last.entry()) {
                return None;
            }
        }
        if self.len() as usize == self.ring.len() && !self.make_room() {
            return None;
        }
        let (number, place) = (self.end, self.place(self.end));
        self.ring[place] = step;
        self.end = number.wrapping_add(1);
        Some(number)
    }

    /// Doubles the ring, unless gaps fill most of it.
    #[cold]
    fn make_room(&mut self) -> bool {
        if 2 * self.gaps > self.len() {
            return false;
        }
        let places = (2 * self.ring.len()).max(PLACES_MIN);
        let mut ring = alloc::vec![Step::NOBODY; places];
        for ahead in 0..self.len() {
            let number = self.first.wrapping_add(ahead);
            ring[number as usize & (places - 1)] = self.ring[self.place(number)];
        }
        self.ring = ring;
        true
    }

    /// Takes out the first, if `is_chosen`.
    #[inline(always)]
    pub(crate) fn remove_first(&mut self, is_chosen: bool) {
        self.first = self.first.wrapping_add(u32::from(is_chosen));
        if self.gaps > 0 {
            self.close_ends();
        }
    }

    /// Takes out whoever has this number.
    pub(crate) fn remove(&mut self, number: u32) {
        let place = self.place(number);
        self.ring[place].leaf = Step::NOBODY.leaf;
        self.gaps += 1;
        self.close_ends();
    }

    /// Takes out the gaps at both ends.
    #[inline(never)]
    fn close_ends(&mut self) {
        while self.first != self.end && self.is_gap(self.first) {
            self.first = self.first.wrapping_add(1);
            self.gaps -= 1;
        }
        while self.first != self.end && self.is_gap(self.end.wrapping_sub(1)) {
            self.end = self.end.wrapping_sub(1);
            self.gaps -= 1;
        }
    }

    fn is_gap(&self, number: u32) -> bool {
        self.ring[self.place(number)].leaf == Step::NOBODY.leaf
    }

    /// Takes out everybody.
    pub(crate) fn clear(&mut self) {
        (self.first, self.end, self.gaps) = (0, 0, 0);
    }
}

/// A guess: who of those in step and of the eligible goes next, one after the other, as far as
/// there is room in `leaves`; answers how many.
pub(crate) fn line_up(steps: &InStep, eligible: &Deadlines, leaves: &mut [LeafId]) -> usize {
    let (mut in_step, mut apart, mut count) = (0, 0, 0);
    while let Some(place) = leaves.get_mut(count) {
        let step = steps.about(in_step).map(|step| step.entry());
        let entry = match (step, eligible.about(apart)) {
            (Some(step), other) if other.is_none_or(|other| step.precedes(&other)) => {
                in_step += 1;
                step
            }
            (_, Some(other)) => {
                apart += 1;
                other
            }
            _ => break,
        };
        *place = LeafId(entry.leaf);
        // A gap is nobody.
        count += usize::from(entry.leaf != Entry::NOBODY.leaf);
    }
    count
}

/// Places to begin with.
const PLACES_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Beside a plain list, with numbers that begin shortly before they wrap.
    fn check(seed: u64, leaves: u32) {
        let mut random = Random::new(seed, 0);
        let mut steps = InStep::new();
        (steps.first, steps.end) = (u32::MAX - 100, u32::MAX - 100);
        let mut plain: Vec<(Step, u32)> = Vec::new();
        let mut refused = 0;
        for at in 0..4_000u64 {
            let leaf = random.below(leaves);
            let (start, span) = (at / 2 + u64::from(random.below(4)), random.below(6));
            let step = Step { start, finish: start + u64::from(span), leaf };
            let is_in = plain.iter().any(|row| row.0.leaf == leaf);
            match random.below(8) {
                0 if !plain.is_empty() => {
                    let row = plain.remove(random.below(plain.len() as u32) as usize);
                    steps.remove(row.1);
                }
                1..3 if !plain.is_empty() => {
                    plain.remove(0);
                    steps.remove_first(true);
                }
                _ if !is_in => {
                    let belongs = plain.last().is_none_or(|(last, _)| {
                        last.start <= start && (last.finish, last.leaf) < (step.finish, leaf)
                    });
                    let number = steps.append(step);
                    assert!(belongs || number.is_none(), "{seed} {at}");
                    refused += u32::from(belongs && number.is_none());
                    plain.extend(number.map(|number| (step, number)));
                }
                _ => steps.remove_first(false),
            }
            let is_last = plain.last().is_none_or(|row| row.0.start <= start);
            assert_eq!(steps.is_last(start), is_last, "{seed} {at}");
            let first = plain.first().map_or(Step::NOBODY, |row| row.0);
            assert_eq!(steps.first(), first, "{seed} {at}");
            assert!(steps.ring.len() <= PLACES_MIN.max(8 * leaves as usize), "{seed} {at}");
        }
        assert!(refused < 40, "who belongs in comes in: {refused}");
    }

    #[test]
    fn it_agrees_with_a_plain_list() {
        for leaves in [1, 2, 5, 40, 300] {
            (0..10).for_each(|seed| check(seed, leaves));
        }
    }

    #[test]
    fn gaps_are_bounded() {
        let mut steps = InStep::new();
        let step = |at: u64| Step { start: at, finish: at, leaf: (at % 3) as u32 };
        assert!(steps.append(Step { leaf: 3, ..step(0) }).is_some());
        let mut before = [None; 3];
        for at in 1..10_000 {
            let before = &mut before[(at % 3) as usize];
            if let Some(number) = before.take() {
                steps.remove(number);
            }
            *before = steps.append(step(at));
        }
        assert!(steps.ring.len() <= 2 * PLACES_MIN, "{}", steps.ring.len());
    }
}
