//! Leaves in the exact order of their tags: a calendar of days, each day a pairing heap.
//!
//! Tags that are near one another fall on days near one another, and a bitmap finds the first day
//! that is not empty. Where days are as many as leaves and tags are spread, a day holds one leaf,
//! so nothing costs more with more leaves; where all tags fall on one day its heap keeps them in
//! order, at the logarithm of their number, spread over calls. The order is exact either way:
//! smallest tag first, of equal tags the smallest leaf. Invariant: every tag of a day is smaller
//! than all of later days; those too late or too early for the year wait in a heap of their own,
//! `beyond`.

use super::id_set::IdSet;
use crate::ids::LeafId;
use alloc::vec::Vec;

/// Leaves ordered by a tag; `SET` tells apart several such orders over one table of leaves.
pub(crate) struct Calendar<const SET: usize> {
    /// The leaf at the top of each day's heap; the last is that of `beyond`.
    tops: Vec<u32>,
    filled: IdSet,
    /// The first day of the year; nothing that is not on its day is earlier.
    first_day: u64,
    /// A day lasts 2^`day_bits`.
    day_bits: u32,
    /// If anybody, the first of all, on no day: with few leaves many come and go without one.
    held: u32,
}

/// A leaf as a calendar sees it.
pub(crate) trait Member<const SET: usize> {
    /// What it is ordered by; does not change while it is in the calendar.
    fn tag(&self) -> u64;
    /// Where it stands in its day's heap.
    fn links(&mut self) -> &mut Links;
}

/// A node of a pairing heap.
#[derive(Clone, Copy)]
pub(crate) struct Links {
    child: u32,
    next: u32,
    /// The one before it under the same parent, or the parent; for a top [`TOP`] and the day; for a
    /// leaf in no calendar [`NONE`].
    previous: u32,
}

impl Links {
    /// Of a leaf in no calendar.
    pub(crate) const NOWHERE: Links = Links { child: NONE, next: NONE, previous: NONE };

    /// Whether the leaf is in no calendar.
    #[inline]
    pub(crate) const fn are_nowhere(&self) -> bool {
        self.previous == NONE
    }
}

impl<const SET: usize> Calendar<SET> {
    /// An empty calendar of `leaves` whose tags mostly lie within `spread` of one another.
    pub(crate) fn new(leaves: usize, spread: u64) -> Self {
        let days = (DAYS_PER_LEAF * leaves).next_power_of_two().clamp(DAYS_MIN, DAYS_MAX);
        let day_bits = (spread / days as u64).max(1).ilog2() + 1;
        let tops = alloc::vec![NONE; days + 1];
        Self { tops, filled: IdSet::new(days), first_day: 0, day_bits, held: NONE }
    }

    /// The leaf with the smallest tag.
    #[inline]
    pub(crate) fn first<M: Member<SET>>(&mut self, leaves: &[M]) -> Option<LeafId> {
        if self.held != NONE {
            return Some(LeafId(self.held));
        }
        let beyond = self.tops[self.days()];
        let Some(ahead) = self.days_to_first(self.first_day) else {
            return (beyond != NONE).then_some(LeafId(beyond));
        };
        self.first_day += ahead;
        let top = self.tops[self.place(self.first_day)];
        if beyond != NONE && precedes(leaves, beyond, top) {
            return Some(LeafId(beyond));
        }
        Some(LeafId(top))
    }

    /// Puts in `leaf`, which is in no calendar of these links.
    #[inline]
    pub(crate) fn insert<M: Member<SET>>(&mut self, leaves: &mut [M], leaf: LeafId) {
        if self.held == NONE {
            if !self.has_empty_days() {
                return self.file(leaves, leaf.0);
            }
        } else if precedes(leaves, leaf.0, self.held) {
            self.file(leaves, self.held);
        } else {
            return self.file(leaves, leaf.0);
        }
        self.held = leaf.0;
        *leaves[leaf.index()].links() = Links { child: NONE, next: NONE, previous: HELD };
    }

    /// Puts a leaf on its day.
    #[inline]
    fn file<M: Member<SET>>(&mut self, leaves: &mut [M], leaf: u32) {
        let day = leaves[leaf as usize].tag() >> self.day_bits;
        let place = self.place_for(day);
        let top = self.tops[place];
        if top == NONE {
            self.tops[place] = leaf;
            let alone = Links { child: NONE, next: NONE, previous: TOP | place as u32 };
            *leaves[leaf as usize].links() = alone;
            if place < self.days() {
                self.filled.insert(place as u32);
            }
        } else {
            *leaves[leaf as usize].links() = Links { child: NONE, next: NONE, previous: NONE };
            let winner = meld(leaves, top, leaf);
            self.set_top(leaves, place, winner);
        }
    }

    /// Takes out `leaf`, which is in this calendar.
    #[inline]
    pub(crate) fn remove<M: Member<SET>>(&mut self, leaves: &mut [M], leaf: LeafId) {
        let links = core::mem::replace(leaves[leaf.index()].links(), Links::NOWHERE);
        if links.previous == HELD {
            self.held = NONE;
            return;
        }
        let below = merge_children(leaves, links.child);
        if links.previous & TOP == 0 {
            return replace(leaves, leaf.0, links, below);
        }
        let place = (links.previous & !TOP) as usize;
        self.tops[place] = NONE;
        if below != NONE {
            self.set_top(leaves, place, below);
        } else if place < self.days() {
            self.filled.remove(place as u32);
        }
    }

    /// Which day's heap takes a tag of `day`.
    #[inline]
    fn place_for(&mut self, day: u64) -> usize {
        let year = self.days() as u64;
        if self.filled.is_empty() {
            self.first_day = day;
        } else if day < self.first_day {
            // The year begins earlier if nobody stands on its last days, which would be these.
            let free = self.days_to_first(day).unwrap_or(year);
            if self.first_day - day >= year || free < self.first_day - day {
                return self.days();
            }
            self.first_day = day;
        } else if day - self.first_day >= year {
            return self.days();
        }
        self.place(day)
    }

    /// How many days after `day`, in the year that begins there, somebody stands.
    #[inline]
    fn days_to_first(&self, day: u64) -> Option<u64> {
        let from = self.place(day) as u32;
        if let Some(place) = self.filled.next(from) {
            return Some(u64::from(place - from));
        }
        let place = self.filled.next(0)?;
        Some(self.days() as u64 - u64::from(from - place))
    }

    #[inline]
    fn has_empty_days(&self) -> bool {
        self.filled.is_empty() && self.tops[self.days()] == NONE
    }

    #[inline]
    fn set_top<M: Member<SET>>(&mut self, leaves: &mut [M], place: usize, leaf: u32) {
        self.tops[place] = leaf;
        let links = leaves[leaf as usize].links();
        (links.previous, links.next) = (TOP | place as u32, NONE);
    }

    #[inline]
    fn place(&self, day: u64) -> usize {
        day as usize & (self.days() - 1)
    }

    #[inline]
    fn days(&self) -> usize {
        self.tops.len() - 1
    }
}

/// Whether `one` comes before `other`.
#[inline]
fn precedes<const SET: usize, M: Member<SET>>(leaves: &[M], one: u32, other: u32) -> bool {
    (leaves[one as usize].tag(), one) < (leaves[other as usize].tag(), other)
}

/// Makes one heap of two; answers its top, whose neighbours are as they were.
#[inline]
fn meld<const SET: usize, M: Member<SET>>(leaves: &mut [M], one: u32, other: u32) -> u32 {
    let (top, below) = if precedes(leaves, one, other) { (one, other) } else { (other, one) };
    let child = core::mem::replace(&mut leaves[top as usize].links().child, below);
    let links = leaves[below as usize].links();
    (links.previous, links.next) = (top, child);
    if child != NONE {
        leaves[child as usize].links().previous = below;
    }
    top
}

/// Makes one heap of `child` and those next to it, first in pairs, then all: so what many
/// insertions left in one row is taken apart once.
#[inline]
fn merge_children<const SET: usize, M: Member<SET>>(leaves: &mut [M], mut child: u32) -> u32 {
    if child == NONE {
        return NONE;
    }
    let mut pairs = NONE;
    while child != NONE {
        let second = leaves[child as usize].links().next;
        let (pair, rest) = if second == NONE {
            (child, NONE)
        } else {
            let rest = leaves[second as usize].links().next;
            (meld(leaves, child, second), rest)
        };
        leaves[pair as usize].links().next = core::mem::replace(&mut pairs, pair);
        child = rest;
    }
    let mut top = pairs;
    let mut rest = leaves[top as usize].links().next;
    while rest != NONE {
        let after = leaves[rest as usize].links().next;
        top = meld(leaves, top, rest);
        rest = after;
    }
    top
}

/// Puts the heap `below` where `leaf`, below a top, stood; its tags are no smaller, so it may.
#[cold]
fn replace<const SET: usize, M: Member<SET>>(leaves: &mut [M], leaf: u32, at: Links, below: u32) {
    let instead = if below == NONE { at.next } else { below };
    let before = leaves[at.previous as usize].links();
    let place = if before.child == leaf { &mut before.child } else { &mut before.next };
    *place = instead;
    if below != NONE {
        let links = leaves[below as usize].links();
        (links.previous, links.next) = (at.previous, at.next);
    }
    if at.next != NONE {
        leaves[at.next as usize].links().previous = if below == NONE { at.previous } else { below };
    }
}

/// Nobody.
const NONE: u32 = u32::MAX;
/// Marks the top of a heap.
const TOP: u32 = 1 << 31;
/// The place of the one that is held.
const HELD: u32 = u32::MAX - 1;
const DAYS_PER_LEAF: usize = 2;
const DAYS_MIN: usize = 64;
const DAYS_MAX: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeSet;

    struct Item {
        tag: u64,
        links: Links,
    }

    impl Member<0> for Item {
        fn tag(&self) -> u64 {
            self.tag
        }

        fn links(&mut self) -> &mut Links {
            &mut self.links
        }
    }

    /// Tags drift upwards, most within `spread` of the drift and some far off.
    fn check(leaves: u32, spread: u64) {
        let item = |_| Item { tag: 0, links: Links::NOWHERE };
        let mut items: Vec<Item> = (0..leaves).map(item).collect();
        let mut calendar = Calendar::<0>::new(leaves as usize, spread);
        let mut plain = BTreeSet::new();
        let mut random = Random::new(spread, u64::from(leaves));
        for step in 0..60_000u64 {
            let leaf = random.below(leaves);
            let item = &mut items[leaf as usize];
            let takes_first = random.below(4) == 0;
            if item.links.are_nowhere() && !takes_first {
                let drift = step * spread / u64::from(leaves);
                item.tag = match random.below(16) {
                    0 => random.bits() >> 3,
                    1 => drift.saturating_sub(random.bits() % (20 * spread)),
                    2..=5 => drift,
                    _ => drift + random.bits() % spread,
                };
                plain.insert((item.tag, leaf));
                calendar.insert(&mut items, LeafId(leaf));
            } else if takes_first {
                if let Some(first) = calendar.first(&items) {
                    plain.remove(&(items[first.index()].tag, first.0));
                    calendar.remove(&mut items, first);
                }
            } else {
                plain.remove(&(item.tag, leaf));
                calendar.remove(&mut items, LeafId(leaf));
            }
            let first = plain.first().map(|&(_, leaf)| LeafId(leaf));
            assert_eq!(calendar.first(&items), first, "{leaves} {spread} {step}");
        }
    }

    #[test]
    fn it_agrees_with_an_ordered_set() {
        for leaves in [1, 3, 30, 1000] {
            for spread in [1, 100, 1 << 20, 1 << 44] {
                check(leaves, spread);
            }
        }
    }
}
