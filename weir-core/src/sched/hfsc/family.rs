//! Siblings by virtual time: who has the lowest of those that may be chosen, and what the highest
//! is of those that are active.
//!
//! The virtual times of siblings stand side by side, eight in a cache line, so up to [`SCANNED`] of
//! them are looked through. Larger families have tiers above, which hold for each eight a time that
//! none of them is below; beyond [`SEARCHED`] also one that none is above. Who is the lowest is
//! looked for when asked and kept until it moves; so is the highest. To look is to go down by the
//! tiers: where nobody has the time that they promised, what is there is written down and the look
//! begins again. So who goes on to a later time leaves the tiers alone: most packets are chosen by
//! deadlines, and need none of it. Of equal times the first sibling is the lowest. Invariant: no
//! value is below that of its place in the first tier; a place of another tier holds the lowest of
//! the places below it; `lowest` is who is, or nobody known.

use super::leaf::Own;
use super::limit::NONE;
use crate::prefetch::Prefetch;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// The children of a class, or those of the link, and what link sharing keeps of that class.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// The largest virtual time at which link sharing chose a child.
    pub(super) floor: u64,
    /// The highest time of active children, [`UNKNOWN`] if it has to be looked for.
    high: u64,
    /// The slot of the child that may be chosen next.
    lowest: u32,
    pub(super) active: u32,
    /// The slot of its first child, and how many there are.
    pub(super) start: u32,
    pub(super) size: u32,
    /// The first child, or where the list of its children begins.
    pub(super) first: u32,
    /// Bytes of its children that the classes above were not yet told of.
    pub(super) owed: u32,
    /// Where its tiers of lowest times begin.
    tiers: u32,
    /// Where those of highest begin, behind them; [`NONE`] while nobody asked for them.
    highs: u32,
    /// The largest time with which a child became idle in this period.
    pub(super) top: u64,
    pub(super) own: Own,
    /// By how much its unit is shifted.
    pub(super) scale: u8,
    /// Whether the floor has risen since this period began.
    pub(super) has_risen: bool,
    /// Whether children are neither all leaves nor all families in a row.
    pub(super) is_mixed: bool,
    /// Whether there are limits on children or below.
    pub(super) is_limited: bool,
}

/// The virtual times of all families.
#[derive(Clone)]
pub(super) struct Times {
    /// The key of each child with bits that say where it is: smaller words are lower, and who is
    /// held or out is above everybody who is in.
    words: Vec<Line>,
    tiers: Vec<Line>,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; WAYS]);

/// Where a child is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    In,
    /// Active, but an upper limit holds it back.
    Held,
}

impl Family {
    /// A family without children yet.
    pub(super) const fn new(own: Own, origin: u64) -> Self {
        Self {
            floor: origin,
            high: UNKNOWN,
            lowest: NONE,
            active: 0,
            start: 0,
            size: 0,
            first: 0,
            owed: 0,
            tiers: 0,
            highs: NONE,
            top: origin,
            own,
            scale: 0,
            has_risen: false,
            is_mixed: false,
            is_limited: false,
        }
    }

    fn lines(&self) -> usize {
        (self.size as usize).div_ceil(WAYS)
    }

    fn first_line(&self) -> usize {
        self.start as usize / WAYS
    }

    /// The tiers of the lowest times.
    #[inline]
    fn lows(&self) -> Tier {
        (self.tiers as usize, self.lines())
    }

    /// Whether somebody asked for the highest time.
    #[inline(always)]
    fn knows_highs(&self) -> bool {
        self.highs != NONE
    }

    /// The tiers of the highest times.
    #[inline]
    fn highs(&self) -> Tier {
        (self.highs as usize, self.lines())
    }

    /// Whether the lowest times are kept in tiers.
    #[inline]
    fn is_large(&self) -> bool {
        self.size as usize > SCANNED
    }

    /// Whether the highest times are kept in tiers.
    #[inline]
    fn is_huge(&self) -> bool {
        self.size as usize > SEARCHED
    }

    /// An active child becomes idle at this time; answers whether nobody else is active.
    #[inline]
    pub(super) fn leave(&mut self, key: u64) -> bool {
        self.top = self.top.max(key);
        self.active -= 1;
        self.active == 0
    }
}

impl Times {
    pub(super) const fn new() -> Self {
        Self { words: Vec::new(), tiers: Vec::new() }
    }

    /// Makes room for the children of a family, all out at 0.
    pub(super) fn add(&mut self, family: &mut Family) {
        family.start = (self.words.len() * WAYS) as u32;
        for line in 0..family.lines() {
            let word = |way| line * WAYS + way < family.size as usize;
            let word = |way| if word(way) { OUT } else { u64::MAX };
            self.words.push(Line(core::array::from_fn(word)));
        }
        if family.is_large() {
            family.tiers = self.add_tiers(family.lines());
        }
        if family.is_huge() {
            self.add_tiers(family.lines());
        }
    }

    /// Makes room for the tiers above so many lines; answers where they begin.
    fn add_tiers(&mut self, lines: usize) -> u32 {
        let start = self.tiers.len();
        for (_, width) in tiers((start, lines)) {
            let place = |place: usize| if place < width { 0 } else { u64::MAX };
            let line = |line: usize| Line(core::array::from_fn(|way| place(line * WAYS + way)));
            self.tiers.extend((0..width.div_ceil(WAYS)).map(line));
        }
        start as u32
    }

    /// No more families come.
    pub(super) fn finish(&mut self) {
        self.words.shrink_to_fit();
        self.tiers.shrink_to_fit();
    }

    #[inline]
    fn word(&self, slot: u32) -> u64 {
        self.words[slot as usize / WAYS].0[slot as usize % WAYS]
    }

    /// Asks for the time of a child.
    #[inline(always)]
    pub(super) fn touch(&self, slot: u32, prefetch: Prefetch) {
        prefetch.ask(&self.words[slot as usize / WAYS].0[0]);
    }

    /// The time last given to a child, wherever it is.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> u64 {
        self.word(slot) & KEY_BITS
    }

    /// The child with the lowest time of those that are in.
    #[inline]
    pub(super) fn lowest(&mut self, family: &mut Family) -> Option<u32> {
        if family.lowest == NONE {
            family.lowest = self.look(family)?;
        }
        Some(family.lowest)
    }

    #[inline(never)]
    fn look(&mut self, family: &Family) -> Option<u32> {
        if family.active == 0 {
            return None;
        }
        let words = &self.words[family.first_line()..][..family.lines()];
        let (low, at) = if family.is_large() {
            lowest_below(&mut self.tiers, family.lows(), words, |word| word)
        } else {
            least(words, |word| word)
        };
        (low < HELD).then_some(family.start + at as u32)
    }

    /// The time with which a child joins others who are active.
    #[inline]
    pub(super) fn mean(&mut self, family: &mut Family) -> u64 {
        let high = self.highest(family);
        if family.has_risen { family.floor.midpoint(high) } else { high }
    }

    /// The highest time of the active children, of whom there are some.
    #[inline]
    pub(super) fn highest(&mut self, family: &mut Family) -> u64 {
        if family.high == UNKNOWN {
            family.high = self.look_high(family);
        }
        family.high
    }

    #[inline(never)]
    fn look_high(&mut self, family: &mut Family) -> u64 {
        let words = &self.words[family.first_line()..][..family.lines()];
        if family.is_huge() {
            let lines: usize = tiers(family.lows()).map(|(_, width)| width.div_ceil(WAYS)).sum();
            family.highs = family.tiers + lines as u32;
            return !lowest_below(&mut self.tiers, family.highs(), words, height).0;
        }
        let all = words.iter().flat_map(|line| line.0);
        !all.fold(u64::MAX, |low, word| low.min(height(word)))
    }

    /// Gives a child that is out a time.
    pub(super) fn keep(&mut self, slot: u32, key: u64) {
        self.words[slot as usize / WAYS].0[slot as usize % WAYS] = key | OUT;
    }

    /// An active child goes on to a time, which is not earlier.
    #[inline]
    pub(super) fn put(&mut self, family: &mut Family, slot: u32, key: u64, part: Part) {
        let word = match part {
            Part::In => key,
            Part::Held => key | HELD,
        };
        // A child alone is the highest.
        family.high = if family.active == 1 { key } else { family.high.max(key) };
        self.set(family, slot, word);
    }

    /// The word of a child. Who changes it says so, unless it is out.
    #[inline(always)]
    pub(super) fn word_mut(&mut self, slot: u32) -> &mut u64 {
        &mut self.words[slot as usize / WAYS].0[slot as usize % WAYS]
    }

    /// An active child that may be chosen went on from one time to another, which is not earlier;
    /// that is written already.
    #[inline(always)]
    pub(super) fn went_on(&mut self, family: &mut Family, slot: u32, change: (u64, u64)) {
        let (_, time) = change;
        // A child alone is the highest.
        family.high = if family.active == 1 { time } else { family.high.max(time) };
        if slot == family.lowest {
            family.lowest = NONE;
        }
        self.note(family, slot, change);
    }

    /// A child that was active until now, at `before`, is idle at `key`.
    #[inline]
    pub(super) fn take_out(&mut self, family: &mut Family, slot: u32, before: u64, key: u64) {
        if before >= family.high {
            family.high = UNKNOWN;
        }
        self.set(family, slot, key | OUT);
    }

    #[inline(always)]
    fn set(&mut self, family: &mut Family, slot: u32, word: u64) {
        let before = core::mem::replace(self.word_mut(slot), word);
        if slot == family.lowest {
            family.lowest = NONE;
        } else if family.lowest != NONE && (word, slot) < (self.word(family.lowest), family.lowest)
        {
            family.lowest = slot;
        }
        self.note(family, slot, (before, word));
    }

    /// A word changed: tiers promise too much if it is lower, or if its height is.
    #[inline(always)]
    fn note(&mut self, family: &Family, slot: u32, (before, word): (u64, u64)) {
        if family.is_large() && (word < before || family.knows_highs()) {
            self.note_above(family, slot, word);
        }
    }

    /// The same where there are tiers.
    #[inline(never)]
    fn note_above(&mut self, family: &Family, slot: u32, word: u64) {
        let at = (slot - family.start) as usize / WAYS;
        sink(&mut self.tiers, family.lows(), at, word);
        if family.knows_highs() {
            sink(&mut self.tiers, family.highs(), at, height(word));
        }
    }

    /// Lowers all times of a family by `by`, held at 1. As long as the family.
    #[cold]
    pub(super) fn lower(&mut self, family: &mut Family, by: u64) {
        (family.high, family.lowest) = (UNKNOWN, NONE);
        for slot in family.start..family.start + family.size {
            let word = self.word(slot);
            let part = word & !KEY_BITS;
            self.set(family, slot, (word & KEY_BITS).saturating_sub(by).max(1) | part);
        }
    }
}

/// The first of some tiers: where it begins, and how many places it has, one for each line below.
type Tier = (usize, usize);

/// There is a `value` below place `at` of the first tier.
#[inline]
fn sink(lines: &mut [Line], first: Tier, mut at: usize, value: u64) {
    for (start, _) in tiers(first) {
        let place = &mut lines[start + at / WAYS].0[at % WAYS];
        if *place <= value {
            return;
        }
        *place = value;
        at /= WAYS;
    }
}

/// The lowest value of all and where its word is, of equals the first; `value` is that of a word.
#[inline]
fn lowest_below(
    lines: &mut [Line],
    first: Tier,
    words: &[Line],
    value: impl Fn(u64) -> u64,
) -> (u64, usize) {
    let (mut starts, mut count, mut width) = ([0; TIERS_MAX], 0, 0);
    for (place, tier) in starts.iter_mut().zip(tiers(first)) {
        (*place, width) = tier;
        count += 1;
    }
    let Some((&top, below)) = starts[..count].split_last() else { return least(words, value) };
    loop {
        let (promised, mut at) = least(&lines[top..][..width.div_ceil(WAYS)], |place| place);
        for start in below.iter().rev() {
            at = at * WAYS + least(&lines[start + at..][..1], |place| place).1;
        }
        let (low, way) = least(&words[at..][..1], &value);
        if low == promised {
            return (low, at * WAYS + way);
        }
        // Its place promised too much; so may those above.
        mend(lines, first, at, low);
    }
}

/// The lowest value below place `at` of the first tier is `low`.
#[inline]
fn mend(lines: &mut [Line], first: Tier, mut at: usize, mut low: u64) {
    for (start, _) in tiers(first) {
        let line = &mut lines[start + at / WAYS];
        line.0[at % WAYS] = low;
        low = line.0.iter().fold(u64::MAX, |low, &place| low.min(place));
        at /= WAYS;
    }
}

/// A tier and those above it.
#[inline]
fn tiers(first: Tier) -> impl Iterator<Item = Tier> {
    core::iter::successors(Some(first), |&(start, width)| {
        let above = width.div_ceil(WAYS);
        (width > SCANNED).then_some((start + above, above))
    })
}

/// The lowest value of some lines and where it is; of equals the first.
#[inline(always)]
fn least(lines: &[Line], value: impl Fn(u64) -> u64) -> (u64, usize) {
    let rows = lines.iter().enumerate().map(|(index, line)| {
        let (low, way) = least_of(line.0.map(&value));
        (low, index * WAYS + way)
    });
    rows.reduce(lower).unwrap_or((u64::MAX, 0))
}

/// The same of a line: its halves play, and the halves of these.
#[inline(always)]
fn least_of(values: [u64; WAYS]) -> (u64, usize) {
    let pair = |at: usize| lower((values[at], at), (values[at + 1], at + 1));
    lower(lower(pair(0), pair(2)), lower(pair(4), pair(6)))
}

/// The lower of two values and where it is; of equals the first. Nobody can foretell it, so there
/// is no jump.
#[inline(always)]
fn lower(first: (u64, usize), second: (u64, usize)) -> (u64, usize) {
    let is_second = second.0 < first.0;
    let low = select_unpredictable(is_second, second.0, first.0);
    (low, select_unpredictable(is_second, second.1, first.1))
}

/// The lower the higher the time of a word is, if it counts.
#[inline]
fn height(word: u64) -> u64 {
    if word < OUT { !(word & KEY_BITS) } else { u64::MAX }
}

const WAYS: usize = 8;
/// So many are looked through for the lowest.
const SCANNED: usize = 2 * WAYS;
/// So many siblings are looked through for the highest.
const SEARCHED: usize = 16 * WAYS;
/// Tiers above 2^32 siblings.
const TIERS_MAX: usize = 11;
/// Words from here on are of those that are held, or out.
const HELD: u64 = 1 << 63;
/// Words from here on are of those that are out.
const OUT: u64 = HELD | 1 << 62;
/// The bits of a word that are its key.
const KEY_BITS: u64 = (1 << 62) - 1;
/// The largest key.
pub(super) const KEY_MAX: u64 = KEY_BITS - 1;
/// No time is that high.
const UNKNOWN: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const NOBODY: Own = Own { slot: 0, family: 0, fraction: 0, kind: 0 };

    /// Children come, go on and leave at random beside a table.
    fn check(size: u32) {
        let mut times = Times::new();
        let mut families = [Family::new(NOBODY, 1), Family::new(NOBODY, 1)];
        for family in &mut families {
            family.size = size;
            times.add(family);
        }
        let family = &mut families[1];
        let mut random = Random::new(u64::from(size), 0);
        let mut table = alloc::vec![(0u64, None); size as usize];
        for step in 0..6_000u64 {
            let child = random.below(size);
            let slot = family.start + child;
            let (before, part) = table[child as usize];
            let ahead = before.max(step / 10) + u64::from(random.below(30)) + 1;
            // Who is held stays where it was until it is let in.
            let key = if part.is_some() && random.below(2) == 0 { before } else { ahead };
            if part.is_some() && random.below(3) == 0 {
                family.leave(key);
                times.take_out(family, slot, before, key);
                table[child as usize] = (key, None);
            } else {
                family.active += u32::from(part.is_none());
                let part = if random.below(4) == 0 { Part::Held } else { Part::In };
                times.put(family, slot, key, part);
                table[child as usize] = (key, Some(part));
            }
            if step % 500 == 499 {
                times.lower(family, 7);
                table.iter_mut().for_each(|row| row.0 = row.0.saturating_sub(7).max(1));
            }
            let rows = || table.iter().zip(family.start..);
            let low = rows().filter(|row| row.0.1 == Some(Part::In)).map(|row| (row.0.0, row.1));
            let high = rows().filter(|row| row.0.1.is_some()).map(|row| row.0.0);
            let (low, high) = (low.min(), high.max());
            if random.below(3) == 0 {
                assert_eq!(times.lowest(family), low.map(|row| row.1), "{size} {step}");
            }
            if let (0, Some(high)) = (random.below(3), high) {
                assert_eq!(times.highest(family), high, "{size} {step}");
            }
            assert_eq!(times.key(slot), table[child as usize].0);
        }
    }

    #[test]
    fn lowest_and_highest_are_those_of_a_scan() {
        [1, 2, 7, 8, 9, 16, 17, 64, 65, 128, 129, 600, 1100].into_iter().for_each(check);
    }
}
