//! Users: connections that a host opens to a server one after another, each when it has what it
//! wanted of the one before.
//!
//! A reader whose page is there sooner asks sooner for the next one. A connection follows another
//! one of the same hosts and port if it begins within [`PAUSE_MAX`] of the end of that one's last
//! exchange, and no other connection follows that. Of several that ended the one that ended first
//! is taken: which reader it was cannot be told behind one address, nor does it matter for the sum.
//! Where about as many connections had to be open at once as there are, they came for reasons of
//! their own, and none follows another. Invariant: a connection follows at most one, which ended
//! before it began, and is followed by at most one.

use crate::{FlowOf, Follows, Model};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use weir_core::units::Duration;

/// Notes for each connection which one it follows.
pub fn follow(flows: &mut [FlowOf]) {
    let mut groups: BTreeMap<(IpAddr, SocketAddr, u16), Vec<usize>> = BTreeMap::new();
    for (place, flow) in flows.iter().enumerate() {
        let Some((client, server)) = ends(flow).filter(|_| span(flow).is_some()) else { continue };
        groups.entry((client.ip(), server, flow.vlan)).or_default().push(place);
    }
    for members in groups.into_values() {
        let found = pairs(flows, &members);
        let users = members.len() - found.len();
        if users * CONNECTIONS_MIN > members.len() {
            continue;
        }
        for (before, place, pause) in found {
            flows[place].follows = Some(Follows { flow: flows[before].name.clone(), pause });
        }
    }
}

/// Returns the connections of each source of a scenario, by their places: one, or those that
/// follow one another.
pub fn chains(flows: &[FlowOf]) -> Vec<Vec<usize>> {
    let places: BTreeMap<&str, usize> =
        flows.iter().enumerate().map(|(place, flow)| (flow.name.as_str(), place)).collect();
    let mut chains: Vec<Vec<usize>> = Vec::new();
    // The chain of each flow.
    let mut homes = vec![0; flows.len()];
    for (place, flow) in flows.iter().enumerate() {
        let before = flow.follows.as_ref().and_then(|own| places.get(own.flow.as_str()));
        homes[place] = match before.filter(|before| **before < place) {
            Some(&before) => homes[before],
            None => {
                chains.push(Vec::new());
                chains.len() - 1
            }
        };
        chains[homes[place]].push(place);
    }
    chains
}

/// Returns which connection follows which, and after how long.
fn pairs(flows: &[FlowOf], members: &[usize]) -> Vec<(usize, usize, Duration)> {
    let mut spans: Vec<_> =
        members.iter().filter_map(|&place| Some((span(&flows[place])?, place))).collect();
    spans.sort();
    let mut ended: Vec<(Duration, usize)> = Vec::new();
    let mut found = Vec::new();
    for ((start, end), place) in spans {
        ended.retain(|row| between(row.0, start) <= PAUSE_MAX);
        if let Some(first) = ended.iter().position(|row| row.0 < start) {
            let (before, other) = ended.remove(first);
            found.push((other, place, between(before, start)));
        }
        let at = ended.partition_point(|row| row.0 <= end);
        ended.insert(at, (end, place));
    }
    found
}

fn between(from: Duration, to: Duration) -> Duration {
    Duration::from_nanos(to.as_nanos().saturating_sub(from.as_nanos()))
}

/// Returns the client and the server of a connection.
fn ends(flow: &FlowOf) -> Option<(SocketAddr, SocketAddr)> {
    let Model::Tcp { source_is_client, .. } = &flow.model else { return None };
    Some(match source_is_client {
        true => (flow.source, flow.destination),
        false => (flow.destination, flow.source),
    })
}

/// Returns when the client opened a connection, and when its last exchange had ended for it.
fn span(flow: &FlowOf) -> Option<(Duration, Duration)> {
    let Model::Tcp { tcp, .. } = &flow.model else { return None };
    let last = tcp.exchanges.last()?;
    let near = tcp.round_trip.parts[0].unwrap_or_default();
    let end = tcp.heard?.since(flow.origin);
    Some((flow.start, if last.down > 0 { end.plus(near) } else { end }))
}

/// A connection that begins later after another one has nothing to do with it.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The least number of connections of a user, on average.
const CONNECTIONS_MIN: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Exchange, Tcp};
    use weir_core::units::Instant;

    /// Each connection is from one second to another; returns which follows which.
    fn check(spans: &[(u64, u64)], expected: &[(usize, usize)]) {
        let end = |number: u16| SocketAddr::from(([192, 0, 2, 1], number));
        let mut flows: Vec<_> = spans
            .iter()
            .enumerate()
            .map(|(place, (start, until))| {
                let exchanges = vec![Exchange { up: 1, down: 1, ..Exchange::default() }];
                let heard = Some(Instant::ZERO.after(Duration::from_secs(*until)));
                let tcp = Box::new(Tcp { exchanges, heard, ..Tcp::default() });
                FlowOf {
                    name: place.to_string(),
                    start: Duration::from_secs(*start),
                    ..FlowOf::between(
                        end(80),
                        end(1000),
                        Model::Tcp { tcp, source_is_client: false },
                    )
                }
            })
            .collect();
        follow(&mut flows);
        let found: Vec<_> = flows
            .iter()
            .enumerate()
            .filter_map(|(place, flow)| Some((flow.follows.as_ref()?.flow.parse().ok()?, place)))
            .collect();
        assert_eq!(found, expected, "{spans:?}");
        let chained: usize = chains(&flows).iter().map(Vec::len).sum();
        assert_eq!(chained, spans.len());
    }

    #[test]
    fn a_connection_follows_the_one_that_ended_first() {
        check(&[(0, 2), (3, 5), (6, 8)], &[(0, 1), (1, 2)]);
        // Two readers.
        check(&[(0, 2), (1, 3), (3, 6), (4, 5), (7, 9)], &[(0, 2), (1, 3), (3, 4)]);
        // Long after, and all at once.
        check(&[(0, 2), (20, 22), (40, 42)], &[]);
        check(&[(0, 9), (1, 9), (2, 9), (10, 12)], &[]);
    }
}
