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
    // From the end of the way, so that at each node the outlet declared first leads on.
    let mut distances = vec![u32::MAX; network.nodes.len()];
    let reach = neighbours(network);
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
    let mut path = Vec::new();
    let mut node = from;
    while node != to {
        let left = distances[node.0 as usize].checked_sub(1)?;
        let leads = |row: &&(OutletId, NodeId)| {
            let next = row.1.0 as usize;
            distances[next] == left && (row.1 == to || network.nodes[next].router)
        };
        let &(outlet, next) = reach[node.0 as usize].iter().find(leads)?;
        path.push(outlet);
        node = next;
    }
    Some(path)
}

/// The outlets of each node and where they lead, in the order of declaration.
fn neighbours(network: &Network) -> Vec<Vec<(OutletId, NodeId)>> {
    let mut rows = vec![Vec::new(); network.nodes.len()];
    for (place, link) in network.links.iter().enumerate() {
        let [one, other] = link.ends;
        rows[one.0 as usize].push((OutletId(2 * place as u32), other));
        rows[other.0 as usize].push((OutletId(2 * place as u32 + 1), one));
    }
    rows
}
