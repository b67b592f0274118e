//! Who is due by a tag that only grows: a timing wheel whose upper tiers turn into the lower ones.
//!
//! A tag is taken in *grains* of 2^`grain`. The lowest tier has a slot for every grain of its turn,
//! the tiers above have 64 slots each, of one turn of the tier below. A slot is a chain of items in
//! the order in which they came, and a bit says whether anybody is in it. So putting in costs a few
//! instructions however many wait, and an item is moved once a tier at most before it is due. Of
//! those in the grain that is being passed each is asked for its exact tag. Where many crowd one
//! grain, grains are made finer, so no more than [`CROWD`] are asked again and again. Invariant: an
//! item is in the lowest tier above which its tag and `position` differ in no digit.

use alloc::vec::Vec;

/// Items numbered from 0, each in the wheel once at most.
pub(crate) struct Wheel {
    /// A bit for each slot of the lowest tier.
    words: [u64; WORD],
    /// A bit for each word that is not zero.
    summary: u64,
    /// A bit for each slot of the tiers above.
    tiers: [u64; TIERS_MAX],
    /// The first item of each slot's chain: those of the lowest tier, then of the others in turn.
    chains: Vec<u32>,
    /// Where the turn of the lowest tier began.
    position: u64,
    /// Before that nobody is due, and nobody has to be moved down.
    due: u64,
    /// Slots of the lowest tier, less one.
    last_slot: usize,
    grain: u32,
    /// A turn of the lowest tier is 2^`turn`.
    turn: u32,
    /// What `grain` is where nobody crowds.
    usual_grain: u32,
}

/// An item as the wheel sees it.
pub(crate) trait Member {
    /// When it is due; does not change while it is in the wheel.
    fn tag(&self) -> u64;
    /// The item after it in its slot.
    fn next(&mut self) -> &mut u32;
}

impl Wheel {
    /// An empty wheel for about so many items with tags below 2^63, of which few are
    /// within 2^`grain` of one another.
    pub(crate) fn new(items: usize, grain: u32) -> Self {
        let slots = (SLOTS_PER_ITEM * items).next_power_of_two().clamp(WORD, WORD * WORD);
        let bits = slots.trailing_zeros();
        let tiers = (TAG_BITS - bits).div_ceil(WORD_BITS) as usize;
        Self {
            words: [0; WORD],
            summary: 0,
            tiers: [0; TIERS_MAX],
            chains: alloc::vec![NONE; slots + WORD * tiers],
            position: 0,
            due: u64::MAX,
            last_slot: slots - 1,
            grain,
            turn: grain + bits,
            usual_grain: grain,
        }
    }

    /// Puts in `item`, which is not in it; its tag is above all until which others were taken out.
    #[inline(always)]
    pub(crate) fn insert<M: Member>(&mut self, member: &mut M, item: u32) {
        let tag = member.tag();
        if (tag ^ self.position) >> self.turn != 0 {
            return self.insert_above(member, item);
        }
        let number = (tag >> self.grain) as usize & self.last_slot;
        self.words[number / WORD % WORD] |= 1 << (number % WORD);
        self.summary |= 1 << (number / WORD % WORD);
        *member.next() = core::mem::replace(&mut self.chains[number], item);
        self.due = self.due.min(tag);
    }

    /// The same for who is due after this turn of the lowest tier.
    #[inline(never)]
    fn insert_above<M: Member>(&mut self, member: &mut M, item: u32) {
        let tag = member.tag();
        let tier = ((tag ^ self.position) >> self.turn).ilog2() / WORD_BITS;
        let shift = self.turn + tier * WORD_BITS;
        let number = (tag >> shift) as usize % WORD;
        self.tiers[tier as usize] |= 1 << number;
        let chain = self.chain_above(tier as usize, number);
        *member.next() = core::mem::replace(&mut self.chains[chain], item);
        self.due = self.due.min(tag >> shift << shift);
    }

    /// Takes out everybody whose tag is at most `until`, which is not below any earlier one, and
    /// hands each to `each`, which may change anything but who is next to it.
    #[inline(always)]
    pub(crate) fn take_until<M: Member>(
        &mut self,
        members: &mut [M],
        until: u64,
        mut each: impl FnMut(&mut M, u32),
    ) {
        if self.due > until {
            return;
        }
        // Ends: each round empties a slot of the lowest tier, or returns.
        while self.summary != 0 || self.bring_down(members, until, &mut each) {
            let word = self.summary.trailing_zeros() as usize % WORD;
            let number = word * WORD + self.words[word].trailing_zeros() as usize;
            self.due = self.position | (number as u64) << self.grain;
            if self.due > until {
                return;
            }
            self.words[word] &= self.words[word].wrapping_sub(1);
            if self.words[word] == 0 {
                self.summary &= self.summary.wrapping_sub(1);
            }
            let mut rest = in_order(members, core::mem::replace(&mut self.chains[number], NONE));
            let mut early = NONE;
            while rest != NONE {
                let (item, member) = (rest, &mut members[rest as usize]);
                rest = *member.next();
                if member.tag() <= until {
                    each(member, item);
                } else {
                    *member.next() = core::mem::replace(&mut early, item);
                }
            }
            if early != NONE {
                return self.keep(members, early);
            }
        }
    }

    /// The lowest tier is empty: moves down to it who is in the first slot above, or hands them
    /// out, and so on if that was all. Answers whether anybody is in the lowest tier now; if not,
    /// nobody is due.
    #[inline(never)]
    fn bring_down<M: Member>(
        &mut self,
        members: &mut [M],
        until: u64,
        each: &mut impl FnMut(&mut M, u32),
    ) -> bool {
        while let Some((tier, number)) = self.first_above() {
            let shift = self.turn + tier as u32 * WORD_BITS;
            let above = u64::MAX.checked_shl(shift + WORD_BITS).unwrap_or(0);
            self.due = self.position & above | (number as u64) << shift;
            if self.due > until {
                return false;
            }
            self.position = self.due;
            self.tiers[tier] &= !(1 << number);
            let chain = self.chain_above(tier, number);
            let mut rest = in_order(members, core::mem::replace(&mut self.chains[chain], NONE));
            while rest != NONE {
                let (item, member) = (rest, &mut members[rest as usize]);
                rest = *member.next();
                if member.tag() <= until {
                    each(member, item);
                } else {
                    self.insert(member, item);
                }
            }
            if self.summary != 0 {
                return true;
            }
        }
        self.due = u64::MAX;
        false
    }

    /// Puts back a chain of those in the first slot who are not due yet.
    #[inline(never)]
    fn keep<M: Member>(&mut self, members: &mut [M], mut early: u32) {
        self.due = u64::MAX;
        let mut count = 0;
        while early != NONE {
            let (item, member) = (early, &mut members[early as usize]);
            early = *member.next();
            self.insert(member, item);
            count += 1;
        }
        if count > CROWD && self.grain > 0 {
            self.refine(members);
        }
    }

    /// The smallest tag.
    pub(crate) fn least<M: Member>(&mut self, members: &mut [M]) -> Option<u64> {
        let mut item = self.chains[self.first_chain()?];
        let mut least = u64::MAX;
        while item != NONE {
            let member = &mut members[item as usize];
            least = least.min(member.tag());
            item = *member.next();
        }
        Some(least)
    }

    /// Takes out everybody.
    pub(crate) fn clear(&mut self) {
        self.chains.fill(NONE);
        (self.words, self.summary, self.tiers) = ([0; WORD], 0, [0; TIERS_MAX]);
        (self.position, self.due) = (0, u64::MAX);
        self.turn += self.usual_grain - self.grain;
        self.grain = self.usual_grain;
    }

    /// A guess: who is due when as many grains as `ahead` have passed.
    pub(crate) fn about(&self, ahead: usize) -> Option<u32> {
        let first = self.first_chain()?;
        let number = first + ahead;
        let word = self.words.get(number / WORD).map_or(0, |word| word >> (number % WORD));
        let chain = if word == 0 { first } else { number + word.trailing_zeros() as usize };
        self.chains.get(chain).copied().filter(|&item| item != NONE)
    }

    /// The chain of the first slot in which somebody is.
    fn first_chain(&self) -> Option<usize> {
        if self.summary == 0 {
            return self.first_above().map(|(tier, number)| self.chain_above(tier, number));
        }
        let word = self.summary.trailing_zeros() as usize;
        Some(word * WORD + self.words[word].trailing_zeros() as usize)
    }

    /// The first slot above the lowest tier in which somebody is.
    fn first_above(&self) -> Option<(usize, usize)> {
        let tier = self.tiers.iter().position(|&tier| tier != 0)?;
        Some((tier, self.tiers[tier].trailing_zeros() as usize))
    }

    /// The chain of a slot above the lowest tier.
    #[inline]
    fn chain_above(&self, tier: usize, number: usize) -> usize {
        self.last_slot + 1 + tier * WORD + number
    }

    /// Makes grains finer, so that fewer share one.
    #[cold]
    fn refine<M: Member>(&mut self, members: &mut [M]) {
        let mut all = NONE;
        for chain in &mut self.chains {
            while *chain != NONE {
                let item = *chain;
                *chain = core::mem::replace(members[item as usize].next(), all);
                all = item;
            }
        }
        (self.words, self.summary, self.tiers) = ([0; WORD], 0, [0; TIERS_MAX]);
        let finer = self.grain.min(WORD_BITS);
        self.grain -= finer;
        self.turn -= finer;
        self.due = u64::MAX;
        while all != NONE {
            let (item, member) = (all, &mut members[all as usize]);
            all = *member.next();
            self.insert(member, item);
        }
    }
}

/// Turns a chain round: who came into its slot first stands first. Where items come in the order in
/// which they are wanted, as from one round to the next, they then leave in it, too.
#[inline(always)]
fn in_order<M: Member>(members: &mut [M], newest: u32) -> u32 {
    let mut rest = core::mem::replace(members[newest as usize].next(), NONE);
    let mut oldest = newest;
    while rest != NONE {
        let after = core::mem::replace(members[rest as usize].next(), oldest);
        oldest = core::mem::replace(&mut rest, after);
    }
    oldest
}

/// Nobody.
const NONE: u32 = u32::MAX;
const WORD: usize = u64::BITS as usize;
const WORD_BITS: u32 = WORD.ilog2();
/// Bits of a tag.
const TAG_BITS: u32 = 63;
/// Above the lowest tier, of at least 64 slots.
const TIERS_MAX: usize = (TAG_BITS - WORD_BITS).div_ceil(WORD_BITS) as usize;
/// So many slots of the lowest tier, or 4096: fewer items have to be moved down to it.
const SLOTS_PER_ITEM: usize = 4;
/// If more share a grain, grains are made finer.
const CROWD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeSet;

    struct Item {
        tag: u64,
        next: u32,
        is_in: bool,
    }

    impl Member for Item {
        fn tag(&self) -> u64 {
            self.tag
        }

        fn next(&mut self) -> &mut u32 {
            &mut self.next
        }
    }

    /// Tags come up to `spread` after now, some on a tag that others have, some very far off.
    fn check(count: u32, spread: u64, grain: u32) {
        let item = |_| Item { tag: 0, next: 0, is_in: false };
        let mut items: Vec<Item> = (0..count).map(item).collect();
        let mut wheel = Wheel::new(count as usize, grain);
        let mut plain = BTreeSet::new();
        let mut random = Random::new(spread, u64::from(count) + u64::from(grain));
        let mut finest = grain;
        let mut now = 0;
        for step in 0..40_000 {
            let at = random.below(count);
            let item = &mut items[at as usize];
            if !item.is_in && random.below(3) > 0 {
                item.tag = now
                    + 1
                    + match random.below(64) {
                        0 => random.bits() >> 5,
                        1..=20 => spread / 2 - (now & (spread / 4)).min(spread / 4),
                        _ => random.bits() % spread,
                    };
                item.is_in = true;
                plain.insert((item.tag, at));
                wheel.insert(&mut items[at as usize], at);
            } else {
                let least = plain.first().map(|row| row.0);
                assert_eq!(wheel.least(&mut items), least, "step {step}");
                now = match random.below(8) {
                    0 => least.unwrap_or(now),
                    _ => now + random.bits() % (1 + spread / u64::from(count)),
                };
                let due: Vec<_> = plain.range(..=(now, u32::MAX)).copied().collect();
                due.iter().for_each(|row| assert!(plain.remove(row)));
                let mut taken = Vec::new();
                wheel.take_until(&mut items, now, |item, at| {
                    item.is_in = false;
                    taken.push((item.tag, at));
                });
                taken.sort_unstable();
                assert_eq!(taken, due, "step {step}");
            }
            finest = finest.min(wheel.grain);
            if now > 1 << 60 {
                (now, plain) = (0, BTreeSet::new());
                items.iter_mut().for_each(|item| item.is_in = false);
                wheel.clear();
            }
        }
        assert_eq!(finest < grain, count == 3000 && spread < 4 << grain && grain > 0);
    }

    #[test]
    fn it_agrees_with_an_ordered_set() {
        for count in [1, 3, 100, 3000] {
            for (spread, grain) in [(8, 0), (8, 20), (1000, 8), (1 << 20, 10), (1 << 44, 36)] {
                check(count, spread, grain);
            }
        }
    }
}
