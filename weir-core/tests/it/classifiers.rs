//! Every classification algorithm returns what the linear one returns, in every match order and for
//! fragments of every kind; and those orders and fragments follow their sources.

use crate::common::seeds::seeds;
use crate::frames;

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use frames::{Draws, Frame, frame};
use weir_core::classify::{
    AltqHash, CLASSIFIERS, Classified, Classifier, ClassifierPlan, Details, FragmentPolicy,
    IcmpTest, InterfaceId, Lookup, MarkTest, Match, MatchOrder, PortRange, Prefix, Reason, Rule,
    RuleSet, Spread, Target, VlanTest,
};
use weir_core::ids::LeafId;
use weir_core::packet::{
    Addresses, Dscp, Ecn, EtherType, FlowKey, Fragment, Headers, IcmpType, MacAddress, Macs, Ports,
    Protocol, TcpFlags, Transport, VlanTag,
};
use weir_core::units::{Duration, Instant};

const DEFAULT: LeafId = LeafId(9999);
const UDP: u8 = 17;
const TCP: u8 = 6;

fn is<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a test's own value")
}

fn some<T>(random: &mut Draws, percent: usize, make: impl Fn(&mut Draws) -> T) -> Option<T> {
    random.chance(percent).then(|| make(random))
}

/// Draws addresses of few networks, so that rules overlap.
fn random_address(random: &mut Draws, ipv4: bool) -> IpAddr {
    let host = random.pick(&[0, 1, 2, 3, 255, 0x0100, 0x0101, 0xffff_ffff, 0x8000_0001_u128]);
    if ipv4 {
        IpAddr::from(
            (random.pick(&[0x0a00_0000, 0x0a01_0000, 0xc000_0200]) ^ host as u32).to_be_bytes(),
        )
    } else {
        let network = random.pick(&[0x2001_0db8_u128 << 96, 0x2001_0db8_0001_u128 << 80, 0]);
        IpAddr::from((network ^ host ^ host << 60).to_be_bytes())
    }
}

fn random_prefix(random: &mut Draws) -> Prefix {
    let ipv4 = random.chance(65);
    let address = random_address(random, ipv4);
    let len = match ipv4 {
        true => random.pick(&[0, 1, 7, 8, 15, 16, 23, 24, 25, 30, 31, 32, 32]),
        false => random.pick(&[0, 1, 31, 32, 48, 63, 64, 65, 96, 127, 128, 128]),
    };
    match address {
        IpAddr::V4(address) => {
            let masked = u32::from(address) & u32::MAX.checked_shl(32 - len).unwrap_or(0);
            Prefix::new(IpAddr::from(masked.to_be_bytes()), len as u8).expect("masked")
        }
        IpAddr::V6(address) => {
            let masked = u128::from(address) & u128::MAX.checked_shl(128 - len).unwrap_or(0);
            Prefix::new(IpAddr::from(masked.to_be_bytes()), len as u8).expect("masked")
        }
    }
}

fn random_prefixes(random: &mut Draws) -> Vec<Prefix> {
    // Rarely a list so long that not every pair is expanded.
    let count = random.pick(&[0, 0, 0, 1, 1, 1, 1, 2, 3, 9]);
    (0..count).map(|_| random_prefix(random)).collect()
}

fn random_range(random: &mut Draws) -> PortRange {
    let port = |random: &mut Draws| random.pick(&[0, 1, 79, 80, 81, 1023, 1024, 5004, 65_535]);
    let (one, other) = (port(random), port(random));
    match random.chance(50) {
        true => PortRange::single(one),
        false => PortRange::new(one.min(other), one.max(other)).expect("in order"),
    }
}

fn random_match(random: &mut Draws) -> Match {
    Match {
        sources: random_prefixes(random),
        destinations: random_prefixes(random),
        protocol: some(random, 40, |random| Protocol(random.pick(&[1, TCP, UDP, 132]))),
        source_ports: few(random, 20, random_range),
        destination_ports: few(random, 40, random_range),
        dscps: few(random, 15, |random| Dscp::new(random.pick(&[0, 46, 63])).expect("six bits")),
        ecn: some(random, 10, |random| Ecn::of_traffic_class(random.below(4) as u8)),
        vlan: some(random, 10, random_vlan),
        vlan_inner: some(random, 5, random_vlan),
        ethertype: some(random, 5, |random| random.pick(&[EtherType::IPV4, EtherType::IPV6])),
        interface: some(random, 10, |random| InterfaceId(random.below(3) as u16)),
        source_macs: few(random, 8, random_mac),
        destination_macs: few(random, 5, random_mac),
        mark: some(random, 8, |random| {
            random.pick(&["0", "3", "0x3/0xf", "0x13", "0x1/0x1", "0/0"]).parse().expect("a mark")
        }),
        details: some(random, 15, random_details).and_then(Details::boxed),
    }
}

/// Draws details of few values: a key has room for some sets of rules and not for others.
fn random_details(random: &mut Draws) -> Details {
    let icmp = |random: &mut Draws| {
        IcmpTest::parse(Protocol::ICMP, random.pick(&["8", "3/1", "3"])).expect("a type")
    };
    Details {
        pcps: few(random, 30, |random| is(random.pick(&["0", "5", "7"]))),
        tcp_flags: few(random, 40, |random| is(random.pick(&["syn", "syn,!ack", "ack", "!psh"]))),
        icmp: few(random, 15, icmp),
        lengths: few(random, 40, |random| is(random.pick(&["0-100 B", "40 B", "100-1500 B"]))),
    }
}

fn random_vlan(random: &mut Draws) -> VlanTest {
    random.pick(&["0", "1", "2", "none", "any"]).parse().expect("a condition on a tag")
}

/// Draws a list of values; rarely one so long that not every combination is expanded.
fn few<T>(random: &mut Draws, percent: usize, make: impl Fn(&mut Draws) -> T) -> Vec<T> {
    let count = if random.chance(percent) { random.pick(&[1, 1, 1, 2, 3, 9]) } else { 0 };
    (0..count).map(|_| make(random)).collect()
}

fn random_mac(random: &mut Draws) -> MacAddress {
    MacAddress::of_bits(random.below(4) as u64)
}

fn random_rules(random: &mut Draws) -> Vec<Rule> {
    let count = random.pick(&[0, 1, 2, 5, 12, 40, 150]);
    let rule = |index: usize, random: &mut Draws| Rule {
        sort_key: some(random, 50, |random| random.pick(&[1, 2, 3, 49_152, 60_000])),
        ..Rule::new(random_match(random), LeafId(index as u32))
    };
    (0..count).map(|index| rule(index, random)).collect()
}

/// Draws a packet that satisfies most conditions of a random rule, and by chance all of them.
fn random_packet(random: &mut Draws, rules: &[Rule]) -> (InterfaceId, Headers) {
    let nothing = Match::default();
    let target = match rules.is_empty() {
        true => &nothing,
        false => &rules[random.below(rules.len())].matches,
    };
    let ipv4 = random.chance(60);
    let mut end = |prefixes: &[Prefix]| {
        let own = random_address(random, ipv4);
        let of_family = |prefix: &&Prefix| prefix.network().is_ipv4() == ipv4;
        let prefix = prefixes.iter().find(of_family).filter(|prefix| !prefix.contains(own));
        prefix.map_or(own, |prefix| prefix.network())
    };
    let addresses = match (end(&target.sources), end(&target.destinations)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => panic!("addresses are of one family"),
    };
    let addresses = if random.chance(5) { Addresses::Unknown } else { addresses };
    let mut port = |ranges: &[PortRange]| {
        let range = ranges.last().copied().unwrap_or_else(|| random_range(random));
        if random.chance(50) { range.first() } else { range.last() }
    };
    let ports =
        Ports { source: port(&target.source_ports), destination: port(&target.destination_ports) };
    let fragment = match random.below(8) {
        0 => Fragment::First(random.below(4) as u32),
        1 | 2 => Fragment::Later { id: random.below(4) as u32, more: random.chance(60) },
        _ => Fragment::None,
    };
    let portless = random.chance(10) || matches!(fragment, Fragment::Later { .. });
    let tag = |wanted: Option<VlanTest>, random: &mut Draws| match wanted {
        Some(vlan) if random.chance(80) => vlan.example().map(|tag| VlanTag(tag.0 | 0xe000)),
        _ => some(random, 10, |random| VlanTag(random.below(3) as u16)),
    };
    let vlan = tag(target.vlan, random);
    let dscp = target.dscps.last().map_or(random.pick(&[0, 46, 63]), |dscp| dscp.code());
    let mac = |wanted: &[MacAddress], random: &mut Draws| match wanted.last() {
        Some(mac) if random.chance(80) => *mac,
        _ => random_mac(random),
    };
    let macs = Macs {
        source: mac(&target.source_macs, random),
        destination: mac(&target.destination_macs, random),
    };
    let ecn = target.ecn.map_or(random.below(4) as u8, |ecn| ecn as u8);
    let protocol = target.protocol.unwrap_or(Protocol(random.pick(&[1, TCP, UDP, 132])));
    let headers = Headers {
        addresses,
        fragment,
        ports: (!portless).then_some(ports),
        ethertype: target.ethertype.or(some(random, 50, |_| EtherType::IPV4)),
        vlan,
        vlan_inner: tag(target.vlan_inner, random),
        protocol: random.chance(95).then_some(protocol),
        traffic_class: random.chance(95).then_some(dscp << 2 | ecn),
        macs: random.chance(90).then_some(macs),
        mark: random.pick(&[0, 0, 3, 0x13, 0x23]),
        network_len: random.pick(&[None, Some(40), Some(40), Some(100), Some(1500)]),
        transport: match protocol.0 {
            _ if portless && protocol.has_ports() => Transport::Unknown,
            TCP => Transport::Tcp(TcpFlags(random.pick(&[0x02, 0x12, 0x10, 0x18]))),
            1 => Transport::Icmp(IcmpType { number: random.pick(&[3, 8]), code: 1 }),
            _ => Transport::Unknown,
        },
        ..Headers::UNKNOWN
    };
    (target.interface.unwrap_or(InterfaceId(random.below(3) as u16)), headers)
}

fn plain() -> &'static str {
    CLASSIFIERS.iter().find(|row| !row.cached).expect("the linear one has no cache").keyword
}

/// Returns where a packet goes that was looked up ahead in the same rules; `None` for a fragment.
fn found_ahead(
    classifier: &Classifier,
    interface: InterfaceId,
    headers: &Headers,
) -> Option<Classified> {
    let mut lookup = Lookup::new(Arc::clone(classifier.rules()), 16);
    let found = lookup.find(interface, headers)?;
    // The second time from the cache.
    assert_eq!(lookup.find(interface, headers), Some(found));
    Some(classifier.classify_found(interface, headers, found))
}

/// Compares every algorithm, with and without a small flow cache, with the linear one.
fn check_equal(seed: u64) -> [usize; 3] {
    let mut random = Draws::new(seed);
    let order = random.pick(&MatchOrder::ALL);
    let fragments = random.pick(&[
        FragmentPolicy::default(),
        FragmentPolicy::EachAlone,
        FragmentPolicy::AltqBroken,
        FragmentPolicy::AltqFixed,
    ]);
    let mut rules = random_rules(&mut random);
    let build = |algorithm, flows| {
        let plan = ClassifierPlan { algorithm, order, fragments, flows, seed };
        Classifier::build(rules.clone(), DEFAULT, &plan).expect("it is registered")
    };
    let mut oracle = build(plain(), 0);
    let rows = CLASSIFIERS.iter().flat_map(|row| [(row.keyword, 0), (row.keyword, 8)]);
    let mut others: Vec<_> = rows.map(|(word, flows)| build(word, flows)).collect();
    let mut packets: Vec<(InterfaceId, Headers)> = Vec::new();
    let mut reasons = [0; 3];
    for step in 0..60 {
        if random.chance(5) {
            change(&mut random, &mut rules);
            oracle.replace_rules(rules.clone());
            others.iter_mut().for_each(|other| other.replace_rules(rules.clone()));
        }
        // Half of them come again, so that the flow cache has hits.
        let packet = match packets.is_empty() || random.chance(50) {
            true => random_packet(&mut random, &rules),
            false => {
                let packet = random.pick(&packets);
                again(&mut random, packet)
            }
        };
        packets.push(packet);
        let now = Instant::from_nanos(step);
        let expected = oracle.classify(now, packet.0, &packet.1);
        for (other, classifier) in others.iter_mut().enumerate() {
            let found = classifier.classify(now, packet.0, &packet.1);
            assert_eq!(
                found, expected,
                "seed {seed:#x} step {step} {other}: {packet:?}\n{rules:#?}"
            );
            assert_eq!(found_ahead(classifier, packet.0, &packet.1).unwrap_or(found), found);
        }
        reasons[match expected.reason {
            Reason::Rule(_) => 0,
            Reason::Joined(_) | Reason::Fragment => 1,
            Reason::Default => 2,
        }] += 1;
    }
    reasons
}

/// Returns the same packet, or a later fragment of the datagram that it began.
fn again(random: &mut Draws, packet: (InterfaceId, Headers)) -> (InterfaceId, Headers) {
    let (interface, headers) = packet;
    let Fragment::First(id) = headers.fragment else { return packet };
    if random.chance(30) {
        return packet;
    }
    let fragment = Fragment::Later { id, more: random.chance(60) };
    (interface, Headers { fragment, ports: None, transport: Transport::Unknown, ..headers })
}

/// Adds, removes, swaps or replaces rules.
fn change(random: &mut Draws, rules: &mut Vec<Rule>) {
    let at = random.below(rules.len() + 1);
    let new = Rule::new(random_match(random), LeafId(random.below(100) as u32));
    match random.below(4) {
        0 => rules.insert(at, new),
        1 if at < rules.len() => drop(rules.remove(at)),
        2 if at < rules.len() => rules.swap(0, at),
        _ => *rules = random_rules(random),
    }
}

/// A rule with two long lists of addresses is kept with one of them and compared in full; what
/// another rule has in common with that part is no repetition.
#[test]
fn the_first_rule_with_long_lists_hides_no_other() {
    let sources: Vec<Prefix> = (0..20).map(|at| is(&format!("10.{at}.0.0/16"))).collect();
    let rule = |destinations: &[&str], leaf| {
        let destinations = destinations.iter().map(|text| is(text)).collect();
        let matches = Match { sources: sources.clone(), destinations, ..Match::default() };
        Rule::new(matches, LeafId(leaf))
    };
    // The leading bits that both destinations share are those of the other rule.
    let rules = vec![rule(&["11.0.0.0/8", "12.0.0.0/8"], 1), rule(&["8.0.0.0/5"], 2)];
    let packet = |destination: [u8; 4]| {
        let (source, destination) = (is("10.3.0.1"), destination.into());
        let addresses = Addresses::V4 { source, destination };
        Headers::of_flow(addresses, Protocol::UDP, Ports { source: 1, destination: 2 })
    };
    for row in CLASSIFIERS {
        let plan = ClassifierPlan { algorithm: row.keyword, ..ClassifierPlan::default() };
        let mut classifier = Classifier::build(rules.clone(), DEFAULT, &plan).expect("it is known");
        let mut leaf = |destination| {
            classifier.classify(Instant::ZERO, InterfaceId(0), &packet(destination)).leaf
        };
        assert_eq!(
            [leaf([12, 0, 0, 1]), leaf([14, 0, 0, 1])],
            [LeafId(1), LeafId(2)],
            "{}",
            row.keyword
        );
    }
}

#[test]
fn every_algorithm_returns_the_rule_of_the_linear_one() {
    let mut reasons = [0; 3];
    for case in seeds(CASES) {
        println!("seed {case}");
        let one = check_equal(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        reasons = std::array::from_fn(|reason| reasons[reason] + one[reason]);
    }
    assert!(reasons.iter().all(|count| *count as u64 > CASES / 4), "{reasons:?}");
}

/// Random sets of rules that are tried on a change.
const CASES: u64 = 400;

/// Lets classes join and leave at random; compares with a classifier that is built of all rules.
fn check_joined(seed: u64) -> [usize; 4] {
    let mut random = Draws::new(seed);
    let plan = ClassifierPlan { flows: random.pick(&[0, 8]), ..ClassifierPlan::default() };
    let oracle = ClassifierPlan { algorithm: plain(), flows: 0, ..plan };
    let build = |plan: &ClassifierPlan, rules: &[Rule]| {
        Classifier::build(rules.to_vec(), DEFAULT, plan).expect("it is registered")
    };
    let fixed: Vec<Rule> = random_rules(&mut random).into_iter().take(12).collect();
    let (first, places) = (LeafId(100), 20);
    let mut classifier = build(&plan, &fixed);
    classifier.reserve(first, places);
    let mut joined: Vec<Vec<Rule>> = vec![Vec::new(); places];
    let mut counts = [0; 4];
    for step in 0..80_u64 {
        let place = random.below(places);
        let leaf = LeafId(first.0 + place as u32);
        let rules: Vec<_> = random_rules(&mut random).into_iter().take(4).collect();
        let rules: Vec<_> = rules.into_iter().map(|rule| Rule { leaf, ..rule }).collect();
        let before = std::mem::take(&mut joined[place]);
        let had = if random.chance(60) && !rules.is_empty() {
            let set = RuleSet::new(rules.clone()).expect("there are few");
            match classifier.fits(leaf, &set) {
                Ok(()) => joined[place] = rules,
                Err(why) => {
                    assert!(why.contains("write"), "{why}");
                    joined[place] = before;
                    counts[3] += 1;
                    continue;
                }
            }
            classifier.join(leaf, set)
        } else {
            classifier.leave(leaf)
        };
        assert_eq!(had.map_or(Vec::new(), |set| set.rules().to_vec()), before);
        let all: Vec<Rule> = fixed.iter().chain(joined.iter().flatten()).cloned().collect();
        for _ in 0..12 {
            let (interface, headers) = random_packet(&mut random, &all);
            let headers = Headers { fragment: Fragment::None, ..headers };
            let now = Instant::from_nanos(step);
            // Those that joined are tried with the longest prefixes first.
            let mut all = all.clone();
            let bits = |rule: &Rule| Reverse(rule.matches.address_bits(&headers.addresses));
            all[fixed.len()..].sort_by_key(bits);
            let mut rebuilt = build(&oracle, &all);
            let expected = rebuilt.classify(now, interface, &headers);
            let found = classifier.classify(now, interface, &headers);
            let numbers = |reason| match reason {
                Reason::Rule(rule) if rule >= fixed.len() => {
                    let place = (expected.leaf.0 - first.0) as usize;
                    let own = joined[place].iter().position(|other| *other == all[rule]);
                    Reason::Joined(own.expect("it joined"))
                }
                reason => reason,
            };
            let expected = Classified { reason: numbers(expected.reason), ..expected };
            assert_eq!(found, expected, "seed {seed:#x} step {step}: {headers:?}\n{all:#?}");
            assert_eq!(found_ahead(&classifier, interface, &headers), Some(found));
            counts[match found.reason {
                Reason::Rule(_) => 0,
                Reason::Joined(_) => 1,
                Reason::Fragment | Reason::Default => 2,
            }] += 1;
        }
    }
    counts
}

#[test]
fn classes_that_join_and_leave_leave_the_classifier_of_all_their_rules() {
    let mut counts = [0; 4];
    for case in 1..=100_u64 {
        let one = check_joined(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        counts = std::array::from_fn(|count| counts[count] + one[count]);
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}

#[test]
fn later_fragments_do_not_follow_to_a_class_that_left() {
    let plan = ClassifierPlan::default();
    let mut classifier = Classifier::build(Vec::new(), DEFAULT, &plan).expect("it is registered");
    classifier.reserve(LeafId(7), 1);
    let rule = || Rule::new(Match { protocol: Some(Protocol(UDP)), ..Match::default() }, LeafId(7));
    let set = || RuleSet::new(vec![rule()]).expect("it is one");
    let mut random = Draws::new(1);
    let (interface, headers) = random_packet(&mut random, &[rule()]);
    let addresses = Addresses::V4 { source: is("10.0.0.1"), destination: is("10.0.0.2") };
    let protocol = Some(Protocol(UDP));
    let first = Headers { fragment: Fragment::First(3), addresses, protocol, ..headers };
    let leaf = |classifier: &mut Classifier, headers: &Headers| {
        classifier.classify(Instant::ZERO, interface, headers).leaf
    };
    let later = Headers {
        fragment: Fragment::Later { id: 3, more: true },
        ports: None,
        protocol: Some(Protocol(UDP)),
        ..first
    };
    assert!(classifier.join(LeafId(7), set()).is_none());
    assert_eq!(
        (leaf(&mut classifier, &first), leaf(&mut classifier, &later)),
        (LeafId(7), LeafId(7))
    );
    assert!(classifier.leave(LeafId(7)).is_some());
    assert_eq!(leaf(&mut classifier, &later), DEFAULT);
}

#[test]
fn ten_thousand_rules_agree_with_the_linear_one() {
    let mut random = Draws::new(0x5eed);
    let rule = |index: u32| {
        let network = IpAddr::from((0x0a00_0000 + (index << 8)).to_be_bytes());
        let sources = vec![Prefix::new(network, 24).expect("a network of its own")];
        let destinations = Vec::new();
        Rule::new(Match { sources, destinations, ..random_match(&mut random) }, LeafId(index))
    };
    let rules: Vec<Rule> = (0..10_000).map(rule).collect();
    let mut classifiers: Vec<_> = CLASSIFIERS
        .iter()
        .map(|row| {
            let plan = ClassifierPlan { algorithm: row.keyword, ..ClassifierPlan::default() };
            Classifier::build(rules.clone(), DEFAULT, &plan).expect("it is registered")
        })
        .collect();
    let mut ranks = Vec::new();
    for _ in 0..5_000 {
        let (interface, headers) = random_packet(&mut random, &rules);
        let answer =
            |classifier: &mut Classifier| classifier.classify(Instant::ZERO, interface, &headers);
        let answers: Vec<_> = classifiers.iter_mut().map(answer).collect();
        assert!(answers.iter().all(|one| *one == answers[0]), "{headers:?} {answers:?}");
        ranks.extend(match answers[0].reason {
            Reason::Rule(rank) => Some(rank),
            _ => None,
        });
    }
    ranks.sort_unstable();
    ranks.dedup();
    assert!(ranks.len() > 200, "only {} rules ever decided", ranks.len());
}

#[test]
fn an_unknown_algorithm_is_refused_with_a_list_of_known_ones() {
    let plan = ClassifierPlan { algorithm: "guess", ..ClassifierPlan::default() };
    let error = Classifier::build(Vec::new(), DEFAULT, &plan).expect_err("there is none");
    for word in ["guess", "linear", "tuple-space"] {
        assert!(error.message.contains(word), "{error}");
    }
}

/// A filter of ALTQ as its list holds it: one destination, and a bucket by that.
struct AltqFilter {
    bucket: usize,
    ruleno: u32,
    destination: Option<Prefix>,
    rule: usize,
}

const WILDCARD: usize = 256;

/// The hash of an address in network byte order; no result depends on its choice.
fn altq_bucket(address: u32) -> usize {
    let mixed = address.wrapping_add(address >> 16);
    (mixed.wrapping_add(mixed >> 8) & 255) as usize
}

/// Builds ALTQ's list: a new filter goes before the first of its bucket with no larger ruleno.
fn altq_filters(rules: &[Rule]) -> Vec<AltqFilter> {
    let mut filters: Vec<AltqFilter> = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let ends: Vec<Option<Prefix>> = match rule.matches.destinations.is_empty() {
            true => vec![None],
            false => rule.matches.destinations.iter().map(|prefix| Some(*prefix)).collect(),
        };
        for destination in ends {
            let exact = destination.filter(|prefix| prefix.prefix_len() == 32);
            let bucket = match exact.map(|prefix| prefix.network()) {
                Some(IpAddr::V4(address)) => altq_bucket(address.into()),
                _ => WILDCARD,
            };
            let ruleno = rule.sort_key.unwrap_or(0);
            let before = |other: &AltqFilter| other.bucket == bucket && other.ruleno <= ruleno;
            let at = filters.iter().position(before).unwrap_or(filters.len());
            filters.insert(at, AltqFilter { bucket, ruleno, destination, rule: index });
        }
    }
    filters
}

fn altq_classify(rules: &[Rule], interface: InterfaceId, headers: &Headers) -> Option<usize> {
    let own = match headers.addresses {
        Addresses::V4 { destination, .. } => altq_bucket(destination.into()),
        _ => WILDCARD,
    };
    let filters = altq_filters(rules);
    let of = |bucket: usize| filters.iter().filter(move |filter| filter.bucket == bucket);
    let accepts = |filter: &&AltqFilter| {
        let destinations = filter.destination.into_iter().collect();
        let matches = Match { destinations, ..rules[filter.rule].matches.clone() };
        matches.accepts(interface, headers)
    };
    let found = of(own).find(accepts).or_else(|| of(WILDCARD).find(accepts))?;
    Some(found.rule)
}

/// Interprets filters of Linux: in a chain for each prio, in the order of their handles.
fn u32_classify(rules: &[Rule], interface: InterfaceId, headers: &Headers) -> Option<usize> {
    let prio = |rule: &Rule| rule.sort_key.unwrap_or(49_152);
    let mut prios: Vec<u32> = rules.iter().map(prio).collect();
    prios.sort_unstable();
    prios.into_iter().find_map(|wanted| {
        let chain = rules.iter().enumerate();
        let mut chain = chain.filter(|(_, rule)| prio(rule) == wanted);
        chain.find(|(_, rule)| rule.matches.accepts(interface, headers)).map(|(index, _)| index)
    })
}

type Interpreter = fn(&[Rule], InterfaceId, &Headers) -> Option<usize>;

/// Checks that the order's translation agrees with its naive interpreter.
#[track_caller]
fn check_order(order: MatchOrder, naive: Interpreter, cases: u64) {
    let mut out_of_order = 0;
    for case in 1..=cases {
        let mut random = Draws::new(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut rules = random_rules(&mut random);
        rules.truncate(30);
        let plan =
            ClassifierPlan { order, fragments: FragmentPolicy::EachAlone, ..Default::default() };
        let mut classifier = Classifier::build(rules.clone(), DEFAULT, &plan).expect("registered");
        for _ in 0..12 {
            let (interface, headers) = random_packet(&mut random, &rules);
            let expected = naive(&rules, interface, &headers);
            let found = classifier.classify(Instant::ZERO, interface, &headers);
            let reason = expected.map_or(Reason::Default, Reason::Rule);
            assert_eq!(found.reason, reason, "case {case}: {headers:?}\n{rules:#?}");
            let first = rules.iter().position(|rule| rule.matches.accepts(interface, &headers));
            out_of_order += usize::from(first != expected);
        }
    }
    assert!(out_of_order > 100, "{order:?} would pass as the order of declaration");
}

#[test]
fn the_altq_order_is_that_of_its_buckets() {
    check_order(MatchOrder::Altq, altq_classify, 1_500);
}

#[test]
fn the_u32_order_is_that_of_prios() {
    check_order(MatchOrder::U32, u32_classify, 1_500);
}

fn matched(matches: Match, leaf: u32) -> Rule {
    Rule::new(matches, LeafId(leaf))
}

/// The filters of algorithms.md §11.1: http, tcp, host, net.
fn altq_example() -> Vec<Rule> {
    let tcp = Match { protocol: Some(Protocol::TCP), ..Match::default() };
    let net = vec![is("10.0.0.0/24")];
    vec![
        matched(Match { source_ports: vec![is("80")], ..tcp.clone() }, 1),
        matched(tcp, 2),
        matched(Match { destinations: vec![is("10.0.0.5")], ..Match::default() }, 3),
        matched(Match { destinations: net, protocol: Some(Protocol::UDP), ..Match::default() }, 4),
    ]
}

#[track_caller]
fn check_leaf(classifier: &mut Classifier, frame: &Frame, leaf: u32) {
    let headers = Headers::parse_ethernet(&frame.bytes());
    let found = classifier.classify(Instant::ZERO, InterfaceId(0), &headers);
    assert_eq!(found.leaf, LeafId(leaf), "{frame:?}");
}

/// Classifies packets to 10.0.0.5 by TCP, to 10.0.0.9 by TCP, and to 10.0.0.9 by UDP.
#[track_caller]
fn check_altq_example(order: MatchOrder, rules: Vec<Rule>, leaves: [u32; 3]) {
    let plan = ClassifierPlan { order, ..ClassifierPlan::default() };
    let mut classifier = Classifier::build(rules, DEFAULT, &plan).expect("registered");
    let to = |protocol, host| frame(protocol, ("192.0.2.1", 80), (host, 3000));
    let packets = [to(TCP, "10.0.0.5"), to(TCP, "10.0.0.9"), to(UDP, "10.0.0.9")];
    for (packet, leaf) in packets.iter().zip(leaves) {
        check_leaf(&mut classifier, packet, leaf);
    }
}

#[test]
fn the_worked_example_of_altq_is_reproduced() {
    check_altq_example(MatchOrder::Altq, altq_example(), [3, 2, 4]);
    check_altq_example(MatchOrder::First, altq_example(), [1, 1, 4]);
    let mut numbered = altq_example();
    numbered[0].sort_key = Some(1);
    check_altq_example(MatchOrder::Altq, numbered, [3, 1, 4]);
}

#[test]
fn a_rule_with_hosts_and_blocks_is_in_two_places() {
    let of = |prefixes: &[&str], leaf| {
        let destinations = prefixes.iter().map(|text| is(text)).collect();
        matched(Match { destinations, ..Match::default() }, leaf)
    };
    let rules = || vec![of(&["10.0.0.0/8", "10.0.0.5"], 1), of(&["10.0.0.0/24"], 2)];
    check_altq_example(MatchOrder::Altq, rules(), [1, 2, 2]);
    check_altq_example(MatchOrder::First, rules(), [1, 1, 1]);
}

/// Builds a classifier of the one filter of the fragments' example: UDP to port 5001.
fn fragments(policy: FragmentPolicy) -> Classifier {
    let matches = Match {
        protocol: Some(Protocol::UDP),
        destination_ports: vec![is("5001")],
        ..Match::default()
    };
    Classifier::new(vec![matched(matches, 7)], DEFAULT, policy)
}

fn datagram(id: u32) -> Frame {
    frame(UDP, ("10.0.0.1", 9), ("10.0.0.2", 5001)).piece(id, 0, true)
}

fn second(id: u32, more: bool) -> Frame {
    datagram(id).piece(id, 185, more)
}

#[test]
fn the_fragments_of_altqs_example_are_reproduced() {
    for (policy, leaf) in [
        (FragmentPolicy::AltqBroken, DEFAULT.0),
        (FragmentPolicy::AltqFixed, 7),
        (FragmentPolicy::EachAlone, DEFAULT.0),
        (FragmentPolicy::default(), 7),
    ] {
        let mut classifier = fragments(policy);
        check_leaf(&mut classifier, &datagram(1), 7);
        check_leaf(&mut classifier, &second(1, false), leaf);
    }
}

#[test]
fn altqs_table_holds_eight_datagrams_until_their_last_fragment() {
    let mut classifier = fragments(FragmentPolicy::AltqFixed);
    for id in 0..9 {
        check_leaf(&mut classifier, &datagram(id), 7);
    }
    check_leaf(&mut classifier, &second(0, true), DEFAULT.0);
    check_leaf(&mut classifier, &second(1, true), 7);
    check_leaf(&mut classifier, &second(1, false), 7);
    // The last fragment freed its place; the next first fragment takes that, not another's.
    check_leaf(&mut classifier, &second(1, true), DEFAULT.0);
    check_leaf(&mut classifier, &datagram(9), 7);
    for id in 2..10 {
        check_leaf(&mut classifier, &second(id, true), 7);
    }
}

#[test]
fn altqs_table_is_keyed_by_addresses_and_protocol() {
    let mut classifier = fragments(FragmentPolicy::AltqFixed);
    check_leaf(&mut classifier, &datagram(1), 7);
    check_leaf(&mut classifier, &Frame { source: is("10.0.0.3"), ..second(1, true) }, DEFAULT.0);
    check_leaf(&mut classifier, &Frame { protocol: TCP, ..second(1, true) }, DEFAULT.0);
    check_leaf(&mut classifier, &second(1, true), 7);
}

#[test]
fn altq_reads_no_port_behind_an_ipv6_fragment_header() {
    let whole = frame(UDP, ("2001:db8::1", 9), ("2001:db8::2", 5001));
    for policy in [FragmentPolicy::AltqFixed, FragmentPolicy::AltqBroken] {
        let mut classifier = fragments(policy);
        check_leaf(&mut classifier, &whole, 7);
        check_leaf(&mut classifier, &whole.clone().piece(1, 0, true), DEFAULT.0);
        check_leaf(&mut classifier, &whole.clone().piece(1, 185, false), DEFAULT.0);
    }
    let mut classifier = fragments(FragmentPolicy::default());
    check_leaf(&mut classifier, &whole.clone().piece(1, 0, true), 7);
    check_leaf(&mut classifier, &whole.piece(1, 185, false), 7);
}

#[test]
fn a_change_of_rules_applies_to_the_next_packet() {
    let plan = ClassifierPlan::default();
    let rule = |leaf| vec![matched(Match::default(), leaf)];
    let mut classifier = Classifier::build(rule(1), DEFAULT, &plan).expect("registered");
    let packet = frame(UDP, ("10.0.0.1", 9), ("10.0.0.2", 5001));
    check_leaf(&mut classifier, &packet, 1);
    classifier.replace_rules(rule(2));
    check_leaf(&mut classifier, &packet, 2);
    classifier.replace_rules(Vec::new());
    check_leaf(&mut classifier, &packet, DEFAULT.0);
}

/// The leaf depends on the packet's own headers, whether its rule came from the cache or not; only
/// later fragments go where their first went.
#[test]
fn packets_of_a_rule_are_spread_by_their_own_headers() {
    let mut random = Draws::new(0x5eed_0f57);
    use AltqHash::{Destination, Full, Hosts, Source, SourcePort};
    for hash in [Destination, SourcePort, Full, Source, Hosts] {
        let spread = |queues| Some(Spread { hash, queues });
        let target = Target { spread: spread(7), ..LeafId(5000).into() };
        let tcp = Match { protocol: Some(Protocol::TCP), ..Match::default() };
        let rules = vec![Rule { spread: spread(256), ..matched(tcp, 100) }];
        let plan = ClassifierPlan { flows: 16, ..ClassifierPlan::default() };
        let mut classifier = Classifier::build(rules, target, &plan).expect("registered");
        let mut seen = [false; 256];
        for _ in 0..4000 {
            let host = |random: &mut Draws| format!("10.0.{}.{}", random.below(2), random.below(4));
            let (source, destination) = (host(&mut random), host(&mut random));
            let ports = (random.below(3) as u16 + 4000, random.below(2) as u16);
            let protocol = random.pick(&[TCP, UDP]);
            let packet = frame(protocol, (&source, ports.0), (&destination, ports.1));
            let headers = Headers::parse_ethernet(&packet.bytes());
            let leaf = match protocol {
                TCP => 100 + hash.queue(&headers, 256),
                _ => 5000 + hash.queue(&headers, 7),
            };
            check_leaf(&mut classifier, &packet, leaf);
            check_leaf(&mut classifier, &packet.clone().piece(3, 0, true), leaf);
            check_leaf(&mut classifier, &packet.piece(3, 185, false), leaf);
            seen[(leaf % 256) as usize] = true;
        }
        assert!(seen.iter().filter(|seen| **seen).count() > 2, "{hash:?} spreads");
    }
}

/// Packets that differ in their stations only, twice each, so that a flow cache knows them.
#[test]
fn a_flow_cache_tells_stations_apart() {
    let mac = |bits: u64| vec![MacAddress::of_bits(bits)];
    let rules = vec![
        matched(Match { source_macs: mac(1), ..Match::default() }, 1),
        matched(Match { destination_macs: mac(2), ..Match::default() }, 2),
    ];
    let plan = ClassifierPlan { flows: 64, ..ClassifierPlan::default() };
    let mut classifier = Classifier::build(rules, DEFAULT, &plan).expect("registered");
    let four = frame(UDP, ("10.0.0.1", 5), ("10.0.0.2", 6));
    let six = frame(UDP, ("2001:db8::1", 5), ("2001:db8::2", 6));
    let known = [four, six].map(|frame| Headers::parse_ethernet(&frame.bytes()));
    let rows = [(Some((1, 3)), LeafId(1)), (Some((3, 2)), LeafId(2)), (Some((3, 1)), DEFAULT)];
    let rows = rows.into_iter().chain([(None, DEFAULT), (Some((1, 2)), LeafId(1))]);
    for (stations, leaf) in rows.clone().chain(rows) {
        let pair = |(source, destination)| Macs {
            source: MacAddress::of_bits(source),
            destination: MacAddress::of_bits(destination),
        };
        for headers in known.into_iter().chain([Headers::UNKNOWN]) {
            let headers = Headers { macs: stations.map(pair), ..headers };
            let found = classifier.classify(Instant::ZERO, InterfaceId(0), &headers);
            assert_eq!(found.leaf, leaf, "{stations:?} of {headers:?}");
        }
    }
}

/// As for stations: packets that differ in their marks only, twice each.
#[test]
fn a_flow_cache_tells_marks_apart() {
    let mark = |value| MarkTest::new(value, u32::MAX).ok();
    let rules = vec![matched(Match { mark: mark(7), ..Match::default() }, 1)];
    let plan = ClassifierPlan { flows: 64, ..ClassifierPlan::default() };
    let mut classifier = Classifier::build(rules, DEFAULT, &plan).expect("registered");
    let packet = frame(UDP, ("10.0.0.1", 5), ("10.0.0.2", 6));
    let known = Headers::parse_ethernet(&packet.bytes());
    for (mark, leaf) in [(0, DEFAULT), (7, LeafId(1)), (8, DEFAULT), (7, LeafId(1)), (0, DEFAULT)] {
        let found = classifier.classify(Instant::ZERO, InterfaceId(0), &Headers { mark, ..known });
        assert_eq!(found.leaf, leaf, "{mark}");
    }
}

/// As for marks: packets of one flow that differ in their details only, twice each; with more
/// details than a key has room for as well.
#[test]
fn a_flow_cache_tells_details_apart() {
    let lengths = |text: &str| Details { lengths: vec![is(text)], ..Details::default() };
    let syn = Details { tcp_flags: vec![is("syn")], ..Details::default() };
    let rule = |details: Details, leaf| {
        matched(Match { details: details.boxed(), ..Match::default() }, leaf)
    };
    for more in [0, 13, 14, 40] {
        let others = (0..more).map(|at| rule(lengths(&format!("{} B", 2000 + at)), 100 + at));
        let own = [rule(syn.clone(), 1), rule(lengths("0-100 B"), 2), rule(lengths("1500 B"), 3)];
        let plan = ClassifierPlan { flows: 64, ..ClassifierPlan::default() };
        let rules = others.chain(own).collect();
        let mut classifier = Classifier::build(rules, DEFAULT, &plan).expect("registered");
        let six = frame(TCP, ("2001:db8::1", 5), ("2001:db8::2", 6));
        for packet in [frame(TCP, ("10.0.0.1", 5), ("10.0.0.2", 6)), six] {
            let known = Headers::parse_ethernet(&packet.bytes());
            let rows = [(0x02, 40, 1), (0x10, 40, 2), (0x10, 1500, 3), (0x10, 101, 9999)];
            for (flags, length, leaf) in rows.into_iter().chain(rows) {
                let (transport, network_len) = (Transport::Tcp(TcpFlags(flags)), Some(length));
                let headers = Headers { transport, network_len, ..known };
                let found = classifier.classify(Instant::ZERO, InterfaceId(0), &headers);
                assert_eq!(found.leaf, LeafId(leaf), "{more} more: {flags:#x}, {length} B");
            }
        }
    }
}

/// The port needs it for every packet, also where the rule came from a cache or a fragment's first.
#[test]
fn packets_carry_what_their_leaf_takes_for_a_flow() {
    let tcp = Match { protocol: Some(Protocol::TCP), ..Match::default() };
    let rules = vec![Rule { flow: FlowKey::Source, ..matched(tcp, 1) }];
    let target = Target { flow: FlowKey::Destination, ..LeafId(2).into() };
    let plan = ClassifierPlan { flows: 16, ..ClassifierPlan::default() };
    let mut classifier = Classifier::build(rules, target, &plan).expect("registered");
    for (protocol, wanted) in [(TCP, FlowKey::Source), (UDP, FlowKey::Destination)] {
        let packet = frame(protocol, ("10.0.0.1", 5), ("10.0.0.2", 6));
        let pieces = [packet.clone(), packet.clone(), packet.clone().piece(3, 0, true)];
        for packet in pieces.into_iter().chain([packet.piece(3, 185, false)]) {
            let headers = Headers::parse_ethernet(&packet.bytes());
            let found = classifier.classify(Instant::ZERO, InterfaceId(0), &headers);
            assert_eq!(found.flow, wanted, "{packet:?}");
        }
    }
}

#[test]
fn a_hundred_thousand_rules_are_searched_through_few_tables() {
    let rule = |number: u32| {
        let host = |base: u32, number: u32| {
            let address = IpAddr::from((base + number).to_be_bytes());
            vec![Prefix::new(address, 32).expect("one address")]
        };
        let port = PortRange::single((number % 50) as u16);
        let matches = Match {
            sources: host(0x0a00_0000, number % 1000),
            destinations: host(0xac10_0000, number / 1000),
            destination_ports: vec![port],
            ..Match::default()
        };
        Rule::new(matches, LeafId(number))
    };
    let rules = (0..100_000).map(rule).collect();
    let mut classifier =
        Classifier::build(rules, DEFAULT, &ClassifierPlan::default()).expect("registered");
    assert!(classifier.tables() <= 8, "{}", classifier.tables());
    let packet = frame(UDP, ("10.0.1.200", 1), ("172.16.0.77", 6));
    check_leaf(&mut classifier, &packet, 77_456);
}

/// States the timeout with its unit, which no other test does.
#[test]
fn fragments_are_remembered_for_half_a_minute_by_default() {
    let FragmentPolicy::Follow(limits) = FragmentPolicy::default() else { panic!("they follow") };
    assert_eq!(limits.timeout(), Duration::from_secs(30));
}
