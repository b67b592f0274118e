//! Those whose start and finish come in the same order, in one queue for both.
//!
//! A leaf may be chosen from its *start* on, and of those that may be, the one with the earliest
//! *finish* is. Where packets and parts of the line are alike, who starts first also finishes
//! first. So who comes behind the last by both is appended here: then those that may be chosen are
//! the first few, and the first of them is the choice, and nobody has to be moved when its start
//! comes. Who would come further ahead stands elsewhere.
//!
//! A place may be *kept* for a leaf in which no packet waits: if one comes while the place is in
//! the queue, and starts and finishes as was thought, the leaf stands where it would have stood had
//! it never been empty. So it costs nothing to look for its place, and nothing to wait apart.
//! A bit says at which places nobody waits, since they are only kept or who stood there was taken
//! out; they are passed over when they come to be the first. Invariant: from the first to the last
//! neither start nor finish goes back, of equal finishes the leaf declared first comes first; the
//! first waits, and for the last its place is kept at least; bits of places outside are clear.

use super::deadlines::{Deadlines, Entry};
use crate::ids::LeafId;
use crate::prefetch::Prefetch;
use alloc::vec::Vec;

/// The queue.
pub(crate) struct InStep {
    /// A power of two of places; number `n` is at `n` modulo their count.
    ring: Vec<Step>,
    /// For each place, whether nobody waits there.
    idle: Vec<u64>,
    /// The number of the first.
    first: u64,
    /// That of who comes next.
    end: u64,
    /// No more places than that.
    places_max: usize,
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
    /// Nobody of so many leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        let places_max = (2 * leaves).next_power_of_two().max(PLACES_MIN);
        Self { ring: Vec::new(), idle: Vec::new(), first: 0, end: 0, places_max }
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.ring.len().wrapping_sub(1)
    }

    /// The first; [`Step::NOBODY`] if there is none.
    #[inline(always)]
    pub(crate) fn first(&self) -> Step {
        if self.first == self.end { Step::NOBODY } else { self.ring[self.place(self.first)] }
    }

    /// When the first starts, if there is one.
    pub(crate) fn first_start(&self) -> Option<u64> {
        (self.first != self.end).then(|| self.first().start)
    }

    /// The last, who may not wait.
    #[inline(always)]
    fn last(&self) -> &Step {
        &self.ring[self.place(self.end.wrapping_sub(1))]
    }

    /// Whether nobody starts after `start`.
    #[inline(always)]
    pub(crate) fn is_last(&self, start: u64) -> bool {
        self.first == self.end || start >= self.last().start
    }

    /// Appends a leaf that belongs behind the last; answers its number, or `None` if it does not.
    #[inline(always)]
    pub(crate) fn append(&mut self, step: Step) -> Option<u64> {
        if self.first != self.end {
            let last = self.last();
            if step.start < last.start || step.entry().precedes(&last.entry()) {
                return None;
            }
        }
        if (self.end - self.first) as usize == self.ring.len() && !self.make_room() {
            return None;
        }
        let (number, place) = (self.end, self.place(self.end));
        self.ring[place] = step;
        self.end = number + 1;
        Some(number)
    }

    /// Keeps a place for a leaf that belongs behind the last, if anybody waits; see
    /// [`InStep::append`].
    #[inline(always)]
    pub(crate) fn keep(&mut self, step: Step) -> Option<u64> {
        if self.first == self.end {
            return None;
        }
        let number = self.append(step)?;
        self.mark_idle(number);
        Some(number)
    }

    /// The leaf for which a place is kept waits now; answers whether the place is still in the
    /// queue. Of `number` the lowest [`NUMBER_BITS`] count.
    #[inline(always)]
    pub(crate) fn revive(&mut self, number: u64) -> bool {
        let ahead = number.wrapping_sub(self.first) & ((1 << NUMBER_BITS) - 1);
        let is_in = ahead < self.end - self.first;
        if is_in {
            self.unmark_idle(self.first + ahead);
        }
        is_in
    }

    /// The same for who knows the lowest 32 bits of its number alone: only if the place is still
    /// that of `step`, and kept.
    #[inline]
    pub(crate) fn revive_step(&mut self, number: u32, step: Step) -> bool {
        let number = self.numbered(number);
        let is_its =
            number < self.end && self.is_idle(number) && self.ring[self.place(number)] == step;
        if is_its {
            self.unmark_idle(number);
        }
        is_its
    }

    /// The number with these lowest bits from the first on.
    #[inline(always)]
    fn numbered(&self, number: u32) -> u64 {
        self.first + u64::from(number.wrapping_sub(self.first as u32))
    }

    /// Whoever has a number with these lowest bits waits no longer; its place is kept.
    #[inline]
    pub(crate) fn let_go(&mut self, number: u32) {
        self.mark_idle(self.numbered(number));
        self.pass_idle();
    }

    /// Doubles the ring, as far as there may be places.
    #[cold]
    fn make_room(&mut self) -> bool {
        let places = (2 * self.ring.len()).max(PLACES_MIN);
        if places > self.places_max {
            return false;
        }
        let mut ring = alloc::vec![Step::NOBODY; places];
        let mut idle = alloc::vec![0; places / WORD];
        for number in self.first..self.end {
            let place = number as usize & (places - 1);
            ring[place] = self.ring[self.place(number)];
            idle[place / WORD] |= u64::from(self.is_idle(number)) << (place % WORD);
        }
        (self.ring, self.idle) = (ring, idle);
        true
    }

    /// Takes out the first.
    #[inline(always)]
    pub(crate) fn remove_first(&mut self) {
        self.first += 1;
        if self.is_idle(self.first) {
            self.pass_idle();
        }
    }

    /// Takes out whoever has a number with these lowest bits, and keeps no place.
    pub(crate) fn remove(&mut self, number: u32) {
        let number = self.numbered(number);
        let place = self.place(number);
        self.ring[place].leaf = Step::NOBODY.leaf;
        self.mark_idle(number);
        self.pass_idle();
        // Nobody knows the number of a place that is empty, so it may be another's.
        while self.first != self.end && self.last().leaf == Step::NOBODY.leaf {
            self.end -= 1;
            self.unmark_idle(self.end);
        }
    }

    /// Goes on to the first who waits, or to the end.
    #[inline(never)]
    fn pass_idle(&mut self) {
        while self.is_idle(self.first) {
            self.unmark_idle(self.first);
            self.first += 1;
        }
    }

    /// Whether nobody waits at the place of `number`; never so at the end.
    #[inline(always)]
    fn is_idle(&self, number: u64) -> bool {
        self.idle[self.place(number) / WORD] >> (number % WORD as u64) & 1 != 0
    }

    #[inline(always)]
    fn mark_idle(&mut self, number: u64) {
        let place = self.place(number);
        self.idle[place / WORD] |= 1 << (place % WORD);
    }

    #[inline(always)]
    fn unmark_idle(&mut self, number: u64) {
        let place = self.place(number);
        self.idle[place / WORD] &= !(1 << (place % WORD));
    }

    /// Asks for the place of whoever has a number with these lowest bits.
    #[inline]
    pub(crate) fn touch(&self, number: u32, prefetch: Prefetch) {
        if let Some(step) = self.ring.get(self.place(u64::from(number))) {
            prefetch.ask(&step.start);
        }
    }

    /// Takes out everybody.
    pub(crate) fn clear(&mut self) {
        self.idle.fill(0);
        self.first = self.end;
    }
}

/// A guess: who of those in step and of the eligible goes next, one after the other, as far as
/// there is room in `leaves`; answers how many.
pub(crate) fn line_up(steps: &InStep, eligible: &Deadlines, leaves: &mut [LeafId]) -> usize {
    let (mut number, mut apart) = (steps.first, 0);
    for (count, place) in leaves.iter_mut().enumerate() {
        let is_in = number < steps.end;
        let step = is_in.then(|| steps.ring[steps.place(number)].entry());
        let entry = match (step, eligible.about(apart)) {
            (Some(step), other) if other.is_none_or(|other| step.precedes(&other)) => {
                number += 1;
                while number < steps.end && steps.is_idle(number) {
                    number += 1;
                }
                step
            }
            (_, Some(other)) => {
                apart += 1;
                other
            }
            _ => return count,
        };
        *place = LeafId(entry.leaf);
    }
    leaves.len()
}

/// Places to begin with: a whole word of bits.
const PLACES_MIN: usize = WORD;
const WORD: usize = u64::BITS as usize;
/// Who keeps so many bits of a number knows its place: to mistake another for it, so many leaves
/// would have to come and go before virtual time moves on by a packet.
pub(crate) const NUMBER_BITS: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Beside a plain list, with numbers whose lowest bits begin shortly before they wrap.
    fn check(seed: u64, leaves: u32, begin: u64) {
        let mut random = Random::new(seed, 0);
        let mut steps = InStep::new(leaves as usize);
        (steps.first, steps.end) = (begin, begin);
        // Each with its number, and whether it waits; begins with one who does.
        let mut plain: Vec<(Step, u64, bool)> = Vec::new();
        let mut refused = 0;
        for at in 0..4_000u64 {
            let leaf = random.below(leaves);
            let (start, span) = (at / 2 + u64::from(random.below(4)), random.below(6));
            let step = Step { start, finish: start + u64::from(span), leaf };
            let found = plain.iter().position(|row| row.0.leaf == leaf);
            match random.below(8) {
                0 if !plain.is_empty() => {
                    let row = random.below(plain.len() as u32) as usize;
                    if plain[row].2 {
                        steps.remove(plain.remove(row).1 as u32);
                    }
                }
                1..3 if !plain.is_empty() => {
                    plain.remove(0);
                    steps.remove_first();
                }
                3 if found.is_some() => {
                    let (step, number, waits) = &mut plain[found.unwrap()];
                    let other = Step { finish: step.finish + 1, ..*step };
                    assert!(!steps.revive_step(*number as u32, other));
                    let revived = match at % 2 {
                        0 => steps.revive(*number & ((1 << NUMBER_BITS) - 1)),
                        _ => steps.revive_step(*number as u32, *step) || *waits,
                    };
                    assert!(revived);
                    *waits = true;
                }
                4 if found.is_some_and(|row| plain[row].2) => {
                    let row = &mut plain[found.unwrap()];
                    row.2 = false;
                    steps.let_go(row.1 as u32);
                }
                draw if found.is_none() => {
                    let belongs = plain.last().is_none_or(|(last, ..)| {
                        last.start <= start && (last.finish, last.leaf) < (step.finish, leaf)
                    });
                    let waits = draw < 7;
                    let belongs = belongs && (waits || !plain.is_empty());
                    let number = if waits { steps.append(step) } else { steps.keep(step) };
                    assert!(belongs || number.is_none(), "{seed} {at}");
                    refused += u32::from(belongs && number.is_none());
                    plain.extend(number.map(|number| (step, number, waits)));
                }
                _ => {}
            }
            let passed = plain.iter().position(|row| row.2).unwrap_or(plain.len());
            for (step, number, _) in plain.drain(..passed) {
                assert!(!steps.revive(number), "{seed} {at}");
                assert!(!steps.revive_step(number as u32, step), "{seed} {at}");
            }
            let is_last = plain.last().is_none_or(|row| row.0.start <= start);
            assert_eq!(steps.is_last(start), is_last, "{seed} {at}");
            let first = plain.first().map_or(Step::NOBODY, |row| row.0);
            assert_eq!(steps.first(), first, "{seed} {at}");
            let mut next = [LeafId(0); 8];
            let count = line_up(&steps, &Deadlines::new(), &mut next);
            let waiting = plain.iter().filter(|row| row.2).map(|row| LeafId(row.0.leaf));
            assert!(next[..count].iter().copied().eq(waiting.take(8)), "{seed} {at}");
        }
        assert_eq!(refused, 0, "who belongs in comes in");
    }

    #[test]
    fn it_agrees_with_a_plain_list() {
        for leaves in [1, 2, 5, 40, 300] {
            (0..10).for_each(|seed| check(seed, leaves, u64::from(u32::MAX) - 100));
            (0..10).for_each(|seed| check(seed, leaves, (1 << NUMBER_BITS) - 100));
        }
    }

    #[test]
    fn gaps_are_bounded() {
        let mut steps = InStep::new(4);
        let step = |at: u64| Step { start: at, finish: at, leaf: (at % 3) as u32 };
        assert!(steps.append(Step { leaf: 3, ..step(0) }).is_some());
        let mut before = [None; 3];
        for at in 1..10_000 {
            let before = &mut before[(at % 3) as usize];
            if let Some(number) = before.take() {
                steps.remove(number as u32);
            }
            *before = steps.append(step(at));
        }
        assert!(steps.ring.len() <= PLACES_MIN, "{}", steps.ring.len());
    }
}
