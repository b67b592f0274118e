//! Finds rules that decide nothing because an earlier rule takes all their packets.
//!
//! A rule that covers another accepts each of its packets, hence also an example made up from its
//! first prefixes and ports. Tuple tables return the rules that accept the example, and only these
//! are compared in full. A rule is reported only if an earlier one certainly covers it. Where very
//! many rules accept the example and none of them covers, the search ends after `LOOKS_MAX`, so
//! that hostile rules cost time in proportion to their number.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::details::{Details, FlagTest, IcmpTest, LengthRange};
use super::key::{Family, Key};
use super::marks::MarkTest;
use super::rule::{InterfaceId, Match, PortRange, Prefix, Rule};
use super::tags::VlanTest;
use super::tuples::Tuples;
use crate::packet::{Addresses, Headers, Ports};

/// Rules, searched for one that covers another.
#[derive(Clone, Debug)]
pub struct Covers(Tuples);

impl Covers {
    /// Takes all rules, repeated patterns included.
    pub fn of(rules: &[Rule]) -> Covers {
        Covers(Tuples::with_repeats(rules))
    }

    /// Returns the place of the first rule found to cover `inner`, among the rules that were
    /// prepared.
    pub fn first(&self, rules: &[Rule], inner: &Match) -> Option<usize> {
        let found = first_cover(&self.0, rules, rules.len() as u32, inner)?;
        Some(found as usize)
    }
}

/// Returns the places of rules that decide nothing, each with the place of the first rule found to
/// cover it. `rules` are in match order.
pub fn covered(rules: &[Rule]) -> Vec<(usize, usize)> {
    let tuples = Tuples::with_repeats(rules);
    let find = |(place, rule): (usize, &Rule)| {
        let earlier = first_cover(&tuples, rules, place as u32, &rule.matches)?;
        Some((place, earlier as usize))
    };
    rules.iter().enumerate().filter_map(find).collect()
}

fn first_cover(tuples: &Tuples, rules: &[Rule], place: u32, inner: &Match) -> Option<u32> {
    let (interface, headers) = example(inner)?;
    let key = Key::of(interface, &headers);
    let (mut found, mut looks) = (None, 0);
    tuples.candidates(&key, &headers, place, |candidate, below| {
        looks += 1;
        let covers = |rule: &u32| covers(&rules[*rule as usize].matches, inner);
        if let Some(rule) = candidate.filter(covers) {
            found = Some(rule);
            return rule;
        }
        if looks < LOOKS_MAX { below } else { 0 }
    });
    found
}

/// Returns a packet that the rule accepts, its details aside, which the tables do not test; fields
/// that the rule does not test are absent. A rule covers this one only if it accepts that packet,
/// details aside. `None` if the rule accepts no packet.
pub(super) fn example(matches: &Match) -> Option<(InterfaceId, Headers)> {
    let (v4, v6) = (addresses(matches, Family::V4), addresses(matches, Family::V6));
    let first = |ranges: &[PortRange]| ranges.first().map_or(0, |range| range.first());
    let ports = Ports {
        source: first(&matches.source_ports),
        destination: first(&matches.destination_ports),
    };
    let class = |dscp: u8, ecn: u8| dscp << 2 | ecn;
    let (dscp, ecn) =
        (matches.dscps.first().map(|dscp| dscp.code()), matches.ecn.map(|ecn| ecn as u8));
    let headers = Headers {
        addresses: v4.or(v6)?,
        ports: matches.needs_ports().then_some(ports),
        protocol: matches.protocol,
        traffic_class: dscp.or(ecn).map(|_| class(dscp.unwrap_or(0), ecn.unwrap_or(0))),
        ethertype: matches.ethertype,
        vlan: matches.vlan.and_then(VlanTest::example),
        vlan_inner: matches.vlan_inner.and_then(VlanTest::example),
        ..Headers::UNKNOWN
    };
    Some((matches.interface.unwrap_or(InterfaceId(0)), headers))
}

/// Returns addresses of a family that the rule accepts; unknown ones if it tests none.
fn addresses(matches: &Match, family: Family) -> Option<Addresses> {
    if matches.sources.is_empty() && matches.destinations.is_empty() {
        return Some(Addresses::Unknown);
    }
    let network = |prefixes: &[Prefix]| match prefixes.is_empty() {
        true if family == Family::V4 => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        true => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        false => prefixes.iter().find(|prefix| Family::of(prefix) == family).map(Prefix::network),
    };
    match (network(&matches.sources)?, network(&matches.destinations)?) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Some(Addresses::V4 { source, destination })
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Some(Addresses::V6 { source, destination })
        }
        _ => None,
    }
}

/// Returns whether `outer` certainly accepts every packet that `inner` accepts.
pub fn covers(outer: &Match, inner: &Match) -> bool {
    fn same<T: PartialEq>(outer: &Option<T>, inner: &Option<T>) -> bool {
        outer.is_none() || outer == inner
    }
    same(&outer.protocol, &inner.protocol)
        && covers_values(&outer.dscps, &inner.dscps)
        && same(&outer.ecn, &inner.ecn)
        && covers_tests(outer.vlan, inner.vlan, VlanTest::covers)
        && covers_tests(outer.vlan_inner, inner.vlan_inner, VlanTest::covers)
        && covers_tests(outer.mark, inner.mark, MarkTest::covers)
        && same(&outer.ethertype, &inner.ethertype)
        && same(&outer.interface, &inner.interface)
        && covers_ports(&outer.source_ports, &inner.source_ports)
        && covers_ports(&outer.destination_ports, &inner.destination_ports)
        && covers_values(&outer.source_macs, &inner.source_macs)
        && covers_values(&outer.destination_macs, &inner.destination_macs)
        && covers_details(outer.details.as_deref(), inner.details.as_deref())
        && covers_prefixes(&outer.sources, &inner.sources)
        && covers_prefixes(&outer.destinations, &inner.destinations)
}

fn covers_tests<T>(outer: Option<T>, inner: Option<T>, covers: impl Fn(T, T) -> bool) -> bool {
    let Some(outer) = outer else { return true };
    inner.is_some_and(|inner| covers(outer, inner))
}

fn covers_ports(outer: &[PortRange], inner: &[PortRange]) -> bool {
    covers_list(outer, inner, |outer, inner| {
        outer.contains(inner.first()) && outer.contains(inner.last())
    })
}

fn covers_details(outer: Option<&Details>, inner: Option<&Details>) -> bool {
    let Some(outer) = outer else { return true };
    let flags = |outer: &FlagTest, inner: &FlagTest| outer.covers(*inner);
    let icmp = |outer: &IcmpTest, inner: &IcmpTest| outer.covers(*inner);
    inner.is_some_and(|inner| {
        covers_values(&outer.pcps, &inner.pcps)
            && covers_list(&outer.tcp_flags, &inner.tcp_flags, flags)
            && covers_list(&outer.icmp, &inner.icmp, icmp)
            && covers_list(&outer.lengths, &inner.lengths, LengthRange::covers)
    })
}

fn covers_values<T: PartialEq>(outer: &[T], inner: &[T]) -> bool {
    covers_list(outer, inner, T::eq)
}

fn covers_prefixes(outer: &[Prefix], inner: &[Prefix]) -> bool {
    covers_list(outer, inner, |outer, inner| {
        outer.prefix_len() <= inner.prefix_len() && outer.contains(inner.network())
    })
}

/// Returns whether each value of `inner` is covered by one of `outer`; an empty list means any.
fn covers_list<T: PartialEq>(outer: &[T], inner: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
    if outer.is_empty() || outer == inner {
        return true;
    }
    // Long lists are compared for equality only.
    if inner.is_empty() || outer.len().saturating_mul(inner.len()) > PAIRS_MAX {
        return false;
    }
    inner.iter().all(|inner| outer.iter().any(|outer| covers(outer, inner)))
}

/// Bound: patterns compared for one rule; after so many it counts as not covered.
pub(super) const LOOKS_MAX: u32 = 256;
/// Bound: values of one key compared with one another for two rules; with more they count as not
/// covered.
const PAIRS_MAX: usize = 1 << 10;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ids::LeafId;
    use crate::packet::{Dscp, MacAddress, Protocol};
    use crate::random::Random;
    use alloc::vec;

    const PREFIXES: [&str; 6] =
        ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.0.1", "::/0", "2001:db8::/32"];

    pub(in crate::classify) fn random_match(random: &mut Random) -> Match {
        let mut prefixes = |many: u32| -> Vec<Prefix> {
            let pick = |_| PREFIXES[random.below(6) as usize].parse().expect("a prefix");
            (0..many).map(pick).collect()
        };
        let (sources, destinations) = (prefixes(1), prefixes(2));
        let mut range = || {
            let (one, other) = (random.below(4) as u16, random.below(4) as u16);
            PortRange::new(one.min(other), one.max(other)).ok()
        };
        let (source_ports, destination_ports) = (range(), [range(), range()].into_iter().flatten());
        let destination_ports: Vec<PortRange> = destination_ports.collect();
        let mut dscps = vec![46, 8].into_iter().map(|code| Dscp::new(code).expect("six bits"));
        let dscps: Vec<Dscp> = dscps.by_ref().skip(random.below(2) as usize).collect();
        let macs: Vec<MacAddress> =
            (random.below(2)..2).map(|bits| MacAddress::of_bits(bits.into())).collect();
        let few = [random.below(3), random.below(3), random.below(3)];
        let mut few = few.into_iter();
        let mut chances = || few.next().unwrap_or(0);
        let mut chance = || random.chance(1 << 31);
        let details = Details {
            pcps: if chance() { vec![] } else { vec!["5".parse().expect("a PCP")] },
            tcp_flags: if chance() { vec![] } else { vec!["syn".parse().expect("a flag")] },
            ..Details::default()
        };
        Match {
            details: details.boxed().filter(|_| chance() && chance()),
            sources: if chance() { sources } else { vec![] },
            destinations: if chance() { destinations } else { vec![] },
            protocol: chance().then_some(Protocol::UDP),
            source_ports: source_ports.filter(|_| chance()).into_iter().collect(),
            destination_ports: destination_ports.into_iter().take(chances() as usize).collect(),
            dscps: dscps.into_iter().take(chances() as usize).collect(),
            interface: chance().then_some(InterfaceId(3)),
            source_macs: macs.into_iter().take(chances() as usize).collect(),
            ..Match::default()
        }
    }

    /// The oracle: compares every rule with every earlier one.
    fn naive(rules: &[Rule]) -> Vec<(usize, usize)> {
        let first = |place: usize| {
            let inner = &rules[place].matches;
            example(inner)?;
            (0..place).find(|&earlier| covers(&rules[earlier].matches, inner))
        };
        (0..rules.len()).filter_map(|place| Some((place, first(place)?))).collect()
    }

    #[test]
    fn the_tables_find_the_same_covered_rules_as_comparing_all_pairs() {
        let mut found = 0;
        for seed in 0..3_000 {
            let mut random = Random::new(seed, 0);
            let rules: Vec<Rule> =
                (0..12).map(|_| Rule::new(random_match(&mut random), LeafId(0))).collect();
            let covered = covered(&rules);
            assert_eq!(covered, naive(&rules), "seed {seed}: {rules:#?}");
            found += covered.len();
        }
        assert!(found > 1_000, "{found}");
    }

    #[test]
    fn many_rules_that_accept_one_packet_do_not_cost_quadratic_time() {
        // Each range is longer than all before, so none is covered, and all contain port 0.
        let rules: Vec<Rule> = (0..u16::MAX)
            .map(|last| {
                let destination_ports = PortRange::new(0, last).into_iter().collect();
                Rule::new(Match { destination_ports, ..Match::default() }, LeafId(0))
            })
            .collect();
        assert_eq!(covered(&rules), []);
    }
}
