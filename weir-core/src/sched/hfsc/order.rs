//! Who has the lowest key, and which key is the highest: eight-way tournaments in tables.
//!
//! A *lane* is a row of neighbouring items with a tournament of its own. An item is *in*, or it is
//! *held*, then it counts for the highest key only, or it is *out*. Groups of eight neighbours have
//! a node, groups of eight nodes another one, up to one node for the lane. Nothing moves and
//! nothing is searched: a change looks at one group a level, as far as something changes. Of equal
//! keys the smaller item is the lowest. Invariant: a node holds the lowest word and the highest key
//! below it.

use crate::units::Instant;
use alloc::vec::Vec;
use core::ops::Range;

/// Tournaments over items numbered from 0, each item in one lane.
pub(super) struct Order {
    /// The key of each item with bits that say where it is: smaller words are lower, and who is
    /// held or out is above everybody who is in.
    words: Vec<u64>,
    nodes: Vec<Node>,
}

/// A lane and its root.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    first: u32,
    items: u32,
    /// Its nodes: those over items, then those over these, up to eight. With eight items or fewer
    /// it has none.
    nodes: u32,
    /// The item with the lowest word, whether it is in or not.
    low_item: u32,
    low: u64,
    /// The highest key of those in or held, 0 if there are none.
    high: u64,
}

/// What is below a node.
#[derive(Clone, Copy)]
struct Node {
    low: u64,
    high: u64,
    low_item: u32,
}

/// Where an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    In,
    Held,
    Out,
}

impl Order {
    /// Lanes of these sizes, one after the other; everybody is out with key 0.
    pub(super) fn new(sizes: &[usize]) -> (Self, Vec<Lane>) {
        let mut order = Self { words: Vec::new(), nodes: Vec::new() };
        let lanes = sizes.iter().map(|&items| order.add_lane(items)).collect();
        (order, lanes)
    }

    fn add_lane(&mut self, items: usize) -> Lane {
        let (first, nodes) = (self.words.len() as u32, self.nodes.len() as u32);
        self.words.resize(self.words.len() + items, OUT);
        let (mut width, mut span) = (items, 1);
        while width > WAYS {
            (width, span) = (width.div_ceil(WAYS), span * WAYS);
            // Of equal words the first is the lowest.
            let node = |index| Node { low: OUT, high: 0, low_item: first + (index * span) as u32 };
            self.nodes.extend((0..width).map(node));
        }
        Lane { first, items: items as u32, nodes, low_item: first, low: OUT, high: 0 }
    }

    /// The item with the lowest key of those that are in.
    #[inline]
    pub(super) fn lowest(lane: &Lane) -> Option<u32> {
        (lane.low < HELD).then_some(lane.low_item)
    }

    /// The highest key of those that are in or held, 0 if there are none.
    #[inline]
    pub(super) fn highest(lane: &Lane) -> u64 {
        lane.high
    }

    /// The key last given to an item, wherever it is.
    #[inline]
    pub(super) fn key(&self, item: u32) -> u64 {
        self.words[item as usize] & KEY_MAX
    }

    /// Whether the item is in or held.
    #[inline]
    pub(super) fn takes_part(&self, item: u32) -> bool {
        self.words[item as usize] < OUT
    }

    /// Gives an item that is out a key.
    #[inline]
    pub(super) fn keep(&mut self, item: u32, key: u64) {
        self.words[item as usize] = key | OUT;
    }

    /// Gives `item` of `lane` a key of at most [`KEY_MAX`] and a part.
    #[inline]
    pub(super) fn put(&mut self, lane: &mut Lane, item: u32, key: u64, part: Part) {
        let word = match part {
            Part::In => key,
            Part::Held => key | HELD,
            Part::Out => key | OUT,
        };
        let before = core::mem::replace(&mut self.words[item as usize], word);
        if lane.items as usize > WAYS {
            self.climb_low(lane, item, word);
            return self.climb_high(lane, item, (counted(before), counted(word)));
        }
        let words = &self.words[Self::items(lane)];
        (lane.low, lane.low_item) = least(words, lane.first);
        let key = counted(word);
        if key >= lane.high {
            lane.high = key;
        } else if counted(before) == lane.high {
            lane.high = words.iter().fold(0, |high, &word| high.max(counted(word)));
        }
    }

    /// Lets `item` wait in a lane whose highest key nobody asks for; what is beyond [`KEY_MAX`], a
    /// century, is alike.
    #[inline]
    pub(super) fn wait(&mut self, lane: &mut Lane, item: u32, until: Instant) {
        self.set_low(lane, item, until.as_nanos().min(KEY_MAX));
    }

    /// Takes out an item that waits, if it does.
    #[inline]
    pub(super) fn end_wait(&mut self, lane: &mut Lane, item: u32) {
        if self.takes_part(item) {
            self.set_low(lane, item, OUT);
        }
    }

    #[inline]
    fn set_low(&mut self, lane: &mut Lane, item: u32, word: u64) {
        self.words[item as usize] = word;
        if lane.items as usize > WAYS {
            self.climb_low(lane, item, word);
        } else {
            (lane.low, lane.low_item) = least(&self.words[Self::items(lane)], lane.first);
        }
    }

    /// Brings the lowest words above `item`, which has a new `word`, up to date.
    fn climb_low(&mut self, lane: &mut Lane, item: u32, word: u64) {
        let mut index = (item - lane.first) as usize / WAYS;
        let (mut base, mut width) = (lane.nodes as usize, (lane.items as usize).div_ceil(WAYS));
        let node = &mut self.nodes[base + index];
        if (word, item) < (node.low, node.low_item) {
            (node.low, node.low_item) = (word, item);
        } else if node.low_item == item {
            let start = lane.first as usize + index * WAYS;
            let end = (start + WAYS).min((lane.first + lane.items) as usize);
            let (low, low_item) = least(&self.words[start..end], start as u32);
            (node.low, node.low_item) = (low, low_item);
        } else {
            return;
        }
        loop {
            let below = base + index / WAYS * WAYS;
            let children = &self.nodes[below..(below + WAYS).min(base + width)];
            let (mut low, mut low_item) = (u64::MAX, u32::MAX);
            for child in children {
                if child.low < low {
                    (low, low_item) = (child.low, child.low_item);
                }
            }
            if width <= WAYS {
                (lane.low, lane.low_item) = (low, low_item);
                return;
            }
            (base, width, index) = (base + width, width.div_ceil(WAYS), index / WAYS);
            let node = &mut self.nodes[base + index];
            if (node.low, node.low_item) == (low, low_item) {
                return;
            }
            (node.low, node.low_item) = (low, low_item);
        }
    }

    /// A key that counts for the highest changed; 0 stands for one that does not count.
    fn climb_high(&mut self, lane: &mut Lane, item: u32, (before, mut key): (u64, u64)) {
        let mut index = (item - lane.first) as usize / WAYS;
        let (mut base, mut width) = (lane.nodes as usize, (lane.items as usize).div_ceil(WAYS));
        let mut old = self.nodes[base + index].high;
        if key < old {
            if before < old {
                return;
            }
            let start = lane.first as usize + index * WAYS;
            let end = (start + WAYS).min((lane.first + lane.items) as usize);
            let keys = self.words[start..end].iter().map(|&word| counted(word));
            key = keys.fold(0, u64::max);
        }
        while key != old {
            self.nodes[base + index].high = key;
            let below = base + index / WAYS * WAYS;
            let children = below..(below + WAYS).min(base + width);
            let root = width <= WAYS;
            (base, width, index) = (base + width, width.div_ceil(WAYS), index / WAYS);
            let above = if root { lane.high } else { self.nodes[base + index].high };
            if key < above {
                if old < above {
                    return;
                }
                key = self.nodes[children].iter().fold(0, |high, child| high.max(child.high));
            }
            if root {
                lane.high = key;
                return;
            }
            old = above;
        }
    }

    /// The items of a lane.
    #[inline]
    pub(super) fn items(lane: &Lane) -> Range<usize> {
        lane.first as usize..(lane.first + lane.items) as usize
    }

    /// Lowers all keys of a lane by `by`, held at 1. As long as the lane.
    #[cold]
    pub(super) fn lower(&mut self, lane: &mut Lane, by: u64) {
        for item in Self::items(lane) {
            let word = self.words[item];
            let part = match word {
                OUT.. => Part::Out,
                HELD.. => Part::Held,
                _ => Part::In,
            };
            self.put(lane, item as u32, (word & KEY_MAX).saturating_sub(by).max(1), part);
        }
    }
}

/// The key of a word if it counts for the highest, else 0.
fn counted(word: u64) -> u64 {
    if word < OUT { word & KEY_MAX } else { 0 }
}

/// The least word and its item, the first of which is `start`.
#[inline]
fn least(words: &[u64], start: u32) -> (u64, u32) {
    let (mut low, mut low_item) = (u64::MAX, start);
    for (item, &word) in (start..).zip(words) {
        if word < low {
            (low, low_item) = (word, item);
        }
    }
    (low, low_item)
}

/// What a node takes.
#[cfg(test)]
pub(super) const NODE_BYTES: usize = size_of::<Node>();
const WAYS: usize = 8;
/// Words from here on are of those that are held, or out.
const HELD: u64 = 1 << 63;
/// Words from here on are of those that are out.
const OUT: u64 = HELD | 1 << 62;
/// The largest key.
pub(super) const KEY_MAX: u64 = (1 << 62) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_scan() {
        let sizes = [1usize, 7, 8, 9, 0, 65, 600];
        let (mut order, mut lanes) = Order::new(&sizes);
        let total: usize = sizes.iter().sum();
        let mut plain = alloc::vec![(0u64, Part::Out); total];
        let mut seed = 3u64;
        for step in 0..60_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let item = (seed >> 40) as usize % total;
            let lane = lanes.iter_mut().find(|lane| Order::items(lane).contains(&item));
            let lane = lane.expect("an item is in a lane");
            let part = [Part::In, Part::Held, Part::Out, Part::In][(seed >> 60) as usize % 4];
            let key = 1 + (seed >> 20) % 50;
            order.put(lane, item as u32, key, part);
            plain[item] = (key, part);
            if step % 1000 == 999 {
                order.lower(lane, 7);
                for row in &mut plain[Order::items(lane)] {
                    row.0 = row.0.saturating_sub(7).max(1);
                }
            }
            let rows = || Order::items(lane).map(|item| (plain[item], item as u32));
            let low = rows().filter(|row| row.0.1 == Part::In).map(|row| (row.0.0, row.1)).min();
            let high = rows().filter(|row| row.0.1 != Part::Out).map(|row| row.0.0).max();
            assert_eq!(Order::lowest(lane), low.map(|row| row.1), "step {step}");
            assert_eq!(Order::highest(lane), high.unwrap_or(0), "step {step}");
            assert_eq!(order.key(item as u32), plain[item].0);
            assert_eq!(order.takes_part(item as u32), part != Part::Out);
        }
    }
}
