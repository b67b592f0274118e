//! Rules as the sorter sees them: conditions on numbers that a program can read from a frame.
//!
//! A frame is plain IPv4, plain IPv6 or of another ethertype, and each rule becomes a [`Case`] for
//! each of these. On plain frames every condition but that on a mark can be tested, so a case is
//! exact or leads to ring 0. The length is the one in the header: a super-packet has its own,
//! although Weir may classify its segments. A field that the frame lacks has a number of its own,
//! beyond those that the field can have.

use weir_core::classify::{Details, InterfaceId, Match, PortRange, Prefix, VlanTest};
use weir_core::ids::LeafId;
use weir_core::packet::{EtherType, MacAddress, TcpFlags};

use super::ranges::Ranges;
use serde::{Deserialize, Serialize};

/// The network protocol behind the Ethernet header and the tags of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// IPv4, with or without options.
    V4,
    /// An IPv6 header without extension headers.
    V6,
    /// Neither, nor an encapsulation that could hold one.
    Other,
}

impl Family {
    pub const ALL: [Family; 3] = [Family::V4, Family::V6, Family::Other];
}

/// A field of a frame that is tested. Cheaper ones come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Field {
    /// The VLAN of the only or outer tag, or [`NO_TAG`].
    Vlan,
    /// The VLAN of the inner tag, or [`NO_TAG`].
    VlanInner,
    /// The priority of the only or outer tag, or [`NO_PCP`].
    Pcp,
    /// The ethertype behind the tags.
    EtherType,
    /// The transport protocol, by its number.
    Protocol,
    /// The DiffServ code point.
    Dscp,
    /// The congestion notification field.
    Ecn,
    /// The length in the IP header: of the packet in IPv4, or 0 if unknown; of the payload in IPv6.
    Length,
    /// The flags of TCP, or [`NO_FLAGS`].
    TcpFlags,
    /// The type of an ICMP message and behind it, in eight bits, the code; or [`NO_ICMP`].
    Icmp,
    /// The source port, or [`NO_PORT`].
    SourcePort,
    /// The destination port, or [`NO_PORT`].
    DestinationPort,
    /// The station that sent the frame: four bytes in one word, two in the next.
    SourceMac,
    /// The station that the frame goes to.
    DestinationMac,
    /// The source address of the IP header.
    Source,
    /// The destination address of the IP header.
    Destination,
}

impl Field {
    /// Returns the number of 32-bit words in which a program reads the field.
    pub fn words(self, family: Family) -> u32 {
        match self {
            Field::Source | Field::Destination if family == Family::V6 => 4,
            Field::SourceMac | Field::DestinationMac => 2,
            _ => 1,
        }
    }
}

/// The number of a tag that a frame lacks.
pub(super) const NO_TAG: u32 = 0x1000;
/// The priority of a tag that a frame lacks.
pub(super) const NO_PCP: u32 = 8;
/// The flags of a packet that lacks them.
pub(super) const NO_FLAGS: u32 = 0x100;
/// The type of a packet that is no message of ICMP.
pub(super) const NO_ICMP: u32 = 0x1_0000;
/// The number of a port that a packet lacks.
pub(super) const NO_PORT: u32 = 0x1_0000;

/// Conditions on frames of one family, each field at most once and in order.
pub(super) type Conditions = Vec<(Field, Ranges)>;

/// Frames that meet all conditions, and those of no earlier case, go to `ring`.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The place of its rule in match order.
    pub rule: usize,
    /// The leaf of its rule.
    pub leaf: LeafId,
    /// All of them must hold.
    pub conditions: Conditions,
    /// The ring for frames that meet the conditions.
    pub ring: u8,
}

impl Case {
    /// Returns whether no frame meets the conditions of both.
    pub fn is_apart(&self, other: &Case) -> bool {
        self.conditions.iter().any(|(field, ranges)| {
            let found = other.ranges(*field);
            found.is_some_and(|other| !ranges.meets(other))
        })
    }

    /// Returns whether this case takes every frame that meets the conditions of `inner`.
    pub fn covers(&self, inner: &Case) -> bool {
        self.conditions.iter().all(|(field, ranges)| {
            let found = inner.ranges(*field);
            found.is_some_and(|inner| ranges.covers(inner))
        })
    }

    fn ranges(&self, field: Field) -> Option<&Ranges> {
        self.conditions.iter().find(|row| row.0 == field).map(|row| &row.1)
    }
}

/// Returns the conditions under which a rule accepts frames of `family` from `interface` (from any,
/// if that is `None`); `None` if it accepts no such frame. A condition on a mark is left out.
pub(super) fn conditions(
    matches: &Match,
    family: Family,
    interface: Option<InterfaceId>,
) -> Option<Conditions> {
    if interface.is_some() && matches.interface.is_some_and(|wanted| Some(wanted) != interface) {
        return None;
    }
    let mut found = link(matches);
    match (matches.ethertype, ethertype(family)) {
        (Some(wanted), Some(kind)) if wanted != kind => return None,
        (Some(wanted), None) => found.push((Field::EtherType, Ranges::one(wanted.0))),
        _ => {}
    }
    match family {
        Family::Other if tests_ip(matches) => return None,
        Family::Other => {}
        Family::V4 | Family::V6 => found.extend(ip(matches, family)),
    }
    found.sort_unstable_by_key(|row| row.0);
    found.iter().all(|(_, ranges)| !ranges.is_empty()).then_some(found)
}

fn ethertype(family: Family) -> Option<EtherType> {
    match family {
        Family::V4 => Some(EtherType::IPV4),
        Family::V6 => Some(EtherType::IPV6),
        Family::Other => None,
    }
}

fn tests_ip(matches: &Match) -> bool {
    !matches.sources.is_empty()
        || !matches.destinations.is_empty()
        || matches.protocol.is_some()
        || matches.needs_transport()
        || !matches.dscps.is_empty()
        || matches.ecn.is_some()
        || matches.details.as_ref().is_some_and(|details| !details.lengths.is_empty())
}

fn link(matches: &Match) -> Conditions {
    let vlan = matches.vlan.map(|test| (Field::Vlan, tag(test)));
    let inner = matches.vlan_inner.map(|test| (Field::VlanInner, tag(test)));
    let lists = [
        (Field::SourceMac, &matches.source_macs),
        (Field::DestinationMac, &matches.destination_macs),
    ];
    let listed = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let macs = listed.map(|(field, list)| (field, Ranges::of(list.iter().map(mac))));
    let pcps = matches.details.as_ref().map_or(&[][..], |details| &details.pcps);
    let pcp = Ranges::of(pcps.iter().map(|pcp| single(pcp.code())));
    let pcp = (!pcps.is_empty()).then_some((Field::Pcp, pcp));
    vlan.into_iter().chain(inner).chain(pcp).chain(macs).collect()
}

fn ip(matches: &Match, family: Family) -> Conditions {
    let mut found = Vec::new();
    if let Some(protocol) = matches.protocol {
        found.push((Field::Protocol, Ranges::one(protocol.0)));
    }
    if !matches.dscps.is_empty() {
        let codes = matches.dscps.iter().map(|dscp| single(dscp.code()));
        found.push((Field::Dscp, Ranges::of(codes)));
    }
    if let Some(ecn) = matches.ecn {
        found.push((Field::Ecn, Ranges::one(ecn as u8)));
    }
    found.extend(matches.details.iter().flat_map(|details| of_details(details, family)));
    let ports = [
        (Field::SourcePort, &matches.source_ports),
        (Field::DestinationPort, &matches.destination_ports),
    ];
    for (field, list) in ports.into_iter().filter(|(_, list)| !list.is_empty()) {
        found.push((field, Ranges::of(list.iter().map(port_range))));
    }
    let addresses =
        [(Field::Source, &matches.sources), (Field::Destination, &matches.destinations)];
    for (field, list) in addresses.into_iter().filter(|(_, list)| !list.is_empty()) {
        let of_family = |prefix: &&Prefix| prefix.network().is_ipv4() == (family == Family::V4);
        found.push((field, Ranges::of(list.iter().filter(of_family).map(block))));
    }
    found
}

fn of_details(details: &Details, family: Family) -> Conditions {
    let mut found = Vec::new();
    if !details.lengths.is_empty() {
        // A length of 0 in IPv4 is unknown.
        let (least, before) = if family == Family::V6 { (40, 40) } else { (1, 0) };
        let most = u32::from(u16::MAX) + before;
        let seen = details.lengths.iter().filter_map(|range| {
            let (first, last) = (range.first().max(least), range.last().min(most));
            (first <= last).then(|| ((first - before).into(), (last - before).into()))
        });
        found.push((Field::Length, Ranges::of(seen)));
    }
    if !details.tcp_flags.is_empty() {
        let accepts = |flags: &u8| details.tcp_flags.iter().any(|it| it.accepts(TcpFlags(*flags)));
        let flags = (0..=u8::MAX).filter(accepts).map(single);
        found.push((Field::TcpFlags, Ranges::of(flags)));
    }
    if !details.icmp.is_empty() {
        let messages = details.icmp.iter().map(|test| {
            let first = u128::from(test.number) << 8;
            let codes = test.code.map_or((0, u8::MAX), |code| (code, code));
            (first | u128::from(codes.0), first | u128::from(codes.1))
        });
        found.push((Field::Icmp, Ranges::of(messages)));
    }
    found
}

fn single(number: impl Into<u128>) -> (u128, u128) {
    let number = number.into();
    (number, number)
}

fn tag(test: VlanTest) -> Ranges {
    match test {
        VlanTest::Untagged => Ranges::one(NO_TAG),
        VlanTest::Tagged => Ranges::of([(0, u128::from(NO_TAG) - 1)]),
        VlanTest::Id(vlan) => Ranges::one(vlan.id()),
    }
}

/// Returns the number of an address whose last two bytes are alone in the second word.
fn mac(address: &MacAddress) -> (u128, u128) {
    let bits = address.bits();
    single(bits >> 16 << 32 | bits & 0xffff)
}

fn port_range(range: &PortRange) -> (u128, u128) {
    (range.first().into(), range.last().into())
}

fn block(prefix: &Prefix) -> (u128, u128) {
    let host = |width: u32| u128::MAX.checked_shr(128 - width).unwrap_or(0);
    let len = u32::from(prefix.prefix_len());
    match prefix.network() {
        std::net::IpAddr::V4(network) => {
            let low = u128::from(u32::from(network));
            (low, low | host(32 - len))
        }
        std::net::IpAddr::V6(network) => {
            let low = u128::from(network);
            (low, low | host(128 - len))
        }
    }
}

/// Removes cases that make no difference: those that an earlier one covers, and cases of ring 0
/// that share no frame with a later case of another ring.
pub(super) fn prune(cases: Vec<Case>) -> Vec<Case> {
    let mut kept: Vec<Case> = Vec::new();
    let mut sorted: Vec<Case> = Vec::new();
    for case in cases.into_iter().rev() {
        if case.ring == 0 {
            if sorted.len() > COMPARED_MAX || sorted.iter().any(|later| !case.is_apart(later)) {
                kept.push(case);
            }
            continue;
        }
        sorted.push(case.clone());
        kept.push(case);
    }
    kept.reverse();
    let mut exact: Vec<Case> = Vec::with_capacity(kept.len());
    for case in kept {
        let near = exact.iter().rev().take(COMPARED_MAX);
        if !near.into_iter().any(|earlier| earlier.covers(&case)) {
            exact.push(case);
        }
    }
    exact
}

/// Bound: cases that one case is compared with; beyond, it is kept although it may be covered. So
/// that long lists take linear time.
const COMPARED_MAX: usize = 512;
