//! The rows of the screen: the directions of a link, and below each its classes as a tree.
//!
//! Those with children show the sums that the link made of all their classes, also of those that it
//! left out. A status may come from a foreign socket, so places of parents and lenders are checked:
//! a parent stands before its children in the list, and so no loop can be.

use super::view::Order;
use std::collections::BTreeSet;
use weir_core::sched::DEPTH_MAX;
use weir_link::status::{ClassStatus, InnerStatus, LaneStatus, Status, Sums};

/// Identifies a row: the direction, and the class; `None` for the direction itself.
pub type Key = (usize, Option<String>);

/// One line of the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub key: Key,
    /// 0 for a direction.
    pub depth: usize,
    pub name: String,
    /// Classes directly below it that the link told of.
    pub children: usize,
    /// All leaves below it.
    pub leaves: u64,
    pub rate_bps: f64,
    pub share_bps: Option<f64>,
    /// The most that it can get: its ceiling, or that of the link.
    pub full_bps: f64,
    /// The rate that it borrowed in the last second, and the class that lent most of it.
    pub borrowed: Option<(f64, String)>,
    /// The rate that it lent in the last second.
    pub lent_bps: f64,
    /// Delays, in µs, where packets left.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Losses a second, of whatever cause.
    pub lost_pps: f64,
    /// Packets that wait in it.
    pub waiting: u64,
    pub waiting_bytes: u64,
    /// The place of a leaf in its direction.
    pub leaf: Option<usize>,
}

/// A class, or a direction, with those below it.
struct Node {
    row: Row,
    children: Vec<Node>,
}

/// Returns the rows in an order, without those below folded ones. With a filter only classes whose
/// names hold it, and those above them.
pub fn arrange(status: &Status, order: Order, filter: &str, folded: &BTreeSet<Key>) -> Vec<Row> {
    let filter = filter.to_lowercase();
    let mut rows = Vec::new();
    for (index, lane) in status.lanes.iter().enumerate() {
        let mut node = tree(index, lane);
        if !filter.is_empty() {
            node.children.retain_mut(|child| keep(child, &filter));
        }
        sort(&mut node, order);
        flatten(node, folded, &mut rows);
    }
    rows
}

/// Returns the rate of a direction's link now.
fn rate(lane: &LaneStatus) -> f64 {
    lane.autorate.as_ref().map_or(lane.policy.rate_bps, |varies| varies.rate_bps as f64)
}

/// Returns a direction with its classes.
fn tree(index: usize, lane: &LaneStatus) -> Node {
    let full = rate(lane);
    let key = |name: &str| (index, Some(name.to_owned()));
    let inner = |class: &InnerStatus| Row {
        key: key(&class.name),
        name: class.name.clone(),
        share_bps: class.share_bps,
        full_bps: class.ceiling_bps.unwrap_or(full).min(full.max(1.0)),
        ..summed(&class.sums)
    };
    let leaf = |(place, class): (usize, &ClassStatus)| leaf(lane, (index, place), class);
    let mut nodes: Vec<Option<Node>> = lane.inner.iter().map(inner).map(node).collect();
    let mut top = Vec::new();
    for (place, class) in lane.classes.iter().enumerate() {
        let Some(node) = node(leaf((place, class))) else { continue };
        match class.parent.and_then(|parent| nodes.get_mut(parent as usize)) {
            Some(Some(parent)) => parent.children.push(node),
            _ => top.push(node),
        }
    }
    let depths = depths(lane);
    // The last ones first: then each has all its children when it moves to its parent.
    for place in (0..nodes.len()).rev() {
        let Some(node) = nodes[place].take() else { continue };
        let parent = lane.inner[place].parent.map(|parent| parent as usize);
        let parent = parent.filter(|_| depths[place] > 0);
        match parent.and_then(|parent| nodes[parent].as_mut()) {
            Some(parent) => parent.children.insert(0, node),
            None => top.insert(0, node),
        }
    }
    let row = Row {
        key: (index, None),
        name: format!("{}: {} to {}", lane.name, lane.from, lane.to),
        full_bps: full,
        share_bps: Some(full).filter(|full| *full > 0.0),
        ..summed(&lane.sums)
    };
    let mut root = Node { row, children: top };
    settle(&mut root, 0);
    root
}

/// Returns the depth of each class with children: 0 for one below the link, or below none that is
/// possible.
fn depths(lane: &LaneStatus) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(lane.inner.len());
    for class in &lane.inner {
        // Only those before it are there.
        let above = class.parent.and_then(|parent| depths.get(parent as usize));
        depths.push(above.map_or(0, |above| if *above + 1 < DEPTH_MAX { above + 1 } else { 0 }));
    }
    depths
}

/// Returns a row with what a class with children, or a direction, did.
fn summed(sums: &Sums) -> Row {
    Row {
        leaves: sums.leaves,
        rate_bps: sums.sent_bps,
        lent_bps: sums.lent_bps,
        p99_us: sums.p99_us,
        lost_pps: sums.lost_pps,
        waiting: sums.backlog.packets,
        waiting_bytes: sums.backlog.bytes,
        ..Row::default()
    }
}

fn node(row: Row) -> Option<Node> {
    Some(Node { row, children: Vec::new() })
}

fn leaf(lane: &LaneStatus, (index, place): (usize, usize), class: &ClassStatus) -> Row {
    let full = rate(lane);
    let recent = class.recent.unwrap_or_default();
    let most =
        class.borrowed.iter().max_by(|one, other| one.recent_bps.total_cmp(&other.recent_bps));
    let lender = most.map(|loan| {
        let named = loan.lender.and_then(|place| lane.inner.get(place as usize));
        named.map_or("link".to_owned(), |lender| lender.name.clone())
    });
    let borrowed = recent.second.borrowed_bps;
    let has_delays = recent.delay_packets > 0;
    Row {
        key: (index, Some(class.name.clone())),
        name: class.name.clone(),
        rate_bps: recent.second.sent_bps,
        share_bps: class.share_bps,
        full_bps: class.ceiling_bps.unwrap_or(full).min(full.max(1.0)),
        borrowed: lender.map(|lender| (borrowed, lender)).filter(|_| borrowed > 0.0),
        p50_us: has_delays.then_some(recent.delay.p50_us),
        p99_us: has_delays.then_some(recent.delay.p99_us),
        lost_pps: recent.second.lost_pps,
        waiting: class.backlog.packets,
        waiting_bytes: class.backlog.bytes,
        leaf: Some(place),
        ..Row::default()
    }
}

/// Gives each node its depth. It is bounded, as each node stands behind its parent in a list.
fn settle(node: &mut Node, depth: usize) {
    node.row.depth = depth;
    node.row.children = node.children.len();
    for child in &mut node.children {
        settle(child, depth + 1);
    }
}

/// Returns whether a node, or one below it, has a name that holds the filter; removes others.
fn keep(node: &mut Node, filter: &str) -> bool {
    if node.row.name.to_lowercase().contains(filter) {
        return true;
    }
    node.children.retain_mut(|child| keep(child, filter));
    !node.children.is_empty()
}

fn sort(node: &mut Node, order: Order) {
    let key = |row: &Row| match order {
        Order::Policy => 0.0,
        Order::Rate => row.rate_bps,
        Order::Delay => row.p99_us.unwrap_or(-1.0),
        Order::Losses => row.lost_pps,
        Order::Backlog => row.waiting_bytes as f64,
    };
    // Stable, so that equal ones stay in the order of the policy.
    node.children.sort_by(|one, other| key(&other.row).total_cmp(&key(&one.row)));
    node.children.iter_mut().for_each(|child| sort(child, order));
}

fn flatten(node: Node, folded: &BTreeSet<Key>, rows: &mut Vec<Row>) {
    let is_folded = folded.contains(&node.row.key);
    rows.push(node.row);
    if !is_folded {
        node.children.into_iter().for_each(|child| flatten(child, folded, rows));
    }
}
