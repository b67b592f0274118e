//! Sets of packets as boxes: for each field that rules test, a range of its values.
//!
//! A field that a packet lacks has the value below all others, so that "any" includes it. Both
//! addresses of a packet are of one IP version, which is a field of its own. Invariant: no range of
//! a box is empty.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_core::classify::details::{LENGTH_MAX, TCP_FLAGS};
use weir_core::classify::marks::MARK_DIGITS;
use weir_core::classify::{
    FlagTest, IcmpTest, InterfaceId, LengthRange, MarkTest, Match, PortRange, Prefix, VlanTest,
};
use weir_core::packet::{Addresses, Dscp, EtherType, Headers, MacAddress, Pcp, Protocol};

/// A set of packets: those with every field in its range, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region([(u128, u128); FIELDS.len()]);

struct Field {
    name: &'static str,
    most: u128,
    /// Whether a packet may lack it; then 0 means absent, and a value v is stored as v + 1.
    optional: bool,
}

impl Region {
    /// The region of all packets.
    pub const ALL: Region = {
        let mut ranges = [(0, 0); FIELDS.len()];
        let mut field = 0;
        while field < FIELDS.len() {
            ranges[field].1 = FIELDS[field].most;
            field += 1;
        }
        Region(ranges)
    };

    /// Returns what `matches` accepts, in boxes that may overlap; `interface` numbers its
    /// interface.
    pub fn of(matches: &Match, interface: Option<u16>) -> Vec<Region> {
        let mut base = Region::ALL;
        let mut fix = |field: usize, value: Option<u128>| {
            if let Some(value) = value {
                base.0[field] = (value + 1, value + 1);
            }
        };
        fix(ETHERTYPE, matches.ethertype.map(|ethertype| ethertype.0.into()));
        fix(PROTOCOL, matches.protocol.map(|protocol| protocol.0.into()));
        fix(ECN, matches.ecn.map(|ecn| ecn as u128));
        for (field, vlan) in [(VLAN, matches.vlan), (VLAN_INNER, matches.vlan_inner)] {
            base.0[field] = match vlan {
                None => continue,
                Some(VlanTest::Untagged) => (0, 0),
                Some(VlanTest::Tagged) => (1, FIELDS[field].most),
                Some(VlanTest::Id(vlan)) => present(vlan.id().into(), vlan.id().into()),
            };
        }
        if let Some(interface) = interface {
            base.0[INTERFACE] = (interface.into(), interface.into());
        }
        let any = [None];
        let wanted = |prefixes: &[Prefix]| match prefixes.is_empty() {
            true => any.to_vec(),
            false => prefixes.iter().copied().map(Some).collect(),
        };
        let (sources, destinations) = (wanted(&matches.sources), wanted(&matches.destinations));
        let pairs = sources.iter().flat_map(|&source| {
            destinations.iter().filter_map(move |&destination| base.with(source, destination))
        });
        let ports = |ranges: &[PortRange]| -> Vec<(u128, u128)> {
            ranges.iter().map(|range| present(range.first().into(), range.last().into())).collect()
        };
        let macs = |macs: &[MacAddress]| -> Vec<(u128, u128)> {
            macs.iter().map(|mac| present(mac.bits().into(), mac.bits().into())).collect()
        };
        let code = |dscp: &Dscp| present(dscp.code().into(), dscp.code().into());
        let lists = [
            (DSCP, matches.dscps.iter().map(code).collect()),
            (SPORT, ports(&matches.source_ports)),
            (DPORT, ports(&matches.destination_ports)),
            (SRC_MAC, macs(&matches.source_macs)),
            (DST_MAC, macs(&matches.destination_macs)),
        ];
        let marks = matches.mark.into_iter().flat_map(digits);
        let details = matches.details.as_deref().into_iter().flat_map(|details| {
            let code = |pcp: &Pcp| present(pcp.code().into(), pcp.code().into());
            let length = |range: &LengthRange| present(range.first().into(), range.last().into());
            [
                (PCP, details.pcps.iter().map(code).collect()),
                (ICMP, details.icmp.iter().map(messages).collect()),
                (LENGTH, details.lengths.iter().map(length).collect()),
            ]
        });
        let boxes = lists
            .into_iter()
            .chain(marks)
            .chain(details)
            .fold(pairs.collect(), |boxes, (field, ranges)| with_each(boxes, field, &ranges));
        match matches.details.as_deref().map(|details| details.tcp_flags.as_slice()) {
            None | Some([]) => boxes,
            Some(tests) => {
                let each =
                    |part: &Region| tests.iter().map(|test| part.with_flags(*test)).collect();
                boxes.iter().flat_map(|part| -> Vec<Region> { each(part) }).collect()
            }
        }
    }

    /// Restricts the box to segments with these flags.
    fn with_flags(mut self, test: FlagTest) -> Region {
        for (place, (_, flag)) in TCP_FLAGS.iter().enumerate() {
            self.0[FLAGS + place] = match (test.mask() & flag != 0, test.value() & flag != 0) {
                (false, _) => (UNSET, SET),
                (true, false) => (UNSET, UNSET),
                (true, true) => (SET, SET),
            };
        }
        self
    }

    /// Restricts the box to addresses in these blocks; `None` if they are of different versions.
    fn with(mut self, source: Option<Prefix>, destination: Option<Prefix>) -> Option<Region> {
        for (field, prefix) in [(SRC, source), (DST, destination)] {
            let Some(prefix) = prefix else { continue };
            let (version, range) = block(prefix);
            if self.0[VERSION] != Region::ALL.0[VERSION] && self.0[VERSION].0 != version {
                return None;
            }
            self.0[VERSION] = (version, version);
            self.0[field] = range;
        }
        Some(self)
    }

    /// Returns whether the set contains the packet that came in by this interface.
    pub fn contains(&self, interface: InterfaceId, headers: &Headers) -> bool {
        let point = point(interface, headers);
        self.0.iter().zip(point).all(|(range, value)| (range.0..=range.1).contains(&value))
    }

    /// Returns the packets that are in both; `None` if there are none.
    pub(super) fn meet(&self, other: &Region) -> Option<Region> {
        let mut both = *self;
        for (range, other) in both.0.iter_mut().zip(other.0) {
            *range = (range.0.max(other.0), range.1.min(other.1));
            if range.0 > range.1 {
                return None;
            }
        }
        Some(both)
    }

    /// Returns whether it holds all of `other`.
    pub(super) fn covers(&self, other: &Region) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| own.0 <= other.0 && own.1 >= other.1)
    }

    /// Returns the difference with `other`, in disjoint boxes.
    pub(super) fn without(&self, other: &Region) -> Vec<Region> {
        let mut parts = Vec::new();
        if self.meet(other).is_none() {
            return vec![*self];
        }
        let mut rest = *self;
        for field in 0..FIELDS.len() {
            let ((low, high), (first, last)) = (rest.0[field], other.0[field]);
            if low < first {
                parts.push(rest.with_range(field, (low, first - 1)));
            }
            if high > last {
                parts.push(rest.with_range(field, (last + 1, high)));
            }
            rest.0[field] = (low.max(first), high.min(last));
        }
        parts
    }

    fn with_range(mut self, field: usize, range: (u128, u128)) -> Region {
        self.0[field] = range;
        self
    }

    /// Returns one box for both, if they differ in one field and are adjacent there.
    pub(super) fn joined(&self, other: &Region) -> Option<Region> {
        let mut differing = (0..FIELDS.len()).filter(|&field| self.0[field] != other.0[field]);
        let (field, None) = (differing.next()?, differing.next()) else { return None };
        let ((low, high), (first, last)) = (self.0[field], other.0[field]);
        let meet = high.checked_add(1) == Some(first) || last.checked_add(1) == Some(low);
        meet.then(|| self.with_range(field, (low.min(first), high.max(last))))
    }

    /// Returns the set restricted to one IP version, if all its packets that the parser can return
    /// are of that version; `None` if it contains no such packet.
    pub(super) fn possible(self) -> Option<Region> {
        // A frame has both stations or none; a tag has a VLAN and a priority; all flags are known
        // or none is.
        let together = |fields: &[(u128, u128)]| {
            fields.iter().all(|range| range.1 > 0) || fields.iter().all(|range| range.0 == 0)
        };
        let pairs = [[SRC_MAC, DST_MAC], [VLAN, PCP]];
        if !pairs.iter().all(|fields| together(&fields.map(|field| self.0[field])))
            || !together(&self.0[FLAGS..MARK])
        {
            return None;
        }
        let v4 = self.can_be_ip((V4, IPV4), u32::MAX.into());
        let v6 = self.can_be_ip((V6, IPV6), u128::MAX);
        match (v4, v6, self.can_be_other()) {
            (false, false, false) => None,
            (true, false, false) => Some(self.with_range(VERSION, (V4, V4))),
            (false, true, false) => Some(self.with_range(VERSION, (V6, V6))),
            _ => Some(self),
        }
    }

    /// Returns whether the set can contain an IP packet of this version, whose ethertype says it,
    /// with addresses up to `most`. Ports need a protocol that has them, and come in pairs.
    fn can_be_ip(&self, (version, ethertype): (u128, u128), most: u128) -> bool {
        let addressed = [SRC, DST].iter().all(|&field| self.0[field].0 <= most);
        let with_ports = |value: u128| value > 0 && Protocol((value - 1) as u8).has_ports();
        let (low, high) = self.0[PROTOCOL];
        let [source, destination] = [SPORT, DPORT].map(|field| self.0[field]);
        let paired = source.1 > 0 && destination.1 > 0 && (low..=high).any(with_ports);
        let portless = source.0 == 0 && destination.0 == 0;
        let is = |protocol: Protocol| self.allows(PROTOCOL, u128::from(protocol.0) + 1);
        let without_flags = self.0[FLAGS..MARK].iter().all(|range| range.0 == 0);
        let without_type = self.allows(ICMP, 0);
        let transport = (paired || portless) && without_flags && without_type
            || paired && without_type && is(Protocol::TCP)
            || portless && without_flags && (is(Protocol::ICMP) || is(Protocol::ICMPV6));
        self.allows(VERSION, version) && self.allows(ETHERTYPE, ethertype) && addressed && transport
    }

    /// Returns whether the set can contain a packet of which no IP header is known. What stands in
    /// an ethertype's place below [`ETHERTYPE_MIN`] is a length.
    fn can_be_other(&self) -> bool {
        let of_ip = [PROTOCOL, DSCP, ECN, VERSION, SRC, SPORT, DST, DPORT, ICMP, LENGTH];
        let (low, high) = self.0[ETHERTYPE];
        of_ip.into_iter().chain(FLAGS..MARK).all(|field| self.allows(field, 0))
            && (low == 0 || high > ETHERTYPE_MIN)
    }

    fn allows(&self, field: usize, value: u128) -> bool {
        (self.0[field].0..=self.0[field].1).contains(&value)
    }

    /// Describes its conditions, such as `proto 17, dport 5004-5010`; interfaces by their names.
    pub fn describe(&self, interfaces: &[String]) -> String {
        let words: Vec<_> =
            (0..FLAGS).filter_map(|field| self.condition(field, interfaces)).collect();
        let words: Vec<_> = words.into_iter().chain(self.flags()).chain(self.mark()).collect();
        if words.is_empty() { "any packet".to_owned() } else { words.join(", ") }
    }

    /// Describes the condition on TCP's flags, as a rule has it.
    fn flags(&self) -> Option<String> {
        let rows = || TCP_FLAGS.iter().zip(&self.0[FLAGS..MARK]);
        if rows().any(|(_, range)| range.1 == 0) {
            return Some("without tcp_flags".to_owned());
        }
        let word = |((name, _), range): (&(&str, u8), &(u128, u128))| match *range {
            (0, UNSET) => Some(format!("!{name} or none")),
            (UNSET, UNSET) => Some(format!("!{name}")),
            (SET, SET) => Some((*name).to_owned()),
            _ => None,
        };
        let words: Vec<String> = rows().filter_map(word).collect();
        let is_known = rows().any(|(_, range)| range.0 > 0);
        match words.is_empty() {
            true => is_known.then(|| "any tcp_flags".to_owned()),
            false => Some(format!("tcp_flags {}", words.join(","))),
        }
    }

    /// Describes the condition on the mark: its hexadecimal digits from the highest, `?` for any.
    fn mark(&self) -> Option<String> {
        let digits = &self.0[MARK..];
        let digit = |range: &(u128, u128)| match *range {
            (0, 15) => "?".to_owned(),
            (low, high) if low == high => format!("{low:x}"),
            (low, high) => format!("[{low:x}-{high:x}]"),
        };
        let text: String = digits.iter().rev().map(digit).collect();
        if text.chars().all(|char| char == '?') {
            return None;
        }
        let zeros = text.chars().take_while(|char| *char == '0').count();
        let zeros = zeros.min(text.len() - 1);
        Some(format!("mark 0x{}", &text[zeros..]))
    }

    fn condition(&self, field: usize, interfaces: &[String]) -> Option<String> {
        let (low, high) = self.0[field];
        let Field { name, most, optional } = FIELDS[field];
        let whole = match (field, self.0[VERSION]) {
            // For one version, its whole range of addresses means any, and its ethertype is known.
            (SRC | DST, (V4, V4)) => (0, u32::MAX.into()),
            (ETHERTYPE, (V4, V4)) => (IPV4, IPV4),
            (ETHERTYPE, (V6, V6)) => (IPV6, IPV6),
            _ => (0, most),
        };
        if low <= whole.0 && high >= whole.1 {
            return None;
        }
        if optional && high == 0 {
            return Some(format!("without {name}"));
        }
        let value = |value: u128| self.value(field, value, interfaces);
        let first = if optional { low.max(1) } else { low };
        let range = match (field, first == high) {
            (SRC | DST, _) => addresses(self.0[VERSION].0 == V6, first, high.min(whole.1)),
            (ICMP, _) => types(first - 1, high - 1),
            (_, true) => value(high),
            _ => format!("{}-{}", value(first), value(high)),
        };
        let none = if optional && low == 0 { " or none" } else { "" };
        Some(format!("{name} {range}{none}"))
    }

    fn value(&self, field: usize, value: u128, interfaces: &[String]) -> String {
        match field {
            INTERFACE => match interfaces.get(value as usize) {
                Some(name) => name.clone(),
                None => "unnamed".to_owned(),
            },
            VERSION if value == V4 => "4".to_owned(),
            VERSION => "6".to_owned(),
            ETHERTYPE => format!("{:#06x}", value - 1),
            SRC_MAC | DST_MAC => MacAddress::of_bits((value - 1) as u64).to_string(),
            _ => (value - 1).to_string(),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(&[]))
    }
}

/// Returns the stored range of the messages of a type, and of a code if the test has one.
fn messages(test: &IcmpTest) -> (u128, u128) {
    let first = u128::from(test.number) << 8;
    match test.code {
        Some(code) => present(first | u128::from(code), first | u128::from(code)),
        None => present(first, first | 0xff),
    }
}

/// Describes a range of types with their codes.
fn types(first: u128, last: u128) -> String {
    let one = |value: u128| format!("{}/{}", value >> 8, value & 0xff);
    match (first & 0xff, last & 0xff) {
        (0, 0xff) if first >> 8 == last >> 8 => (first >> 8).to_string(),
        (0, 0xff) => format!("{}-{}", first >> 8, last >> 8),
        _ if first == last => one(first),
        _ => format!("{}-{}", one(first), one(last)),
    }
}

/// Returns the stored range of an optional field's values.
fn present(first: u128, last: u128) -> (u128, u128) {
    (first + 1, last + 1)
}

/// Returns for each digit of the mark that is not free its field and its ranges.
fn digits(mark: MarkTest) -> impl Iterator<Item = (usize, Vec<(u128, u128)>)> {
    let field = move |place: u32| {
        let ranges = mark.digits(place).into_iter();
        (MARK + place as usize, ranges.map(|(low, high)| (low.into(), high.into())).collect())
    };
    (0..MARK_DIGITS).filter(move |place| mark.digits(*place) != [(0, 15)]).map(field)
}

/// Returns each box with each of these ranges of a field; the boxes themselves if there is none.
fn with_each(boxes: Vec<Region>, field: usize, ranges: &[(u128, u128)]) -> Vec<Region> {
    if ranges.is_empty() {
        return boxes;
    }
    let each = |range: &(u128, u128)| {
        let range = *range;
        boxes.iter().map(move |part| part.with_range(field, range)).collect::<Vec<_>>()
    };
    ranges.iter().flat_map(each).collect()
}

/// Describes a range of addresses: a block if it is one, else its first and last address.
fn addresses(v6: bool, first: u128, last: u128) -> String {
    let address = |value: u128| match v6 {
        true => IpAddr::V6(Ipv6Addr::from(value)),
        false => IpAddr::V4(Ipv4Addr::from(value as u32)),
    };
    let width = if v6 { 128 } else { 32 };
    let bits = (first ^ last).checked_ilog2().map_or(0, |bit| bit + 1);
    let low = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let is_block = first & low == 0 && last & low == low;
    match is_block {
        true if bits == 0 => address(first).to_string(),
        true => format!("{}/{}", address(first), width - bits.min(width)),
        false => format!("{}-{}", address(first), address(last)),
    }
}

/// Returns the version of a block, and its first and last address.
fn block(prefix: Prefix) -> (u128, (u128, u128)) {
    let size = |width: u8| match width - prefix.prefix_len() {
        128 => u128::MAX,
        bits => (1 << bits) - 1,
    };
    match prefix.network() {
        IpAddr::V4(first) => {
            let first = u128::from(u32::from(first));
            (V4, (first, first | size(32)))
        }
        IpAddr::V6(first) => {
            let first = u128::from(first);
            (V6, (first, first | size(128)))
        }
    }
}

/// Returns the values of a packet's fields.
fn point(interface: InterfaceId, headers: &Headers) -> [u128; FIELDS.len()] {
    let some = |value: Option<u128>| value.map_or(0, |value| value + 1);
    let ports = |port: fn(&weir_core::packet::Ports) -> u16| {
        some(headers.ports.as_ref().map(|ports| port(ports).into()))
    };
    let (version, source, destination) = match headers.addresses {
        Addresses::Unknown => (0, 0, 0),
        Addresses::V4 { source, destination } => {
            (V4, u32::from(source).into(), u32::from(destination).into())
        }
        Addresses::V6 { source, destination } => (V6, source.into(), destination.into()),
    };
    let mut point = [0; FIELDS.len()];
    point[INTERFACE] = interface.0.into();
    point[VLAN] = some(headers.vlan.map(|tag| tag.id().into()));
    point[VLAN_INNER] = some(headers.vlan_inner.map(|tag| tag.id().into()));
    point[ETHERTYPE] = some(headers.ethertype.map(|ethertype| ethertype.0.into()));
    point[PROTOCOL] = some(headers.protocol.map(|protocol| protocol.0.into()));
    point[DSCP] = some(headers.dscp().map(|dscp| dscp.code().into()));
    point[ECN] = some(headers.ecn().map(|ecn| ecn as u128));
    (point[VERSION], point[SRC], point[DST]) = (version, source, destination);
    point[SPORT] = ports(|ports| ports.source);
    point[DPORT] = ports(|ports| ports.destination);
    point[SRC_MAC] = some(headers.macs.map(|macs| macs.source.bits().into()));
    point[DST_MAC] = some(headers.macs.map(|macs| macs.destination.bits().into()));
    point[PCP] = some(headers.vlan.map(|tag| tag.priority().into()));
    point[LENGTH] = some(headers.network_len.map(|length| length.min(LENGTH_MAX).into()));
    point[ICMP] =
        some(headers.icmp().map(|found| u128::from(found.number) << 8 | u128::from(found.code)));
    for (place, (_, flag)) in TCP_FLAGS.iter().enumerate() {
        let value = |flags: weir_core::packet::TcpFlags| u128::from(flags.0 & flag != 0);
        point[FLAGS + place] = some(headers.tcp_flags().map(value));
    }
    for place in 0..MARK_DIGITS {
        point[MARK + place as usize] = (headers.mark >> (4 * place) & 0xf).into();
    }
    point
}

const INTERFACE: usize = 0;
const VLAN: usize = 1;
const VLAN_INNER: usize = 2;
const ETHERTYPE: usize = 3;
const PROTOCOL: usize = 4;
const DSCP: usize = 5;
const ECN: usize = 6;
const VERSION: usize = 7;
const SRC: usize = 8;
const SPORT: usize = 9;
const DST: usize = 10;
const DPORT: usize = 11;
const SRC_MAC: usize = 12;
const DST_MAC: usize = 13;
const PCP: usize = 14;
const LENGTH: usize = 15;
/// The type and behind it, in eight bits, the code.
const ICMP: usize = 16;
/// The lowest of TCP's flags; the others follow. A rule may test some only.
const FLAGS: usize = 17;
/// The lowest hexadecimal digit of the mark; the others follow. A rule may test some digits only.
const MARK: usize = FLAGS + TCP_FLAGS.len();
/// A flag that is not set, and one that is, as a field holds them.
const UNSET: u128 = 1;
const SET: u128 = 2;

/// The fields in the order of the numbers above, which is also that of descriptions.
const FIELDS: [Field; MARK + MARK_DIGITS as usize] = [
    Field { name: "interface", most: u16::MAX as u128, optional: false },
    Field { name: "vlan", most: 1 << 12, optional: true },
    Field { name: "vlan_inner", most: 1 << 12, optional: true },
    Field { name: "ethertype", most: 1 << 16, optional: true },
    Field { name: "proto", most: 1 << 8, optional: true },
    Field { name: "dscp", most: 1 << 6, optional: true },
    Field { name: "ecn", most: 1 << 2, optional: true },
    Field { name: "IP version", most: V6, optional: true },
    Field { name: "src", most: u128::MAX, optional: false },
    Field { name: "sport", most: 1 << 16, optional: true },
    Field { name: "dst", most: u128::MAX, optional: false },
    Field { name: "dport", most: 1 << 16, optional: true },
    Field { name: "src_mac", most: 1 << 48, optional: true },
    Field { name: "dst_mac", most: 1 << 48, optional: true },
    Field { name: "pcp", most: 1 << 3, optional: true },
    Field { name: "length", most: LENGTH_MAX as u128 + 1, optional: true },
    Field { name: "icmp_type", most: 1 << 16, optional: true },
    FLAG,
    FLAG,
    FLAG,
    FLAG,
    FLAG,
    FLAG,
    FLAG,
    FLAG,
    DIGIT,
    DIGIT,
    DIGIT,
    DIGIT,
    DIGIT,
    DIGIT,
    DIGIT,
    DIGIT,
];
const FLAG: Field = Field { name: "tcp_flags", most: SET, optional: true };
const DIGIT: Field = Field { name: "mark", most: 0xf, optional: false };
/// The least ethertype [ieee802.3 §3.2.6].
const ETHERTYPE_MIN: u128 = 0x600;
/// The ethertypes of the versions, as a field holds them.
const IPV4: u128 = EtherType::IPV4.0 as u128 + 1;
const IPV6: u128 = EtherType::IPV6.0 as u128 + 1;
/// The versions; 0 means none.
const V4: u128 = 1;
const V6: u128 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::classify::Details;

    fn region(matches: Match) -> Region {
        Region::of(&matches, None)[0]
    }

    fn check(matches: Match, wanted: &str) {
        assert_eq!(region(matches).to_string(), wanted);
    }

    #[test]
    fn regions_are_described_by_their_conditions() {
        let prefix = |text: &str| vec![text.parse().expect("a prefix")];
        let ports: Vec<PortRange> = vec!["5004-5010".parse().expect("a range")];
        check(Match::default(), "any packet");
        let udp = Match {
            protocol: Some(Protocol::UDP),
            destination_ports: ports.clone(),
            ..Match::default()
        };
        check(udp.clone(), "proto 17, dport 5004-5010");
        check(
            Match { sources: prefix("10.0.0.0/8"), ..udp },
            "proto 17, IP version 4, src 10.0.0.0/8, dport 5004-5010",
        );
        check(
            Match { destinations: prefix("2001:db8::1"), ..Match::default() },
            "IP version 6, dst 2001:db8::1",
        );
        let mac = |text: &str| vec![text.parse().expect("an address")];
        check(Match { vlan: Some(VlanTest::Untagged), ..Match::default() }, "without vlan");
        let mark = |text: &str| Some(text.parse().expect("a mark"));
        check(Match { mark: mark("0x1f"), ..Match::default() }, "mark 0x1f");
        check(Match { mark: mark("0"), ..Match::default() }, "mark 0x0");
        check(Match { mark: mark("0x18/0xf8"), ..Match::default() }, "mark 0x??????1[8-f]");
        check(
            Match { source_macs: mac("02:00:5e:00:00:01"), ..Match::default() },
            "src_mac 02:00:5e:00:00:01",
        );
        let details = |details: Details| Match { details: details.boxed(), ..Match::default() };
        let flags = ["syn,!ack"].map(|text| text.parse().expect("flags")).to_vec();
        check(details(Details { tcp_flags: flags, ..Details::default() }), "tcp_flags syn,!ack");
        let lengths = ["0-100 B"].map(|text| text.parse().expect("lengths")).to_vec();
        check(details(Details { lengths, ..Details::default() }), "length 0-100");
        for (number, code, wanted) in
            [(3, Some(4), "icmp_type 3/4"), (8, None, "icmp_type 8"), (0, None, "icmp_type 0")]
        {
            let icmp = vec![IcmpTest { number, code }];
            check(details(Details { icmp, ..Details::default() }), wanted);
        }
        let rest =
            Region::ALL.without(&region(Match { destination_ports: ports, ..Match::default() }));
        let words: Vec<_> = rest.iter().map(Region::to_string).collect();
        assert_eq!(words, ["dport 0-5003 or none", "dport 5011-65535"]);
    }

    #[test]
    fn each_combination_of_listed_values_is_a_region() {
        let ports = |texts: [&str; 2]| texts.map(|text| text.parse().expect("a range")).to_vec();
        let matches = Match {
            source_ports: ports(["1", "3"]),
            destination_ports: ports(["80", "8000-8080"]),
            dscps: ["ef", "af41"].map(|text| text.parse().expect("a code point")).to_vec(),
            ..Match::default()
        };
        let regions = Region::of(&matches, None);
        assert_eq!(regions.len(), 8);
        let words: Vec<_> = regions.iter().map(Region::to_string).collect();
        assert!(words.contains(&"dscp 46, sport 3, dport 8000-8080".to_owned()), "{words:?}");
    }

    #[test]
    fn a_frame_has_both_stations_or_none() {
        let without = |field: usize| Region::ALL.with_range(field, (0, 0));
        let region = without(DST_MAC).with_range(SRC_MAC, (5, 5));
        assert_eq!(region.possible(), None);
        assert!(without(DST_MAC).possible().is_some());
    }

    #[test]
    fn the_parts_of_a_cut_region_join_again() {
        let rest = Region::ALL.with_range(DPORT, (0, 80));
        let other = Region::ALL.with_range(DPORT, (81, 1 << 16));
        assert_eq!(rest.joined(&other), Some(Region::ALL));
        assert_eq!(rest.joined(&Region::ALL.with_range(DPORT, (82, 90))), None);
        assert_eq!(Region::ALL.without(&rest), [other]);
        assert!(Region::ALL.without(&Region::ALL).is_empty());
    }
}
