//! Leaves that wait to be eligible, by when they are: a wheel of wheels.
//!
//! Level `l` has a slot for each value of digit `l` of an instant in nanoseconds, a digit being
//! eight bits. An instant stands in the level of the highest digit in which it differs from `base`,
//! in the slot of that digit, so levels that follow one another hold instants that do. Going on to
//! a later `base` empties the slots that it passes, and spreads the one that it enters over lower
//! levels; so a leaf moves once a level at most, and who is not due yet costs nothing.
//!
//! A leaf is not taken out when it need not wait any longer; who asks finds that out when it is
//! due. Invariant: every leaf here stands at an instant later than `base`, and not later than it is
//! eligible; `next` is not later than any.

use crate::prefetch::Prefetch;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The wheels.
pub(super) struct Wheel {
    /// The last leaf in each slot, level by level.
    slots: Box<[u32; LEVELS * SLOTS]>,
    /// By leaf, the one behind it in its slot; behind the last comes the first. Of a leaf that is
    /// in no slot, a number that others keep here.
    behind: Vec<u32>,
    /// A bit for each slot with a leaf.
    filled: [u64; LEVELS * WORDS],
    /// The levels that are not empty: a bit at the shift of each.
    levels: u64,
    base: u64,
    /// Nothing is due before.
    next: u64,
    /// Whether something is due then.
    is_exact: bool,
}

impl Wheel {
    /// Nobody of so many leaves waits.
    pub(super) fn new(leaves: usize) -> Self {
        let slots = alloc::vec![NONE; LEVELS * SLOTS].into_boxed_slice();
        Self {
            slots: slots.try_into().expect("it is that long"),
            behind: alloc::vec![NONE; leaves],
            filled: [0; LEVELS * WORDS],
            levels: 0,
            base: 0,
            next: u64::MAX,
            is_exact: true,
        }
    }

    /// Nothing is due before.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.levels == 0
    }

    /// Whether something is due at [`Wheel::next`].
    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The number kept for a leaf that is not here.
    #[inline(always)]
    pub(super) fn number(&self, leaf: u32) -> u32 {
        self.behind[leaf as usize]
    }

    /// Keeps another number for it.
    #[inline(always)]
    pub(super) fn set_number(&mut self, leaf: u32, number: u32) {
        self.behind[leaf as usize] = number;
    }

    /// Asks for what is kept of a leaf.
    #[inline(always)]
    pub(super) fn touch(&self, leaf: u32, prefetch: Prefetch) {
        prefetch.ask(&self.behind[leaf as usize]);
    }

    /// Nobody need wait until `at` any longer who did.
    #[inline]
    pub(super) fn forget(&mut self, at: u64) {
        self.is_exact &= at > self.next;
    }

    /// Somebody is due at `at` who is not here.
    #[inline]
    pub(super) fn hurry(&mut self, at: u64) {
        self.next = self.next.min(at);
    }

    /// The true first instant.
    pub(super) fn set_next(&mut self, at: u64) {
        (self.next, self.is_exact) = (at, true);
    }

    /// Puts in a leaf that waits until `at`, which is later than [`Wheel::advance`] came.
    #[inline]
    pub(super) fn insert(&mut self, at: u64, leaf: u32) {
        self.next = self.next.min(at);
        self.place(at, leaf);
    }

    #[inline]
    fn place(&mut self, at: u64, leaf: u32) {
        let shift = shift_of(at ^ self.base);
        let slot = shift as usize * (SLOTS / DIGIT_BITS as usize) + digit(at, shift);
        let last = core::mem::replace(&mut self.slots[slot % (LEVELS * SLOTS)], leaf);
        self.levels |= 1 << shift;
        self.filled[slot / 64 % (LEVELS * WORDS)] |= 1 << (slot % 64);
        let first = if last == NONE {
            leaf
        } else {
            core::mem::replace(&mut self.behind[last as usize], leaf)
        };
        self.behind[leaf as usize] = first;
    }

    /// Goes on to `now`, and asks `due` of each leaf that may be due; it answers until when the
    /// leaf has to wait nevertheless.
    #[inline]
    pub(super) fn advance(&mut self, now: u64, mut due: impl FnMut(u32) -> Option<u64>) {
        let from = core::mem::replace(&mut self.base, now);
        let top = shift_of(from ^ now);
        let mut levels = self.levels & (u64::MAX >> (63 - top));
        while levels != 0 {
            let shift = levels.trailing_zeros();
            levels &= levels - 1;
            let level = shift as usize / DIGIT_BITS as usize * WORDS;
            let (first, last) = match shift < top {
                true => (0, SLOTS - 1),
                false => (digit(from, top), digit(now, top)),
            };
            for word in first / 64..=last / 64 {
                let until = if word < last / 64 { 63 } else { last % 64 };
                let bits = self.filled[level + word] & (u64::MAX >> (63 - until));
                self.empty(level + word, bits, &mut due);
            }
            self.check_level(shift);
        }
        (self.next, self.is_exact) = (self.first(), false);
    }

    /// Empties the first slot; `due` as above.
    pub(super) fn sift(&mut self, mut due: impl FnMut(u32) -> Option<u64>) {
        let shift = self.levels.trailing_zeros();
        let digit = digit(self.first(), shift);
        let word = shift as usize / DIGIT_BITS as usize * WORDS + digit / 64;
        self.empty(word, 1 << (digit % 64), &mut due);
        self.check_level(shift);
    }

    /// Notes if a level is empty.
    #[inline]
    fn check_level(&mut self, shift: u32) {
        let level = shift as usize / DIGIT_BITS as usize * WORDS;
        if self.filled[level..level + WORDS] == [0; WORDS] {
            self.levels &= !(1 << shift);
        }
    }

    /// Takes all out of some slots of a word.
    #[inline]
    fn empty(&mut self, word: usize, mut bits: u64, due: &mut impl FnMut(u32) -> Option<u64>) {
        self.filled[word] &= !bits;
        while bits != 0 {
            let slot = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let last = core::mem::replace(&mut self.slots[slot], NONE);
            let mut leaf = self.behind[last as usize];
            loop {
                let next = self.behind[leaf as usize];
                if let Some(at) = due(leaf) {
                    self.place(at, leaf);
                }
                if leaf == last {
                    break;
                }
                leaf = next;
            }
        }
    }

    /// When the first slot begins that is not empty.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        if self.levels == 0 {
            return u64::MAX;
        }
        let shift = self.levels.trailing_zeros();
        let level = shift as usize / DIGIT_BITS as usize * WORDS;
        let words = &self.filled[level..level + WORDS];
        let word = words.iter().position(|&word| word != 0).unwrap_or(0);
        let digit = word as u64 * 64 + u64::from(words[word].trailing_zeros());
        let above = self.base.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        (above << DIGIT_BITS | digit) << shift
    }
}

/// How far the highest digit that is not 0 is from the end, in bits.
#[inline]
fn shift_of(difference: u64) -> u32 {
    (difference | 1).ilog2() & !(DIGIT_BITS - 1)
}

#[inline]
fn digit(at: u64, shift: u32) -> usize {
    (at >> shift) as usize % SLOTS
}

const DIGIT_BITS: u32 = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
const WORDS: usize = SLOTS / 64;
const LEVELS: usize = (u64::BITS / DIGIT_BITS) as usize;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Leaves come and go at random beside a plain list; spans of up to 2^`bits`.
    fn check(seed: u64, bits: u32) {
        const LEAVES: u32 = 50;
        let mut wheel = Wheel::new(LEAVES as usize);
        let mut random = Random::new(seed, 0);
        let mut until = [None; LEAVES as usize];
        let mut draw = |bits: u32| {
            let high = u64::from(random.below(u32::MAX)) << 32;
            (high | u64::from(random.below(u32::MAX))) >> (64 - bits)
        };
        let mut now = 0u64;
        for step in 0..2_000 {
            let leaf = draw(32) as u32 % LEAVES;
            let at = now.saturating_add(1 + draw(1 + step % bits));
            if until[leaf as usize].is_none() && at > now {
                until[leaf as usize] = Some(at);
                wheel.insert(at, leaf);
            }
            let first = until.iter().flatten().min().copied();
            assert!(first.is_none_or(|first| wheel.next() <= first), "{seed} {bits} {step}");
            if draw(2) > 0 {
                continue;
            }
            now = now.saturating_add(draw(1 + step % bits));
            wheel.advance(now, |leaf| {
                let until = &mut until[leaf as usize];
                until.take_if(|until| *until <= now);
                *until
            });
            assert!(until.iter().flatten().all(|&until| until > now), "{seed} {bits} {step}");
            assert_eq!(wheel.is_empty(), until.iter().all(Option::is_none));
        }
    }

    #[test]
    fn everybody_is_asked_when_due_and_nobody_is_lost() {
        for bits in [3, 8, 9, 16, 20, 33, 50] {
            (0..5).for_each(|seed| check(seed, bits));
        }
    }

    #[test]
    fn the_end_of_time_is_an_instant() {
        let mut wheel = Wheel::new(2);
        wheel.insert(u64::MAX, 0);
        wheel.insert(u64::MAX - 1, 1);
        let mut due = Vec::new();
        for now in [u64::MAX / 2, u64::MAX - 2, u64::MAX - 1, u64::MAX] {
            wheel.advance(now, |leaf| {
                let at = u64::MAX - u64::from(leaf);
                if at <= now {
                    due.push((now, leaf));
                }
                Some(at).filter(|&at| at > now)
            });
        }
        assert_eq!(due, [(u64::MAX - 1, 1), (u64::MAX, 0)]);
        assert!(wheel.is_empty());
    }
}
