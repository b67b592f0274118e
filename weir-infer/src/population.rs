//! Many alike connections as one group: sources that fetch files of a fitted distribution, one
//! after another, in place of each connection by itself.
//!
//! Alike are short connections with the same server's port, code point, direction, and round trip
//! to a factor of two. A group has as many sources as connections were open at once on average, and
//! a pause that gives as many files as there were connections: applications' own waits count as
//! pauses. Sizes are Pareto's, with the mean of the sample and its shape by maximum likelihood, but
//! with no longer tail than the sample's. Invariant: a connection is in at most one group.

use crate::tcp::Tcp;
use crate::text::{line, quoted_time};
use crate::{FlowOf, Grouping, Inferred, Model, POPULATION_FROM};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::units::Duration;

/// Alike connections.
pub struct Group<'a> {
    flows: Vec<(&'a FlowOf, &'a Tcp)>,
    names: BTreeSet<&'a str>,
    duration: Duration,
}

/// The properties that connections of a group share: port, code point, whether the source answers,
/// and the round trip in powers of two of a millisecond.
type Alike = (u16, u8, bool, u32);

/// Returns whether alike connections become groups.
pub fn is_wanted(inferred: &Inferred) -> bool {
    match inferred.options.grouping {
        Grouping::Auto => inferred.flows.len() > POPULATION_FROM,
        Grouping::Exact => false,
        Grouping::Population => true,
    }
}

/// Returns the groups; none if each connection is to be by itself.
pub fn groups(inferred: &Inferred) -> Vec<Group<'_>> {
    if !is_wanted(inferred) {
        return Vec::new();
    }
    let mut alike: BTreeMap<Alike, Vec<(&FlowOf, &Tcp)>> = BTreeMap::new();
    for flow in &inferred.flows {
        let Model::Tcp { tcp, source_is_client } = &flow.model else { continue };
        if bytes(flow, tcp) == 0 {
            continue;
        }
        let server = if *source_is_client { flow.destination } else { flow.source };
        let millis = tcp.round_trip.total().map_or(0, |time| time.as_nanos() / 1_000_000);
        let key = (server.port(), flow.dscp, *source_is_client, millis.max(1).ilog2());
        alike.entry(key).or_default().push((flow, tcp));
    }
    let many = alike.into_values().filter(|flows| flows.len() >= GROUP_MIN);
    many.map(|flows| Group {
        names: flows.iter().map(|row| row.0.name.as_str()).collect(),
        flows,
        duration: inferred.duration,
    })
    .collect()
}

/// Returns what the source of a connection sent.
fn bytes(flow: &FlowOf, tcp: &Tcp) -> u64 {
    let is_client = matches!(flow.model, Model::Tcp { source_is_client: true, .. });
    tcp.exchanges.iter().map(|one| if is_client { one.up } else { one.down }).sum()
}

impl Group<'_> {
    /// Returns whether the connection is in the group.
    pub fn has(&self, flow: &FlowOf) -> bool {
        self.names.contains(flow.name.as_str())
    }

    /// Writes the sources of the group.
    pub fn write(&self, text: &mut String) {
        let count = self.flows.len() as f64;
        let sizes: Vec<f64> =
            self.flows.iter().map(|(flow, tcp)| bytes(flow, tcp).max(1) as f64).collect();
        let mean = sizes.iter().sum::<f64>() / count;
        let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
        let logs: f64 = sizes.iter().map(|size| libm::log(size / least)).sum();
        // Of so many draws the largest is about the least times their number to one over the shape.
        let most = sizes.iter().copied().fold(least, f64::max);
        let of_tail = libm::log(count) / libm::log(most / least).max(1e-9);
        let shape = (count / logs.max(1e-9)).max(of_tail).clamp(SHAPE_MIN, SHAPE_MAX);
        let open: f64 = self.flows.iter().map(|(flow, _)| life(flow).as_nanos() as f64).sum();
        let duration = (self.duration.as_nanos() as f64).max(1.0);
        let sources = (open / duration).ceil().clamp(1.0, SOURCES_MAX);
        let waits: f64 = self.flows.iter().map(|(_, tcp)| waits(tcp)).sum();
        let busy = (open - waits).max(0.0);
        let pause = (duration * sources - busy).max(0.0) / count;
        let mut times: Vec<u64> = self
            .flows
            .iter()
            .filter_map(|(_, tcp)| tcp.round_trip.total().map(Duration::as_nanos))
            .collect();
        times.sort_unstable();
        let round_trip = times.get(times.len() / 2).copied().unwrap_or(ROUND_TRIP_UNKNOWN);
        let (first, _) = self.flows[0];
        let words = format!(
            "{count} connections such as {} in {sources} sources; sizes by a mean of {mean:.0} B \
             and a Pareto shape of {shape:.2}",
            first.name
        );
        line(text, "\n# ", &words);
        for number in 1..=sources as u64 {
            line(text, "[[source]]\nname = ", &format!("\"group-{}-{number}\"", first.name));
            line(text, "kind = ", "\"ftp\"");
            line(text, "src = ", &format!("\"{}\"", first.source.ip()));
            line(text, "dst = ", &format!("\"{}\"", first.destination.ip()));
            // Clients take another port for each connection; the server's is the policy's.
            let is_client = matches!(first.model, Model::Tcp { source_is_client: true, .. });
            match is_client {
                true => line(text, "dport = ", &first.destination.port().to_string()),
                false => line(text, "sport = ", &first.source.port().to_string()),
            }
            if first.dscp != 0 {
                line(text, "dscp = ", &first.dscp.to_string());
            }
            line(text, "file = ", &format!("\"{} B\"", mean.max(1.0) as u64));
            if shape < SHAPE_MAX {
                line(text, "file_shape = ", &format!("{shape:.3}"));
            }
            line(text, "pause = ", &quoted_time(Duration::from_nanos(pause as u64)));
            line(text, "return_delay = ", &quoted_time(Duration::from_nanos(round_trip)));
            let start = duration * (number - 1) as f64 / sources / count.max(1.0);
            line(text, "start = ", &quoted_time(Duration::from_nanos(start as u64)));
            let files = (self.flows.len() as u64 + sources as u64 - number) / sources as u64;
            line(text, "files = ", &files.to_string());
        }
    }
}

fn life(flow: &FlowOf) -> Duration {
    Duration::from_nanos(flow.end.as_nanos().saturating_sub(flow.start.as_nanos()))
}

/// Returns for how long its applications waited, in nanoseconds.
fn waits(tcp: &Tcp) -> f64 {
    tcp.exchanges.iter().map(|one| one.after.plus(one.wait).as_nanos() as f64).sum()
}

/// Connections from which a group is one.
const GROUP_MIN: usize = 20;
/// Bound: sources of a group; more connections at once share them.
const SOURCES_MAX: f64 = 200.0;
/// Of Pareto's distribution: below it has no mean, above it is nearly constant.
const SHAPE_MIN: f64 = 1.05;
const SHAPE_MAX: f64 = 20.0;
const ROUND_TRIP_UNKNOWN: u64 = 50_000_000;
