//! Who is due by a tag that only grows: a timing wheel that turns with the time, and tiers beyond.
//!
//! A tag is taken in *grains* of 2^`grain`. The wheel has a slot for each grain from the first that
//! has not passed on; who is due after that waits in tiers of 64 slots each, a turn of the wheel
//! long, and longer from tier to tier. A slot is a chain of items, newest first, and a bit says
//! whether anybody is in it. So putting in costs a few instructions however many wait, and an item
//! is moved once a tier at most before it is due. Of those in the grain that is being passed each
//! is asked for its exact tag, so nobody is asked more often than it takes calls to pass a grain.
//! Invariant: in the wheel is who is due less than a turn after the grain `first`; in the tiers an
//! item is in the lowest one above which its tag and `position` differ in no digit.

use super::id_set::IdSet;
use alloc::vec::Vec;

/// Items numbered from 0, each in the wheel once at most.
pub(crate) struct Wheel {
    /// The first item of each slot's chain: those of the wheel, then of the tiers in turn.
    chains: Vec<u32>,
    /// The slots of the wheel in which somebody is.
    filled: IdSet,
    /// The grain that is being passed: nobody is due in an earlier one.
    first: u64,
    /// Before that nobody is due, and nobody has to be moved down.
    due: u64,
    /// Slots of the wheel, less one.
    last_slot: usize,
    grain: u32,
    /// A turn of the wheel is 2^`turn`.
    turn: u32,
    /// A bit for each slot of the tiers.
    tiers: [u64; TIERS_MAX],
    /// What the tiers count from: not after the grain `first`.
    position: u64,
    /// When the first slot of the tiers begins in which somebody is.
    far_due: u64,
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
        // From half as many as there are items on; then twice as many may be in a grain.
        let slots = (items / 2 + 1).next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
        let grain = grain + u32::from(slots > SLOTS_MIN);
        let bits = slots.trailing_zeros();
        let tiers = (TAG_BITS - bits).div_ceil(WORD_BITS) as usize;
        Self {
            chains: alloc::vec![NONE; slots + WORD * tiers],
            filled: IdSet::new(slots),
            first: 0,
            due: u64::MAX,
            last_slot: slots - 1,
            grain,
            turn: grain + bits,
            tiers: [0; TIERS_MAX],
            position: 0,
            far_due: u64::MAX,
        }
    }

    /// Nobody is due before.
    #[inline(always)]
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Puts in `item`, which is not in it; its tag is above all until which others were taken out.
    #[inline(always)]
    pub(crate) fn insert<M: Member>(&mut self, member: &mut M, item: u32) {
        let tag = member.tag();
        let grain = tag >> self.grain;
        if grain.wrapping_sub(self.first) > self.last_slot as u64 {
            return self.insert_far(member, item);
        }
        let slot = grain as usize & self.last_slot;
        self.filled.insert(slot as u32);
        *member.next() = core::mem::replace(&mut self.chains[slot], item);
        self.due = self.due.min(tag);
    }

    /// The same for who is due a turn or more after the first grain.
    #[inline(never)]
    fn insert_far<M: Member>(&mut self, member: &mut M, item: u32) {
        if self.far_due == u64::MAX {
            self.position = self.first << self.grain;
        }
        let tag = member.tag();
        let tier = ((tag ^ self.position) >> self.turn).ilog2() / WORD_BITS;
        let shift = self.turn + tier * WORD_BITS;
        let number = (tag >> shift) as usize % WORD;
        self.tiers[tier as usize] |= 1 << number;
        let chain = self.far_chain(tier as usize, number);
        *member.next() = core::mem::replace(&mut self.chains[chain], item);
        self.far_due = self.far_due.min(tag >> shift << shift);
        self.due = self.due.min(self.far_due);
    }

    /// Takes out everybody whose tag is at most `until`, which is not below any earlier one, and
    /// hands each to `each`, which may change it.
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
        let last = until >> self.grain;
        let mut early = NONE;
        // Ends: each round empties a slot.
        let next = loop {
            let next = self.next_grain();
            if next > last {
                break next;
            }
            self.first = next + 1;
            let newest = self.empty(next as usize & self.last_slot);
            let member = &mut members[newest as usize];
            if *member.next() == NONE && member.tag() <= until {
                each(member, newest);
            } else {
                early = take_chain(members, newest, until, &mut each);
            }
        };
        self.first = last;
        self.due = if next == u64::MAX { self.far_due } else { next << self.grain };
        self.due = self.due.min(self.far_due);
        if early != NONE {
            self.keep(members, early);
        }
        if self.far_due <= until {
            self.bring_near(members, until, &mut each);
        }
    }

    /// The first grain in which somebody is due, if anybody is in the wheel; else the end of time.
    #[inline(always)]
    fn next_grain(&self) -> u64 {
        let start = self.first as usize & self.last_slot;
        let slot = self.filled.next(start as u32).or_else(|| self.filled.next(0));
        let ahead = |slot: u32| (slot as usize).wrapping_sub(start) & self.last_slot;
        slot.map_or(u64::MAX, |slot| self.first + ahead(slot) as u64)
    }

    /// Empties a slot of the wheel; answers its chain.
    #[inline(always)]
    fn empty(&mut self, slot: usize) -> u32 {
        self.filled.remove(slot as u32);
        core::mem::replace(&mut self.chains[slot], NONE)
    }

    /// Somebody in the tiers is due, or is to be moved down: hands out who is due, and brings the
    /// others of those slots nearer.
    #[inline(never)]
    fn bring_near<M: Member>(
        &mut self,
        members: &mut [M],
        until: u64,
        each: &mut impl FnMut(&mut M, u32),
    ) {
        while self.far_due <= until {
            let Some((tier, number)) = self.first_far() else { return };
            self.position = self.far_due;
            self.tiers[tier] &= !(1 << number);
            self.far_due = self.next_far();
            let chain = self.far_chain(tier, number);
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
        }
        self.due = self.due.min(self.far_due);
    }

    /// Puts back a chain of those in the first grain who are not due yet.
    #[inline(never)]
    fn keep<M: Member>(&mut self, members: &mut [M], early: u32) {
        let mut early = in_order(members, early);
        while early != NONE {
            let (item, member) = (early, &mut members[early as usize]);
            early = *member.next();
            self.insert(member, item);
        }
    }

    /// The smallest tag.
    pub(crate) fn least<M: Member>(&self, members: &mut [M]) -> Option<u64> {
        let next = self.next_grain();
        let mut least = u64::MAX;
        if next != u64::MAX {
            least = least_of(members, self.chains[next as usize & self.last_slot]);
        }
        if let Some((tier, number)) = self.first_far().filter(|_| self.far_due < least) {
            least = least.min(least_of(members, self.chains[self.far_chain(tier, number)]));
        }
        (least != u64::MAX).then_some(least)
    }

    /// Takes out everybody.
    pub(crate) fn clear(&mut self) {
        self.chains.fill(NONE);
        self.filled = IdSet::new(self.last_slot + 1);
        (self.tiers, self.first) = ([0; TIERS_MAX], 0);
        (self.due, self.far_due) = (u64::MAX, u64::MAX);
    }

    /// The first slot of the tiers in which somebody is.
    fn first_far(&self) -> Option<(usize, usize)> {
        let tier = self.tiers.iter().position(|&tier| tier != 0)?;
        Some((tier, self.tiers[tier].trailing_zeros() as usize))
    }

    /// When that begins.
    fn next_far(&self) -> u64 {
        let Some((tier, number)) = self.first_far() else { return u64::MAX };
        let shift = self.turn + tier as u32 * WORD_BITS;
        let above = u64::MAX.checked_shl(shift + WORD_BITS).unwrap_or(0);
        self.position & above | (number as u64) << shift
    }

    /// The chain of a slot of the tiers.
    #[inline]
    fn far_chain(&self, tier: usize, number: usize) -> usize {
        self.last_slot + 1 + tier * WORD + number
    }
}

/// Hands out who is due of a chain; answers a chain of the others.
#[inline(never)]
fn take_chain<M: Member>(
    members: &mut [M],
    newest: u32,
    until: u64,
    each: &mut impl FnMut(&mut M, u32),
) -> u32 {
    let mut rest = in_order(members, newest);
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
    early
}

/// The smallest tag of a chain.
fn least_of<M: Member>(members: &mut [M], mut item: u32) -> u64 {
    let mut least = u64::MAX;
    while item != NONE {
        let member = &mut members[item as usize];
        least = least.min(member.tag());
        item = *member.next();
    }
    least
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
/// Slots of the wheel.
const SLOTS_MIN: usize = WORD * WORD;
const SLOTS_MAX: usize = 1 << 20;
/// Beyond the shortest wheel, with grains of 1.
const TIERS_MAX: usize = (TAG_BITS - SLOTS_MIN.ilog2()).div_ceil(WORD_BITS) as usize;

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
            if now > 1 << 60 {
                (now, plain) = (0, BTreeSet::new());
                items.iter_mut().for_each(|item| item.is_in = false);
                wheel.clear();
            }
        }
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
