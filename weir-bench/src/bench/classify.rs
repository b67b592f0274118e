//! The cost of a classification, by algorithm and number of rules.
//!
//! Rules are a seeded mix such as filters of access and backbone routers have: pairs of prefixes
//! from a few hundred networks, most with protocol and a port or a range, some with a code point or
//! only a service; the more specific precede the more general. Most flows match a rule drawn at
//! random; one in ten need not match any. Flows have packets by Zipf's law: the n-th flow has one
//! n-th as many as the first. The mix, the networks, the number of flows and their shares are equal
//! for every number of rules.
//!
//! Every figure is measured by turns with the yardstick, the plain search of ten rules, and with
//! the same algorithm and ten rules, so that both ratios are taken at the same time on the machine.

use crate::bench::figure::Figure;
use crate::bench::{Effort, median};
use serde::Serialize;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant as Clock;
use weir_core::classify::{
    CLASSIFIERS, Classifier, ClassifierPlan, FragmentPolicy, InterfaceId, Match, PortRange, Prefix,
    Rule,
};
use weir_core::ids::LeafId;
use weir_core::packet::{Addresses, Dscp, Headers, Ports, Protocol};
use weir_core::random::Random;
use weir_core::units::Instant;

/// The numbers of rules that `weir bench --classify` runs.
pub const RULES: &[usize] = &[10, 1_000, 10_000, 100_000];

/// Rows for each number of rules at most.
pub const ROWS: usize = 2 * CLASSIFIERS.len();

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The keyword of the algorithm.
    pub classifier: &'static str,
    /// Whether every packet's flow is in the flow cache.
    pub cached: bool,
    /// The number of rules.
    pub rules: usize,
    /// The most tables in which a packet is looked up.
    pub tables: usize,
    /// ns per classification, the median of the rounds.
    pub nanos: f64,
    /// The ratio to the yardstick in the same round, the median of the rounds.
    pub ratio: f64,
    /// The ratio to the same algorithm with ten rules in the same round, the median of the rounds.
    pub growth: f64,
    /// The goal, if there is one.
    pub limit: Option<Limit>,
    /// The ratio or growth is not above the limit.
    pub holds: bool,
}

/// The goal of a classification's cost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A multiple of the cost with ten rules.
    Growth(f64),
    /// A time in ns.
    Nanos(f64),
}

/// Measures every algorithm at each number of rules: without a flow cache, and, if it has one, with
/// all flows in the cache.
pub fn measure(rules: &[usize], effort: Effort, mut progress: impl FnMut(&Row)) -> Vec<Row> {
    let mut rows = Vec::new();
    for &count in rules {
        for descriptor in CLASSIFIERS {
            if !descriptor.cached && count > PLAIN_RULES_MAX {
                continue;
            }
            for cached in [false, true] {
                if cached && !descriptor.cached {
                    continue;
                }
                rows.push(measure_one(descriptor.keyword, count, cached, effort));
                progress(rows.last().expect("a row was just pushed"));
            }
        }
    }
    rows
}

/// Returns the ns per classification by `rules` rules, with a flow cache where the algorithm has
/// one; the median of the rounds.
pub(super) fn nanos(classifier: &'static str, rules: usize, effort: Effort) -> f64 {
    let mut subject = Loop::new(classifier, rules, true);
    let packets = effort.packets as usize / 4;
    subject.run(packets);
    let mut nanos: Vec<f64> = (0..effort.rounds).map(|_| subject.run(packets)).collect();
    median(&mut nanos)
}

/// Returns the rows with goals, as figures.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let figure = |row: &Row| {
        let Row { classifier, rules, .. } = row;
        Some(match row.limit? {
            Limit::Growth(most) => {
                let what = format!("{classifier}, {rules} rules: cost to {YARDSTICK_RULES} rules");
                Figure::at_most(what, most, row.growth)
            }
            Limit::Nanos(most) => {
                let what = format!("{classifier}, {rules} rules: ns for a known flow");
                Figure::at_most(what, most, row.nanos)
            }
        })
    };
    rows.iter().filter_map(figure).collect()
}

/// The yardstick: the plainest algorithm, and its number of rules.
pub fn yardstick() -> (&'static str, usize) {
    let plain = CLASSIFIERS.iter().find(|row| !row.cached).expect("the plain search has no cache");
    (plain.keyword, YARDSTICK_RULES)
}

fn measure_one(classifier: &'static str, rules: usize, cached: bool, effort: Effort) -> Row {
    let mut subject = Loop::new(classifier, rules, cached);
    let (plain, plain_rules) = yardstick();
    let mut yardstick = Loop::new(plain, plain_rules, false);
    let mut few = Loop::new(classifier, plain_rules, cached);
    let packets = effort.packets as usize;
    subject.run(packets);
    yardstick.run(packets);
    few.run(packets);
    let (mut nanos, mut ratios, mut growths) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let mine = subject.run(packets);
        let theirs = yardstick.run(packets);
        nanos.push(mine);
        ratios.push(mine / theirs);
        growths.push(mine / few.run(packets));
    }
    let (nanos, growth) = (median(&mut nanos), median(&mut growths));
    let limit = limit_of(classifier, cached);
    Row {
        classifier,
        cached,
        rules,
        tables: subject.classifier.tables(),
        nanos,
        ratio: median(&mut ratios),
        growth,
        limit,
        holds: match limit {
            None => true,
            Some(Limit::Growth(most)) => growth <= most,
            Some(Limit::Nanos(most)) => nanos <= most,
        },
    }
}

/// Returns the goal: none for the plain search; for the others a low cost of rules, and a lower one
/// of known flows.
fn limit_of(classifier: &str, cached: bool) -> Option<Limit> {
    let promises = classifier != yardstick().0;
    promises.then_some(if cached { Limit::Nanos(NANOS_MAX) } else { Limit::Growth(GROWTH_MAX) })
}

/// A classifier and the packets that it classifies repeatedly.
struct Loop {
    classifier: Classifier,
    flows: Vec<Headers>,
    /// The flow of each packet.
    packets: Vec<u16>,
    next: usize,
}

impl Loop {
    fn new(algorithm: &'static str, count: usize, cached: bool) -> Loop {
        let mut random = Random::new(SEED, 0);
        let networks: Vec<u32> = (0..NETWORKS).map(|_| random.bits() as u32).collect();
        let rules = mix(&mut random, count, &networks);
        let flows = (0..FLOWS).map(|_| packet(&mut random, &rules, &networks)).collect();
        let packets = (0..PACKETS).map(|_| zipf(&mut random)).collect();
        let plan = ClassifierPlan {
            algorithm,
            fragments: FragmentPolicy::EachAlone,
            flows: if cached { ClassifierPlan::default().flows } else { 0 },
            ..ClassifierPlan::default()
        };
        let number = |(index, matches)| Rule::new(matches, LeafId(index as u32 % LEAVES));
        let rules = rules.into_iter().enumerate().map(number).collect();
        let classifier = Classifier::build(rules, LeafId(LEAVES), &plan);
        Loop {
            classifier: classifier.expect("the algorithm is registered"),
            flows,
            packets,
            next: 0,
        }
    }

    /// Returns the ns per classification over `count` of them.
    #[inline(never)]
    fn run(&mut self, count: usize) -> f64 {
        let start = Clock::now();
        for _ in 0..count {
            let headers = &self.flows[usize::from(self.packets[self.next])];
            black_box(self.classifier.classify(Instant::ZERO, InterfaceId(0), headers));
            self.next = if self.next + 1 < self.packets.len() { self.next + 1 } else { 0 };
        }
        start.elapsed().as_nanos() as f64 / count as f64
    }
}

/// The flow of a packet.
fn zipf(random: &mut Random) -> u16 {
    let even = random.bits() as f64 / u64::MAX as f64;
    (FLOWS as f64).powf(even).min(FLOWS as f64) as u16 - 1
}

/// Returns the rules, the more specific first: otherwise an earlier general rule would hide them.
fn mix(random: &mut Random, count: usize, networks: &[u32]) -> Vec<Match> {
    let mut rules: Vec<Match> = (0..count).map(|_| rule(random, networks)).collect();
    rules.sort_by_cached_key(|rule| std::cmp::Reverse(special(rule)));
    rules
}

/// Returns how specific a rule is: about how many bits of a packet it tests.
fn special(rule: &Match) -> u32 {
    let bits =
        |prefixes: &[Prefix]| prefixes.first().map_or(0, |prefix| prefix.prefix_len().into());
    let ports = |ranges: &[PortRange]| {
        ranges
            .first()
            .map_or(0, |range| 16 - (range.last() - range.first()).checked_ilog2().unwrap_or(0))
    };
    let protocol = if rule.protocol.is_some() { 8 } else { 0 };
    let addresses = bits(&rule.sources) + bits(&rule.destinations);
    addresses + protocol + ports(&rule.source_ports) + ports(&rule.destination_ports)
}

/// A rule of the mix.
fn rule(random: &mut Random, networks: &[u32]) -> Match {
    let mut matches = Match::default();
    // One rule in ten tests only a service or a code point.
    if random.below(10) > 0 {
        matches.sources = prefix(random, networks, &[0, 0, 16, 24, 24, 32]);
        matches.destinations = prefix(random, networks, &[0, 16, 24, 24, 28, 32, 32]);
    } else if random.below(4) == 0 {
        matches.dscps = Dscp::new(random.below(64) as u8).into_iter().collect();
    }
    if random.below(5) > 0 {
        let protocol = if random.below(4) == 0 { Protocol::UDP } else { Protocol::TCP };
        matches.protocol = Some(protocol);
        let range = match random.below(10) {
            0..=5 => Some(PortRange::single(SERVICES[random.below(8) as usize])),
            6 => Some(PortRange::single(random.below(65_536) as u16)),
            7 | 8 => {
                let (first, last) = RANGES[random.below(8) as usize];
                PortRange::new(first, last).ok()
            }
            _ => None,
        };
        matches.destination_ports = range.into_iter().collect();
        if random.below(8) == 0 {
            matches.source_ports = PortRange::new(1024, 65_535).into_iter().collect();
        }
    }
    matches
}

fn prefix(random: &mut Random, networks: &[u32], lengths: &[u8]) -> Vec<Prefix> {
    let len = lengths[random.below(lengths.len() as u32) as usize];
    if len == 0 {
        return Vec::new();
    }
    let address = address(random, networks) & u32::MAX << (32 - len);
    vec![Prefix::new(IpAddr::V4(Ipv4Addr::from(address)), len).expect("masked to its length")]
}

/// An address in one of the networks of 16 bits.
fn address(random: &mut Random, networks: &[u32]) -> u32 {
    let network = networks[random.below(networks.len() as u32) as usize] & 0xffff_0000;
    network | random.below(1 << 16)
}

/// Returns a packet that matches a random rule; one in ten need not.
fn packet(random: &mut Random, rules: &[Match], networks: &[u32]) -> Headers {
    let any = Match::default();
    let of_rule = random.below(10) > 0;
    let rule = if of_rule { &rules[random.below(rules.len() as u32) as usize] } else { &any };
    let mut end = |prefixes: &[Prefix]| {
        let own = address(random, networks);
        let Some(prefix) = prefixes.first() else { return Ipv4Addr::from(own) };
        let IpAddr::V4(network) = prefix.network() else { return Ipv4Addr::from(own) };
        let host = own & u32::MAX.checked_shr(prefix.prefix_len().into()).unwrap_or(0);
        Ipv4Addr::from(u32::from(network) | host)
    };
    let (source, destination) = (end(&rule.sources), end(&rule.destinations));
    let mut port = |ranges: &[PortRange]| {
        let any = PortRange::single(random.below(65_536) as u16);
        let range = ranges.first().copied().unwrap_or(any);
        range.first() + random.below(u32::from(range.last() - range.first()) + 1) as u16
    };
    let ports =
        Ports { source: port(&rule.source_ports), destination: port(&rule.destination_ports) };
    let protocol = rule.protocol.unwrap_or(Protocol::TCP);
    let headers = Headers::of_flow(Addresses::V4 { source, destination }, protocol, ports);
    Headers {
        traffic_class: Some(rule.dscps.first().map_or(0, |dscp| dscp.code() << 2)),
        ..headers
    }
}

/// The most rules for the plain search, which takes too long with more.
const PLAIN_RULES_MAX: usize = 1_000;
const YARDSTICK_RULES: usize = 10;
/// The most that many rules may cost, relative to ten.
const GROWTH_MAX: f64 = 3.0;
/// The most that a packet of a known flow may cost, in ns.
const NANOS_MAX: f64 = 60.0;
/// The number of different packets.
const PACKETS: usize = 1 << 16;
/// Flows: fewer than the flow cache has room for.
const FLOWS: usize = 4_096;
const LEAVES: u32 = 64;
/// The number of 16-bit networks in rules and packets.
const NETWORKS: usize = 400;
const SEED: u64 = 0x77_6569_7232;
/// Ranges that filters name: there are few of them in any set of rules.
const RANGES: [(u16, u16); 8] = [
    (1024, 65_535),
    (1024, 65_535),
    (0, 1023),
    (5004, 5010),
    (6000, 6063),
    (16_384, 32_767),
    (33_434, 33_534),
    (49_152, 65_535),
];
const SERVICES: [u16; 8] = [80, 443, 53, 22, 25, 123, 5060, 3306];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_returns_the_same_rules_on_the_mix() {
        for (count, cached) in [(10, false), (10, true), (1_000, false), (1_000, true)] {
            let mut loops: Vec<Loop> =
                CLASSIFIERS.iter().map(|row| Loop::new(row.keyword, count, cached)).collect();
            for index in 0..2 * FLOWS {
                let headers = loops[0].flows[index % FLOWS];
                let answers: Vec<_> = loops
                    .iter_mut()
                    .map(|row| row.classifier.classify(Instant::ZERO, InterfaceId(0), &headers))
                    .collect();
                assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
            }
        }
    }
}
