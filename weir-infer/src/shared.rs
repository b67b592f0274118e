//! Connections of one host share settings of the sender, and the path to the receiver.
//!
//! A connection that sends little shows little. Invariant: connections of a host have the same
//! first window, and connections to a host lose the same part of their packets.

use crate::tcp::Tcp;
use crate::{FlowOf, Model};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Gives all connections of a sending host the least first window of them: it is a setting of the
/// host, and a flight that grew before its end was seen looks larger.
pub fn first_windows(flows: &mut [FlowOf]) {
    let mut least: BTreeMap<IpAddr, u64> = BTreeMap::new();
    for flow in flows.iter() {
        let Some((host, tcp)) = sender(flow) else { continue };
        if let Some(bytes) = tcp.initial_window {
            let known = least.entry(host).or_insert(bytes);
            *known = bytes.min(*known);
        }
    }
    for flow in flows {
        let known = sender(flow).and_then(|(host, _)| least.get(&host)).copied();
        if let Model::Tcp { tcp, .. } = &mut flow.model {
            tcp.initial_window = known;
        }
    }
}

/// Gives all connections to a receiving host the part of their packets that is lost behind the last
/// point: one connection loses too few to tell, and they share a path.
pub fn losses(flows: &mut [FlowOf]) {
    let mut sums: BTreeMap<IpAddr, [u64; 2]> = BTreeMap::new();
    for flow in flows.iter() {
        // What comes back does not pass the link in a scenario.
        let own = sender(flow).filter(|(host, _)| *host == flow.source.ip());
        let Some((_, tcp)) = own else { continue };
        let sum = sums.entry(flow.destination.ip()).or_default();
        *sum = [sum[0] + tcp.repeats.awaited, sum[1] + tcp.repeats.of];
    }
    for flow in flows {
        let known = sums.get(&flow.destination.ip()).filter(|sum| sum[0] >= LOSSES_MIN);
        if let (Some(sum), Model::Tcp { tcp, .. }) = (known, &mut flow.model) {
            tcp.path_loss = sum[0] as f64 / sum[1].max(1) as f64;
        }
    }
}

/// Returns the host of a connection that sent more.
fn sender(flow: &FlowOf) -> Option<(IpAddr, &Tcp)> {
    let Model::Tcp { tcp, source_is_client } = &flow.model else { return None };
    let is_source = (tcp.sender == 0) == *source_is_client;
    Some((if is_source { flow.source.ip() } else { flow.destination.ip() }, tcp))
}

/// Segments sent again from which a path loses some.
const LOSSES_MIN: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Losses;
    use std::net::SocketAddr;

    /// Two connections from a server, with these first windows and segments that were sent again of
    /// so many; returns what both have then.
    fn check(own: [(Option<u64>, u64, u64); 2], expected: (Option<u64>, f64)) {
        let end = |host: u8| SocketAddr::from(([192, 0, 2, host], 80));
        let mut flows: Vec<_> = own
            .into_iter()
            .map(|(initial_window, awaited, of)| {
                let repeats = Losses { awaited, of, ..Losses::default() };
                let tcp = Box::new(Tcp { sender: 1, initial_window, repeats, ..Tcp::default() });
                FlowOf::between(end(1), end(2), Model::Tcp { tcp, source_is_client: false })
            })
            .collect();
        first_windows(&mut flows);
        losses(&mut flows);
        for flow in &flows {
            let Model::Tcp { tcp, .. } = &flow.model else { unreachable!("they are of TCP") };
            assert_eq!((tcp.initial_window, tcp.path_loss), expected, "{own:?}");
        }
    }

    #[test]
    fn connections_of_a_host_tell_more_than_one() {
        check([(Some(14_480), 3, 700), (Some(17_376), 1, 300)], (Some(14_480), 0.004));
        check([(None, 0, 10), (Some(17_376), 1, 300)], (Some(17_376), 0.0));
        check([(None, 1, 10), (None, 1, 300)], (None, 0.0));
    }
}
