//! Who has the lowest key, and who the highest: eight-way tournaments in tables.
//!
//! A *lane* is a row of neighbouring items with a tournament of its own. An item takes part among
//! the lowest, the highest, both or neither. Groups of eight neighbours have a node, groups of
//! eight nodes another one, up to one node for the lane. Nothing moves and nothing is searched: a
//! change recomputes the nodes above it, as far as they change. Equal keys: the smaller item.
//! Invariant: a node holds the lowest and the highest of what takes part below it.

use alloc::vec::Vec;
use core::ops::Range;

/// Tournaments over items numbered from 0, each item in one lane.
pub(super) struct Order {
    lanes: Vec<Lane>,
    keys: Vec<u64>,
    nodes: Vec<Node>,
}

struct Lane {
    first: u32,
    items: u32,
    /// Where its nodes start: those over items, then those over these, at last the root.
    nodes: u32,
    root: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Node {
    low: u64,
    high: u64,
    low_item: u32,
    high_item: u32,
    /// A bit for each of the eight items that takes part; unused in upper nodes.
    low_mask: u8,
    high_mask: u8,
}

/// Where an item takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) low: bool,
    pub(super) high: bool,
}

impl Part {
    pub(super) const NONE: Part = Part { low: false, high: false };
    pub(super) const LOW: Part = Part { low: true, high: false };
    pub(super) const HIGH: Part = Part { low: false, high: true };
    pub(super) const BOTH: Part = Part { low: true, high: true };
}

impl Order {
    /// Lanes of these sizes, one after the other; nobody takes part.
    pub(super) fn new(sizes: &[usize]) -> Self {
        let mut order = Self { lanes: Vec::with_capacity(sizes.len()), keys: Vec::new(), nodes: Vec::new() };
        let mut first = 0;
        for &items in sizes {
            let nodes = order.nodes.len();
            let mut width = items;
            while width > 1 || order.nodes.len() == nodes {
                width = width.div_ceil(WAYS).max(1);
                order.nodes.resize(order.nodes.len() + width, Node::EMPTY);
            }
            let root = order.nodes.len() as u32 - 1;
            order.lanes.push(Lane { first, items: items as u32, nodes: nodes as u32, root });
            first += items as u32;
        }
        // The last group reads beyond its items, which its masks leave out.
        order.keys.resize(first as usize + WAYS, 0);
        order
    }

    /// The lowest key of the lane and whose it is.
    #[inline]
    pub(super) fn lowest(&self, lane: u32) -> Option<(u64, u32)> {
        let root = &self.nodes[self.lanes[lane as usize].root as usize];
        (root.low_item != NONE).then_some((root.low, root.low_item))
    }

    /// The highest key of the lane and whose it is.
    #[inline]
    pub(super) fn highest(&self, lane: u32) -> Option<(u64, u32)> {
        let root = &self.nodes[self.lanes[lane as usize].root as usize];
        (root.high_item != NONE).then_some((root.high, root.high_item))
    }

    /// The items of the lane.
    pub(super) fn items(&self, lane: u32) -> Range<usize> {
        let Lane { first, items, .. } = self.lanes[lane as usize];
        first as usize..(first + items) as usize
    }

    /// Whether the item takes part at all.
    pub(super) fn takes_part(&self, lane: u32, item: u32) -> bool {
        let Lane { first, nodes, .. } = self.lanes[lane as usize];
        let place = (item - first) as usize;
        let node = &self.nodes[nodes as usize + place / WAYS];
        (node.low_mask | node.high_mask) >> (place % WAYS) & 1 == 1
    }

    /// The key last given to an item, whether it takes part or not.
    #[inline]
    pub(super) fn key(&self, item: u32) -> u64 {
        self.keys[item as usize]
    }

    /// Gives an item that takes no part a key.
    #[inline]
    pub(super) fn keep(&mut self, item: u32, key: u64) {
        self.keys[item as usize] = key;
    }

    /// Gives `item` of `lane` a key and a part.
    #[inline]
    pub(super) fn put(&mut self, lane: u32, item: u32, key: u64, part: Part) {
        let Lane { first, items, nodes, .. } = self.lanes[lane as usize];
        self.keys[item as usize] = key.clamp(KEY_MIN, KEY_MAX);
        let mut index = (item - first) as usize / WAYS;
        let node = &mut self.nodes[nodes as usize + index];
        let bit = 1 << ((item - first) as usize % WAYS);
        node.low_mask = if part.low { node.low_mask | bit } else { node.low_mask & !bit };
        node.high_mask = if part.high { node.high_mask | bit } else { node.high_mask & !bit };
        let start = first as usize + index * WAYS;
        let group: &[u64; WAYS] =
            self.keys[start..start + WAYS].try_into().expect("a group has eight keys");
        let mut changed = node.gather(group, start as u32);
        let (mut base, mut width) = (nodes as usize, (items as usize).div_ceil(WAYS));
        while changed && width > 1 {
            let above = base + width;
            let from = base + index / WAYS * WAYS;
            let merged = Node::merge(&self.nodes[from..(from + WAYS).min(above)]);
            (base, width, index) = (above, width.div_ceil(WAYS), index / WAYS);
            changed = self.nodes[base + index] != merged;
            self.nodes[base + index] = merged;
        }
    }

    /// Lowers all keys of a lane by `by`, held at the smallest key. As long as the lane.
    #[cold]
    pub(super) fn lower(&mut self, lane: u32, by: u64) {
        let Lane { first, items, nodes, .. } = self.lanes[lane as usize];
        for item in first..first + items {
            let key = self.keys[item as usize];
            let group = (item - first) as usize / WAYS;
            let bit = (item - first) as usize % WAYS;
            let Node { low_mask, high_mask, .. } = self.nodes[nodes as usize + group];
            let part = Part { low: low_mask >> bit & 1 == 1, high: high_mask >> bit & 1 == 1 };
            self.put(lane, item, key.saturating_sub(by), part);
        }
    }
}

impl Node {
    const EMPTY: Node =
        Node { low: u64::MAX, high: 0, low_item: NONE, high_item: NONE, low_mask: 0, high_mask: 0 };

    /// Looks at the eight keys of its group, the first of which is item `start`; answers whether
    /// anything is new.
    #[inline]
    fn gather(&mut self, keys: &[u64; WAYS], start: u32) -> bool {
        let mut new = Node { low_mask: self.low_mask, high_mask: self.high_mask, ..Self::EMPTY };
        for (place, &key) in keys.iter().enumerate() {
            let bit = 1 << place;
            // Who takes no part has the highest or the lowest key of all.
            let low = if self.low_mask & bit != 0 { key } else { u64::MAX };
            let high = if self.high_mask & bit != 0 { key } else { 0 };
            let item = start + place as u32;
            (new.low, new.low_item) =
                if low < new.low { (low, item) } else { (new.low, new.low_item) };
            (new.high, new.high_item) =
                if high > new.high { (high, item) } else { (new.high, new.high_item) };
        }
        let changed = (new.low, new.high) != (self.low, self.high)
            || (new.low_item, new.high_item) != (self.low_item, self.high_item);
        *self = new;
        changed
    }

    #[inline]
    fn merge(nodes: &[Node]) -> Node {
        let mut new = Self::EMPTY;
        for node in nodes {
            if node.low < new.low {
                (new.low, new.low_item) = (node.low, node.low_item);
            }
            if node.high > new.high {
                (new.high, new.high_item) = (node.high, node.high_item);
            }
        }
        new
    }
}

const WAYS: usize = 8;
const NONE: u32 = u32::MAX;
/// Keys between the two that stand for nobody.
const KEY_MIN: u64 = 1;
/// See [`KEY_MIN`].
pub(super) const KEY_MAX: u64 = u64::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_scan() {
        let sizes = [1usize, 7, 8, 9, 0, 65, 600];
        let mut order = Order::new(&sizes);
        let total: usize = sizes.iter().sum();
        let mut plain = alloc::vec![(0u64, Part::NONE); total];
        let mut seed = 3u64;
        for step in 0..60_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let item = (seed >> 40) as usize % total;
            let mut first = 0;
            let lane = sizes.iter().position(|&size| {
                first += size;
                item < first
            });
            let lane = lane.expect("an item is in a lane");
            let part = [Part::NONE, Part::LOW, Part::HIGH, Part::BOTH][(seed >> 60) as usize % 4];
            let key = 1 + (seed >> 20) % 50;
            order.put(lane as u32, item as u32, key, part);
            plain[item] = (key, part);
            if step % 1000 == 999 {
                order.lower(lane as u32, 7);
                let range = first - sizes[lane]..first;
                plain[range].iter_mut().for_each(|row| row.0 = row.0.saturating_sub(7).max(1));
            }
            let rows = || (first - sizes[lane]..first).map(|item| (plain[item], item as u32));
            let low = rows().filter(|row| row.0.1.low).map(|row| (row.0.0, row.1)).min();
            let high = rows().filter(|row| row.0.1.high).map(|row| (row.0.0, !row.1)).max();
            assert_eq!(order.lowest(lane as u32), low, "step {step}");
            assert_eq!(order.highest(lane as u32), high.map(|row| (row.0, !row.1)), "step {step}");
        }
    }
}
