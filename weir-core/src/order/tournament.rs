//! Who has the lowest key: tournaments in tables.
//!
//! A *lane* is a row of neighbouring items with a tournament of its own. An item is *in* or it is
//! *out*. Eight neighbours, a cache line, play as a group, and the winners of groups two by two.
//! Nothing moves and nothing is searched: a change looks at one group and one path up, as far as
//! something changes. Of equal keys the smaller item is the lowest. Invariant: a node holds the
//! lowest word below it; whose it is, is found on the way down, when asked.

use crate::units::Instant;
use alloc::vec::Vec;
use core::ops::Range;

/// Tournaments over items numbered from 0, each item in one lane.
#[derive(Clone)]
pub(crate) struct Order {
    /// The key of each item that is in; who is out is above everybody who is.
    words: Vec<u64>,
    nodes: Vec<u64>,
}

/// A lane and its root.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    first: u32,
    items: u32,
    /// Its matches: node `i` has the lower word of nodes `2 i` and `2 i + 1`, the root is 1, those
    /// of the groups follow from `groups` on. With one group it has none.
    nodes: u32,
    /// Groups, rounded up to a power of two.
    groups: u32,
    /// The lowest word; whose it is, only with one group.
    low: Node,
}

/// The lowest word of some items, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Node {
    low: u64,
    item: u32,
}

impl Order {
    /// Lanes of these sizes, one after the other; everybody is out.
    pub(crate) fn new(sizes: &[usize]) -> (Self, Vec<Lane>) {
        let mut order = Self { words: Vec::new(), nodes: Vec::new() };
        let lanes = sizes.iter().map(|&items| order.add_lane(items)).collect();
        order.nodes.shrink_to_fit();
        (order, lanes)
    }

    fn add_lane(&mut self, items: usize) -> Lane {
        let (first, nodes) = (self.words.len() as u32, self.nodes.len() as u32);
        self.words.resize(self.words.len() + items, OUT);
        let groups = items.div_ceil(WAYS).next_power_of_two();
        if groups > 1 {
            self.nodes.resize(self.nodes.len() + 2 * groups, OUT);
            self.nodes[nodes as usize + groups + items.div_ceil(WAYS)..].fill(u64::MAX);
        }
        let low = Node { low: OUT, item: first };
        let (items, groups) = (items as u32, groups as u32);
        Lane { first, items, nodes, groups, low }
    }

    /// The item with the lowest key of those that are in.
    #[inline]
    pub(crate) fn lowest(&self, lane: &Lane) -> Option<u32> {
        if lane.low.low >= OUT {
            return None;
        }
        Some(if lane.groups > 1 { self.winner(lane, 1) } else { lane.low.item })
    }

    /// Whether the item is in.
    #[inline]
    pub(crate) fn takes_part(&self, item: u32) -> bool {
        self.words[item as usize] < OUT
    }

    /// The key of an item that is in, or what it left behind.
    #[inline]
    pub(crate) fn key(&self, item: u32) -> u64 {
        self.words[item as usize] & !OUT
    }

    /// Takes out an item, which leaves a number below 2^63 behind.
    #[inline]
    pub(crate) fn leave(&mut self, lane: &mut Lane, item: u32, behind: u64) {
        self.set(lane, item, OUT | behind);
    }

    /// The item with the lowest word below a node; of equals the first.
    #[inline]
    fn winner(&self, lane: &Lane, mut at: usize) -> u32 {
        let groups = lane.groups as usize;
        let nodes = &self.nodes[lane.nodes as usize..][..2 * groups];
        let low = nodes[at];
        while at < groups {
            at = 2 * at + usize::from(nodes[2 * at] != low);
        }
        let start = lane.first as usize + (at - groups) * WAYS;
        let end = (start + WAYS).min(self.words.len());
        let place = self.words[start..end].iter().position(|&word| word == low);
        (start + place.expect("a node holds a word of its group")) as u32
    }

    /// Lets `item` wait in a lane; what is beyond [`KEY_MAX`], a century, is alike.
    #[inline]
    pub(crate) fn wait(&mut self, lane: &mut Lane, item: u32, until: Instant) {
        let word = until.as_nanos().min(KEY_MAX);
        if self.words[item as usize] != word {
            self.set(lane, item, word);
        }
    }

    /// Takes out an item that waits, if it does.
    #[inline]
    pub(crate) fn end_wait(&mut self, lane: &mut Lane, item: u32) {
        if self.takes_part(item) {
            self.set(lane, item, OUT);
        }
    }

    /// Gives `item` a new word, which is a key if it is at most [`KEY_MAX`], and brings the lowest
    /// words above it up to date.
    #[inline]
    pub(crate) fn set(&mut self, lane: &mut Lane, item: u32, word: u64) {
        let before = core::mem::replace(&mut self.words[item as usize], word);
        if lane.groups > 1 {
            self.climb_low(lane, item, (before, word));
        } else if lane.items == 1 {
            lane.low.low = word;
        } else if !stays(&mut lane.low, Node { low: word, item }) {
            lane.low = least(&self.words[Self::items(lane)], lane.first);
        }
    }

    /// The word of `item` changed: plays the matches above it again.
    #[inline]
    fn climb_low(&mut self, lane: &mut Lane, item: u32, (before, word): (u64, u64)) {
        let group = (item - lane.first) as usize / WAYS;
        let nodes = &mut self.nodes[lane.nodes as usize..][..2 * lane.groups as usize];
        let mut at = lane.groups as usize + group;
        let (old, mut low) = (nodes[at], word);
        if word > old {
            if before > old {
                return;
            }
            let start = lane.first as usize + group * WAYS;
            let end = (start + WAYS).min((lane.first + lane.items) as usize);
            low = lowest_word(&self.words[start..end]);
        }
        while nodes[at] != low {
            nodes[at] = low;
            if at == 1 {
                lane.low.low = low;
                return;
            }
            low = low.min(nodes[at ^ 1]);
            at /= 2;
        }
    }

    /// The items of a lane.
    #[inline]
    fn items(lane: &Lane) -> Range<usize> {
        lane.first as usize..(lane.first + lane.items) as usize
    }
}

/// Whether `node`, whose item may have `changed`, is the lowest without another look; brings it up
/// to date if so.
#[inline]
fn stays(node: &mut Node, changed: Node) -> bool {
    let lower = changed.low < node.low || changed.low == node.low && changed.item <= node.item;
    if lower {
        *node = changed;
    }
    lower || changed.item != node.item
}

/// The least word and its item, the first of which is `start`; of equals the first.
#[inline]
fn least(words: &[u64], start: u32) -> Node {
    let mut least = Node { low: u64::MAX, item: start };
    for (item, &word) in (start..).zip(words) {
        if word < least.low {
            least = Node { low: word, item };
        }
    }
    least
}

/// The least word alone.
#[inline]
fn lowest_word(words: &[u64]) -> u64 {
    match <&[u64; WAYS]>::try_from(words) {
        Ok(group) => group.iter().fold(u64::MAX, |low, &word| low.min(word)),
        Err(_) => words.iter().fold(u64::MAX, |low, &word| low.min(word)),
    }
}

impl Lane {
    /// How many items it has.
    pub(crate) const fn len(&self) -> u32 {
        self.items
    }
}

const WAYS: usize = 8;
/// Words from here on are of those that are out.
const OUT: u64 = 1 << 63;
/// The largest key.
pub(crate) const KEY_MAX: u64 = (1 << 62) - 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_scan() {
        let sizes = [1usize, 7, 8, 9, 13, 0, 64, 65, 600];
        let (mut order, mut lanes) = Order::new(&sizes);
        let total: usize = sizes.iter().sum();
        let mut plain = alloc::vec![None; total];
        let mut seed = 3u64;
        for step in 0..60_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let item = (seed >> 40) as usize % total;
            let lane = lanes.iter_mut().find(|lane| Order::items(lane).contains(&item));
            let lane = lane.expect("an item is in a lane");
            let key = Some(1 + (seed >> 20) % 50).filter(|_| !(seed >> 60).is_multiple_of(4));
            match key {
                Some(key) => order.set(lane, item as u32, key),
                None if (seed >> 59).is_multiple_of(2) => order.end_wait(lane, item as u32),
                None => order.leave(lane, item as u32, seed >> 30),
            }
            assert!(key.is_none_or(|key| order.key(item as u32) == key));
            plain[item] = key;
            let low = Order::items(lane).filter_map(|item| Some((plain[item]?, item as u32))).min();
            assert_eq!(order.lowest(lane), low.map(|row| row.1), "step {step}");
            assert_eq!(order.takes_part(item as u32), key.is_some());
        }
    }
}
