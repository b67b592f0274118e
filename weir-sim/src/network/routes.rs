//! Routes: the fewest links, and of equal ones those declared first.
//!
//! Only routers forward. Invariant: a route visits no node twice, so nothing circles.

use super::plan::{Ends, Network, NodeId, OutletId};
use std::collections::VecDeque;

/// The outlets on the way from one node to another; `None` if there is no way. Two ends that are
/// one node have none either.
pub fn route(network: &Network, ends: Ends) -> Option<Vec<OutletId>> {
    let Ends { from, to } = ends;
    if from == to {
        return None;
    }
    let reach = neighbours(network);
    let distances = distances(network, to, &reach);
    let mut path = Vec::new();
    let mut node = from;
    while node != to {
        let (outlet, next) = next((network, &reach), &distances, (node, to))?;
        path.push(outlet);
        node = next;
    }
    Some(path)
}

/// The outlet by which each node sends to `to`, in the order of nodes.
pub(super) fn towards(network: &Network, to: NodeId) -> Vec<Option<OutletId>> {
    let reach = neighbours(network);
    let distances = distances(network, to, &reach);
    let outlet = |node| Some(next((network, &reach), &distances, (NodeId(node), to))?.0);
    (0..network.nodes.len() as u32).map(outlet).collect()
}

/// How many links away from `to` each node is: from the end of the way, so that at each node the
/// outlet declared first leads on.
fn distances(network: &Network, to: NodeId, reach: &[Vec<(OutletId, NodeId)>]) -> Vec<u32> {
    let mut distances = vec![u32::MAX; network.nodes.len()];
    distances[to.0 as usize] = 0;
    let mut nodes = VecDeque::from([to]);
    while let Some(node) = nodes.pop_front() {
        if node != to && !network.nodes[node.0 as usize].router {
            continue;
        }
        for &(_, next) in &reach[node.0 as usize] {
            let place = next.0 as usize;
            if distances[place] == u32::MAX {
                distances[place] = distances[node.0 as usize] + 1;
                nodes.push_back(next);
            }
        }
    }
    distances
}

/// The first link on the way from a node to `to`, and the node behind it.
fn next(
    (network, reach): (&Network, &[Vec<(OutletId, NodeId)>]),
    distances: &[u32],
    (node, to): (NodeId, NodeId),
) -> Option<(OutletId, NodeId)> {
    let left = distances[node.0 as usize].checked_sub(1)?;
    let leads = |row: &&(OutletId, NodeId)| {
        let next = row.1.0 as usize;
        distances[next] == left && (row.1 == to || network.nodes[next].router)
    };
    reach[node.0 as usize].iter().find(leads).copied()
}

/// The outlets of each node and where they lead, in the order of declaration.
pub(super) fn neighbours(network: &Network) -> Vec<Vec<(OutletId, NodeId)>> {
    let mut rows = vec![Vec::new(); network.nodes.len()];
    for (place, link) in network.links.iter().enumerate() {
        let [one, other] = link.ends;
        rows[one.0 as usize].push((OutletId(2 * place as u32), other));
        rows[other.0 as usize].push((OutletId(2 * place as u32 + 1), one));
    }
    rows
}
