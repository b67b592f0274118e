//! Siblings by virtual time: who has the lowest of those that may be chosen, and what the highest is
//! of those that are active.
//!
//! The virtual times of siblings stand side by side, eight in a cache line, so up to [`SCANNED`] of
//! them are looked through. Larger families have tiers of the lowest of each eight, brought up to
//! date as far as something changes. Who is the lowest is looked for when asked, and kept until he
//! moves; so is the highest. Of equal times the first sibling is the lowest. Invariant: what a tier
//! holds is the lowest below it; `lowest` is who is, or nobody known.

use super::leaf::Own;
use super::limit::NONE;
use alloc::vec::Vec;

/// The children of a class, or those of the link, and what link sharing keeps of that class.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// The largest virtual time at which link sharing chose a child.
    pub(super) floor: u64,
    /// The word of `lowest`, 0 if that is not known.
    low: u64,
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
    /// Where its tiers begin.
    tiers: u32,
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
    Out,
}

impl Family {
    /// A family without children yet.
    pub(super) const fn new(own: Own, origin: u64) -> Self {
        Self {
            floor: origin,
            low: 0,
            high: UNKNOWN,
            lowest: NONE,
            active: 0,
            start: 0,
            size: 0,
            first: 0,
            tiers: 0,
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
        family.tiers = self.tiers.len() as u32;
        for line in 0..family.lines() {
            let word = |way| line * WAYS + way < family.size as usize;
            let word = |way| if word(way) { OUT } else { u64::MAX };
            self.words.push(Line(core::array::from_fn(word)));
        }
        let (low, high) = (family.is_large(), family.is_huge());
        for _ in [low, high].into_iter().filter(|&kept| kept) {
            for (_, width) in tiers(0, family.lines()) {
                let lines = self.tiers.len() + width.div_ceil(WAYS);
                self.tiers.resize(lines, Line([u64::MAX; WAYS]));
            }
        }
        if low {
            for line in 0..family.lines() {
                self.tiers[family.tiers as usize + line / WAYS].0[line % WAYS] = OUT;
            }
        }
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

    /// The time last given to a child, wherever it is.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> u64 {
        self.word(slot) & KEY_BITS
    }

    /// The child with the lowest time of those that are in.
    #[inline]
    pub(super) fn lowest(&self, family: &mut Family) -> Option<u32> {
        if family.lowest == NONE {
            let (low, slot) = self.look(family)?;
            (family.low, family.lowest) = (low, slot);
        }
        Some(family.lowest)
    }

    /// Whether nobody is in.
    pub(super) fn is_empty(&self, family: &Family) -> bool {
        family.lowest == NONE && self.look(family).is_none()
    }

    fn look(&self, family: &Family) -> Option<(u64, u32)> {
        if family.active == 0 {
            return None;
        }
        let words = &self.words[family.first_line()..][..family.lines()];
        if !family.is_large() {
            let (low, at) = least(words);
            return (low < HELD).then_some((low, family.start + at as u32));
        }
        let mut path = [0; TIERS_MAX];
        let mut count = 0;
        for ((start, width), place) in tiers(family.tiers as usize, words.len()).zip(&mut path) {
            (*place, count) = (start, count + 1);
            if width <= SCANNED {
                break;
            }
        }
        let top = path[count - 1];
        let width = top_width(words.len());
        let (low, mut at) = least(&self.tiers[top..][..width.div_ceil(WAYS)]);
        if low >= HELD {
            return None;
        }
        for &start in path[..count - 1].iter().rev() {
            at = at * WAYS + place_of(&self.tiers[start + at], low);
        }
        at = at * WAYS + place_of(&words[at], low);
        Some((low, family.start + at as u32))
    }

    /// The highest time of the active children, of whom there are some.
    #[inline]
    pub(super) fn highest(&self, family: &mut Family) -> u64 {
        if family.high == UNKNOWN {
            family.high = self.look_high(family);
        }
        family.high
    }

    fn look_high(&self, family: &Family) -> u64 {
        let words = &self.words[family.first_line()..][..family.lines()];
        if family.is_huge() {
            let (start, width) = (self.highs(family), words.len());
            let top = tiers(start, width).last().map_or(start, |row| row.0);
            let lines = &self.tiers[top..][..top_width(width).div_ceil(WAYS)];
            return !least(lines).0;
        }
        let all = words.iter().flat_map(|line| line.0);
        !all.fold(u64::MAX, |low, word| low.min(height(word)))
    }

    /// Where the tiers of the highest begin, behind those of the lowest.
    fn highs(&self, family: &Family) -> usize {
        let last = tiers(family.tiers as usize, family.lines()).last();
        last.map_or(0, |(start, width)| start + width.div_ceil(WAYS))
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
            Part::Out => key | OUT,
        };
        // A child alone is the highest.
        family.high = if family.active == 1 { key } else { family.high.max(key) };
        self.set(family, slot, word);
    }

    /// A child that was active until now, at `before`, is idle at `key`.
    #[inline]
    pub(super) fn take_out(&mut self, family: &mut Family, slot: u32, before: u64, key: u64) {
        if before >= family.high {
            family.high = UNKNOWN;
        }
        self.set(family, slot, key | OUT);
    }

    #[inline]
    fn set(&mut self, family: &mut Family, slot: u32, word: u64) {
        let line = &mut self.words[slot as usize / WAYS];
        let before = core::mem::replace(&mut line.0[slot as usize % WAYS], word);
        if slot == family.lowest {
            (family.low, family.lowest) = (0, NONE);
        } else if word <= family.low && (word < family.low || slot < family.lowest) {
            (family.low, family.lowest) = (word, slot);
        }
        if family.is_large() {
            self.climb(family, slot, before, word);
        }
    }

    /// Brings the tiers above a child up to date.
    fn climb(&mut self, family: &Family, slot: u32, before: u64, word: u64) {
        let line = &self.words[slot as usize / WAYS];
        let at = (slot - family.start) as usize / WAYS;
        let lines = family.lines();
        let start = family.tiers as usize;
        raise(&mut self.tiers, (start, lines), at, (before, word), || lowest_of(line.0));
        if family.is_huge() {
            let start = tiers(start, lines).last().map_or(0, |row| row.0 + row.1.div_ceil(WAYS));
            let heights = (height(before), height(word));
            let least = || lowest_of(line.0.map(height));
            raise(&mut self.tiers, (start, lines), at, heights, least);
        }
    }

    /// Lowers all times of a family by `by`, held at 1. As long as the family.
    #[cold]
    pub(super) fn lower(&mut self, family: &mut Family, by: u64) {
        (family.high, family.low, family.lowest) = (UNKNOWN, 0, NONE);
        for slot in family.start..family.start + family.size {
            let word = self.word(slot);
            let part = word & !KEY_BITS;
            self.set(family, slot, (word & KEY_BITS).saturating_sub(by).max(1) | part);
        }
    }

    /// Reads the time of a child.
    #[inline]
    pub(super) fn touch(&self, slot: u32) -> u64 {
        self.word(slot)
    }
}

/// A value below tier place `at` changed; `least` looks for the lowest value there.
#[inline]
fn raise(
    lines: &mut [Line],
    (start, width): (usize, usize),
    mut at: usize,
    (mut before, mut low): (u64, u64),
    least: impl FnOnce() -> u64,
) {
    let mut least = Some(least);
    let mut below = 0;
    for (start, _) in tiers(start, width) {
        let held = lines[start + at / WAYS].0[at % WAYS];
        if low >= held {
            if before != held {
                return;
            }
            low = least.take().map_or_else(|| lowest_of(lines[below].0), |least| least());
            if low == held {
                return;
            }
        }
        least = None;
        below = start + at / WAYS;
        lines[below].0[at % WAYS] = low;
        (before, at) = (held, at / WAYS);
    }
}

/// Where the tiers above so many lines begin, and how wide they are.
#[inline]
fn tiers(start: usize, lines: usize) -> impl Iterator<Item = (usize, usize)> {
    core::iter::successors(Some((start, lines)), |&(start, width)| {
        let above = width.div_ceil(WAYS);
        (width > SCANNED).then_some((start + above, above))
    })
}

fn top_width(lines: usize) -> usize {
    tiers(0, lines).last().map_or(lines, |row| row.1)
}

/// The lowest word of some lines and where it is; of equals the first.
#[inline]
fn least(lines: &[Line]) -> (u64, usize) {
    let (mut low, mut place) = (u64::MAX, 0);
    for (index, line) in lines.iter().enumerate() {
        for (way, &word) in line.0.iter().enumerate() {
            if word < low {
                (low, place) = (word, index * WAYS + way);
            }
        }
    }
    (low, place)
}

#[inline]
fn lowest_of(words: [u64; WAYS]) -> u64 {
    words.into_iter().fold(u64::MAX, u64::min)
}

fn place_of(line: &Line, word: u64) -> usize {
    line.0.iter().position(|&other| other == word).expect("a tier holds a word below it")
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
