//! Classification: first match wins, fragments follow their first, and a naive interpreter agrees.

use crate::common::seeds::seeds;
use crate::frames;

use std::net::IpAddr;

use frames::{Draws, Frame, Piece, frame};
use weir_core::classify::{
    Classified, Classifier, FragmentLimits, FragmentPolicy, InterfaceId, Match, PortRange, Prefix,
    Reason, Rule,
};
use weir_core::ids::{LeafId, MeterId};
use weir_core::packet::{Dscp, Ecn, EtherType, FlowKey, Headers, Protocol, VlanId};
use weir_core::units::{Duration, Instant};

const UDP: u8 = 17;
const DEFAULT: LeafId = LeafId(99);

fn udp4() -> Frame {
    frame(UDP, ("10.1.2.3", 5000), ("192.0.2.1", 5004))
}

fn udp6() -> Frame {
    frame(UDP, ("2001:db8::1", 5000), ("2001:db8:f::2", 5004))
}

fn is<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a test's own value")
}

fn rules(matches: Vec<Match>) -> Vec<Rule> {
    let number = |(index, matches)| Rule::new(matches, LeafId(index as u32));
    matches.into_iter().enumerate().map(number).collect()
}

fn millis(count: u64) -> Instant {
    Instant::from_nanos(count * 1_000_000)
}

fn any() -> Match {
    Match::default()
}

/// Checks whether a rule of this one condition takes the frame that came in by interface 3.
#[track_caller]
fn check_match(matches: Match, frame: &Frame, expected: bool) {
    let mut classifier = Classifier::new(rules(vec![matches]), DEFAULT, FragmentPolicy::EachAlone);
    let headers = Headers::parse_ethernet(&frame.bytes());
    let classified = classifier.classify(millis(0), InterfaceId(3), &headers);
    let ruled = Classified {
        leaf: LeafId(0),
        meter: None,
        flow: FlowKey::Connection,
        reason: Reason::Rule(0),
    };
    let unruled = Classified {
        leaf: DEFAULT,
        meter: None,
        flow: FlowKey::Connection,
        reason: Reason::Default,
    };
    assert_eq!(classified, if expected { ruled } else { unruled });
}

#[test]
fn each_condition_tests_its_field_alone() {
    let tagged = udp4().tag(0x88a8, 0xe064).tag(0x8100, 200).class(46 << 2 | 1);
    let rows: Vec<(Match, bool)> = vec![
        (any(), true),
        (Match { sources: vec![is("10.0.0.0/8")], ..any() }, true),
        (Match { sources: vec![is("11.0.0.0/8")], ..any() }, false),
        (Match { sources: vec![is("11.0.0.0/8"), is("10.1.2.3")], ..any() }, true),
        (Match { sources: vec![is("0.0.0.0/0")], ..any() }, true),
        (Match { sources: vec![is("::/0")], ..any() }, false),
        (Match { destinations: vec![is("192.0.2.0/31")], ..any() }, true),
        (Match { destinations: vec![is("10.0.0.0/8")], ..any() }, false),
        (Match { protocol: Some(Protocol::UDP), ..any() }, true),
        (Match { protocol: Some(Protocol::TCP), ..any() }, false),
        (Match { source_ports: vec![is("5000")], ..any() }, true),
        (Match { source_ports: vec![is("5001-65535")], ..any() }, false),
        (Match { destination_ports: vec![is("5004-5010")], ..any() }, true),
        (Match { destination_ports: vec![is("4000-5003")], ..any() }, false),
        (Match { dscps: vec![is("ef")], ..any() }, true),
        (Match { dscps: vec![is("45")], ..any() }, false),
        (Match { source_ports: vec![is("80"), is("4990-5000")], ..any() }, true),
        (Match { destination_ports: vec![is("80"), is("443"), is("https")], ..any() }, false),
        (Match { dscps: vec![is("af41"), is("EF")], ..any() }, true),
        (Match { dscps: vec![is("af41"), is("cs1")], ..any() }, false),
        (
            Match { source_macs: vec![is("02:00:00:00:00:03"), is("02-00-00-00-00-02")], ..any() },
            true,
        ),
        (Match { source_macs: vec![is("02:00:00:00:00:01")], ..any() }, false),
        (Match { destination_macs: vec![is("02:00:00:00:00:01")], ..any() }, true),
        (Match { destination_macs: vec![is("02:00:00:00:00:02")], ..any() }, false),
        (Match { ecn: Some(Ecn::Ect1), ..any() }, true),
        (Match { ecn: Some(Ecn::Ect0), ..any() }, false),
        (Match { vlan: Some(is("100")), ..any() }, true),
        (Match { vlan: Some(is("200")), ..any() }, false),
        (Match { vlan: Some(is("any")), ..any() }, true),
        (Match { vlan: Some(is("none")), ..any() }, false),
        (Match { vlan_inner: Some(is("200")), ..any() }, true),
        (Match { vlan_inner: Some(is("100")), ..any() }, false),
        (Match { ethertype: Some(EtherType::IPV4), ..any() }, true),
        (Match { ethertype: Some(EtherType::VLAN), ..any() }, false),
        (Match { interface: Some(InterfaceId(3)), ..any() }, true),
        (Match { interface: Some(InterfaceId(2)), ..any() }, false),
    ];
    for (matches, expected) in rows {
        check_match(matches, &tagged, expected);
    }
}

#[test]
fn all_conditions_must_hold_together() {
    let voice =
        Match { protocol: Some(Protocol::UDP), destination_ports: vec![is("5004-5010")], ..any() };
    check_match(voice.clone(), &udp6(), true);
    check_match(voice.clone(), &Frame { protocol: 6, ..udp6() }, false);
    check_match(voice, &Frame { ports: (5000, 80), ..udp6() }, false);
}

#[test]
fn a_condition_on_a_missing_field_is_not_met() {
    let icmp = Frame { protocol: 1, ..udp4() };
    check_match(Match { source_ports: vec![is("0-65535")], ..any() }, &icmp, false);
    check_match(Match { vlan: Some(is("0")), ..any() }, &icmp, false);
    check_match(Match { vlan: Some(is("none")), ..any() }, &icmp, true);
    check_match(Match { vlan: Some(is("any")), ..any() }, &icmp, false);
    check_match(Match { mark: Some(is("0")), ..any() }, &icmp, true);
    check_match(Match { mark: Some(is("1")), ..any() }, &icmp, false);
    check_match(Match { vlan: Some(is("0")), ..any() }, &icmp.clone().tag(0x8100, 0), true);
    let later = udp4().piece(1, 100, false);
    check_match(Match { destination_ports: vec![is("0-65535")], ..any() }, &later, false);
    check_match(Match { protocol: Some(Protocol::UDP), ..any() }, &later, true);
}

#[test]
fn the_first_matching_rule_decides_not_the_most_exact() {
    let wide = Match { sources: vec![is("10.0.0.0/8")], ..any() };
    let exact = Match { sources: vec![is("10.1.2.3")], ..any() };
    let none = Match { sources: vec![is("11.0.0.0/8")], ..any() };
    let list = rules(vec![none, wide, exact]);
    let mut classifier = Classifier::new(list, DEFAULT, FragmentPolicy::default());
    let headers = Headers::parse_ethernet(&udp4().bytes());
    let classified = classifier.classify(millis(0), InterfaceId(0), &headers);
    assert_eq!(
        classified,
        Classified {
            leaf: LeafId(1),
            meter: None,
            flow: FlowKey::Connection,
            reason: Reason::Rule(1)
        }
    );
}

/// Frames in order, each with its time in milliseconds and the expected reason; rule 0 matches
/// destination port 5004, rule 1 UDP.
#[track_caller]
fn check_fragments(policy: FragmentPolicy, rows: &[(u64, Frame, Reason, u32)]) {
    let list = rules(vec![
        Match { destination_ports: vec![is("5004")], ..any() },
        Match { protocol: Some(Protocol::UDP), ..any() },
    ]);
    let mut classifier = Classifier::new(list, DEFAULT, policy);
    for (row, (at, frame, reason, leaf)) in rows.iter().enumerate() {
        let headers = Headers::parse_ethernet(&frame.bytes());
        let classified = classifier.classify(millis(*at), InterfaceId(0), &headers);
        let expected = Classified {
            leaf: LeafId(*leaf),
            meter: None,
            flow: FlowKey::Connection,
            reason: *reason,
        };
        assert_eq!(classified, expected, "row {row}");
    }
}

fn small_table() -> FragmentPolicy {
    let limits = FragmentLimits::new(4, Duration::from_secs(30));
    FragmentPolicy::Follow(limits.expect("four entries are allowed"))
}

use Reason::{Default as ByDefault, Fragment as ByFirst, Rule as ByRule};

#[test]
fn later_fragments_follow_their_first() {
    for whole in [udp4(), udp6()] {
        check_fragments(
            FragmentPolicy::default(),
            &[
                (0, whole.clone().piece(1, 0, true), ByRule(0), 0),
                (1, whole.clone().piece(1, 370, false), ByFirst, 0),
                (2, whole.clone().piece(1, 185, true), ByFirst, 0),
                (3, whole.clone().piece(2, 185, true), ByRule(1), 1),
                (4, whole, ByRule(0), 0),
            ],
        );
    }
}

#[test]
fn later_fragments_get_the_meter_of_their_first() {
    let mut list = rules(vec![Match { destination_ports: vec![is("5004")], ..any() }]);
    list[0].meter = MeterId::from_index(3);
    let mut classifier = Classifier::new(list, DEFAULT, FragmentPolicy::default());
    for (offset, more) in [(0, true), (185, false)] {
        let headers = Headers::parse_ethernet(&udp4().piece(1, offset, more).bytes());
        let classified = classifier.classify(millis(0), InterfaceId(0), &headers);
        assert_eq!((classified.leaf, classified.meter), (LeafId(0), MeterId::from_index(3)));
    }
}

#[test]
fn fragments_alone_are_matched_without_ports() {
    check_fragments(
        FragmentPolicy::EachAlone,
        &[
            (0, udp4().piece(1, 0, true), ByRule(0), 0),
            (1, udp4().piece(1, 185, false), ByRule(1), 1),
        ],
    );
}

#[test]
fn a_later_fragment_before_its_first_goes_by_its_own_headers() {
    check_fragments(
        FragmentPolicy::default(),
        &[
            (0, udp4().piece(1, 185, false), ByRule(1), 1),
            (1, udp4().piece(1, 0, true), ByRule(0), 0),
            (2, udp4().piece(1, 185, false), ByFirst, 0),
            // A protocol that no rule matches: the default.
            (3, Frame { protocol: 132, ..udp4() }.piece(1, 185, false), ByDefault, 99),
        ],
    );
}

#[test]
fn fragments_follow_a_first_that_went_to_the_default() {
    let sctp = Frame { protocol: 132, ports: (1, 2), ..udp4() };
    check_fragments(
        FragmentPolicy::default(),
        &[
            (0, sctp.clone().piece(1, 0, true), ByDefault, 99),
            (1, sctp.piece(1, 185, false), ByFirst, 99),
        ],
    );
}

#[test]
fn first_fragments_are_forgotten_after_the_timeout() {
    check_fragments(
        FragmentPolicy::default(),
        &[
            (0, udp4().piece(1, 0, true), ByRule(0), 0),
            (29_999, udp4().piece(1, 185, true), ByFirst, 0),
            (30_000, udp4().piece(1, 185, true), ByRule(1), 1),
            // The same identification again, of another flow of the same hosts.
            (30_001, Frame { ports: (1, 2), ..udp4() }.piece(1, 0, true), ByRule(1), 1),
            (30_002, udp4().piece(1, 185, true), ByFirst, 1),
        ],
    );
}

#[test]
fn the_key_is_addresses_identification_and_for_ipv4_protocol() {
    let other_source = Frame { source: is("10.1.2.4"), ..udp4() };
    check_fragments(
        FragmentPolicy::default(),
        &[
            (0, udp4().piece(1, 0, true), ByRule(0), 0),
            (1, Frame { protocol: 132, ..udp4() }.piece(1, 185, true), ByDefault, 99),
            (2, other_source.piece(1, 185, true), ByRule(1), 1),
            (3, udp6().piece(0x1_0001, 0, true), ByRule(0), 0),
            (4, udp6().piece(1, 185, true), ByRule(1), 1),
            // Behind destination options the later fragment does not show its protocol.
            (5, Frame { protocol: 60, ..udp6() }.piece(0x1_0001, 185, true), ByFirst, 0),
        ],
    );
}

#[test]
fn a_full_table_forgets_the_entry_that_expires_first() {
    let first = |id| udp4().piece(id, 0, true);
    let later = |id| udp4().piece(id, 185, true);
    check_fragments(
        small_table(),
        &[
            (2, first(1), ByRule(0), 0),
            (1, first(2), ByRule(0), 0),
            (3, first(3), ByRule(0), 0),
            (3, first(4), ByRule(0), 0),
            (4, first(5), ByRule(0), 0),
            (4, later(2), ByRule(1), 1),
            (4, later(1), ByFirst, 0),
            // A repeated first fragment renews its entry, so the next victim is another.
            (5, first(1), ByRule(0), 0),
            (5, first(6), ByRule(0), 0),
            (5, later(3), ByRule(1), 1),
            (5, later(1), ByFirst, 0),
            (5, later(4), ByFirst, 0),
            (5, later(5), ByFirst, 0),
            (5, later(6), ByFirst, 0),
        ],
    );
}

#[test]
fn a_fragment_table_has_bounds() {
    let thirty = Duration::from_secs(30);
    for (entries, expected) in [(4, Some(4)), (5, Some(8)), (1 << 20, Some(1 << 20))] {
        assert_eq!(FragmentLimits::new(entries, thirty).ok().map(|l| l.entries()), expected);
    }
    for (entries, error) in [
        (3, "fragment table size \"3\": is not in 4..=1048576"),
        ((1 << 20) + 1, "fragment table size \"1048577\": is not in 4..=1048576"),
    ] {
        let refused = FragmentLimits::new(entries, thirty).expect_err("out of bounds");
        assert!(refused.to_string().starts_with(error), "{refused}");
    }
}

/// Checks that text parses as `T` and prints as `printed`.
#[track_caller]
fn check_text<T>(rows: &[(&str, &str)])
where
    T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Display + PartialEq + std::fmt::Debug,
{
    for (text, printed) in rows {
        let value: T = is(text);
        assert_eq!(value.to_string(), *printed);
        assert_eq!(is::<T>(printed), value, "{printed} reads back");
    }
}

#[test]
fn values_print_as_they_are_written() {
    check_text::<Prefix>(&[
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("192.0.2.1", "192.0.2.1/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("::/0", "::/0"),
    ]);
    check_text::<PortRange>(&[("80", "80"), ("5004-5010", "5004-5010"), ("7-7", "7")]);
    check_text::<Protocol>(&[("UDP", "udp"), ("6", "tcp"), ("icmpv6", "icmpv6"), ("255", "255")]);
    check_text::<Dscp>(&[
        ("ef", "ef"),
        ("AF41", "af41"),
        ("8", "cs1"),
        ("63", "63"),
        ("be", "cs0"),
    ]);
    check_text::<Ecn>(&[("ect0", "ect0"), ("ce", "ce"), ("not-ect", "not-ect"), ("ect1", "ect1")]);
    check_text::<VlanId>(&[("0", "0"), ("4094", "4094")]);
    check_text::<EtherType>(&[("arp", "arp"), ("0x88cc", "0x88cc"), ("0x0800", "ipv4")]);
    for number in 0..=255 {
        assert_eq!(is::<Protocol>(&Protocol(number).to_string()), Protocol(number));
    }
    for code in 0..=63 {
        let dscp = Dscp::new(code).expect("six bits");
        assert_eq!(is::<Dscp>(&dscp.to_string()), dscp);
    }
}

#[track_caller]
fn check_refused<T>(text: &str, message: &str)
where
    T: std::str::FromStr<Err: std::fmt::Display> + std::fmt::Debug,
{
    let error = text.parse::<T>().expect_err("a value that must be refused");
    assert_eq!(error.to_string(), message);
}

#[test]
fn refusals_name_value_limit_and_cure() {
    check_refused::<Prefix>(
        "10.0.0.5/8",
        "prefix \"10.0.0.5/8\": has address bits set beyond its length; \
         write 10.0.0.0/8 for the block, or 10.0.0.5 for the one address",
    );
    check_refused::<Prefix>(
        "10.0.0.0/33",
        "prefix \"10.0.0.0/33\": is longer than its address: 32 bits in IPv4, 128 in IPv6; \
         write a length of 0..=32",
    );
    check_refused::<PortRange>("90-80", "port range \"90-80\": begins above its end; write 80-90");
    check_refused::<Dscp>(
        "184",
        "DSCP \"184\": is above 63, the largest of six bits; \
         if this is a whole TOS byte, write its upper six bits, 46",
    );
    check_refused::<VlanId>(
        "4095",
        "VLAN \"4095\": is not a number in 0..=4094; write the VLAN's number, such as 100",
    );
}

#[test]
fn malformed_values_are_refused() {
    for text in ["", "10.0.0", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "::/129", "a/8", "/8"] {
        assert!(text.parse::<Prefix>().is_err(), "{text:?}");
    }
    for text in ["", "-", "80-", "-80", "65536", "80-65536", "+80", "1-2-3", " 80"] {
        assert!(text.parse::<PortRange>().is_err(), "{text:?}");
    }
    for text in ["", "256", "-1", "tcpp", "0x11"] {
        assert!(text.parse::<Protocol>().is_err(), "{text:?}");
    }
    for text in ["", "64", "256", "65536", "af14", "ef "] {
        assert!(text.parse::<Dscp>().is_err(), "{text:?}");
    }
    for text in ["", "0x", "0x10000", "0800", "0x+800"] {
        assert!(text.parse::<EtherType>().is_err(), "{text:?}");
    }
    assert!("ect2".parse::<Ecn>().is_err());
}

#[test]
fn a_hostile_value_is_cut_in_the_message() {
    let error = "9".repeat(1 << 20).parse::<Protocol>().expect_err("no protocol");
    assert!(error.to_string().len() < 300);
}

/// Conditions as a naive reader of the policy stores them: no parser, no masks, no header record.
#[derive(Clone, Debug, Default)]
struct Naive {
    sources: Vec<(IpAddr, u8)>,
    destinations: Vec<(IpAddr, u8)>,
    protocol: Option<u8>,
    source_ports: Option<(u16, u16)>,
    destination_ports: Option<(u16, u16)>,
    dscp: Option<u8>,
    ecn: Option<u8>,
    vlan: Option<u16>,
    vlan_inner: Option<u16>,
    ipv4: Option<bool>,
    interface: Option<u16>,
}

impl Naive {
    fn accepts(&self, interface: u16, frame: &Frame) -> bool {
        let tag = |depth: usize| frame.tags.get(depth).map(|(_, tci)| tci % 4096);
        let whole = frame.fragment.is_none_or(|piece| piece.offset == 0);
        let has_ports = whole && [6, 17, 33, 132, 136].contains(&frame.protocol);
        let port = |range: Option<(u16, u16)>, port: u16| match range {
            None => true,
            Some((first, last)) => has_ports && first <= port && port <= last,
        };
        within(&self.sources, frame.source)
            && within(&self.destinations, frame.destination)
            && self.protocol.is_none_or(|protocol| protocol == frame.protocol)
            && port(self.source_ports, frame.ports.0)
            && port(self.destination_ports, frame.ports.1)
            && self.dscp.is_none_or(|dscp| dscp == frame.traffic_class / 4)
            && self.ecn.is_none_or(|ecn| ecn == frame.traffic_class % 4)
            && self.vlan.is_none_or(|id| Some(id) == tag(0))
            && self.vlan_inner.is_none_or(|id| Some(id) == tag(1))
            && self.ipv4.is_none_or(|ipv4| ipv4 == frame.source.is_ipv4())
            && self.interface.is_none_or(|id| id == interface)
    }

    /// Returns the same conditions in the library's types.
    fn to_match(&self) -> Match {
        let prefixes = |list: &[(IpAddr, u8)]| {
            list.iter().map(|(address, len)| is(&format!("{address}/{len}"))).collect()
        };
        let range = |(first, last)| PortRange::new(first, last).expect("in order");
        let family = |ipv4| if ipv4 { EtherType::IPV4 } else { EtherType::IPV6 };
        Match {
            sources: prefixes(&self.sources),
            destinations: prefixes(&self.destinations),
            protocol: self.protocol.map(Protocol),
            source_ports: self.source_ports.map(range).into_iter().collect(),
            destination_ports: self.destination_ports.map(range).into_iter().collect(),
            dscps: self.dscp.map(|code| Dscp::new(code).expect("six bits")).into_iter().collect(),
            ecn: self.ecn.map(Ecn::of_traffic_class),
            vlan: self.vlan.map(|id| is(&id.to_string())),
            vlan_inner: self.vlan_inner.map(|id| is(&id.to_string())),
            ethertype: self.ipv4.map(family),
            interface: self.interface.map(InterfaceId),
            ..Match::default()
        }
    }
}

fn within(prefixes: &[(IpAddr, u8)], address: IpAddr) -> bool {
    let shares = |(block, len): &(IpAddr, u8)| {
        let (block, address) = (bits(*block), bits(address));
        block.len() == address.len() && block[..*len as usize] == address[..*len as usize]
    };
    prefixes.is_empty() || prefixes.iter().any(shares)
}

/// Returns an address as text of zeros and ones.
fn bits(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{:032b}", u32::from(address)),
        IpAddr::V6(address) => format!("{:0128b}", u128::from(address)),
    }
}

const V4: [&str; 4] = ["10.0.0.1", "10.0.0.2", "10.128.0.1", "192.0.2.1"];
const V6: [&str; 4] = ["2001:db8::1", "2001:db8::2", "2001:db8:8000::1", "fe80::1"];
const PREFIXES: [(&str, u8); 10] = [
    ("0.0.0.0", 0),
    ("10.0.0.0", 8),
    ("10.0.0.0", 9),
    ("10.0.0.2", 31),
    ("10.0.0.1", 32),
    ("::", 0),
    ("2001:db8::", 32),
    ("2001:db8::", 33),
    ("2001:db8::2", 127),
    ("fe80::1", 128),
];
const PROTOCOLS: [u8; 6] = [1, 6, 17, 17, 132, 47];
const PORTS: [u16; 5] = [0, 80, 81, 5004, 65535];

fn some<T>(random: &mut Draws, percent: usize, make: impl Fn(&mut Draws) -> T) -> Option<T> {
    random.chance(percent).then(|| make(random))
}

fn random_naive(random: &mut Draws) -> Naive {
    let prefixes = |random: &mut Draws| -> Vec<(IpAddr, u8)> {
        let count = if random.chance(30) { 1 + random.below(2) } else { 0 };
        (0..count).map(|_| random.pick(&PREFIXES)).map(|(text, len)| (is(text), len)).collect()
    };
    let range = |random: &mut Draws| {
        let (one, other) = (random.pick(&PORTS), random.pick(&PORTS));
        (one.min(other), one.max(other))
    };
    Naive {
        sources: prefixes(random),
        destinations: prefixes(random),
        protocol: some(random, 30, |random| random.pick(&PROTOCOLS)),
        source_ports: some(random, 15, range),
        destination_ports: some(random, 25, range),
        dscp: some(random, 10, |random| random.pick(&[0, 46, 63])),
        ecn: some(random, 5, |random| random.below(4) as u8),
        vlan: some(random, 10, |random| random.below(3) as u16),
        vlan_inner: some(random, 5, |random| random.below(3) as u16),
        ipv4: some(random, 10, |random| random.chance(50)),
        interface: some(random, 10, |random| random.below(2) as u16),
    }
}

fn random_frame(random: &mut Draws) -> Frame {
    let ipv4 = random.chance(50);
    let pool = if ipv4 { V4 } else { V6 };
    let ports = (random.pick(&PORTS), random.pick(&PORTS));
    let ends = ((random.pick(&pool), ports.0), (random.pick(&pool), ports.1));
    let mut frame = frame(random.pick(&PROTOCOLS), ends.0, ends.1);
    for _ in 0..random.pick(&[0, 0, 1, 2]) {
        let priority = (random.below(8) as u16) << 13;
        frame = frame.tag(random.pick(&[0x8100, 0x88a8]), priority | random.below(3) as u16);
    }
    if !ipv4 && random.chance(20) {
        frame = frame.extension(random.pick(&[0, 43, 60, 51]));
    }
    frame.traffic_class = random.pick(&[0, 1, 46 << 2, 63 << 2 | 3]);
    frame.fragment = some(random, 40, |random| Piece {
        id: random.below(2) as u32,
        offset: random.pick(&[0, 0, 185]),
        more: random.chance(70),
    });
    frame
}

/// Often draws another fragment of a datagram that was sent already.
fn random_piece(random: &mut Draws, sent: &[Frame]) -> Option<Frame> {
    let pieces: Vec<&Frame> = sent.iter().filter(|frame| frame.fragment.is_some()).collect();
    if pieces.is_empty() || random.chance(70) {
        return None;
    }
    let mut frame = random.pick(&pieces).clone();
    frame.ports = (random.pick(&PORTS), random.pick(&PORTS));
    frame.fragment.as_mut()?.offset = random.pick(&[0, 185, 370]);
    Some(frame)
}

/// The first fragments seen, as a list: addresses, protocol (IPv4), identification, leaf, instant.
type Seen = Vec<((IpAddr, IpAddr, u8, u32), LeafId, u64)>;

fn naive_classify(
    list: &[Naive],
    seen: &mut Seen,
    at: u64,
    interface: u16,
    frame: &Frame,
) -> Classified {
    let found = list.iter().position(|naive| naive.accepts(interface, frame));
    let ruled = match found {
        Some(index) => Classified {
            leaf: LeafId(index as u32),
            meter: None,
            flow: FlowKey::Connection,
            reason: Reason::Rule(index),
        },
        None => Classified {
            leaf: DEFAULT,
            meter: None,
            flow: FlowKey::Connection,
            reason: Reason::Default,
        },
    };
    let Some(piece) = frame.fragment else { return ruled };
    let protocol = if frame.source.is_ipv4() { frame.protocol } else { 0 };
    let key = (frame.source, frame.destination, protocol, piece.id);
    if piece.offset == 0 && piece.more {
        seen.push((key, ruled.leaf, at));
    }
    if piece.offset == 0 {
        return ruled;
    }
    match seen.iter().rev().find(|(other, _, _)| *other == key) {
        Some((_, leaf, when)) if at - when < 30_000 => Classified {
            leaf: *leaf,
            meter: None,
            flow: FlowKey::Connection,
            reason: Reason::Fragment,
        },
        _ => ruled,
    }
}

/// Counts how often each reason decided, over one random policy and its packets.
fn check_random(seed: u64) -> [usize; 3] {
    let mut random = Draws::new(seed);
    let list: Vec<Naive> = (0..random.below(9)).map(|_| random_naive(&mut random)).collect();
    let library = rules(list.iter().map(Naive::to_match).collect());
    let mut classifier = Classifier::new(library, DEFAULT, FragmentPolicy::default());
    let (mut seen, mut sent, mut at, mut reasons) = (Seen::new(), Vec::new(), 0, [0; 3]);
    for packet in 0..16 {
        at += random.pick(&[0, 1, 9_999, 20_001]);
        let interface = random.below(2) as u16;
        let frame = random_piece(&mut random, &sent).unwrap_or_else(|| random_frame(&mut random));
        let headers = Headers::parse_ethernet(&frame.bytes());
        let classified = classifier.classify(millis(at), InterfaceId(interface), &headers);
        let expected = naive_classify(&list, &mut seen, at, interface, &frame);
        assert_eq!(classified, expected, "seed {seed:#x} packet {packet}: {frame:?}\n{list:#?}");
        reasons[match classified.reason {
            Reason::Rule(_) => 0,
            Reason::Joined(_) | Reason::Fragment => 1,
            Reason::Default => 2,
        }] += 1;
        sent.push(frame);
    }
    reasons
}

#[test]
fn a_naive_interpreter_agrees_on_random_policies() {
    let mut reasons = [0; 3];
    for case in seeds(CASES) {
        println!("seed {case}");
        let one = check_random(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        reasons = std::array::from_fn(|reason| reasons[reason] + one[reason]);
    }
    // A generator that never reaches a reason would prove nothing about it.
    assert!(reasons.iter().all(|count| *count as u64 > CASES / 10), "{reasons:?}");
}

/// Random policies that are tried on a change.
const CASES: u64 = 2_000;
