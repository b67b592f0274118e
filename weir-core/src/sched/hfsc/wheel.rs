//! Leaves that wait to be eligible, by when they are: a wheel of wheels.
//!
//! Level `l` has a slot for each value of digit `l` of an instant in nanoseconds, a digit being
//! eight bits. An instant stands in the level of the highest digit in which it differs from `base`,
//! in the slot of that digit, so levels that follow one another hold instants that do. Going on to
//! a later `base` empties the slots that it passes, and spreads the one that it enters over lower
//! levels; so an entry moves once a level at most, and what is not due yet costs nothing. A slot is
//! a chain of chunks, each a cache line, which are read one after the other without a look at the
//! leaves.
//!
//! Entries are not taken out when a leaf need not wait any longer; who asks finds that out when
//! they are due. Invariant: every entry is later than `base` and, as long as it stands here, not
//! later than the leaf is eligible; `next` is not later than any.

use alloc::vec::Vec;

/// The wheels.
pub(super) struct Wheel {
    /// The first chunk of each slot.
    slots: Vec<u32>,
    filled: [[u64; WORDS]; LEVELS],
    /// The levels that are not empty.
    levels: u32,
    base: u64,
    /// Nothing is due before.
    next: u64,
    /// Whether something is due then.
    is_exact: bool,
    chunks: Vec<Chunk>,
    free: u32,
}

/// Some entries of a slot.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Chunk {
    entries: [Entry; ENTRIES],
    count: u32,
    next: u32,
}

/// A leaf and the last digits of its instant; those before are known from the slot.
#[derive(Clone, Copy)]
struct Entry {
    low: u32,
    leaf: u32,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self {
            slots: alloc::vec![NONE; LEVELS * SLOTS],
            filled: [[0; WORDS]; LEVELS],
            levels: 0,
            base: 0,
            next: u64::MAX,
            is_exact: true,
            chunks: Vec::new(),
            free: NONE,
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

    /// Nobody need wait until `at` any longer who did.
    #[inline]
    pub(super) fn forget(&mut self, at: u64) {
        self.is_exact &= at > self.next;
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
        let level = level_of(at ^ self.base);
        let digit = (at >> (DIGIT_BITS * level)) as usize % SLOTS;
        let entry = Entry { low: at as u32, leaf };
        let first = &mut self.slots[level as usize * SLOTS + digit];
        if let Some(chunk) = self.chunks.get_mut(*first as usize)
            && let Some(place) = chunk.entries.get_mut(chunk.count as usize)
        {
            *place = entry;
            chunk.count += 1;
            return;
        }
        let filled = Chunk { entries: [entry; ENTRIES], count: 1, next: *first };
        if let Some(chunk) = self.chunks.get_mut(self.free as usize) {
            *first = self.free;
            self.free = chunk.next;
            *chunk = filled;
        } else {
            *first = self.chunks.len() as u32;
            self.chunks.push(filled);
        }
        self.filled[level as usize][digit / 64] |= 1 << (digit % 64);
        self.levels |= 1 << level;
    }

    /// Goes on to `now`: takes out what is due, and asks `due` of each; it answers until when the
    /// leaf has to wait nevertheless. `at` says until when a leaf waits whose slot is too wide.
    pub(super) fn advance(&mut self, now: u64, mut due: impl FnMut(u32) -> Option<u64>) {
        let from = core::mem::replace(&mut self.base, now);
        let top = level_of(from ^ now);
        for level in 0..top {
            // Who has to wait nevertheless may come back to this level.
            let passed = self.filled[level as usize];
            for digit in digits(passed) {
                self.empty(level, digit, |this, entry| {
                    if let Some(at) = due(entry.leaf) {
                        this.place(at, entry.leaf);
                    }
                });
            }
        }
        let (last, before) = (digit(now, top), now & !u64::from(u32::MAX));
        while let Some(digit) = self.first_of(top).filter(|&digit| digit <= last) {
            let is_known = digit == last && top <= LEVEL_KNOWN;
            self.empty(top, digit, |this, entry| {
                // What is not due yet has the digits from here up in common with `now`.
                let at = before | u64::from(entry.low);
                let at = if is_known && at > now { Some(at) } else { due(entry.leaf) };
                if let Some(at) = at {
                    this.place(at, entry.leaf);
                }
            });
        }
        (self.next, self.is_exact) = (self.first(), false);
    }

    /// Empties the slot of the earliest; `keep` answers until when a leaf has to wait, if it has.
    pub(super) fn sift(&mut self, mut keep: impl FnMut(u32) -> Option<u64>) {
        if self.levels == 0 {
            return;
        }
        let level = self.levels.trailing_zeros();
        let Some(digit) = self.first_of(level) else { return };
        self.empty(level, digit, |this, entry| {
            if let Some(at) = keep(entry.leaf) {
                this.place(at, entry.leaf);
            }
        });
    }

    /// Takes all entries out of a slot.
    #[inline]
    fn empty(&mut self, level: u32, digit: usize, mut each: impl FnMut(&mut Self, Entry)) {
        let words = &mut self.filled[level as usize];
        words[digit / 64] &= !(1 << (digit % 64));
        if *words == [0; WORDS] {
            self.levels &= !(1 << level);
        }
        let slot = level as usize * SLOTS + digit;
        let mut at = core::mem::replace(&mut self.slots[slot], NONE);
        while at != NONE {
            let Chunk { entries, count, next } = self.chunks[at as usize];
            for entry in entries.into_iter().take(count as usize) {
                each(self, entry);
            }
            self.chunks[at as usize].next = core::mem::replace(&mut self.free, at);
            at = next;
        }
    }

    /// The first slot of a level that is not empty.
    #[inline]
    fn first_of(&self, level: u32) -> Option<usize> {
        let words = &self.filled[level as usize];
        let at = words.iter().position(|&word| word != 0)?;
        Some(at * 64 + words[at].trailing_zeros() as usize)
    }

    /// When the earliest slot begins.
    pub(super) fn first(&self) -> u64 {
        if self.levels == 0 {
            return u64::MAX;
        }
        let level = self.levels.trailing_zeros();
        let digit = self.first_of(level).unwrap_or(0) as u64;
        let shift = DIGIT_BITS * level;
        let above = self.base.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        (above << DIGIT_BITS | digit) << shift
    }

    /// The leaves that are due soon, in about that order, as many as `soon` takes; answers how many.
    pub(super) fn soon(&self, soon: &mut [u32]) -> usize {
        let mut count = 0;
        for digit in digits(self.filled[0]) {
            let mut at = self.slots[digit];
            while let Some(chunk) = self.chunks.get(at as usize) {
                for entry in &chunk.entries[..chunk.count as usize] {
                    let Some(place) = soon.get_mut(count) else { return count };
                    *place = entry.leaf;
                    count += 1;
                }
                at = chunk.next;
            }
        }
        count
    }
}

/// The slots of a level that are not empty.
#[inline]
fn digits(filled: [u64; WORDS]) -> impl Iterator<Item = usize> {
    filled.into_iter().enumerate().flat_map(|(word, bits)| {
        let rest = |&bits: &u64| Some(bits & bits.wrapping_sub(1)).filter(|&rest| rest != 0);
        let all = core::iter::successors(Some(bits).filter(|&bits| bits != 0), rest);
        all.map(move |bits| word * 64 + bits.trailing_zeros() as usize)
    })
}

/// The level of the highest digit that is not 0.
#[inline]
fn level_of(difference: u64) -> u32 {
    (difference | 1).ilog2() / DIGIT_BITS
}

#[inline]
fn digit(at: u64, level: u32) -> usize {
    (at >> (DIGIT_BITS * level)) as usize % SLOTS
}

const DIGIT_BITS: u32 = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
const WORDS: usize = SLOTS / 64;
const LEVELS: usize = (u64::BITS / DIGIT_BITS) as usize;
/// Up to this level the last digits of an entry are all that a lower level needs.
const LEVEL_KNOWN: u32 = u32::BITS / DIGIT_BITS;
const ENTRIES: usize = 7;
const NONE: u32 = u32::MAX;
