//! Target `sorter`: programs made from any rules, on any frames, beside the classifier.
//!
//! The input is the length of a part that rules are drawn from (one byte), that part, then Ethernet
//! frames, each behind a byte with its length.

use weir_core::classify::{
    AltqHash, Classifier, Details, FlagTest, FragmentPolicy, IcmpTest, InterfaceId, LengthRange,
    Match, MatchOrder, PortRange, Prefix, Rule, Spread,
};
use weir_core::ids::LeafId;
use weir_core::packet::{Dscp, Ecn, EtherType, Headers, MacAddress, Protocol};
use weir_core::units::Instant;
use weir_link::sorter::{RingPriority, SortConfig, SortPlan, interpret};

use crate::draw::Draw;

/// Makes programs and runs them on the frames of an input.
pub fn sorter(input: &[u8]) {
    let Some((&len, rest)) = input.split_first() else { return };
    let (rules, mut rest) = rest.split_at(rest.len().min(len.into()));
    let config = config(&mut Draw::new(rules));
    let mut classifier = Classifier::new(config.rules.clone(), config.default, config.fragments);
    let plan = SortPlan::new(config);
    let classic = plan.classic(INTERFACE).code;
    let xdp = plan.xdp(INTERFACE).code.number();
    let mut now = 0;
    while let Some((&len, bytes)) = rest.split_first() {
        let (frame, behind) = bytes.split_at(bytes.len().min(len.into()));
        rest = behind;
        now += 1;
        let headers = Headers::parse_ethernet(frame);
        let leaf = classifier.classify(Instant::from_nanos(now), INTERFACE, &headers).leaf;
        let by_xdp = interpret::xdp(&xdp, frame);
        let by_classic = interpret::classic(&classic, frame);
        assert!(by_classic.is_none_or(|ring| ring == by_xdp), "{by_classic:?} {by_xdp}");
        let certain = by_xdp == 0 || plan.leaf(by_xdp as usize) == Some(leaf);
        assert!(certain, "ring {by_xdp} takes a frame of leaf {}", leaf.0);
    }
}

fn config(draw: &mut Draw<'_>) -> SortConfig {
    let fragments = match draw.index(3) {
        0 => FragmentPolicy::EachAlone,
        1 => FragmentPolicy::AltqFixed,
        _ => FragmentPolicy::default(),
    };
    let ring_priority = |draw: &mut Draw<'_>| RingPriority {
        bounded: draw.one_in(4),
        priority: draw.byte().into(),
    };
    let ring_priorities = (0..LEAVES).map(|_| ring_priority(draw)).collect();
    let mut rules = Vec::new();
    while !draw.is_done() {
        rules.push(rule(draw));
    }
    SortConfig {
        rules,
        order: MatchOrder::First,
        fragments,
        default: LeafId(0).into(),
        ring_priorities,
        restores_dscp: false,
    }
}

fn rule(draw: &mut Draw<'_>) -> Rule {
    let leaf = draw.leaf(LEAVES);
    let mut matches = Match::default();
    // Few conditions, so that rules match.
    for _ in 0..=draw.index(3) {
        condition(draw, &mut matches);
    }
    let spread = draw.one_in(16).then_some(Spread { hash: AltqHash::Full, queues: 2 });
    Rule { spread, ..Rule::new(matches, leaf) }
}

fn condition(draw: &mut Draw<'_>, matches: &mut Match) {
    match draw.index(15) {
        0 => matches.sources.push(prefix(draw)),
        1 => matches.destinations.push(prefix(draw)),
        2 => matches.protocol = Some(Protocol([6, 17, 58, draw.byte()][draw.index(4)])),
        3 => matches.source_ports.push(ports(draw)),
        4 | 5 => matches.destination_ports.push(ports(draw)),
        6 => matches.dscps.extend(Dscp::new(draw.byte() & 63)),
        7 => matches.ecn = Some(Ecn::of_traffic_class(draw.byte())),
        8 => matches.vlan = Some(vlan(draw)),
        9 => matches.vlan_inner = Some(vlan(draw)),
        10 => matches.ethertype = Some(EtherType([0x0800, 0x86dd, 0x0806][draw.index(3)])),
        11 => matches.source_macs.push(MacAddress([2, 0, 0, 0, 0, draw.byte() & 3])),
        12 => matches.interface = Some(InterfaceId(draw.byte().into())),
        13 => matches.details = details(draw).boxed(),
        _ => matches.mark = "0x1/0x1".parse().ok().filter(|_| draw.one_in(4)),
    }
}

fn details(draw: &mut Draw<'_>) -> Details {
    let mut details = Details::default();
    match draw.index(4) {
        0 => details.pcps.push(["0", "7"][draw.index(2)].parse().expect("a priority")),
        1 => details.tcp_flags.extend(FlagTest::new(draw.byte() & 0x12, 0x12)),
        2 => details.icmp.push(IcmpTest { number: draw.byte(), code: None }),
        _ => details.lengths.extend(LengthRange::new(0, draw.wide(0, 65_575) as u32)),
    }
    details
}

fn prefix(draw: &mut Draw<'_>) -> Prefix {
    let known = ["10.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "2001:db8::/32", "2001:db8::1", "::/1"];
    known[draw.index(known.len())].parse().expect("the prefix is valid")
}

fn ports(draw: &mut Draw<'_>) -> PortRange {
    let (one, other) = (draw.wide(0, 65_535) as u16, draw.wide(0, 65_535) as u16);
    PortRange::new(one.min(other), one.max(other)).expect("in order")
}

fn vlan(draw: &mut Draw<'_>) -> weir_core::classify::VlanTest {
    ["none", "any", "0", "7"][draw.index(4)].parse().expect("the condition is valid")
}

const LEAVES: usize = 10;
const INTERFACE: InterfaceId = InterfaceId(0);
